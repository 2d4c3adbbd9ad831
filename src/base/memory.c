/* memory: checked products and sums of sizes, heap blocks that record why they could not be allocated, growing lists,
 * and a growable byte buffer. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { LIST_START = 8 }; /* capacity of a new list, in items */

#define CHECKED ((size_t)16 << 20) /* blocks that grow by less are not checked against the memory that is left */

bool qkv_multiply(size_t a, size_t b, size_t *out) {
    bool fits = a == 0 || b <= SIZE_MAX / a;
    *out = fits ? a * b : SIZE_MAX;
    return fits;
}

bool qkv_add_size(size_t a, size_t b, size_t *out) {
    bool fits = b <= SIZE_MAX - a;
    *out = fits ? a + b : SIZE_MAX;
    return fits;
}

/* An object may not be larger than the largest difference of pointers. */
static bool block_size(size_t count, size_t size, size_t *bytes) {
    return qkv_multiply(count, size, bytes) && *bytes <= PTRDIFF_MAX;
}

/* Whether there is memory for `more` bytes: malloc hands out addresses without memory, and the system kills a process
 * that then uses them. */
static bool block_fits(struct qkv_context *ctx, size_t more) {
    return more < CHECKED || !qkv_memory_check(ctx, more, "one block of memory", NULL);
}

void *qkv_allocate(struct qkv_context *ctx, size_t count, size_t size) {
    size_t bytes;
    void *block = block_size(count, size, &bytes) ? calloc(bytes ? bytes : 1, 1) : NULL;
    if (!block) qkv_fail_memory(ctx, bytes, NULL);
    if (!block || block_fits(ctx, bytes)) return block;
    free(block); /* only addresses so far: nothing was written to it */
    return NULL;
}

void *qkv_reallocate(struct qkv_context *ctx, void *block, size_t count, size_t size) {
    size_t bytes;
    void *moved = block_size(count, size, &bytes) ? realloc(block, bytes ? bytes : 1) : NULL;
    if (!moved) qkv_fail_memory(ctx, bytes, NULL);
    return moved;
}

char *qkv_copy_string(struct qkv_context *ctx, const char *s) {
    return qkv_copy_bytes(ctx, s, strlen(s));
}

char *qkv_copy_bytes(struct qkv_context *ctx, const void *s, size_t n) {
    size_t bytes;
    qkv_add_size(n, 1, &bytes);
    char *copy = qkv_reallocate(ctx, NULL, bytes, 1);
    if (!copy) return NULL;
    if (n) memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

/* Whether there is memory for 5/4 of what a list needs now. The rest of its capacity takes no memory until it is
 * used. */
static bool list_fits(struct qkv_context *ctx, size_t capacity, size_t need, size_t size) {
    size_t more = need - qkv_min(capacity, need) + need / 4;
    return !qkv_multiply(more, size, &more) || block_fits(ctx, more); /* a size that overflows fails at allocation */
}

void *qkv_list_room(struct qkv_context *ctx, void *items, size_t *capacity, size_t count, size_t more, size_t size) {
    size_t need, wanted;
    if (!qkv_add_size(count, more, &need)) {
        qkv_fail_memory(ctx, SIZE_MAX, "a list");
        return NULL;
    }
    if (items && need <= *capacity) return items;
    if (!qkv_multiply(*capacity, 2, &wanted) || wanted < need) wanted = need;
    if (wanted < LIST_START) wanted = LIST_START;
    if (!list_fits(ctx, *capacity, need, size)) return NULL;
    void *grown = qkv_reallocate(ctx, items, wanted, size);
    if (grown) *capacity = wanted;
    return grown;
}

/* Reserves n more bytes and the terminating zero. At least doubles the capacity, so that n appends cost O(n). */
static enum qkv_status buffer_reserve(struct qkv_context *ctx, struct qkv_buffer *b, size_t n) {
    size_t more;
    if (!qkv_add_size(n, 1, &more)) return qkv_fail_memory(ctx, SIZE_MAX, "a buffer");
    char *data = qkv_list_room(ctx, b->data, &b->capacity, b->size, more, 1);
    if (!data) return QKV_MEMORY;
    b->data = data;
    return QKV_OK;
}

enum qkv_status qkv_buffer_append(struct qkv_context *ctx, struct qkv_buffer *b, const void *data, size_t n) {
    enum qkv_status status = buffer_reserve(ctx, b, n);
    if (status) return status;
    if (n) memcpy(b->data + b->size, data, n);
    b->size += n;
    b->data[b->size] = 0;
    return QKV_OK;
}

enum qkv_status qkv_buffer_print(struct qkv_context *ctx, struct qkv_buffer *b, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0) return qkv_fail(ctx, QKV_ARGUMENT, "text could not be formatted: \"%s\"", format);
    enum qkv_status status = buffer_reserve(ctx, b, (size_t)n);
    if (status) return status;
    va_start(arguments, format);
    vsnprintf(b->data + b->size, (size_t)n + 1, format, arguments);
    va_end(arguments);
    b->size += (size_t)n;
    return QKV_OK;
}

void qkv_buffer_free(struct qkv_buffer *b) {
    free(b->data);
    *b = (struct qkv_buffer){0};
}
