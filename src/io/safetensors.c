/* safetensors: named tensors in one file (https://github.com/huggingface/safetensors, "Format").
 *
 *   8 bytes    N, the size of the header, little-endian
 *   N bytes    a JSON object, padded with spaces:
 *              {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, …,
 *               "__metadata__": {"KEY": "VALUE", …}}
 *   the rest   the data, row-major and little-endian; offsets count from here. Sorted by BEGIN, every tensor begins
 *              where the one before it ends, and the last ends with the file.
 *
 * This file reads; safetensors_write.c writes. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/io.h"
#include "io/tensor_file.h"

/* ---- element types ----------------------------------------------------------------------------------------------- */

/* Whether the format defines this name of a type that the library cannot read. */
static bool is_foreign_dtype(const char *name) {
    static const char *const names[] = {"F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
                                        "F6_E2M3", "F6_E3M2", "F4",          "C64"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

/* Reads the header: *json of *size bytes, a heap block; the file has at least that many bytes. */
static enum qkv_status read_header(struct qkv_context *ctx, const struct qkv_tensors *t, char **json, size_t *size) {
    if (t->file.size < 8)
        return qkv_fail(ctx, QKV_FORMAT, "%s: %zu bytes are too few for a safetensors file", t->path, t->file.size);
    uint64_t n;
    enum qkv_status status = qkv_file_read(&t->file, 0, &n, sizeof n);
    if (status) return status;
    if (n > QKV_TENSORS_HEADER_MOST)
        return qkv_fail(ctx, QKV_FORMAT, "%s: this is not a safetensors file: its header would have %llu bytes",
                        t->path, (unsigned long long)n);
    if (n > t->file.size - 8)
        return qkv_fail(
            ctx, QKV_FORMAT,
            "%s: the header should have %llu bytes, but the file ends after %zu: it was cut off, or is not a "
            "safetensors file",
            t->path, (unsigned long long)n, t->file.size - 8);
    *size = (size_t)n;
    *json = qkv_allocate(ctx, *size + 1, 1);
    if (!*json) return QKV_MEMORY;
    status = qkv_file_read(&t->file, 8, *json, *size);
    if (status) return status;
    if (**json != '{')
        return qkv_fail(ctx, QKV_FORMAT, "%s: this is not a safetensors file: its header does not start with '{'",
                        t->path);
    return QKV_OK;
}

/* *data_at: the offset of the data in the file. */
static enum qkv_status parse_header(struct qkv_context *ctx, struct qkv_tensors *t, size_t *data_at) {
    char *json = NULL;
    size_t size = 0;
    struct qkv_buffer name = {0};
    enum qkv_status status = read_header(ctx, t, &json, &size);
    *data_at = 8 + size;
    if (!status) status = qkv_buffer_print(ctx, &name, "%s: the header", t->path);
    if (!status) /* it is an object, as it starts with '{' */
        status = qkv_json_load(
            ctx, &(struct qkv_json_text){.name = name.data, .data = json, .size = size, .max_size = size}, &t->root);
    qkv_buffer_free(&name);
    free(json);
    return status;
}

static enum qkv_status check_metadata(struct qkv_context *ctx, const struct qkv_tensors *t, json_t *metadata) {
    if (!json_is_object(metadata))
        return qkv_fail(ctx, QKV_FORMAT, "%s: __metadata__ is not an object of texts", t->path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (json_is_string(value)) continue;
        return qkv_fail(ctx, QKV_FORMAT, "%s: __metadata__: \"%.*s\" is not a text", t->path, qkv_shown_length(key),
                        key);
    }
    return QKV_OK;
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

/* Reads a JSON integer in [0, max]. */
static bool read_size(const json_t *value, size_t max, size_t *out) {
    if (!json_is_integer(value)) return false;
    json_int_t v = json_integer_value(value);
    if (v < 0 || (uintmax_t)v > max) return false;
    *out = (size_t)v;
    return true;
}

static enum qkv_status read_dtype(struct qkv_context *ctx, const struct qkv_tensors *t, struct qkv_array *array,
                                  const json_t *value) {
    const char *name = json_string_value(value);
    if (!name) return QKV_FAIL_TENSOR(ctx, t, array->name, "%s", "dtype is missing or not a text");
    const int type = qkv_type_of_safetensors(name);
    if (type >= 0) array->dtype = (enum qkv_dtype)type;
    if (type >= 0) return QKV_OK;
    if (is_foreign_dtype(name))
        return QKV_FAIL_TENSOR(ctx, t, array->name, "dtype %s is not supported; convert it to F32, F16 or BF16 first",
                               name);
    return QKV_FAIL_TENSOR(ctx, t, array->name, "dtype \"%.*s\" is unknown", qkv_shown_length(name), name);
}

static enum qkv_status read_shape(struct qkv_context *ctx, const struct qkv_tensors *t, struct qkv_array *array,
                                  const json_t *value) {
    if (!json_is_array(value)) return QKV_FAIL_TENSOR(ctx, t, array->name, "%s", "shape is missing or not a list");
    size_t rank = json_array_size(value);
    if (rank > QKV_RANK_MAX)
        return QKV_FAIL_TENSOR(ctx, t, array->name, "it has %zu dimensions, more than the %d supported", rank,
                               QKV_RANK_MAX);
    array->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        if (read_size(json_array_get(value, i), SIZE_MAX, &array->shape[i])) continue;
        return QKV_FAIL_TENSOR(ctx, t, array->name, "shape[%zu] is not a whole number from 0 up", i);
    }
    char text[QKV_SHAPE_TEXT];
    if (!qkv_array_bytes(array, &array->bytes))
        return QKV_FAIL_TENSOR(ctx, t, array->name, "the shape %s is larger than any memory",
                               qkv_shape_text(array->shape, array->rank, text));
    return QKV_OK;
}

static enum qkv_status read_offsets(struct qkv_context *ctx, const struct qkv_tensors *t, struct qkv_array *array,
                                    const json_t *value, const unsigned char *data, size_t data_size) {
    size_t begin, end;
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !read_size(json_array_get(value, 0), SIZE_MAX, &begin) ||
        !read_size(json_array_get(value, 1), SIZE_MAX, &end)) {
        return QKV_FAIL_TENSOR(ctx, t, array->name, "%s", "data_offsets are not two whole numbers from 0 up");
    }
    if (begin > end) return QKV_FAIL_TENSOR(ctx, t, array->name, "data_offsets are reversed: [%zu, %zu]", begin, end);
    if (end > data_size)
        return QKV_FAIL_TENSOR(ctx, t, array->name,
                               "its data ends at %zu, but the file has only %zu bytes of data: it was cut off", end,
                               data_size);
    char text[QKV_SHAPE_TEXT];
    if (end - begin != array->bytes)
        return QKV_FAIL_TENSOR(ctx, t, array->name, "%s of shape %s takes %zu bytes, but its data_offsets hold %zu",
                               qkv_types[array->dtype]->safetensors, qkv_shape_text(array->shape, array->rank, text),
                               array->bytes, end - begin);
    array->data = data + begin;
    return QKV_OK;
}

static enum qkv_status read_tensor(struct qkv_context *ctx, const struct qkv_tensors *t, struct qkv_array *array,
                                   json_t *entry, const unsigned char *data, size_t data_size) {
    if (!json_is_object(entry)) return QKV_FAIL_TENSOR(ctx, t, array->name, "%s", "its entry is not an object");
    const char *key;
    json_t *value;
    json_object_foreach(entry, key, value) { /* an unknown key could change what the data means */
        if (strcmp(key, "dtype") == 0 || strcmp(key, "shape") == 0 || strcmp(key, "data_offsets") == 0) continue;
        return QKV_FAIL_TENSOR(ctx, t, array->name, "its entry has an unknown key \"%.*s\"", qkv_shown_length(key),
                               key);
    }
    enum qkv_status status = read_dtype(ctx, t, array, json_object_get(entry, "dtype"));
    if (!status) status = read_shape(ctx, t, array, json_object_get(entry, "shape"));
    if (!status) {
        status = read_offsets(ctx, t, array, json_object_get(entry, "data_offsets"), data, data_size);
    }
    return status;
}

/* ---- all tensors ------------------------------------------------------------------------------------------------- */

/* Fails if a byte of the data belongs to two tensors or to none. */
static enum qkv_status check_cover(struct qkv_context *ctx, const struct qkv_tensors *t, const unsigned char *data,
                                   size_t data_size) {
    size_t covered = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct qkv_array *array = &t->arrays[i];
        size_t begin = (size_t)((const unsigned char *)array->data - data);
        if (begin < covered) {
            const char *before = t->arrays[i - 1].name;
            return QKV_FAIL_TENSOR(ctx, t, array->name, "its data overlaps that of \"%.*s\"", qkv_shown_length(before),
                                   before);
        }
        if (begin > covered)
            return QKV_FAIL_TENSOR(ctx, t, array->name, "the %zu bytes before its data belong to no tensor",
                                   begin - covered);
        covered += array->bytes;
    }
    if (covered == data_size) return QKV_OK;
    return qkv_fail(ctx, QKV_FORMAT, "%s: the last %zu bytes belong to no tensor", t->path, data_size - covered);
}

static enum qkv_status read_tensors(struct qkv_context *ctx, struct qkv_tensors *t, size_t data_at) {
    const unsigned char *data = t->map.data + data_at;
    size_t data_size = t->map.size - data_at, entries = json_object_size(t->root);
    t->arrays = qkv_allocate(ctx, entries, sizeof *t->arrays);
    t->by_name = qkv_allocate(ctx, entries, sizeof *t->by_name);
    if (!t->arrays || !t->by_name) return QKV_MEMORY;
    const char *name;
    json_t *entry;
    json_object_foreach(t->root, name, entry) {
        enum qkv_status status;
        if (strcmp(name, QKV_TENSORS_METADATA) == 0) {
            status = check_metadata(ctx, t, entry);
        } else {
            struct qkv_array *array = &t->arrays[t->count++];
            array->name = name;
            status = read_tensor(ctx, t, array, entry, data, data_size);
        }
        if (status) return status;
    }
    qkv_tensors_sort(t);
    return check_cover(ctx, t, data, data_size);
}

enum qkv_status qkv_tensors_open(struct qkv_context *ctx, const char *path, struct qkv_tensors **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct qkv_tensors *t;
    enum qkv_status status = qkv_tensors_begin(ctx, path, &t);
    size_t data_at = 0;
    if (!status) status = parse_header(ctx, t, &data_at);
    if (!status) status = read_tensors(ctx, t, data_at);
    if (status) {
        qkv_tensors_close(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}
