/* bf16_amx.h: products of bf16 with AMX: a tile holds 16 rows of 64 bytes, and TDPBF16PS adds to 16 × 16 sums the products
 * of 16 rows of 32 terms with 16 columns of them (16 rows of words). Four tiles of sums stand against two of A and two of B, so
 * that each tile that is loaded is used twice.
 *
 * A is packed in groups of 16 rows, tile after tile, zero past the last row; or read where it lies. */
#ifndef QKV_ISA_BF16_AMX_H
#define QKV_ISA_BF16_AMX_H

#define STEP 32
#include "kernel/isa/bf16_dot.h"

enum { MR = 16, RUN = 512, TILE_ROWS = 16, TILE_BYTES = 64, TILE_WORDS = 16 };

/* Eight tiles, the sums and the left operands (0 to 5) of so many rows, the right operands whole. The barrier makes the compiler write all of it before the instruction reads it: gcc 12 believes
 * that _tile_loadconfig reads eight bytes. */
static inline void tiles_begin(size_t rows) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = TILE_BYTES, config.rows[i] = i < 6 ? (uint8_t)rows : TILE_ROWS;
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

static void pack_a_at(void *out, size_t all, size_t before, struct qkv_operand a, size_t rows, size_t K) {
    const struct lines x = {a.data, a.dtype, a.row_stride, a.column_stride};
    const size_t pairs = bf16_pairs(K, STEP);
    for (size_t m = 0; m < rows; m += MR) {
        for (size_t p = 0; p < pairs; p += TILE_WORDS) {
            uint32_t *tile = (uint32_t *)out + m * all + (before + p) * TILE_ROWS;
            vi r[W];
            if (x.k_stride == 1) {
                for (size_t i = 0; i < W; i++) r[i] = m + i < rows ? words_along(&x, m + i, 2 * p, K) : vi_set(0);
            } else {
                for (size_t i = 0; i < W; i++) r[i] = words_across(&x, m, rows - m, 2 * (p + i), K);
                turn_words(r);
            }
            for (size_t i = 0; i < W; i++) vi_store(tile + i * TILE_WORDS, r[i]);
        }
    }
}

static void pack_a(void *out, struct qkv_operand a, size_t rows, size_t K, float *staging) {
    (void)staging;
    pack_a_at(out, bf16_pairs(K, STEP), 0, a, rows, K);
}

struct tile_source { /* the tiles of a group of rows */
    const char *at;
    size_t stride, step; /* bytes between rows, between tiles */
};

static struct tile_source group_at(const struct qkv_bf16_block *b, size_t m, size_t pairs) {
    if (b->rows_in_place && b->rows - m >= MR) {
        const char *at = (const char *)(b->rows_in_place + m * b->lda);
        return (struct tile_source){at, b->lda * sizeof(uint16_t), TILE_BYTES};
    }
    const size_t packed = b->rows_in_place ? 0 : m; /* in place, only the last group is packed */
    const char *at = (const char *)((const uint32_t *)b->a + packed * pairs);
    return (struct tile_source){at, TILE_BYTES, TILE_ROWS * TILE_BYTES};
}

/* Sums of the tiles (i, j), of which `high` × `wide` are used; they begin and end in `sums`, 32 × 32. */
QKV_INLINE void tiles_run(const bool high, const bool wide, struct tile_source a0, struct tile_source a1,
                          const uint32_t *b, size_t pairs, const bool resume, float *sums, size_t ld) {
    const size_t stride = ld * sizeof(float);
    if (resume) {
        _tile_loadd(0, sums, stride);
        if (wide) _tile_loadd(1, sums + 16, stride);
        if (high) _tile_loadd(2, sums + 16 * ld, stride);
        if (high && wide) _tile_loadd(3, sums + 16 * ld + 16, stride);
    } else {
        _tile_zero(0);
        if (wide) _tile_zero(1);
        if (high) _tile_zero(2);
        if (high && wide) _tile_zero(3);
    }
    for (size_t p = 0; p < pairs; p += TILE_WORDS) {
        _tile_loadd(4, a0.at, a0.stride);
        _tile_loadd(6, b + p * NR, NR * sizeof *b);
        _tile_dpbf16ps(0, 4, 6);
        if (wide) {
            _tile_loadd(7, b + p * NR + 16, NR * sizeof *b);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (high) {
            _tile_loadd(5, a1.at, a1.stride);
            _tile_dpbf16ps(2, 5, 6);
            if (wide) _tile_dpbf16ps(3, 5, 7);
        }
        a0.at += a0.step;
        a1.at += a1.step;
    }
    _tile_stored(0, sums, stride);
    if (wide) _tile_stored(1, sums + 16, stride);
    if (high) _tile_stored(2, sums + 16 * ld, stride);
    if (high && wide) _tile_stored(3, sums + 16 * ld + 16, stride);
}

static void tiles_of(bool high, bool wide, struct tile_source a0, struct tile_source a1, const uint32_t *b,
                     size_t pairs, bool resume, float *sums, size_t ld) {
    if (high && wide)
        tiles_run(true, true, a0, a1, b, pairs, resume, sums, ld);
    else if (high)
        tiles_run(true, false, a0, a1, b, pairs, resume, sums, ld);
    else if (wide)
        tiles_run(false, true, a0, a1, b, pairs, resume, sums, ld);
    else
        tiles_run(false, false, a0, a1, b, pairs, resume, sums, ld);
}

static void copy_sums(float *to, size_t ld_to, const float *from, size_t ld_from, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++) memcpy(to + i * ld_to, from + i * ld_from, columns * sizeof *to);
}

/* 32 × 32 sums at most; those at the edges, and those to be finished, go by way of the first cache. */
static void corner(const struct qkv_bf16_block *b, size_t m, size_t n, size_t pairs) {
    const size_t rows = b->rows - m < 2 * MR ? b->rows - m : 2 * MR;
    const size_t columns = b->columns - n < NR ? b->columns - n : NR;
    const bool high = rows > MR, wide = columns > 16, whole = rows == 2 * MR && columns == NR;
    const struct tile_source a0 = group_at(b, m, pairs), a1 = high ? group_at(b, m + MR, pairs) : a0;
    float *c = b->c ? b->c + m * b->ldc + n : NULL;
    if (whole && !b->out.data) {
        tiles_of(true, true, a0, a1, b->b + n * pairs, pairs, b->resume, c, b->ldc);
        return;
    }
    _Alignas(64) float sums[2 * MR * NR];
    if (b->resume) {
        if (!whole) memset(sums, 0, sizeof sums);
        copy_sums(sums, NR, c, b->ldc, rows, columns);
    }
    tiles_of(high, wide, a0, a1, b->b + n * pairs, pairs, b->resume, sums, NR);
    if (b->out.data)
        put_sums(&b->out, m, n, sums, NR, rows, columns);
    else
        copy_sums(c, b->ldc, sums, NR, rows, columns);
}

static void block(const struct qkv_bf16_block *b) {
    const size_t pairs = bf16_pairs(b->K, STEP);
    tiles_begin(TILE_ROWS);
    for (size_t n = 0; n < b->columns; n += NR)
        for (size_t m = 0; m < b->rows; m += 2 * MR) corner(b, m, n, pairs);
    _tile_release();
}

/* ---- few rows: the same sums in tiles of fewer rows ------------------------------------------------------------------ */

/* Two panels, or one, run over once: B streams. */
QKV_INLINE void few_tiles(const bool two, const struct qkv_bf16_few *f, const uint32_t *b, size_t pairs, float *c,
                          size_t ldc) {
    const size_t stride = ldc * sizeof *c;
    if (f->resume) {
        _tile_loadd(0, c, stride);
        _tile_loadd(1, c + 16, stride);
        if (two) _tile_loadd(2, c + 32, stride);
        if (two) _tile_loadd(3, c + 48, stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        if (two) _tile_zero(2);
        if (two) _tile_zero(3);
    }
    const char *a = f->a;
    for (size_t p = 0; p < pairs; p += TILE_WORDS, a += TILE_BYTES) {
        _tile_loadd(4, a, f->lda);
        _tile_loadd(6, b + p * NR, NR * sizeof *b);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + p * NR + 16, NR * sizeof *b);
        _tile_dpbf16ps(1, 4, 7);
        if (!two) continue;
        _tile_loadd(6, b + (pairs + p) * NR, NR * sizeof *b);
        _tile_dpbf16ps(2, 4, 6);
        _tile_loadd(7, b + (pairs + p) * NR + 16, NR * sizeof *b);
        _tile_dpbf16ps(3, 4, 7);
    }
    _tile_stored(0, c, stride);
    _tile_stored(1, c + 16, stride);
    if (two) _tile_stored(2, c + 32, stride);
    if (two) _tile_stored(3, c + 48, stride);
}

static void few(const struct qkv_bf16_few *f) {
    const size_t pairs = bf16_pairs(f->K, STEP);
    tiles_begin(f->rows);
    for (size_t n = 0, width; n < f->columns; n += width) {
        const uint32_t *b = f->b + n * pairs;
        float *c = f->c + n;
        width = f->columns - n < 2 * NR ? f->columns - n : 2 * NR;
        if (width == 2 * NR) {
            few_tiles(true, f, b, pairs, c, f->ldc);
        } else if (width == NR) {
            few_tiles(false, f, b, pairs, c, f->ldc);
        } else {
            _Alignas(64) float sums[FEW * 2 * NR] = {0};
            if (f->resume) copy_sums(sums, 2 * NR, c, f->ldc, f->rows, width);
            if (width > NR)
                few_tiles(true, f, b, pairs, sums, 2 * NR);
            else
                few_tiles(false, f, b, pairs, sums, 2 * NR);
            copy_sums(c, f->ldc, sums, 2 * NR, f->rows, width);
        }
        if (f->out.data) put_sums(&f->out, 0, n, c, f->ldc, f->rows, width);
    }
    _tile_release();
}

static double peak(size_t iterations) {
    tiles_begin(TILE_ROWS);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (size_t n = 0; n < iterations; n++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 4.0 * 2 * 16 * 16 * 32 * (double)iterations;
}

#define UNIT       "amx"
#define NATIVE     true
#define IN_PLACE   true
#define A_SIZE     sizeof(uint16_t)
#define ORDER_STEP STEP
#endif
