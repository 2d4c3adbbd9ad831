/* Digests: weights belong to a spec, and a checkpoint to its options, in whatever form these are written. */
#include "train_fixture.h"

#include "model/spec.h"

/* ---- specs ------------------------------------------------------------------------------------------------------ */

static const char short_spec[] = "{\"format\":\"qkv\",\"version\":1,\"vocab\":40,\"d_model\":32,\"context\":16,"
                                 "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2}}}";

static void digest_of(const char *json, char digest[QKV_DIGEST_TEXT]) {
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", json, strlen(json), NULL, 0));
    assert_ok(ctx, qkv_spec_digest(ctx, &spec, digest));
    qkv_context_free(ctx);
}

/* docs/digests.md carried out by hand, with an FNV-1a of the test's own. */
static void a_digest_is_the_hash_of_the_canonical_form(void **state) {
    (void)state;
    static const char canonical[] = "qkv spec 1\n"
                                    "context=16\n"
                                    "d_model=32\n"
                                    "decoder.attention.bias=true\n"
                                    "decoder.attention.causal=true\n"
                                    "decoder.attention.head_dim=16\n"
                                    "decoder.attention.heads=2\n"
                                    "decoder.attention.kv_heads=2\n"
                                    "decoder.attention.scale=0000000000000000\n"
                                    "decoder.attention.softcap=0000000000000000\n"
                                    "decoder.attention.value_dim=16\n"
                                    "decoder.attention.window=0\n"
                                    "decoder.ffn.bias=true\n"
                                    "decoder.ffn.d_ff=128\n"
                                    "decoder.ffn.kind=gelu\n"
                                    "decoder.layers=2\n"
                                    "decoder.norm.bias=true\n"
                                    "decoder.norm.eps=3ee4f8b588e368f1\n"
                                    "decoder.norm.final=true\n"
                                    "decoder.norm.kind=layernorm\n"
                                    "decoder.norm.placement=pre\n"
                                    "dropout=0000000000000000\n"
                                    "embed_scale=3ff0000000000000\n"
                                    "head.bias=false\n"
                                    "head.kind=lm\n"
                                    "position.kind=learned\n"
                                    "tie=head\n"
                                    "vocab=40\n";
    uint64_t hash = 14695981039346656037u;
    for (const char *c = canonical; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    char expected[32], digest[QKV_DIGEST_TEXT];
    snprintf(expected, sizeof expected, "%016llx", (unsigned long long)hash);
    digest_of(short_spec, digest);
    assert_string_equal(digest, expected);
}

static void order_spelling_and_omitted_defaults_change_no_digest(void **state) {
    (void)state;
    static const char *const same[] = {
        "{\"decoder\":{\"attention\":{\"heads\":2},\"layers\":2},\"context\":16,\"d_model\":32,\"vocab\":40,"
        "\"version\":1,\"format\":\"qkv\"}",
        "{\"format\":\"qkv\",\"version\":1,\"vocab\":40,\"d_model\":32,\"context\":16,\"dropout\":0,\"embed_scale\":1."
        "0,"
        "\"position\":{\"kind\":\"learned\",\"theta\":500},\"encoder\":null,\"tie\":\"head\","
        "\"decoder\":{\"layers\":2,\"norm\":{\"eps\":0.00001},\"ffn\":{\"kind\":\"gelu\",\"d_ff\":128},"
        "\"attention\":{\"heads\":2,\"kv_heads\":2,\"scale\":null,\"softcap\":-0.0,\"window\":0}}}",
        "{\"format\":\"qkv\",\"version\":1,\"vocab\":40,\"d_model\":32,\"context\":16,"
        "\"decoder\":{\"layers\":2,\"norm\":{\"eps\":10e-6},\"attention\":{\"heads\":2,\"head_dim\":16}}}"};
    static const char *const other[] = {
        "{\"format\":\"qkv\",\"version\":1,\"vocab\":40,\"d_model\":32,\"context\":16,"
        "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":4}}}",
        "{\"format\":\"qkv\",\"version\":1,\"vocab\":40,\"d_model\":32,\"context\":16,"
        "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":2},\"ffn\":{\"kind\":\"relu\"}}}"};
    char first[QKV_DIGEST_TEXT], digest[QKV_DIGEST_TEXT];
    digest_of(short_spec, first);
    for (size_t i = 0; i < TEST_COUNT(same); i++) {
        digest_of(same[i], digest);
        assert_string_equal(digest, first);
    }
    for (size_t i = 0; i < TEST_COUNT(other); i++) {
        digest_of(other[i], digest);
        assert_string_not_equal(digest, first);
    }
}

/* A table as a later version would have it: with one more key. */
static void a_later_key_enters_only_where_it_is_not_as_in_version_1(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_key keys[64] = {{0}};
    size_t count = 0;
    uint64_t first = 0, same = 0, other = 0;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", short_spec, strlen(short_spec), NULL, 0));
    assert_ok(ctx, qkv_spec_digest_keys(ctx, qkv_spec_keys, &spec, &first));
    for (; qkv_spec_keys[count].name; count++) keys[count + 1] = qkv_spec_keys[count];
    assert_true(count + 2 < TEST_COUNT(keys));
    keys[0] = (struct qkv_key){.name = "new_key",
                               .type = QKV_KEY_REAL,
                               .flags = QKV_KEY_LATER,
                               .offset = offsetof(struct qkv_spec, decoder.embed.scale),
                               .neutral = spec.decoder.embed.scale};
    assert_ok(ctx, qkv_spec_digest_keys(ctx, keys, &spec, &same));
    assert_true(same == first);
    keys[0].neutral = spec.decoder.embed.scale + 1;
    assert_ok(ctx, qkv_spec_digest_keys(ctx, keys, &spec, &other));
    assert_true(other != first);
    qkv_context_free(ctx);
}

/* ---- folders ---------------------------------------------------------------------------------------------------- */

/* Replaces a text in FOLDER/FILE by another, which must be there. */
static void edit(const char *folder, const char *file, const char *from, const char *to) {
    size_t size, n = strlen(from), at = 0;
    char *data = fixture_read(folder, file, &size), *out = malloc(size + strlen(to) + 1);
    while (at + n <= size && memcmp(data + at, from, n) != 0) at++;
    if (at + n > size) print_error("%s/%s has no %s\n", folder, file, from);
    assert_true(at + n <= size);
    memcpy(out, data, at);
    memcpy(out + at, to, strlen(to));
    memcpy(out + at + strlen(to), data + at + n, size - at - n);
    fixture_write(folder, file, out, size - n + strlen(to));
    free(data);
    free(out);
}

static void save_model(struct qkv_context *ctx, const char *folder) {
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "test", short_spec, strlen(short_spec), NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_model_save(model, folder));
    qkv_model_free(model);
}

static enum qkv_status load(struct qkv_context *ctx, const char *folder) {
    struct qkv_model *model;
    enum qkv_status status = qkv_model_load(ctx, folder, &model);
    qkv_model_free(model);
    return status;
}

static struct qkv_context *careless(void) {
    struct qkv_context *ctx;
    struct qkv_context_options options = {.size = sizeof options, .threads = 1, .ignore_digest = true};
    assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
    return ctx;
}

static void an_edited_config_is_refused_unless_digests_are_ignored(void **state) {
    (void)state;
    static const char *const edits[][2] = {{"\"gelu\"", "\"relu\""},
                                           {"\"heads\": 2", "\"heads\": 4, \"head_dim\": 8"},
                                           {"\"causal\": true", "\"causal\": false"}};
    struct qkv_context *ctx = fixture_context(1), *other = careless();
    for (size_t i = 0; i < TEST_COUNT(edits); i++) {
        const char *folder = fixture_run("edited");
        save_model(ctx, folder);
        assert_ok(ctx, load(ctx, folder));
        if (i == 1) { /* the keys that follow from heads */
            edit(folder, "config.json", "\"kv_heads\": 2", "\"kv_heads\": 4");
            edit(folder, "config.json", "\"head_dim\": 16,", "");
            edit(folder, "config.json", "\"value_dim\": 16", "\"value_dim\": 8");
        }
        edit(folder, "config.json", edits[i][0], edits[i][1]);
        assert_status(ctx, load(ctx, folder), QKV_SPEC);
        assert_message(ctx, "another spec than config.json has now");
        assert_message(ctx, "option ignore_digest");
        assert_ok(other, load(other, folder));
    }
    qkv_context_free(ctx);
    qkv_context_free(other);
}

static void weights_without_a_digest_load(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const char *folder = fixture_run("foreign");
    save_model(ctx, folder);
    edit(folder, "config.json", "\"gelu\"", "\"relu\"");
    edit(folder, "model.safetensors", "\"spec_digest\"", "\"spec_digesX\"");
    assert_ok(ctx, load(ctx, folder));
    edit(folder, "model.safetensors", "\"spec_digesX\"", "\"spec_digest\"");
    assert_status(ctx, load(ctx, folder), QKV_SPEC);
    qkv_context_free(ctx);
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static enum qkv_status resume(struct qkv_context *ctx, const char *folder) {
    struct qkv_trainer *trainer;
    enum qkv_status status = qkv_trainer_resume(ctx, folder, NULL, NULL, NULL, &trainer);
    if (!status) fixture_steps(ctx, trainer, 6);
    qkv_trainer_free(trainer);
    return status;
}

/* A run of 3 of 6 steps, with dropout given as an option and so in the spec too. */
static const char *half_a_run(struct qkv_context *ctx) {
    const char *folder = fixture_run("half");
    struct qkv_train_options options = fixture_options(ctx);
    struct qkv_trainer *trainer = fixture_begin(ctx, folder, &options);
    fixture_steps(ctx, trainer, 3);
    qkv_trainer_free(trainer);
    return folder;
}

static void options_that_change_the_numbers_are_refused_at_resume(void **state) {
    (void)state;
    static const char *const edits[][2] = {{"\"rate\": 0.001", "\"rate\": 0.002"},
                                           {"\"batch\": 4", "\"batch\": 8"},
                                           {"\"seed\": 1337", "\"seed\": 1338"},
                                           {"\"schedule\": \"cosine\"", "\"schedule\": \"linear\""}};
    struct qkv_context *ctx = fixture_context(1), *other = careless();
    for (size_t i = 0; i < TEST_COUNT(edits); i++) {
        const char *folder = half_a_run(ctx);
        edit(folder, "train.json", edits[i][0], edits[i][1]);
        assert_status(ctx, resume(ctx, folder), QKV_FORMAT);
        assert_message(ctx, "train.json has other options than the checkpoint was trained with");
        assert_message(ctx, "option ignore_digest");
        assert_ok(other, resume(other, folder));
    }
    qkv_context_free(ctx);
    qkv_context_free(other);
}

static void options_that_change_no_numbers_may_change_at_resume(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const char *folder = half_a_run(ctx);
    edit(folder, "train.json", "\"eval_every\": 2", "\"eval_every\": 3");
    edit(folder, "train.json", "\"save_every\": 3", "\"save_every\": 2");
    assert_ok(ctx, resume(ctx, folder));
    assert_ok(ctx, load(ctx, folder));
    qkv_context_free(ctx);
}

static void a_checkpoint_without_a_digest_resumes(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1);
    const char *folder = half_a_run(ctx);
    edit(folder, "train.json", "\"rate\": 0.001", "\"rate\": 0.002");
    edit(folder, "checkpoint.safetensors", "\"options_digest\"", "\"options_digesX\"");
    assert_ok(ctx, resume(ctx, folder));
    qkv_context_free(ctx);
}

static void a_config_edited_in_a_run_is_refused_at_resume(void **state) {
    (void)state;
    struct qkv_context *ctx = fixture_context(1), *other = careless();
    const char *folder = half_a_run(ctx);
    edit(folder, "config.json", "\"eps\": 1e-5", "\"eps\": 0.00001"); /* the same in other words */
    assert_ok(ctx, resume(ctx, folder));
    folder = half_a_run(ctx);
    edit(folder, "config.json", "\"gelu\"", "\"relu\"");
    assert_status(ctx, resume(ctx, folder), QKV_SPEC);
    assert_message(ctx, "\"kind\": \"relu\" where the checkpoint has \"kind\": \"gelu\"");
    assert_message(ctx, "option ignore_digest");
    assert_ok(other, resume(other, folder));
    qkv_context_free(ctx);
    qkv_context_free(other);
}

int main(void) {
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_is_the_hash_of_the_canonical_form),
        cmocka_unit_test(order_spelling_and_omitted_defaults_change_no_digest),
        cmocka_unit_test(a_later_key_enters_only_where_it_is_not_as_in_version_1),
        cmocka_unit_test(an_edited_config_is_refused_unless_digests_are_ignored),
        cmocka_unit_test(weights_without_a_digest_load),
        cmocka_unit_test(options_that_change_the_numbers_are_refused_at_resume),
        cmocka_unit_test(options_that_change_no_numbers_may_change_at_resume),
        cmocka_unit_test(a_checkpoint_without_a_digest_resumes),
        cmocka_unit_test(a_config_edited_in_a_run_is_refused_at_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
