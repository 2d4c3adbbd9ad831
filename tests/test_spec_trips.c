/* test_spec_trips: random specs with all keys, printed and read back, and their text damaged. */
#include "attention/attention.h"
#include "spec_fixture.h"

/* ---- random specs ----------------------------------------------------------------------------------------------- */

/* The rate of a part: none of its own, off, or a number. */
static double random_rate(struct qkv_random *r) {
    return qkv_random_below(r, 2) ? 0 : qkv_random_below(r, 3) ? qkv_random_uniform(r) : -1;
}

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
                                     .dropout = random_rate(r),
                                     .clip = qkv_random_below(r, 2) ? 0.5 + qkv_random_uniform(r) : 0};
    if (qkv_random_below(r, 2)) a->chunk = (int)test_between(r, 1, 1000);
    if (qkv_random_below(r, 2))
        a->temperature = (struct qkv_temperature_spec){.given = true,
                                                       .beta = qkv_random_uniform(r),
                                                       .length = (int)test_between(r, 1, 9000),
                                                       .offset = (int)test_between(r, 0, 1)};
    if (!a->causal && qkv_random_below(r, 2)) a->window_right = (int)test_between(r, 1, 1000);
    if (qkv_random_below(r, 2)) return;
    struct qkv_norm_spec *norm = &a->qk_norm.norm;
    *norm = (struct qkv_norm_spec){.given = true,
                                   .kind = (enum qkv_norm_kind)qkv_random_below(r, QKV_NORM_COUNT),
                                   .eps = exp(-20 * qkv_random_uniform(r)),
                                   .weight = qkv_random_below(r, 4)};
    norm->bias = qkv_norm_centered(norm->kind) && norm->weight && qkv_random_below(r, 2);
    a->qk_norm.over = (enum qkv_norm_over)qkv_random_below(r, QKV_NORM_OVER_COUNT);
    a->qk_norm.after_rotation = qkv_random_below(r, 2);
}

/* Fields that the kind does not use are as after reading: the default, or nothing. */
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
    const bool learned = p->kind == QKV_POSITION_BUCKETS || p->kind == QKV_POSITION_RELATIVE || p->learn;
    p->per_layer = learned && qkv_random_below(r, 3) == 0;
    if (p->kind != QKV_POSITION_ROPE) return;
    p->theta = exp(20 * qkv_random_uniform(r));
    p->pairing = (enum qkv_pairing)qkv_random_below(r, 2);
    if (qkv_random_below(r, 2)) random_scaling(r, (size_t)head_dim / 2, &p->scaling);
    if (p->scaling.given && p->theta < 1.5) p->theta = 1.5;
}

/* Keys and values made of a latent, for which all heads have their own. */
static void random_latent(struct qkv_random *r, struct qkv_attention_spec *a) {
    enum { WIDTH = 4 }; /* no model is narrower */
    a->kv_heads = a->heads;
    a->clip = 0;
    a->qk_norm = (struct qkv_qk_norm_spec){0};
    a->head_dim++;
    if (qkv_bias_has(a->bias, 'k') != qkv_bias_has(a->bias, 'v')) a->bias = QKV_BIAS_ALL;
    a->latent = (struct qkv_latent_spec){.given = true,
                                         .rank = (int)test_between(r, 1, WIDTH),
                                         .query_rank = (int)test_between(r, 0, WIDTH),
                                         .rope_dim = (int)test_between(r, 2, (size_t)a->head_dim - 1),
                                         .eps = exp(-20 * qkv_random_uniform(r))};
}

static void random_experts(struct qkv_random *r, struct qkv_experts_spec *e) {
    static const enum qkv_expert_scores scores[] = {QKV_EXPERT_SCORES_LIST(QKV_SPEC_ENUM_EXPERT_SCORES)};
    static const enum qkv_group_score group_scores[] = {QKV_GROUP_SCORE_LIST(QKV_SPEC_ENUM_GROUP_SCORE)};
    const int each = (int)test_between(r, 2, 8), groups = (int)test_between(r, 1, 8);
    *e = (struct qkv_experts_spec){.given = true,
                                   .count = each * groups,
                                   .scores = scores[qkv_random_below(r, TEST_COUNT(scores))],
                                   .normalize = true,
                                   .scale = 0.1 + qkv_random_uniform(r),
                                   .bias = qkv_random_below(r, 2),
                                   .unbiased = qkv_random_below(r, 2),
                                   .correction = qkv_random_below(r, 2),
                                   .correction_rate = 0.001,
                                   .margin = 0.02,
                                   .scale_inputs = qkv_random_below(r, 2),
                                   .groups = groups,
                                   .top_groups = (int)test_between(r, 1, (size_t)groups),
                                   .shared = qkv_random_below(r, 2) ? (int)test_between(r, 1, 1 << 20) : 0,
                                   .balance_loss = qkv_random_uniform(r),
                                   .z_loss = qkv_random_below(r, 2) ? qkv_random_uniform(r) : 0};
    e->top_k = (int)test_between(r, 1, (size_t)(each * e->top_groups));
    if (e->scores == QKV_EXPERT_SCORES_SPARSEMIXER)
        e->margin = qkv_random_uniform(r);
    else if (e->scores != QKV_EXPERT_SCORES_CHOSEN)
        e->normalize = qkv_random_below(r, 2);
    if (e->correction) e->correction_rate = qkv_random_uniform(r);
    e->group_score = e->scores == QKV_EXPERT_SCORES_SIGMOID ? QKV_GROUP_SCORE_TOP2 : QKV_GROUP_SCORE_MAX;
    if (groups > 1) e->group_score = group_scores[qkv_random_below(r, TEST_COUNT(group_scores))];
    if (e->shared) e->shared_gate = qkv_random_below(r, 2);
}

static void random_layer(struct qkv_random *r, struct qkv_layer_spec *s, bool causal, bool cross) {
#define PLACEMENT_FINAL(name, text, help, file, final, norms, whole) final,
    static const bool final[] = {QKV_PLACEMENT_LIST(PLACEMENT_FINAL)};
    random_attention(r, &s->attention, causal);
    if (qkv_random_below(r, 3) == 0) random_latent(r, &s->attention);
    const struct qkv_latent_spec *latent = &s->attention.latent;
    random_position(r, latent->given ? latent->rope_dim : s->attention.head_dim, &s->attention.position);
    if (cross) random_attention(r, &s->cross, false);
    s->cross.temperature = (struct qkv_temperature_spec){0};
    s->norm.kind = (enum qkv_norm_kind)qkv_random_below(r, QKV_NORM_COUNT);
    s->norm.placement = (enum qkv_placement)qkv_random_below(r, QKV_PLACEMENT_COUNT);
    s->norm.eps = exp(-20 * qkv_random_uniform(r));
    s->norm.final = final[s->norm.placement];
    s->norm.weight = qkv_random_below(r, 4);
    s->norm.bias = s->norm.weight && qkv_norm_centered(s->norm.kind) && qkv_random_below(r, 2);
    s->norm.attention = s->norm.placement == QKV_PLACEMENT_PARALLEL || qkv_random_below(r, 3);
    s->residual_scale = qkv_random_below(r, 2) ? qkv_random_normal(r) : 1;
    s->residual_dropout = random_rate(r);
    s->ffn.kind = (enum qkv_ffn_kind)qkv_random_below(r, QKV_FFN_COUNT);
    s->ffn.limit = s->ffn.kind == QKV_FFN_SWIGLU_CLAMPED ? exp(5 * qkv_random_uniform(r)) : 7;
    s->ffn.d_ff = (int)test_between(r, 1, 1 << 20);
    s->ffn.bias = qkv_random_below(r, 2);
    if (qkv_random_below(r, 3) == 0)
        random_experts(r, &s->ffn.experts);
    else
        s->ffn.dropout = qkv_random_below(r, 2) ? 0.9 * qkv_random_uniform(r) : 0;
}

static bool position_learns(const struct qkv_position_spec *p) {
    return !p->per_layer && (p->kind == QKV_POSITION_BUCKETS || p->kind == QKV_POSITION_RELATIVE ||
                             (p->kind == QKV_POSITION_ALIBI && p->learn));
}

/* Layers of a stack share what they learn of distances, unless each has its own. */
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
    const int layers = (int)test_between(r, 1, QKV_LAYERS_MAX), most = layers < QKV_KINDS_MAX ? layers : QKV_KINDS_MAX;
    const int kinds = qkv_random_below(r, 2) ? 1 : (int)test_between(r, 1, (size_t)most);
    assert_ok(ctx, qkv_stack_resize(ctx, s, layers, kinds));
    bool named = s->kind_count > 1 || !qkv_random_below(r, 4);
    for (int i = 0; i < s->kind_count; i++) {
        random_layer(r, &s->kinds[i], causal, cross);
        if (named)
            snprintf(s->kinds[i].name, QKV_KIND_NAME, "%s-%d", i % 2 ? "a_kind_with_a_name_of_31" : "B", 10000 + i % 8);
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
        e->norm.bias = qkv_norm_centered(e->norm.kind) && e->norm.weight && qkv_random_below(r, 2);
        e->norm_tokens = qkv_random_below(r, 2);
    }
    e->width = qkv_random_below(r, 2) ? (int)test_between(r, 4, 1 << 20) : 0;
    if (!e->width) return;
    e->bias = qkv_random_below(r, 2);
    e->project = projects[qkv_random_below(r, TEST_COUNT(projects))];
}

static void random_spec(struct qkv_random *r, struct qkv_spec *s) {
    qkv_spec_free(s);
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
    if (both && !s->decoder.kinds->attention.position.scaling.given && qkv_random_below(r, 2))
        s->encoder.kinds->attention.position = s->decoder.kinds->attention.position; /* as in version 1 */
    share_positions(&s->encoder);
    share_positions(&s->decoder);
    for (int i = 0; both && i < s->decoder.kind_count; i++) {
        struct qkv_layer_spec *kind = &s->decoder.kinds[i];
        kind->cross_only = kind->norm.placement != QKV_PLACEMENT_PARALLEL && qkv_random_below(r, 5) == 0;
        if (kind->cross_only)
            kind->attention.position =
                (struct qkv_position_spec){.theta = 10000, .fraction = 1, .max = 8, .buckets = 32, .max_distance = 128};
    }
}

/* Masks count in stacks that are not causal. */
static void random_masks(struct qkv_random *r, struct qkv_stack_spec *s, int vocab) {
    if (!s->layers || qkv_stack_find_causal(s, true) || vocab < 1 || qkv_random_below(r, 2)) return;
    s->embed.masked = (struct qkv_masked_spec){
        .given = true, .token = (int)qkv_random_below(r, (uint64_t)vocab), .share = 0.9 * qkv_random_uniform(r)};
}

/* ---- round trips ------------------------------------------------------------------------------------------------ */

static void test_round_trips(void **state) {
    (void)state;
    struct qkv_random r = test_random(1);
    size_t versions[3] = {0};
    for (int i = 0; i < 5000; i++) {
        OWNED_SPEC struct qkv_spec s = {0}, back = {0};
        char *json, *again;
        random_spec(&r, &s);
        random_masks(&r, &s.encoder, s.decoder.layers ? s.source_vocab : s.vocab);
        random_masks(&r, &s.decoder, s.vocab);
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

/* ---- damage ----------------------------------------------------------------------------------------------------- */

/* An accepted spec must pass the check; a refused one must have a message. */
static void read_damaged(const char *json, size_t size) {
    OWNED_SPEC struct qkv_spec s = {0}, back = {0};
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
        OWNED_SPEC struct qkv_spec s = {0};
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
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
