/* labels.txt: the names of the classes, one per line. */
#include "io/labels.h"

#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "model/spec.h"

/* Cuts a text into its lines, in place. Returns their number, or `max` + 1 if there are more than `max`. */
static size_t labels_cut(char *text, const char **lines, size_t max) {
    size_t count = 0;
    while (*text) {
        size_t n = strcspn(text, "\n"), size = n > 0 && text[n - 1] == '\r' ? n - 1 : n;
        bool last = text[n] == 0;
        text[size] = 0;
        if (count == max) return max + 1;
        lines[count++] = text;
        text += last ? n : n + 1;
    }
    return count;
}

static enum qkv_status labels_parse(struct qkv_model *m, const struct qkv_map *map) {
    size_t classes = qkv_head_has_classes(&m->spec) ? (size_t)m->spec.head.classes : 0;
    if (map->size == 0 || memchr(map->data, 0, map->size))
        return qkv_fail(m->ctx, QKV_FORMAT, "it is not a list of labels, one per line");
    char *text = qkv_copy_bytes(m->ctx, map->data, map->size);
    const char **lines = qkv_allocate(m->ctx, classes + 1, sizeof *lines);
    enum qkv_status status = QKV_MEMORY;
    if (text && lines) {
        size_t count = labels_cut(text, lines, classes);
        status = count == classes
                     ? qkv_model_set_labels(m, lines, count)
                     : qkv_fail(m->ctx, QKV_FORMAT, "it has %s than the %zu labels of config.json's classes",
                                count < classes ? "fewer lines" : "more lines", classes);
    }
    free(text);
    free(lines);
    return status;
}

enum qkv_status qkv_labels_read(struct qkv_model *m, const char *path) {
    struct qkv_map map;
    bool found;
    enum qkv_status status = qkv_file_find(m->ctx, path, &found);
    if (status || !found) return status;
    status = qkv_read_file(m->ctx, path, &map);
    if (status) return status;
    status = qkv_byte_order_mark_refuse(m->ctx, path, map.data, map.size);
    if (!status && (status = labels_parse(m, &map))) qkv_fail_at(m->ctx, "%s", path);
    qkv_unmap_file(&map);
    return status;
}

enum qkv_status qkv_labels_write(struct qkv_model *m, const char *path) {
    struct qkv_buffer text = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->label_count && !status; i++) {
        status = qkv_buffer_print(m->ctx, &text, "%s\n", m->labels[i]);
    }
    if (!status) {
        status = qkv_write_file(m->ctx, path, text.data, text.size);
    }
    qkv_buffer_free(&text);
    return status;
}
