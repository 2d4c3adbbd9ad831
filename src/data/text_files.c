/* The files that a text, or the lines of a run, consist of: what is known of each, and of all of them together. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "data/data.h"
#include "data/records.h"

#define KEPT_MOST ((uint64_t)1 << 28)

enum qkv_status qkv_text_files_list(struct qkv_context *ctx, const char *const *names, struct qkv_text_files *files,
                                    struct qkv_texts *notes) {
    struct qkv_texts paths = {0};
    enum qkv_status status = qkv_list_files(ctx, names, QKV_FILES_MAX, &paths, notes);
    for (size_t i = 0; i < paths.count && !status; i++)
        status = qkv_text_files_add(ctx, files, &(struct qkv_text_file){.path = paths.items[i]});
    qkv_texts_free(&paths);
    return status;
}

enum qkv_status qkv_text_files_plain(struct qkv_context *ctx, const struct qkv_text_files *files) {
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->items[i].path;
        if (qkv_records_are_json(path) || qkv_unpack_name(path) < strlen(path))
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "%s is in a folder of plain texts, but its name says that it has JSON lines or is packed; "
                            "name such files themselves, or by a pattern as in 'texts/*'",
                            path);
    }
    return QKV_OK;
}

enum qkv_status qkv_text_files_add(struct qkv_context *ctx, struct qkv_text_files *files,
                                   const struct qkv_text_file *file) {
    size_t n = files->count;
    struct qkv_text_file *grown = qkv_list_room(ctx, files->items, &files->capacity, n, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    files->items = grown;
    files->items[n] = *file;
    files->items[n].kept = (struct qkv_map){0};
    files->items[n].path = qkv_copy_string(ctx, file->path);
    if (!files->items[n].path) return QKV_MEMORY;
    files->count++;
    return QKV_OK;
}

enum qkv_status qkv_text_files_copy(struct qkv_context *ctx, const struct qkv_text_files *files,
                                    struct qkv_text_files *copy) {
    enum qkv_status status = QKV_OK;
    *copy = (struct qkv_text_files){0};
    for (size_t i = 0; i < files->count && !status; i++) status = qkv_text_files_add(ctx, copy, &files->items[i]);
    if (status) qkv_text_files_free(copy);
    return status;
}

enum qkv_status qkv_text_file_hash(struct qkv_context *ctx, const char *path, uint64_t *hash, qkv_progress *progress,
                                   void *user) {
    unsigned char bytes[1 << 14];
    struct qkv_file file;
    uint64_t sum = QKV_HASH_START;
    enum qkv_status status = qkv_file_open(ctx, path, &file);
    if (status) return status;
    for (size_t at = 0, n; at < file.size && !status; at += n) {
        n = qkv_min(file.size - at, sizeof bytes);
        if (at % ((size_t)1 << 20) == 0)
            status = qkv_train_progress(ctx, progress, user, "comparing texts", (double)at, (double)file.size);
        if (!status) status = qkv_file_read(&file, at, bytes, n);
        if (!status) sum = qkv_hash(sum, bytes, n);
    }
    qkv_file_close(&file);
    if (!status) *hash = sum;
    return status;
}

uint64_t qkv_text_files_size(const struct qkv_text_files *files) {
    uint64_t total = 0;
    struct stat info;
    for (size_t i = 0; i < files->count; i++)
        if (stat(files->items[i].path, &info) == 0 && info.st_size > 0) total += (uint64_t)info.st_size;
    return total;
}

bool qkv_text_files_fit(struct qkv_context *ctx, const struct qkv_text_files *files) {
    for (size_t i = 0; i < files->count; i++)
        if (files->items[i].path[qkv_unpack_name(files->items[i].path)]) return false;
    uint64_t size = qkv_text_files_size(files);
    return size <= KEPT_MOST && size <= qkv_memory_physical(ctx->memory_files).bytes / 8;
}

void qkv_text_files_drop(struct qkv_text_files *files) {
    for (size_t i = 0; i < files->count; i++) {
        qkv_unmap_file(&files->items[i].kept);
        files->items[i].kept = (struct qkv_map){0};
    }
}

void qkv_text_files_free(struct qkv_text_files *files) {
    qkv_text_files_drop(files);
    for (size_t i = 0; i < files->count; i++) free(files->items[i].path);
    free(files->items);
    *files = (struct qkv_text_files){0};
}

const char *qkv_text_files_name(const struct qkv_text_files *files, char name[QKV_FILES_NAME]) {
    size_t more = files->count ? files->count - 1 : 0;
    const char *first = files->count ? files->items[0].path : "the text";
    if (more)
        snprintf(name, QKV_FILES_NAME, "%.500s and %zu more file%s", first, more, more == 1 ? "" : "s");
    else
        snprintf(name, QKV_FILES_NAME, "%.500s", first);
    return name;
}

void qkv_text_files_sum(const struct qkv_text_files *files, struct qkv_text_facts *facts) {
    facts->bytes = 0;
    facts->hash = QKV_HASH_START;
    for (size_t i = 0; i < files->count; i++) {
        const struct qkv_text_file *f = &files->items[i];
        facts->bytes += f->bytes;
        facts->hash = qkv_hash(facts->hash, &f->bytes, sizeof f->bytes);
        facts->hash = qkv_hash(facts->hash, &f->hash, sizeof f->hash);
    }
    if (files->count == 1) facts->hash = files->items[0].hash;
}

void qkv_text_files_hold_out(struct qkv_text_files *files, uint64_t kept) {
    for (size_t i = files->count; i-- > 0;) {
        struct qkv_text_file *f = &files->items[i];
        uint64_t size = f->lines ? f->lines : f->tokens;
        f->held_out = kept < size ? kept : size;
        kept -= f->held_out;
    }
}

/* Lines were not always recorded. */
static bool files_same(const struct qkv_text_file *then, const struct qkv_text_file *now) {
    bool lines = then->lines == 0 || then->lines == now->lines;
    return then->bytes == now->bytes && then->hash == now->hash && then->tokens == now->tokens && lines;
}

enum qkv_status qkv_same_text(struct qkv_context *ctx, const char *path, const struct qkv_same_text *text) {
    const struct qkv_text_facts *then = text->facts, *now = text->now_facts;
    size_t count = text->files->count, i = 0;
    while (i < count && files_same(&text->files->items[i], &text->now_files->items[i])) i++;
    if (i == count && now->bytes == then->bytes && now->hash == then->hash && now->tokens == then->tokens)
        return QKV_OK;
    const struct qkv_text_file *old = &text->files->items[i < count ? i : 0];
    const struct qkv_text_file *new = &text->now_files->items[i < count ? i : 0];
    unlink(path);
    if (old->bytes == new->bytes && old->hash == new->hash && old->tokens != new->tokens)
        return qkv_fail(ctx, QKV_FORMAT,
                        "%s is missing, and %s, which has not changed, has %llu tokens now (%llu when the run began): "
                        "its tokenizer is read in another way; start a new run in another folder",
                        path, old->path, (unsigned long long)new->tokens, (unsigned long long)old->tokens);
    return qkv_fail(ctx, QKV_FORMAT,
                    "%s is missing and %s has changed since the run began (%llu bytes then, %llu now); "
                    "restore one of them, or start a new run in another folder",
                    path, old->path, (unsigned long long)old->bytes, (unsigned long long)new->bytes);
}
