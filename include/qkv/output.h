/* qkv/output.h: files that a program writes for its user; a part of qkv.h, which includes it. Stable.
 *
 * A regular file appears whole or not at all, when it is committed; devices and pipes are written through, symbolic links
 * followed. An existing file is replaced only if that is wanted, and never one that is read at the same time. */
#ifndef QKV_PUBLIC_OUTPUT_H
#define QKV_PUBLIC_OUTPUT_H

#include <stdio.h>

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_output_options {
    bool force; /* replace a regular file that exists */
    const char *const
        *inputs; /* what is read meanwhile: files, and folders of models and runs; NULLs are skipped. The output
                                  may be none of these files, and no file of these models and runs, by whatever name */
    size_t input_count;
};
/* No force, no inputs. */
QKV_API struct qkv_output_options qkv_output_defaults(void);
/* Whether `path` may be written, before any work is done for it: QKV_FILE where one of the above forbids it,
 * QKV_MEMORY. `options` NULL: no force, no inputs. A file that cannot be written for other reasons is found by
 * qkv_output_begin. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_output_check(struct qkv_context *ctx, const char *path,
                                         const struct qkv_output_options *options);

/* ---- all that a program reads and writes. Experimental. ---- */

enum qkv_path_use {
    QKV_PATH_READ,  /* a file that is read, or a folder whose files are */
    QKV_PATH_MODEL, /* a model or run that is read: its folder, or a checkpoint in one, with all its files */
    QKV_PATH_WRITE, /* a file that is written */
    QKV_PATH_FOLDER /* a folder that is written into */
};
struct qkv_path {
    enum qkv_path_use use;
    const char *path;         /* NULL or "": nothing */
    const char *const *files; /* of QKV_PATH_FOLDER: the names of what is written there */
    size_t file_count;
    bool force; /* of what is written: regular files that exist may be replaced */
};
/* A file that is read, without a path. */
QKV_API struct qkv_path qkv_path_defaults(void);
/* Looks at all that is read and all that will be written before anything is touched. QKV_FILE where an output is also
 * something that is read, or another output, by whatever name (through links, too; devices are shared); where an output
 * is a folder of texts; where a file that is written exists, without its force; or where the folder of a QKV_PATH_WRITE
 * does not. Inputs that are not there are left to who reads them. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_paths_check(struct qkv_context *ctx, const struct qkv_path *paths, size_t count);

/* A file being written. It serves the thread of its context. */
struct qkv_output;
/* Checks, and begins a temporary file beside `path`, or opens the device or pipe (which waits for a pipe's reader).
 * QKV_FILE, QKV_MEMORY; then *out is NULL. End it with commit or cancel. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE. */
QKV_API enum qkv_status qkv_output_begin(struct qkv_context *ctx, const char *path,
                                         const struct qkv_output_options *options, struct qkv_output **out);
/* The stream to write to, by stdio; not to be closed. Its errors are found by commit as well. */
QKV_API FILE *qkv_output_stream(struct qkv_output *output);
/* Puts everything on disk and in the file's place, and frees `output`. QKV_FILE when a part of it could not be
 * written; an old file is then as it was. Fails with QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_output_commit(struct qkv_output *output);
/* Leaves an old file as it was, and frees `output`. NULL is fine. */
QKV_API void qkv_output_cancel(struct qkv_output *output);

#ifdef __cplusplus
}
#endif

#endif
