/* block_parts: what forms of blocks are made of: norms, the sublayers (self attention, cross attention, feed-forward), and the
 * addition to the residual stream. */
#include "model/model.h"

/* The sublayers return their output, or, with `residual`, the sum of both. */

static struct qkv_tensor *feed_forward(struct qkv_forward_args *f, const struct qkv_ffn_spec *spec, struct qkv_ffn *ffn,
                                       struct qkv_tensor *x, struct qkv_tensor *residual) {
    const enum qkv_ffn_kind kind = spec->kind;
    struct qkv_tensor *bias = qkv_tensor_or_null(&ffn->up.bias), *down_bias = qkv_tensor_or_null(&ffn->down.bias);
    struct qkv_tensor *hidden = qkv_op_linear_activation(f->tape, x, &ffn->up.weight, bias, kind, qkv_ffn_gated(kind));
    hidden = qkv_op_dropout(f->tape, hidden, (float)spec->dropout);
    return residual ? qkv_op_linear_add(f->tape, hidden, &ffn->down.weight, down_bias, residual)
                    : qkv_op_linear(f->tape, hidden, &ffn->down.weight, down_bias, QKV_RESULT_FP32);
}

static struct qkv_tensor *self_attention(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                         struct qkv_tensor *residual) {
    const size_t kind = f->stack->spec->kind_of[layer];
    struct qkv_attention_args a = {.tape = f->tape,
                                   .attend = &f->self[kind],
                                   .parameters = &f->stack->layers[layer].self.parameters,
                                   .tables = &f->stack->tables[kind],
                                   .cache = f->cache ? &f->cache[layer] : NULL,
                                   .residual = residual,
                                   .dattention_bias = f->dself_bias,
                                   .kept = f->kept ? &f->kept[layer * (f->stack->has_cross ? 2 : 1)] : NULL};
    return qkv_attention_sublayer(&a, x);
}

static struct qkv_tensor *cross_attention(struct qkv_forward_args *f, size_t layer, struct qkv_tensor *x,
                                          struct qkv_tensor *residual) {
    struct qkv_attention_args a = {.tape = f->tape,
                                   .attend = &f->cross[f->stack->spec->kind_of[layer]],
                                   .parameters = &f->stack->layers[layer].cross.parameters,
                                   .cache = f->memory_cache ? &f->memory_cache[layer] : NULL,
                                   .cross = true,
                                   .memory = f->memory,
                                   .values = f->values,
                                   .residual = residual,
                                   .dattention_bias = f->dcross_bias,
                                   .kept = f->kept ? &f->kept[layer * 2 + 1] : NULL};
    return qkv_attention_sublayer(&a, x);
}

/* Tells whoever listens to the pass. */
void qkv_hook_call(const struct qkv_forward_args *f, enum qkv_hook_kind kind, size_t layer,
                   const struct qkv_tensor *x) {
    if (!f->hook || !x || f->tape->ctx->dry) {
        return;
    }
    const struct qkv_hook_point point = {.kind = kind,
                                         .encoder = f->stack->spec == &f->spec->encoder,
                                         .layer = layer,
                                         .rows = x->rows,
                                         .columns = x->columns,
                                         .values = x->data};
    f->hook(f->hook_user, &point);
}

static struct qkv_norm *block_norm_of(struct qkv_layer *l, enum qkv_sublayer kind) {
    return kind == QKV_SUBLAYER_SELF ? &l->self.norm : kind == QKV_SUBLAYER_CROSS ? &l->cross.norm : &l->ffn.norm;
}

static struct qkv_tensor *block_sublayer(struct qkv_forward_args *f, size_t layer, enum qkv_sublayer kind,
                                         struct qkv_tensor *x, struct qkv_tensor *residual) {
    if (kind == QKV_SUBLAYER_SELF) return self_attention(f, layer, x, residual);
    if (kind == QKV_SUBLAYER_CROSS) return cross_attention(f, layer, x, residual);
    const struct qkv_ffn_spec *spec = &qkv_stack_layer(f->stack->spec, layer)->ffn;
    return feed_forward(f, spec, &f->stack->layers[layer].ffn, x, residual);
}

struct qkv_tensor *qkv_stack_sublayer(struct qkv_forward_args *f, size_t layer, enum qkv_sublayer kind,
                                      struct qkv_tensor *x) {
    return block_sublayer(f, layer, kind, x, NULL);
}

struct qkv_tensor *qkv_stack_sublayer_norm(struct qkv_forward_args *f, size_t layer, enum qkv_sublayer kind,
                                           struct qkv_tensor *x) {
    const struct qkv_norm_spec *spec = &qkv_stack_layer(f->stack->spec, layer)->norm;
    return qkv_norm_apply(f->tape, spec, block_norm_of(&f->stack->layers[layer], kind), x, QKV_RESULT_FP32);
}

const struct qkv_norm_spec *qkv_stack_final_norm(const struct qkv_stack_spec *stack) {
    return &qkv_stack_layer(stack, (size_t)stack->layers - 1)->norm;
}

struct qkv_tensor *qkv_block_norm(const struct qkv_block *b, struct qkv_tensor *x, enum qkv_result result) {
    const struct qkv_norm_spec *spec = &qkv_stack_layer(b->f->stack->spec, b->layer)->norm;
    return qkv_norm_apply(b->f->tape, spec, block_norm_of(&b->f->stack->layers[b->layer], b->sublayer), x, result);
}

struct qkv_tensor *qkv_block_output(const struct qkv_block *b, struct qkv_tensor *x) {
    static const enum qkv_hook_kind hooks[] = {[QKV_SUBLAYER_SELF] = QKV_HOOK_ATTENTION,
                                               [QKV_SUBLAYER_CROSS] = QKV_HOOK_CROSS,
                                               [QKV_SUBLAYER_FFN] = QKV_HOOK_FFN};
    struct qkv_tensor *y = block_sublayer(b->f, b->layer, b->sublayer, x, NULL);
    qkv_hook_call(b->f, hooks[b->sublayer], b->layer, y);
    return qkv_op_dropout(b->f->tape, y, (float)b->f->spec->dropout);
}

struct qkv_tensor *qkv_block_add(const struct qkv_block *b, struct qkv_tensor *residual, struct qkv_tensor *x) {
    /* With nothing in between, the sum is made with the sublayer's last product. */
    const bool drops = b->f->tape->training && b->f->spec->dropout > 0;
    if (!drops && !b->f->hook) return block_sublayer(b->f, b->layer, b->sublayer, x, residual);
    return qkv_op_add(b->f->tape, residual, qkv_block_output(b, x));
}
