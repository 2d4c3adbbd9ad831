/* test_spec_memory: a spec owns its kinds of layers. */
/* labels: quick */
#include "spec_fixture.h"

#define KINDS                                                                                                          \
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 64, \"decoder\": "             \
    "{\"layers\": 4, \"attention\": {\"heads\": 4}, \"kinds\": {\"local\": {\"attention\": {\"window\": 8}}, "         \
    "\"global\": {}}, \"pattern\": [\"local\", \"global\"]}}"

static void a_spec_is_small(void **state) {
    (void)state;
    assert_true(sizeof(struct qkv_spec) < 4096);
}

static void a_spec_of_zeros_is_freed(void **state) {
    (void)state;
    struct qkv_spec spec = {0};
    qkv_spec_free(NULL);
    qkv_spec_free(&spec);
    assert_ok(ctx, parse(&spec, KINDS, NULL, 0));
    assert_true(!spec.encoder.kinds && !spec.encoder.kind_of && spec.encoder.kind_count == 0);
    qkv_spec_free(&spec);
    assert_true(!spec.decoder.kinds && !spec.decoder.kind_of && spec.decoder.layers == 0 && spec.d_model == 0);
    qkv_spec_free(&spec);
}

static void a_spec_is_all_zeros_after_a_failure(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = {0}, good = {0};
    const struct qkv_spec none = {0};
    static const char *const settings[] = {"decoder.layers=4", "decoder.norm.eps=0"};
    assert_ok(ctx, parse(&good, KINDS, NULL, 0));
    spec = good; /* something that is overwritten, and not freed */
    assert_status(ctx, qkv_spec_parse(ctx, &spec, "my.json", KINDS, strlen(KINDS), settings, 2), QKV_SPEC);
    assert_memory_equal(&spec, &none, sizeof spec);
    spec = good;
    assert_status(ctx, qkv_spec_preset(ctx, &spec, "no-such-preset", NULL, 0), QKV_ARGUMENT);
    assert_memory_equal(&spec, &none, sizeof spec);
    spec = good;
    assert_status(ctx, qkv_spec_read(ctx, &spec, "/nowhere/config.json", NULL, 0), QKV_FILE);
    assert_memory_equal(&spec, &none, sizeof spec);
}

static void a_copy_has_kinds_of_its_own(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = {0}, copy = {0};
    assert_ok(ctx, parse(&spec, KINDS, NULL, 0));
    assert_ok(ctx, qkv_spec_copy(ctx, &spec, &copy));
    assert_true(same_spec(&spec, &copy));
    copy.decoder.kinds[0].attention.window = 5;
    copy.decoder.kind_of[3] = 0;
    assert_true(spec.decoder.kinds[0].attention.window == 8 && spec.decoder.kind_of[3] == 1);
    qkv_spec_free(&spec);
    assert_true(copy.decoder.kinds[1].attention.heads == 4 && copy.decoder.kind_of[1] == 1);
    assert_ok(ctx, qkv_spec_check(ctx, &copy));
}

/* The model has a copy. */
static void a_spec_may_be_freed_when_the_model_exists(void **state) {
    (void)state;
    struct qkv_spec spec = {0};
    struct qkv_model *model;
    assert_ok(ctx, parse(&spec, KINDS, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    qkv_spec_free(&spec);
    assert_int_equal(qkv_stack_layer(&qkv_model_spec(model)->decoder, 2)->attention.window, 8);
    qkv_model_free(model);
}

static void a_stack_is_resized(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_stack_spec *s = &spec.decoder;
    assert_ok(ctx, parse(&spec, KINDS, NULL, 0));
    assert_ok(ctx, qkv_stack_resize(ctx, s, 6, 3));
    assert_true(s->layers == 6 && s->kind_count == 3 && s->kinds[0].attention.window == 8);
    assert_true(s->kind_of[1] == 1 && s->kind_of[3] == 1 && s->kind_of[4] == 0 && s->kind_of[5] == 0);
    assert_true(s->kinds[2].name[0] == 0 && s->kinds[2].attention.heads == 0);
    s->kinds[2] = s->kinds[1];
    strcpy(s->kinds[2].name, "third");
    s->kinds[2].attention.window = 3;
    s->kind_of[5] = 2;
    assert_ok(ctx, qkv_spec_check(ctx, &spec));
    assert_ok(ctx, qkv_stack_resize(ctx, s, 2, 2));
    assert_true(s->layers == 2 && s->kind_count == 2 && s->kind_of[1] == 1);
    assert_ok(ctx, qkv_spec_check(ctx, &spec));
    static const int wrong[][2] = {{-1, 1}, {QKV_LAYERS_MAX + 1, 1}, {1, -1}, {1, QKV_KINDS_MAX + 1}};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        assert_status(ctx, qkv_stack_resize(ctx, s, wrong[i][0], wrong[i][1]), QKV_ARGUMENT);
        assert_true(s->layers == 2 && s->kind_count == 2 && s->kinds[0].attention.window == 8);
    }
    assert_ok(ctx, qkv_stack_resize(ctx, s, 0, 0));
    assert_true(!s->kinds && !s->kind_of && s->layers == 0);
}

static void a_stack_without_its_lists_is_refused(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_ok(ctx, parse(&spec, KINDS, NULL, 0));
    struct qkv_spec broken = spec;
    broken.decoder.kinds = NULL;
    assert_status(ctx, qkv_spec_check(ctx, &broken), QKV_SPEC);
    assert_message(ctx, "decoder.kinds is NULL, but there are layers; qkv_stack_resize makes the list");
    broken = spec;
    broken.decoder.kind_of = NULL;
    assert_status(ctx, qkv_spec_check(ctx, &broken), QKV_SPEC);
    assert_message(ctx, "decoder.kind_of is NULL");
    broken = spec;
    broken.encoder.layers = 1;
    assert_status(ctx, qkv_spec_check(ctx, &broken), QKV_SPEC);
    assert_message(ctx, "encoder.kinds is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_is_small),
        cmocka_unit_test(a_spec_of_zeros_is_freed),
        cmocka_unit_test(a_spec_is_all_zeros_after_a_failure),
        cmocka_unit_test(a_copy_has_kinds_of_its_own),
        cmocka_unit_test(a_spec_may_be_freed_when_the_model_exists),
        cmocka_unit_test(a_stack_is_resized),
        cmocka_unit_test(a_stack_without_its_lists_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
