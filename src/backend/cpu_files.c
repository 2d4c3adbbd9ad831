/* cpu_files: steps that take matrices from files whose numbers are in another order, and the step that converts rows
 * for a file. */
#include "backend/cpu_work.h"

#include <math.h>
#include <string.h>

enum { TILE_ROWS = 256, TILE_BYTES = 128 }; /* of a tile that is transposed at a time: a few cache lines each way */

typedef uint16_t eight __attribute__((vector_size(16)));

/* Interleaves one half of two vectors, in pieces of 1, 2 and 4 numbers; h = 0: the lower halves, h = 4: the upper
 * ones. */
#define INTERLEAVE_1(a, b, h) __builtin_shufflevector(a, b, h, h + 8, h + 1, h + 9, h + 2, h + 10, h + 3, h + 11)
#define INTERLEAVE_2(a, b, h) __builtin_shufflevector(a, b, h, h + 1, h + 8, h + 9, h + 2, h + 3, h + 10, h + 11)
#define INTERLEAVE_4(a, b, h) __builtin_shufflevector(a, b, h, h + 1, h + 2, h + 3, h + 8, h + 9, h + 10, h + 11)

#define SQUARE_READ(a, i)  memcpy(&(a), in + (i)*from, sizeof(a))
#define SQUARE_WRITE(a, i) memcpy(out + (i)*to, &(a), sizeof(a))

/* Transposes 8 rows of 8 numbers of 2 bytes, `from` bytes apart, to 8 rows that are `to` bytes apart. */
static void transpose_square(const unsigned char *in, size_t from, unsigned char *out, size_t to) {
    eight a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7;
    SQUARE_READ(a0, 0), SQUARE_READ(a1, 1), SQUARE_READ(a2, 2), SQUARE_READ(a3, 3);
    SQUARE_READ(a4, 4), SQUARE_READ(a5, 5), SQUARE_READ(a6, 6), SQUARE_READ(a7, 7);
    b0 = INTERLEAVE_1(a0, a1, 0), b1 = INTERLEAVE_1(a0, a1, 4), b2 = INTERLEAVE_1(a2, a3, 0),
    b3 = INTERLEAVE_1(a2, a3, 4);
    b4 = INTERLEAVE_1(a4, a5, 0), b5 = INTERLEAVE_1(a4, a5, 4), b6 = INTERLEAVE_1(a6, a7, 0),
    b7 = INTERLEAVE_1(a6, a7, 4);
    a0 = INTERLEAVE_2(b0, b2, 0), a1 = INTERLEAVE_2(b0, b2, 4), a2 = INTERLEAVE_2(b1, b3, 0),
    a3 = INTERLEAVE_2(b1, b3, 4);
    a4 = INTERLEAVE_2(b4, b6, 0), a5 = INTERLEAVE_2(b4, b6, 4), a6 = INTERLEAVE_2(b5, b7, 0),
    a7 = INTERLEAVE_2(b5, b7, 4);
    b0 = INTERLEAVE_4(a0, a4, 0), b1 = INTERLEAVE_4(a0, a4, 4), b2 = INTERLEAVE_4(a1, a5, 0),
    b3 = INTERLEAVE_4(a1, a5, 4);
    b4 = INTERLEAVE_4(a2, a6, 0), b5 = INTERLEAVE_4(a2, a6, 4), b6 = INTERLEAVE_4(a3, a7, 0),
    b7 = INTERLEAVE_4(a3, a7, 4);
    SQUARE_WRITE(b0, 0), SQUARE_WRITE(b1, 1), SQUARE_WRITE(b2, 2), SQUARE_WRITE(b3, 3);
    SQUARE_WRITE(b4, 4), SQUARE_WRITE(b5, 5), SQUARE_WRITE(b6, 6), SQUARE_WRITE(b7, 7);
}

/* Transposes `rows` rows from r on and columns [c, c + columns) into a tile. The loop takes 8 columns through all rows
 * at a time: lines of more columns would evict each other from the cache. */
static void transpose_tile(const struct qkv_step_repack *t, size_t r, size_t rows, size_t c, size_t columns,
                           unsigned char tile[TILE_ROWS][TILE_BYTES]) {
    const size_t width = t->width, stride = t->total * width;
    for (size_t k = 0, m; k < columns; k += m) {
        m = qkv_min(8, columns - k);
        for (size_t i = 0, n; i < rows; i += n) {
            const size_t at = t->places[r + i];
            const unsigned char *in = (const unsigned char *)t->theirs + (c + k) * stride + at * width;
            const bool square = width == 2 && m == 8 && i + 8 <= rows && t->places[r + i + 7] == at + 7;
            n = square ? 8 : 1;
            if (square) transpose_square(in, stride, &tile[i][k * width], TILE_BYTES);
            for (size_t j = 0; j < m && !square; j++) memcpy(&tile[i][(k + j) * width], in + j * stride, width);
        }
    }
}

static void repack_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_repack *t = w->step;
    const unsigned char *theirs = t->theirs;
    unsigned char *ours = t->ours;
    const size_t row = t->columns * t->width, max = TILE_BYTES / t->width;
    unsigned char tile[TILE_ROWS][TILE_BYTES];
    (void)thread;
    if (!t->transposed) {
        for (size_t r = begin; r < end; r++) memcpy(ours + r * row, theirs + t->places[r] * row, row);
        return;
    }
    for (size_t r = begin; r < end; r += TILE_ROWS) {
        const size_t rows = qkv_min(TILE_ROWS, end - r);
        for (size_t c = 0; c < t->columns; c += max) {
            const size_t columns = qkv_min(max, t->columns - c);
            transpose_tile(t, r, rows, c, columns, tile);
            for (size_t i = 0; i < rows; i++) memcpy(ours + (r + i) * row + c * t->width, tile[i], columns * t->width);
        }
    }
}

enum qkv_status qkv_cpu_repack(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_repack *t = call;
    qkv_cpu_ranges(ctx, t->rows, TILE_ROWS, repack_rows, t);
    return QKV_OK;
}

/* ---- MXFP4 ------------------------------------------------------------------------------------------------------- */

enum { BLOCK = 32, BLOCK_BYTES = BLOCK / 2, ROWS_A_PIECE = 64 };

static unsigned join_number(const unsigned char *bytes, size_t k) {
    return k % 2 ? bytes[k / 2] >> 4 : bytes[k / 2] & 15;
}

static void join_rows(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_join_blocks *j = w->step;
    for (size_t r = begin; r < end; r++) {
        const size_t first = j->places[r] * j->blocks;
        for (size_t i = 0; i < j->blocks; i++) {
            const unsigned char *bytes = j->numbers + (first + i) * BLOCK_BYTES;
            unsigned char *out = j->ours + (r * j->blocks + i) * (1 + BLOCK_BYTES);
            *out++ = j->exponents[first + i];
            for (size_t k = 0; k < BLOCK_BYTES; k++)
                out[k] = (unsigned char)(join_number(bytes, k) | join_number(bytes, k + BLOCK / 2) << 4);
        }
    }
}

enum qkv_status qkv_cpu_join_blocks(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_join_blocks *j = call;
    qkv_cpu_ranges(ctx, j->rows, ROWS_A_PIECE, join_rows, j);
    return QKV_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

enum { QUANTISE_PIECE = 1 << 13 }; /* numbers that a thread converts at once */

static enum qkv_quantise_fault quantise_fault(const struct qkv_type *type, const unsigned char *bytes, const float *x,
                                              float *back, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return QKV_QUANTISE_NOT_FINITE;
    qkv_type_floats(type, back, bytes, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(back[i])) return QKV_QUANTISE_TOO_LARGE;
    return QKV_QUANTISE_GOOD;
}

static void quantise_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_quantise *q = w->step;
    const struct qkv_type *type = qkv_types[q->dtype];
    const size_t n = q->columns, bytes = qkv_type_span(q->dtype, n);
    for (size_t r = begin; r < end; r++) {
        unsigned char *out = (unsigned char *)q->out + r * bytes;
        const float *x = q->x + r * n;
        qkv_type_quantise(type, out, x, n, q->importance ? q->importance + (q->first + r) / q->rows_each * n : NULL);
        const enum qkv_quantise_fault fault = quantise_fault(type, out, x, q->scratch + (size_t)thread * n, n);
        if (fault) atomic_store(q->fault, (int)fault);
    }
}

enum qkv_status qkv_cpu_quantise(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_quantise *q = call;
    if (q->columns) qkv_cpu_ranges(ctx, q->rows, QUANTISE_PIECE / q->columns + 1, quantise_rows, q);
    return QKV_OK;
}
