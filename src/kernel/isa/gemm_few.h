/* gemm_few.h: products with one or two rows, where reading B is all the work: squares of B are turned in registers and used at
 * once, nothing is packed. B is fp32, or as a format of 16 bits stores it: then a square is W columns of W words, which hold two
 * terms each. Every element is summed in the same runs and order as in gemm.c, so the format changes no bit. */
#ifndef QKV_ISA_GEMM_FEW_H
#define QKV_ISA_GEMM_FEW_H

#include "kernel/isa/gemm.h"
#include "kernel/isa/simd.h"

/* How B is stored: a constant wherever it is asked for. */
enum few_kind { FEW_KIND_F32, FEW_KIND_BF16, FEW_KIND_F16 };

/* Keeps the compiler from making a pointer of its own for every row of every square, which would leave no registers. */
#if defined(__GNUC__)
#define FEW_ONE_POINTER(p) __asm__("" : "+r"(p))
#else
#define FEW_ONE_POINTER(p) ((void)0)
#endif

/* Asks for a line that is needed soon, in the first cache. */
#if defined(__GNUC__)
#define FEW_ASK(address) __builtin_prefetch((address), 0, 3)
#else
#define FEW_ASK(address) ((void)(address))
#endif

/* ---- numbers of 16 bits ------------------------------------------------------------------------------------------ */

/* W words of unaligned memory. */
QKV_INLINE vf few_words(const unsigned char *p) {
#if defined(QKV_ISA_avx512) || defined(QKV_ISA_avx2)
    return vf_load((const float *)(const void *)p);
#else
    float words[W];
    memcpy(words, p, sizeof words);
    return vf_load(words);
#endif
}

/* f16 in the lower halves of words whose upper ones are 0. */
QKV_INLINE vf few_from_f16(vi words) {
#if defined(QKV_ISA_avx512)
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
#elif defined(QKV_ISA_avx2)
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
#else
    uint16_t lanes[W];
    vi_store_halves(lanes, words);
    return f16_floats(lanes);
#endif
}

/* The numbers in the lower halves of words, and in the upper ones. */
QKV_INLINE vf few_even(const enum few_kind kind, vi words) {
    return kind == FEW_KIND_F16 ? few_from_f16(vi_and(words, vi_set(0xffff))) : bf16_even(words);
}
QKV_INLINE vf few_odd(const enum few_kind kind, vi words) {
    return kind == FEW_KIND_F16 ? few_from_f16(vi_shr(words, 16)) : bf16_odd(words);
}

/* ---- squares ------------------------------------------------------------------------------------------------------- */

/* Where number i of B lies. */
QKV_INLINE const unsigned char *few_at(const enum few_kind kind, const void *b, size_t i) {
    return (const unsigned char *)b + i * (kind == FEW_KIND_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Terms of a square. */
QKV_INLINE size_t few_terms(const enum few_kind kind) {
    return kind == FEW_KIND_F32 ? W : 2 * W;
}

/* Adds term i to the sums of `rows` rows. */
QKV_INLINE void few_term(const size_t rows, vf sum[QKV_FEW_ROWS], const float *a, size_t a_row, size_t i, vf b) {
    QKV_UNROLL
    for (size_t m = 0; m < rows; m++) sum[m] = vf_fma(vf_set(a[m * a_row + i]), b, sum[m]);
}

/* What comes after the run in work, in lines of memory: in order, or PIECE lines of each column. */
struct few_next {
    uintptr_t first;
    size_t piece; /* bytes from one piece to the next */
};
#define FEW_LINE QKV_CACHE_LINE
enum {
    FEW_NEAR = 128 * 1024, /* most bytes of columns that are asked for in order */
    FEW_PAIRS = 32 * 1024  /* most bytes of columns of two vectors, which are then in work together */
};

/* Lines of a column in a run of 256 terms. */
QKV_INLINE size_t few_piece(const enum few_kind kind) {
    return kind == FEW_KIND_F32 ? 16 : 8;
}

/* `rows` × one vector of sums over the terms of a square, which begin at `a` and, for the first column, at b. Between the loads as many
 * bytes are asked for as they read, which begin at line `line` of what comes next: all at once, or without a break, they would fill what
 * the processor has for reads on their way. */
QKV_INLINE void few_square(const enum few_kind kind, const size_t rows, vf sum[QKV_FEW_ROWS], const float *a,
                           size_t a_row, const unsigned char *b, size_t step, const struct few_next *next,
                           size_t line) {
    const size_t piece = few_piece(kind), size = kind == FEW_KIND_F32 ? sizeof(float) : sizeof(uint16_t);
    const uintptr_t ask = next->first + line / piece * next->piece + line % piece * FEW_LINE;
    vf turned[W];
    FEW_ONE_POINTER(a);
    FEW_ONE_POINTER(b);
    QKV_UNROLL
    for (size_t j = 0; j < W; j++) {
        const size_t bytes = j * W * sizeof(float), i = bytes / FEW_LINE;
        turned[j] = few_words(b + j * step * size);
        if (W * W * sizeof(float) >= FEW_LINE && bytes % FEW_LINE == 0)
            FEW_ASK((const void *)(ask + i / piece * next->piece + i % piece * FEW_LINE));
    }
    vf_transpose(turned);
    if (kind == FEW_KIND_F32) {
        QKV_UNROLL
        for (size_t i = 0; i < W; i++) few_term(rows, sum, a, a_row, i, turned[i]);
        return;
    }
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) {
        const vi words = vi_from_bits(turned[i]);
        few_term(rows, sum, a, a_row, 2 * i, few_even(kind, words));
        few_term(rows, sum, a, a_row, 2 * i + 1, few_odd(kind, words));
    }
}

/* n <= W numbers, then zeros. */
QKV_INLINE vf few_load_n(const enum few_kind kind, const unsigned char *b, size_t n) {
    if (kind == FEW_KIND_F32) return vf_load_n((const float *)(const void *)b, n);
    uint16_t lanes[W] = {0};
    memcpy(lanes, b, n * sizeof *lanes);
    return few_even(kind, vi_load_halves(lanes));
}

/* At most W terms, where they or the columns are fewer than a square has. */
QKV_INLINE void few_rest(const enum few_kind kind, const size_t rows, vf sum[QKV_FEW_ROWS],
                         const struct qkv_gemm_few *f, const unsigned char *b, size_t k, size_t end, size_t columns) {
    const size_t terms = end - k < W ? end - k : W;
    vf turned[W];
    QKV_UNROLL
    for (size_t j = 0; j < W; j++)
        turned[j] = j < columns ? few_load_n(kind, few_at(kind, b, j * f->b_stride + k), terms) : vf_zero();
    vf_transpose(turned);
    for (size_t i = 0; i < terms; i++) few_term(rows, sum, f->a.data + k, f->a.row_stride, i, turned[i]);
}

/* What comes after terms [k, end) of `vectors` × W columns that begin at b: as much of the next columns, as memory has them, or, where
 * columns are long, the run that comes next. */
QKV_INLINE struct few_next few_after(const enum few_kind kind, const size_t vectors, const struct qkv_gemm_few *f,
                                     const unsigned char *b, size_t k, size_t end) {
    const size_t size = kind == FEW_KIND_F32 ? sizeof(float) : sizeof(uint16_t), column = f->b_stride * size;
    const uintptr_t at = (uintptr_t)b, after = at + vectors * W * column;
    if (vectors * W * column <= FEW_NEAR)
        return (struct few_next){after + k * vectors * W * size, few_piece(kind) * FEW_LINE};
    return (struct few_next){end < f->K ? at + end * size : after, column};
}

/* One run of terms [k, end) for `rows` × `vectors` vectors of C from column n on, of which `columns` exist: fewer than W of one vector,
 * or all. */
QKV_INLINE void few_run(const enum few_kind kind, const size_t rows, const size_t vectors, const struct qkv_gemm_few *f,
                        size_t n, size_t columns, size_t k, size_t end) {
    vf sum[2][QKV_FEW_ROWS];
    const unsigned char *b = few_at(kind, f->b, n * f->b_stride);
    const float *bias = f->bias && end == f->K ? f->bias + n : NULL;
    const bool resume = f->accumulate || k > 0;
    const size_t lines = W * W * sizeof(float) / FEW_LINE; /* of a square */
    const struct few_next next = few_after(kind, vectors, f, b, k, end);
    QKV_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        QKV_UNROLL
        for (size_t m = 0; m < rows; m++) sum[v][m] = vf_zero();
    }
    for (size_t line = 0; columns >= W && end - k >= few_terms(kind); k += few_terms(kind)) {
        QKV_UNROLL
        for (size_t v = 0; v < vectors; v++, line += lines)
            few_square(kind, rows, sum[v], f->a.data + k, f->a.row_stride, few_at(kind, b, v * W * f->b_stride + k),
                       f->b_stride, &next, line);
    }
    for (; k < end; k += W) {
        for (size_t v = 0; v < vectors; v++)
            few_rest(kind, rows, sum[v], f, few_at(kind, b, v * W * f->b_stride), k, end, columns);
    }
    QKV_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        QKV_UNROLL
        for (size_t m = 0; m < rows; m++) {
            float *c = f->c + m * f->ldc + n + v * W;
            if (resume) sum[v][m] = vf_add(vf_load_n(c, columns), sum[v][m]);
            if (bias) sum[v][m] = vf_add(sum[v][m], vf_load_n(bias + v * W, columns));
            vf_store_n(c, sum[v][m], columns);
        }
    }
}

/* All runs of `vectors` vectors of columns. */
QKV_INLINE void few_runs(const enum few_kind kind, const size_t rows, const size_t vectors,
                         const struct qkv_gemm_few *f, size_t n, size_t columns) {
    size_t k = 0;
    do {
        const size_t end = f->K - k < f->run ? f->K : k + f->run;
        few_run(kind, rows, vectors, f, n, columns, k, end);
        k = end;
    } while (k < f->K);
}

/* A vector's sum is one chain of additions. Where that is slower than memory two chains at a time hide each other: with fewer than 16 lanes
 * or 16 bits while columns are short, with both always. No more columns than that: each is a place of its own in memory, and the processor
 * runs ahead of a few of them only. */
QKV_INLINE void few_columns(const enum few_kind kind, const size_t rows, const struct qkv_gemm_few *f) {
    const bool lanes = W < 16, halves = kind != FEW_KIND_F32;
    const size_t bytes = 2 * W * f->b_stride * (halves ? sizeof(uint16_t) : sizeof(float));
    size_t n = 0;
    if ((lanes && halves) || ((lanes || halves) && bytes <= FEW_PAIRS)) {
        for (; f->columns - n >= 2 * W; n += 2 * W) few_runs(kind, rows, 2, f, n, W);
    }
    for (; n < f->columns; n += W) few_runs(kind, rows, 1, f, n, f->columns - n);
}

QKV_INLINE void few_product(const enum few_kind kind, const struct qkv_gemm_few *f) {
    if (f->rows == 1)
        few_columns(kind, 1, f);
    else
        few_columns(kind, 2, f);
}

#endif
