/* cpu_indices: steps that compute indices: positions, rows, intervals of keys. */
#include "backend/backend.h"

enum qkv_status qkv_cpu_positions(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_positions *p = call;
    (void)ctx;
    for (size_t n = 0; n < p->count; n++) p->out[n] = (int32_t)(p->first + n % p->period);
    return QKV_OK;
}
