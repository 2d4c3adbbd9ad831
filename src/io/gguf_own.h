/* gguf_own.h: GGUF files of architecture qkv, for models that no other architecture can express (source_gguf_own.c). */
#ifndef QKV_GGUF_OWN_H
#define QKV_GGUF_OWN_H

#include "io/gguf.h"
#include "model/model.h"

#define QKV_GGUF_SPEC       "qkv.spec"
#define QKV_GGUF_SOURCE     "qkv.source_tokenizer"
#define QKV_GGUF_LABELS     "qkv.labels"
#define QKV_GGUF_GENERATION "qkv.generation"

/* Opens a path that may name such a file. *mine false: it does not, and nothing is open. */
enum qkv_status qkv_gguf_own_open(struct qkv_context *ctx, const char *path, struct qkv_gguf **keys,
                                  struct qkv_tensors **tensors, bool *mine);
/* The spec of such a file, changed by settings. */
enum qkv_status qkv_gguf_own_spec(const struct qkv_gguf *g, const char *const *settings, size_t setting_count,
                                  struct qkv_spec *spec);
/* The value of ARCHITECTURE.pooling_type for a pooling; 0: it has none. The second function sets the pooling of a
 * value, 0 and unknown values apart (published_gguf.c). */
int qkv_gguf_pooling(enum qkv_pool pool);
void qkv_gguf_set_pooling(struct qkv_model_pooling *pooling, double type);

#endif
