/* qkv/modules.h: the parts of a transformer by themselves, on float tensors; a part of qkv.h, which includes it.
 * Experimental.
 *
 * A module is attention, a feed-forward, a norm, a block, a stack or a whole model, with its parameters by name, forward
 * and backward, as torch.nn has them. It is made new from a spec, or stands for a part of a model that is there, by the
 * name that its parameters have in files: "encoder.layers.0" is a block, "decoder.norm" a norm, "decoder.layers.2.attn"
 * an attention. For example, one step of an encoder block on B sequences of T vectors, of which lengths[b] are no padding:
 *
 *     qkv_spec_preset(ctx, &spec, "bert-base", NULL, 0);
 *     qkv_module_create(ctx, QKV_MODULE_ENCODER_BLOCK, &spec, 1, &block);
 *     struct qkv_vectors X = {x, B, T, 768}, Y = {y, B, T, 768}, dY = {dy, B, T, 768}, dX = {dx, B, T, 768};
 *     struct qkv_module_input in = qkv_module_input_defaults();
 *     in.x = X, in.self.mask.lengths = lengths, in.train = true, in.seed = step;
 *     if (qkv_module_forward(block, &in, Y)) puts(qkv_message(ctx));
 *     if (qkv_module_backward(block, dY, &(struct qkv_module_gradients){.x = dX})) puts(qkv_message(ctx));
 *     for (size_t i = 0; i < qkv_module_parameters(block); i++) …  // qkv_module_gradient(block, i)
 *
 * examples/modules.c is a whole program. A module serves one thread, that of its context. */
#ifndef QKV_PUBLIC_MODULES_H
#define QKV_PUBLIC_MODULES_H

#include "qkv/attention.h"
#include "qkv/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "name", what it computes of x) */
#define QKV_MODULE_LIST(X)                                                                                             \
    X(ATTENTION, "attention", "self attention with its projections")                                                   \
    X(CROSS_ATTENTION, "cross attention", "attention to a memory, with its projections")                               \
    X(FFN, "feed-forward", "the feed-forward of a layer")                                                              \
    X(NORM, "norm", "a norm")                                                                                          \
    X(ENCODER_BLOCK, "encoder block", "self attention and feed-forward, with their norms and residuals")               \
    X(DECODER_BLOCK, "decoder block", "the same with cross attention to a memory between them")                        \
    X(ENCODER_STACK, "encoder stack", "all such blocks and, where the spec has one, the norm after them")              \
    X(DECODER_STACK, "decoder stack", "the same with cross attention")                                                 \
    X(MODEL, "model", "embedding, stacks and head")                                                                    \
    X(CROSS_BLOCK, "cross block", "a decoder block without self attention: cross attention and feed-forward")
#define QKV_MODULE_ENUM(name, text, help) QKV_MODULE_##name,
enum qkv_module_kind { QKV_MODULE_LIST(QKV_MODULE_ENUM) QKV_MODULE_COUNT };
#undef QKV_MODULE_ENUM

struct qkv_module;

/* A module with new weights (as qkv_model_create) of the widths and kinds in `spec`. Kinds with a memory are made of
 * spec->decoder: of its cross attention, or, in a spec without an encoder, of its attention without causal, window
 * and position. The others are made of spec->encoder, or of spec->decoder where that is the only stack. Attention,
 * feed-forward and blocks are those of its first layer, the norm is that of its last; vocabulary, head, ties and
 * positions that are added to embeddings matter to a model only. x has at most spec->context positions where there
 * is attention. Only what the module computes with takes memory. Fails with QKV_SPEC (the spec cannot be),
 * QKV_ARGUMENT (it has no such stack), QKV_MEMORY. *out is the caller's, freed with qkv_module_free. */
QKV_API enum qkv_status qkv_module_create(struct qkv_context *ctx, enum qkv_module_kind kind,
                                          const struct qkv_spec *spec, uint64_t seed, struct qkv_module **out);
/* What a new module is, beside its spec. */
struct qkv_module_options {
    enum qkv_module_kind kind;
    uint64_t seed; /* of its weights */
    /* cross attention: C of the memory, and of the values; 0: that of x. Where they differ from each other values are
     * always given apart (as kdim and vdim in torch.nn.MultiheadAttention) */
    size_t key_width, value_width;
};
QKV_API struct qkv_module_options qkv_module_defaults(void); /* a model, all of one width */
/* The same with all options; widths of a kind without cross attention of its own are QKV_ARGUMENT. Fails with QKV_SPEC,
 * QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_create_with(struct qkv_context *ctx, const struct qkv_spec *spec,
                                               const struct qkv_module_options *options, struct qkv_module **out);
/* The part of a model whose parameters' names begin with `name` and a point: "" (all of it), "encoder",
 * "decoder.layers.0", "decoder.layers.0.attn", ".cross", ".ffn", ".attn_norm", ".cross_norm", ".ffn_norm",
 * ".attn_out_norm", ".cross_out_norm", ".ffn_out_norm", "encoder.norm". The weights and gradients are the model's, which must outlive the module. Fails with QKV_ARGUMENT
 * (it has no such part, or is a plan), QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_of_model(struct qkv_model *model, const char *name, struct qkv_module **out);
/* NULL is fine. */
QKV_API void qkv_module_free(struct qkv_module *module);
/* What it is: of a part of a model, by its name. */
QKV_API enum qkv_module_kind qkv_module_kind(const struct qkv_module *module);

/* Its parameters: name ("attn.q.weight" of a block, "q.weight" of an attention, "weight" of a norm), shape and
 * numbers; writable numbers; gradients of the same shape (NULL before the first forward with train). NULL past the
 * last. All are the module's. In mixed precision a copy of the weights may be multiplied, made anew after
 * qkv_module_weights_mutable: call it before every change. */
QKV_API size_t qkv_module_parameters(const struct qkv_module *module);
QKV_API const struct qkv_array *qkv_module_parameter(const struct qkv_module *module, size_t i);
QKV_API float *qkv_module_weights_mutable(struct qkv_module *module, size_t i);
QKV_API float *qkv_module_gradient(struct qkv_module *module, size_t i);
QKV_API void qkv_module_clear_gradients(struct qkv_module *module);

/* A packed float tensor (B,T,C). */
struct qkv_vectors {
    float *data;
    size_t B, T, C;
};
QKV_API struct qkv_vectors qkv_vectors_defaults(void); /* none */
/* Which keys the queries of an attention see, beside causal and window of the spec: those that all of it allows
 * (qkv/attention.h). mask.B, Tq and Tk may stay 0; in self attention mask.offset and offsets do too. Zero: all. */
struct qkv_module_mask {
    struct qkv_mask mask;
    const uint8_t *dense; /* only keys where this is not 0 (true = attend); NULL: all */
    struct qkv_pair_shape dense_shape;
    const float *bias; /* added to the scores of every layer; −inf masks; NULL: none */
    struct qkv_pair_shape bias_shape;
    float *dbias; /* its gradient, of all layers together, in its strides: backward adds to it; NULL: not wanted */
};
QKV_API struct qkv_module_mask qkv_module_mask_defaults(void); /* all keys that the spec lets through; no bias */
/* What a module reads; not written. Numbers are finite. Weights that a folder stores in bf16 or f16 are
 * used as they are; training, and values apart, make fp32 of them. What is not used is zero. */
struct qkv_module_input {
    struct qkv_vectors x; /* (B,T,C); a model: vectors in place of scaled token embeddings, or none and ids */
    const int32_t *ids;   /* a model: (x.B,x.T) with x.data NULL and x.C 0 */
    /* A model whose embedding has types (embed.types): that of each token, shaped as ids and source; NULL: all 0. */
    const int32_t *types, *source_types;
    /* (B,Tk,C), C the module's key width: what cross attention reads; of a model with both stacks vectors in place of
     * the source's scaled token embeddings, or none and source */
    struct qkv_vectors memory;
    const int32_t *source; /* a model with both stacks: (memory.B,memory.T) with memory.data NULL and memory.C 0 */
    /* cross attention: what values are made of, where that is not the memory: (B,Tk,C), C the value width */
    struct qkv_vectors values;
    struct qkv_module_mask self, cross; /* of the self attention of x, and of cross attention */
    struct qkv_module_mask source_self; /* a model with both stacks: of its encoder */
    /* Experimental: what rotations of x, and of a model's source, are decided for, where they depend on a length (position.scaling of
     * kind dynamic or longrope), at most the context; 0: each row's own: mask.lengths of its self attention, or all positions */
    size_t length, source_length;
    bool train;    /* keep what backward needs; dropout is on */
    uint64_t seed; /* of the dropout masks */
};
QKV_API struct qkv_module_input qkv_module_input_defaults(void); /* nothing to read; nothing kept for backward */
/* y (B,T,C), or of a model (B,T,vocab), (B,1,classes), or with no head (B,T,C). A batch of no rows, or of no positions, is fine:
 * y is as empty, backward adds nothing, and gradients of inputs are 0. Nothing overlaps y. Memory is kept
 * in the module and grows to what the largest call needs. The numbers are those of a pass (qkv/pass.h) over the
 * same. Fails with QKV_SHAPE (shapes do not agree: the sentence names both), QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_forward(struct qkv_module *module, const struct qkv_module_input *input,
                                           struct qkv_vectors y);
/* Gradients of inputs to be written, in the inputs' shapes; data NULL where one is not wanted. A model given ids has
 * none. */
struct qkv_module_gradients {
    struct qkv_vectors x, memory, values;
};
QKV_API struct qkv_module_gradients qkv_module_gradients_defaults(void); /* no gradient of an input is wanted */
/* After a forward with train, once: adds to the parameters' gradients (and dbias), and writes those of the inputs
 * (NULL: none). They are gradients of y alone: the losses of experts' routers belong to passes. The forward's input must still be there. Fails with QKV_SHAPE, QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_backward(struct qkv_module *module, struct qkv_vectors dy,
                                            const struct qkv_module_gradients *gradients);

#ifdef __cplusplus
}
#endif

#endif
