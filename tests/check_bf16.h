/* check_bf16.h: the bf16 matrix product of one table against sums in double of the rounded numbers, within the
 * rounding bound of a chain of fp32 additions (Higham 2002, "Accuracy and Stability of Numerical Algorithms", ch.
 * 4), and with the same bits at any number of threads. */
#ifndef QKV_CHECK_BF16_H
#define QKV_CHECK_BF16_H

#include "checks.h"
#include "kernel/isa/bf16.h"

struct bf16_case {
    size_t M, N, K, ldc;
    bool a_transposed, b_transposed, a_half, b_half, c_half, accumulate, bias, packed;
};

struct bf16_data {
    struct bf16_case shape;
    float *a_floats, *b_floats, *c, *bias; /* exactly what is multiplied, for the oracle; c as it was */
    size_t a_count, b_count, c_floats;     /* c in floats' space, also where it holds bf16 */
    uint16_t *a_halves, *b_halves;
    struct qkv_operand a, b;
    void *packed;
};

/* `floats` becomes what bf16 holds of it; the operand reads it as it came or as bf16. */
static struct qkv_operand bf16_operand(float *floats, size_t count, size_t rows, size_t columns, bool turned, bool half,
                                       uint16_t **halves, float **rounded) {
    struct qkv_operand x = {.row_stride = turned ? 1 : columns, .column_stride = turned ? rows : 1};
    *halves = (uint16_t *)(void *)guarded_new(count / 2 + 1);
    qkv_from_float(*halves, floats, QKV_BF16, count);
    *rounded = guarded_new(count);
    qkv_to_float(*rounded, *halves, QKV_BF16, count);
    x.dtype = half ? QKV_BF16 : QKV_F32;
    x.data = half ? (const void *)*halves : (const void *)floats;
    return x;
}

static enum qkv_status bf16_run(struct qkv_context *ctx, struct qkv_arena *scratch, const struct bf16_data *d,
                                float *c) {
    const struct bf16_case *s = &d->shape;
    struct qkv_product_call call = {.c = c,
                                    .dtype = s->c_half ? QKV_BF16 : QKV_F32,
                                    .ldc = s->ldc,
                                    .a = d->a,
                                    .b = d->b,
                                    .M = s->M,
                                    .N = s->N,
                                    .K = s->K,
                                    .accumulate = s->accumulate,
                                    .bias = s->bias ? d->bias : NULL,
                                    .packed = d->packed};
    if (d->packed) call.b.data = NULL;
    return qkv_gemm_bf16(ctx, scratch, &call);
}

static float bf16_at(const struct bf16_case *s, const float *c, size_t i) {
    float x = c[s->c_half ? 0 : i];
    if (s->c_half) qkv_to_float(&x, (const uint16_t *)(const void *)c + i, QKV_BF16, 1);
    return x;
}

static void bf16_check_element(const struct bf16_data *d, const float *c, size_t m, size_t n) {
    const struct bf16_case *s = &d->shape;
    double sum = s->bias ? (double)d->bias[n] : 0, size = fabs(sum);
    for (size_t k = 0; k < s->K; k++) {
        double product = (double)d->a_floats[m * d->a.row_stride + k * d->a.column_stride] *
                         (double)d->b_floats[k * d->b.row_stride + n * d->b.column_stride];
        sum += product;
        size += fabs(product);
    }
    const size_t at = m * s->ldc + n;
    if (s->accumulate) sum += (double)bf16_at(s, d->c, at), size += fabs((double)bf16_at(s, d->c, at));
    const double bound = size * ((double)s->K + 8) * 0x1p-24 + (s->c_half ? fabs(sum) * 0x1p-8 + 1e-38 : 0);
    const double got = (double)bf16_at(s, c, at);
    CHECK(fabs(got - sum) <= bound,
          "%zu×%zu×%zu a%d%d b%d%d c%d acc%d bias%d panels%d: (%zu,%zu) is %g, not %g within %g", s->M, s->N, s->K,
          s->a_transposed, s->a_half, s->b_transposed, s->b_half, s->c_half, s->accumulate, s->bias, s->packed, m, n,
          got, sum, bound);
}

static struct bf16_data bf16_data(struct qkv_context *ctx, struct qkv_random *random, const struct bf16_case *s) {
    struct bf16_data d = {.shape = *s, .a_count = s->M * s->K, .b_count = s->K * s->N};
    float *a = random_floats(random, d.a_count, 1), *b = random_floats(random, d.b_count, 1);
    d.a = bf16_operand(a, d.a_count, s->M, s->K, s->a_transposed, s->a_half, &d.a_halves, &d.a_floats);
    d.b = bf16_operand(b, d.b_count, s->K, s->N, s->b_transposed, s->b_half, &d.b_halves, &d.b_floats);
    const size_t cells = (s->M - 1) * s->ldc + s->N;
    d.c_floats = s->c_half ? (cells + 1) / 2 : cells;
    d.c = guarded_new(d.c_floats);
    float *start = random_floats(random, cells + 1, 1);
    qkv_from_float(d.c, start, s->c_half ? QKV_BF16 : QKV_F32, s->c_half ? d.c_floats * 2 : cells);
    guarded_free(start, cells + 1, "nothing");
    d.bias = random_floats(random, s->N, 1);
    size_t bytes;
    if (s->packed && qkv_bf16_packed_bytes(ctx, NULL, s->K, s->N, &bytes)) {
        d.packed = guarded_new(bytes / 4);
        qkv_bf16_pack(ctx, d.packed, d.b, (struct qkv_stored_operand){0}, s->K, s->N);
    }
    if (!s->a_half) d.a.data = a;
    if (!s->b_half) d.b.data = b;
    if (s->a_half) guarded_free(a, d.a_count, "bf16 into A");
    if (s->b_half) guarded_free(b, d.b_count, "bf16 into B");
    return d;
}

static void bf16_data_free(struct qkv_context *ctx, struct bf16_data *d) {
    const struct bf16_case *s = &d->shape;
    size_t bytes;
    if (!s->a_half) guarded_free((float *)(uintptr_t)d->a.data, d->a_count, "bf16 into A");
    if (!s->b_half) guarded_free((float *)(uintptr_t)d->b.data, d->b_count, "bf16 into B");
    guarded_free((float *)(void *)d->a_halves, d->a_count / 2 + 1, "bf16 into A");
    guarded_free((float *)(void *)d->b_halves, d->b_count / 2 + 1, "bf16 into B");
    guarded_free(d->a_floats, d->a_count, "bf16");
    guarded_free(d->b_floats, d->b_count, "bf16");
    guarded_free(d->c, d->c_floats, "bf16");
    guarded_free(d->bias, s->N, "bf16 into the bias");
    if (d->packed && qkv_bf16_packed_bytes(ctx, NULL, s->K, s->N, &bytes))
        guarded_free(d->packed, bytes / 4, "bf16 panels");
}

static void bf16_check(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random,
                       const struct bf16_case *s) {
    struct bf16_data d = bf16_data(ctx, random, s);
    float *c = copied(d.c, d.c_floats);
    const size_t mark = qkv_arena_mark(scratch);
    CHECK(bf16_run(ctx, scratch, &d, c) == QKV_OK, "%s", qkv_message(ctx));
    CHECK(qkv_arena_mark(scratch) == mark, "scratch was not given back");
    const double work = (double)s->M * (double)s->N * (double)s->K;
    const size_t every = work > 1e5 ? (size_t)(work / 1e5) : 1;
    for (size_t at = every > 1 ? between(random, 0, every - 1) : 0; at < s->M * s->N; at += every)
        bf16_check_element(&d, c, at / s->N, at % s->N);
    for (size_t m = 0; m + 1 < s->M; m++)
        for (size_t n = s->N; n < s->ldc; n++) {
            float is = bf16_at(s, c, m * s->ldc + n), was = bf16_at(s, d.c, m * s->ldc + n);
            CHECK(same_bits(&is, &was, 1), "bf16 wrote between rows");
        }
    guarded_free(c, d.c_floats, "bf16");
    bf16_data_free(ctx, &d);
}

static struct bf16_case bf16_any(struct qkv_random *random, size_t M, size_t N, size_t K) {
    const uint64_t bits = qkv_random_bits(random);
    struct bf16_case s = {.M = M, .N = N, .K = K, .ldc = N};
    s.a_transposed = bits & 1, s.b_transposed = bits & 2, s.a_half = bits & 4, s.b_half = bits & 8,
    s.c_half = bits & 16;
    s.accumulate = bits & 32, s.bias = bits & 64, s.packed = bits & 128;
    if (bits & 256) s.ldc = N + between(random, 1, 40);
    return s;
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static void check_bf16_ragged(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    for (size_t M = 1; M <= 67; M += M < 20 ? 1 : 7) {
        for (size_t N = 1; N <= 67; N += M < 20 ? 3 : 9) {
            struct bf16_case s = bf16_any(random, M, N, between(random, 1, 70));
            bf16_check(ctx, scratch, random, &s);
        }
    }
}

static void check_bf16_large(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    static const size_t shapes[][3] = {{1, 700, 3000}, {3, 517, 1030}, {8, 400, 777},  {9, 1000, 600}, {97, 333, 257},
                                       {129, 64, 512}, {401, 130, 96}, {64, 64, 5000}, {600, 5, 900},  {260, 2100, 64},
                                       {300, 17, 1},   {256, 96, 768}, {515, 40, 2600}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int form = 0; form < 4; form++) {
            struct bf16_case s = bf16_any(random, shapes[i][0], shapes[i][1], shapes[i][2]);
            s.a_transposed = form & 1, s.b_transposed = form & 2;
            if (form == 0) s.a_half = true;
            bf16_check(ctx, scratch, random, &s);
        }
    }
}

static void check_bf16_threads(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    for (int round = 0; round < 12; round++) {
        struct bf16_case s =
            bf16_any(random, between(random, 1, 400), between(random, 1, 300), between(random, 1, 900));
        struct bf16_data d = bf16_data(ctx, random, &s);
        float *one = copied(d.c, d.c_floats), *some = copied(d.c, d.c_floats);
        CHECK(bf16_run(ctx, scratch, &d, one) == QKV_OK, "%s", qkv_message(ctx));
        qkv_team_start(ctx, 5);
        for (int threads = 1; threads <= 5; threads++) {
            struct qkv_context other = *ctx;
            other.threads = threads;
            memcpy(some, d.c, d.c_floats * sizeof *some);
            CHECK(bf16_run(&other, scratch, &d, some) == QKV_OK, "%s", qkv_message(&other));
            CHECK(same_bits(one, some, d.c_floats), "%zu×%zu×%zu depends on threads", s.M, s.N, s.K);
        }
        guarded_free(one, d.c_floats, "bf16");
        guarded_free(some, d.c_floats, "bf16");
        bf16_data_free(ctx, &d);
    }
}

/* Rows of a product computed alone, one or several, have the same bits: the kernels for few rows and those for many
 * agree. */
static void check_bf16_rows(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    for (int round = 0; round < 60; round++) {
        const size_t M = between(random, 2, 60), rows = between(random, 1, M < 20 ? M : 20),
                     first = between(random, 0, M - rows);
        struct bf16_case s = bf16_any(random, M, between(random, 1, 300), between(random, 1, 1300));
        s.a_transposed = false, s.packed = round % 4 > 0;
        struct bf16_data d = bf16_data(ctx, random, &s);
        float *whole = copied(d.c, d.c_floats), *part = copied(d.c, d.c_floats);
        CHECK(bf16_run(ctx, scratch, &d, whole) == QKV_OK, "%s", qkv_message(ctx));
        const size_t cell = s.c_half ? sizeof(uint16_t) : sizeof(float), skipped = first * s.ldc * cell;
        struct bf16_data alone = d;
        alone.shape.M = rows;
        alone.a.data = (const char *)d.a.data + first * s.K * qkv_type_size(d.a.dtype);
        CHECK(bf16_run(ctx, scratch, &alone, (float *)(void *)((char *)part + skipped)) == QKV_OK, "%s",
              qkv_message(ctx));
        for (size_t m = 0; m < rows; m++) {
            const size_t at = skipped + m * s.ldc * cell;
            CHECK(!memcmp((char *)whole + at, (char *)part + at, s.N * cell),
                  "%s: %zu×%zu×%zu: row %zu has other bits in rows [%zu, %zu)", ctx->kernels->isa, M, s.N, s.K,
                  first + m, first, first + rows);
        }
        guarded_free(whole, d.c_floats, "bf16");
        guarded_free(part, d.c_floats, "bf16");
        bf16_data_free(ctx, &d);
    }
}

/* A corner of a block computed alone has the same bits, also for numbers whose products are too small for fp32:
 * kernels may compute small blocks differently from large ones. Signs of zeros do not count. */
static void check_bf16_corner(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    enum { ROWS = 64, COLUMNS = 64, TERMS = 70 };
    const struct qkv_bf16_kernels *kernels = ctx->kernels->bf16;
    (void)scratch;
    for (int round = 0; round < 300; round++) {
        const size_t K = between(random, 1, TERMS), padded = TERMS + 64, columns = (size_t)16 << between(random, 0, 2);
        const size_t wanted = round % 4 ? between(random, 1, kernels->mr) : 1;
        const double scale = round % 3 ? 1 : pow(2, -(double)between(random, 55, 75));
        float *a = random_floats(random, ROWS * K, scale), *b = random_floats(random, COLUMNS * K, scale);
        float *left = guarded_new(ROWS * padded), *right = guarded_new(COLUMNS * padded),
              *staging = guarded_new(ROWS * padded);
        float *c = random_floats(random, ROWS * COLUMNS, scale * scale), *part = copied(c, ROWS * COLUMNS);
        kernels->pack_a(left, (struct qkv_operand){a, QKV_F32, K, 1}, ROWS, K, staging);
        kernels->pack_b((uint32_t *)(void *)right, (struct qkv_operand){b, QKV_F32, COLUMNS, 1}, K, COLUMNS);
        struct qkv_bf16_block block = {.rows = ROWS, .columns = COLUMNS, .K = K, .a = left, .c = c, .ldc = COLUMNS};
        block.b = (const uint32_t *)(const void *)right, block.resume = round % 2;
        kernels->enter(0);
        kernels->block(&block);
        block.rows = kernels->mr, block.columns = columns, block.wanted = wanted, block.c = part;
        kernels->block(&block);
        kernels->leave();
        for (size_t i = 0; i < wanted * columns; i++) {
            const size_t at = i / columns * COLUMNS + i % columns;
            CHECK(same_bits(c + at, part + at, 1) || (c[at] == 0 && part[at] == 0),
                  "%s: %zu terms: (%zu,%zu) is %a in a block, %a in a small one", ctx->kernels->isa, K, i / columns,
                  i % columns, (double)c[at], (double)part[at]);
        }
        guarded_free(a, ROWS * K, "bf16"), guarded_free(b, COLUMNS * K, "bf16");
        guarded_free(left, ROWS * padded, "pack_a"), guarded_free(right, COLUMNS * padded, "pack_b");
        guarded_free(staging, ROWS * padded, "pack_a"), guarded_free(c, ROWS * COLUMNS, "bf16");
        guarded_free(part, ROWS * COLUMNS, "bf16");
    }
}

/* Short sequences one after the other give the same bits when packed in units of few terms as in units of
 * order_step. Signs of zeros do not count. */
static void check_bf16_units(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    enum { ROWS = 50, COLUMNS = 70, SEQUENCES = 5 };
    const struct qkv_bf16_kernels *kernels = ctx->kernels->bf16;
    (void)scratch;
    for (size_t unit = kernels->order_unit; unit < kernels->order_step; unit *= 2) {
        for (int round = 0; round < 20; round++) {
            const double scale = round % 3 ? 1 : pow(2, -(double)between(random, 55, 75));
            const size_t length = between(random, 1, unit), terms = SEQUENCES * length;
            float *a = random_floats(random, terms * ROWS, scale), *b = random_floats(random, terms * COLUMNS, scale);
            float *c[2] = {random_floats(random, ROWS * COLUMNS, scale * scale)};
            c[1] = copied(c[0], ROWS * COLUMNS);
            for (int i = 0; i < 2; i++) {
                const size_t step = i ? unit : kernels->order_step, pairs = SEQUENCES * step / 2;
                const size_t a_floats = (ROWS + 2 * kernels->mr) * pairs, b_floats = (COLUMNS + kernels->nr) * pairs;
                float *left = guarded_new(a_floats), *right = guarded_new(b_floats);
                for (size_t s = 0; s < SEQUENCES; s++) {
                    const size_t at = s * length;
                    kernels->pack_a_at(left, pairs, s * step / 2, (struct qkv_operand){a + at * ROWS, QKV_F32, 1, ROWS},
                                       ROWS, length, step);
                    kernels->pack_b_at((uint32_t *)(void *)right, pairs, s * step / 2,
                                       (struct qkv_operand){b + at * COLUMNS, QKV_F32, COLUMNS, 1}, length, COLUMNS,
                                       step);
                }
                const struct qkv_bf16_block block = {.rows = ROWS,
                                                     .columns = COLUMNS,
                                                     .K = 2 * pairs,
                                                     .a = left,
                                                     .b = (const uint32_t *)(const void *)right,
                                                     .c = c[i],
                                                     .ldc = COLUMNS,
                                                     .resume = round % 2,
                                                     .chain = round % 2,
                                                     .unit = i ? unit : 0};
                kernels->enter(block.unit);
                kernels->block(&block);
                kernels->leave();
                guarded_free(left, a_floats, "pack_a_at"), guarded_free(right, b_floats, "pack_b_at");
            }
            for (size_t i = 0; i < ROWS * COLUMNS; i++)
                CHECK(same_bits(c[0] + i, c[1] + i, 1) || (c[0][i] == 0 && c[1][i] == 0),
                      "%s: %zu terms in units of %zu: (%zu,%zu) is %a, not %a", ctx->kernels->isa, length, unit,
                      i / COLUMNS, i % COLUMNS, (double)c[1][i], (double)c[0][i]);
            guarded_free(a, terms * ROWS, "bf16"), guarded_free(b, terms * COLUMNS, "bf16");
            guarded_free(c[0], ROWS * COLUMNS, "bf16"), guarded_free(c[1], ROWS * COLUMNS, "bf16");
        }
    }
}

/* Sums of groups, one or two blocks each, that go through two levels of a tree and into a third buffer: one call has
 * the same bits as calls one by one with the additions made here. The levels are reused, as those of weight
 * gradients are. */
static void check_bf16_groups(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    enum { GROUPS = 4, BLOCKS = 2 * GROUPS, LEVELS = 3 };
    const struct qkv_bf16_kernels *kernels = ctx->kernels->bf16;
    const size_t step = kernels->order_step > kernels->step ? kernels->order_step : kernels->step;
    (void)scratch;
    for (int round = 0; round < 60; round++) {
        const size_t rows = between(random, 1, 5 * kernels->mr), columns = between(random, 1, kernels->nr);
        const size_t K = step * between(random, 1, 3), ld = kernels->nr + (size_t)(round % 2) * 16, all = rows * ld;
        const size_t a_floats = (rows + 2 * kernels->mr) * K, b_floats = kernels->nr * K;
        struct qkv_bf16_block list[BLOCKS];
        float *left[BLOCKS], *right[BLOCKS], *staging = guarded_new(a_floats), *own = random_floats(random, all, 1);
        float *levels[LEVELS], *expected[LEVELS];
        size_t count = 0;
        for (size_t i = 0; i < LEVELS; i++)
            levels[i] = random_floats(random, all, 1), expected[i] = copied(levels[i], all);
        for (size_t g = 0; g < GROUPS; g++) {
            const size_t sections = between(random, 1, 2), to = g == 3 ? 2 : g % 2;
            for (size_t s = 0; s < sections; s++, count++) {
                float *a = random_floats(random, rows * K, 1), *b = random_floats(random, K * columns, 1);
                left[count] = guarded_new(a_floats), right[count] = guarded_new(b_floats);
                kernels->pack_a(left[count], (struct qkv_operand){a, QKV_F32, K, 1}, rows, K, staging);
                kernels->pack_b((uint32_t *)(void *)right[count], (struct qkv_operand){b, QKV_F32, columns, 1}, K,
                                columns);
                guarded_free(a, rows * K, "bf16"), guarded_free(b, K * columns, "bf16");
                struct qkv_bf16_block block = {
                    .rows = rows, .columns = columns, .K = K, .a = left[count], .ldc = ld, .resume = s, .chain = s};
                block.b = (const uint32_t *)(const void *)right[count], block.c = own;
                kernels->enter(0);
                kernels->block(&block);
                kernels->leave();
                list[count] = block, list[count].c = levels[to];
            }
            struct qkv_bf16_out *out = &list[count - 1].out;
            if (to) *out = (struct qkv_bf16_out){.data = levels[to], .ld = ld, .dtype = QKV_F32, .earlier_ld = ld};
            for (out->earlier_count = 0; out->earlier_count < to; out->earlier_count++)
                out->earlier[out->earlier_count] = levels[out->earlier_count];
            for (size_t i = 0; i < all; i++) {
                float sum = own[i];
                for (size_t e = 0; e < to; e++) sum = expected[e][i] + sum;
                if (i % ld < columns) expected[to][i] = sum;
            }
        }
        kernels->enter(0);
        kernels->blocks(list, count);
        kernels->leave();
        for (size_t i = 0; i < LEVELS; i++)
            for (size_t j = 0; j < all; j++)
                CHECK(same_bits(levels[i] + j, expected[i] + j, 1), "%s: %zu×%zu, level %zu: (%zu,%zu) is %a, not %a",
                      ctx->kernels->isa, rows, columns, i, j / ld, j % ld, (double)levels[i][j],
                      (double)expected[i][j]);
        for (size_t i = 0; i < count; i++)
            guarded_free(left[i], a_floats, "pack_a"), guarded_free(right[i], b_floats, "pack_b");
        for (size_t i = 0; i < LEVELS; i++)
            guarded_free(levels[i], all, "bf16"), guarded_free(expected[i], all, "bf16");
        guarded_free(staging, a_floats, "pack_a"), guarded_free(own, all, "bf16");
    }
}

/* A dry run counts the memory that the real run then uses and touches nothing. */
static void check_bf16_memory(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    (void)scratch;
    for (int round = 0; round < 12; round++) {
        struct bf16_case s =
            bf16_any(random, between(random, 1, 400), between(random, 1, 400), between(random, 1, 2000));
        struct bf16_data d = bf16_data(ctx, random, &s);
        float *c = copied(d.c, d.c_floats);
        struct qkv_arena measure, real;
        const struct qkv_planning had = qkv_planning_begin(ctx);
        qkv_arena_measure(ctx, &measure, "measure");
        CHECK(bf16_run(ctx, &measure, &d, c) == QKV_OK, "%s", qkv_message(ctx));
        qkv_planning_end(ctx, had);
        CHECK(same_bits(c, d.c, d.c_floats), "a dry run wrote to C");
        CHECK(qkv_arena_create(ctx, &real, measure.peak, "real") == QKV_OK, "%s", qkv_message(ctx));
        CHECK(bf16_run(ctx, &real, &d, c) == QKV_OK, "%s", qkv_message(ctx));
        CHECK(real.peak == measure.peak, "measured %zu, used %zu", measure.peak, real.peak);
        qkv_arena_free(&real);
        qkv_arena_free(&measure);
        guarded_free(c, d.c_floats, "bf16");
        bf16_data_free(ctx, &d);
    }
}

/* A number that is not finite in one row of A or one column of B stays in that row or column of C. */
static void check_bf16_nan(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *random) {
    for (int round = 0; round < 20; round++) {
        struct bf16_case s = bf16_any(random, between(random, 2, 60), between(random, 2, 60), between(random, 1, 50));
        s.accumulate = s.a_half = s.b_half = s.c_half = s.packed = false;
        struct bf16_data d = bf16_data(ctx, random, &s);
        const size_t row = between(random, 0, s.M - 1), column = between(random, 0, s.N - 1);
        const size_t k = between(random, 0, s.K - 1);
        ((float *)(uintptr_t)d.a.data)[row * d.a.row_stride + k * d.a.column_stride] = NAN;
        ((float *)(uintptr_t)d.b.data)[k * d.b.row_stride + column * d.b.column_stride] = INFINITY;
        CHECK(bf16_run(ctx, scratch, &d, d.c) == QKV_OK, "%s", qkv_message(ctx));
        for (size_t m = 0; m < s.M; m++)
            for (size_t n = 0; n < s.N; n++) {
                float x = d.c[m * s.ldc + n];
                CHECK(m == row      ? isnan(x)
                      : n == column ? !isfinite(x)
                                    : isfinite(x),
                      "(%zu,%zu) is %g", m, n, (double)x);
            }
        bf16_data_free(ctx, &d);
    }
}

#define BF16_CHECKS(X)                                                                                                 \
    X(bf16_ragged)                                                                                                     \
    X(bf16_large) X(bf16_threads) X(bf16_rows) X(bf16_corner) X(bf16_units) X(bf16_groups) X(bf16_memory) X(bf16_nan)

#endif
