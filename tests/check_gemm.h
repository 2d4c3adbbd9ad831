/* check_gemm.h: the matrix product of one table against the chain of multiply-adds that it promises, bit for bit.
 * fmaf computes the chain here, so any wrong tile, cut, edge or order shows. */
#ifndef QKV_CHECK_GEMM_H
#define QKV_CHECK_GEMM_H

#include "checks.h"
#include "kernel/isa/gemm.h"

struct gemm_case {
    size_t M, N, K, ldc;
    bool a_transposed, b_transposed; /* A contiguous along M, B contiguous along K */
    size_t a_pad, b_pad;             /* distance between rows beyond what they hold */
    bool accumulate, bias;
};

struct gemm_data {
    struct gemm_case shape;
    struct qkv_matrix a, b;
    float *a_data, *b_data, *c, *bias;
    size_t a_floats, b_floats, c_floats;
};

static struct qkv_matrix strided(const float *data, size_t rows, size_t columns, bool turned, size_t pad) {
    return turned ? (struct qkv_matrix){data, 1, rows + pad} : (struct qkv_matrix){data, columns + pad, 1};
}
/* Just the floats that the matrix spans, so that a read past the last one hits the guard (or the sanitizer). */
static size_t span(size_t rows, size_t columns, bool turned, size_t pad) {
    if (rows == 0 || columns == 0) return 0;
    return turned ? (columns - 1) * (rows + pad) + rows : (rows - 1) * (columns + pad) + columns;
}

static struct gemm_data gemm_data(struct qkv_random *random, const struct gemm_case *s) {
    struct gemm_data d = {.shape = *s};
    d.a_floats = span(s->M, s->K, s->a_transposed, s->a_pad);
    d.b_floats = span(s->K, s->N, s->b_transposed, s->b_pad);
    d.c_floats = s->M ? (s->M - 1) * s->ldc + s->N : 0;
    d.a_data = random_floats(random, d.a_floats, 1);
    d.b_data = random_floats(random, d.b_floats, 1);
    d.c = random_floats(random, d.c_floats, 1);
    d.bias = random_floats(random, s->N, 1);
    d.a = strided(d.a_data, s->M, s->K, s->a_transposed, s->a_pad);
    d.b = strided(d.b_data, s->K, s->N, s->b_transposed, s->b_pad);
    return d;
}
static void gemm_data_free(struct gemm_data *d) {
    guarded_free(d->a_data, d->a_floats, "gemm into A");
    guarded_free(d->b_data, d->b_floats, "gemm into B");
    guarded_free(d->c, d->c_floats, "gemm");
    guarded_free(d->bias, d->shape.N, "gemm into the bias");
}

static enum qkv_status gemm_run(struct qkv_context *ctx, struct qkv_arena *scratch, const struct gemm_data *d,
                                float *c) {
    const struct gemm_case *s = &d->shape;
    const struct qkv_product_call call = {.c = c,
                                          .dtype = QKV_F32,
                                          .ldc = s->ldc,
                                          .a = {d->a.data, QKV_F32, d->a.row_stride, d->a.column_stride},
                                          .b = {d->b.data, QKV_F32, d->b.row_stride, d->b.column_stride},
                                          .M = s->M,
                                          .N = s->N,
                                          .K = s->K,
                                          .accumulate = s->accumulate,
                                          .bias = s->bias ? d->bias : NULL};
    return qkv_gemm(ctx, scratch, &call);
}

static float chain(const struct gemm_data *d, float start, size_t m, size_t n) {
    const float *a = d->a.data + m * d->a.row_stride, *b = d->b.data + n * d->b.column_stride;
    const size_t K = d->shape.K, run = qkv_gemm_run_length(K);
    float whole = d->shape.accumulate ? start : 0.0f;
    for (size_t from = 0; from < K; from += run) {
        float sum = 0.0f;
        for (size_t k = from; k < K && k < from + run; k++)
            sum = fmaf(a[k * d->a.column_stride], b[k * d->b.row_stride], sum);
        whole = from == 0 && !d->shape.accumulate ? sum : whole + sum;
    }
    return d->shape.bias ? whole + d->bias[n] : whole;
}

/* Checks all of C if it is small, else some elements. The gaps between rows of C must not change. */
static void gemm_check(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random,
                       const struct gemm_case *s) {
    struct gemm_data d = gemm_data(random, s);
    float *c = copied(d.c, d.c_floats);
    const size_t mark = qkv_arena_mark(scratch);
    CHECK(gemm_run(ctx, scratch, &d, c) == QKV_OK, "%s", qkv_message(ctx));
    CHECK(qkv_arena_mark(scratch) == mark, "scratch was not given back");
    const double work = (double)s->M * (double)s->N * (double)s->K;
    const size_t every = work > 1e5 ? (size_t)(work / 1e5) : 1;
    size_t at = every > 1 ? between(random, 0, every - 1) : 0;
    for (; at < s->M * s->N; at += every) {
        const size_t m = at / s->N, n = at % s->N, i = m * s->ldc + n;
        float want = chain(&d, d.c[i], m, n);
        CHECK(same_bits(c + i, &want, 1), "%zu×%zu×%zu a%d b%d acc%d bias%d: (%zu,%zu) is %a, not %a", s->M, s->N, s->K,
              s->a_transposed, s->b_transposed, s->accumulate, s->bias, m, n, (double)c[i], (double)want);
    }
    for (size_t m = 0; m + 1 < s->M; m++)
        CHECK(same_bits(c + m * s->ldc + s->N, d.c + m * s->ldc + s->N, s->ldc - s->N), "gemm wrote between rows");
    guarded_free(c, d.c_floats, "gemm");
    gemm_data_free(&d);
}

static struct gemm_case any_case(struct qkv_random *random, size_t M, size_t N, size_t K) {
    const uint64_t bits = qkv_random_bits(random);
    struct gemm_case s = {.M = M, .N = N, .K = K, .ldc = N, .a_transposed = bits & 1, .b_transposed = bits & 2};
    s.accumulate = bits & 4;
    s.bias = bits & 8;
    if (bits & 16) s.ldc = N + between(random, 1, 40);
    if (bits & 32) s.a_pad = between(random, 1, 40);
    if (bits & 64) s.b_pad = between(random, 1, 40);
    return s;
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static void check_gemm_ragged(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    if (ctx->threads > 1) return; /* too small to be shared: one thread does it all */
    for (size_t M = 0; M <= 34; M++) {
        for (size_t N = 0; N <= 67; N += M < 18 ? 1 : 7) {
            struct gemm_case s = any_case(random, M, N, between(random, 0, 40));
            gemm_check(ctx, scratch, random, &s);
        }
    }
    for (size_t K = 0; K <= 70; K++) {
        struct gemm_case s = any_case(random, between(random, 1, 20), between(random, 1, 40), K);
        gemm_check(ctx, scratch, random, &s);
    }
}

/* One and two rows, for which up to four runs of a column are in progress together: every number of runs, of equal
 * and of different lengths, and every number of columns that is left over by a block. */
static void check_gemm_few(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    static const size_t terms[] = {16,  200, 256, 257,  272,  480,  500,  512,  513,  576,  700,
                                   768, 769, 960, 1000, 1024, 1025, 1280, 1536, 1791, 2048, 2304};
    if (ctx->threads > 1) return;
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        for (size_t N = 1; N <= 35; N += N < 18 ? 1 : 4) {
            struct gemm_case s = any_case(random, 1 + (i + N) % 8, N, terms[i]);
            s.a_transposed = false;
            s.b_transposed = true;
            gemm_check(ctx, scratch, random, &s);
        }
    }
}

static void check_gemm_large(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    /* The last two have parts of B along the terms and along the columns on every table. */
    static const size_t shapes[][3] = {{1, 700, 3000},  {2, 1029, 515},    {3, 517, 1030},    {7, 400, 777},
                                       {16, 1000, 600}, {97, 333, 257},    {129, 64, 511},    {200, 300, 700},
                                       {401, 130, 258}, {64, 64, 16000},   {130, 140, 9000},  {600, 5, 900},
                                       {5, 9000, 65},   {260, 4200, 64},   {150, 1100, 1300}, {300, 17, 1},
                                       {390, 96, 700},  {225, 1100, 1300}, {225, 8200, 130}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int form = 0; form < 4; form++) {
            if (ctx->threads > 1 && (size_t)form % 2 != i % 2) continue; /* half of them: one thread does all */
            struct gemm_case s = any_case(random, shapes[i][0], shapes[i][1], shapes[i][2]);
            s.a_transposed = form & 1;
            s.b_transposed = form & 2;
            gemm_check(ctx, scratch, random, &s);
        }
    }
    for (int i = 0; i < 20; i++) {
        struct gemm_case s =
            any_case(random, between(random, 1, 300), between(random, 1, 300), between(random, 1, 900));
        gemm_check(ctx, scratch, random, &s);
    }
}

/* A row alone, some rows, or all of them, at any thread count: the same bits. */
static void check_gemm_rows(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    for (int round = 0; round < 12; round++) {
        struct gemm_case s =
            any_case(random, between(random, 1, 300), between(random, 1, 200), between(random, 0, 600));
        s.a_pad = s.a_transposed ? s.a_pad : 0;
        struct gemm_data d = gemm_data(random, &s);
        float *all = copied(d.c, d.c_floats), *some = copied(d.c, d.c_floats);
        CHECK(gemm_run(ctx, scratch, &d, all) == QKV_OK, "%s", qkv_message(ctx));
        for (size_t m = 0; m < s.M;) {
            struct gemm_data part = d;
            part.shape.M = round % 3 == 0 ? 1 : between(random, 1, s.M - m < 40 ? s.M - m : 40);
            part.a.data += m * d.a.row_stride;
            CHECK(gemm_run(ctx, scratch, &part, some + m * s.ldc) == QKV_OK, "%s", qkv_message(ctx));
            m += part.shape.M;
        }
        CHECK(same_bits(all, some, d.c_floats), "rows of %zu×%zu×%zu depend on their neighbours", s.M, s.N, s.K);
        qkv_team_start(ctx, 5);
        for (int threads = 1; threads <= 5; threads++) {
            struct qkv_context other = *ctx;
            other.threads = threads;
            memcpy(some, d.c, d.c_floats * sizeof *some);
            CHECK(gemm_run(&other, scratch, &d, some) == QKV_OK, "%s", qkv_message(&other));
            CHECK(same_bits(all, some, d.c_floats), "%zu×%zu×%zu depends on threads", s.M, s.N, s.K);
        }
        guarded_free(all, d.c_floats, "gemm");
        guarded_free(some, d.c_floats, "gemm");
        gemm_data_free(&d);
    }
}

/* A dry run counts the memory that the real run then uses, touches nothing, and one byte less is refused. */
static void check_gemm_memory(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    (void)scratch;
    for (int round = 0; round < 20; round++) {
        struct gemm_case s =
            any_case(random, between(random, 1, 400), between(random, 1, 400), between(random, 0, 2000));
        struct gemm_data d = gemm_data(random, &s);
        float *c = copied(d.c, d.c_floats);
        struct qkv_arena measure, real, small;
        const struct qkv_planning had = qkv_planning_begin(ctx);
        qkv_arena_measure(ctx, &measure, "measure");
        CHECK(gemm_run(ctx, &measure, &d, c) == QKV_OK, "%s", qkv_message(ctx));
        qkv_planning_end(ctx, had);
        CHECK(same_bits(c, d.c, d.c_floats), "a dry run wrote to C");
        CHECK(qkv_arena_create(ctx, &real, measure.peak, "real") == QKV_OK, "%s", qkv_message(ctx));
        CHECK(gemm_run(ctx, &real, &d, c) == QKV_OK, "%s", qkv_message(ctx));
        CHECK(real.peak == measure.peak, "%zu×%zu×%zu: measured %zu, used %zu", s.M, s.N, s.K, measure.peak, real.peak);
        if (measure.peak > 64) {
            CHECK(qkv_arena_create(ctx, &small, measure.peak - 64, "too small") == QKV_OK, "%s", qkv_message(ctx));
            CHECK(gemm_run(ctx, &small, &d, c) == QKV_MEMORY, "a scratch too small was taken");
            CHECK(strstr(qkv_message(ctx), "too small") != NULL, "%s", qkv_message(ctx));
            CHECK(small.used == 0, "scratch was not given back");
            qkv_arena_free(&small);
        }
        qkv_arena_free(&real);
        qkv_arena_free(&measure);
        guarded_free(c, d.c_floats, "gemm");
        gemm_data_free(&d);
    }
}

/* NaN in one row of A or one column of B stays in that row or column of C. */
static void check_gemm_nan(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    for (int round = 0; round < 20; round++) {
        struct gemm_case s = any_case(random, between(random, 2, 40), between(random, 2, 60), between(random, 1, 50));
        s.accumulate = false;
        struct gemm_data d = gemm_data(random, &s);
        const size_t row = between(random, 0, s.M - 1), column = between(random, 0, s.N - 1);
        const size_t k = between(random, 0, s.K - 1);
        d.a_data[row * d.a.row_stride + k * d.a.column_stride] = NAN;
        d.b_data[k * d.b.row_stride + column * d.b.column_stride] = INFINITY;
        CHECK(gemm_run(ctx, scratch, &d, d.c) == QKV_OK, "%s", qkv_message(ctx));
        for (size_t m = 0; m < s.M; m++) {
            for (size_t n = 0; n < s.N; n++) {
                float x = d.c[m * s.ldc + n];
                CHECK(m == row      ? isnan(x)
                      : n == column ? !isfinite(x)
                                    : isfinite(x),
                      "(%zu,%zu) is %g", m, n, (double)x);
            }
        }
        gemm_data_free(&d);
    }
}

#define GEMM_CHECKS(X) X(gemm_ragged) X(gemm_few) X(gemm_large) X(gemm_rows) X(gemm_memory) X(gemm_nan)

#endif
