/* qkv/tensors.h: tensor files in the format safetensors; a part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_TENSORS_H
#define QKV_PUBLIC_TENSORS_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types of the elements of stored tensors, with the names of safetensors. */
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
    QKV_F8_E4M3, /* 1 bit of sign, 4 of exponent, 3 of mantissa, no infinities */
    QKV_DTYPE_COUNT
};

/* ---- tensor files: safetensors -------------------------------------------------------------------------------------
 * A file is an 8-byte little-endian length of the header, a JSON header (name -> dtype, shape, data_offsets;
 * "__metadata__" -> strings), then the data. Opening maps the file and checks everything in it before use. */

#define QKV_RANK_MAX 8

struct qkv_array { /* a named tensor in memory, row-major */
    const char *name;
    enum qkv_dtype dtype;
    int rank; /* 0: a scalar, one element */
    size_t shape[QKV_RANK_MAX];
    const void *data; /* may be unaligned */
    size_t bytes;
};

struct qkv_tensors; /* an opened file */
/* Opens a file and checks everything in it. *out is the caller's, closed with qkv_tensors_close. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tensors_open(struct qkv_context *ctx, const char *path, struct qkv_tensors **out);
/* Closes the file; its tensors and metadata are no longer valid. NULL is allowed. */
QKV_API void qkv_tensors_close(struct qkv_tensors *tensors);
/* The number of tensors in the file. */
QKV_API size_t qkv_tensors_count(const struct qkv_tensors *tensors);
/* The i-th tensor in the order of the data, or the tensor called `name`; NULL if there is none. Owned by `tensors`. */
QKV_API const struct qkv_array *qkv_tensors_at(const struct qkv_tensors *tensors, size_t i);
QKV_API const struct qkv_array *qkv_tensors_find(const struct qkv_tensors *tensors, const char *name);
/* The metadata string of a key; NULL if there is none. Owned by `tensors`. */
QKV_API const char *qkv_tensors_metadata(const struct qkv_tensors *tensors, const char *key);

/* Writes a file, replacing an existing one atomically. Tensors with larger elements come first, others in the given
 * order, so that all data is aligned. `metadata` is metadata_count pairs of key and value; NULL if the count is 0.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_tensors_write(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                          size_t count, const char *const *metadata, size_t metadata_count);
/* The number of elements of an array: the product of its shape. */
QKV_API size_t qkv_array_elements(const struct qkv_array *array);
/* Writes all elements as floats, converted from any dtype, in row-major order. `out` has room for qkv_array_elements
 * floats. */
QKV_API void qkv_array_floats(const struct qkv_array *array, float *out);

#ifdef __cplusplus
}
#endif

#endif
