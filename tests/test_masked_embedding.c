/* test_masked_embedding.c: masks that scale the embedding of whole models, which the golden cases anchor: sequences are
 * those of attention, whatever their positions, documents and padding are. */
/* labels: numeric quick */
#include "test.h"

#include "weights.h"

enum { ROWS = 2, LENGTH = 6, CHANNELS = 12, ALL = ROWS * LENGTH * CHANNELS };

/* In fp32: sums of other numbers of rows are compared. */
static const struct qkv_context_options exact = {.size = sizeof exact, .threads = 1, .precision = QKV_FP32};

struct masked {
    struct qkv_context *ctx;
    struct qkv_model *model;
};

static struct masked masked_start(void) {
    static const char json[] =
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 9, \"d_model\": 12, \"context\": 16, \"tie\": \"none\", "
        "\"head\": {\"kind\": \"none\"}, \"embed\": {\"masked\": {\"token\": 7, \"share\": 0.2}}, "
        "\"encoder\": {\"layers\": 2, \"attention\": {\"heads\": 3, \"position\": {\"kind\": \"rope\"}}}}";
    struct masked m;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_context_create(&m.ctx, &exact), QKV_OK);
    if (qkv_spec_parse(m.ctx, &spec, "masked", json, sizeof json - 1, NULL, 0) ||
        qkv_model_create(m.ctx, &spec, 3, &m.model))
        fail_msg("%s", qkv_message(m.ctx));
    struct qkv_random random = test_random(7);
    for (size_t i = 0; i < qkv_model_parameters(m.model); i++) {
        float *w = test_weights_mutable(m.model, i);
        for (size_t k = 0; k < qkv_array_elements(qkv_model_parameter(m.model, i)); k++)
            w[k] += 0.3F * (float)qkv_random_normal(&random);
    }
    return m;
}

static void masked_finish(struct masked *m) {
    qkv_model_free(m->model);
    qkv_context_free(m->ctx);
}

/* The output of a pass over a batch, B·T rows of it. */
static void masked_run(const struct masked *m, const struct qkv_batch *batch, bool padding, float *out) {
    struct qkv_pass *pass;
    const struct qkv_pass_options o = {.size = sizeof o, .B = ROWS, .T = LENGTH, .padding = padding, .logits = true};
    if (qkv_pass_create(m->model, &o, &pass) || qkv_pass_forward(pass, batch)) fail_msg("%s", qkv_message(m->ctx));
    const struct qkv_array y = qkv_pass_output(pass);
    assert_true(y.bytes <= ALL * sizeof(float));
    memcpy(out, y.data, y.bytes);
    qkv_pass_free(pass);
}

static void expect_rows(const float *a, const float *b, size_t rows, double tolerance) {
    for (size_t i = 0; i < rows * CHANNELS; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= tolerance))
            fail_msg("row %zu: %g, not %g", i / CHANNELS, (double)a[i], (double)b[i]);
}

/* Rotations know only differences of positions. */
static void positions_may_begin_anywhere(void **state) {
    (void)state;
    static const int32_t ids[] = {1, 2, 3, 7, 4, 5}, zero[] = {0, 1, 2, 0, 1, 2}, other[] = {0, 1, 2, 1, 2, 3},
                         late[] = {3, 4, 6, 5, 6, 7}, lengths[] = {3, 3}, cu[] = {0, 3, 6};
    struct masked m = masked_start();
    for (int padding = 0; padding < 2; padding++) {
        float expected[ALL], y[ALL];
        struct qkv_batch batch = {.B = 2, .T = 3, .ids = ids, .positions = zero, .lengths = padding ? lengths : NULL};
        masked_run(&m, &batch, padding, expected);
        batch.positions = other;
        masked_run(&m, &batch, padding, y);
        expect_rows(y, expected, 3, 0);
        expect_rows(y, expected, 6, 1e-4);
        batch.positions = late;
        masked_run(&m, &batch, padding, y);
        expect_rows(y + 3 * CHANNELS, expected + 3 * CHANNELS, 3, 1e-4);
        masked_run(&m, &(struct qkv_batch){.B = 2, .rows = 6, .ids = ids, .cu_rows = cu}, padding, y);
        expect_rows(y, expected, 6, 1e-4);
    }
    masked_finish(&m);
}

/* Each document is a sequence, with and without lengths, and where padding is computed. */
static void documents_are_sequences(void **state) {
    (void)state;
    static const int32_t ids[] = {1, 7, 3, 4, 2, 7, 7, 5, 6, 7, 7, 8}, numbers[] = {0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 3, 4},
                         lengths[] = {6, 5}, full[] = {6, 6}, cu[] = {0, 2, 6, 8, 11, 12};
    struct masked m = masked_start();
    for (int clipped = 0; clipped < 2; clipped++) {
        float expected[ALL], y[ALL];
        const size_t rows = clipped ? 11 : 12;
        struct qkv_batch batch = {.B = 5, .T = 6, .rows = rows, .ids = ids, .cu_rows = cu};
        struct qkv_pass *pass;
        const struct qkv_pass_options o = {.size = sizeof o, .B = 5, .T = 6, .logits = true};
        if (clipped) batch.B = 4;
        if (qkv_pass_create(m.model, &o, &pass) || qkv_pass_forward(pass, &batch)) fail_msg("%s", qkv_message(m.ctx));
        memcpy(expected, qkv_pass_output(pass).data, rows * CHANNELS * sizeof(float));
        qkv_pass_free(pass);
        batch = (struct qkv_batch){.B = 2, .T = 6, .ids = ids, .documents = numbers};
        if (clipped) batch.lengths = lengths;
        for (int padding = 0; padding < 2; padding++) {
            masked_run(&m, &batch, padding, y);
            expect_rows(y, expected, rows, 1e-4);
        }
        batch.lengths = clipped ? lengths : full;
        masked_run(&m, &batch, true, y);
        expect_rows(y, expected, rows, 1e-4);
    }
    masked_finish(&m);
}

/* Where a module computes padding, before tokens or behind them, it does not count it. */
static void modules_do_not_count_padding(void **state) {
    (void)state;
    static const int32_t ids[] = {7, 7, 1, 7, 3, 4, 7, 7, 1, 7, 3, 4}, starts[] = {2, 2}, lengths[] = {5, 6},
                         short_ids[] = {1, 7, 3, 4, 1, 7, 3, 4}, short_lengths[] = {3, 4};
    float expected[ALL], y[ALL];
    struct masked m = masked_start();
    struct qkv_module *module;
    masked_run(&m, &(struct qkv_batch){.B = 2, .T = 4, .ids = short_ids, .lengths = short_lengths}, true, expected);
    if (qkv_module_of_model(m.model, "", &module)) fail_msg("%s", qkv_message(m.ctx));
    const struct qkv_module_input in = {
        .ids = ids, .x = {.B = 2, .T = 6}, .self.mask = {.starts = starts, .lengths = lengths}};
    const struct qkv_vectors out = {.data = y, .B = 2, .T = 6, .C = CHANNELS};
    if (qkv_module_forward(module, &in, out)) fail_msg("%s", qkv_message(m.ctx));
    expect_rows(y + 2 * CHANNELS, expected, 3, 1e-4);
    expect_rows(y + 8 * CHANNELS, expected + 4 * CHANNELS, 4, 1e-4);
    qkv_module_free(module);
    masked_finish(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_may_begin_anywhere),
        cmocka_unit_test(documents_are_sequences),
        cmocka_unit_test(modules_do_not_count_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
