/* calibrate.c: measures the importance of the columns of a model's matrices on a file, for qkv quantize. */
#include <stdlib.h>
#include <string.h>

#include "cli_text.h"

enum { CALIBRATE_WINDOW = 512, CALIBRATE_BATCH = 4, CALIBRATE_LINES = 64 };

/* Embeds the lines of a file. */
static int calibrate_lines(struct qkv_model *model, const char *path, struct cli_task *task) {
    const size_t width = qkv_embed_width(model);
    char *text = NULL;
    size_t size = 0;
    float *vectors = calloc(CALIBRATE_LINES, width * sizeof *vectors);
    int code = vectors ? cli_read_prompt(NULL, path, &text, &size) : cli_failed("out of memory");
    struct qkv_embed_options how = qkv_embed_defaults(model);
    how.long_lines = QKV_LONG_KEEP_START;
    char *next = text, *const end = text ? text + size : NULL;
    while (code == CLI_DONE && next < end) {
        const char *lines[CALIBRATE_LINES];
        size_t count = 0;
        for (; count < CALIBRATE_LINES && next < end; count++) {
            char *stop = memchr(next, '\n', (size_t)(end - next));
            lines[count] = next;
            if (stop) *stop = 0;
            next = stop ? stop + 1 : end;
        }
        if (qkv_embed(model, lines, count, &how, vectors)) code = cli_broken(qkv_model_context(model));
        if (code == CLI_DONE && !cli_task_progress(task, "calibrating", (double)(next - text), (double)size))
            code = CLI_INTERRUPTED;
    }
    free(vectors);
    free(text);
    return code;
}

/* Pairs: their loss, and a search of one token. */
static enum qkv_status calibrate_pairs(struct qkv_model *model, const char *path, struct cli_task *task) {
    struct qkv_pairs_evaluation pairs;
    struct qkv_search_options search = qkv_search_defaults();
    search.max_tokens = 1;
    return qkv_evaluate_pairs(model, path, &search, cli_task_progress, task, &pairs);
}

static enum qkv_status calibrate_text(struct qkv_model *model, const char *path, const struct qkv_use_options *use,
                                      struct cli_task *task) {
    struct qkv_evaluation text;
    struct qkv_evaluate_options windows = qkv_evaluate_defaults();
    windows.context = use->context;
    windows.batch = use->batch;
    return qkv_evaluate_text(model, &path, 1, &windows, cli_task_progress, task, &text);
}

void cli_calibrate_use(const struct qkv_spec *spec, const char *path, struct qkv_use_options *use) {
    *use = qkv_use_defaults();
    switch (qkv_spec_topology(spec)) {
    case QKV_ENCODER_ALONE:
        use->use = QKV_USE_EMBED;
        break;
    case QKV_ENCODER_DECODER:
        use->use = QKV_USE_EVALUATE_PAIRS;
        use->file = path;
        use->max_tokens = 1;
        break;
    default:
        use->use = QKV_USE_EVALUATE_TEXT;
        use->context = spec->context < CALIBRATE_WINDOW ? (size_t)spec->context : CALIBRATE_WINDOW;
        use->batch = CALIBRATE_BATCH;
    }
}

int cli_calibrate(struct qkv_model *model, const char *path, bool quiet, struct qkv_importance **importance) {
    struct cli_progress progress;
    struct cli_task task = {.progress = &progress};
    struct qkv_use_options use;
    enum qkv_status status = QKV_OK;
    int code = CLI_DONE;
    if (qkv_importance_create(model, importance)) return cli_broken(qkv_model_context(model));
    cli_progress_start(&progress, quiet, false);
    if (progress.kind == CLI_LINES) progress.latest = qkv_clock(); /* work of a few seconds shows no line */
    cli_catch_signals();
    cli_calibrate_use(qkv_model_spec(model), path, &use);
    if (use.use == QKV_USE_EMBED)
        code = calibrate_lines(model, path, &task);
    else if (use.use == QKV_USE_EVALUATE_PAIRS)
        status = calibrate_pairs(model, path, &task);
    else
        status = calibrate_text(model, path, &use, &task);
    cli_progress_clear(&progress);
    if (status) return status == QKV_STOPPED ? CLI_INTERRUPTED : cli_broken(qkv_model_context(model));
    return code;
}
