/* tensor_file: named tensors in an open file, whatever its format. A reader of a format (safetensors.c, gguf_read.c)
 * fills in the list. */
#include "io/tensor_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "base/utf8.h"
#include "io/io.h"

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor files are little-endian and are mapped as they are: this needs a little-endian machine"
#endif

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

const char *qkv_shape_text(const size_t *shape, int rank, char text[QKV_SHAPE_TEXT]) {
    int n = snprintf(text, QKV_SHAPE_TEXT, "(");
    for (int i = 0; i < rank && i < QKV_RANK_MAX; i++) {
        n += snprintf(text + n, (size_t)(QKV_SHAPE_TEXT - n), i ? ", %zu" : "%zu", shape[i]);
    }
    snprintf(text + n, (size_t)(QKV_SHAPE_TEXT - n), ")");
    return text;
}

bool qkv_array_bytes(const struct qkv_array *array, size_t *bytes) {
    size_t positive = 1, rows = 1, ignored;
    for (int i = 0; i < array->rank; i++) {
        const size_t n = array->shape[i];
        if (!qkv_multiply(positive, n ? n : 1, &positive)) return false;
        if (i + 1 < array->rank) rows *= n;
    }
    const struct qkv_type *type = qkv_types[array->dtype];
    const size_t columns = array->rank ? array->shape[array->rank - 1] : 1;
    return qkv_multiply(positive, type->bytes, &ignored) && qkv_type_bytes(type, rows, columns, bytes);
}

int qkv_shown_length(const char *name) {
    return (int)qkv_utf8_cut(name, strnlen(name, QKV_SHOWN_MOST));
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_tensors_begin(struct qkv_context *ctx, const char *path, struct qkv_tensors **out) {
    struct qkv_tensors *t = *out = qkv_allocate(ctx, 1, sizeof *t);
    if (!t) return QKV_MEMORY;
    enum qkv_status status = (t->path = qkv_copy_string(ctx, path)) ? QKV_OK : QKV_MEMORY;
    if (!status) status = qkv_file_open(ctx, t->path, &t->file);
    return status ? status : qkv_file_map(&t->file, &t->map);
}

/* Sorts by begin, then by end: tensors without bytes come before the tensor that begins at the same place. */
static int compare_data(const void *a, const void *b) {
    const struct qkv_array *x = a, *y = b;
    uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    if (p != q) return p < q ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b) {
    const struct qkv_array *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

void qkv_tensors_sort(struct qkv_tensors *t) {
    if (t->count) qsort(t->arrays, t->count, sizeof *t->arrays, compare_data);
    for (size_t i = 0; i < t->count; i++) t->by_name[i] = &t->arrays[i];
    if (t->count) qsort(t->by_name, t->count, sizeof *t->by_name, compare_names);
}

void qkv_tensors_close(struct qkv_tensors *tensors) {
    if (!tensors) return;
    json_decref(tensors->root);
    free(tensors->names);
    free(tensors->arrays);
    free(tensors->by_name);
    free(tensors->path);
    qkv_unmap_file(&tensors->map);
    qkv_file_close(&tensors->file);
    free(tensors);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_tensors_read(const struct qkv_tensors *t, const struct qkv_array *array, size_t first, size_t n,
                                 void *out) {
    const size_t begin = (size_t)((const unsigned char *)array->data - t->map.data);
    return qkv_file_read(&t->file, begin + qkv_type_span(array->dtype, first), out, qkv_type_span(array->dtype, n));
}

enum qkv_status qkv_tensors_part(const struct qkv_tensors *t, const struct qkv_array *array, size_t first, size_t n,
                                 float *out) {
    enum { PIECE = 1 << 13 }; /* bytes */
    if (array->dtype == QKV_F32) return qkv_tensors_read(t, array, first, n, out);
    unsigned char bytes[PIECE];
    const struct qkv_type *type = qkv_types[array->dtype];
    const size_t max = PIECE / type->bytes * type->block;
    enum qkv_status status = QKV_OK;
    for (size_t done = 0, part; done < n && !status; done += part) {
        part = qkv_min(n - done, max);
        status = qkv_tensors_read(t, array, first + done, part, bytes);
        if (!status) qkv_to_float(out + done, bytes, array->dtype, part);
    }
    return status;
}

enum qkv_status qkv_tensors_floats(const struct qkv_tensors *t, const struct qkv_array *array, float *out) {
    return qkv_tensors_part(t, array, 0, qkv_array_elements(array), out);
}

void qkv_tensors_forget(const struct qkv_tensors *t, const struct qkv_array *array) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)array->data / page * page, end = (uintptr_t)array->data + array->bytes;
    assert(t->map.mapped || !array->bytes);                               /* a heap block would lose its numbers */
    if (array->bytes) madvise((void *)begin, end - begin, MADV_DONTNEED); /* a failure only costs memory */
}

enum qkv_status qkv_tensors_check(struct qkv_context *ctx, const struct qkv_tensors *t) {
    return qkv_file_check(ctx, &t->file);
}

const char *qkv_tensors_path(const struct qkv_tensors *t) {
    return t->path;
}

size_t qkv_tensors_count(const struct qkv_tensors *tensors) {
    if (!tensors) return 0;
    return tensors->count;
}

const struct qkv_array *qkv_tensors_at(const struct qkv_tensors *tensors, size_t i) {
    if (!tensors) return NULL;
    return i < tensors->count ? &tensors->arrays[i] : NULL;
}

const struct qkv_array *qkv_tensors_find(const struct qkv_tensors *tensors, const char *name) {
    if (!tensors) return NULL;
    const struct qkv_array wanted = {.name = name}, *key = &wanted;
    if (!name) return NULL;
    const struct qkv_array *const *found =
        bsearch(&key, tensors->by_name, tensors->count, sizeof *tensors->by_name, compare_names);
    return found ? *found : NULL;
}

const char *qkv_tensors_metadata(const struct qkv_tensors *tensors, const char *key) {
    if (!tensors) return NULL;
    const json_t *metadata = json_object_get(tensors->root, QKV_TENSORS_METADATA);
    return key ? json_string_value(json_object_get(metadata, key)) : NULL;
}
