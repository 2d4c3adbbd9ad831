/* schedule: the learning rate of a step, and the seams where a run got a new end. */
#ifndef QKV_TRAIN_SCHEDULE_H
#define QKV_TRAIN_SCHEDULE_H

#include "base/base.h"

/* ---- learning rate (schedule.c, seams.c) ------------------------------------------------------------------------ */

/* A place where the run got a new end, and what the rate does from there on (seams.c). */
struct qkv_seam {
    int64_t step, end; /* steps done when that was, at least 1; the new number of steps */
    enum qkv_extend extend;
};
struct qkv_seams { /* {0}: none */
    struct qkv_seam *items;
    size_t count, capacity;
    int64_t first_end; /* the number of steps before the first seam */
};
/* The rate of step s, counted from 0. `seams` NULL: none. */
double qkv_learning_rate(const struct qkv_train_options *options, const struct qkv_seams *seams, int64_t s);

/* "decay", "flat", "rewarm". */
enum qkv_status qkv_extend_parse(struct qkv_context *ctx, const char *name, enum qkv_extend *extend);
const char *qkv_extend_name(enum qkv_extend extend);
/* Adds a seam; those at its step and later, behind which no step came, go. `end_before`: the number of steps until
 * then. */
enum qkv_status qkv_seams_add(struct qkv_context *ctx, struct qkv_seams *seams, int64_t end_before,
                              const struct qkv_seam *seam);
void qkv_seams_free(struct qkv_seams *seams);
/* The part of train.json: nothing for none; `steps` is the option, which the last seam agrees with. */
struct json_t;
void qkv_seams_print(struct qkv_json *json, const struct qkv_seams *seams);
enum qkv_status qkv_seams_read(struct qkv_context *ctx, const char *path, const struct json_t *root, int64_t steps,
                               struct qkv_seams *seams);

#endif
