/* Rotary positions (Su et al. 2021): pair p of a head turns by t·theta^(−2p/R) at position t, R = the rotated channels
 * 2·⌊D·fraction/2⌋ (a fraction below 1 as in GPT-NeoX). The table (context, R/2, 2) holds cosine and sine. */
#include "attention/attention.h"

struct rope {
    float *table;
    size_t pairs;
    double theta;
};

static void fill_position(void *argument, size_t t, int thread) {
    (void)thread;
    const struct rope *r = argument;
    qkv_rotation_row(r->theta, t, r->pairs, r->table + t * r->pairs * 2);
}

enum qkv_status qkv_position_rope(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    const struct qkv_position_spec *spec = fill->position;
    size_t context = fill->context;
    struct rope r = {.theta = spec->theta, .pairs = (size_t)(fill->attention->head_dim * spec->fraction / 2)};
    r.table = qkv_arena_take(fill->arena, context * r.pairs * 2, sizeof(float));
    if (!r.table) {
        return QKV_MEMORY;
    }
    qkv_parallel(fill->ctx, context, fill_position, &r);
    tables->rotate = r.table;
    tables->pairs = r.pairs;
    tables->interleaved = spec->pairing == QKV_PAIRING_INTERLEAVED;
    return QKV_OK;
}

enum qkv_status qkv_rotation_check(struct qkv_context *ctx, const char *name, const char *where, double fraction,
                                   const char *head, int head_dim) {
    if (head_dim * fraction / 2 >= 1) return QKV_OK;
    return qkv_fail(ctx, QKV_SPEC,
                    "%s: %sposition.fraction is %.9g, which rotates none of the %d channels of %shead_dim (two of them "
                    "need a fraction of at least %.4g)",
                    name, where, fraction, head_dim, head, 2.0 / head_dim);
}
