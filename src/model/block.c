/* block: the layers of a stack, and the stack itself.
 *
 * pre-norm (GPT-2):       x = x + sublayer(norm(x)), a final norm after the last layer.
 * post-norm (Vaswani et al. 2017): x = norm(x + sublayer(x)).
 * Each layer is of a kind (struct qkv_layer_spec), which says what its sublayers are; the norm after the last layer is of
 * that layer's kind. Sublayers: self attention, cross attention in a decoder beside an encoder, feed-forward. One function serves training,
 * evaluation and decoding with a cache. */
#include "model/model.h"
#include "op/recompute_segment.h"

static struct qkv_tensor *block_norm(struct qkv_forward_args *f, const struct qkv_norm_spec *spec, struct qkv_norm *n,
                                     struct qkv_tensor *x, enum qkv_result result) {
    return qkv_op_norm(f->tape, x, spec->kind, &n->weight, qkv_tensor_or_null(&n->bias), (float)spec->eps, result);
}

/* The sublayers return their output, or, with `residual`, the sum of both. */

static struct qkv_tensor *feed_forward(struct qkv_forward_args *f, const struct qkv_ffn_spec *spec, struct qkv_ffn *ffn,
                                       struct qkv_tensor *x, struct qkv_tensor *residual) {
    const enum qkv_ffn_kind kind = spec->kind;
    struct qkv_tensor *bias = qkv_tensor_or_null(&ffn->up.bias), *down_bias = qkv_tensor_or_null(&ffn->down.bias);
    struct qkv_tensor *hidden = qkv_op_linear_activation(f->tape, x, &ffn->up.weight, bias, kind, qkv_ffn_gated(kind));
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
static void call_hook(const struct qkv_forward_args *f, enum qkv_hook_kind kind, size_t layer,
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
    return block_norm(f, spec, block_norm_of(&f->stack->layers[layer], kind), x, QKV_RESULT_FP32);
}

const struct qkv_norm_spec *qkv_stack_final_norm(const struct qkv_stack_spec *stack) {
    return &qkv_stack_layer(stack, (size_t)stack->layers - 1)->norm;
}

/* The residual connection around a sublayer, with its norm on either side. */
static struct qkv_tensor *block_residual(struct qkv_forward_args *f, size_t layer, enum qkv_sublayer kind,
                                         struct qkv_tensor *x) {
    static const enum qkv_hook_kind hooks[] = {[QKV_SUBLAYER_SELF] = QKV_HOOK_ATTENTION,
                                               [QKV_SUBLAYER_CROSS] = QKV_HOOK_CROSS,
                                               [QKV_SUBLAYER_FFN] = QKV_HOOK_FFN};
    const struct qkv_norm_spec *norm = &qkv_stack_layer(f->stack->spec, layer)->norm;
    struct qkv_norm *n = block_norm_of(&f->stack->layers[layer], kind);
    bool pre = norm->placement == QKV_PLACEMENT_PRE;
    struct qkv_tape_mark mark = qkv_tape_mark(f->tape);
    struct qkv_tensor *in = pre ? block_norm(f, norm, n, x, QKV_RESULT_BF16_IF_MIXED) : x;
    /* With nothing in between the sum is made with the sublayer's last product. */
    const bool drops = f->tape->training && f->spec->dropout > 0;
    struct qkv_tensor *sum = drops || f->hook ? NULL : x;
    struct qkv_tensor *out = block_sublayer(f, layer, kind, in, sum);
    if (!sum) {
        call_hook(f, hooks[kind], layer, out);
        out = qkv_op_add(f->tape, x, qkv_op_dropout(f->tape, out, (float)f->spec->dropout));
    }
    if (!pre) {
        out = block_norm(f, norm, n, out, QKV_RESULT_FP32);
    }
    return f->kept ? out : qkv_tape_keep(f->tape, mark, x, out);
}

struct block {
    struct qkv_forward_args flow;
    size_t layer;
};

static struct qkv_tensor *run_block(struct qkv_tape *tape, const void *argument, struct qkv_tensor *x) {
    struct block b = *(const struct block *)argument;
    b.flow.tape = tape;
    x = block_residual(&b.flow, b.layer, QKV_SUBLAYER_SELF, x);
    if (b.flow.stack->has_cross) {
        x = block_residual(&b.flow, b.layer, QKV_SUBLAYER_CROSS, x);
    }
    return block_residual(&b.flow, b.layer, QKV_SUBLAYER_FFN, x);
}

struct qkv_tensor *qkv_stack_embed(struct qkv_forward_args *f, const int32_t *ids) {
    struct qkv_stack *s = f->stack;
    struct qkv_tensor *token = f->inputs ? f->inputs : s->token;
    const float scale = f->inputs ? 1 : (float)f->spec->embed.scale;
    struct qkv_tensor *position = s->embed.learned ? &s->position : NULL;
    if (s->embed.embed) {
        position = qkv_tape_view(f->tape, s->embed.embed, (size_t)f->spec->context, token->columns);
    }
    struct qkv_tensor *x = qkv_op_embed(f->tape, token, scale, position, ids, f->positions, f->B * f->T);
    call_hook(f, QKV_HOOK_EMBEDDING, 0, x);
    return qkv_op_dropout(f->tape, x, (float)f->spec->dropout);
}

/* Put into its callers, so that a pass is one call less deep (scripts/call-depth). */
static inline __attribute__((always_inline)) struct qkv_tensor *
stack_layers(struct qkv_forward_args *f, struct qkv_tensor *x, size_t first, size_t end) {
    for (size_t layer = first; layer < end; layer++) {
        struct block b = {.flow = *f, .layer = layer};
        x = f->checkpoint ? qkv_tape_recompute_segment(f->tape, run_block, &b, sizeof b, x, f->memory)
                          : run_block(f->tape, &b, x);
        call_hook(f, QKV_HOOK_RESIDUAL, layer, x);
    }
    return x;
}

struct qkv_tensor *qkv_stack_norm(struct qkv_forward_args *f, struct qkv_tensor *x) {
    return block_norm(f, qkv_stack_final_norm(f->stack->spec), &f->stack->norm, x, QKV_RESULT_FP32);
}

struct qkv_tensor *qkv_stack_layers(struct qkv_forward_args *f, struct qkv_tensor *x, size_t first, size_t end) {
    return stack_layers(f, x, first, end);
}

struct qkv_tensor *qkv_stack_forward(struct qkv_forward_args *f, const int32_t *ids) {
    const size_t layers = (size_t)f->stack->spec->layers;
    struct qkv_tensor *x = stack_layers(f, qkv_stack_embed(f, ids), 0, layers);
    if (!qkv_stack_final_norm(f->stack->spec)->final) return x;
    x = qkv_stack_norm(f, x);
    call_hook(f, QKV_HOOK_FINAL, layers, x);
    return x;
}
