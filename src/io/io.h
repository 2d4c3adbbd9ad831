/* io: model data in files: safetensors, and what is built on it.
 *
 * Most functions of this room are public, see "tensor files" in include/qkv.h. This header has those for other
 * rooms. */
#ifndef QKV_IO_H
#define QKV_IO_H

#include "base/base.h"
#include "type/type.h"

/* "format" in the metadata of a checkpoint, whose spec is "spec" there */
#define QKV_CHECKPOINT_FORMAT    "qkv-checkpoint"
#define QKV_CHECKPOINT_OPTIMIZER "optimizer." /* names of its tensors that are not weights begin with this */
/* What a path to a model names (place.c): a folder, or a checkpoint in one. */
struct qkv_model_place {
    char *folder;  /* heap strings; of a GGUF file its own path, as it is all of a model */
    char *weights; /* the file */
    bool named;    /* the path names the file itself */
    char *modules; /* the folder whose modules.json names the model's folder inside it; NULL: there is none */
};
enum qkv_status qkv_model_place(struct qkv_context *ctx, const char *path, struct qkv_model_place *place);
void qkv_model_place_free(struct qkv_model_place *place);
/* Reads the tokenizer of a published folder or of a GGUF file (their_weights.c). */
struct qkv_tokenizer;
enum qkv_status qkv_theirs_tokenizer(struct qkv_context *ctx, const char *folder, struct qkv_tokenizer **out);

/* The bytes and a hash of the weights at such a path, over all their files (weights_hash.c). */
enum qkv_status qkv_weights_hash(struct qkv_context *ctx, const char *path, uint64_t *bytes, uint64_t *hash);

/* The message about weights of another spec. Its arguments: path, QKV_DIGEST_TEXT, the weights' digest, the spec's. */
#define QKV_DIGEST_SENTENCE                                                                                            \
    "%s: these weights belong to another spec than config.json has now (digest %.*s, not %s), so they would compute "  \
    "something else; restore config.json, or use them anyway with option ignore_digest"
/* Digests that tie the files of a folder together (ties.c): keys and values for the metadata of its weights. */
enum { QKV_TIES = 3, QKV_TIE_TEXT = 17 };
struct qkv_ties {
    const char *pairs[2 * QKV_TIES];
    size_t count; /* of pairs */
    char digests[QKV_TIES][QKV_TIE_TEXT];
};
/* Makes the digests of the files that the folder has now. `ties` must not move while the pairs are used. */
enum qkv_status qkv_ties_make(struct qkv_context *ctx, const char *folder, struct qkv_ties *ties);
/* Fails with QKV_FORMAT if a file next to the weights differs from the one that they were saved with, unless the
 * context ignores digests. */
enum qkv_status qkv_ties_check(struct qkv_context *ctx, const struct qkv_tensors *weights);

/* The type of that name, of those that weights are written in (qkv_format_at). Fails with QKV_ARGUMENT if there is
 * none. */
enum qkv_status qkv_format_find(struct qkv_context *ctx, const char *name, const struct qkv_type **type);
/* Fails with QKV_FILE if the folder has files of an older model that would be taken for this model's. */
struct qkv_model;
enum qkv_status qkv_folder_check_left(struct qkv_model *model, bool published, const char *folder);
/* Bytes of the largest tensor of a layer that a family joins or transposes: export makes one such tensor at a time. The
 * model may be planned. (published_export.c) */
size_t qkv_export_bytes(const struct qkv_model *model);
/* Writes a whole model into a folder, file by file: qkv_model_save into the folder of a run calls it, and other files
 * of the folder stay. */
enum qkv_status qkv_folder_write(struct qkv_model *model, const char *folder);
/* Writes everything but the spec, the weights and the labels: tokenizers, the files of generation and of pooling. */
enum qkv_status qkv_folder_write_texts(struct qkv_model *model, const char *folder);

/* Writes "(2, 3)" for a shape of two dimensions, "()" for a scalar; returns `text`. */
#define QKV_SHAPE_TEXT 192 /* room for any shape */
const char *qkv_shape_text(const size_t *shape, int rank, char text[QKV_SHAPE_TEXT]);

#endif
