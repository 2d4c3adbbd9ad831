/* attend_few.c: attention of one head over at most QKV_ATTEND_FEW keys in fp32: for short sequences, of which a batch
 * may have thousands.
 *
 * The passes for any length (attend_forward.c, attend_backward.c) first copy rows and keys together, so that long walks
 * over them are fast. This file reads rows without packing, transposes only keys and values that products need across
 * lanes, and does backward in one walk: delta, the factors of weights, P and dS, dq, dk and dv. Every sum is the same
 * chain over the same terms as there, so the bits are the same. `qkv_attend_is_few` (attend_work.h) says which calls
 * use this file. */
#include "kernel/isa/attend_few.h"
#include "kernel/isa/attend_store.h"

typedef float few_element;
typedef vf few_vector;

QKV_INLINE vf few_load(const float *x) {
    return vf_load(x);
}
QKV_INLINE vf few_spread(float number) {
    return vf_set(number);
}
QKV_INLINE vf few_dot(vf sum, vf a, vf b) {
    return vf_fma(a, b, sum);
}

#define FEW_TILE QKV_FEW_TILE
#include "kernel/isa/attend_few_product.h"

struct few_lines { /* rows of floats */
    float *x;
    size_t stride;
};

static inline struct few_lines few_at(const struct qkv_heads *x, size_t b, size_t h) {
    return (struct few_lines){x->data ? cells_at(x, b, 0, h).data : NULL, x->row_stride};
}

static inline struct few_left few_rows_of(const float *x, size_t stride) {
    return (struct few_left){x, stride * sizeof *x, sizeof *x};
}

static size_t few_wide(const struct qkv_attend *a) {
    return a->D > a->Dv ? a->D : a->Dv;
}

size_t QKV_K(attend_few_scratch)(const struct qkv_attend_plan *plan) {
    const struct qkv_attend *a = plan->a;
    return KEYS * (a->D + a->Dv) + 2 * ROWS * KEYS + KEYS * few_wide(a) + FEW_TILE * KEYS;
}

/* out (columns,ld) = `count` rows of x, transposed. Up to a multiple of W the last row is repeated: no query attends to
 * the copies. */
static void few_transpose(float *out, size_t ld, struct few_lines x, size_t count, size_t columns) {
    for (size_t j = 0; j < count; j += W) {
        size_t at[W];
        for (size_t i = 0; i < W; i++) at[i] = qkv_min(j + i, count - 1) * x.stride;
        for (size_t c = 0; c < columns; c += W) {
            vf r[W];
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) r[i] = vf_load(x.x + at[i] + c);
            vf_transpose(r);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vf_store(out + (c + i) * ld + j, r[i]);
        }
    }
}

static bool few_finite(struct few_lines x, size_t count, size_t columns) {
    vf check = vf_zero();
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < columns; c += W) check = vf_fma(vf_load(x.x + i * x.stride + c), vf_zero(), check);
    return all_finite(check);
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

/* The state of a head. `ld` of a call, its keys padded, is W if they fill one vector, and then a constant. */
struct few {
    struct few_head head;
    struct few_lines q, k, v;
    float *kt, *vt; /* (D,ld), (Dv,ld) */
    float *p, *ds;  /* (rows,ld) */
    float *sum;     /* (KEYS,D or Dv) */
    float *keep;    /* (FEW_TILE,ld): the factors of weights of the rows of a tile by dropout */
    struct few_reach reach;
    bool finite; /* whether masked pairs may be multiplied as zeros */
};

static void few_start(struct few *f, const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    const struct qkv_attend *a = plan->a;
    f->head = few_head_of(plan, pair);
    const size_t b = f->head.b, h = f->head.h;
    f->q = few_at(&a->q, b, h), f->k = few_at(&a->k, b, h), f->v = few_at(&a->v, b, h);
    f->kt = scratch, f->vt = f->kt + KEYS * a->D;
    f->p = f->vt + KEYS * a->Dv, f->ds = f->p + ROWS * KEYS, f->sum = f->ds + ROWS * KEYS;
    f->keep = f->sum + KEYS * few_wide(a);
}

/* Turns the products x of a row into weights; computes its largest score, and the sum of its weights before dropout. */
QKV_INLINE void few_softmax(const struct few *f, struct span span, float *x, const float *keep, float *m, float *l,
                            const size_t ld) {
    const float best = span.end ? few_scores(f->head.a, span, x, ld) : -INFINITY;
    const bool drop = f->head.a->dropout > 0;
    *m = best, *l = 0;
    if (best == -INFINITY) {
        for (size_t j = 0; j < ld; j += W) vf_store(x + j, vf_zero());
        return;
    }
    vf_parts sum = vf_parts_zero();
    QKV_EACH_PART(j, n, part, ld, vf_parts_turn(&sum), {
        (void)n;
        const vf p = exp_down(vf_sub(vf_load(x + j), vf_set(best)));
        sum.part[part] = vf_add(sum.part[part], p);
        vf_store(x + j, drop ? vf_mul(p, vf_load(keep + j)) : p);
    });
    *l = vf_parts_sum(sum);
}

/* out (rows,columns) = weights (rows,ld) times the rows of y. If 0·NaN would spread, each row is multiplied by its own
 * keys only. */
QKV_INLINE void few_times(const struct few *f, size_t r0, size_t rows, enum few_put put, float *out, size_t ldo,
                          const float *x, struct few_lines y, size_t columns, const size_t ld) {
    const struct span all = f->reach.all;
    if (f->finite) {
        few_product(rows, columns, put, out, ldo, few_rows_of(x + all.begin, ld), y.x + all.begin * y.stride, y.stride,
                    all.end - all.begin);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        const struct span span = f->reach.spans[r0 + r];
        few_product(1, columns, put, out + r * ldo, ldo, few_rows_of(x + r * ld + span.begin, ld),
                    y.x + span.begin * y.stride, y.stride, span.end - span.begin);
    }
}

static void few_put_row(float *y, const float *o, float scale, size_t columns) {
    for (size_t c = 0; c < columns; c += W) vf_store(y + c, vf_add(vf_mul(vf_load(o + c), vf_set(scale)), vf_zero()));
}

QKV_INLINE void few_forward(const struct qkv_attend_plan *plan, size_t item, float *scratch, const size_t ld) {
    const struct qkv_attend *a = plan->a;
    const size_t first = item % plan->blocks * plan->block, count = qkv_min(a->Tq - first, plan->block),
                 tile = few_tile(count, FEW_TILE);
    struct few f;
    few_start(&f, plan, item / plan->blocks, scratch);
    const struct few_lines y = few_at(&a->y, f.head.b, f.head.h);
    if (!first) few_ask(&f.head, &a->k, a->Tk, a->D);
    few_transpose(f.kt, ld, f.k, a->Tk, a->D);
    if (!first) few_ask(&f.head, &a->q, a->Tq, a->D);
    bool known = false, finite = false;
    for (size_t r = first, rows; r < first + count; r += rows) {
        float l[FEW_TILE], m[FEW_TILE], lse;
        rows = qkv_min(first + count - r, tile);
        few_reach(&f.head, r, rows, false, &f.reach);
        few_product(rows, ld, FEW_SUM, f.p, ld, few_rows_of(f.q.x + r * f.q.stride, f.q.stride), f.kt, ld, a->D);
        if (!r) few_ask(&f.head, &a->v, a->Tk, a->Dv);
        if (a->dropout > 0) few_keep(&f.head, r, rows, ld, 1.0f, f.keep, ld);
        for (size_t i = 0; i < rows; i++)
            few_softmax(&f, f.reach.spans[i], f.p + i * ld, f.keep + i * ld, &m[i], &l[i], ld);
        if (!f.reach.alike && !known) finite = few_finite(f.v, a->Tk, a->Dv), known = true;
        f.finite = f.reach.alike || finite;
        few_times(&f, 0, rows, FEW_SUM, f.sum, a->Dv, f.p, f.v, a->Dv, ld);
        if (!r) few_ask(&f.head, &a->y, a->Tq, a->Dv);
        for (size_t i = 0; i < rows; i++) {
            few_put_row(y.x + (r + i) * y.stride, f.sum + i * a->Dv, row_finish(a, f.head.h, m[i], l[i], &lse), a->Dv);
            if (a->lse) a->lse[f.head.at + r + i] = lse;
        }
    }
}

void QKV_K(attend_forward_few)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    if (few_fits_vector(plan->a))
        few_forward(plan, item, scratch, W);
    else
        few_forward(plan, item, scratch, padded(plan->a->Tk, W));
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* The factor of the weights of a row whose products are x: as in attend_weights.c. */
static float few_norm(const struct few *f, const float *x, struct span span, float lse, size_t ld) {
    const struct qkv_attend *a = f->head.a;
    float w[KEYS], sum = 0;
    for (size_t j = 0; j < ld; j += W) vf_store(w + j, weight(vf_mul(vf_load(x + j), vf_set(a->scale)), vf_set(lse)));
    for (size_t j = span.begin; j < span.end; j++) sum += w[j];
    return 1 / (sink_weight(a, f->head.h, lse) + sum);
}

static inline struct cells few_cells(struct few_lines x, size_t r) {
    return (struct cells){x.x + r * x.stride, QKV_F32};
}

QKV_INLINE float few_delta(const struct few *f, struct few_lines y, struct few_lines dy, size_t r) {
    return row_delta(f->head.plan, false, few_cells(y, r), few_cells(dy, r), f->head.at + r);
}

/* Turns products q·k in p and dy·v in ds of row r into weights and gradients of the products. */
QKV_INLINE void few_gradients(const struct few *f, size_t r, float delta, const float *keep, const size_t ld) {
    const struct qkv_attend *a = f->head.a;
    const struct span span = f->reach.spans[r];
    const bool drop = a->dropout > 0;
    float *p = f->p + r * ld, *ds = f->ds + r * ld;
    if (!span.end) {
        for (size_t j = 0; j < ld; j += W) vf_store(p + j, vf_zero()), vf_store(ds + j, vf_zero());
        return;
    }
    const float lse = a->lse[f->head.at + r];
    const vf scale = vf_set(a->scale), norm = vf_set(coarse(lse) ? few_norm(f, p, span, lse, ld) : 1.0f);
    for (size_t j = 0; j < ld; j += W) {
        const vf s = vf_mul(vf_load(p + j), scale), w = vf_mul(weight(s, vf_set(lse)), norm);
        vf kept = w, dp = vf_load(ds + j);
        if (drop) kept = vf_mul(w, vf_load(keep + j)), dp = vf_mul(dp, vf_load(keep + j));
        store_gradients(p, ds, kept, vf_mul(vf_mul(w, vf_sub(dp, vf_set(delta))), scale), s, false, span, j);
    }
}

static void few_add_apart(const struct few *f, float *sum, const float *x, struct few_lines y, size_t columns,
                          size_t ld) {
    memset(sum, 0, f->head.a->Tk * columns * sizeof *sum);
    for (size_t r = 0; r < f->head.a->Tq; r++)
        for (size_t j = f->reach.spans[r].begin; j < f->reach.spans[r].end; j++) QKV_K(attend_tiles)
    (1, columns, ADD, sum + j * columns, columns, NULL, x + r * ld + j, 1, ld, y.x + r * y.stride, y.stride, 1);
}

/* Rows [begin, end) of out (keys,columns) (+)= xᵀ·y over the first `rows` rows. */
static void few_add(struct few_lines out, enum few_put put, size_t begin, size_t end, size_t rows, const float *x,
                    struct few_lines y, size_t columns, size_t ld) {
    const size_t tile = few_tile(end - begin, FEW_TILE);
    for (size_t j = begin, keys; j < end; j += keys) {
        keys = qkv_min(end - j, tile);
        const struct few_left transposed = {x + j, sizeof *x, ld * sizeof *x};
        few_product(keys, columns, put, out.x + j * out.stride, out.stride, transposed, y.x, y.stride, rows);
    }
}

static enum few_put few_gradient_put(const struct few *f) {
    return f->head.plan->g->accumulate ? FEW_ADDED : FEW_GRADIENT;
}

/* A gradient of the keys, out (+)= xᵀ·y over the rows: x is P or dS, y is dY or Q. The gradient of a key that no row
 * attends to is 0, whatever the rows are. */
static void few_keys(const struct few *f, const struct qkv_heads *out, const float *x, struct few_lines y,
                     size_t columns, size_t ld) {
    const struct few_lines to = few_at(out, f->head.b, f->head.h);
    const size_t Tq = f->head.a->Tq, Tk = f->head.a->Tk;
    const struct span all = f->reach.all;
    const enum few_put put = few_gradient_put(f);
    if (!to.x) return;
    if (f->finite) {
        few_add(to, put, 0, all.begin, 0, x, y, columns, ld);
        few_add(to, put, all.begin, all.end, Tq, x, y, columns, ld);
        few_add(to, put, all.end, Tk, 0, x, y, columns, ld);
        return;
    }
    few_add_apart(f, f->sum, x, y, columns, ld);
    for (size_t j = 0; j < Tk; j++) put_cells(few_cells(to, j), put == FEW_ADDED, f->sum + j * columns, columns);
}

QKV_INLINE void few_backward(const struct qkv_attend_plan *plan, size_t pair, float *scratch, const size_t ld) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_attend_gradients *g = plan->g;
    const size_t tile = few_tile(a->Tq, FEW_TILE);
    struct few f;
    few_start(&f, plan, pair, scratch);
    const size_t b = f.head.b, h = f.head.h;
    const struct few_lines y = few_at(&a->y, b, h), dy = few_at(&g->dy, b, h), dq = few_at(&g->dq, b, h);
    few_ask(&f.head, &a->k, a->Tk, a->D);
    few_reach(&f.head, 0, a->Tq, true, &f.reach);
    f.finite =
        f.reach.alike || (few_finite(f.k, a->Tk, a->D) && few_finite(f.q, a->Tq, a->D) && few_finite(dy, a->Tq, a->Dv));
    few_ask(&f.head, &a->v, a->Tk, a->Dv);
    few_transpose(f.kt, ld, f.k, a->Tk, a->D);
    few_ask(&f.head, &a->q, a->Tq, a->D);
    few_transpose(f.vt, ld, f.v, a->Tk, a->Dv);
    few_ask(&f.head, &g->dy, a->Tq, a->Dv);
    for (size_t r = 0, rows; r < a->Tq; r += rows) {
        rows = qkv_min(a->Tq - r, tile);
        float *p = f.p + r * ld, *ds = f.ds + r * ld;
        few_product(rows, ld, FEW_SUM, p, ld, few_rows_of(f.q.x + r * f.q.stride, f.q.stride), f.kt, ld, a->D);
        if (!r) few_ask(&f.head, &a->y, a->Tq, a->Dv);
        few_product(rows, ld, FEW_SUM, ds, ld, few_rows_of(dy.x + r * dy.stride, dy.stride), f.vt, ld, a->Dv);
        if (!r) few_ask(&f.head, &g->dq, a->Tq, a->D);
        if (a->dropout > 0) few_keep(&f.head, r, rows, ld, mask_scale(a->dropout), f.keep, ld);
        for (size_t i = 0; i < rows; i++) few_gradients(&f, r + i, few_delta(&f, y, dy, r + i), f.keep + i * ld, ld);
        if (dq.x) few_times(&f, r, rows, few_gradient_put(&f), dq.x + r * dq.stride, dq.stride, ds, f.k, a->D, ld);
    }
    few_ask(&f.head, &g->dv, a->Tk, a->Dv);
    few_keys(&f, &g->dv, f.p, dy, a->Dv, ld);
    few_ask(&f.head, &g->dk, a->Tk, a->D);
    few_keys(&f, &g->dk, f.ds, f.q, a->D, ld);
}

void QKV_K(attend_backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    if (few_fits_vector(plan->a))
        few_backward(plan, pair, scratch, W);
    else
        few_backward(plan, pair, scratch, padded(plan->a->Tk, W));
}
