/* quantise.h: how the types whose blocks share scales choose them.
 *
 * A part is a run of numbers with one scale: a block of 32 numbers, or 16 or 32 numbers of a block of 256. A search
 * finds the line of a part, its scale or its scale and its minimum, that makes the square error of the nearest codes
 * small, each number with a weight. Without importance the weights are x² + emphasis · r, so that the plain error and
 * the one weighted by x² are both small. r is the geometric mean of two numbers: the mean of x² in the block, and the
 * error weighted by x² over the plain one, of a first rounding, which is small if the largest numbers have no error.
 * With importance the weights are it times the root of those, as llama.cpp weighs it too; models lose more by
 * importance alone.
 *
 * Numbers of a block are divided by a power of two first, so that nothing overflows. */
#ifndef QKV_TYPE_QUANTISE_H
#define QKV_TYPE_QUANTISE_H

#include "type/type.h"

enum { QKV_PARTS_MAX = 16, QKV_PART_LANES = 16 /* parts are whole lanes */ };

/* 16 rising values that codes mean, which are not equally far apart: the first one, the steps from one to the next, and
 * the middles between them. */
struct qkv_values {
    float first, step[15], middle[15];
};

enum qkv_minimum {
    QKV_MINIMUM_NONE,     /* x = scale · value */
    QKV_MINIMUM_NEGATIVE, /* x = scale · value + minimum, which is at most 0 */
    QKV_MINIMUM_ANY
};

struct qkv_quantise_block;

/* How a type is quantised. */
struct qkv_quantiser {
    size_t part;                     /* numbers of a part */
    size_t scale;                    /* where a block's scale is, in f16 */
    int low, high;                   /* codes mean the integers low … high */
    const struct qkv_values *values; /* or these values; NULL: integers */
    enum qkv_minimum minimum;
    float emphasis; /* of the plain square error */
    size_t steps;   /* lines that a search begins with, which put the largest number up to `reach` values … */
    float reach;    /* … within the last code and behind it */
    void (*write)(unsigned char *block, struct qkv_quantise_block *b); /* into bytes that are 0 */
};

struct qkv_quantise_block {
    const struct qkv_type *type;
    const struct qkv_quantiser *quantiser; /* of the type */
    float x[QKV_TYPE_BLOCK_MAX], weight[QKV_TYPE_BLOCK_MAX];
    float unit; /* the numbers of the block are x · unit */
    unsigned char code[QKV_TYPE_BLOCK_MAX];
};

/* Quantises n numbers, whole blocks, with the type's quantiser. The scale of a block is NaN if one of its numbers is
 * not finite. `importance` has n numbers, the weights of the square errors, negative ones and NaN counting as 0; NULL:
 * see above. */
void qkv_quantise(const struct qkv_type *type, void *out, const float *in, size_t n, const float *importance);

/* A block of one part: chooses the scale, and the minimum if the type has one, stores them in f16 at `scale` and
 * `minimum`, and sets the codes. */
void qkv_quantise_part(struct qkv_quantise_block *b, unsigned char *scale, unsigned char *minimum);
/* A block of parts with x = d · scales[part] · value: chooses d and the integers scales[part] in [low, high], stores d,
 * and sets the codes. */
void qkv_quantise_scales(struct qkv_quantise_block *b, int low, int high, unsigned char *d, int *scales);
/* The same for x = d · scales[part] · code − dmin · minimums[part], with integers in [0, high]. */
void qkv_quantise_lines(struct qkv_quantise_block *b, int high, unsigned char *d, unsigned char *dmin, int *scales,
                        int *minimums);

#endif
