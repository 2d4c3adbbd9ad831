/* file: reading files, folders and paths, and the sentences for errors of the system. Writing is in replace.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/base.h"

/* The remedy for an error of the system; "" if its name says enough. */
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
    const char *cause = error == EACCES || error == EPERM ? "no permission" : strerror(error);
    return qkv_fail(ctx, error == ENOMEM ? QKV_MEMORY : QKV_FILE, "cannot %s %s: %s%s", doing, path, cause,
                    way_out(error));
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static enum qkv_status file_look(struct qkv_file *file) {
    struct stat info;
    if (fstat(file->descriptor, &info) != 0) return qkv_fail_file(file->ctx, "read", file->path, errno);
    if (S_ISDIR(info.st_mode))
        return qkv_fail(file->ctx, QKV_FILE, "cannot read %s: it is a folder; name a file", file->path);
    if (!S_ISREG(info.st_mode))
        return qkv_fail(file->ctx, QKV_FILE,
                        "cannot read %s: it is a pipe or device; save its contents as a file first", file->path);
    if ((uintmax_t)info.st_size > PTRDIFF_MAX) return qkv_fail_file(file->ctx, "read", file->path, EFBIG);
    file->size = (size_t)info.st_size;
    return QKV_OK;
}

enum qkv_status qkv_file_open(struct qkv_context *ctx, const char *path, struct qkv_file *file) {
    *file = (struct qkv_file){.ctx = ctx, .path = path};
    /* O_NONBLOCK: opening a pipe without a writer must not block. */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->descriptor < 0) return qkv_fail_file(ctx, "read", path, errno);
    file->open = true;
    enum qkv_status status = file_look(file);
    if (status) qkv_file_close(file);
    return status;
}

enum qkv_status qkv_file_read(const struct qkv_file *file, size_t offset, void *out, size_t n) {
    char *bytes = out;
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(file->descriptor, bytes + done, n - done, (off_t)(offset + done));
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0) {
            return qkv_fail(file->ctx, QKV_FILE,
                            "%s has become shorter while it was read: it had %zu bytes and ends now before byte %zu; "
                            "restore the file",
                            file->path, file->size, offset + n);
        } else if (errno != EINTR) {
            return qkv_fail_file(file->ctx, "read", file->path, errno);
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_file_check(struct qkv_context *ctx, const struct qkv_file *file) {
    struct stat info;
    if (fstat(file->descriptor, &info) != 0) return qkv_fail_file(ctx, "read", file->path, errno);
    if ((uintmax_t)info.st_size >= file->size) return QKV_OK;
    return qkv_fail(ctx, QKV_FILE,
                    "%s has become shorter while it was in use: it had %zu bytes and has %zu now; restore the file",
                    file->path, file->size, (size_t)info.st_size);
}

void qkv_file_close(struct qkv_file *file) {
    if (file->open) close(file->descriptor);
    *file = (struct qkv_file){0};
}

/* Smaller files are not checked against the memory that is left. */
#define CHECKED ((size_t)4 << 20)

enum qkv_status qkv_read_file(struct qkv_context *ctx, const char *path, struct qkv_map *map) {
    struct qkv_file file;
    *map = (struct qkv_map){0};
    if (ctx && ctx->files && qkv_file_list_find(ctx->files, path, map)) return QKV_OK;
    enum qkv_status status = qkv_file_open(ctx, path, &file);
    if (status) return status;
    if (file.size >= CHECKED) status = qkv_memory_check(ctx, file.size, path, "give a smaller file");
    unsigned char *data = file.size && !status ? qkv_allocate(ctx, file.size, 1) : NULL;
    if (file.size && !status && !data) status = QKV_MEMORY;
    if (!status) status = qkv_file_read(&file, 0, data, file.size);
    if (status)
        free(data);
    else
        *map = (struct qkv_map){.data = data, .size = file.size};
    if (!status && ctx && ctx->files) qkv_file_list_add(ctx, &file, map);
    qkv_file_close(&file);
    return status;
}

enum qkv_status qkv_file_map(const struct qkv_file *file, struct qkv_map *map) {
    *map = (struct qkv_map){0};
    if (!file->size) return QKV_OK;
    void *data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, file->descriptor, 0);
    if (data == MAP_FAILED) return qkv_fail_file(file->ctx, "map", file->path, errno);
    *map = (struct qkv_map){.data = data, .size = file->size, .mapped = true};
    return QKV_OK;
}

void qkv_unmap_file(struct qkv_map *map) {
    void *data = (void *)(uintptr_t)map->data;
    if (map->mapped)
        munmap(data, map->size);
    else if (!map->shared)
        free(data);
    *map = (struct qkv_map){0};
}

/* ---- folders and paths ----------------------------------------------------------------------------------------- */

static enum qkv_status make_one_folder(struct qkv_context *ctx, const char *path) {
    if (mkdir(path, 0777) == 0) return QKV_OK;
    int error = errno;
    struct stat info;
    if (stat(path, &info) == 0) { /* first of all: mkdir of a parent that exists may fail with EROFS or EACCES */
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

const char *qkv_path_slash(const char *folder) {
    const size_t size = strlen(folder);
    return size > 0 && folder[size - 1] != '/' ? "/" : "";
}

char *qkv_join_path(struct qkv_context *ctx, const char *folder, const char *name) {
    size_t folder_size = strlen(folder), name_size = strlen(name), bytes;
    if (!qkv_add_size(folder_size, name_size, &bytes) || !qkv_add_size(bytes, 2, &bytes)) {
        qkv_fail_memory(ctx, SIZE_MAX, "a path");
        return NULL;
    }
    char *path = qkv_allocate(ctx, bytes, 1);
    if (path) snprintf(path, bytes, "%s%s%s", folder, qkv_path_slash(folder), name);
    return path;
}

bool qkv_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool qkv_is_special(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

enum qkv_status qkv_lock_folder(struct qkv_context *ctx, const char *folder, const char *who, int *lock) {
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return qkv_fail_file(ctx, "lock", folder, errno);
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0) return QKV_OK;
    int error = errno;
    close(*lock);
    *lock = -1;
    if (error == EWOULDBLOCK)
        return qkv_fail(ctx, QKV_FILE, "%s: %s; wait for it or choose another folder", folder, who);
    bool unknown = error == ENOLCK || error == ENOTSUP || error == ENOSYS || error == EBADF; /* EBADF: NFS returns it */
    return unknown ? QKV_OK : qkv_fail_file(ctx, "lock", folder, error);
}

enum qkv_status qkv_file_find(struct qkv_context *ctx, const char *path, bool *found) {
    struct stat info;
    *found = stat(path, &info) == 0;
    return *found || errno == ENOENT || errno == ENOTDIR ? QKV_OK : qkv_fail_file(ctx, "read", path, errno);
}
