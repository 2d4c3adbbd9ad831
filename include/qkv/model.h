/* qkv/model.h: models: weights and costs; a part of qkv.h, which includes it. Stable.
 *
 * A model is a spec, its named weights and, if there is one, a tokenizer. A model folder holds config.json,
 * model.safetensors and tokenizer.json. */
#ifndef QKV_PUBLIC_MODEL_H
#define QKV_PUBLIC_MODEL_H

#include "qkv/spec.h"
#include "qkv/tensors.h"
#include "qkv/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_model;

/* Makes a model with new weights, drawn as spec->init says. By default matrices are normal with standard deviation
 * 0.02, biases zero and norm weights one. The matrices that end a residual branch are smaller by 1/sqrt(sublayers of
 * their stack), as in GPT-2: 2·layers, or 3·layers with cross attention. The same seed gives the same weights. Fails
 * with QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_create(struct qkv_context *ctx, const struct qkv_spec *spec, uint64_t seed,
                                         struct qkv_model **out);
/* Makes a planned model: names and shapes of the weights without memory for their numbers, so that a spec of any size
 * can be inspected. Fails with QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_plan(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out);
/* Reads a model: opens it (qkv_model_open) and fills it (qkv_model_fill). `folder` is a model folder, the folder of a
 * run, or a published folder (qkv/published.h). It may also be the path of a checkpoint in the folder of a run
 * ("run/checkpoint-250.safetensors"); the call then reads the model that the checkpoint holds.
 *
 * - The file must hold every tensor of the spec, with its shape, and no other tensor. The call also reads
 *   tokenizer.json if it exists.
 * - Matrices that are stored in f16 or bf16 (qkv_format_at) stay in the mapped file. The kernels convert their numbers
 *   to fp32 piece by piece, which gives the same bits as the same numbers stored in fp32. All other weights become
 *   fp32.
 * - If another program truncates the file while the model is in use, the next call fails with QKV_FILE; a call that is
 *   running at that moment gets SIGBUS. Files that qkv replaces cause neither.
 * - Weights that carry the digest of a spec different from config.json's are QKV_SPEC (docs/digests.md), unless the
 *   context has ignore_digest. Weights without a digest load.
 * - A model that needs more memory than is free is QKV_MEMORY, before its weights are read, unless the context has
 *   ignore_memory.
 *
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out);
/* Opens a model and gives its plan alone: the names, shapes and types that qkv_model_load would give, without numbers,
 * tokenizers and labels. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_plan_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out);

#ifdef QKV_EXPERIMENTAL
/* Experimental: an opened model. Opening reads the configuration and the headers of the files, each once, and takes no
 * memory of the model's size; what was read stays with it until the model is filled:
 *
 *     status = qkv_model_open(ctx, path, NULL, &opening);
 *     if (!status) status = qkv_opening_needs(opening, NULL, &needs);
 *     if (!status && needs.model + needs.session < limit) status = qkv_model_fill(opening, &model);
 *     qkv_opening_free(opening); */
struct qkv_opening;
/* Experimental: an adapter with a name, and its folder or GGUF file. */
struct qkv_named_adapter {
    const char *name, *folder;
};
/* Experimental: options of opening. A size that is none or too small is QKV_ARGUMENT, and so is a longer struct of a
 * newer version that asks for something unknown; so it is with all options that begin with their size. */
struct qkv_model_open_options {
    size_t size;        /* sizeof(struct qkv_model_open_options), set by qkv_model_open_defaults */
    bool ignore_memory; /* as the context's options of that name, for this model; either of the two is enough */
    bool ignore_digest;
    const enum qkv_precision *precision; /* of products, attention and usual caches; NULL: the context's */
    /* types of the cached keys and values of sessions and decoders, as qkv_model_set_cache has them: "q8_0",
     * "k=q8_0,v=bf16"; NULL: the usual ones of the precision. A type that does not hold the model's heads is
     * QKV_ARGUMENT. */
    const char *cache;
    /* Products read stored weights where the file has them, and make no packed copy: less memory and an earlier first
     * token, slower products, the same bits. Without it this is done only where there is no memory for the copy; see
     * qkv_model_mapped. */
    bool map;
    /* The folder or file of an adapter (qkv_adapter_load) that the model gets when it is filled; plans and checks of
     * memory count it. NULL: none. */
    const char *adapter;
    /* Adapters with names (qkv_adapter_add), in place of the one without, that the model gets in this order. */
    const struct qkv_named_adapter *adapters;
    size_t adapter_count;
};
/* Experimental: no choice: the context's options decide. */
QKV_API void qkv_model_open_options_init(struct qkv_model_open_options *options, size_t size);
static inline struct qkv_model_open_options qkv_model_open_defaults(void) {
    struct qkv_model_open_options options;
    qkv_model_open_options_init(&options, sizeof options);
    return options;
}
/* Experimental: gives the name and a one-line description of the i-th kind of place that models are opened from, in the
 * order in which a path is tried; false past the last. Any thread. */
QKV_API bool qkv_source_at(size_t i, const char **name, const char **help);
/* Experimental: opens the model at a path (as for qkv_model_load). `options` may be NULL. Free *out with
 * qkv_opening_free, before the context. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_open(struct qkv_context *ctx, const char *path,
                                       const struct qkv_model_open_options *options, struct qkv_opening **out);
/* Experimental: the kind of place that the model is opened from, a name of qkv_source_at. Static text. */
QKV_API const char *qkv_opening_source(const struct qkv_opening *opening);
/* Experimental: the planned model, for qkv_model_spec, qkv_model_costs and other calls that take a plan; NULL once it
 * is filled. Owned by the opening. */
QKV_API struct qkv_model *qkv_opening_plan(const struct qkv_opening *opening);
/* Experimental: for what precision, cache and length needs are measured. */
struct qkv_needs_options {
    size_t size;                         /* sizeof(struct qkv_needs_options), set by qkv_needs_defaults */
    const enum qkv_precision *precision; /* NULL: that of the opening */
    const char *cache;                   /* types of the cached keys and values; NULL: those of the opening */
    size_t context;                      /* positions of a session; 0: the spec's context */
};
/* Experimental: the precision and the cache of the opening, and the spec's context. */
QKV_API void qkv_needs_options_init(struct qkv_needs_options *options, size_t size);
static inline struct qkv_needs_options qkv_needs_defaults(void) {
    struct qkv_needs_options options;
    qkv_needs_options_init(&options, sizeof options);
    return options;
}
/* Experimental: bytes that a model needs. */
struct qkv_needs {
    size_t model;   /* memory: weights, tables, and the copies that products and other orders of rows need */
    size_t session; /* memory: the cache and a step of one session; 0: the model is none that generates */
    size_t read;    /* read from the files when the model is filled */
    size_t mapped;  /* weights that stay in the mapped files */
};
/* Experimental: measures the needs by plans; nothing is taken, and the context is as before. `options` may be NULL. A
 * type that a cache cannot have, and an opening that has been filled, are QKV_ARGUMENT. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_opening_needs(struct qkv_opening *opening, const struct qkv_needs_options *options,
                                          struct qkv_needs *needs);
/* Experimental: fails as filling would if a tensor is missing, superfluous or of another shape, if digests differ, or
 * if there is not enough memory. Takes nothing. Texts of the folder are not read. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_opening_check(struct qkv_opening *opening);
/* Experimental: checks an opened model as qkv_opening_check does, takes its memory, and reads its weights, tokenizers
 * and labels. The plan becomes the model, which is the caller's; the opening can then only be freed, also after a
 * failure of reading. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_fill(struct qkv_opening *opening, struct qkv_model **out);
/* Experimental: whether products read stored weights where the file has them (option map), of which they would else
 * make a packed copy. Any thread. */
QKV_API bool qkv_model_mapped(const struct qkv_model *model);
/* Experimental: frees an opening, and its plan if it was not filled. NULL is allowed. */
QKV_API void qkv_opening_free(struct qkv_opening *opening);
#endif
/* Gives the name and a one-line description of the i-th number format that weights can be stored in; false past the
 * last. Any thread. */
QKV_API bool qkv_format_at(size_t i, const char **name, const char **help);
/* Reads the precision that the run in `folder` recorded in train.json. The path of a checkpoint means its folder. A
 * folder without a record gives QKV_FP32: a model that qkv did not train, or a run from before the option existed. A
 * damaged record is QKV_FORMAT, one that cannot be read QKV_FILE. To evaluate with the numbers of the training, set the
 * precision before the model is made:
 *
 *     status = qkv_model_precision(ctx, folder, &precision);
 *     if (!status) qkv_context_set_precision(ctx, precision);
 *     if (!status) status = qkv_model_load(ctx, folder, &model);
 *
 * Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_model_precision(struct qkv_context *ctx, const char *folder, enum qkv_precision *precision);
/* Writes a model folder. The new folder is written next to an existing one and then takes its place as a whole; files
 * of the old folder that the model does not write are carried over. An existing folder that cannot be moved (the
 * current folder, a mount point, a parent without write permission) must be empty. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_save(struct qkv_model *model, const char *folder);
/* Writes a model folder as qkv_model_save does, with all matrices rounded to nearest in the number format `format`
 * (qkv_format_at); biases and norms keep their type. An unknown format or a planned model is QKV_ARGUMENT; a number too
 * large for the format is QKV_NUMBER; a folder that contains files of another model or run, which readers would take
 * for part of this model, is QKV_FILE. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC, QKV_NUMBER. */
QKV_API enum qkv_status qkv_model_export(struct qkv_model *model, const char *format, const char *folder);
/* Frees a model. Free its passes, sessions and optimizers before it; calls with those that are left are QKV_ARGUMENT,
 * and its memory is free once they are. NULL is allowed. */
QKV_API void qkv_model_free(struct qkv_model *model);
/* Gives another context the same model, without a copy of weights, their packed forms, tables and tokenizers, so that
 * several threads use it at once, each with a context and a share of its own:
 *
 *     status = qkv_context_create(&own, &options);
 *     if (!status) status = qkv_model_share(model, own, &share);
 *     if (!status) status = qkv_session_create(share, NULL, &session);
 *     if (!status) status = qkv_session_append(session, ids, count);
 *     qkv_session_free(session);
 *
 * - A share is used and freed as any model (qkv_model_free), in any order: what is shared is freed with the last one.
 * - While there is a share, all of them are read-only: setting weights, tokenizers, labels, and training are
 *   QKV_ARGUMENT.
 * - A model that is planned, or that an optimizer, a trainer or a training pass uses, cannot be shared: QKV_ARGUMENT.
 * - Contexts must have the same kernels (option isa), else QKV_ARGUMENT. Their precision does not matter: a model keeps
 *   that which it was made in. Results are those of the model alone, bit for bit.
 * - The first share drops the model's gradients, and is made while the model's own context is idle; further ones at any
 *   time. Any thread that the new context serves, also several at once.
 *
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_model_share(struct qkv_model *model, struct qkv_context *ctx, struct qkv_model **out);
/* The precision of the model: the context's when it was made, or that of qkv_model_open_options. */
QKV_API enum qkv_precision qkv_model_own_precision(const struct qkv_model *model);
#ifdef QKV_EXPERIMENTAL
/* Experimental: gives the name and a one-line description of the i-th type in which a cache stores keys or values:
 * "f32", "bf16_packed", "bf16", "f16", "q8_0"; false past the last. Any thread. */
QKV_API bool qkv_cache_type_at(size_t i, const char **name, const char **help);
/* Experimental: checks a choice of such types without a model: the name of one type, or "k=NAME", "v=NAME" or
 * "k=NAME,v=NAME" for keys and values apart. NULL is one, too. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_cache_check(struct qkv_context *ctx, const char *cache);
/* Experimental: chooses the types in which the caches of sessions, decoders and encoded sources that are made from now
 * on store keys and values; a side that the choice does not name has the usual type of the model's precision. NULL: the
 * usual types. A planned model can have a choice, too, for its costs. Attention computes with the numbers that the
 * cache has, also those of the tokens that are appended at that time: all ways of appending the same tokens have the
 * same bits. q8_0 has blocks of 32 channels, which must divide the channels of a head. Types that do not hold the heads
 * of a layer are QKV_ARGUMENT, and the choice stays as it was. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_model_set_cache(struct qkv_model *model, const char *cache);
/* Experimental: the bytes of the cache of one sequence of `context` positions, at most the spec's, in types as
 * qkv_model_set_cache has them (NULL: those of the model): its pages, without those of the source of an
 * encoder-decoder. The model may be a plan. Types that do not hold the heads of a layer, and a model without a decoder,
 * are QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_model_cache_bytes(struct qkv_model *model, const char *cache, size_t context,
                                              size_t *bytes);
#endif
/* The context that the model was made with. */
QKV_API struct qkv_context *qkv_model_context(const struct qkv_model *model);
/* The spec, with every default filled in. Owned by the model. */
QKV_API const struct qkv_spec *qkv_model_spec(const struct qkv_model *model);
/* The tokenizer; NULL if there is none. Owned by the model. */
QKV_API const struct qkv_tokenizer *qkv_model_tokenizer(const struct qkv_model *model);
/* Gives the model a tokenizer, which the model owns from then on, also if the call fails. A tokenizer with more tokens
 * than the spec's vocabulary is QKV_SPEC. Fails with QKV_SPEC. */
QKV_API enum qkv_status qkv_model_set_tokenizer(struct qkv_model *model, struct qkv_tokenizer *tokenizer);

/* The named tensors in the order of the file, in the type that they are stored in. `data` is for writing them to a file
 * as they are; a program reads and changes numbers by the calls below. It is NULL in a planned model and for weights
 * that several ranks have divided among them. Owned by the model. */
QKV_API size_t qkv_model_parameters(const struct qkv_model *model);
QKV_API const struct qkv_array *qkv_model_parameter(const struct qkv_model *model, size_t i);
/* Copies the numbers of the i-th tensor into `weights`, which has room for `count` floats: qkv_array_elements of the
 * tensor, or QKV_SHAPE. Numbers that are stored in another type (bf16, f16, blocks) are converted to fp32. A tensor
 * that does not exist, a planned model, and weights that ranks which train in mixed precision have divided among them
 * (qkv_trainer_model) are QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_SHAPE, QKV_FILE. */
QKV_API enum qkv_status qkv_model_get_weights(const struct qkv_model *model, size_t i, float *weights, size_t count);
/* Copies `count` floats into the i-th tensor, as qkv_model_get_weights copies them out. Passes, sessions and modules
 * use the new numbers in their next call. A tensor that stays in its mapped file (of a folder with other types) is
 * QKV_ARGUMENT; qkv_optimizer_create first converts all weights to fp32. Fails with QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_set_weights(struct qkv_model *model, size_t i, const float *weights, size_t count);
/* Copies the gradient of the i-th tensor, in its shape, out or in: `count` floats. A weight without a gradient is
 * QKV_ARGUMENT: before the first training pass was made, and if the weight is frozen. Fails with QKV_ARGUMENT,
 * QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_get_gradient(const struct qkv_model *model, size_t i, float *gradient, size_t count);
QKV_API enum qkv_status qkv_model_set_gradient(struct qkv_model *model, size_t i, const float *gradient, size_t count);
/* Whether the i-th weight is trained. All weights are trained at first. A frozen weight gets no gradient, backward
 * stops where no earlier weight is trained, and an optimizer neither updates it nor applies weight decay to it. */
QKV_API bool qkv_model_trainable(const struct qkv_model *model, size_t i);
/* Freezes the i-th weight (trainable false) or trains it again. The weights of queries, keys and values may differ. A
 * change discards all gradients; the next forward of a training pass makes them again, as zeros. So do not call this
 * function between a forward and its backward, nor between a backward and the optimizer step that uses its gradients.
 * An i past the last is QKV_ARGUMENT. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_model_set_trainable(struct qkv_model *model, size_t i, bool trainable);
/* Freezes or trains all weights whose names match a pattern: * stands for any characters, dots included, and ? for one
 * character, as in "decoder.layers.0.*". *count (count may be NULL) gets the number of matches. A pattern without a
 * match is QKV_ARGUMENT, with a sentence that lists some names. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_model_set_trainable_all(struct qkv_model *model, const char *pattern, bool trainable,
                                                    size_t *count);
#ifdef QKV_EXPERIMENTAL
/* Experimental: multiplies the learning rate of all weights whose names match a pattern (as above) by `rate`, in every
 * later step of an optimizer. The factor is 1 at first; weight decay is multiplied as well. `rate` must be greater than
 * 0 and at most 1e6. *count (count may be NULL) gets the number of matches. A pattern without a match is QKV_ARGUMENT.
 * Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_model_set_rate_all(struct qkv_model *model, const char *pattern, double rate,
                                               size_t *count);
#endif
/* Sets all gradients to zero. */
QKV_API void qkv_model_clear_gradients(struct qkv_model *model);
/* The norm of all gradients together: the square root of the sum of their squares; NaN if the backend cannot compute
 * it. */
QKV_API double qkv_model_gradient_norm(struct qkv_model *model);

#ifdef QKV_EXPERIMENTAL
/* Experimental: the costs of a spec, measured by dry runs that allocate nothing of the model's size. Bytes are exactly
 * those of the arrays of numbers, in the context's precision and with its threads. They do not include names, the nodes
 * of a pass and the ids of batches. */
struct qkv_costs {
    size_t parameters;        /* numbers in all weights; tied weights count once */
    size_t active_parameters; /* parameters without those of the experts that a token does not use */
    size_t parameter_bytes;   /* as stored: fp32, or the types in the file of a model folder */
    size_t packed_bytes;      /* copies of weights that products read: in bf16 precision, and of quantised ones */
    size_t train_bytes;       /* weights, gradients, two moments, one step of batch × context, and its evaluation */
    size_t checkpoint_bytes;  /* train_bytes with activations checkpointed (pass option checkpoint) */
    size_t run_bytes;         /* weights and these copies, a full cache and one step, for one sequence */
    /* the weights that decoding one token reads (0 without a decoder). Counted are the experts that the token uses and
     * one row of each embedding table; not counted are the encoder and the projections that make keys and values from
     * its output. Where there are copies, they are counted. */
    size_t decode_bytes;
    size_t cache_bytes_per_token; /* keys and values of all layers, in the types of the model's cache */
    size_t page_positions;        /* positions of one page of the cache */
    size_t page_bytes;            /* bytes of one page of the cache */
    size_t pages;                 /* pages that hold one sequence of `context` positions */
    double forward_flops;         /* FLOPs of one token at full context; a multiply and an add count as two */
    double train_flops;           /* FLOPs of one token, forward and backward */
    double checkpoint_flops;      /* train_flops with activations checkpointed: the blocks run forward once more */
};
/* Experimental: measures the costs of a model of the spec for `batch` sequences of `context` positions, which must not
 * exceed the spec's context. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_measure_costs(struct qkv_context *ctx, const struct qkv_spec *spec, size_t batch,
                                          size_t context, struct qkv_costs *costs);
/* Experimental: measures the costs of a planned model, for example one of qkv_model_plan_load. Training is measured
 * with fp32 weights, because training converts the others. A model that is not planned is QKV_ARGUMENT. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_costs(struct qkv_model *plan, size_t batch, size_t context, struct qkv_costs *costs);
#endif

#ifdef __cplusplus
}
#endif

#endif
