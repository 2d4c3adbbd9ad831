/* The interface as programs meet it: its version, its lists, and the calls that no command of ours needs. */
/* labels: quick */
#include "train_fixture.h"

static void the_version_of_the_library_is_that_of_the_header(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH);
    assert_string_equal(qkv_version(), text);
    assert_int_equal(qkv_version_number(), QKV_VERSION_NUMBER);
    assert_true(QKV_VERSION_NUMBER > 0 && QKV_VERSION_MINOR < 100 && QKV_VERSION_PATCH < 100);
}

/* Every family has a name and classes; those of one name have different classes. */
static void families_are_listed_once(void **state) {
    (void)state;
    const char *type, *classes, *other, *others;
    size_t count = 0;
    bool found = false;
    for (; qkv_family_at(count, &type, &classes); count++) {
        assert_true(*type && *classes);
        found = found || !strcmp(type, "gpt2");
        for (size_t i = 0; i < count; i++) {
            assert_true(qkv_family_at(i, &other, &others));
            assert_true(strcmp(type, other) || strcmp(classes, others));
        }
    }
    assert_true(found && count >= 39);
    assert_false(qkv_family_at(count, &type, &classes));
}

/* A file of three examples: each is read as a batch of one sequence, and a fourth is refused. */
static void examples_of_a_file_are_counted(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    int32_t ids[3][4] = {{1, 2, 3, 4}, {2, 3, 4, 5}, {7, 6, 5, 4}};
    const struct qkv_array array = {
        .name = "in.ids", .dtype = QKV_I32, .rank = 2, .shape = {3, 4}, .data = ids, .bytes = sizeof ids};
    struct qkv_model *model;
    struct qkv_example *example;
    spec.vocab = 8;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_tensors_write(ctx, test_path("three"), &array, 1, NULL, 0));
    for (size_t i = 0; i < 3; i++) {
        assert_ok(ctx, qkv_example_read(model, test_path("three"), i, &example));
        assert_int_equal(qkv_example_count(example), 3);
        assert_int_equal(qkv_example_batch(example)->B, 1);
        assert_memory_equal(qkv_example_batch(example)->ids, ids[i], sizeof ids[i]);
        qkv_example_free(example);
    }
    assert_int_equal(qkv_example_read(model, test_path("three"), 3, &example), QKV_ARGUMENT);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* A batch with a mask of the defaults has the bits of one without a mask, and one that hides a key has others. */
static void a_dense_mask_of_the_defaults_hides_nothing(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    const int32_t ids[4] = {1, 2, 3, 4};
    const uint8_t open[16] = {1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1};
    struct qkv_batch batch = {.B = 1, .T = 4, .ids = ids};
    const struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = 4, .logits = true};
    struct qkv_model *model;
    struct qkv_pass *pass;
    float scores[3][32];
    spec.vocab = 8;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_pass_create(model, &options, &pass));
    for (int i = 0; i < 3; i++) {
        if (i) batch.mask = qkv_dense_mask_defaults();
        if (i == 2) batch.mask.data = open;
        assert_ok(ctx, qkv_pass_forward(pass, &batch));
        memcpy(scores[i], qkv_pass_output(pass).data, sizeof scores[i]);
    }
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    assert_memory_not_equal(scores[0], scores[2], sizeof scores[0]);
    qkv_pass_free(pass);
    qkv_model_free(model);
    qkv_context_free(ctx);
}

/* A path of the defaults is none, a use of the defaults embeds nothing. */
static void paths_and_uses_of_the_defaults_ask_for_nothing(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const struct qkv_path paths[2] = {qkv_path_defaults(), qkv_path_defaults()};
    const struct qkv_use_options use = qkv_use_defaults();
    OWNED_SPEC struct qkv_spec spec = fixture_spec(ctx, NULL);
    struct qkv_model *model;
    assert_ok(ctx, qkv_paths_check(ctx, paths, 2));
    assert_int_equal(use.use, QKV_USE_EMBED);
    spec.vocab = 8;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_save(model, test_path("model")));
    assert_ok(ctx, qkv_use_check_memory(ctx, test_path("model"), &use));
    assert_ok(ctx, qkv_use_check_memory(ctx, test_path("model"), NULL));
    qkv_model_free(model);
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_of_the_library_is_that_of_the_header),
        cmocka_unit_test(families_are_listed_once),
        cmocka_unit_test(examples_of_a_file_are_counted),
        cmocka_unit_test(a_dense_mask_of_the_defaults_hides_nothing),
        cmocka_unit_test(paths_and_uses_of_the_defaults_ask_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
