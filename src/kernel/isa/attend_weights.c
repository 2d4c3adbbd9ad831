/* attend_weights.c: rows of softmax weights, exp(score − lse), for looking at; 0 outside a row's interval. */
#include "kernel/isa/attend_score.h"

enum { KEYS = 64 };

size_t QKV_K(attend_weights_scratch)(const struct qkv_attend_plan *plan) {
    size_t line = QKV_CACHE_LINE / sizeof(float);
    return padded(plan->block * plan->a->D, line) + KEYS * plan->a->D + TILE * KEYS;
}

/* The scores of one row in a block of keys become weights; they go to `to`, which has `keys` places. */
static void row_out(const struct qkv_attend *a, const struct row *row, size_t key, struct span span, const float *x,
                    float *to, size_t keys) {
    const vf lse = vf_set(a->lse[row->at]);
    for (size_t j = 0; j < keys; j += W) {
        vf p = vf_zero();
        if (j < span.end && j + W > span.begin)
            p = vf_select(lanes_inside(span, j), weight(score(a, row, key, j, span, vf_load(x + j), NULL), lse), p);
        store_row(to + j, p, keys - j);
    }
}

void QKV_K(attend_weights)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    size_t r0 = item * plan->block, count = plan->count - r0 < plan->block ? plan->count - r0 : plan->block;
    float *q = scratch, *k = q + padded(plan->block * a->D, QKV_CACHE_LINE / sizeof(float)), *s = k + KEYS * a->D;
    struct row rows[QKV_ATTEND_ROWS];
    struct span spans[QKV_ATTEND_ROWS];
    for (size_t r = 0; r < count; r++) {
        rows[r] = row_of(a, plan->batch, plan->head, plan->first + r0 + r);
        if (a->lse[rows[r].at] == -INFINITY) rows[r].lo = rows[r].hi = 0;
        memcpy(q + r * a->D, heads_at(&a->q, rows[r].b, rows[r].i, rows[r].h), a->D * sizeof(float));
    }
    for (size_t key = 0; key < a->Tk; key += KEYS) {
        size_t keys = a->Tk - key < KEYS ? a->Tk - key : KEYS;
        struct span all = spans_of(rows, count, key, keys, spans);
        if (all.end)
            pack_panels(k, heads_at(&a->k, plan->batch, key, plan->head / plan->group), a->k.row_stride, all.begin,
                        all.end, a->D, (struct soon){0});
        for (size_t r = 0; r < count; r++) {
            for (size_t j = spans[r].begin / PANEL * PANEL; j < spans[r].end; j += PANEL)
                QKV_K(attend_tiles)(1, PANEL, FRESH, s + j, KEYS, NULL, q + r * a->D, 0, 1, k + j * a->D, PANEL, a->D);
            row_out(a, &rows[r], key, spans[r], s, plan->weights + (r0 + r) * a->Tk + key, keys);
        }
    }
}
