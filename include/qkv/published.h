/* qkv/published.h: models that others have published, as Hugging Face folders: config.json of a family, weights in one
 * safetensors file or in several with an index; a part of qkv.h, which includes it. Experimental.
 *
 * qkv_model_load and all that goes through it read such folders as they read ours. What a family computes otherwise than a spec
 * can say is refused with the key of config.json that says so; nothing is approximated. Matrices in bf16 and f16 that stand there as a
 * model has them are mapped, and fused ones are cut where they lie; those stored in another order are copied in fp32. Dropout is a
 * matter of training and not taken over. Matrices in 8 bits with a scale for each block (DeepSeek V3) and experts in MXFP4 (gpt-oss) are
 * read as floats. Weights that are no parameters there, as the final_logits_bias of BART and the corrections of
 * DeepSeek V3, which balancing has moved, are frozen (qkv_model_set_trainable), and stay so in a run that begins with
 * the model. */
#ifndef QKV_PUBLIC_PUBLISHED_H
#define QKV_PUBLIC_PUBLISHED_H

#include "qkv/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model_type of the i-th known family ("gpt2"), several with commas, and the classes that are read; false past the last. */
QKV_API bool qkv_family_at(size_t i, const char **type, const char **classes);
/* The family that a model came from, "gpt2"; NULL: from none, as its folder was ours. */
QKV_API const char *qkv_model_family(const struct qkv_model *model);
/* Why a published model has no tokenizer though its folder has a tokenizer.json: a sentence; NULL where it has one, or there is no
 * file. Such a model works by ids. Owned by the model. */
QKV_API const char *qkv_model_tokenizer_problem(const struct qkv_model *model);
/* What is wrong in a published folder and changes nothing of what is read, as a total_size of its index that is not
 * that of the tensors: a sentence; NULL where nothing is. Owned by the model. */
QKV_API const char *qkv_model_warning(const struct qkv_model *model);
/* How the folder of a model makes vectors of texts, as sentence-transformers reads it from modules.json; false: it does not say. *most: the
 * most tokens of a text, of which the first are kept; 0: the context. Any thread. */
QKV_API bool qkv_model_pooling(const struct qkv_model *model, enum qkv_pool *pool, bool *normalize, size_t *most);
/* The i-th prompt of the model's folder (config_sentence_transformers.json), in the order of the file: a text that is put before each text
 * whose vector is made, and its name; false past the last. Both are owned by the model. Any thread. */
QKV_API bool qkv_model_prompt(const struct qkv_model *model, size_t i, const char **name, const char **text);
/* The name of the prompt that the folder has as the usual one (default_prompt_name); NULL: none. Owned by the model. Any thread. */
QKV_API const char *qkv_model_prompt_usual(const struct qkv_model *model);
/* The last hidden states. */
enum qkv_family_hidden { QKV_FAMILY_HIDDEN_LAST, QKV_FAMILY_HIDDEN_BEFORE_NORM, QKV_FAMILY_HIDDEN_NARROWED };
/* What a model's family calls so: what the head reads, or pools; before the final norm (ViT); behind the matrix that narrows
 * them for the head (OPT-350m). */
QKV_API enum qkv_family_hidden qkv_model_family_hidden(const struct qkv_model *model);

/* The spec of the model in a folder, ours or published, changed by settings (qkv_spec_parse). Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_folder_spec(struct qkv_context *ctx, const char *folder, const char *const *settings,
                                        size_t setting_count, struct qkv_spec *spec);
/* The tokenizer of a model's folder, which modules.json may name as one in it, or of a tokenizer.json: qkv_tokenizer_open says how it is
 * read. Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_folder_tokenizer(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out);
/* Whether a folder has weights, in one file or in several. Any thread. */
QKV_API bool qkv_folder_has_weights(const char *folder);

/* Writes the model as a published folder: config.json, model.safetensors and, where it is known, tokenizer.json, tokenizer_config.json
 * and generation_config.json, with all numbers in
 * the format of that name (qkv_format_at). The family is that of `type`; NULL: the one that the model came from, or the first
 * that has all of its spec. A model that none has is refused (QKV_SPEC) with what the nearest one has otherwise.
 * QKV_NUMBER, QKV_FILE, the folder: as qkv_model_export. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC,
 * QKV_NUMBER. */
QKV_API enum qkv_status qkv_model_export_published(struct qkv_model *model, const char *type, const char *format,
                                                   const char *folder);

/* Gradients, or with `gradients` false weights, under the names and in the shapes of the model's family; those of weights that are
 * frozen are not among them. A model of none: QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_SPEC. */
struct qkv_family_tensors;
QKV_API enum qkv_status qkv_model_family_tensors(struct qkv_model *model, bool gradients,
                                                 struct qkv_family_tensors **out);
/* The i-th; NULL past the last. Owned by `tensors`; weights show the model's numbers, gradients are copies. */
QKV_API const struct qkv_array *qkv_family_tensors_at(const struct qkv_family_tensors *tensors, size_t i);
/* NULL is fine. */
QKV_API void qkv_family_tensors_free(struct qkv_family_tensors *tensors);

#ifdef __cplusplus
}
#endif

#endif
