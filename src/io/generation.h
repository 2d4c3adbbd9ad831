/* generation: generation_config.json of a folder, and the special tokens that a folder names outside the tokenizer. */
#ifndef QKV_GENERATION_H
#define QKV_GENERATION_H

#include <jansson.h>

#include "model/model.h"

/* Reads generation_config.json, if there is one; then the published config.json (NULL: the folder is not a published
 * one), which has the end tokens if the former has none, and the tokens that targets begin with; without the former it
 * may have all its keys. */
enum qkv_status qkv_generation_read(struct qkv_context *ctx, const char *folder, const struct qkv_spec *spec,
                                    const json_t *config, struct qkv_model_generation *generation);
/* Reads the text of a generation_config.json; `name` is for messages. */
enum qkv_status qkv_generation_parse(struct qkv_context *ctx, const char *name, const char *text, size_t size,
                                     const struct qkv_spec *spec, struct qkv_model_generation *generation);
/* Whether settings have rules of tokens, lengths or beams that are not the usual ones. */
bool qkv_generation_rules(const struct qkv_model_generation *generation);
/* The contents of that file, for the caller to free; NULL: no memory. */
json_t *qkv_generation_json(const struct qkv_model_generation *generation);
/* Writes generation_config.json, if the model has settings of generation. */
enum qkv_status qkv_generation_write(struct qkv_context *ctx, const struct qkv_model_generation *generation,
                                     const char *folder);

#endif
