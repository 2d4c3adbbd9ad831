/* ALiBi (Press et al. 2022): −slope[h]·|i − j| is added to the scores. Slopes are 2^(−8k/H), k = 1…H, for H a power of two;
 * otherwise those of the power of two below, then every other one of the power of two above. */
#include "attention/attention.h"

#include <math.h>

float qkv_alibi_slope(size_t h, size_t H) {
    size_t power = 1;
    while (power * 2 <= H) {
        power *= 2;
    }
    double k = h < power ? (double)(h + 1) : (double)(h - power) + 0.5;
    return (float)pow(2, -8 * k / (double)power);
}

struct alibi {
    float *bias;
    size_t H, row, zero;
};

static void fill_head(void *argument, size_t h, int thread) {
    (void)thread;
    const struct alibi *a = argument;
    float slope = qkv_alibi_slope(h, a->H);
    for (size_t d = 0; d < a->row; d++) {
        size_t distance = d < a->zero ? a->zero - d : d - a->zero;
        a->bias[h * a->row + d] = -slope * (float)distance;
    }
}

enum qkv_status qkv_position_alibi(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    size_t context = fill->context;
    struct alibi a = {.H = (size_t)fill->attention->heads, .row = 2 * context - 1, .zero = context - 1};
    a.bias = qkv_arena_take(fill->arena, a.H * a.row, sizeof(float));
    if (!a.bias) {
        return QKV_MEMORY;
    }
    qkv_parallel(fill->ctx, a.H, fill_head, &a);
    tables->distance_bias = (struct qkv_distance_bias){.table = a.bias, .row = a.row, .zero = a.zero};
    return QKV_OK;
}
