/* check_attend_apart.h: checks that masked keys do not change a row of attention, and that the storage and the form
 * of the mask do not change a case. Each check returns true on success and prints what is wrong. */
#ifndef QKV_CHECK_ATTEND_APART_H
#define QKV_CHECK_ATTEND_APART_H

#include "check_attend.h"

/* ---- numbers that are not finite -------------------------------------------------------------------------------- */

static inline void attend_fill_row(const struct qkv_heads *x, size_t b, size_t i, size_t h, size_t channels, float s) {
    for (size_t d = 0; d < channels; d++) attend_set(x, b, i, h, d, s);
}

/* Key and value j of all. */
static inline void attend_spoil_key(const struct attend_case *c, size_t b, size_t j, size_t n, float key, float value) {
    const struct qkv_attend *a = &c->a;
    bool past = j < a->past;
    attend_fill_row(past ? &a->past_k : &a->k, b, past ? j : j - a->past, n, a->D, key);
    attend_fill_row(past ? &a->past_v : &a->v, b, past ? j : j - a->past, n, a->Dv, value);
}

struct attend_bad { /* one key of all heads of a batch row, or one query */
    bool key;
    size_t b, at;
};

/* Whether a row of queries meets what is bad. */
static inline bool attend_meets(const struct qkv_attend *a, const struct attend_bad *bad, size_t b, size_t h,
                                size_t i) {
    if (b != bad->b) return false;
    return bad->key ? attend_may(a, b, h, i, bad->at) : i == bad->at && attend_may_any(a, b, h, i);
}

/* Marks the outputs that may change, in the order of attend_outputs. */
static inline unsigned char *attend_marks(const struct attend_case *c, const struct attend_bad *bad, size_t floats) {
    const struct qkv_attend *a = &c->a;
    size_t queries = a->B * a->H * a->Tq, keys = a->B * a->Hkv * a->Tk;
    unsigned char *marks = attend_memory(floats, 1), *dq = marks + queries * a->Dv, *dk = dq + queries * a->D;
    unsigned char *dv = dk + keys * a->D, *dattention_bias = dv + keys * a->Dv,
                  *lse = dattention_bias + c->addend_floats, *ddistance_bias = lse + queries;
    const size_t distances = c->g.ddistance_bias ? a->H * a->distance_bias.row : 0; /* of a batch row */
    unsigned char *dsinks = ddistance_bias + a->B * distances;
    for (size_t row = 0; row < queries; row++) {
        size_t i = row % a->Tq, h = row / a->Tq % a->H, b = row / a->Tq / a->H, n = h / (a->H / a->Hkv);
        if (!attend_meets(a, bad, b, h, i)) continue;
        memset(marks + row * a->Dv, 1, a->Dv);
        memset(dq + row * a->D, 1, a->D);
        lse[row] = 1;
        if (c->g.dsinks) dsinks[b * a->H + h] = 1;
        for (size_t j = 0; j < a->Tk; j++) {
            if (!attend_may(a, b, h, i, j)) continue;
            memset(dk + ((b * a->Hkv + n) * a->Tk + j) * a->D, 1, a->D);
            memset(dv + ((b * a->Hkv + n) * a->Tk + j) * a->Dv, 1, a->Dv);
            if (a->attention_bias) dattention_bias[attend_pair(&a->attention_bias_strides, b, h, i, j)] = 1;
            if (distances) ddistance_bias[b * distances + (size_t)attend_bias_at(a, b, h, i, j)] = 1;
        }
    }
    return marks;
}

/* One key's K and V, or one query's q and dy, become NaN or infinite: outputs of rows that do not meet it keep their
 * bits, and those that do are not finite any more. */
static inline bool attend_check_poison(struct qkv_context *ctx, struct attend_case *c, struct qkv_random *random) {
    const struct qkv_attend *a = &c->a;
    struct attend_bad bad = {.key = a->Tk && attend_chance(random, 0.5), .b = attend_uniform(random, 0, a->B - 1)};
    bool good = attend_run(ctx, c, true);
    size_t floats;
    float poison = attend_chance(random, 0.5) ? NAN : INFINITY, *clean = attend_outputs(c, &floats);
    bad.at = attend_uniform(random, 0, (bad.key ? a->Tk : a->Tq) - 1);
    for (size_t h = 0; h < (bad.key ? a->Hkv : a->H); h++) {
        if (bad.key) {
            attend_spoil_key(c, bad.b, bad.at, h, NAN, poison);
            continue;
        }
        attend_fill_row(&a->q, bad.b, bad.at, h, a->D, NAN);
        attend_fill_row(&c->g.dy, bad.b, bad.at, h, a->Dv, poison);
    }
    good = good && attend_run(ctx, c, true);
    float *now = attend_outputs(c, &floats);
    unsigned char *marks = attend_marks(c, &bad, floats);
    for (size_t e = 0; good && e < floats; e++) {
        bool y = e < a->B * a->H * a->Tq * a->Dv;
        if (marks[e] ? y && isfinite(now[e]) : !attend_same(&now[e], &clean[e], 1)) good = false;
    }
    if (!good)
        printf("%s: %s: %s %zu of batch row %zu is %g and it spread, or did not\n", ctx->kernels->isa, c->text,
               bad.key ? "key" : "query", bad.at, bad.b, (double)poison);
    guard_page_free(clean), guard_page_free(now), guard_page_free(marks);
    return good;
}

/* Sets everything to NaN that no visible pair reads: keys, queries, entries of the bias table and of attention_bias. */
static inline void attend_hide(struct attend_case *c) {
    const struct qkv_attend *a = &c->a;
    size_t queries = a->B * a->H * a->Tq, keys = a->B * a->Hkv * a->Tk,
           biases = a->distance_bias.table ? a->H * a->distance_bias.row : 0;
    unsigned char *q = attend_memory(queries, 1), *k = attend_memory(keys, 1), *bias = attend_memory(biases, 1);
    unsigned char *attention_bias = attend_memory(c->addend_floats, 1);
    for (size_t row = 0; row < queries; row++) {
        size_t i = row % a->Tq, h = row / a->Tq % a->H, b = row / a->Tq / a->H, n = h / (a->H / a->Hkv);
        for (size_t j = 0; j < a->Tk; j++) {
            if (!attend_may(a, b, h, i, j)) continue;
            q[row] = k[(b * a->Hkv + n) * a->Tk + j] = 1;
            if (a->distance_bias.table) bias[attend_bias_at(a, b, h, i, j)] = 1;
            if (a->attention_bias) attention_bias[attend_pair(&a->attention_bias_strides, b, h, i, j)] = 1;
        }
    }
    for (size_t r = 0; r < queries; r++)
        if (!q[r]) {
            attend_fill_row(&a->q, r / a->Tq / a->H, r % a->Tq, r / a->Tq % a->H, a->D, NAN);
            attend_fill_row(&c->g.dy, r / a->Tq / a->H, r % a->Tq, r / a->Tq % a->H, a->Dv, NAN);
        }
    for (size_t r = 0; r < keys; r++)
        if (!k[r]) attend_spoil_key(c, r / a->Tk / a->Hkv, r % a->Tk, r / a->Tk % a->Hkv, NAN, r % 2 ? NAN : -INFINITY);
    for (size_t e = 0; e < biases; e++)
        if (!bias[e]) c->bias[e] = NAN;
    for (size_t e = 0; e < c->addend_floats; e++) /* −inf is what hides, unless the mask does too */
        if (!attention_bias[e] && c->attention_bias[e] != -INFINITY) c->attention_bias[e] = NAN;
    guard_page_free(q), guard_page_free(k), guard_page_free(bias), guard_page_free(attention_bias);
}

static inline bool attend_check_hidden(struct qkv_context *ctx, struct attend_case *c) {
    size_t floats;
    bool good = attend_run(ctx, c, true);
    float *clean = attend_outputs(c, &floats);
    attend_hide(c);
    good = good && attend_run(ctx, c, true);
    float *now = attend_outputs(c, &floats);
    for (size_t e = 0; good && e < floats; e++) good = attend_same(&now[e], &clean[e], 1);
    if (!good) printf("%s: %s: NaN where nobody attends has spread\n", ctx->kernels->isa, c->text);
    guard_page_free(clean), guard_page_free(now);
    return good;
}

static inline bool attend_check_poisons(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random, true);
        c.g.accumulate = false;
        good = !c.a.Tq || (attend_check_hidden(ctx, &c) && attend_check_poison(ctx, &c, &random));
        if (!good) printf("  in random case %zu of seed %llu\n", i, (unsigned long long)seed);
        attend_case_free(&c);
    }
    return good;
}

/* ---- the same in other words ------------------------------------------------------------------------------------ */

/* `n` sums to which backward adds, which hold 7; NULL where they are not wanted. */
static inline float *attend_sums_of_7(const float *wanted, size_t n) {
    float *sums = wanted ? attend_memory(n, sizeof(float)) : NULL;
    for (size_t i = 0; sums && i < n; i++) sums[i] = 7;
    return sums;
}

/* A plain fp32 tensor (B,T,heads,channels); copied from another one, or 7 everywhere. */
static inline struct qkv_heads attend_plain(size_t B, struct attend_shape s, const struct qkv_heads *from) {
    size_t n = B * s.T * s.heads * s.channels;
    struct qkv_heads x = {attend_memory(n, 4), s.T * s.heads * s.channels, s.heads * s.channels, s.channels, QKV_F32};
    for (size_t e = 0; e < n; e++) {
        size_t d = e % s.channels, h = e / s.channels % s.heads, i = e / s.channels / s.heads % s.T;
        ((float *)x.data)[e] = from ? attend_get(from, e / s.channels / s.heads / s.T, i, h, d) : 7.0f;
    }
    return x;
}

/* The same case with plain fp32 tensors, no past, intervals as a mask, and a bias table, if nothing else is added,
 * as attention_bias. */
static inline void attend_twin(const struct attend_case *c, struct attend_case *twin) {
    const struct qkv_attend *from = &c->a;
    struct qkv_attend *a = &twin->a;
    struct qkv_heads k[2], v[2];
    const size_t pairs = from->B * from->H * from->Tq * from->Tk;
    *twin = *c;
    a->past = 0;
    attend_cut(c, ATTEND_K, from->B, 0, 0, k), attend_cut(c, ATTEND_V, from->B, 0, 0, v);
    guard_page_free(k[0].data), guard_page_free(v[0].data);
    a->k = k[1], a->v = v[1];
    a->q = attend_plain(a->B, attend_shape_of(a, ATTEND_Q), &from->q);
    twin->g.dy = attend_plain(a->B, attend_shape_of(a, ATTEND_DY), &c->g.dy);
    for (size_t which = ATTEND_Y; which <= ATTEND_DV; which++)
        *attend_tensor(twin, which) = attend_plain(a->B, attend_shape_of(a, which), NULL);
    a->lse = twin->lse = attend_memory(a->B * a->H * a->Tq, 4);
    a->lo = twin->lo = attend_memory(a->B * a->Tq, 4), a->hi = twin->hi = attend_memory(a->B * a->Tq, 4);
    for (size_t r = 0; r < a->B * a->Tq; r++) twin->hi[r] = INT32_MAX;
    a->mask = twin->mask = attend_memory(pairs, 1);
    a->mask_strides = (struct qkv_pairs){a->H * a->Tq * a->Tk, a->Tq * a->Tk, a->Tk, 0};
    twin->attention_bias = NULL;
    twin->g.dsinks = attend_sums_of_7(c->g.dsinks, a->B * a->H);
    if (a->distance_bias.table && !a->attention_bias) {
        a->attention_bias = twin->attention_bias = attend_memory(pairs, 4), a->attention_bias_strides = a->mask_strides;
        a->distance_bias.table = NULL, twin->g.ddistance_bias = NULL;
    } else if (a->attention_bias) {
        twin->g.dattention_bias = attend_memory(c->addend_floats, 4);
        for (size_t e = 0; e < c->addend_floats; e++)
            twin->g.dattention_bias[e] = isnan(c->attention_bias[e]) ? NAN : 7.0f;
        twin->g.ddistance_bias = attend_sums_of_7(c->g.ddistance_bias, a->B * a->H * a->distance_bias.row);
    }
    for (size_t e = 0; e < pairs; e++) {
        size_t j = e % a->Tk, i = e / a->Tk % a->Tq, h = e / a->Tk / a->Tq % a->H, b = e / a->Tk / a->Tq / a->H;
        twin->mask[e] = attend_may(from, b, h, i, j);
        if (twin->attention_bias && twin->mask[e])
            twin->attention_bias[e] = from->distance_bias.table[attend_bias_at(from, b, h, i, j)];
    }
}

/* Puts the twin's outputs where the case's own are, rounded to their types. */
static inline void attend_take_over(struct attend_case *c, struct attend_case *twin, size_t first, size_t last) {
    static const size_t same[] = {[ATTEND_Y] = ATTEND_Y,   [ATTEND_DQ] = ATTEND_DQ,      [ATTEND_DK] = ATTEND_DK,
                                  [ATTEND_DV] = ATTEND_DV, [ATTEND_DPAST_K] = ATTEND_DK, [ATTEND_DPAST_V] = ATTEND_DV};
    for (size_t which = first; which <= last; which++) {
        struct attend_shape s = attend_shape_of(&c->a, which);
        size_t skip = which == ATTEND_DK || which == ATTEND_DV ? c->a.past : 0;
        for (size_t e = 0; e < c->a.B * s.T * s.heads * s.channels; e++) {
            size_t d = e % s.channels, h = e / s.channels % s.heads, i = e / s.channels / s.heads % s.T;
            size_t b = e / s.channels / s.heads / s.T;
            attend_set(attend_tensor(c, which), b, i, h, d,
                       attend_get(attend_tensor(twin, same[which]), b, skip + i, h, d));
        }
    }
}

static inline void attend_twin_free(struct attend_case *twin) {
    static const size_t own[] = {ATTEND_Q, ATTEND_K, ATTEND_V, ATTEND_DY, ATTEND_Y, ATTEND_DQ, ATTEND_DK, ATTEND_DV};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) guard_page_free(attend_tensor(twin, own[i])->data);
    guard_page_free(twin->lse), guard_page_free(twin->lo), guard_page_free(twin->hi), guard_page_free(twin->mask),
        guard_page_free(twin->attention_bias), guard_page_free(twin->g.dattention_bias),
        guard_page_free(twin->g.ddistance_bias), guard_page_free(twin->g.dsinks);
}

/* A case and its twin have the same bits. The backward pass starts from the case's own y, which may be rounded. */
static inline bool attend_check_twin(struct qkv_context *ctx, struct attend_case *c) {
    struct attend_case twin;
    struct qkv_arena scratch = {0};
    size_t floats;
    attend_twin(c, &twin);
    bool good = attend_run(ctx, c, true);
    float *all = attend_outputs(c, &floats);
    struct qkv_heads y = attend_plain(c->a.B, attend_shape_of(&c->a, ATTEND_Y), &c->a.y);
    good = good && qkv_arena_create(ctx, &scratch, (size_t)256 << 20, "scratch") == QKV_OK;
    good = good && qkv_attend_forward(ctx, &scratch, &twin.a) == QKV_OK;
    attend_take_over(c, &twin, ATTEND_Y, ATTEND_Y);
    guard_page_free(twin.a.y.data);
    twin.a.y = y;
    good = good && qkv_attend_backward(ctx, &scratch, &twin.a, &twin.g) == QKV_OK;
    attend_take_over(c, &twin, ATTEND_DQ, ATTEND_DPAST_V);
    if (c->g.dattention_bias) memcpy(c->g.dattention_bias, twin.g.dattention_bias, c->addend_floats * 4);
    if (twin.g.ddistance_bias)
        memcpy(c->g.ddistance_bias, twin.g.ddistance_bias, c->a.B * c->a.H * c->a.distance_bias.row * 4);
    if (c->g.dsinks) memcpy(c->g.dsinks, twin.g.dsinks, c->a.B * c->a.H * 4);
    if (c->lse) memcpy(c->lse, twin.lse, c->a.B * c->a.H * c->a.Tq * 4);
    float *again = attend_outputs(c, &floats);
    for (size_t e = 0; good && e < floats; e++) good = attend_same(&all[e], &again[e], 1);
    if (!good) printf("%s: %s: the plain twin has other bits\n", ctx->kernels->isa, c->text);
    qkv_arena_free(&scratch);
    attend_twin_free(&twin);
    guard_page_free(all), guard_page_free(again);
    return good;
}

static inline bool attend_check_twins(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random, true);
        good = attend_check_twin(ctx, &c);
        if (!good) printf("  in random case %zu of seed %llu\n", i, (unsigned long long)seed);
        attend_case_free(&c);
    }
    return good;
}

#endif
