/* Caches of modules, attentions by their own spec, and padding. test_attention_module*.c, test_modules.c and the golden
 * models anchor what whole calls compute; here other calls must have the same bits. */
/* labels: numeric quick */
#include "search_fixture.h"

#include "module_fixture.h"
#include "weights.h"

enum { CACHED = T + 2 };

static const char *const alone = "\"decoder\":{\"layers\":2,\"attention\":{\"heads\":3,\"kv_heads\":1,\"window\":4}}";

static bool reads_memory(enum qkv_module_kind kind) {
    return kind == QKV_MODULE_CROSS_ATTENTION || kind == QKV_MODULE_DECODER_BLOCK || kind == QKV_MODULE_DECODER_STACK ||
           kind == QKV_MODULE_CROSS_BLOCK;
}

static bool reads_itself(enum qkv_module_kind kind) {
    return kind != QKV_MODULE_CROSS_ATTENTION && kind != QKV_MODULE_CROSS_BLOCK;
}

static float *numbers(struct qkv_random *r, size_t count) {
    float *x = malloc(count * sizeof *x);
    test_fill(r, x, count, 1);
    return x;
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

/* Rows [from, from + count) of each sequence of (B,T,C). */
static void cut(const float *x, size_t from, size_t count, float *out) {
    for (size_t b = 0; b < B; b++) memcpy(out + b * count * C, x + (b * T + from) * C, count * C * sizeof(float));
}

/* Computes x step by step; the memory is given once. */
static void expect_steps(struct qkv_random *r, struct qkv_module *m, struct qkv_module_input in, const float *y) {
    const enum qkv_module_kind kind = qkv_module_kind(m);
    const bool memory = reads_memory(kind), self = reads_itself(kind);
    float x[B * T * C], got[B * T * C], expected[B * T * C];
    struct qkv_module_cache *cache;
    const float *whole = in.x.data;
    assert_ok(ctx, qkv_module_cache_create(m, B, self ? CACHED : 0, memory ? TM : 0, &cache));
    in.cache = cache;
    for (size_t t = 0, n, turns = 0; t < T; t += n) {
        n = test_between(r, 1, T - t);
        cut(whole, t, n, x);
        cut(y, t, n, expected);
        in.x = (struct qkv_vectors){x, B, n, C};
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){got, B, n, C}));
        assert_memory_equal(got, expected, B * n * C * sizeof *got);
        assert_int_equal(qkv_module_cache_length(cache), self ? t + n : TM);
        if (memory && in.memory.data) memset(in.memory.data, 0xff, B * TM * C * sizeof(float));
        in.memory = qkv_vectors_defaults();
        if (self && turns++ < 2) qkv_module_cache_truncate(cache, t + n - 1), n--; /* the last one again */
    }
    qkv_module_cache_free(cache);
}

/* An encoder may have a context of its own, longer than that of the decoder that reads it. */
static void parts_have_the_context_of_their_stack(void **state) {
    (void)state;
    enum { LONG = 20, WIDE = 16 };
    static const char json[] = "{\"format\":\"qkv\",\"version\":2,\"vocab\":11,\"d_model\":16,\"context\":8,"
                               "\"source_context\":20,\"encoder\":{\"layers\":1,\"attention\":{\"heads\":2},"
                               "\"ffn\":{\"d_ff\":16},\"embed\":{\"input\":{\"kind\":\"vectors\",\"channels\":5}}},"
                               "\"decoder\":{\"layers\":1,\"attention\":{\"heads\":2},\"ffn\":{\"d_ff\":16}}}";
    struct qkv_random r = test_random(30);
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *model;
    struct qkv_module *encoder, *cross;
    struct qkv_module_cache *cache;
    struct qkv_module_input in = qkv_module_input_defaults();
    static float x[(LONG + 1) * WIDE], memory[LONG * WIDE], y[LONG * WIDE], cached[LONG * WIDE];
    test_fill(&r, x, (LONG + 1) * WIDE, 1);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "json", json, sizeof json - 1, NULL, 0));
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    assert_ok(ctx, qkv_module_of_model(model, "encoder", &encoder));
    assert_ok(ctx, qkv_module_of_model(model, "decoder.layers.0.cross", &cross));
    in.x = (struct qkv_vectors){x, 1, LONG + 1, WIDE};
    assert_status(ctx, qkv_module_forward(encoder, &in, (struct qkv_vectors){y, 1, LONG + 1, WIDE}), QKV_ARGUMENT);
    assert_message(ctx, "x has 21 positions, more than the context of 20");
    in.x.T = LONG;
    assert_ok(ctx, qkv_module_forward(encoder, &in, (struct qkv_vectors){memory, 1, LONG, WIDE}));
    in.x.T = 8, in.memory = (struct qkv_vectors){memory, 1, LONG, WIDE};
    assert_ok(ctx, qkv_module_forward(cross, &in, (struct qkv_vectors){y, 1, 8, WIDE}));
    assert_status(ctx, qkv_module_cache_create(cross, 1, 0, LONG + 1, &cache), QKV_ARGUMENT);
    assert_ok(ctx, qkv_module_cache_create(cross, 1, 0, LONG, &cache));
    in.cache = cache;
    assert_ok(ctx, qkv_module_forward(cross, &in, (struct qkv_vectors){cached, 1, 8, WIDE}));
    assert_memory_equal(cached, y, 8 * WIDE * sizeof *y);
    in.x.T = 9;
    assert_status(ctx, qkv_module_forward(cross, &in, (struct qkv_vectors){y, 1, 9, WIDE}), QKV_ARGUMENT);
    assert_message(ctx, "x has 9 positions, more than the context of 8");
    qkv_module_cache_free(cache);
    qkv_module_free(encoder);
    qkv_module_free(cross);
    qkv_model_free(model);
}

static void a_cache_gives_the_bits_of_a_whole_sequence(void **state) {
    (void)state;
    static const enum qkv_module_kind kinds[] = {
        QKV_MODULE_ATTENTION,     QKV_MODULE_CROSS_ATTENTION, QKV_MODULE_ENCODER_BLOCK, QKV_MODULE_DECODER_BLOCK,
        QKV_MODULE_ENCODER_STACK, QKV_MODULE_DECODER_STACK,   QKV_MODULE_CROSS_BLOCK};
    OWNED_SPEC struct qkv_spec pair = spec_of(both_stacks);
    OWNED_SPEC struct qkv_spec one = spec_of(alone);
    struct qkv_random r = test_random(4000);
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        const bool memory = reads_memory(kinds[i]);
        struct qkv_module *m = create(kinds[i], memory ? &pair : &one);
        float *x = numbers(&r, B * T * C), *source = numbers(&r, B * TM * C), y[B * T * C];
        int32_t lengths[B] = {TM - 2, TM};
        struct qkv_module_input in = {.x = {x, B, T, C}};
        if (memory) in.memory = (struct qkv_vectors){source, B, TM, C}, in.cross.mask.lengths = lengths;
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){y, B, T, C}));
        expect_steps(&r, m, in, y);
        qkv_module_free(m);
        free(x), free(source);
    }
}

/* Layers outside of the part have no pages. */
static void a_part_of_a_model_has_a_cache(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(alone);
    struct qkv_random r = test_random(4100);
    static const char *const parts[] = {"decoder.layers.1.attn", "decoder.layers.1", "decoder"};
    struct qkv_model *model;
    spec.decoder.layers = 3;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 1, &model));
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        struct qkv_module *m;
        float *x = numbers(&r, B * T * C), y[B * T * C];
        const struct qkv_module_input in = {.x = {x, B, T, C}};
        assert_ok(ctx, qkv_module_of_model(model, parts[i], &m));
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){y, B, T, C}));
        expect_steps(&r, m, in, y);
        qkv_module_free(m);
        free(x);
    }
    qkv_model_free(model);
}

static void caches_that_cannot_be_are_refused(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
    struct qkv_module_cache *cache;
    static const struct {
        enum qkv_module_kind kind;
        size_t T, memory_T;
        const char *sentence;
    } cases[] = {{QKV_MODULE_FFN, 4, 0, "feed-forward module: it has no attention"},
                 {QKV_MODULE_NORM, 4, 0, "norm module: it has no attention"},
                 {QKV_MODULE_MODEL, 4, 4, "a whole model is decoded by a session or a decoder"},
                 {QKV_MODULE_DECODER_STACK, 4, 0, "memory_T is 0; it must be at least 1"},
                 {QKV_MODULE_DECODER_STACK, 10, 4, "T is 10, but the decoder stack module has a context of 9"},
                 {QKV_MODULE_CROSS_BLOCK, 4, 4, "T is 4, but the cross block module has no such attention"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qkv_module *m = create(cases[i].kind, &spec);
        assert_fails(ctx, qkv_module_cache_create(m, 1, cases[i].T, cases[i].memory_T, &cache), QKV_ARGUMENT,
                     cases[i].sentence);
        assert_null(cache);
        qkv_module_free(m);
    }
    struct qkv_attention_module_spec apart = qkv_attention_module_spec_defaults();
    struct qkv_module *m;
    apart.in = C, apart.kv_in = 4, apart.value_in = 5, apart.cross = true, apart.attention.heads = H;
    assert_ok(ctx, qkv_module_create_attention(ctx, &apart, 1, &m));
    assert_fails(ctx, qkv_module_cache_create(m, 1, 0, 4, &cache), QKV_ARGUMENT,
                 "keys are computed from 4 channels and values from 5");
    qkv_module_free(m);
}

/* ---- attentions by their own spec -------------------------------------------------------------------------------- */

static void copy_weights(struct qkv_module *to, const struct qkv_module *from) {
    assert_int_equal(qkv_module_parameters(to), qkv_module_parameters(from));
    for (size_t i = 0; i < qkv_module_parameters(to); i++) {
        const struct qkv_array *a = qkv_module_parameter(from, i);
        assert_string_equal(qkv_module_parameter(to, i)->name, a->name);
        assert_int_equal(qkv_module_parameter(to, i)->bytes, a->bytes);
        memcpy(test_module_weights(to, i), a->data, a->bytes);
    }
}

/* Keys and values from vectors of two widths, as the module of a model has them, which torch.nn anchors. */
static void values_may_have_a_width_of_their_own(void **state) {
    (void)state;
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
    struct qkv_random r = test_random(4200);
    struct qkv_module_options options = qkv_module_defaults();
    struct qkv_attention_module_spec own = {
        .in = C, .kv_in = 4, .value_in = 5, .cross = true, .attention = {.heads = H, .kv_heads = 1}};
    struct qkv_module *of_model, *m;
    options.kind = QKV_MODULE_CROSS_ATTENTION, options.key_width = 4, options.value_width = 5;
    assert_ok(ctx, qkv_module_create(ctx, &spec, &options, &of_model));
    own.attention.bias = spec.decoder.kinds[0].cross.bias;
    assert_ok(ctx, qkv_module_create_attention(ctx, &own, 1, &m));
    copy_weights(m, of_model);
    float *x = numbers(&r, B * T * C), *k = numbers(&r, B * TM * 4), *v = numbers(&r, B * TM * 5);
    float y[B * T * C], expected[B * T * C];
    const struct qkv_module_input in = {.x = {x, B, T, C}, .memory = {k, B, TM, 4}, .values = {v, B, TM, 5}};
    assert_ok(ctx, qkv_module_forward(of_model, &in, (struct qkv_vectors){expected, B, T, C}));
    assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){y, B, T, C}));
    assert_memory_equal(y, expected, sizeof y);
    const struct qkv_attention_module_spec *full = qkv_module_attention_spec(of_model);
    assert_true(full->in == C && full->kv_in == 4 && full->value_in == 5 && full->out == C && full->cross);
    qkv_module_free(of_model);
    qkv_module_free(m);
    free(x), free(k), free(v);
}

/* A latent, and learned positions, which a part of a layer lists too. */
static void every_form_and_position_of_attention_runs_alone(void **state) {
    (void)state;
    struct qkv_random r = test_random(4300);
    struct qkv_attention_module_spec latent = {.in = C,
                                               .out = 7,
                                               .context = 9,
                                               .attention = {.heads = 2,
                                                             .head_dim = 6,
                                                             .causal = true,
                                                             .latent = {.given = true, .rope_dim = 2},
                                                             .position.kind = QKV_POSITION_ROPE}};
    struct qkv_attention_module_spec buckets = {
        .in = C,
        .out = 7,
        .context = 9,
        .attention = {.heads = 2, .causal = true, .position.kind = QKV_POSITION_BUCKETS}};
    const struct qkv_attention_module_spec *const specs[] = {&latent, &buckets};
    for (size_t i = 0; i < 2; i++) {
        struct qkv_module *m;
        struct qkv_module_cache *cache;
        float *x = numbers(&r, B * T * C), y[B * T * 7], step[B * 7], weights[T * T];
        struct qkv_module_input in = {.x = {x, B, T, C}}, one = {.x = {x, B, 1, C}};
        assert_ok(ctx, qkv_module_create_attention(ctx, specs[i], 1, &m));
        assert_string_equal(qkv_module_parameter(m, 0)->name, i ? "position.buckets.weight" : "q.weight");
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){y, B, T, 7}));
        assert_ok(ctx, qkv_module_attention_weights(m, QKV_ATTENTION_WEIGHTS, 1, 1, 0, T, weights));
        for (size_t t = 0; t < T; t++) {
            float sum = 0;
            for (size_t j = 0; j < T; j++) sum += weights[t * T + j];
            assert_true(fabsf(sum - 1) < 1e-5F);
        }
        assert_ok(ctx, qkv_module_cache_create(m, B, T, 0, &cache));
        one.cache = cache;
        for (size_t t = 0; t < T; t++) {
            float now[B * C];
            for (size_t b = 0; b < B; b++) memcpy(now + b * C, x + (b * T + t) * C, C * sizeof *now);
            one.x.data = now;
            assert_ok(ctx, qkv_module_forward(m, &one, (struct qkv_vectors){step, B, 1, 7}));
            for (size_t b = 0; b < B; b++) assert_floats_close(step + b * 7, y + (b * T + t) * 7, 7, 1e-5);
        }
        qkv_module_cache_free(cache);
        qkv_module_free(m);
        free(x);
    }
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
    struct qkv_module *m = create(QKV_MODULE_ENCODER_BLOCK, &spec);
    float out;
    assert_null(qkv_module_attention_spec(m));
    assert_fails(ctx, qkv_module_attention_weights(m, QKV_ATTENTION_WEIGHTS, 0, 0, 0, 1, &out), QKV_ARGUMENT,
                 "encoder block module: only modules of an attention or a cross attention have its weights");
    qkv_module_free(m);
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */

/* NaN in padding reaches no gradient, and no row of another position, in modules of every kind with attention. */
static void padding_may_hold_anything(void **state) {
    (void)state;
    static const enum qkv_module_kind kinds[] = {QKV_MODULE_ENCODER_BLOCK, QKV_MODULE_ENCODER_STACK,
                                                 QKV_MODULE_DECODER_BLOCK};
    OWNED_SPEC struct qkv_spec spec = spec_of(both_stacks);
    struct qkv_random r = test_random(4400);
    for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
        struct qkv_module *m = create(kinds[i], &spec);
        const bool memory = reads_memory(kinds[i]);
        float *x = numbers(&r, B * T * C), *source = numbers(&r, B * TM * C), *dy = numbers(&r, B * T * C);
        float y[B * T * C], expected[B * T * C], dx[B * T * C];
        int32_t lengths[B] = {T - 2, T}, memory_lengths[B] = {TM, TM - 1};
        struct qkv_module_input in = {.x = {x, B, T, C}, .self.mask.lengths = lengths, .train = true};
        if (memory) in.memory = (struct qkv_vectors){source, B, TM, C}, in.cross.mask.lengths = memory_lengths;
        for (size_t e = (T - 2) * C; e < T * C; e++) x[e] = 0;
        for (size_t e = (2 * TM - 1) * C; e < 2 * TM * C; e++) source[e] = 0;
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){expected, B, T, C}));
        for (size_t e = (T - 2) * C; e < T * C; e++) x[e] = e % 2 ? NAN : INFINITY;
        for (size_t e = (2 * TM - 1) * C; e < 2 * TM * C; e++) source[e] = NAN;
        assert_ok(ctx, qkv_module_forward(m, &in, (struct qkv_vectors){y, B, T, C}));
        assert_memory_equal(y, expected, sizeof y);
        assert_ok(ctx, qkv_module_backward(m, (struct qkv_vectors){dy, B, T, C},
                                           &(struct qkv_module_gradients){.x = {dx, B, T, C}}));
        for (size_t e = 0; e < TEST_COUNT(dx); e++) assert_true(isfinite(dx[e]));
        for (size_t p = 0; p < qkv_module_parameters(m); p++)
            for (size_t e = 0; e < qkv_array_elements(qkv_module_parameter(m, p)); e++)
                assert_true(isfinite(test_module_gradient(m, p)[e]));
        qkv_module_free(m);
        free(x), free(source), free(dy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_context_of_their_stack),
        cmocka_unit_test(a_cache_gives_the_bits_of_a_whole_sequence),
        cmocka_unit_test(a_part_of_a_model_has_a_cache),
        cmocka_unit_test(caches_that_cannot_be_are_refused),
        cmocka_unit_test(values_may_have_a_width_of_their_own),
        cmocka_unit_test(every_form_and_position_of_attention_runs_alone),
        cmocka_unit_test(padding_may_hold_anything),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
