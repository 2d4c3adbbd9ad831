/* cpu_indices: steps that compute indices: positions, rows, intervals of keys. */
#include "backend/backends.h"

enum qkv_status qkv_cpu_positions(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_positions *p = call;
    (void)ctx;
    for (size_t n = 0; n < p->count; n++) p->out[n] = (int32_t)(p->first + n % p->period);
    return QKV_OK;
}

enum qkv_status qkv_cpu_rows(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_rows *r = call;
    (void)ctx;
    size_t n = 0;
    for (size_t b = 0; b < r->B; b++) {
        r->start[b] = (int32_t)n;
        const int32_t *documents = r->documents ? r->documents + b * r->T : NULL;
        for (size_t t = 0, first = 0; t < (r->lengths ? (size_t)r->lengths[b] : r->T); t++, n++) {
            if (documents && t && documents[t] != documents[t - 1]) first = t;
            r->place[n] = (int32_t)(b * r->T + t), r->position[n] = (int32_t)(t - first);
        }
    }
    r->start[r->B] = (int32_t)n;
    return QKV_OK;
}

enum qkv_status qkv_cpu_pick(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_pick *p = call;
    (void)ctx;
    for (size_t n = 0; n < p->count; n++) p->out[n] = p->values[p->index[n]];
    return QKV_OK;
}
