/* bf16_amx.h: products of bf16 with AMX: a tile holds 16 rows of 64 bytes, and TDPBF16PS adds to 16 × 16 sums the
 * products of 16 rows of 32 terms with 16 columns of them (16 rows of words). Four tiles hold sums, two hold A and two
 * hold B, so each loaded tile is used twice.
 *
 * A is packed in groups of 16 rows, tile after tile, zero past the last row; or read without packing. */
#ifndef QKV_ISA_BF16_AMX_H
#define QKV_ISA_BF16_AMX_H

#define STEP 32
#include "kernel/isa/bf16_dot.h"

enum { MR = 16, RUN = 512, TILE_ROWS = 16, TILE_BYTES = 64, TILE_WORDS = 16 };

/* Configures eight tiles: sums and left operands (0 to 5) have `rows` rows, operands have `words` words along k. The
 * barrier makes the compiler write the whole configuration before the instruction reads it: gcc 12 believes that
 * _tile_loadconfig reads eight bytes. */
static inline void tiles_begin(size_t rows, size_t words) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = i == 4 || i == 5 ? (uint16_t)(words * sizeof(uint32_t)) : TILE_BYTES;
        config.rows[i] = (uint8_t)(i < 6 ? rows : words);
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

/* Turns columns of words, of which the first 4, or 8, are not 0, into quarters: t[i + j] has, in its quarter q, the
 * words i… of row 4q + j. */
QKV_INLINE void transpose_quarters(vf t[W / 2], const vi r[W], const size_t used) {
    QKV_UNROLL
    for (size_t i = 0; i < W / 2; i += 4) {
        if (i >= used) break;
        vf row[4];
        QKV_UNROLL
        for (size_t j = 0; j < 4; j++) row[j] = vf_from_bits(r[i + j]);
        vf a = _mm512_unpacklo_ps(row[0], row[1]), b = _mm512_unpackhi_ps(row[0], row[1]);
        vf c = _mm512_unpacklo_ps(row[2], row[3]), d = _mm512_unpackhi_ps(row[2], row[3]);
        t[i] = _mm512_shuffle_ps(a, c, 0x44), t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44), t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
}

QKV_INLINE void transpose_first(vi r[W], const size_t used) {
    vf t[W / 2];
    transpose_quarters(t, r, used);
    const vi quarter = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 0, 0, 0, 0, 0, 0, 0, 0);
    QKV_UNROLL
    for (size_t q = 0; q < 4; q++) {
        const vi from = vi_add(quarter, vi_set((uint32_t)(4 * q)));
        QKV_UNROLL
        for (size_t j = 0; j < 4; j++) {
            vf row = used > 4 ? _mm512_maskz_permutex2var_ps(0x00ff, t[j], from, t[4 + j])
                              : _mm512_maskz_permutexvar_ps(0x000f, from, t[j]);
            r[4 * q + j] = vi_from_bits(row);
        }
    }
}

/* Turns columns of words into a tile whose rows have 4 words, or 8. */
QKV_INLINE void transpose_few(float *tile, const vi r[W], const size_t words) {
    vf t[W / 2];
    transpose_quarters(t, r, words);
    QKV_UNROLL
    for (size_t j = 0; j < words / 4; j++) { /* rows that share a vector: 4q … 4q + 3, or 4q + 2j and the next */
        const size_t a = words == 4 ? 0 : 2 * j, b = words == 4 ? 1 : 4 + a, c = words == 4 ? 2 : a + 1,
                     d = b + 1 + (words == 4);
        vf low[2] = {_mm512_shuffle_f32x4(t[a], t[b], 0x44), _mm512_shuffle_f32x4(t[c], t[d], 0x44)};
        vf high[2] = {_mm512_shuffle_f32x4(t[a], t[b], 0xee), _mm512_shuffle_f32x4(t[c], t[d], 0xee)};
        float *to = tile + j * W;
        vf_store(to, _mm512_shuffle_f32x4(low[0], low[1], 0x88));
        vf_store(to + 4 * words, _mm512_shuffle_f32x4(low[0], low[1], 0xdd));
        vf_store(to + 8 * words, _mm512_shuffle_f32x4(high[0], high[1], 0x88));
        vf_store(to + 12 * words, _mm512_shuffle_f32x4(high[0], high[1], 0xdd));
    }
}

/* A part of a matrix that is contiguous across the terms, for one tile: 16 rows from m on, of which `rows` exist, terms
 * from k on. */
struct across {
    const struct lines *x;
    size_t m, rows, k, terms;
};

/* Its words, with zeros after the last term. Prefetches as many terms after them: they are packed when the other rows
 * have been, and the hardware does not predict them. */
QKV_INLINE void across_words(vi r[W], const struct across *t, const size_t words) {
    const struct lines *x = t->x;
    const size_t size = x->dtype == QKV_BF16 ? sizeof(uint16_t) : sizeof(float), stride = x->k_stride * size;
    const uintptr_t next = (uintptr_t)x->data + (t->m + (t->k + t->terms) * x->k_stride) * size;
    QKV_UNROLL
    for (size_t i = 0; i < words; i++) {
        r[i] = 2 * i < t->terms ? words_across(x, t->m, t->rows, t->k + 2 * i, t->k + t->terms) : vi_set(0);
        __builtin_prefetch((const void *)(next + 2 * i * stride), 0, 2);
        __builtin_prefetch((const void *)(next + (2 * i + 1) * stride), 0, 2);
    }
}

/* Packs the tile, transposed, in rows of `wide` words. */
static void pack_transposed(uint32_t *tile, const struct across *t, size_t wide) {
    vi r[W];
    if (wide == 4) {
        across_words(r, t, 4);
        transpose_few((float *)(void *)tile, r, 4);
        return;
    }
    if (wide == 8) {
        across_words(r, t, 8);
        transpose_few((float *)(void *)tile, r, 8);
        return;
    }
    if (t->terms <= 8) {
        across_words(r, t, 4);
        transpose_first(r, 4);
    } else if (t->terms <= 16) {
        across_words(r, t, 8);
        transpose_first(r, 8);
    } else {
        across_words(r, t, W);
        transpose_words(r);
    }
    for (size_t i = 0; i < W; i++) vi_store(tile + i * TILE_WORDS, r[i]);
}

static void pack_a_at(void *out, size_t all, size_t before, struct qkv_operand a, size_t rows, size_t K, size_t unit) {
    const struct lines x = {a.data, a.dtype, a.row_stride, a.column_stride};
    const size_t pairs = bf16_pairs(K, unit), words = unit / 2;
    uint32_t *tiles = (uint32_t *)out + before * TILE_ROWS;
    for (size_t p = 0; p < pairs && x.k_stride != 1; p += words) {
        struct across t = {.x = &x, .k = 2 * p, .terms = K - 2 * p < unit ? K - 2 * p : unit};
        for (; t.m < rows; t.m += MR) {
            t.rows = rows - t.m;
            pack_transposed(tiles + t.m * all + p * TILE_ROWS, &t, words);
        }
    }
    for (size_t m = 0; m < rows && x.k_stride == 1; m += MR) {
        for (size_t p = 0; p < pairs; p += words) {
            const size_t end = K - 2 * p < unit ? K : 2 * p + unit;
            for (size_t i = 0; i < TILE_ROWS; i++) {
                const vi row = m + i < rows ? words_along(&x, m + i, 2 * p, end) : vi_set(0);
                vf_store_n((float *)(void *)(tiles + m * all + p * TILE_ROWS + i * words), vf_from_bits(row), words);
            }
        }
    }
}

static void pack_a(void *out, struct qkv_operand a, size_t rows, size_t K, float *staging) {
    (void)staging;
    pack_a_at(out, bf16_pairs(K, STEP), 0, a, rows, K, STEP);
}

struct tile_source { /* the tiles of a group of rows */
    const char *at;
    size_t stride, step; /* bytes between rows, between tiles */
};

static size_t tile_words(const struct qkv_bf16_block *b) {
    return b->unit ? b->unit / 2 : TILE_WORDS;
}

static struct tile_source group_at(const struct qkv_bf16_block *b, size_t m, size_t pairs) {
    if (b->rows_in_place && b->rows - m >= MR) {
        const char *at = (const char *)(b->rows_in_place + m * b->lda);
        return (struct tile_source){at, b->lda * sizeof(uint16_t), TILE_BYTES};
    }
    const size_t packed = b->rows_in_place ? 0 : m; /* without packing, only the last group is packed */
    const char *at = (const char *)((const uint32_t *)b->a + packed * pairs);
    const size_t bytes = tile_words(b) * sizeof(uint32_t);
    return (struct tile_source){at, bytes, TILE_ROWS * bytes};
}

/* Sums of the tiles (i, j), of which `high` × `wide` are used; they begin and end in `sums`, 32 × 32. */
QKV_INLINE void tiles_run(const bool high, const bool wide, struct tile_source a0, struct tile_source a1,
                          const uint32_t *b, size_t pairs, size_t words, const bool resume, float *sums, size_t ld) {
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
    for (size_t p = 0; p < pairs; p += words) {
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

QKV_INLINE void tiles_of(bool high, bool wide, struct tile_source a0, struct tile_source a1, const uint32_t *b,
                         size_t pairs, size_t words, bool resume, float *sums, size_t ld) {
    if (high && wide)
        tiles_run(true, true, a0, a1, b, pairs, words, resume, sums, ld);
    else if (high)
        tiles_run(true, false, a0, a1, b, pairs, words, resume, sums, ld);
    else if (wide)
        tiles_run(false, true, a0, a1, b, pairs, words, resume, sums, ld);
    else
        tiles_run(false, false, a0, a1, b, pairs, words, resume, sums, ld);
}

static void copy_sums(float *to, size_t ld_to, const float *from, size_t ld_from, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++)
        QKV_EACH(j, m, columns, { vf_store_n(to + i * ld_to + j, vf_load_n(from + i * ld_from + j, m), m); });
}

/* ---- small blocks: the same sums by vectors --------------------------------------------------------------------
 * A load of what a tile has stored, or a tile load of what was just stored, waits some 300 cycles: several times as
 * long as a small product takes. TDPBF16PS adds a row's 16 products of even terms and those of odd terms as two chains
 * of fused multiply-adds from zero, then the two, then to the sum; subnormal numbers are 0 everywhere. Vectors do the
 * same. */

enum { SMALL = 512, SMALL_ROWS = 4, SMALL_VECTORS = 4 }; /* SMALL: maximum of rows × pairs × vectors */
enum { FLUSH = 0x8040 };                                 /* of MXCSR: subnormal inputs and results are 0 */

/* `rows` rows with `vectors` vectors of columns, two a panel; panels are `panel` words apart. */
QKV_INLINE void small_rows(const size_t rows, const size_t vectors, const char *a, size_t stride, size_t step,
                           const uint32_t *b, size_t panel, size_t pairs, bool resume, float *c, size_t ldc) {
    const vi upper = vi_set(0xffff0000u);
    vf sum[SMALL_ROWS][SMALL_VECTORS];
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < vectors; j++) sum[i][j] = resume ? vf_load(c + i * ldc + j * W) : vf_zero();
    }
    for (size_t p0 = 0; p0 < pairs; p0 += TILE_WORDS, a += step) {
        const size_t here = pairs - p0 < TILE_WORDS ? pairs - p0 : TILE_WORDS;
        vf even[SMALL_ROWS][SMALL_VECTORS], odd[SMALL_ROWS][SMALL_VECTORS];
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) {
            QKV_UNROLL
            for (size_t j = 0; j < vectors; j++) even[i][j] = odd[i][j] = vf_zero();
        }
        for (size_t p = 0; p < here; p++) {
            vf right_even[SMALL_VECTORS], right_odd[SMALL_VECTORS];
            QKV_UNROLL
            for (size_t j = 0; j < vectors; j++) {
                const vi words = vi_load(b + j / 2 * panel + (p0 + p) * NR + j % 2 * W);
                right_even[j] = bf16_even(words), right_odd[j] = bf16_odd(words);
            }
            QKV_UNROLL
            for (size_t i = 0; i < rows; i++) {
                uint32_t word;
                memcpy(&word, a + i * stride + p * sizeof word, sizeof word);
                const vi words = vi_set(word);
                const vf left_even = vf_from_bits(vi_shl(words, 16)), left_odd = vf_from_bits(vi_and(words, upper));
                QKV_UNROLL
                for (size_t j = 0; j < vectors; j++) {
                    even[i][j] = vf_fma(left_even, right_even[j], even[i][j]);
                    odd[i][j] = vf_fma(left_odd, right_odd[j], odd[i][j]);
                }
            }
        }
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) {
            QKV_UNROLL
            for (size_t j = 0; j < vectors; j++) sum[i][j] = vf_add(sum[i][j], vf_add(even[i][j], odd[i][j]));
        }
    }
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < vectors; j++) vf_store(c + i * ldc + j * W, sum[i][j]);
    }
}

QKV_INLINE void small_panel(const size_t vectors, const struct qkv_bf16_block *b, size_t rows, const uint32_t *right,
                            size_t all, size_t pairs, float *c) {
    for (size_t m = 0; m < rows; m += MR) {
        const size_t end = rows - m < MR ? rows - m : MR;
        const char *a = (const char *)((const uint32_t *)b->a + m * all);
        size_t stride = TILE_BYTES, step = TILE_ROWS * TILE_BYTES;
        if (b->rows_in_place)
            a = (const char *)(b->rows_in_place + m * b->lda), stride = b->lda * sizeof(uint16_t), step = TILE_BYTES;
        float *to = c + m * b->ldc;
        size_t i = 0;
        for (; i + SMALL_ROWS <= end; i += SMALL_ROWS)
            small_rows(SMALL_ROWS, vectors, a + i * stride, stride, step, right, NR * all, pairs, b->resume,
                       to + i * b->ldc, b->ldc);
        for (; i < end; i++)
            small_rows(1, vectors, a + i * stride, stride, step, right, NR * all, pairs, b->resume, to + i * b->ldc,
                       b->ldc);
    }
}

static size_t small_count(const struct qkv_bf16_block *b) {
    return b->wanted ? b->wanted : b->rows;
}

static bool small_is(const struct qkv_bf16_block *b) {
    return !b->unit && b->columns % W == 0 && !b->out.data &&
           small_count(b) * ((b->K + 1) / 2) * (b->columns / W) <= SMALL;
}

static void small_block(const struct qkv_bf16_block *b) {
    const size_t rows = small_count(b), pairs = (b->K + 1) / 2, all = bf16_pairs(b->K, STEP);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | FLUSH);
    size_t n = 0;
    /* A single row has two chains a vector: two panels hide the latency of an addition. */
    for (; rows == 1 && b->columns - n >= 2 * NR; n += 2 * NR)
        small_panel(4, b, 1, b->b + n * all, all, pairs, b->c + n);
    for (; n < b->columns; n += NR) {
        if (b->columns - n > W)
            small_panel(2, b, rows, b->b + n * all, all, pairs, b->c + n);
        else
            small_panel(1, b, rows, b->b + n * all, all, pairs, b->c + n);
    }
    _mm_setcsr(before);
}

/* ---- blocks ---------------------------------------------------------------------------------------------------- */

/* At most 32 × 32 sums. Those that fill no tile, and those that need an epilogue, are stored in `apart` first, in the
 * first cache. */
struct corner {
    const struct qkv_bf16_block *block;
    size_t m, n, rows, columns;
    bool whole, direct;
    float *apart;
};

static struct corner corner_at(const struct qkv_bf16_block *b, size_t m, size_t n, float *apart) {
    struct corner x = {.block = b, .m = m, .n = n, .apart = apart};
    x.rows = b->rows - m < 2 * MR ? b->rows - m : 2 * MR;
    x.columns = b->columns - n < NR ? b->columns - n : NR;
    x.whole = x.rows % MR == 0 && x.columns % 16 == 0;
    x.direct = x.whole && !b->out.data;
    return x;
}

static void corner_run(const struct corner *x) {
    const struct qkv_bf16_block *b = x->block;
    const size_t pairs = bf16_pairs(b->K, b->unit ? b->unit : STEP);
    const bool high = x->rows > MR, wide = x->columns > 16;
    const struct tile_source a0 = group_at(b, x->m, pairs), a1 = high ? group_at(b, x->m + MR, pairs) : a0;
    float *c = b->c ? b->c + x->m * b->ldc + x->n : NULL, *sums = x->direct ? c : x->apart;
    const size_t ld = x->direct ? b->ldc : NR;
    if (!x->direct && b->resume) {
        if (!x->whole) memset(sums, 0, 2 * MR * NR * sizeof *sums);
        copy_sums(sums, NR, c, b->ldc, x->rows, x->columns);
    }
    tiles_of(high, wide, a0, a1, b->b + x->n * pairs, pairs, tile_words(b), b->resume, sums, ld);
}

static void corner_finish(const struct corner *x) {
    const struct qkv_bf16_block *b = x->block;
    if (!b || x->direct) return;
    if (b->out.data)
        put_sums(&b->out, x->m, x->n, x->apart, NR, x->rows, x->columns);
    else
        copy_sums(b->c + x->m * b->ldc + x->n, b->ldc, x->apart, NR, x->rows, x->columns);
}

/* The sums that tiles have stored are finished while the next tiles are computed, also those of the next block (see
 * above); but not if the next ones are of the same corner: they may resume its sums, or overwrite what it has not
 * finished. */
static void blocks(const struct qkv_bf16_block *list, size_t count) {
    _Alignas(64) float apart[2][2 * MR * NR];
    struct corner before = {0};
    size_t turn = 0;
    for (const struct qkv_bf16_block *b = list; b < list + count; b++) {
        if (small_is(b)) {
            corner_finish(&before);
            before = (struct corner){0};
            small_block(b);
            continue;
        }
        for (size_t n = 0; n < b->columns; n += NR) {
            for (size_t m = 0; m < b->rows; m += 2 * MR) {
                const struct corner x = corner_at(b, m, n, apart[turn]);
                const bool same = before.m == m && before.n == n;
                if (same) corner_finish(&before);
                corner_run(&x);
                if (!same) corner_finish(&before);
                before = x, turn ^= 1;
            }
        }
    }
    corner_finish(&before);
}

static void block(const struct qkv_bf16_block *b) {
    blocks(b, 1);
}

static void enter(size_t unit) {
    tiles_begin(TILE_ROWS, unit ? unit / 2 : TILE_WORDS);
}
static void leave(void) {
    _tile_release();
}

/* ---- few rows: the same sums in tiles of fewer rows ------------------------------------------------------------ */

/* One pass over two panels, or one: B streams. */
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
    tiles_begin(f->rows, TILE_WORDS);
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
    tiles_begin(TILE_ROWS, TILE_WORDS);
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
#define GROUP      (2 * MR)
#define NATIVE     true
#define IN_PLACE   true
#define A_SIZE     sizeof(uint16_t)
#define ORDER_STEP STEP
#define ORDER_UNIT 8
#endif
