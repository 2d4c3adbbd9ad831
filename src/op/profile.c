/* profile of operators: the tape tells of every operator that has run, so that the operators themselves know nothing of it.
 *
 * Products and attention are counted in floating-point operations (multiply and add are two), the others, which are bound by
 * memory, in the bytes that they cannot avoid to read and write. */
#include "op/profile.h"

/* Bytes of an operator: how often it reads or writes its first input and its output forward, and backward its first input and
 * the gradients of the two, which are fp32 whatever the tensors are kept as. None: counted in operations, or (add, backward)
 * only handed on. */
static const struct cost {
    const char *name;
    qkv_backward *backward;
    double forward_x, forward_y, backward_x, backward_dx, backward_dy;
} costs[] = {
    {"embed", qkv_backward_embed, 0, 2, 0, 0, 3}, /* of the table only the rows that are read */
    {"linear", qkv_backward_linear, 0, 0, 0, 0, 0},
    {"norm", qkv_backward_norm, 1, 1, 1, 1, 1},
    {"rotate", qkv_backward_rotate, 2, 0, 0, 2, 0},
    {"attend", qkv_backward_attend, 0, 0, 0, 0, 0},
    {"activation", qkv_backward_activation, 1, 1, 1, 1, 1},
    {"gated", qkv_backward_gated, 1, 1, 1, 1, 1},
    {"add", qkv_backward_add, 1, 2, 0, 0, 0},
    {"dropout", qkv_backward_dropout, 1, 1, 0, 1, 1},
    {"pool", qkv_backward_pool, 1, 1, 0, 1, 1},
    {"cross_entropy", qkv_backward_cross_entropy, 0, 0, 0, 0, 0},
    {"inner_product", qkv_backward_inner_product, 2, 0, 1, 1, 0},
};
static const struct cost checkpoint = {.name = "checkpoint", .forward_y = 2}; /* a segment: the copy of its output */

/* The list of operators and the one above are of one length. */
#define COUNT_ONE(name) +1
_Static_assert(sizeof costs / sizeof *costs == 0 QKV_OPERATOR_LIST(COUNT_ONE), "an operator is missing");

static const struct cost *cost_of(qkv_backward *backward) {
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        if (costs[i].backward == backward) {
            return &costs[i];
        }
    }
    return &checkpoint;
}

static double bytes_of(const struct qkv_tensor *t) {
    return t ? (double)t->rows * (double)t->columns * (double)qkv_dtype_size(t->dtype) : 0;
}

static double gradient_bytes(const struct qkv_tensor *t) {
    return t ? (double)t->rows * (double)t->columns * (double)sizeof(float) : 0;
}

/* Operations of one product of x (N, in) with a weight (out, in). */
static double product(const struct qkv_tensor *x, const struct qkv_tensor *weight) {
    return 2.0 * (double)x->rows * (double)weight->rows * (double)weight->columns;
}

/* Pairs of a query and a key of one head that its mask lets through. */
static double pairs(const struct qkv_attend *a) {
    double sum = 0;
    for (size_t r = 0; r < a->B * a->Tq; r++) {
        int64_t lo = a->lo[r] > 0 ? a->lo[r] : 0, hi = a->hi[r] < (int64_t)a->Tk ? a->hi[r] : (int64_t)a->Tk;
        sum += hi > lo ? (double)(hi - lo) : 0;
    }
    return sum;
}

static int wanted(const struct qkv_tensor *t) {
    return t && t->wants;
}

/* q·k and weights·v forward; backward q·k again, dy·v, and the gradients of q, k and v. */
static double attend_flops(const struct qkv_attend *a, bool backward) {
    double D = (double)a->D, Dv = (double)a->Dv;
    return 2 * pairs(a) * (double)a->H * (backward ? 3 * D + 2 * Dv : D + Dv);
}

void qkv_profile_forward(struct qkv_tape *tape, qkv_backward *backward, struct qkv_tensor *const *inputs, size_t count,
                         const struct qkv_tensor *output, const void *saved) {
    const struct cost *cost = cost_of(backward);
    enum qkv_profile_direction direction = QKV_PROFILE_FORWARD;
    double flops = 0;
    if (tape->ctx->dry || tape->status != QKV_OK) {
        return;
    }
    if (backward == qkv_backward_linear) {
        flops = product(inputs[0], inputs[1]);
    } else if (backward == qkv_backward_attend) {
        flops = attend_flops(saved, false);              /* whose record begins with the call */
    } else if (backward == qkv_backward_cross_entropy) { /* makes its gradient on the way */
        int back = tape->recording ? wanted(inputs[0]) + wanted(inputs[1]) : 0;
        direction = back ? QKV_PROFILE_WHOLE : QKV_PROFILE_FORWARD;
        flops = product(inputs[0], inputs[1]) * (1 + back);
    }
    double bytes = cost->forward_x * bytes_of(inputs[0]) + cost->forward_y * bytes_of(output);
    if (backward == qkv_backward_embed && count > 1 && inputs[1]) {
        bytes += bytes_of(output);
    }
    qkv_profile_lap(tape->ctx, cost->name, direction, flops, bytes);
}

void qkv_profile_backward(struct qkv_tape *tape, const struct qkv_node *node) {
    const struct cost *cost = cost_of(node->backward);
    struct qkv_tensor *const *inputs = node->inputs;
    enum qkv_profile_direction direction = QKV_PROFILE_BACKWARD;
    double flops = 0;
    if (tape->ctx->dry) {
        return;
    }
    if (node->backward == qkv_backward_linear) {
        flops = product(inputs[0], inputs[1]) * (wanted(inputs[0]) + wanted(inputs[1]));
    } else if (node->backward == qkv_backward_attend) {
        flops = attend_flops(node->saved, true);
    } else if (node->backward == qkv_backward_cross_entropy) {
        return; /* was counted forward */
    }
    double bytes = cost->backward_x * bytes_of(inputs[0]) + cost->backward_dx * gradient_bytes(inputs[0]) +
                   cost->backward_dy * gradient_bytes(node->output);
    if (node->backward == qkv_backward_embed && wanted(inputs[1])) {
        bytes += 2 * gradient_bytes(node->output);
    }
    qkv_profile_lap(tape->ctx, cost->name, direction, flops, bytes);
}
