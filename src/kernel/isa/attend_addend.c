/* attend_addend.c: the gradient of attention_bias, dA = P∘(dP − delta), summed over the dimensions that it is broadcast
 * over; P, dP and delta as in attend_backward.c.
 *
 * One item owns a block of keys of one distinct batch row and head of attention_bias, and walks over all the rows that
 * share its elements, always in the same order. Tiles are summed in scratch, block by block, before the result is
 * written. In a ragged call, sequences with fewer rows or keys add nothing to elements that they do not reach. */
#include "kernel/isa/attend_backward.h"

/* sum (count,KEYS), or (KEYS) if rows share their elements, += dS of the rows i0… of a head for the block of keys. */
static void add_head(struct backward *f, size_t block, size_t b, size_t h, size_t i0, size_t count, bool shared) {
    const size_t n = h / f->plan->group;
    if (!f->packed || f->b != b || f->n != n) QKV_K(attend_backward_keys)(f, b, n, block);
    struct span all = QKV_K(attend_backward_rows)(f, h % f->plan->group * f->a->Tq + i0, count);
    if (!all.end) return;
    float part[KEYS];
    memset(part, 0, sizeof part);
    for (size_t r = 0; r < count; r++) {
        const struct span cover = f->covers[r / TILE];
        if (r % TILE == 0) QKV_K(attend_tile_gradients)(f, r, count - r < TILE ? count - r : TILE);
        float *to = shared ? part : f->sum + r * KEYS;
        for (size_t j = cover.begin / W * W; j < cover.end; j += W)
            vf_store(to + j, vf_add(vf_load(to + j), vf_load(f->ds + r * KEYS + j)));
    }
    for (size_t j = 0; shared && j < KEYS; j += W) vf_store(f->sum + j, vf_add(vf_load(f->sum + j), vf_load(part + j)));
}

/* Moves to batch row b, which is a call of its own in a ragged call; returns its number there. */
static size_t to_sequence(struct backward *f, const struct qkv_attend_plan *whole, size_t b,
                          struct qkv_attend_sequence *own) {
    if (!qkv_attend_is_ragged(whole->a)) return b;
    qkv_attend_sequence_of(whole, b, own);
    f->plan = &own->plan, f->a = &own->a, f->packed = false;
    return 0;
}

void QKV_K(attend_addend)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_pairs *pairs = &a->attention_bias_strides;
    size_t block = item % plan->key_blocks, heads = pairs->head_stride ? a->H : 1;
    size_t h0 = item / plan->key_blocks % heads, b0 = item / plan->key_blocks / heads;
    size_t h1 = pairs->head_stride ? h0 + 1 : a->H, b1 = pairs->batch_stride ? b0 + 1 : a->B;
    bool shared = pairs->row_stride == 0;
    const size_t key = block * KEYS, there = a->Tk - pairs->missing;
    const size_t keys = there <= key ? 0 : there - key < KEYS ? there - key : KEYS;
    struct backward f;
    struct qkv_attend_sequence own;
    if (!keys) return;
    QKV_K(attend_backward_start)(&f, plan, scratch);
    f.packed = false, f.b = f.n = SIZE_MAX;
    f.of_score = true, f.plain = false, f.wants_k = false;
    float *out = plan->g->dattention_bias + pairs_at(pairs, b0, h0, 0) + key;
    if (shared) memset(f.sum, 0, KEYS * sizeof(float));
    for (size_t i0 = 0; i0 < a->Tq; i0 += plan->block) {
        size_t count = a->Tq - i0 < plan->block ? a->Tq - i0 : plan->block;
        if (!shared) memset(f.sum, 0, count * KEYS * sizeof(float));
        for (size_t b = b0; b < b1; b++) {
            const size_t at = to_sequence(&f, plan, b, &own), rows = f.a->Tq > i0 ? f.a->Tq - i0 : 0;
            for (size_t h = h0; h < h1 && rows && key < f.a->Tk; h++)
                add_head(&f, block, at, h, i0, count < rows ? count : rows, shared);
        }
        for (size_t r = 0; !shared && r < count; r++) {
            const struct cells to = {out + (i0 + r) * pairs->row_stride, QKV_F32};
            put_cells(to, plan->g->accumulate, f.sum + r * KEYS, keys);
        }
    }
    if (shared) put_cells((struct cells){out, QKV_F32}, plan->g->accumulate, f.sum, keys);
}
