/* Files that a program writes for its user, and a stream into such a file. paths.c says which files may be written. */
#include <errno.h>
#include <stdlib.h>

#include "base/sized_options.h"
#include "io/io.h"

struct qkv_output {
    struct qkv_replace replace;
};

void qkv_output_options_init(struct qkv_output_options *options, size_t size) {
    static const struct qkv_output_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_output_check(struct qkv_context *ctx, const char *path, const struct qkv_output_options *options) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct qkv_output_options all = qkv_output_defaults(), *o = &all;
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_output_options, o, options);
    if (status) return status;
    if (!*path) return qkv_fail_file(ctx, "write", "\"\"", ENOENT);
    struct qkv_path *paths = qkv_allocate(ctx, o->input_count + 1, sizeof *paths);
    if (!paths) return QKV_MEMORY;
    paths[0] = (struct qkv_path){.use = QKV_PATH_WRITE, .path = path, .force = o->force};
    for (size_t i = 0; i < o->input_count; i++)
        paths[i + 1] = (struct qkv_path){.use = QKV_PATH_MODEL, .path = o->inputs[i]};
    status = qkv_paths_check(ctx, paths, o->input_count + 1);
    free(paths);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_output_begin(struct qkv_context *ctx, const char *path, const struct qkv_output_options *options,
                                 struct qkv_output **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    enum qkv_status status = qkv_output_check(ctx, path, options);
    if (status) return status;
    struct qkv_output *output = qkv_allocate(ctx, 1, sizeof *output);
    if (!output) return QKV_MEMORY;
    status = qkv_replace_begin(ctx, path, &output->replace);
    if (status)
        free(output);
    else
        *out = output;
    return status;
}

FILE *qkv_output_stream(struct qkv_output *output) {
    if (!output) return NULL;
    return output->replace.file;
}

enum qkv_status qkv_output_commit(struct qkv_output *output) {
    QKV_CALL(output ? output->replace.ctx : NULL);
    QKV_NEED(qkv_call, output);
    enum qkv_status status = qkv_replace_commit(&output->replace);
    free(output);
    return status;
}

void qkv_output_cancel(struct qkv_output *output) {
    if (!output) return;
    qkv_replace_cancel(&output->replace);
    free(output);
}
