/* pooling: how a folder makes vectors of texts, in the files of sentence-transformers: modules.json,
 * 1_Pooling/config.json, folders of dense layers, sentence_bert_config.json and config_sentence_transformers.json. */
#ifndef QKV_POOLING_H
#define QKV_POOLING_H

#include "base/json_load.h"
#include "model/model.h"

/* A JSON file of the folder (pooling_file.c). */
struct qkv_pooling_file {
    struct qkv_context *ctx;
    char *path; /* of the open file */
    json_t *root;
};
/* Closes the open file, and opens `name` in the folder, or in its folder `inner` (NULL or "": the folder itself). A
 * missing file is not an error: root is then NULL. */
enum qkv_status qkv_pooling_open(struct qkv_pooling_file *f, const char *folder, const char *inner, const char *name);
void qkv_pooling_close(struct qkv_pooling_file *f);
/* Fails with QKV_SPEC: names the key, its value, and the possible values. */
enum qkv_status qkv_pooling_refuse(const struct qkv_pooling_file *f, const char *key, const char *instead);

/* Dense layers (dense.c), each in a folder inside the folder. */
enum { QKV_DENSE_MAX = 4 };
extern const char *const qkv_dense_folders[QKV_DENSE_MAX];
/* Their tensors in GGUF files (published_gguf.c). */
enum { QKV_GGUF_DENSE = 2 };
extern const char *const qkv_gguf_dense[QKV_GGUF_DENSE];
/* Opens a layer; dense->in is set by the caller. Refuses a path that is NULL or does not name a folder. The caller
 * frees the layer with qkv_model_pooling_free, also after a failure. qkv_dense_fill reads its numbers. */
enum qkv_status qkv_dense_read(struct qkv_context *ctx, const char *folder, const char *path,
                               struct qkv_model_dense *dense);
enum qkv_status qkv_dense_fill(struct qkv_context *ctx, struct qkv_model_dense *dense);
enum qkv_status qkv_dense_write(struct qkv_context *ctx, const char *folder, const char *path,
                                const struct qkv_model_dense *dense);
/* Prompts: texts that are put before the texts whose vectors are made (prompts.c). */
enum qkv_status qkv_prompts_read(struct qkv_context *ctx, const char *folder, struct qkv_model_pooling *pooling);
enum qkv_status qkv_prompts_write(struct qkv_context *ctx, const char *folder, const struct qkv_model_pooling *pooling);

/* Reads modules.json of a folder, if there is one. `model` is the model's own folder, which may be inside `folder`. If
 * `planned`, the numbers of dense layers are not read. Fails with the key that cannot be used. */
enum qkv_status qkv_pooling_read(struct qkv_context *ctx, const char *folder, const char *model,
                                 const struct qkv_spec *spec, bool planned, struct qkv_model_pooling *pooling);
/* Reads the numbers of dense layers of a pooling that was read as planned. */
enum qkv_status qkv_pooling_fill(struct qkv_context *ctx, struct qkv_model_pooling *pooling);
/* The folder inside `folder` that modules.json names as the model's, "0_Transformer": a heap text; NULL: the folder
 * itself. */
enum qkv_status qkv_pooling_model(struct qkv_context *ctx, const char *folder, char **model);
/* Writes these files, if the model has a pooling. */
enum qkv_status qkv_pooling_write(struct qkv_context *ctx, const struct qkv_model_pooling *pooling,
                                  const struct qkv_spec *spec, const char *folder);

#endif
