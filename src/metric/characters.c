/* Texts as arrays of characters. White space is that of Python's str.split, so that metrics count what sacreBLEU
 * counts. */
#include <stdlib.h>
#include <string.h>

#include "metric/metric.h"

enum qkv_status qkv_characters_append(struct qkv_context *ctx, struct qkv_characters *c, const uint32_t *codes,
                                      size_t count) {
    uint32_t *grown = qkv_list_room(ctx, c->at, &c->capacity, c->count, count, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    c->at = grown;
    if (count) memcpy(c->at + c->count, codes, count * sizeof *codes);
    c->count += count;
    return QKV_OK;
}

enum qkv_status qkv_characters_set(struct qkv_context *ctx, struct qkv_characters *c, const char *text) {
    size_t size = strlen(text);
    enum qkv_status status = QKV_OK;
    c->count = 0;
    for (size_t i = 0; i < size && !status;) {
        uint32_t code;
        int n = qkv_utf8_scan(text + i, size - i, &code);
        if (n <= 0) code = 0xDC00U + (unsigned char)text[i];
        i += n > 0 ? (size_t)n : 1;
        status = qkv_characters_append(ctx, c, &code, 1);
    }
    return status;
}

void qkv_characters_free(struct qkv_characters *c) {
    free(c->at);
    *c = (struct qkv_characters){0};
}

bool qkv_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

enum qkv_status qkv_metric_check(struct qkv_context *ctx, const char *metric, const size_t *reference_counts,
                                 size_t count) {
    if (count == 0) return qkv_fail(ctx, QKV_ARGUMENT, "%s needs at least one text", metric);
    for (size_t i = 0; i < count; i++)
        if (reference_counts[i] == 0)
            return qkv_fail(ctx, QKV_ARGUMENT, "%s: text %zu of %zu has no reference; give each text at least one",
                            metric, i + 1, count);
    return QKV_OK;
}
