/* Files of llama.cpp with the importance of columns: the mean of the squares of a product's inputs, for each tensor.
 *
 * As a GGUF file (general.type imatrix): for each tensor NAME, NAME.in_sum2, the sums of squares (matrices, columns),
 * and NAME.counts, how many rows each matrix had. The older format, little-endian: u32 tensors; of each a u32 and its
 * name, u32 calls, u32 numbers, the means times calls as f32; then texts, which are not read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/gguf_export.h"
#include "io/io.h"

enum { IMATRIX_NAME_MAX = 512 };

struct imatrix_entry {
    char *name;
    float *values;
    size_t count;
};
struct qkv_imatrix {
    struct qkv_context *ctx;
    char *path;
    struct imatrix_entry *entries;
    size_t count, capacity;
};

static enum qkv_status imatrix_damaged(const struct qkv_imatrix *m, const char *why) {
    return qkv_fail(m->ctx, QKV_FORMAT, "%s is not a file of importance (imatrix): %s", m->path, why);
}

/* Adds an entry with room for `count` values; NULL: no memory. */
static struct imatrix_entry *imatrix_add(struct qkv_imatrix *m, const char *name, size_t size, size_t count) {
    struct imatrix_entry *grown = qkv_list_room(m->ctx, m->entries, &m->capacity, m->count, 1, sizeof *grown);
    if (!grown) return NULL;
    m->entries = grown;
    struct imatrix_entry *entry = &grown[m->count++];
    *entry = (struct imatrix_entry){.name = qkv_copy_bytes(m->ctx, name, size),
                                    .values = qkv_allocate(m->ctx, count + 1, sizeof(float)),
                                    .count = count};
    return entry->name && entry->values ? entry : NULL;
}

static enum qkv_status entry_check(const struct qkv_imatrix *m, const struct imatrix_entry *entry) {
    for (size_t i = 0; i < entry->count; i++)
        if (!isfinite(entry->values[i]) || entry->values[i] < 0)
            return qkv_fail(m->ctx, QKV_FORMAT,
                            "%s: the importance of %.*s has a number that is negative or not finite", m->path,
                            qkv_shown_length(entry->name), entry->name);
    return QKV_OK;
}

/* ---- GGUF -------------------------------------------------------------------------------------------------------- */

/* Makes the means of one tensor: sums over counts; a matrix without rows weighs all columns alike. */
static enum qkv_status entry_divide(struct qkv_imatrix *m, const struct qkv_tensors *tensors,
                                    const struct qkv_array *sums, const struct qkv_array *counts, size_t size) {
    const size_t all = qkv_array_elements(sums), matrices = qkv_array_elements(counts);
    if (sums->dtype != QKV_F32 || counts->dtype != QKV_F32 || !matrices || all % matrices)
        return imatrix_damaged(m, "its sums and counts are not f32, or not of one shape");
    float *n = qkv_allocate(m->ctx, matrices, sizeof *n);
    struct imatrix_entry *entry = n ? imatrix_add(m, sums->name, size, all) : NULL;
    enum qkv_status status = entry ? qkv_tensors_floats(tensors, counts, n) : QKV_MEMORY;
    if (!status) status = qkv_tensors_floats(tensors, sums, entry->values);
    for (size_t i = 0; i < all && !status; i++) {
        const float rows = n[i / (all / matrices)];
        entry->values[i] = rows > 0 ? entry->values[i] / rows : 1;
    }
    free(n);
    return status ? status : entry_check(m, entry);
}

static enum qkv_status imatrix_read_gguf(struct qkv_imatrix *m) {
    static const char sums_end[] = ".in_sum2", counts_end[] = ".counts";
    struct qkv_gguf *keys;
    struct qkv_tensors *tensors;
    enum qkv_status status = qkv_gguf_open(m->ctx, m->path, &keys, &tensors);
    for (size_t i = 0; i < qkv_tensors_count(tensors) && !status; i++) {
        const struct qkv_array *sums = qkv_tensors_at(tensors, i);
        const size_t n = strlen(sums->name), end = strlen(sums_end);
        char counts[IMATRIX_NAME_MAX + 16];
        if (n <= end || n > IMATRIX_NAME_MAX || strcmp(sums->name + n - end, sums_end) != 0) continue;
        snprintf(counts, sizeof counts, "%.*s%s", (int)(n - end), sums->name, counts_end);
        const struct qkv_array *rows = qkv_tensors_find(tensors, counts);
        status = rows ? entry_divide(m, tensors, sums, rows, n - end) : imatrix_damaged(m, "sums have no counts");
    }
    if (!status && !m->count) status = imatrix_damaged(m, "it has no tensors NAME.in_sum2");
    qkv_gguf_free(keys);
    qkv_tensors_close(tensors);
    return status;
}

/* ---- the older format -------------------------------------------------------------------------------------------- */

struct imatrix_bytes {
    const unsigned char *data;
    size_t size, at;
};

static bool bytes_take(struct imatrix_bytes *b, void *out, size_t n) {
    if (n > b->size - b->at) return false;
    memcpy(out, b->data + b->at, n);
    b->at += n;
    return true;
}

static enum qkv_status entry_read(struct qkv_imatrix *m, struct imatrix_bytes *b) {
    static const char cut[] = "it ends inside a tensor, or is of another format";
    uint32_t length = 0, calls = 0, count = 0;
    char name[IMATRIX_NAME_MAX];
    if (!bytes_take(b, &length, sizeof length) || !length || length > sizeof name || !bytes_take(b, name, length) ||
        !bytes_take(b, &calls, sizeof calls) || !bytes_take(b, &count, sizeof count) || !count ||
        count > (b->size - b->at) / sizeof(float))
        return imatrix_damaged(m, cut);
    if (memchr(name, 0, length) || qkv_utf8_valid(name, length) < length)
        return imatrix_damaged(m, "the name of a tensor is not UTF-8");
    struct imatrix_entry *entry = imatrix_add(m, name, length, count);
    if (!entry) return QKV_MEMORY;
    bytes_take(b, entry->values, count * sizeof(float));
    for (size_t i = 0; i < count && calls; i++) entry->values[i] /= (float)calls;
    return entry_check(m, entry);
}

static enum qkv_status imatrix_read_bytes(struct qkv_imatrix *m, const struct qkv_map *map) {
    struct imatrix_bytes b = {.data = map->data, .size = map->size};
    uint32_t tensors = 0;
    if (!bytes_take(&b, &tensors, sizeof tensors) || !tensors) return imatrix_damaged(m, "it has no tensors");
    enum qkv_status status = QKV_OK;
    for (uint32_t i = 0; i < tensors && !status; i++) status = entry_read(m, &b);
    return status;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

void qkv_imatrix_free(struct qkv_imatrix *m) {
    if (!m) return;
    for (size_t i = 0; i < m->count; i++) {
        free(m->entries[i].name);
        free(m->entries[i].values);
    }
    free(m->entries);
    free(m->path);
    free(m);
}

enum qkv_status qkv_imatrix_open(struct qkv_context *ctx, const char *path, struct qkv_imatrix **out) {
    struct qkv_imatrix *m = *out = qkv_allocate(ctx, 1, sizeof *m);
    struct qkv_map map;
    if (!m) return QKV_MEMORY;
    *m = (struct qkv_imatrix){.ctx = ctx, .path = qkv_copy_string(ctx, path)};
    enum qkv_status status = m->path ? qkv_read_file(ctx, path, &map) : QKV_MEMORY;
    if (!status) {
        const bool gguf = map.size >= 4 && !memcmp(map.data, "GGUF", 4);
        status = gguf ? imatrix_read_gguf(m) : imatrix_read_bytes(m, &map);
        qkv_unmap_file(&map);
    }
    if (status) {
        qkv_imatrix_free(m);
        *out = NULL;
    }
    return status;
}

enum qkv_status qkv_imatrix_find(const struct qkv_imatrix *m, const char *name, size_t columns, size_t slices,
                                 const float **out) {
    *out = NULL;
    for (size_t i = 0; i < m->count; i++) {
        const struct imatrix_entry *entry = &m->entries[i];
        if (strcmp(entry->name, name) != 0) continue;
        if (entry->count / columns != slices || entry->count % columns)
            return qkv_fail(m->ctx, QKV_SHAPE, "%s: the importance of %s has %zu numbers; the tensor has %zu columns%s",
                            m->path, name, entry->count, columns, slices > 1 ? " for each expert" : "");
        *out = entry->values;
        return QKV_OK;
    }
    return QKV_OK;
}
