/* read_files: the files that variants read from elsewhere: those of a mixture, and single plain files. They must have
 * the same bytes whenever a run begins: variants that learn from different texts cannot be compared. Runs that have
 * begun look after their texts themselves.
 *
 * compare.json has size, time of change and hash of each; only a file whose time has changed is read again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/compare/compare_room.h"

enum { PIECE = 1 << 20 };

/* ---- the files as they are --------------------------------------------------------------------------------------- */

/* Lines of qkv_train_files: sizes, times, paths. The files of plain texts that the comparison has joined or cut in its
 * own folder are left out. */
static enum qkv_status files_now(struct qkv_comparison *c, char **lines) {
    struct qkv_train_options options;
    bool mixes;
    enum qkv_status status = qkv_variant_choices(c, &c->variants[0], &options);
    return status ? status : qkv_train_files(c->ctx, &options, &mixes, lines);
}

/* Reads "SIZE TIME PATH\n" and moves on; false at the end. *path is ended. */
static bool next_line(char **line, struct qkv_compared_file *file, const char **path) {
    char *end = strchr(*line, '\n'), *rest;
    if (!end) return false;
    *end = 0;
    file->bytes = strtoull(*line, &rest, 10);
    file->time = strtoull(rest, &rest, 10);
    *path = rest + (*rest == ' ');
    *line = end + 1;
    return true;
}

static enum qkv_status file_hash(struct qkv_comparison *c, const char *path, uint64_t *hash) {
    struct qkv_file file;
    void *piece = qkv_allocate(c->ctx, PIECE, 1);
    enum qkv_status status = piece ? qkv_file_open(c->ctx, path, &file) : QKV_MEMORY;
    if (status) {
        free(piece);
        return status;
    }
    *hash = 0;
    for (size_t at = 0, n; at < file.size && !status; at += n) {
        n = file.size - at < PIECE ? file.size - at : PIECE;
        status = qkv_file_read(&file, at, piece, n);
        if (!status) *hash = qkv_hash(*hash, piece, n);
        if (!status) status = qkv_check_cancelled(c->ctx, "comparing texts");
    }
    qkv_file_close(&file);
    free(piece);
    return status;
}

static bool is_joined(const struct qkv_comparison *c, size_t i) {
    return !c->mixes && i < 2 && c->joined[i];
}

/* ---- the record -------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_comparison_note_files(struct qkv_comparison *c) {
    char *lines = NULL;
    const char *path;
    struct qkv_compared_file file;
    enum qkv_status status = files_now(c, &lines);
    char *line = lines;
    for (size_t i = 0; !status && next_line(&line, &file, &path); i++) {
        if (is_joined(c, i)) continue;
        status = file_hash(c, path, &file.hash);
        struct qkv_compared_file *more =
            status ? NULL : qkv_list_room(c->ctx, c->files, &c->file_room, c->file_count, 1, sizeof *more);
        if (!status && !more) status = QKV_MEMORY;
        if (status) break;
        c->files = more;
        c->files[c->file_count++] = file;
    }
    qkv_free(lines);
    return status;
}

enum qkv_status qkv_comparison_print_files(const struct qkv_comparison *c, struct qkv_buffer *text) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < c->file_count && !status; i++)
        status = qkv_buffer_print(c->ctx, text, "%llu %llu %llx\n", (unsigned long long)c->files[i].bytes,
                                  (unsigned long long)c->files[i].time, (unsigned long long)c->files[i].hash);
    return status ? status : qkv_buffer_append(c->ctx, text, "", 1);
}

enum qkv_status qkv_comparison_read_files(struct qkv_comparison *c, const char *text, const char *name) {
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        unsigned long long bytes, time, hash;
        int end = 0;
        if (sscanf(line, "%20llu %20llu %16llx%n", &bytes, &time, &hash, &end) != 3 || line[end] != '\n')
            return qkv_fail(c->ctx, QKV_FORMAT,
                            "%s: files has a line that is not a size, a time and a hash; restore "
                            "the file, or choose another folder",
                            name);
        struct qkv_compared_file *more = qkv_list_room(c->ctx, c->files, &c->file_room, c->file_count, 1, sizeof *more);
        if (!more) return QKV_MEMORY;
        c->files = more;
        c->files[c->file_count++] = (struct qkv_compared_file){bytes, time, hash};
    }
    return QKV_OK;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static enum qkv_status file_differs(struct qkv_comparison *c, const char *what) {
    return qkv_fail(c->ctx, QKV_ARGUMENT,
                    "%s than when the comparison in %s began, so that its variants would learn from different texts; "
                    "restore the files, or choose another folder",
                    what, c->folder);
}

/* Compares a file with its record, which gets its time. */
static enum qkv_status file_check(struct qkv_comparison *c, struct qkv_compared_file *then,
                                  const struct qkv_compared_file *now, const char *path) {
    char what[1200];
    uint64_t hash = then->hash;
    enum qkv_status status = QKV_OK;
    if (now->bytes == then->bytes && now->time != then->time) status = file_hash(c, path, &hash);
    if (status) return status;
    snprintf(what, sizeof what, "%.1000s has other bytes", path);
    if (now->bytes != then->bytes || hash != then->hash) return file_differs(c, what);
    then->time = now->time;
    return QKV_OK;
}

enum qkv_status qkv_comparison_check_files(struct qkv_comparison *c) {
    char *lines = NULL, what[100];
    const char *path;
    struct qkv_compared_file now;
    size_t count = 0;
    if (!c->file_count) return QKV_OK;
    enum qkv_status status = files_now(c, &lines);
    char *line = lines;
    for (size_t i = 0; !status && next_line(&line, &now, &path); i++) {
        if (is_joined(c, i)) continue;
        if (count < c->file_count) status = file_check(c, &c->files[count], &now, path);
        count++;
    }
    snprintf(what, sizeof what, "there are %zu files with texts, %zu %s", count,
             count > c->file_count ? count - c->file_count : c->file_count - count,
             count > c->file_count ? "more" : "fewer");
    if (!status && count != c->file_count) status = file_differs(c, what);
    qkv_free(lines);
    return status;
}
