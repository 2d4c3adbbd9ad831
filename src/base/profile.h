/* profile: where the time of some work goes, by rows.
 *
 * There is one clock. Each lap adds the time since the previous lap to a row, so the rows add up to the whole, and no
 * scope needs an end. A context without a profile (the normal case) only tests a pointer. */
#ifndef QKV_PROFILE_H
#define QKV_PROFILE_H

#include "base/base.h"

enum { QKV_PROFILE_ROWS = 64 };
struct qkv_profile {
    /* in the order of their first lap; the last row collects what does not fit */
    struct qkv_profile_row rows[QKV_PROFILE_ROWS];
    size_t count;
    double latest; /* the clock at the latest lap */
};

/* Starts the clock without a lap: the time before it is in no row. */
void qkv_profile_start(struct qkv_profile *profile);
/* Adds the time since the previous lap, and the work done in it, to the row of that name and direction. The name must
 * live as long as the profile. Does nothing without a profile; a context that plans has none. */
void qkv_profile_lap(struct qkv_context *ctx, const char *name, enum qkv_profile_direction direction, double flops,
                     double bytes);

#endif
