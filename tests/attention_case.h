/* attention_case.h: random calls of attention on plain buffers: any shape, layout, storage type, mask, bias, past
 * and dropout together; and the same case as input of the formula. */
#ifndef QKV_ATTENTION_CASE_H
#define QKV_ATTENTION_CASE_H

#include "attention_formula.h"
#include "kernel/kernel.h"

enum { CASE_BLOCKS = 40 };

struct attention_case {
    struct qkv_attention_call call;
    struct qkv_attention_gradients g;
    struct formula f;
    void *blocks[CASE_BLOCKS]; /* everything allocated */
    size_t block_count;
    bool half; /* something is stored in bf16 or f16 */
    char text[512];
};

static inline bool case_chance(struct qkv_random *r, double p) {
    return qkv_random_uniform(r) < p;
}

static inline void *case_memory(struct attention_case *c, size_t bytes) {
    void *block = calloc(bytes + 64, 1);
    if (!block || c->block_count == CASE_BLOCKS) abort();
    return c->blocks[c->block_count++] = block;
}

static inline void case_free(struct attention_case *c) {
    for (size_t i = 0; i < c->block_count; i++) free(c->blocks[i]);
    formula_free(&c->f);
}

/* A view of that shape: dimensions nested in any order, with gaps; everything in it NaN at first. */
static inline struct qkv_view case_view(struct attention_case *c, struct qkv_random *r, size_t B, size_t H, size_t T,
                                        size_t D, bool plain) {
    struct qkv_view v = {.B = B, .H = H, .T = T, .D = D, .dtype = QKV_F32};
    if (!plain && case_chance(r, 0.3)) v.dtype = case_chance(r, 0.5) ? QKV_BF16 : QKV_F16;
    size_t counts[3] = {B, H, T}, *strides[3] = {&v.batch, &v.head, &v.row};
    size_t order[3] = {0, 1, 2}, size = v.dtype == QKV_F32 ? 4 : 2,
           extent = D + (case_chance(r, 0.3) ? test_between(r, 1, 5) : 0);
    for (size_t i = 2; i > 0; i--) {
        size_t j = test_between(r, 0, i), swap = order[i];
        order[i] = order[j], order[j] = swap;
    }
    for (size_t i = 0; i < 3; i++) {
        *strides[order[i]] = extent;
        extent = extent * counts[order[i]] + (case_chance(r, 0.2) ? test_between(r, 1, 7) : 0);
    }
    v.data = case_memory(c, (extent + 1) * size);
    memset(v.data, 0xff, extent * size); /* NaN in either type */
    c->half = c->half || v.dtype != QKV_F32;
    return v;
}

/* Fills a view with N(0,1), and the formula's packed array with the numbers that the view then holds, from row
 * `first` on. */
static inline void case_fill(const struct qkv_view *v, struct qkv_random *r, double *packed, size_t first, size_t T) {
    for (size_t e = 0; e < formula_elements(v); e++) {
        size_t d = e % v->D, t = e / v->D % v->T, group = e / v->D / v->T;
        packed[(group * T + first + t) * v->D + d] = formula_set(v, e, qkv_random_normal(r));
    }
}

static inline void case_open(struct formula *f, bool (*open)(void *what, size_t b, size_t h, size_t i, size_t j),
                             void *what) {
    for (size_t b = 0; b < f->B; b++)
        for (size_t h = 0; h < f->H; h++)
            for (size_t i = 0; i < f->Tq; i++)
                for (size_t j = 0; j < f->Tk; j++)
                    if (!open(what, b, h, i, j)) f->open[formula_pair(f, b, h, i, j)] = false;
}

/* The definition of every mask, pair by pair. */
static inline bool case_mask_open(void *what, size_t b, size_t h, size_t query, size_t key) {
    const struct qkv_mask *m = what;
    int64_t i = m->offset + (m->offsets ? m->offsets[b] : 0) + (int64_t)query, j = (int64_t)key;
    (void)h;
    if (m->lengths && j >= m->lengths[b]) return false;
    if (m->starts && j < m->starts[b]) return false;
    if (m->causal && j > i && !(m->prefix && j < m->prefix[b])) return false;
    if (m->window && (j - i >= m->window || i - j >= m->window)) return false;
    if (m->sides && ((m->left >= 0 && i - j > m->left) || (m->right >= 0 && j - i > m->right))) return false;
    if (!m->key_documents) return true;
    const int32_t *numbers = m->key_documents + b * m->Tk;
    int32_t number = m->query_documents             ? m->query_documents[b * m->Tq + query]
                     : i >= 0 && i < (int64_t)m->Tk ? numbers[i]
                                                    : -1;
    return number >= 0 && numbers[key] == number;
}

static inline int32_t *case_integers(struct attention_case *c, struct qkv_random *r, size_t n, size_t most) {
    int32_t *x = case_memory(c, n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (int32_t)test_between(r, 0, most);
    return x;
}

static inline int32_t *case_documents(struct attention_case *c, struct qkv_random *r, size_t rows, size_t T) {
    int32_t *numbers = case_memory(c, rows * T * sizeof *numbers);
    for (size_t row = 0; row < rows; row++) {
        int32_t number = 0;
        size_t end = case_chance(r, 0.5) ? T : test_between(r, 0, T);
        for (size_t t = 0; t < T; t++) {
            if (case_chance(r, 0.2)) number += (int32_t)test_between(r, 1, 2);
            numbers[row * T + t] = t < end ? number : -1;
        }
    }
    return numbers;
}

/* The documents of queries that stand among their own keys, or have none. */
static inline void case_own_documents(struct qkv_random *r, const struct qkv_mask *m, int32_t *numbers) {
    for (size_t row = 0; row < m->B * m->Tq; row++) {
        int64_t i = m->offset + (m->offsets ? m->offsets[row / m->Tq] : 0) + (int64_t)(row % m->Tq);
        bool none = i < 0 || i >= (int64_t)m->Tk || case_chance(r, 0.1);
        numbers[row] = none ? (case_chance(r, 0.5) ? -1 : 1000) : m->key_documents[row / m->Tq * m->Tk + (size_t)i];
    }
}

/* A random mask; B, Tq and Tk (all keys) are given. */
static inline struct qkv_mask case_mask(struct attention_case *c, struct qkv_random *r, size_t B, size_t Tq,
                                        size_t Tk) {
    struct qkv_mask m = {.B = B, .Tq = Tq, .Tk = Tk};
    m.causal = case_chance(r, 0.5);
    if (case_chance(r, 0.3)) m.offset = (int64_t)Tk - (int64_t)Tq;
    if (case_chance(r, 0.1)) m.offset = (int64_t)test_between(r, 0, 2 * Tk) - (int64_t)Tk;
    if (case_chance(r, 0.2)) m.offsets = case_integers(c, r, B, 5);
    if (case_chance(r, 0.2)) m.window = (int64_t)test_between(r, 1, 12);
    if (case_chance(r, 0.3)) m.lengths = case_integers(c, r, B, Tk);
    if (m.causal && case_chance(r, 0.4)) m.prefix = case_integers(c, r, B, Tk);
    if (case_chance(r, 0.2)) m.key_documents = case_documents(c, r, B, Tk);
    if (case_chance(r, 0.2)) {
        m.sides = true;
        m.left = (int64_t)test_between(r, 0, 12) - 1, m.right = (int64_t)test_between(r, 0, 12) - 1;
    }
    if (m.key_documents && case_chance(r, 0.5)) {
        int32_t *numbers = case_documents(c, r, B, Tq);
        m.query_documents = numbers;
        if (m.causal || m.window || m.sides) case_own_documents(r, &m, numbers);
    }
    return m;
}

/* A shape that broadcasts as it likes, sometimes with strides of its own; *elements is what it needs. */
static inline struct qkv_pair_shape case_pairs(struct qkv_random *r, const struct formula *f, size_t *elements) {
    struct qkv_pair_shape s = {.B = f->B, .H = f->H, .Tq = f->Tq, .Tk = f->Tk};
    if (case_chance(r, 0.5)) s.B = 1;
    if (case_chance(r, 0.5)) s.H = 1;
    if (case_chance(r, 0.3)) s.Tq = 1;
    if (case_chance(r, 0.2)) s.Tk = test_between(r, 0, f->Tk);
    if (case_chance(r, 0.3)) {
        s.row = s.Tk + test_between(r, 0, 3);
        s.batch = s.row * s.Tq + test_between(r, 0, 3);
        s.head = s.batch * s.B;
        *elements = s.head * s.H;
    } else {
        *elements = s.B * s.H * s.Tq * s.Tk;
    }
    return s;
}

static inline size_t case_pair_at(const struct qkv_pair_shape *s, size_t b, size_t h, size_t i, size_t j) {
    bool packed = !s->batch && !s->head && !s->row;
    size_t row = packed ? s->Tk : s->row, head = packed ? s->Tq * row : s->head,
           batch = packed ? s->H * head : s->batch;
    return (s->B == 1 ? 0 : b * batch) + (s->H == 1 ? 0 : h * head) + (s->Tq == 1 ? 0 : i * row) + j;
}

struct case_dense {
    const uint8_t *mask;
    const float *bias;
    struct qkv_pair_shape shape;
};
static inline bool case_dense_open(void *what, size_t b, size_t h, size_t i, size_t j) {
    const struct case_dense *d = what;
    if (j >= d->shape.Tk) return false;
    size_t at = case_pair_at(&d->shape, b, h, i, j);
    return d->mask ? d->mask[at] != 0 : d->bias[at] != -INFINITY;
}

static inline void case_dense_mask(struct attention_case *c, struct qkv_random *r) {
    size_t n;
    struct case_dense d = {.shape = case_pairs(r, &c->f, &n)};
    uint8_t *mask = case_memory(c, n);
    double open = case_chance(r, 0.2) ? 0.05 : 0.6;
    for (size_t e = 0; e < n; e++) mask[e] = case_chance(r, open) ? (uint8_t)test_between(r, 1, 255) : 0;
    c->call.dense = d.mask = mask;
    c->call.dense_shape = d.shape;
    case_open(&c->f, case_dense_open, &d);
    strcat(c->text, " dense");
}

static inline void case_bias(struct attention_case *c, struct qkv_random *r) {
    size_t n;
    struct case_dense d = {.shape = case_pairs(r, &c->f, &n)};
    float *bias = case_memory(c, n * sizeof(float));
    double masked = case_chance(r, 0.5) ? 0.2 : 0;
    for (size_t e = 0; e < n; e++) bias[e] = case_chance(r, masked) ? -INFINITY : (float)qkv_random_normal(r);
    c->call.bias = d.bias = bias;
    c->call.bias_shape = d.shape;
    case_open(&c->f, case_dense_open, &d);
    for (size_t p = 0; p < c->f.B * c->f.H * c->f.Tq * c->f.Tk; p++) {
        size_t j = p % c->f.Tk, i = p / c->f.Tk % c->f.Tq, h = p / c->f.Tk / c->f.Tq % c->f.H,
               b = p / c->f.Tk / c->f.Tq / c->f.H;
        if (j >= d.shape.Tk) continue;
        float x = bias[case_pair_at(&d.shape, b, h, i, j)];
        if (x != -INFINITY) c->f.attention_bias[p] += (double)x;
    }
    if (case_chance(r, 0.8)) {
        c->g.dbias = case_memory(c, n * sizeof(float));
        for (size_t e = 0; e < n; e++) c->g.dbias[e] = 7;
    }
    strcat(c->text, " bias");
}

static inline void case_alibi(struct attention_case *c, struct qkv_random *r, const struct qkv_mask *m) {
    const struct formula *f = &c->f;
    float *slopes = case_memory(c, f->H * sizeof(float));
    for (size_t h = 0; h < f->H; h++) slopes[h] = (float)(3 * qkv_random_normal(r) / (double)(f->Tk + 10));
    c->call.alibi = slopes;
    for (size_t p = 0; p < f->B * f->H * f->Tq * f->Tk; p++) {
        size_t j = p % f->Tk, i = p / f->Tk % f->Tq, h = p / f->Tk / f->Tq % f->H, b = p / f->Tk / f->Tq / f->H;
        int64_t at = m->offset + (m->offsets ? m->offsets[b] : 0) + (int64_t)i;
        c->f.attention_bias[p] -= (double)slopes[h] * fabs((double)(at - (int64_t)j));
    }
    strcat(c->text, " alibi");
}

/* The library's own dropout mask: its numbers are tested elsewhere. */
static inline void case_dropout(struct attention_case *c, struct qkv_random *r) {
    struct formula *f = &c->f;
    size_t n = f->B * f->H * f->Tq * f->Tk;
    c->call.dropout = 0.6 * qkv_random_uniform(r);
    c->call.seed = qkv_random_bits(r);
    uint32_t key[2] = {(uint32_t)c->call.seed, (uint32_t)(c->call.seed >> 32)};
    float *one = case_memory(c, n * sizeof(float));
    for (size_t e = 0; e < n; e++) one[e] = 1;
    const struct qkv_kernels *kernels = qkv_kernels_at(0);
    if (n) kernels->dropout(one, false, one, (float)c->call.dropout, key, 0, n);
    for (size_t e = 0; e < n; e++) f->keep[e] = (double)one[e];
    strcat(c->text, " dropout");
}

static inline void case_shape(struct formula *f, struct qkv_random *r) {
    static const size_t common[] = {1, 4, 8, 16, 24, 32, 64, 80};
    bool large = case_chance(r, 0.05);
    f->B = test_between(r, case_chance(r, 0.05) ? 0 : 1, 3);
    f->Hkv = test_between(r, 1, 3);
    f->H = f->Hkv * test_between(r, 1, 4);
    f->Tq = test_between(r, case_chance(r, 0.05) ? 0 : 1, large ? 150 : 20);
    f->Tk = test_between(r, case_chance(r, 0.05) ? 0 : 1, large ? 300 : 40);
    if (case_chance(r, 0.3)) f->Tk = f->Tq;
    f->D = case_chance(r, 0.5) ? common[test_between(r, 0, 7)] : test_between(r, 1, 40);
    f->Dv = case_chance(r, 0.5) ? f->D : test_between(r, 1, 40);
}

static inline void case_views(struct attention_case *c, struct qkv_random *r, size_t past, bool plain) {
    struct formula *f = &c->f;
    struct qkv_attention_call *a = &c->call;
    size_t T = f->Tk - past;
    a->q = case_view(c, r, f->B, f->H, f->Tq, f->D, plain), a->y = case_view(c, r, f->B, f->H, f->Tq, f->Dv, plain);
    a->k = case_view(c, r, f->B, f->Hkv, T, f->D, plain), a->v = case_view(c, r, f->B, f->Hkv, T, f->Dv, plain);
    c->g.dy = case_view(c, r, f->B, f->H, f->Tq, f->Dv, plain),
    c->g.dq = case_view(c, r, f->B, f->H, f->Tq, f->D, plain);
    c->g.dk = case_view(c, r, f->B, f->Hkv, T, f->D, plain), c->g.dv = case_view(c, r, f->B, f->Hkv, T, f->Dv, plain);
    if (past) {
        a->past_k = case_view(c, r, f->B, f->Hkv, past, f->D, plain);
        a->past_v = case_view(c, r, f->B, f->Hkv, past, f->Dv, plain);
        c->g.dpast_k = case_view(c, r, f->B, f->Hkv, past, f->D, plain);
        c->g.dpast_v = case_view(c, r, f->B, f->Hkv, past, f->Dv, plain);
        case_fill(&a->past_k, r, f->k, 0, f->Tk), case_fill(&a->past_v, r, f->v, 0, f->Tk);
    }
    case_fill(&a->q, r, f->q, 0, f->Tq), case_fill(&c->g.dy, r, f->dy, 0, f->Tq);
    case_fill(&a->k, r, f->k, past, f->Tk), case_fill(&a->v, r, f->v, past, f->Tk);
    a->lse = case_memory(c, f->B * f->H * f->Tq * sizeof(float));
    if (!case_chance(r, 0.3)) return;
    float *dlse = case_memory(c, f->B * f->H * f->Tq * sizeof(float));
    for (size_t row = 0; row < f->B * f->H * f->Tq; row++)
        f->dlse[row] = (double)(dlse[row] = (float)qkv_random_normal(r));
    c->g.dlse = dlse;
}

/* plain: fp32 only. */
static inline void case_random(struct attention_case *c, struct qkv_random *r, bool plain) {
    struct formula *f = &c->f;
    memset(c, 0, sizeof *c);
    case_shape(f, r);
    formula_start(f);
    size_t past = case_chance(r, 0.3) ? test_between(r, 0, f->Tk) : 0;
    case_views(c, r, past, plain || case_chance(r, 0.5));
    struct qkv_mask mask = case_mask(c, r, f->B, f->Tq, f->Tk);
    c->call.mask = mask;
    case_open(f, case_mask_open, &mask);
    c->call.scale = case_chance(r, 0.3) ? (4 * qkv_random_uniform(r) - 2) / sqrt((double)f->D) : 0;
    c->call.softcap = case_chance(r, 0.3) ? 0.5 + 2 * qkv_random_uniform(r) : 0;
    f->scale = c->call.scale == 0 ? 1 / sqrt((double)f->D) : c->call.scale, f->softcap = c->call.softcap;
    snprintf(c->text, sizeof c->text,
             "B %zu H %zu Hkv %zu Tq %zu Tk %zu past %zu D %zu Dv %zu scale %g softcap %g causal %d offset %lld%s "
             "window %lld%s%s%s%s%s%s",
             f->B, f->H, f->Hkv, f->Tq, f->Tk, past, f->D, f->Dv, f->scale, f->softcap, mask.causal,
             (long long)mask.offset, mask.offsets ? "+" : "", (long long)mask.window, mask.sides ? " sides" : "",
             mask.lengths ? " lengths" : "", mask.prefix ? " prefix" : "", mask.key_documents ? " documents" : "",
             mask.query_documents ? " of queries" : "", c->half ? " halves" : "");
    if (case_chance(r, 0.3)) case_dense_mask(c, r);
    if (case_chance(r, 0.3)) case_bias(c, r);
    if (case_chance(r, 0.3) && !(mask.query_documents && !mask.causal && !mask.window && !mask.sides))
        case_alibi(c, r, &mask);
    if (case_chance(r, 0.2)) case_dropout(c, r);
    if (c->g.dlse) strcat(c->text, " dlse");
    c->g.accumulate = case_chance(r, 0.3);
    if (c->g.accumulate) strcat(c->text, " accumulate");
}

/* ---- running a case --------------------------------------------------------------------------------------------- */

static inline struct qkv_context *open_context(size_t table, int threads) {
    struct qkv_context_options options = {.size = sizeof options, .isa = qkv_isa_at(table), .threads = threads};
    struct qkv_context *ctx;
    assert_ok(ctx, qkv_context_create(&ctx, &options));
    return ctx;
}

/* $QKV_TEST_CASES multiplies the number of random cases. */
static inline size_t cases(size_t n) {
    const char *text = getenv("QKV_TEST_CASES");
#ifdef QKV_SANITIZE
    n /= 5;
#endif
    return text ? n * strtoul(text, NULL, 10) : n;
}

static inline void fill(const struct qkv_view *v, double number) {
    for (size_t e = 0; e < formula_elements(v); e++) formula_set(v, e, number);
}

static inline void run(struct qkv_context *ctx, struct attention_case *c) {
    const struct qkv_view *outs[] = {&c->g.dq, &c->g.dk, &c->g.dv, &c->g.dpast_k, &c->g.dpast_v};
    for (size_t i = 0; i < TEST_COUNT(outs); i++) fill(outs[i], 7);
    fill(&c->call.y, 7);
    if (qkv_attention_forward(ctx, &c->call) || qkv_attention_backward(ctx, &c->call, &c->g))
        fail_msg("%s: %s", c->text, qkv_message(ctx));
}

static inline float *packed(const struct qkv_view *v) {
    float *x = calloc(formula_elements(v) + 1, sizeof *x);
    for (size_t e = 0; e < formula_elements(v); e++) x[e] = (float)formula_get(v, e);
    return x;
}

static inline void same_view(const struct qkv_view *v, const float *expected, const struct attention_case *c,
                             const char *what) {
    float *got = packed(v);
    if (memcmp(got, expected, formula_elements(v) * sizeof(float))) fail_msg("%s gives other bits: %s", what, c->text);
    free(got);
}

#endif
