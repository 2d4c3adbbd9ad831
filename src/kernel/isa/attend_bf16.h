/* attend_bf16.h: what the files of attention in bf16 (attend_bf16_*.c, once for each table) share.
 *
 * The formulas are those of attend_forward.c and attend_backward.c. Q, K, V, P, dY and dS are rounded to bf16 when they
 * are packed, and multiplied by the table's bf16 kernels (bf16.h); products, scores, softmax, row statistics and the
 * sums of O, dQ, dK and dV are fp32. Rows are processed in strips. Keys are processed in blocks that begin at multiples
 * of KEYS, whatever a row's interval is, and a weight of 0 adds nothing: a row's bits depend on its own inputs only.
 *
 * 0·NaN would spread along the terms of a product. So rows that have numbers outside of bf16's range are packed as
 * zeros, and their contribution is added in fp32 to the pairs that attend (add_apart). */
#ifndef QKV_ISA_ATTEND_BF16_H
#define QKV_ISA_ATTEND_BF16_H

#include "kernel/isa/attend_score.h"
#include "kernel/isa/bf16.h"
#include "kernel/isa/isa.h"

#define BF16 QKV_T(bf16_kernels)

enum {
    STRIP = QKV_BF16_STRIP, /* rows of a product: two groups of the kernels */
    BLOCK_ROWS = 4 * STRIP, /* rows of a block in backward: terms of dK and dV */
    BLOCK_KEYS = 128,       /* keys of a block: terms of O and dQ */
    GRANULE = 32,           /* multiple of the kernels' step and width, and of two vectors */
    CHANNELS = 256          /* maximum of channels of a head */
};

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* exp(x) for x <= 0 if the result is rounded to bf16: as exp_down with a cubic for 2^r, relative error <= 1.02e-4, a
 * fortieth of bf16's spacing. exp(0) is 1 exactly; below −86.5 the result is 0; NaN stays NaN. */
QKV_INLINE vf exp_coarse(vf x) {
    const vf magic = vf_set(12582912.0f), two = vf_set(1.44269504f);
    vf t = vf_fma(x, two, magic);
    vi n = vi_shl(vi_from_bits(t), 23);
    vf r = vf_fma(x, two, vf_sub(magic, t));
    vf p = vf_fma(r, vf_set(5.500911921e-2f), vf_set(2.422114611e-1f));
    p = vf_fma(p, r, vf_set(6.932829618e-1f));
    p = vf_fma(p, r, vf_set(1.0f));
    vm tiny = vf_lt(x, vf_set(-86.5f));
    return vf_from_bits(vi_add_unless(tiny, vi_from_bits(p), n));
}

/* Stays 0 while all numbers so far are finite in bf16 too: those that round to infinity are infinite after the
 * product. */
QKV_INLINE vf check_of(vf v, vf check) {
    return vf_fma(vf_mul(v, vf_set(1.00390625f)), vf_zero(), check);
}

/* Rounds one row to bf16, with zeros up to ld. */
QKV_INLINE vf round_row(uint16_t *out, struct cells x, size_t columns, size_t ld, vf check) {
    for (size_t c = 0; c < ld; c += 2 * W) {
        vf a = c < columns ? load_cells(x, c, columns - c) : vf_zero();
        vf b = c + W < columns ? load_cells(x, c + W, columns - c - W) : vf_zero();
        check = check_of(b, check_of(a, check));
        store_halves(out + c, a, b);
    }
    return check;
}

static inline bool fits(struct cells x, size_t columns) {
    vf check = vf_zero();
    for (size_t c = 0; c < columns; c += W) check = check_of(load_cells(x, c, columns - c), check);
    return all_finite(check);
}

/* to[c·stride] += weight·x[c]. */
static inline void add_apart(float *to, size_t stride, float weight, struct cells x, size_t columns) {
    float row[CHANNELS];
    read_cells(row, x, columns);
    for (size_t c = 0; c < columns; c++) to[c * stride] += weight * row[c];
}

struct halves { /* rows of bf16, `ld` apart */
    const uint16_t *rows;
    size_t ld;
};

/* Whether these are all finite: two numbers are tested as one float, and the lower half as another. */
static inline bool halves_finite(struct halves x, size_t count, size_t columns) {
    vf check = vf_zero();
    const size_t whole = columns / (2 * W) * (2 * W);
    for (size_t j = 0; j < count; j++) {
        const uint16_t *row = x.rows + j * x.ld;
        for (size_t c = 0; c < whole; c += 2 * W) {
            uint32_t lanes[W];
            memcpy(lanes, row + c, sizeof lanes);
            const vi words = vi_load(lanes);
            check = vf_fma(bf16_odd(words), vf_zero(), vf_fma(bf16_even(words), vf_zero(), check));
        }
        for (size_t c = whole; c < columns; c += W) check = vf_fma(load_bf16(row + c, columns - c), vf_zero(), check);
    }
    return all_finite(check);
}

/* ---- scratch and layouts --------------------------------------------------------------------------------------- */

struct carve { /* Hands out pieces of a block of memory; from NULL it only measures. */
    char *at;
    size_t used;
};

static inline void *carve_take(struct carve *c, size_t bytes) {
    void *piece = c->at ? c->at + c->used : NULL;
    c->used += padded(bytes, QKV_CACHE_LINE);
    return piece;
}

/* Bytes of some rows of a left operand, and of panels of a right one. */
static inline size_t left_bytes(size_t rows, size_t K) {
    return padded(rows, BF16.mr) * padded(K, GRANULE) * BF16.a_size;
}
static inline size_t pairs_of(size_t K) {
    return padded(K, BF16.step) / 2;
}
static inline size_t panel_bytes(size_t K, size_t columns) {
    return pairs_of(K) * padded(columns, BF16.nr) * sizeof(uint32_t);
}

struct key_block { /* the keys of one block, packed */
    bool *finite_k, *finite_v;
    uint32_t *k;      /* panels: channels by keys */
    uint32_t *v;      /* forward: keys by channels; backward: channels by keys */
    uint32_t *k_rows; /* backward: keys by channels */
};
struct row_block { /* the rows of one block, packed, backward */
    bool *packed, *finite_q, *finite_dy;
    struct span *keys;                  /* the span of keys that each row attends to */
    size_t count;                       /* rows in whole strips */
    struct row *rows;                   /* rows past the end, and rows without keys, attend to nothing */
    char *q, *dy;                       /* strips of left operands: rows by channels */
    char *transposed_q, *transposed_dy; /* left operands: channels by rows */
};

static inline struct key_block carve_keys(const struct qkv_attend_plan *plan, struct carve *c) {
    const size_t D = plan->a->D, Dv = plan->a->Dv;
    struct key_block x;
    x.finite_k = carve_take(c, 2 * sizeof(bool));
    x.finite_v = x.finite_k ? x.finite_k + 1 : NULL;
    x.k = carve_take(c, panel_bytes(D, BLOCK_KEYS));
    x.v = carve_take(c, plan->g ? panel_bytes(Dv, BLOCK_KEYS) : panel_bytes(BLOCK_KEYS, Dv));
    x.k_rows = carve_take(c, plan->g ? panel_bytes(BLOCK_KEYS, D) : 0);
    return x;
}

/* Block `block` of the rows of a head. */
static inline struct row_block carve_rows(const struct qkv_attend_plan *plan, size_t block, struct carve *c) {
    const size_t D = plan->a->D, Dv = plan->a->Dv, left = plan->rows - block * BLOCK_ROWS;
    struct row_block x;
    x.count = left < BLOCK_ROWS ? padded(left, STRIP) : BLOCK_ROWS;
    x.keys = carve_take(c, sizeof *x.keys + 3 * sizeof(bool));
    x.packed = x.keys ? (bool *)(x.keys + 1) : NULL;
    x.finite_q = x.keys ? x.packed + 1 : NULL, x.finite_dy = x.keys ? x.packed + 2 : NULL;
    x.rows = carve_take(c, BLOCK_ROWS * sizeof(struct row));
    x.q = carve_take(c, BLOCK_ROWS / STRIP * left_bytes(STRIP, D));
    x.dy = carve_take(c, BLOCK_ROWS / STRIP * left_bytes(STRIP, Dv));
    x.transposed_q = carve_take(c, left_bytes(D, BLOCK_ROWS));
    x.transposed_dy = carve_take(c, left_bytes(Dv, BLOCK_ROWS));
    return x;
}

/* The same of kv head `pair`, in saved memory. */
static inline struct row_block row_block_at(const struct qkv_attend_plan *plan, size_t pair, size_t block) {
    const size_t at = qkv_attend_room(plan, pair) * plan->blocks + block;
    struct carve c = {plan->packed_rows + at * plan->rows_bytes, 0};
    return carve_rows(plan, block, &c);
}

/* ---- products -------------------------------------------------------------------------------------------------- */

struct left { /* rows × terms: packed, or rows of bf16 without packing */
    const void *packed;
    const uint16_t *rows;
    size_t ld;     /* of rows; if a few rows are packed one by one, in bytes */
    size_t wanted; /* rows that exist; 0: all that are multiplied */
};

/* Rows that are multiplied if `count` of a strip exist. A few rows are packed and multiplied one by one. Without
 * packing, whole groups are multiplied, and the kernels compute as many of their rows as are `wanted`. */
static inline size_t strip_rows(size_t count) {
    return BF16.in_place ? padded(count, BF16.mr) : count;
}

/* The same in backward, if `left` rows remain: an even number, because a word holds two rows. */
static inline size_t gradient_rows(size_t left) {
    const size_t rows = left < STRIP ? padded(left, BF16.mr) : STRIP;
    return rows < STRIP ? rows : STRIP;
}

/* `count` rows of bf16, `ld` apart, as a left operand: used directly, or packed to `out`. */
static inline struct left strip_of(const uint16_t *rows, size_t ld, size_t count, size_t K, void *out, float *staging) {
    if (BF16.in_place) return (struct left){rows, rows, ld, 0};
    const size_t row = padded(K, GRANULE) * sizeof(float);
    if (count > BF16.few_rows)
        BF16.pack_a(out, (struct qkv_operand){rows, QKV_BF16, ld, 1}, count, K, staging);
    else
        for (size_t r = 0; r < count; r++)
            BF16.few_a((char *)out + r * row, (struct qkv_operand){rows + r * ld, QKV_BF16, ld, 1}, K);
    return (struct left){out, NULL, row, 0};
}

/* The strip that save_strip saved at `at`. */
static inline struct left saved_strip(const void *at, size_t K) {
    const size_t ld = padded(K, GRANULE);
    return (struct left){at, BF16.in_place ? at : NULL, BF16.in_place ? ld : ld * sizeof(float), 0};
}
static inline void save_strip(void *at, const uint16_t *rows, size_t ld, size_t count, size_t K, float *staging) {
    struct left x = strip_of(rows, ld, count, K, at, staging);
    if (x.rows) memcpy(at, rows, count * ld * sizeof *rows); /* ld is K padded */
}

/* c (rows,columns) (+)= a·b over K terms. */
static inline void product(const struct left *a, size_t rows, size_t K, const uint32_t *b, size_t columns, float *c,
                           size_t ldc, bool resume) {
    const struct qkv_bf16_block block = {.rows = rows,
                                         .columns = columns,
                                         .K = K,
                                         .wanted = a->wanted,
                                         .a = a->packed,
                                         .rows_in_place = a->rows,
                                         .lda = a->ld,
                                         .b = b,
                                         .c = c,
                                         .ldc = ldc,
                                         .resume = resume};
    BF16.block(&block);
}

/* The same for a strip_of so many rows. A row's sums do not depend on their number. */
static inline void strip_product(const struct left *a, size_t rows, size_t K, const uint32_t *b, size_t columns,
                                 float *c, size_t ldc, bool resume) {
    if (rows > BF16.few_rows) {
        product(a, rows, K, b, columns, c, ldc, resume);
        return;
    }
    const struct qkv_bf16_few few = {.rows = rows,
                                     .columns = columns,
                                     .K = K,
                                     .a = a->packed,
                                     .lda = a->rows ? a->ld * sizeof *a->rows : a->ld,
                                     .b = b,
                                     .c = c,
                                     .ldc = ldc,
                                     .resume = resume};
    BF16.few(&few);
}

/* c (rows,columns) += a·b for `count` terms: the terms first… of the `terms` in the panels. */
static inline void add_product(const struct left *a, size_t rows, size_t first, size_t count, const uint32_t *b,
                               size_t terms, size_t columns, float *c, size_t ldc) {
    const size_t nr = BF16.nr, pairs = pairs_of(terms);
    if (first == 0 && pairs_of(count) == pairs) {
        strip_product(a, rows, count, b, columns, c, ldc, true);
        return;
    }
    for (size_t n = 0; n < columns; n += nr)
        strip_product(a, rows, count, b + n * pairs + first / 2 * nr, columns - n < nr ? columns - n : nr, c + n, ldc,
                      true);
}

/* ---- spans ----------------------------------------------------------------------------------------------------- */

/* The smallest span of whole granules that covers the spans of some rows. */
static inline struct span cover_of(const struct span *spans, size_t count) {
    struct span all = {SIZE_MAX, 0};
    for (size_t r = 0; r < count; r++) {
        if (!spans[r].end) continue;
        if (spans[r].begin < all.begin) all.begin = spans[r].begin;
        if (spans[r].end > all.end) all.end = spans[r].end;
    }
    if (!all.end) return (struct span){0, 0};
    return (struct span){all.begin / GRANULE * GRANULE, padded(all.end, GRANULE)};
}

/* Whether a row attends to key j of the block at `key`. */
static inline bool attends(const struct qkv_attend *a, const struct row *row, size_t key, size_t j) {
    const size_t at = key + j;
    if (at < row->lo || at >= row->hi) return false;
    return !(a->mask && !a->mask[row->mask + at]) &&
           !(a->attention_bias && a->attention_bias[row->attention_bias + at] == -INFINITY);
}

/* attend_bf16_pack.c */
size_t QKV_T(attend_bf16_pack_scratch)(const struct qkv_attend_plan *plan);
/* Bytes of a packed block of keys, and of rows. */
size_t QKV_T(attend_bf16_keys_bytes)(const struct qkv_attend_plan *plan);
size_t QKV_T(attend_bf16_rows_bytes)(const struct qkv_attend_plan *plan);
/* Packs a block of keys and values, but not those that are read as words; or its values, for forward. */
void QKV_T(attend_bf16_pack_block)(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t block,
                                   const struct key_block *out, float *scratch);
void QKV_T(attend_bf16_pack_values)(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t block,
                                    const struct key_block *out, float *scratch);
void QKV_T(attend_bf16_pack_keys)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_T(attend_bf16_pack_rows)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_T(attend_bf16_place_rows)(const struct qkv_attend_plan *plan, size_t item);
/* Packs rows that _place_rows has set up. */
void QKV_T(attend_bf16_pack_placed)(const struct qkv_attend_plan *plan, size_t item, const struct row_block *out,
                                    float *scratch);
/* attend_bf16_page.c */
size_t QKV_T(attend_bf16_page_bytes)(enum qkv_page_side side, size_t columns, size_t positions);
void QKV_T(attend_bf16_page_put)(const struct qkv_attend_bf16_page *page, size_t first, size_t count,
                                 const uint16_t *rows, size_t stride);
void QKV_T(attend_bf16_page_read)(const struct qkv_attend_bf16_page *page, size_t first, size_t count, size_t columns,
                                  float *out);
struct qkv_page_words QKV_T(attend_bf16_page_words)(const struct qkv_attend_bf16_page *page);
/* attend_bf16_forward.c, attend_bf16_backward.c */
size_t QKV_T(attend_bf16_forward_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_T(attend_bf16_backward_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_T(attend_bf16_sums_floats)(const struct qkv_attend_plan *plan);
void QKV_T(attend_bf16_forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_T(attend_bf16_combine)(const struct qkv_attend_plan *plan, size_t unit);
void QKV_T(attend_bf16_backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
/* attend_bf16_few.c; if QKV_BF16_FEW_TILE is not 0 */
size_t QKV_T(attend_bf16_few_scratch)(const struct qkv_attend_plan *plan);
bool QKV_T(attend_bf16_forward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
bool QKV_T(attend_bf16_backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);

#endif
