/* Matrices whose rows stand otherwise in a file than with us: along the columns, or those of several weights mixed. Their numbers are
 * put as ours stand, in the format that they have, which half the memory and a third of the time of fp32 are enough for. */
#include <stdlib.h>
#include <string.h>

#include "io/published_files.h"

enum { TILE_ROWS = 128, TILE_BYTES = 128 }; /* what is turned at a time: a few cache lines along both */

struct turn {
    const struct qkv_family_view *view;
    const unsigned char *theirs; /* maybe unaligned */
    unsigned char *ours;
    size_t rows, columns, width; /* bytes of a number: 2 or 4 */
};

/* 4 numbers of 2 bytes from each of 4 rows, `from` bytes apart, become 4 rows of them, `to` bytes apart. */
static void turn_square(const unsigned char *in, size_t from, unsigned char *out, size_t to) {
    const uint64_t pairs = UINT64_C(0x0000FFFF0000FFFF), half = UINT64_C(0x00000000FFFFFFFF);
    uint64_t a[4], t;
    for (size_t i = 0; i < 4; i++) memcpy(&a[i], in + i * from, 8);
    for (size_t i = 0; i < 4; i += 2) {
        t = (a[i] >> 16 ^ a[i + 1]) & pairs;
        a[i + 1] ^= t;
        a[i] ^= t << 16;
    }
    for (size_t i = 0; i < 2; i++) {
        t = (a[i] >> 32 ^ a[i + 2]) & half;
        a[i + 2] ^= t;
        a[i] ^= t << 32;
    }
    for (size_t i = 0; i < 4; i++) memcpy(out + i * to, &a[i], 8);
}

/* Columns [c, c + columns) of `rows` rows from r on, which lie along the columns there, into a tile. */
static void turn_tile(const struct turn *t, size_t r, size_t rows, size_t c, size_t columns,
                      unsigned char tile[TILE_ROWS][TILE_BYTES]) {
    const size_t width = t->width, stride = t->view->total * width;
    for (size_t i = 0, n; i < rows; i += n) {
        const size_t at = qkv_family_row(t->view, r + i);
        const bool four = width == 2 && i + 4 <= rows && qkv_family_row(t->view, r + i + 3) == at + 3;
        const unsigned char *in = t->theirs + c * stride + at * width;
        size_t k = 0;
        n = four ? 4 : 1;
        for (; four && k + 4 <= columns; k += 4) turn_square(in + k * stride, stride, &tile[i][k * 2], TILE_BYTES);
        for (; k < columns; k++)
            for (size_t j = 0; j < n; j++) memcpy(&tile[i + j][k * width], in + k * stride + j * width, width);
    }
}

static void turn_rows(void *argument, size_t begin, size_t end, int thread) {
    const struct turn *t = argument;
    const size_t row = t->columns * t->width, most = TILE_BYTES / t->width;
    unsigned char tile[TILE_ROWS][TILE_BYTES];
    (void)thread;
    if (!(t->view->flags & QKV_FAMILY_TRANSPOSED)) {
        for (size_t r = begin; r < end; r++)
            memcpy(t->ours + r * row, t->theirs + qkv_family_row(t->view, r) * row, row);
        return;
    }
    for (size_t r = begin; r < end; r += TILE_ROWS) {
        const size_t rows = qkv_min(TILE_ROWS, end - r);
        for (size_t c = 0; c < t->columns; c += most) {
            const size_t columns = qkv_min(most, t->columns - c);
            turn_tile(t, r, rows, c, columns, tile);
            for (size_t i = 0; i < rows; i++)
                memcpy(t->ours + (r + i) * row + c * t->width, tile[i], columns * t->width);
        }
    }
}

void qkv_published_turn(struct qkv_context *ctx, const struct qkv_family_view *view, const void *theirs, size_t rows,
                        size_t columns, size_t width, void *ours) {
    struct turn t = {view, theirs, ours, rows, columns, width};
    qkv_parallel_range(ctx, rows, TILE_ROWS, turn_rows, &t);
}

bool qkv_published_turns(const struct qkv_published_entry *entry, const struct qkv_weight *weight) {
    const enum qkv_dtype dtype = entry->theirs->dtype;
    const size_t numbers = entry->view.total * entry->view.slices * weight->columns; /* of a tensor with these rows */
    return !entry->direct && qkv_weight_has_formats(weight) && (dtype == QKV_F16 || dtype == QKV_BF16) &&
           entry->theirs->bytes == 2 * numbers;
}

enum qkv_status qkv_published_room(struct qkv_published *p) {
    if (!p->turned_bytes) return QKV_OK;
    enum qkv_status status =
        qkv_arena_create(p->ctx, &p->turned, p->turned_bytes, "weights that stand otherwise in their file");
    for (size_t i = 0; i < p->entry_count && !status; i++) {
        struct qkv_published_entry *e = &p->entries[i];
        if (e->turned) e->array.data = qkv_arena_take(&p->turned, e->array.bytes, 1);
        if (e->turned && !e->array.data) status = QKV_MEMORY;
    }
    return status;
}
