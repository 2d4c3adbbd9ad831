/* gemm_few.h: products with a few rows, whose time is that of reading B: squares of B are transposed in registers and
 * used at once; nothing is packed. B is fp32, or in a format of 16 bits: then a square is W lines of W words, which
 * hold two terms each. Every element is summed in the same runs and order as in gemm.c, so the format changes no bit.
 *
 * A lane of the vectors is a line: one run of one column. LINES of them are processed together: if a column has up to
 * GROUP runs of equal length, those of few_count(kind) / runs columns, else one run of LINES columns. So memory is read
 * in short blocks, one after the other: columns with one run each would be as many places in memory, and a block of
 * them larger than the first cache. The sums of a column's runs are added in order.
 *
 * With more than QKV_FEW_PAIR rows, a vector of columns goes through one run after the other, for up to eight rows at
 * once. */
#ifndef QKV_ISA_GEMM_FEW_H
#define QKV_ISA_GEMM_FEW_H

#include "kernel/isa/gemm.h"
#include "kernel/isa/simd.h"

/* The type of B. */
enum few_kind { FEW_KIND_F32, FEW_KIND_BF16, FEW_KIND_F16 };

/* The shape of a block of lines, constant wherever it is used: `lines` lines with `runs` runs a column, for `rows`
 * rows. */
struct few_shape {
    enum few_kind kind;
    size_t runs, rows, lines;
};

enum {
    GROUP = 4, /* maximum of runs of a column that are processed together */
    LINES = 16,
    LINES_MAX = 2 * LINES,
    /* maximum of bytes of a block of columns, with runs one after the other, that are prefetched in order */
    NEAR = 64 * 1024,
    NEAR_OTHERS = 128 * 1024,       /* the same for fewer than LINES columns of floats, and for 16 bits */
    PIECE = 256 * sizeof(uint16_t), /* minimum of bytes of a run, unless runs have fewer than 256 terms */
    SHORT = 32 * 1024               /* maximum of bytes of LINES_MAX columns that are processed together */
};

/* Keeps the compiler from computing a pointer for every row of every square, which would leave no registers. */
#if defined(__GNUC__)
#define FEW_ONE_POINTER(p) __asm__("" : "+r"(p))
#else
#define FEW_ONE_POINTER(p) ((void)0)
#endif

/* Prefetches a line into the first cache. */
#if defined(__GNUC__)
#define FEW_ASK(address) __builtin_prefetch((const void *)(address), 0, 3)
#else
#define FEW_ASK(address) ((void)(address))
#endif

/* ---- numbers of 16 bits ------------------------------------------------------------------------------------------ */

/* The numbers in the lower halves of words, and in the upper ones. */
QKV_INLINE vf few_even(const enum few_kind kind, vi words) {
    return kind == FEW_KIND_F16 ? f16_of_words(vi_and(words, vi_set(0xffff))) : bf16_even(words);
}
QKV_INLINE vf few_odd(const enum few_kind kind, vi words) {
    return kind == FEW_KIND_F16 ? f16_of_words(vi_shr(words, 16)) : bf16_odd(words);
}

/* ---- A --------------------------------------------------------------------------------------------------------- */

/* The terms of A for `runs` runs together: with one run, as they are; else term k of all runs together, as four
 * numbers. */
struct few_left {
    const float *row[QKV_FEW_PAIR];
    const float *across; /* of more rows: element (m, k) at [k·QKV_FEW_ROWS + m] */
    vi run_of_lane[LINES_MAX / W];
};

/* Whether A is read across its rows. */
QKV_INLINE bool few_across(const struct few_shape s) {
    return s.rows > QKV_FEW_PAIR;
}

/* Term k of each lane's run. */
QKV_INLINE vf few_left(const struct few_shape s, const struct few_left *a, size_t m, size_t v, size_t k) {
    if (few_across(s)) return vf_set(a->across[k * QKV_FEW_ROWS + m]);
    if (s.runs == 1) return vf_set(a->row[m][k]);
    const float *four = a->row[m] + GROUP * k;
    const bool in_order = W % GROUP == 0 && GROUP % s.runs == 0;
    return in_order ? vf_repeat_four(four) : vf_of_four(four, a->run_of_lane[v]);
}

/* All runs together; the four numbers repeat if there are fewer runs. */
QKV_INLINE struct few_left few_together(const struct few_shape s, const struct qkv_gemm_few *f,
                                        float four[QKV_FEW_PAIR][GROUP * QKV_GEMM_RUN_MAX]) {
    struct few_left a;
    uint32_t run_of_lane[LINES_MAX];
    for (size_t l = 0; l < LINES_MAX; l++) run_of_lane[l] = (uint32_t)(l % s.runs);
    for (size_t v = 0; v < LINES_MAX / W; v++) a.run_of_lane[v] = vi_load(run_of_lane + v * W);
    for (size_t m = 0; m < s.rows; m++) {
        const float *row = f->a.data + m * f->a.row_stride;
        a.row[m] = four[m];
        for (size_t r = 0; s.runs > 1 && r < GROUP; r++) {
            for (size_t i = 0; i < f->run; i++) four[m][GROUP * i + r] = row[r % s.runs * f->run + i];
        }
    }
    return a;
}

/* ---- squares --------------------------------------------------------------------------------------------------- */

QKV_INLINE size_t few_size(const enum few_kind kind) {
    return kind == FEW_KIND_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Terms of a square. */
QKV_INLINE size_t few_terms(const enum few_kind kind) {
    return kind == FEW_KIND_F32 ? W : 2 * W;
}

/* The places of the lines of a block: `runs` runs of a column, then those of the next column. */
struct few_lines {
    size_t run, column; /* bytes from one to the next */
    size_t columns;     /* columns that exist */
};

/* Line l of a block, the first of which is at b. With three runs some lines belong to no column; they read the
 * first. */
QKV_INLINE const unsigned char *few_line(const struct few_shape s, const unsigned char *b,
                                         const struct few_lines *lines, const size_t l) {
    return l < s.lines / s.runs * s.runs ? b + l / s.runs * lines->column + l % s.runs * lines->run : b;
}

/* The memory to read next, in order: pieces of `piece` bytes, `step` from one to the next. */
struct few_next {
    uintptr_t at; /* `done` bytes into a piece */
    size_t done, piece, step;
};

/* Prefetches a line of the cache, `bytes` from the position of `next`; those of a square may go into the next piece. */
QKV_INLINE void few_ask(const struct few_next *next, const size_t bytes) {
    const bool over = bytes >= PIECE && next->done + bytes >= next->piece;
    FEW_ASK(next->at + bytes + (over ? next->step - next->piece : 0));
}

/* Moves `next` on by the bytes that a square reads. */
QKV_INLINE void few_asked(struct few_next *next) {
    const size_t bytes = W * W * sizeof(float);
    next->at += bytes;
    for (next->done += bytes; next->done >= next->piece; next->done -= next->piece)
        next->at += next->step - next->piece;
}

/* W words of the lines of vector v, transposed. Prefetches as many bytes as it reads, in between: all at once would
 * fill the processor's queue of pending reads. */
QKV_INLINE void few_transposed(const struct few_shape s, vf transposed[W], const unsigned char *b,
                               const struct few_lines *lines, const size_t v, const struct few_next *next) {
    QKV_UNROLL
    for (size_t j = 0; j < W; j++) {
        transposed[j] = vf_load_any(few_line(s, b, lines, v * W + j));
        const size_t bytes = j * W * sizeof(float);
        if (W * W * sizeof(float) >= QKV_CACHE_LINE && bytes % QKV_CACHE_LINE == 0) few_ask(next, bytes);
    }
    vf_transpose(transposed);
}

/* Adds one term to the sums of vector v of `rows` rows. */
QKV_INLINE void few_term(const struct few_shape s, vf sum[QKV_FEW_ROWS], const struct few_left *a, size_t v, size_t k,
                         vf b) {
    QKV_UNROLL
    for (size_t m = 0; m < s.rows; m++) sum[m] = vf_fma(few_left(s, a, m, v, k), b, sum[m]);
}

/* Adds the terms of a square, the first of which is k, to the sums of vector v. */
QKV_INLINE void few_square(const struct few_shape s, vf sum[QKV_FEW_ROWS], const struct few_left *left, const size_t v,
                           size_t k, const unsigned char *b, const struct few_lines *lines,
                           const struct few_next *next) {
    struct few_left own = *left, *const a = &own;
    vf transposed[W];
    FEW_ONE_POINTER(b);
    if (few_across(s)) {
        FEW_ONE_POINTER(own.across);
    } else {
        for (size_t m = 0; m < s.rows; m++) FEW_ONE_POINTER(own.row[m]);
    }
    few_transposed(s, transposed, b, lines, v, next);
    if (s.kind == FEW_KIND_F32) {
        QKV_UNROLL
        for (size_t i = 0; i < W; i++) few_term(s, sum, a, v, k + i, transposed[i]);
        return;
    }
    QKV_UNROLL
    for (size_t i = 0; i < W; i++) {
        const vi words = vi_from_bits(transposed[i]);
        few_term(s, sum, a, v, k + 2 * i, few_even(s.kind, words));
        few_term(s, sum, a, v, k + 2 * i + 1, few_odd(s.kind, words));
    }
}

/* n <= W numbers, then zeros. */
QKV_INLINE vf few_load_n(const enum few_kind kind, const unsigned char *b, size_t n) {
    if (kind == FEW_KIND_F32) return vf_load_n((const float *)(const void *)b, n);
    uint16_t lanes[W] = {0};
    memcpy(lanes, b, n * sizeof *lanes);
    return few_even(kind, vi_load_halves(lanes));
}

/* n <= W terms, if terms or columns do not fill a square. */
QKV_INLINE void few_rest(const struct few_shape s, vf sum[QKV_FEW_ROWS], const struct few_left *a, size_t v, size_t k,
                         size_t n, const unsigned char *b, const struct few_lines *lines) {
    vf transposed[W];
    QKV_UNROLL
    for (size_t j = 0; j < W; j++) {
        const bool exists = (v * W + j) / s.runs < lines->columns;
        transposed[j] = exists ? few_load_n(s.kind, few_line(s, b, lines, v * W + j), n) : vf_zero();
    }
    vf_transpose(transposed);
    for (size_t i = 0; i < n; i++) few_term(s, sum, a, v, k + i, transposed[i]);
}

/* ---- blocks of lines ------------------------------------------------------------------------------------------- */

/* The sums of `rows` rows over `terms` terms of a block of lines, the first of which begins at b. */
QKV_INLINE void few_block(const struct few_shape s, const struct few_left *a, const unsigned char *b,
                          const struct few_lines *lines, size_t terms, struct few_next next,
                          float out[QKV_FEW_ROWS][LINES_MAX]) {
    const size_t size = few_size(s.kind), vectors = s.lines / W;
    vf sum[LINES_MAX / W][QKV_FEW_ROWS];
    QKV_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        QKV_UNROLL
        for (size_t m = 0; m < s.rows; m++) sum[v][m] = vf_zero();
    }
    size_t k = 0;
    for (; lines->columns == s.lines / s.runs && terms - k >= few_terms(s.kind); k += few_terms(s.kind)) {
        QKV_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            few_square(s, sum[v], a, v, k, b + k * size, lines, &next);
            few_asked(&next);
        }
    }
    for (; k < terms; k += W) {
        for (size_t v = 0; v < vectors; v++)
            few_rest(s, sum[v], a, v, k, terms - k < W ? terms - k : W, b + k * size, lines);
    }
    QKV_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        QKV_UNROLL
        for (size_t m = 0; m < s.rows; m++) vf_store(out[m] + v * W, sum[v][m]);
    }
}

/* Writes the sums of the runs of columns [n, end), those of n first in `out`, to C. */
QKV_INLINE void few_give(const struct few_shape s, const struct qkv_gemm_few *f, size_t n, size_t end, bool resume,
                         bool last, const float *out) {
    for (size_t m = 0; m < s.rows; m++, out += LINES_MAX) {
        float *c = f->c + m * f->ldc;
        for (size_t j = n; j < end; j++) {
            const float *sum = out + (j - n) * s.runs;
            float total = resume ? c[j] + sum[0] : sum[0];
            for (size_t r = 1; r < s.runs; r++) total += sum[r];
            c[j] = last && f->bias ? total + f->bias[j] : total;
        }
    }
}

/* All columns, in blocks of `wide`. `runs` runs of each are processed together: all of them, of equal length, or one
 * after the other. If too few columns remain for a block, the block begins earlier and reads some columns again. */
QKV_INLINE void few_columns(const struct few_shape s, const struct qkv_gemm_few *f) {
    const size_t size = few_size(s.kind), column = f->b_stride * size, wide = s.lines / s.runs;
    const struct few_lines lines = {f->run * size, column, f->columns < wide ? f->columns : wide};
    float four[QKV_FEW_PAIR][GROUP * QKV_GEMM_RUN_MAX], out[QKV_FEW_ROWS][LINES_MAX];
    struct few_left a = few_together(s, f, four);
    for (size_t n = 0, end; n < f->columns; n = end) {
        end = f->columns - n < wide ? f->columns : n + wide;
        const size_t first = end - lines.columns;
        const unsigned char *b = (const unsigned char *)f->b + first * column;
        size_t k = 0;
        do {
            const size_t terms = f->K - k < f->run ? f->K - k : f->run, stop = k + s.runs * terms;
            struct few_next next = {(uintptr_t)f->b + end * column + k * wide * size, 0, column, column};
            if (s.runs > 1) {
                next.piece = s.runs * lines.run;
            } else if (wide * column > (s.kind == FEW_KIND_F32 && s.lines == LINES ? NEAR : NEAR_OTHERS)) {
                next.at = stop < f->K ? (uintptr_t)b + stop * size : (uintptr_t)f->b + end * column;
                next.piece = lines.run;
            }
            for (size_t m = 0; s.runs == 1 && m < s.rows; m++) a.row[m] = f->a.data + m * f->a.row_stride + k;
            few_block(s, &a, b + k * size, &lines, terms, next, out);
            few_give(s, f, n, end, f->accumulate || k > 0, stop == f->K, out[0] + (n - first) * s.runs);
            k = stop;
        } while (k < f->K);
    }
}

/* Columns [n, end), of which the block begins at `first`; terms [k, k + terms), a run. */
QKV_INLINE void few_some(const struct few_shape s, const struct qkv_gemm_few *f, size_t n, size_t end, size_t first,
                         size_t k, size_t terms, const struct few_lines *lines, struct few_next next) {
    const unsigned char *b = (const unsigned char *)f->b + first * lines->column + k * few_size(s.kind);
    const struct few_left a = {.across = f->across + k * QKV_FEW_ROWS};
    const struct few_shape rows = {s.kind, 1, f->rows, W};
    float out[QKV_FEW_ROWS][LINES_MAX];
    few_block(s, &a, b, lines, terms, next, out);
    few_give(rows, f, n, end, f->accumulate || k > 0, k + terms == f->K, out[0] + (n - first));
}

/* More than QKV_FEW_PAIR rows, as four or eight: those that are missing are zeros in A. */
QKV_INLINE void few_more(const enum few_kind kind, const struct qkv_gemm_few *f) {
    const size_t size = few_size(kind), column = f->b_stride * size;
    const struct few_lines lines = {f->run * size, column, f->columns < W ? f->columns : W};
    for (size_t n = 0, end; n < f->columns; n = end) {
        end = f->columns - n < W ? f->columns : n + W;
        const size_t first = end - lines.columns;
        size_t k = 0;
        do {
            const size_t terms = f->K - k < f->run ? f->K - k : f->run, stop = k + terms;
            const uintptr_t after = stop < f->K ? first * column + stop * size : end * column;
            const struct few_next next = {(uintptr_t)f->b + after, 0, lines.run, column};
            if (f->rows <= 4)
                few_some((struct few_shape){kind, 1, 4, W}, f, n, end, first, k, terms, &lines, next);
            else
                few_some((struct few_shape){kind, 1, 8, W}, f, n, end, first, k, terms, &lines, next);
            k = stop;
        } while (k < f->K);
    }
}

/* 16 bits are more work than memory takes. So if LINES are a single vector, two vectors go together while columns are
 * short. */
QKV_INLINE void few_halves(const enum few_kind kind, const size_t rows, const struct qkv_gemm_few *f) {
    if (W == LINES && LINES_MAX * f->b_stride * few_size(kind) <= SHORT)
        few_columns((struct few_shape){kind, 1, rows, LINES_MAX}, f);
    else
        few_columns((struct few_shape){kind, 1, rows, LINES}, f);
}

/* More than GROUP runs are processed one after the other, one vector of columns at a time. If a vector has fewer than
 * LINES, more than APART runs are processed GROUP by GROUP through all columns. */
QKV_INLINE void few_floats(const size_t rows, const struct qkv_gemm_few *f) {
    enum { APART = 16 };
    struct qkv_gemm_few part = *f;
    size_t left = f->K;
    if (W < LINES && left > GROUP * f->run && left <= APART * f->run) {
        few_columns((struct few_shape){FEW_KIND_F32, 1, rows, W}, f);
        return;
    }
    do {
        const bool whole = W == LINES || left <= GROUP * f->run;
        part.K = whole ? left : GROUP * f->run;
        part.bias = whole ? f->bias : NULL;
        if (part.K == 4 * f->run)
            few_columns((struct few_shape){FEW_KIND_F32, 4, rows, LINES}, &part);
        else if (part.K == 3 * f->run)
            few_columns((struct few_shape){FEW_KIND_F32, 3, rows, LINES}, &part);
        else if (part.K == 2 * f->run)
            few_columns((struct few_shape){FEW_KIND_F32, 2, rows, LINES}, &part);
        else
            few_columns((struct few_shape){FEW_KIND_F32, 1, rows, LINES}, &part);
        part.a.data += part.K;
        part.b = (const float *)part.b + part.K;
        part.accumulate = true;
        left -= part.K;
    } while (left);
}

QKV_INLINE void few_product(const enum few_kind kind, const struct qkv_gemm_few *f) {
    if (kind == FEW_KIND_F32 && f->rows == 1)
        few_floats(1, f);
    else if (f->rows > QKV_FEW_PAIR)
        few_more(kind, f);
    else if (kind == FEW_KIND_F32)
        few_floats(2, f);
    else if (f->rows == 1)
        few_halves(kind, 1, f);
    else
        few_halves(kind, 2, f);
}

#endif
