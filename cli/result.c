/* result.c: where a command writes its results: a file, which the library makes and puts in place, or standard
 * output. */
#include <stdarg.h>
#include <stdio.h>

#include <sys/stat.h>

#include "cli.h"

int cli_output_begin(struct qkv_context *ctx, const char *path, bool force, struct cli_output *output) {
    const struct qkv_output_options options = {.size = sizeof options, .force = force};
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

void cli_wrote(const char *path, const char *format, ...) {
    struct stat info;
    char what[256], size[CLI_NUMBER];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    for (const char *c = path; *c; c++) putc((unsigned char)*c < 32 || *c == 127 ? '?' : *c, stderr);
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode))
        fprintf(stderr, ": %s, %s\n", what, cli_bytes(size, (size_t)info.st_size));
    else
        fprintf(stderr, ": %s\n", what);
}
