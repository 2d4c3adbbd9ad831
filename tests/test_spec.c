/* test_spec: reading, printing and setting of specs: defaults, what cross attention inherits, settings, the printed
 * text. */
/* labels: quick */
#include "spec_fixture.h"

#define HEAD "\"format\": \"qkv\", \"version\": 1, "
#define GPT                                                                                                            \
    "{" HEAD "\"vocab\": 100, \"d_model\": 384, \"context\": 32, \"decoder\": {\"layers\": 2, \"attention\": "         \
    "{\"heads\": 6}}}"
#define SEQ2SEQ                                                                                                        \
    "{" HEAD "\"vocab\": 100, \"source_vocab\": 80, \"d_model\": 32, \"context\": 32, \"encoder\": {\"layers\": 1, "   \
    "\"attention\": {\"heads\": 4, \"window\": 5}}, \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, "       \
    "\"kv_heads\": 2, \"head_dim\": 6, \"softcap\": 3.5, \"window\": 7, \"bias\": \"qkv\"}}}"

/* ---- defaults --------------------------------------------------------------------------------------------------- */

static void test_defaults(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, GPT, NULL, 0));
    assert_int_equal(s.vocab, 100);
    assert_int_equal(s.source_vocab, 100);
    assert_int_equal(s.decoder.embed.position.kind, QKV_POSITION_LEARNED);
    assert_true(s.decoder.embed.scale == 1 && s.dropout == 0);
    assert_int_equal(s.tie, QKV_TIE_HEAD);
    assert_int_equal(s.head.kind, QKV_HEAD_LM);
    assert_false(s.head.bias);
    assert_int_equal(s.encoder.layers, 0);
    assert_true(s.decoder.layers == 2 && s.decoder.kind_count == 1 && !s.decoder.kinds[0].name[0]);
    const struct qkv_layer_spec *d = qkv_stack_layer(&s.decoder, 1);
    assert_int_equal(d->attention.position.kind, QKV_POSITION_NONE);
    assert_int_equal(d->attention.kv_heads, 6);
    assert_int_equal(d->attention.head_dim, 64);
    assert_int_equal(d->attention.value_dim, 64);
    assert_true(d->attention.causal && d->attention.window == 0 && d->attention.softcap == 0 &&
                d->attention.scale == 0 && d->attention.bias == QKV_BIAS_ALL);
    assert_int_equal(d->cross.heads, 0);
    assert_true(d->norm.kind == QKV_NORM_LAYERNORM && d->norm.placement == QKV_PLACEMENT_PRE && d->norm.eps == 1e-5);
    assert_true(d->norm.final && d->norm.bias);
    assert_true(d->ffn.kind == QKV_FFN_GELU && d->ffn.d_ff == 4 * 384 && d->ffn.bias);
    assert_ok(ctx, parse(&s, GPT, SETTINGS("decoder.norm.placement=post", "decoder.norm.kind=rmsnorm", "vocab=7")));
    assert_true(!s.decoder.kinds[0].norm.final && !s.decoder.kinds[0].norm.bias && s.source_vocab == 7);
    assert_ok(ctx, parse(&s, GPT, SETTINGS("head={\"kind\": \"classify\", \"classes\": 4}")));
    assert_true(s.head.bias && s.tie == QKV_TIE_NONE && s.head.pool == QKV_POOL_FIRST && s.head.classes == 4);
}

/* Embeddings are scaled if sinusoids are added to them, and gated feed-forwards are narrower; given values stay. */
static void defaults_depend_on_the_position_and_the_gate(void **state) {
    static const struct {
        const char *settings[3];
        double scale;
        int d_ff;
    } cases[] = {
        {{"position.kind=sinusoidal"}, 8, 256},
        {{"position.kind=sinusoidal", "embed_scale=1"}, 1, 256},
        {{"position.kind=learned", "decoder.ffn.kind=swiglu"}, 1, 176},
        {{"decoder.ffn.kind=geglu", "decoder.ffn.d_ff=256", "d_model=64"}, 1, 256},
        {{"decoder.ffn.kind=geglu", "d_model=4096"}, 1, 11008},
        {{"position.kind=sinusoidal", "decoder.ffn.kind=geglu", "d_model=1024"}, 32, 2816},
    };
    static const char *const texts[] = {
        "{\"format\": \"qkv\", \"version\": 1, \"vocab\": 9, \"d_model\": 64, \"context\": 16,"
        " \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}",
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 9, \"d_model\": 64, \"context\": 16,"
        " \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}"};
    (void)state;
    for (size_t i = 0; i < 2 * TEST_COUNT(cases); i++) {
        const char *const *settings = cases[i / 2].settings;
        OWNED_SPEC struct qkv_spec s = {0}, back = {0};
        char *json;
        assert_ok(ctx, qkv_spec_parse(ctx, &s, "a", texts[i % 2], strlen(texts[i % 2]), settings,
                                      settings[2]   ? 3
                                      : settings[1] ? 2
                                                    : 1));
        assert_true(s.decoder.embed.scale == cases[i / 2].scale);
        assert_int_equal(s.decoder.kinds[0].ffn.d_ff, cases[i / 2].d_ff);
        assert_ok(ctx, qkv_spec_print(ctx, &s, &json));
        assert_ok(ctx, qkv_spec_parse(ctx, &back, "b", json, strlen(json), NULL, 0));
        assert_true(back.decoder.embed.scale == s.decoder.embed.scale &&
                    back.decoder.kinds[0].ffn.d_ff == s.decoder.kinds[0].ffn.d_ff);
        qkv_free(json);
    }
    static const char in_embed[] =
        "{\"format\": \"qkv\", \"version\": 2, \"vocab\": 9, \"d_model\": 64, \"context\": 16,"
        " \"embed\": {\"position\": {\"kind\": \"sinusoidal\"}},"
        " \"decoder\": {\"layers\": 1, \"attention\": {\"heads\": 4}}}";
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, qkv_spec_parse(ctx, &s, "c", in_embed, strlen(in_embed), NULL, 0));
    assert_true(s.decoder.embed.scale == 8);
}

static void test_cross_attention(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, SEQ2SEQ, NULL, 0));
    assert_int_equal(s.source_vocab, 80);
    assert_true(!s.encoder.kinds[0].attention.causal && s.encoder.kinds[0].attention.window == 5);
    assert_true(s.decoder.kinds[0].attention.causal && s.decoder.kinds[0].attention.window == 7);
    const struct qkv_attention_spec *c = &s.decoder.kinds[0].cross;
    assert_true(c->heads == 4 && c->kv_heads == 2 && c->head_dim == 6 && c->value_dim == 6);
    assert_true(!c->causal && c->window == 0 && c->softcap == 3.5 && c->bias == QKV_BIAS_QKV);
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("decoder.cross.softcap=0", "decoder.cross.kv_heads=1")));
    c = &s.decoder.kinds[0].cross;
    assert_true(c->heads == 4 && c->kv_heads == 1 && c->head_dim == 6 && c->softcap == 0);
    /* with another number of heads, what is derived from it is derived again */
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("decoder.cross.heads=8")));
    c = &s.decoder.kinds[0].cross;
    assert_true(c->heads == 8 && c->kv_heads == 8 && c->head_dim == 4 && c->value_dim == 4 && c->softcap == 3.5);
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("decoder.cross=null")));
    c = &s.decoder.kinds[0].cross;
    assert_true(c->heads == 4 && c->head_dim == 6);
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("encoder=null", "source_vocab=100")));
    assert_true(s.encoder.layers == 0 && s.decoder.kinds[0].cross.heads == 0);
}

/* ---- settings --------------------------------------------------------------------------------------------------- */

/* Cross attention has keys of its own; the head's transform is as wide as the spec, not as the stack that it reads. */
static void what_is_not_said_follows_the_attention_and_the_spec(void **state) {
    (void)state;
    static const char json[] =
        "{\"format\":\"qkv\",\"version\":2,\"d_model\":32,\"context\":16,\"vocab\":20,\"tie\":\"none\","
        "\"head\":{\"transform\":{\"activation\":\"tanh\"}},"
        "\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2},\"ffn\":{\"d_ff\":8}},"
        "\"decoder\":{\"d_model\":16,\"layers\":1,\"attention\":{\"heads\":4,\"kv_heads\":2,\"head_dim\":12,"
        "\"value_dim\":6,\"softcap\":30,\"scale\":0.5,\"bias\":\"qkv\",\"sinks\":true,\"clip\":3,\"window\":4,"
        "\"qk_norm\":{\"kind\":\"rmsnorm\",\"eps\":1e-3},\"position\":{\"kind\":\"rope\"}},\"ffn\":{\"d_ff\":8}}}";
    OWNED_SPEC struct qkv_spec s = {0};
    for (int heads = 4; heads >= 2; heads -= 2) {
        const char *const fewer[] = {"decoder.cross.heads=2"};
        qkv_spec_free(&s);
        assert_ok(ctx, qkv_spec_parse(ctx, &s, "stacks", json, sizeof json - 1, fewer, heads == 2));
        const struct qkv_attention_spec *c = &s.decoder.kinds[0].cross;
        assert_true(c->softcap == 30 && c->scale == 0.5 && c->bias == QKV_BIAS_QKV && c->sinks && c->clip == 3);
        assert_true(c->qk_norm.norm.given && c->qk_norm.norm.eps == 1e-3);
        assert_true(!c->causal && c->window == 0 && c->position.kind == QKV_POSITION_NONE);
        assert_int_equal(c->heads, heads);
        assert_int_equal(c->kv_heads, 2); /* of two heads each its own */
        assert_int_equal(c->head_dim, heads == 4 ? 12 : 8);
        assert_int_equal(c->value_dim, heads == 4 ? 6 : 8);
    }
    assert_int_equal(s.head.transform.width, 32);
}

static void test_settings(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    assert_ok(ctx, parse(&s, GPT, SETTINGS("decoder.attention.heads=4")));
    assert_int_equal(s.decoder.kinds[0].attention.head_dim, 96);
    assert_int_equal(s.decoder.kinds[0].attention.kv_heads, 4);
    assert_ok(ctx,
              parse(&s, GPT, SETTINGS("position.kind=rope", "position.theta=5e5", "position.pairing=interleaved")));
    assert_true(s.decoder.kinds[0].attention.position.kind == QKV_POSITION_ROPE &&
                s.decoder.kinds[0].attention.position.theta == 5e5 &&
                s.decoder.kinds[0].attention.position.pairing == QKV_PAIRING_INTERLEAVED);
    assert_ok(ctx, parse(&s, GPT, SETTINGS("position={\"theta\": 7}", "position.kind=\"rope\"")));
    assert_true(s.decoder.kinds[0].attention.position.kind == QKV_POSITION_ROPE &&
                s.decoder.kinds[0].attention.position.theta == 7);
    assert_ok(ctx, parse(&s, GPT, SETTINGS("decoder.attention.bias=qkv", "decoder.attention.scale=0.25", "tie=none")));
    assert_true(s.decoder.kinds[0].attention.bias == QKV_BIAS_QKV && s.decoder.kinds[0].attention.scale == 0.25 &&
                s.tie == QKV_TIE_NONE);
    assert_ok(ctx, parse(&s, GPT, SETTINGS("decoder.attention.bias=false", "decoder.attention.scale=null")));
    assert_true(s.decoder.kinds[0].attention.bias == QKV_BIAS_NONE && s.decoder.kinds[0].attention.scale == 0);
    assert_ok(ctx, parse(&s, GPT, SETTINGS("decoder=null", "encoder.layers=3", "encoder.attention.heads=2")));
    assert_true(s.decoder.layers == 0 && s.encoder.layers == 3 && !s.encoder.kinds[0].attention.causal);
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static void test_printed_text(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec s = {0};
    char *json;
    assert_ok(ctx, parse(&s, GPT, SETTINGS("position.kind=rope", "decoder.norm.eps=1e-6", "dropout=0.1")));
    assert_ok(ctx, qkv_spec_print(ctx, &s, &json));
    static const char expected[] = "{\n"
                                   "    \"format\": \"qkv\",\n"
                                   "    \"version\": 1,\n"
                                   "    \"vocab\": 100,\n"
                                   "    \"d_model\": 384,\n"
                                   "    \"context\": 32,\n"
                                   "    \"position\": {\n"
                                   "        \"kind\": \"rope\",\n"
                                   "        \"theta\": 10000.0,\n"
                                   "        \"pairing\": \"half\",\n"
                                   "        \"fraction\": 1.0\n"
                                   "    },\n"
                                   "    \"embed_scale\": 1.0,\n"
                                   "    \"dropout\": 0.1,\n"
                                   "    \"head\": {\n"
                                   "        \"kind\": \"lm\",\n"
                                   "        \"bias\": false\n"
                                   "    },\n"
                                   "    \"tie\": \"head\",\n"
                                   "    \"encoder\": null,\n"
                                   "    \"decoder\": {\n"
                                   "        \"layers\": 2,\n"
                                   "        \"attention\": {\n"
                                   "            \"heads\": 6,\n"
                                   "            \"kv_heads\": 6,\n"
                                   "            \"head_dim\": 64,\n"
                                   "            \"value_dim\": 64,\n"
                                   "            \"causal\": true,\n"
                                   "            \"window\": 0,\n"
                                   "            \"softcap\": 0.0,\n"
                                   "            \"scale\": null,\n"
                                   "            \"bias\": true\n"
                                   "        },\n"
                                   "        \"norm\": {\n"
                                   "            \"kind\": \"layernorm\",\n"
                                   "            \"placement\": \"pre\",\n"
                                   "            \"eps\": 1e-6,\n"
                                   "            \"final\": true,\n"
                                   "            \"bias\": true\n"
                                   "        },\n"
                                   "        \"ffn\": {\n"
                                   "            \"kind\": \"gelu\",\n"
                                   "            \"d_ff\": 1536,\n"
                                   "            \"bias\": true\n"
                                   "        }\n"
                                   "    }\n"
                                   "}\n";
    assert_string_equal(json, expected);
    qkv_free(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(defaults_depend_on_the_position_and_the_gate),
        cmocka_unit_test(test_cross_attention), cmocka_unit_test(what_is_not_said_follows_the_attention_and_the_spec),
        cmocka_unit_test(test_settings),        cmocka_unit_test(test_printed_text),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
