/* attend: y = softmax(scale·q·kᵀ, masked and biased)·v, the fused operator of kernel/attend.c on the tape.
 *
 * q (B·Tq, …), k and v (B·Tk, …) hold their heads side by side in some of their columns, often all three in one tensor;
 * y (B·Tq, H·Dv). Backward reads q, k, v, y and the log-sum-exp of each row (Dao et al. 2022). */
#include "op/steps.h"

struct attend {
    struct qkv_attend kernel;
    struct qkv_columns q, k, v;
    struct qkv_attend_learned learned;
    bool keeps_lse;
    float *dattention_bias;
};

/* Heads of x; `rows`: rows of x per sequence. */
static struct qkv_heads attention_heads(void *data, enum qkv_dtype dtype, struct qkv_columns c, size_t rows, size_t D) {
    if (data) {
        data = (char *)data + c.column * qkv_type_size(dtype);
    }
    return (struct qkv_heads){.data = data,
                              .batch_stride = rows * c.x->columns,
                              .row_stride = c.x->columns,
                              .head_stride = D,
                              .dtype = dtype};
}

static bool attention_same(struct qkv_columns a, struct qkv_columns b) {
    return a.x == b.x;
}

static enum qkv_status attention_clear(const struct qkv_tape *tape, float *x, size_t count) {
    return QKV_STEP(tape->ctx, clear, .to = x, .bytes = count * sizeof *x);
}

/* Pairs of a query and a key that one head of the call computes, of all sequences together. */
static enum qkv_status attention_count(void *argument) {
    struct qkv_attend *a = argument;
    const size_t rows = a->q_start ? a->q_rows : a->B * a->Tq;
    for (size_t r = 0, b = 0; r < rows; r++) {
        while (a->q_start ? r >= (size_t)a->q_start[b + 1] : r >= (b + 1) * a->Tq) b++;
        const int64_t keys = a->k_start ? a->k_start[b + 1] - a->k_start[b] : (int64_t)a->Tk;
        const int64_t lo = a->lo[r] > 0 ? a->lo[r] : 0, hi = a->hi[r] < keys ? a->hi[r] : keys;
        a->pairs += hi > lo ? (double)(hi - lo) : 0;
    }
    return QKV_OK;
}

/* Counts the pairs where the tape wants costs and the caller has not counted them. */
static enum qkv_status attention_pairs(const struct qkv_tape *tape, struct attend *o) {
    if (o->kernel.pairs > 0 || !qkv_operator_counts(tape)) return QKV_OK;
    return qkv_compute(tape->ctx, attention_count, &o->kernel);
}

/* The gradient of the table of distance_bias, (B,H,entries): kernels add to what earlier layers have left there. */
static float *attention_distances(struct qkv_tape *tape, const struct attend *o, enum qkv_status *status) {
    bool accumulate;
    float *sums = qkv_gradient_out(tape, o->learned.distance_bias, &accumulate, status);
    if (sums && !accumulate) *status = attention_clear(tape, sums, o->learned.distance_bias->learning.buffer->count);
    return sums;
}

/* The gradient of sinks, (B,H), zeroed. */
static enum qkv_status attention_sinks(struct qkv_tape *tape, const struct attend *o, float **sums) {
    const size_t count = o->kernel.B * o->kernel.H;
    *sums = qkv_tape_take(tape, count, sizeof **sums);
    return *sums ? attention_clear(tape, *sums, count) : QKV_MEMORY;
}

/* The columns of a tensor that q, k and v are. */
static size_t attention_columns(const struct attend *o, const struct qkv_tensor *x) {
    const struct qkv_attend *a = &o->kernel;
    return (o->q.x == x ? a->H * a->D : 0) + (o->k.x == x ? a->Hkv * a->D : 0) + (o->v.x == x ? a->Hkv * a->Dv : 0);
}

/* The kernels either overwrite all gradients or add to all of them. Where the inputs differ in this, or are only some
 * columns of a tensor, as keys and values of another layer are, new gradients start from zero and all are added to. The
 * gradient of attention_bias is always added to. */
enum qkv_status qkv_backward_attend(struct qkv_tape *tape, struct qkv_node *node) {
    struct attend *o = node->saved;
    const struct qkv_columns *parts[3] = {&o->q, &o->k, &o->v};
    float *gradients[3];
    bool accumulates[3], any = o->dattention_bias != NULL, all = true, always;
    enum qkv_status status = attention_pairs(tape, o);
    float *dsinks = qkv_gradient_out(tape, o->learned.sinks, &always, &status);
    for (int i = 0; i < 3; i++) {
        int first = 0;
        while (!attention_same(*parts[first], *parts[i])) {
            first++;
        }
        if (first < i) { /* an earlier input is part of the same tensor: same storage, same state */
            gradients[i] = gradients[first];
            accumulates[i] = accumulates[first];
            continue;
        }
        gradients[i] = qkv_gradient_out(tape, parts[i]->x, &accumulates[i], &status);
        if (status) return status;
        if (!gradients[i]) continue;
        any = any || accumulates[i] || attention_columns(o, parts[i]->x) < parts[i]->x->columns;
        all = all && accumulates[i];
    }
    for (int i = 0; i < 3 && any && !all; i++) {
        bool again = (i > 0 && gradients[i] == gradients[0]) || (i > 1 && gradients[i] == gradients[1]);
        if (gradients[i] && !accumulates[i] && !again)
            status = attention_clear(tape, gradients[i], parts[i]->x->rows * parts[i]->x->columns);
        if (status) return status;
    }
    const struct qkv_attend *a = &o->kernel;
    float *distances = attention_distances(tape, o, &status);
    if (status) return status;
    struct qkv_heads dy = a->y;
    dy.data = node->output->learning.buffer->data;
    dy.dtype = QKV_F32;
    struct qkv_attend_gradients g = {.dy = dy,
                                     .dq = attention_heads(gradients[0], QKV_F32, o->q, a->Tq, a->D),
                                     .dk = attention_heads(gradients[1], QKV_F32, o->k, a->Tk, a->D),
                                     .dv = attention_heads(gradients[2], QKV_F32, o->v, a->Tk, a->Dv),
                                     .dattention_bias = o->dattention_bias,
                                     .ddistance_bias = distances,
                                     .accumulate = any};
    const size_t mark = qkv_arena_mark(tape->arena);
    if (dsinks) status = attention_sinks(tape, o, &g.dsinks);
    if (!status) status = qkv_attend_backward(tape->ctx, tape->arena, a, &g);
    if (dsinks && !status)
        qkv_order_sequences(tape->ctx, node->inputs[0]->learning.order, dsinks, g.dsinks, a->B, a->H);
    qkv_arena_release(tape->arena, mark);
    return status;
}

/* Rows of keys and values: those of the pages, or of tensors. */
static size_t attention_key_rows(const struct qkv_attend *a) {
    if (a->pages.lists) return a->pages.count * a->pages.positions;
    return a->k_start ? a->k_rows : a->B * a->Tk;
}

static enum qkv_status attention_check(struct qkv_tape *tape, struct qkv_columns c, const char *name, size_t rows,
                                       size_t width) {
    if (c.x->rows == rows && c.column + width <= c.x->columns) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "attend: %s needs (%zu,%zu) from column %zu but its tensor is (%zu,%zu)",
                    name, rows, width, c.column, c.x->rows, c.x->columns);
}

enum qkv_status qkv_check_attend(struct qkv_tape *tape, struct qkv_node *node) {
    const struct attend *o = node->saved;
    const struct qkv_attend *a = &o->kernel;
    const size_t queries = a->q_start ? a->q_rows : a->B * a->Tq;
    enum qkv_status status = attention_check(tape, o->q, "q", queries, a->H * a->D);
    if (status) return status;
    const struct qkv_tensor *table = o->learned.distance_bias, *sinks = o->learned.sinks;
    if (table && (table->rows != a->H || table->columns != a->distance_bias.row ||
                  (table->learning.requires_grad && table->learning.apart != a->B)))
        return qkv_fail(
            tape->ctx, QKV_SHAPE,
            "attend: the table of distance_bias is (%zu,%zu) for %zu sequences; it must be (%zu,%zu) for %zu",
            table->rows, table->columns, table->learning.apart, a->H, a->distance_bias.row, a->B);
    if (sinks && sinks->rows * sinks->columns != a->H)
        return qkv_fail(tape->ctx, QKV_SHAPE, "attend: %zu sinks are given for %zu heads", sinks->rows * sinks->columns,
                        a->H);
    status = attention_check(tape, o->k, "k", attention_key_rows(a), a->Hkv * a->D);
    return status ? status : attention_check(tape, o->v, "v", attention_key_rows(a), a->Hkv * a->Dv);
}

enum qkv_status qkv_forward_attend(struct qkv_tape *tape, struct qkv_node *node) {
    struct attend *o = node->saved;
    struct qkv_attend *a = &o->kernel;
    struct qkv_tensor *y = node->output;
    a->q = attention_heads(o->q.x->data, o->q.x->dtype, o->q, a->Tq, a->D);
    const bool paged = a->pages.lists != NULL;
    const size_t keys = paged ? a->pages.positions : a->Tk; /* rows of a page, or of a sequence */
    *(paged ? &a->past_k : &a->k) = attention_heads(o->k.x->data, o->k.x->dtype, o->k, keys, a->D);
    *(paged ? &a->past_v : &a->v) = attention_heads(o->v.x->data, o->v.x->dtype, o->v, keys, a->Dv);
    if (paged) a->past = a->Tk;
    a->y = attention_heads(y->data, y->dtype, (struct qkv_columns){y, 0}, a->Tq, a->Dv);
    if (o->keeps_lse) {
        a->lse = qkv_tape_take(tape, a->H * y->rows, sizeof(float));
    }
    if (tape->status) return tape->status;
    const enum qkv_status status = attention_pairs(tape, o);
    return status ? status : qkv_attend_forward(tape->ctx, tape->arena, a);
}

/* Forward computes q·k and weights·v; backward computes q·k again, dy·v, and the gradients of q, k and v. */
struct qkv_cost qkv_cost_attend(const struct qkv_node *node, bool backward) {
    const struct attend *o = node->saved;
    const double D = (double)o->kernel.D, Dv = (double)o->kernel.Dv;
    const double columns = 2 * o->kernel.pairs * (double)o->kernel.H;
    return (struct qkv_cost){.flops = columns * (backward ? 3 * D + 2 * Dv : D + Dv),
                             .again = backward ? columns * D : 0};
}

struct qkv_tensor *qkv_op_attend(struct qkv_tape *tape, struct qkv_columns q, struct qkv_columns k,
                                 struct qkv_columns v, const struct qkv_attend *a, struct qkv_attend_learned learned,
                                 float *dattention_bias, const struct qkv_attend **kept) {
    if (!q.x || !k.x || !v.x || tape->status) return NULL;
    struct attend *s = qkv_tape_take_graph(tape, sizeof *s);
    if (!s) return NULL;
    *s = (struct attend){.kernel = *a,
                         .q = q,
                         .k = k,
                         .v = v,
                         .learned = learned,
                         .keeps_lse = tape->recording || kept,
                         .dattention_bias = dattention_bias};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_attend, s);
    node.inputs[0] = q.x;
    node.inputs[1] = k.x;
    node.inputs[2] = v.x;
    node.inputs[3] = learned.distance_bias;
    node.inputs[4] = learned.sinks;
    s->kernel.product = tape->product;
    if (learned.sinks) s->kernel.sinks = learned.sinks->data;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = q.x->dtype == QKV_F32 ? qkv_tape_tensor(tape, q.x->rows, a->H * a->Dv)
                                        : qkv_tape_for_products(tape, q.x->rows, a->H * a->Dv);
    if (q.x->learning.order) {
        s->kernel.ordered = q.x->learning.order->keys;
        s->kernel.first_row = q.x->learning.order->first_row;
    }
    if (!tape->training) s->kernel.dropout = 0;
    if (s->kernel.dropout > 0) qkv_tape_dropout_key(tape, s->kernel.key);
    struct qkv_tensor *y = qkv_tape_run(tape, &node);
    if (y && kept) {
        *kept = &s->kernel;
    }
    return y;
}
