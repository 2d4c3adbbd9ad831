/* cross_entropy: the head and its loss in one, and inner_product: the loss of a model without a head.
 *
 * scores = x·Wᵀ + b, x (N, C), W (V, C); loss = Σ_n lse(scores[n]) − scores[n][target[n]] over the targets that count.
 * Gradient of s·loss: dscores[n] = s·(softmax(scores[n]) − onehot(target[n])), dx = dscores·W, dW += dscoresᵀ·x.
 * With label smoothing e (Szegedy et al. 2016), onehot becomes q = (1 − e)·onehot + e/V, and the loss lse − Σ q·scores.
 * Rows are taken in chunks, so a vocabulary of 50,000 needs the scores of a few hundred rows at a time and never all of them
 * with all of their gradient. The gradient is made chunk by chunk while the scores are at hand; a loss is where backward
 * starts, so nothing that comes later could change it. Where the rows have an order (--groups), there is one chunk. */
#include "op/linear.h"

#include <string.h>

enum { CHUNK_FLOATS = 16 << 20, ROWS_A_PIECE = 4, ELEMENTS_A_PIECE = 16384 };

struct chunk {
    const struct qkv_kernels *kernels;
    size_t V;
    const int32_t *targets;
    const float *scores;
    float *dscores; /* may be scores itself; NULL: no gradient */
    float *losses;  /* of each row */
    float scale, smoothing;
};

/* lse − Σ q·scores of one row. */
static float row_loss(const struct chunk *c, const float *scores, size_t target, float lse) {
    if (c->smoothing == 0) {
        return lse - scores[target];
    }
    double sum = 0, e = (double)c->smoothing;
    for (size_t v = 0; v < c->V; v++) {
        sum += (double)scores[v];
    }
    return (float)((double)lse - (1 - e) * (double)scores[target] - e * sum / (double)c->V);
}

/* s·(softmax − q) of one row; in place of its scores, perhaps. */
static void row_gradient(const struct chunk *c, const float *scores, float *dscores, size_t target, float lse) {
    c->kernels->softmax_scaled(dscores, scores, lse, c->scale, c->V);
    float share = c->smoothing / (float)c->V * c->scale;
    for (size_t v = 0; share != 0 && v < c->V; v++) {
        dscores[v] -= share;
    }
    dscores[target] -= (1 - c->smoothing) * c->scale;
}

static void loss_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct chunk *c = argument;
    for (size_t n = begin; n < end; n++) {
        const float *scores = c->scores + n * c->V;
        float *dscores = c->dscores ? c->dscores + n * c->V : NULL;
        if (c->targets[n] == QKV_IGNORE) {
            c->losses[n] = 0;
            if (dscores) {
                memset(dscores, 0, c->V * sizeof(float));
            }
            continue;
        }
        size_t target = (size_t)c->targets[n];
        float lse = c->kernels->log_sum_exp(scores, c->V);
        c->losses[n] = row_loss(c, scores, target, lse);
        if (dscores) {
            row_gradient(c, scores, dscores, target, lse);
        }
    }
}

struct total {
    const float *values;
    size_t count;
    const struct qkv_row_order *order;
    double sum;
};

static void add_up(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    struct total *t = argument;
    for (size_t i = 0; i < t->count; i++) {
        t->sum += (double)t->values[i];
    }
    const struct qkv_row_order *order = t->order;
    size_t begins[QKV_GROUPS_MAX + 1];
    if (!order || !order->losses || !t->count) {
        return;
    }
    qkv_order_begins(&order->sums, begins);
    for (size_t g = 0; g < order->sums.groups; g++) {
        for (size_t i = begins[g]; i < begins[g + 1]; i++) {
            order->losses[g] += (double)t->values[i];
        }
    }
}

static enum qkv_status check_targets(struct qkv_tape *tape, const int32_t *targets, size_t N, size_t V,
                                     size_t *counted) {
    *counted = 0;
    for (size_t n = 0; n < N && !tape->ctx->dry; n++) {
        if (targets[n] == QKV_IGNORE) {
            continue;
        }
        if (targets[n] < 0 || (size_t)targets[n] >= V) {
            return qkv_fail(tape->ctx, QKV_ARGUMENT,
                            "target %d at place %zu is out of range: targets are 0 to %zu, or %d to be "
                            "ignored",
                            targets[n], n, V - 1, QKV_IGNORE);
        }
        ++*counted;
    }
    return QKV_OK;
}

struct gradients {
    float *dx, *dweight, *dbias;
    bool accumulate;
};

/* One chunk of rows: scores, loss, gradient. */
static enum qkv_status run_chunk(struct qkv_tape *tape, const struct qkv_tensor *x, size_t first, size_t rows,
                                 const struct qkv_tensor *weight, const struct qkv_tensor *bias, float *scratch,
                                 const struct qkv_cross_entropy_options *o, float *losses, const struct gradients *g) {
    const size_t size = qkv_dtype_size(x->dtype);
    const struct qkv_linear_rows rows_of_x = {(char *)x->data + first * x->columns * size, x->dtype};
    float *scores = o->logits ? o->logits + first * weight->rows : scratch;
    enum qkv_status status =
        qkv_linear_forward_parts(tape, (struct qkv_linear_rows){scores, QKV_F32}, rows_of_x, rows, weight, bias, NULL);
    if (status != QKV_OK || !o->targets) {
        return status;
    }
    struct chunk c = {.kernels = tape->ctx->kernels,
                      .V = weight->rows,
                      .targets = o->targets + first,
                      .scores = scores,
                      .dscores = g ? scratch : NULL,
                      .losses = losses + first,
                      .scale = o->scale,
                      .smoothing = o->smoothing};
    qkv_parallel_range(tape->ctx, rows, ROWS_A_PIECE, loss_rows, &c);
    if (!g) {
        return QKV_OK;
    }
    float *dx = g->dx ? g->dx + first * x->columns : NULL;
    return qkv_linear_backward_parts(tape, scratch, rows_of_x, rows, dx, g->accumulate, weight, g->dweight, bias,
                                     g->dbias, x->order);
}

struct cross_entropy {
    struct qkv_cross_entropy_options options;
    struct qkv_loss *loss; /* the caller's: gone once forward has run */
};

/* Counts the targets on the way. */
enum qkv_status qkv_check_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    struct cross_entropy *s = node->saved;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1];
    enum qkv_status status = qkv_linear_check(tape, "head", x, weight, node->inputs[2]);
    if (status != QKV_OK || !s->options.targets) {
        return status;
    }
    return check_targets(tape, s->options.targets, x->rows, weight->rows, &s->loss->counted);
}

/* Where the gradients go. */
static enum qkv_status take_gradients(struct qkv_tape *tape, struct qkv_node *node, struct gradients *g) {
    bool always;
    enum qkv_status status = QKV_OK;
    g->dweight = qkv_gradient_out(tape, node->inputs[1], &always, &status);
    g->dbias = qkv_gradient_out(tape, node->inputs[2], &always, &status);
    g->dx = qkv_gradient_out(tape, node->inputs[0], &g->accumulate, &status);
    return status;
}

enum qkv_status qkv_forward_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    struct cross_entropy *s = node->saved;
    const struct qkv_cross_entropy_options *o = &s->options;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1], *bias = node->inputs[2];
    const size_t N = x->rows, V = weight->rows;
    struct gradients g = {0};
    node->whole =
        tape->recording && o->targets && (x->requires_grad || weight->requires_grad || (bias && bias->requires_grad));
    if (node->whole && qkv_tape_failed(tape, take_gradients(tape, node, &g))) {
        return tape->status;
    }
    size_t chunk = CHUNK_FLOATS / V < 16 ? 16 : CHUNK_FLOATS / V;
    if (chunk > N || (node->whole && x->order)) { /* sums in a defined order are made at once */
        chunk = N;
    }
    size_t mark = qkv_arena_mark(tape->arena);
    float *scratch = node->whole || !o->logits ? qkv_tape_take(tape, chunk * V, sizeof(float)) : NULL;
    float *losses = qkv_tape_take(tape, N, sizeof(float));
    for (size_t first = 0; first < N && tape->status == QKV_OK; first += chunk) {
        size_t rows = N - first < chunk ? N - first : chunk;
        qkv_tape_failed(tape,
                        run_chunk(tape, x, first, rows, weight, bias, scratch, o, losses, node->whole ? &g : NULL));
    }
    struct total t = {.values = losses, .count = o->targets ? N : 0, .order = x->order};
    if (tape->status == QKV_OK) {
        qkv_parallel(tape->ctx, 1, add_up, &t);
    }
    s->loss->sum = t.sum;
    s->loss = NULL;
    qkv_arena_release(tape->arena, mark);
    return tape->status;
}

/* Everything is there already: see the top. */
enum qkv_status qkv_backward_cross_entropy(struct qkv_tape *tape, struct qkv_node *node) {
    (void)node;
    return tape->status;
}

struct qkv_cost qkv_cost_cross_entropy(const struct qkv_node *node, bool backward) {
    return (struct qkv_cost){.flops = qkv_product_flops(node->inputs[0], node->inputs[1], backward)};
}

void qkv_op_cross_entropy(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weight,
                          struct qkv_tensor *bias, const struct qkv_cross_entropy_options *o, struct qkv_loss *loss) {
    *loss = (struct qkv_loss){0};
    if (!x || tape->status != QKV_OK || (!o->targets && !o->logits)) {
        return;
    }
    struct cross_entropy *s = qkv_tape_take_graph(tape, sizeof *s);
    if (!s) {
        return;
    }
    *s = (struct cross_entropy){.options = *o, .loss = loss};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_cross_entropy, s);
    node.inputs[0] = x;
    node.inputs[1] = weight;
    node.inputs[2] = bias;
    if (qkv_tape_check(tape, &node)) {
        qkv_tape_run(tape, &node);
    }
}

/* ---- inner_product -------------------------------------------------------------------------------------------------- */

struct inner_product {
    const float *g;
    float scale;
    struct qkv_loss *loss; /* the caller's: gone once forward has run */
    /* while it runs */
    const struct qkv_kernels *kernels;
    const float *x;
    float *dx;
    size_t count;
    bool accumulate;
    double sum;
};

static void multiply_up(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    struct inner_product *o = argument;
    for (size_t i = 0; i < o->count; i++) {
        o->sum += (double)o->x[i] * (double)o->g[i];
    }
}

static void scale_elements(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct inner_product *o = argument;
    o->kernels->scale(o->dx + begin, o->accumulate, o->g + begin, o->scale, end - begin);
}

static struct inner_product inner_product_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct inner_product o = *(const struct inner_product *)node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    o.kernels = tape->ctx->kernels;
    o.x = x->data;
    o.count = x->rows * x->columns;
    return o;
}

enum qkv_status qkv_check_inner_product(struct qkv_tape *tape, struct qkv_node *node) {
    if (node->inputs[0]->dtype == QKV_F32) {
        return QKV_OK;
    }
    return qkv_fail(tape->ctx, QKV_SHAPE, "inner_product: x is bf16, but the product is one of fp32 numbers");
}

enum qkv_status qkv_forward_inner_product(struct qkv_tape *tape, struct qkv_node *node) {
    struct inner_product *saved = node->saved, o = inner_product_of(tape, node);
    qkv_parallel(tape->ctx, 1, multiply_up, &o);
    *saved->loss = (struct qkv_loss){.sum = o.sum, .counted = 1};
    saved->loss = NULL;
    return QKV_OK;
}

enum qkv_status qkv_backward_inner_product(struct qkv_tape *tape, struct qkv_node *node) {
    struct inner_product o = inner_product_of(tape, node);
    enum qkv_status status = QKV_OK;
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    if (o.dx) {
        qkv_parallel_range(tape->ctx, o.count, ELEMENTS_A_PIECE, scale_elements, &o);
    }
    return status;
}

struct qkv_cost qkv_cost_inner_product(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0];
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(x) + (backward ? qkv_gradient_bytes(x) : qkv_tensor_bytes(x))};
}

void qkv_op_inner_product(struct qkv_tape *tape, struct qkv_tensor *x, const float *g, float scale,
                          struct qkv_loss *loss) {
    *loss = (struct qkv_loss){0};
    struct inner_product *o = x && tape->status == QKV_OK ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) {
        return;
    }
    *o = (struct inner_product){.g = g, .scale = scale, .loss = loss};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_inner_product, o);
    node.inputs[0] = x;
    if (qkv_tape_check(tape, &node)) {
        qkv_tape_run(tape, &node);
    }
}
