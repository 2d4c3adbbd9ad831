/* attend_few.c: attention of one head over at most QKV_ATTEND_FEW keys in fp32: sequences of a few tokens, of which a batch has thousands.
 *
 * The passes for any length (attend_forward.c, attend_backward.c) copy rows and keys together before they multiply them, so that long walks over
 * them are fast. Here rows are read where they lie, only keys and values that products need across lanes are turned, and backward is one walk: delta, what
 * weights are multiplied by, P and dS, dq, dk and dv. Every sum is the same chain over the same terms as there, so the bits are the same;
 * `qkv_attend_is_few` (attend_work.h) says which calls come here. */
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

#if defined(QKV_ISA_avx512)
#define FEW_TILE 14
#else
#define FEW_TILE 6
#endif
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

/* out (columns,ld) = `count` rows of x turned. Up to a multiple of W the last row stands for those that there are not: nobody attends to them. */
QKV_INLINE void few_turn(float *out, size_t ld, struct few_lines x, size_t count, size_t columns) {
    for (size_t j = 0; j < count; j += W) {
        const size_t last = count - j < W ? count - j - 1 : W - 1;
        for (size_t c = 0; c < columns; c += W) {
            vf r[W];
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) r[i] = vf_load(x.x + (j + (i < last ? i : last)) * x.stride + c);
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

/* ---- forward -------------------------------------------------------------------------------------------------------- */

struct few {
    const struct qkv_attend_plan *plan;
    const struct qkv_attend *a;
    struct mask_rule rule;
    struct few_lines q, k, v;
    size_t ld;      /* keys padded */
    float *kt, *vt; /* (D,ld), (Dv,ld) */
    float *p, *ds;  /* (rows,ld) */
    float *sum;     /* (KEYS,D or Dv) */
    float *keep;    /* (FEW_TILE,ld): what dropout multiplies the weights of the rows of a tile by */
    struct row rows[ROWS];
    struct span spans[ROWS], all;
    bool finite; /* whether zeros may stand for pairs that do not attend */
};

static void few_start(struct few *f, const struct qkv_attend_plan *plan, size_t b, size_t h, float *scratch) {
    const struct qkv_attend *a = plan->a;
    f->plan = plan, f->a = a;
    f->rule = mask_rule(a->key, a->dropout);
    f->q = few_at(&a->q, b, h), f->k = few_at(&a->k, b, h), f->v = few_at(&a->v, b, h);
    f->ld = padded(a->Tk, W);
    f->kt = scratch, f->vt = f->kt + KEYS * a->D;
    f->p = f->vt + KEYS * a->Dv, f->ds = f->p + ROWS * KEYS, f->sum = f->ds + ROWS * KEYS;
    f->keep = f->sum + KEYS * few_wide(a);
}

/* y and lse of the rows [r0, r0 + count) of the tile, whose products are in f->p. */
static void few_softmax(struct few *f, const struct row *rows, const struct span *spans, size_t count, float *l,
                        float *m) {
    if (f->a->dropout > 0) few_keep(f->plan, &f->rule, rows, count, f->ld, 1.0f, f->keep, f->ld);
    for (size_t r = 0; r < count; r++) {
        const float *keep = f->keep + r * f->ld;
        float *x = f->p + r * f->ld, best = -INFINITY;
        if (spans[r].end) best = row_scores(f->a, true, &rows[r], 0, spans[r], x, 0, f->ld);
        if (spans[r].end && !(fabsf(best) <= FLT_MAX)) best = row_repair(spans[r], x);
        m[r] = best, l[r] = 0;
        if (best == -INFINITY) {
            for (size_t j = 0; j < f->ld; j += W) vf_store(x + j, vf_zero());
            continue;
        }
        l[r] = row_exp(x, best, 0, f->ld);
        if (!(f->a->dropout > 0)) continue;
        for (size_t j = 0; j < f->ld; j += W) vf_store(x + j, vf_mul(vf_load(x + j), vf_load(keep + j)));
    }
}

/* out (rows,columns) = weights (rows,ld) times the rows of y; each row keeps to its own keys where 0·NaN would spread. */
static void few_times(const struct few *f, size_t r0, size_t rows, float *out, const float *x, struct few_lines y,
                      size_t columns) {
    if (f->finite) {
        few_product(rows, columns, out, columns, few_rows_of(x + f->all.begin, f->ld), y.x + f->all.begin * y.stride,
                    y.stride, f->all.end - f->all.begin);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        const struct span span = f->spans[r0 + r];
        few_product(1, columns, out + r * columns, columns, few_rows_of(x + r * f->ld + span.begin, f->ld),
                    y.x + span.begin * y.stride, y.stride, span.end - span.begin);
    }
}

static void few_put(struct cells y, const float *o, float scale, size_t columns) {
    for (size_t c = 0; c < columns; c += W)
        vf_store((float *)y.data + c, vf_add(vf_mul(vf_load(o + c), vf_set(scale)), vf_zero()));
}

void QKV_K(attend_forward_few)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const size_t b = item / plan->blocks / a->Hkv, h = item / plan->blocks % a->Hkv;
    const size_t first = item % plan->blocks * plan->block,
                 count = a->Tq - first < plan->block ? a->Tq - first : plan->block, tile = few_tile(count, FEW_TILE);
    struct few f;
    few_start(&f, plan, b, h, scratch);
    few_turn(f.kt, f.ld, f.k, a->Tk, a->D);
    if (!first) {
        few_ask(&a->q, b, h, a->H, a->Tq, a->D);
        few_ask(&a->k, b, h, a->H, a->Tk, a->D);
        few_ask(&a->v, b, h, a->H, a->Tk, a->Dv);
        few_ask(&a->y, b, h, a->H, a->Tq, a->Dv);
    }
    bool known = false, finite = false;
    for (size_t r = 0, rows; r < count; r += rows) {
        float l[FEW_TILE], m[FEW_TILE], lse;
        rows = count - r < tile ? count - r : tile;
        for (size_t i = 0; i < rows; i++) f.rows[i] = row_of(a, b, h, first + r + i);
        f.all = spans_of(f.rows, rows, 0, a->Tk, f.spans);
        few_product(rows, f.ld, f.p, f.ld, few_rows_of(f.q.x + (first + r) * f.q.stride, f.q.stride), f.kt, f.ld, a->D);
        few_softmax(&f, f.rows, f.spans, rows, l, m);
        f.finite = all_like(f.spans, rows, f.all);
        if (!f.finite && !known) finite = few_finite(f.v, a->Tk, a->Dv), known = true;
        f.finite = f.finite || finite;
        few_times(&f, 0, rows, f.sum, f.p, f.v, a->Dv);
        for (size_t i = 0; i < rows; i++) {
            const float scale = row_finish(a, h, m[i], l[i], &lse);
            few_put(cells_at(&a->y, b, first + r + i, h), f.sum + i * a->Dv, scale, a->Dv);
            if (a->lse) a->lse[f.rows[i].at] = lse;
        }
    }
}

/* ---- backward ------------------------------------------------------------------------------------------------------- */

/* What the weights of a row, whose products are x, are multiplied by: as in attend_weights.c. */
static float few_norm(const struct few *f, size_t h, const float *x, struct span span, float lse) {
    float w[KEYS], sum = 0;
    if (!coarse(lse)) return 1.0f;
    for (size_t j = 0; j < f->ld; j += W)
        vf_store(w + j, weight(vf_mul(vf_load(x + j), vf_set(f->a->scale)), vf_set(lse)));
    for (size_t j = span.begin; j < span.end; j++) sum += w[j];
    return 1 / (sink_weight(f->a, h, lse) + sum);
}

/* Products q·k in p and dy·v in ds become weights and gradients of the products. */
static void few_gradients(const struct few *f, size_t r, const float *keep) {
    const struct qkv_attend *a = f->a;
    const struct row *row = &f->rows[r];
    const struct span span = f->spans[r];
    float *p = f->p + r * f->ld, *ds = f->ds + r * f->ld;
    if (!span.end) {
        for (size_t j = 0; j < f->ld; j += W) vf_store(p + j, vf_zero()), vf_store(ds + j, vf_zero());
        return;
    }
    const vf lse = vf_set(a->lse[row->at]), delta = vf_set(f->plan->delta[row->at]), scale = vf_set(a->scale),
             norm = vf_set(few_norm(f, row->h, p, span, a->lse[row->at]));
    const bool drop = a->dropout > 0;
    for (size_t j = 0; j < f->ld; j += W) {
        const vf s = vf_mul(vf_load(p + j), scale), w = vf_mul(weight(s, lse), norm);
        vf kept = w, dp = vf_load(ds + j);
        if (drop) kept = vf_mul(w, vf_load(keep + j)), dp = vf_mul(dp, vf_load(keep + j));
        store_gradients(p, ds, kept, vf_mul(vf_mul(w, vf_sub(dp, delta)), scale), s, false, span, j);
    }
}

/* The rows of a head, their keys, and what of them is to be looked at. */
static void few_rows(struct few *f, struct few_lines dy, size_t b, size_t h) {
    const struct qkv_attend *a = f->a;
    for (size_t i = 0; i < a->Tq; i++) {
        f->rows[i] = row_of(a, b, h, i);
        if (a->lse[f->rows[i].at] == -INFINITY) f->rows[i].lo = f->rows[i].hi = 0;
    }
    f->all = spans_of(f->rows, a->Tq, 0, a->Tk, f->spans);
    f->finite = all_like(f->spans, a->Tq, f->all) ||
                (few_finite(f->k, a->Tk, a->D) && few_finite(f->q, a->Tq, a->D) && few_finite(dy, a->Tq, a->Dv));
}

static void few_add_apart(const struct few *f, float *sum, const float *x, struct few_lines y, size_t columns) {
    memset(sum, 0, f->a->Tk * columns * sizeof *sum);
    for (size_t r = 0; r < f->a->Tq; r++)
        for (size_t j = f->spans[r].begin; j < f->spans[r].end; j++) QKV_K(attend_tiles)
    (1, columns, ADD, sum + j * columns, columns, NULL, x + r * f->ld + j, 1, f->ld, y.x + r * y.stride, y.stride, 1);
}

/* f->sum (keys,columns) = xᵀ·y over the first `rows` rows, for the keys [begin, end). */
static void few_add(const struct few *f, size_t begin, size_t end, size_t rows, const float *x, struct few_lines y,
                    size_t columns) {
    const size_t tile = few_tile(end - begin, FEW_TILE);
    for (size_t j = begin, keys; j < end; j += keys) {
        keys = end - j < tile ? end - j : tile;
        const struct few_left turned = {x + j, sizeof *x, f->ld * sizeof *x};
        few_product(keys, columns, f->sum + j * columns, columns, turned, y.x, y.stride, rows);
    }
}

/* A gradient of the keys, out (+)= xᵀ·y over the rows: x is P or dS, y is dY or Q. That of a key that no row attends to is 0
 * whatever the rows are. */
static void few_keys(const struct few *f, const struct qkv_heads *out, size_t b, size_t h, const float *x,
                     struct few_lines y, size_t columns) {
    const struct few_lines to = few_at(out, b, h);
    const size_t Tq = f->a->Tq, Tk = f->a->Tk;
    if (!to.x) return;
    if (f->finite) {
        few_add(f, 0, f->all.begin, 0, x, y, columns);
        few_add(f, f->all.begin, f->all.end, Tq, x, y, columns);
        few_add(f, f->all.end, Tk, 0, x, y, columns);
    } else {
        few_add_apart(f, f->sum, x, y, columns);
    }
    for (size_t j = 0; j < Tk; j++)
        put_cells((struct cells){to.x + j * to.stride, QKV_F32}, f->plan->g->accumulate, f->sum + j * columns, columns);
}

static void few_queries(const struct few *f, struct few_lines dq, size_t r0, size_t rows) {
    const size_t D = f->a->D;
    few_times(f, r0, rows, f->sum, f->ds + r0 * f->ld, f->k, D);
    for (size_t r = 0; r < rows; r++) {
        float *to = dq.x + (r0 + r) * dq.stride;
        for (size_t c = 0; c < D; c += W) {
            const vf sum = vf_add(vf_zero(), vf_load(f->sum + r * D + c));
            vf_store(to + c, f->plan->g->accumulate ? vf_add(vf_load(to + c), sum) : sum);
        }
    }
}

void QKV_K(attend_backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_attend_gradients *g = plan->g;
    const size_t b = pair / a->Hkv, h = pair % a->Hkv, tile = few_tile(a->Tq, FEW_TILE);
    const struct few_lines dy = few_at(&g->dy, b, h), dq = few_at(&g->dq, b, h);
    struct few f;
    few_start(&f, plan, b, h, scratch);
    QKV_K(attend_delta)(plan, pair * a->Tq, (pair + 1) * a->Tq);
    few_ask(&a->y, b, h, a->H, a->Tq, a->Dv);
    few_ask(&g->dy, b, h, a->H, a->Tq, a->Dv);
    few_ask(&a->q, b, h, a->H, a->Tq, a->D);
    few_ask(&a->k, b, h, a->H, a->Tk, a->D);
    few_ask(&a->v, b, h, a->H, a->Tk, a->Dv);
    few_ask(&g->dq, b, h, a->H, a->Tq, a->D);
    few_ask(&g->dk, b, h, a->H, a->Tk, a->D);
    few_ask(&g->dv, b, h, a->H, a->Tk, a->Dv);
    few_rows(&f, dy, b, h);
    few_turn(f.kt, f.ld, f.k, a->Tk, a->D);
    few_turn(f.vt, f.ld, f.v, a->Tk, a->Dv);
    for (size_t r = 0, rows; r < a->Tq; r += rows) {
        rows = a->Tq - r < tile ? a->Tq - r : tile;
        float *p = f.p + r * f.ld, *ds = f.ds + r * f.ld;
        few_product(rows, f.ld, p, f.ld, few_rows_of(f.q.x + r * f.q.stride, f.q.stride), f.kt, f.ld, a->D);
        few_product(rows, f.ld, ds, f.ld, few_rows_of(dy.x + r * dy.stride, dy.stride), f.vt, f.ld, a->Dv);
        if (a->dropout > 0) few_keep(plan, &f.rule, f.rows + r, rows, f.ld, mask_scale(a->dropout), f.keep, f.ld);
        for (size_t i = 0; i < rows; i++) few_gradients(&f, r + i, f.keep + i * f.ld);
        if (dq.x) few_queries(&f, dq, r, rows);
    }
    few_keys(&f, &g->dv, b, h, f.p, dy, a->Dv);
    few_keys(&f, &g->dk, b, h, f.ds, f.q, a->D);
}
