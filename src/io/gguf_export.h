/* gguf_export.h: what the files that write a model as a GGUF file share. */
#ifndef QKV_GGUF_EXPORT_H
#define QKV_GGUF_EXPORT_H

#include "family/family_gguf.h"
#include "io/gguf_own.h"
#include "io/gguf_write.h"
#include "qkv/published.h"

/* The weights of square errors of columns, by tensor (imatrix.c). */
struct qkv_imatrix;
enum qkv_status qkv_imatrix_open(struct qkv_context *ctx, const char *path, struct qkv_imatrix **out);
void qkv_imatrix_free(struct qkv_imatrix *matrix);
/* The weights of a tensor of `columns` columns, one list for each of `slices` slices. *out NULL: the file does not have
 * the tensor. Fails with QKV_SHAPE if it has another number of them. */
enum qkv_status qkv_imatrix_find(const struct qkv_imatrix *matrix, const char *name, size_t columns, size_t slices,
                                 const float **out);

struct qkv_gguf_export;
/* The importance of columns, of a file or measured on the model (importance.c). given: whether there is any. idle: the
 * failure where no matrix is in blocks. open: checks the options and reads the file; fails with QKV_ARGUMENT, or as
 * qkv_imatrix_open. find: sets that of tensor i; fails with QKV_SHAPE, QKV_MEMORY. use: fails with QKV_ARGUMENT where
 * it has no effect on any tensor; a note says if it has one on some of the matrices only. */
bool qkv_importance_given(const struct qkv_gguf_options *options);
enum qkv_status qkv_importance_idle(struct qkv_context *ctx, const struct qkv_gguf_options *options);
enum qkv_status qkv_importance_open(struct qkv_gguf_export *e);
enum qkv_status qkv_importance_find(struct qkv_gguf_export *e, size_t i, size_t columns);
enum qkv_status qkv_importance_use(struct qkv_gguf_export *e);

/* Sentences for the caller, and what the file is (gguf_notes.c). */
struct qkv_gguf_notes {
    char **texts;
    size_t count, capacity;
    const char *architecture, *format; /* names of tables */
};
enum qkv_status qkv_gguf_note(struct qkv_context *ctx, struct qkv_gguf_notes *notes, const char *format, ...)
    QKV_PRINTF(3, 4);
/* A list of names for one sentence, which shows the first of them. */
struct qkv_gguf_names {
    struct qkv_buffer text;
    size_t count;
};
/* Adds a name; ends the list, with the number of names that it does not show. The text is freed with
 * qkv_buffer_free. */
enum qkv_status qkv_gguf_names_add(struct qkv_context *ctx, struct qkv_gguf_names *names, const char *format, ...)
    QKV_PRINTF(3, 4);
enum qkv_status qkv_gguf_names_end(struct qkv_context *ctx, struct qkv_gguf_names *names);

/* A tensor as it is written. */
struct qkv_gguf_tensor {
    struct qkv_array array;
    const float *importance; /* of its columns, slice by slice; NULL: none */
    float *measured;         /* the same, owned, if it was measured; NULL: it was not */
    size_t slices;           /* experts or heads of a tensor that stacks them; else 1 */
};
/* The export of a model. */
struct qkv_gguf_export {
    struct qkv_context *ctx;
    struct qkv_model *model;
    const struct qkv_gguf_options *options;
    struct qkv_gguf_notes *notes;
    struct qkv_family_config config; /* with `gguf`; family NULL: the file has our own names */
    struct qkv_family_arrays arrays;
    struct qkv_family_gguf_written written; /* the keys of the architecture; none with our own names */
    struct qkv_gguf_tensor *tensors;        /* of each array */
    struct qkv_imatrix *imatrix;            /* NULL: none */
    uint32_t file_type;                     /* general.file_type */
    struct qkv_gguf_writer writer;
};

/* Chooses the family that options->family names, or the first that can express the model, with its tensors and keys;
 * config.family NULL: none can, and the names are ours (gguf_export.c). Fails with QKV_SPEC, QKV_MEMORY. The second
 * function drops it, also after a failure. */
enum qkv_status qkv_gguf_choose_family(struct qkv_gguf_export *e);
void qkv_gguf_drop_family(struct qkv_gguf_export *e);
/* The first part of a family's type, which may be a list. */
void qkv_gguf_family_name(const struct qkv_family *family, char name[64]);
/* Checks the format and the rules of options. */
enum qkv_status qkv_gguf_check_types(struct qkv_context *ctx, const struct qkv_gguf_options *options);
/* Chooses the type of each tensor (gguf_types.c). Fails with QKV_ARGUMENT: a type, a mix or a rule that is not known;
 * QKV_SHAPE, QKV_MEMORY. */
enum qkv_status qkv_gguf_choose_types(struct qkv_gguf_export *e);
/* Puts the keys of the tokenizer (gguf_tokenizer_write.c). A tokenizer that the keys cannot say is written as a
 * tokenizer.json, with a note. Fails with QKV_MEMORY. */
enum qkv_status qkv_gguf_put_tokenizer(struct qkv_gguf_export *e);
/* Writes the data of all tensors (gguf_rows.c). Fails with QKV_NUMBER: a number that is not finite, or is too large;
 * QKV_FILE, QKV_MEMORY, QKV_STOPPED. */
enum qkv_status qkv_gguf_write_rows(struct qkv_gguf_export *e);

#endif
