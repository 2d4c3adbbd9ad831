/* file: mapped files, folders and paths, and the sentence for what the system refuses. Writing is in replace.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/base.h"

/* What to do about an error of the system, "" where its name says it all. */
static const char *way_out(int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return "; check the path";
    case EACCES:
    case EPERM:
        return "; check the permissions of the file and its folder";
    case EROFS:
        return "; choose a folder that can be written";
    case ENOSPC:
    case EDQUOT:
        return "; free some space or choose another disk";
    case EFBIG:
        return "; raise the limit of the file size (ulimit -f) or choose another disk";
    case ENAMETOOLONG:
        return "; choose a shorter name";
    case EMFILE:
    case ENFILE:
        return "; close some files or raise their limit (ulimit -n)";
    default:
        return "";
    }
}

enum qkv_status qkv_fail_file(struct qkv_context *ctx, const char *doing, const char *path, int error) {
    return qkv_fail(ctx, error == ENOMEM ? QKV_MEMORY : QKV_FILE, "cannot %s %s: %s%s", doing, path, strerror(error),
                    way_out(error));
}

static enum qkv_status map_descriptor(struct qkv_context *ctx, const char *path, int descriptor, struct qkv_map *map) {
    struct stat info;
    if (fstat(descriptor, &info) != 0) return qkv_fail_file(ctx, "read", path, errno);
    if (S_ISDIR(info.st_mode)) return qkv_fail(ctx, QKV_FILE, "cannot read %s: it is a folder; name a file", path);
    if (!S_ISREG(info.st_mode)) {
        return qkv_fail(ctx, QKV_FILE, "cannot read %s: it is a pipe or device; save its contents as a file first",
                        path);
    }
    if (info.st_size == 0) return QKV_OK;
    if ((uintmax_t)info.st_size > PTRDIFF_MAX) return qkv_fail_file(ctx, "map", path, EFBIG);
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return qkv_fail_file(ctx, "map", path, errno);
    map->data = data;
    map->size = (size_t)info.st_size;
    return QKV_OK;
}

enum qkv_status qkv_map_file(struct qkv_context *ctx, const char *path, struct qkv_map *map) {
    *map = (struct qkv_map){0};
    /* O_NONBLOCK: opening a pipe that nobody writes to must not wait for ever. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return qkv_fail_file(ctx, "read", path, errno);
    enum qkv_status status = map_descriptor(ctx, path, descriptor, map);
    close(descriptor); /* the mapping stays */
    return status;
}

void qkv_unmap_file(struct qkv_map *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct qkv_map){0};
}

void qkv_map_drop(const struct qkv_map *map, const void *data, size_t n) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)map->data;
    uintptr_t begin = (uintptr_t)data & ~(page - 1), end = ((uintptr_t)data + n) & ~(page - 1);
    if (begin < first) begin = first;                                                 /* a mapping begins with a page */
    if (map->data && begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED); /* a refusal only costs memory */
}

static enum qkv_status make_one_folder(struct qkv_context *ctx, const char *path) {
    if (mkdir(path, 0777) == 0) return QKV_OK;
    int error = errno;
    struct stat info;
    if (stat(path, &info) == 0) { /* before all else: parents that exist may refuse with EROFS or EACCES too */
        if (S_ISDIR(info.st_mode)) return QKV_OK;
        return qkv_fail(ctx, QKV_FILE, "cannot make the folder %s: a file has that name; choose another", path);
    }
    return qkv_fail_file(ctx, "make the folder", path, error);
}

enum qkv_status qkv_make_folder(struct qkv_context *ctx, const char *path) {
    if (!*path) return qkv_fail_file(ctx, "make the folder", "\"\"", ENOENT);
    char *prefix = qkv_copy_string(ctx, path);
    if (!prefix) return QKV_MEMORY;
    enum qkv_status status = QKV_OK;
    for (char *slash = strchr(prefix + 1, '/'); slash && !status; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        status = make_one_folder(ctx, prefix);
        *slash = '/';
    }
    if (!status) status = make_one_folder(ctx, prefix);
    free(prefix);
    return status;
}

char *qkv_join_path(struct qkv_context *ctx, const char *folder, const char *name) {
    size_t folder_size = strlen(folder), name_size = strlen(name), bytes;
    bool slash = folder_size > 0 && folder[folder_size - 1] != '/';
    if (!qkv_add_size(folder_size, name_size, &bytes) || !qkv_add_size(bytes, 2, &bytes)) {
        qkv_fail_memory(ctx, SIZE_MAX, "a path");
        return NULL;
    }
    char *path = qkv_allocate(ctx, bytes, 1);
    if (path) snprintf(path, bytes, "%s%s%s", folder, slash ? "/" : "", name);
    return path;
}

bool qkv_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}
