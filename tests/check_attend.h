/* check_attend.h: the checks of attention against its reference and against itself. Each returns true when all is well
 * and prints what is not. Needs no test framework. */
#ifndef QKV_CHECK_ATTEND_H
#define QKV_CHECK_ATTEND_H

#include "attend_reference.h"

struct attend_error { /* the largest seen, for reports */
    double y, gradient;
};

/* |got − expected| / |expected| over a view against a plain array, where |expected| counts as at least floor·√n: sums
 * of terms of that size may cancel, wholly so in a row with one key. Infinite for a stray NaN. */
static inline double attend_difference(const struct qkv_heads *x, const double *expected, size_t B, size_t T,
                                       size_t heads, size_t channels, double offset, double floor) {
    double difference = 0, norm = 0;
    for (size_t r = 0; r < B * heads * T; r++) {
        const float *got = attend_at(x, r / T / heads, r % T, r / T % heads);
        for (size_t d = 0; d < channels; d++) {
            double e = expected[r * channels + d], g = (double)got[d] - offset;
            difference += (g - e) * (g - e);
            norm += e * e;
        }
    }
    if (isnan(difference)) return INFINITY;
    return sqrt(difference / (norm + floor * floor * (double)(B * heads * T * channels) + 1e-30));
}

/* Runs forward, and backward when `backward`, with exactly the scratch that a dry run asks for. */
static inline bool attend_run(struct qkv_context *ctx, struct attend_case *c, bool backward) {
    struct qkv_arena measure, scratch;
    qkv_arena_measure(ctx, &measure, "scratch");
    ctx->dry = true;
    bool good = qkv_attend_forward(ctx, &measure, &c->a) == QKV_OK;
    if (good && backward) good = qkv_attend_backward(ctx, &measure, &c->a, &c->g) == QKV_OK;
    ctx->dry = false;
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

/* The gaps of the outputs still hold what attend_view put there. */
static inline bool attend_gaps_whole(const struct attend_case *c) {
    const struct qkv_heads *views[] = {&c->a.y, &c->g.dq, &c->g.dk, &c->g.dv};
    const size_t which[] = {3, 5, 6, 7};
    for (size_t o = 0; o < 4; o++) {
        bool keys = o >= 2;
        size_t T = keys ? c->a.Tk : c->a.Tq, heads = keys ? c->a.Hkv : c->a.H, D = o == 0 || o == 3 ? c->a.Dv : c->a.D;
        unsigned char *inside = attend_memory(c->floats[which[o]], 1);
        for (size_t r = 0; r < c->a.B * T * heads; r++)
            memset(inside + (attend_at(views[o], r / heads / T, r / heads % T, r % heads) - c->buffer[which[o]]), 1, D);
        bool whole = true;
        for (size_t i = 0; i < c->floats[which[o]]; i++)
            if (!inside[i] && !isnan(c->buffer[which[o]][i])) whole = false;
        free(inside);
        if (!whole) return false;
    }
    return true;
}

/* Forward and backward of one case against the reference. Outputs start as 7. */
static inline bool attend_check_case(struct qkv_context *ctx, struct attend_case *c, struct attend_error *worst) {
    const struct qkv_attend *a = &c->a;
    if (!attend_run(ctx, c, true)) return false;
    struct attend_answer r;
    attend_reference(a, &c->g.dy, &r);
    double offset = c->g.accumulate ? 7 : 0, lse = 0;
    double steep = fabs((double)a->scale) * sqrt((double)a->Dv), floor = 0.05 * (steep > 1 ? steep : 1);
    double y = attend_difference(&a->y, r.y, a->B, a->Tq, a->H, a->Dv, 0, 0.05);
    double dq = attend_difference(&c->g.dq, r.dq, a->B, a->Tq, a->H, a->D, offset, floor);
    double dk = attend_difference(&c->g.dk, r.dk, a->B, a->Tk, a->Hkv, a->D, offset, floor);
    double dv = attend_difference(&c->g.dv, r.dv, a->B, a->Tk, a->Hkv, a->Dv, offset, 0.05);
    for (size_t i = 0; i < a->B * a->H * a->Tq; i++) {
        double d = r.lse[i] == (double)a->lse[i] ? 0 : fabs(r.lse[i] - (double)a->lse[i]);
        if (!(d <= lse)) lse = isnan(d) ? INFINITY : d;
    }
    attend_answer_free(&r);
    double most = dq > dk ? dq : dk;
    most = most > dv ? most : dv;
    if (worst && y > worst->y) worst->y = y;
    if (worst && most > worst->gradient && !c->g.accumulate) worst->gradient = most;
    bool gaps = attend_gaps_whole(c);
    if (y <= 1e-5 && most <= 1e-4 && lse <= 2e-5 && gaps) return true;
    printf("%s: %s\n  errors: y %.3g lse %.3g dq %.3g dk %.3g dv %.3g%s\n", ctx->kernels->isa, c->text, y, lse, dq, dk,
           dv, gaps ? "" : "; a gap between rows was written");
    return false;
}

static inline bool attend_check_random(struct qkv_context *ctx, uint64_t seed, size_t cases,
                                       struct attend_error *worst) {
    for (size_t i = 0; i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random);
        bool good = attend_check_case(ctx, &c, worst);
        attend_case_free(&c);
        if (!good) {
            printf("  in random case %zu of seed %llu\n", i, (unsigned long long)seed);
            return false;
        }
    }
    return true;
}

/* ---- the same bits -------------------------------------------------------------------------------------------------- */

/* The outputs of a case, copied. */
static inline float *attend_outputs(const struct attend_case *c, size_t *floats) {
    size_t rows = c->a.B * c->a.H * c->a.Tq;
    *floats = c->floats[3] + c->floats[5] + c->floats[6] + c->floats[7] + rows;
    float *all = attend_memory(*floats, sizeof(float)), *to = all;
    const size_t which[] = {3, 5, 6, 7};
    for (size_t o = 0; o < 4; to += c->floats[which[o++]])
        memcpy(to, c->buffer[which[o]], c->floats[which[o]] * sizeof(float));
    memcpy(to, c->lse, rows * sizeof(float));
    return all;
}

/* The same outputs, bit for bit, with 1, 2 and 3 threads. */
static inline bool attend_check_threads(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    int threads = ctx->threads;
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random);
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
            free(first);
            first = all;
        }
        free(first);
        attend_case_free(&c);
    }
    ctx->threads = threads;
    return good;
}

/* The forward pass of the rows [first, first + rows) of batch row b, alone, gives the bits of the whole; so does a longer
 * K and V whose further rows are NaN. This covers a row alone, chunks, and queries at the end of a cache. */
static inline bool attend_check_part(struct qkv_context *ctx, struct attend_case *c, struct qkv_random *random) {
    struct attend_case part = *c;
    struct qkv_attend *a = &part.a;
    size_t b = attend_uniform(random, 0, a->B - 1), more = attend_uniform(random, 0, 200);
    size_t first = attend_uniform(random, 0, a->Tq - 1), rows = attend_uniform(random, 1, a->Tq - first);
    a->B = 1, a->Tq = rows, a->Tk += more;
    a->q.data = attend_at(&c->a.q, b, first, 0);
    a->lo += b * c->a.Tq + first, a->hi += b * c->a.Tq + first;
    if (a->position) a->position += b * c->a.Tq + first;
    int32_t *hi = attend_memory(rows, sizeof(int32_t));
    for (size_t i = 0; i < rows; i++) hi[i] = a->hi[i] < (int32_t)c->a.Tk ? a->hi[i] : (int32_t)c->a.Tk;
    a->hi = hi;
    struct qkv_heads *kv[] = {&a->k, &a->v};
    for (size_t o = 0; o < 2; o++) {
        size_t D = o ? a->Dv : a->D;
        struct qkv_heads from = *kv[o];
        *kv[o] = (struct qkv_heads){attend_memory(a->Tk * a->Hkv * D, sizeof(float)), 0, a->Hkv * D, D, QKV_F32};
        for (size_t r = 0; r < a->Tk * a->Hkv; r++)
            for (size_t d = 0; d < D; d++)
                attend_at(kv[o], 0, r / a->Hkv, r % a->Hkv)[d] =
                    r / a->Hkv < c->a.Tk ? attend_at(&from, b, r / a->Hkv, r % a->Hkv)[d] : NAN;
    }
    a->lse = attend_memory(a->H * rows, sizeof(float));
    a->y = (struct qkv_heads){attend_memory(rows * a->H * a->Dv, sizeof(float)), 0, a->H * a->Dv, a->Dv, QKV_F32};
    bool good = attend_run(ctx, &part, false);
    for (size_t r = 0; good && r < rows * a->H; r++) {
        size_t i = r / a->H, h = r % a->H;
        if (memcmp(attend_at(&a->y, 0, i, h), attend_at(&c->a.y, b, first + i, h), a->Dv * sizeof(float)) ||
            memcmp(&a->lse[h * rows + i], &c->lse[(b * a->H + h) * c->a.Tq + first + i], sizeof(float))) {
            printf("%s: %s: row %zu of batch row %zu, head %zu, has other bits in rows [%zu, %zu) with %zu more keys\n",
                   ctx->kernels->isa, c->text, first + i, b, h, first, first + rows, more);
            good = false;
        }
    }
    free(hi), free(a->k.data), free(a->v.data), free(a->lse), free(a->y.data);
    return good;
}

static inline bool attend_check_parts(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random);
        c.a.dropout = 0; /* its mask is numbered by the whole shape */
        good = attend_run(ctx, &c, false);
        for (size_t part = 0; good && c.a.Tq && part < 4; part++) good = attend_check_part(ctx, &c, &random);
        if (!good) printf("  in random case %zu of seed %llu\n", i, (unsigned long long)seed);
        attend_case_free(&c);
    }
    return good;
}

/* ---- what is not attended to does not matter -------------------------------------------------------------------------- */

/* One key's K and V, or one query's q and dy, become NaN or infinite: outputs of rows that do not meet it keep their
 * bits, and those that do are not finite any more. */
static inline bool attend_check_poison(struct qkv_context *ctx, struct attend_case *c, struct qkv_random *random) {
    const struct qkv_attend *a = &c->a;
    bool key = a->Tk && attend_chance(random, 0.5), good = attend_run(ctx, c, true);
    size_t floats, b = attend_uniform(random, 0, a->B - 1), bad = attend_uniform(random, 0, (key ? a->Tk : a->Tq) - 1);
    float poison = attend_chance(random, 0.5) ? NAN : INFINITY;
    float *clean = attend_outputs(c, &floats);
    for (size_t h = 0; h < (key ? a->Hkv : a->H); h++) {
        for (size_t d = 0; d < a->D; d++) attend_at(key ? &a->k : &a->q, b, bad, h)[d] = NAN;
        for (size_t d = 0; d < a->Dv; d++) attend_at(key ? &a->v : &c->g.dy, b, bad, h)[d] = poison;
    }
    good = good && attend_run(ctx, c, true);
    for (size_t r = 0; good && r < a->B * a->H * a->Tq; r++) {
        size_t i = r % a->Tq, h = r / a->Tq % a->H, lo, hi;
        attend_interval(a, r / a->Tq / a->H, i, &lo, &hi);
        bool meets = r / a->Tq / a->H == b && (key ? lo <= bad && bad < hi : i == bad && lo < hi);
        ptrdiff_t y = attend_at(&a->y, r / a->Tq / a->H, i, h) - c->buffer[3];
        ptrdiff_t dq = attend_at(&c->g.dq, r / a->Tq / a->H, i, h) - c->buffer[5];
        bool same = !memcmp(c->buffer[3] + y, clean + y, a->Dv * sizeof(float)) &&
                    !memcmp(c->buffer[5] + dq, clean + c->floats[3] + dq, a->D * sizeof(float));
        if (meets ? isfinite(c->buffer[3][y]) : !same) good = false;
    }
    for (size_t r = 0; good && r < a->B * a->Hkv * a->Tk; r++) {
        size_t j = r % a->Tk, h = r / a->Tk % a->Hkv, at = r / a->Tk / a->Hkv;
        bool meets = false;
        for (size_t i = 0, lo, hi; i < a->Tq && at == b; i++) { /* its gradient holds the rows that meet the bad one */
            attend_interval(a, at, i, &lo, &hi);
            bool row = key ? lo <= bad && bad < hi : i == bad;
            if (row && lo <= j && j < hi) meets = true;
        }
        ptrdiff_t dk = attend_at(&c->g.dk, at, j, h) - c->buffer[6], dv = attend_at(&c->g.dv, at, j, h) - c->buffer[7];
        const float *clean_dk = clean + c->floats[3] + c->floats[5], *clean_dv = clean_dk + c->floats[6];
        if (!meets && (memcmp(c->buffer[6] + dk, clean_dk + dk, a->D * sizeof(float)) ||
                       memcmp(c->buffer[7] + dv, clean_dv + dv, a->Dv * sizeof(float))))
            good = false;
    }
    if (!good)
        printf("%s: %s: %s %zu of batch row %zu is %g and it spread, or did not\n", ctx->kernels->isa, c->text,
               key ? "key" : "query", bad, b, (double)poison);
    free(clean);
    return good;
}

static inline bool attend_check_poisons(struct qkv_context *ctx, uint64_t seed, size_t cases) {
    bool good = true;
    for (size_t i = 0; good && i < cases; i++) {
        struct qkv_random random = qkv_random_start(seed, i);
        struct attend_case c;
        attend_case_random(&c, &random);
        c.g.accumulate = false;
        good = !c.a.Tq || attend_check_poison(ctx, &c, &random);
        if (!good) printf("  in random case %zu of seed %llu\n", i, (unsigned long long)seed);
        attend_case_free(&c);
    }
    return good;
}

#endif
