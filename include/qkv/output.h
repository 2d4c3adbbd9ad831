/* qkv/output.h: files that a program writes for its user; a part of qkv.h, which includes it. Stable.
 *
 * A regular file appears as a whole when it is committed, or not at all. Devices and pipes are written directly;
 * symbolic links are followed. An existing file is replaced only with `force`, and a file that is read at the same time
 * never. */
#ifndef QKV_PUBLIC_OUTPUT_H
#define QKV_PUBLIC_OUTPUT_H

#include <stdio.h>

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_output_options {
    size_t size; /* sizeof(struct qkv_output_options), set by qkv_output_defaults */
    bool force;  /* replace an existing regular file */
    /* The files, and folders of models and runs, that are read meanwhile; NULLs are skipped. The output may be none of
     * these files, and no file of these models and runs, also under another name. */
    const char *const *inputs;
    size_t input_count;
};
/* No force, no inputs. */
QKV_API void qkv_output_options_init(struct qkv_output_options *options, size_t size);
static inline struct qkv_output_options qkv_output_defaults(void) {
    struct qkv_output_options options;
    qkv_output_options_init(&options, sizeof options);
    return options;
}
/* Checks before any other work whether `path` may be written; QKV_FILE if a rule above forbids it. `options` NULL: no
 * force, no inputs. Other reasons why a file cannot be written are found by qkv_output_begin. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_output_check(struct qkv_context *ctx, const char *path,
                                         const struct qkv_output_options *options);

#ifdef QKV_EXPERIMENTAL
/* ---- all files that a program reads and writes. Experimental. ---- */

enum qkv_path_use {
    QKV_PATH_READ,  /* reads the file, or the files of the folder */
    QKV_PATH_MODEL, /* reads a model or run with all its files; the path is its folder, or a checkpoint in it */
    QKV_PATH_WRITE, /* writes the file */
    QKV_PATH_FOLDER /* writes files into the folder */
};
struct qkv_path {
    enum qkv_path_use use;
    const char *path;         /* NULL or "": none */
    const char *const *files; /* QKV_PATH_FOLDER: the names of the files that are written there */
    size_t file_count;
    bool force; /* QKV_PATH_WRITE, QKV_PATH_FOLDER: existing regular files may be replaced */
};
/* QKV_PATH_READ without a path. */
QKV_API struct qkv_path qkv_path_defaults(void);
/* Checks all files that will be read and written, before any of them is touched. It is QKV_FILE if an output is also an
 * input or another output, under whatever name (also through links; devices may be shared); if an output is a folder of
 * texts; if a file that is written exists and force is false; or if the folder of a QKV_PATH_WRITE does not exist.
 * Missing inputs are no error here; the call that reads them fails. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_paths_check(struct qkv_context *ctx, const struct qkv_path *paths, size_t count);

/* A file that is being written. It serves the thread of its context. */
struct qkv_output;
/* Checks the path as qkv_output_check does, then begins a temporary file in the same folder, or opens the device or
 * pipe (a pipe waits for its reader). End the output with commit or cancel. On failure *out is NULL. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_output_begin(struct qkv_context *ctx, const char *path,
                                         const struct qkv_output_options *options, struct qkv_output **out);
/* The stdio stream to write to; do not close it. Commit also detects its errors. */
QKV_API FILE *qkv_output_stream(struct qkv_output *output);
/* Writes everything to disk, puts the file in its place, and frees `output`. If a part cannot be written, the call
 * fails with QKV_FILE and an existing file is unchanged. Fails with QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_output_commit(struct qkv_output *output);
/* Discards the output, with an existing file unchanged, and frees `output`. NULL is allowed. */
QKV_API void qkv_output_cancel(struct qkv_output *output);
#endif

#ifdef __cplusplus
}
#endif

#endif
