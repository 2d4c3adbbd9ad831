/* pooling: how a folder makes vectors of texts, in the files of sentence-transformers: modules.json, 1_Pooling/config.json and
 * sentence_bert_config.json. */
#ifndef QKV_POOLING_H
#define QKV_POOLING_H

#include "model/model.h"

/* Reads modules.json of a folder, where there is one; `model` is the folder of the model itself, which may be one in it. What does not fit
 * is refused by key. */
enum qkv_status qkv_pooling_read(struct qkv_context *ctx, const char *folder, const char *model,
                                 const struct qkv_spec *spec, struct qkv_model_pooling *pooling);
/* The folder in it that modules.json names as the model's, "0_Transformer": a heap text, NULL where it is the folder itself. */
enum qkv_status qkv_pooling_model(struct qkv_context *ctx, const char *folder, char **model);
/* Writes all of it, where something was said. */
enum qkv_status qkv_pooling_write(struct qkv_context *ctx, const struct qkv_model_pooling *pooling,
                                  const struct qkv_spec *spec, const char *folder);

#endif
