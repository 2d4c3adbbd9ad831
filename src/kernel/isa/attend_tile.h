/* attend_tile.h: the small matrix products that attention is made of (attend_tile.c), and the packing before them.
 *
 *   C[r][c] = start + Σ_n A[r·rs + n·ns] · B[n·ldb + c]
 *
 * Every element of C is one chain of fused multiply-adds over n in order, so results do not depend on how a block was cut
 * into tiles. */
#ifndef QKV_ISA_ATTEND_TILE_H
#define QKV_ISA_ATTEND_TILE_H

#include "kernel/isa/attend.h"
#include "kernel/isa/simd.h"

#if defined(__GNUC__)
#define QKV_PREFETCH(address) __builtin_prefetch((address), 0, 2)
#else
#define QKV_PREFETCH(address) ((void)(address))
#endif

enum { TILE = 6 }; /* rows of the full tile */
#if defined(QKV_ISA_avx2)
enum { VECTORS = 2 }; /* vectors of the full tile: 6×2 sums, 2 of B and 1 of A fill the 16 registers */
#else
enum { VECTORS = 4 }; /* 6×4 + 4 + 1 of 32 registers */
#endif
enum { PANEL = VECTORS * W }; /* keys a panel of transposed K or V */

enum tile_start { FRESH, ADD, RESCALE }; /* C starts at 0, at what it holds, or at what it holds times rescale[r] */

/* C (rows <= TILE, columns padded to W) in tiles side by side. */
void QKV_K(attend_tiles)(size_t rows, size_t columns, enum tile_start how, float *c, size_t ldc, const float *rescale,
                         const float *a, size_t rs, size_t ns, const float *b, size_t ldb, size_t n);

/* Asks for a row that will be read soon. */
QKV_INLINE void prefetch_row(const float *x, size_t columns) {
    for (size_t c = 0; c < columns; c += QKV_CACHE_LINE / sizeof(float)) QKV_PREFETCH(x + c);
}

QKV_INLINE size_t padded(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* The first n lanes of a row that ends at n: whole vectors without a mask, whose stores are slow on some machines. */
QKV_INLINE vf load_row(const float *x, size_t n) {
    return n >= W ? vf_load(x) : vf_load_n(x, n);
}
QKV_INLINE void store_row(float *x, vf v, size_t n) {
    if (n >= W)
        vf_store(x, v);
    else
        vf_store_n(x, v, n);
}

/* ---- packing ------------------------------------------------------------------------------------------------------ */

/* Rows that will be packed next: row i of them is asked for while row i is packed. */
struct soon {
    const float *x;
    size_t stride, rows, columns;
};

QKV_INLINE void ask_for(const struct soon *soon, size_t row) {
    if (row < soon->rows) prefetch_row(soon->x + row * soon->stride, soon->columns);
}

/* One row, filled with zeros up to a multiple of W. `check` gathers 0·x, which stays 0 while all is finite. */
QKV_INLINE void pack_row(float *out, const float *x, size_t columns, vf *check) {
    size_t c = 0;
    vf zero = vf_zero(), sum = *check;
    for (; c + W <= columns; c += W) {
        vf v = vf_load(x + c);
        sum = vf_fma(v, zero, sum);
        vf_store(out + c, v);
    }
    if (c < columns) {
        vf v = vf_load_n(x + c, columns - c);
        sum = vf_fma(v, zero, sum);
        vf_store(out + c, v);
    }
    *check = sum;
}

QKV_INLINE bool all_finite(vf check) {
    return vf_sum(check) == 0;
}

/* out (rows,ld) = x (rows,columns) `stride` apart, filled up with zeros. False when a number is not finite. */
QKV_INLINE bool pack_rows(float *out, size_t ld, const float *x, size_t stride, size_t rows, size_t columns,
                          struct soon soon) {
    vf check = vf_zero();
    for (size_t r = 0; r < rows; r++) {
        ask_for(&soon, r);
        pack_row(out + r * ld, x + r * stride, columns, &check);
    }
    return all_finite(check);
}

/* Keys to lanes: out is panels (D,PANEL) of the keys of x (keys,D) at the places [begin, end) of a block; the other
 * places of the panels touched are zeros. */
QKV_INLINE void pack_panels(float *out, const float *x, size_t stride, size_t begin, size_t end, size_t D,
                            struct soon soon) {
    for (size_t k = begin / PANEL * PANEL; k < padded(end, PANEL); k += W) {
        float *to = out + k / PANEL * PANEL * D + k % PANEL;
        const float *from = x + k * stride;
        bool whole = k >= begin && k + W <= end;
        size_t d = 0;
        for (size_t i = 0; i < W; i++) ask_for(&soon, k + i);
        for (; whole && d + W <= D; d += W) {
            vf r[W];
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) r[i] = vf_load(from + i * stride + d);
            vf_transpose(r);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vf_store(to + (d + i) * PANEL, r[i]);
        }
        for (; d < D; d += W) {
            vf r[W];
            for (size_t i = 0; i < W; i++) {
                bool in = k + i >= begin && k + i < end;
                r[i] = in ? vf_load_n(from + i * stride + d, D - d) : vf_zero();
            }
            vf_transpose(r);
            for (size_t i = 0; i < W && d + i < D; i++) vf_store(to + (d + i) * PANEL, r[i]);
        }
    }
}

/* The entries of the table (attend_table.c). */
enum { BACKWARD_KEYS = VECTORS == 4 && W == 16 ? 192 : 96 }; /* keys a block: whole panels and whole tiles */
size_t QKV_K(attend_forward_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_K(attend_backward_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_K(attend_weights_scratch)(const struct qkv_attend_plan *plan);
void QKV_K(attend_forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_delta)(const struct qkv_attend_plan *plan, size_t begin, size_t end);
void QKV_K(attend_backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_gather)(const struct qkv_attend_plan *plan, size_t item);
void QKV_K(attend_weights)(const struct qkv_attend_plan *plan, size_t item, float *scratch);

#endif
