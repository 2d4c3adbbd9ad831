/* Scalings of rotations outside passes: modules, attention modules alone, and the spec: refusals, and how a
 * scaling is written. */
/* labels: numeric quick */
#include "scaling_fixture.h"

/* ---- modules ---------------------------------------------------------------------------------------------------- */

static void modules_go_by_the_same_lengths(void **state) {
    (void)state;
    struct qkv_random r = test_random(9);
    int32_t ids[2 * 16];
    float y[2 * 16 * V], alone[16 * V];
    const int32_t lengths[2] = {16, 6};
    fixture_ids(&r, ids, 32, V);
    for (size_t kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_model *m = scaled_model(scalings[kind], false, kind);
        struct qkv_module *module;
        struct qkv_module_input in = qkv_module_input_defaults();
        assert_ok(ctx, qkv_module_of_model(m, "", &module));
        in.x = (struct qkv_vectors){.B = 2, .T = 16};
        in.ids = ids, in.self.mask.lengths = lengths;
        for (size_t length = 0; length <= 20; length += 20) {
            in.length = length;
            assert_ok(ctx, qkv_module_forward(module, &in, (struct qkv_vectors){y, 2, 16, V}));
            for (size_t b = 0; b < 2; b++) {
                scores_alone(m, ids + b * 16, (size_t)lengths[b], length, alone);
                test_floats_close(y + b * 16 * V, alone, (size_t)lengths[b] * V, 1e-6, "module", __FILE__, __LINE__);
            }
        }
        in.length = 25;
        assert_fails(ctx, qkv_module_forward(module, &in, (struct qkv_vectors){y, 2, 16, V}), QKV_ARGUMENT,
                     "the length for rotations is 25");
        qkv_module_free(module);
        qkv_model_free(m);
    }
}

static void an_attention_module_has_scalings_too(void **state) {
    (void)state;
    enum { T = 14, C = 8 };
    struct qkv_random r = test_random(10);
    float x[T * C], whole[T * C], decided[T * C], step[C];
    test_fill(&r, x, T * C, 1);
    for (int kind = 0; kind < QKV_SCALING_COUNT; kind++) {
        struct qkv_attention_module_spec spec = {.in = C, .context = 20, .attention = {.heads = 1, .causal = true}};
        spec.attention.position = random_rotation(&r, (enum qkv_scaling_kind)kind);
        spec.attention.position.scaling.original_context = P;
        struct qkv_module *m;
        struct qkv_module_cache *cache;
        assert_ok(ctx, qkv_module_create_attention(ctx, &spec, 3, &m));
        struct qkv_module_input in = {.x = {x, 1, T, C}};
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){whole, 1, T, C}));
        in.length = 20;
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){decided, 1, T, C}));
        assert_int_equal(memcmp(whole, decided, sizeof whole) != 0, kind == QKV_SCALING_DYNAMIC);
        assert_ok(ctx, qkv_module_cache_create(m, 1, 20, 0, &cache)); /* decided for its capacity */
        for (size_t t = 0; t < T; t++) {
            const struct qkv_module_input one = {.x = {x + t * C, 1, 1, C}, .cache = cache};
            assert_ok(ctx, qkv_module_forward(m, &one, (struct qkv_vectors){step, 1, 1, C}));
            assert_memory_equal(step, decided + t * C, sizeof step);
        }
        in.length = 21;
        assert_fails(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){whole, 1, T, C}), QKV_ARGUMENT,
                     "length for rotations is 21");
        qkv_module_cache_free(cache);
        qkv_module_free(m);
        spec.attention.position.scaling.factor = 0.5;
        assert_fails(ctx, qkv_module_create_attention(ctx, &spec, 3, &m), QKV_SPEC, "position.scaling.factor is 0.5");
    }
}

/* ---- the spec --------------------------------------------------------------------------------------------------- */

static const char rope_spec[] =
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 23, \"d_model\": 16, \"context\": 64, "
    "\"position\": {\"kind\": \"rope\"}, \"decoder\": {\"layers\": 2, \"attention\": "
    "{\"heads\": 2}}}";

static enum qkv_status read_scaling(struct qkv_spec *spec, const char *scaling) {
    qkv_spec_free(spec);
    char setting[400];
    const char *settings[] = {setting};
    snprintf(setting, sizeof setting, "position.scaling=%s", scaling);
    return qkv_spec_parse(ctx, spec, "spec", rope_spec, sizeof rope_spec - 1, settings, 1);
}

static void what_cannot_be_is_refused_by_key_and_value(void **state) {
    (void)state;
    static const struct {
        const char *scaling, *sentence;
    } bad[] = {
        {"{\"factor\": 2}", "position.scaling.kind is missing; it must be one of linear"},
        {"{\"kind\": \"cubic\", \"factor\": 2}", "position.scaling.kind is \"cubic\"; it must be one of linear"},
        {"{\"kind\": \"linear\"}", "position.scaling.factor is missing; kind linear needs it, a number of at least 1"},
        {"{\"kind\": \"ntk\", \"factor\": 0.9}", "position.scaling.factor is 0.9; it must be a number of at least 1"},
        {"{\"kind\": \"yarn\", \"factor\": 2}", "position.scaling.original_context is missing; kind yarn needs it"},
        {"{\"kind\": \"dynamic\", \"factor\": 2}", "position.scaling.original_context is missing"},
        {"{\"kind\": \"llama3\", \"factor\": 2}", "position.scaling.original_context is missing"},
        {"{\"kind\": \"linear\", \"factor\": 2, \"beta_fast\": 3}",
         "position.scaling.beta_fast is 3, but only a scaling of kind yarn has one"},
        {"{\"kind\": \"linear\", \"factor\": 2, \"attention_factor\": 0}", "position.scaling.attention_factor is 0"},
        {"{\"kind\": \"linear\", \"factor\": 2, \"attention_factor\": -1}", "position.scaling.attention_factor is -1"},
        {"{\"kind\": \"yarn\", \"factor\": 2, \"original_context\": 9, \"beta_fast\": 1}",
         "position.scaling.beta_fast is 1, but beta_slow is 1; beta_fast must be greater"},
        {"{\"kind\": \"llama3\", \"factor\": 2, \"original_context\": 9, \"low_freq\": 5}",
         "position.scaling.high_freq is 4, but low_freq is 5"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 2, 3], \"long\": [1, 2, 3, 4]}",
         "position.scaling.short has 3 numbers; it must have 4, one for each pair of the 8 rotated channels"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 2, 3, 4]}",
         "position.scaling.long has 0 numbers; it must have 4"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 2, 0, 4], \"long\": [1, 2, 3, 4]}",
         "position.scaling.short is [1,2,0,4]; it must be a list of 1 to 128 numbers greater than 0"},
        {"{\"kind\": \"longrope\", \"original_context\": 9, \"short\": 3, \"long\": [1, 2, 3, 4]}",
         "position.scaling.short is 3; it must be a list"},
        {"{\"kind\": \"longrope\", \"original_context\": 1, \"short\": [1, 2, 3, 4], \"long\": [1, 2, 3, 4]}",
         "position.scaling.original_context is 1; it must be a whole number of at least 2"},
        {"3", "position.scaling is 3; it must be an object"},
    };
    OWNED_SPEC struct qkv_spec spec = {0};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_status(ctx, read_scaling(&spec, bad[i].scaling), QKV_SPEC);
        if (!strstr(qkv_message(ctx), bad[i].sentence)) fail_msg("%s: %s", bad[i].scaling, qkv_message(ctx));
    }
    const char *one_pair[] = {"position.fraction=0.25", "position.scaling={\"kind\": \"ntk\", \"factor\": 2}"};
    assert_fails(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, one_pair, 2), QKV_SPEC,
                 "needs at least 4 rotated channels, but there are 2");
    const char *no_rope[] = {"position.kind=alibi", "position.scaling.kind=linear", "position.scaling.factor=2"};
    qkv_spec_free(&spec);
    assert_fails(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, no_rope, 3), QKV_SPEC,
                 "position.scaling is given, but only position.kind rope has one");
}

/* Printed, read back, of either version: the same digest; each number of it changes the digest. */
static void scalings_are_written_read_and_part_of_the_digest(void **state) {
    (void)state;
    char digests[QKV_SCALING_COUNT + 1][QKV_DIGEST_TEXT], again[QKV_DIGEST_TEXT];
    OWNED_SPEC struct qkv_spec spec = {0}, back = {0};
    char *json;
    for (size_t kind = 0; kind <= QKV_SCALING_COUNT; kind++) {
        assert_ok(ctx, read_scaling(&spec, kind < QKV_SCALING_COUNT ? scalings[kind] : "null"));
        assert_int_equal(spec.decoder.kinds[0].attention.position.scaling.given, kind < QKV_SCALING_COUNT);
        assert_ok(ctx, qkv_spec_digest(ctx, &spec, digests[kind]));
        assert_ok(ctx, qkv_spec_print(ctx, &spec, &json));
        assert_int_equal(strstr(json, "\"scaling\": {") != NULL, kind < QKV_SCALING_COUNT);
        qkv_spec_free(&back);
        assert_ok(ctx, qkv_spec_parse(ctx, &back, "printed", json, strlen(json), NULL, 0));
        assert_ok(ctx, qkv_spec_digest(ctx, &back, again));
        assert_string_equal(digests[kind], again);
        for (size_t other = 0; other < kind; other++) assert_string_not_equal(digests[kind], digests[other]);
        qkv_free(json);
    }
    char plain[QKV_DIGEST_TEXT];
    qkv_spec_free(&spec);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, NULL, 0));
    assert_ok(ctx, qkv_spec_digest(ctx, &spec, plain));
    assert_string_equal(plain, digests[QKV_SCALING_COUNT]);
    assert_ok(ctx, read_scaling(&spec, "{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 1.1, 1.3, 2], "
                                       "\"long\": [1, 2, 5, 12.5]}"));
    assert_ok(ctx, qkv_spec_digest(ctx, &spec, again));
    assert_string_not_equal(again, digests[QKV_SCALING_LONGROPE]);
    /* a scaling of one attention alone */
    const char *own[] = {"decoder.attention.position.scaling.kind=yarn", "decoder.attention.position.scaling.factor=4",
                         "decoder.attention.position.scaling.original_context=16"};
    qkv_spec_free(&spec);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "spec", rope_spec, sizeof rope_spec - 1, own, 3));
    assert_int_equal(spec.decoder.kinds[0].attention.position.scaling.kind, QKV_SCALING_YARN);
    assert_true(spec.decoder.kinds[0].attention.position.scaling.beta_fast == 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_go_by_the_same_lengths),
        cmocka_unit_test(an_attention_module_has_scalings_too),
        cmocka_unit_test(what_cannot_be_is_refused_by_key_and_value),
        cmocka_unit_test(scalings_are_written_read_and_part_of_the_digest),
    };
    return cmocka_run_group_tests(tests, start_context, end_context);
}
