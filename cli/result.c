/* result.c: where a command writes its results: a file, made and put in place by the library, or standard output. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { READ_MOST = 64 }; /* files that are read besides one that is written */

static struct qkv_output_options output_options(const struct cli_reads *reads, bool force, const char **inputs) {
    size_t count = 0;
    for (size_t i = 0; reads && i < reads->count && count < READ_MOST; i++) {
        const char *input = reads->items[i];
        if (input) inputs[count++] = strcmp(input, "-") ? input : "/dev/stdin";
    }
    if (reads && reads->also && count < READ_MOST)
        inputs[count++] = strcmp(reads->also, "-") ? reads->also : "/dev/stdin";
    return (struct qkv_output_options){.force = force, .inputs = inputs, .input_count = count};
}

int cli_output_check(struct qkv_context *ctx, const char *path, bool force, const struct cli_reads *reads) {
    if (path && !*path) return cli_usage("the name of an output is empty; name a file");
    const char *inputs[READ_MOST];
    struct qkv_output_options options = output_options(reads, force, inputs);
    return path && qkv_output_check(ctx, path, &options) ? cli_broken(ctx) : CLI_DONE;
}

int cli_output_begin(struct qkv_context *ctx, const char *path, bool force, const struct cli_reads *reads,
                     struct cli_output *output) {
    const char *inputs[READ_MOST];
    struct qkv_output_options options = output_options(reads, force, inputs);
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
