/* io: model data in files: safetensors (and what is built on it).
 *
 * Most of what this room offers is public, see "tensor files" in include/qkv.h. Here is the rest, for its neighbours. */
#ifndef QKV_IO_H
#define QKV_IO_H

#include "base/base.h"
#include "format/format.h"

#define QKV_CHECKPOINT_FORMAT                                                                                          \
    "qkv-checkpoint"                          /* "format" in the metadata of a checkpoint, whose spec is "spec" there */
#define QKV_CHECKPOINT_OPTIMIZER "optimizer." /* begins the names of its tensors that are no weights */
/* What a path to a model stands for (place.c): a folder, or a checkpoint in one. */
struct qkv_model_place {
    char *folder;  /* heap strings */
    char *weights; /* the file */
    bool named;    /* by itself */
    char *modules; /* the folder with the modules.json that names the model's as one in it; NULL: there is none */
};
enum qkv_status qkv_model_place(struct qkv_context *ctx, const char *path, struct qkv_model_place *place);
void qkv_model_place_free(struct qkv_model_place *place);

/* The bytes and a hash of the weights of such a path, over all files that they are in. (weights_hash.c) */
enum qkv_status qkv_weights_hash(struct qkv_context *ctx, const char *path, uint64_t *bytes, uint64_t *hash);

/* Why weights are refused: their path, QKV_DIGEST_TEXT, the digest that they carry, that of the spec. */
#define QKV_DIGEST_SENTENCE                                                                                            \
    "%s: these weights belong to another spec than config.json has now (digest %.*s, not %s), so they would compute "  \
    "something else; restore config.json, or use them all the same with --ignore-digest"
/* What ties the files of a folder together (ties.c): keys and values for the metadata of its weights. */
enum { QKV_TIES = 3, QKV_TIE_TEXT = 17 };
struct qkv_ties {
    const char *pairs[2 * QKV_TIES];
    size_t count; /* of pairs */
    char digests[QKV_TIES][QKV_TIE_TEXT];
};
/* Of the files that are there now; `ties` stays where it is while the pairs are used. */
enum qkv_status qkv_ties_make(struct qkv_context *ctx, const char *folder, struct qkv_ties *ties);
/* QKV_FORMAT: a file beside the weights is another one than that they were saved with, unless the context ignores
 * digests. */
enum qkv_status qkv_ties_check(struct qkv_context *ctx, const struct qkv_tensors *weights);

/* The number format of that name. QKV_ARGUMENT: there is none. */
enum qkv_status qkv_format_find(struct qkv_context *ctx, const char *name, const struct qkv_format **format);
/* QKV_FILE: what an older model left in the folder would be taken for this one's. */
struct qkv_model;
enum qkv_status qkv_folder_check_left(struct qkv_model *model, bool published, const char *folder);
/* Bytes of the tensors that a published folder's family joins or transposes, one of which is in memory at a time: the
 * largest that a layer may have. The model may be planned. (published_export.c) */
size_t qkv_export_bytes(const struct qkv_model *model);
/* Writes all that a model has into a folder, file by file: qkv_model_save into the folder of a run, whose other files
 * stay. */
enum qkv_status qkv_folder_write(struct qkv_model *model, const char *folder);
/* Writes what a model has besides its spec, its weights and its labels: tokenizers, what is said of generating and of vectors. */
enum qkv_status qkv_folder_write_texts(struct qkv_model *model, const char *folder);

/* "F32", "BF16", …: the name of an element type in safetensors, NULL for an invalid one. */
const char *qkv_dtype_name(enum qkv_dtype dtype);
/* The type with that name; false if there is none. */
bool qkv_dtype_parse(const char *name, enum qkv_dtype *dtype);
/* Writes "(2, 3)" for a shape of two dimensions, "()" for a scalar; returns `text`. */
#define QKV_SHAPE_TEXT 192 /* room for any shape */
const char *qkv_shape_text(const size_t *shape, int rank, char text[QKV_SHAPE_TEXT]);

#endif
