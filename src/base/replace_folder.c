/* replace_folder: writes a folder next to the old one, and replaces the old one when the new one is complete and on
 * disk.
 *
 * The temporary is called .NAME.PID.N.tmp, like those of files (replace.c). Its writer locks it while it lives, so the
 * next writer of the same NAME recognizes the temporary of a killed writer. The two folders are exchanged in one step
 * (renameat2). If the file system cannot exchange, the old folder is called .NAME.PID.N.old in between; if the writer
 * is killed then, the next writer renames it back. Files of the old folder that the new one lacks get a second name
 * (hard link) in the new one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "base/base.h"

enum { FOLDER_NAME = 200, FOLDER_ROOM = FOLDER_NAME + 64 };

/* Calls visit(user, a/NAME, b/NAME, NAME) for every entry of folder `a`, until one fails; b may be NULL. errno, or
 * 0. */
typedef int folder_visit(void *user, const char *a, const char *b, const char *name);
static int folder_walk(const char *a, const char *b, folder_visit *visit, void *user) {
    DIR *open = opendir(a);
    struct dirent *entry;
    int error = open ? 0 : errno;
    while (!error && (entry = readdir(open))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        char *x = qkv_join_path(NULL, a, entry->d_name), *y = b ? qkv_join_path(NULL, b, entry->d_name) : NULL;
        error = x && (y || !b) ? visit(user, x, y, entry->d_name) : ENOMEM;
        free(x);
        free(y);
    }
    if (open) closedir(open);
    return error;
}

/* Whether `path` itself, not a link to it, is a folder of the file system `device`. */
static bool folder_is_inner(const char *path, dev_t device) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_dev == device;
}

static bool folder_there(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

/* ---- clearing away --------------------------------------------------------------------------------------------- */

static int folder_remove_one(void *device, const char *path, const char *none, const char *name) {
    (void)none, (void)name;
    if (folder_is_inner(path, *(const dev_t *)device)) {
        folder_walk(path, NULL, folder_remove_one, device);
        rmdir(path);
    } else {
        unlink(path);
    }
    return 0;
}

/* Removes a folder with all its entries. Errors are ignored: then the folder stays. */
static void folder_remove(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return;
    folder_walk(path, NULL, folder_remove_one, &info.st_dev);
    rmdir(path);
}

/* An entry of the old folder: removed if the new folder has it; else it was added after the copy, and moves. */
static int folder_retire_one(void *device, const char *old, const char *new, const char *name) {
    (void)name;
    if (!folder_there(new)) return rename(old, new) == 0 ? 0 : errno;
    if (!folder_is_inner(old, *(const dev_t *)device)) return unlink(old) == 0 ? 0 : errno;
    const int error = folder_walk(old, new, folder_retire_one, device);
    return error ? error : rmdir(old) == 0 ? 0 : errno;
}

static void folder_retire(const char *old, const char *new) {
    struct stat info;
    if (lstat(old, &info) == 0 && !folder_walk(old, new, folder_retire_one, &info.st_dev)) rmdir(old);
}

struct folder_sweep {
    const char *name, *path;
};

static bool folder_ends(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* Leftovers of killed writers: an old folder without a successor is renamed back, everything else is removed. */
static int folder_sweep_one(void *user, const char *entry, const char *none, const char *name) {
    const struct folder_sweep *sweep = user;
    const size_t n = strnlen(sweep->name, FOLDER_NAME);
    (void)none;
    if (name[0] != '.' || strncmp(name + 1, sweep->name, n) != 0 || name[n + 1] != '.') return 0;
    const char *end = name + n + 2 + strspn(name + n + 2, "0123456789.");
    if (strcmp(end, "tmp") != 0 && strcmp(end, "old") != 0) return 0;
    const int lock = open(entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0) return 0;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
        if (*end == 'o' && !folder_there(sweep->path))
            rename(entry, sweep->path);
        else
            folder_remove(entry);
    }
    close(lock);
    return 0;
}

/* ---- begin ----------------------------------------------------------------------------------------------------- */

/* Whether the current folder is `path`, or inside it. */
static bool folder_is_current(const char *path) {
    char *current = realpath(".", NULL);
    const size_t n = strlen(path);
    const bool inside = current && strncmp(current, path, n) == 0 && (!current[n] || current[n] == '/' || n == 1);
    free(current);
    return inside;
}

static int folder_is_empty_one(void *user, const char *entry, const char *none, const char *name) {
    (void)user, (void)entry, (void)none;
    return folder_ends(name, ".tmp") && name[0] == '.' ? 0 : ENOTEMPTY;
}

/* Why an existing folder cannot be replaced by another one; NULL: it can. */
static const char *folder_fixed(const char *path, const char *parent) {
    struct stat own, outer;
    if (folder_is_current(path)) return "it is the current folder, or holds it";
    if (stat(path, &own) == 0 && stat(parent, &outer) == 0 && own.st_dev != outer.st_dev)
        return "another file system is mounted there";
    return faccessat(AT_FDCWD, parent, W_OK, AT_EACCESS) ? "the folder that it is in cannot be written" : NULL;
}

static enum qkv_status folder_choose(struct qkv_replace_folder *r, const char *path, char **parent) {
    if (!*path) return qkv_fail_file(r->ctx, "make the folder", "\"\"", ENOENT);
    r->shown = qkv_copy_string(r->ctx, path);
    if (!r->shown) return QKV_MEMORY;
    for (size_t n = strlen(path); n > 1 && r->shown[n - 1] == '/'; n--) r->shown[n - 1] = 0;
    r->path = realpath(path, NULL);
    enum qkv_status status = r->path ? QKV_OK : qkv_follow_links(r->ctx, r->shown, &r->path);
    if (status) return status;
    const char *slash = strrchr(r->path, '/');
    *parent = !slash             ? qkv_copy_string(r->ctx, ".")
              : slash == r->path ? qkv_copy_string(r->ctx, "/")
                                 : qkv_copy_bytes(r->ctx, r->path, (size_t)(slash - r->path));
    return *parent ? QKV_OK : QKV_MEMORY;
}

/* Creates a folder in `parent` and locks it. */
static enum qkv_status folder_make(struct qkv_replace_folder *r, const char *parent, const char *name, mode_t mode) {
    static _Atomic unsigned next;
    char text[FOLDER_ROOM];
    for (;;) {
        struct stat info;
        snprintf(text, sizeof text, ".%.*s.%ld.%u.tmp", FOLDER_NAME, name, (long)getpid(), next++);
        free(r->temporary);
        r->temporary = qkv_join_path(r->ctx, parent, text);
        if (!r->temporary) return QKV_MEMORY;
        if (mkdir(r->temporary, mode) != 0) {
            const int error = errno;
            if (error == EEXIST) continue;
            free(r->temporary);
            r->temporary = NULL;
            return qkv_fail_file(r->ctx, "make the folder", r->shown, error);
        }
        r->lock = open(r->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const bool locked = r->lock >= 0 && flock(r->lock, LOCK_EX | LOCK_NB) == 0;
        if (r->lock >= 0 && (locked || errno != EWOULDBLOCK) && fstat(r->lock, &info) == 0 && info.st_nlink > 0)
            return QKV_OK; /* a sweep may have removed the folder; then another one is created */
        if (r->lock >= 0) close(r->lock);
        r->lock = -1;
    }
}

static enum qkv_status folder_begin(struct qkv_replace_folder *r, const char *path) {
    struct stat info;
    char *parent = NULL;
    enum qkv_status status = folder_choose(r, path, &parent);
    if (!status) {
        const char *name = strrchr(r->path, '/');
        struct folder_sweep sweep = {.name = name ? name + 1 : r->path, .path = r->path};
        folder_walk(parent, NULL, folder_sweep_one, &sweep);
        r->exists = stat(r->path, &info) == 0;
        if (r->exists && !S_ISDIR(info.st_mode))
            status =
                qkv_fail(r->ctx, QKV_FILE, "cannot make the folder %s: a file has that name; choose another", path);
        const char *fixed = r->exists ? folder_fixed(r->path, parent) : NULL;
        r->inside = fixed;
        if (!status && fixed && folder_walk(r->path, NULL, folder_is_empty_one, NULL))
            status = qkv_fail(r->ctx, QKV_FILE,
                              "%s cannot be replaced as a whole, as %s; choose another folder, or an empty one", path,
                              fixed);
        if (!status && !r->exists) status = qkv_make_folder(r->ctx, parent);
        if (!status)
            status = folder_make(r, r->inside ? r->path : parent, r->inside ? "qkv" : sweep.name,
                                 r->exists && !r->inside ? (info.st_mode & 0777) | 0700 : 0777);
    }
    free(parent);
    return status;
}

enum qkv_status qkv_replace_folder_begin(struct qkv_context *ctx, const char *path, struct qkv_replace_folder *r) {
    *r = (struct qkv_replace_folder){.ctx = ctx, .lock = -1};
    enum qkv_status status = folder_begin(r, path);
    if (status) qkv_replace_folder_cancel(r);
    return status;
}

/* ---- commit ---------------------------------------------------------------------------------------------------- */

/* Gives `path` the permissions and, if this user may set it, the owner of the old folder. */
static void folder_like(const char *path, const struct stat *old, const struct stat *new) {
    const bool foreign = old->st_uid != new->st_uid || old->st_gid != new->st_gid;
    if (foreign && lchown(path, old->st_uid, old->st_gid) != 0) return; /* then the writer owns it */
    if ((old->st_mode ^ new->st_mode) & 07777) chmod(path, old->st_mode & 07777);
}

/* An entry of the old folder that the new one lacks gets a second name in the new one. */
static int folder_carry_one(void *user, const char *old, const char *new, const char *name) {
    struct qkv_replace_folder *r = user;
    struct stat info, there;
    (void)name;
    if (lstat(old, &info) != 0) return errno == ENOENT ? 0 : errno;
    const bool folder = S_ISDIR(info.st_mode), taken = lstat(new, &there) == 0;
    int error = 0;
    if (folder && info.st_dev != r->device) error = EXDEV;
    if (taken && S_ISREG(info.st_mode) && S_ISREG(there.st_mode)) folder_like(new, &info, &there);
    if (taken && !(folder && S_ISDIR(there.st_mode))) return 0;
    if (!error && folder && !taken && mkdir(new, (info.st_mode & 0777) | 0700) != 0) error = errno;
    if (!error && folder) return folder_walk(old, new, folder_carry_one, r);
    if (!error && linkat(AT_FDCWD, old, AT_FDCWD, new, 0) != 0 && errno != ENOENT) error = errno;
    if (error)
        qkv_fail(r->ctx, QKV_FILE,
                 "cannot keep %s, which is no file of the model: %s; move it, or choose another folder", old,
                 strerror(error));
    return error;
}

/* One step if the file system can exchange folders; else the old folder has another name in between. */
static int folder_exchange(const struct qkv_replace_folder *r) {
    char *aside = qkv_copy_string(NULL, r->temporary);
    if (!aside) return ENOMEM;
    memcpy(aside + strlen(aside) - 3, "old", 3);
    int error = renameat2(AT_FDCWD, r->temporary, AT_FDCWD, r->path, RENAME_EXCHANGE) == 0 ? 0 : errno;
    if (error == EINVAL || error == ENOSYS || error == ENOTSUP) {
        error = rename(r->path, aside) == 0 ? 0 : errno;
        if (!error && rename(r->temporary, r->path) != 0) {
            error = errno;
            rename(aside, r->path);
        } else if (!error) {
            rename(aside, r->temporary);
        }
    }
    free(aside);
    return error;
}

static int folder_move_one(void *user, const char *from, const char *to, const char *name) {
    (void)user, (void)name;
    return rename(from, to) == 0 ? 0 : errno;
}

static int folder_sync(const char *path) {
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = folder < 0 ? (errno == EACCES ? 0 : errno) : 0;
    if (folder >= 0 && fsync(folder) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) error = errno;
    if (folder >= 0) close(folder);
    return error;
}

static int folder_sync_parent(const char *path) {
    char *parent = strdup(path), *slash = parent ? strrchr(parent, '/') : NULL;
    if (!parent) return ENOMEM;
    if (slash) slash[slash == parent] = 0;
    const int error = folder_sync(slash ? parent : ".");
    free(parent);
    return error;
}

/* `temporary` no longer names a folder of this writer. */
static void folder_forget(struct qkv_replace_folder *r) {
    free(r->temporary);
    r->temporary = NULL;
}

static int folder_place(struct qkv_replace_folder *r) {
    int error = folder_sync(r->temporary);
    if (error) return error;
    if (r->inside) {
        error = folder_walk(r->temporary, r->path, folder_move_one, NULL);
    } else if (r->exists) {
        error = folder_exchange(r);
        if (!error) folder_retire(r->temporary, r->path);
        if (!error) folder_forget(r);
    } else {
        error = renameat2(AT_FDCWD, r->temporary, AT_FDCWD, r->path, RENAME_NOREPLACE) == 0 ? 0 : errno;
        if (error == EINVAL || error == ENOSYS || error == ENOTSUP)
            error = rename(r->temporary, r->path) == 0 ? 0 : errno; /* `path` may be an empty folder */
    }
    return error ? error : folder_sync_parent(r->path);
}

enum qkv_status qkv_replace_folder_commit(struct qkv_replace_folder *r) {
    enum qkv_status status = QKV_OK;
    struct stat old, new;
    int error = 0;
    if (r->exists && !r->inside && stat(r->path, &old) == 0 && stat(r->temporary, &new) == 0) {
        r->device = old.st_dev;
        folder_like(r->temporary, &old, &new);
        if (folder_walk(r->path, r->temporary, folder_carry_one, r)) status = QKV_FILE;
    }
    if (!status) error = folder_place(r);
    if (error == EEXIST || error == ENOTEMPTY)
        status = qkv_fail(r->ctx, QKV_FILE, "%s was made by another program meanwhile; look at it, and begin again",
                          r->shown);
    else if (error)
        status = qkv_fail_file(r->ctx, "write", r->shown, error);
    qkv_replace_folder_cancel(r);
    return status;
}

void qkv_replace_folder_cancel(struct qkv_replace_folder *r) {
    if (r->temporary) {
        qkv_fail_elsewhere(r->ctx, r->temporary, r->shown);
        folder_remove(r->temporary); /* if `inside`, it is empty now: its files are in place */
    }
    if (r->lock >= 0) close(r->lock);
    free(r->temporary);
    free(r->shown);
    free(r->path);
    *r = (struct qkv_replace_folder){.ctx = r->ctx, .lock = -1};
}
