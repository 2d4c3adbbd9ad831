/* norm: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019) of each row.
 *
 * x, y (N, C); w, b (1, C). LayerNorm: y = (x − mean)·rstd·w + b, rstd = 1/sqrt(var + eps).
 * RMSNorm: y = x·rstd·w, rstd = 1/sqrt(mean(x²) + eps). A norm may have neither w nor b; rmsnorm_plus_one multiplies by
 * 1 + w. Backward, with xhat = the normalised row and g = dy·w: dx = rstd·(g − mean(g) − xhat·mean(g·xhat)), without
 * the mean(g) term in RMSNorm; dw += Σ dy·xhat, db += Σ dy, as partial sums over pieces of rows that are added in
 * order. */
#include "op/norm_sums.h"
#include "op/weights.h"

enum { ROWS_A_PIECE = 16, ROWS_AT_ONCE = 4 };

struct norm {
    enum qkv_norm_kind kind;
    float eps;
    float *mean, *rstd; /* (N): saved for backward; NULL: not saved */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    size_t N, C;
    const float *x, *w, *b;
    void *y;
    enum qkv_dtype dtype;
    float *rows; /* bf16: for each thread, ROWS_AT_ONCE rows in fp32 before they are rounded */
    /* backward */
    const float *dy;
    float *dx;
    bool accumulate;
    struct qkv_norm_sums sums;
};

static void norm_normalise(const struct norm *o, float *y, size_t begin, size_t rows) {
    float *mean = o->mean ? o->mean + begin : NULL, *rstd = o->rstd ? o->rstd + begin : NULL;
    o->kernels->norm_forward(o->kind, y, mean, rstd, o->x + begin * o->C, o->w, o->b, o->eps, rows, o->C);
}

static void forward_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct norm *o = argument;
    if (o->dtype == QKV_F32) {
        norm_normalise(o, (float *)o->y + begin * o->C, begin, end - begin);
        return;
    }
    float *rows = o->rows + (size_t)thread * ROWS_AT_ONCE * o->C;
    for (size_t n = begin, count; n < end; n += count) {
        count = qkv_min(end - n, ROWS_AT_ONCE);
        norm_normalise(o, rows, n, count);
        o->kernels->narrow((uint16_t *)o->y + n * o->C, rows, count * o->C);
    }
}

static void backward_piece(const struct norm *o, size_t piece) {
    size_t begin, end;
    float *dw = qkv_norm_sums_piece(&o->sums, piece, &begin, &end), *db = dw + o->C;
    const size_t at = begin * o->C;
    o->kernels->norm_backward(o->kind, o->dx ? o->dx + at : NULL, o->accumulate, o->w ? dw : NULL, o->w ? db : NULL,
                              o->dy + at, o->x + at, o->mean ? o->mean + begin : NULL, o->rstd + begin, o->w,
                              end - begin, o->C);
}

static void backward_pieces(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    for (size_t piece = begin; piece < end; piece++) backward_piece(argument, piece);
}

static struct norm norm_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct norm o = *(const struct norm *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.N = node->output->rows;
    o.C = node->output->columns;
    o.x = node->inputs[0]->data;
    o.w = node->inputs[1] ? node->inputs[1]->data : NULL;
    o.b = node->inputs[2] ? node->inputs[2]->data : NULL;
    return o;
}

enum qkv_status qkv_check_norm(struct qkv_tape *tape, struct qkv_node *node) {
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1], *bias = node->inputs[2];
    if (!weight || (weight->columns == x->columns && (!bias || bias->columns == x->columns))) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "norm: x is (%zu,%zu) but %s has %zu elements", x->rows, x->columns,
                    weight->operand.name ? weight->operand.name : "the weight", weight->columns);
}

enum qkv_status qkv_forward_norm(struct qkv_tape *tape, struct qkv_node *node) {
    struct norm *saved = node->saved;
    const struct qkv_tensor *y = node->output;
    if (tape->recording) {
        saved->rstd = qkv_tape_take(tape, y->rows, sizeof(float));
        saved->mean = qkv_norm_centered(saved->kind) ? qkv_tape_take(tape, y->rows, sizeof(float)) : NULL;
    }
    struct norm o = norm_of(tape, node);
    size_t mark = qkv_arena_mark(tape->arena);
    o.y = y->data;
    o.dtype = y->dtype;
    const size_t scratch = (size_t)tape->ctx->threads * ROWS_AT_ONCE * o.C;
    o.rows = y->dtype == QKV_F32 ? NULL : qkv_tape_take(tape, scratch, sizeof(float));
    if (tape->status) return tape->status;
    qkv_parallel_range(tape->ctx, o.N, ROWS_A_PIECE, forward_rows, &o);
    qkv_arena_release(tape->arena, mark);
    return QKV_OK;
}

enum qkv_status qkv_backward_norm(struct qkv_tape *tape, struct qkv_node *node) {
    struct norm o = norm_of(tape, node);
    enum qkv_status status = QKV_OK;
    bool always;
    o.dy = qkv_gradient_in(node);
    float *dw = qkv_gradient_out(tape, node->inputs[1], &always, &status);
    float *db = qkv_gradient_out(tape, node->inputs[2], &always, &status);
    o.dx = qkv_gradient_out(tape, node->inputs[0], &o.accumulate, &status);
    const size_t mark = qkv_arena_mark(tape->arena);
    if (!status) status = qkv_norm_sums_start(tape, node->inputs[0], o.C, &o.sums);
    if (!status) {
        qkv_norm_sums_each(tape->ctx, &o.sums, backward_pieces, &o);
        qkv_norm_sums_add(tape->ctx, &o.sums, dw, db);
    }
    qkv_arena_release(tape->arena, mark);
    return status;
}

struct qkv_cost qkv_cost_norm(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0], *y = node->output;
    return (struct qkv_cost){.bytes = qkv_tensor_bytes(x) +
                                      (backward ? qkv_gradient_bytes(x) + qkv_gradient_bytes(y) : qkv_tensor_bytes(y))};
}

struct qkv_tensor *qkv_op_norm(struct qkv_tape *tape, struct qkv_tensor *x, enum qkv_norm_kind kind,
                               struct qkv_tensor *weight, struct qkv_tensor *bias, float eps, enum qkv_result result) {
    struct norm *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct norm){.kind = kind, .eps = eps};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_norm, o);
    node.inputs[0] = x;
    node.inputs[1] = weight;
    node.inputs[2] = bias;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = result == QKV_RESULT_FOR_PRODUCTS ? qkv_tape_for_products(tape, x->rows, x->columns)
                                                    : qkv_tape_tensor(tape, x->rows, x->columns);
    return qkv_tape_run(tape, &node);
}

struct qkv_tensor *qkv_norm_apply(struct qkv_tape *tape, const struct qkv_norm_spec *spec, struct qkv_norm *norm,
                                  struct qkv_tensor *x, enum qkv_result result) {
    return qkv_op_norm(tape, x, spec->kind, qkv_tensor_or_null(&norm->weight), qkv_tensor_or_null(&norm->bias),
                       (float)spec->eps, result);
}
