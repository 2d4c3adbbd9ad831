/* Rotary positions (Su et al. 2021): pair p of a head is rotated by t·theta^(−2p/R) at position t, R = the rotated
 * channels 2·⌊D·fraction/2⌋ (a fraction below 1 as in GPT-NeoX), or by the angle of a scaling (position_scaling.c). The
 * table (context, R/2, 2) holds cosine and sine. */
#include <stdlib.h>

#include "attention/attention.h"

struct rope {
    size_t context, pairs;
    struct qkv_turn_rule rules[2]; /* of the first table, and of longrope's second one */
};

static void rope_row(const void *of, size_t n, void *row) {
    const struct rope *r = of;
    qkv_rotation_row(&r->rules[n / r->context], n % r->context, r->pairs, row);
}

enum qkv_status qkv_position_rope(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    const struct qkv_position_spec *spec = fill->position;
    const bool by_length = qkv_scaling_by_length(spec);
    const size_t context = fill->context, pairs = qkv_rotation_pairs(spec, qkv_attention_rotated(fill->attention));
    const size_t count = by_length && spec->scaling.kind == QKV_SCALING_LONGROPE ? 2 : 1;
    const size_t lengths[2] = {0, (size_t)spec->scaling.original_context + 1};
    struct rope r = {.context = context, .pairs = pairs};
    double *frequencies = qkv_allocate(fill->ctx, count, pairs * sizeof *frequencies);
    if (!frequencies) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++)
        r.rules[i] = qkv_turn_rule_of(spec, lengths[i], context, pairs, frequencies + i * pairs);
    tables->rotate = qkv_table_make(fill->ctx, fill->arena, count * context, pairs * 2 * sizeof(float), rope_row, &r);
    free(frequencies);
    tables->pairs = pairs;
    tables->context = context;
    tables->interleaved = spec->pairing == QKV_PAIRING_INTERLEAVED;
    tables->by_length = by_length ? spec : NULL;
    return tables->rotate ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_rotation_check(struct qkv_context *ctx, const char *name, const char *where,
                                   const struct qkv_position_spec *position, const char *head, int width) {
    const double fraction = position->fraction;
    if (width * fraction / 2 >= 1)
        return qkv_scaling_check(ctx, name, where, position, qkv_rotation_pairs(position, width));
    if (fraction == 1)
        return qkv_fail(ctx, QKV_SPEC, "%s: %s is %d, but rotations turn pairs of channels; it must be at least 2",
                        name, head, width);
    return qkv_fail(ctx, QKV_SPEC,
                    "%s: %sposition.fraction is %.9g, which rotates none of the %d channels of %s (two of them "
                    "need a fraction of at least %.4g)",
                    name, where, fraction, width, head, 2.0 / width);
}
