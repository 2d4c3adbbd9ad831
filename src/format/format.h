/* format: how the numbers of stored weights are laid out, a file for each format.
 *
 * Offers the list of formats, and weights as they lie in a file: rows in formats, parts under parts, which products and look-ups
 * read without a copy in fp32. What a format has of its own in the kernel tables (kernel/kernel.h: formats) makes it faster; one
 * that has nothing there is converted by the functions of its file. */
#ifndef QKV_FORMAT_ROOM_H
#define QKV_FORMAT_ROOM_H

#include "base/base.h"

struct qkv_format {
    const char *name; /* "bf16" */
    const char *help;
    enum qkv_dtype dtype; /* the element type of tensor files that holds it */
    size_t block, bytes;  /* numbers a block, at most QKV_FORMAT_BLOCK_MAX, and its bytes; rows are whole blocks */
    /* Of n numbers, a multiple of `block`; `in`, and `out` of from_float, may be unaligned. */
    void (*to_float)(float *out, const void *in, size_t n);
    void (*from_float)(void *out, const float *in, size_t n);
};
enum { QKV_FORMAT_BLOCK_MAX = 256 };

/* Every format: X(name). It is a file, format_NAME.c, and a line here. */
#define QKV_FORMAT_LIST(X)                                                                                             \
    X(f32)                                                                                                             \
    X(f16)                                                                                                             \
    X(bf16)
#define QKV_FORMAT_DECLARE(name) extern const struct qkv_format qkv_format_##name;
QKV_FORMAT_LIST(QKV_FORMAT_DECLARE)
#undef QKV_FORMAT_DECLARE
#define QKV_FORMAT_ENUM(name) QKV_FORMAT_##name,
enum { QKV_FORMAT_LIST(QKV_FORMAT_ENUM) QKV_FORMAT_COUNT };
#undef QKV_FORMAT_ENUM

/* By number. */
extern const struct qkv_format *const qkv_formats[QKV_FORMAT_COUNT];
/* The number of the format that files store as that element type, or -1. */
int qkv_format_of_dtype(enum qkv_dtype dtype);
/* The number of the format with that name, or -1. */
int qkv_format_of_name(const char *name);
/* Bytes of (rows, columns); false where rows are no whole blocks, or too large. */
bool qkv_format_bytes(const struct qkv_format *format, size_t rows, size_t columns, size_t *bytes);

/* A matrix that lies in parts: the rows of part 0, under them those of part 1, and so on. */
struct qkv_stored_part {
    int format;
    const void *data; /* may be unaligned */
    size_t rows;
};
struct qkv_stored {
    const struct qkv_stored_part *parts;
    size_t count, columns;
};

#endif
