/* test_spec_refusals: each bad value, unknown key, bad file and bad struct of a spec with its message. */
/* labels: quick */
#include "model/spec.h"
#include "context_fixture.h"

#define HEAD "\"format\": \"qkv\", \"version\": 1, "
#define GPT                                                                                                            \
    "{" HEAD "\"vocab\": 100, \"d_model\": 384, \"context\": 32, \"decoder\": {\"layers\": 2, \"attention\": "         \
    "{\"heads\": 6}}}"
#define SEQ2SEQ                                                                                                        \
    "{" HEAD "\"vocab\": 100, \"source_vocab\": 80, \"d_model\": 32, \"context\": 32, \"encoder\": {\"layers\": 1, "   \
    "\"attention\": {\"heads\": 4, \"window\": 5}}, \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, "       \
    "\"kv_heads\": 2, \"head_dim\": 6, \"softcap\": 3.5, \"window\": 7, \"bias\": \"qkv\"}}}"

static enum qkv_status parse(struct qkv_spec *spec, const char *json, const char *const *settings, size_t count) {
    qkv_spec_free(spec);
    return qkv_spec_parse(ctx, spec, "my.json", json, strlen(json), settings, count);
}

#define SETTINGS(...)                                                                                                  \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

/* ---- values ----------------------------------------------------------------------------------------------------- */

struct refusal {
    const char *setting, *sentence;
};

static void refuse_all(const char *json, const struct refusal *refusals, size_t count) {
    OWNED_SPEC struct qkv_spec s = {0}, zero = {0};
    memset(&zero, 0, sizeof zero);
    for (size_t i = 0; i < count; i++) {
        enum qkv_status status = parse(&s, json, &refusals[i].setting, 1);
        if (status == QKV_OK) fail_msg("%s was accepted", refusals[i].setting);
        assert_message(ctx, refusals[i].sentence);
        assert_message(ctx, "my.json");
        assert_memory_equal(&s, &zero, sizeof s);
    }
}

static void test_bad_values(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"format=gguf", "format is \"gguf\"; a spec that this program reads has \"format\": \"qkv\""},
        {"version=3", "version is 3; a spec that this program reads has \"version\": 1 or 2"},
        {"version=1.0", "version is 1.0;"},
        {"vocab=0", "vocab is 0; it must be a whole number from 1 to 16777216"},
        {"vocab=-3", "vocab is -3;"},
        {"vocab=16777217", "vocab is 16777217;"},
        {"vocab=99999999999999999999", "vocab is \"99999999999999999999\"; it must be a whole number"},
        {"vocab=9223372036854775807", "vocab is 9223372036854775807;"},
        {"vocab=", "vocab is \"\";"},
        {"vocab=[1,2]", "vocab is [1,2];"},
        {"vocab=null", "vocab is null;"},
        {"d_model=384.0", "d_model is 384.0; it must be a whole number from 1 to 1048576"},
        {"d_model=0", "d_model is 0;"},
        {"d_model=1048577", "d_model is 1048577;"},
        {"d_model=true", "d_model is true;"},
        {"context=0", "context is 0;"},
        {"context=16777217", "context is 16777217;"},
        {"source_vocab=99", "source_vocab is 99, but only an encoder beside a decoder has one; leave it out"},
        {"embed_scale=0", "embed_scale is 0; it must be a number other than 0"},
        {"embed_scale=1e300", "embed_scale is 1e300; it must be a number other than 0 (as a float: its size is from "},
        {"embed_scale=1e-300", "embed_scale is 1e-300;"},
        {"embed_scale=NaN", "embed_scale is \"NaN\";"},
        {"dropout=1", "dropout is 1; it must be a number from 0 to less than 1"},
        {"dropout=0.99999999999", "dropout is 0.99999999999;"},
        {"dropout=-0.1", "dropout is -0.1;"},
        {"position=rope", "position is \"rope\"; it must be an object, {\"kind\": ...}"},
        {"position=null", "position is null;"},
        {"position.kind=rotary",
         "position.kind is \"rotary\"; it must be one of none, sinusoidal, learned, rope, alibi, buckets, relative"},
        {"position.kind=3", "position.kind is 3;"},
        {"position.theta=0", "position.theta is 0; it must be a number greater than 0"},
        {"position.theta=-1", "position.theta is -1;"},
        {"position.fraction=0", "position.fraction is 0; it must be a number greater than 0 and at most 1"},
        {"position.fraction=1.5", "position.fraction is 1.5;"},
        {"position.pairing=both", "position.pairing is \"both\"; it must be one of half, interleaved"},
        {"position={\"kind\": \"rope\", \"fraction\": 0.03}",
         "position.fraction is 0.03, which rotates none of the 64 channels of decoder.attention.head_dim"},
        {"tie=yes", "tie is \"yes\"; it must be one of none, head, all"},
        {"tie=all", "tie is all, which needs an encoder beside a decoder"},
        {"head={\"kind\": \"none\", \"bias\": true}",
         "head.bias is true, but only a head of kind lm, classify or classify_tokens has one"},
        {"head.classes=3",
         "head.classes is 3, but only a head of kind classify or classify_tokens has one; leave it out"},
        {"head.pool=mean", "head.pool is \"mean\", but only a head of kind classify has one"},
        {"head={\"kind\": \"classify\", \"classes\": -1}",
         "head.classes is -1; it must be a whole number from 1 to 1048576"},
        {"head.bias=1", "head.bias is 1; it must be true or false"},
        {"decoder=null", "it has neither an encoder nor a decoder; give at least one"},
        {"decoder=4", "decoder is 4; it must be an object, {\"layers\": ...} or null"},
        {"decoder.layers=0", "decoder.layers is 0; it must be a whole number from 1 to 1000"},
        {"decoder.layers=1001", "decoder.layers is 1001;"},
        {"decoder={\"attention\": {\"heads\": 2}}", "decoder.layers is missing;"},
        {"decoder={\"layers\": 2}", "decoder.attention.heads is missing;"},
        {"decoder.attention.heads=7",
         "decoder.attention.heads is 7, which does not divide d_model 384 (give head_dim, or choose 6 or 8)"},
        {"decoder.attention.heads=0", "decoder.attention.heads is 0;"},
        {"decoder.attention.kv_heads=4",
         "decoder.attention.kv_heads is 4, which does not divide heads 6 (choose 3 or 6)"},
        {"decoder.attention.kv_heads=12", "kv_heads is 12, which does not divide heads 6 (choose 6)"},
        {"decoder.attention.head_dim=0", "decoder.attention.head_dim is 0;"},
        {"decoder.attention.head_dim=1048576",
         "decoder.attention.heads × head_dim is 6 × 1048576; together they may be "},
        {"decoder.attention.value_dim=1048576", "decoder.attention.heads × value_dim is 6 × 1048576;"},
        {"decoder.attention.causal=0", "decoder.attention.causal is 0; it must be true or false"},
        {"decoder.attention.window=-1", "decoder.attention.window is -1;"},
        {"decoder.attention.window=2.0",
         "decoder.attention.window is 2.0; it must be a whole number from 0 to 2147483647"},
        {"decoder.attention.window=2147483648", "decoder.attention.window is 2147483648;"},
        {"decoder.attention.window_right=-1",
         "decoder.attention.window_right is -1; it must be a whole number from 0 to 2147483647"},
        {"decoder.attention.window_right=2",
         "decoder.attention.window_right is 2, but causal is true: no query sees a key to its right (leave it out, or "
         "set causal to false)"},
        {"decoder.attention.qk_norm.over=\"all\"",
         "decoder.attention.qk_norm.over is \"all\"; it must be one of head, heads, width"},
        {"decoder.attention.qk_norm={\"kind\": \"rmsnorm\", \"bias\": true}",
         "decoder.attention.qk_norm.bias is true, but an rmsnorm has no bias"},
        {"decoder.attention.qk_norm=true", "decoder.attention.qk_norm is true; it must be an object,"},
        {"decoder.attention.clip=-0.5", "decoder.attention.clip is -0.5; it must be a number greater than 0, or 0"},
        {"decoder.attention.bias=\"ov\"",
         "decoder.attention.bias is \"ov\"; it must be one of false, true, qkv, o, q,"},
        {"decoder.attention.softcap=-1", "decoder.attention.softcap is -1;"},
        {"decoder.attention.softcap=1e-60", "decoder.attention.softcap is 1e-60;"},
        {"decoder.attention.softcap=1e-40", "decoder.attention.softcap is 1e-40;"},
        {"decoder.attention.scale=0", "scale is 0; it must be a number greater than 0, or null for 1/sqrt(head_dim)"},
        {"decoder.attention.bias=xv", "decoder.attention.bias is \"xv\"; it must be one of false, true, qkv"},
        {"decoder.attention.bias=\"true\"", "decoder.attention.bias is \"true\";"},
        {"decoder.cross.heads=2", "decoder.cross is given, but only a decoder beside an encoder has one; leave it out"},
        {"decoder.norm.kind=batchnorm", "decoder.norm.kind is \"batchnorm\"; it must be one of layernorm, rmsnorm, "
                                        "rmsnorm_plus_one"},
        {"decoder.norm.eps=0", "decoder.norm.eps is 0; it must be a number greater than 0"},
        {"decoder.norm.eps=1e-60", "decoder.norm.eps is 1e-60;"},
        {"decoder.norm={\"kind\": \"rmsnorm\", \"bias\": true}",
         "decoder.norm.bias is true, but an rmsnorm has no bias"},
        {"decoder.norm={\"kind\": \"rmsnorm_plus_one\", \"bias\": true}",
         "decoder.norm.bias is true, but an rmsnorm has no bias"},
        {"decoder.norm={\"weight\": false, \"bias\": true}",
         "decoder.norm.bias is true, but decoder.norm.weight is false: a bare norm has neither"},
        {"decoder.norm.weight=1", "decoder.norm.weight is 1; it must be true or false"},
        {"decoder.ffn.kind=relux",
         "decoder.ffn.kind is \"relux\"; it must be one of relu, gelu, gelu_tanh, silu, tanh, swiglu, geglu, "
         "quick_gelu, relu2, reglu, relu2_glu, geglu_tanh, quick_geglu, swiglu_clamped, "
         "tanh_glu"},
        {"decoder.ffn.limit=7", "decoder.ffn.limit is 7, but only ffn.kind swiglu_clamped has one; leave it out"},
        {"decoder.ffn={\"kind\": \"swiglu_clamped\", \"limit\": 0}",
         "decoder.ffn.limit is 0; it must be a number greater than 0"},
        {"decoder.ffn.d_ff=0", "decoder.ffn.d_ff is 0;"},
        {"decoder.ffn.bias=null", "decoder.ffn.bias is null;"},
    };
    refuse_all(GPT, refusals, TEST_COUNT(refusals));
}

static void test_bad_values_of_two_stacks(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"tie=all", "tie is all, but source_vocab is 80 and vocab is 100; one embedding needs them to be equal"},
        {"head={\"kind\": \"classify\", \"classes\": 2}",
         "head.kind is classify, which needs an encoder or a decoder alone"},
        {"encoder.cross={}", "encoder.cross is given, but only a decoder beside an encoder has one"},
        {"encoder=null", "source_vocab is 80, but only an encoder beside a decoder has one"},
        {"encoder.attention.heads=3", "encoder.attention.heads is 3, which does not divide d_model 32"},
        {"decoder.cross.heads=5", "decoder.cross.heads is 5, which does not divide d_model 32"},
        {"decoder.cross.kv_heads=3", "decoder.cross.kv_heads is 3, which does not divide heads 4 (choose 2 or 4)"},
        {"encoder.norm={\"kind\": \"rmsnorm\", \"bias\": true}", "encoder.norm.bias is true"},
        {"source_vocab=0", "source_vocab is 0;"},
    };
    refuse_all(SEQ2SEQ, refusals, TEST_COUNT(refusals));
}

/* A key without effect may be in a file, but must not be set. */
static void settings_without_effect_are_refused(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"position.theta=500", "my.json, set by position.theta=500: position.theta is 500, but only position.kind rope "
                               "has one; leave it out"},
        {"position.theta=10000", "position.theta is 10000, but only position.kind rope has one"},
        {"position.pairing=interleaved", "position.pairing is \"interleaved\", but only position.kind rope has one"},
        {"position.fraction=0.5", "position.fraction is 0.5, but only position.kind rope has one"},
        {"position={\"kind\": \"alibi\", \"theta\": 5}", "position.theta is 5, but only position.kind rope has one"},
        {"head.pool=first", "head.pool is \"first\", but only a head of kind classify has one"},
        {"source_vocab=100", "source_vocab is 100, but only an encoder beside a decoder has one"},
    };
    OWNED_SPEC struct qkv_spec s = {0};
    refuse_all(GPT, refusals, TEST_COUNT(refusals));
    assert_ok(ctx, parse(&s, GPT, SETTINGS("position.kind=rope", "position.theta=500")));
    assert_true(s.decoder.kinds[0].attention.position.theta == 500);
    static const char file[] =
        "{" HEAD "\"vocab\": 100, \"d_model\": 32, \"context\": 32, \"source_vocab\": 100, "
        "\"position\": {\"kind\": \"learned\", \"theta\": 500}, \"head\": {\"pool\": \"first\"}, "
        "\"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 2}}}";
    assert_ok(ctx, parse(&s, file, NULL, 0));
    assert_true(s.decoder.kinds[0].attention.position.theta == 10000);
    assert_ok(ctx, parse(&s, file, SETTINGS("position.kind=none"))); /* not the setting, but the file has a theta */
}

static void a_setting_that_a_later_one_replaces_is_refused(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_status(ctx, parse(&s, GPT, SETTINGS("decoder.layers=3", "tie=none", "decoder.layers=4")), QKV_ARGUMENT);
    assert_message(ctx, "setting \"decoder.layers=3\" has no effect, as \"decoder.layers=4\" comes after it");
    assert_status(ctx, parse(&s, GPT, SETTINGS("position.theta=3", "position={\"kind\": \"rope\"}")), QKV_ARGUMENT);
    assert_ok(ctx, parse(&s, GPT, SETTINGS("position={\"kind\": \"rope\"}", "position.theta=3")));
    assert_true(s.decoder.kinds[0].attention.position.theta == 3);
}

static void settings_are_checked_without_a_spec(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"decoder", "setting \"decoder\" has no ="},
        {"decoder.layer=3", "setting \"decoder.layer=3\": unknown key decoder.layer; did you mean layers?"},
        {"decoder.layers=0",
         "setting \"decoder.layers=0\": decoder.layers is 0; it must be a whole number from 1 to 1000"},
        {"decoder.layers=five", "decoder.layers is \"five\""},
        {"position.kind=rotary", "it must be one of none, sinusoidal, learned, rope, alibi, buckets, relative"},
        {"decoder={\"layers\": 2, \"heads\": 3}", "unknown key decoder.heads; did you mean decoder.attention.heads?"},
        {"decoder=3", "decoder is 3; it must be an object, {\"layers\": ...} or null"},
        {"position=null", "position is null"},
        {"version=0", "version is 0"},
    };
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        if (qkv_spec_check_settings(ctx, &refusals[i].setting, 1) == QKV_OK)
            fail_msg("%s was accepted", refusals[i].setting);
        assert_message(ctx, refusals[i].sentence);
    }
    assert_ok(ctx, qkv_spec_check_settings(ctx, SETTINGS("decoder.attention.kv_heads=3", "encoder=null", "tie=all")));
    assert_status(ctx, qkv_spec_check_settings(ctx, SETTINGS("dropout=0.1", "dropout=0.2")), QKV_ARGUMENT);
}

static void settings_that_specs_share_are_told_where_they_do_nothing(void **state) {
    (void)state;
    bool idle[3] = {true, true, true};
    const char *const settings[] = {"position.theta=500", "decoder.layers=2", "decoder.layers=3"};
    struct qkv_settings shared = {settings, 3, idle};
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, qkv_spec_vary(ctx, &s, "nano-gpt", NULL, &shared));
    assert_true(idle[0] && idle[1] && !idle[2] && s.decoder.layers == 3);
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_vary(ctx, &s, "llama-style", NULL, &shared));
    assert_true(!idle[0] && idle[1] && !idle[2] && s.decoder.kinds[0].attention.position.theta == 500);
    shared.idle = NULL;
    qkv_spec_free(&s);
    assert_status(ctx, qkv_spec_vary(ctx, &s, "nano-gpt", NULL, &shared), QKV_ARGUMENT);
    qkv_spec_free(&s);
    assert_status(ctx, qkv_spec_vary(ctx, &s, "mini-gpt", NULL, &shared), QKV_ARGUMENT);
    assert_message(ctx, "\"mini-gpt\" is not a preset; presets are nano-gpt");
    qkv_spec_free(&s);
    assert_status(ctx, qkv_spec_vary(ctx, &s, NULL, test_path("none.json"), &shared), QKV_FILE);
}

static void test_unknown_keys(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"decoder.attention.head=4", "unknown key decoder.attention.head; did you mean heads?"},
        {"decoder.attention.head_count=4", "unknown key decoder.attention.head_count;"},
        {"decoder.attention.kvheads=4",
         "did you mean kv_heads? known here: heads, kv_heads, head_dim, value_dim, causal"},
        {"n_layer=4", "unknown key n_layer; known here: format, version, vocab, d_model"},
        {"dmodel=4", "unknown key dmodel; did you mean d_model?"},
        {"heads=4", "unknown key heads; did you mean decoder.attention.heads?"},
        {"attention.dropout=0.1", "unknown key attention; did you mean decoder.attention?"},
        {"attention=0.1", "unknown key attention; did you mean decoder.norm.attention?"},
        {"theta=4", "unknown key theta; did you mean position.theta?"},
        {"decoder.ffn.hidden.size=4", "unknown key decoder.ffn.hidden;"},
        {"=4", "names no key"},
        {"decoder..layers=4", "names no key"},
        {"decoder.=4", "names no key"},
        {"a.b.c.d.e.f.g.h.i.j=4", "names no key"},
        {"d_model.x=4", "cannot set \"d_model.x=4\": d_model is not an object"},
        {"decoder.layers.x=4", "layers is not an object"},
    };
    OWNED_SPEC struct qkv_spec s = {0};
    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        if (parse(&s, GPT, &refusals[i].setting, 1) == QKV_OK) fail_msg("%s was accepted", refusals[i].setting);
        assert_message(ctx, refusals[i].sentence);
    }
    assert_status(ctx, parse(&s, GPT, SETTINGS("decoder")), QKV_ARGUMENT);
    assert_message(ctx, "setting \"decoder\" has no =; write KEY=VALUE");
    assert_status(ctx, parse(&s, GPT, SETTINGS("tie=\xff")), QKV_ARGUMENT);
    assert_status(ctx, parse(&s, GPT, SETTINGS("dropout=0.5", "decoder.layers=-3")), QKV_SPEC);
    assert_message(ctx, "my.json, set by decoder.layers=-3: decoder.layers is -3");
    char *name = malloc(5001), json[6000];
    memset(name, 'x', 5000), name[5000] = 0;
    snprintf(json, sizeof json, "{" HEAD "\"%s\": 1}", name);
    assert_status(ctx, parse(&s, json, NULL, 0), QKV_SPEC);
    assert_message(ctx, "unknown key xxxxxxxx");
    free(name);
}

static void test_bad_files(void **state) {
    (void)state;
    static const struct {
        const char *json, *sentence;
        enum qkv_status status;
    } cases[] = {
        {"", "my.json is empty", QKV_FORMAT},
        {"{\"format\": \"qkv\",\n  oops}", "my.json is not valid JSON: line 2", QKV_FORMAT},
        {"[1]", "my.json is not a spec: it must be a JSON object", QKV_FORMAT},
        {"3", "my.json is not valid JSON", QKV_FORMAT},
        {GPT " x", "end of file expected", QKV_FORMAT},
        {"\xef\xbb\xbf{}", "my.json begins with a byte order mark (BOM); remove that", QKV_FORMAT},
        {"\xff\xfe{", "byte order mark (BOM) of UTF-16", QKV_FORMAT},
        {"{\"a\": \"\\u0000\"}", "line 1, column 14: a text holds the character U+0000", QKV_FORMAT},
        {"{}", "format is missing; a spec that this program reads has \"format\": \"qkv\"", QKV_SPEC},
        {"{\"format\": \"qkv\"}", "version is missing; ", QKV_SPEC},
        {"{" HEAD "\"vocab\": 3}", "d_model is missing; it must be a whole number from 1 to 1048576", QKV_SPEC},
        {"{" HEAD "\"d_model\": 3}", "context is missing;", QKV_SPEC},
        {"{" HEAD "\"d_model\": 3, \"context\": 4}", "neither an encoder nor a decoder", QKV_SPEC},
        {"{" HEAD "\"d_model\": 3, \"d_model\": 4}", "duplicate object key", QKV_FORMAT},
    };
    OWNED_SPEC struct qkv_spec s = {0};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_status(ctx, parse(&s, cases[i].json, NULL, 0), cases[i].status);
        assert_message(ctx, cases[i].sentence);
    }
    qkv_spec_free(&s);
    assert_status(ctx, qkv_spec_read(ctx, &s, test_path("none.json"), NULL, 0), QKV_FILE);
    assert_message(ctx, "none.json");
    char *big = malloc(3 << 20);
    memset(big, ' ', 3 << 20);
    test_write_file(test_path("big.json"), big, 3 << 20);
    free(big);
    qkv_spec_free(&s);
    assert_status(ctx, qkv_spec_read(ctx, &s, test_path("big.json"), NULL, 0), QKV_FORMAT);
    assert_message(ctx, "big.json is not a spec: it has 3145728 bytes");
    test_write_file(test_path("empty.json"), "", 0);
    qkv_spec_free(&s);
    assert_status(ctx, qkv_spec_read(ctx, &s, test_path("empty.json"), NULL, 0), QKV_FORMAT);
    test_write_file(test_path("good.json"), GPT, strlen(GPT));
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_read(ctx, &s, test_path("good.json"), SETTINGS("decoder.layers=5")));
    assert_int_equal(s.decoder.layers, 5);
}

/* Structs that no file could make. */
static void test_check_by_hand(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec good = {0}, s = {0};
    char *json;
    assert_ok(ctx, parse(&good, GPT, NULL, 0));
    assert_ok(ctx, qkv_spec_check(ctx, &good));
#define REFUSE(change, sentence)                                                                                       \
    do {                                                                                                               \
        qkv_spec_free(&s);                                                                                             \
        assert_ok(ctx, qkv_spec_copy(ctx, &good, &s));                                                                 \
        assert_ok(ctx, qkv_stack_resize(ctx, &s.decoder, s.decoder.layers, 2)); /* room for another kind */            \
        s.decoder.kind_count = 1;                                                                                      \
        change;                                                                                                        \
        assert_status(ctx, qkv_spec_check(ctx, &s), QKV_SPEC);                                                         \
        assert_message(ctx, sentence);                                                                                 \
    } while (0)
    REFUSE(s.vocab = 0, "spec: vocab is not set; give it the size of the tokenizer's vocabulary");
    REFUSE(s.decoder.layers = -1, "decoder.layers is -1;");
    REFUSE(s.decoder.kinds[0].attention.kv_heads = -6, "decoder.attention.kv_heads is -6;");
    REFUSE(s.decoder.kinds[0].norm.eps = NAN, "decoder.norm.eps is nan;");
    REFUSE(s.decoder.embed.scale = INFINITY, "embed.scale is inf;");
    REFUSE(s.dropout = NAN, "dropout is nan;");
    REFUSE(s.decoder.kinds[0].attention.scale = -1, "decoder.attention.scale is -1;");
    REFUSE(s.decoder.kinds[0].attention.position.kind = (enum qkv_position_kind)99,
           "decoder.attention.position.kind is 99; it must be one of none, rope, alibi, buckets, relative");
    REFUSE(s.decoder.kinds[0].attention.position.kind = QKV_POSITION_LEARNED,
           "decoder.attention.position.kind is 2; it must be one of none, rope, alibi, buckets, relative");
    REFUSE(s.decoder.embed.position.kind = QKV_POSITION_ROPE,
           "embed.position.kind is 3; it must be one of none, sinusoidal,");
    REFUSE(s.decoder.kind_count = 0, "decoder.kind_count is 0; a stack has 1 to 8 kinds of layers");
    REFUSE(s.decoder.kind_count = 9, "decoder.kind_count is 9;");
    REFUSE(s.decoder.kind_of[1] = 1, "decoder.kind_of[1] is 1, but there are 1 kinds");
    REFUSE((s.decoder.kind_count = 2, s.decoder.kinds[1] = s.decoder.kinds[0]), "the name of decoder.kinds[0] is \"\"");
    REFUSE((s.decoder.kinds[1] = s.decoder.kinds[0], s.decoder.kind_count = 2, s.decoder.kinds[0].name[0] = 'a',
            s.decoder.kinds[1].name[0] = 'b'),
           "no layer is of decoder.kinds[1], \"b\"");
    REFUSE((s.decoder.kinds[0].name[0] = 'a', s.decoder.kinds[1] = s.decoder.kinds[0], s.decoder.kind_count = 2,
            s.decoder.kind_of[1] = 1),
           "two of decoder.kinds are called \"a\"");
    REFUSE(memset(s.decoder.kinds[0].name, 'a', QKV_KIND_NAME), "the name of decoder.kinds[0] is \"aaaa");
    REFUSE(s.head.kind = QKV_HEAD_NONE, "tie is head, but only a head of kind lm can use the embedding");
    REFUSE(s.encoder = s.decoder, "decoder.cross.heads is 0;");
#undef REFUSE
    s.encoder = (struct qkv_stack_spec){0}; /* it has the lists of the decoder */
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_copy(ctx, &good, &s));
    s.decoder.kinds[0].ffn.kind = QKV_FFN_COUNT;
    assert_status(ctx, qkv_spec_print(ctx, &s, &json), QKV_SPEC);
    assert_null(json);
    qkv_spec_free(&s);
    assert_ok(ctx, qkv_spec_copy(ctx, &good, &s));
    s.decoder.kinds[0].attention.position.theta = -1; /* without RoPE it means nothing */
    assert_ok(ctx, qkv_spec_check(ctx, &s));
}

#define LATENT(more) "decoder.attention={\"heads\": 6" more "}"

static void latents_are_refused_by_key_and_value(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {LATENT(", \"latent\": 3"), "decoder.attention.latent is 3; it must be an object"},
        {LATENT(", \"latent\": {\"rank\": 0}"),
         "decoder.attention.latent.rank is 0; it must be a whole number from 1 to"},
        {LATENT(", \"latent\": {\"ranks\": 4}"), "decoder.attention.latent.ranks"},
        {LATENT(", \"latent\": {\"eps\": 0}"), "decoder.attention.latent.eps is 0; it must be a number greater than 0"},
        {LATENT(", \"latent\": {\"rank\": 385}"),
         "decoder.attention.latent.rank is 385, wider than the model, whose d_model is 384 (choose at most 384)"},
        {LATENT(", \"latent\": {\"query_rank\": 400}"), "decoder.attention.latent.query_rank is 400, wider than the "
                                                        "model, whose d_model is 384 (choose at most 384, or 0"},
        {LATENT(", \"latent\": {\"rope_dim\": 64}"), "decoder.attention.latent.rope_dim is 64, but a head has 64 "
                                                     "channels, of which one at least is made of the latent "
                                                     "(choose at most 63"},
        {LATENT(", \"kv_heads\": 2, \"latent\": {}"),
         "decoder.attention.kv_heads is 2, but with decoder.attention.latent each of the 6 heads has keys and values "
         "of its "
         "own (choose 6"},
        {LATENT(", \"qk_norm\": {}, \"latent\": {}"), "decoder.attention.qk_norm is given, but with"},
        {LATENT(", \"clip\": 2.5, \"latent\": {}"), "decoder.attention.clip is 2.5, but with"},
        {LATENT(", \"bias\": \"qv\", \"latent\": {}"), "decoder.attention.bias is one of keys or of values only"},
        {LATENT(", \"latent\": {\"rope_dim\": 1}, \"position\": {\"kind\": \"rope\"}"),
         "decoder.attention.latent.rope_dim is 1, but the position rope turns pairs of these channels (choose at least "
         "2"},
        {LATENT(", \"latent\": {\"rope_dim\": 4}, \"position\": {\"kind\": \"rope\", \"fraction\": 0.3}"),
         "which rotates none of the 4 channels of decoder.attention.latent.rope_dim"},
    };
    refuse_all("{\"format\": \"qkv\", \"version\": 2, \"vocab\": 100, \"d_model\": 384, \"context\": 32, \"decoder\": "
               "{\"layers\": 2, \"attention\": {\"heads\": 6}}}",
               refusals, TEST_COUNT(refusals));
    static const struct refusal crossed[] = {
        {"decoder.cross.latent={}", "decoder.cross.latent is given, but only self attention has one; leave it out"}};
    refuse_all(SEQ2SEQ, crossed, TEST_COUNT(crossed));
    OWNED_SPEC struct qkv_spec by_hand = {0};
    assert_ok(ctx, parse(&by_hand, SEQ2SEQ, NULL, 0));
    by_hand.decoder.kinds[0].cross.latent.given = true;
    assert_status(ctx, qkv_spec_check(ctx, &by_hand), QKV_SPEC);
    assert_message(ctx, "decoder.cross.latent is given, but only self attention has one");
}

#define EXPERTS                                                                                                        \
    "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 100, \"d_model\": 32, \"context\": 32, \"decoder\": "            \
    "{\"layers\": "                                                                                                    \
    "1, \"attention\": {\"heads\": 4}, \"ffn\": {\"experts\": {\"count\": 12, \"top_k\": 4, \"groups\": 4}}}}"

static void experts_that_cannot_be_chosen_are_refused(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"decoder.ffn.experts.top_k=13",
         "decoder.ffn.experts.top_k is 13, but there are 12 experts; it may be at most 12"},
        {"decoder.ffn.experts.groups=5", "experts.groups is 5, which does not divide the count of 12 (choose 4 or 6)"},
        {"decoder.ffn.experts.top_groups=5", "experts.top_groups is 5, but there are 4 groups; it may be at most 4"},
        {"decoder.ffn.experts.top_groups=1",
         "experts.top_groups is 1, whose 3 experts are fewer than top_k 4 (choose at least 2)"},
        {"decoder.ffn.experts.shared_gate=true", "experts.shared of at least 1"},
        {"decoder.ffn.experts.correction_rate=0.1", "experts.correction true"},
        {"decoder.ffn.experts.scores=best", "softmax, chosen"},
        {"decoder.ffn.dropout=0.1", "decoder.ffn.dropout is 0.1, which a feed-forward with experts has no place for"},
    };
    refuse_all(EXPERTS, refusals, TEST_COUNT(refusals));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_that_cannot_be_chosen_are_refused),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(latents_are_refused_by_key_and_value),
        cmocka_unit_test(test_bad_values_of_two_stacks),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_check_by_hand),
        cmocka_unit_test(settings_without_effect_are_refused),
        cmocka_unit_test(a_setting_that_a_later_one_replaces_is_refused),
        cmocka_unit_test(settings_are_checked_without_a_spec),
        cmocka_unit_test(settings_that_specs_share_are_told_where_they_do_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
