/* hash: FNV-1a (Fowler, Noll, Vo), 64 bits, of bytes and of lines in the order of their bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

uint64_t qkv_hash(uint64_t hash, const void *data, size_t n) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int hash_order(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static uint64_t hash_line(uint64_t hash, const char *line) {
    return qkv_hash(qkv_hash(hash, line, strlen(line)), "\n", 1);
}

enum qkv_status qkv_hash_lines(struct qkv_context *ctx, const char *head, char *text, uint64_t *hash) {
    size_t count = 0;
    *hash = hash_line(QKV_HASH_START, head);
    for (const char *c = text; c && *c; c++) count += *c == '\n';
    char **lines = qkv_allocate(ctx, count, sizeof *lines);
    if (!lines) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) {
        lines[i] = text;
        text += strcspn(text, "\n");
        *text++ = 0;
    }
    qsort(lines, count, sizeof *lines, hash_order);
    for (size_t i = 0; i < count; i++) *hash = hash_line(*hash, lines[i]);
    free(lines);
    return QKV_OK;
}
