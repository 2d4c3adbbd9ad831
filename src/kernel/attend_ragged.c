/* attend_ragged.c: turns one sequence of a ragged call into a call of its own. The driver cuts all sequences like the
 * longest one; kernels then see a batch of one sequence, whose arrays begin at that sequence's rows. */
#include "kernel/isa/attend.h"

static size_t ragged_count(const int32_t *start, size_t b, size_t longest) {
    return start ? (size_t)(start[b + 1] - start[b]) : longest;
}

size_t qkv_attend_queries(const struct qkv_attend *a, size_t b) {
    return ragged_count(a->q_start, b, a->Tq);
}

static size_t ragged_past(const struct qkv_attend *a, size_t b) {
    return a->pasts ? (size_t)a->pasts[b] : a->past;
}

size_t qkv_attend_keys(const struct qkv_attend *a, size_t b) {
    return ragged_past(a, b) + ragged_count(a->k_start, b, a->Tk - a->past);
}

/* Moves `x` to batch row b: to row start[b], or by the batch stride. */
static void ragged_move(struct qkv_heads *x, const int32_t *start, size_t b) {
    const size_t size = x->dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t);
    const size_t at = start ? (size_t)start[b] * x->row_stride : b * x->batch_stride;
    if (x->data) x->data = (char *)x->data + at * size;
}

/* Moves an array of pairs to row b, and ends it at its own end, which a shorter sequence may not reach. */
static void ragged_pairs(struct qkv_pairs *x, size_t whole, size_t Tk) {
    const size_t there = whole - x->missing;
    x->missing = Tk > there ? Tk - there : 0;
}

static void ragged_call(struct qkv_attend *a, size_t b) {
    const size_t row = a->q_start ? (size_t)a->q_start[b] : b * a->Tq;
    const size_t Tq = qkv_attend_queries(a, b), Tk = qkv_attend_keys(a, b), past = ragged_past(a, b);
    ragged_move(&a->q, a->q_start, b);
    ragged_move(&a->y, a->q_start, b);
    ragged_move(&a->k, a->k_start, b);
    ragged_move(&a->v, a->k_start, b);
    if (a->pages.lists) {
        a->pages.lists += b;
    } else {
        ragged_move(&a->past_k, NULL, b);
        ragged_move(&a->past_v, NULL, b);
    }
    if (a->lse) a->lse += row * a->H;
    if (a->lo) a->lo += row;
    if (a->hi) a->hi += row;
    if (a->position) a->position += row;
    if (a->mask) a->mask += b * a->mask_strides.batch_stride;
    if (a->attention_bias) a->attention_bias += b * a->attention_bias_strides.batch_stride;
    ragged_pairs(&a->mask_strides, a->Tk, Tk);
    ragged_pairs(&a->attention_bias_strides, a->Tk, Tk);
    a->B = 1, a->Tq = Tq, a->Tk = Tk, a->past = past;
    a->q_start = a->k_start = a->pasts = NULL;
}

static void ragged_gradients(struct qkv_attend_gradients *g, const struct qkv_attend *a, size_t b) {
    ragged_move(&g->dy, a->q_start, b);
    ragged_move(&g->dq, a->q_start, b);
    ragged_move(&g->dk, a->k_start, b);
    ragged_move(&g->dv, a->k_start, b);
    ragged_move(&g->dpast_k, NULL, b);
    ragged_move(&g->dpast_v, NULL, b);
    if (g->dlse) g->dlse += (a->q_start ? (size_t)a->q_start[b] : b * a->Tq) * a->H;
    if (g->ddistance_bias) g->ddistance_bias += b * a->H * a->distance_bias.row;
    if (g->dsinks) g->dsinks += b * a->H;
}

/* Moves to sequence b's part of the driver's memory. Every sequence has as much memory as the longest. */
static void ragged_memory(struct qkv_attend_plan *p, size_t b) {
    const size_t head = b * p->a->Hkv, first = p->a->q_start ? (size_t)p->a->q_start[b] : b * p->a->Tq;
    const size_t units = head * p->blocks, parts = head * p->shares;
    if (p->sums) p->sums += units * p->pieces * p->sums_floats;
    if (p->delta) p->delta += first * p->a->H;
    if (p->norm) p->norm += first * p->a->H;
    if (p->packed_keys) p->packed_keys += head * p->key_blocks * p->keys_bytes;
    if (p->distances) p->distances += b * p->distance_shares * p->a->H * p->a->distance_bias.row;
    if (p->apart) return;
    if (p->partial) p->partial += parts * p->partial_rows * p->partial_columns;
    if (p->touched) p->touched += parts * p->blocks;
    if (p->packed_rows) p->packed_rows += units * p->rows_bytes;
}

static size_t ragged_divide(size_t a, size_t b) {
    return b ? a / b + (a % b != 0) : 0;
}

enum { ALONE_KEYS = 256, ALONE_CHUNKS = 16 }; /* minimum of keys in a run; maximum of runs */

size_t qkv_attend_alone_chunk(const struct qkv_attend_plan *plan, size_t Tq, size_t key_blocks) {
    const size_t share = plan->a->H * Tq * plan->a->D, units = ragged_divide(key_blocks, plan->unit);
    const size_t min_chunk = ragged_divide(ALONE_KEYS, plan->keys * plan->unit);
    size_t chunks = share ? QKV_ATTEND_SHARES / share : ALONE_CHUNKS;
    if (chunks > ALONE_CHUNKS) chunks = ALONE_CHUNKS;
    const size_t chunk = ragged_divide(units, chunks ? chunks : 1);
    return (chunk > min_chunk ? chunk : min_chunk) * plan->unit;
}

size_t qkv_attend_alone_chunks(const struct qkv_attend_plan *plan, size_t key_blocks) {
    const size_t least = ragged_divide(ALONE_KEYS, plan->keys * plan->unit) * plan->unit;
    const size_t chunks = ragged_divide(key_blocks, least);
    return chunks < ALONE_CHUNKS ? chunks : ALONE_CHUNKS;
}

void qkv_attend_sequence_of(const struct qkv_attend_plan *whole, size_t b, struct qkv_attend_sequence *out) {
    const struct qkv_attend *a = whole->a;
    struct qkv_attend_plan *p = &out->plan;
    out->a = *a, *p = *whole;
    ragged_call(&out->a, b);
    ragged_memory(p, b);
    if (whole->g) {
        out->g = *whole->g;
        ragged_gradients(&out->g, a, b);
        p->g = &out->g;
    }
    p->a = &out->a;
    p->mask_b = whole->mask_b + b, p->batch = 0;
    p->rows = a->Tq ? whole->rows / a->Tq * out->a.Tq : 0;
    p->blocks = ragged_divide(p->rows, p->block);
    p->key_blocks = ragged_divide(out->a.Tk, p->keys);
    if (a->alone && p->g) p->chunk = qkv_attend_alone_chunk(whole, out->a.Tq, p->key_blocks);
    p->chunks = ragged_divide(p->key_blocks, p->chunk);
}
