/* result.c: where a command writes its results: a file, which the library makes and puts in place, or standard
 * output. */
#include <stdio.h>

#include "cli.h"

int cli_output_begin(struct qkv_context *ctx, const char *path, bool force, struct cli_output *output) {
    const struct qkv_output_options options = {.force = force};
    *output = (struct cli_output){.ctx = ctx, .file = stdout};
    if (!path) return CLI_DONE;
    if (qkv_output_begin(ctx, path, &options, &output->output)) return cli_broken(ctx);
    output->file = qkv_output_stream(output->output);
    return CLI_DONE;
}

int cli_output_end(struct cli_output *output, int code) {
    struct qkv_output *file = output->output;
    output->output = NULL;
    if (file && code == CLI_DONE) return qkv_output_commit(file) ? cli_broken(output->ctx) : CLI_DONE;
    qkv_output_cancel(file);
    return code;
}
