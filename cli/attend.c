/* attend.c: "qkv attend" runs a model on a text and shows its attention weights: an HTML page of all heads, JSON, or
 * a picture in the terminal (attend_picture.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_lab.h"
#include "cli_text.h"

struct arguments {
    const char *prompt, *file, *examples, *target, *kind, *output, *json;
    int64_t layer, head, prefix, example;
    bool force, ids;
    struct cli_fresh fresh;
    struct cli_common common;
};

static const struct arguments defaults = {.layer = -1, .head = -1, .prefix = -1, .fresh = CLI_FRESH_DEFAULTS};

static const struct cli_option options[] = {
    {CLI_TEXT, 'p', "prompt", "TEXT", offsetof(struct arguments, prompt),
     .help = "text that the model reads; an encoder-decoder translates it", .subject = "input"},
    {CLI_READ, 0, "file", "FILE", offsetof(struct arguments, file),
     .help = "file with the prompt, at most 64 MiB; - is standard input", .subject = "input"},
    CLI_EXAMPLE(struct arguments),
    {CLI_TEXT, 0, "target", "TEXT", offsetof(struct arguments, target),
     .help = "encoder-decoders: text that the decoder reads, instead of the result of greedy search",
     .subject = "input"},
    {CLI_FLAG, 0, "ids", NULL, offsetof(struct arguments, ids),
     .help = "read the prompt and the target as token ids: 1 3 4 5 2", .subject = "input"},
    {CLI_COUNT, 0, "layer", "N", offsetof(struct arguments, layer), .help = "show only this layer, counted from 0",
     .high = INT32_MAX, .before = "all; in the terminal, the last one", .subject = "selection"},
    {CLI_COUNT, 0, "head", "N", offsetof(struct arguments, head), .help = "show only this head, counted from 0",
     .high = INT32_MAX, .before = "all; in the terminal, their mean", .subject = "selection"},
    {CLI_TEXT, 0, "kind", "NAME", offsetof(struct arguments, kind), .choice = cli_choose_attention,
     .help = "attention that the terminal shows: encoder, decoder or cross", .before = "cross if the model has it",
     .subject = "selection"},
    {CLI_WRITE, 'o', "output", "FILE", offsetof(struct arguments, output), .help = "write a page (HTML, one file)",
     .subject = "output"},
    CLI_JSON_FILE(struct arguments, "all weights"),
    CLI_FORCE(struct arguments),
    CLI_PREFIX(struct arguments, "the whole text for a model that was trained with prefixes, else 0"),
    CLI_FRESH(struct arguments),
    CLI_MODEL(struct arguments),
};

CLI_CONDITION(writes_no_file, struct arguments, !a->output && !cli_json_file(a->json))
CLI_CONDITION(writes_files, struct arguments, a->output || a->json)

CLI_CONDITION(has_folder, struct arguments, arguments > 0)
CLI_CONDITION(is_fresh, struct arguments, cli_fresh_given(&a->fresh))
CLI_CONDITION(has_no_examples, struct arguments, !a->examples)
CLI_CONDITION(has_examples, struct arguments, a->examples != NULL)

static const struct cli_rule rules[] = {
    {"set seed tokenizer", has_folder, CLI_WHY_FOLDER},
    {"ignore-digest", is_fresh, CLI_WHY_FRESH},
    {"example", has_no_examples, "it numbers an example of a file; name one with --examples FILE"},
    {"ids prefix target", has_examples, "an example holds all that the model reads; leave it out"},
    {"kind", writes_files, "files hold all kinds, and only the terminal shows one; leave it out"},
    {"force", writes_no_file, "no file is written; name one with -o FILE or --json FILE"},
};

int cli_read_prompt(const char *prompt, const char *path, char **text, size_t *size) {
    if (path) {
        int code = cli_read_all(path, CLI_PROMPT_MAX, text, size);
        if (!code && *size && (*text)[*size - 1] == '\n') --*size;
        if (!code && *size && (*text)[*size - 1] == '\r') --*size;
        return code;
    }
    *size = strlen(prompt);
    *text = malloc(*size + 1);
    if (!*text) return cli_failed("out of memory");
    memcpy(*text, prompt, *size + 1);
    return CLI_DONE;
}

int cli_read_ids(const char *what, const char *text, size_t size, int32_t **ids, size_t *count) {
    static const char between[] = " \t\r\n,[]";
    char word[16];
    *count = 0;
    *ids = malloc((size / 2 + 1) * sizeof **ids); /* one digit and one separator an id */
    if (!*ids) return cli_failed("out of memory");
    for (size_t at = 0; at < size;) {
        size_t n = 0;
        int64_t id;
        while (at < size && strchr(between, text[at]) && text[at]) at++;
        while (at + n < size && (!strchr(between, text[at + n]) || !text[at + n])) n++;
        if (n == 0) break;
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), text + at);
        if (n >= sizeof word || !cli_read_count(word, 0, INT32_MAX, &id))
            return cli_failed("%s: \"%.*s\" is not a token id; --ids takes whole numbers from 0, for example 1 3 4 5 2",
                              what, (int)(n < 40 ? n : 40), text + at);
        (*ids)[(*count)++] = (int32_t)id;
        at += n;
    }
    return CLI_DONE;
}

void cli_say_causal(const struct qkv_model *model, const char *name, int64_t prefix) {
    if (prefix < 0 && qkv_model_spec(model)->prefix)
        cli_say("%s was trained with prefixes, whose tokens see one another in both directions; here there is no "
                "prefix, so every token sees only the ones before it (--prefix N sets one)",
                name);
}

int cli_reading_check(const char *command, const char *prompt, const char *file, const char *examples) {
    const int given = (prompt != NULL) + (file != NULL) + (examples != NULL);
    if (!given)
        return cli_usage("%s: there is nothing to read; give --prompt TEXT, --file FILE or --examples FILE", command);
    if (given > 1)
        return cli_usage("%s: --prompt, --file and --examples exclude each other; give one of them", command);
    return CLI_DONE;
}

int cli_reading_open(const char *prompt, const char *file, bool ids, struct cli_reading *r) {
    *r = (struct cli_reading){0};
    if (!prompt && !file) return CLI_DONE; /* --examples */
    int code = cli_read_prompt(prompt, file, &r->text, &r->size);
    if (!code && ids) code = cli_read_ids("the prompt", r->text, r->size, &r->ids, &r->id_count);
    return code;
}

int cli_reading_aim(struct cli_reading *r, const struct qkv_model *model, const char *target) {
    if (!r->ids || !target || qkv_model_spec(model)->head.kind == QKV_HEAD_CLASSIFY) return CLI_DONE;
    free(r->target_ids); /* of the model before */
    return cli_read_ids("the target", target, strlen(target), &r->target_ids, &r->target_id_count);
}

int cli_reading_example(struct cli_reading *r, struct qkv_model *model, const char *examples, int64_t example) {
    qkv_example_free(r->example); /* of the model before */
    r->example = NULL;
    if (examples && qkv_example_read(model, examples, (size_t)example, &r->example))
        return cli_broken(qkv_model_context(model));
    if (!examples && !qkv_spec_has_tokens(qkv_model_spec(model)))
        return cli_failed("this model reads numbers and no text; give it an example: --examples FILE");
    return CLI_DONE;
}

void cli_reading_close(struct cli_reading *r) {
    qkv_example_free(r->example);
    free(r->text);
    free(r->ids);
    free(r->target_ids);
}

static void tell_written(const struct qkv_attention_view *look, const char *path) {
    struct qkv_attention_view_head attention;
    char text[CLI_NUMBER];
    size_t tokens = qkv_look_tokens(look, true) + qkv_look_tokens(look, false), attentions = 0;
    while (qkv_attention_view_head(look, attentions, &attention)) attentions++;
    cli_wrote(path, "%zu attention%s on %s token%s", attentions, attentions == 1 ? "" : "s", cli_grouped(text, tokens),
              tokens == 1 ? ": it attends to itself only" : "s");
}

static const char *last_part(const char *folder, char *name, size_t size) {
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    size_t begin = n;
    while (begin > 0 && folder[begin - 1] != '/') begin--;
    snprintf(name, size, "%.*s", (int)(n - begin < size ? n - begin : size - 1), folder + begin);
    return name;
}

static int write_all(struct qkv_context *ctx, struct qkv_attention_view *look, const struct arguments *a,
                     const char *folder) {
    char name[256];
    struct qkv_look_selection selection = {
        .title = last_part(folder, name, sizeof name), .layer = (int)a->layer, .head = (int)a->head};
    if (qkv_look_check(look, &selection)) return cli_broken(ctx);
    if (a->output) {
        if (qkv_look_write_page(look, &selection, a->output)) return cli_broken(ctx);
        tell_written(look, a->output);
    }
    if (a->json) {
        if (qkv_look_write_json(look, &selection, cli_json_file(a->json))) return cli_broken(ctx);
        if (cli_json_file(a->json)) tell_written(look, a->json);
    }
    return a->output || a->json ? CLI_DONE : cli_attend_picture(ctx, look, a->kind, a->layer, a->head);
}

static int attend_all(struct qkv_context *ctx, const char *folder, const struct arguments *a) {
    struct qkv_model *model = NULL;
    struct qkv_attention_view *look = NULL;
    struct cli_reading r;
    int code = cli_reading_open(a->prompt, a->file, a->ids, &r);
    if (!code) code = cli_fresh_load(&a->common, &a->fresh, ctx, folder, &model);
    if (!code) code = cli_reading_aim(&r, model, a->target);
    const int32_t prefix = (int32_t)a->prefix;
    if (!code) code = cli_reading_example(&r, model, a->examples, a->example);
    struct qkv_look_options o = {.batch = r.example ? qkv_example_batch(r.example) : NULL,
                                 .prefix = a->prefix < 0 ? NULL : &prefix,
                                 .text = r.text,
                                 .text_size = r.size,
                                 .target = a->target,
                                 .target_size = a->target ? strlen(a->target) : 0,
                                 .ids = r.ids,
                                 .id_count = r.id_count,
                                 .target_ids = r.target_ids,
                                 .target_id_count = r.target_id_count};
    if (!code && qkv_look_create(model, &o, &look)) code = cli_broken(ctx);
    if (!code) code = write_all(ctx, look, a, folder ? folder : cli_fresh_name(&a->fresh));
    qkv_look_free(look);
    qkv_model_free(model);
    cli_reading_close(&r);
    return code;
}

static int attend_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    if (!count && !cli_fresh_given(&a->fresh))
        return cli_usage(
            "attend: name a model folder, or a model with --preset or --spec: %s attend MODEL --prompt \"a text\"",
            cli_program);
    int code = cli_fresh_check(&a->fresh, "attend", count);
    if (code == CLI_DONE) code = cli_reading_check("attend", a->prompt, a->file, a->examples);
    if (code == CLI_DONE) code = cli_open(&a->common, &ctx);
    if (code == CLI_DONE) code = attend_all(ctx, count ? words[0] : NULL, a);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_attend(void) {
    static const struct cli_command command = {
        .name = "attend",
        .words = CLI_WORD_MODEL,
        .summary = "show attention weights, as a page or in the terminal",
        .usage = "MODEL --prompt TEXT [-o FILE] [options]\nMODEL --file FILE [-o FILE] [options]\n"
                 "--preset NAME [--set KEY=VALUE] [--seed N] --prompt TEXT [-o FILE] [options]\n"
                 "--spec FILE [--set KEY=VALUE] [--seed N] --prompt TEXT [-o FILE] [options]",
        .description =
            "Runs the model over a text and shows what each token attends to. With -o it writes a page, one HTML file "
            "that loads nothing else: every head of every layer as a small picture, and for each head the tokens "
            "joined by lines and the matrix of weights. Without -o it draws one head, or the mean of a layer's heads, "
            "in the terminal, and lists the heads.\n\n"
            "entropy: the entropy of a token's weights in bits, as a mean over the tokens; 2^entropy is the number of "
            "tokens that a token attends to. distance: the mean distance in tokens between a token and those that it "
            "attends to, with the weights of the attention.\n\n"
            "An encoder-decoder translates the text by greedy search, unless --target gives the text that the decoder "
            "reads. The page has the attention of the encoder, of the decoder, and from the decoder to the encoder.\n\n"
            "--preset and --spec use a model with the fresh weights that training begins with. --ids takes token ids "
            "instead of texts, which needs no tokenizer. A model that reads images, frames or vectors takes an example "
            "from a file (--examples). Patches of an image are named by row and column.",
        .examples = "qkv attend run/ --prompt \"To be, or not to be\" -o attention.html\n"
                    "qkv attend run/ --prompt \"To be, or not to be\" --layer 3 --head 2\n"
                    "qkv attend g2p/ --prompt \"hello\" --kind cross\n"
                    "qkv attend run/ --file text.txt --json attention.json\n"
                    "qkv attend --preset nano-gpt --set position.kind=alibi --prompt \"To be, or not to be\"",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = attend_run,
    };
    return &command;
}
