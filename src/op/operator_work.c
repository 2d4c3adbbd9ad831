/* operator_work: counts the FLOPs and bytes of operators. */
#include "base/profile.h"
#include "op/op.h"

double qkv_tensor_bytes(const struct qkv_tensor *t) {
    return t ? (double)t->rows * (double)t->columns * (double)qkv_type_size(t->dtype) : 0;
}

double qkv_gradient_bytes(const struct qkv_tensor *t) {
    return t ? (double)t->rows * (double)t->columns * (double)sizeof(float) : 0;
}

double qkv_product_flops(const struct qkv_tensor *x, const struct qkv_tensor *weight, bool backward) {
    const double products = backward ? (double)x->learning.requires_grad + (double)weight->learning.requires_grad : 1;
    return 2.0 * (double)x->rows * (double)weight->rows * (double)weight->columns * products;
}

static void cost_add(struct qkv_cost *sum, struct qkv_cost cost) {
    sum->flops += cost.flops;
    sum->again += cost.again;
    sum->bytes += cost.bytes;
}

bool qkv_operator_counts(const struct qkv_tape *tape) {
    return tape->costs || tape->ctx->profile;
}

void qkv_operator_count(struct qkv_tape *tape, const struct qkv_node *node, bool backward) {
    struct qkv_tape_costs *costs = tape->costs;
    if (!qkv_operator_counts(tape) || (backward && node->whole)) return;
    struct qkv_cost cost = node->row->cost(node, backward);
    if (costs) {
        cost_add(backward ? &costs->backward : tape->repeats ? &costs->repeated : &costs->forward, cost);
    }
    enum qkv_profile_direction direction = backward ? QKV_PROFILE_BACKWARD : QKV_PROFILE_FORWARD;
    if (node->whole) {
        const struct qkv_cost back = node->row->cost(node, true);
        direction = QKV_PROFILE_WHOLE;
        cost_add(&cost, back);
        if (costs) {
            cost_add(&costs->backward, back);
        }
    }
    qkv_profile_lap(tape->ctx, node->row->name, direction, cost.flops, cost.bytes);
}
