/* profile: the rows and their clock. */
#include "base/profile.h"

#include <string.h>

void qkv_profile_start(struct qkv_profile *profile) {
    profile->latest = qkv_clock();
}

static struct qkv_profile_row *profile_find(struct qkv_profile *p, const char *name,
                                            enum qkv_profile_direction direction) {
    for (size_t i = 0; i < p->count; i++) {
        struct qkv_profile_row *row = &p->rows[i];
        if (row->direction == direction && (row->name == name || strcmp(row->name, name) == 0)) return row;
    }
    if (p->count == QKV_PROFILE_ROWS) return &p->rows[QKV_PROFILE_ROWS - 1];
    struct qkv_profile_row *row = &p->rows[p->count++];
    *row = (struct qkv_profile_row){.name = name, .direction = direction};
    return row;
}

void qkv_profile_lap(struct qkv_context *ctx, const char *name, enum qkv_profile_direction direction, double flops,
                     double bytes) {
    struct qkv_profile *p = ctx->profile;
    if (!p) return;
    double time = qkv_clock();
    struct qkv_profile_row *row = profile_find(p, name, direction);
    row->calls++;
    row->seconds += time - p->latest;
    row->flops += flops;
    row->bytes += bytes;
    p->latest = time;
}
