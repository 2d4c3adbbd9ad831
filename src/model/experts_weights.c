/* experts_weights: the weights of a feed-forward with experts: router, experts, shared expert. */
#include "model/model.h"

#include <stdlib.h>

void qkv_experts_free(struct qkv_experts *e) {
    if (!e) return;
    free(e->weights.up);
    free(e->weights.down);
    free(e->weights.operands);
    free(e->loads);
    free(e);
}

static struct qkv_experts *experts_make(struct qkv_context *ctx, size_t count) {
    struct qkv_experts *e = qkv_allocate(ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->weights.count = count;
    e->weights.up = qkv_allocate(ctx, count, sizeof *e->weights.up);
    if (e->weights.up) e->weights.down = qkv_allocate(ctx, count, sizeof *e->weights.down);
    if (e->weights.down) e->weights.operands = qkv_allocate(ctx, 4 * count, sizeof(void *));
    if (e->weights.operands) e->loads = qkv_allocate(ctx, count, sizeof *e->loads);
    if (e->loads) return e;
    qkv_experts_free(e);
    return NULL;
}

static void experts_list(struct qkv_expert_weights *w, struct qkv_linear *linear, bool bias) {
    w->operands[w->operand_count++] = &linear->weight;
    if (bias) w->operands[w->operand_count++] = &linear->bias;
}

struct qkv_experts *qkv_experts_build_weights(struct qkv_weights *w, const struct qkv_weight_place *place,
                                              const struct qkv_ffn_spec *spec, struct qkv_ffn *ffn) {
    static const enum qkv_role router = QKV_ROLE_ROUTER, correction = QKV_ROLE_CORRECTION,
                               ups[] = {QKV_ROLE_EXPERT_GATE, QKV_ROLE_EXPERT_UP}, down = QKV_ROLE_EXPERT_DOWN,
                               shared_ups[] = {QKV_ROLE_SHARED_GATE, QKV_ROLE_SHARED_UP},
                               shared_down = QKV_ROLE_SHARED_DOWN, mix = QKV_ROLE_SHARED_MIX;
    const struct qkv_experts_spec *of = &spec->experts;
    const size_t gated = qkv_ffn_gated(spec->kind), first = !gated, count = (size_t)of->count;
    const bool bias = spec->bias && !of->unbiased;
    struct qkv_experts *e = experts_make(w->ctx, count);
    if (!e) {
        w->status = QKV_MEMORY;
        return NULL;
    }
    qkv_weights_linear(w, place, &e->router, &router, 1, of->bias);
    /* choosing is a step function: rounded scores choose differently (Fedus et al. 2021) */
    e->router.weight.operand.fp32 = true;
    if (of->correction) qkv_weights_matrix(w, place, &e->correction, &correction, 1);
    for (size_t i = 0; i < count; i++) {
        struct qkv_weight_place at = *place;
        at.expert = (int)i;
        qkv_weights_linear(w, &at, &e->weights.up[i], ups + first, 1 + gated, bias);
        qkv_weights_linear(w, &at, &e->weights.down[i], &down, 1, bias);
        experts_list(&e->weights, &e->weights.up[i], bias);
        experts_list(&e->weights, &e->weights.down[i], bias);
    }
    if (!of->shared) return e;
    qkv_weights_linear(w, place, &ffn->up, shared_ups + first, 1 + gated, spec->bias);
    qkv_weights_linear(w, place, &ffn->down, &shared_down, 1, spec->bias);
    if (of->shared_gate) qkv_weights_matrix(w, place, &e->shared_gate, &mix, 1);
    return e;
}
