/* qkv/model.h: models: weights and what they cost; a part of qkv.h, which includes it. Stable.
 *
 * A model is a spec, its named weights in fp32 and, where known, a tokenizer. A model folder holds config.json,
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

/* New weights, drawn as spec->init says. By default N(0, 0.02) for matrices, those that end a residual branch smaller by
 * 1/sqrt(2·layers) (GPT-2; 3·layers beside an encoder); zero biases, norm weights one. Fails with QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_create(struct qkv_context *ctx, const struct qkv_spec *spec, uint64_t seed,
                                         struct qkv_model **out);
/* Names and shapes only, no memory for weights: for looking at a spec of any size. Fails with QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_plan(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out);
/* Reads a model folder, or with the path of a checkpoint in the folder of a run the model that it holds
 * ("run/checkpoint-250.safetensors"). Matrices that its file has in f16 or bf16 (qkv_format_at) stay there: the file is
 * mapped, and what needs their numbers converts them piece by piece, with the bits that the same numbers in fp32 give; all else
 * becomes fp32. A file that somebody makes shorter while the model is in use is QKV_FILE in the next call (in one that
 * runs at that moment, SIGBUS); files replaced as qkv replaces them do no harm. Every tensor of the spec must be there,
 * with its shape, and none besides. The tokenizer is read if there is one. Weights that carry the digest of another spec
 * than that of config.json are QKV_SPEC (docs/digests.md), unless the context has ignore_digest; weights without a digest
 * load. More memory than there is: QKV_MEMORY, before the weights are read, unless it has ignore_memory. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out);
/* What qkv_model_load would make, planned: names, shapes and types, without numbers, tokenizers and
 * labels. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_plan_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out);
/* Name and one-line description of the i-th number format that weights can be stored in; false past the last. */
QKV_API bool qkv_format_at(size_t i, const char **name, const char **help);
/* The precision that the run in `folder` records (train.json); the path of a checkpoint stands for its folder. QKV_FP32 where there
 * is no record: a model from elsewhere, or of a run older than the option. QKV_FORMAT when the record is damaged, QKV_FILE when it cannot be read, QKV_MEMORY. Set it before
 * the model is made and evaluations give the numbers of the training:
 *     status = qkv_model_precision(ctx, folder, &precision);
 *     if (!status) qkv_context_set_precision(ctx, precision);
 *     if (!status) status = qkv_model_load(ctx, folder, &model);
 * Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_model_precision(struct qkv_context *ctx, const char *folder, enum qkv_precision *precision);
/* Writes a model folder, beside an old one, which it replaces as a whole; files of other names go along, and an old
 * folder that cannot be moved must be empty. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC. */
QKV_API enum qkv_status qkv_model_save(struct qkv_model *model, const char *folder);
/* The same with all matrices in the number format of that name (qkv_format_at), rounded to nearest; biases and norms stay
 * as they are. No such format, and a planned model: QKV_ARGUMENT; numbers that are too large for it: QKV_NUMBER; a
 * folder with files of another model, or of a run, that would be taken for this one's: QKV_FILE. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FILE, QKV_SPEC, QKV_NUMBER. */
QKV_API enum qkv_status qkv_model_export(struct qkv_model *model, const char *format, const char *folder);
/* Frees a model, after its passes, sessions and optimizers. NULL is fine. */
QKV_API void qkv_model_free(struct qkv_model *model);
/* The context that the model was made with. */
QKV_API struct qkv_context *qkv_model_context(const struct qkv_model *model);
/* The spec, with every default filled in. Owned by the model. */
QKV_API const struct qkv_spec *qkv_model_spec(const struct qkv_model *model);
/* NULL if there is none. Owned by the model. */
QKV_API const struct qkv_tokenizer *qkv_model_tokenizer(const struct qkv_model *model);
/* The model owns the tokenizer from now on (also on failure: it may have no more tokens than the spec's vocabulary).
 * Fails with QKV_SPEC. */
QKV_API enum qkv_status qkv_model_set_tokenizer(struct qkv_model *model, struct qkv_tokenizer *tokenizer);

/* The named tensors, in the order of the file, as they are stored. data is NULL in a planned model and of weights that
 * ranks have divided. */
QKV_API size_t qkv_model_parameters(const struct qkv_model *model);
QKV_API const struct qkv_array *qkv_model_parameter(const struct qkv_model *model, size_t i);
/* The numbers of the i-th, with its shape; NULL in a planned model, past the last, where they are stored in another type than
 * fp32 (qkv_array_floats reads any; qkv_optimizer_create makes all fp32), and where ranks that train in mixed precision have divided
 * them (qkv_trainer_model). Owned by the model. */
QKV_API const float *qkv_model_weights(const struct qkv_model *model, size_t i);
/* The same to write to. In mixed precision a copy of the weights is multiplied, made anew after this call: call it again after
 * writing later. */
QKV_API float *qkv_model_weights_mutable(struct qkv_model *model, size_t i);
/* Its gradient, with its shape; NULL before the first training pass was made and where the weight is frozen, too. */
QKV_API float *qkv_model_gradient(struct qkv_model *model, size_t i);
/* Whether the i-th learns, as all do at first; else it is frozen: backward asks for no gradient of it, and goes no further back
 * than weights that learn need, and an optimizer neither moves it nor lets it decay. */
QKV_API bool qkv_model_trainable(const struct qkv_model *model, size_t i);
/* Freezes the i-th, or lets it learn again. Weights that are used together (queries, keys and values) may differ. A change takes
 * away all gradients, which the next forward of a training pass makes anew, as zeros: ask for qkv_model_gradient again, and call it
 * neither between a forward and its backward nor before the step for them. Past the last: QKV_ARGUMENT. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_model_set_trainable(struct qkv_model *model, size_t i, bool trainable);
/* The same for all whose names match a pattern: * stands for any characters, dots too, ? for one, "decoder.layers.0.*". *count (may
 * be NULL): how many match. QKV_ARGUMENT for a pattern that none matches; the sentence names some names. Fails with
 * QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_model_set_trainable_all(struct qkv_model *model, const char *pattern, bool trainable,
                                                    size_t *count);
/* All whose names match a pattern, as above, learn from now on with so many times the rate of an optimizer's step (1 at first), which
 * its decay is under too. It must be greater than 0 and at most 1e6. *count (may be NULL): how many match. QKV_ARGUMENT for a pattern
 * that none matches. Experimental. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_model_set_rate_all(struct qkv_model *model, const char *pattern, double rate,
                                               size_t *count);
/* Sets all gradients to zero. */
QKV_API void qkv_model_clear_gradients(struct qkv_model *model);
/* sqrt of the sum of squares of all gradients. */
QKV_API double qkv_model_gradient_norm(struct qkv_model *model);

/* Experimental: what a spec costs, measured by dry runs, nothing of that size is allocated. Bytes are those that
 * numbers lie in, exactly, in the context's precision and with its threads; names, the nodes of a pass and the ids of
 * batches are beside them. */
struct qkv_costs {
    size_t parameters;        /* numbers, tied ones once */
    size_t active_parameters; /* without those of the experts that a token does not go through */
    size_t parameter_bytes;   /* as they are stored: fp32, or the types of a model folder's file */
    size_t packed_bytes;      /* of their copy in bf16 that products read, in mixed precision; else 0 */
    size_t train_bytes;       /* weights, gradients, two moments, one step of batch × context and its evaluation */
    size_t checkpoint_bytes;  /* the same with activations checkpointed (pass option checkpoint) */
    size_t run_bytes;         /* weights and their copy, a full cache and one step, for one sequence */
    /* Of the weights that decoding a token reads, with a decoder: those of its experts, one row of tables of vectors, none of an encoder,
     * nor those that make keys and values of its memory; in mixed precision the copies */
    size_t decode_bytes;
    size_t cache_bytes_per_token; /* keys and values of all layers, fp32, or bf16 in mixed precision */
    size_t page_positions;        /* the cache lies in pages: positions of one, */
    size_t page_bytes;            /* its bytes, */
    size_t pages;                 /* and how many hold one sequence of `context` positions */
    double forward_flops;         /* a token of a full context, multiply and add counted as two */
    double train_flops;           /* the same, forward and backward */
    double checkpoint_flops;      /* the same with activations checkpointed: the blocks run forward once more */
};
/* Experimental: measures what a model of the spec costs, for `batch` sequences of `context` positions, which may not
 * exceed those of the spec. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC, QKV_SHAPE. */
QKV_API enum qkv_status qkv_measure_costs(struct qkv_context *ctx, const struct qkv_spec *spec, size_t batch,
                                          size_t context, struct qkv_costs *costs);
/* Experimental: the same of a planned model, such as one of qkv_model_plan_load. Training is measured with weights in
 * fp32, which it makes of others. A model that is not planned: QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC,
 * QKV_SHAPE. */
QKV_API enum qkv_status qkv_model_costs(struct qkv_model *plan, size_t batch, size_t context, struct qkv_costs *costs);
/* Experimental: the fp32 peak of this context's threads in FLOP/s, measured by fused multiply-adds in registers (about
 * 30 ms). */
QKV_API double qkv_measure_flops(struct qkv_context *ctx);

#ifdef __cplusplus
}
#endif

#endif
