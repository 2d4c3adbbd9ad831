/* profile: where the time of a stretch of work goes, row by row.
 *
 * There is one clock: each lap gives the time since the lap before it to a row, so rows add up to the whole and no scope needs
 * an end. A context without a profile (the normal case) only tests a pointer. */
#ifndef QKV_PROFILE_H
#define QKV_PROFILE_H

#include "base/base.h"

enum { QKV_PROFILE_ROWS = 64 };
struct qkv_profile {
    /* in the order they were first met; the last takes what does not fit */
    struct qkv_profile_row rows[QKV_PROFILE_ROWS];
    size_t count;
    double latest; /* the clock at the latest lap */
};

/* Starts the clock, without a lap: what was before is nobody's. */
void qkv_profile_start(struct qkv_profile *profile);
/* The time since the lap before goes to the row of that name (which must live as long as the profile) and direction, with the
 * work done in it. Nothing without a profile, and in a dry run. */
void qkv_profile_lap(struct qkv_context *ctx, const char *name, enum qkv_profile_direction direction, double flops,
                     double bytes);

#endif
