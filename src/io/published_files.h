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
    struct qkv_family_view view;
    bool direct;
};
struct qkv_published {
    struct qkv_context *ctx;
    char *folder;
    struct qkv_published_part *files;
    size_t count, capacity;
    struct qkv_family_config config;
    struct qkv_published_entry *entries; /* by name */
    size_t entry_count;
};
/* The tensor of that name in any of the files, under older names too. */
const struct qkv_array *qkv_published_find(const struct qkv_published *published, const char *name, size_t *file);

#endif
