/* bf16_dot.h: products of bf16 with AVX-512 BF16: a lane of VDPBF16PS adds the two products of a word. It flushes subnormal
 * inputs and results to zero and rounds sums to nearest, whatever the program has set.
 *
 * A is packed in groups of rows: word [pair][row], the last group as high as it is. */
#ifndef QKV_ISA_BF16_DOT_H
#define QKV_ISA_BF16_DOT_H

#include "kernel/isa/bf16_pack.h"

enum { NR = 32, FEW = 8, FEW_MOST = 4 };

QKV_INLINE vf dot(vf sum, vi a, vi b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

static void pack_b(uint32_t *out, struct qkv_operand b, size_t K, size_t columns) {
    pack_b_panels(out, NR, STEP, b, K, columns);
}

static void few_a(void *out, struct qkv_operand row, size_t K) {
    const struct lines x = {row.data, row.dtype, 0, row.column_stride};
    const size_t pairs = bf16_pairs(K, STEP);
    uint32_t words[W];
    for (size_t p = 0; p < pairs; p += W) {
        vi_store(words, words_along(&x, 0, 2 * p, K));
        memcpy((uint32_t *)out + p, words, (pairs - p < W ? pairs - p : W) * sizeof *words);
    }
}

/* Two chains a sum: more latency is hidden. */
QKV_INLINE void few_panel(const size_t rows, const struct qkv_bf16_few *f, size_t n, size_t pairs) {
    vf sum[2][FEW_MOST][2];
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2; j++) sum[0][i][j] = sum[1][i][j] = vf_zero();
    }
    const uint32_t *b = f->b + n * pairs;
    for (size_t p = 0; p < pairs; p++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2; j++) {
            vi words = vi_load(b + p * NR + j * W);
            QKV_UNROLL
            for (size_t i = 0; i < rows; i++) {
                const uint32_t *a = (const uint32_t *)(const void *)((const char *)f->a + i * f->lda);
                sum[0][i][j] = dot(sum[0][i][j], vi_set(a[p]), words);
            }
        }
        if (++p == pairs) break;
        QKV_UNROLL
        for (size_t j = 0; j < 2; j++) {
            vi words = vi_load(b + p * NR + j * W);
            QKV_UNROLL
            for (size_t i = 0; i < rows; i++) {
                const uint32_t *a = (const uint32_t *)(const void *)((const char *)f->a + i * f->lda);
                sum[1][i][j] = dot(sum[1][i][j], vi_set(a[p]), words);
            }
        }
    }
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < 2; j++) {
            if (n + j * W >= f->columns) continue;
            const size_t left = f->columns - n - j * W;
            float *c = f->c + i * f->ldc + n + j * W;
            vf all = vf_add(sum[0][i][j], sum[1][i][j]);
            if (f->resume) all = vf_add(vf_load_n(c, left), all);
            vf_store_n(c, all, left);
        }
    }
}

static void few(const struct qkv_bf16_few *f) {
    const size_t pairs = bf16_pairs(f->K, STEP);
    for (size_t n = 0; n < f->columns; n += NR) {
        for (size_t i = 0, step; i < f->rows; i += step) {
            struct qkv_bf16_few part = *f;
            part.a = (const char *)f->a + i * f->lda;
            part.c = f->c + i * f->ldc;
            step = f->rows - i >= FEW_MOST ? FEW_MOST : f->rows - i >= 2 ? 2 : 1;
            if (step == FEW_MOST)
                few_panel(FEW_MOST, &part, n, pairs);
            else if (step == 2)
                few_panel(2, &part, n, pairs);
            else
                few_panel(1, &part, n, pairs);
        }
        const size_t columns = f->columns - n < NR ? f->columns - n : NR;
        if (f->out.data) put_sums(&f->out, 0, n, f->c + n, f->ldc, f->rows, columns);
    }
}

#endif
