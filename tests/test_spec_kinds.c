/* test_spec_kinds: version 2 of the spec: kinds of layers and their pattern, positions of attention and of the
 * embedding, the shared keys of kinds, settings of either version, refusals, and digests. The golden cases
 * (test_golden) anchor the numbers. */
/* labels: quick */
#include "model/spec.h"
#include "test.h"

#include <glob.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

static struct qkv_context *ctx;

static int setup(void **state) {
    (void)state;
    return qkv_context_create(&ctx, NULL) == QKV_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

#define HEAD      "\"format\": \"qkv\", \"version\": 2, \"vocab\": 40, \"d_model\": 32, \"context\": 64, "
#define ATTENTION "\"attention\": {\"heads\": 4, \"position\": {\"kind\": \"rope\", \"theta\": 500}}"
#define KINDS                                                                                                          \
    "\"kinds\": {\"global\": {\"attention\": {\"kv_heads\": 1, \"position\": {\"kind\": \"none\"}}, "                  \
    "\"ffn\": {\"kind\": \"relu\", \"d_ff\": 48}}, \"local\": {\"attention\": {\"window\": 8}}}"
#define PATTERN "\"pattern\": [\"local\", \"local\", \"global\"]"
#define MIXED                                                                                                          \
    "{" HEAD "\"embed\": {\"scale\": 2}, \"decoder\": {\"layers\": 6, \"ffn\": {\"kind\": \"geglu\"}, " ATTENTION      \
    ", " KINDS ", " PATTERN "}}"
#define OLD                                                                                                            \
    "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 40, \"d_model\": 32, \"context\": 64, \"position\": {\"kind\": " \
    "\"rope\"}, \"decoder\": {\"layers\": 4, \"attention\": {\"heads\": 4}}}"

static enum qkv_status parse(struct qkv_spec *spec, const char *json, const char *const *settings, size_t count) {
    qkv_spec_free(spec);
    return qkv_spec_parse(ctx, spec, "my.json", json, strlen(json), settings, count);
}

#define SETTINGS(...)                                                                                                  \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void a_pattern_is_repeated_over_the_layers(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, MIXED, NULL, 0));
    assert_int_equal(s.decoder.kind_count, 2);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(qkv_stack_layer(&s.decoder, i)->name, i % 3 == 2 ? "global" : "local");
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("decoder.layers=9")));
    assert_string_equal(qkv_stack_layer(&s.decoder, 8)->name, "global");
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("decoder.layers=2", "decoder.pattern=[\"global\", \"local\"]")));
    assert_string_equal(s.decoder.kinds[0].name, "global");
}

static void a_kind_has_what_stands_beside_the_kinds_but_for_its_own(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, MIXED, NULL, 0));
    const struct qkv_layer_spec *local = &s.decoder.kinds[0], *global = &s.decoder.kinds[1];
    assert_true(local->attention.heads == 4 && local->attention.kv_heads == 4 && local->attention.window == 8);
    assert_true(global->attention.heads == 4 && global->attention.kv_heads == 1 && global->attention.window == 0);
    assert_true(local->attention.position.kind == QKV_POSITION_ROPE && local->attention.position.theta == 500);
    assert_true(global->attention.position.kind == QKV_POSITION_NONE);
    assert_true(local->ffn.kind == QKV_FFN_GEGLU && local->ffn.d_ff == 88);
    assert_true(global->ffn.kind == QKV_FFN_RELU && global->ffn.d_ff == 48);
    assert_true(s.decoder.embed.scale == 2 && s.decoder.embed.position.kind == QKV_POSITION_NONE);
}

static void positions_are_learned_where_no_attention_has_one(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, "{" HEAD "\"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}", NULL, 0));
    assert_int_equal(s.decoder.embed.position.kind, QKV_POSITION_LEARNED);
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("embed.position.kind=learned")));
    assert_int_equal(s.decoder.embed.position.kind, QKV_POSITION_LEARNED);
    assert_int_equal(s.decoder.kinds[0].attention.position.kind, QKV_POSITION_ROPE);
}

static void settings_reach_a_kind_and_all_kinds(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("decoder.kinds.local.attention.window=4", "decoder.ffn.d_ff=64")));
    assert_int_equal(s.decoder.kinds[0].attention.window, 4);
    assert_true(s.decoder.kinds[0].ffn.d_ff == 64 && s.decoder.kinds[1].ffn.d_ff == 48);
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("decoder.attention.position.theta=7")));
    assert_true(s.decoder.kinds[0].attention.position.theta == 7);
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("decoder.norm.final=false")));
    assert_false(s.decoder.kinds[1].norm.final);
}

static void settings_make_kinds_of_a_spec_of_version_1(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, OLD,
                         SETTINGS("decoder.kinds.a.attention.window=4", "decoder.kinds.b.attention.position.kind=none",
                                  "decoder.pattern=[\"a\", \"b\"]", "position.theta=9")));
    assert_true(s.decoder.kind_count == 2 && s.decoder.kinds[0].attention.position.theta == 9);
    assert_int_equal(s.decoder.kinds[1].attention.position.kind, QKV_POSITION_NONE);
}

/* Options of version 1 say of the whole model what version 2 says in several places. */
static void settings_of_version_1_change_specs_of_version_2(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("position.kind=alibi", "embed_scale=3")));
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(qkv_stack_layer(&s.decoder, i)->attention.position.kind, QKV_POSITION_ALIBI);
    assert_true(s.decoder.embed.scale == 3 && s.decoder.embed.position.kind == QKV_POSITION_NONE);
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("position.kind=learned")));
    assert_int_equal(s.decoder.embed.position.kind, QKV_POSITION_LEARNED);
    assert_int_equal(s.decoder.kinds[0].attention.position.kind, QKV_POSITION_NONE);
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("position.kind=rope", "position.theta=7")));
    assert_true(s.decoder.kinds[1].attention.position.theta == 7);
    assert_ok(ctx, parse(&s, MIXED, SETTINGS("position.kind=none")));
    assert_int_equal(s.decoder.embed.position.kind, QKV_POSITION_NONE);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void what_is_wrong_with_kinds_is_named(void **state) {
    (void)state;
    static const struct {
        const char *setting, *sentence;
    } refusals[] = {
        {"decoder.pattern=[\"local\", \"globl\"]",
         "decoder.pattern has \"globl\", which is not a kind of decoder.kinds; they are: global, local"},
        {"decoder.pattern=[\"local\", \"global\", \"local\", \"local\"]",
         "decoder.pattern has 4 names, but decoder.layers is 6; it must have as many, or a number that divides them"},
        {"decoder.layers=5", "decoder.pattern has 3 names, but decoder.layers is 5;"},
        {"decoder.pattern=[\"local\"]", "decoder.pattern has no layer of the kind \"global\" of decoder.kinds;"},
        {"decoder.pattern=[]",
         "decoder.pattern is []; it must be a list of the names of kinds, [\"local\", \"global\"]"},
        {"decoder.pattern=[1, 2]", "decoder.pattern is [1,2]; it must be a list"},
        {"decoder.pattern=local", "decoder.pattern is \"local\"; it must be a list"},
        {"decoder.pattern=null", "decoder.pattern is null; it must be a list"},
        {"decoder.kinds=null", "decoder.kinds is null; it must be an object of 1 to 8 kinds of layers"},
        {"decoder.kinds={}", "decoder.kinds has 0 kinds of layers; it must have 1 to 8"},
        {"decoder.kinds={\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"f\":{},\"g\":{},\"h\":{},\"i\":{}}",
         "decoder.kinds has 9 kinds of layers; it must have 1 to 8"},
        {"decoder.kinds.third.ffn.d_ff=3", "decoder.pattern has no layer of the kind \"third\" of decoder.kinds;"},
        {"decoder.kinds.a+b.ffn.d_ff=3",
         "decoder.kinds has a kind called \"a+b\"; a name must be 1 to 31 letters, digits, _ or -"},
        {"decoder.kinds.a_name_that_is_longer_than_31_xy.ffn.d_ff=3",
         "decoder.kinds has a kind called \"a_name_that_is_longer_than_31_xy"},
        {"decoder.kinds.local=5", "decoder.kinds.local is not an object; a kind is one"},
        {"decoder.kinds.local.layers=5", "unknown key decoder.kinds.local.layers;"},
        {"decoder.kinds.local.attention.windw=5",
         "unknown key decoder.kinds.local.attention.windw; did you mean window?"},
        {"decoder.attention.windw=5", "unknown key decoder.attention.windw; did you mean window?"},
        {"decoder.kinds.local.attention.window=-5",
         "decoder.kinds.local.attention.window is -5; it must be a whole number"},
        {"decoder.attention.window=-5", "decoder.attention.window is -5; it must be a whole number"},
        {"decoder.kinds.local.attention.heads=5",
         "decoder.kinds.local.attention.heads is 5, which does not divide d_model 32"},
        {"decoder.kinds.local.attention.kv_heads=3",
         "decoder.kinds.local.attention.kv_heads is 3, which does not divide heads 4"},
        {"decoder.kinds.local.attention.position.fraction=0.1",
         "decoder.kinds.local.attention.position.fraction is 0.1, which rotates none of the 8 channels of "
         "decoder.kinds.local.attention.head_dim"},
        {"decoder.kinds.local.attention.position.kind=learned",
         "decoder.kinds.local.attention.position.kind is \"learned\"; it must be one of none, rope, alibi, buckets, "
         "relative"},
        {"decoder.kinds.local.attention.position.kind=\"\"",
         "position.kind is \"\"; it must be one of none, rope, alibi, buckets, relative"},
        {"decoder.kinds.global.attention.position.theta=3",
         "decoder.kinds.global.attention.position.theta is 3, but only position.kind rope has one"},
        {"decoder.kinds.local.norm.final=false",
         "decoder.kinds.local.norm.final is false, but only the kind of the last layer has one"},
        {"decoder.kinds.local.cross.heads=2",
         "decoder.kinds.local.cross is given, but only a decoder beside an encoder"},
        {"decoder.kinds.local.norm={\"kind\": \"rmsnorm\", \"bias\": true}",
         "decoder.kinds.local.norm.bias is true, but"},
        {"embed.position.kind=rope", "embed.position.kind is \"rope\"; it must be one of none, sinusoidal, learned"},
        {"embed.scale=0", "embed.scale is 0; it must be a number other than 0"},
        {"embed.position.theta=4", "unknown key embed.position.theta;"},
        {"version=1", "is a key of version 2, but version is 1; write \"version\": 2"},
        {"version=3", "version is 3; a spec that this program reads has \"version\": 1 or 2"},
    };
    OWNED_SPEC struct qkv_spec s = {0};
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        if (parse(&s, MIXED, &refusals[i].setting, 1) == QKV_OK) fail_msg("%s was accepted", refusals[i].setting);
        assert_message(ctx, refusals[i].sentence);
        assert_message(ctx, "my.json");
    }
}

static void files_have_the_keys_of_their_version(void **state) {
    (void)state;
    static const struct {
        const char *json, *sentence;
    } refusals[] = {
        {"{" HEAD "\"position\": {\"kind\": \"rope\"}, \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}",
         "position is a key of version 1, but version is 2, which has embed.position or the attention's position "
         "instead"},
        {"{" HEAD "\"embed_scale\": 2, \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}",
         "embed_scale is a key of version 1, but version is 2, which has embed.scale instead"},
        {"{\"format\": \"qkv\", \"version\": 1, \"vocab\": 9, \"d_model\": 8, \"context\": 4, \"decoder\": "
         "{\"layers\": 1, "
         "\"attention\": {\"heads\": 4, \"position\": {\"kind\": \"rope\"}}}}",
         "decoder.attention.position is a key of version 2, but version is 1; write \"version\": 2"},
        {"{\"format\": \"qkv\", \"version\": 1, \"vocab\": 9, \"d_model\": 8, \"context\": 4, \"decoder\": "
         "{\"layers\": 1, "
         "\"attention\": {\"heads\": 4}, \"kinds\": {}}}",
         "decoder.kinds is a key of version 2, but version is 1"},
        {"{" HEAD "\"decoder\": {\"layers\": 3, " ATTENTION ", " PATTERN "}}", "decoder.kinds is missing;"},
        {"{" HEAD "\"decoder\": {\"layers\": 3, " ATTENTION ", " KINDS "}}",
         "decoder.pattern is missing; it must be a list"},
        {"{" HEAD "\"decoder\": {\"layers\": 3, \"attention\": 5, " KINDS ", " PATTERN "}}",
         "decoder.attention is 5; it must be an object"},
        {"{" HEAD "\"decoder\": {\"layers\": 3, " KINDS ", " PATTERN "}}",
         "decoder.kinds.local.attention.heads is missing; it must be a whole number"},
        {"{" HEAD "\"decoder\": {\"layers\": 2, " ATTENTION
         ", \"kinds\": {\"a\": {}, \"a\": {}}, \"pattern\": [\"a\"]}}",
         "\"a\""},
    };
    OWNED_SPEC struct qkv_spec s = {0};
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        if (parse(&s, refusals[i].json, NULL, 0) == QKV_OK) fail_msg("accepted: %s", refusals[i].json);
        assert_message(ctx, refusals[i].sentence);
    }
}

static void a_setting_that_no_kind_uses_is_refused(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    const char *both[] = {"decoder.kinds.global.attention.window=3", "decoder.attention.window=4"};
    assert_status(ctx, parse(&s, MIXED, both, 2), QKV_SPEC);
    assert_message(ctx,
                   "setting \"decoder.attention.window=4\" has no effect, as every kind of decoder.kinds has its own");
    assert_message(ctx, "set it in a kind, decoder.kinds.local.attention.window");
    assert_status(
        ctx,
        parse(&s, MIXED,
              SETTINGS("decoder.kinds.local.attention.position.kind=alibi", "decoder.attention.position.theta=4")),
        QKV_SPEC);
    assert_message(ctx, "setting \"decoder.attention.position.theta=4\" has no effect");
    bool idle[2];
    char path[] = "/tmp/qkv_kinds_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, MIXED, strlen(MIXED)) == (ssize_t)strlen(MIXED) && !close(file));
    struct qkv_settings settings = {.items = both, .count = 2, .idle = idle};
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_vary(ctx, &s, NULL, path, &settings));
    assert_true(!idle[0] && idle[1]);
    unlink(path);
}

/* A setting beside the kinds that is part of an object which only some kinds have changes those kinds; the others
 * get no half object. */
static void settings_reach_only_the_kinds_that_have_the_object(void **state) {
    (void)state;
    const char *json = "{" HEAD "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}, \"ffn\": {\"d_ff\": 8}, "
                       "\"kinds\": {\"dense\": {}, \"mixed\": {\"ffn\": {\"experts\": {\"count\": 8, \"groups\": 4, "
                       "\"top_k\": 2, \"top_groups\": 2}}}}, \"pattern\": [\"dense\", \"mixed\"]}}";
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, json, SETTINGS("decoder.ffn.experts.z_loss=0.5")));
    assert_false(s.decoder.kinds[0].ffn.experts.given);
    assert_true(s.decoder.kinds[1].ffn.experts.given && s.decoder.kinds[1].ffn.experts.z_loss == 0.5);
    assert_status(ctx, parse(&s, json, SETTINGS("decoder.ffn.experts.groups=3")), QKV_SPEC);
    assert_message(ctx, "setting \"decoder.ffn.experts.groups=3\" has no effect");
    assert_message(ctx, "set it in a kind, decoder.kinds.mixed.ffn.experts.groups");
    assert_status(ctx, parse(&s, json, SETTINGS("decoder.kinds.mixed.ffn.experts.groups=3")), QKV_SPEC);
    assert_message(ctx, "decoder.kinds.mixed.ffn.experts.groups is 3, which does not divide the count of 8");
    assert_status(ctx, parse(&s, json, SETTINGS("decoder.kinds.dense.ffn.experts.groups=3")), QKV_SPEC);
    assert_message(ctx, "decoder.kinds.dense.ffn.experts.count is missing");
    assert_ok(ctx, parse(&s, json, SETTINGS("decoder.ffn.experts.count=2")));
    assert_true(s.decoder.kinds[0].ffn.experts.given && s.decoder.kinds[0].ffn.experts.count == 2);
}

static void settings_of_kinds_are_checked_without_a_spec(void **state) {
    (void)state;
    assert_ok(ctx, qkv_spec_check_settings(ctx, SETTINGS("decoder.kinds.x.attention.window=3",
                                                         "decoder.pattern=[\"x\"]", "embed.scale=2")));
    static const char *const wrong[] = {"decoder.kinds.x.attention.window=-3", "decoder.kinds.x.window=3",
                                        "decoder.kinds.x y.ffn.d_ff=2", "decoder.pattern=[3]"};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        assert_status(ctx, qkv_spec_check_settings(ctx, &wrong[i], 1), QKV_SPEC);
        assert_message(ctx, wrong[i]);
    }
}

/* ---- the versions mean the same --------------------------------------------------------------------------------- */

static void put(json_t *object, const char *key, json_t *value) {
    assert_int_equal(json_object_set_new(object, key, value), 0);
}

/* A stack of version 1 as one of version 2 with two kinds that say the same. */
static void rewrite_stack(json_t *stack, json_t *position) {
    static const char *const parts[] = {"attention", "cross", "norm", "ffn"};
    if (!json_is_object(stack)) return;
    json_t *kinds = json_object(), *one = json_object();
    if (position) put(json_object_get(stack, "attention"), "position", json_deep_copy(position));
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        json_t *part = json_object_get(stack, parts[i]);
        if (part) put(one, parts[i], json_deep_copy(part));
        json_object_del(stack, parts[i]);
    }
    bool many = json_integer_value(json_object_get(stack, "layers")) % 2 == 0;
    put(kinds, "one", json_deep_copy(one));
    if (many) put(kinds, "two", json_deep_copy(one));
    put(stack, "kinds", kinds);
    put(stack, "pattern", many ? json_pack("[s, s]", "one", "two") : json_pack("[s]", "one"));
    json_decref(one);
}

static char *rewrite(const char *path) {
    json_t *root = json_load_file(path, 0, NULL), *position, *embed = json_object();
    assert_non_null(root);
    position = json_object_get(root, "position");
    const char *kind = json_string_value(json_object_get(position, "kind"));
    bool attention = kind && (!strcmp(kind, "rope") || !strcmp(kind, "alibi"));
    rewrite_stack(json_object_get(root, "encoder"), attention ? position : NULL);
    rewrite_stack(json_object_get(root, "decoder"), attention ? position : NULL);
    if (kind && !attention) put(embed, "position", json_pack("{s:s}", "kind", kind));
    if (json_object_get(root, "embed_scale")) put(embed, "scale", json_deep_copy(json_object_get(root, "embed_scale")));
    put(root, "embed", embed);
    put(root, "version", json_integer(2));
    json_object_del(root, "position");
    json_object_del(root, "embed_scale");
    char *text = json_dumps(root, 0);
    json_decref(root);
    return text;
}

static void expect_same_weights_and_outputs(const struct qkv_spec *a, const struct qkv_spec *b) {
    struct qkv_model *models[2];
    const struct qkv_spec *specs[2] = {a, b};
    struct qkv_pass *passes[2];
    int32_t ids[12];
    for (size_t i = 0; i < 12; i++) ids[i] = (int32_t)(i * 5 % 13);
    struct qkv_batch batch = {.B = 2, .T = 6, .ids = ids, .source = ids, .source_T = 6};
    struct qkv_pass_options o = {.size = sizeof o, .B = 2, .T = 6, .source_T = 6, .logits = true};
    for (size_t i = 0; i < 2; i++) {
        assert_ok(ctx, qkv_model_create(ctx, specs[i], 3, &models[i]));
        assert_ok(ctx, qkv_pass_create(models[i], &o, &passes[i]));
        assert_ok(ctx, qkv_pass_forward(passes[i], &batch));
    }
    assert_int_equal(qkv_model_parameters(models[0]), qkv_model_parameters(models[1]));
    for (size_t i = 0; i < qkv_model_parameters(models[0]); i++) {
        const struct qkv_array *x = qkv_model_parameter(models[0], i), *y = qkv_model_parameter(models[1], i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    struct qkv_array x = qkv_pass_output(passes[0]), y = qkv_pass_output(passes[1]);
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, x.bytes);
    for (size_t i = 0; i < 2; i++) {
        qkv_pass_free(passes[i]);
        qkv_model_free(models[i]);
    }
}

static void golden_folders_written_as_version_2_are_the_same_models(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob(TEST_SOURCE_DIR "/tests/golden/*/config.json", 0, NULL, &found), 0);
    size_t old = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        OWNED_SPEC struct qkv_spec one = {0}, two = {0};
        char first[QKV_DIGEST_TEXT], second[QKV_DIGEST_TEXT], *json;
        assert_ok(ctx, qkv_spec_read(ctx, &one, found.gl_pathv[i], NULL, 0));
        json_t *root = json_load_file(found.gl_pathv[i], 0, NULL);
        const bool first_version = json_integer_value(json_object_get(root, "version")) == 1;
        json_decref(root);
        if (!first_version) continue;
        old++;
        json = rewrite(found.gl_pathv[i]);
        assert_ok(ctx, parse(&two, json, NULL, 0));
        assert_ok(ctx, qkv_spec_digest(ctx, &one, first));
        assert_ok(ctx, qkv_spec_digest(ctx, &two, second));
        assert_string_equal(first, second);
        expect_same_weights_and_outputs(&one, &two);
        free(json);
    }
    assert_true(old >= 14);
    globfree(&found);
}

/* ---- digests ---------------------------------------------------------------------------------------------------- */

static void digest_of(const char *json, const char *const *settings, size_t count, char digest[QKV_DIGEST_TEXT]) {
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, json, settings, count));
    assert_ok(ctx, qkv_spec_digest(ctx, &s, digest));
}

static void names_of_kinds_are_not_in_a_digest_but_what_they_say_is(void **state) {
    (void)state;
    char first[QKV_DIGEST_TEXT], other[QKV_DIGEST_TEXT];
    digest_of(MIXED, NULL, 0, first);
    digest_of("{" HEAD "\"embed\": {\"scale\": 2}, \"decoder\": {\"layers\": 6, \"attention\": {\"heads\": 4}, "
              "\"pattern\": [\"x\", \"y\", \"z\", \"y\", \"x\", \"z\"], \"ffn\": {\"kind\": \"geglu\"}, \"kinds\": {"
              "\"x\": {\"attention\": {\"window\": 8, \"position\": {\"kind\": \"rope\", \"theta\": 500}}}, "
              "\"y\": {\"attention\": {\"window\": 8, \"position\": {\"kind\": \"rope\", \"theta\": 500}}}, "
              "\"z\": {\"attention\": {\"kv_heads\": 1}, \"ffn\": {\"kind\": \"relu\", \"d_ff\": 48}}}}}",
              NULL, 0, other);
    assert_string_equal(first, other);
    static const char *const changes[] = {"decoder.kinds.local.attention.window=7",
                                          "decoder.kinds.global.ffn.kind=gelu",
                                          "decoder.pattern=[\"local\", \"global\", \"local\"]",
                                          "decoder.attention.position.theta=501",
                                          "embed.position.kind=learned",
                                          "decoder.norm.final=false"};
    for (size_t i = 0; i < TEST_COUNT(changes); i++) {
        digest_of(MIXED, &changes[i], 1, other);
        assert_string_not_equal(first, other);
    }
}

/* docs/digests.md carried out by hand, with an FNV-1a of the test's own. */
static void a_digest_of_version_2_is_the_hash_of_its_canonical_form(void **state) {
    (void)state;
    static const char json[] = "{" HEAD "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4}, \"norm\": "
                               "{\"eps\": 0.25}, \"ffn\": {\"d_ff\": 8}, "
                               "\"kinds\": {\"p\": {\"attention\": {\"position\": {\"kind\": \"alibi\"}}}, \"q\": {}}, "
                               "\"pattern\": [\"p\", \"q\"]}}";
#define KIND(n, position, final)                                                                                       \
    "decoder.kinds." n ".attention.bias=true\ndecoder.kinds." n ".attention.causal=true\ndecoder.kinds." n             \
    ".attention.head_dim=8\ndecoder.kinds." n ".attention.heads=4\ndecoder.kinds." n                                   \
    ".attention.kv_heads=4\ndecoder.kinds." n ".attention.position.kind=" position "\ndecoder.kinds." n                \
    ".attention.scale=0000000000000000\ndecoder.kinds." n ".attention.softcap=0000000000000000\ndecoder.kinds." n      \
    ".attention.value_dim=8\ndecoder.kinds." n ".attention.window=0\ndecoder.kinds." n                                 \
    ".ffn.bias=true\ndecoder.kinds." n ".ffn.d_ff=8\ndecoder.kinds." n ".ffn.kind=gelu\ndecoder.kinds." n              \
    ".norm.bias=true\ndecoder.kinds." n ".norm.eps=3fd0000000000000\n" final "decoder.kinds." n                        \
    ".norm.kind=layernorm\ndecoder.kinds." n ".norm.placement=pre\n"
    static const char canonical[] = "qkv spec 2\ncontext=64\nd_model=32\n" KIND("0", "alibi", "")
        KIND("1", "none", "decoder.kinds.1.norm.final=true\n") "decoder.layers=2\ndecoder.pattern=0,1\n"
                                                               "dropout=0000000000000000\nembed.position.kind=none\n"
                                                               "embed.scale=3ff0000000000000\nhead.bias=false\n"
                                                               "head.kind=lm\ntie=head\nvocab=40\n";
    uint64_t hash = 14695981039346656037u;
    for (const char *c = canonical; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    char expected[32], digest[QKV_DIGEST_TEXT];
    snprintf(expected, sizeof expected, "%016llx", (unsigned long long)hash);
    digest_of(json, NULL, 0, digest);
    assert_string_equal(digest, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_repeated_over_the_layers),
        cmocka_unit_test(a_kind_has_what_stands_beside_the_kinds_but_for_its_own),
        cmocka_unit_test(positions_are_learned_where_no_attention_has_one),
        cmocka_unit_test(settings_reach_a_kind_and_all_kinds),
        cmocka_unit_test(settings_make_kinds_of_a_spec_of_version_1),
        cmocka_unit_test(settings_of_version_1_change_specs_of_version_2),
        cmocka_unit_test(what_is_wrong_with_kinds_is_named),
        cmocka_unit_test(files_have_the_keys_of_their_version),
        cmocka_unit_test(a_setting_that_no_kind_uses_is_refused),
        cmocka_unit_test(settings_reach_only_the_kinds_that_have_the_object),
        cmocka_unit_test(settings_of_kinds_are_checked_without_a_spec),
        cmocka_unit_test(golden_folders_written_as_version_2_are_the_same_models),
        cmocka_unit_test(names_of_kinds_are_not_in_a_digest_but_what_they_say_is),
        cmocka_unit_test(a_digest_of_version_2_is_the_hash_of_its_canonical_form),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
