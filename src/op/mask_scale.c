/* mask_scale: embeddings of tokens of which some are masks (ESM-2; Lin et al. 2022), in place: those of masks become 0,
 * and the others of a sequence of n tokens, m of which are masks, are multiplied by (1 − share)·n/(n − m).
 *
 * Row n of x (N, C) is multiplied by its factor f[n], which has no gradient: dx = f[n]·dy. Of documents that are packed
 * into a sequence, each counts for itself. Padding that is computed is not counted; it has the factor of the tokens
 * next to it. */
#include "op/op.h"

enum { ROWS_A_PIECE = 16 };

struct mask_scale {
    struct qkv_masked_spec rule;
    struct qkv_masked_rows rows;
    /* set while it runs */
    const struct qkv_kernels *kernels;
    float *x, *factors; /* (N, C), (N) */
    size_t N, C;
};

/* Sets the factors of rows [begin, end), of which [first, last) are tokens and the others padding. */
static void mask_scale_set(const struct mask_scale *o, size_t begin, size_t end, size_t first, size_t last) {
    size_t tokens = 0, masks = 0;
    for (size_t n = qkv_max(begin, first); n < qkv_min(end, last); n++)
        tokens++, masks += o->rows.ids[n] == o->rule.token;
    const double rest = (double)(tokens - masks);
    const float factor = masks == tokens ? 0 : (float)((1 - o->rule.share) * (double)tokens / rest);
    for (size_t n = begin; n < end; n++) o->factors[n] = o->rows.ids[n] == o->rule.token ? 0 : factor;
}

static bool mask_scale_parted(const struct mask_scale *o, size_t n) {
    const int32_t *documents = o->rows.documents;
    const size_t place = o->rows.batch ? (size_t)o->rows.batch->place[n] : n;
    return documents && documents[place] != documents[place - 1];
}

static enum qkv_status mask_scale_factors(void *argument) {
    const struct mask_scale *o = argument;
    const struct qkv_masked_rows *r = &o->rows;
    const size_t B = r->batch ? r->batch->B : o->N ? o->N / r->T : 0;
    for (size_t b = 0, begin = 0, end; b < B; b++, begin = end) {
        end = r->batch ? (size_t)r->batch->start[b + 1] : begin + r->T;
        const size_t first = r->starts ? begin + (size_t)r->starts[b] : begin;
        const size_t last = r->lengths ? begin + (size_t)r->lengths[b] : end;
        for (size_t n = begin, next; n < end; n = next) {
            for (next = n + 1; next < end && !mask_scale_parted(o, next); next++) {
            }
            mask_scale_set(o, n, next, first, last);
        }
    }
    return QKV_OK;
}

static void mask_scale_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct mask_scale *o = argument;
    for (size_t n = begin; n < end; n++) {
        float *x = o->x + n * o->C;
        o->kernels->scale(x, false, x, o->factors[n], o->C);
    }
}

/* Multiplies the rows of x, which are those of the node. */
static enum qkv_status mask_scale_run(struct qkv_tape *tape, const struct qkv_node *node, float *x) {
    struct mask_scale o = *(const struct mask_scale *)node->saved;
    const size_t mark = qkv_arena_mark(tape->arena);
    o.kernels = tape->ctx->kernels;
    o.x = x;
    o.N = node->output->rows;
    o.C = node->output->columns;
    o.factors = qkv_tape_take(tape, o.N, sizeof *o.factors);
    if (!o.factors) return QKV_MEMORY;
    const enum qkv_status status = qkv_compute(tape->ctx, mask_scale_factors, &o);
    if (!status) qkv_parallel_range(tape->ctx, o.N, ROWS_A_PIECE, mask_scale_rows, &o);
    qkv_arena_release(tape->arena, mark);
    return status;
}

enum qkv_status qkv_check_mask_scale(struct qkv_tape *tape, struct qkv_node *node) {
    const struct mask_scale *o = node->saved;
    const struct qkv_tensor *x = node->inputs[0];
    if (x->dtype == QKV_F32 && (o->rows.batch || !x->rows || (o->rows.T && x->rows % o->rows.T == 0))) return QKV_OK;
    return qkv_fail(tape->ctx, QKV_SHAPE,
                    "mask_scale: x (%zu,%zu) is not fp32, or is not made of sequences of %zu rows", x->rows, x->columns,
                    o->rows.T);
}

enum qkv_status qkv_forward_mask_scale(struct qkv_tape *tape, struct qkv_node *node) {
    return mask_scale_run(tape, node, node->inputs[0]->data);
}

enum qkv_status qkv_backward_mask_scale(struct qkv_tape *tape, struct qkv_node *node) {
    bool accumulate;
    enum qkv_status status = QKV_OK;
    /* x has no other user, so the gradient of the output is complete and becomes that of x in place. */
    float *dx = qkv_gradient_out(tape, node->output, &accumulate, &status);
    if (!status) status = mask_scale_run(tape, node, dx);
    return status ? status : qkv_gradient_pass(tape, node, node->inputs[0]);
}

struct qkv_cost qkv_cost_mask_scale(const struct qkv_node *node, bool backward) {
    const struct qkv_tensor *x = node->inputs[0];
    return (struct qkv_cost){.bytes = 2 * (backward ? qkv_gradient_bytes(x) : qkv_tensor_bytes(x))};
}

struct qkv_tensor *qkv_op_mask_scale(struct qkv_tape *tape, struct qkv_tensor *x, const struct qkv_masked_spec *rule,
                                     const struct qkv_masked_rows *rows) {
    if (!rule->given) return x;
    struct mask_scale *o = x && !tape->status ? qkv_tape_take_graph(tape, sizeof *o) : NULL;
    if (!o) return NULL;
    *o = (struct mask_scale){.rule = *rule, .rows = *rows};
    struct qkv_node node = qkv_tape_node(tape, QKV_OPERATOR_mask_scale, o);
    node.inputs[0] = x;
    if (!qkv_tape_check(tape, &node)) return NULL;
    node.output = qkv_tape_same(tape, x);
    return qkv_tape_run(tape, &node);
}
