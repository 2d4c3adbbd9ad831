/* Adapters merged into stored weights, and taken away: what an export says that rounding the sums costs is what a
 * reader of its file finds, and a model without its adapter has the bits that it had. test_adapter_golden compares
 * merged models with PEFT. */
/* labels: numeric */
#include "train_same.h"

#include "io/adapter_files.h"

enum { B = 2, T = 6, VOCAB = 40 };

static const char *const settings[] = {"rank=3,targets=q,down", "rank=3,dora=true,targets=q,down",
                                       "rank=3,targets=q,experts.up,experts.down"};
enum { EXPERTS = 2 }; /* of a base with experts, of which rounding chooses no others: each token has them all */

/* A path in the test's folder, until the next call. */
static const char *path_of(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

static struct qkv_model *stored_model(struct qkv_context *ctx, const char *type, size_t kind) {
    struct qkv_spec spec = fixture_spec(
        ctx, (const char *const[]){"vocab=40", "d_model=256", "decoder.ffn.d_ff=256", "decoder.layers=1",
                                   kind == EXPERTS ? "decoder.ffn.experts={\"count\": 2, \"top_k\": 2}" : NULL, NULL});
    const struct qkv_gguf_options to = {.size = sizeof to, .format = type, .pure = true, .family = "qkv"};
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    assert_ok(ctx, qkv_model_export_gguf(model, &to, path_of("merge_base.gguf"), NULL));
    qkv_model_free(model);
    assert_ok(ctx, qkv_model_load(ctx, path_of("merge_base.gguf"), &model));
    qkv_spec_free(&spec);
    return model;
}

/* b begins with zeros; magnitudes change too. */
static void fill_adapter(struct qkv_model *model, struct qkv_random *random) {
    for (size_t i = 0; i < model->weights.count; i++) {
        struct qkv_weight *w = &model->weights.list[i];
        for (size_t k = 0; k < w->rows * w->columns; k++) w->data[k] += (float)(0.02 * qkv_random_normal(random));
        qkv_weight_changed(&model->weights, i);
    }
}

static float *logits_of(struct qkv_model *model) {
    int32_t ids[B * T];
    for (size_t i = 0; i < B * T; i++) ids[i] = (int32_t)(i * 7 % VOCAB);
    struct qkv_pass *pass;
    const struct qkv_batch batch = {.B = B, .T = T, .ids = ids};
    assert_ok(model->ctx,
              qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T, .logits = true), &pass));
    assert_ok(model->ctx, qkv_pass_forward(pass, &batch));
    const struct qkv_array have = qkv_pass_output(pass);
    float *copy = malloc(have.bytes);
    memcpy(copy, have.data, have.bytes);
    qkv_pass_free(pass);
    return copy;
}

static const struct qkv_weight *weight_named(const struct qkv_model *model, const char *name) {
    for (size_t i = 0; i < model->weights.count; i++)
        if (!strcmp(model->weights.list[i].array.name, name)) return &model->weights.list[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static double length_of(const float *x, const float *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += pow((double)x[i] - (y ? (double)y[i] : 0), 2);
    return sqrt(sum);
}

static void floats_of(const struct qkv_model *model, const char *name, float *out) {
    qkv_array_floats(&weight_named(model, name)->array, out);
}

static void check_near(double have, double want, const char *what, const char *type) {
    if (!(fabs(have - want) <= 1e-5 * want + 1e-9)) fail_msg("%s of %s: %g, not %g", what, type, have, want);
}

/* Those that `settings` adapts. */
static const char *const adapted[][6] = {{"decoder.layers.0.attn.q.weight", "decoder.layers.0.ffn.down.weight"},
                                         {"decoder.layers.0.attn.q.weight", "decoder.layers.0.ffn.down.weight"},
                                         {"decoder.layers.0.attn.q.weight", "decoder.layers.0.ffn.experts.0.up.weight",
                                          "decoder.layers.0.ffn.experts.0.down.weight",
                                          "decoder.layers.0.ffn.experts.1.up.weight",
                                          "decoder.layers.0.ffn.experts.1.down.weight"}};

/* Compares the cost with the adapted matrices of the file. */
static void check_cost(struct qkv_model *merged, struct qkv_model *before, struct qkv_model *file, const char *type,
                       const char *const names[6]) {
    double error, worst, change, errors = 0, most = 0, changes = 0;
    const char *name = NULL, *worst_name = NULL;
    const size_t told = qkv_adapter_merge_cost(merged, &error, &worst, &name, &change);
    size_t count = 0;
    for (; names[count]; count++) {
        const struct qkv_weight *w = weight_named(merged, names[count]);
        const size_t n = w->rows * w->columns;
        float *exact = malloc(n * sizeof *exact), *other = malloc(n * sizeof *other);
        floats_of(merged, w->array.name, exact);
        floats_of(file, w->array.name, other);
        const double one = length_of(exact, other, n) / length_of(exact, NULL, n);
        if (one > most) worst_name = w->array.name;
        most = one > most ? one : most;
        errors += one;
        floats_of(before, w->array.name, other);
        changes += length_of(exact, other, n) / length_of(exact, NULL, n);
        free(exact);
        free(other);
    }
    if (!strcmp(type, "f32")) {
        assert_int_equal(told, 0);
        assert_true(error == 0 && worst == 0 && change == 0 && !name);
        return;
    }
    assert_int_equal(told, count);
    assert_true(errors > 0);
    check_near(error, errors / (double)count, "the error", type);
    check_near(worst, most, "the largest error", type);
    check_near(change, changes / (double)count, "the change", type);
    assert_string_equal(name, worst_name);
}

static void the_cost_of_merging_is_what_the_file_has_lost(void **state) {
    static const char *const types[][2] = {{"q8_0", "q8_0"}, {"q4_K", "q4_K"}, {"q4_K", "bf16"},
                                           {"bf16", "bf16"}, {"f32", "q8_0"},  {"q8_0", "f32"}};
    struct qkv_random random = test_random(3);
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(settings) * TEST_COUNT(types); i++) {
        const size_t kind = i % TEST_COUNT(settings);
        const char *from = types[i / TEST_COUNT(settings)][0], *type = types[i / TEST_COUNT(settings)][1];
        struct qkv_context *ctx;
        assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_FP32)), QKV_OK);
        struct qkv_model *model = stored_model(ctx, from, kind), *before = stored_model(ctx, from, kind), *file;
        assert_int_equal(qkv_adapter_merge_cost(model, NULL, NULL, NULL, NULL), 0);
        assert_ok(ctx, qkv_adapter_create(model, settings[kind], 5));
        fill_adapter(model, &random);
        float *with = logits_of(model);
        assert_ok(ctx, qkv_adapter_merge(model));
        float *merged = logits_of(model);
        const double apart = length_of(merged, with, B * T * VOCAB) / length_of(with, NULL, B * T * VOCAB);
        /* products with stored blocks round x to 8 bits */
        if (!(apart <= (strchr(from, 'q') ? 3e-2 : 1e-5)))
            fail_msg("%s, %s: logits of the merged model differ by %g", from, settings[kind], apart);
        const struct qkv_gguf_options to = {.size = sizeof to, .format = type, .pure = true, .family = "qkv"};
        assert_ok(ctx, qkv_model_export_gguf(model, &to, path_of("merge_file.gguf"), NULL));
        assert_ok(ctx, qkv_model_load(ctx, path_of("merge_file.gguf"), &file));
        check_cost(model, before, file, type, adapted[kind]);
        qkv_model_free(file);
        if (!strcmp(type, "bf16")) {
            assert_ok(ctx, qkv_model_export(model, type, path_of("merge_folder")));
            assert_ok(ctx, qkv_model_load(ctx, path_of("merge_folder"), &file));
            check_cost(model, before, file, type, adapted[kind]);
            qkv_model_free(file);
        }
        free(with);
        free(merged);
        qkv_model_free(before);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

static void a_model_without_its_adapter_has_the_bits_that_it_had(void **state) {
    static const char *const types[] = {"f32", "bf16", "q8_0", "q4_K"};
    struct qkv_random random = test_random(4);
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(settings) * TEST_COUNT(types); i++) {
        const size_t kind = i % TEST_COUNT(settings);
        struct qkv_context *ctx;
        assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
        struct qkv_model *model = stored_model(ctx, types[i / TEST_COUNT(settings)], kind);
        float *before = logits_of(model);
        assert_ok(ctx, qkv_adapter_create(model, settings[kind], 5));
        fill_adapter(model, &random);
        float *with = logits_of(model);
        assert_memory_not_equal(before, with, B * T * VOCAB * sizeof *before);
        assert_ok(ctx, qkv_adapter_remove(model));
        float *after = logits_of(model);
        assert_memory_equal(before, after, B * T * VOCAB * sizeof *before);
        free(before);
        free(with);
        free(after);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

/* A row of zeros, which has no length, stays one. */
static void clear_row(struct qkv_model *model) {
    for (size_t i = 0; i < model->weights.count; i++) {
        struct qkv_weight *w = &model->weights.list[i];
        if (strcmp(w->array.name, "decoder.layers.0.attn.q.weight") != 0) continue;
        memset(w->data, 0, w->columns * sizeof *w->data);
        qkv_weight_changed(&model->weights, i);
    }
}

/* Magnitudes begin as the lengths of the rows, so that a new adapter changes nothing but roundings. */
static void a_new_adapter_changes_nothing(void **state) {
    static const char *const types[] = {"f32", "bf16", "q8_0", "q4_K"};
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        struct qkv_context *ctx;
        assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_FP32)), QKV_OK);
        struct qkv_model *model = stored_model(ctx, types[i], 0);
        if (!i) clear_row(model);
        float *before = logits_of(model);
        assert_ok(ctx, qkv_adapter_create(model, "rank=2,dora=true", 5));
        float *with = logits_of(model);
        assert_true(length_of(before, with, B * T * VOCAB) <= 1e-6 * length_of(before, NULL, B * T * VOCAB));
        assert_ok(ctx, qkv_adapter_merge(model));
        float *merged = logits_of(model);
        /* products with stored blocks round x to 8 bits */
        const double limit = strchr(types[i], 'q') ? 3e-2 : 1e-6;
        assert_true(length_of(before, merged, B * T * VOCAB) <= limit * length_of(before, NULL, B * T * VOCAB));
        free(before);
        free(with);
        free(merged);
        qkv_model_free(model);
        qkv_context_free(ctx);
    }
}

/* A layer of fp32 weights, with the adapter of the folder by name; NULL: without it. */
static struct qkv_model *adapted_model(struct qkv_context *ctx, const char *name) {
    struct qkv_spec spec = fixture_spec(ctx, (const char *const[]){"vocab=40", "d_model=64", "decoder.layers=1", NULL});
    struct qkv_model *model;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 3, &model));
    qkv_spec_free(&spec);
    if (name) assert_ok(ctx, qkv_adapter_add(model, name, path_of("norms")));
    if (name) assert_ok(ctx, qkv_adapter_use(model, name));
    return model;
}

static void stretch_weight(struct qkv_model *model) {
    const struct qkv_weight *w = weight_named(model, "decoder.layers.0.attn.q.weight");
    const size_t n = w->rows * w->columns;
    float *numbers = malloc(n * sizeof *numbers);
    for (size_t i = 0; i < n; i++) numbers[i] = 3 * w->data[i];
    assert_ok(model->ctx, qkv_model_set_weights(model, (size_t)(w - model->weights.list), numbers, n));
    free(numbers);
}

static void run_layer(struct qkv_model *model, float *y) {
    float x[64];
    struct qkv_module *layer;
    struct qkv_module_input in = qkv_module_input_defaults();
    for (size_t i = 0; i < 64; i++) x[i] = (float)i / 64 - 0.4F;
    in.x = (struct qkv_vectors){x, 1, 1, 64};
    assert_ok(model->ctx, qkv_module_of_model(model, "decoder.layers.0", &layer));
    assert_ok(model->ctx, qkv_module_forward(layer, &in, (struct qkv_vectors){y, 1, 1, 64}));
    qkv_module_free(layer);
}

/* Lengths of rows are those of the weights now: in a module that runs before any pass, and after the base has changed
 * beneath an adapter with a name. */
static void norms_are_those_of_the_weights_now(void **state) {
    struct qkv_random random = test_random(6);
    float first[64], later[64];
    (void)state;
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = QKV_FP32)), QKV_OK);
    struct qkv_model *model = adapted_model(ctx, NULL), *other;
    assert_ok(ctx, qkv_adapter_create(model, "rank=3,dora=true,targets=q,down", 5));
    fill_adapter(model, &random);
    assert_ok(ctx, qkv_adapter_save(model, NULL, path_of("norms")));
    qkv_model_free(model);

    model = adapted_model(ctx, NULL);
    assert_ok(ctx, qkv_adapter_load(model, path_of("norms")));
    run_layer(model, first);
    free(logits_of(model));
    run_layer(model, later);
    assert_memory_equal(first, later, sizeof first);
    qkv_model_free(model);

    model = adapted_model(ctx, "a");
    other = adapted_model(ctx, "a");
    free(logits_of(model));
    stretch_weight(model);
    stretch_weight(other);
    float *have = logits_of(model), *want = logits_of(other);
    assert_memory_equal(have, want, B * T * VOCAB * sizeof *have);
    free(have);
    free(want);
    qkv_model_free(model);
    qkv_model_free(other);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cost_of_merging_is_what_the_file_has_lost),
        cmocka_unit_test(a_model_without_its_adapter_has_the_bits_that_it_had),
        cmocka_unit_test(a_new_adapter_changes_nothing),
        cmocka_unit_test(norms_are_those_of_the_weights_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
