/* checkpoint_keep: earlier checkpoints of a run (option keep), and going back to one. What checkpoint.safetensors
 * was gets a second name, checkpoint-STEP.safetensors, before it is replaced, so keeping it costs no copy; the one
 * of the best evaluation is checkpoint-best.safetensors besides. A name always stands for a whole file: it is given
 * by a rename. Files of steps that the run has not come to (again) stay until it does. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

enum { KEEP_NAME = 64 };

static void keep_name(char name[KEEP_NAME], int64_t step) {
    snprintf(name, KEEP_NAME, QKV_CHECKPOINT_BEGIN "%lld" QKV_CHECKPOINT_END, (long long)step);
}

/* The step in a name, -1 for names of other things. */
static int64_t keep_step(const char *name) {
    char again[KEEP_NAME];
    long long step = -1;
    if (sscanf(name, QKV_CHECKPOINT_BEGIN "%18lld", &step) != 1 || step < 0) return -1;
    keep_name(again, step);
    return strcmp(name, again) == 0 ? step : -1;
}

static enum qkv_status keep_failed(struct qkv_context *ctx, const char *path, int error) {
    if (error != EPERM && error != ENOTSUP && error != EMLINK) return qkv_fail_file(ctx, "keep", path, error);
    return qkv_fail(ctx, QKV_FILE,
                    "%s cannot be kept: this file system has no second names for files; go on with option keep = 1",
                    path);
}

/* A second name of the file itself, where `path` is a symbolic link; a copy of a file on another file system. */
static enum qkv_status keep_second(struct qkv_context *ctx, const char *path, const char *beside, const char *kept) {
    struct qkv_map map;
    if (linkat(AT_FDCWD, path, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0) return QKV_OK;
    if (errno != EXDEV) return keep_failed(ctx, kept, errno);
    struct qkv_file file;
    enum qkv_status status = qkv_file_open(ctx, path, &file);
    if (status) return status;
    status = qkv_file_map(&file, &map);
    if (!status) status = qkv_write_file(ctx, beside, map.data, map.size);
    qkv_unmap_file(&map);
    qkv_file_close(&file);
    return status;
}

/* Gives the file at `path` the second name `name` in the run's folder, in place of what has it. */
static enum qkv_status keep_link(struct qkv_trainer *t, const char *path, const char *name) {
    char *kept = qkv_join_path(t->ctx, t->folder, name);
    char *beside = qkv_join_path(t->ctx, t->folder, ".checkpoint.keep.tmp");
    enum qkv_status status = kept && beside ? QKV_OK : QKV_MEMORY;
    if (!status && unlink(beside) != 0 && errno != ENOENT) /* of a run that was killed here */
        status = qkv_fail_file(t->ctx, "replace", beside, errno);
    if (!status) status = keep_second(t->ctx, path, beside, kept);
    if (!status && rename(beside, kept) != 0) {
        status = qkv_fail_file(t->ctx, "keep", kept, errno);
        unlink(beside);
    }
    if (!status) unlink(beside); /* is still there where both are names of one file already (POSIX, rename) */
    free(kept);
    free(beside);
    return status;
}

enum qkv_status qkv_checkpoint_keep(struct qkv_trainer *t, const char *path) {
    const int64_t step = t->saved_step;
    char name[KEEP_NAME];
    if (t->options.keep <= 1 || step <= 0 || step >= t->report.step) return QKV_OK;
    keep_name(name, step);
    return keep_link(t, path, name);
}

bool qkv_checkpoint_due(const struct qkv_trainer *t) {
    return t->report.best && t->options.keep > 1;
}

enum qkv_status qkv_checkpoint_keep_best(struct qkv_trainer *t, const char *path) {
    return qkv_checkpoint_due(t) ? keep_link(t, path, QKV_BEST_FILE) : QKV_OK;
}

/* ---- going back ------------------------------------------------------------------------------------------------- */

/* The step of a checkpoint; 0 where none can be read. */
static int64_t keep_step_of(struct qkv_context *ctx, const char *path) {
    struct qkv_tensors *file = NULL;
    if (qkv_tensors_open(ctx, path, &file)) {
        qkv_forgive(ctx); /* missing or damaged: nothing is lost when it is replaced */
        return 0;
    }
    const char *text = qkv_tensors_metadata(file, "step");
    long long step = 0;
    if (!text || sscanf(text, "%18lld", &step) != 1 || step < 0) step = 0;
    qkv_tensors_close(file);
    return step;
}

enum qkv_status qkv_checkpoint_keep_later(struct qkv_trainer *t) {
    char name[KEEP_NAME], *path = qkv_join_path(t->ctx, t->folder, QKV_CHECKPOINT_FILE);
    if (!path) return QKV_MEMORY;
    const int64_t latest = keep_step_of(t->ctx, path);
    enum qkv_status status = QKV_OK;
    keep_name(name, latest);
    if (latest > t->report.step) status = keep_link(t, path, name);
    free(path);
    t->saved_step = 0; /* what will be replaced has its second name */
    return status;
}

/* ---- too many --------------------------------------------------------------------------------------------------- */

static int keep_compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Removes the checkpoint of a step. */
static enum qkv_status keep_remove(const struct qkv_trainer *t, int64_t step) {
    char name[KEEP_NAME];
    keep_name(name, step);
    char *path = qkv_join_path(t->ctx, t->folder, name);
    if (!path) return QKV_MEMORY;
    const enum qkv_status status =
        unlink(path) != 0 && errno != ENOENT ? qkv_fail_file(t->ctx, "remove", path, errno) : QKV_OK;
    free(path);
    return status;
}

/* The steps before the latest checkpoint's of which there is one, rising. */
static enum qkv_status keep_list(const struct qkv_trainer *t, int64_t **steps, size_t *count) {
    size_t capacity = 0;
    struct dirent *entry;
    DIR *folder = opendir(t->folder);
    *steps = NULL;
    *count = 0;
    if (!folder) return qkv_fail_file(t->ctx, "read", t->folder, errno);
    while ((entry = readdir(folder))) {
        const int64_t step = keep_step(entry->d_name);
        if (step < 0 || step >= t->saved_step) continue;
        int64_t *list = qkv_list_room(t->ctx, *steps, &capacity, *count, 1, sizeof *list);
        if (!list) {
            closedir(folder);
            return QKV_MEMORY;
        }
        *steps = list;
        list[(*count)++] = step;
    }
    closedir(folder);
    if (*count) qsort(*steps, *count, sizeof **steps, keep_compare);
    return QKV_OK;
}

enum qkv_status qkv_checkpoint_prune(struct qkv_trainer *t) {
    int64_t *steps;
    size_t count;
    if (t->options.keep <= 1) return QKV_OK;
    const size_t most = (size_t)t->options.keep - 1;
    enum qkv_status status = keep_list(t, &steps, &count);
    for (size_t i = 0; i + most < count && !status; i++) status = keep_remove(t, steps[i]);
    free(steps);
    /* A run that has gone back comes to the steps of later checkpoints again: the latest replaces that of its step. A
     * checkpoint that a run goes back to keeps its name, so that the same command works again. */
    return status || t->checkpoint ? status : keep_remove(t, t->saved_step);
}
