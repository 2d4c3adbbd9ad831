/* experts: a mixture of feed-forwards, each over the rows that were routed to it.
 *
 * y[n] = Σ_j weight[n][j] · down(act(up(x[n]))) of expert chosen[n][j], j in order. Rows are gathered expert by expert, so that each
 * expert is one product over its rows, however few; what a row gives depends on no other row. Kept for backward: what the products up and
 * down give, and the activation between.
 * Backward: dweight[n][j] = dy[n]·out; an expert's gradients are sums over its rows in the order of the sequences that they are of. */
#include "op/linear.h"
#include "op/weights.h"

#include <string.h>

enum { ROWS_A_PIECE = 16, EACH = 256, FRACTION = 64 };

struct experts {
    const struct qkv_routing *routing;
    const struct qkv_expert_weights *weights;
    enum qkv_ffn_kind kind;
    bool gated;
    float limit;
    void *hidden, *active; /* (slots, F or 2F), (slots, F) */
    float *out;            /* (slots, C) */
    enum qkv_dtype dtype;  /* of hidden and active */
    /* while it runs */
    const struct qkv_kernels *kernels;
    const struct qkv_tensor *x;
    size_t C, H, F;
    void *gathered; /* (slots, C), as x */
    const float *scale, *dy;
    float *y, *dout, *dweights, *dx;
    bool accumulate, accumulate_weights;
};

/* The inputs of a node; besides, the weights of all experts. */
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

static size_t experts_slots(const struct experts *o) {
    return o->routing->N * o->routing->top_k;
}

static struct qkv_linear_rows experts_at(void *data, enum qkv_dtype dtype, size_t slot, size_t columns) {
    return (struct qkv_linear_rows){(char *)data + slot * columns * qkv_dtype_size(dtype), dtype};
}

/* ---- between rows and slots ------------------------------------------------------------------------------------------- */

static void experts_gather(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    const size_t bytes = o->C * qkv_dtype_size(o->x->dtype);
    for (size_t s = begin; s < end; s++)
        memcpy((char *)o->gathered + s * bytes, (const char *)o->x->data + (size_t)o->routing->row[s] * bytes, bytes);
}

static void experts_combine(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    const size_t k = o->routing->top_k;
    for (size_t n = begin; n < end; n++)
        for (size_t j = 0; j < k; j++)
            o->kernels->scale(o->y + n * o->C, j > 0, o->out + (size_t)o->routing->slot[n * k + j] * o->C,
                              o->scale[n * k + j], o->C);
}

/* The gradients of the outputs of experts, and of the weights that these were multiplied by. */
static void experts_part(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    const size_t k = o->routing->top_k;
    for (size_t n = begin; n < end; n++)
        for (size_t j = 0; j < k; j++) {
            const size_t s = (size_t)o->routing->slot[n * k + j];
            const float *dy = o->dy + n * o->C;
            o->kernels->scale(o->dout + s * o->C, false, dy, o->scale[n * k + j], o->C);
            if (!o->dweights) continue;
            const float dw = qkv_dot(dy, o->out + s * o->C, o->C);
            o->dweights[n * k + j] = o->accumulate_weights ? o->dweights[n * k + j] + dw : dw;
        }
}

/* dx from that of the gathered rows, which took the place of `dout`. */
static void experts_return(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct experts *o = argument;
    const size_t k = o->routing->top_k;
    for (size_t n = begin; n < end; n++)
        for (size_t j = 0; j < k; j++)
            o->kernels->scale(o->dx + n * o->C, o->accumulate || j > 0,
                              o->dout + (size_t)o->routing->slot[n * k + j] * o->C, 1, o->C);
}

/* ---- one expert -------------------------------------------------------------------------------------------------------- */

static enum qkv_status expert_forward(struct qkv_tape *tape, const struct experts *o, size_t e, size_t slot,
                                      size_t rows) {
    struct qkv_linear *up = &o->weights->up[e], *down = &o->weights->down[e];
    const struct qkv_linear_rows hidden = experts_at(o->hidden, o->dtype, slot, o->H),
                                 active = experts_at(o->active, o->dtype, slot, o->F);
    struct qkv_activation_rows activation;
    struct qkv_activation_epilogue epilogue;
    qkv_activation_fuse_rows(tape->ctx, &activation, o->kind, o->gated, o->limit, hidden, active.data, o->F, &epilogue);
    enum qkv_status status =
        qkv_linear_forward_parts(tape, hidden, experts_at(o->gathered, o->x->dtype, slot, o->C), rows, &up->weight,
                                 qkv_tensor_or_null(&up->bias), &epilogue.epilogue);
    if (status) return status;
    return qkv_linear_forward_parts(tape, experts_at(o->out, QKV_F32, slot, o->C), active, rows, &down->weight,
                                    qkv_tensor_or_null(&down->bias), NULL);
}

/* What backward of one expert writes to. */
struct expert_gradients {
    float *dhidden, *dactive;           /* (slots, H), (slots, F) */
    const struct qkv_row_order *of_all; /* of the rows of x; NULL: none */
    struct qkv_row_order order;         /* of the expert's rows */
    size_t *start;                      /* (sequences + 1) */
};

/* Where each sequence begins among the rows of an expert. */
static void expert_order(const struct experts *o, struct expert_gradients *g, size_t slot, size_t rows) {
    const struct qkv_order *all = &g->of_all->sums;
    g->order = *g->of_all;
    g->order.sums.start = g->start;
    g->order.sums.terms = rows;
    for (size_t q = 0, s = 0; q <= all->sequences; q++) {
        while (s < rows && (size_t)o->routing->row[slot + s] < all->start[q]) s++;
        g->start[q] = s;
    }
}

/* Down, its bias, up, and its bias; NULL: there is none. */
static struct qkv_tensor *expert_operand(const struct experts *o, size_t e, size_t i) {
    struct qkv_linear *linear = i < 2 ? &o->weights->down[e] : &o->weights->up[e];
    return i % 2 ? qkv_tensor_or_null(&linear->bias) : &linear->weight;
}

static struct qkv_linear_carry expert_carry(struct qkv_tensor *weight) {
    return (struct qkv_linear_carry){.done = weight->uses == 1 && weight->given == 1 ? &weight->carried : NULL};
}

/* `gradients`: of down, its bias, up, and its bias; NULL: not wanted. */
static enum qkv_status expert_products_back(struct qkv_tape *tape, const struct experts *o,
                                            const struct expert_gradients *g, size_t e, size_t slot, size_t rows,
                                            float *const gradients[4]) {
    struct qkv_linear *up = &o->weights->up[e], *down = &o->weights->down[e];
    const struct qkv_row_order *order = g->of_all ? &g->order : NULL;
    float *dout = o->dout + slot * o->C, *dactive = g->dactive + slot * o->F, *dhidden = g->dhidden + slot * o->H;
    enum qkv_status status = qkv_linear_backward_parts(
        tape, dout, experts_at(o->active, o->dtype, slot, o->F), rows, dactive, false, &down->weight, gradients[0],
        qkv_tensor_or_null(&down->bias), gradients[1], order, expert_carry(&down->weight));
    if (status) return status;
    qkv_activation_backward_rows(tape->ctx, o->kind, o->gated, o->limit, dhidden, dactive,
                                 experts_at(o->hidden, o->dtype, slot, o->H), rows, o->F);
    return qkv_linear_backward_parts(tape, dhidden, experts_at(o->gathered, o->x->dtype, slot, o->C), rows,
                                     o->dx ? dout : NULL, false, &up->weight, gradients[2],
                                     qkv_tensor_or_null(&up->bias), gradients[3], order, expert_carry(&up->weight));
}

/* ---- plans --------------------------------------------------------------------------------------------------------------- */

/* Whether an expert learns the same rows as the one before it: scratch is then the same. */
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

/* How many rows an expert will get is not known, and the scratch of a product does not only grow with them: what all numbers of rows
 * need, tried in steps of a 64th and, of few, each, and some more for those between. g NULL: forward. */
static enum qkv_status experts_plan(struct qkv_tape *tape, const struct experts *o, struct expert_gradients *g) {
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
        for (size_t n = o->routing->N; n && !status; n -= n <= EACH ? 1 : n / FRACTION) {
            if (g && g->of_all) g->order = *g->of_all, g->order.sums.terms = n;
            status = g ? expert_products_back(tape, o, g, e, 0, n, gradients) : expert_forward(tape, o, e, 0, n);
        }
    }
    tape->arena = arena;
    const size_t mark = qkv_arena_mark(arena);
    if (!status && !qkv_tape_take(tape, probe.peak + probe.peak / 8, 1)) status = QKV_MEMORY;
    qkv_arena_release(arena, mark);
    return status;
}

/* ---- all of them -------------------------------------------------------------------------------------------------------- */

static enum qkv_status experts_forward_all(struct qkv_tape *tape, const struct experts *o) {
    const struct qkv_routing *r = o->routing;
    enum qkv_status status = QKV_OK;
    if (tape->ctx->dry) return experts_plan(tape, o, NULL);
    for (size_t e = 0; e < r->experts && !status; e++)
        if (r->start[e] < r->start[e + 1])
            status = expert_forward(tape, o, e, (size_t)r->start[e], (size_t)(r->start[e + 1] - r->start[e]));
    return status;
}

static enum qkv_status experts_backward_all(struct qkv_tape *tape, const struct experts *o,
                                            struct expert_gradients *g) {
    const struct qkv_routing *r = o->routing;
    enum qkv_status status = QKV_OK;
    if (tape->ctx->dry) return experts_plan(tape, o, g);
    for (size_t e = 0; e < r->experts && !status; e++) {
        const size_t slot = (size_t)r->start[e], rows = (size_t)r->start[e + 1] - slot;
        float *gradients[4];
        bool always;
        for (size_t i = 0; i < 4; i++) gradients[i] = qkv_gradient_out(tape, expert_operand(o, e, i), &always, &status);
        if (rows == 0 || status) continue;
        if (g->of_all) expert_order(o, g, slot, rows);
        status = expert_products_back(tape, o, g, e, slot, rows, gradients);
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

enum qkv_status qkv_forward_experts(struct qkv_tape *tape, struct qkv_node *node) {
    struct experts *saved = node->saved;
    struct experts o = experts_of(tape, node);
    const size_t slots = experts_slots(&o), mark = qkv_arena_mark(tape->arena);
    saved->dtype = o.dtype = tape->ctx->precision == QKV_FP32 ? QKV_F32 : QKV_BF16;
    saved->hidden = o.hidden = qkv_tape_take(tape, slots * o.H, qkv_dtype_size(o.dtype));
    saved->active = o.active = qkv_tape_take(tape, slots * o.F, qkv_dtype_size(o.dtype));
    saved->out = o.out = qkv_tape_take(tape, slots * o.C, sizeof(float));
    const size_t kept = qkv_arena_mark(tape->arena);
    o.gathered = qkv_tape_take(tape, slots * o.C, qkv_dtype_size(o.x->dtype));
    if (tape->status) return tape->status;
    qkv_parallel_range(tape->ctx, slots, ROWS_A_PIECE, experts_gather, &o);
    enum qkv_status status = experts_forward_all(tape, &o);
    if (!status) qkv_parallel_range(tape->ctx, o.routing->N, ROWS_A_PIECE, experts_combine, &o);
    qkv_arena_release(tape->arena, tape->recording ? kept : mark);
    return status;
}

enum qkv_status qkv_backward_experts(struct qkv_tape *tape, struct qkv_node *node) {
    struct experts o = experts_of(tape, node);
    struct expert_gradients g = {.of_all = o.x->order};
    const size_t slots = experts_slots(&o);
    enum qkv_status status = QKV_OK;
    o.dy = qkv_gradient_in(node);
    o.dweights = qkv_gradient_out(tape, node->inputs[WEIGHTS], &o.accumulate_weights, &status);
    o.dx = qkv_gradient_out(tape, node->inputs[X], &o.accumulate, &status);
    const size_t mark = qkv_arena_mark(tape->arena);
    o.gathered = qkv_tape_take(tape, slots * o.C, qkv_dtype_size(o.x->dtype));
    o.dout = qkv_tape_take(tape, slots * o.C, sizeof(float));
    g.dhidden = qkv_tape_take(tape, slots * o.H, sizeof(float));
    g.dactive = qkv_tape_take(tape, slots * o.F, sizeof(float));
    if (g.of_all) g.start = qkv_tape_take(tape, g.of_all->sums.sequences + 1, sizeof *g.start);
    if (status || tape->status) return status ? status : tape->status;
    qkv_parallel_range(tape->ctx, slots, ROWS_A_PIECE, experts_gather, &o);
    qkv_parallel_range(tape->ctx, o.routing->N, ROWS_A_PIECE, experts_part, &o);
    status = experts_backward_all(tape, &o, &g);
    if (!status && o.dx) qkv_parallel_range(tape->ctx, o.routing->N, ROWS_A_PIECE, experts_return, &o);
    qkv_arena_release(tape->arena, mark);
    return status;
}

/* Of the rows that experts get: products of a row with the experts that it goes through. */
struct qkv_cost qkv_cost_experts(const struct qkv_node *node, bool backward) {
    const struct experts *o = node->saved;
    const struct qkv_tensor *x = node->inputs[X];
    const struct qkv_tensor rows = {.rows = experts_slots(o), .columns = x->columns, .requires_grad = x->requires_grad};
    const struct qkv_tensor active = {
        .rows = rows.rows, .columns = o->weights->down[0].weight.columns, .requires_grad = true};
    return (struct qkv_cost){.flops = qkv_product_flops(&rows, &o->weights->up[0].weight, backward) +
                                      qkv_product_flops(&active, &o->weights->down[0].weight, backward)};
}

struct qkv_tensor *qkv_op_experts(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_tensor *weights,
                                  const struct qkv_routing *routing, const struct qkv_expert_weights *experts,
                                  enum qkv_ffn_kind kind, bool gated, float limit) {
    struct experts *o = x && weights && tape->status == QKV_OK ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct experts){.routing = routing, .weights = experts, .kind = kind, .gated = gated, .limit = limit};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_experts, o);
    node.inputs[X] = x;
    node.inputs[WEIGHTS] = weights;
    node.more = experts->operands;
    node.more_count = experts->operand_count;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_tensor(tape, x->rows, x->columns);
    return node.output ? qkv_tape_run(tape, &node) : NULL;
}
