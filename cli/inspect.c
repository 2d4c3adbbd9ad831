/* inspect.c: "qkv inspect" prints statistics of the numbers inside a model on a text, block by block, and of its
 * gradients; several models side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_lab.h"
#include "cli_text.h"

struct arguments {
    const char *prompt, *file, *examples, *target, *output, *json;
    bool force, ids;
    int64_t prefix, example;
    struct cli_fresh fresh;
    struct cli_common common;
};

static const struct arguments defaults = {.prefix = -1, .fresh = CLI_FRESH_DEFAULTS};

static const struct cli_option options[] = {
    {CLI_TEXT, 'p', "prompt", "TEXT", offsetof(struct arguments, prompt), .help = "text that the model reads",
     .subject = "input"},
    {CLI_READ, 0, "file", "FILE", offsetof(struct arguments, file),
     .help = "file with the prompt, at most 64 MiB; - is standard input", .subject = "input"},
    CLI_EXAMPLE(struct arguments),
    {CLI_TEXT, 0, "target", "TEXT", offsetof(struct arguments, target),
     .help = "target of the loss: the target of an encoder-decoder, the class of a classifier, or the prompt with its "
             "masks filled",
     .before = "the result of greedy search; the likeliest class; each token itself", .subject = "input"},
    {CLI_FLAG, 0, "ids", NULL, offsetof(struct arguments, ids),
     .help = "read the prompt, and a target that is not a class, as token ids: 1 3 4 5 2", .subject = "input"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output), .help = "write a page (HTML, one file)",
     .subject = "output"},
    CLI_JSON_FILE(struct arguments, "the numbers"),
    CLI_FORCE(struct arguments),
    CLI_PREFIX(struct arguments, "none"),
    CLI_FRESH(struct arguments),
    CLI_MODEL(struct arguments),
};

CLI_CONDITION(writes_no_file, struct arguments, !a->output && !cli_json_file(a->json))

CLI_CONDITION(has_folder, struct arguments, arguments > 0)
CLI_CONDITION(is_fresh, struct arguments, cli_fresh_given(&a->fresh))
CLI_CONDITION(has_no_examples, struct arguments, !a->examples)
CLI_CONDITION(has_examples, struct arguments, a->examples != NULL)

static const struct cli_rule rules[] = {
    {"set seed tokenizer", has_folder, CLI_WHY_FOLDER},
    {"ignore-digest", is_fresh, CLI_WHY_FRESH},
    {"example", has_no_examples, "it numbers an example of a file; name one with --examples FILE"},
    {"ids prefix", has_examples, "an example holds all that the model reads; leave it out"},
    {"force", writes_no_file, "no file is written; name one with -o FILE or --json FILE"},
};

enum { MODELS = 8 };

/* ---- in the terminal --------------------------------------------------------------------------------------------- */

static const char *place_of(const struct qkv_inspect_row *row, bool pair, char *text, size_t size) {
    const char *stack = !pair ? "" : row->encoder ? "encoder " : "decoder ";
    if (row->kind == QKV_HOOK_EMBEDDING || row->kind == QKV_HOOK_FINAL)
        snprintf(text, size, "%s%s", stack, row->kind == QKV_HOOK_FINAL ? "final norm" : "embedding");
    else
        snprintf(text, size, "%sblock %zu %s", stack, row->layer, qkv_hook_name(row->kind));
    return text;
}

static const char *inspect_number(double x, char text[CLI_NUMBER]) {
    snprintf(text, CLI_NUMBER, isnan(x) ? "-" : "%.4g", x);
    return text;
}

static bool is_pair(const struct qkv_inspection *in) {
    bool encoder = false, decoder = false;
    const struct qkv_inspect_row *row;
    for (size_t i = 0; (row = qkv_inspection_row(in, i)); i++) *(row->encoder ? &encoder : &decoder) = true;
    return encoder && decoder;
}

/* Prints how many rows each expert of a layer got, for the first SHOWN experts. */
static void print_experts(const struct qkv_inspection *in) {
    enum { SHOWN = 16 };
    const struct qkv_inspect_experts *of;
    for (size_t i = 0; (of = qkv_inspection_experts(in, i)); i++) {
        char place[64];
        if (!i) printf("\n  %-22s %8s %8s  %s\n", "rows of experts", "load", "unused", "rows of each");
        snprintf(place, sizeof place, "%sblock %zu",
                 !is_pair(in)  ? ""
                 : of->encoder ? "encoder "
                               : "decoder ",
                 of->layer);
        printf("  %-22s %8.4g %8zu ", place, of->load, of->unused);
        for (size_t e = 0; e < of->count && e < SHOWN; e++) printf(" %g", (double)of->rows[e]);
        if (of->count > SHOWN) printf(" and of %zu more", of->count - SHOWN);
        putchar('\n');
    }
}

static void print_model(const struct qkv_inspection *in, const char *name) {
    size_t counted;
    double norm, loss = qkv_inspection_loss(in, &counted, &norm);
    const struct qkv_inspect_row *row;
    cli_print_name(name, SIZE_MAX);
    if (counted)
        printf(": loss %.4f nats, of %s; norm of all gradients %.4g\n", loss, qkv_inspection_about(in), norm);
    else
        printf(": there is nothing to predict, so no loss and no gradients\n");
    printf("  %-28s %10s %10s %10s %10s %10s %10s\n", "", "mean", "deviation", "min", "max", "not finite", "gradient");
    for (size_t i = 0; (row = qkv_inspection_row(in, i)); i++) {
        char place[64], text[5][CLI_NUMBER], broken[CLI_NUMBER];
        snprintf(broken, sizeof broken, row->values.broken > 0 ? "%.3g %%" : "none", 100 * row->values.broken);
        printf("  %-28s %10s %10s %10s %10s %10s %10s\n", place_of(row, is_pair(in), place, sizeof place),
               inspect_number(row->values.mean, text[0]), inspect_number(row->values.deviation, text[1]),
               inspect_number(row->values.min, text[2]), inspect_number(row->values.max, text[3]), broken,
               inspect_number(row->gradient, text[4]));
    }
    print_experts(in);
}

/* Returns the row of another model at the same place as `row`, or NULL. */
static const struct qkv_inspect_row *same_place(const struct qkv_inspection *in, const struct qkv_inspect_row *row) {
    const struct qkv_inspect_row *other;
    for (size_t i = 0; (other = qkv_inspection_row(in, i)); i++)
        if (other->kind == row->kind && other->encoder == row->encoder &&
            (other->layer == row->layer || row->kind == QKV_HOOK_FINAL))
            return other;
    return NULL;
}

/* Prints the residual streams and the gradients of the blocks, one column a model; `names` are the parts in which
 * the folders' names differ. */
static void print_side_by_side(struct qkv_inspection *const *list, char **names, size_t count) {
    const struct qkv_inspection *longest = list[0];
    const struct qkv_inspect_row *row;
    for (size_t m = 1; m < count; m++) {
        size_t rows = 0;
        while (qkv_inspection_row(longest, rows)) rows++;
        if (qkv_inspection_row(list[m], rows)) longest = list[m];
    }
    printf("\nside by side    ");
    for (int part = 0; part < 2; part++) {
        printf("  %-*s", (int)(12 * count), part ? "gradient of the block" : "deviation of the stream");
    }
    printf("\n%-16s", "");
    for (int part = 0; part < 2; part++) {
        printf("  ");
        for (size_t m = 0; m < count; m++) printf("%*s", (int)(12 - cli_print_name(names[m], 11)), "");
    }
    putchar('\n');
    for (size_t i = 0; (row = qkv_inspection_row(longest, i)); i++) {
        char text[CLI_NUMBER];
        if (row->kind != QKV_HOOK_RESIDUAL && row->kind != QKV_HOOK_EMBEDDING) continue;
        snprintf(text, sizeof text, row->kind == QKV_HOOK_EMBEDDING ? "%sembedding" : "%sblock %zu",
                 row->encoder ? "enc. " : "", row->layer);
        printf("%-16s", text);
        for (int part = 0; part < 2; part++) {
            printf("  ");
            for (size_t m = 0; m < count; m++) {
                const struct qkv_inspect_row *here = same_place(list[m], row);
                printf("%-12s", inspect_number(!here ? NAN : part ? here->gradient : here->values.deviation, text));
            }
        }
        putchar('\n');
    }
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int write_all(struct qkv_context *ctx, const struct arguments *a, struct qkv_inspection *const *list,
                     const char *const *names, size_t count) {
    if (a->json && qkv_inspections_write_json(ctx, list, names, count, cli_json_file(a->json))) return cli_broken(ctx);
    if (a->output && qkv_inspections_write_page(ctx, list, names, count, a->output)) return cli_broken(ctx);
    const char *const files[] = {cli_json_file(a->json), a->output};
    for (size_t i = 0; i < CLI_COUNT_OF(files); i++)
        if (files[i]) cli_wrote(files[i], "%zu model%s", count, count == 1 ? "" : "s");
    for (size_t m = 0; m < count && !a->output && !a->json; m++) {
        if (m) putchar('\n');
        print_model(list[m], names[m]);
    }
    if (count == 1 || a->output || a->json) return CLI_DONE;
    char **shown;
    if (qkv_short_names(ctx, names, count, &shown)) return cli_broken(ctx);
    print_side_by_side(list, shown, count);
    qkv_free_names(shown, count);
    return CLI_DONE;
}

/* Inspects one model: of a folder, or (NULL) the fresh one. */
static int inspect_one(struct qkv_context *ctx, const struct arguments *a, const char *folder, struct cli_reading *r,
                       struct qkv_inspection **inspection) {
    struct qkv_model *model = NULL;
    int code = cli_fresh_load(&a->common, &a->fresh, ctx, folder, &model);
    if (!code) code = cli_reading_aim(r, model, a->target);
    const int32_t prefix = (int32_t)a->prefix;
    if (!code) code = cli_reading_example(r, model, a->examples, a->example);
    struct qkv_inspect_options o = {.batch = r->example ? qkv_example_batch(r->example) : NULL,
                                    .prefix = a->prefix < 0 ? NULL : &prefix,
                                    .text = r->text,
                                    .text_size = r->size,
                                    .target = a->target,
                                    .target_size = a->target ? strlen(a->target) : 0,
                                    .ids = r->ids,
                                    .id_count = r->id_count,
                                    .target_ids = r->target_ids,
                                    .target_id_count = r->target_id_count};
    if (!code) cli_say_causal(model, folder ? folder : cli_fresh_name(&a->fresh), a->prefix);
    if (!code && qkv_inspect(model, &o, inspection)) code = cli_broken(ctx);
    qkv_model_free(model);
    return code;
}

static int inspect_all(struct qkv_context *ctx, const struct arguments *a, const char *const *folders, size_t count) {
    struct qkv_inspection *list[MODELS] = {NULL};
    struct cli_reading r;
    const char *const fresh = cli_fresh_name(&a->fresh);
    int code = cli_reading_open(a->prompt, a->file, a->ids, &r);
    for (size_t m = 0; m < count && !code; m++) code = inspect_one(ctx, a, folders[m], &r, &list[m]);
    if (!code && fresh) code = inspect_one(ctx, a, NULL, &r, &list[0]);
    if (!code) code = fresh ? write_all(ctx, a, list, &fresh, 1) : write_all(ctx, a, list, folders, count);
    for (size_t m = 0; m < MODELS; m++) qkv_inspection_free(list[m]);
    cli_reading_close(&r);
    return code;
}

static int inspect_check(const struct arguments *a, size_t count) {
    if (!count && !cli_fresh_given(&a->fresh))
        return cli_usage(
            "inspect: name a model folder, or a model with --preset or --spec: %s inspect MODEL --prompt \"a text\"",
            cli_program);
    if (cli_fresh_check(&a->fresh, "inspect", count)) return CLI_USAGE;
    if (count > MODELS) return cli_usage("inspect: %zu models are too many; give at most %d", count, MODELS);
    return cli_reading_check("inspect", a->prompt, a->file, a->examples);
}

static int inspect_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    int code = inspect_check(a, count);
    if (code == CLI_DONE) code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = inspect_all(ctx, a, words, count);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_inspect(void) {
    static const struct cli_command command = {
        .name = "inspect",
        .words = CLI_WORDS_MODELS,
        .summary = "show activations and gradients of a model, block by block",
        .usage = "MODEL… --prompt TEXT [-o FILE] [options]\nMODEL… --file FILE [-o FILE] [options]\n"
                 "--preset NAME [--set KEY=VALUE] [--seed N] --prompt TEXT [-o FILE] [options]\n"
                 "--spec FILE [--set KEY=VALUE] [--seed N] --prompt TEXT [-o FILE] [options]",
        .description =
            "Runs the model over a text, forward and backward, and shows statistics of every block: the mean, the "
            "standard deviation and the extremes of the output of each sublayer and of the residual stream after it; "
            "the share of numbers that are not finite; and the norm of the gradients of its weights. For a layer with "
            "experts it shows how many rows each expert computes, and the load: the rows of the busiest expert divided "
            "by the mean. Several models are shown side by side, for example a pre-norm and a post-norm model, or one "
            "model before and after training. With -o it writes a page, one HTML file that loads nothing else.\n\n"
            "The loss is that of the next tokens of the text, of the target of an encoder-decoder, of the class of a "
            "classifier, or of the masked tokens of an encoder. --target gives this target, this class or the text "
            "without masks. Dropout is off. With --prefix the loss covers the tokens after the prefix, as in "
            "training.\n\n"
            "--preset and --spec use a model with the fresh weights that training begins with. --ids takes token ids "
            "instead of texts, which needs no tokenizer. A model that reads images, frames or vectors takes an example "
            "from a file (--examples). Patches of an image are named by row and column.",
        .examples = "qkv inspect run/ --prompt \"To be, or not to be\"\n"
                    "qkv inspect pre/ post/ --file text.txt -o inside.html\n"
                    "qkv inspect --preset bert-tiny --set encoder.norm.placement=pre --prompt \"To be, or not to be\"\n"
                    "qkv inspect g2p/ --prompt \"hello\" --target \" HH AH L OW\" --json inside.json",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = SIZE_MAX,
        .run = inspect_run,
    };
    return &command;
}
