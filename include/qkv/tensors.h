/* qkv/tensors.h: tensor files in the format safetensors; a part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_TENSORS_H
#define QKV_PUBLIC_TENSORS_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types of stored tensors; names as in safetensors. */
enum qkv_dtype {
    QKV_F32,
    QKV_F16,
    QKV_BF16,
    QKV_F64,
    QKV_I8,
    QKV_U8,
    QKV_I16,
    QKV_U16,
    QKV_I32,
    QKV_U32,
    QKV_I64,
    QKV_U64,
    QKV_BOOL,
    QKV_F8_E4M3, /* a sign, 4 bits of exponent, 3 of mantissa, no infinities */
    QKV_DTYPE_COUNT
};

/* ---- tensor files: safetensors -------------------------------------------------------------------------------------
 * An 8-byte little-endian header length, a JSON header (name -> dtype, shape, data_offsets; "__metadata__" -> strings),
 * then the data. Reading maps the file and checks everything before it is believed. */

#define QKV_RANK_MAX 8

struct qkv_array { /* a named tensor somewhere in memory, row-major */
    const char *name;
    enum qkv_dtype dtype;
    int rank; /* 0 is a scalar of one element */
    size_t shape[QKV_RANK_MAX];
    const void *data; /* may be unaligned */
    size_t bytes;
};

struct qkv_tensors; /* an opened file */
/* Opens a file and checks everything in it. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tensors_open(struct qkv_context *ctx, const char *path, struct qkv_tensors **out);
/* Closes the file; what it owned is gone. NULL is fine. */
QKV_API void qkv_tensors_close(struct qkv_tensors *tensors);
/* How many tensors the file holds. */
QKV_API size_t qkv_tensors_count(const struct qkv_tensors *tensors);
/* The i-th tensor in the order of the data, or the one called `name`; NULL if there is none. Owned by `tensors`. */
QKV_API const struct qkv_array *qkv_tensors_at(const struct qkv_tensors *tensors, size_t i);
QKV_API const struct qkv_array *qkv_tensors_find(const struct qkv_tensors *tensors, const char *name);
/* A metadata string, NULL if absent. Owned by `tensors`. */
QKV_API const char *qkv_tensors_metadata(const struct qkv_tensors *tensors, const char *key);

/* Writes a file, replacing an old one atomically. Larger elements come first, else the order is kept: this aligns all
 * data. `metadata` is `metadata_count` pairs key, value (NULL if 0). Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_tensors_write(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                          size_t count, const char *const *metadata, size_t metadata_count);
/* Elements of an array: the product of its shape. */
QKV_API size_t qkv_array_elements(const struct qkv_array *array);
/* All elements as floats, converted from any dtype, in row-major order. `out` holds qkv_array_elements floats. */
QKV_API void qkv_array_floats(const struct qkv_array *array, float *out);

#ifdef __cplusplus
}
#endif

#endif
