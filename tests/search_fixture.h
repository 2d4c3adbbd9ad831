/* search_fixture.h: small encoder-decoders with random weights, and the next token's scores from a pass over one
 * source and one target alone: the oracle of decoding and search. */
#ifndef QKV_SEARCH_FIXTURE_H
#define QKV_SEARCH_FIXTURE_H

#include "test.h"
#include "weights.h"

/* The call gives that status, and a sentence with that part. */
#define assert_fails(ctx, call, expected, part)                                                                        \
    do {                                                                                                               \
        assert_status(ctx, call, expected);                                                                            \
        assert_message(ctx, part);                                                                                     \
    } while (0)

/* A model from JSON and settings, its weights larger than at the start, so that everything matters. */
static inline struct qkv_model *fixture_model(struct qkv_context *ctx, const char *json, const char *const *settings,
                                              size_t count, uint64_t seed, double deviation) {
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *m;
    struct qkv_random r = qkv_random_start(seed, 77);
    assert_ok(ctx, qkv_spec_parse(ctx, &spec, "fixture", json, strlen(json), settings, count));
    assert_ok(ctx, qkv_model_create(ctx, &spec, seed, &m));
    for (size_t i = 0; i < qkv_model_parameters(m); i++) {
        float *w = test_weights_mutable(m, i);
        size_t n = qkv_array_elements(qkv_model_parameter(m, i));
        for (size_t k = 0; k < n; k++) w[k] += (float)(deviation * qkv_random_normal(&r));
    }
    return m;
}

/* The scores after target[0, T), by a fresh pass. source NULL: a decoder alone. */
static inline void fixture_scores(struct qkv_context *ctx, struct qkv_model *m, const int32_t *source, size_t source_T,
                                  const int32_t *target, size_t T, float *out) {
    struct qkv_pass *pass;
    size_t V = (size_t)qkv_model_spec(m)->vocab;
    struct qkv_pass_options o = {.size = sizeof o, .B = 1, .T = T, .source_T = source_T, .logits = true};
    struct qkv_batch b = {.B = 1, .T = T, .ids = target, .source_T = source_T, .source = source};
    assert_ok(ctx, qkv_pass_create(m, &o, &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &b));
    memcpy(out, (const float *)qkv_pass_output(pass).data + (T - 1) * V, V * sizeof *out);
    qkv_pass_free(pass);
}

/* n random ids below `vocab`. */
static inline void fixture_ids(struct qkv_random *random, int32_t *ids, size_t n, int vocab) {
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)qkv_random_below(random, (uint64_t)vocab);
}

/* Log-probabilities of a row of scores, in double. */
static inline void fixture_log_softmax(const float *scores, size_t n, double *out) {
    double best = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) best = fmax(best, (double)scores[i]);
    for (size_t i = 0; i < n; i++) sum += exp((double)scores[i] - best);
    for (size_t i = 0; i < n; i++) out[i] = (double)scores[i] - best - log(sum);
}

#endif
