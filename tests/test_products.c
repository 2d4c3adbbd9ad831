/* The table of products: what every row must hold, and what each promises (kernel/product.h). The promise chooses the
 * oracle: rows as in fp32 are compared with the same numbers in fp32 (test_stored_products.c); rows of exact blocks
 * with sums in double, and table by table, bit by bit. */
/* labels: numeric quick */
#include "test.h"

#include "kernel/product.h"
#include "op/op.h"

static struct qkv_context *context(const char *isa, int threads) {
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads, .isa = isa)),
                     QKV_OK);
    return ctx;
}

static void every_row_says_what_it_is(void **state) {
    (void)state;
    const struct qkv_product *row, *other;
    for (size_t i = 0; (row = qkv_product_at(i)); i++) {
        assert_true(row->name && *row->name && row->help && *row->help && row->multiply && row->native);
        assert_int_equal(!row->pack, !row->packed_bytes);
        assert_true(row->precision >= 0 ? !row->serves && row->sum && row->carries : row->serves != NULL);
        assert_true(row->activation == QKV_F32 || row->activation == QKV_BF16);
        assert_true(row->form == QKV_F32 || row->round);
        assert_true(row->promise == QKV_AS_FP32 || row->serves);
        for (size_t j = 0; j < i; j++) {
            other = qkv_product_at(j);
            assert_string_not_equal(row->name, other->name);
            assert_true(row->precision < 0 || row->precision != other->precision);
        }
        if (row->precision >= 0) assert_ptr_equal(qkv_product_of_precision((enum qkv_precision)row->precision), row);
    }
    assert_ptr_equal(qkv_product_of_precision(QKV_FP32), &qkv_product_f32);
    assert_ptr_equal(qkv_product_of_precision(QKV_MIXED_BF16), &qkv_product_bf16);
}

static void weights_get_the_row_of_their_type(void **state) {
    (void)state;
    for (int type = 0; type < QKV_DTYPE_COUNT; type++) {
        const struct qkv_stored_part part = {.dtype = (enum qkv_dtype)type, .rows = 1};
        const struct qkv_stored stored = {.parts = &part, .count = 1, .columns = QKV_TYPE_BLOCK_MAX};
        const struct qkv_product *chosen = qkv_product_choose(&qkv_product_f32, &stored), *row, *own = NULL;
        for (size_t i = 0; (row = qkv_product_at(i)); i++)
            if (row->serves && row->serves((enum qkv_dtype)type) && !own) own = row;
        assert_ptr_equal(chosen, own ? own : &qkv_product_f32);
        const struct qkv_stored_part mixed[] = {part, {.dtype = type == QKV_F32 ? QKV_BF16 : QKV_F32, .rows = 1}};
        const struct qkv_stored both = {.parts = mixed, .count = 2, .columns = QKV_TYPE_BLOCK_MAX};
        assert_ptr_equal(qkv_product_choose(&qkv_product_bf16, &both), &qkv_product_bf16);
    }
    assert_ptr_equal(qkv_product_choose(&qkv_product_bf16, NULL), &qkv_product_bf16);
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

enum { PARTS = 3 };
struct numbers { /* x (M,K) in the form of a row, w (N,K) in types that it serves, in parts */
    size_t M, N, K;
    float *x, *w;
    void *form;
    struct qkv_stored stored;
    struct qkv_stored_part part[PARTS];
};

/* A type that a row serves. */
static enum qkv_dtype random_weight(struct qkv_random *r, const struct qkv_product *row) {
    enum qkv_dtype type = QKV_F32;
    do type = row->serves ? (enum qkv_dtype)qkv_random_below(r, QKV_DTYPE_COUNT) : QKV_F32;
    while (row->serves && !row->serves(type));
    return type;
}

/* Rows of which all numbers are 1 or −1, so that all codes are at an end of their range: the same, or in turn, or two
 * by two. The largest sums must fit. */
static void fill_extremes(struct qkv_random *r, struct numbers *n) {
    for (size_t row = 0; row < n->M + n->N; row++) {
        float *to = row < n->M ? n->x + row * n->K : n->w + (row - n->M) * n->K;
        const size_t run = (size_t)1 << qkv_random_below(r, 3), sign = qkv_random_below(r, 2);
        const bool same = qkv_random_below(r, 2);
        for (size_t k = 0; k < n->K; k++) to[k] = ((same ? 0 : k / run) + sign) % 2 ? -1 : 1;
    }
}

static struct numbers random_numbers(const struct qkv_context *ctx, struct qkv_random *r,
                                     const struct qkv_product *row) {
    const size_t block = qkv_types[row->form]->block, most = qkv_random_below(r, 4) ? 40 : 300;
    struct numbers n = {.M = test_between(r, 1, most),
                        .N = test_between(r, 1, 70),
                        .K = block * test_between(r, 1, block > 1 ? 6 : 300)};
    n.x = malloc(n.M * n.K * sizeof *n.x), n.w = malloc(n.N * n.K * sizeof *n.w);
    n.form = malloc(qkv_type_span(row->form, n.M * n.K));
    test_fill(r, n.x, n.M * n.K, 1);
    test_fill(r, n.w, n.N * n.K, 1);
    if (row->serves && qkv_random_below(r, 2)) fill_extremes(r, &n);
    if (row->round)
        row->round(ctx, n.form, n.x, n.M * n.K);
    else
        memcpy(n.form, n.x, n.M * n.K * sizeof *n.x);
    qkv_to_float(n.x, n.form, row->form, n.M * n.K);
    n.stored.columns = n.K;
    for (size_t first = 0, rows; first < n.N; first += rows) {
        const size_t i = n.stored.count++;
        const enum qkv_dtype weight = random_weight(r, row);
        void *bytes = malloc(qkv_type_span(weight, n.N * n.K));
        rows = row->serves && i + 1 < PARTS ? test_between(r, 1, n.N - first) : n.N - first;
        qkv_from_float(bytes, n.w + first * n.K, weight, rows * n.K);
        if (weight == QKV_Q8_0 && qkv_random_below(r, 2)) /* files may have a code that no quantiser chooses */
            for (size_t k = 0; k < rows * n.K / 32; k++) memset((char *)bytes + k * 34 + 2, -128, 32);
        qkv_to_float(n.w + first * n.K, bytes, weight, rows * n.K);
        n.part[i] = (struct qkv_stored_part){weight, bytes, rows};
    }
    return n;
}

static void numbers_free(struct numbers *n) {
    for (size_t i = 0; i < n->stored.count; i++) free((void *)(uintptr_t)n->part[i].data);
    free(n->x), free(n->w), free(n->form);
}

/* Rows [first, first + M) of x times wᵀ. Products of blocks that pack weights multiply packed ones too. */
static void multiply(struct qkv_context *ctx, const struct qkv_product *row, const struct numbers *n, size_t first,
                     size_t M, float *c) {
    struct qkv_arena scratch;
    struct qkv_stored stored = n->stored;
    stored.parts = n->part;
    const char *x = (const char *)n->form + qkv_type_span(row->form, first * n->K);
    struct qkv_product_call call = {.c = c,
                                    .dtype = QKV_F32,
                                    .ldc = n->N,
                                    .a = {x, row->form, n->K, 1},
                                    .b = {NULL, QKV_F32, 1, n->K},
                                    .stored = {.weights = &stored, .transposed = true},
                                    .M = M,
                                    .N = n->N,
                                    .K = n->K};
    assert_ok(ctx, qkv_arena_create(ctx, &scratch, (size_t)16 << 20, "a product"));
    assert_ok(ctx, row->multiply(ctx, &scratch, &call));
    if (row->promise == QKV_EXACT_BLOCKS && row->pack) {
        size_t bytes;
        float *again = malloc(M * n->N * sizeof *again);
        assert_true(row->packed_bytes(ctx, &stored, n->K, n->N, &bytes));
        void *packed = malloc(bytes);
        row->pack(ctx, packed, call.b, call.stored, n->K, n->N);
        call.packed = packed, call.c = again;
        assert_ok(ctx, row->multiply(ctx, &scratch, &call));
        assert_memory_equal(again, c, M * n->N * sizeof *c);
        free(packed), free(again);
    }
    qkv_arena_free(&scratch);
}

/* Exact blocks: only the sums of blocks are rounded, and the scales of each term. */
static void check_exact(const struct numbers *n, const float *c, const char *isa) {
    for (size_t i = 0; i < n->M * n->N; i++) {
        double sum = 0, size = 0;
        for (size_t k = 0; k < n->K; k++) {
            const double term = (double)n->x[i / n->N * n->K + k] * (double)n->w[i % n->N * n->K + k];
            sum += term, size += fabs(term);
        }
        if (fabs((double)c[i] - sum) > size * (double)(n->K / 32 + 8) * 0x1p-23)
            fail_msg("%s: (%zu,%zu) of %zu x %zu x %zu is %.9g, not %.9g", isa, i / n->N, i % n->N, n->M, n->N, n->K,
                     (double)c[i], sum);
    }
}

/* One output in the order of sums that isa/codes.h writes down. */
static float codes_sum(const struct numbers *n, const struct qkv_product *row, size_t m, const struct qkv_type *type,
                       const unsigned char *w) {
    const size_t form_block = qkv_types[row->form]->block, form_bytes = qkv_types[row->form]->bytes;
    const unsigned char *x = (const unsigned char *)n->form + m * n->K / form_block * form_bytes;
    float sum = 0;
    for (size_t k = 0; k < n->K; k += type->block, w += type->bytes) {
        struct qkv_codes codes = {0};
        float x_scale, scale, minimum;
        type->codes->read(&codes, w);
        qkv_to_float(&scale, &codes.scale, QKV_F16, 1);
        qkv_to_float(&minimum, &codes.minimum, QKV_F16, 1);
        const unsigned char *block = x + k / form_block * form_bytes;
        memcpy(&x_scale, block, sizeof x_scale);
        const signed char *code = (const signed char *)block + form_bytes - form_block + k % form_block;
        int total = 0, less = 0;
        for (size_t i = 0; i < type->block; i++) {
            total += codes.scales[i / type->codes->part] * codes.code[i] * code[i];
            less += codes.minimums[i / type->codes->part] * code[i];
        }
        sum = fmaf(scale * x_scale, (float)total, sum);
        if (type->codes->minimum) sum = fmaf(-(minimum * x_scale), (float)less, sum);
    }
    return sum;
}

static void check_order(const struct numbers *n, const struct qkv_product *row, const float *c, const char *isa) {
    for (size_t m = 0; m < n->M; m++) {
        for (size_t i = 0, j = 0; i < n->stored.count; i++) {
            const struct qkv_type *type = qkv_types[n->part[i].dtype];
            const unsigned char *w = n->part[i].data;
            for (size_t k = 0; type->codes && k < n->part[i].rows; k++, w += n->K / type->block * type->bytes) {
                const float expected = codes_sum(n, row, m, type, w), got = c[m * n->N + j + k];
                if (memcmp(&expected, &got, sizeof got))
                    fail_msg("%s, %s: (%zu,%zu) of %zu x %zu x %zu is %a, not %a", isa, type->name, m, j + k, n->M,
                             n->N, n->K, (double)got, (double)expected);
            }
            j += n->part[i].rows;
        }
    }
}

/* A kernel table: any number of threads, and a row alone, have the bits of `expected`. */
static void check_table(const struct qkv_product *row, const struct numbers *n, struct qkv_random *r, const char *isa,
                        const float *expected) {
    const size_t count = n->M * n->N;
    float *c = malloc(count * sizeof *c);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct qkv_context *ctx = context(isa, threads);
        multiply(ctx, row, n, 0, n->M, c);
        if (memcmp(c, expected, count * sizeof *c))
            fail_msg("%s: %zu x %zu x %zu on %s with %d threads", row->name, n->M, n->N, n->K, isa, threads);
        const size_t m = qkv_random_below(r, n->M);
        multiply(ctx, row, n, m, 1, c);
        if (memcmp(c, expected + m * n->N, n->N * sizeof *c))
            fail_msg("%s: row %zu of %zu x %zu x %zu alone on %s", row->name, m, n->M, n->N, n->K, isa);
        qkv_context_free(ctx);
    }
    free(c);
}

/* Exact blocks have the bits of the first table on every other. */
static void check_bits(const struct qkv_product *row, struct qkv_random *r) {
    struct qkv_context *first = context(NULL, 1);
    struct numbers n = random_numbers(first, r, row);
    float *expected = malloc(n.M * n.N * sizeof *expected);
    const char *isa;
    qkv_context_free(first);
    for (size_t t = 0; (isa = qkv_isa_at(t)); t++) {
        struct qkv_context *ctx = context(isa, 1);
        if (!t || row->promise == QKV_AS_FP32) multiply(ctx, row, &n, 0, n.M, expected);
        if (row->promise == QKV_EXACT_BLOCKS) check_exact(&n, expected, isa);
        if (!t) check_order(&n, row, expected, isa);
        qkv_context_free(ctx);
        check_table(row, &n, r, isa, expected);
    }
    free(expected);
    numbers_free(&n);
}

static void a_row_has_its_bits_alone_and_at_any_number_of_threads(void **state) {
    (void)state;
    struct qkv_random r = test_random(7);
    const struct qkv_product *row;
    for (size_t i = 0; (row = qkv_product_at(i)); i++)
        for (size_t k = 0; k < (row->serves ? 24 : 12); k++) check_bits(row, &r);
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

enum { ROWS = 5, IN = 256, OUT = 3 };

struct forms { /* x (ROWS,IN) and the numbers of a weight (OUT,IN), on a tape in mixed precision */
    struct qkv_context *ctx;
    struct qkv_arena arena, graph;
    struct qkv_tape tape;
    float w[OUT * IN], x[ROWS * IN];
};

static void forms_begin(struct forms *f, uint64_t stream) {
    struct qkv_random r = test_random(stream);
    f->ctx = context(NULL, 2);
    f->ctx->precision = QKV_MIXED_BF16;
    assert_ok(f->ctx, qkv_arena_create(f->ctx, &f->arena, (size_t)1 << 22, "numbers"));
    assert_ok(f->ctx, qkv_arena_create(f->ctx, &f->graph, (size_t)1 << 20, "nodes"));
    qkv_tape_start(&f->tape, f->ctx, &f->arena, &f->graph, false);
    test_fill(&r, f->w, OUT * IN, 1);
    test_fill(&r, f->x, ROWS * IN, 1);
}

static void forms_end(struct forms *f) {
    qkv_arena_free(&f->arena);
    qkv_arena_free(&f->graph);
    qkv_context_free(f->ctx);
}

static void check_forms(const struct qkv_product *row) {
    struct forms f;
    forms_begin(&f, 11);
    struct qkv_tensor *x = qkv_tape_view(&f.tape, f.x, ROWS, IN);
    struct qkv_tensor weight = {
        .data = f.w, .rows = OUT, .columns = IN, .operand.product = row, .operand.product_back = row};
    const struct qkv_tape_mark mark = qkv_tape_mark(&f.tape);
    assert_non_null(qkv_op_linear(&f.tape, x, &weight, NULL, QKV_RESULT_FP32));
    const struct qkv_form *form = qkv_tape_formed(&f.tape, x, row->form);
    assert_int_equal(!form, row->form == QKV_F32); /* fp32 is read as it is */
    assert_non_null(qkv_op_linear(&f.tape, x, &weight, NULL, QKV_RESULT_FP32));
    assert_ptr_equal(qkv_tape_formed(&f.tape, x, row->form), form);
    assert_ptr_equal(f.tape.forms, form);
    qkv_tape_release(&f.tape, mark);
    assert_null(f.tape.forms);
    forms_end(&f);
}

static void products_share_the_form_of_what_they_read(void **state) {
    (void)state;
    const struct qkv_product *row;
    for (size_t i = 0; (row = qkv_product_at(i)); i++)
        if (!row->serves) check_forms(row);
}

/* A router reads activations in bf16 as fp32: widened once, for forward and for backward. */
static void weights_with_products_in_fp32_share_a_wider_form(void **state) {
    (void)state;
    struct forms f;
    float wide[ROWS * IN];
    uint16_t half[ROWS * IN];
    forms_begin(&f, 12);
    qkv_from_float(half, f.x, QKV_BF16, ROWS * IN);
    qkv_to_float(wide, half, QKV_BF16, ROWS * IN);
    struct qkv_tensor *x = qkv_tape_view(&f.tape, (float *)(void *)half, ROWS, IN);
    x->dtype = QKV_BF16;
    struct qkv_tensor weight = {.data = f.w, .rows = OUT, .columns = IN, .operand.fp32 = true};
    const struct qkv_tensor *y = qkv_op_linear(&f.tape, x, &weight, NULL, QKV_RESULT_FP32);
    assert_non_null(y);
    const struct qkv_form *form = qkv_tape_formed(&f.tape, x, QKV_F32);
    assert_non_null(form);
    assert_memory_equal(form->data, wide, sizeof wide);
    const struct qkv_tensor *z = qkv_op_linear(&f.tape, x, &weight, NULL, QKV_RESULT_FP32);
    assert_ptr_equal(f.tape.forms, form);
    assert_memory_equal(y->data, z->data, ROWS * OUT * sizeof(float));
    forms_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_says_what_it_is),
        cmocka_unit_test(weights_get_the_row_of_their_type),
        cmocka_unit_test(a_row_has_its_bits_alone_and_at_any_number_of_threads),
        cmocka_unit_test(products_share_the_form_of_what_they_read),
        cmocka_unit_test(weights_with_products_in_fp32_share_a_wider_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
