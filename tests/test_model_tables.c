/* Whole models in fp32 have the same bits on every kernel table: scores, gradients, and weights after a step. */
/* labels: numeric */
#include "model_grid.h"

/* The loss, the logits, the gradients and, after a step, the weights. */
static float *model_results(uint64_t stream, enum topology topology, const char *isa, size_t *count) {
    struct qkv_context_options options = qkv_context_defaults();
    options.isa = isa, options.precision = QKV_FP32, options.threads = 2;
    struct sample s;
    start(&s, stream, topology, &options);
    struct qkv_pass *pass = make_pass(&s, true);
    const double loss = forward(&s, pass);
    const struct qkv_array y = qkv_pass_output(pass);
    assert_ok(s.ctx, qkv_pass_backward(pass));
    size_t weights;
    float *gradients = copy_gradients(s.model, &weights);
    *count = y.bytes / sizeof(float) + 2 * weights + 2;
    float *all = malloc(*count * sizeof *all), *to = all;
    memcpy(to, &loss, sizeof loss), to += 2;
    memcpy(to, y.data, y.bytes), to += y.bytes / sizeof(float);
    memcpy(to, gradients, weights * sizeof *to), to += weights;
    struct qkv_optimizer *optimizer;
    const struct qkv_optimizer_options rule = qkv_optimizer_defaults();
    assert_ok(s.ctx, qkv_optimizer_create(s.model, &rule, &optimizer));
    assert_ok(s.ctx, qkv_optimizer_step(optimizer, 1e-2, 1));
    for (size_t p = 0; p < qkv_model_parameters(s.model); p++) {
        const size_t n = qkv_array_elements(qkv_model_parameter(s.model, p));
        memcpy(to, test_weights(s.model, p), n * sizeof *to), to += n;
    }
    qkv_optimizer_free(optimizer);
    free(gradients);
    qkv_pass_free(pass);
    finish(&s);
    return all;
}

static void models_have_the_bits_of_scalar(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        size_t count, others;
        float *scalar = model_results(i, (enum topology)(i % 3), "scalar", &count);
        for (size_t t = 0; strcmp(qkv_isa_at(t), "scalar"); t++) {
            float *all = model_results(i, (enum topology)(i % 3), qkv_isa_at(t), &others);
            assert_int_equal(others, count);
            for (size_t k = 0; k < count; k++)
                if (memcmp(&all[k], &scalar[k], sizeof *all) && !(all[k] == 0 && scalar[k] == 0))
                    fail_msg("model %d: %s has other bits than scalar at %zu of %zu: %a, not %a", (int)i, qkv_isa_at(t),
                             k, count, (double)all[k], (double)scalar[k]);
            free(all);
        }
        free(scalar);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_have_the_bits_of_scalar)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
