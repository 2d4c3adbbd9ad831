/* attention_layer_case.h: an attention layer of random widths and kinds, and its buffers. */
#ifndef QKV_ATTENTION_LAYER_CASE_H
#define QKV_ATTENTION_LAYER_CASE_H

#include "test.h"

struct sample {
    struct qkv_context *ctx;
    struct qkv_random random;
    struct qkv_attention_layer *layer;
    const struct qkv_attention_layer_spec *spec;
    struct qkv_attention_input in;
    size_t Tk;
    float *x, *memory, *y, *dy, *dx, *dmemory, *bias, *dbias;
    uint8_t *dense;
    int32_t lengths[4], prefix[4], *documents;
};

static inline int whole(struct qkv_random *r, int low, int high) {
    return (int)test_between(r, (size_t)low, (size_t)high);
}

static inline bool coin(struct qkv_random *r) {
    return qkv_random_below(r, 2);
}

static inline struct qkv_attention_layer_spec random_spec(struct qkv_random *r, bool cross) {
    static const int heads[][2] = {{1, 1}, {3, 3}, {4, 2}, {4, 1}};
    const int *h = heads[qkv_random_below(r, 4)];
    struct qkv_attention_layer_spec s = {.in = whole(r, 1, 20), .out = whole(r, 0, 20), .cross = cross};
    s.attention = (struct qkv_attention_spec){.heads = h[0],
                                              .kv_heads = h[1],
                                              .head_dim = 2 * whole(r, 1, 5),
                                              .value_dim = whole(r, 0, 9),
                                              .causal = coin(r),
                                              .window = coin(r) ? 0 : whole(r, 1, 5),
                                              .window_right = coin(r) ? 0 : whole(r, 1, 4),
                                              .softcap = coin(r) ? 0 : 2,
                                              .scale = coin(r) ? 0 : 0.4,
                                              .clip = coin(r) ? 0 : 0.8,
                                              .bias = (enum qkv_bias_kind)whole(r, 0, QKV_BIAS_COUNT - 1)};
    struct qkv_norm_spec *norm = &s.attention.qk_norm.norm;
    norm->given = coin(r);
    norm->kind = (enum qkv_norm_kind)whole(r, 0, QKV_NORM_COUNT - 1);
    norm->eps = coin(r) ? 0 : 0.1;
    norm->weight = whole(r, 0, 3);
    norm->bias = norm->weight && norm->kind == QKV_NORM_LAYERNORM && coin(r);
    s.attention.qk_norm.over = (enum qkv_norm_over)whole(r, 0, QKV_NORM_OVER_COUNT - 1);
    /* Two channels less their mean are the sign of their difference: a step, whose slope no float has near 0. */
    if (norm->kind == QKV_NORM_LAYERNORM && s.attention.head_dim == 2) norm->eps = 0.1;
    s.kv_in = cross ? whole(r, 0, 20) : 0;
    if (!cross && coin(r)) {
        s.attention.position.kind = coin(r) ? QKV_POSITION_ROPE : QKV_POSITION_ALIBI;
        s.attention.position.pairing = (enum qkv_pairing)whole(r, 0, 1);
        s.attention.position.theta = coin(r) ? 0 : 100;
        s.attention.position.fraction = s.attention.head_dim >= 4 && coin(r) ? 0.5 : 0;
        s.context = 16;
    }
    return s;
}

static inline float *floats(struct sample *s, size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    if (!x) abort();
    test_fill(&s->random, x, n, 1);
    return x;
}

static inline void make(struct sample *s, const struct qkv_attention_layer_spec *spec, size_t B, size_t T,
                        size_t memory_T) {
    assert_ok(s->ctx, qkv_attention_layer_create(s->ctx, spec, qkv_random_bits(&s->random), &s->layer));
    s->spec = qkv_attention_layer_spec(s->layer);
    for (size_t i = 0; i < qkv_attention_layer_parameters(s->layer); i++) {
        size_t n = qkv_array_elements(qkv_attention_layer_parameter(s->layer, i));
        if (qkv_attention_layer_parameter(s->layer, i)->rank == 1)
            test_fill(&s->random, qkv_attention_layer_weights(s->layer, i), n, 1);
    }
    size_t in = (size_t)s->spec->in, kv_in = (size_t)s->spec->kv_in, out = (size_t)s->spec->out;
    s->Tk = spec->cross ? memory_T : T;
    s->x = floats(s, B * T * in);
    s->memory = floats(s, B * memory_T * kv_in);
    s->y = floats(s, B * T * out);
    s->dy = floats(s, B * T * out);
    s->dx = floats(s, B * T * in);
    s->dmemory = floats(s, B * memory_T * kv_in);
    s->in = (struct qkv_attention_input){.B = B, .T = T, .x = s->x};
    if (spec->cross) {
        s->in.memory = s->memory;
        s->in.memory_T = memory_T;
    }
}

static inline void start(struct sample *s, uint64_t stream, bool cross, int threads) {
    memset(s, 0, sizeof *s);
    s->random = test_random(stream);
    assert_int_equal(qkv_context_create(&s->ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads)), QKV_OK);
    struct qkv_attention_layer_spec spec = random_spec(&s->random, cross);
    make(s, &spec, test_between(&s->random, 1, 3), test_between(&s->random, 1, 11), test_between(&s->random, 1, 11));
}

static inline void finish(struct sample *s) {
    float *each[] = {s->x, s->memory, s->y, s->dy, s->dx, s->dmemory, s->bias, s->dbias};
    for (size_t i = 0; i < TEST_COUNT(each); i++) free(each[i]);
    free(s->dense);
    free(s->documents);
    qkv_attention_layer_free(s->layer);
    qkv_context_free(s->ctx);
}

#endif
