/* published_files: what the two files about published folders share. */
#ifndef QKV_PUBLISHED_FILES_H
#define QKV_PUBLISHED_FILES_H

#include "io/published.h"

struct qkv_published_part {
    char *name, *path;
    struct qkv_tensors *tensors;
};
/* A weight of ours, and where it is. */
struct qkv_published_entry {
    struct qkv_array array; /* as ours, where it lies there as it is (`direct`); the name is owned */
    const struct qkv_array *theirs;
    size_t file;
    const struct qkv_array *scales; /* of numbers in few bits; NULL: it has none */
    size_t scales_file;
    bool packed; /* theirs is blocks of MXFP4 */
    struct qkv_family_view view;
    bool direct;
    bool turned; /* a copy in its format stands as ours do, in the published model's own memory */
};
struct qkv_published {
    struct qkv_context *ctx;
    char *folder;
    char *warning; /* of qkv_model_warning; NULL: none */
    struct qkv_published_part *files;
    size_t count, capacity;
    struct qkv_family_config config;
    struct qkv_published_entry *entries; /* by name */
    size_t entry_count;
    struct qkv_arena turned; /* the copies */
    size_t turned_bytes;
};
/* A JSON file of at most 64 MiB, for the caller to free with json_decref. */
enum qkv_status qkv_published_json(struct qkv_context *ctx, const char *path, json_t **root);
/* The tensor of that name in any of the files, under older names too. */
const struct qkv_array *qkv_published_find(const struct qkv_published *published, const char *name, size_t *file);

/* Puts the rows of one of our matrices, of numbers of 2 or 4 bytes, as ours stand, from a tensor of theirs. */
void qkv_published_turn(struct qkv_context *ctx, const struct qkv_family_view *view, const void *theirs, size_t rows,
                        size_t columns, size_t width, void *ours);
/* Whether a weight is to be turned in its own format. */
bool qkv_published_turns(const struct qkv_published_entry *entry, const struct qkv_weight *weight);
/* Finds the tensors of an entry whose view is known, and checks them against what the family has there (published_packed.c). */
enum qkv_status qkv_published_locate(const struct qkv_published *published, const struct qkv_array *want,
                                     struct qkv_published_entry *entry);
/* The numbers of theirs, or, of a stacked one, of the part of its expert, in the order of a tensor that has them as floats. */
enum qkv_status qkv_published_floats(const struct qkv_published *published, const struct qkv_published_entry *entry,
                                     float **out);

#endif
