/* check_op_experts.h: checks of routers and experts for the list in test_op. */
#ifndef QKV_CHECK_OP_EXPERTS_H
#define QKV_CHECK_OP_EXPERTS_H

#include "op/weights.h"
#include "check_op_rows.h"

/* Logits of rows whose choices are far from each other; and a correction. */
enum { ROUTED = 9, ROUTED_EXPERTS = 6 };
static void spread_logits(struct fixture *f) {
    static const float levels[ROUTED_EXPERTS] = {-2.6F, -1.5F, -0.6F, 0.1F, 1.1F, 2.9F};
    for (size_t n = 0; n < ROUTED; n++)
        for (size_t e = 0; e < ROUTED_EXPERTS; e++) {
            float *row = f->values[0] + n * ROUTED_EXPERTS;
            const size_t other = qkv_random_below(&f->random, e + 1);
            row[e] = row[other];
            row[other] = levels[e];
        }
}

static float routed_correction[ROUTED_EXPERTS] = {0.0035F, -0.0007F, 0, 0.001F, -0.0025F, 0.0017F};

static struct qkv_tensor *build_route(struct fixture *f) {
    const struct qkv_routing *routing;
    struct qkv_tensor *correction = qkv_tape_view(&f->tape, routed_correction, 1, ROUTED_EXPERTS);
    const struct qkv_route_options *o = f->options;
    return qkv_op_route(&f->tape, &f->leaves[0], o->scale > 1 ? correction : NULL, o, &routing);
}

static void check_route(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 24; i++) {
        const struct qkv_route_options o = {.top_k = 1 + i % 3,
                                            .groups = i % 2 ? 3 : 1,
                                            .top_groups = i % 2 ? 2 : 1,
                                            .scores = (enum qkv_expert_scores)(i / 2 % 3),
                                            .group_score = i % 4 == 1 ? QKV_GROUP_SCORE_MAX : QKV_GROUP_SCORE_TOP2,
                                            .normalize = i / 6 % 2,
                                            .scale = i / 12 ? 1.5F : 1};
        struct fixture f;
        start(&f, 900 + i);
        f.options = &o;
        leaf(&f, ROUTED, ROUTED_EXPERTS, 0);
        spread_logits(&f);
        check(&f, build_route);
        finish(&f);
    }
}

/* Three experts; leaves are x, the weights of the choices, and up, its bias, down, its bias of each. */
enum { MIXED = 7, MIXED_EXPERTS = 3, MIXED_K = 2, MIXED_C = 5, MIXED_F = 4 };
struct mixed {
    bool inputs;
    enum qkv_ffn_kind kind;
    float logits[MIXED * MIXED_EXPERTS];
    struct qkv_linear up[MIXED_EXPERTS], down[MIXED_EXPERTS];
    struct qkv_tensor *operands[4 * MIXED_EXPERTS];
    struct qkv_expert_weights weights;
};

static struct qkv_tensor *build_experts(struct fixture *f) {
    struct mixed *m = (struct mixed *)(uintptr_t)f->options;
    const struct qkv_route_options o = {.top_k = MIXED_K, .groups = 1, .top_groups = 1, .scale = 1};
    const struct qkv_routing *routing;
    for (size_t e = 0; e < MIXED_EXPERTS; e++) {
        struct qkv_tensor *own = &f->leaves[2 + 4 * e];
        m->up[e] = (struct qkv_linear){own[0], own[1]};
        m->down[e] = (struct qkv_linear){own[2], own[3]};
        struct qkv_tensor *const all[] = {&m->up[e].weight, &m->up[e].bias, &m->down[e].weight, &m->down[e].bias};
        memcpy(m->operands + 4 * e, all, sizeof all);
    }
    m->weights = (struct qkv_expert_weights){MIXED_EXPERTS, 4 * MIXED_EXPERTS, m->up, m->down, m->operands};
    struct qkv_tensor *logits = qkv_tape_view(&f->tape, m->logits, MIXED, MIXED_EXPERTS);
    qkv_op_route(&f->tape, logits, NULL, &o, &routing);
    return qkv_op_experts(&f->tape, &f->leaves[0], &f->leaves[1], routing, &m->weights, m->kind, qkv_ffn_gated(m->kind),
                          0.9F, m->inputs);
}

static void check_experts(void **state) {
    (void)state;
    static const enum qkv_ffn_kind kinds[] = {QKV_FFN_GELU, QKV_FFN_SWIGLU, QKV_FFN_GEGLU};
    for (uint64_t i = 0; i < 2 * TEST_COUNT(kinds); i++) {
        struct fixture f;
        struct mixed m = {.kind = kinds[i / 2], .inputs = i % 2};
        const size_t H = qkv_ffn_gated(m.kind) ? 2 * MIXED_F : MIXED_F;
        start(&f, 930 + i);
        f.options = &m;
        test_fill(&f.random, m.logits, TEST_COUNT(m.logits), 1);
        leaf(&f, MIXED, MIXED_C, 0);
        leaf(&f, MIXED, MIXED_K, 0);
        for (size_t e = 0; e < MIXED_EXPERTS; e++) {
            leaf(&f, H, MIXED_C, 0);
            leaf(&f, 1, H, 0);
            leaf(&f, MIXED_C, MIXED_F, 0);
            leaf(&f, 1, MIXED_C, 0);
        }
        check(&f, build_experts);
        finish(&f);
    }
}

static struct qkv_tensor *build_row_gate(struct fixture *f) {
    return qkv_op_row_gate(&f->tape, &f->leaves[0], &f->leaves[1]);
}

static void check_row_gate(void **state) {
    (void)state;
    struct fixture f;
    start(&f, 940);
    leaf(&f, 5, 37, 0);
    leaf(&f, 5, 1, 0);
    check(&f, build_row_gate);
    finish(&f);
}

#endif
