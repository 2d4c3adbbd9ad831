/* bf16_dot.h: products of bf16 with AVX-512 BF16: a lane of VDPBF16PS adds the two products of a word. It flushes
 * subnormal inputs and results to zero and rounds sums to nearest, whatever the program has set.
 *
 * A is packed in groups of rows: word [pair][row]; the last group has only its own rows. */
#ifndef QKV_ISA_BF16_DOT_H
#define QKV_ISA_BF16_DOT_H

#include "kernel/isa/bf16_pack.h"

enum { NR = 32, FEW = 8 };

static void pack_b(uint32_t *out, struct qkv_operand b, size_t K, size_t columns) {
    pack_b_panels(out, NR, STEP, bf16_pairs(K, STEP), 0, b, K, columns);
}

static void pack_b_at(uint32_t *out, size_t pairs, size_t before, struct qkv_operand b, size_t K, size_t columns,
                      size_t unit) {
    pack_b_panels(out, NR, unit, pairs, before, b, K, columns);
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

#endif
