/* bf16_widened.h: products of bf16 on a machine without instructions for them: numbers are rounded to bf16 when they
 * are packed, and multiplied and added as fp32 by the tiles of gemm_tiles.c. A product of two bf16 is exact in fp32, so
 * the results differ from those of a machine with bf16 only in the order and rounding of the sums. */
#ifndef QKV_ISA_BF16_WIDENED_H
#define QKV_ISA_BF16_WIDENED_H

#include "kernel/isa/bf16_pack.h"
#include "kernel/isa/gemm.h"
#include "kernel/isa/isa.h"

enum { RUN = QKV_BF16_RUN, FEW = 8 };
enum { MR = QKV_TILE_MR, NR = QKV_TILE_NV * W };

static void pack_b(uint32_t *out, struct qkv_operand b, size_t K, size_t columns) {
    pack_b_panels(out, NR, 2, bf16_pairs(K, 2), 0, b, K, columns);
}

static void pack_b_at(uint32_t *out, size_t pairs, size_t before, struct qkv_operand b, size_t K, size_t columns,
                      size_t unit) {
    (void)unit;
    pack_b_panels(out, NR, 2, pairs, before, b, K, columns);
}

static void round_floats(float *x, size_t n) {
    QKV_EACH(i, m, n, { vf_store_n(x + i, rounded(vf_load_n(x + i, m)), m); });
}

/* Widens bf16 in its own layout, then packs it as fp32. */
static void pack_a(void *out, struct qkv_operand a, size_t rows, size_t K, float *staging) {
    struct qkv_matrix wide = {a.data, a.row_stride, a.column_stride};
    const bool along = a.column_stride == 1;
    if (a.dtype == QKV_BF16) {
        const size_t lines = along ? rows : K, length = along ? K : rows,
                     stride = along ? a.row_stride : a.column_stride;
        for (size_t i = 0; i < lines; i++) {
            const uint16_t *from = (const uint16_t *)a.data + i * stride;
            QKV_EACH(j, m, length, { vf_store_n(staging + i * length + j, load_bf16(from + j, m), m); });
        }
        wide = (struct qkv_matrix){staging, along ? K : 1, along ? 1 : rows};
    }
    QKV_K(gemm_kernels).pack_a(out, wide, rows, K, MR);
    if (a.dtype != QKV_BF16) round_floats(out, rows * K);
}

/* For fp32 only. */
static void pack_a_at(void *out, size_t pairs, size_t before, struct qkv_operand a, size_t rows, size_t K,
                      size_t unit) {
    (void)pairs, (void)before, (void)unit;
    pack_a(out, a, rows, K, NULL);
}

static void block(const struct qkv_bf16_block *b) {
    float panel[RUN * NR];
    const float *earlier[QKV_ORDER_LEVELS];
    const bool here = only_groups(&b->out) && b->out.data == b->c && b->out.ld == b->ldc;
    const size_t pairs = bf16_pairs(b->K, 2);
    for (size_t n = 0; n < b->columns; n += NR) {
        const uint32_t *words = b->b + n * pairs;
        const size_t columns = b->columns - n < NR ? b->columns - n : NR;
        for (size_t p = 0; p < pairs; p++) {
            QKV_UNROLL
            for (size_t j = 0; j < NR; j += W) {
                vi pair = vi_load(words + p * NR + j);
                vf_store(panel + 2 * p * NR + j, bf16_even(pair));
                vf_store(panel + (2 * p + 1) * NR + j, bf16_odd(pair));
            }
        }
        for (size_t e = 0; e < b->out.earlier_count; e++) earlier[e] = b->out.earlier[e] + n;
        const struct qkv_gemm_block tiles = {.rows = b->rows,
                                             .columns = columns,
                                             .K = b->K,
                                             .a = b->a,
                                             .height = MR,
                                             .b = panel,
                                             .c = b->c + n,
                                             .ldc = b->ldc,
                                             .resume = b->resume && !b->chain,
                                             .chain = b->chain,
                                             .earlier_count = here ? b->out.earlier_count : 0,
                                             .earlier = earlier,
                                             .earlier_ld = b->out.earlier_ld};
        QKV_K(gemm_kernels).block(&tiles);
        if (b->out.data && !here) put_sums(&b->out, 0, n, b->c + n, b->ldc, b->rows, columns);
    }
}

static void few_a(void *out, struct qkv_operand row, size_t K) {
    const struct lines x = {row.data, row.dtype, 0, row.column_stride};
    float *to = out;
    QKV_EACH(k, m, K, { vf_store_n(to + k, rounded(read_line(&x, k, m)), m); });
    if (K % 2) to[K] = 0;
}

enum { FEW_MAX = 2 };

/* `rows` rows with `panels` panels at a time: each sum is one chain, as in a tile of gemm_tiles.c. */
QKV_INLINE void few_tile(const size_t rows, const size_t panels, const struct qkv_bf16_few *f, size_t n, size_t pairs) {
    enum { WIDE = NR / W };
    vf sum[FEW_MAX][4 * WIDE];
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < panels * WIDE; j++) sum[i][j] = vf_zero();
    }
    const uint32_t *b = f->b + n * pairs;
    for (size_t p = 0; p < pairs; p++) {
        const bool both = 2 * p + 1 < f->K;
        QKV_UNROLL
        for (size_t j = 0; j < panels * WIDE; j++) {
            vi words = vi_load(b + (j / WIDE * pairs + p) * NR + j % WIDE * W);
            QKV_UNROLL
            for (size_t i = 0; i < rows; i++) {
                const float *a = (const float *)(const void *)((const char *)f->a + i * f->lda) + 2 * p;
                sum[i][j] = vf_fma(vf_set(a[0]), bf16_even(words), sum[i][j]);
                if (both) sum[i][j] = vf_fma(vf_set(a[1]), bf16_odd(words), sum[i][j]);
            }
        }
    }
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < panels * WIDE; j++) {
            if (n + j * W >= f->columns) continue;
            const size_t left = f->columns - n - j * W;
            float *c = f->c + i * f->ldc + n + j * W;
            if (f->resume) sum[i][j] = vf_add(vf_load_n(c, left), sum[i][j]);
            vf_store_n(c, sum[i][j], left);
        }
    }
}

static double peak(size_t iterations) {
    return QKV_K(fma_peak)(iterations);
}

#define UNIT       "fp32"
#define GROUP      MR
#define NATIVE     false
#define IN_PLACE   false
#define STEP       2
#define A_SIZE     sizeof(float)
#define ORDER_STEP 1
#define ORDER_UNIT 1

#include "kernel/isa/bf16_few.h"

#endif
