/* block_experts: a feed-forward with experts: the router, the experts that it chooses, and a shared expert. */
#include "model/model.h"
#include "model/spec.h"

/* The shared expert's output, or that times sigmoid(x·w). */
static struct qkv_tensor *experts_shared(struct qkv_forward_args *f, const struct qkv_ffn_spec *spec,
                                         struct qkv_ffn *ffn, struct qkv_tensor *x) {
    struct qkv_tensor *hidden = qkv_op_linear_activation(f->tape, x, &ffn->up.weight, qkv_tensor_or_null(&ffn->up.bias),
                                                         spec->kind, qkv_ffn_gated(spec->kind), (float)spec->limit);
    struct qkv_tensor *y =
        qkv_op_linear(f->tape, hidden, &ffn->down.weight, qkv_tensor_or_null(&ffn->down.bias), QKV_RESULT_FP32);
    if (!spec->experts.shared_gate) return y;
    return qkv_op_row_gate(f->tape, y, qkv_op_linear(f->tape, x, &ffn->experts->shared_gate, NULL, QKV_RESULT_FP32));
}

struct qkv_tensor *qkv_experts_forward(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x) {
    const struct qkv_ffn_spec *spec = &qkv_stack_layer(f->stack->spec, layer)->ffn;
    struct qkv_ffn *ffn = &qkv_layer_weights(f->stack, layer)->ffn;
    const struct qkv_routing *routing = NULL;
    const struct qkv_experts_spec *of = &spec->experts;
    struct qkv_experts *e = ffn->experts;
    const bool grouped = of->groups > 1;
    const struct qkv_route_options options = {.top_k = (size_t)of->top_k,
                                              .groups = (size_t)of->groups,
                                              .top_groups = (size_t)(grouped ? of->top_groups : 1),
                                              .scores = of->scores,
                                              .group_score = of->group_score,
                                              .normalize = of->normalize,
                                              .scale = (float)of->scale,
                                              .margin = (float)of->margin,
                                              .balance =
                                                  f->sequences > 0 ? (float)(of->balance_loss / f->sequences) : 0,
                                              .z = f->sequences > 0 ? (float)(of->z_loss / f->sequences) : 0,
                                              .rows = f->rows,
                                              .lengths = f->lengths,
                                              .loads = e->loads,
                                              .name = e->router.weight.operand.name};
    struct qkv_tensor *logits =
        qkv_op_linear(f->tape, x, &e->router.weight, qkv_tensor_or_null(&e->router.bias), QKV_RESULT_FP32);
    struct qkv_tensor *weights = qkv_op_route(f->tape, logits, qkv_tensor_or_null(&e->correction), &options, &routing);
    struct qkv_tensor *y = qkv_op_experts(f->tape, x, weights, routing, &e->weights, spec->kind,
                                          qkv_ffn_gated(spec->kind), (float)spec->limit, of->scale_inputs);
    if (of->shared) y = qkv_op_add(f->tape, experts_shared(f, spec, ffn, x), y, 1);
    qkv_hook_call_experts(f, layer, routing);
    return y;
}
