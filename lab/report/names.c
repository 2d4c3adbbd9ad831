/* names: names for folders that are shown side by side: the part in which their paths differ. */
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_room.h"

struct names {
    char **paths; /* the whole paths */
    size_t count;
};

static bool is_separator(char c) {
    return c == '/' || c == '-' || c == '_' || c == ' ';
}

static size_t names_shortest(const struct names *n) {
    size_t shortest = SIZE_MAX;
    for (size_t i = 0; i < n->count; i++) {
        size_t size = strlen(n->paths[i]);
        shortest = size < shortest ? size : shortest;
    }
    return shortest;
}

/* The length of the longest common beginning that ends at a separator and leaves a name for each path. No name
 * begins inside a part of a path with a digit: "run-1" and "run-2" say more than "1" and "2". */
static size_t common_beginning(const struct names *n) {
    size_t shortest = names_shortest(n), common = 0, best = 0;
    while (common + 1 < shortest) {
        char c = n->paths[0][common++];
        bool digit = false;
        for (size_t i = 0; i < n->count; i++) {
            if (n->paths[i][common - 1] != c) return best;
            if (n->paths[i][common] >= '0' && n->paths[i][common] <= '9') digit = true;
        }
        if (is_separator(c) && (c == '/' || !digit)) best = common;
    }
    return best;
}

/* The length of the longest common end that begins at a separator and leaves a name for each path after `beginning`. */
static size_t common_end(const struct names *n, size_t beginning) {
    size_t room = names_shortest(n) - beginning, best = 0;
    for (size_t common = 1; common < room; common++) {
        const char *first = n->paths[0] + strlen(n->paths[0]) - common;
        for (size_t i = 1; i < n->count; i++)
            if (n->paths[i][strlen(n->paths[i]) - common] != *first) return best;
        if (is_separator(*first)) best = common;
    }
    return best;
}

/* Returns the whole path without slashes at its end; the path as given if there is no such file. */
static char *whole_path(struct qkv_context *ctx, const char *folder) {
    char *real = realpath(folder, NULL);
    const char *path = real ? real : folder;
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/') size--;
    char *copy = qkv_copy_bytes(ctx, path, size);
    free(real);
    return copy;
}

static bool are_alike(const struct names *n) {
    for (size_t i = 1; i < n->count; i++)
        if (strcmp(n->paths[i], n->paths[0]) != 0) return false;
    return true;
}

static enum qkv_status names_cut(struct qkv_context *ctx, struct names *n, const char *const *folders) {
    bool alike = are_alike(n);
    size_t beginning = alike ? 0 : common_beginning(n), end = alike ? 0 : common_end(n, beginning);
    for (size_t i = 0; i < n->count; i++) {
        const char *path = n->paths[i], *slash = strrchr(path, '/'), *name = path + beginning;
        if (alike) name = n->count > 1 ? folders[i] : slash && slash[1] ? slash + 1 : path;
        char *cut = qkv_copy_bytes(ctx, name, strlen(name) - end);
        if (!cut) return QKV_MEMORY;
        free(n->paths[i]);
        n->paths[i] = cut;
    }
    return QKV_OK;
}

enum qkv_status qkv_short_names(struct qkv_context *ctx, const char *const *folders, size_t count, char ***names) {
    QKV_CALL(ctx);
    struct names n = {.count = count};
    enum qkv_status status = QKV_OK;
    *names = NULL;
    n.paths = qkv_allocate(ctx, count, sizeof *n.paths);
    if (!n.paths) return QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        if (!(n.paths[i] = whole_path(ctx, folders[i]))) status = QKV_MEMORY;
    if (!status && count) status = names_cut(ctx, &n, folders);
    if (status)
        qkv_free_names(n.paths, count);
    else
        *names = n.paths;
    return status;
}

void qkv_free_names(char **names, size_t count) {
    for (size_t i = 0; names && i < count; i++) free(names[i]);
    free(names);
}
