/* qkv/adapter.h: adapters (LoRA, Hu et al. 2021); a part of qkv.h, which includes it. Experimental.
 *
 * An adapter adds scale·(x·Aᵀ)·Bᵀ to the product x·Wᵀ of each weight W that it adapts: A (rank, in) is drawn at random,
 * B (out, rank) begins at zero. The model's own weights are frozen and stay in the type that their file has. While a
 * model has an adapter, qkv_model_parameter and similar functions, optimizers and checkpoints have the weights of
 * the adapter, "decoder.layers.0.attn.q.lora_A.weight", and the model can run and be trained, but not be saved,
 * exported or quantised. Files are those of PEFT: adapter_config.json and adapter_model.safetensors, whose names are
 * those of the model's family; for a model of no family they are those of qkv. GGUF files of adapters are read and
 * written too.
 *
 * In place of one adapter, a model may have several with names. Each row of a pass then has one of them or none: all
 * rows that of qkv_adapter_use, and in an engine, each request its own. A row has the bits that it has if its adapter
 * is the model's only one. Adapters with names are not trained, merged or saved. */
#ifndef QKV_PUBLIC_ADAPTER_H
#define QKV_PUBLIC_ADAPTER_H

#include "qkv/model.h"

#ifdef QKV_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif

/* Gives a model a new adapter. `settings` are separated by commas, in any order:
 *   rank=N           columns of B (default 16)
 *   alpha=X          the scale is alpha/rank (default 2·rank)
 *   rslora=true      the scale is alpha/sqrt(rank) (Kalajdzievski 2023)
 *   dropout=P        of the x that adapters read, in training (default 0)
 *   dora=true        the adapter also learns a magnitude m for each row of W (DoRA, Liu et al. 2024): the row of the
 *                    sum of W and scale·B·A is divided by its length, which has no gradient, and multiplied by its m
 *                    (default false)
 *   targets=NAME,…   the weights: by the last parts of their names, here or in the model's family ("q", "attn.q",
 *                    "q_proj"); all-linear: all matrices of attention and feed-forward layers (default)
 * If one matrix of the model's family holds several weights, such as q, k and v, they have one adapter together, and
 * all of them must be targets; so must all experts of a layer if they are one tensor there. Embeddings and heads have
 * no adapters, and experts none with dora. A is drawn as torch draws new linear layers, from `seed`. The model must
 * have no adapter, no shares, and nothing that uses it: passes, sessions, optimizers. A planned model gets a planned
 * adapter, for qkv_model_costs and other calls that take a plan. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_adapter_create(struct qkv_model *model, const char *settings, uint64_t seed);
/* Reads an adapter from a folder of qkv or PEFT, or from a GGUF file (NAME.gguf) of the model's architecture, and
 * gives it to the model, as qkv_adapter_create does. Adapters that compute something else (biases, whole modules) or
 * have other shapes, and those that qkv saved for another base, are refused: QKV_SPEC, QKV_SHAPE. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC, QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_adapter_load(struct qkv_model *model, const char *path);
/* Reads an adapter as qkv_adapter_load does, and gives it to the model with a name: 1 to 256 bytes in UTF-8 without
 * control characters, "/" and "=", which no other adapter of the model has. The model must have no adapter without a
 * name, no shares, and nothing that uses it. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC,
 * QKV_SHAPE, QKV_NUMBER. */
QKV_API enum qkv_status qkv_adapter_add(struct qkv_model *model, const char *name, const char *path);
/* The name of the i-th of these adapters, in the order in which they were added; NULL past the last. The model's. */
QKV_API const char *qkv_adapter_name(const struct qkv_model *model, size_t i);
/* Passes, sessions, decoders and engines that begin from now on have the adapter of that name in all rows; NULL or "":
 * none, as at first. A share of a model chooses for itself, and begins with the choice of the model. The model must
 * have nothing that uses it. An unknown name is QKV_ARGUMENT, and the sentence lists the names. Fails with
 * QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_adapter_use(struct qkv_model *model, const char *name);
/* Writes the model's adapter to a folder, which is made if it does not exist; an adapter there is replaced. base: where
 * the model is from, for adapter_config.json; NULL: as the adapter's files said, if it was loaded. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC, QKV_NUMBER. */
QKV_API enum qkv_status qkv_adapter_save(struct qkv_model *model, const char *base, const char *folder);
/* Writes the model's adapter as a GGUF file for --lora of llama.cpp, with the names and the order of rows that a GGUF
 * file of the model has. family: as in qkv_gguf_options; format: "f32", "f16" or "bf16". *notes, where notes is not
 * NULL, gets sentences and the architecture, as qkv_model_export_gguf does. GGUF files have no magnitudes: QKV_SPEC.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC, QKV_NUMBER. */
struct qkv_gguf_notes;
QKV_API enum qkv_status qkv_adapter_export_gguf(struct qkv_model *model, const char *family, const char *format,
                                                const char *path, struct qkv_gguf_notes **notes);
/* Adds the adapter to the model's weights, and removes it. Adapted matrices become fp32; what is then saved or exported
 * chooses their type again. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_adapter_merge(struct qkv_model *model);
/* What the latest export of the model cost the matrices that an adapter was merged into: it rounded them from fp32 to
 * its type. Returns how many there are; 0: none, or they were written in f32, or the export failed. Of a matrix, the
 * error is the length (Frobenius norm) of what rounding changed, and the change that of what the adapter changed, both
 * divided by the length of the exact sum. Pointers may be NULL: the mean of the errors, the largest error and the name
 * of its matrix, which is the model's, and the mean of the changes; 0 and NULL where the result is 0. */
QKV_API size_t qkv_adapter_merge_cost(const struct qkv_model *model, double *error, double *worst, const char **name,
                                      double *change);
/* Removes the adapter: the model is as it was before. Adapters with names stay. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_adapter_remove(struct qkv_model *model);

#ifdef __cplusplus
}
#endif
#endif

#endif
