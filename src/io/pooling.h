/* pooling: how a folder makes vectors of texts, in the files of sentence-transformers: modules.json, 1_Pooling/config.json, folders of
 * dense layers, sentence_bert_config.json and config_sentence_transformers.json. */
#ifndef QKV_POOLING_H
#define QKV_POOLING_H

#include "base/json_load.h"
#include "model/model.h"

/* A JSON file of the folder, for the files of this room that read some (pooling_file.c). */
struct qkv_pooling_file {
    struct qkv_context *ctx;
    char *path; /* of the file that is read */
    json_t *root;
};
/* Closes the one before, and opens a file of a folder, or of a folder in it (NULL or "": itself); none: root is NULL. */
enum qkv_status qkv_pooling_open(struct qkv_pooling_file *f, const char *folder, const char *inner, const char *name);
void qkv_pooling_close(struct qkv_pooling_file *f);
/* QKV_SPEC: the value of a key, and what it can be instead. */
enum qkv_status qkv_pooling_refuse(const struct qkv_pooling_file *f, const char *key, const char *instead);

/* Dense layers (dense.c), each in a folder of the folder. */
enum { QKV_DENSE_MAX = 4 };
extern const char *const qkv_dense_folders[QKV_DENSE_MAX];
/* dense->in is what it reads; a path that is NULL or no name of a folder is refused. What is read is freed by
 * qkv_model_pooling_free, after a failure too. */
enum qkv_status qkv_dense_read(struct qkv_context *ctx, const char *folder, const char *path,
                               struct qkv_model_dense *dense);
enum qkv_status qkv_dense_write(struct qkv_context *ctx, const char *folder, const char *path,
                                const struct qkv_model_dense *dense);
/* Texts that are put before texts (prompts.c). */
enum qkv_status qkv_prompts_read(struct qkv_context *ctx, const char *folder, struct qkv_model_pooling *pooling);
enum qkv_status qkv_prompts_write(struct qkv_context *ctx, const char *folder, const struct qkv_model_pooling *pooling);

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
