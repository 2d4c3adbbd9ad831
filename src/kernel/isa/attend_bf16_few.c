/* attend_bf16_few.c: attention of one head over at most QKV_ATTEND_FEW keys in bf16, as attend_few.c does it in fp32: rows are read where they
 * lie, and backward is one walk. Operands are words of two terms: rows of bf16 as they are, or keys and channels turned, or two rows side by
 * side. Every sum is the same chain over the same terms as in the passes for any length (attend_bf16_forward.c,
 * attend_bf16_backward.c), so the bits are the same. Numbers that bf16 cannot hold are left to those passes.
 *
 * Tiles of AMX add in an order of their own: that table has no such kernels. */
#include "kernel/isa/attend_bf16.h"

#if !defined(QKV_TABLE_amx)
#include "kernel/isa/attend_few.h"
#include "kernel/isa/attend_store.h"
#include "kernel/isa/bf16_words.h"

/* ---- products ------------------------------------------------------------------------------------------------------- */

typedef uint32_t few_element;
typedef vi few_vector;

QKV_INLINE vi few_load(const uint32_t *x) {
    return vi_load(x);
}
QKV_INLINE vi few_spread(uint32_t word) {
    return vi_set(word);
}

/* sum += the two products of a word, the even one first where they are not added at once. */
QKV_INLINE vf few_dot(vf sum, vi a, vi b) {
#if defined(QKV_BF16_NATIVE)
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
    return vf_fma(bf16_odd(a), bf16_odd(b), vf_fma(bf16_even(a), bf16_even(b), sum));
#endif
}

#if defined(QKV_BF16_NATIVE)
#define FEW_TILE 14
#else
#define FEW_TILE 4
#endif
#include "kernel/isa/attend_few_product.h"

/* ---- operands ------------------------------------------------------------------------------------------------------- */

struct few_words {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    size_t columns, ld;         /* keys padded to a vector, and to two */
    uint32_t *kt, *vt;          /* (D/2,ld), (Dv/2,ld): keys and, backward, values turned */
    uint32_t *pairs;            /* (KEYS/2,D or Dv): forward of values, backward of keys */
    uint32_t *q_rows, *dy_rows; /* rows that are not of bf16, rounded */
    uint32_t *q_pairs, *dy_pairs;
    uint32_t *p_words, *ds_words; /* (ROWS/2,ld): pairs of rows */
    float *p, *ds;                /* (FEW_TILE,ld) */
    uint16_t *halves;             /* (FEW_TILE,ld): weights, or dS */
    float *keep;                  /* (FEW_TILE,ld): what dropout multiplies weights by */
    float *sum;
    struct row rows[FEW_TILE];
    struct span spans[FEW_TILE];
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

static void few_start(struct few_words *f, const struct qkv_attend_plan *plan, float *scratch) {
    const struct qkv_attend *a = plan->a;
    f->plan = plan, f->a = a;
    f->rule = mask_rule(a->key, a->dropout);
    f->columns = padded(a->Tk, W), f->ld = padded(a->Tk, 2 * W);
    few_carve(plan, f, scratch);
}

/* Rows of a head as lines: along, and a pair of them across. */
static inline struct lines few_along(const struct qkv_heads *x, size_t b, size_t h) {
    return (struct lines){x->data ? cells_at(x, b, 0, h).data : NULL, x->dtype, x->row_stride, 1};
}

/* Whether bf16 holds all numbers of some rows. */
static bool few_fits(const struct lines *x, size_t count, size_t columns) {
    vf check = vf_zero();
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < columns; c += W) check = check_of(read_line(x, i * x->line_stride + c, W), check);
    return all_finite(check);
}

/* Rows where they lie, or rounded to `room`. */
static struct few_left few_rows_of(const struct lines *x, size_t count, size_t columns, uint32_t *room) {
    const size_t ld = padded(columns, 2 * W) / 2;
    if (x->dtype == QKV_BF16) return (struct few_left){x->data, x->line_stride * sizeof(uint16_t), sizeof(uint32_t)};
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < columns; c += 2 * W) vi_store(room + i * ld + c / 2, words_along(x, i, c, columns));
    return (struct few_left){room, ld * sizeof(uint32_t), sizeof(uint32_t)};
}

/* out (columns/2,ld) = rows turned. Up to a multiple of W the last row stands for those that there are not: nobody attends to them. */
static void few_turn(uint32_t *out, size_t ld, const struct lines *x, size_t count, size_t columns) {
    for (size_t j = 0; j < count; j += W) {
        const size_t last = count - j < W ? count - j - 1 : W - 1;
        for (size_t c = 0; c < columns; c += 2 * W) {
            vi r[W];
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) r[i] = words_along(x, j + (i < last ? i : last), c, columns);
            turn_words(r);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vi_store(out + (c / 2 + i) * ld + j, r[i]);
        }
    }
}

/* out (pairs,columns) = two rows side by side, zeros for one that there is not. */
static void few_pairs(uint32_t *out, const struct lines *x, size_t count, size_t columns) {
    const struct lines across = {x->data, x->dtype, 1, x->line_stride};
    for (size_t i = 0; i < count; i += 2)
        for (size_t c = 0; c < columns; c += W)
            vi_store(out + i / 2 * columns + c, words_across(&across, c, W, i, count));
}

/* ---- forward -------------------------------------------------------------------------------------------------------- */

/* Row r of the tile: its products become weights, rounded; its largest score, and the sum of its weights. */
static void few_softmax(const struct few_words *f, size_t r, float *m, float *l) {
    const struct span span = f->spans[r];
    const float *keep = f->keep + r * f->ld;
    float *x = f->p + r * f->ld, best = -INFINITY;
    uint16_t *p = f->halves + r * f->ld;
    if (span.end) best = row_scores(f->a, true, &f->rows[r], 0, span, x, 0, f->columns);
    if (span.end && !(fabsf(best) <= FLT_MAX)) best = row_repair(span, x);
    *m = best, *l = 0;
    if (best == -INFINITY) {
        memset(p, 0, f->ld * sizeof *p);
        return;
    }
    const bool drop = f->a->dropout > 0;
    const vf top = vf_set(best);
    vf even = vf_zero(), odd = vf_zero();
    for (size_t j = 0; j < f->columns; j += 2 * W) {
        const bool both = j + W < f->columns;
        vf a = exp_coarse(vf_sub(vf_load(x + j), top)), b = vf_zero();
        if (both) b = exp_coarse(vf_sub(vf_load(x + j + W), top));
        even = vf_add(even, a), odd = vf_add(odd, b);
        if (drop) a = vf_mul(a, vf_load(keep + j));
        if (drop && both) b = vf_mul(b, vf_load(keep + j + W));
        store_halves(p + j, a, b);
    }
    *l = vf_sum(vf_add(even, odd));
}

bool QKV_T(attend_bf16_forward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const size_t b = pair / a->Hkv, h = pair % a->Hkv, tile = few_tile(a->Tq, FEW_TILE);
    const struct lines q = few_along(&a->q, b, h), k = few_along(&a->k, b, h), v = few_along(&a->v, b, h);
    struct few_words f;
    if (!few_fits(&v, a->Tk, a->Dv)) return false;
    few_start(&f, plan, scratch);
    few_ask(&a->q, b, h, a->H, a->Tq, a->D);
    few_ask(&a->k, b, h, a->H, a->Tk, a->D);
    few_ask(&a->v, b, h, a->H, a->Tk, a->Dv);
    few_ask(&a->y, b, h, a->H, a->Tq, a->Dv);
    few_turn(f.kt, f.ld, &k, a->Tk, a->D);
    few_pairs(f.pairs, &v, a->Tk, a->Dv);
    const struct few_left left = few_rows_of(&q, a->Tq, a->D, f.q_rows),
                          p = {f.halves, f.ld * sizeof *f.halves, sizeof(uint32_t)};
    for (size_t r = 0, rows; r < a->Tq; r += rows) {
        float l[FEW_TILE], m[FEW_TILE], lse;
        rows = qkv_min(a->Tq - r, tile);
        for (size_t i = 0; i < rows; i++) f.rows[i] = row_of(a, b, h, r + i);
        spans_of(f.rows, rows, 0, a->Tk, f.spans);
        few_product(rows, f.columns, f.p, f.ld, few_from(left, r), f.kt, f.ld, a->D / 2);
        if (a->dropout > 0) few_keep(plan, &f.rule, f.rows, rows, f.columns, 1.0f, f.keep, f.ld);
        for (size_t i = 0; i < rows; i++) few_softmax(&f, i, &m[i], &l[i]);
        few_product(rows, a->Dv, f.sum, a->Dv, p, f.pairs, a->Dv, (a->Tk + 1) / 2);
        for (size_t i = 0; i < rows; i++) {
            const vf scale = vf_set(row_finish(a, h, m[i], l[i], &lse));
            const struct cells y = cells_at(&a->y, b, r + i, h);
            for (size_t c = 0; c < a->Dv; c += W)
                store_cells(y, c, vf_add(vf_mul(vf_load(f.sum + i * a->Dv + c), scale), vf_zero()), W);
            if (a->lse) a->lse[f.rows[i].at] = lse;
        }
    }
    return true;
}

/* ---- backward ------------------------------------------------------------------------------------------------------- */

/* Products q·k in p and dy·v in ds, of row r of the tile, become weights and gradients of the products. */
static void few_gradients(const struct few_words *f, size_t r) {
    const struct qkv_attend *a = f->a;
    const struct row *row = &f->rows[r];
    const struct span span = f->spans[r];
    const float *keep = f->keep + r * f->ld;
    float *p = f->p + r * f->ld, *ds = f->ds + r * f->ld;
    if (!span.end) {
        memset(p, 0, f->columns * sizeof *p);
        memset(ds, 0, f->columns * sizeof *ds);
        return;
    }
    const vf lse = vf_set(a->lse[row->at]), delta = vf_set(f->plan->delta[row->at]), scale = vf_set(a->scale);
    const bool drop = a->dropout > 0;
    for (size_t j = 0; j < f->columns; j += W) {
        const vf s = vf_mul(vf_load(p + j), scale), w = exp_coarse(vf_min(vf_zero(), vf_sub(s, lse)));
        vf kept = w, dp = vf_load(ds + j);
        if (drop) kept = vf_mul(w, vf_load(keep + j)), dp = vf_mul(dp, vf_load(keep + j));
        store_gradients(p, ds, kept, vf_mul(vf_mul(w, vf_sub(dp, delta)), scale), s, false, span, j);
    }
}

/* The tile of `rows` rows from r0 on, rounded: dS by rows, and both as pairs of rows. */
static void few_round(const struct few_words *f, size_t r0, size_t rows) {
    const size_t ld = f->ld;
    if (rows % 2) {
        memset(f->p + rows * ld, 0, f->columns * sizeof *f->p);
        memset(f->ds + rows * ld, 0, f->columns * sizeof *f->ds);
    }
    for (size_t r = 0; r < rows; r += 2) {
        const float *p = f->p + r * ld, *ds = f->ds + r * ld;
        uint32_t *p_words = f->p_words + (r0 + r) / 2 * ld, *ds_words = f->ds_words + (r0 + r) / 2 * ld;
        for (size_t j = 0; j < f->columns; j += W) {
            vi_store(p_words + j, words_of(vf_load(p + j), vf_load(p + ld + j)));
            vi_store(ds_words + j, words_of(vf_load(ds + j), vf_load(ds + ld + j)));
        }
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < f->columns; j += 2 * W)
            store_halves(f->halves + r * ld + j, vf_load(f->ds + r * ld + j),
                         j + W < f->columns ? vf_load(f->ds + r * ld + j + W) : vf_zero());
}

static void few_put(const struct few_words *f, const struct qkv_heads *out, size_t b, size_t h, size_t first,
                    size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++)
        put_cells(cells_at(out, b, first + i, h), f->plan->g->accumulate, f->sum + i * columns, columns);
}

static void few_queries(const struct few_words *f, size_t b, size_t h, size_t r0, size_t rows) {
    const size_t D = f->a->D;
    const struct few_left ds = {f->halves, f->ld * sizeof *f->halves, sizeof(uint32_t)};
    if (!f->plan->g->dq.data) return;
    few_product(rows, D, f->sum, D, ds, f->pairs, D, (f->a->Tk + 1) / 2);
    few_put(f, &f->plan->g->dq, b, h, r0, rows, D);
}

/* A gradient of the keys, out (+)= xᵀ·y over the rows: x is P or dS, y is dY or Q. */
static void few_keys(const struct few_words *f, const struct qkv_heads *out, size_t b, size_t h, const uint32_t *x,
                     const uint32_t *y, size_t columns) {
    const size_t Tk = f->a->Tk, tile = few_tile(Tk, FEW_TILE);
    if (!out->data) return;
    for (size_t j = 0, keys; j < Tk; j += keys) {
        keys = qkv_min(Tk - j, tile);
        few_product(keys, columns, f->sum, columns, (struct few_left){x + j, sizeof *x, f->ld * sizeof *x}, y, columns,
                    (f->a->Tq + 1) / 2);
        few_put(f, out, b, h, j, keys, columns);
    }
}

bool QKV_T(attend_bf16_backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_attend_gradients *g = plan->g;
    const size_t b = pair / a->Hkv, h = pair % a->Hkv, tile = padded(few_tile(a->Tq, FEW_TILE), 2);
    const struct lines q = few_along(&a->q, b, h), k = few_along(&a->k, b, h), v = few_along(&a->v, b, h),
                       dy = few_along(&g->dy, b, h);
    struct few_words f;
    if (!few_fits(&k, a->Tk, a->D) || !few_fits(&q, a->Tq, a->D) || !few_fits(&dy, a->Tq, a->Dv)) return false;
    few_start(&f, plan, scratch);
    few_ask(&a->y, b, h, a->H, a->Tq, a->Dv);
    few_ask(&g->dy, b, h, a->H, a->Tq, a->Dv);
    few_ask(&a->q, b, h, a->H, a->Tq, a->D);
    few_ask(&a->k, b, h, a->H, a->Tk, a->D);
    few_ask(&a->v, b, h, a->H, a->Tk, a->Dv);
    few_ask(&g->dq, b, h, a->H, a->Tq, a->D);
    few_ask(&g->dk, b, h, a->H, a->Tk, a->D);
    few_ask(&g->dv, b, h, a->H, a->Tk, a->Dv);
    few_turn(f.kt, f.ld, &k, a->Tk, a->D);
    few_turn(f.vt, f.ld, &v, a->Tk, a->Dv);
    few_pairs(f.pairs, &k, a->Tk, a->D);
    few_pairs(f.q_pairs, &q, a->Tq, a->D);
    few_pairs(f.dy_pairs, &dy, a->Tq, a->Dv);
    const struct few_left left = few_rows_of(&q, a->Tq, a->D, f.q_rows),
                          above = few_rows_of(&dy, a->Tq, a->Dv, f.dy_rows);
    for (size_t r = 0, rows; r < a->Tq; r += rows) {
        rows = qkv_min(a->Tq - r, tile);
        for (size_t i = 0; i < rows; i++) {
            f.rows[i] = row_of(a, b, h, r + i);
            if (a->lse[f.rows[i].at] == -INFINITY) f.rows[i].lo = f.rows[i].hi = 0;
        }
        spans_of(f.rows, rows, 0, a->Tk, f.spans);
        few_product(rows, f.columns, f.p, f.ld, few_from(left, r), f.kt, f.ld, a->D / 2);
        few_product(rows, f.columns, f.ds, f.ld, few_from(above, r), f.vt, f.ld, a->Dv / 2);
        if (a->dropout > 0) few_keep(plan, &f.rule, f.rows, rows, f.columns, mask_scale(a->dropout), f.keep, f.ld);
        for (size_t i = 0; i < rows; i++) few_gradients(&f, i);
        few_round(&f, r, rows);
        few_queries(&f, b, h, r, rows);
    }
    few_keys(&f, &g->dv, b, h, f.p_words, f.dy_pairs, a->Dv);
    few_keys(&f, &g->dk, b, h, f.ds_words, f.q_pairs, a->D);
    return true;
}
#endif
