/* scaling_fixture.h: a scaling of each kind, and models whose layers are rotated by it. */
#ifndef QKV_SCALING_FIXTURE_H
#define QKV_SCALING_FIXTURE_H

#include "search_fixture.h"

#include "model/spec.h"

enum { PAIRS = 4, V = 23, P = 9, LONGEST = 24 };

static struct qkv_context *ctx;

/* For the width of all tests here: 8 rotated channels of 10. */
static const char *const scalings[] = {
    [QKV_SCALING_LINEAR] = "{\"kind\": \"linear\", \"factor\": 3}",
    [QKV_SCALING_DYNAMIC] = "{\"kind\": \"dynamic\", \"factor\": 2.5, \"original_context\": 9}",
    [QKV_SCALING_NTK] = "{\"kind\": \"ntk\", \"factor\": 5, \"attention_factor\": 1.1}",
    [QKV_SCALING_YARN] = "{\"kind\": \"yarn\", \"factor\": 4, \"original_context\": 9, \"beta_fast\": 4, "
                         "\"beta_slow\": 0.2, \"truncate\": false}",
    [QKV_SCALING_LLAMA3] = "{\"kind\": \"llama3\", \"factor\": 6, \"original_context\": 9}",
    [QKV_SCALING_LONGROPE] = "{\"kind\": \"longrope\", \"original_context\": 9, \"short\": [1, 1.1, 1.3, 2], "
                             "\"long\": [1, 2, 5, 12]}",
};
_Static_assert(TEST_COUNT(scalings) == QKV_SCALING_COUNT, "one of each kind");

#define ROTATED(scaling)                                                                                               \
    "{\"kind\": \"rope\", \"theta\": 300, \"fraction\": 0.8, \"pairing\": \"interleaved\", \"scaling\": " scaling "}"

/* Three layers: rotated by the scaling, without a position, and rotated plainly. */
static struct qkv_model *scaled_model(const char *scaling, bool encoder, uint64_t seed) {
    char stack[1200], json[3000];
    snprintf(stack, sizeof stack,
             "{\"layers\": 3, \"pattern\": [\"scaled\", \"still\", \"plain\"], \"attention\": {\"heads\": 2, "
             "\"kv_heads\": 1, \"head_dim\": 10}, \"ffn\": {\"kind\": \"silu\", \"d_ff\": 16}, \"kinds\": {\"scaled\": "
             "{\"attention\": {\"position\": " ROTATED(
                 "%s") "}}, \"still\": {\"attention\": {\"position\": {\"kind\": "
                       "\"none\"}}}, \"plain\": {\"attention\": {\"position\": {\"kind\": \"rope\"}}}}}",
             scaling);
    snprintf(json, sizeof json,
             "{\"format\": \"qkv\", \"version\": 2, \"vocab\": %d, \"d_model\": 12, \"context\": %d, \"encoder\": %s, "
             "\"decoder\": %s}",
             V, LONGEST, encoder ? stack : "null", stack);
    return fixture_model(ctx, json, NULL, 0, seed, 0.3);
}

/* Scores of a sequence alone, decided for `length` (0: its own). */
static void scores_alone(struct qkv_model *m, const int32_t *ids, size_t T, size_t length, float *scores) {
    struct qkv_pass *pass;
    assert_ok(ctx, qkv_pass_create(m, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = T, .logits = true), &pass));
    assert_ok(ctx, qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = T, .ids = ids, .length = length}));
    memcpy(scores, qkv_pass_output(pass).data, T * V * sizeof *scores);
    qkv_pass_free(pass);
}

static struct qkv_position_spec random_rotation(struct qkv_random *r, enum qkv_scaling_kind kind) {
    struct qkv_position_spec p = {
        .kind = QKV_POSITION_ROPE, .theta = exp(2 + 12 * qkv_random_uniform(r)), .fraction = 1};
    struct qkv_scaling_spec *s = &p.scaling;
    *s = qkv_scaling_defaults(kind);
    s->factor = 1 + 30 * qkv_random_uniform(r);
    if (kind == QKV_SCALING_LONGROPE && qkv_random_below(r, 2)) s->factor = 0;
    s->original_context = (int)test_between(r, kind == QKV_SCALING_YARN ? 30 : 2, 200); /* its slow end lies within */
    if (qkv_random_below(r, 2)) s->beta_fast = 3 + 40 * qkv_random_uniform(r);
    if (qkv_random_below(r, 2)) s->beta_slow = 0.1 + 2 * qkv_random_uniform(r);
    s->truncate = qkv_random_below(r, 2);
    if (qkv_random_below(r, 2))
        s->mscale = qkv_random_uniform(r) + 0.1, s->mscale_all_dim = qkv_random_uniform(r) + 0.1;
    if (qkv_random_below(r, 2))
        s->low_freq = 0.2 + qkv_random_uniform(r), s->high_freq = 1.3 + 4 * qkv_random_uniform(r);
    if (qkv_random_below(r, 4) == 0) s->attention_factor = 0.5 + qkv_random_uniform(r);
    s->short_factors.count = s->long_factors.count = PAIRS;
    for (int j = 0; j < PAIRS; j++) {
        s->short_factors.values[j] = 0.5 + 2 * qkv_random_uniform(r);
        s->long_factors.values[j] = 0.5 + 20 * qkv_random_uniform(r);
    }
    return p;
}

static int start_context(void **state) {
    (void)state;
    return (int)qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .threads = 2));
}

static int end_context(void **state) {
    (void)state;
    qkv_context_free(ctx);
    return 0;
}

#endif
