/* checkpoint_share: the numbers of a checkpoint, each written by the rank that owns it into the one new file, at its
 * place: weights and moments as the optimizer's runs say. What no rank owns, frozen weights, rank 0 writes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/safetensors.h"
#include "model/model.h"
#include "train/train.h"

enum { SHARE_NAME = 320, SHARE_HEADER = 1 << 12, SHARE_PIECE = 1 << 24 };

struct share_file {
    struct qkv_context *ctx;
    int descriptor;
    size_t data;      /* where the first weight's numbers begin */
    const char *path; /* that messages name */
};

static enum qkv_status share_put(const struct share_file *f, const float *x, size_t count, size_t place) {
    const char *bytes = (const char *)x;
    size_t left = count * sizeof *x, at = f->data + place * sizeof *x;
    while (left) {
        qkv_rank_alive(f->ctx);
        const ssize_t n = pwrite(f->descriptor, bytes, qkv_min(left, SHARE_PIECE), (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return qkv_fail_file(f->ctx, "write", f->path, n < 0 ? errno : ENOSPC);
        bytes += n, at += (size_t)n, left -= (size_t)n;
    }
    return QKV_OK;
}

/* ---- what a rank owns ------------------------------------------------------------------------------------------- */

/* Where the numbers of weight i are among those of all arrays, and those of its moments: all weights come first, then
 * each moment of all weights that have it. */
static size_t share_places(const struct qkv_trainer *t, size_t i, size_t moments[QKV_MOMENT_COUNT]) {
    const struct qkv_weights *w = &t->model->weights;
    size_t own = 0, place = 0;
    for (size_t n = 0; n < w->count; n++) {
        if (n == i) own = place;
        place += w->list[n].rows * w->list[n].columns;
    }
    for (int k = 0; k < QKV_MOMENT_COUNT; k++)
        for (size_t n = 0; n < w->count; n++) {
            if (n == i) moments[k] = place;
            const struct qkv_array array = qkv_moment_array((enum qkv_moment)k, &w->list[n]);
            if (qkv_optimizer_keeps(t->optimizer, (enum qkv_moment)k, n)) place += qkv_array_elements(&array);
        }
    return own;
}

/* This rank's runs. */
static enum qkv_status share_put_runs(const struct qkv_trainer *t, const struct share_file *f) {
    const struct qkv_weights *w = &t->model->weights;
    size_t runs, moments[QKV_MOMENT_COUNT] = {0}, own = 0, weight = SIZE_MAX;
    const struct qkv_moment_run *run = qkv_optimizer_runs(t->optimizer, &runs);
    enum qkv_status status = QKV_OK;
    for (size_t r = 0; r < runs && !status; r++, run++) {
        const size_t count = run->end - run->begin;
        if (run->weight != weight) own = share_places(t, weight = run->weight, moments);
        status = share_put(f, run->master ? run->master : w->list[weight].data + run->begin, count, own + run->begin);
        for (int k = 0; k < QKV_MOMENT_COUNT && !status; k++)
            if (run->moments[k]) status = share_put(f, run->moments[k], count, moments[k] + run->begin);
    }
    return status;
}

/* Weights that no rank updates, or all of them. */
static enum qkv_status share_put_weights(const struct qkv_trainer *t, const struct share_file *f, bool all) {
    const struct qkv_weights *w = &t->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0, place = 0, n; i < w->count && !status; i++, place += n) {
        n = w->list[i].rows * w->list[i].columns;
        if (all || !qkv_optimizer_learns(t->optimizer, i)) status = share_put(f, w->list[i].data, n, place);
    }
    return status;
}

/* Moments that each rank has whole. */
static enum qkv_status share_put_whole(const struct qkv_trainer *t, const struct share_file *f) {
    const struct qkv_weights *w = &t->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0, places[QKV_MOMENT_COUNT]; i < w->count; i++)
        for (int k = 0; k < QKV_MOMENT_COUNT && !status; k++) {
            if (!qkv_moment_whole((enum qkv_moment)k) || !qkv_optimizer_keeps(t->optimizer, (enum qkv_moment)k, i))
                continue;
            const struct qkv_array array = qkv_moment_array((enum qkv_moment)k, &w->list[i]);
            const float *moment = qkv_optimizer_moment(t->optimizer, (enum qkv_moment)k, i);
            share_places(t, i, places);
            status = share_put(f, moment, qkv_array_elements(&array), places[k]);
        }
    return status;
}

static enum qkv_status share_close(struct share_file *f, enum qkv_status status) {
    if (f->descriptor < 0) return status;
    if (!status && fsync(f->descriptor) != 0) status = qkv_fail_file(f->ctx, "write", f->path, errno);
    if (close(f->descriptor) != 0 && !status) status = qkv_fail_file(f->ctx, "write", f->path, errno);
    return status;
}

/* ---- by all ranks ----------------------------------------------------------------------------------------------- */

/* What rank 0 tells of the file: others know it again by how it begins. */
struct share_card {
    char name[SHARE_NAME]; /* in the run's folder */
    uint64_t data, hash;
};

/* Of the first bytes; false: they cannot be read. */
static bool share_hash(int descriptor, size_t data, uint64_t *hash) {
    char bytes[SHARE_HEADER];
    const size_t n = qkv_min(data, sizeof bytes);
    if (pread(descriptor, bytes, n, 0) != (ssize_t)n) return false;
    *hash = qkv_hash(0, bytes, n);
    return true;
}

static enum qkv_status share_open(struct qkv_trainer *t, const char *path, const struct share_card *card,
                                  struct share_file *f) {
    uint64_t hash = 0;
    f->data = card->data;
    f->descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (f->descriptor < 0 && errno != ENOENT) return qkv_fail_file(t->ctx, "write", f->path, errno);
    if (f->descriptor >= 0 && share_hash(f->descriptor, f->data, &hash) && (!card->hash || hash == card->hash))
        return QKV_OK;
    return qkv_fail(t->ctx, QKV_FILE,
                    "%s is not the folder that rank 0 writes to, so a checkpoint cannot be written there; put the run "
                    "where all hosts see it under one path",
                    t->folder);
}

static enum qkv_status share_tell(struct qkv_trainer *t, const char *temporary, size_t data, struct share_card *card) {
    const char *slash = temporary ? strrchr(temporary, '/') : NULL;
    *card = (struct share_card){.data = data};
    if (!temporary) return QKV_OK;
    const int file = open(temporary, O_RDONLY | O_CLOEXEC);
    const bool read = file >= 0 && share_hash(file, data, &card->hash);
    if (file >= 0) close(file);
    if (!read) return qkv_fail_file(t->ctx, "read", temporary, errno);
    snprintf(card->name, sizeof card->name, "%s", slash ? slash + 1 : temporary);
    return QKV_OK;
}

enum qkv_status qkv_checkpoint_write_shares(struct qkv_trainer *t, const char *temporary, size_t data) {
    struct share_card card;
    struct share_file f = {.ctx = t->ctx, .descriptor = -1};
    char *shown = qkv_join_path(t->ctx, t->folder, QKV_CHECKPOINT_FILE);
    enum qkv_status status = shown ? share_tell(t, temporary, data, &card) : QKV_MEMORY;
    status = qkv_rank_agree(t->ctx, status);
    if (!status) status = qkv_rank_broadcast(t->ctx, &card, sizeof card);
    if (status) {
        free(shown);
        return status;
    }
    f.path = shown;
    card.name[sizeof card.name - 1] = 0;
    char *path = temporary ? qkv_copy_string(t->ctx, temporary) : qkv_join_path(t->ctx, t->folder, card.name);
    status = path ? share_open(t, path, &card, &f) : QKV_MEMORY;
    if (!status && temporary) status = share_put_weights(t, &f, false);
    if (!status && temporary) status = share_put_whole(t, &f);
    if (!status) status = share_put_runs(t, &f);
    status = share_close(&f, status);
    free(path);
    free(shown);
    return qkv_rank_agree(t->ctx, status);
}

/* ---- by rank 0 alone -------------------------------------------------------------------------------------------- */

/* All moments of another checkpoint of the run. */
static enum qkv_status share_copy_moments(struct qkv_trainer *t, const struct share_file *f, const char *from) {
    const struct qkv_weights *w = &t->model->weights;
    struct qkv_tensors *file = NULL;
    struct qkv_buffer name = {0};
    enum qkv_status status = qkv_tensors_open(t->ctx, from, &file);
    for (int k = 0; k < QKV_MOMENT_COUNT; k++) {
        for (size_t i = 0, places[QKV_MOMENT_COUNT]; i < w->count && !status; i++) {
            const struct qkv_array own = qkv_moment_array((enum qkv_moment)k, &w->list[i]);
            const size_t n = qkv_array_elements(&own);
            if (!qkv_optimizer_keeps(t->optimizer, (enum qkv_moment)k, i)) continue;
            name.size = 0;
            status =
                qkv_buffer_print(t->ctx, &name, "%s.%s", qkv_moment_name((enum qkv_moment)k), w->list[i].array.name);
            const struct qkv_array *array = status ? NULL : qkv_tensors_find(file, name.data);
            if (!status && (!array || array->dtype != QKV_F32 || qkv_array_elements(array) != n))
                status = qkv_fail(t->ctx, QKV_FORMAT, "%s has no tensor %s of this model", from, name.data);
            float *numbers = status ? NULL : qkv_allocate(t->ctx, n, sizeof *numbers);
            if (!status && !numbers) status = QKV_MEMORY;
            if (!status) status = qkv_tensors_floats(file, array, numbers);
            share_places(t, i, places);
            if (!status) status = share_put(f, numbers, n, places[k]);
            free(numbers);
        }
    }
    qkv_buffer_free(&name);
    qkv_tensors_close(file);
    return status;
}

/* Averages of a run that has not begun are the weights. */
static enum qkv_status share_put_averages(struct qkv_trainer *t, const struct share_file *f) {
    const struct qkv_weights *w = &t->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0, places[QKV_MOMENT_COUNT]; i < w->count && !status; i++) {
        if (!qkv_optimizer_keeps(t->optimizer, QKV_MOMENT_AVERAGE, i)) continue;
        share_places(t, i, places);
        status = share_put(f, w->list[i].data, w->list[i].rows * w->list[i].columns, places[QKV_MOMENT_AVERAGE]);
    }
    return status;
}

enum qkv_status qkv_checkpoint_write_all(struct qkv_trainer *t, const char *temporary, size_t data, const char *from) {
    struct share_file f = {.ctx = t->ctx, .data = data, .path = temporary};
    f.descriptor = open(temporary, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    enum qkv_status status = f.descriptor < 0 ? qkv_fail_file(t->ctx, "write", temporary, errno) : QKV_OK;
    if (!status) status = share_put_weights(t, &f, true);
    if (!status) status = from ? share_copy_moments(t, &f, from) : share_put_averages(t, &f);
    return share_close(&f, status);
}
