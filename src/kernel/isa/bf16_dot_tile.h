/* bf16_dot_tile.h: tiles of 14 × 32 sums in registers, by dot products of words (see bf16_dot.h). */
#ifndef QKV_ISA_BF16_DOT_TILE_H
#define QKV_ISA_BF16_DOT_TILE_H

#define STEP 2
#include "kernel/isa/bf16_dot.h"

enum { MR = 14, RUN = 384 };
_Static_assert(MR <= W, "a panel of A is a vector wide");

/* Packs pairs of `height` lines, the words of a pair adjacent; transposes a square of words at a time. */
QKV_INLINE void pack_a_lines(uint32_t *to, const size_t height, const struct lines *x, size_t m, size_t K,
                             size_t pairs) {
    uint32_t square[W * W];
    for (size_t p = 0; p < pairs; p += W) {
        const size_t here = pairs - p < W ? pairs - p : W;
        struct lines part = *x;
        const size_t size = x->dtype == QKV_BF16 ? sizeof(uint16_t) : sizeof(float);
        part.data = (const char *)x->data + 2 * p * x->k_stride * size;
        pack_pairs(square, W, &part, m, height, K - 2 * p, here);
        for (size_t i = 0; i < here; i++) memcpy(to + (p + i) * height, square + i * W, height * sizeof *to);
    }
}

/* Packs whole squares of MR lines that are contiguous along k, all of whose terms exist. A whole vector writes past the
 * end of a pair; the next pair overwrites that. `halves` is a constant where this is expanded. */
QKV_INLINE void pack_a_squares(uint32_t *to, const bool halves, const struct lines *x, size_t m, size_t pairs) {
    for (size_t p = 0; p < pairs; p += W, to += W * MR) {
        vi r[W];
        QKV_UNROLL
        for (size_t i = 0; i < W; i++) {
            const size_t at = (m + i) * x->line_stride + 2 * p;
            if (i >= MR)
                r[i] = vi_set(0);
            else if (halves)
                r[i] = vi_load_words((const uint16_t *)x->data + at);
            else
                r[i] = rounded_words(vf_load((const float *)x->data + at), vf_load((const float *)x->data + at + W));
        }
        transpose_words(r);
        QKV_UNROLL
        for (size_t i = 0; i + 1 < W; i++) vi_store(to + i * MR, r[i]);
        vf_store_n((float *)(void *)(to + (W - 1) * MR), vf_from_bits(r[W - 1]), MR);
    }
}

/* Packs MR lines that are contiguous along k. */
static void pack_a_along(uint32_t *to, const struct lines *x, size_t m, size_t K, size_t pairs) {
    const size_t size = x->dtype == QKV_BF16 ? sizeof(uint16_t) : sizeof(float), whole = K / (2 * W) * W;
    struct lines rest = *x;
    rest.data = (const char *)x->data + 2 * whole * size;
    if (x->dtype == QKV_BF16)
        pack_a_squares(to, true, x, m, whole);
    else
        pack_a_squares(to, false, x, m, whole);
    pack_a_lines(to + whole * MR, MR, &rest, m, K - 2 * whole, pairs - whole);
}

/* Packs panels of MR lines that are contiguous across: a pair of terms of all lines at a time, as they follow each
 * other in memory. Vectors write past the end of a pair, as above. */
static void pack_a_across(uint32_t *out, size_t all, const struct lines *x, size_t lines, size_t K, size_t pairs) {
    for (size_t p = 0; p < pairs; p++) {
        for (size_t m = 0; m < lines; m += MR) {
            uint32_t *to = out + m * all + p * MR, last[W];
            const vi words = words_across(x, m, MR, 2 * p, K);
            ask_across(x, m, 2 * p + PACK_AHEAD);
            if (p + 1 < pairs) {
                vi_store(to, words);
                continue;
            }
            vi_store(last, words);
            memcpy(to, last, MR * sizeof *to);
        }
    }
}

static void pack_a_at(void *out, size_t all, size_t before, struct qkv_operand a, size_t rows, size_t K, size_t unit) {
    const struct lines x = {a.data, a.dtype, a.row_stride, a.column_stride};
    const size_t pairs = bf16_pairs(K, unit), whole = rows / MR * MR, height = rows - whole;
    uint32_t *to = (uint32_t *)out + before * MR;
    if (x.line_stride == 1) pack_a_across(to, all, &x, whole, K, pairs);
    for (size_t m = 0; m < whole && x.line_stride != 1; m += MR) pack_a_along(to + m * all, &x, m, K, pairs);
    if (height) pack_a_lines((uint32_t *)out + whole * all + before * height, height, &x, whole, K, pairs);
}

static void pack_a(void *out, struct qkv_operand a, size_t rows, size_t K, float *staging) {
    (void)staging;
    pack_a_at(out, bf16_pairs(K, STEP), 0, a, rows, K, STEP);
}

/* The sums of a whole tile stay in registers: earlier groups are added, one after the other. */
QKV_INLINE void tile_out(const size_t rows, vf sum[MR][2], const struct qkv_bf16_out *out, size_t m, size_t n) {
    for (size_t e = 0; e < out->earlier_count; e++) {
        const float *earlier = out->earlier[e] + m * out->earlier_ld + n;
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) {
            QKV_UNROLL
            for (size_t j = 0; j < 2; j++)
                sum[i][j] = vf_add(vf_load(earlier + i * out->earlier_ld + j * W), sum[i][j]);
        }
    }
    float *to = (float *)out->data + m * out->ld + n;
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2; j++) vf_store(to + i * out->ld + j * W, sum[i][j]);
    }
}

QKV_INLINE void tile(const size_t rows, const struct qkv_bf16_block *b, size_t m, size_t n, size_t pairs) {
    vf sum[MR][2];
    const size_t columns = b->columns - n;
    const uint32_t *left = (const uint32_t *)b->a + m * pairs, *right = b->b + n * pairs;
    float sums[MR * NR], *c = b->c ? b->c + m * b->ldc + n : NULL;
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2; j++) sum[i][j] = vf_zero();
    }
    if (b->chain) {
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) {
            QKV_UNROLL
            for (size_t j = 0; j < 2; j++)
                if (columns > j * W) sum[i][j] = vf_load_n(c + i * b->ldc + j * W, columns - j * W);
        }
    }
    for (size_t p = 0; p < pairs; p++) {
        vi b0 = vi_load(right + p * NR), b1 = vi_load(right + p * NR + W);
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) {
            vi a = vi_set(left[p * rows + i]);
            sum[i][0] = dot_words(sum[i][0], a, b0);
            sum[i][1] = dot_words(sum[i][1], a, b1);
        }
    }
    if (rows == MR && columns >= NR && only_groups(&b->out) && (b->chain || !b->resume)) {
        tile_out(rows, sum, &b->out, m, n);
        return;
    }
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2; j++) {
            const size_t here = columns > j * W ? columns - j * W : 0;
            if (b->resume && !b->chain && here) sum[i][j] = vf_add(vf_load_n(c + i * b->ldc + j * W, here), sum[i][j]);
            if (b->out.data)
                vf_store(sums + i * NR + j * W, sum[i][j]);
            else if (here)
                vf_store_n(c + i * b->ldc + j * W, sum[i][j], here);
        }
    }
    if (b->out.data) put_sums(&b->out, m, n, sums, NR, rows, columns < NR ? columns : NR);
}

#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define TILE_DEFINE(rows)                                                                                              \
    static void tile_##rows(const struct qkv_bf16_block *b, size_t m, size_t n, size_t pairs) {                        \
        tile(rows, b, m, n, pairs);                                                                                    \
    }
TILE_HEIGHTS(TILE_DEFINE)
#define TILE_NAME(rows) tile_##rows,
static void (*const tiles[MR])(const struct qkv_bf16_block *, size_t, size_t, size_t) = {TILE_HEIGHTS(TILE_NAME)};

static void block(const struct qkv_bf16_block *b) {
    const size_t pairs = bf16_pairs(b->K, STEP);
    for (size_t n = 0; n < b->columns; n += NR)
        for (size_t m = 0; m < b->rows; m += MR) tiles[(b->rows - m < MR ? b->rows - m : MR) - 1](b, m, n, pairs);
}

/* ---- few rows: each sum is one chain, as in a tile; several panels at a time hide its latency ------------------ */

enum { FEW_MAX = 4 };

QKV_INLINE void few_tile(const size_t rows, const size_t panels, const struct qkv_bf16_few *f, size_t n, size_t pairs) {
    vf sum[FEW_MAX][2 * FEW_MAX];
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2 * panels; j++) sum[i][j] = vf_zero();
    }
    const uint32_t *b = f->b + n * pairs;
    for (size_t p = 0; p < pairs; p++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2 * panels; j++) {
            vi words = vi_load(b + (j / 2 * pairs + p) * NR + j % 2 * W);
            QKV_UNROLL
            for (size_t i = 0; i < rows; i++) {
                const uint32_t *a = (const uint32_t *)(const void *)((const char *)f->a + i * f->lda);
                sum[i][j] = dot_words(sum[i][j], vi_set(a[p]), words);
            }
        }
    }
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2 * panels; j++) {
            if (n + j * W >= f->columns) continue;
            const size_t left = f->columns - n - j * W;
            float *c = f->c + i * f->ldc + n + j * W;
            if (f->resume) sum[i][j] = vf_add(vf_load_n(c, left), sum[i][j]);
            vf_store_n(c, sum[i][j], left);
        }
    }
}

static double peak(size_t iterations) {
    enum { CHAINS = 16 };
    vf sum[CHAINS];
    vi a = vi_set(0x3f803f80u);
    QKV_UNROLL
    for (int i = 0; i < CHAINS; i++) sum[i] = vf_set((float)i);
    for (size_t n = 0; n < iterations; n++) {
        QKV_UNROLL
        for (int i = 0; i < CHAINS; i++) sum[i] = dot_words(sum[i], a, a);
    }
    float all = 0;
    QKV_UNROLL
    for (int i = 0; i < CHAINS; i++) all += vf_first(sum[i]);
    double flops = 4.0 * CHAINS * W * (double)iterations;
    return all < 0 ? -flops : flops;
}

#define UNIT       "bf16 dot products"
#define GROUP      MR
#define NATIVE     true
#define IN_PLACE   false
#define A_SIZE     sizeof(uint16_t)
#define ORDER_STEP STEP
#define ORDER_UNIT STEP

#include "kernel/isa/bf16_few.h"

#endif
