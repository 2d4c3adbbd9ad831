/* types: the table of types. */
#include "type/quantise.h"
#include "type/type_unpack.h"

#include <string.h>

#define TYPE_ROW(number, name) [QKV_##number] = &qkv_type_##name,
const struct qkv_type *const qkv_types[QKV_DTYPE_COUNT] = {QKV_TYPE_LIST(TYPE_ROW)};

enum qkv_dtype qkv_type_number(const struct qkv_type *type) {
    int i = 0;
    while (i < QKV_DTYPE_COUNT && qkv_types[i] != type) i++;
    return (enum qkv_dtype)i;
}

int qkv_type_of_name(const char *name) {
    for (int i = 0; i < QKV_DTYPE_COUNT; i++)
        if (!strcmp(qkv_types[i]->name, name)) return i;
    return -1;
}

int qkv_type_of_safetensors(const char *name) {
    for (int i = 0; i < QKV_DTYPE_COUNT; i++)
        if (qkv_types[i]->safetensors && !strcmp(qkv_types[i]->safetensors, name)) return i;
    return -1;
}

const char *qkv_type_name(enum qkv_dtype dtype) {
    return (size_t)dtype < QKV_DTYPE_COUNT ? qkv_types[dtype]->name : NULL;
}

size_t qkv_type_size(enum qkv_dtype dtype) {
    if ((size_t)dtype >= QKV_DTYPE_COUNT) return 0;
    return qkv_types[dtype]->block == 1 ? qkv_types[dtype]->bytes : 0;
}

bool qkv_type_bytes(const struct qkv_type *type, size_t rows, size_t columns, size_t *bytes) {
    return columns % type->block == 0 && qkv_multiply(rows, columns / type->block, bytes) &&
           qkv_multiply(*bytes, type->bytes, bytes);
}

void qkv_type_floats(const struct qkv_type *type, float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    if (type->to_float) {
        type->to_float(out, in, n);
        return;
    }
    for (size_t i = 0; i < n; i += type->block, block += type->bytes) {
        struct qkv_codes codes;
        type->codes->read(&codes, block);
        type_codes_floats(out + i, &codes, type->block, type->codes->part, type->codes->minimum);
    }
}

void qkv_to_float(float *out, const void *in, enum qkv_dtype dtype, size_t n) {
    if ((size_t)dtype < QKV_DTYPE_COUNT)
        qkv_type_floats(qkv_types[dtype], out, in, n);
    else if (n)
        memset(out, 0, n * sizeof *out);
}

void qkv_from_float(void *out, const float *in, enum qkv_dtype dtype, size_t n) {
    if ((size_t)dtype < QKV_DTYPE_COUNT) qkv_type_quantise(qkv_types[dtype], out, in, n, NULL);
}

void qkv_type_quantise(const struct qkv_type *type, void *out, const float *in, size_t n, const float *importance) {
    if (type->quantiser)
        qkv_quantise(type, out, in, n, importance);
    else
        type->from_float(out, in, n);
}

bool qkv_format_at(size_t i, const char **name, const char **help) {
    for (size_t type = 0; type < QKV_DTYPE_COUNT; type++) {
        if (!qkv_type_is_written(qkv_types[type]) || i--) continue;
        if (name) *name = qkv_types[type]->name;
        if (help) *help = qkv_types[type]->help;
        return true;
    }
    return false;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

size_t qkv_array_elements(const struct qkv_array *array) {
    if (!array) return 0;
    size_t elements = 1;
    for (int i = 0; i < array->rank; i++) qkv_multiply(elements, array->shape[i], &elements);
    return elements;
}

void qkv_array_floats(const struct qkv_array *array, float *out) {
    if (!array || !out) return;
    qkv_to_float(out, array->data, array->dtype, qkv_array_elements(array));
}
