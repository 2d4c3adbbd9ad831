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
                                   .residual = residual,
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

/* The residual connection around a sublayer, with its norm on either side. */
enum sublayer { SELF, CROSS, FFN };

static struct qkv_tensor *block_residual(struct qkv_forward_args *f, size_t layer, enum sublayer kind,
                                         struct qkv_tensor *x) {
    struct qkv_layer *l = &f->stack->layers[layer];
    const struct qkv_layer_spec *spec = qkv_stack_layer(f->stack->spec, layer);
    struct qkv_norm *n = kind == SELF ? &l->self.norm : kind == CROSS ? &l->cross.norm : &l->ffn.norm;
    bool pre = spec->norm.placement == QKV_PLACEMENT_PRE;
    struct qkv_tape_mark mark = qkv_tape_mark(f->tape);
    struct qkv_tensor *in = pre ? block_norm(f, &spec->norm, n, x, QKV_RESULT_BF16_IF_MIXED) : x;
    /* With nothing in between the sum is made with the sublayer's last product. */
    const bool drops = f->tape->training && f->spec->dropout > 0;
    struct qkv_tensor *sum = drops || f->hook ? NULL : x;
    struct qkv_tensor *out = kind == SELF    ? self_attention(f, layer, in, sum)
                             : kind == CROSS ? cross_attention(f, layer, in, sum)
                                             : feed_forward(f, &spec->ffn, &l->ffn, in, sum);
    if (!sum) {
        call_hook(f, kind == SELF ? QKV_HOOK_ATTENTION : kind == CROSS ? QKV_HOOK_CROSS : QKV_HOOK_FFN, layer, out);
        out = qkv_op_add(f->tape, x, qkv_op_dropout(f->tape, out, (float)f->spec->dropout));
    }
    if (!pre) {
        out = block_norm(f, &spec->norm, n, out, QKV_RESULT_FP32);
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
    x = block_residual(&b.flow, b.layer, SELF, x);
    if (b.flow.stack->has_cross) {
        x = block_residual(&b.flow, b.layer, CROSS, x);
    }
    return block_residual(&b.flow, b.layer, FFN, x);
}

struct qkv_tensor *qkv_stack_forward(struct qkv_forward_args *f, const int32_t *ids) {
    struct qkv_stack *s = f->stack;
    const size_t layers = (size_t)s->spec->layers;
    const struct qkv_norm_spec *norm = &qkv_stack_layer(s->spec, layers - 1)->norm;
    struct qkv_tensor *position = s->embed.learned ? &s->position : NULL;
    if (s->embed.embed) {
        position = qkv_tape_view(f->tape, s->embed.embed, (size_t)f->spec->context, s->token->columns);
    }
    struct qkv_tensor *x =
        qkv_op_embed(f->tape, s->token, (float)f->spec->embed.scale, position, ids, f->positions, f->B * f->T);
    call_hook(f, QKV_HOOK_EMBEDDING, 0, x);
    x = qkv_op_dropout(f->tape, x, (float)f->spec->dropout);
    for (size_t layer = 0; layer < layers; layer++) {
        struct block b = {.flow = *f, .layer = layer};
        x = f->checkpoint ? qkv_tape_recompute_segment(f->tape, run_block, &b, sizeof b, x, f->memory)
                          : run_block(f->tape, &b, x);
        call_hook(f, QKV_HOOK_RESIDUAL, layer, x);
    }
    if (norm->final) {
        x = block_norm(f, norm, &s->norm, x, QKV_RESULT_FP32);
        call_hook(f, QKV_HOOK_FINAL, layers, x);
    }
    return x;
}
