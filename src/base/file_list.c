/* file_list: the files that one longer work has read, so that it opens each of them once. */
#include <stdlib.h>

#include <sys/stat.h>

#include "base/base.h"

struct qkv_file_item {
    struct stat info;
    struct qkv_map map;
};

/* Whether a file is still the one that was read: a file that is replaced or changed is read again. */
static bool file_list_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

struct qkv_file_list *qkv_file_list_begin(struct qkv_context *ctx, struct qkv_file_list *list) {
    struct qkv_file_list *had = ctx->files;
    ctx->files = list;
    return had;
}

void qkv_file_list_end(struct qkv_context *ctx, struct qkv_file_list *had) {
    ctx->files = had;
}

void qkv_file_list_free(struct qkv_file_list *list) {
    for (size_t i = 0; i < list->count; i++) free((void *)(uintptr_t)list->items[i].map.data);
    free(list->items);
    *list = (struct qkv_file_list){0};
}

bool qkv_file_list_find(const struct qkv_file_list *list, const char *path, struct qkv_map *map) {
    struct stat info;
    if (!list->count || stat(path, &info) != 0) return false;
    for (size_t i = 0; i < list->count; i++)
        if (file_list_same(&list->items[i].info, &info)) {
            *map = list->items[i].map;
            return true;
        }
    return false;
}

void qkv_file_list_add(struct qkv_context *ctx, const struct qkv_file *file, struct qkv_map *map) {
    struct qkv_file_list *list = ctx->files;
    struct stat info;
    if (fstat(file->descriptor, &info) != 0 || (uintmax_t)info.st_size != map->size) return;
    struct qkv_file_item *grown = qkv_list_room(ctx, list->items, &list->capacity, list->count, 1, sizeof *grown);
    if (!grown) { /* the caller has the only copy then */
        qkv_forgive(ctx);
        return;
    }
    list->items = grown;
    map->shared = true;
    grown[list->count++] = (struct qkv_file_item){.info = info, .map = *map};
}
