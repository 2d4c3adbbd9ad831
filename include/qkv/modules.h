/* qkv/modules.h: the parts of a transformer on float tensors, without a model around them; a part of qkv.h, which
 * includes it. Experimental.
 *
 * A module is attention, a feed-forward, a norm, a block, a stack or a whole model, with named parameters, forward and
 * backward, like the modules of torch.nn. qkv_module_create makes a new module from a spec of a model;
 * qkv_module_create_attention makes an attention with any widths; qkv_module_of_model gives a part of an existing
 * model. A part has the name that its parameters have in files: "encoder.layers.0" is a block, "decoder.norm" a norm,
 * "decoder.layers.2.attn" an attention. This example runs one step of an encoder block on B sequences of T vectors;
 * positions at and past lengths[b] are padding:
 *
 *     qkv_spec_preset(ctx, &spec, "bert-base", NULL, 0);
 *     struct qkv_module_options o = qkv_module_defaults();
 *     o.kind = QKV_MODULE_ENCODER_BLOCK, o.seed = 1;
 *     qkv_module_create(ctx, &spec, &o, &block);
 *     struct qkv_vectors X = {x, B, T, 768}, Y = {y, B, T, 768}, dY = {dy, B, T, 768}, dX = {dx, B, T, 768};
 *     struct qkv_module_input in = qkv_module_input_defaults();
 *     in.x = X, in.self.mask.lengths = lengths, in.train = true, in.seed = step;
 *     if (qkv_module_forward(block, &in, Y)) puts(qkv_message(ctx));
 *     if (qkv_module_backward(block, dY, &(struct qkv_module_gradients){.x = dX})) puts(qkv_message(ctx));
 *     for (size_t i = 0; i < qkv_module_parameters(block); i++) …  // qkv_module_get_gradient(block, i, dw, count)
 *
 * examples/modules.c and examples/multihead.c are whole programs. A module serves the thread of its context. */
#ifndef QKV_PUBLIC_MODULES_H
#define QKV_PUBLIC_MODULES_H

#include "qkv/attention.h"
#include "qkv/model.h"

#ifdef QKV_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, "name", the function of x that it computes). The list grows at its end. */
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

/* The options of a new module. */
struct qkv_module_options {
    size_t size; /* sizeof(struct qkv_module_options), set by qkv_module_defaults */
    enum qkv_module_kind kind;
    uint64_t seed; /* determines the new weights */
    /* Cross attention: the widths C of the memory and of the values; 0: that of x. If the two differ, every input must
     * give values (as kdim and vdim in torch.nn.MultiheadAttention). For another kind a width is QKV_ARGUMENT. */
    size_t key_width, value_width;
};
/* A model; all widths equal. */
QKV_API void qkv_module_options_init(struct qkv_module_options *options, size_t size);
static inline struct qkv_module_options qkv_module_defaults(void) {
    struct qkv_module_options options;
    qkv_module_options_init(&options, sizeof options);
    return options;
}
/* Makes a module with new weights (as qkv_model_create) and the widths and kinds of `spec`. `options` NULL: a model.
 *
 * - Kinds with a memory (cross attention, decoder block and stack, cross block) use spec->decoder: its cross attention,
 *   or in a spec without an encoder its attention without causal, window and position. The other kinds use
 *   spec->encoder, or spec->decoder if it is the only stack.
 * - Attention, feed-forward and blocks are those of the first layer; the norm is that of the last layer.
 * - Vocabulary, head, ties and positions that are added to embeddings concern only models.
 * - With attention, x has at most spec->context positions, those of a cache included; a part of a model has the context
 *   of its stack (qkv_stack_context).
 *
 * A module needs memory only for the parts that it computes with. A spec without the stack is QKV_ARGUMENT, an
 * impossible spec QKV_SPEC. *out is the caller's, freed with qkv_module_free. Fails with QKV_SPEC, QKV_ARGUMENT,
 * QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_create(struct qkv_context *ctx, const struct qkv_spec *spec,
                                          const struct qkv_module_options *options, struct qkv_module **out);
/* Attention with its projections: q = x·Wqᵀ + bq; k and v are projected from x (self attention) or from a memory (cross
 * attention). Then, each only if the spec has it: qk_norm normalizes q and k, clip clamps q, k and v, a rotary position
 * rotates q and k. y = attention(q, k, v)·Woᵀ + bo. All widths are free: attention from 1024 to 2048 channels with 8
 * heads of 64 query channels and 111 value channels is {.in = 1024, .out = 2048, .attention = {.heads = 8,
 * .head_dim = 64, .value_dim = 111}}. */
struct qkv_attention_module_spec {
    int in;       /* width of x */
    int kv_in;    /* cross: width of the memory; 0: in */
    int value_in; /* cross: width of the values; 0: kv_in. If the two differ, every input must give values */
    int out;      /* width of y; 0: in */
    bool cross;   /* keys and values come from a memory */
    /* heads must be given. A number that is 0 and may not be 0 is its default: kv_heads is heads, head_dim is
     * in / heads, value_dim is head_dim, qk_norm.norm.eps is 1e-5. qk_norm.norm with weight false has no learned
     * scale. */
    struct qkv_attention_spec attention;
    int context;    /* largest number of positions; with a position it must be given; else 0: 2^24 */
    double dropout; /* dropout of the attention weights, unless attention.dropout has its own value */
};
/* Self attention without a limit of positions and without dropout. The caller sets `in` and attention.heads; all other
 * widths follow from them. */
QKV_API struct qkv_attention_module_spec qkv_attention_module_spec_defaults(void);
/* Makes an attention, or a cross attention, with new weights: normal with standard deviation 1/sqrt(columns), biases
 * zero. An impossible spec is QKV_SPEC, with a sentence that names the field. *out is the caller's, freed with
 * qkv_module_free. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_module_create_attention(struct qkv_context *ctx,
                                                    const struct qkv_attention_module_spec *spec, uint64_t seed,
                                                    struct qkv_module **out);
/* The spec of an attention or a cross attention, however it was made, with all defaults filled in; NULL for another
 * kind. Owned by the module. */
QKV_API const struct qkv_attention_module_spec *qkv_module_attention_spec(const struct qkv_module *module);
/* Gives the part of a model whose parameter names begin with `name` and a dot: "" (the whole model), "encoder",
 * "decoder.layers.0", "decoder.layers.0.attn", ".cross", ".ffn", ".attn_norm", ".cross_norm", ".ffn_norm",
 * ".attn_out_norm", ".cross_out_norm", ".ffn_out_norm", "encoder.norm". Weights and gradients are the model's; the
 * model must outlive the module. A part that the model does not have, and a planned model, are QKV_ARGUMENT. *out is
 * the caller's, freed with qkv_module_free. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_of_model(struct qkv_model *model, const char *name, struct qkv_module **out);
/* Frees a module. Its caches may still exist, and are then freed one by one. NULL is allowed. */
QKV_API void qkv_module_free(struct qkv_module *module);
/* The kind of a module; for a part of a model, the kind that its name means. */
QKV_API enum qkv_module_kind qkv_module_kind(const struct qkv_module *module);

/* The parameters of a module: their number; the name ("attn.q.weight" of a block, "q.weight" of an attention, "weight"
 * of a norm), shape and type of the i-th; NULL past the last. The arrays belong to the module. A new attention or block
 * with learned positions also has the weights of these, which in a model belong to the stack or, with per_layer, to the
 * layer: "position.buckets.weight" (buckets,H), "position.relative.weight" (2·max_distance + 1,H) or
 * "position.slopes.weight" (1,H). */
QKV_API size_t qkv_module_parameters(const struct qkv_module *module);
QKV_API const struct qkv_array *qkv_module_parameter(const struct qkv_module *module, size_t i);
/* Copies the numbers of the i-th parameter, or its gradient, out or in, as qkv_model_get_weights and the calls after it
 * do: `count` floats, qkv_array_elements of the parameter. A parameter has a gradient after the first forward with
 * train. Fails with QKV_ARGUMENT, QKV_SHAPE, QKV_FILE. */
QKV_API enum qkv_status qkv_module_get_weights(const struct qkv_module *module, size_t i, float *weights, size_t count);
QKV_API enum qkv_status qkv_module_set_weights(struct qkv_module *module, size_t i, const float *weights, size_t count);
QKV_API enum qkv_status qkv_module_get_gradient(const struct qkv_module *module, size_t i, float *gradient,
                                                size_t count);
QKV_API enum qkv_status qkv_module_set_gradient(struct qkv_module *module, size_t i, const float *gradient,
                                                size_t count);
/* Sets all gradients to zero. */
QKV_API void qkv_module_clear_gradients(struct qkv_module *module);

/* A packed float tensor (B,T,C). */
struct qkv_vectors {
    float *data;
    size_t B, T, C;
};
QKV_API struct qkv_vectors qkv_vectors_defaults(void); /* no tensor */
/* The mask of an attention. A query attends to the keys that all of this and the spec's causal and window allow
 * (qkv/attention.h). mask.B, Tq and Tk may stay 0; in self attention mask.offset and offsets must stay 0 and NULL: the
 * queries come after the positions in the cache. Rows of x (self) or of memory and values (cross) before starts, and at
 * or past lengths, are padding and may hold anything: a padding row that is not finite is read as zeros. A struct of
 * zeros allows all keys. */
struct qkv_module_mask {
    struct qkv_mask mask;
    const uint8_t *dense; /* only keys where this is not 0 (true = attend); NULL: all */
    struct qkv_pair_shape dense_shape;
    const float *bias; /* added to the scores of every layer; −inf masks the key; NULL: none */
    struct qkv_pair_shape bias_shape;
    /* gradient of the bias, summed over all layers, in its strides; backward adds to it; it needs train; NULL: not
     * wanted */
    float *dbias;
};
/* all keys that the spec allows; no bias */
QKV_API struct qkv_module_mask qkv_module_mask_defaults(void);
/* A cache for computing step by step: keys and values of B sequences. Self attention appends those of every forward
 * call with the cache; cross attention stores those of the latest memory, and later calls leave `memory` out. A module
 * of attention, a block or a stack can have caches; whole models have sessions and decoders. */
struct qkv_module_cache;
/* Makes a cache for up to T positions of x, and memory_T of the memory; each is 0 where the module has no self
 * attention, or no cross attention. *out is the caller's, freed with qkv_module_cache_free; it may be freed after its
 * module. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_cache_create(struct qkv_module *module, size_t B, size_t T, size_t memory_T,
                                                struct qkv_module_cache **out);
/* Frees a cache. NULL is allowed. */
QKV_API void qkv_module_cache_free(struct qkv_module_cache *cache);
/* Positions of x that the cache holds; without self attention, positions of the memory. */
QKV_API size_t qkv_module_cache_length(const struct qkv_module_cache *cache);
/* Forgets all such positions at and past `length`. */
QKV_API void qkv_module_cache_truncate(struct qkv_module_cache *cache, size_t length);

/* The input of a module; calls do not write it. All numbers but those of padding must be finite. Fields that a kind
 * does not use must be zero. Weights that a folder stores in bf16 or f16 are used as they are; a forward with train or
 * with `values` first converts them to fp32. */
struct qkv_module_input {
    /* (B,T,C). For a model: vectors that replace the scaled token embeddings; data is NULL if ids are given. */
    struct qkv_vectors x;
    const int32_t *ids; /* a model: (x.B,x.T), with x.data NULL and x.C 0 */
    /* A model whose embedding has types (embed.types): the type of each token, in the shape of ids and source; NULL:
     * all 0. */
    const int32_t *types, *source_types;
    /* (B,Tk,C), C is the module's key width: the memory that cross attention attends to. For a model with both stacks:
     * vectors that replace the scaled token embeddings of the source; data is NULL if source is given. */
    struct qkv_vectors memory;
    const int32_t *source; /* a model with both stacks: (memory.B,memory.T), with memory.data NULL and memory.C 0 */
    /* cross attention: (B,Tk,C), C is the module's value width: the input of the value projection, if it is not the
     * memory */
    struct qkv_vectors values;
    /* NULL: none. The positions of x then come after those in the cache, `memory` may be left out once the cache has
     * one, and there is no backward. */
    struct qkv_module_cache *cache;
    struct qkv_module_mask self, cross; /* masks of the self attention of x, and of cross attention */
    struct qkv_module_mask source_self; /* a model with both stacks: mask of its encoder */
    /* Experimental: the sequence length that the rotations of x, and of a model's source, use where position.scaling
     * depends on one (kinds dynamic and longrope), at most the context. All calls with one cache need the same. 0: each
     * row's own, mask.lengths of its self attention or all positions; with a cache, the capacity of the cache. */
    size_t length, source_length;
    bool train;    /* saves the numbers that backward needs and turns dropout on */
    uint64_t seed; /* determines the dropout masks */
};
QKV_API struct qkv_module_input qkv_module_input_defaults(void); /* no input; without train */
/* Computes y (B,T,C); for an attention (B,T,out); for a model (B,T,vocab), (B,1,classes), or without a head (B,T,C). A
 * batch without rows or positions is allowed: y is then empty, backward adds nothing, and gradients of inputs are 0.
 * Cross attention may have a memory (B,0,C): each row of y is then the bias of the output projection. y may overlap no
 * other array. The module owns its working memory, which grows to the size of the largest call. The numbers are those
 * of a pass (qkv/pass.h) over the same input. Shapes that do not agree are QKV_SHAPE; the sentence names both. Fails
 * with QKV_SHAPE, QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_forward(struct qkv_module *module, const struct qkv_module_input *input,
                                           struct qkv_vectors y);
/* Gradients of inputs, written in the shapes of the inputs; data NULL: not wanted. A model with ids has no gradients of
 * inputs. */
struct qkv_module_gradients {
    struct qkv_vectors x, memory, values;
};
QKV_API struct qkv_module_gradients qkv_module_gradients_defaults(void); /* no gradient of an input is wanted */
/* Runs backward, once after each forward with train: adds to the gradients of the parameters (and dbias), and writes
 * those of the inputs (`gradients` NULL: none). They are the gradients of y alone; the losses of routers of experts
 * exist only in passes. The input of the forward call must still exist. Fails with QKV_SHAPE, QKV_ARGUMENT,
 * QKV_MEMORY. */
QKV_API enum qkv_status qkv_module_backward(struct qkv_module *module, struct qkv_vectors dy,
                                            const struct qkv_module_gradients *gradients);
/* Writes a stage of the latest forward call of an attention or a cross attention, as qkv_attention_weights does: out
 * (rows,keys), where the keys are those of the cache followed by the new ones. The cache, dense mask and bias of that
 * call must still exist. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_module_attention_weights(struct qkv_module *module, enum qkv_attention_stage stage,
                                                     size_t b, size_t h, size_t first, size_t rows, float *out);

#ifdef __cplusplus
}
#endif
#endif

#endif
