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
 * over its rows in the order of the sequences of these rows. */
#include "op/linear.h"
#include "op/weights.h"

#include <string.h>

enum { ROWS_A_PIECE = 16, EACH = 256, FRACTION = 64, WIDENED = 512 };

struct experts {
    const struct qkv_routing *routing;
    const struct qkv_expert_weights *weights;
    enum qkv_ffn_kind kind;
    bool gated;
    bool inputs; /* weights multiply the inputs of experts, and not their results */
    float limit;
    void *hidden, *active; /* (slots, F or 2F), (slots, F) where they are saved; else of one expert */
    bool kept;
    enum qkv_dtype dtype; /* of hidden and active */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    const struct qkv_tensor *x;
    size_t C, H, F;
    const float *scale, *dy;
    float *y, *dweights, *dx;
    bool accumulate, accumulate_weights;
    /* of one expert, with room for all rows of x: a row goes to an expert at most once */
    void *gathered; /* (rows, C), of x's dtype */
    float *out;     /* (rows, C): the expert's result; in backward its gradient, then the gradient of `gathered` */
    float *dhidden, *dactive;
    size_t slot; /* of the expert's first row */
    const float *down_bias;
};

/* The inputs of a node. Its `more` are the weights of all experts. */
enum { X, WEIGHTS };

static struct experts experts_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct experts o = *(const struct experts *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.x = node->inputs[X];
    o.scale = node->inputs[WEIGHTS]->data;
    o.C = o.x->columns;
    o.H = o.weights->up[0].weight.rows;
    o.F = o.weights->down[0].weight.columns;
    o.y = node->output->data;
    return o;
}

static struct qkv_linear_rows experts_at(void *data, enum qkv_dtype dtype, size_t row, size_t columns) {
    return (struct qkv_linear_rows){(char *)data + row * columns * qkv_type_size(dtype), dtype};
}

/* The rows of the expert that is running. */
static struct qkv_linear_rows experts_hidden(const struct experts *o) {
    return experts_at(o->hidden, o->dtype, o->kept ? o->slot : 0, o->H);
}

static struct qkv_linear_rows experts_active(const struct experts *o) {
    return experts_at(o->active, o->dtype, o->kept ? o->slot : 0, o->F);
}

/* ---- rows of x and rows of an expert ----------------------------------------------------------------------------- */

/* The choice, of N·top_k, that the expert's i-th row is; *first: no earlier expert has the same row of x. */
static size_t experts_choice(const struct experts *o, size_t i, bool *first) {
    const struct qkv_routing *r = o->routing;
    const int32_t own = (int32_t)(o->slot + i);
    const size_t begin = (size_t)r->row[own] * r->top_k;
    size_t choice = begin;
    *first = true;
    for (size_t c = begin; c < begin + r->top_k; c++) {
        if (r->slot[c] == own) choice = c;
        if (r->slot[c] < own) *first = false;
    }
    return choice;
}

static size_t experts_row(const struct experts *o, size_t i) {
    return (size_t)o->routing->row[o->slot + i];
}

/* to = scale·from, n numbers. */
static void experts_scale(const struct experts *o, void *to, const void *from, float scale, size_t n) {
    float wide[WIDENED];
    if (o->x->dtype == QKV_F32) {
        o->kernels->scale(to, false, from, scale, n);
        return;
    }
    for (size_t c = 0, part; c < n; c += part) {
        part = n - c < WIDENED ? n - c : WIDENED;
        o->kernels->widen(wide, (const uint16_t *)from + c, part);
        o->kernels->scale(wide, false, wide, scale, part);
        o->kernels->narrow((uint16_t *)to + c, wide, part);
    }
}

static void experts_gather(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    const size_t bytes = o->C * qkv_type_size(o->x->dtype);
    for (size_t i = begin; i < end; i++) {
        const size_t n = experts_row(o, i);
        char *row = (char *)o->gathered + i * bytes;
        const char *x = (const char *)o->x->data + n * bytes;
        bool first;
        if (o->inputs)
            experts_scale(o, row, x, o->scale[experts_choice(o, i, &first)], o->C);
        else
            memcpy(row, x, bytes);
        if (o->dy) memcpy(o->out + i * o->C, o->dy + n * o->C, o->C * sizeof(float));
    }
}

static void experts_give(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    for (size_t i = begin; i < end; i++) {
        bool first;
        const float scale = o->scale[experts_choice(o, i, &first)];
        o->kernels->scale(o->y + experts_row(o, i) * o->C, !first, o->out + i * o->C, o->inputs ? 1 : scale, o->C);
    }
}

/* Σ a·b of n numbers, those of a from `row` on. */
static float experts_inner(const struct experts *o, struct qkv_linear_rows a, size_t row, const float *b, size_t n) {
    float wide[WIDENED], sum = 0;
    if (a.dtype == QKV_F32) return qkv_dot((const float *)a.data + row * n, b, n);
    for (size_t c = 0, part; c < n; c += part) {
        part = n - c < WIDENED ? n - c : WIDENED;
        o->kernels->widen(wide, (const uint16_t *)a.data + row * n + c, part);
        sum += qkv_dot(wide, b + c, part);
    }
    return sum;
}

static void experts_add_weight(const struct experts *o, size_t choice, float dw) {
    o->dweights[choice] = o->accumulate_weights ? o->dweights[choice] + dw : dw;
}

/* Computes the gradient of each row's weight, then multiplies the other gradients by the weight. */
static void experts_weigh(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    for (size_t i = begin; i < end; i++) {
        bool first;
        const size_t choice = experts_choice(o, i, &first);
        float *dout = o->out + i * o->C, *dactive = o->dactive + i * o->F;
        if (o->dweights) {
            float dw = experts_inner(o, experts_active(o), i, dactive, o->F);
            if (o->down_bias) dw += qkv_dot(dout, o->down_bias, o->C);
            experts_add_weight(o, choice, dw);
        }
        o->kernels->scale(dactive, false, dactive, o->scale[choice], o->F);
        o->kernels->scale(dout, false, dout, o->scale[choice], o->C);
    }
}

static void experts_return(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    for (size_t i = begin; i < end; i++) {
        bool first;
        const size_t choice = experts_choice(o, i, &first), n = experts_row(o, i);
        const float *g = o->out + i * o->C, scale = o->inputs ? o->scale[choice] : 1;
        if (o->inputs && o->dweights)
            experts_add_weight(o, choice,
                               experts_inner(o, (struct qkv_linear_rows){o->x->data, o->x->dtype}, n, g, o->C));
        if (o->dx) o->kernels->scale(o->dx + n * o->C, o->accumulate || !first, g, scale, o->C);
    }
}

/* ---- one expert -------------------------------------------------------------------------------------------------- */

static enum qkv_status expert_forward(struct qkv_tape *tape, struct experts *o, size_t e, size_t rows) {
    struct qkv_linear *up = &o->weights->up[e], *down = &o->weights->down[e];
    const struct qkv_linear_rows hidden = experts_hidden(o), active = experts_active(o);
    const struct qkv_epilogue epilogue = qkv_activation_epilogue(o->kind, o->gated, o->limit, active.data, o->F);
    qkv_parallel_range(tape->ctx, rows, ROWS_A_PIECE, experts_gather, o);
    enum qkv_status status = qkv_linear_forward_parts(tape, hidden, experts_at(o->gathered, o->x->dtype, 0, o->C), rows,
                                                      &up->weight, qkv_tensor_or_null(&up->bias), epilogue);
    if (!status)
        status = qkv_linear_forward_parts(tape, experts_at(o->out, QKV_F32, 0, o->C), active, rows, &down->weight,
                                          qkv_tensor_or_null(&down->bias), (struct qkv_epilogue){0});
    if (!status) qkv_parallel_range(tape->ctx, rows, ROWS_A_PIECE, experts_give, o);
    return status;
}

/* The order of sums over the rows of an expert. */
struct expert_order {
    const struct qkv_row_order *of_all; /* of the rows of x; NULL: none */
    struct qkv_row_order own;           /* of the expert's rows */
    size_t *start;                      /* (sequences + 1) */
};

/* Sets where each sequence begins among the rows of an expert. */
static void expert_order(const struct experts *o, struct expert_order *order, size_t rows) {
    const struct qkv_order *all = &order->of_all->sums;
    order->own = *order->of_all;
    order->own.sums.start = order->start;
    order->own.sums.terms = rows;
    for (size_t q = 0, i = 0; q <= all->sequences; q++) {
        while (i < rows && experts_row(o, i) < all->start[q]) i++;
        order->start[q] = i;
    }
}

/* The i-th operand of expert e: down, its bias, up, its bias; NULL: it has none. */
static struct qkv_tensor *expert_operand(const struct experts *o, size_t e, size_t i) {
    struct qkv_linear *linear = i < 2 ? &o->weights->down[e] : &o->weights->up[e];
    return i % 2 ? qkv_tensor_or_null(&linear->bias) : &linear->weight;
}

static struct qkv_linear_carry expert_carry(struct qkv_tensor *weight) {
    return (struct qkv_linear_carry){
        .done = weight->learning.uses == 1 && weight->learning.given == 1 ? &weight->learning.carried : NULL};
}

/* gradients: of down, its bias, up, its bias; NULL: not wanted. */
static enum qkv_status expert_backward(struct qkv_tape *tape, struct experts *o, const struct expert_order *order,
                                       size_t e, size_t rows, float *const gradients[4]) {
    struct qkv_tensor *up = &o->weights->up[e].weight, *down = &o->weights->down[e].weight,
                      *up_bias = qkv_tensor_or_null(&o->weights->up[e].bias),
                      *down_bias = qkv_tensor_or_null(&o->weights->down[e].bias);
    const struct qkv_row_order *sums = order->of_all ? &order->own : NULL;
    const struct qkv_linear_rows active = experts_active(o);
    const bool returns = o->dx || (o->inputs && o->dweights); /* the gradient of inputs is wanted */
    o->down_bias = down_bias ? down_bias->data : NULL;
    qkv_parallel_range(tape->ctx, rows, ROWS_A_PIECE, experts_gather, o);
    enum qkv_status status = qkv_linear_backward_parts(tape, o->out, active, rows, o->dactive, false, down, NULL, NULL,
                                                       NULL, NULL, (struct qkv_linear_carry){0});
    if (!o->inputs) qkv_parallel_range(tape->ctx, rows, ROWS_A_PIECE, experts_weigh, o);
    if (!status)
        status = qkv_linear_backward_parts(tape, o->out, active, rows, NULL, false, down, gradients[0], down_bias,
                                           gradients[1], sums, expert_carry(down));
    if (status) return status;
    qkv_activation_backward_rows(tape->ctx, o->kind, o->gated, o->limit, o->dhidden, o->dactive, experts_hidden(o),
                                 rows, o->F);
    status = qkv_linear_backward_parts(tape, o->dhidden, experts_at(o->gathered, o->x->dtype, 0, o->C), rows,
                                       returns ? o->out : NULL, false, up, gradients[2], up_bias, gradients[3], sums,
                                       expert_carry(up));
    if (!status && returns) qkv_parallel_range(tape->ctx, rows, ROWS_A_PIECE, experts_return, o);
    return status;
}

/* All experts, forward or, with an order, backward: for a run, or for a plan. */
typedef enum qkv_status experts_all(struct qkv_tape *tape, struct experts *o, struct expert_order *order);

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Whether the same rows of this expert and of the one before are trainable: then both need the same scratch. */
static bool expert_learns_alike(const struct experts *o, size_t e) {
    const struct qkv_expert_weights *w = o->weights;
    const struct qkv_tensor *const pairs[][2] = {{&w->up[e].weight, &w->up[e - 1].weight},
                                                 {&w->down[e].weight, &w->down[e - 1].weight}};
    for (size_t i = 0; i < 2; i++) {
        size_t begin = 0, end = 0, other_begin = 0, other_end = 0;
        const bool learns = qkv_weights_learn(pairs[i][0], &begin, &end);
        if (learns != qkv_weights_learn(pairs[i][1], &other_begin, &other_end)) return false;
        if (learns && (begin != other_begin || end != other_end)) return false;
    }
    return true;
}

/* Plans the scratch of one expert. A plan does not know how many rows an expert gets, and a product's scratch may
 * shrink as rows grow. So the plan tries numbers of rows from N down: in steps of a 64th, and each number up to EACH;
 * it adds an eighth for the numbers between. Within qkv_plan_at_most products try all numbers by themselves. g NULL:
 * forward. */
static size_t experts_step(const struct qkv_tape *tape, size_t n) {
    return tape->ctx->at_most ? n : n <= EACH ? 1 : n / FRACTION;
}

static enum qkv_status experts_plan(struct qkv_tape *tape, struct experts *o, struct expert_order *g) {
    struct qkv_arena *arena = tape->arena, probe;
    enum qkv_status status = QKV_OK;
    qkv_arena_measure(tape->ctx, &probe, "an expert");
    tape->arena = &probe;
    for (size_t e = 0; e < o->routing->experts && !status; e++) {
        float *gradients[4];
        bool always;
        for (size_t i = 0; g && i < 4; i++)
            gradients[i] = qkv_gradient_out(tape, expert_operand(o, e, i), &always, &status);
        if (e && (!g || expert_learns_alike(o, e))) continue;
        for (size_t n = o->routing->N; n && !status; n -= experts_step(tape, n)) {
            if (g && g->of_all) g->own = *g->of_all, g->own.sums.terms = n;
            status = g ? expert_backward(tape, o, g, e, n, gradients) : expert_forward(tape, o, e, n);
        }
    }
    tape->arena = arena;
    const size_t mark = qkv_arena_mark(arena);
    if (!status && !qkv_tape_take(tape, probe.peak + probe.peak / 8, 1)) status = QKV_MEMORY;
    qkv_arena_release(arena, mark);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static size_t experts_begin(struct experts *o, size_t e) {
    const int32_t *start = o->routing->start;
    o->slot = (size_t)start[e];
    return (size_t)(start[e + 1] - start[e]);
}

static enum qkv_status experts_forward_all(struct qkv_tape *tape, struct experts *o, struct expert_order *order) {
    enum qkv_status status = QKV_OK;
    (void)order;
    for (size_t e = 0; e < o->routing->experts && !status; e++) {
        const size_t rows = experts_begin(o, e);
        if (rows) status = expert_forward(tape, o, e, rows);
    }
    return status;
}

static enum qkv_status experts_backward_all(struct qkv_tape *tape, struct experts *o, struct expert_order *order) {
    enum qkv_status status = QKV_OK;
    for (size_t e = 0; e < o->routing->experts && !status; e++) {
        const size_t rows = experts_begin(o, e);
        float *gradients[4];
        bool always;
        for (size_t i = 0; i < 4; i++) gradients[i] = qkv_gradient_out(tape, expert_operand(o, e, i), &always, &status);
        if (rows == 0 || status) continue;
        if (order->of_all) expert_order(o, order, rows);
        status = expert_backward(tape, o, order, e, rows, gradients);
    }
    return status;
}

enum qkv_status qkv_check_experts(struct qkv_tape *tape, struct qkv_node *node) {
    const struct experts *o = node->saved;
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
    struct experts *saved = node->saved;
    struct experts o = experts_of(tape, node);
    const size_t N = o.routing->N, mark = qkv_arena_mark(tape->arena);
    o.kept = tape->recording;
    o.dtype = tape->product->activation;
    const size_t slots = o.kept ? N * o.routing->top_k : N;
    o.hidden = qkv_tape_take(tape, slots * o.H, qkv_type_size(o.dtype));
    o.active = qkv_tape_take(tape, slots * o.F, qkv_type_size(o.dtype));
    *saved = o;
    const size_t kept = qkv_arena_mark(tape->arena);
    o.gathered = qkv_tape_take(tape, N * o.C, qkv_type_size(o.x->dtype));
    o.out = qkv_tape_take(tape, N * o.C, sizeof(float));
    if (tape->status) return tape->status;
    enum qkv_status status = all(tape, &o, NULL);
    qkv_arena_release(tape->arena, o.kept ? kept : mark);
    return status;
}

static enum qkv_status experts_backward(struct qkv_tape *tape, struct qkv_node *node, experts_all *all) {
    struct experts o = experts_of(tape, node);
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
    const struct experts *o = node->saved;
    const struct qkv_tensor *x = node->inputs[X];
    const struct qkv_tensor rows = {.rows = o->routing->N * o->routing->top_k,
                                    .columns = x->columns,
                                    .learning.requires_grad = x->learning.requires_grad};
    const struct qkv_tensor active = {
        .rows = rows.rows, .columns = o->weights->down[0].weight.columns, .learning.requires_grad = true};
    return (struct qkv_cost){.flops = qkv_product_flops(&rows, &o->weights->up[0].weight, backward) +
                                      qkv_product_flops(&active, &o->weights->down[0].weight, backward)};
}

struct qkv_tensor *qkv_op_experts(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weights,
                                  const struct qkv_routing *routing, const struct qkv_expert_weights *experts,
                                  enum qkv_ffn_kind kind, bool gated, float limit, bool inputs) {
    struct experts *o = x && weights && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct experts){
        .routing = routing, .weights = experts, .kind = kind, .gated = gated, .inputs = inputs, .limit = limit};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_experts, o);
    node.inputs[X] = x;
    node.inputs[WEIGHTS] = weights;
    node.more = experts->operands;
    node.more_count = experts->operand_count;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, x->rows, x->columns);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}
