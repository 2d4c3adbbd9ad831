/* published_files: functions that the files about published folders share. */
#ifndef QKV_PUBLISHED_FILES_H
#define QKV_PUBLISHED_FILES_H

#include "io/published.h"

struct qkv_published_part {
    char *name, *path;
    struct qkv_tensors *tensors;
};
/* A weight, and its tensor in the files. */
struct qkv_published_entry {
    struct qkv_array array; /* as the model has it; data is set where `direct` or `repacked`; the name is owned */
    const struct qkv_array *theirs;
    size_t file;
    const struct qkv_array *scales; /* of a format with few bits; NULL: none */
    size_t scales_file;
    bool packed; /* theirs is in blocks of MXFP4, ours is QKV_MXFP4 */
    struct qkv_family_view view;
    bool direct;
    bool repacked; /* this model has a copy, in the file's format, with rows in the order of ours */
};
struct qkv_published {
    struct qkv_context *ctx;
    char *folder;
    char *warning; /* for qkv_model_warning; NULL: none */
    struct qkv_published_part *files;
    size_t count, capacity;
    struct qkv_family_config config;
    struct qkv_published_entry *entries; /* sorted by name */
    size_t entry_count;
    struct qkv_arena repacked; /* memory of the repacked copies */
    size_t repacked_bytes;
};
/* A JSON file of at most 64 MiB, for the caller to free with json_decref. */
enum qkv_status qkv_published_json(struct qkv_context *ctx, const char *path, json_t **root);
/* The tensor of that name in any of the files, also under its older name. */
const struct qkv_array *qkv_published_find(const struct qkv_published *published, const char *name, size_t *file);

/* Copies the rows of one of our matrices out of a tensor of theirs; numbers have 2 or 4 bytes. */
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
