/* Repacking: matrices whose rows are in another order in a file than in the model, that is transposed, or mixed with
 * rows of other weights. The copy keeps the file's format, so it needs half the memory and a third of the time of a
 * copy in fp32. */
#include <stdlib.h>
#include <string.h>

#include "io/published_files.h"

enum { TILE_ROWS = 256, TILE_BYTES = 128 }; /* of a tile that is transposed at a time: a few cache lines each way */

struct repack {
    const struct qkv_family_view *view;
    const unsigned char *theirs; /* may be unaligned */
    unsigned char *ours;
    size_t rows, columns, width; /* width: bytes of a number, 2 or 4 */
};

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
static void transpose_tile(const struct repack *t, size_t r, size_t rows, size_t c, size_t columns,
                           unsigned char tile[TILE_ROWS][TILE_BYTES]) {
    const size_t width = t->width, stride = t->view->total * width;
    for (size_t k = 0, m; k < columns; k += m) {
        m = qkv_min(8, columns - k);
        for (size_t i = 0, n; i < rows; i += n) {
            const size_t at = qkv_family_row(t->view, r + i);
            const unsigned char *in = t->theirs + (c + k) * stride + at * width;
            const bool square = width == 2 && m == 8 && i + 8 <= rows && qkv_family_row(t->view, r + i + 7) == at + 7;
            n = square ? 8 : 1;
            if (square) transpose_square(in, stride, &tile[i][k * width], TILE_BYTES);
            for (size_t j = 0; j < m && !square; j++) memcpy(&tile[i][(k + j) * width], in + j * stride, width);
        }
    }
}

static void repack_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct repack *t = argument;
    const size_t row = t->columns * t->width, max = TILE_BYTES / t->width;
    unsigned char tile[TILE_ROWS][TILE_BYTES];
    (void)thread;
    if (!(t->view->flags & QKV_FAMILY_TRANSPOSED)) {
        for (size_t r = begin; r < end; r++)
            memcpy(t->ours + r * row, t->theirs + qkv_family_row(t->view, r) * row, row);
        return;
    }
    for (size_t r = begin; r < end; r += TILE_ROWS) {
        const size_t rows = qkv_min(TILE_ROWS, end - r);
        for (size_t c = 0; c < t->columns; c += max) {
            const size_t columns = qkv_min(max, t->columns - c);
            transpose_tile(t, r, rows, c, columns, tile);
            for (size_t i = 0; i < rows; i++)
                memcpy(t->ours + (r + i) * row + c * t->width, tile[i], columns * t->width);
        }
    }
}

void qkv_published_repack(struct qkv_context *ctx, const struct qkv_family_view *view, const void *theirs, size_t rows,
                          size_t columns, size_t width, void *ours) {
    struct repack t = {view, theirs, ours, rows, columns, width};
    qkv_parallel_range(ctx, rows, TILE_ROWS, repack_rows, &t);
}

bool qkv_published_must_repack(const struct qkv_published_entry *entry, const struct qkv_weight *weight) {
    const enum qkv_dtype dtype = entry->theirs->dtype;
    const size_t numbers = entry->view.total * entry->view.slices * weight->columns; /* of theirs, if shapes agree */
    if (entry->packed) return qkv_weight_has_formats(weight);
    return !entry->direct && qkv_weight_has_formats(weight) && (dtype == QKV_F16 || dtype == QKV_BF16) &&
           entry->theirs->bytes == 2 * numbers;
}

enum qkv_status qkv_published_room(struct qkv_published *p) {
    if (!p->repacked_bytes) return QKV_OK;
    enum qkv_status status = qkv_arena_create(p->ctx, &p->repacked, p->repacked_bytes, "repacked weights");
    for (size_t i = 0; i < p->entry_count && !status; i++) {
        struct qkv_published_entry *e = &p->entries[i];
        if (e->repacked) e->array.data = qkv_arena_take(&p->repacked, e->array.bytes, 1);
        if (e->repacked && !e->array.data) status = QKV_MEMORY;
    }
    return status;
}
