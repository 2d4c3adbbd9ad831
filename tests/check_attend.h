/* check_attend.h: checks of attention against its reference and against itself. Each returns true on success and
 * prints what is wrong. It needs no test framework. */
#ifndef QKV_CHECK_ATTEND_H
#define QKV_CHECK_ATTEND_H

#include "attend_reference.h"

struct attend_error { /* the largest seen, for reports */
    double y, gradient, lse;
};

/* Runs forward, and backward when `backward`, with exactly the scratch that a dry run asks for. */
static inline bool attend_run(struct qkv_context *ctx, struct attend_case *c, bool backward) {
    for (size_t i = 0; c->g.ddistance_bias && i < c->a.B * c->a.H * c->a.distance_bias.row; i++)
        c->g.ddistance_bias[i] = 7;
    for (size_t i = 0; c->g.dsinks && i < c->a.B * c->a.H; i++) c->g.dsinks[i] = 7;
    struct qkv_arena measure, scratch;
    qkv_arena_measure(ctx, &measure, "scratch");
    const struct qkv_planning had = qkv_planning_begin(ctx);
    bool good = qkv_attend_forward(ctx, &measure, &c->a) == QKV_OK;
    if (good && backward) good = qkv_attend_backward(ctx, &measure, &c->a, &c->g) == QKV_OK;
    qkv_planning_end(ctx, had);
    if (good) good = qkv_arena_create(ctx, &scratch, measure.peak, "scratch") == QKV_OK;
    if (good) {
        good = qkv_attend_forward(ctx, &scratch, &c->a) == QKV_OK;
        if (good && backward) good = qkv_attend_backward(ctx, &scratch, &c->a, &c->g) == QKV_OK;
        if (good && (scratch.peak != measure.peak || scratch.used)) {
            printf("scratch: peak %zu, dry run %zu, left %zu\n", scratch.peak, measure.peak, scratch.used);
            good = false;
        }
        qkv_arena_free(&scratch);
    } else {
        printf("%s: %s\n", c->text, ctx->message);
    }
    qkv_arena_free(&measure);
    return good;
}

/* ---- against the reference -------------------------------------------------------------------------------------- */

/* |got − expected| / |expected| for a tensor against some rows of a plain array (B,heads,T,channels). |expected|
 * counts as at least floor·√n, because sums of terms of that size may cancel (wholly so in a row with one key). For
 * bf16 and f16, half a unit in the last place of each number is subtracted first. Infinite for a stray NaN. */
static inline double attend_difference(const struct attend_case *c, size_t which, const double *expected, size_t first,
                                       size_t T, double floor) {
    const struct qkv_heads *x = attend_tensor((struct attend_case *)(uintptr_t)c, which);
    struct attend_shape s = attend_shape_of(&c->a, which);
    double difference = 0, norm = 0, size = 0, offset = c->g.accumulate && which > ATTEND_Y ? 7 : 0;
    for (size_t r = 0; r < c->a.B * s.heads * s.T; r++) {
        size_t i = r % s.T, h = r / s.T % s.heads, b = r / s.T / s.heads;
        for (size_t d = 0; d < s.channels; d++) {
            double e = expected[((b * s.heads + h) * T + first + i) * s.channels + d];
            double g = (double)attend_get(x, b, i, h, d) - offset;
            difference += (g - e) * (g - e);
            norm += e * e;
            size += (e + offset) * (e + offset);
        }
    }
    if (isnan(difference)) return INFINITY;
    const double unit = x->dtype == QKV_BF16 ? 0x1p-8 : x->dtype == QKV_F16 ? 0x1p-11 : 0;
    double error = sqrt(difference) - unit * sqrt(size);
    return error / sqrt(norm + floor * floor * (double)(c->a.B * s.heads * s.T * s.channels) + 1e-30);
}

/* The same for the gradient of attention_bias; its gaps must still be NaN. */
static inline double attend_addend_difference(const struct attend_case *c, const double *expected, double floor) {
    double difference = 0, norm = 0, offset = c->g.accumulate ? 7 : 0;
    for (size_t e = 0; c->g.dattention_bias && e < c->addend_floats; e++) {
        double got = (double)c->g.dattention_bias[e] - offset;
        bool gap = isnan(c->attention_bias[e]);
        if (gap != isnan(got)) return INFINITY;
        if (gap) continue;
        difference += (got - expected[e]) * (got - expected[e]);
        norm += expected[e] * expected[e];
    }
    return sqrt(difference / (norm + floor * floor * (double)c->addend_floats + 1e-30));
}

/* The same for sums to which backward adds, and which held 7 before. */
static inline double attend_sums_difference(const float *got, const double *expected, size_t n, double floor) {
    double difference = 0, norm = 0;
    for (size_t e = 0; got && e < n; e++) {
        const double x = (double)got[e] - 7;
        difference += (x - expected[e]) * (x - expected[e]);
        norm += expected[e] * expected[e];
    }
    return isnan(difference) ? INFINITY : sqrt(difference / (norm + floor * floor * (double)n + 1e-30));
}

/* The gaps of the outputs still hold what attend_view put there. */
static inline bool attend_gaps_whole(struct attend_case *c) {
    for (size_t which = ATTEND_Y; which < ATTEND_TENSORS; which++) {
        const struct qkv_heads *x = attend_tensor(c, which);
        struct attend_shape s = attend_shape_of(&c->a, which);
        unsigned char *inside = attend_memory(c->elements[which], 1), *start = c->buffer[which];
        size_t size = qkv_type_size(x->dtype);
        for (size_t r = 0; r < c->a.B * s.T * s.heads; r++) {
            unsigned char *at = attend_place(x, r / s.heads / s.T, r / s.heads % s.T, r % s.heads, 0);
            memset(inside + (size_t)(at - start) / size, 1, s.channels);
        }
        bool whole = true;
        for (size_t i = 0; i < c->elements[which]; i++) {
            float value;
            qkv_to_float(&value, start + i * size, x->dtype, 1);
            if (!inside[i] && !isnan(value)) whole = false;
        }
        guard_page_free(inside);
        if (!whole) return false;
    }
    return true;
}

/* The errors allowed. The floors of gradients are in sizes of their terms; those of dk and of the gradient of
 * attention_bias, which are sums over rows, are floor_rows times as high. */
struct attend_limits {
    double y, gradient, lse, floor, floor_rows;
};

/* Forward and backward of one case against the reference, within limits. Outputs start as 7. */
static inline bool attend_check_within(struct qkv_context *ctx, struct attend_case *c,
                                       const struct attend_limits *limits, struct attend_error *worst) {
    const struct qkv_attend *a = &c->a;
    if (!attend_run(ctx, c, true)) return false;
    struct attend_answer r;
    attend_reference(c, true, &r);
    double wide = sqrt((double)a->Dv), steep = fabs((double)a->scale) * wide,
           floor = limits->floor * (steep > 1 ? steep : 1);
    double y = attend_difference(c, ATTEND_Y, r.y, 0, a->Tq, limits->floor), lse = 0, most = 0;
    double gradients[] = {
        attend_difference(c, ATTEND_DQ, r.dq, 0, a->Tq, floor),
        attend_difference(c, ATTEND_DK, r.dk, a->past, a->Tk, floor * limits->floor_rows),
        attend_difference(c, ATTEND_DV, r.dv, a->past, a->Tk, limits->floor),
        attend_difference(c, ATTEND_DPAST_K, r.dk, 0, a->Tk, floor * limits->floor_rows),
        attend_difference(c, ATTEND_DPAST_V, r.dv, 0, a->Tk, limits->floor),
        attend_addend_difference(c, r.dattention_bias, limits->floor * limits->floor_rows * wide),
        attend_sums_difference(c->g.ddistance_bias, r.ddistance_bias, a->B * a->H * a->distance_bias.row,
                               limits->floor * limits->floor_rows * wide),
        attend_sums_difference(c->g.dsinks, r.dsinks, a->B * a->H, limits->floor * limits->floor_rows * wide)};
    for (size_t i = 0; i < a->B * a->H * a->Tq; i++) {
        double d = r.lse[i] == (double)a->lse[i] ? 0 : fabs(r.lse[i] - (double)a->lse[i]);
        if (!(d <= lse)) lse = isnan(d) ? INFINITY : d;
    }
    attend_answer_free(&r);
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        if (gradients[i] > most) most = gradients[i];
    if (worst && y > worst->y) worst->y = y;
    if (worst && lse > worst->lse) worst->lse = lse;
    if (worst && most > worst->gradient && !c->g.accumulate) worst->gradient = most;
    bool gaps = attend_gaps_whole(c);
    if (y <= limits->y && most <= limits->gradient && lse <= limits->lse && gaps) return true;
    printf("%s: %s\n  errors: y %.3g lse %.3g dq %.3g dk %.3g dv %.3g past: dk %.3g dv %.3g dattention_bias %.3g "
           "distances %.3g sinks %.3g%s\n",
           ctx->kernels->isa, c->text, y, lse, gradients[0], gradients[1], gradients[2], gradients[3], gradients[4],
           gradients[5], gradients[6], gradients[7], gaps ? "" : "; a gap between rows was written");
    return false;
}

static inline bool attend_check_case(struct qkv_context *ctx, struct attend_case *c, struct attend_error *worst) {
    static const struct attend_limits limits = {
        .y = 1e-5, .gradient = 1e-4, .lse = 2e-5, .floor = 0.05, .floor_rows = 1};
    return attend_check_within(ctx, c, &limits, worst);
}

static inline bool attend_check_random(struct qkv_context *ctx, uint64_t seed, size_t cases,
                                       struct attend_error *worst) {
    for (size_t i = 0; i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random, true);
        bool good = attend_check_case(ctx, &c, worst);
        attend_case_free(&c);
        if (!good) {
            printf("  in random case %zu of seed %llu\n", i, (unsigned long long)seed);
            return false;
        }
    }
    return true;
}

/* ---- the same bits ---------------------------------------------------------------------------------------------- */

/* The outputs of a case as numbers, in an order that does not depend on layout, type or the split into past and new
 * keys: y, dq, dk, dv, dattention_bias, lse, ddistance_bias, dsinks. */
static inline float *attend_outputs(struct attend_case *c, size_t *floats) {
    const struct qkv_attend *a = &c->a;
    size_t queries = a->B * a->H * a->Tq, keys = a->B * a->Hkv * a->Tk;
    const size_t distances = c->g.ddistance_bias ? a->B * a->H * a->distance_bias.row : 0;
    const size_t sinks = c->g.dsinks ? a->B * a->H : 0;
    *floats = (queries + keys) * (a->D + a->Dv) + c->addend_floats + queries + distances + sinks;
    float *all = attend_memory(*floats, sizeof(float)), *to = all;
    static const size_t parts[][2] = {
        {ATTEND_Y, ATTEND_Y}, {ATTEND_DQ, ATTEND_DQ}, {ATTEND_DPAST_K, ATTEND_DK}, {ATTEND_DPAST_V, ATTEND_DV}};
    for (size_t p = 0; p < 4; p++) {
        struct attend_shape s = attend_shape_of(a, parts[p][1]);
        size_t past = p < 2 ? 0 : a->past, T = past + s.T;
        for (size_t e = 0; e < a->B * s.heads * T * s.channels; e++) {
            size_t d = e % s.channels, i = e / s.channels % T, h = e / s.channels / T % s.heads;
            size_t which = parts[p][i >= past], row = i < past ? i : i - past;
            *to++ = attend_get(attend_tensor(c, which), e / s.channels / T / s.heads, row, h, d);
        }
    }
    if (c->g.dattention_bias) memcpy(to, c->g.dattention_bias, c->addend_floats * sizeof(float));
    to += c->addend_floats;
    memcpy(to, c->lse, queries * sizeof(float));
    if (distances) memcpy(to + queries, c->g.ddistance_bias, distances * sizeof(float));
    if (sinks) memcpy(to + queries + distances, c->g.dsinks, sinks * sizeof(float));
    return all;
}

/* Equal numbers; zeros may differ in sign. */
static inline bool attend_same(const float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&x[i], &y[i], sizeof(float)) != 0 && !(x[i] == 0 && y[i] == 0)) return false;
    return true;
}

/* The same outputs, bit for bit, with 1, 2 and 3 threads. */
static inline bool attend_check_threads(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    int threads = ctx->threads;
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random, true);
        c.g.accumulate = false;
        float *first = NULL;
        for (ctx->threads = 1; good && ctx->threads <= 3; ctx->threads++) {
            size_t floats;
            good = attend_run(ctx, &c, true);
            float *all = attend_outputs(&c, &floats);
            if (first && memcmp(first, all, floats * sizeof(float))) {
                printf("%s: %s: %d threads give other bits than one, in case %zu of seed %llu\n", ctx->kernels->isa,
                       c.text, ctx->threads, i, (unsigned long long)seed);
                good = false;
            }
            guard_page_free(first);
            first = all;
        }
        guard_page_free(first);
        attend_case_free(&c);
    }
    ctx->threads = threads;
    return good;
}

/* Plain keys or values (B,T,heads,channels) of row b of the batch (b = B: of all rows), with `more` rows of NaN, cut
 * in two. */
static inline void attend_cut(const struct attend_case *c, size_t which, size_t b, size_t more, size_t past,
                              struct qkv_heads out[2]) {
    const struct qkv_attend *a = &c->a;
    size_t D = which == ATTEND_K ? a->D : a->Dv, first = b == a->B ? 0 : b, B = b == a->B ? a->B : 1;
    for (size_t o = 0; o < 2; o++) {
        size_t from = o ? past : 0, T = o ? a->Tk + more - past : past;
        out[o] = (struct qkv_heads){attend_memory(B * T * a->Hkv * D, 4), T * a->Hkv * D, a->Hkv * D, D, QKV_F32};
        for (size_t e = 0; e < B * T * a->Hkv * D; e++) {
            size_t d = e % D, n = e / D % a->Hkv, j = e / D / a->Hkv % T, at = first + e / D / a->Hkv / T;
            double x = from + j >= a->Tk   ? NAN
                       : which == ATTEND_K ? attend_key(a, at, from + j, n, d)
                                           : attend_value(a, at, from + j, n, d);
            attend_set(&out[o], at - first, j, n, d, (float)x);
        }
    }
}

/* The forward pass of rows [first, first + rows) of row b of the batch, alone, gives the same bits as the whole
 * pass; so do K and V with `more` further rows of NaN, and another split into past and new keys. This covers a
 * single row, chunks, and queries at the end of a cache. */
static inline bool attend_check_rows(struct qkv_context *ctx, struct attend_case *c, size_t b, size_t first,
                                     size_t rows, size_t more, size_t past) {
    struct attend_case part = *c;
    struct qkv_attend *a = &part.a;
    struct qkv_heads k[2], v[2];
    a->B = 1, a->Tq = rows, a->Tk += more, a->past = past;
    a->q.data = attend_place(&c->a.q, b, first, 0, 0);
    a->lo += b * c->a.Tq + first, a->hi += b * c->a.Tq + first;
    if (a->position) a->position += b * c->a.Tq + first;
    a->mask_strides.missing += more, a->attention_bias_strides.missing += more;
    if (a->mask) a->mask += attend_pair(&a->mask_strides, b, 0, first, 0);
    if (a->attention_bias) a->attention_bias += attend_pair(&a->attention_bias_strides, b, 0, first, 0);
    int32_t *hi = attend_memory(rows, sizeof(int32_t));
    for (size_t i = 0; i < rows; i++) hi[i] = a->hi[i] < (int32_t)c->a.Tk ? a->hi[i] : (int32_t)c->a.Tk;
    a->hi = hi;
    attend_cut(c, ATTEND_K, b, more, a->past, k);
    attend_cut(c, ATTEND_V, b, more, a->past, v);
    a->past_k = k[0], a->k = k[1], a->past_v = v[0], a->v = v[1];
    a->lse = attend_memory(a->H * rows, sizeof(float));
    a->y = (struct qkv_heads){attend_memory(rows * a->H * a->Dv, 4), 0, a->H * a->Dv, a->Dv, c->a.y.dtype};
    bool good = attend_run(ctx, &part, false);
    for (size_t r = 0; good && r < rows * a->H; r++) {
        size_t i = r / a->H, h = r % a->H, bytes = a->Dv * qkv_type_size(a->y.dtype);
        if (memcmp(attend_place(&a->y, 0, i, h, 0), attend_place(&c->a.y, b, first + i, h, 0), bytes) ||
            memcmp(&a->lse[h * rows + i], &c->lse[(b * a->H + h) * c->a.Tq + first + i], sizeof(float))) {
            printf("%s: %s: row %zu of batch row %zu, head %zu, has other bits in rows [%zu, %zu) with %zu more keys, "
                   "%zu in the past\n",
                   ctx->kernels->isa, c->text, first + i, b, h, first, first + rows, more, a->past);
            good = false;
        }
    }
    for (size_t o = 0; o < 2; o++) guard_page_free(k[o].data), guard_page_free(v[o].data);
    guard_page_free(hi), guard_page_free(a->lse), guard_page_free(a->y.data);
    return good;
}

static inline bool attend_check_part(struct qkv_context *ctx, struct attend_case *c, struct qkv_random *random) {
    const size_t b = attend_uniform(random, 0, c->a.B - 1), more = attend_uniform(random, 0, 200);
    const size_t first = attend_uniform(random, 0, c->a.Tq - 1), rows = attend_uniform(random, 1, c->a.Tq - first);
    return attend_check_rows(ctx, c, b, first, rows, more, attend_uniform(random, 0, c->a.Tk + more));
}

static inline bool attend_check_parts(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random, true);
        c.a.dropout = 0; /* its mask is numbered by the whole shape */
        good = attend_run(ctx, &c, false);
        for (size_t part = 0; good && c.a.Tq && part < 4; part++) good = attend_check_part(ctx, &c, &random);
        if (!good) printf("  in random case %zu of seed %llu\n", i, (unsigned long long)seed);
        attend_case_free(&c);
    }
    return good;
}

#endif
