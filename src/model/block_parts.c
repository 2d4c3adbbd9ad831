/* block_parts: parts of the forms of blocks: norms, the addition to the residual stream, and hooks. */
#include <stdlib.h>

#include "base/backend.h"
#include "model/model.h"
#include "model/spec.h"

struct qkv_layer *qkv_layer_weights(const struct qkv_stack *stack, size_t layer) {
    return &stack->layers[qkv_stack_weights_of(stack->spec, layer)];
}

bool qkv_layer_has(const struct qkv_stack *stack, size_t layer, enum qkv_sublayer sublayer) {
    if (sublayer == QKV_SUBLAYER_SELF) return !stack->has_cross || !qkv_stack_layer(stack->spec, layer)->cross_only;
    return sublayer != QKV_SUBLAYER_CROSS || stack->has_cross;
}

/* Calls the hook with numbers of the host. */
static void hook_tell(const struct qkv_forward_args *f, enum qkv_hook_kind kind, size_t layer, size_t rows,
                      size_t columns, const float *values) {
    const struct qkv_hook_point point = {.kind = kind,
                                         .encoder = f->stack->spec == &f->spec->encoder,
                                         .layer = layer,
                                         .rows = rows,
                                         .columns = columns,
                                         .values = values};
    f->hook(f->hook_user, &point);
}

void qkv_hook_call(const struct qkv_forward_args *f, enum qkv_hook_kind kind, size_t layer,
                   const struct qkv_tensor *x) {
    struct qkv_context *ctx = f->tape->ctx;
    float *copy = NULL;
    if (!f->hook || !x) return;
    if (!ctx->backend->of_host) {
        copy = qkv_allocate(ctx, x->rows, x->columns * sizeof *copy);
        if (!copy && qkv_tape_failed(f->tape, QKV_MEMORY)) return;
        ctx->backend->read(copy, x->data, x->rows * x->columns * sizeof *copy);
    }
    hook_tell(f, kind, layer, x->rows, x->columns, copy ? copy : x->data);
    free(copy);
}

void qkv_hook_call_experts(struct qkv_forward_args *f, size_t layer, const struct qkv_routing *routing) {
    struct qkv_tape *tape = f->tape;
    if (!f->hook || tape->status) return;
    const size_t mark = qkv_arena_mark(tape->graph_arena), experts = routing->experts;
    int32_t *start = qkv_tape_take_graph(tape, (experts + 1) * sizeof *start);
    float *counts = qkv_tape_take_graph(tape, experts * sizeof *counts);
    if (start && counts) {
        tape->ctx->backend->read(start, routing->start, (experts + 1) * sizeof *start);
        for (size_t e = 0; e < experts; e++) counts[e] = (float)(start[e + 1] - start[e]);
        hook_tell(f, QKV_HOOK_EXPERTS, layer, 1, experts, counts);
    }
    qkv_arena_release(tape->graph_arena, mark);
}

bool qkv_block_has_norm(const struct qkv_norm_spec *norm, enum qkv_sublayer sublayer, bool out) {
    const enum qkv_block_norms norms = qkv_placement_norms(norm->placement);
    if (sublayer == QKV_SUBLAYER_SELF && !norm->attention) return false; /* this kind has no norm around attention */
    if (out) return norms == QKV_BLOCK_NORMS_TWO;
    return sublayer == QKV_SUBLAYER_SELF || norms != QKV_BLOCK_NORMS_SHARED;
}

static struct qkv_norm *block_norm_of(struct qkv_layer *l, enum qkv_sublayer kind, bool out) {
    if (kind == QKV_SUBLAYER_FFN) return out ? &l->ffn.out_norm : &l->ffn.norm;
    struct qkv_attention *attention = kind == QKV_SUBLAYER_SELF ? &l->self : &l->cross;
    return out ? &attention->out_norm : &attention->norm;
}

struct qkv_tensor *qkv_stack_sublayer_norm(struct qkv_forward_args *f, size_t layer, enum qkv_sublayer kind, bool out,
                                           struct qkv_tensor *x) {
    const struct qkv_norm_spec *spec = &qkv_stack_layer(f->stack->spec, layer)->norm;
    return qkv_norm_apply(f->tape, spec, block_norm_of(qkv_layer_weights(f->stack, layer), kind, out), x,
                          QKV_RESULT_FP32);
}

const struct qkv_norm_spec *qkv_stack_final_norm(const struct qkv_stack_spec *stack) {
    return &qkv_stack_layer(stack, (size_t)stack->layers - 1)->norm;
}

/* ---- parts of forms ---------------------------------------------------------------------------------------------- */

static const struct qkv_layer_spec *block_spec(const struct qkv_block *b) {
    return qkv_stack_layer(b->f->stack->spec, b->layer);
}

struct qkv_tensor *qkv_block_norm(const struct qkv_block *b, struct qkv_tensor *x, enum qkv_result result) {
    const struct qkv_norm_spec *spec = &block_spec(b)->norm;
    if (!qkv_block_has_norm(spec, b->sublayer, false)) return x;
    struct qkv_layer *weights = qkv_layer_weights(b->f->stack, b->layer);
    return qkv_norm_apply(b->f->tape, spec, block_norm_of(weights, b->sublayer, false), x, result);
}

static float block_dropout(const struct qkv_block *b) {
    return (float)qkv_dropout_rate(block_spec(b)->residual_dropout, b->f->spec->dropout);
}

/* Calls the hook with the sublayer's output, and applies dropout. */
static struct qkv_tensor *block_output(const struct qkv_block *b, struct qkv_tensor *y) {
    static const enum qkv_hook_kind hooks[] = {[QKV_SUBLAYER_SELF] = QKV_HOOK_ATTENTION,
                                               [QKV_SUBLAYER_CROSS] = QKV_HOOK_CROSS,
                                               [QKV_SUBLAYER_FFN] = QKV_HOOK_FFN};
    qkv_hook_call(b->f, hooks[b->sublayer], b->layer, y);
    return qkv_op_dropout(b->f->tape, y, block_dropout(b));
}

struct qkv_tensor *qkv_block_add(const struct qkv_block *b, struct qkv_tensor *residual, struct qkv_tensor *x) {
    /* Without a hook and dropout, the sublayer's last product adds the residual. */
    const bool drops = b->f->tape->training && block_dropout(b) > 0;
    if (!drops && !b->f->hook) return b->run(b->f, b->layer, b->sublayer, x, residual);
    struct qkv_tensor *y = block_output(b, b->run(b->f, b->layer, b->sublayer, x, NULL));
    return qkv_op_add(b->f->tape, residual, y, (float)block_spec(b)->residual_scale);
}

struct qkv_tensor *qkv_block_add_normed(const struct qkv_block *b, struct qkv_tensor *residual, struct qkv_tensor *x) {
    const struct qkv_norm_spec *spec = &block_spec(b)->norm;
    const bool two = qkv_block_has_norm(spec, b->sublayer, true);
    if (!two && !qkv_block_has_norm(spec, b->sublayer, false)) return qkv_block_add(b, residual, x);
    struct qkv_norm *norm = block_norm_of(qkv_layer_weights(b->f->stack, b->layer), b->sublayer, two);
    struct qkv_tensor *y = b->run(b->f, b->layer, b->sublayer, x, NULL);
    y = block_output(b, qkv_norm_apply(b->f->tape, spec, norm, y, QKV_RESULT_FP32));
    return qkv_op_add(b->f->tape, residual, y, (float)block_spec(b)->residual_scale);
}

bool qkv_block_holds(const struct qkv_block *b) {
    return b->f->keys && b->sublayer == QKV_SUBLAYER_SELF && b->f->stack->layers[b->layer].keys_end > b->layer + 1;
}

bool qkv_block_at(const struct qkv_block *block, enum qkv_sublayer sublayer, struct qkv_block *at) {
    *at = *block;
    at->sublayer = sublayer;
    return qkv_layer_has(block->f->stack, block->layer, sublayer);
}

struct qkv_tensor *qkv_block_add_all(const struct qkv_block *block, struct qkv_tensor *x,
                                     struct qkv_tensor *const h[QKV_SUBLAYER_COUNT]) {
    struct qkv_forward_args *f = block->f;
    struct qkv_block b;
    for (enum qkv_sublayer i = QKV_SUBLAYER_SELF; i < QKV_SUBLAYER_COUNT; i++) {
        if (!qkv_block_at(block, i, &b)) continue;
        const struct qkv_tape_mark mark = qkv_tape_mark(f->tape);
        struct qkv_tensor *y = qkv_block_add(&b, x, h[i]);
        x = f->kept || qkv_block_holds(&b) ? y : qkv_tape_keep(f->tape, mark, x, y);
    }
    return x;
}
