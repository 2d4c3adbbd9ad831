/* checkpoint_keep: earlier checkpoints of a run (option keep). What checkpoint.safetensors was gets a second name,
 * checkpoint-STEP.safetensors, before it is replaced, so keeping it costs no copy. Files of steps that the run has not come to (again)
 * are nobody's business here: they stay. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/train.h"

enum { KEEP_NAME = 64 };

static void keep_name(char name[KEEP_NAME], int64_t step) {
    snprintf(name, KEEP_NAME, "checkpoint-%lld.safetensors", (long long)step);
}

/* The step in a name, -1 for names of other things. */
static int64_t keep_step(const char *name) {
    char again[KEEP_NAME];
    long long step = -1;
    if (sscanf(name, "checkpoint-%18lld", &step) != 1 || step < 0) return -1;
    keep_name(again, step);
    return strcmp(name, again) == 0 ? step : -1;
}

enum qkv_status qkv_checkpoint_keep(struct qkv_trainer *t, const char *path) {
    const int64_t step = t->saved_step;
    char name[KEEP_NAME];
    if (t->options.keep <= 1 || step <= 0 || step >= t->report.step) return QKV_OK;
    keep_name(name, step);
    char *kept = qkv_join_path(t->ctx, t->folder, name);
    if (!kept) return QKV_MEMORY;
    enum qkv_status status = QKV_OK;
    if (unlink(kept) != 0 && errno != ENOENT) status = qkv_fail_file(t->ctx, "replace", kept, errno);
    if (!status && link(path, kept) != 0) {
        const int error = errno;
        status = error == EPERM
                     ? qkv_fail(t->ctx, QKV_FILE,
                                "%s cannot be kept: this file system has no second names for files; go on with "
                                "--keep 1",
                                kept)
                     : qkv_fail_file(t->ctx, "keep", kept, error);
    }
    free(kept);
    return status;
}

static int keep_compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
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
    char name[KEEP_NAME];
    if (t->options.keep <= 1) return QKV_OK;
    const size_t most = (size_t)t->options.keep - 1;
    enum qkv_status status = keep_list(t, &steps, &count);
    for (size_t i = 0; i + most < count && !status; i++) {
        keep_name(name, steps[i]);
        char *path = qkv_join_path(t->ctx, t->folder, name);
        if (!path)
            status = QKV_MEMORY;
        else if (unlink(path) != 0 && errno != ENOENT)
            status = qkv_fail_file(t->ctx, "remove", path, errno);
        free(path);
    }
    free(steps);
    return status;
}
