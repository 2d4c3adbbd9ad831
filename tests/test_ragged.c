/* test_ragged.c: batches whose rows differ in length, in passes that compute no padding, over the grid of specs:
 * their losses and gradients are those of the rows one by one, and of the pass that computes padding, too, which the
 * golden cases anchor. */
/* labels: numeric quick */
#include "model_grid.h"

#include <math.h>

/* In fp32: differences of losses are compared. */
static const struct qkv_context_options exact = {.size = sizeof exact, .precision = QKV_FP32};

static struct qkv_pass *ragged_pass(struct sample *s, struct qkv_pass_options o) {
    struct qkv_pass *pass;
    o.B = B, o.T = T, o.source_T = T, o.train = true;
    if (qkv_pass_create(s->model, &o, &pass)) fail_msg("%s", qkv_message(s->ctx));
    return pass;
}

static double run(struct sample *s, struct qkv_pass *pass) {
    const double loss = forward(s, pass);
    if (qkv_pass_backward(pass)) fail_msg("%s", qkv_message(s->ctx));
    return loss;
}

static void assert_near(const float *a, const float *b, size_t n, double tolerance) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    if (!(sqrt(difference) <= tolerance * sqrt(norm) + 1e-9))
        fail_msg("%g apart, of a norm of %g", sqrt(difference), sqrt(norm));
}

/* A pass with `padding` computes it, another one does not. */
static void losses_and_gradients_are_those_with_padding(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        struct sample s;
        size_t n;
        start(&s, i, (enum topology)(i % 3), &exact);
        struct qkv_pass *padded = ragged_pass(&s, QKV_OPTIONS(qkv_pass_options, .padding = true, .dropout = i % 2));
        struct qkv_pass *ragged = ragged_pass(&s, QKV_OPTIONS(qkv_pass_options, .dropout = i % 2));
        s.batch.dropout_seed = i;
        const double expected = run(&s, padded);
        float *gradients = take_gradients(&s, &n);
        const double loss = run(&s, ragged);
        float *mine = take_gradients(&s, &n);
        assert_true(fabs(loss - expected) <= 1e-6 * fmax(1, fabs(expected)));
        assert_near(mine, gradients, n, 1e-4);
        free(gradients), free(mine);
        qkv_pass_free(padded), qkv_pass_free(ragged);
        finish(&s);
    }
}

static void padding_is_not_read(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct sample s;
        size_t n;
        start(&s, 100 + i, (enum topology)(i % 3), NULL);
        struct qkv_pass *pass = ragged_pass(&s, qkv_pass_defaults());
        const double expected = run(&s, pass);
        float *gradients = take_gradients(&s, &n);
        for (size_t at = 0; at < (size_t)B * T; at++) {
            if (at % T >= (size_t)s.lengths[at / T]) s.ids[at] = -7, s.targets[at] = VOCAB + 5;
            if (at % T >= (size_t)s.source_lengths[at / T]) s.source[at] = VOCAB;
        }
        assert_true(run(&s, pass) == expected);
        float *again = take_gradients(&s, &n);
        assert_memory_equal(again, gradients, n * sizeof *again);
        free(gradients), free(again);
        qkv_pass_free(pass);
        finish(&s);
    }
}

/* With dropout too: its masks are numbered by places of the padded batch. */
static void a_row_does_not_see_how_long_others_are(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct sample s;
        size_t n;
        start(&s, 200 + i, (enum topology)(i % 3), &exact);
        OWNED_SPEC struct qkv_spec spec = test_model_spec(s.model);
        struct qkv_model *model;
        drop_everywhere(&spec, 0.3);
        assert_int_equal(qkv_model_create(s.ctx, &spec, 5, &model), QKV_OK);
        qkv_model_free(s.model);
        s.model = model;
        struct qkv_pass *pass = ragged_pass(&s, QKV_OPTIONS(qkv_pass_options, .dropout = true));
        for (size_t at = T; at < (size_t)B * T; at++) s.targets[at] = QKV_IGNORE; /* the loss is the first row's */
        s.batch.dropout_seed = i, s.batch.loss_count = 1;
        const double expected = run(&s, pass);
        float *gradients = take_gradients(&s, &n);
        s.lengths[1] = (s.lengths[1] + 5) % (T + 1), s.source_lengths[2] = (s.source_lengths[2] + 3) % (T + 1);
        assert_true(run(&s, pass) == expected);
        float *again = take_gradients(&s, &n);
        assert_near(again, gradients, n, 1e-5);
        free(gradients), free(again);
        qkv_pass_free(pass);
        finish(&s);
    }
}

static void checkpoints_change_no_bit(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct sample s;
        size_t n;
        start(&s, 300 + i, (enum topology)(i % 3), NULL);
        OWNED_SPEC struct qkv_spec spec = test_model_spec(s.model);
        struct qkv_model *model;
        drop_everywhere(&spec, 0.2);
        assert_int_equal(qkv_model_create(s.ctx, &spec, 5, &model), QKV_OK);
        qkv_model_free(s.model);
        s.model = model;
        struct qkv_pass *whole = ragged_pass(&s, QKV_OPTIONS(qkv_pass_options, .dropout = true));
        struct qkv_pass *segments = ragged_pass(&s, QKV_OPTIONS(qkv_pass_options, .dropout = true, .checkpoint = true));
        if (i % 2) memcpy(s.source_lengths, s.lengths, sizeof s.lengths); /* both stacks have as many rows */
        const double expected = run(&s, whole);
        float *gradients = take_gradients(&s, &n);
        assert_true(run(&s, segments) == expected);
        float *again = take_gradients(&s, &n);
        assert_memory_equal(again, gradients, n * sizeof *again);
        free(gradients), free(again);
        qkv_pass_free(whole), qkv_pass_free(segments);
        finish(&s);
    }
}

static void a_batch_of_empty_rows_has_no_loss_and_no_gradient(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 12; i++) {
        struct sample s;
        size_t n;
        start(&s, 400 + i, (enum topology)(i % 3), NULL);
        struct qkv_pass *pass = ragged_pass(&s, qkv_pass_defaults());
        memset(s.lengths, 0, sizeof s.lengths);
        if (i % 2) memset(s.source_lengths, 0, sizeof s.source_lengths);
        assert_true(run(&s, pass) == 0);
        float *gradients = take_gradients(&s, &n);
        for (size_t k = 0; k < n; k++) assert_true(gradients[k] == 0);
        free(gradients);
        qkv_pass_free(pass);
        finish(&s);
    }
}

/* The memory of the pass is enough for all lengths: it never grows. */
static void lengths_take_no_more_memory_than_full_rows(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 30; i++) {
        struct sample s;
        start(&s, 500 + i, (enum topology)(i % 3), NULL);
        struct qkv_pass *pass = ragged_pass(&s, QKV_OPTIONS(qkv_pass_options, .checkpoint = i % 4 == 3));
        const size_t bytes = qkv_pass_bytes(pass);
        for (int k = 0; k < 8; k++) {
            for (size_t b = 0; b < B; b++) {
                s.lengths[b] = (int32_t)test_between(&s.random, 0, T);
                s.source_lengths[b] = (int32_t)test_between(&s.random, 0, T);
            }
            run(&s, pass);
            assert_int_equal(qkv_pass_bytes(pass), bytes);
        }
        qkv_pass_free(pass);
        finish(&s);
    }
}

int main(void) {
    latents_too = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_are_those_with_padding),
        cmocka_unit_test(padding_is_not_read),
        cmocka_unit_test(a_row_does_not_see_how_long_others_are),
        cmocka_unit_test(checkpoints_change_no_bit),
        cmocka_unit_test(a_batch_of_empty_rows_has_no_loss_and_no_gradient),
        cmocka_unit_test(lengths_take_no_more_memory_than_full_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
