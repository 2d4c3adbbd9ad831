/* bf16_pack.h: operands of any layout, fp32 or bf16, packed as words of two terms; and the stores of sums. */
#ifndef QKV_ISA_BF16_PACK_H
#define QKV_ISA_BF16_PACK_H

#include "kernel/isa/bf16.h"
#include "kernel/isa/bf16_words.h"

enum { PACK_AHEAD = 8 }; /* terms */

enum { PACK_SOON = 16 }; /* terms that are packed in the time that a term takes to come from memory */

/* Prefetches terms k and k + 1 of the lines from `line` on, which need not exist: the terms to pack next or, after the
 * last term, the memory behind it. */
QKV_INLINE void ask_across(const struct lines *x, size_t line, size_t k) {
    const size_t size = x->dtype == QKV_BF16 ? sizeof(uint16_t) : sizeof(float);
    const uintptr_t at = (uintptr_t)x->data + (line + k * x->k_stride) * size;
    QKV_PREFETCH((const void *)at);
    QKV_PREFETCH((const void *)(at + x->k_stride * size));
}

/* out[pair·ld + i]: W words of each of `pairs` pairs, for lines `line` … of which `count` exist. */
static void pack_pairs(uint32_t *out, size_t ld, const struct lines *x, size_t line, size_t count, size_t K,
                       size_t pairs) {
    if (x->line_stride == 1 || x->k_stride != 1) {
        for (size_t p = 0; p < pairs; p++) {
            ask_across(x, line, 2 * p + PACK_SOON);
            vi_store(out + p * ld, count ? words_across(x, line, count, 2 * p, K) : vi_set(0));
        }
        return;
    }
    for (size_t p = 0; p < pairs && !count; p++) vi_store(out + p * ld, vi_set(0));
    for (size_t p = 0; p < pairs && count; p += W) {
        vi r[W];
        QKV_UNROLL
        for (size_t i = 0; i < W; i++) r[i] = i < count ? words_along(x, line + i, 2 * p, K) : vi_set(0);
        transpose_words(r);
        for (size_t i = 0; i < W && p + i < pairs; i++) vi_store(out + (p + i) * ld, r[i]);
    }
}

static inline size_t bf16_pairs(size_t K, size_t step) {
    return (K + step - 1) / step * step / 2;
}

/* Packs panels of lines that are contiguous across: a pair of terms of all lines at a time, as they follow each other
 * in memory. Prefetches later terms, because the hardware does not predict the next one. */
QKV_INLINE void pack_across(uint32_t *out, const size_t width, size_t all, const struct lines *x, size_t K,
                            size_t columns, size_t pairs) {
    const size_t size = x->dtype == QKV_BF16 ? sizeof(uint16_t) : sizeof(float);
    for (size_t p = 0; p < pairs; p++) {
        const uintptr_t next = (uintptr_t)x->data + (2 * p + PACK_AHEAD) * x->k_stride * size;
        for (size_t n = 0; n < columns; n += width) {
            for (size_t j = 0; j < width; j += W) {
                const size_t left = columns > n + j ? columns - n - j : 0;
                __builtin_prefetch((const void *)(next + (n + j) * size));
                __builtin_prefetch((const void *)(next + (n + j + x->k_stride) * size));
                vi_store(out + n * all + p * width + j, left ? words_across(x, n + j, left, 2 * p, K) : vi_set(0));
            }
        }
    }
}

/* Panels of `width` columns, a multiple of W, and of `all` pairs: those from `before` on. */
QKV_INLINE void pack_b_panels(uint32_t *out, const size_t width, const size_t step, size_t all, size_t before,
                              struct qkv_operand b, size_t K, size_t columns) {
    const struct lines x = {b.data, b.dtype, b.column_stride, b.row_stride};
    const size_t pairs = bf16_pairs(K, step);
    if (x.line_stride == 1) {
        pack_across(out + before * width, width, all, &x, K, columns, pairs);
        return;
    }
    for (size_t n = 0; n < columns; n += width) {
        for (size_t j = 0; j < width; j += W) {
            const size_t left = columns > n + j ? columns - n - j : 0;
            pack_pairs(out + n * all + before * width + j, width, &x, left ? n + j : 0, left, K, pairs);
        }
    }
}

/* Whether `out` stores sums and earlier groups only: no bias, no accumulation. */
QKV_INLINE bool only_groups(const struct qkv_bf16_out *out) {
    return out->data && out->dtype == QKV_F32 && !out->accumulate && !out->bias;
}

/* Whole vectors, and `count` earlier groups, a constant where this is expanded. */
QKV_INLINE void put_groups(const size_t count, const struct qkv_bf16_out *out, size_t row, size_t column,
                           const float *sums, size_t ld, size_t rows, size_t columns) {
    for (size_t i = 0; i < rows; i++) {
        const size_t at = (row + i) * out->earlier_ld + column;
        float *to = (float *)out->data + (row + i) * out->ld + column;
        for (size_t j = 0; j < columns; j += W) {
            vf v = vf_load(sums + i * ld + j);
            QKV_UNROLL
            for (size_t e = 0; e < count; e++) v = vf_add(vf_load(out->earlier[e] + at + j), v);
            vf_store(to + j, v);
        }
    }
}

/* The common case of sums of groups in a defined order; returns whether it is this case. */
QKV_INLINE bool put_plain(const struct qkv_bf16_out *out, size_t row, size_t column, const float *sums, size_t ld,
                          size_t rows, size_t columns) {
    if (!only_groups(out) || columns % W || !out->earlier_count || out->earlier_count > 3) return false;
    if (out->earlier_count == 1)
        put_groups(1, out, row, column, sums, ld, rows, columns);
    else if (out->earlier_count == 2)
        put_groups(2, out, row, column, sums, ld, rows, columns);
    else
        put_groups(3, out, row, column, sums, ld, rows, columns);
    return true;
}

/* out (+)= sums + bias for a tile of sums in the first cache. */
static void put_sums(const struct qkv_bf16_out *out, size_t row, size_t column, const float *sums, size_t ld,
                     size_t rows, size_t columns) {
    if (put_plain(out, row, column, sums, ld, rows, columns)) return;
    const float *bias = out->bias ? out->bias + column : NULL;
    for (size_t i = 0; i < rows; i++) {
        const size_t at = (row + i) * out->ld + column;
        float *floats = (float *)out->data + at;
        uint16_t *halves = (uint16_t *)out->data + at;
        QKV_EACH(j, m, columns, {
            vf v = vf_load_n(sums + i * ld + j, m);
            for (size_t e = 0; e < out->earlier_count; e++)
                v = vf_add(vf_load_n(out->earlier[e] + (row + i) * out->earlier_ld + column + j, m), v);
            if (bias) v = vf_add(v, vf_load_n(bias + j, m));
            if (out->dtype == QKV_BF16) {
                if (out->accumulate) v = vf_add(load_bf16(halves + j, m), v);
                store_bf16(halves + j, v, m);
            } else {
                if (out->accumulate) v = vf_add(vf_load_n(floats + j, m), v);
                vf_store_n(floats + j, v, m);
            }
        });
    }
}

#endif
