/* type: how numbers are stored.
 *
 * Offers one table of types, a file and a line each, which is the only home of their sizes, names and conversions; and
 * stored matrices: rows of types, parts under parts, which products and look-ups read without a copy in fp32. Every
 * other room walks whole blocks and knows no block's inside. A kernel table may have faster conversions and products of
 * its own for a type (kernel/kernel.h: types); the functions here are the reference. */
#ifndef QKV_TYPE_ROOM_H
#define QKV_TYPE_ROOM_H

#include "base/base.h"

enum qkv_type_class {
    QKV_CLASS_REAL,    /* a floating-point number by itself */
    QKV_CLASS_INTEGER, /* integers, and truth values */
    QKV_CLASS_BLOCKS   /* several numbers that share a scale */
};

/* A block as integers: number k is scale · scales[p] · code[k] − minimum · minimums[p], where p is k / part. Every step
 * is rounded to fp32 in to_float: (scale · scales[p]) · code[k] − minimum · minimums[p]. */
enum { QKV_CODES_PARTS = 16 };
struct qkv_codes {
    uint16_t scale, minimum; /* in f16 */
    int16_t scales[QKV_CODES_PARTS], minimums[QKV_CODES_PARTS];
    signed char code[256];
};
/* Types whose blocks are such integers. */
struct qkv_type_codes {
    size_t part;  /* numbers of a part: 16, or 32 */
    bool scales;  /* parts have scales; else the block is one part of 32 numbers, and scales[0] and minimums[0] are 1 */
    bool minimum; /* else it is 0 */
    int bits;     /* code − low takes so many: 4, 5 or 6; or 8, and low is −128 */
    int low;
    void (*read)(struct qkv_codes *out, const unsigned char *block);
};

struct qkv_type {
    const char *name; /* "bf16", in options and tables */
    const char *help;
    const char *safetensors; /* "BF16"; NULL: safetensors files cannot hold it */
    int gguf;                /* its number in GGUF files; -1: they cannot hold it */
    enum qkv_type_class kind;
    /* Numbers a block, a power of two of at most QKV_TYPE_BLOCK_MAX; bytes of a block. Rows are whole blocks. */
    size_t block, bytes;
    /* Products and look-ups read rows of it where they are stored. */
    bool weights;
    /* Convert n numbers, a multiple of `block`; the stored side may be unaligned, and NULL where n is 0. from_float
     * rounds to the nearest number, ties to even; of blocks, it chooses the scales, and one number that is not finite
     * makes all numbers of its block so. to_float NULL: as `codes` says. */
    void (*to_float)(float *out, const void *in, size_t n);
    void (*from_float)(void *out, const float *in, size_t n);
    const struct qkv_type_codes *codes;    /* NULL: blocks are no integers with scales */
    const struct qkv_quantiser *quantiser; /* in place of from_float: a search for the scales (quantise.h) */
};
enum { QKV_TYPE_BLOCK_MAX = 256 };

#define QKV_TYPE_DECLARE(number, name) extern const struct qkv_type qkv_type_##name;
QKV_TYPE_LIST(QKV_TYPE_DECLARE)
#undef QKV_TYPE_DECLARE

/* The types by number (enum qkv_dtype). */
extern const struct qkv_type *const qkv_types[QKV_DTYPE_COUNT];
/* The number of a type of the table. */
enum qkv_dtype qkv_type_number(const struct qkv_type *type);
/* The number of the type with that name, or with that name in safetensors files; -1: there is none. */
int qkv_type_of_name(const char *name);
int qkv_type_of_safetensors(const char *name);
/* Whether weights may be stored in it: reals, and blocks. */
static inline bool qkv_type_is_real(enum qkv_dtype dtype) {
    return qkv_types[dtype]->kind != QKV_CLASS_INTEGER;
}

/* Whether qkv_model_export writes weights in it: a type of weights that safetensors files can hold. */
static inline bool qkv_type_is_written(const struct qkv_type *type) {
    return type->weights && type->safetensors;
}

/* Bytes of one number; of types with blocks of one number alone. 0: no such type. */
size_t qkv_type_size(enum qkv_dtype dtype);
/* Bytes of n numbers, whole blocks, that are stored already: their size is known to fit. */
static inline size_t qkv_type_span(enum qkv_dtype dtype, size_t n) {
    return n / qkv_types[dtype]->block * qkv_types[dtype]->bytes;
}
/* Bytes of (rows, columns); false where rows are no whole blocks, or the bytes are more than a size_t holds. */
bool qkv_type_bytes(const struct qkv_type *type, size_t rows, size_t columns, size_t *bytes);
/* Convert n numbers, whole blocks. What is no type reads as zeros and writes nothing. */
void qkv_to_float(float *out, const void *in, enum qkv_dtype dtype, size_t n);
void qkv_from_float(void *out, const float *in, enum qkv_dtype dtype, size_t n);
void qkv_type_floats(const struct qkv_type *type, float *out, const void *in, size_t n);
/* Converts n numbers, whole blocks, to a type. `importance` has n numbers, the weights of their square errors, as those
 * of the columns of a matrix for one of its rows; NULL: all are the same. Types without a search ignore it. */
void qkv_type_quantise(const struct qkv_type *type, void *out, const float *in, size_t n, const float *importance);

/* A matrix in parts: the rows of part 0, under them those of part 1, and so on. */
struct qkv_stored_part {
    enum qkv_dtype dtype;
    const void *data; /* may be unaligned */
    size_t rows;
};
struct qkv_stored {
    const struct qkv_stored_part *parts;
    size_t count, columns;
    size_t first_row; /* of the parts' rows: row 0 of the matrix */
};

#endif
