/* experts: a mixture of feed-forwards, each over the rows that were routed to it.
 *
 * y[n] = Σ weight[n][j] · down(act(up(x[n]))) over the experts chosen[n][j], in the order of experts; or, with
 * `inputs`, y[n] = Σ down(act(up(weight[n][j] · x[n]))).
 * One expert after the other gathers its rows, so that each of its weights is one product, and adds its results to the
 * rows of y. A row's result depends on no other row, and the numbers in between stay in the caches. Saved for backward:
 * the results of the products up, and their activation.
 * Backward: da = dy·down is the gradient of the activation a without the weight; dweight = a·da + dy·bias, as the
 * result without the weight is down(a); then da and dy are multiplied by the weight. With `inputs` the gradient g of
 * the expert's input gives dweight = x·g and dx = weight·g. An expert's gradients are sums
 * over its rows in the order of the sequences of these rows.
 * Matrices with adapters have one more term (experts_adapter.c); the activation is then a pass of its own, and da has
 * the adapter's part, too. */
#include "op/experts.h"
#include "op/steps.h"

enum { EACH = 256, FRACTION = 64 };

/* The inputs of a node. Its `more` are the weights of all experts. */
enum { X, WEIGHTS };

static struct qkv_experts_pass experts_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct qkv_experts_pass o = *(const struct qkv_experts_pass *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.x = node->inputs[X];
    o.scale = node->inputs[WEIGHTS]->data;
    o.C = o.x->columns;
    o.H = o.weights->up[0].weight.rows;
    o.F = o.weights->down[0].weight.columns;
    o.y = node->output->data;
    return o;
}

/* ---- adapters ---------------------------------------------------------------------------------------------------- */

/* Rows of expert e, as its adapters read them. order: of sums; NULL: none. */
static struct qkv_expert_rows experts_read(const struct qkv_experts_pass *o, size_t e, struct qkv_linear_rows x,
                                           size_t rows, size_t columns, const struct qkv_row_order *order) {
    return (struct qkv_expert_rows){
        .expert = e,
        .N = o->routing->N,
        .row = o->plans ? NULL : o->routing->row + o->slot,
        .place = o->place,
        .order = o->x->learning.order,
        .x = {.data = x.data, .dtype = x.dtype, .rows = rows, .columns = columns, .learning.order = order}};
}

/* What the adapters of the expert that is running save; NULL while a pass is measured. */
static float *experts_low(const struct qkv_experts_pass *o, const struct qkv_expert_adapters *adapters) {
    return adapters->saved && o->kept ? adapters->saved + o->slot * adapters->low : adapters->saved;
}

/* ---- one expert -------------------------------------------------------------------------------------------------- */

/* hidden and active of a matrix up with an adapter: both terms are added in fp32. */
static enum qkv_status expert_up_adapted(struct qkv_tape *tape, struct qkv_experts_pass *o, size_t e, size_t rows) {
    struct qkv_linear *up = &o->weights->up[e];
    const struct qkv_linear_rows hidden = qkv_experts_hidden(o), x = qkv_experts_at(o->gathered, o->x->dtype, 0, o->C);
    const struct qkv_expert_rows read = experts_read(o, e, x, rows, o->C, NULL);
    float *sum = o->sum ? o->sum : hidden.data;
    enum qkv_status status =
        qkv_linear_forward_parts(tape, (struct qkv_linear_rows){sum, QKV_F32}, x, rows, &up->weight,
                                 qkv_tensor_or_null(&up->bias), (struct qkv_epilogue){0});
    if (!status) status = qkv_expert_adapter_forward(tape, &o->up, &read, &up->weight, sum, experts_low(o, &o->up));
    if (!status && o->sum)
        status =
            QKV_STEP(tape->ctx, round, .to = hidden.data, .from = sum, .count = rows * o->H, .product = tape->product);
    if (!status)
        qkv_activation_forward_rows(tape->ctx, o->kind, o->gated, o->limit, qkv_experts_active(o).data, hidden, rows,
                                    o->F);
    return status;
}

static enum qkv_status expert_up(struct qkv_tape *tape, struct qkv_experts_pass *o, size_t e, size_t rows) {
    struct qkv_linear *up = &o->weights->up[e];
    if (qkv_adapter_applies(&tape->runs, &up->weight)) return expert_up_adapted(tape, o, e, rows);
    return qkv_linear_forward_parts(
        tape, qkv_experts_hidden(o), qkv_experts_at(o->gathered, o->x->dtype, 0, o->C), rows, &up->weight,
        qkv_tensor_or_null(&up->bias),
        qkv_activation_epilogue(o->kind, o->gated, o->limit, qkv_experts_active(o).data, o->F));
}

static enum qkv_status expert_forward(struct qkv_tape *tape, struct qkv_experts_pass *o, size_t e, size_t rows) {
    struct qkv_linear *down = &o->weights->down[e];
    const struct qkv_linear_rows active = qkv_experts_active(o);
    const struct qkv_expert_rows read = experts_read(o, e, active, rows, o->F, NULL);
    qkv_experts_gather(tape->ctx, o, rows);
    enum qkv_status status = expert_up(tape, o, e, rows);
    if (!status)
        status = qkv_linear_forward_parts(tape, qkv_experts_at(o->out, QKV_F32, 0, o->C), active, rows, &down->weight,
                                          qkv_tensor_or_null(&down->bias), (struct qkv_epilogue){0});
    if (!status && qkv_adapter_applies(&tape->runs, &down->weight))
        status = qkv_expert_adapter_forward(tape, &o->down, &read, &down->weight, o->out, experts_low(o, &o->down));
    if (!status) qkv_experts_give(tape->ctx, o, rows);
    return status;
}

/* The order of sums over the rows of an expert. */
struct expert_order {
    const struct qkv_row_order *of_all; /* of the rows of x; NULL: none */
    struct qkv_row_order own;           /* of the expert's rows */
    size_t *start;                      /* (sequences + 1) */
};

/* Sets where each sequence begins among the rows of an expert. */
static void expert_order(const struct qkv_experts_pass *o, struct expert_order *order, size_t rows) {
    const struct qkv_order *all = &order->of_all->sums;
    order->own = *order->of_all;
    order->own.sums.start = order->start;
    order->own.sums.terms = rows;
    for (size_t q = 0, i = 0; q <= all->sequences; q++) {
        while (i < rows && qkv_experts_row(o, i) < all->start[q]) i++;
        order->start[q] = i;
    }
}

/* The i-th operand of expert e: down, its bias, up, its bias; NULL: it has none. */
static struct qkv_tensor *expert_operand(const struct qkv_experts_pass *o, size_t e, size_t i) {
    struct qkv_linear *linear = i < 2 ? &o->weights->down[e] : &o->weights->up[e];
    return i % 2 ? qkv_tensor_or_null(&linear->bias) : &linear->weight;
}

static struct qkv_linear_carry expert_carry(struct qkv_tensor *weight) {
    return (struct qkv_linear_carry){
        .done = weight->learning.uses == 1 && weight->learning.given == 1 ? &weight->learning.carried : NULL};
}

/* Where an expert's gradients go; NULL: not wanted. */
struct expert_gradients {
    float *own[4];      /* of its operands */
    float **up, **down; /* of the adapters of up and down (qkv_adapter_gradients); NULL: there is none */
};

static enum qkv_status expert_ask(struct qkv_tape *tape, const struct qkv_experts_pass *o, size_t e,
                                  struct expert_gradients *to) {
    const struct qkv_adapter *up = o->weights->up[e].weight.operand.adapter,
                             *down = o->weights->down[e].weight.operand.adapter;
    enum qkv_status status = QKV_OK;
    bool always;
    *to = (struct expert_gradients){0};
    for (size_t i = 0; i < 4; i++) to->own[i] = qkv_gradient_out(tape, expert_operand(o, e, i), &always, &status);
    if (up) to->up = qkv_adapter_gradients(tape, up, &status);
    if (down) to->down = qkv_adapter_gradients(tape, down, &status);
    return status;
}

/* The gradient of down's input without the weights of rows, then times them; and the gradients of down. */
static enum qkv_status expert_backward_down(struct qkv_tape *tape, struct qkv_experts_pass *o, size_t e, size_t rows,
                                            const struct qkv_row_order *sums, const struct expert_gradients *to) {
    struct qkv_tensor *down = &o->weights->down[e].weight, *bias = qkv_tensor_or_null(&o->weights->down[e].bias);
    const struct qkv_linear_rows active = qkv_experts_active(o);
    const struct qkv_expert_rows read = experts_read(o, e, active, rows, o->F, sums);
    o->down_bias = bias ? bias->data : NULL;
    enum qkv_status status = qkv_linear_backward_parts(tape, o->out, active, rows, o->dactive, false, down, NULL, NULL,
                                                       NULL, NULL, (struct qkv_linear_carry){0});
    if (!status && to->down)
        status = qkv_expert_adapter_backward(tape, &o->down, &read, down, o->out, o->dactive, NULL, NULL);
    if (!status && !o->inputs) qkv_experts_weigh(tape->ctx, o, rows);
    if (!status)
        status = qkv_linear_backward_parts(tape, o->out, active, rows, NULL, false, down, to->own[0], bias, to->own[1],
                                           sums, expert_carry(down));
    if (status || !to->down) return status;
    return qkv_expert_adapter_backward(tape, &o->down, &read, down, o->out, NULL, experts_low(o, &o->down), to->down);
}

static enum qkv_status expert_backward(struct qkv_tape *tape, struct qkv_experts_pass *o,
                                       const struct expert_order *order, size_t e, size_t rows,
                                       const struct expert_gradients *to) {
    struct qkv_tensor *up = &o->weights->up[e].weight, *bias = qkv_tensor_or_null(&o->weights->up[e].bias);
    const struct qkv_row_order *sums = order->of_all ? &order->own : NULL;
    const bool returns = o->dx || (o->inputs && o->dweights); /* the gradient of inputs is wanted */
    const struct qkv_linear_rows x = qkv_experts_at(o->gathered, o->x->dtype, 0, o->C);
    const struct qkv_expert_rows read = experts_read(o, e, x, rows, o->C, sums);
    float *dx = returns ? o->out : NULL;
    qkv_experts_gather(tape->ctx, o, rows);
    enum qkv_status status = expert_backward_down(tape, o, e, rows, sums, to);
    if (status) return status;
    qkv_activation_backward_rows(tape->ctx, o->kind, o->gated, o->limit, o->dhidden, o->dactive, qkv_experts_hidden(o),
                                 rows, o->F);
    status = qkv_linear_backward_parts(tape, o->dhidden, x, rows, dx, false, up, to->own[2], bias, to->own[3], sums,
                                       expert_carry(up));
    if (!status && to->up)
        status = qkv_expert_adapter_backward(tape, &o->up, &read, up, o->dhidden, dx, experts_low(o, &o->up), to->up);
    if (!status && returns) qkv_experts_return(tape->ctx, o, rows);
    return status;
}

/* All experts, forward or, with an order, backward: for a run, or for a plan. */
typedef enum qkv_status experts_all(struct qkv_tape *tape, struct qkv_experts_pass *o, struct expert_order *order);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Whether this expert and the one before have adapters of the same shapes. */
static bool experts_alike(const struct qkv_experts_pass *o, size_t e) {
    const struct qkv_expert_weights *w = o->weights;
    return qkv_expert_adapters_alike(&w->up[e].weight, &w->up[e - 1].weight) &&
           qkv_expert_adapters_alike(&w->down[e].weight, &w->down[e - 1].weight);
}

/* Whether also the same rows of both are trainable: then both need the same scratch. */
static bool expert_learns_alike(const struct qkv_experts_pass *o, size_t e) {
    const struct qkv_expert_weights *w = o->weights;
    const struct qkv_tensor *const pairs[][2] = {{&w->up[e].weight, &w->up[e - 1].weight},
                                                 {&w->down[e].weight, &w->down[e - 1].weight}};
    for (size_t i = 0; i < 2; i++) {
        size_t begin = 0, end = 0, other_begin = 0, other_end = 0;
        const bool learns = qkv_weights_learn(pairs[i][0], &begin, &end);
        if (learns != qkv_weights_learn(pairs[i][1], &other_begin, &other_end)) return false;
        if (learns && (begin != other_begin || end != other_end)) return false;
    }
    return experts_alike(o, e);
}

/* Plans the scratch of one expert. A plan does not know how many rows an expert gets, and a product's scratch may
 * shrink as rows grow. So the plan tries numbers of rows from N down: in steps of a 64th, and each number up to EACH;
 * it adds an eighth for the numbers between. Within qkv_plan_at_most products try all numbers by themselves. g NULL:
 * forward. */
static size_t experts_step(const struct qkv_tape *tape, size_t n) {
    return tape->ctx->at_most ? n : n <= EACH ? 1 : n / FRACTION;
}

static enum qkv_status experts_plan(struct qkv_tape *tape, struct qkv_experts_pass *o, struct expert_order *g) {
    struct qkv_arena *arena = tape->arena, probe;
    enum qkv_status status = QKV_OK;
    qkv_arena_measure(tape->ctx, &probe, "an expert");
    tape->arena = &probe;
    o->plans = true;
    for (size_t e = 0; e < o->routing->experts && !status; e++) {
        const size_t graph = qkv_arena_mark(tape->graph_arena);
        struct expert_gradients to;
        if (g) status = expert_ask(tape, o, e, &to);
        const bool planned = e && (g ? expert_learns_alike(o, e) : experts_alike(o, e));
        for (size_t n = planned ? 0 : o->routing->N; n && !status; n -= experts_step(tape, n)) {
            if (g && g->of_all) g->own = *g->of_all, g->own.sums.terms = n;
            status = g ? expert_backward(tape, o, g, e, n, &to) : expert_forward(tape, o, e, n);
        }
        qkv_arena_release(tape->graph_arena, graph);
    }
    tape->arena = arena;
    const size_t mark = qkv_arena_mark(arena);
    if (!status && !qkv_tape_take(tape, probe.peak + probe.peak / 8, 1)) status = QKV_MEMORY;
    qkv_arena_release(arena, mark);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static size_t experts_begin(struct qkv_experts_pass *o, size_t e) {
    const int32_t *start = o->routing->start;
    o->slot = (size_t)start[e];
    return (size_t)(start[e + 1] - start[e]);
}

static enum qkv_status experts_forward_all(struct qkv_tape *tape, struct qkv_experts_pass *o,
                                           struct expert_order *order) {
    enum qkv_status status = QKV_OK;
    (void)order;
    for (size_t e = 0; e < o->routing->experts && !status; e++) {
        const size_t rows = experts_begin(o, e);
        if (rows) status = expert_forward(tape, o, e, rows);
    }
    return status;
}

static enum qkv_status experts_backward_all(struct qkv_tape *tape, struct qkv_experts_pass *o,
                                            struct expert_order *order) {
    enum qkv_status status = QKV_OK;
    for (size_t e = 0; e < o->routing->experts && !status; e++) {
        const size_t rows = experts_begin(o, e), graph = qkv_arena_mark(tape->graph_arena);
        struct expert_gradients to;
        status = expert_ask(tape, o, e, &to);
        if (rows && order->of_all) expert_order(o, order, rows);
        if (rows && !status) status = expert_backward(tape, o, order, e, rows, &to);
        qkv_arena_release(tape->graph_arena, graph);
    }
    return status;
}

enum qkv_status qkv_check_experts(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_experts_pass *o = node->saved;
    const struct qkv_tensor *x = node->inputs[X], *weights = node->inputs[WEIGHTS];
    const struct qkv_routing *r = o->routing;
    const struct qkv_tensor *up = &o->weights->up[0].weight, *down = &o->weights->down[0].weight;
    const size_t parts = o->gated ? 2 : 1;
    if (r->N == x->rows && weights->rows == x->rows && weights->columns == r->top_k &&
        o->weights->count == r->experts && up->columns == x->columns && down->rows == x->columns &&
        up->rows == parts * down->columns && r->N * r->top_k <= INT32_MAX)
        return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE,
                    "experts: x is (%zu,%zu), weights (%zu,%zu), up (%zu,%zu), down (%zu,%zu), and there are %zu "
                    "experts for a router of %zu",
                    x->rows, x->columns, weights->rows, weights->columns, up->rows, up->columns, down->rows,
                    down->columns, o->weights->count, r->experts);
}

static enum qkv_status experts_forward(struct qkv_tape *tape, struct qkv_node *node, experts_all *all) {
    struct qkv_experts_pass *saved = node->saved;
    struct qkv_experts_pass o = experts_of(tape, node);
    const size_t N = o.routing->N, mark = qkv_arena_mark(tape->arena);
    o.kept = tape->recording;
    o.dtype = tape->product->activation;
    const size_t slots = o.kept ? N * o.routing->top_k : N;
    o.hidden = qkv_tape_take(tape, slots * o.H, qkv_type_size(o.dtype));
    o.active = qkv_tape_take(tape, slots * o.F, qkv_type_size(o.dtype));
    if (o.up.low) o.up.saved = qkv_tape_take(tape, slots * o.up.low, sizeof(float));
    if (o.down.low) o.down.saved = qkv_tape_take(tape, slots * o.down.low, sizeof(float));
    *saved = o;
    const size_t kept = qkv_arena_mark(tape->arena);
    o.gathered = qkv_tape_take(tape, N * o.C, qkv_type_size(o.x->dtype));
    o.out = qkv_tape_take(tape, N * o.C, sizeof(float));
    if (o.up.applies && o.dtype != QKV_F32) o.sum = qkv_tape_take(tape, N * o.H, sizeof(float));
    if (tape->status) return tape->status;
    enum qkv_status status = all(tape, &o, NULL);
    qkv_arena_release(tape->arena, o.kept ? kept : mark);
    return status;
}

static enum qkv_status experts_backward(struct qkv_tape *tape, struct qkv_node *node, experts_all *all) {
    struct qkv_experts_pass o = experts_of(tape, node);
    struct expert_order order = {.of_all = o.x->learning.order};
    const size_t N = o.routing->N;
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node);
    o.dweights = qkv_gradient_out(tape, node->inputs[WEIGHTS], &o.accumulate_weights, &status);
    o.dx = qkv_gradient_out(tape, node->inputs[X], &o.accumulate, &status);
    const size_t mark = qkv_arena_mark(tape->arena);
    o.gathered = qkv_tape_take(tape, N * o.C, qkv_type_size(o.x->dtype));
    o.out = qkv_tape_take(tape, N * o.C, sizeof(float));
    o.dhidden = qkv_tape_take(tape, N * o.H, sizeof(float));
    o.dactive = qkv_tape_take(tape, N * o.F, sizeof(float));
    if (order.of_all) order.start = qkv_tape_take(tape, order.of_all->sums.sequences + 1, sizeof *order.start);
    if (status || tape->status) return status ? status : tape->status;
    status = all(tape, &o, &order);
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_forward_experts(struct qkv_tape *tape, struct qkv_node *node) {
    return experts_forward(tape, node, experts_forward_all);
}

enum qkv_status qkv_plan_forward_experts(struct qkv_tape *tape, struct qkv_node *node) {
    return experts_forward(tape, node, experts_plan);
}

enum qkv_status qkv_backward_experts(struct qkv_tape *tape, struct qkv_node *node) {
    return experts_backward(tape, node, experts_backward_all);
}

enum qkv_status qkv_plan_backward_experts(struct qkv_tape *tape, struct qkv_node *node) {
    return experts_backward(tape, node, experts_plan);
}

/* Products of each row with the experts that it goes through. */
struct qkv_cost qkv_cost_experts(const struct qkv_node *node, bool backward) {
    const struct qkv_experts_pass *o = node->saved;
    const struct qkv_tensor *x = node->inputs[X];
    const struct qkv_tensor rows = {.rows = o->routing->N * o->routing->top_k,
                                    .columns = x->columns,
                                    .learning.requires_grad = x->learning.requires_grad};
    const struct qkv_tensor active = {
        .rows = rows.rows, .columns = o->weights->down[0].weight.columns, .learning.requires_grad = true};
    const struct qkv_expert_weights *w = o->weights;
    return (struct qkv_cost){.flops = qkv_product_flops(&rows, &w->up[0].weight, backward) +
                                      qkv_product_flops(&active, &w->down[0].weight, backward) +
                                      qkv_expert_adapters_flops(o->runs, w->up, w->count, &rows, backward) +
                                      qkv_expert_adapters_flops(o->runs, w->down, w->count, &active, backward)};
}

struct qkv_tensor *qkv_op_experts(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weights,
                                  const struct qkv_routing *routing, const struct qkv_expert_weights *experts,
                                  enum qkv_ffn_kind kind, bool gated, float limit, bool inputs) {
    struct qkv_experts_pass *o = x && weights && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    const struct qkv_rows *batch = tape->batch;
    *o = (struct qkv_experts_pass){.routing = routing,
                                   .weights = experts,
                                   .kind = kind,
                                   .gated = gated,
                                   .inputs = inputs,
                                   .limit = limit,
                                   .runs = &tape->runs,
                                   .place = batch && batch->ragged && batch->N == x->rows ? batch->place : NULL};
    qkv_expert_adapters_start(tape, experts->up, experts->count, &o->up);
    qkv_expert_adapters_start(tape, experts->down, experts->count, &o->down);
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_experts, o);
    node.inputs[X] = x;
    node.inputs[WEIGHTS] = weights;
    node.more = qkv_expert_operands(tape, experts, &node.more_count);
    if (!node.more || !qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, x->rows, x->columns);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}
