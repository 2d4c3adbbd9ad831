/* qkv/tensors.h: tensor files in the format safetensors; a part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_TENSORS_H
#define QKV_PUBLIC_TENSORS_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Types: how numbers are stored. X(NUMBER, name): a type is a line here, at the end, and a file, src/type/type_NAME.c,
 * which has its sizes, its names in files and its conversions. The list grows at its end. */
#define QKV_TYPE_LIST(X)                                                                                               \
    X(F32, f32)                                                                                                        \
    X(F16, f16)                                                                                                        \
    X(BF16, bf16)                                                                                                      \
    X(F64, f64)                                                                                                        \
    X(I8, i8)                                                                                                          \
    X(U8, u8)                                                                                                          \
    X(I16, i16)                                                                                                        \
    X(U16, u16)                                                                                                        \
    X(I32, i32)                                                                                                        \
    X(U32, u32)                                                                                                        \
    X(I64, i64)                                                                                                        \
    X(U64, u64)                                                                                                        \
    X(BOOL, bool)                                                                                                      \
    X(F8_E4M3, f8_e4m3)                                                                                                \
    X(MXFP4, mxfp4)                                                                                                    \
    X(Q8_0, q8_0)                                                                                                      \
    X(Q4_0, q4_0)                                                                                                      \
    X(Q4_1, q4_1)                                                                                                      \
    X(Q5_0, q5_0)                                                                                                      \
    X(Q5_1, q5_1)                                                                                                      \
    X(Q2_K, q2_K)                                                                                                      \
    X(Q3_K, q3_K)                                                                                                      \
    X(Q4_K, q4_K)                                                                                                      \
    X(Q5_K, q5_K)                                                                                                      \
    X(Q6_K, q6_K)                                                                                                      \
    X(IQ4_NL, iq4_nl)                                                                                                  \
    X(IQ4_XS, iq4_xs)                                                                                                  \
    X(I8_32, i8_32)                                                                                                    \
    X(I8_256, i8_256)
#define QKV_TYPE_NUMBER(number, name) QKV_##number,
enum qkv_dtype { QKV_TYPE_LIST(QKV_TYPE_NUMBER) QKV_DTYPE_COUNT };
#undef QKV_TYPE_NUMBER
/* The name of a type, "bf16"; NULL: there is no such type. */
QKV_API const char *qkv_type_name(enum qkv_dtype dtype);

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
