/* head_norm: a norm of each of some heads of a tensor, in place, as for queries and keys before attention (Henry et al.
 * 2020; Qwen 3 and Gemma 3: one weight for all heads; Cohere: a weight per head; OLMo 2: one head as wide as all of
 * them).
 *
 * The formulas are those of norm.c, with a head in the place of a row. A recording tape saves the heads from before the
 * norm, and backward turns the gradient of the output into that of x in place. x (N, columns); w, b (D), or (heads, D)
 * where each head has its own. Arithmetic is fp32 also where x is bf16. */
#include "op/norm_sums.h"

#include <string.h>

enum { ROWS_A_PIECE = 16 };

struct head_norm {
    enum qkv_norm_kind kind;
    float eps;
    struct qkv_heads_of_columns part;
    void *before;       /* (N, heads·D), x's dtype: the heads before the norm, for backward; NULL: not saved */
    float *mean, *rstd; /* (N, heads): saved for backward; NULL: not saved */
    /* set while it runs */
    const struct qkv_kernels *kernels;
    size_t columns;
    void *x; /* or its gradient */
    enum qkv_dtype dtype;
    const float *w, *b;
    float *rows; /* of each thread: two rows of heads */
    struct qkv_norm_sums sums;
    bool learns; /* the weight or the bias wants a gradient */
};

static size_t head_norm_width(const struct head_norm *o) {
    return o->part.heads * o->part.D;
}

/* Numbers of the weight. */
static size_t head_norm_weights(const struct head_norm *o) {
    return o->part.own ? head_norm_width(o) : o->part.D;
}

/* Normalises the heads of row n, in fp32. */
static void head_norm_normalise(const struct head_norm *o, float *x, size_t n) {
    const size_t heads = o->part.heads, D = o->part.D, calls = o->part.own ? heads : 1;
    for (size_t h = 0; h < calls; h++) {
        const size_t at = n * heads + h, own = h * D;
        o->kernels->norm_forward(o->kind, x + own, o->mean ? o->mean + at : NULL, o->rstd ? o->rstd + at : NULL,
                                 x + own, o->w ? o->w + own : NULL, o->b ? o->b + own : NULL, o->eps, heads / calls, D);
    }
}

static void head_norm_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct head_norm *o = argument;
    const size_t width = head_norm_width(o), size = qkv_type_size(o->dtype);
    float *row = o->rows + (size_t)thread * 2 * width;
    for (size_t n = begin; n < end; n++) {
        char *x = (char *)o->x + (n * o->columns + o->part.column) * size;
        if (o->before) memcpy((char *)o->before + n * width * size, x, width * size);
        if (o->dtype == QKV_F32) {
            head_norm_normalise(o, (float *)(void *)x, n);
            continue;
        }
        o->kernels->widen(row, (const uint16_t *)(void *)x, width);
        head_norm_normalise(o, row, n);
        o->kernels->narrow((uint16_t *)(void *)x, row, width);
    }
}

/* Row n: `dx` becomes the gradient of x; the row's part of the gradients of weight and bias is added to dw and db. */
static void head_norm_backward_row(const struct head_norm *o, float *dx, const float *dy, const float *x, size_t n,
                                   float *dw, float *db) {
    const size_t heads = o->part.heads, D = o->part.D, calls = o->part.own ? heads : 1;
    for (size_t h = 0; h < calls; h++) {
        const size_t at = n * heads + h, own = h * D;
        o->kernels->norm_backward(o->kind, dx + own, false, dw ? dw + own : NULL, db ? db + own : NULL, dy + own,
                                  x + own, o->mean ? o->mean + at : NULL, o->rstd + at, o->w ? o->w + own : NULL,
                                  heads / calls, D);
    }
}

static void head_norm_piece(const struct head_norm *o, size_t piece, int thread) {
    const size_t width = head_norm_width(o), P = head_norm_weights(o);
    float *dy = o->rows + (size_t)thread * 2 * width, *wide = dy + width;
    size_t begin, end;
    float *dw = qkv_norm_sums_piece(&o->sums, piece, &begin, &end), *db = o->learns ? dw + P : NULL;
    if (!o->learns) dw = NULL;
    for (size_t n = begin; n < end; n++) {
        float *dx = (float *)o->x + n * o->columns + o->part.column;
        const float *x = (const float *)o->before + n * width;
        memcpy(dy, dx, width * sizeof *dy);
        if (o->dtype != QKV_F32) {
            o->kernels->widen(wide, (const uint16_t *)o->before + n * width, width);
            x = wide;
        }
        head_norm_backward_row(o, dx, dy, x, n, dw, db);
    }
}

static void head_norm_pieces(void *argument, size_t begin, size_t end, int thread) {
    for (size_t piece = begin; piece < end; piece++) head_norm_piece(argument, piece, thread);
}

static struct head_norm head_norm_of(const struct qkv_tape *tape, const struct qkv_node *node) {
    struct head_norm o = *(const struct head_norm *)node->saved;
    o.kernels = tape->ctx->kernels;
    o.columns = node->output->columns;
    o.dtype = node->output->dtype;
    o.w = node->inputs[1] ? node->inputs[1]->data : NULL;
    o.b = node->inputs[2] ? node->inputs[2]->data : NULL;
    return o;
}

enum qkv_status qkv_check_head_norm(struct qkv_tape *tape, struct qkv_node *node) {
    const struct head_norm *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0], *weight = node->inputs[1], *bias = node->inputs[2];
    const size_t P = head_norm_weights(o);
    if (o->part.column + head_norm_width(o) > x->columns)
        return qkv_fail(tape->ctx, QKV_SHAPE, "head_norm: %zu heads of %zu from column %zu on do not fit x (%zu,%zu)",
                        o->part.heads, o->part.D, o->part.column, x->rows, x->columns);
    if ((!weight || weight->rows * weight->columns == P) && (!bias || (weight && bias->rows * bias->columns == P)))
        return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE, "head_norm: %zu heads of %zu need weights of %zu numbers", o->part.heads,
                    o->part.D, P);
}

static bool head_norm_goes_back(const struct qkv_tape *tape, const struct qkv_node *node) {
    bool wanted = false;
    for (size_t i = 0; i < 3; i++) wanted = wanted || (node->inputs[i] && node->inputs[i]->learning.requires_grad);
    return tape->recording && wanted;
}

enum qkv_status qkv_forward_head_norm(struct qkv_tape *tape, struct qkv_node *node) {
    struct head_norm *saved = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    const size_t N = x->rows, heads = saved->part.heads, width = head_norm_width(saved);
    if (head_norm_goes_back(tape, node)) {
        saved->before = qkv_tape_take(tape, N * width, qkv_type_size(x->dtype));
        saved->rstd = qkv_tape_take(tape, N * heads, sizeof(float));
        saved->mean = qkv_norm_centered(saved->kind) ? qkv_tape_take(tape, N * heads, sizeof(float)) : NULL;
    }
    struct head_norm o = head_norm_of(tape, node);
    const size_t mark = qkv_arena_mark(tape->arena);
    o.x = x->data;
    o.rows = qkv_tape_take(tape, x->dtype == QKV_F32 ? 0 : (size_t)tape->ctx->threads * 2 * width, sizeof(float));
    if (tape->status) return tape->status;
    qkv_parallel_range(tape->ctx, N, ROWS_A_PIECE, head_norm_rows, &o);
    qkv_arena_release(tape->arena, mark);
    return QKV_OK;
}

enum qkv_status qkv_backward_head_norm(struct qkv_tape *tape, struct qkv_node *node) {
    struct qkv_tensor *x = node->inputs[0];
    struct head_norm o = head_norm_of(tape, node);
    const size_t P = head_norm_weights(&o), width = head_norm_width(&o);
    enum qkv_status status = QKV_OK;
    bool accumulate;
    float *dw = qkv_gradient_out(tape, node->inputs[1], &accumulate, &status);
    float *db = qkv_gradient_out(tape, node->inputs[2], &accumulate, &status);
    /* x has no other user, so the gradient of the output is complete and becomes that of x in place. */
    o.x = qkv_gradient_out(tape, node->output, &accumulate, &status);
    const size_t mark = qkv_arena_mark(tape->arena);
    o.rows = qkv_tape_take(tape, (size_t)tape->ctx->threads * 2 * width, sizeof(float));
    o.learns = dw || db;
    if (!status) status = qkv_norm_sums_start(tape, x, P, &o.sums);
    if (!status) status = tape->status;
    if (status) return status;
    qkv_norm_sums_each(tape->ctx, &o.sums, head_norm_pieces, &o);
    qkv_norm_sums_add(tape->ctx, &o.sums, dw, db);
    qkv_arena_release(tape->arena, mark);
    return qkv_gradient_pass(tape, node, x);
}

struct qkv_cost qkv_cost_head_norm(const struct qkv_node *node, bool backward) {
    const struct head_norm *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    const double part = (double)head_norm_width(o) / (double)x->columns, kept = o->before ? part : 0;
    const double bytes = backward ? 2 * part * qkv_gradient_bytes(x) : 2 * part * qkv_tensor_bytes(x);
    return (struct qkv_cost){.bytes = bytes + kept * qkv_tensor_bytes(x)};
}

struct qkv_tensor *qkv_op_head_norm(struct qkv_tape *tape, struct qkv_tensor *x, struct qkv_heads_of_columns part,
                                    enum qkv_norm_kind kind, struct qkv_tensor *weight, struct qkv_tensor *bias,
                                    float eps) {
    struct head_norm *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct head_norm){.kind = kind, .eps = eps, .part = part};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_head_norm, o);
    node.inputs[0] = x;
    node.inputs[1] = weight;
    node.inputs[2] = bias;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_same(tape, x);
    return qkv_tape_run(tape, &node);
}
