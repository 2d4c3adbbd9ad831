/* Reads a GGUF file of version 2 or 3, which is little-endian:
 *
 *   "GGUF", u32 version, u64 tensors, u64 keys
 *   each key: text, u32 type, value; an array is a u32 type, a u64 count, its elements; a text is a u64 and its bytes
 *   each tensor: text, u32 dimensions, u64 sizes, the innermost first, u32 type, u64 offset
 *   the data, from the next multiple of the alignment on; offsets count from there, and are multiples of it
 *
 * Nothing that the file says is believed before it is checked against the size of the file. The header is copied; only
 * the data is mapped. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/gguf.h"
#include "io/io.h"
#include "io/tensor_file.h"

enum {
    GGUF_HEADER_MOST = 1 << 28,
    GGUF_PIECE = 1 << 16, /* bytes that are read at least */
    GGUF_RANK_MAX = 4,
    GGUF_ALIGNMENT = 32,
    GGUF_TYPE_NAMES = 48
};

/* The names of the types of tensors, by their numbers. */
static const char *const type_names[GGUF_TYPE_NAMES] = {
    [0] = "F32",     [1] = "F16",    [2] = "Q4_0",     [3] = "Q4_1",    [6] = "Q5_0",     [7] = "Q5_1",
    [8] = "Q8_0",    [9] = "Q8_1",   [10] = "Q2_K",    [11] = "Q3_K",   [12] = "Q4_K",    [13] = "Q5_K",
    [14] = "Q6_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
    [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",      [25] = "I16",
    [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",  [30] = "BF16",    [34] = "TQ1_0",
    [35] = "TQ2_0",  [39] = "MXFP4", [40] = "NVFP4",
};
/* Bytes of an element of a value; 0: they differ. */
static const size_t value_bytes[QKV_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* What is known of a tensor before the place of the data is. */
struct gguf_info {
    size_t name; /* in names */
    uint64_t offset;
};
struct gguf_reader {
    struct qkv_context *ctx;
    struct qkv_gguf *g;
    struct qkv_tensors *t;
    size_t at, loaded; /* bytes of g->header */
    struct qkv_buffer keys, names;
    size_t *key_at; /* of each value, in keys */
    struct gguf_info *infos;
    size_t key_capacity, info_capacity, array_capacity, alignment;
};

#define FAIL_GGUF(r, format, ...) qkv_fail((r)->ctx, QKV_FORMAT, "%s: " format, (r)->g->path, __VA_ARGS__)
/* Fails with "PATH: key "KEY": …". */
#define FAIL_KEY(r, key, format, ...)                                                                                  \
    qkv_fail((r)->ctx, QKV_FORMAT, "%s: key \"%.*s\": " format, (r)->g->path, qkv_shown_length(key), key, __VA_ARGS__)

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Loads the header up to n bytes after the place of reading. */
static enum qkv_status gguf_need(struct gguf_reader *r, uint64_t n, const char *what) {
    const size_t left = r->t->file.size - r->at;
    if (n > left)
        return FAIL_GGUF(r, "the file ends inside %s, at %zu bytes: it was cut off, or its header is wrong", what,
                         r->t->file.size);
    if (n > GGUF_HEADER_MOST || r->at + (size_t)n > GGUF_HEADER_MOST)
        return FAIL_GGUF(r, "its header is larger than %d MiB", GGUF_HEADER_MOST >> 20);
    if (r->at + (size_t)n <= r->loaded) return QKV_OK;
    const size_t want = qkv_max(r->at + (size_t)n, 2 * r->loaded + GGUF_PIECE);
    const size_t size = qkv_min(qkv_min(want, GGUF_HEADER_MOST), r->t->file.size);
    unsigned char *grown = qkv_reallocate(r->ctx, r->g->header, size, 1);
    if (!grown) return QKV_MEMORY;
    r->g->header = grown;
    const enum qkv_status status = qkv_file_read(&r->t->file, r->loaded, grown + r->loaded, size - r->loaded);
    if (!status) r->loaded = size;
    return status;
}

static enum qkv_status gguf_take(struct gguf_reader *r, void *out, size_t n, const char *what) {
    const enum qkv_status status = gguf_need(r, n, what);
    if (status) return status;
    memcpy(out, r->g->header + r->at, n);
    r->at += n;
    return QKV_OK;
}

/* Passes a text; *at: its first byte. */
static enum qkv_status gguf_take_text(struct gguf_reader *r, const char *what, size_t *at, size_t *size) {
    uint64_t n;
    enum qkv_status status = gguf_take(r, &n, sizeof n, what);
    if (!status) status = gguf_need(r, n, what);
    if (status) return status;
    *at = r->at;
    *size = (size_t)n;
    r->at += *size;
    return QKV_OK;
}

/* A name, of a key or of a tensor: UTF-8 without NUL, copied to `names`. */
static enum qkv_status gguf_take_name(struct gguf_reader *r, const char *what, struct qkv_buffer *names,
                                      size_t *place) {
    size_t at, size;
    enum qkv_status status = gguf_take_text(r, what, &at, &size);
    if (status) return status;
    const char *text = (const char *)r->g->header + at;
    if (!size || memchr(text, 0, size) || qkv_utf8_valid(text, size) < size)
        return FAIL_GGUF(r, "%s is not a name", what);
    *place = names->size;
    status = qkv_buffer_append(r->ctx, names, text, size);
    return status ? status : qkv_buffer_append(r->ctx, names, "", 1);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static enum qkv_status gguf_texts(struct gguf_reader *r, const char *key, const struct qkv_gguf_value *value) {
    enum qkv_status status = QKV_OK;
    size_t at = 0, size = 0;
    for (size_t i = 0; i < value->count && !status; i++) {
        status = gguf_take_text(r, "a text of its keys", &at, &size);
        if (!status && qkv_utf8_valid((const char *)r->g->header + at, size) < size)
            status = FAIL_KEY(r, key, "text %zu is not UTF-8", i);
    }
    return status;
}

/* Reads the type of an array's elements, and their count, which the bytes that are left bound. */
static enum qkv_status gguf_array(struct gguf_reader *r, const char *key, struct qkv_gguf_value *value) {
    uint32_t type;
    uint64_t count;
    enum qkv_status status = gguf_take(r, &type, sizeof type, "its keys");
    if (!status) status = gguf_take(r, &count, sizeof count, "its keys");
    if (status) return status;
    if (type >= QKV_GGUF_TYPES) return FAIL_KEY(r, key, "type %u of its elements is unknown", type);
    if (type == QKV_GGUF_ARRAY) return FAIL_KEY(r, key, "%s", "arrays of arrays are not supported");
    const size_t least = value_bytes[type] ? value_bytes[type] : sizeof count;
    if (count > (r->t->file.size - r->at) / least)
        return FAIL_KEY(r, key, "it has %llu elements, more than fit into the file", (unsigned long long)count);
    value->type = (enum qkv_gguf_type)type;
    value->count = (size_t)count;
    return QKV_OK;
}

static enum qkv_status gguf_value(struct gguf_reader *r, const char *key, struct qkv_gguf_value *value) {
    uint32_t type;
    enum qkv_status status = gguf_take(r, &type, sizeof type, "its keys");
    if (status) return status;
    if (type >= QKV_GGUF_TYPES) return FAIL_KEY(r, key, "type %u of its value is unknown", type);
    *value = (struct qkv_gguf_value){.type = (enum qkv_gguf_type)type, .count = 1, .array = type == QKV_GGUF_ARRAY};
    if (value->array) status = gguf_array(r, key, value);
    if (status) return status;
    value->at = r->at;
    if (value->type == QKV_GGUF_STRING) {
        status = gguf_texts(r, key, value);
    } else { /* the product is bounded by the file's size */
        status = gguf_need(r, (uint64_t)value->count * value_bytes[value->type], "its keys");
        if (!status) r->at += value->count * value_bytes[value->type];
    }
    value->size = r->at - value->at;
    return status;
}

static enum qkv_status gguf_key(struct gguf_reader *r) {
    struct qkv_gguf *g = r->g;
    struct qkv_gguf_value *values = qkv_list_room(r->ctx, g->values, &g->capacity, g->count, 1, sizeof *values);
    if (!values) return QKV_MEMORY;
    g->values = values;
    size_t *places = qkv_list_room(r->ctx, r->key_at, &r->key_capacity, g->count, 1, sizeof *places);
    if (!places) return QKV_MEMORY;
    r->key_at = places;
    enum qkv_status status = gguf_take_name(r, "a key", &r->keys, &places[g->count]);
    if (!status) status = gguf_value(r, r->keys.data + places[g->count], &values[g->count]);
    g->count++;
    return status;
}

static int gguf_compare_values(const void *a, const void *b) {
    return strcmp(((const struct qkv_gguf_value *)a)->key, ((const struct qkv_gguf_value *)b)->key);
}

/* Sorts the keys, which are all known now, and refuses one that comes twice. */
static enum qkv_status gguf_index(struct gguf_reader *r) {
    struct qkv_gguf *g = r->g;
    g->keys = r->keys.data;
    r->keys = (struct qkv_buffer){0};
    for (size_t i = 0; i < g->count; i++) g->values[i].key = g->keys + r->key_at[i];
    if (g->count) qsort(g->values, g->count, sizeof *g->values, gguf_compare_values);
    for (size_t i = 1; i < g->count; i++)
        if (!strcmp(g->values[i - 1].key, g->values[i].key))
            return FAIL_KEY(r, g->values[i].key, "%s", "it comes twice");
    const struct qkv_gguf_value *value = qkv_gguf_find(g, "general.alignment");
    r->alignment = GGUF_ALIGNMENT;
    if (!value) return QKV_OK;
    const double x = value->array || value->type == QKV_GGUF_STRING ? 0 : qkv_gguf_number(g, value, 0);
    r->alignment = x >= 1 && x <= 1 << 30 ? (size_t)x : 0;
    if (r->alignment && !(r->alignment & (r->alignment - 1)) && (double)r->alignment == x) return QKV_OK;
    return FAIL_KEY(r, value->key, "%s", "it is not a power of two");
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static enum qkv_status gguf_type(const struct gguf_reader *r, const char *name, uint32_t number,
                                 struct qkv_array *array) {
    for (int i = 0; i < QKV_DTYPE_COUNT; i++)
        if (qkv_types[i]->gguf >= 0 && (uint32_t)qkv_types[i]->gguf == number) {
            array->dtype = (enum qkv_dtype)i;
            return QKV_OK;
        }
    if (number < GGUF_TYPE_NAMES && type_names[number])
        return QKV_FAIL_TENSOR(r->ctx, r->t, name, "its type %s is not supported", type_names[number]);
    return QKV_FAIL_TENSOR(r->ctx, r->t, name, "its type %u is unknown", number);
}

/* The sizes are those of a row-major array from the last to the first. */
static enum qkv_status gguf_shape(struct gguf_reader *r, const char *name, struct qkv_array *array) {
    uint32_t rank;
    enum qkv_status status = gguf_take(r, &rank, sizeof rank, "a tensor's entry");
    if (status) return status;
    if (rank > GGUF_RANK_MAX)
        return QKV_FAIL_TENSOR(r->ctx, r->t, name, "it has %u dimensions, more than the %d possible", rank,
                               GGUF_RANK_MAX);
    array->rank = (int)rank;
    for (uint32_t i = rank; i-- > 0 && !status;) {
        uint64_t size = 0;
        status = gguf_take(r, &size, sizeof size, "a tensor's entry");
        if (!status && size > SIZE_MAX)
            status = QKV_FAIL_TENSOR(r->ctx, r->t, name, "%s", "a dimension is larger than any memory");
        array->shape[i] = (size_t)size;
    }
    return status;
}

static enum qkv_status gguf_bytes(const struct gguf_reader *r, const char *name, struct qkv_array *array) {
    const struct qkv_type *type = qkv_types[array->dtype];
    const size_t columns = array->rank ? array->shape[array->rank - 1] : 1;
    char text[QKV_SHAPE_TEXT];
    if (columns % type->block)
        return QKV_FAIL_TENSOR(r->ctx, r->t, name, "its rows of %zu numbers are no whole blocks of %zu (%s)", columns,
                               type->block, type->name);
    if (qkv_array_bytes(array, &array->bytes)) return QKV_OK;
    return QKV_FAIL_TENSOR(r->ctx, r->t, name, "the shape %s is larger than any memory",
                           qkv_shape_text(array->shape, array->rank, text));
}

static enum qkv_status gguf_tensor(struct gguf_reader *r) {
    struct qkv_tensors *t = r->t;
    struct qkv_array *arrays = qkv_list_room(r->ctx, t->arrays, &r->array_capacity, t->count, 1, sizeof *arrays);
    if (!arrays) return QKV_MEMORY;
    t->arrays = arrays;
    struct gguf_info *infos = qkv_list_room(r->ctx, r->infos, &r->info_capacity, t->count, 1, sizeof *infos);
    if (!infos) return QKV_MEMORY;
    r->infos = infos;
    struct qkv_array *array = &arrays[t->count];
    struct gguf_info *info = &infos[t->count];
    uint32_t type = 0;
    *array = (struct qkv_array){0};
    enum qkv_status status = gguf_take_name(r, "a tensor's name", &r->names, &info->name);
    if (status) return status;
    const char *name = r->names.data + info->name;
    status = gguf_shape(r, name, array);
    if (!status) status = gguf_take(r, &type, sizeof type, "a tensor's entry");
    if (!status) status = gguf_take(r, &info->offset, sizeof info->offset, "a tensor's entry");
    if (!status) status = gguf_type(r, name, type, array);
    if (!status) status = gguf_bytes(r, name, array);
    t->count++;
    return status;
}

/* Places a tensor in the data, which begins at byte data_at. */
static enum qkv_status gguf_place(const struct gguf_reader *r, size_t i, size_t data_at) {
    struct qkv_array *array = &r->t->arrays[i];
    const uint64_t offset = r->infos[i].offset;
    const size_t have = data_at < r->t->file.size ? r->t->file.size - data_at : 0;
    array->name = r->t->names + r->infos[i].name;
    if (offset % r->alignment)
        return QKV_FAIL_TENSOR(r->ctx, r->t, array->name, "its offset %llu is not a multiple of the alignment, %zu",
                               (unsigned long long)offset, r->alignment);
    if (offset > have || array->bytes > have - (size_t)offset)
        return QKV_FAIL_TENSOR(r->ctx, r->t, array->name,
                               "its %zu bytes from %llu on end behind the file, which has %zu bytes of data: it was "
                               "cut off",
                               array->bytes, (unsigned long long)offset, have);
    array->data = array->bytes ? r->t->map.data + data_at + offset : r->t->map.data;
    return QKV_OK;
}

static enum qkv_status gguf_check_apart(const struct gguf_reader *r) {
    const struct qkv_tensors *t = r->t;
    for (size_t i = 1; i < t->count; i++) {
        const struct qkv_array *a = &t->arrays[i - 1], *b = &t->arrays[i];
        if (b->bytes && (const unsigned char *)a->data + a->bytes > (const unsigned char *)b->data)
            return QKV_FAIL_TENSOR(r->ctx, t, b->name, "its data overlaps that of \"%.*s\"", qkv_shown_length(a->name),
                                   a->name);
        if (!strcmp(t->by_name[i - 1]->name, t->by_name[i]->name))
            return QKV_FAIL_TENSOR(r->ctx, t, t->by_name[i]->name, "%s", "it comes twice");
    }
    return QKV_OK;
}

static enum qkv_status gguf_place_all(struct gguf_reader *r) {
    struct qkv_tensors *t = r->t;
    const size_t data_at = (r->at + r->alignment - 1) / r->alignment * r->alignment;
    enum qkv_status status = QKV_OK;
    t->names = r->names.data;
    r->names = (struct qkv_buffer){0};
    for (size_t i = 0; i < t->count && !status; i++) status = gguf_place(r, i, data_at);
    if (status) return status;
    t->by_name = qkv_allocate(r->ctx, t->count + 1, sizeof *t->by_name);
    if (!t->by_name) return QKV_MEMORY;
    qkv_tensors_sort(t);
    return gguf_check_apart(r);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static enum qkv_status gguf_begin(struct gguf_reader *r, uint64_t *tensors, uint64_t *keys) {
    char magic[4];
    uint32_t version = 0;
    enum qkv_status status = gguf_take(r, magic, sizeof magic, "its first bytes");
    if (!status && memcmp(magic, "GGUF", sizeof magic))
        return FAIL_GGUF(r, "%s", "this is not a GGUF file: it does not begin with \"GGUF\"");
    if (!status) status = gguf_take(r, &version, sizeof version, "its first bytes");
    if (status) return status;
    if (version && !(version & 0xFFFF))
        return FAIL_GGUF(r, "%s", "it is big-endian; convert it to a little-endian file");
    if (version != 2 && version != 3)
        return FAIL_GGUF(r, "it is of version %u of GGUF; versions 2 and 3 can be read", version);
    status = gguf_take(r, tensors, sizeof *tensors, "its first bytes");
    return status ? status : gguf_take(r, keys, sizeof *keys, "its first bytes");
}

static enum qkv_status gguf_read(struct gguf_reader *r) {
    uint64_t tensors = 0, keys = 0;
    enum qkv_status status = gguf_begin(r, &tensors, &keys);
    for (uint64_t i = 0; i < keys && !status; i++) status = gguf_key(r);
    if (!status) status = gguf_index(r);
    for (uint64_t i = 0; i < tensors && !status; i++) status = gguf_tensor(r);
    return status ? status : gguf_place_all(r);
}

enum qkv_status qkv_gguf_open(struct qkv_context *ctx, const char *path, struct qkv_gguf **keys,
                              struct qkv_tensors **tensors) {
    struct gguf_reader r = {.ctx = ctx, .g = qkv_allocate(ctx, 1, sizeof *r.g)};
    *keys = NULL;
    *tensors = NULL;
    if (r.g) *r.g = (struct qkv_gguf){.ctx = ctx, .path = qkv_copy_string(ctx, path)};
    enum qkv_status status = r.g && r.g->path ? qkv_tensors_begin(ctx, path, &r.t) : QKV_MEMORY;
    if (!status) status = gguf_read(&r);
    qkv_buffer_free(&r.keys);
    qkv_buffer_free(&r.names);
    free(r.key_at);
    free(r.infos);
    if (status) {
        qkv_gguf_free(r.g);
        qkv_tensors_close(r.t);
        return status;
    }
    *keys = r.g;
    *tensors = r.t;
    return QKV_OK;
}
