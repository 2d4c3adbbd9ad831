/* replace: writes a file next to the old one and renames it over the old one when it is complete and on disk.
 *
 * The temporary is called .NAME.PID.N.tmp. Its writer locks it (flock) while it lives, so the next writer of the same
 * NAME recognizes the temporary of a killed writer and removes it. The order at commit is that of Pillai et al. 2014
 * ("All file systems are not created equal"): file to disk, rename, folder to disk. Devices and pipes cannot be
 * replaced and are written directly. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "base/base.h"

#define LINKS_MAX      40  /* limit of symbolic links in a row, as in Linux */
#define NAME_BYTES     200 /* bytes of NAME in the temporary's name: file names have at most 255 */
#define TEMPORARY_ROOM (NAME_BYTES + 64)

static size_t folder_length(const char *path) { /* with its slash; 0: the current folder */
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

enum qkv_status qkv_follow_links(struct qkv_context *ctx, const char *path, char **out) {
    char *current = qkv_copy_string(ctx, path);
    for (int links = 0; current; links++) {
        char target[PATH_MAX];
        ssize_t n = readlink(current, target, sizeof target - 1);
        if (n < 0) {
            *out = current;
            return QKV_OK;
        }
        if (links == LINKS_MAX) {
            free(current);
            return qkv_fail_file(ctx, "write", path, ELOOP);
        }
        target[n] = 0;
        current[target[0] == '/' ? 0 : folder_length(current)] = 0;
        char *next = qkv_join_path(ctx, current, target);
        free(current);
        current = next;
    }
    return QKV_MEMORY;
}

/* ---- temporaries --------------------------------------------------------------------------------------------- */

static bool is_temporary_of(const char *entry, const char *name) {
    size_t n = strnlen(name, NAME_BYTES);
    if (entry[0] != '.' || strncmp(entry + 1, name, n) != 0 || entry[n + 1] != '.') return false;
    const char *number = entry + n + 2;
    return strcmp(number + strspn(number, "0123456789."), "tmp") == 0;
}

/* Removes the temporaries of `name` whose writers are dead. Errors are ignored: then a temporary stays. */
static void sweep_temporaries(const char *folder, const char *name) {
    DIR *entries = opendir(*folder ? folder : ".");
    if (!entries) return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!is_temporary_of(entry->d_name, name)) continue;
        int descriptor = openat(dirfd(entries), entry->d_name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (descriptor < 0) continue;
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(entries), entry->d_name, 0);
        close(descriptor);
    }
    closedir(entries);
}

/* Creates a new file next to `path` and locks it; returns its descriptor, or -1 with errno. A sweep of another writer
 * may come between the two steps and remove the file: then another one is created. */
static int open_temporary(const char *path, mode_t mode, char *temporary, size_t room) {
    static _Atomic unsigned next;
    int folder = (int)folder_length(path);
    for (;;) {
        snprintf(temporary, room, "%.*s.%.*s.%ld.%u.tmp", folder, path, NAME_BYTES, path + folder, (long)getpid(),
                 next++);
        int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor < 0 && errno == EEXIST) continue;
        if (descriptor < 0) return -1;
        struct stat info;
        bool locked = flock(descriptor, LOCK_EX) == 0;
        if (!locked || (fstat(descriptor, &info) == 0 && info.st_nlink > 0)) return descriptor;
        close(descriptor);
    }
}

/* ---- begin ------------------------------------------------------------------------------------------------------ */

static enum qkv_status open_stream(struct qkv_replace *r, int descriptor) {
    r->file = fdopen(descriptor, "wb");
    if (r->file) return QKV_OK;
    enum qkv_status status = qkv_fail_file(r->ctx, "write", r->path, errno);
    close(descriptor);
    return status;
}

/* Opens the temporary with the mode of the old file (NULL: none) and, if this user may set it, with its owner. */
static enum qkv_status begin_beside(struct qkv_replace *r, const struct stat *old) {
    size_t room, folder = folder_length(r->path);
    qkv_add_size(folder, TEMPORARY_ROOM, &room);
    char *temporary = qkv_allocate(r->ctx, room, 1);
    if (!temporary) return QKV_MEMORY;
    char *folder_path = qkv_copy_bytes(r->ctx, r->path, folder);
    if (folder_path) sweep_temporaries(folder_path, r->path + folder);
    free(folder_path);
    int descriptor = open_temporary(r->path, old ? old->st_mode & 0777 : 0666, temporary, room);
    if (descriptor < 0) {
        int error = errno;
        free(temporary);
        return qkv_fail_file(r->ctx, "write", r->path, error);
    }
    r->temporary = temporary;
    if (old) {
        bool foreign = old->st_uid != geteuid() || old->st_gid != getegid();
        if (foreign && fchown(descriptor, old->st_uid, old->st_gid) != 0) {
            /* not allowed to this user: the writer owns the file */
        }
        if (fchmod(descriptor, old->st_mode & 0777) != 0) {
            int error = errno;
            close(descriptor);
            return qkv_fail_file(r->ctx, "keep the permissions of", r->path, error);
        }
    }
    return open_stream(r, descriptor);
}

static enum qkv_status replace_begin(struct qkv_replace *r, const char *path) {
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (exists && S_ISDIR(old.st_mode)) {
        return qkv_fail(r->ctx, QKV_FILE, "cannot write %s: it is a folder; name a file", path);
    }
    if (exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) return qkv_fail_file(r->ctx, "write", path, errno);
    if (exists && !S_ISREG(old.st_mode)) {
        r->path = qkv_copy_string(r->ctx, path);
        if (!r->path) return QKV_MEMORY;
        int descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return descriptor < 0 ? qkv_fail_file(r->ctx, "write", path, errno) : open_stream(r, descriptor);
    }
    enum qkv_status status = qkv_follow_links(r->ctx, path, &r->path);
    if (status) return status;
    if (!r->path[folder_length(r->path)]) return qkv_fail_file(r->ctx, "write", *path ? path : "\"\"", ENOENT);
    return begin_beside(r, exists ? &old : NULL);
}

enum qkv_status qkv_replace_begin(struct qkv_context *ctx, const char *path, struct qkv_replace *replace) {
    *replace = (struct qkv_replace){.ctx = ctx};
    enum qkv_status status = replace_begin(replace, path);
    if (status) qkv_replace_cancel(replace);
    return status;
}

/* ---- write, commit, cancel ------------------------------------------------------------------------------------- */

enum qkv_status qkv_replace_write(struct qkv_replace *replace, const void *data, size_t n) {
    qkv_rank_alive(replace->ctx);
    if (n == 0 || fwrite(data, 1, n, replace->file) == n) return QKV_OK;
    return qkv_fail_file(replace->ctx, "write", replace->path, errno);
}

/* Writes the folder, and so the new name, to disk. An error because the file system cannot do that is ignored. */
static int sync_folder(const char *path) {
    char *folder = strndup(path, folder_length(path));
    if (!folder) return ENOMEM;
    int descriptor = open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;
    free(folder);
    if (descriptor < 0) return errno == EACCES ? 0 : errno; /* a folder may be writable but not readable */
    if (fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) error = errno;
    close(descriptor);
    return error;
}

enum qkv_status qkv_replace_commit(struct qkv_replace *replace) {
    struct qkv_replace *r = replace;
    if (!r->file) return qkv_fail(r->ctx, QKV_ARGUMENT, "nothing was begun that could replace a file");
    if (ferror(r->file)) { /* an earlier write by stdio failed, and its errno is lost */
        enum qkv_status status =
            qkv_fail(r->ctx, QKV_FILE,
                     "cannot write %s: a part of it was refused; free some space or choose another disk", r->path);
        qkv_replace_cancel(r);
        return status;
    }
    int error = 0;
    if (fflush(r->file) != 0) error = errno;
    if (!error && r->temporary && fsync(fileno(r->file)) != 0) error = errno;
    if (!error && r->temporary && rename(r->temporary, r->path) != 0) error = errno;
    /* the temporary's name is gone; close after the rename, because the lock guards the temporary until then */
    if (!error) {
        if (r->temporary) error = sync_folder(r->path);
        free(r->temporary);
        r->temporary = NULL;
        if (fclose(r->file) != 0 && !error) error = errno;
        r->file = NULL;
    }
    enum qkv_status status = error ? qkv_fail_file(r->ctx, "write", r->path, error) : QKV_OK;
    qkv_replace_cancel(r);
    return status;
}

void qkv_replace_cancel(struct qkv_replace *replace) {
    if (replace->temporary) unlink(replace->temporary);
    if (replace->file) fclose(replace->file);
    free(replace->temporary);
    free(replace->path);
    *replace = (struct qkv_replace){.ctx = replace->ctx};
}

enum qkv_status qkv_write_file(struct qkv_context *ctx, const char *path, const void *data, size_t n) {
    struct qkv_replace replace;
    enum qkv_status status = qkv_replace_begin(ctx, path, &replace);
    if (!status) status = qkv_replace_write(&replace, data, n);
    if (!status) return qkv_replace_commit(&replace);
    qkv_replace_cancel(&replace);
    return status;
}
