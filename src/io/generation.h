/* generation: what a folder says of generating, and roles of tokens beside a tokenizer. */
#ifndef QKV_GENERATION_H
#define QKV_GENERATION_H

#include <jansson.h>

#include "model/model.h"

/* Reads generation_config.json, where there is one; else, and of the end tokens that it does not name, what the published config.json says
 * (NULL: the folder is ours). */
enum qkv_status qkv_generation_read(struct qkv_context *ctx, const char *folder, const struct qkv_spec *spec,
                                    const json_t *config, struct qkv_model_generation *generation);
/* Writes it, where something was said. */
enum qkv_status qkv_generation_write(struct qkv_context *ctx, const struct qkv_model_generation *generation,
                                     const char *folder);

#endif
