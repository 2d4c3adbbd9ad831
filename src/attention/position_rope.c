/* Rotary positions (Su et al. 2021): pair p of a head is rotated by t·theta^(−2p/R) at position t, R = the rotated
 * channels 2·⌊D·fraction/2⌋ (a fraction below 1 as in GPT-NeoX), or by the angle of a scaling (position_scaling.c). The
 * table (context, R/2, 2) holds cosine and sine. */
#include "attention/attention.h"

struct rope {
    float *table;
    size_t pairs;
    struct qkv_turn_rule rule;
};

static void fill_position(void *argument, size_t t, int thread) {
    (void)thread;
    const struct rope *r = argument;
    qkv_rotation_row(&r->rule, t, r->pairs, r->table + t * r->pairs * 2);
}

/* For sequences of `length` positions. */
static enum qkv_status rope_fill(const struct qkv_position_fill *fill, size_t length, struct rope *r) {
    const struct qkv_position_spec *spec = fill->position;
    double *frequencies = NULL;
    r->rule = (struct qkv_turn_rule){.base = qkv_rotation_base(spec, length, r->pairs),
                                     .factor = qkv_rotation_factor(spec, fill->context)};
    if (qkv_rotation_is_listed(spec)) {
        frequencies = qkv_arena_take(fill->arena, r->pairs, sizeof *frequencies);
        if (!frequencies) return QKV_MEMORY;
        if (!fill->arena->measuring) qkv_rotation_frequencies(spec, length, r->pairs, frequencies);
        r->rule.frequencies = frequencies;
    }
    if (!fill->arena->measuring) qkv_parallel(fill->ctx, fill->context, fill_position, r);
    return QKV_OK;
}

enum qkv_status qkv_position_rope(const struct qkv_position_fill *fill, struct qkv_position_tables *tables) {
    const struct qkv_position_spec *spec = fill->position;
    const bool by_length = qkv_scaling_by_length(spec);
    const size_t context = fill->context, tables_made = by_length && spec->scaling.kind == QKV_SCALING_LONGROPE ? 2 : 1;
    struct rope r = {.pairs = qkv_rotation_pairs(spec, qkv_attention_turned(fill->attention))};
    r.table = qkv_arena_take(fill->arena, tables_made * context * r.pairs * 2, sizeof(float));
    if (!r.table) return QKV_MEMORY;
    tables->rotate = r.table;
    tables->pairs = r.pairs;
    tables->context = context;
    tables->interleaved = spec->pairing == QKV_PAIRING_INTERLEAVED;
    tables->by_length = by_length ? spec : NULL;
    enum qkv_status status = rope_fill(fill, 0, &r);
    if (status || tables_made == 1) return status;
    r.table += context * r.pairs * 2;
    return rope_fill(fill, (size_t)spec->scaling.original_context + 1, &r);
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
