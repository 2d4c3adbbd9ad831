/* quantize.c: "qkv quantize" writes a model as a GGUF file with its matrices in few bits. */
#include <string.h>

#include "cli_adapters.h"

struct arguments {
    const char *to, *out, *imatrix, *calibrate, *family;
    struct cli_texts keep;
    bool force, json, quiet;
    struct cli_common common;
};

static const struct arguments defaults = {.common = {.precision = "fp32"}};

static const struct cli_option options[] = {
    {CLI_TEXT, 0, "to", "TYPE", offsetof(struct arguments, to), .choice = cli_choose_mix, .open = true,
     .help =
         "mix of types of the matrices, or a type that no mix has the name of; upper and lower case are the same: {}"},
    {CLI_WRITE, 'o', "out", "FILE", offsetof(struct arguments, out), .help = "GGUF file to write"},
    {CLI_TEXTS, 0, "keep", "PATTERN=TYPE", offsetof(struct arguments, keep),
     .help = "type of the matrices whose names are like PATTERN (* stands for any text), such as head*=q8_0; may be "
             "repeated, the last one that matches counts; qkv info shows the names"},
    {CLI_READ, 0, "imatrix", "FILE", offsetof(struct arguments, imatrix),
     .help = "importance of columns, a file of llama.cpp in either of its formats"},
    {CLI_READ, 0, "calibrate", "FILE", offsetof(struct arguments, calibrate),
     .help =
         "importance of columns, measured on a file that is like what the model is for: a text for a decoder, lines "
         "for an encoder, pairs (a source, a tab and a target) for an encoder-decoder"},
    {CLI_TEXT, 0, "family", "TYPE", offsetof(struct arguments, family),
     .help = "model_type whose architecture the file gets, such as llama, or qkv",
     .before = "the family that the model came from, else the first that can express it"},
    {CLI_FLAG, 'q', "quiet", NULL, offsetof(struct arguments, quiet), .help = "show no progress", .subject = "output"},
    CLI_JSON(struct arguments, "what was written"),
    CLI_FORCE(struct arguments),
    CLI_COMMON(struct arguments),
    CLI_IGNORE_MEMORY(struct arguments),
    CLI_IGNORE_DIGEST(struct arguments),
};

CLI_CONDITION(is_calibrated, struct arguments, a->calibrate)

static const struct cli_rule rules[] = {
    {"imatrix", is_calibrated, "--calibrate measures the importance that it reads from a file"},
};

/* ---- the file ---------------------------------------------------------------------------------------------------- */

void cli_put_notes(struct qkv_json *out, const struct qkv_gguf_notes *notes) {
    const char *note;
    qkv_json_key(out, "notes");
    qkv_json_begin(out, '[');
    for (size_t i = 0; (note = qkv_gguf_note_at(notes, i)); i++) qkv_json_text(out, note);
    qkv_json_end(out, ']');
}

static int gguf_json(const struct cli_gguf *g, const struct qkv_model *model, const struct qkv_gguf_notes *notes) {
    struct qkv_json out = cli_json();
    qkv_json_begin(&out, '{');
    qkv_json_put_text(&out, "file", g->out);
    qkv_json_put_text(&out, "to", "gguf");
    qkv_json_put_text(&out, "format", qkv_gguf_notes_format(notes));
    qkv_json_put_text(&out, "architecture", qkv_gguf_notes_architecture(notes));
    qkv_json_put_text(&out, "warning", qkv_model_warning(model));
    cli_put_notes(&out, notes);
    cli_put_merge(&out, model);
    qkv_json_end(&out, '}');
    return cli_json_end(&out);
}

int cli_gguf_write(const struct cli_gguf *g, struct qkv_model *model) {
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    struct qkv_gguf_options all = *g->options;
    struct qkv_gguf_notes *notes;
    char count[CLI_NUMBER];
    const char *note;
    cli_progress_start(&progress, g->quiet, false);
    if (progress.kind == CLI_LINES) progress.latest = qkv_clock(); /* work of a few seconds shows no line */
    cli_catch_signals();
    all.progress = cli_task_progress;
    all.user = &task;
    const enum qkv_status status = qkv_model_export_gguf(model, &all, g->out, &notes);
    cli_progress_clear(&progress);
    if (status) return status == QKV_STOPPED ? CLI_INTERRUPTED : cli_broken(qkv_model_context(model));
    if (qkv_model_warning(model)) cli_say("warning: %s", qkv_model_warning(model));
    for (size_t i = 0; (note = qkv_gguf_note_at(notes, i)); i++) cli_say("%s", note);
    cli_say_merge(model);
    int code = CLI_DONE;
    if (g->json)
        code = gguf_json(g, model, notes);
    else
        cli_wrote(g->out, "%s parameters, %s, architecture %s", cli_grouped(count, cli_parameters(model)),
                  qkv_gguf_notes_format(notes), qkv_gguf_notes_architecture(notes));
    qkv_gguf_notes_free(notes);
    return code;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Checks that the model, and what measures it, fit into the memory, and fills it. */
static int quantize_open(struct qkv_context *ctx, const char *path, const char *calibrate, struct qkv_model **model) {
    struct qkv_use_options use = {.size = sizeof use, .use = QKV_USE_EXPORT};
    struct qkv_opening *opening = NULL;
    enum qkv_status status = qkv_model_open(ctx, path, NULL, &opening);
    if (!status) status = qkv_opening_check_use(opening, &use);
    if (!status && calibrate) {
        cli_calibrate_use(qkv_model_spec(qkv_opening_plan(opening)), calibrate, &use);
        status = qkv_opening_check_use(opening, &use);
    }
    if (!status) status = qkv_model_fill(opening, model);
    qkv_opening_free(opening);
    return status ? cli_broken(ctx) : CLI_DONE;
}

static int quantize_run(const void *values, const char *const *words, size_t count) {
    const struct arguments *a = values;
    struct qkv_context *ctx = NULL;
    struct qkv_importance *importance = NULL;
    struct qkv_model *model = NULL;
    struct qkv_gguf_options file = qkv_gguf_defaults();
    if (count != 1)
        return cli_usage("quantize: name one model: %s quantize RUN --to Q4_K_M --out FILE.gguf", cli_program);
    if (!a->to)
        return cli_usage("quantize: name a mix or a type: --to Q4_K_M (\"%s help quantize\" lists them)", cli_program);
    if (!a->out) return cli_usage("quantize: name a file to write: --out FILE.gguf");
    file.format = a->to;
    file.family = a->family;
    file.keep = a->keep.items;
    file.keep_count = a->keep.count;
    file.imatrix = a->imatrix ? a->imatrix : a->calibrate; /* the check is that of either */
    int code = cli_open(&a->common, &ctx);
    if (!code && qkv_gguf_options_check(ctx, &file)) code = cli_misused(ctx);
    file.imatrix = a->imatrix;
    if (!code) code = quantize_open(ctx, words[0], a->calibrate, &model);
    if (!code && a->calibrate) code = cli_calibrate(model, a->calibrate, a->quiet, &importance);
    file.importance = importance;
    if (!code)
        code = cli_gguf_write(&(struct cli_gguf){.options = &file, .out = a->out, .quiet = a->quiet, .json = a->json},
                              model);
    qkv_importance_free(importance);
    qkv_model_free(model);
    qkv_context_free(ctx);
    return code;
}

const struct cli_command *cli_quantize(void) {
    static const struct cli_command command = {
        .name = "quantize",
        .words = CLI_WORD_MODEL,
        .summary = "write a model as a GGUF file with its matrices in few bits",
        .usage =
            "MODEL --to Q4_K_M --out FILE.gguf [--keep PATTERN=TYPE] [--imatrix FILE | --calibrate FILE] [--force]",
        .description =
            "Writes a GGUF file, which qkv and llama.cpp open, of a run, a model folder, a Hugging Face folder or "
            "another GGUF file. A mix has the types that llama.cpp chooses for that name: the matrices that results "
            "depend on most get more bits. A type that is also the name of a mix is the mix: q4_K is Q4_K_M; qkv "
            "export --to gguf --dtype q4_K writes one type in all matrices. Vectors, small tables and the matrices "
            "that choose experts stay f32. If a row of a matrix is not a whole number of blocks of its type, the "
            "matrix gets a smaller type, or f16, and a line says so.\n\n"
            "Numbers are rounded once, from the model that is read: a model that is in few bits already loses more. "
            "The "
            "importance of columns says which columns of a matrix have large inputs; their numbers are rounded with "
            "smaller errors. It is read from a file (--imatrix), or measured while the model reads a text "
            "(--calibrate).\n\n"
            "The file is written row by row, and replaces an older one, with --force, only when it is complete. Ctrl-C "
            "leaves nothing behind.",
        .examples = "qkv quantize run/ --to Q8_0 --out run-q8.gguf\n"
                    "qkv quantize llama/ --to Q4_K_M --keep '*ffn.down*=q8_0' --out llama-q4.gguf\n"
                    "qkv quantize run/ --to Q4_K_M --calibrate book.txt --out run-q4.gguf",
        .options = options,
        .option_count = CLI_COUNT_OF(options),
        .rules = rules,
        .rule_count = CLI_COUNT_OF(rules),
        .defaults = &defaults,
        .size = sizeof defaults,
        .arguments = 1,
        .run = quantize_run,
    };
    return &command;
}
