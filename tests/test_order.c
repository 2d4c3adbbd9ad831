/* Sums in a defined order: products and sums of columns, with every kernel table of this machine, in fp32 and in
 * bf16. The oracle of the numbers is a sum in double, that of the order a tree that is built here, group by group. */
#include "test.h"

#include "checks.h"
#include "op/op.h"

/* Sequences of some length each, in groups of some sequences each. */
struct cut {
    struct qkv_order order;
    size_t first[QKV_GROUPS_MAX + 1], start[512];
};

static void random_cut(struct cut *c, struct qkv_random *random, size_t groups, size_t longest) {
    size_t sequences = 0;
    c->start[0] = 0;
    for (size_t g = 0; g < groups; g++) {
        c->first[g] = sequences;
        for (size_t n = between(random, 1, 3); n; n--, sequences++) {
            const size_t length = qkv_random_below(random, 4) ? between(random, 0, longest) : longest / 32 * 32;
            c->start[sequences + 1] = c->start[sequences] + length;
        }
    }
    c->first[groups] = sequences;
    c->order = (struct qkv_order){
        .groups = groups, .sequences = sequences, .terms = c->start[sequences], .first = c->first, .start = c->start};
}

struct product {
    size_t M, N;
    float *a, *b, *c; /* (terms,M), (terms,N), (M,N) as it was */
    uint16_t *b_halves;
    struct cut cut;
};

static enum qkv_status order_product(struct qkv_context *ctx, struct qkv_arena *scratch, float *c,
                                     const struct product *p, struct qkv_operand a, struct qkv_operand b,
                                     const struct qkv_order *order, struct qkv_order_carry *carry) {
    return qkv_product_of(ctx)->sum(ctx, scratch, &(struct qkv_sums_call){c, p->N, a, b, p->M, p->N, order, carry});
}

/* Adds the sequences [from, to) of the product to c, as the order says: one group, or the groups of the cut. */
static void run_part(struct qkv_context *ctx, const struct product *p, size_t from, size_t to, bool whole, float *c) {
    const size_t first[2] = {0, to - from}, before = p->cut.start[from];
    size_t start[512];
    struct qkv_arena scratch;
    for (size_t s = from; s <= to; s++) start[s - from] = p->cut.start[s] - before;
    const struct qkv_order one = {1, to - from, p->cut.start[to] - before, first, start};
    struct qkv_operand a = {p->a + before * p->M, QKV_F32, 1, p->M}, b = {p->b + before * p->N, QKV_F32, p->N, 1};
    if (p->b_halves) b.data = p->b_halves + before * p->N, b.dtype = QKV_BF16;
    const struct qkv_planning had = qkv_planning_begin(ctx);
    qkv_arena_measure(ctx, &scratch, "measure");
    assert_ok(ctx, order_product(ctx, &scratch, c, p, a, b, whole ? &p->cut.order : &one, NULL));
    qkv_planning_end(ctx, had);
    const size_t peak = scratch.peak;
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, peak, "scratch"));
    assert_ok(ctx, order_product(ctx, &scratch, c, p, a, b, whole ? &p->cut.order : &one, NULL));
    assert_int_equal(scratch.peak, peak);
    qkv_arena_free(&scratch);
}

/* The groups [from, from + size) of a power of two; false: there are none. */
static bool tree(struct qkv_context *ctx, const struct product *p, size_t from, size_t size, float *sum) {
    const struct cut *cut = &p->cut;
    const size_t n = p->M * p->N;
    if (from >= cut->order.groups) return false;
    memset(sum, 0, n * sizeof *sum);
    if (size == 1) { /* sequence by sequence */
        for (size_t s = cut->first[from]; s < cut->first[from + 1]; s++) run_part(ctx, p, s, s + 1, false, sum);
        return true;
    }
    float *right = calloc(n, sizeof *right);
    tree(ctx, p, from, size / 2, sum);
    if (tree(ctx, p, from + size / 2, size / 2, right))
        for (size_t i = 0; i < n; i++) sum[i] += right[i];
    free(right);
    return true;
}

static void check_numbers(const struct qkv_context *ctx, const struct product *p, const float *got) {
    const bool mixed = ctx->precision == QKV_MIXED_BF16;
    for (size_t m = 0; m < p->M; m += 1 + p->M / 7) {
        for (size_t n = 0; n < p->N; n += 1 + p->N / 7) {
            double sum = p->c[m * p->N + n], size = fabs(sum);
            for (size_t k = 0; k < p->cut.order.terms; k++) {
                float a = p->a[k * p->M + m], b = p->b[k * p->N + n];
                uint16_t half;
                if (mixed) qkv_from_float(&half, &a, QKV_BF16, 1), qkv_to_float(&a, &half, QKV_BF16, 1);
                if (mixed) qkv_from_float(&half, &b, QKV_BF16, 1), qkv_to_float(&b, &half, QKV_BF16, 1);
                sum += (double)a * (double)b;
                size += fabs((double)a * (double)b);
            }
            const double bound = size * ((double)p->cut.order.terms + 8) * 0x1p-24;
            if (fabs((double)got[m * p->N + n] - sum) > bound)
                fail_msg("%s: %zu x %zu x %zu in %zu groups: (%zu,%zu) is %g, not %g", ctx->kernels->isa, p->M, p->N,
                         p->cut.order.terms, p->cut.order.groups, m, n, (double)got[m * p->N + n], sum);
        }
    }
}

/* A group that comes in two calls, the second of which goes on from the sum of the first. */
static void check_carry_goes_on(struct qkv_context *ctx, struct qkv_random *random, const struct product *p,
                                struct qkv_order_carry last, const float *expected) {
    const size_t n = p->M * p->N, sequences = p->cut.order.sequences, middle = qkv_random_below(random, sequences + 1);
    struct qkv_order_carry carry = {.to = last.to};
    struct qkv_arena scratch;
    if (!p->cut.start[middle] || p->cut.start[middle] == p->cut.order.terms) return; /* in one call */
    float *c = copied(p->c, n);
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "scratch"));
    for (size_t part = 0; part < 2; part++) {
        const size_t from = part ? middle : 0, to = part ? sequences : middle, before = p->cut.start[from];
        const size_t first[2] = {0, to - from};
        size_t start[512];
        for (size_t s = from; s <= to; s++) start[s - from] = p->cut.start[s] - before;
        const struct qkv_order order = {1, to - from, p->cut.start[to] - before, first, start};
        struct qkv_operand a = {p->a + before * p->M, QKV_F32, 1, p->M}, b = {p->b + before * p->N, QKV_F32, p->N, 1};
        if (p->b_halves) b.data = p->b_halves + before * p->N, b.dtype = QKV_BF16;
        if (part) carry = last, carry.goes_on = true;
        assert_ok(ctx, order_product(ctx, &scratch, c, p, a, b, &order, &carry));
        assert_true(carry.done);
    }
    assert_memory_equal(last.to, expected, n * sizeof *expected);
    assert_memory_equal(c, p->c, n * sizeof *c);
    qkv_arena_free(&scratch);
    guarded_free(c, n, "c");
}

/* A product of whole groups that leaves its sum, with those of earlier parts, elsewhere: `whole` is the sum alone. */
static void check_carry(struct qkv_context *ctx, struct qkv_random *random, const struct product *p,
                        const float *whole) {
    const size_t n = p->M * p->N, K = p->cut.order.terms;
    struct qkv_operand a = {p->a, QKV_F32, 1, p->M}, b = {p->b, QKV_F32, p->N, 1};
    if (p->b_halves) b.data = p->b_halves, b.dtype = QKV_BF16;
    float *to = random_floats(random, n, 1), *c = copied(p->c, n), *earlier[3];
    struct qkv_order_carry carry = {.to = to, .count = qkv_random_below(random, 4)};
    for (size_t e = 0; e < 3; e++) carry.earlier[e] = earlier[e] = random_floats(random, n, 1);
    struct qkv_arena scratch;
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "scratch"));
    assert_ok(ctx, order_product(ctx, &scratch, c, p, a, b, &p->cut.order, &carry));
    qkv_arena_free(&scratch);
    float *as_always = copied(p->c, n);
    if (!carry.done) run_part(ctx, p, 0, p->cut.order.sequences, true, as_always);
    assert_true(carry.done || !K || (p->cut.order.groups == 1 && K > 4000)); /* many terms of one group need C itself */
    assert_true(!K || carry.done == qkv_product_of(ctx)->carries(ctx, &p->cut.order));
    assert_memory_equal(c, as_always, n * sizeof *c);
    guarded_free(as_always, n, "c");
    for (size_t i = 0; i < n && carry.done; i++) {
        float sum = whole[i];
        for (size_t e = 0; e < carry.count; e++) sum = earlier[e][i] + sum;
        if (to[i] != sum)
            fail_msg("%s: %zu x %zu x %zu in %zu groups, behind %zu sums: element %zu is %a, not %a", ctx->kernels->isa,
                     p->M, p->N, K, p->cut.order.groups, carry.count, i, (double)to[i], (double)sum);
    }
    if (carry.done && p->cut.order.groups == 1) {
        float *expected = copied(to, n);
        check_carry_goes_on(ctx, random, p, carry, expected);
        guarded_free(expected, n, "the sum");
    }
    for (size_t e = 0; e < 3; e++) guarded_free(earlier[e], n, "an earlier sum");
    guarded_free(to, n, "the sum"), guarded_free(c, n, "c");
}

static void check_product(struct qkv_context *ctx, struct qkv_random *random, size_t groups, size_t longest, size_t M,
                          size_t N, bool half) {
    struct product p = {.M = M, .N = N};
    random_cut(&p.cut, random, groups, longest);
    const size_t K = p.cut.order.terms, n = M * N;
    p.a = random_floats(random, K * M + 1, 1), p.b = random_floats(random, K * N + 1, 1);
    p.c = random_floats(random, n, 1);
    if (half) {
        p.b_halves = calloc(K * N + 1, sizeof *p.b_halves);
        qkv_from_float(p.b_halves, p.b, QKV_BF16, K * N);
    }
    float *whole = copied(p.c, n), *expected = copied(p.c, n), *sum = calloc(n, sizeof *sum);
    size_t size = 1;
    while (size < groups) size *= 2;
    for (int threads = 1; threads <= 3; threads++) {
        ctx->threads = threads;
        memcpy(whole, p.c, n * sizeof *whole);
        run_part(ctx, &p, 0, p.cut.order.sequences, true, whole);
        check_numbers(ctx, &p, whole);
        if (groups == 1) /* the sum goes on, sequence by sequence */
            for (size_t s = 0; s < p.cut.order.sequences && threads == 1; s++)
                run_part(ctx, &p, s, s + 1, false, expected);
        else if (threads == 1)
            for (size_t i = tree(ctx, &p, 0, size, sum) ? 0 : n; i < n; i++) expected[i] += sum[i];
        for (size_t i = 0; i < n; i++)
            if (memcmp(&whole[i], &expected[i], sizeof *whole))
                fail_msg("%s, %s, %d threads: %zu x %zu x %zu in %zu groups: element %zu is %a, not %a as in the tree",
                         ctx->kernels->isa, ctx->precision ? "bf16" : "fp32", threads, M, N, K, groups, i,
                         (double)whole[i], (double)expected[i]);
        memset(whole, 0, n * sizeof *whole);
        run_part(ctx, &p, 0, p.cut.order.sequences, true, whole);
        check_carry(ctx, random, &p, whole);
    }
    guarded_free(p.a, K * M + 1, "a"), guarded_free(p.b, K * N + 1, "b"), guarded_free(p.c, n, "c");
    guarded_free(whole, n, "c"), guarded_free(expected, n, "c");
    free(sum), free(p.b_halves);
}

#define FOR_CONTEXTS(ctx, i, precision)                                                                                \
    for (size_t i = 0; qkv_isa_at(i); i++)                                                                             \
        for (int precision = 0; precision < 2; precision++)                                                            \
            if (qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .isa = qkv_isa_at(i),                       \
                                                      .precision = precision ? QKV_MIXED_BF16 : QKV_FP32)) == QKV_OK)

static void products_are_trees_of_groups_whatever_the_cut(void **state) {
    struct qkv_context *ctx;
    (void)state;
    FOR_CONTEXTS(ctx, i, precision) {
        struct qkv_random random = test_random(100 + i);
        for (size_t round = 0; round < 10; round++) {
            const size_t groups = round < 2 ? 1 : round < 9 ? round : between(&random, 9, 20);
            check_product(ctx, &random, groups, round % 3 ? 40 : 10, between(&random, 1, 70), between(&random, 1, 70),
                          precision && round % 2);
        }
        qkv_context_free(ctx);
    }
}

/* Several parts of terms, of columns, and of rows. */
static void long_products_are_trees_of_groups_whatever_the_cut(void **state) {
    static const size_t shapes[][4] = {{3, 900, 40, 70}, {8, 200, 300, 36}, {1, 3000, 33, 40}, {5, 700, 20, 130}};
    struct qkv_context *ctx;
    (void)state;
    FOR_CONTEXTS(ctx, i, precision) {
        struct qkv_random random = test_random(200 + i);
        const size_t most = !strcmp(qkv_isa_at(i), "scalar") ? 1 : TEST_COUNT(shapes);
        for (size_t k = 0; k < most; k++)
            check_product(ctx, &random, shapes[k][0], shapes[k][1], shapes[k][2], shapes[k][3], false);
        qkv_context_free(ctx);
    }
}

static void sums_of_columns_are_trees_of_groups(void **state) {
    struct qkv_context *ctx;
    (void)state;
    FOR_CONTEXTS(ctx, i, precision) {
        struct qkv_random random = test_random(300 + i);
        for (size_t groups = 1; groups <= 9; groups++) {
            struct cut cut;
            random_cut(&cut, &random, groups, 30);
            const size_t K = cut.order.terms, C = between(&random, 1, 200);
            float *x = random_floats(&random, K * C + 1, 1), *out = random_floats(&random, C, 1), *was = copied(out, C);
            ctx->threads = 1 + (int)groups % 3;
            qkv_order_columns(ctx, &cut.order, out, x, C, C);
            for (size_t c = 0; c < C; c++) {
                float sums[16] = {0}, all = was[c];
                for (size_t g = 0; g < groups; g++)
                    for (size_t k = cut.start[cut.first[g]]; k < cut.start[cut.first[g + 1]]; k++) {
                        if (groups == 1)
                            all += x[k * C + c];
                        else
                            sums[g] += x[k * C + c];
                    }
                for (size_t size = 1; size < 16; size *= 2)
                    for (size_t g = 0; g + size < groups; g += 2 * size) sums[g] += sums[g + size];
                if (groups > 1) all += sums[0];
                assert_memory_equal(&out[c], &all, sizeof all);
            }
            guarded_free(x, K * C + 1, "x"), guarded_free(out, C, "out"), guarded_free(was, C, "out");
        }
        qkv_context_free(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_trees_of_groups_whatever_the_cut),
        cmocka_unit_test(long_products_are_trees_of_groups_whatever_the_cut),
        cmocka_unit_test(sums_of_columns_are_trees_of_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
