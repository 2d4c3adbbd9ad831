/* Writes the file that gguf_read.c describes. The header is made in memory; the data go to the file as they come. */
#include "io/gguf_write.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/io.h"

enum { GGUF_VERSION = 3, GGUF_RANK = 4, GGUF_ALIGNED = 32 };

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void writer_append(struct qkv_gguf_writer *w, struct qkv_buffer *to, const void *data, size_t size) {
    if (!w->status && size) w->status = qkv_buffer_append(w->ctx, to, data, size);
}

static void writer_u32(struct qkv_gguf_writer *w, struct qkv_buffer *to, uint32_t x) {
    writer_append(w, to, &x, sizeof x);
}

static void writer_u64(struct qkv_gguf_writer *w, struct qkv_buffer *to, uint64_t x) {
    writer_append(w, to, &x, sizeof x);
}

static void writer_text(struct qkv_gguf_writer *w, struct qkv_buffer *to, const char *text, size_t size) {
    if (!w->status && qkv_utf8_valid(text, size) < size)
        w->status = qkv_fail(w->ctx, QKV_ARGUMENT, "%s: \"%.*s\" cannot be written: it is not valid UTF-8", w->path,
                             (int)qkv_utf8_cut(text, qkv_min(size, QKV_SHOWN_MOST)), text);
    writer_u64(w, to, size);
    writer_append(w, to, text, size);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void writer_key(struct qkv_gguf_writer *w, const char *key, enum qkv_gguf_type type) {
    writer_text(w, &w->keys, key, strlen(key));
    writer_u32(w, &w->keys, type);
    w->key_count++;
}

void qkv_gguf_put_u32(struct qkv_gguf_writer *w, const char *key, uint32_t x) {
    writer_key(w, key, QKV_GGUF_U32);
    writer_u32(w, &w->keys, x);
}

void qkv_gguf_put_bool(struct qkv_gguf_writer *w, const char *key, bool x) {
    const unsigned char byte = x;
    writer_key(w, key, QKV_GGUF_BOOL);
    writer_append(w, &w->keys, &byte, 1);
}

void qkv_gguf_put_text(struct qkv_gguf_writer *w, const char *key, const char *text, size_t size) {
    writer_key(w, key, QKV_GGUF_STRING);
    writer_text(w, &w->keys, text, size);
}

void qkv_gguf_put_array(struct qkv_gguf_writer *w, const char *key, enum qkv_gguf_type type, size_t count) {
    writer_key(w, key, QKV_GGUF_ARRAY);
    writer_u32(w, &w->keys, type);
    writer_u64(w, &w->keys, count);
}

void qkv_gguf_add_bytes(struct qkv_gguf_writer *w, const void *data, size_t size) {
    writer_append(w, &w->keys, data, size);
}

void qkv_gguf_add_text(struct qkv_gguf_writer *w, const char *text, size_t size) {
    writer_text(w, &w->keys, text, size);
}

/* The type of a JSON value that is no list. */
static enum qkv_gguf_type writer_type(const json_t *value) {
    const json_int_t x = json_integer_value(value);
    if (json_is_string(value)) return QKV_GGUF_STRING;
    if (json_is_boolean(value)) return QKV_GGUF_BOOL;
    if (json_is_real(value)) return QKV_GGUF_F32;
    return x >= 0 && x <= UINT32_MAX ? QKV_GGUF_U32 : x >= INT32_MIN && x <= INT32_MAX ? QKV_GGUF_I32 : QKV_GGUF_I64;
}

static void writer_add(struct qkv_gguf_writer *w, const json_t *value, enum qkv_gguf_type type) {
    const json_int_t x = json_integer_value(value);
    const float real = (float)json_number_value(value);
    const int32_t small = (int32_t)x;
    const unsigned char flag = json_is_true(value);
    switch (type) {
    case QKV_GGUF_STRING:
        writer_text(w, &w->keys, json_string_value(value), json_string_length(value));
        return;
    case QKV_GGUF_BOOL:
        writer_append(w, &w->keys, &flag, 1);
        return;
    case QKV_GGUF_F32:
        writer_append(w, &w->keys, &real, sizeof real);
        return;
    case QKV_GGUF_U32:
        writer_u32(w, &w->keys, (uint32_t)x);
        return;
    case QKV_GGUF_I32:
        writer_append(w, &w->keys, &small, sizeof small);
        return;
    default:
        writer_u64(w, &w->keys, (uint64_t)x);
    }
}

void qkv_gguf_put_json(struct qkv_gguf_writer *w, const char *key, const json_t *value) {
    const bool array = json_is_array(value);
    const enum qkv_gguf_type type = writer_type(array ? json_array_get(value, 0) : value);
    if (array)
        qkv_gguf_put_array(w, key, type, json_array_size(value));
    else
        writer_key(w, key, type);
    for (size_t i = 0; i < (array ? json_array_size(value) : 1); i++)
        writer_add(w, array ? json_array_get(value, i) : value, type);
}

void qkv_gguf_put_value(struct qkv_gguf_writer *w, const struct qkv_gguf *g, const struct qkv_gguf_value *value) {
    if (value->array)
        qkv_gguf_put_array(w, value->key, value->type, value->count);
    else
        writer_key(w, value->key, value->type);
    writer_append(w, &w->keys, g->header + value->at, value->size);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The bytes up to the next multiple of the alignment. */
static size_t writer_gap(uint64_t bytes) {
    return (size_t)(GGUF_ALIGNED - bytes % GGUF_ALIGNED) % GGUF_ALIGNED;
}

void qkv_gguf_put_tensor(struct qkv_gguf_writer *w, const struct qkv_array *array) {
    const struct qkv_type *type = qkv_types[array->dtype];
    size_t bytes, end;
    if (w->status) return;
    if (type->gguf < 0 || array->rank > GGUF_RANK || !qkv_array_bytes(array, &bytes) ||
        !qkv_add_size((size_t)w->data, bytes, &end) || !qkv_add_size(end, writer_gap(end), &end)) {
        w->status = qkv_fail(w->ctx, QKV_ARGUMENT, "%s: GGUF files cannot have the tensor %s of type %s, %d dimensions",
                             w->path, array->name, type->name, array->rank);
        return;
    }
    writer_text(w, &w->table, array->name, strlen(array->name));
    writer_u32(w, &w->table, (uint32_t)array->rank);
    for (int i = array->rank; i-- > 0;) writer_u64(w, &w->table, array->shape[i]); /* the innermost first */
    writer_u32(w, &w->table, (uint32_t)type->gguf);
    writer_u64(w, &w->table, w->data);
    w->data = end;
    w->tensor_count++;
}

enum qkv_status qkv_gguf_begin_data(struct qkv_gguf_writer *w) {
    static const unsigned char zeros[GGUF_ALIGNED];
    struct qkv_buffer head = {0};
    writer_append(w, &head, "GGUF", 4);
    writer_u32(w, &head, GGUF_VERSION);
    writer_u64(w, &head, w->tensor_count);
    writer_u64(w, &head, w->key_count);
    if (!w->status) w->status = qkv_replace_begin(w->ctx, w->path, &w->replace);
    w->begun = !w->status;
    const size_t gap = writer_gap((uint64_t)head.size + w->keys.size + w->table.size);
    const struct {
        const void *data;
        size_t size;
    } parts[] = {{head.data, head.size}, {w->keys.data, w->keys.size}, {w->table.data, w->table.size}, {zeros, gap}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !w->status; i++)
        if (parts[i].size) w->status = qkv_replace_write(&w->replace, parts[i].data, parts[i].size);
    qkv_buffer_free(&head);
    return w->status;
}

enum qkv_status qkv_gguf_write_data(struct qkv_gguf_writer *w, const void *data, size_t size) {
    if (w->status) return w->status;
    w->status = qkv_replace_write(&w->replace, data, size);
    w->written += size;
    return w->status;
}

enum qkv_status qkv_gguf_end_tensor(struct qkv_gguf_writer *w) {
    static const unsigned char zeros[GGUF_ALIGNED];
    return qkv_gguf_write_data(w, zeros, writer_gap(w->written));
}

enum qkv_status qkv_gguf_commit(struct qkv_gguf_writer *w) {
    if (w->status) return w->status;
    assert(w->begun && w->written == w->data);
    w->begun = false;
    w->status = qkv_replace_commit(&w->replace);
    return w->status;
}

void qkv_gguf_writer_free(struct qkv_gguf_writer *w) {
    if (w->begun) qkv_replace_cancel(&w->replace);
    qkv_buffer_free(&w->keys);
    qkv_buffer_free(&w->table);
    *w = (struct qkv_gguf_writer){0};
}
