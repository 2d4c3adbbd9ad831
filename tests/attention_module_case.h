/* attention_module_case.h: an attention module of random widths and kinds, and its buffers. */
#ifndef QKV_ATTENTION_MODULE_CASE_H
#define QKV_ATTENTION_MODULE_CASE_H

#include "test.h"
#include "weights.h"

struct sample {
    struct qkv_context *ctx;
    struct qkv_random random;
    struct qkv_module *module;
    const struct qkv_attention_module_spec *spec;
    struct qkv_module_input in;
    struct qkv_module_mask *mask; /* of `in` */
    size_t B, T, Tk;
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

static inline struct qkv_attention_module_spec random_spec(struct qkv_random *r, bool cross) {
    static const int heads[][2] = {{1, 1}, {3, 3}, {4, 2}, {4, 1}};
    const int *h = heads[qkv_random_below(r, 4)];
    struct qkv_attention_module_spec s = {.in = whole(r, 1, 20), .out = whole(r, 0, 20), .cross = cross};
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
    norm->bias = norm->weight && qkv_norm_centered(norm->kind) && coin(r);
    s.attention.qk_norm.over = (enum qkv_norm_over)whole(r, 0, QKV_NORM_OVER_COUNT - 1);
    /* Two channels less their mean are the sign of their difference: a step, whose slope no float has near 0. */
    if (qkv_norm_centered(norm->kind) && s.attention.head_dim == 2) norm->eps = 0.1;
    s.kv_in = cross ? whole(r, 0, 20) : 0;
    if (!cross && coin(r)) {
        s.attention.position.kind = coin(r) ? QKV_POSITION_ROPE : QKV_POSITION_ALIBI;
        s.attention.position.pairing = (enum qkv_pairing)whole(r, 0, 1);
        s.attention.position.theta = coin(r) ? 0 : 100;
        s.attention.position.fraction = s.attention.head_dim >= 4 && coin(r) ? 0.5 : 0;
        s.context = 16;
    }
    s.attention.qk_norm.after_rotation = norm->given && coin(r);
    if (cross) return s;
    s.attention.chunk = coin(r) ? 0 : whole(r, 2, 5);
    if (coin(r))
        s.attention.temperature = (struct qkv_temperature_spec){
            .given = true, .beta = 0.7, .length = whole(r, 1, 4), .offset = whole(r, 0, 1)};
    return s;
}

static inline float *floats(struct sample *s, size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    if (!x) abort();
    test_fill(&s->random, x, n, 1);
    return x;
}

static inline size_t elements(const struct qkv_module *m, size_t i) {
    return qkv_array_elements(qkv_module_parameter(m, i));
}

static inline float *gradient_of(struct qkv_module *m, size_t i) {
    return test_module_gradient(m, i);
}

/* The mask of the attention of an input. */
static inline struct qkv_module_mask *mask_of(const struct sample *s, struct qkv_module_input *in) {
    return s->spec->cross ? &in->cross : &in->self;
}

static inline void make(struct sample *s, const struct qkv_attention_module_spec *spec, size_t B, size_t T,
                        size_t memory_T) {
    assert_ok(s->ctx, qkv_module_create_attention(s->ctx, spec, qkv_random_bits(&s->random), &s->module));
    s->spec = qkv_module_attention_spec(s->module);
    for (size_t i = 0; i < qkv_module_parameters(s->module); i++)
        if (qkv_module_parameter(s->module, i)->rank == 1)
            test_fill(&s->random, test_module_weights(s->module, i), elements(s->module, i), 1);
    size_t in = (size_t)s->spec->in, kv_in = (size_t)s->spec->kv_in, out = (size_t)s->spec->out;
    s->B = B, s->T = T, s->Tk = spec->cross ? memory_T : T;
    s->x = floats(s, B * T * in);
    s->memory = floats(s, B * memory_T * kv_in);
    s->y = floats(s, B * T * out);
    s->dy = floats(s, B * T * out);
    s->dx = floats(s, B * T * in);
    s->dmemory = floats(s, B * memory_T * kv_in);
    s->in = qkv_module_input_defaults();
    s->in.x = (struct qkv_vectors){s->x, B, T, in};
    if (spec->cross) s->in.memory = (struct qkv_vectors){s->memory, B, memory_T, kv_in};
    s->mask = mask_of(s, &s->in);
}

/* Numbers of the output of an input. */
static inline size_t outputs(const struct sample *s) {
    return s->B * s->T * (size_t)s->spec->out;
}

static inline enum qkv_status forward(struct sample *s, const struct qkv_module_input *in, float *y) {
    return qkv_module_forward(s->module, in, (struct qkv_vectors){y, in->x.B, in->x.T, (size_t)s->spec->out});
}

/* Backward of `in`; dx and dmemory may be NULL. */
static inline enum qkv_status backward(struct sample *s, const struct qkv_module_input *in, float *dy, float *dx,
                                       float *dmemory) {
    struct qkv_module_gradients g = {.x = in->x, .memory = in->memory};
    g.x.data = dx;
    g.memory.data = dmemory;
    return qkv_module_backward(s->module, (struct qkv_vectors){dy, in->x.B, in->x.T, (size_t)s->spec->out}, &g);
}

/* A step of training with the sample's own input. */
static inline void train(struct sample *s) {
    s->in.train = true;
    assert_ok(s->ctx, forward(s, &s->in, s->y));
    assert_ok(s->ctx, backward(s, &s->in, s->dy, s->dx, s->spec->cross ? s->dmemory : NULL));
}

static inline void start(struct sample *s, uint64_t stream, bool cross, int threads) {
    memset(s, 0, sizeof *s);
    s->random = test_random(stream);
    assert_int_equal(qkv_context_create(&s->ctx, &QKV_OPTIONS(qkv_context_options, .threads = threads)), QKV_OK);
    struct qkv_attention_module_spec spec = random_spec(&s->random, cross);
    make(s, &spec, test_between(&s->random, 1, 3), test_between(&s->random, 1, 11), test_between(&s->random, 1, 11));
}

static inline void finish(struct sample *s) {
    float *each[] = {s->x, s->memory, s->y, s->dy, s->dx, s->dmemory, s->bias, s->dbias};
    for (size_t i = 0; i < TEST_COUNT(each); i++) free(each[i]);
    free(s->dense);
    free(s->documents);
    qkv_module_free(s->module);
    qkv_context_free(s->ctx);
}

#endif
