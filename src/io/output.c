/* Files that a program writes for its user: what may be written where, and a stream into it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "io/io.h"

struct qkv_output {
    struct qkv_replace replace;
};

/* ---- what may be written ---------------------------------------------------------------------------------------------- */

/* The files of models and runs. */
static const char *const own_files[] = {QKV_MODEL_FILES, QKV_RUN_FILES};

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

struct output_place { /* where a path leads to, links followed */
    bool exists, has_folder;
    struct stat file, folder;
    char *path;
    const char *name; /* the last part of path */
};

static enum qkv_status output_find(struct qkv_context *ctx, const char *path, struct output_place *place) {
    *place = (struct output_place){0};
    place->exists = stat(path, &place->file) == 0;
    enum qkv_status status = qkv_follow_links(ctx, path, &place->path);
    if (status) return status;
    char *slash = strrchr(place->path, '/');
    place->name = slash ? slash + 1 : place->path;
    if (slash) *slash = 0;
    place->has_folder = stat(!slash ? "." : *place->path ? place->path : "/", &place->folder) == 0;
    return QKV_OK;
}

/* Whether the place is the file NAME of the model or run in `folder`, there already or not. */
static bool is_own_file(const struct output_place *place, const char *folder, const struct stat *info,
                        const char *name) {
    struct stat file;
    if (place->has_folder && is_same(&place->folder, info) && strcmp(place->name, name) == 0) return true;
    char *path = place->exists ? qkv_join_path(NULL, folder, name) : NULL;
    bool same = path && stat(path, &file) == 0 && is_same(&file, &place->file);
    free(path);
    return same;
}

static enum qkv_status output_check_input(struct qkv_context *ctx, const char *path, const struct output_place *place,
                                          const char *input) {
    struct stat info;
    if (stat(input, &info) != 0) return QKV_OK; /* who reads it says so */
    bool device = S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode);
    if (place->exists && !device && is_same(&place->file, &info))
        return qkv_fail(ctx, QKV_FILE, "%s is also what is read; write to another file", path);
    struct qkv_model_place model; /* the folder, or that of a checkpoint */
    enum qkv_status status = qkv_model_place(ctx, input, &model);
    const bool folder = !status && stat(model.folder, &info) == 0 && S_ISDIR(info.st_mode);
    for (size_t i = 0; folder && i < sizeof own_files / sizeof *own_files && !status; i++)
        if (is_own_file(place, model.folder, &info, own_files[i]))
            status =
                qkv_fail(ctx, QKV_FILE, "%s is a file of the model or run in %s; write to another file", path, input);
    qkv_model_place_free(&model);
    return status;
}

struct qkv_output_options qkv_output_defaults(void) {
    return (struct qkv_output_options){.force = false};
}

enum qkv_status qkv_output_check(struct qkv_context *ctx, const char *path, const struct qkv_output_options *options) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    static const struct qkv_output_options none = {0};
    const struct qkv_output_options *o = options ? options : &none;
    struct output_place place;
    errno = 0;
    enum qkv_status status = output_find(ctx, path, &place);
    if (!status && (!place.has_folder || !S_ISDIR(place.folder.st_mode)))
        status = qkv_fail_file(ctx, "write", path, place.has_folder ? ENOTDIR : errno ? errno : ENOENT);
    for (size_t i = 0; i < o->input_count && !status; i++)
        if (o->inputs[i]) status = output_check_input(ctx, path, &place, o->inputs[i]);
    if (!status && place.exists && S_ISDIR(place.file.st_mode))
        status = qkv_fail(ctx, QKV_FILE, "cannot write %s: it is a folder; name a file", path);
    if (!status && !o->force && place.exists && S_ISREG(place.file.st_mode))
        status = qkv_fail(ctx, QKV_FILE, "%s exists; --force replaces it", path);
    free(place.path);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_output_begin(struct qkv_context *ctx, const char *path, const struct qkv_output_options *options,
                                 struct qkv_output **out) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, out);
    *out = NULL;
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
