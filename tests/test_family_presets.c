/* Presets as published models: those that a family can represent, and for the others the obstacle. */
/* labels: numeric */
#include "test.h"

#include "family/family.h"
#include "model/spec.h"
#include "qkv.h"

enum { SETTINGS = 24 };

/* Settings that a preset needs and that training takes from its data. */
static size_t data_settings(struct qkv_context *ctx, const char *name, const char **settings) {
    OWNED_SPEC struct qkv_spec spec = {0};
    size_t n = 0;
    assert_int_equal(qkv_spec_preset(ctx, &spec, name, NULL, 0), QKV_OK);
    const bool tokens = spec.decoder.layers || spec.encoder.embed.input.kind == QKV_INPUT_TOKENS;
    if (tokens) settings[n++] = "vocab=300";
    if (spec.encoder.layers && spec.decoder.layers) settings[n++] = "source_vocab=300";
    if (spec.head.kind != QKV_HEAD_LM) settings[n++] = "head.classes=3";
    return n;
}

/* Adds each "setting KEY=VALUE" of a sentence; the memory is the caller's. */
static size_t sentence_settings(char *sentence, const char **settings, size_t n) {
    for (char *at = sentence; (at = strstr(at, "setting "));) {
        at += strlen("setting ");
        assert_true(n < SETTINGS);
        settings[n++] = at;
        at += strcspn(at, ")");
        assert_int_equal(*at, ')'); /* the sentence is whole */
        *at++ = 0;
    }
    return n;
}

static const char *family_of(struct qkv_context *ctx, const char *name, const char *const *settings, size_t n) {
    struct qkv_family_config config = {0};
    OWNED_SPEC struct qkv_spec spec = {0};
    if (qkv_spec_preset(ctx, &spec, name, settings, n)) fail_msg("%s: %s", name, qkv_message(ctx));
    if (qkv_family_write(ctx, NULL, NULL, &spec, &config)) return NULL;
    const char *type = config.family->type;
    qkv_family_config_free(&config);
    return type;
}

static void dropouts_are_no_part_of_a_published_model(void **state) {
    (void)state;
    static const char *const settings[] = {"vocab=300", "embed.dropout=0.2", "decoder.attention.dropout=0",
                                           "decoder.residual_dropout=0.3"};
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    const char *type = family_of(ctx, "nano-gpt", settings, TEST_COUNT(settings));
    if (!type) fail_msg("%s", qkv_message(ctx));
    assert_string_equal(type, "gpt2");
    qkv_context_free(ctx);
}

static void presets_are_of_the_family_whose_shape_they_have(void **state) {
    (void)state;
    static const struct {
        const char *preset, *family;
    } cases[] = {
        {"nano-gpt", "gpt2"},
        {"baby-gpt", "gpt2"},
        {"gpt2-small", "gpt2"},
        {"llama-style", "llama"},
        {"mqa-style", "gpt_bigcode"},
        {"mla-tiny", "deepseek_v2"},
        {"deepseek-style", "deepseek_v3,kimi_k2"},
        {"neox-style", "gpt_neox"},
        {"qwen3-style", "qwen3"},
        {"mixtral-style", "mixtral"},
        {"gpt-oss-style", "gpt_oss"},
        {"t5-style", "t5,mt5"},
        {"bert-base", "bert"},
        {"bert-tiny", "bert"},
        {"vit-tiny", "vit"},
        {"tiny-translator", "blenderbot"},
    };
    struct qkv_context *ctx;
    const char *settings[SETTINGS];
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *type = family_of(ctx, cases[i].preset, settings, data_settings(ctx, cases[i].preset, settings));
        if (!type) fail_msg("%s: %s", cases[i].preset, qkv_message(ctx));
        assert_string_equal(type, cases[i].family);
    }
    qkv_context_free(ctx);
}

static void a_refused_preset_is_of_a_family_with_the_settings_that_the_refusal_names(void **state) {
    (void)state;
    struct qkv_context *ctx;
    const char *name, *settings[SETTINGS];
    char sentence[2048];
    size_t refused = 0;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    for (size_t i = 0; qkv_preset_at(i, &name, NULL); i++) {
        size_t n = data_settings(ctx, name, settings);
        if (family_of(ctx, name, settings, n)) continue;
        refused++;
        snprintf(sentence, sizeof sentence, "%s", qkv_message(ctx));
        const size_t all = sentence_settings(sentence, settings, n);
        assert_true(all > n);
        if (!family_of(ctx, name, settings, all)) fail_msg("%s with its settings: %s", name, qkv_message(ctx));
    }
    assert_int_equal(refused, 9);
    qkv_context_free(ctx);
}

/* gpt-2 has biases: those of a model without any are zeros. Its window stays an obstacle. */
static void obstacles_are_told_without_what_zeros_can_say(void **state) {
    (void)state;
    static const char *const settings[] = {"vocab=300", "decoder.attention.window=3", "decoder.attention.heads=2",
                                           "decoder.attention.kv_heads=2"};
    struct qkv_context *ctx;
    assert_int_equal(qkv_context_create(&ctx, NULL), QKV_OK);
    struct qkv_family_config config = {0};
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_int_equal(qkv_spec_preset(ctx, &spec, "nano-gpt", settings, TEST_COUNT(settings)), QKV_OK);
    assert_int_equal(qkv_family_write(ctx, "gpt2", NULL, &spec, &config), QKV_SPEC);
    assert_non_null(strstr(qkv_message(ctx), "decoder.attention.window is 3 (setting decoder.attention.window=0)"));
    assert_null(strstr(qkv_message(ctx), "bias"));
    assert_int_equal(qkv_family_write(ctx, "bert", NULL, &spec, &config), QKV_SPEC);
    assert_non_null(strstr(qkv_message(ctx), "other stacks"));
    qkv_context_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropouts_are_no_part_of_a_published_model),
        cmocka_unit_test(presets_are_of_the_family_whose_shape_they_have),
        cmocka_unit_test(a_refused_preset_is_of_a_family_with_the_settings_that_the_refusal_names),
        cmocka_unit_test(obstacles_are_told_without_what_zeros_can_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
