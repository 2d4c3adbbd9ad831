/* What a resumed run takes out of its log: the lines of steps past its checkpoint, and nothing else. A killed run
 * leaves some behind it, the last of them perhaps unfinished. Lines that cannot be read may be somebody's, so they
 * stay and are reported. The file is shortened, or replaced as a whole: at no moment is a line missing that stays. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "train/train.h"

struct log_kept {
    struct qkv_log_strays *strays;
    struct qkv_buffer lines; /* those that stay */
    int64_t last;            /* the step of the checkpoint */
    size_t number;           /* of the lines looked at */
};

/* The step of a line of JSON; −1 if it is none, or has no step. */
static int64_t log_step(const char *line, size_t size) {
    json_t *object = json_loadb(line, size, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    int64_t found = json_is_integer(step) && json_integer_value(step) >= 0 ? json_integer_value(step) : -1;
    json_decref(object);
    return found;
}

/* Whether a line without an end is what is left of one that this program was writing, of a step past the checkpoint. */
static bool log_was_writing(const char *line, size_t size, int64_t last) {
    static const char start[] = "{\"step\":";
    size_t n = sizeof start - 1, i = n;
    int64_t step = 0;
    if (memcmp(line, start, size < n ? size : n) != 0) return false;
    for (; i < size && line[i] >= '0' && line[i] <= '9' && i - n < 16; i++) step = step * 10 + (line[i] - '0');
    return i >= size || (line[i] == ',' && step > last);
}

/* Takes a line of `size` bytes without its end, which `ended` says that it has. */
static enum qkv_status log_take(struct qkv_context *ctx, struct log_kept *kept, const char *line, size_t size,
                                bool ended) {
    int64_t step = log_step(line, size);
    kept->number++;
    if (step > kept->last || (step < 0 && !ended && log_was_writing(line, size, kept->last))) return QKV_OK;
    if (step < 0 && kept->strays->count++ == 0) kept->strays->first = kept->number;
    enum qkv_status status = qkv_buffer_append(ctx, &kept->lines, line, size);
    return status ? status : qkv_buffer_append(ctx, &kept->lines, "\n", 1);
}

static enum qkv_status log_read(struct qkv_context *ctx, const struct qkv_map *map, struct log_kept *kept) {
    const char *text = (const char *)map->data;
    enum qkv_status status = QKV_OK;
    for (size_t begin = 0; begin < map->size && !status;) {
        const char *end = memchr(text + begin, '\n', map->size - begin);
        size_t size = end ? (size_t)(end - text) - begin : map->size - begin;
        status = log_take(ctx, kept, text + begin, size, end != NULL);
        begin += size + 1;
    }
    return status;
}

/* Makes the file what is kept of it. */
static enum qkv_status log_keep(struct qkv_context *ctx, struct qkv_log *log, const struct qkv_map *map,
                                const struct qkv_buffer *lines) {
    size_t same = lines->size < map->size ? lines->size : map->size;
    log->size = lines->size;
    if (same && memcmp(lines->data, map->data, same) != 0) return qkv_log_replace(ctx, log, lines->data, lines->size);
    if (lines->size < map->size && ftruncate(log->file, (off_t)lines->size) != 0)
        return qkv_fail_file(ctx, "shorten", log->path, errno);
    if (lines->size > map->size && pwrite(log->file, "\n", 1, (off_t)map->size) != 1) /* the last line's end */
        return qkv_fail_file(ctx, "write", log->path, errno);
    return QKV_OK;
}

enum qkv_status qkv_log_cut(struct qkv_context *ctx, struct qkv_log *log, int64_t step, struct qkv_log_strays *strays) {
    struct qkv_map map;
    struct log_kept kept = {.strays = strays, .last = step};
    *strays = (struct qkv_log_strays){0};
    enum qkv_status status = qkv_read_file(ctx, log->path, &map);
    if (status) return status;
    status = log_read(ctx, &map, &kept);
    if (!status) status = log_keep(ctx, log, &map, &kept.lines);
    qkv_buffer_free(&kept.lines);
    qkv_unmap_file(&map);
    return status;
}

enum qkv_status qkv_trainer_cut_log(struct qkv_trainer *t, int64_t step) {
    struct qkv_log_strays strays;
    enum qkv_status status = qkv_log_cut(t->ctx, &t->log, step, &strays);
    if (status || !strays.count) return status;
    if (strays.count == 1)
        return qkv_trainer_add_note(t, "%s: line %zu cannot be read; it stays", t->log.path, strays.first);
    return qkv_trainer_add_note(t, "%s: %zu lines cannot be read, the first of them line %zu; they stay", t->log.path,
                                strays.count, strays.first);
}
