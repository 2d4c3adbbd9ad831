/* attend_bf16_few.c: attention of one head over at most QKV_ATTEND_FEW keys in bf16, as attend_few.c does it in fp32:
 * rows are read without packing, and backward is one walk. Operands are words of two terms: rows of bf16 as they are,
 * or keys and channels transposed, or two rows interleaved. Every sum is the same chain over the same terms as in the
 * passes for any length (attend_bf16_forward.c, attend_bf16_backward.c), so the bits are the same. Heads with numbers
 * that bf16 cannot hold are left to those passes.
 *
 * Tables whose products add in another order have no such kernels: their QKV_BF16_FEW_TILE is 0. */
#include "kernel/isa/attend_bf16.h"

#if QKV_BF16_FEW_TILE
#include "kernel/isa/attend_few.h"
#include "kernel/isa/attend_store.h"
#include "kernel/isa/bf16_words.h"

/* ---- products -------------------------------------------------------------------------------------------------- */

typedef uint32_t few_element;
typedef vi few_vector;

QKV_INLINE vi few_load(const uint32_t *x) {
    return vi_load(x);
}
QKV_INLINE vi few_spread(uint32_t word) {
    return vi_set(word);
}

QKV_INLINE vf few_dot(vf sum, vi a, vi b) {
    return dot_words(sum, a, b);
}

#define FEW_TILE QKV_BF16_FEW_TILE
#include "kernel/isa/attend_few_product.h"

/* ---- operands -------------------------------------------------------------------------------------------------- */

struct few_words {
    struct few_head head;
    size_t ld;                  /* keys padded to two vectors */
    uint32_t *kt, *vt;          /* (D/2,ld), (Dv/2,ld): keys and, in backward, values, transposed */
    uint32_t *pairs;            /* (KEYS/2,D or Dv): forward of values, backward of keys */
    uint32_t *q_rows, *dy_rows; /* rows of other types, rounded */
    uint32_t *q_pairs, *dy_pairs;
    uint32_t *p_words, *ds_words; /* (ROWS/2,ld): pairs of rows */
    float *p, *ds;                /* (FEW_TILE,ld) */
    uint16_t *halves;             /* (FEW_TILE,ld): weights, or dS */
    float *keep;                  /* (FEW_TILE,ld): the factors of weights by dropout */
    float *sum;
    struct few_reach reach; /* of the rows of a tile */
};

static size_t few_carve(const struct qkv_attend_plan *plan, struct few_words *f, float *scratch) {
    const size_t D = plan->a->D, Dv = plan->a->Dv, wide = D > Dv ? D : Dv, word = sizeof(uint32_t);
    const bool back = plan->g;
    struct carve c = {(char *)scratch, 0};
    f->kt = carve_take(&c, padded(D, 2 * W) / 2 * KEYS * word);
    f->vt = carve_take(&c, back ? padded(Dv, 2 * W) / 2 * KEYS * word : 0);
    f->pairs = carve_take(&c, KEYS / 2 * wide * word);
    f->q_rows = carve_take(&c, ROWS * padded(D, 2 * W) / 2 * word);
    f->dy_rows = carve_take(&c, back ? ROWS * padded(Dv, 2 * W) / 2 * word : 0);
    f->q_pairs = carve_take(&c, back ? ROWS / 2 * D * word : 0);
    f->dy_pairs = carve_take(&c, back ? ROWS / 2 * Dv * word : 0);
    f->p_words = carve_take(&c, back ? ROWS / 2 * KEYS * word : 0);
    f->ds_words = carve_take(&c, back ? ROWS / 2 * KEYS * word : 0);
    f->p = carve_take(&c, FEW_TILE * KEYS * sizeof *f->p);
    f->ds = carve_take(&c, back ? FEW_TILE * KEYS * sizeof *f->ds : 0);
    f->halves = carve_take(&c, FEW_TILE * KEYS * sizeof *f->halves);
    f->keep = carve_take(&c, plan->a->dropout > 0 ? FEW_TILE * KEYS * sizeof *f->keep : 0);
    f->sum = carve_take(&c, FEW_TILE * wide * sizeof *f->sum);
    return c.used / sizeof(float);
}

size_t QKV_T(attend_bf16_few_scratch)(const struct qkv_attend_plan *plan) {
    struct few_words f;
    return few_carve(plan, &f, NULL);
}

static void few_start(struct few_words *f, const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    f->head = few_head_of(plan, pair);
    f->ld = padded(plan->a->Tk, 2 * W);
    few_carve(plan, f, scratch);
}

/* Rows of a head as lines: the channels of a row, and pairs of rows. */
static inline struct lines few_along(const struct qkv_heads *x, size_t b, size_t h) {
    return (struct lines){x->data ? cells_at(x, b, 0, h).data : NULL, x->dtype, x->row_stride, 1};
}

/* Whether bf16 can hold all numbers of some rows. */
static bool few_fits(const struct lines *x, size_t count, size_t columns) {
    vf check = vf_zero();
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < columns; c += W) check = check_of(read_line(x, i * x->line_stride + c, W), check);
    return all_finite(check);
}

/* Rows as they are, or rounded to `room`. */
static struct few_left few_rows_of(const struct lines *x, size_t count, size_t columns, uint32_t *room) {
    const size_t ld = padded(columns, 2 * W) / 2;
    if (x->dtype == QKV_BF16) return (struct few_left){x->data, x->line_stride * sizeof(uint16_t), sizeof(uint32_t)};
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < columns; c += 2 * W) vi_store(room + i * ld + c / 2, words_along(x, i, c, columns));
    return (struct few_left){room, ld * sizeof(uint32_t), sizeof(uint32_t)};
}

/* out (columns/2,ld) = rows, transposed. Up to a multiple of W the last row is repeated: no query attends to the
 * copies. */
static void few_transpose(uint32_t *out, size_t ld, const struct lines *x, size_t count, size_t columns) {
    for (size_t j = 0; j < count; j += W)
        for (size_t c = 0; c < columns; c += 2 * W) {
            vi r[W];
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) r[i] = words_along(x, qkv_min(j + i, count - 1), c, columns);
            transpose_words(r);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vi_store(out + (c / 2 + i) * ld + j, r[i]);
        }
}

/* out (pairs,columns) = two rows interleaved, with zeros after an odd last row. */
static void few_pairs(uint32_t *out, const struct lines *x, size_t count, size_t columns) {
    const struct lines across = {x->data, x->dtype, 1, x->line_stride};
    for (size_t i = 0; i < count; i += 2)
        for (size_t c = 0; c < columns; c += W)
            vi_store(out + i / 2 * columns + c, words_across(&across, c, W, i, count));
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

/* Row r of the tile: turns its products into weights, rounded; computes its largest score, and the sum of its
 * weights. */
QKV_INLINE void few_softmax(const struct few_words *f, size_t r, float *m, float *l, const size_t columns) {
    const struct span span = f->reach.spans[r];
    const float *keep = f->keep + r * f->ld;
    float *x = f->p + r * f->ld;
    uint16_t *p = f->halves + r * f->ld;
    const float best = span.end ? few_scores(f->head.a, span, x, columns) : -INFINITY;
    *m = best, *l = 0;
    if (best == -INFINITY) {
        memset(p, 0, f->ld * sizeof *p);
        return;
    }
    const bool drop = f->head.a->dropout > 0;
    const vf top = vf_set(best);
    vf even = vf_zero(), odd = vf_zero();
    for (size_t j = 0; j < columns; j += 2 * W) {
        const bool both = j + W < columns;
        vf a = exp_coarse(vf_sub(vf_load(x + j), top)), b = vf_zero();
        if (both) b = exp_coarse(vf_sub(vf_load(x + j + W), top));
        even = vf_add(even, a), odd = vf_add(odd, b);
        if (drop) a = vf_mul(a, vf_load(keep + j));
        if (drop && both) b = vf_mul(b, vf_load(keep + j + W));
        store_halves(p + j, a, b);
    }
    *l = vf_sum(vf_add(even, odd));
}

/* Turns the sums of the rows of a tile, from r on, into outputs. */
static void few_finish(const struct few_words *f, size_t r, size_t rows, const float *m, const float *l) {
    const struct qkv_attend *a = f->head.a;
    for (size_t i = 0; i < rows; i++) {
        float lse;
        const vf scale = vf_set(row_finish(a, f->head.h, m[i], l[i], &lse));
        const struct cells y = cells_at(&a->y, f->head.b, r + i, f->head.h);
        for (size_t c = 0; c < a->Dv; c += W)
            store_cells(y, c, vf_add(vf_mul(vf_load(f->sum + i * a->Dv + c), scale), vf_zero()), W);
        if (a->lse) a->lse[f->head.at + r + i] = lse;
    }
}

QKV_INLINE bool few_forward(const struct qkv_attend_plan *plan, size_t pair, float *scratch, const size_t columns) {
    const struct qkv_attend *a = plan->a;
    const size_t tile = few_tile(a->Tq, FEW_TILE);
    struct few_words f;
    few_start(&f, plan, pair, scratch);
    const size_t b = f.head.b, h = f.head.h;
    const struct lines q = few_along(&a->q, b, h), k = few_along(&a->k, b, h), v = few_along(&a->v, b, h);
    if (!few_fits(&v, a->Tk, a->Dv)) return false;
    few_ask(&f.head, &a->v, a->Tk, a->Dv);
    few_transpose(f.kt, f.ld, &k, a->Tk, a->D);
    few_ask(&f.head, &a->k, a->Tk, a->D);
    few_pairs(f.pairs, &v, a->Tk, a->Dv);
    const struct few_left left = few_rows_of(&q, a->Tq, a->D, f.q_rows),
                          p = {f.halves, f.ld * sizeof *f.halves, sizeof(uint32_t)};
    for (size_t r = 0, rows; r < a->Tq; r += rows) {
        float l[FEW_TILE], m[FEW_TILE];
        rows = qkv_min(a->Tq - r, tile);
        few_reach(&f.head, r, rows, false, &f.reach);
        few_product(rows, columns, FEW_SUM, f.p, f.ld, few_from(left, r), f.kt, f.ld, a->D / 2);
        if (!r) few_ask(&f.head, &a->q, a->Tq, a->D);
        if (a->dropout > 0) few_keep(&f.head, r, rows, columns, 1.0f, f.keep, f.ld);
        for (size_t i = 0; i < rows; i++) few_softmax(&f, i, &m[i], &l[i], columns);
        few_product(rows, a->Dv, FEW_SUM, f.sum, a->Dv, p, f.pairs, a->Dv, (a->Tk + 1) / 2);
        if (!r) few_ask(&f.head, &a->y, a->Tq, a->Dv);
        few_finish(&f, r, rows, m, l);
    }
    return true;
}

bool QKV_T(attend_bf16_forward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    if (few_fits_vector(plan->a)) return few_forward(plan, pair, scratch, W);
    return few_forward(plan, pair, scratch, padded(plan->a->Tk, W));
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

static inline struct cells few_cells(const struct lines *x, size_t r) {
    const size_t size = x->dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t);
    return (struct cells){(char *)(uintptr_t)x->data + r * x->line_stride * size, x->dtype};
}

QKV_INLINE float few_delta(const struct few_words *f, const struct lines *y, const struct lines *dy, size_t r) {
    return row_delta(f->head.plan, true, few_cells(y, r), few_cells(dy, r), f->head.at + r);
}

/* Turns products q·k in p and dy·v in ds of row r of the tile, whose statistics are `lse` and `delta`, into weights and
 * gradients of the products. */
QKV_INLINE void few_gradients(const struct few_words *f, size_t r, float lse, float delta, const size_t columns) {
    const struct qkv_attend *a = f->head.a;
    const struct span span = f->reach.spans[r];
    const float *keep = f->keep + r * f->ld;
    const bool drop = a->dropout > 0;
    float *p = f->p + r * f->ld, *ds = f->ds + r * f->ld;
    if (!span.end) {
        for (size_t j = 0; j < columns; j += W) vf_store(p + j, vf_zero()), vf_store(ds + j, vf_zero());
        return;
    }
    const vf scale = vf_set(a->scale);
    for (size_t j = 0; j < columns; j += W) {
        const vf s = vf_mul(vf_load(p + j), scale), w = exp_coarse(vf_min(vf_zero(), vf_sub(s, vf_set(lse))));
        vf kept = w, dp = vf_load(ds + j);
        if (drop) kept = vf_mul(w, vf_load(keep + j)), dp = vf_mul(dp, vf_load(keep + j));
        store_gradients(p, ds, kept, vf_mul(vf_mul(w, vf_sub(dp, vf_set(delta))), scale), s, false, span, j);
    }
}

/* Rounds the tile of `rows` rows from r0 on: dS by rows, and P and dS as pairs of rows. */
QKV_INLINE void few_round(const struct few_words *f, size_t r0, size_t rows, const size_t columns) {
    const size_t ld = f->ld;
    if (rows % 2) {
        memset(f->p + rows * ld, 0, columns * sizeof *f->p);
        memset(f->ds + rows * ld, 0, columns * sizeof *f->ds);
    }
    for (size_t r = 0; r < rows; r += 2) {
        const float *p = f->p + r * ld, *ds = f->ds + r * ld;
        uint32_t *p_words = f->p_words + (r0 + r) / 2 * ld, *ds_words = f->ds_words + (r0 + r) / 2 * ld;
        for (size_t j = 0; j < columns; j += W) {
            vi_store(p_words + j, words_of(vf_load(p + j), vf_load(p + ld + j)));
            vi_store(ds_words + j, words_of(vf_load(ds + j), vf_load(ds + ld + j)));
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < columns; j += 2 * W)
            store_halves(f->halves + r * ld + j, vf_load(f->ds + r * ld + j),
                         j + W < columns ? vf_load(f->ds + r * ld + j + W) : vf_zero());
}

/* out (rows,columns), rows from `first` on of a gradient, (+)= a·b: written directly if it is fp32. */
static void few_gradient(const struct few_words *f, const struct qkv_heads *out, size_t first, size_t rows,
                         size_t columns, struct few_left a, const uint32_t *b, size_t terms) {
    const bool accumulate = f->head.plan->g->accumulate;
    const struct cells to = cells_at(out, f->head.b, first, f->head.h);
    if (to.dtype == QKV_F32) {
        few_product(rows, columns, accumulate ? FEW_ADDED : FEW_GRADIENT, to.data, out->row_stride, a, b, columns,
                    terms);
        return;
    }
    few_product(rows, columns, FEW_SUM, f->sum, columns, a, b, columns, terms);
    for (size_t i = 0; i < rows; i++)
        put_cells(cells_at(out, f->head.b, first + i, f->head.h), accumulate, f->sum + i * columns, columns);
}

/* A gradient of the keys, out (+)= xᵀ·y over the rows: x is P or dS, y is dY or Q. */
static void few_keys(const struct few_words *f, const struct qkv_heads *out, const uint32_t *x, const uint32_t *y,
                     size_t columns) {
    const size_t Tk = f->head.a->Tk, tile = few_tile(Tk, FEW_TILE);
    if (!out->data) return;
    for (size_t j = 0, keys; j < Tk; j += keys) {
        keys = qkv_min(Tk - j, tile);
        few_gradient(f, out, j, keys, columns, (struct few_left){x + j, sizeof *x, f->ld * sizeof *x}, y,
                     (f->head.a->Tq + 1) / 2);
    }
}

/* The products of a head's rows and keys, and dq. Leaves f->p_words and f->ds_words for the other gradients. */
QKV_INLINE void few_queries(struct few_words *f, struct few_left q, struct few_left dy, const size_t columns) {
    const struct qkv_attend *a = f->head.a;
    const struct qkv_attend_gradients *g = f->head.plan->g;
    const struct few_left ds = {f->halves, f->ld * sizeof *f->halves, sizeof(uint32_t)};
    const struct lines y_lines = few_along(&a->y, f->head.b, f->head.h),
                       dy_lines = few_along(&g->dy, f->head.b, f->head.h);
    const size_t tile = padded(few_tile(a->Tq, FEW_TILE), 2);
    for (size_t r = 0, rows; r < a->Tq; r += rows) {
        rows = qkv_min(a->Tq - r, tile);
        few_reach(&f->head, r, rows, true, &f->reach);
        few_product(rows, columns, FEW_SUM, f->p, f->ld, few_from(q, r), f->kt, f->ld, a->D / 2);
        if (!r) few_ask(&f->head, &a->y, a->Tq, a->Dv);
        few_product(rows, columns, FEW_SUM, f->ds, f->ld, few_from(dy, r), f->vt, f->ld, a->Dv / 2);
        if (!r) few_ask(&f->head, &g->dq, a->Tq, a->D);
        if (a->dropout > 0) few_keep(&f->head, r, rows, columns, mask_scale(a->dropout), f->keep, f->ld);
        for (size_t i = 0; i < rows; i++)
            few_gradients(f, i, a->lse[f->head.at + r + i], few_delta(f, &y_lines, &dy_lines, r + i), columns);
        few_round(f, r, rows, columns);
        if (g->dq.data) few_gradient(f, &g->dq, r, rows, a->D, ds, f->pairs, (a->Tk + 1) / 2);
    }
}

QKV_INLINE bool few_backward(const struct qkv_attend_plan *plan, size_t pair, float *scratch, const size_t columns) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_attend_gradients *g = plan->g;
    struct few_words f;
    few_start(&f, plan, pair, scratch);
    const size_t b = f.head.b, h = f.head.h;
    const struct lines q = few_along(&a->q, b, h), k = few_along(&a->k, b, h), v = few_along(&a->v, b, h),
                       dy = few_along(&g->dy, b, h);
    if (!few_fits(&k, a->Tk, a->D) || !few_fits(&q, a->Tq, a->D) || !few_fits(&dy, a->Tq, a->Dv)) return false;
    few_ask(&f.head, &a->k, a->Tk, a->D);
    few_transpose(f.kt, f.ld, &k, a->Tk, a->D);
    few_ask(&f.head, &a->v, a->Tk, a->Dv);
    few_transpose(f.vt, f.ld, &v, a->Tk, a->Dv);
    few_ask(&f.head, &a->q, a->Tq, a->D);
    few_pairs(f.pairs, &k, a->Tk, a->D);
    few_pairs(f.q_pairs, &q, a->Tq, a->D);
    few_ask(&f.head, &g->dy, a->Tq, a->Dv);
    few_pairs(f.dy_pairs, &dy, a->Tq, a->Dv);
    few_queries(&f, few_rows_of(&q, a->Tq, a->D, f.q_rows), few_rows_of(&dy, a->Tq, a->Dv, f.dy_rows), columns);
    few_ask(&f.head, &g->dv, a->Tk, a->Dv);
    few_keys(&f, &g->dv, f.p_words, f.dy_pairs, a->Dv);
    few_ask(&f.head, &g->dk, a->Tk, a->D);
    few_keys(&f, &g->dk, f.ds_words, f.q_pairs, a->D);
    return true;
}

bool QKV_T(attend_bf16_backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    if (few_fits_vector(plan->a)) return few_backward(plan, pair, scratch, W);
    return few_backward(plan, pair, scratch, padded(plan->a->Tk, W));
}
#endif
