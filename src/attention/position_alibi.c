/* ALiBi (Press et al. 2022): −slope[h]·|i − j| is added to the scores. Slopes are 2^(−8k/H), k = 1…H, if H is a power
 * of two; otherwise those of the power of two below H, then every other one of the power of two above. MPT has
 * 2^(−max·k/P) with P the power of two at or above H; if P is not H, every second of them comes first. Falcon has the
 * paper's slopes, rounded to bf16, and multiplies the bias by 1/sqrt(D), as it does scores. Trainable slopes begin with
 * these. */
#include "attention/attention.h"
#include "base/math.h"

static double alibi_press(size_t h, size_t H) {
    size_t power = 1;
    while (power * 2 <= H) {
        power *= 2;
    }
    double k = h < power ? (double)(h + 1) : (double)(h - power) + 0.5;
    return -8 * k / (double)power;
}

static double alibi_mpt(size_t h, size_t H, double max) {
    size_t power = 1;
    while (power < H) {
        power *= 2;
    }
    size_t k = h;
    if (power != H) k = h < power / 2 ? 2 * h + 1 : 2 * (h - power / 2);
    return -max * (double)(k + 1) / (double)power;
}

float qkv_alibi_slope(const struct qkv_position_spec *position, size_t h, size_t H) {
    if (position->form == QKV_ALIBI_MPT) return (float)qkv_pow(2, alibi_mpt(h, H, position->max));
    float slope = (float)qkv_pow(2, alibi_press(h, H));
    if (position->form == QKV_ALIBI_FALCON) {
        uint16_t half;
        qkv_from_float(&half, &slope, QKV_BF16, 1);
        qkv_to_float(&slope, &half, QKV_BF16, 1);
    }
    return slope;
}

/* The factor of distances. */
static float alibi_factor(const struct qkv_position_fill *fill) {
    if (fill->position->form != QKV_ALIBI_FALCON) return 1;
    return (float)(1 / sqrt((double)fill->attention->head_dim));
}

struct alibi {
    const struct qkv_position_spec *position;
    float factor;
    size_t H, row, zero;
};

static float alibi_distance(const struct alibi *a, size_t d) {
    return (float)(d < a->zero ? a->zero - d : d - a->zero);
}

static void alibi_head(const void *of, size_t h, void *out) {
    const struct alibi *a = of;
    const float slope = qkv_alibi_slope(a->position, h, a->H) * a->factor;
    float *bias = out;
    for (size_t d = 0; d < a->row; d++) bias[d] = -slope * alibi_distance(a, d);
}

static void alibi_distance_factor(const void *of, size_t d, void *out) {
    const struct alibi *a = of;
    *(float *)out = -a->factor * alibi_distance(a, d);
}

enum qkv_status qkv_position_alibi(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    const struct alibi a = {.position = fill->position,
                            .factor = alibi_factor(fill),
                            .H = (size_t)fill->attention->heads,
                            .row = 2 * fill->context - 1,
                            .zero = fill->context - 1};
    if (fill->position->learn) {
        const float *factors =
            qkv_table_make(fill->ctx, fill->arena, a.row, sizeof *factors, alibi_distance_factor, &a);
        /* fresh memory is zero: all heads use the one row */
        const int32_t *rows = factors ? qkv_arena_take(fill->arena, a.row, sizeof *rows) : NULL;
        if (!rows) return QKV_MEMORY;
        tables->map = (struct qkv_distance_map){.rows = rows, .factors = factors};
        tables->context = fill->context;
        return QKV_OK;
    }
    const float *bias = qkv_table_make(fill->ctx, fill->arena, a.H, a.row * sizeof *bias, alibi_head, &a);
    if (!bias) return QKV_MEMORY;
    tables->distance_bias = (struct qkv_distance_bias){.table = bias, .row = a.row, .zero = a.zero};
    return QKV_OK;
}
