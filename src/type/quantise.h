/* quantise.h: how the types whose blocks share scales choose them.
 *
 * A part is a run of numbers with one scale: a block of 32 numbers, or 16 or 32 numbers of a block of 256. A search
 * finds the scale of a part, or its scale and its minimum, that make the square error of the nearest codes small, each
 * number with a weight. The weights of a block are its importance. Without importance they are x² + emphasis · r: r is
 * the error weighted by x² over the plain one, both of a first rounding, so that the search makes both errors small.
 *
 * Numbers of a block are multiplied by a power of two first, so that nothing overflows. */
#ifndef QKV_TYPE_QUANTISE_H
#define QKV_TYPE_QUANTISE_H

#include "type/type.h"

enum { QKV_PARTS_MAX = 16 };

/* The numbers that codes mean before they are scaled: low + code, up to high, or, in rising order, values[code]. */
struct qkv_grid {
    int low, high;
    const signed char *values; /* NULL, or 16 of them */
};

struct qkv_quantise_block {
    const struct qkv_quantiser *quantiser;
    float x[QKV_TYPE_BLOCK_MAX], weight[QKV_TYPE_BLOCK_MAX];
    float unit; /* the numbers of the block are x · unit */
    unsigned char code[QKV_TYPE_BLOCK_MAX];
};

/* How a type is quantised. */
struct qkv_quantiser {
    const struct qkv_type *type;
    size_t part; /* numbers that share a scale */
    struct qkv_grid grid;
    bool minimum;   /* parts have a minimum too: x = scale · code + minimum */
    float emphasis; /* of the plain square error */
    size_t scale;   /* where the block's scale is, in f16 */
    void (*write)(unsigned char *block, struct qkv_quantise_block *b);
};

/* Quantises n numbers, whole blocks. The scale of a block is NaN if one of its numbers is not finite. `importance` has
 * n numbers, the weights of the square errors; NULL: see above. */
void qkv_quantise(const struct qkv_quantiser *quantiser, void *out, const float *in, size_t n, const float *importance);

/* The block is one part: chooses its scale, and the minimum if the type has one, stores them in f16 at `scale` and
 * `minimum`, and sets the codes. */
void qkv_quantise_part(struct qkv_quantise_block *b, unsigned char *scale, unsigned char *minimum);
/* The block has parts, x = d · scales[part] · value: chooses d and the integers scales[part] in [low, high], stores d,
 * and sets the codes. */
void qkv_quantise_scales(struct qkv_quantise_block *b, int low, int high, unsigned char *d, int *scales);
/* The same for x = d · scales[part] · code − dmin · minimums[part], with integers in [0, high]. */
void qkv_quantise_lines(struct qkv_quantise_block *b, int high, unsigned char *d, unsigned char *dmin, int *scales,
                        int *minimums);

#endif
