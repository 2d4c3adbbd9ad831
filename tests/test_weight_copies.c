/* Numbers that a program copies out of models and modules and into them: as they are stored, with their size, and never
 * past an end. That kernels compute with the numbers that the copies show is anchored by tests of golden cases, which
 * fill modules with them (test_modules.c). */
/* labels: quick */
#include "train_fixture.h"
#include "weights.h"

#include "type/type.h"

static struct qkv_context *ctx;
static struct qkv_model *model;
static struct qkv_spec spec;
enum { MORE = 4, MAX = 300 * 32 };
static float numbers[MAX + MORE], others[MAX + MORE];

static int begin(void **state) {
    (void)state;
    ctx = fixture_context(1);
    spec = fixture_spec(ctx, NULL);
    spec.vocab = 40;
    return 0;
}

static int end(void **state) {
    (void)state;
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return 0;
}

static int make(void **state) {
    (void)state;
    return (int)qkv_model_create(ctx, &spec, 1, &model);
}

static int drop(void **state) {
    (void)state;
    qkv_model_free(model);
    return 0;
}

static size_t elements(const struct qkv_model *m, size_t i) {
    const size_t n = qkv_array_elements(qkv_model_parameter(m, i));
    assert_true(n <= MAX);
    return n;
}

/* The logits of a pass over fixed ids. */
static void run(struct qkv_model *m, bool train, float logits[4 * 40]) {
    static const int32_t ids[4] = {1, 2, 3, 4}, targets[4] = {2, 3, 4, 5};
    const struct qkv_batch batch = {.B = 1, .T = 4, .ids = ids, .targets = targets};
    struct qkv_pass *pass;
    assert_ok(
        ctx, qkv_pass_create(m, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 4, .logits = true, .train = train), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &batch));
    if (train) assert_ok(ctx, qkv_pass_backward(pass));
    memcpy(logits, qkv_pass_output(pass).data, 4 * 40 * sizeof *logits);
    qkv_pass_free(pass);
}

static void a_model_computes_with_the_numbers_that_were_copied_in(void **state) {
    (void)state;
    for (int precision = 0; precision < 2; precision++) {
        struct qkv_model *from, *to;
        float wanted[4 * 40], before[4 * 40], after[4 * 40];
        qkv_context_set_precision(ctx, precision ? QKV_MIXED_BF16 : QKV_FP32);
        assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &from));
        assert_ok(ctx, qkv_model_create(ctx, &spec, 2, &to));
        run(from, false, wanted);
        run(to, false, before); /* packs copies of the weights */
        assert_memory_not_equal(before, wanted, sizeof wanted);
        for (size_t i = 0; i < qkv_model_parameters(from); i++) {
            const size_t n = elements(from, i);
            assert_ok(ctx, qkv_model_get_weights(from, i, numbers, n));
            assert_memory_equal(numbers, test_weights(from, i), n * sizeof *numbers);
            assert_ok(ctx, qkv_model_set_weights(to, i, numbers, n));
        }
        run(to, false, after);
        assert_memory_equal(after, wanted, sizeof wanted);
        qkv_model_free(to);
        qkv_model_free(from);
    }
    qkv_context_set_precision(ctx, QKV_FP32);
}

/* The sentence names the tensor, its size and the one given; nothing is written. */
static void a_wrong_size_is_refused(void **state) {
    (void)state;
    char sentence[200];
    float logits[4 * 40];
    run(model, true, logits);
    const size_t n = elements(model, 2), wrong[] = {0, 1, n - 1, n + 1, SIZE_MAX};
    for (size_t k = 0; k < TEST_COUNT(wrong); k++) {
        for (size_t e = 0; e < n + MORE; e++) numbers[e] = 7;
        snprintf(sentence, sizeof sentence, "%s has %zu numbers, not %zu", qkv_model_parameter(model, 2)->name, n,
                 wrong[k]);
        memcpy(others, test_weights(model, 2), n * sizeof *others);
        assert_status(ctx, qkv_model_get_weights(model, 2, numbers, wrong[k]), QKV_SHAPE);
        assert_message(ctx, sentence);
        assert_status(ctx, qkv_model_set_weights(model, 2, numbers, wrong[k]), QKV_SHAPE);
        assert_message(ctx, sentence);
        assert_status(ctx, qkv_model_get_gradient(model, 2, numbers, wrong[k]), QKV_SHAPE);
        assert_message(ctx, sentence);
        assert_status(ctx, qkv_model_set_gradient(model, 2, numbers, wrong[k]), QKV_SHAPE);
        assert_message(ctx, sentence);
        for (size_t e = 0; e < n + MORE; e++) assert_true(numbers[e] == 7);
        assert_memory_equal(test_weights(model, 2), others, n * sizeof *others);
    }
    const size_t last = qkv_model_parameters(model);
    snprintf(sentence, sizeof sentence, "there is no weight %zu: the model has %zu", last, last);
    assert_status(ctx, qkv_model_get_weights(model, last, numbers, 1), QKV_ARGUMENT);
    assert_message(ctx, sentence);
    assert_status(ctx, qkv_model_set_weights(model, SIZE_MAX, numbers, 1), QKV_ARGUMENT);
    assert_status(ctx, qkv_model_get_gradient(model, last, numbers, 1), QKV_ARGUMENT);
    assert_status(ctx, qkv_model_set_gradient(model, last, numbers, 1), QKV_ARGUMENT);
}

static void a_plan_has_no_numbers(void **state) {
    (void)state;
    struct qkv_model *plan;
    assert_ok(ctx, qkv_model_plan(ctx, &spec, &plan));
    const size_t n = elements(plan, 0);
    assert_status(ctx, qkv_model_get_weights(plan, 0, numbers, n), QKV_ARGUMENT);
    assert_message(ctx, "the model is only planned");
    assert_status(ctx, qkv_model_set_weights(plan, 0, numbers, n), QKV_ARGUMENT);
    assert_message(ctx, "the model is only planned");
    assert_status(ctx, qkv_model_get_gradient(plan, 0, numbers, n), QKV_ARGUMENT);
    qkv_model_free(plan);
}

static void a_weight_has_a_gradient_while_it_is_trained(void **state) {
    (void)state;
    const size_t n = elements(model, 1);
    float logits[4 * 40];
    assert_status(ctx, qkv_model_get_gradient(model, 1, numbers, n), QKV_ARGUMENT);
    assert_message(ctx, "has no gradient: there was no pass with train yet");
    assert_status(ctx, qkv_model_set_gradient(model, 1, numbers, n), QKV_ARGUMENT);
    run(model, true, logits);
    assert_ok(ctx, qkv_model_get_gradient(model, 1, numbers, n));
    assert_memory_equal(numbers, test_gradient(model, 1), n * sizeof *numbers);
    double sum = 0;
    for (size_t e = 0; e < n; e++) sum += fabs((double)numbers[e]);
    assert_true(sum > 0);
    assert_ok(ctx, qkv_model_set_trainable(model, 1, false));
    run(model, true, logits);
    assert_status(ctx, qkv_model_get_gradient(model, 1, numbers, n), QKV_ARGUMENT);
    assert_message(ctx, "has no gradient: it is frozen");
}

/* One step of gradient descent with a gradient of the program's own. */
static void an_optimizer_steps_against_the_gradient_that_was_copied_in(void **state) {
    (void)state;
    const size_t n = elements(model, 1);
    float logits[4 * 40];
    struct qkv_optimizer *optimizer;
    assert_ok(ctx,
              qkv_optimizer_create(model, &QKV_OPTIONS(qkv_optimizer_options, .kind = QKV_OPTIMIZER_SGD), &optimizer));
    run(model, true, logits);
    assert_ok(ctx, qkv_model_get_weights(model, 1, others, n));
    for (size_t e = 0; e < n; e++) numbers[e] = (float)(e % 5);
    assert_ok(ctx, qkv_model_set_gradient(model, 1, numbers, n));
    assert_ok(ctx, qkv_optimizer_step(optimizer, 0.5, 1));
    for (size_t e = 0; e < n; e++) others[e] -= 0.5f * numbers[e];
    assert_ok(ctx, qkv_model_get_weights(model, 1, numbers, n));
    assert_floats_close(numbers, others, n, 1e-6);
    qkv_optimizer_free(optimizer);
}

/* A folder in bf16: its matrices stay in the file. */
static void numbers_in_a_file_are_converted_on_the_way_out(void **state) {
    (void)state;
    struct qkv_model *loaded;
    struct qkv_optimizer *optimizer;
    const char *folder = test_path("bf16");
    size_t stored = 0;
    assert_ok(ctx, qkv_model_export(model, "bf16", folder));
    assert_ok(ctx, qkv_model_load(ctx, folder, &loaded));
    for (size_t i = 0; i < qkv_model_parameters(loaded); i++) {
        const size_t n = elements(loaded, i);
        uint16_t half;
        assert_ok(ctx, qkv_model_get_weights(loaded, i, numbers, n));
        if (qkv_model_parameter(loaded, i)->dtype == QKV_F32) continue;
        stored++;
        for (size_t e = 0; e < n; e++) {
            float rounded;
            qkv_from_float(&half, test_weights(model, i) + e, QKV_BF16, 1);
            qkv_to_float(&rounded, &half, QKV_BF16, 1);
            assert_true(numbers[e] == rounded);
        }
        assert_status(ctx, qkv_model_set_weights(loaded, i, numbers, n), QKV_ARGUMENT);
        assert_message(ctx, "stays in its file, as bf16, and cannot change");
    }
    assert_true(stored > 0);
    assert_ok(ctx, qkv_optimizer_create(loaded, NULL, &optimizer));
    for (size_t i = 0; i < qkv_model_parameters(loaded); i++) {
        const size_t n = elements(loaded, i);
        memset(numbers, 0, sizeof numbers);
        assert_ok(ctx, qkv_model_set_weights(loaded, i, numbers, n));
    }
    qkv_optimizer_free(optimizer);
    qkv_model_free(loaded);
}

static void a_file_that_becomes_shorter_is_an_error(void **state) {
    (void)state;
    struct qkv_model *loaded;
    char path[1100];
    const char *folder = test_path("cut");
    assert_ok(ctx, qkv_model_export(model, "bf16", folder));
    assert_ok(ctx, qkv_model_load(ctx, folder, &loaded));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(truncate(path, 100), 0);
    size_t i = 0;
    while (qkv_model_parameter(loaded, i)->dtype == QKV_F32) i++;
    assert_status(ctx, qkv_model_get_weights(loaded, i, numbers, elements(loaded, i)), QKV_FILE);
    qkv_model_free(loaded);
}

/* A module's parameters are those of the model that it is a part of. */
static void a_module_copies_the_numbers_of_its_parameters(void **state) {
    (void)state;
    struct qkv_module *block;
    float logits[4 * 40];
    char name[200];
    assert_ok(ctx, qkv_module_of_model(model, "decoder.layers.1", &block));
    run(model, true, logits);
    const size_t count = qkv_module_parameters(block);
    assert_true(count > 4);
    for (size_t i = 0; i < count; i++) {
        size_t place = 0;
        snprintf(name, sizeof name, "decoder.layers.1.%s", qkv_module_parameter(block, i)->name);
        while (strcmp(qkv_model_parameter(model, place)->name, name) != 0) place++;
        const size_t n = elements(model, place);
        assert_ok(ctx, qkv_module_get_weights(block, i, numbers, n));
        assert_memory_equal(numbers, test_weights(model, place), n * sizeof *numbers);
        numbers[n - 1] += 1;
        assert_ok(ctx, qkv_module_set_weights(block, i, numbers, n));
        assert_memory_equal(numbers, test_weights(model, place), n * sizeof *numbers);
        assert_ok(ctx, qkv_module_get_gradient(block, i, numbers, n));
        assert_memory_equal(numbers, test_gradient(model, place), n * sizeof *numbers);
        numbers[n - 1] += 1;
        assert_ok(ctx, qkv_module_set_gradient(block, i, numbers, n));
        assert_memory_equal(numbers, test_gradient(model, place), n * sizeof *numbers);
        assert_status(ctx, qkv_module_get_weights(block, i, numbers, n + 1), QKV_SHAPE);
        assert_message(ctx, name);
    }
    assert_status(ctx, qkv_module_get_weights(block, count, numbers, 1), QKV_ARGUMENT);
    snprintf(name, sizeof name, "there is no weight %zu: the module has %zu", count, count);
    assert_message(ctx, name);
    assert_status(ctx, qkv_module_set_weights(block, count, numbers, 1), QKV_ARGUMENT);
    assert_status(ctx, qkv_module_get_gradient(block, count, numbers, 1), QKV_ARGUMENT);
    assert_status(ctx, qkv_module_set_gradient(block, count, numbers, 1), QKV_ARGUMENT);
    qkv_module_free(block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_computes_with_the_numbers_that_were_copied_in),
        cmocka_unit_test_setup_teardown(a_wrong_size_is_refused, make, drop),
        cmocka_unit_test(a_plan_has_no_numbers),
        cmocka_unit_test_setup_teardown(a_weight_has_a_gradient_while_it_is_trained, make, drop),
        cmocka_unit_test_setup_teardown(an_optimizer_steps_against_the_gradient_that_was_copied_in, make, drop),
        cmocka_unit_test_setup_teardown(numbers_in_a_file_are_converted_on_the_way_out, make, drop),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_shorter_is_an_error, make, drop),
        cmocka_unit_test_setup_teardown(a_module_copies_the_numbers_of_its_parameters, make, drop),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
