/* formats: the list of formats. */
#include "format/format.h"

#include <string.h>

#define FORMAT_ROW(name) &qkv_format_##name,
const struct qkv_format *const qkv_formats[QKV_FORMAT_COUNT] = {QKV_FORMAT_LIST(FORMAT_ROW)};

int qkv_format_of_dtype(enum qkv_dtype dtype) {
    for (int i = 0; i < QKV_FORMAT_COUNT; i++)
        if (qkv_formats[i]->dtype == dtype) return i;
    return -1;
}

int qkv_format_of_name(const char *name) {
    for (int i = 0; i < QKV_FORMAT_COUNT; i++)
        if (!strcmp(qkv_formats[i]->name, name)) return i;
    return -1;
}

bool qkv_format_bytes(const struct qkv_format *format, size_t rows, size_t columns, size_t *bytes) {
    return columns % format->block == 0 && qkv_multiply(rows, columns / format->block, bytes) &&
           qkv_multiply(*bytes, format->bytes, bytes);
}

bool qkv_format_at(size_t i, const char **name, const char **help) {
    if (i >= QKV_FORMAT_COUNT) return false;
    if (name) *name = qkv_formats[i]->name;
    if (help) *help = qkv_formats[i]->help;
    return true;
}
