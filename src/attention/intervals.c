/* intervals: fills a call of attention before it runs: the part that the spec decides, the positions of its queries,
 * and the keys that each query attends to. */
#include "attention/attention.h"
#include "op/steps.h"

#include <math.h>

double qkv_dropout_rate(double own, double whole) {
    return own > 0 ? own : own < 0 ? 0 : whole;
}

struct qkv_attend qkv_attend_start(const struct qkv_attention_spec *spec, const struct qkv_position_tables *tables,
                                   double dropout) {
    struct qkv_attend a = {.H = (size_t)spec->heads,
                           .Hkv = (size_t)spec->kv_heads,
                           .D = (size_t)spec->head_dim,
                           .Dv = (size_t)spec->value_dim,
                           .scale = (float)qkv_attention_scale(spec),
                           .softcap = (float)spec->softcap,
                           .dropout = (float)qkv_dropout_rate(spec->dropout, dropout)};
    if (tables) a.distance_bias = tables->distance_bias;
    return a;
}

/* The smaller of two sides of windows; -1 means all keys. */
static int64_t intervals_nearer(int64_t a, int64_t b) {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return a < b ? a : b;
}

struct qkv_mask qkv_attention_mask(const struct qkv_attention_spec *spec, const struct qkv_mask *own) {
    struct qkv_mask both = *own;
    both.causal = own->causal || spec->causal;
    if (spec->window_right > 0) {
        both.sides = true;
        both.left = intervals_nearer(own->sides ? own->left : -1, spec->window > 0 ? spec->window - 1 : -1);
        both.right = intervals_nearer(own->sides ? own->right : -1, spec->window_right - 1);
    } else if (spec->window > 0 && (own->window == 0 || own->window > spec->window)) {
        both.window = spec->window;
    }
    return both;
}

const int32_t *qkv_sequence_positions(struct qkv_tape *tape, size_t B, size_t T, size_t first) {
    int32_t *positions = qkv_tape_take(tape, B * T, sizeof *positions);
    if (positions)
        qkv_tape_failed(tape,
                        QKV_STEP(tape->ctx, positions, .out = positions, .count = B * T, .period = T, .first = first));
    return positions;
}

/* The costs of a plan, which knows no lengths and documents, are those of full rows. */
static double intervals_planned_pairs(const struct qkv_mask *mask, int64_t chunk) {
    struct qkv_mask row = *mask;
    row.B = 1;
    row.lengths = row.starts = row.key_documents = NULL;
    return (double)mask->B * qkv_mask_pairs(&row, chunk);
}

void qkv_sequence_intervals(struct qkv_tape *tape, const struct qkv_mask *mask, int64_t chunk,
                            struct qkv_call_rows rows, struct qkv_attend *a) {
    const struct qkv_rows *queries = rows.queries && rows.queries->ragged ? rows.queries : NULL;
    const struct qkv_rows *keys = rows.keys && rows.keys->ragged ? rows.keys : NULL;
    const size_t N = queries ? queries->N : mask->B * mask->Tq;
    int32_t *lo = qkv_tape_take(tape, N, sizeof *lo), *hi = qkv_tape_take(tape, N, sizeof *hi);
    a->B = mask->B, a->Tq = mask->Tq, a->Tk = mask->Tk;
    a->q_start = queries ? queries->start : NULL, a->k_start = keys ? keys->start : NULL;
    a->q_rows = queries ? queries->N : 0, a->k_rows = keys ? keys->N : 0;
    a->lo = lo, a->hi = hi;
    a->pairs = tape->costs ? intervals_planned_pairs(mask, chunk) : 0;
    if (lo && hi)
        qkv_tape_failed(tape, QKV_STEP(tape->ctx, intervals, .lo = lo, .hi = hi, .mask = mask, .chunk = chunk,
                                       .place = queries ? queries->place : NULL, .N = N));
}
