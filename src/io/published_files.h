/* published_files: functions that the files about published folders share. */
#ifndef QKV_PUBLISHED_FILES_H
#define QKV_PUBLISHED_FILES_H

#include "io/published.h"

struct qkv_published_part {
    char *name, *path;
    struct qkv_tensors *tensors;
};
/* A row of a weight that is a tensor of its own. */
struct qkv_published_row {
    const struct qkv_array *theirs;
    size_t file;
};
/* A weight, and its tensor in the files. */
struct qkv_published_entry {
    struct qkv_array array; /* as the model has it; data is set where `direct` or `repacked`; the name is owned */
    const struct qkv_array *theirs;
    size_t file;
    const struct qkv_array *scales; /* of a format with few bits; NULL: none */
    size_t scales_file;
    bool packed; /* theirs is in blocks of MXFP4, ours is QKV_MXFP4 */
    /* (shape[0] of ours): the tensors of rows that are tensors of their own, theirs being the first; NULL: one tensor.
     * Owned */
    struct qkv_published_row *rows;
    struct qkv_family_view view;
    bool direct;
    bool repacked; /* this model has a copy, in the file's format, with rows in the order of ours */
};
struct qkv_published {
    struct qkv_context *ctx;
    char *folder;      /* of GGUF files, the path of the first one */
    const char *asker; /* what the tensors follow from, for messages: "config.json" */
    char *warning;     /* for qkv_model_warning; NULL: none */
    struct qkv_published_part *files;
    size_t count, capacity;
    struct qkv_family_config config;
    bool own;                            /* a GGUF file of architecture qkv, which is no model of a family */
    json_t *keys;                        /* the short keys of GGUF files; NULL: the files are not GGUF */
    struct qkv_gguf *gguf;               /* all keys, until the tokenizer is read */
    struct qkv_published_entry *entries; /* sorted by name */
    size_t entry_count;
    struct qkv_arena repacked; /* memory of the repacked copies */
    size_t repacked_bytes;
};
/* A JSON file of at most 64 MiB, for the caller to free with json_decref. */
enum qkv_status qkv_published_json(struct qkv_context *ctx, const char *path, json_t **root);
/* Adds an empty part for a file of the folder, or, where path is true, for the path `name`; NULL: no memory. */
struct qkv_published_part *qkv_published_part(struct qkv_published *published, const char *name, bool path);
/* Opens the GGUF file p->folder, or all files that it is one of, and reads the spec (published_gguf.c). */
enum qkv_status qkv_published_open_gguf(struct qkv_published *published, struct qkv_spec *spec);
/* The tensor of that name in any of the files; the second function also finds it under its older name. */
const struct qkv_array *qkv_published_exactly(const struct qkv_published *published, const char *name, size_t *file);
const struct qkv_array *qkv_published_find(const struct qkv_published *published, const char *name, size_t *file);

/* Copies the rows of one of our matrices out of a tensor of theirs. Columns are numbers of 2 or 4 bytes, or, of a
 * tensor that is not transposed, blocks of any width. */
enum qkv_status qkv_published_repack(struct qkv_context *ctx, const struct qkv_family_view *view, const void *theirs,
                                     size_t rows, size_t columns, size_t width, void *ours);
/* The rows of theirs that our rows are, for the caller to free; NULL: there is no memory. */
size_t *qkv_published_places(struct qkv_context *ctx, const struct qkv_family_view *view, size_t rows);
/* Whether a weight needs a repacked copy in the file's format. */
bool qkv_published_must_repack(const struct qkv_published_entry *entry, const struct qkv_weight *weight);
/* Finds the tensors of an entry whose view is set, and checks their shapes and types (published_packed.c). */
enum qkv_status qkv_published_locate(const struct qkv_published *published, const struct qkv_array *want,
                                     struct qkv_published_entry *entry);
/* Copies the rows of one of our matrices, as QKV_MXFP4, from a tensor of blocks and a tensor of their exponents. */
enum qkv_status qkv_published_join(const struct qkv_published *published, const struct qkv_published_entry *entry,
                                   size_t rows, void *ours);
/* The numbers of theirs as floats, or, of a tensor that stacks experts, those of the entry's expert; in theirs'
 * order. */
enum qkv_status qkv_published_floats(const struct qkv_published *published, const struct qkv_published_entry *entry,
                                     float **out);

#endif
