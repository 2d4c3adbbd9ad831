/* stored: weights as they lie in a file, read into fp32, and cut into the pieces that products pack. */
#include "kernel/product.h"

#include <assert.h>
#include <string.h>

enum {
    PIECE_FLOATS = 8192, /* of a piece: 256 terms of a panel, or 32 terms of 256 columns */
    PIECE_TERMS = 64,    /* terms of a piece, more only where a block has more numbers */
    PIECE_COLUMNS = 128, /* columns of a piece of columns: some lines of cache of each row of weights */
    ROWS_AHEAD = 8       /* rows of such a piece that are prefetched */
};

/* Converts n numbers, whole blocks. */
static void stored_blocks(const struct qkv_kernels *kernels, enum qkv_dtype type, float *out, const void *in,
                          size_t n) {
    const struct qkv_type_kernels *own = &kernels->types[type];
    if (own->to_float)
        own->to_float(out, in, n);
    else
        qkv_type_floats(qkv_types[type], out, in, n);
}

const struct qkv_stored_part *qkv_stored_part_of(const struct qkv_stored *stored, size_t *row) {
    const struct qkv_stored_part *part = stored->parts;
    for (*row += stored->first_row; *row >= part->rows; part++) *row -= part->rows;
    return part;
}

size_t qkv_stored_block(const struct qkv_stored *stored) {
    size_t block = 1;
    for (size_t i = 0; i < stored->count; i++) block = qkv_max(block, qkv_types[stored->parts[i].dtype]->block);
    return block;
}

/* Prefetches n numbers of a row, which will be converted soon. Rows lie pages apart: no processor expects the next. */
static void stored_ask(const struct qkv_stored *stored, size_t row, size_t column, size_t n) {
#if defined(__GNUC__)
    const struct qkv_stored_part *part = qkv_stored_part_of(stored, &row);
    const struct qkv_type *type = qkv_types[part->dtype];
    const unsigned char *in = (const unsigned char *)part->data + row * qkv_type_span(part->dtype, stored->columns) +
                              column / type->block * type->bytes;
    const size_t bytes = qkv_pieces(n, type->block) * type->bytes;
    for (size_t at = 0; at < bytes; at += QKV_CACHE_LINE) __builtin_prefetch(in + at, 0, 2);
#else
    (void)stored, (void)row, (void)column, (void)n;
#endif
}

void qkv_stored_floats(const struct qkv_kernels *kernels, const struct qkv_stored *stored, size_t row, size_t column,
                       size_t n, float *out) {
    const struct qkv_stored_part *part = qkv_stored_part_of(stored, &row);
    const struct qkv_type *type = qkv_types[part->dtype];
    const unsigned char *in = (const unsigned char *)part->data + row * qkv_type_span(part->dtype, stored->columns) +
                              column / type->block * type->bytes;
    size_t skip = column % type->block;
    while (n > 0) {
        const size_t whole = n / type->block * type->block;
        if (!skip && whole) {
            stored_blocks(kernels, part->dtype, out, in, whole);
            in += qkv_type_span(part->dtype, whole);
            out += whole;
            n -= whole;
            continue;
        }
        float block[QKV_TYPE_BLOCK_MAX]; /* the block that the range begins or ends in */
        const size_t some = qkv_min(n, type->block - skip);
        stored_blocks(kernels, part->dtype, block, in, type->block);
        memcpy(out, block + skip, some * sizeof *out);
        in += type->bytes;
        out += some;
        n -= some;
        skip = 0;
    }
}

/* Columns of B are rows of the weights: a piece is a panel over some terms, from one multiple of `unit` terms to the
 * next, and is visited run by run. */
static void stored_rows(const struct qkv_kernels *kernels, const struct qkv_stored *weights,
                        const struct qkv_stored_cut *cut, qkv_stored_visit *visit, void *user) {
    float floats[PIECE_FLOATS];
    const size_t unit = qkv_max(PIECE_TERMS, qkv_stored_block(weights)), end = cut->k + cut->terms;
    for (size_t j = 0; j < cut->columns; j += cut->nr) {
        const size_t width = qkv_min(cut->nr, cut->columns - j);
        for (size_t k = cut->k, stop; k < end; k = stop) {
            stop = qkv_min(k / unit * unit + unit, end);
            const size_t count = stop - k, after = qkv_min(unit, end - stop);
            for (size_t i = 0; i < width; i++) {
                if (after) stored_ask(weights, cut->n + j + i, stop, after);
                qkv_stored_floats(kernels, weights, cut->n + j + i, k, count, floats + i * count);
            }
            for (size_t at = k, next; at < stop; at = next) {
                next = qkv_min(at / cut->run * cut->run + cut->run, stop);
                visit(user, &(struct qkv_stored_piece){.data = {floats + (at - k), 1, count},
                                                       .k = at,
                                                       .n = cut->n + j,
                                                       .terms = next - at,
                                                       .columns = width});
            }
        }
    }
}

/* Columns of B are columns of the weights: a piece is some terms of whole blocks of columns, and is visited panel by
 * panel. */
static void stored_columns(const struct qkv_kernels *kernels, const struct qkv_stored *weights,
                           const struct qkv_stored_cut *cut, qkv_stored_visit *visit, void *user) {
    float floats[PIECE_FLOATS];
    const size_t unit = qkv_max(PIECE_COLUMNS, qkv_stored_block(weights));
    const size_t most = qkv_min(PIECE_TERMS, PIECE_FLOATS / unit), end = cut->k + cut->terms;
    for (size_t j = 0; j < cut->columns; j += unit) {
        const size_t width = qkv_min(unit, cut->columns - j);
        for (size_t k = cut->k, stop; k < end; k = stop) {
            stop = qkv_min(qkv_min(k + most, k / cut->run * cut->run + cut->run), end);
            for (size_t i = k; i < stop; i++) {
                if (i + ROWS_AHEAD < end) stored_ask(weights, i + ROWS_AHEAD, cut->n + j, width);
                qkv_stored_floats(kernels, weights, i, cut->n + j, width, floats + (i - k) * width);
            }
            for (size_t panel = 0; panel < width; panel += cut->nr)
                visit(user, &(struct qkv_stored_piece){.data = {floats + panel, width, 1},
                                                       .k = k,
                                                       .n = cut->n + j + panel,
                                                       .terms = stop - k,
                                                       .columns = qkv_min(cut->nr, width - panel)});
        }
    }
}

void qkv_stored_pieces(const struct qkv_kernels *kernels, struct qkv_stored_operand stored,
                       const struct qkv_stored_cut *cut, qkv_stored_visit *visit, void *user) {
    assert(cut->nr * QKV_TYPE_BLOCK_MAX <= PIECE_FLOATS && PIECE_COLUMNS % cut->nr == 0 && cut->run);
    if (stored.transposed)
        stored_rows(kernels, stored.weights, cut, visit, user);
    else
        stored_columns(kernels, stored.weights, cut, visit, user);
}
