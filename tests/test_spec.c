/* test_spec: reading, printing and setting of specs: defaults, the golden folders, round trips of random specs, settings,
 * presets, damaged JSON. */
#include "model/spec.h"
#include "context_fixture.h"

#include <dirent.h>

#define HEAD "\"format\": \"qkv\", \"version\": 1, "
#define GPT                                                                                                            \
    "{" HEAD "\"vocab\": 100, \"d_model\": 384, \"context\": 32, \"decoder\": {\"layers\": 2, \"attention\": "         \
    "{\"heads\": 6}}}"
#define SEQ2SEQ                                                                                                        \
    "{" HEAD "\"vocab\": 100, \"source_vocab\": 80, \"d_model\": 32, \"context\": 32, \"encoder\": {\"layers\": 1, "   \
    "\"attention\": {\"heads\": 4, \"window\": 5}}, \"decoder\": {\"layers\": 2, \"attention\": {\"heads\": 4, "       \
    "\"kv_heads\": 2, \"head_dim\": 6, \"softcap\": 3.5, \"window\": 7, \"bias\": \"qkv\"}}}"

static enum qkv_status parse(struct qkv_spec *spec, const char *json, const char *const *settings, size_t count) {
    return qkv_spec_parse(ctx, spec, "my.json", json, strlen(json), settings, count);
}

#define SETTINGS(...)                                                                                                  \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

/* ---- defaults ------------------------------------------------------------------------------------------------------ */

static void test_defaults(void **state) {
    (void)state;
    struct qkv_spec s;
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

/* Embeddings are scaled where sinusoids are added to them, and gated feed-forwards are narrower; what is given stays. */
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
        struct qkv_spec s, back;
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
    struct qkv_spec s;
    assert_ok(ctx, qkv_spec_parse(ctx, &s, "c", in_embed, strlen(in_embed), NULL, 0));
    assert_true(s.decoder.embed.scale == 8);
}

static void test_cross_attention(void **state) {
    (void)state;
    struct qkv_spec s;
    assert_ok(ctx, parse(&s, SEQ2SEQ, NULL, 0));
    assert_int_equal(s.source_vocab, 80);
    assert_true(!s.encoder.kinds[0].attention.causal && s.encoder.kinds[0].attention.window == 5);
    assert_true(s.decoder.kinds[0].attention.causal && s.decoder.kinds[0].attention.window == 7);
    const struct qkv_attention_spec *c = &s.decoder.kinds[0].cross;
    assert_true(c->heads == 4 && c->kv_heads == 2 && c->head_dim == 6 && c->value_dim == 6);
    assert_true(!c->causal && c->window == 0 && c->softcap == 3.5 && c->bias == QKV_BIAS_QKV);
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("decoder.cross.softcap=0", "decoder.cross.kv_heads=1")));
    assert_true(c->heads == 4 && c->kv_heads == 1 && c->head_dim == 6 && c->softcap == 0);
    /* with another number of heads, what is derived from it is derived again */
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("decoder.cross.heads=8")));
    assert_true(c->heads == 8 && c->kv_heads == 8 && c->head_dim == 4 && c->value_dim == 4 && c->softcap == 3.5);
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("decoder.cross=null")));
    assert_true(c->heads == 4 && c->head_dim == 6);
    assert_ok(ctx, parse(&s, SEQ2SEQ, SETTINGS("encoder=null", "source_vocab=100")));
    assert_true(s.encoder.layers == 0 && s.decoder.kinds[0].cross.heads == 0);
}

/* ---- settings ---------------------------------------------------------------------------------------------------------- */

static void test_settings(void **state) {
    (void)state;
    struct qkv_spec s;
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

/* ---- round trips --------------------------------------------------------------------------------------------------------- */

static void random_attention(struct qkv_random *r, struct qkv_attention_spec *a, bool causal) {
    static const int heads[] = {1, 2, 3, 4, 6, 12};
    int H = heads[qkv_random_below(r, 6)], Hkv = H;
    if (qkv_random_below(r, 2)) Hkv = H % 2 == 0 ? H / 2 : 1;
    *a = (struct qkv_attention_spec){.heads = H,
                                     .kv_heads = Hkv,
                                     .head_dim = (int)test_between(r, 2, 40),
                                     .value_dim = (int)test_between(r, 1, 40),
                                     .causal = qkv_random_below(r, 4) ? causal : !causal,
                                     .window = qkv_random_below(r, 2) ? (int)test_between(r, 1, 1000) : 0,
                                     .softcap = qkv_random_below(r, 2) ? 50 * qkv_random_uniform(r) : 0,
                                     .scale = qkv_random_below(r, 2) ? 0.01 + qkv_random_uniform(r) : 0,
                                     .bias = (enum qkv_bias_kind)qkv_random_below(r, QKV_BIAS_COUNT),
                                     .sinks = qkv_random_below(r, 2),
                                     .clip = qkv_random_below(r, 2) ? 0.5 + qkv_random_uniform(r) : 0};
    if (!a->causal && qkv_random_below(r, 2)) a->window_right = (int)test_between(r, 1, 1000);
    if (qkv_random_below(r, 2)) return;
    struct qkv_norm_spec *norm = &a->qk_norm.norm;
    *norm = (struct qkv_norm_spec){.given = true,
                                   .kind = (enum qkv_norm_kind)qkv_random_below(r, QKV_NORM_COUNT),
                                   .eps = exp(-20 * qkv_random_uniform(r)),
                                   .weight = qkv_random_below(r, 4)};
    norm->bias = norm->kind == QKV_NORM_LAYERNORM && norm->weight && qkv_random_below(r, 2);
    a->qk_norm.over = (enum qkv_norm_over)qkv_random_below(r, QKV_NORM_OVER_COUNT);
}

/* What the kind does not use is as it is read: the default, or nothing. */
static void random_scaling(struct qkv_random *r, size_t pairs, struct qkv_scaling_spec *s) {
    *s = qkv_scaling_defaults((enum qkv_scaling_kind)qkv_random_below(r, QKV_SCALING_COUNT));
    const bool listed = s->kind == QKV_SCALING_LONGROPE;
    if (listed && pairs > QKV_LIST_MAX) s->kind = QKV_SCALING_LINEAR;
    if (pairs < 2 && (s->kind == QKV_SCALING_NTK || s->kind == QKV_SCALING_DYNAMIC)) s->kind = QKV_SCALING_LLAMA3;
    s->factor = s->kind == QKV_SCALING_LONGROPE && qkv_random_below(r, 2) ? 0 : 1 + 30 * qkv_random_uniform(r);
    if (s->kind != QKV_SCALING_LINEAR && s->kind != QKV_SCALING_NTK)
        s->original_context = (int)test_between(r, 2, 1 << 20);
    if (s->kind == QKV_SCALING_YARN) s->beta_fast = 2 + qkv_random_uniform(r), s->truncate = qkv_random_below(r, 2);
    if (s->kind == QKV_SCALING_YARN) s->mscale = qkv_random_uniform(r);
    if (s->kind == QKV_SCALING_LLAMA3) s->low_freq = 0.5 + qkv_random_uniform(r);
    if (qkv_random_below(r, 2)) s->attention_factor = 0.5 + qkv_random_uniform(r);
    if (s->kind != QKV_SCALING_LONGROPE) return;
    s->short_factors.count = s->long_factors.count = (int)pairs;
    for (size_t j = 0; j < pairs; j++) {
        s->short_factors.values[j] = 0.5 + qkv_random_uniform(r);
        s->long_factors.values[j] = 1 + 20 * qkv_random_uniform(r);
    }
}

static void random_position(struct qkv_random *r, int head_dim, struct qkv_position_spec *p) {
    static const enum qkv_position_kind kinds[] = {QKV_POSITION_NONE,
                                                   QKV_ATTENTION_POSITION_LIST(QKV_SPEC_ENUM_POSITION)};
    *p = (struct qkv_position_spec){
        .kind = kinds[qkv_random_below(r, TEST_COUNT(kinds))], .theta = 10000, .fraction = 1};
    p->max = 8, p->buckets = 32, p->max_distance = 128;
    if (p->kind == QKV_POSITION_ALIBI) {
        p->form = (enum qkv_alibi_form)qkv_random_below(r, QKV_ALIBI_FALCON + 1);
        p->learn = qkv_random_below(r, 2);
        if (p->form == QKV_ALIBI_MPT) p->max = 10 * qkv_random_uniform(r) + 0.1;
    }
    if (p->kind == QKV_POSITION_BUCKETS) p->buckets = 4 * (int)test_between(r, 1, 20);
    if (p->kind == QKV_POSITION_BUCKETS || p->kind == QKV_POSITION_RELATIVE)
        p->max_distance = (int)test_between(r, 50, 5000);
    if (p->kind != QKV_POSITION_ROPE) return;
    p->theta = exp(20 * qkv_random_uniform(r));
    p->pairing = (enum qkv_pairing)qkv_random_below(r, 2);
    if (qkv_random_below(r, 2)) random_scaling(r, (size_t)head_dim / 2, &p->scaling);
    if (p->scaling.given && p->theta < 1.5) p->theta = 1.5;
}

static void random_layer(struct qkv_random *r, struct qkv_layer_spec *s, bool causal, bool cross) {
#define PLACEMENT_FINAL(name, text, help, file, final, norms, whole) final,
    static const bool final[] = {QKV_PLACEMENT_LIST(PLACEMENT_FINAL)};
    random_attention(r, &s->attention, causal);
    random_position(r, s->attention.head_dim, &s->attention.position);
    if (cross) random_attention(r, &s->cross, false);
    s->norm.kind = (enum qkv_norm_kind)qkv_random_below(r, QKV_NORM_COUNT);
    s->norm.placement = (enum qkv_placement)qkv_random_below(r, QKV_PLACEMENT_COUNT);
    s->norm.eps = exp(-20 * qkv_random_uniform(r));
    s->norm.final = final[s->norm.placement];
    s->norm.weight = qkv_random_below(r, 4);
    s->norm.bias = s->norm.weight && s->norm.kind == QKV_NORM_LAYERNORM && qkv_random_below(r, 2);
    s->norm.attention = s->norm.placement == QKV_PLACEMENT_PARALLEL || qkv_random_below(r, 3);
    s->residual_scale = qkv_random_below(r, 2) ? qkv_random_normal(r) : 1;
    s->ffn.kind = (enum qkv_ffn_kind)qkv_random_below(r, QKV_FFN_COUNT);
    s->ffn.limit = s->ffn.kind == QKV_FFN_SWIGLU_CLAMPED ? exp(5 * qkv_random_uniform(r)) : 7;
    s->ffn.d_ff = (int)test_between(r, 1, 1 << 20);
    s->ffn.bias = qkv_random_below(r, 2);
    s->ffn.dropout = qkv_random_below(r, 2) ? 0.9 * qkv_random_uniform(r) : 0;
}

static bool position_learns(const struct qkv_position_spec *p) {
    return p->kind == QKV_POSITION_BUCKETS || p->kind == QKV_POSITION_RELATIVE ||
           (p->kind == QKV_POSITION_ALIBI && p->learn);
}

/* Layers of a stack share what they learn of distances. */
static void share_positions(struct qkv_stack_spec *s) {
    for (int i = 1; i < s->kind_count; i++)
        for (int k = 0; k < i; k++) {
            struct qkv_attention_spec *a = &s->kinds[i].attention, *b = &s->kinds[k].attention;
            if (position_learns(&a->position) && position_learns(&b->position) && a->position.kind == b->position.kind)
                *a = *b;
        }
}

/* One kind without a name, or up to eight with one, in the order of their first layers. */
static void random_stack(struct qkv_random *r, struct qkv_stack_spec *s, bool causal, bool cross) {
    s->layers = (int)test_between(r, 1, QKV_LAYERS_MAX);
    int most = s->layers < QKV_KINDS_MAX ? s->layers : QKV_KINDS_MAX;
    s->kind_count = qkv_random_below(r, 2) ? 1 : (int)test_between(r, 1, (size_t)most);
    bool named = s->kind_count > 1 || !qkv_random_below(r, 4);
    for (int i = 0; i < s->kind_count; i++) {
        random_layer(r, &s->kinds[i], causal, cross);
        if (named)
            snprintf(s->kinds[i].name, QKV_KIND_NAME, "%s-%d", i % 2 ? "a_kind_with_a_name_of_31" : "B", 10000 + i);
    }
    size_t period = (size_t)s->kind_count;
    while ((size_t)s->layers % period || (period < (size_t)s->layers && !qkv_random_below(r, 8))) period++;
    for (size_t i = 0; i < (size_t)s->layers; i++) {
        if (i < (size_t)s->kind_count)
            s->kind_of[i] = (uint8_t)i;
        else
            s->kind_of[i] = i < period ? (uint8_t)qkv_random_below(r, (uint64_t)s->kind_count) : s->kind_of[i - period];
    }
    s->kinds[s->kind_of[s->layers - 1]].norm.final = qkv_random_below(r, 2);
    s->share = qkv_random_below(r, 3) ? 0 : (int)test_between(r, 1, (size_t)s->layers);
    for (size_t i = 0; s->share && i < (size_t)s->layers; i++) /* of several kinds none fits but all */
        if (s->kind_of[i] != s->kind_of[qkv_stack_weights_of(s, i)]) s->share = s->layers;
}

static void random_embedding(struct qkv_random *r, struct qkv_embed_spec *e) {
    static const enum qkv_position_kind added[] = {QKV_POSITION_NONE, QKV_EMBED_POSITION_LIST(QKV_SPEC_ENUM_POSITION)};
    static const enum qkv_sinusoid layouts[] = {QKV_SINUSOID_LIST(QKV_SPEC_ENUM_SINUSOID)};
    static const enum qkv_project projects[] = {QKV_PROJECT_LIST(QKV_SPEC_ENUM_PROJECT)};
    e->position.kind = added[qkv_random_below(r, TEST_COUNT(added))];
    e->scale = qkv_random_below(r, 2) ? qkv_random_normal(r) : 1;
    e->bias = true;
    if (qkv_random_below(r, 4)) return; /* of version 1 */
    if (e->position.kind == QKV_POSITION_SINUSOIDAL)
        e->position.layout = layouts[qkv_random_below(r, TEST_COUNT(layouts))];
    if (e->position.kind != QKV_POSITION_NONE) e->position.offset = (int)qkv_random_below(r, 3);
    e->types = (int)qkv_random_below(r, 4);
    e->norm.given = qkv_random_below(r, 2);
    if (e->norm.given) {
        e->norm.kind = (enum qkv_norm_kind)qkv_random_below(r, QKV_NORM_COUNT);
        e->norm.eps = exp(-20 * qkv_random_uniform(r));
        e->norm.weight = qkv_random_below(r, 2);
        e->norm.bias = e->norm.kind == QKV_NORM_LAYERNORM && e->norm.weight && qkv_random_below(r, 2);
    }
    e->width = qkv_random_below(r, 2) ? (int)test_between(r, 4, 1 << 20) : 0;
    if (!e->width) return;
    e->bias = qkv_random_below(r, 2);
    e->project = projects[qkv_random_below(r, TEST_COUNT(projects))];
}

static void random_spec(struct qkv_random *r, struct qkv_spec *s) {
    memset(s, 0, sizeof *s);
    uint64_t topology = qkv_random_below(r, 3);
    bool both = topology == 2;
    s->vocab = qkv_random_below(r, 8) ? (int)test_between(r, 1, 1 << 24) : 0;
    s->source_vocab = both ? (int)test_between(r, 1, 1 << 24) : s->vocab;
    s->d_model = (int)test_between(r, 4, 1 << 20);
    s->context = (int)test_between(r, 1, 1 << 24);
    s->dropout = qkv_random_below(r, 2) ? 0.9 * qkv_random_uniform(r) : 0;
    s->head.kind = (enum qkv_head_kind)qkv_random_below(r, 4);
    const bool classes = s->head.kind == QKV_HEAD_CLASSIFY || s->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    if (both && classes) s->head.kind = QKV_HEAD_LM;
    if (!both && classes) s->head.classes = (int)test_between(r, 1, 1 << 20);
    if (s->head.kind == QKV_HEAD_CLASSIFY) s->head.pool = (enum qkv_pool)qkv_random_below(r, 3);
    s->head.bias = s->head.kind != QKV_HEAD_NONE && qkv_random_below(r, 2);
    s->head.scale = s->head.kind != QKV_HEAD_NONE && qkv_random_below(r, 3) == 0 ? 0.25 : 1;
    s->head.softcap = s->head.kind != QKV_HEAD_NONE && qkv_random_below(r, 3) == 0 ? 30 : 0;
    s->tie = s->head.kind == QKV_HEAD_LM ? (enum qkv_tie)qkv_random_below(r, both ? 3 : 2) : QKV_TIE_NONE;
    if (s->tie == QKV_TIE_ALL) s->source_vocab = s->vocab;
    if (topology != 0) random_stack(r, &s->encoder, false, false);
    if (topology != 1) random_stack(r, &s->decoder, true, both);
    if (topology != 0) random_embedding(r, &s->encoder.embed);
    if (topology != 1) random_embedding(r, &s->decoder.embed);
    if (both && qkv_random_below(r, 2)) s->encoder.embed = s->decoder.embed;
    if (both && qkv_random_below(r, 4) == 0) s->encoder.d_model = (int)test_between(r, 4, 1 << 20);
    if (both && qkv_random_below(r, 4) == 0) s->decoder.d_model = (int)test_between(r, 4, 1 << 20);
    const struct qkv_stack_spec *last = topology == 1 ? &s->encoder : &s->decoder;
    if (last->embed.width || s->encoder.d_model || s->decoder.d_model || s->encoder.embed.width) s->tie = QKV_TIE_NONE;
    struct qkv_layer_spec *e = &s->encoder.kinds[0], *d = &s->decoder.kinds[0];
    if (both && !d->attention.position.scaling.given && qkv_random_below(r, 2))
        e->attention.position = d->attention.position; /* as in version 1 */
    share_positions(&s->encoder);
    share_positions(&s->decoder);
}

/* Bytes of padding may differ: field by field. */
static bool same_list(const struct qkv_number_list *a, const struct qkv_number_list *b) {
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++) same = a->values[i] == b->values[i];
    return same;
}

static bool same_scaling(const struct qkv_scaling_spec *a, const struct qkv_scaling_spec *b) {
    if (!a->given || !b->given) return a->given == b->given;
    return a->kind == b->kind && a->factor == b->factor && a->original_context == b->original_context &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->truncate == b->truncate &&
           a->mscale == b->mscale && a->mscale_all_dim == b->mscale_all_dim && a->low_freq == b->low_freq &&
           a->high_freq == b->high_freq && a->attention_factor == b->attention_factor &&
           same_list(&a->short_factors, &b->short_factors) && same_list(&a->long_factors, &b->long_factors);
}

static bool same_position(const struct qkv_position_spec *a, const struct qkv_position_spec *b) {
    return a->kind == b->kind && a->theta == b->theta && a->pairing == b->pairing && a->fraction == b->fraction &&
           a->form == b->form && a->max == b->max && a->learn == b->learn && a->buckets == b->buckets &&
           a->max_distance == b->max_distance && same_scaling(&a->scaling, &b->scaling);
}

static bool same_qk_norm(const struct qkv_qk_norm_spec *a, const struct qkv_qk_norm_spec *b) {
    return a->norm.given == b->norm.given && a->norm.kind == b->norm.kind && a->norm.eps == b->norm.eps &&
           a->norm.weight == b->norm.weight && a->norm.bias == b->norm.bias && a->over == b->over;
}

static bool same_attention(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b) {
    return a->heads == b->heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->value_dim == b->value_dim && a->causal == b->causal && a->window == b->window &&
           a->window_right == b->window_right && a->softcap == b->softcap && a->scale == b->scale &&
           a->bias == b->bias && a->clip == b->clip && a->sinks == b->sinks && same_qk_norm(&a->qk_norm, &b->qk_norm) &&
           same_position(&a->position, &b->position);
}

static bool same_layer(const struct qkv_layer_spec *a, const struct qkv_layer_spec *b) {
    return !strcmp(a->name, b->name) && same_attention(&a->attention, &b->attention) &&
           same_attention(&a->cross, &b->cross) && a->norm.kind == b->norm.kind &&
           a->norm.placement == b->norm.placement && a->norm.eps == b->norm.eps && a->norm.final == b->norm.final &&
           a->norm.bias == b->norm.bias && a->norm.attention == b->norm.attention &&
           a->residual_scale == b->residual_scale && a->ffn.kind == b->ffn.kind && a->ffn.d_ff == b->ffn.d_ff &&
           a->ffn.bias == b->ffn.bias && a->ffn.dropout == b->ffn.dropout;
}

static bool same_embedding(const struct qkv_embed_spec *a, const struct qkv_embed_spec *b) {
    const struct qkv_norm_spec *n = &a->norm, *m = &b->norm;
    const bool norm =
        n->given == m->given && n->kind == m->kind && n->eps == m->eps && n->weight == m->weight && n->bias == m->bias;
    return norm && a->position.kind == b->position.kind && a->position.layout == b->position.layout &&
           a->position.offset == b->position.offset && a->scale == b->scale && a->types == b->types &&
           a->width == b->width && a->bias == b->bias && a->project == b->project;
}

static bool same_stack(const struct qkv_stack_spec *a, const struct qkv_stack_spec *b) {
    bool same = a->layers == b->layers && a->d_model == b->d_model && a->share == b->share &&
                a->kind_count == b->kind_count && !memcmp(a->kind_of, b->kind_of, sizeof a->kind_of);
    same = same && same_embedding(&a->embed, &b->embed);
    for (int i = 0; same && i < a->kind_count; i++) same = same_layer(&a->kinds[i], &b->kinds[i]);
    return same;
}

static bool same_spec(const struct qkv_spec *a, const struct qkv_spec *b) {
    return a->vocab == b->vocab && a->source_vocab == b->source_vocab && a->d_model == b->d_model &&
           a->context == b->context && a->tie == b->tie && a->dropout == b->dropout && a->head.kind == b->head.kind &&
           a->head.classes == b->head.classes && a->head.pool == b->head.pool && a->head.bias == b->head.bias &&
           a->head.scale == b->head.scale && a->head.softcap == b->head.softcap &&
           same_stack(&a->encoder, &b->encoder) && same_stack(&a->decoder, &b->decoder);
}

static void test_round_trips(void **state) {
    (void)state;
    struct qkv_random r = test_random(1);
    size_t versions[3] = {0};
    for (int i = 0; i < 5000; i++) {
        struct qkv_spec s, back;
        char *json, *again;
        random_spec(&r, &s);
        assert_ok(ctx, qkv_spec_print(ctx, &s, &json));
        assert_ok(ctx, parse(&back, json, NULL, 0));
        if (!same_spec(&s, &back)) fail_msg("read back differently:\n%s", json);
        versions[strstr(json, "\"version\": 2") ? 2 : 1]++;
        assert_ok(ctx, qkv_spec_print(ctx, &back, &again));
        assert_string_equal(json, again);
        qkv_free(json);
        qkv_free(again);
    }
    assert_true(versions[1] > 200 && versions[2] > 200);
}

static void test_printed_text(void **state) {
    (void)state;
    struct qkv_spec s;
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

/* ---- golden folders, presets ------------------------------------------------------------------------------------------------ */

static size_t read_folders(const char *folder) {
    size_t count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[1024], *json;
        struct qkv_spec s, back;
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
    struct qkv_spec s;
    assert_ok(ctx,
              qkv_spec_read(ctx, &s, TEST_SOURCE_DIR "/tests/golden/llama_interleaved_partial/config.json", NULL, 0));
    assert_true(s.vocab == 29 && s.d_model == 32 && s.context == 16 && s.tie == QKV_TIE_HEAD);
    assert_true(s.decoder.kinds[0].attention.position.kind == QKV_POSITION_ROPE &&
                s.decoder.kinds[0].attention.position.pairing == QKV_PAIRING_INTERLEAVED &&
                s.decoder.kinds[0].attention.position.fraction == 0.5);
    assert_true(s.decoder.kinds[0].attention.kv_heads == 2 && s.decoder.kinds[0].attention.bias == QKV_BIAS_QKV);
    assert_true(s.decoder.kinds[0].norm.kind == QKV_NORM_RMSNORM && s.decoder.kinds[0].ffn.kind == QKV_FFN_SWIGLU &&
                s.decoder.kinds[0].ffn.d_ff == 48);
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
    struct qkv_spec s;
    const char *name, *summary;
    size_t count = 0;
    for (; qkv_preset_at(count, &name, &summary); count++) {
        struct qkv_train_options options;
        assert_ok(ctx, qkv_spec_preset(ctx, &s, name, NULL, 0));
        assert_true(strlen(summary) > 10);
        if (s.vocab == 0 && qkv_spec_has_tokens(&s))
            assert_ok(ctx, qkv_spec_preset(ctx, &s, name, SETTINGS("vocab=65")));
        if (s.head.kind == QKV_HEAD_CLASSIFY) s.head.classes = 6; /* from the data, when training */
        assert_ok(ctx, qkv_spec_check(ctx, &s));
        assert_true(count_parameters(&s) > 10000);
        assert_non_null(qkv_preset_recipe(name));
        assert_ok(ctx, qkv_train_defaults(ctx, name, &options));
    }
    assert_true(count >= 6);
    /* nanoGPT prints these without the position embedding: 0.80M, 10.65M, 123.65M */
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "nano-gpt", SETTINGS("vocab=65")));
    assert_int_equal(count_parameters(&s) - 64 * 128, 795904);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "baby-gpt", SETTINGS("vocab=65")));
    assert_int_equal(count_parameters(&s) - 256 * 384, 10646784);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "gpt2-small", NULL, 0));
    assert_int_equal(count_parameters(&s), 124439808);
    /* Six of the eight experts of each layer have no part in a token, and all numbers of nano-gpt have. */
    struct qkv_costs costs;
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "moe-tiny", SETTINGS("vocab=65")));
    assert_ok(ctx, qkv_measure_costs(ctx, &s, 1, 8, &costs));
    assert_int_equal(costs.parameters - costs.active_parameters, 4 * 6 * 3 * 168 * 128);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "nano-gpt", SETTINGS("vocab=65")));
    assert_ok(ctx, qkv_measure_costs(ctx, &s, 1, 8, &costs));
    assert_int_equal(costs.parameters, costs.active_parameters);
    assert_ok(ctx, qkv_spec_preset(ctx, &s, "gpt2-small", SETTINGS("decoder.attention.kv_heads=1")));
    assert_int_equal(s.decoder.kinds[0].attention.head_dim, 64);
    assert_status(ctx, qkv_spec_preset(ctx, &s, "gpt5", NULL, 0), QKV_ARGUMENT);
    assert_message(ctx, "there is no preset \"gpt5\"; known presets: nano-gpt, baby-gpt, gpt2-small, llama-style, ");
    assert_null(qkv_preset_recipe("gpt5"));
    struct qkv_train_options options;
    assert_ok(ctx, qkv_train_defaults(ctx, "baby-gpt", &options));
    assert_true(options.batch == 64 && options.steps == 5000 && options.rate == 1e-3 && options.warmup == 100);
}

/* ---- damage ----------------------------------------------------------------------------------------------------------------- */

/* What is accepted must hold what the check says; what is not must have a sentence. */
static void read_damaged(const char *json, size_t size) {
    struct qkv_spec s, back;
    char *copy = malloc(size ? size : 1), *text; /* of exactly this size, for the sanitizer */
    memcpy(copy, json, size);
    enum qkv_status status = qkv_spec_parse(ctx, &s, "damaged", copy, size, NULL, 0);
    if (status) {
        assert_true(strlen(qkv_message(ctx)) > 10);
    } else {
        assert_ok(ctx, qkv_spec_print(ctx, &s, &text));
        assert_ok(ctx, parse(&back, text, NULL, 0));
        assert_true(same_spec(&s, &back));
        qkv_free(text);
    }
    free(copy);
}

static void test_damage(void **state) {
    (void)state;
    struct qkv_random r = test_random(2);
    for (int i = 0; i < 400; i++) {
        struct qkv_spec s;
        char *json;
        random_spec(&r, &s);
        assert_ok(ctx, qkv_spec_print(ctx, &s, &json));
        size_t size = strlen(json);
        for (int k = 0; k < 20; k++) {
            size_t at = test_between(&r, 0, size - 1);
            char old = json[at];
            char flipped = (char)(old ^ (1 << qkv_random_below(&r, 8)));
            char letter = "0123456789-.eE\"{}[],:nulltrue\0"[qkv_random_below(&r, 31)];
            json[at] = qkv_random_below(&r, 2) ? flipped : letter;
            read_damaged(json, size);
            json[at] = old;
        }
        read_damaged(json, test_between(&r, 0, size));
        qkv_free(json);
    }
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    read_damaged(deep, 100000);
    free(deep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(defaults_depend_on_the_position_and_the_gate),
        cmocka_unit_test(test_cross_attention),

        cmocka_unit_test(test_settings),        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_printed_text),    cmocka_unit_test(test_golden),
        cmocka_unit_test(test_presets),         cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
