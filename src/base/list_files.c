/* list_files: expands names of files and folders to files, in a fixed order. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "base/base.h"

static int list_by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A file of a folder is listed, a hidden entry is skipped, any other entry gets a note. */
static enum qkv_status list_entry(struct qkv_context *ctx, const char *folder, const char *name,
                                  struct qkv_texts *paths, struct qkv_texts *notes) {
    struct stat info;
    if (name[0] == '.') return QKV_OK;
    char *path = qkv_join_path(ctx, folder, name);
    if (!path) return QKV_MEMORY;
    enum qkv_status status = QKV_OK;
    if (stat(path, &info) != 0)
        status = qkv_fail_file(ctx, "read", path, errno);
    else if (S_ISREG(info.st_mode))
        status = qkv_texts_add(ctx, paths, "%s", path);
    else if (notes)
        status = qkv_texts_add(ctx, notes, "%s is left out: it is %s, and of a folder only its own files are read",
                               path, S_ISDIR(info.st_mode) ? "a folder" : "a pipe or device");
    free(path);
    return status;
}

static enum qkv_status list_folder(struct qkv_context *ctx, const char *folder, struct qkv_texts *paths,
                                   struct qkv_texts *notes) {
    size_t before = paths->count;
    enum qkv_status status = QKV_OK;
    DIR *open = opendir(folder);
    if (!open) return qkv_fail_file(ctx, "read", folder, errno);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(open);
        if (!entry && errno) status = qkv_fail_file(ctx, "read", folder, errno);
        if (!entry || status) break;
        status = list_entry(ctx, folder, entry->d_name, paths, notes);
        if (status) break;
    }
    closedir(open);
    if (status) return status;
    if (paths->count == before)
        return qkv_fail(ctx, QKV_FILE,
                        "the folder %s holds no files (hidden ones and those of folders in it do not count)", folder);
    qsort(paths->items + before, paths->count - before, sizeof *paths->items, list_by_name);
    return QKV_OK;
}

enum qkv_status qkv_absolute_path(struct qkv_context *ctx, const char *name, char **path) {
    struct stat info;
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    *path = realpath(name, NULL);
    if (!*path) return qkv_fail_file(ctx, errno == ENOMEM ? "find" : "read", name, errno);
    if (stat(*path, &info) == 0 && S_ISDIR(info.st_mode)) return QKV_OK;
    free(*path);
    char *folder = slash ? qkv_copy_bytes(ctx, name, (size_t)(slash - name) + 1) : qkv_copy_string(ctx, ".");
    char *real = folder ? realpath(folder, NULL) : NULL;
    *path = real ? qkv_join_path(ctx, real, last) : NULL;
    const bool failed = folder && !real;
    free(folder);
    free(real);
    if (failed) return qkv_fail_file(ctx, errno == ENOMEM ? "find" : "read", name, errno);
    return *path ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_list_files(struct qkv_context *ctx, const char *const *names, size_t count, struct qkv_texts *paths,
                               struct qkv_texts *notes) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && names[i] && !status; i++) {
        struct stat info;
        char *path = NULL;
        status = qkv_absolute_path(ctx, names[i], &path);
        if (status) return status;
        bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
        status = folder ? list_folder(ctx, path, paths, notes) : qkv_texts_add(ctx, paths, "%s", path);
        free(path);
    }
    return status;
}
