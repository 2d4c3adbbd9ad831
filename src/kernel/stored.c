/* stored: weights in the format of their file, read into fp32. */
#include "kernel/kernel.h"

#include <string.h>

/* Whole blocks. */
static void stored_blocks(const struct qkv_kernels *kernels, int format, float *out, const void *in, size_t n) {
    const struct qkv_format_kernels *own = &kernels->formats[format];
    if (own->to_float)
        own->to_float(out, in, n);
    else
        qkv_formats[format]->to_float(out, in, n);
}

void qkv_stored_floats(const struct qkv_kernels *kernels, const struct qkv_stored *stored, size_t row, size_t column,
                       size_t n, float *out) {
    const struct qkv_stored_part *part = stored->parts;
    for (; row >= part->rows; part++) row -= part->rows;
    const struct qkv_format *f = qkv_formats[part->format];
    const unsigned char *in =
        (const unsigned char *)part->data + (row * (stored->columns / f->block) + column / f->block) * f->bytes;
    size_t skip = column % f->block;
    while (n > 0) {
        const size_t whole = n / f->block * f->block;
        if (!skip && whole) {
            stored_blocks(kernels, part->format, out, in, whole);
            in += whole / f->block * f->bytes;
            out += whole;
            n -= whole;
            continue;
        }
        float block[QKV_FORMAT_BLOCK_MAX]; /* the block in which the piece begins or ends */
        const size_t some = n < f->block - skip ? n : f->block - skip;
        stored_blocks(kernels, part->format, block, in, f->block);
        memcpy(out, block + skip, some * sizeof *out);
        in += f->bytes;
        out += some;
        n -= some;
        skip = 0;
    }
}
