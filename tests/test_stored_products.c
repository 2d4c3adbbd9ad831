/* Products with stored weights, with the types' own kernels and by converting pieces, against products with the
 * same numbers in fp32, bit for bit. test_gemm tests fp32 products. */
#include "blocks_fixture.h"

#include "kernel/product.h"

/* (rows, columns) in parts of random types, unaligned, and the same numbers in fp32. */
struct matrix {
    struct qkv_stored_part parts[3];
    struct qkv_stored stored;
    unsigned char *bytes[3];
    float *floats;
};

static struct matrix random_matrix(struct qkv_random *r, size_t rows, size_t columns) {
    struct matrix m = {.floats = malloc((rows * columns + 1) * sizeof(float))};
    m.stored = (struct qkv_stored){.parts = m.parts, .count = 0, .columns = columns};
    for (size_t done = 0; done < rows; m.stored.count++) {
        const size_t i = m.stored.count, some = i == 2 ? rows - done : test_between(r, 1, rows - done);
        enum qkv_dtype dtype = (enum qkv_dtype)qkv_random_below(r, QKV_DTYPE_COUNT);
        while (!qkv_types[dtype]->weights || columns % qkv_types[dtype]->block)
            dtype = (enum qkv_dtype)qkv_random_below(r, QKV_DTYPE_COUNT);
        const struct qkv_type *f = qkv_types[dtype];
        float *floats = m.floats + done * columns;
        m.bytes[i] = malloc(some * columns * f->bytes + 1);
        random_blocks(r, f, m.bytes[i] + 1, some * columns);
        qkv_type_floats(f, floats, m.bytes[i] + 1, some * columns);
        m.parts[i] = (struct qkv_stored_part){.dtype = dtype, .data = m.bytes[i] + 1, .rows = some};
        done += some;
    }
    return m;
}

static void matrix_free(struct matrix *m) {
    for (size_t i = 0; i < m->stored.count; i++) free(m->bytes[i]);
    free(m->floats);
}

/* A table in which no type has a product of its own. */
static struct qkv_kernels without_products(const struct qkv_kernels *table) {
    static struct qkv_type_kernels types[QKV_DTYPE_COUNT];
    struct qkv_kernels without = *table;
    for (int i = 0; i < QKV_DTYPE_COUNT; i++)
        types[i] = (struct qkv_type_kernels){.to_float = table->types[i].to_float};
    without.types = types;
    return without;
}

/* large: B has several parts. */
static void check_product(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_random *r, bool transposed,
                          bool large, const struct qkv_product *product) {
    const size_t M = large ? 9 : qkv_random_below(r, 3) ? test_between(r, 1, 4) : test_between(r, 5, 300);
    static const size_t lengths[] = {1, 1, 32, QKV_TYPE_BLOCK_MAX}; /* rows of any length, or of whole blocks */
    const size_t whole = lengths[qkv_random_below(r, TEST_COUNT(lengths))];
    const size_t rows = large ? 300 : test_between(r, 1, transposed ? 150 : 600); /* of the weights */
    const size_t columns = qkv_round_up(large ? 4000 : test_between(r, 1, transposed ? 600 : 150), whole);
    const size_t N = transposed ? rows : columns, K = transposed ? columns : rows;
    struct matrix w = random_matrix(r, rows, columns);
    w.stored.parts = w.parts;
    float *a = malloc(M * K * sizeof *a), *c = malloc(M * N * sizeof *c), *expected = malloc(M * N * sizeof *c);
    float *bias = malloc(N * sizeof *bias), *start = malloc(M * N * sizeof *start);
    test_fill(r, a, M * K, 1);
    test_fill(r, bias, N, 1);
    test_fill(r, start, M * N, 1);
    const bool accumulate = qkv_random_below(r, 2), biased = qkv_random_below(r, 2);
    const struct qkv_stored_operand one = {.weights = &w.stored, .transposed = transposed};
    const struct qkv_stored_operand stored[] = {{0}, one, one};
    const size_t row = transposed ? 1 : N, column = transposed ? K : 1;
    const struct qkv_kernels *table = ctx->kernels, without = without_products(table);
    for (size_t i = 0; i < 3; i++) { /* in fp32; as they are stored; the same, each piece converted first */
        float *to = i ? c : expected;
        ctx->kernels = i == 2 ? &without : table;
        memcpy(to, start, M * N * sizeof *to);
        const float *data = i ? NULL : w.floats; /* not to be read */
        const size_t mark = qkv_arena_mark(scratch);
        struct qkv_product_call call = {.c = to,
                                        .dtype = QKV_F32,
                                        .ldc = N,
                                        .a = {a, QKV_F32, K, 1},
                                        .b = {data, QKV_F32, row, column},
                                        .stored = stored[i],
                                        .M = M,
                                        .N = N,
                                        .K = K,
                                        .accumulate = accumulate,
                                        .bias = biased ? bias : NULL};
        size_t bytes;
        if (product->pack && M % 2) {
            assert_true(product->packed_bytes(ctx, NULL, K, N, &bytes));
            void *packed = qkv_arena_take(scratch, bytes, 1);
            product->pack(ctx, packed, call.b, stored[i], K, N);
            call.packed = packed;
        }
        assert_int_equal(product->multiply(ctx, scratch, &call), QKV_OK);
        ctx->kernels = table;
        qkv_arena_release(scratch, mark);
        if (i && memcmp(c, expected, M * N * sizeof *c))
            fail_msg("%s: %zu x %zu x %zu, transposed %d, in %s, %s", table->isa, M, N, K, transposed, product->name,
                     i == 2 ? "converted" : "as stored");
    }
    free(a), free(c), free(expected), free(start), free(bias);
    matrix_free(&w);
}

static void stored_weights_multiply_with_the_bits_of_fp32_ones(void **state) {
    (void)state;
    const char *isa;
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++)
        for (int threads = 1; threads <= 2; threads++) {
            struct qkv_random r = test_random(100 + t);
            struct qkv_context *ctx;
            struct qkv_arena scratch;
            assert_int_equal(
                qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .isa = isa)), QKV_OK);
            assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)64 << 20, "products"));
            const struct qkv_product *product;
            for (size_t p = 0; (product = qkv_product_at(p)); p++)
                for (size_t i = 0; i < 20 && product->promise == QKV_AS_FP32; i++)
                    check_product(ctx, &scratch, &r, i % 2, i < 2, product);
            qkv_arena_free(&scratch);
            qkv_context_free(ctx);
        }
}

/* Every eighth column is of numbers that are subnormal, or all but. */
static float *turned_numbers(struct qkv_random *r, size_t count, size_t columns) {
    float *w = malloc(count * sizeof *w);
    test_fill(r, w, count, 1);
    for (size_t i = 0; i < count; i++)
        if (i % columns % 8 == 0) w[i] = i % 3 ? w[i] * 0x1p-125F : -0x1.fffffep-127F;
    return w;
}

struct turned { /* B (K,N), and Bᵀ packed, of fp32 numbers and of rounded ones */
    struct qkv_operand b;
    void *packed[2];
    size_t K, N;
};

static void turned_pack(struct qkv_context *ctx, struct qkv_arena *scratch, struct turned *t) {
    uint16_t *halves = qkv_arena_take(scratch, t->K * t->N, sizeof *halves);
    size_t bytes;
    qkv_bf16_round(ctx, halves, t->b.data, t->K * t->N);
    assert_true(qkv_bf16_packed_bytes(ctx, NULL, t->N, t->K, &bytes));
    for (size_t i = 0; i < 2; i++) {
        const struct qkv_operand other = {i ? (const void *)halves : t->b.data, i ? QKV_BF16 : QKV_F32, 1, t->N};
        t->packed[i] = qkv_arena_take(scratch, bytes, 1);
        qkv_bf16_pack(ctx, t->packed[i], other, (struct qkv_stored_operand){0}, t->N, t->K);
    }
}

/* In the order of form: B in fp32; then Bᵀ packed, transposed at each use; and packed once, ahead. */
static void turned_multiply(struct qkv_context *ctx, struct qkv_arena *scratch, const struct turned *t, size_t form,
                            const float *a, size_t M, float *c) {
    struct qkv_product_call call = {
        .c = c, .dtype = QKV_F32, .ldc = t->N, .a = {a, QKV_F32, t->K, 1}, .b = t->b, .M = M, .N = t->N, .K = t->K};
    size_t bytes;
    if (form) call.stored.turned = t->packed[form % 2], call.b.data = NULL;
    if (form > 2) {
        assert_true(qkv_bf16_packed_bytes(ctx, NULL, t->K, t->N, &bytes));
        void *packed = qkv_arena_take(scratch, bytes, 1);
        qkv_bf16_pack(ctx, packed, call.b, call.stored, t->K, t->N);
        call.stored.turned = NULL;
        call.packed = packed;
    }
    assert_int_equal(qkv_gemm_bf16(ctx, scratch, &call), QKV_OK);
}

/* Weights that lie packed for x·wᵀ alone: the way back, dy·w, has the bits that w in fp32 gives. */
static void weights_packed_for_one_product_are_turned_for_the_other(void **state) {
    (void)state;
    const char *isa;
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++)
        for (size_t i = 0; i < 40; i++) {
            struct qkv_random r = test_random(500 + 100 * t + i);
            const size_t M = test_between(&r, 1, 70), most = i % 8 ? 200 : 3000;
            struct turned w = {.K = test_between(&r, 1, most), .N = test_between(&r, 1, i % 8 == 2 ? 3000 : most / 2)};
            struct qkv_context *ctx;
            struct qkv_arena scratch;
            assert_int_equal(
                qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 1 + (int)(i % 2), .isa = isa)),
                QKV_OK);
            assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)256 << 20, "products"));
            float *numbers = turned_numbers(&r, w.K * w.N, w.N), *a = malloc(M * w.K * sizeof *a);
            float *c = malloc(M * w.N * sizeof *c), *expected = malloc(M * w.N * sizeof *c);
            test_fill(&r, a, M * w.K, 8);
            w.b = (struct qkv_operand){numbers, QKV_F32, w.N, 1};
            turned_pack(ctx, &scratch, &w);
            for (size_t form = 0; form < 5; form++) {
                turned_multiply(ctx, &scratch, &w, form, a, M, form ? c : expected);
                if (form && memcmp(c, expected, M * w.N * sizeof *c))
                    fail_msg("%s: %zu x %zu x %zu, form %zu", isa, M, w.N, w.K, form);
            }
            free(numbers), free(a), free(c), free(expected);
            qkv_arena_free(&scratch);
            qkv_context_free(ctx);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_weights_multiply_with_the_bits_of_fp32_ones),
        cmocka_unit_test(weights_packed_for_one_product_are_turned_for_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
