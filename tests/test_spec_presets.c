/* test_spec_presets: existing specs: those of the golden folders, and the presets with their recipes. */
/* labels: quick */
#include "spec_fixture.h"

#include <dirent.h>

/* ---- golden folders, presets ------------------------------------------------------------------------------------ */

static size_t read_folders(const char *folder) {
    size_t count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[1024], *json;
        OWNED_SPEC struct qkv_spec s = {0}, back = {0};
        snprintf(path, sizeof path, "%s/%s/config.json", folder, entry->d_name);
        if (entry->d_name[0] == '.' || !qkv_file_exists(path)) continue;
        assert_ok(ctx, qkv_spec_read(ctx, &s, path, NULL, 0));
        assert_ok(ctx, qkv_spec_check(ctx, &s));
        assert_ok(ctx, qkv_spec_print(ctx, &s, &json));
        assert_ok(ctx, parse(&back, json, NULL, 0));
        assert_true(same_spec(&s, &back));
        qkv_free(json);
        count++;
    }
    if (dir) closedir(dir);
    return count;
}

static void test_golden(void **state) {
    (void)state;
    assert_true(read_folders(TEST_SOURCE_DIR "/tests/golden") > 10);
    read_folders(TEST_SOURCE_DIR "/../shared/golden");
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx,
              qkv_spec_read(ctx, &s, TEST_SOURCE_DIR "/tests/golden/llama_interleaved_partial/config.json", NULL, 0));
    assert_true(s.vocab == 29 && s.d_model == 32 && s.context == 16 && s.tie == QKV_TIE_HEAD);
    assert_true(s.decoder.kinds[0].attention.position.kind == QKV_POSITION_ROPE &&
                s.decoder.kinds[0].attention.position.pairing == QKV_PAIRING_INTERLEAVED &&
                s.decoder.kinds[0].attention.position.fraction == 0.5);
    assert_true(s.decoder.kinds[0].attention.kv_heads == 2 && s.decoder.kinds[0].attention.bias == QKV_BIAS_QKV);
    assert_true(s.decoder.kinds[0].norm.kind == QKV_NORM_RMSNORM && s.decoder.kinds[0].ffn.kind == QKV_FFN_SWIGLU &&
                s.decoder.kinds[0].ffn.d_ff == 48);
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_read(ctx, &s, TEST_SOURCE_DIR "/tests/golden/tiny_seq2seq/config.json", NULL, 0));
    assert_true(s.source_vocab == 23 && s.encoder.layers == 2 && s.decoder.kinds[0].cross.heads == 1 &&
                !s.decoder.kinds[0].cross.causal);
}

static size_t count_parameters(const struct qkv_spec *spec) {
    struct qkv_model *plan;
    size_t count = 0;
    assert_ok(ctx, qkv_model_plan(ctx, spec, &plan));
    for (size_t i = 0; i < qkv_model_parameters(plan); i++) count += qkv_array_elements(qkv_model_parameter(plan, i));
    qkv_model_free(plan);
    return count;
}

static void test_presets(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    const char *name, *summary;
    size_t count = 0;
    for (; qkv_preset_at(count, &name, &summary); count++) {
        struct qkv_train_options options;
        qkv_spec_free(&s);
        assert_ok(ctx, qkv_spec_preset(ctx, &s, name, NULL, 0));
        assert_true(strlen(summary) > 10);
        if (s.vocab == 0 && qkv_spec_has_tokens(&s)) {
            qkv_spec_free(&s);
            assert_ok(ctx, qkv_spec_preset(ctx, &s, name, SETTINGS("vocab=65")));
        }
        if (s.head.kind == QKV_HEAD_CLASSIFY) s.head.classes = 6; /* from the data, when training */
        assert_ok(ctx, qkv_spec_check(ctx, &s));
        assert_true(count_parameters(&s) > 10000);
        assert_non_null(qkv_preset_recipe(name));
        assert_ok(ctx, qkv_train_defaults(ctx, name, &options));
    }
    assert_true(count >= 6);
    /* nanoGPT prints these without the position embedding: 0.80M, 10.65M, 123.65M */
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "nano-gpt", SETTINGS("vocab=65")));
    assert_int_equal(count_parameters(&s) - 64 * 128, 795904);
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "baby-gpt", SETTINGS("vocab=65")));
    assert_int_equal(count_parameters(&s) - 256 * 384, 10646784);
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "gpt2-small", NULL, 0));
    assert_int_equal(count_parameters(&s), 124439808);
    /* Six of the eight experts of each layer have no part in a token, and all numbers of nano-gpt have. */
    struct qkv_costs costs;
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "moe-tiny", SETTINGS("vocab=65")));
    assert_ok(ctx, qkv_measure_costs(ctx, &s, 1, 8, &costs));
    assert_int_equal(costs.parameters - costs.active_parameters, 4 * 6 * 3 * 168 * 128);
    if (qkv_context_precision(ctx) == QKV_FP32) /* and one row of 64 positions */
        assert_int_equal(costs.decode_bytes, 4 * (costs.active_parameters - 63 * 128));
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "nano-gpt", SETTINGS("vocab=65")));
    assert_ok(ctx, qkv_measure_costs(ctx, &s, 1, 8, &costs));
    assert_int_equal(costs.parameters, costs.active_parameters);
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "gpt2-small", SETTINGS("decoder.attention.kv_heads=1")));
    assert_int_equal(s.decoder.kinds[0].attention.head_dim, 64);
    qkv_spec_free(&s);
    assert_status(ctx, qkv_spec_preset(ctx, &s, "gpt5", NULL, 0), QKV_ARGUMENT);
    assert_message(ctx, "\"gpt5\" is not a preset; presets are nano-gpt, baby-gpt, gpt2-small, llama-style, ");
    assert_null(qkv_preset_recipe("gpt5"));
    struct qkv_train_options options;
    assert_ok(ctx, qkv_train_defaults(ctx, "baby-gpt", &options));
    assert_true(options.batch == 64 && options.steps == 5000 && options.rate == 1e-3 && options.warmup == 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_presets),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
