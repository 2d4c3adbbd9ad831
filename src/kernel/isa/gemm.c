/* gemm.c: the innermost loops of the matrix product: a tile of C in registers, and the packing that feeds it
 * (Goto & van de Geijn 2008, "Anatomy of high-performance matrix multiplication"; Van Zee & van de Geijn 2015, BLIS).
 *
 * Every element of a tile is one chain of fused multiply-adds over k in rising order, whatever the tile's size, so all
 * tile sizes and both ways of reading A give the same bits. */
#include "kernel/isa/gemm.h"
#include "kernel/isa/isa.h"

#if defined(QKV_ISA_avx512)
#define MR 14
#define NV 2
#elif defined(QKV_ISA_avx2)
#define MR 6
#define NV 2
#elif defined(QKV_ISA_neon)
#define MR 6
#define NV 4
#else
#define MR 4
#define NV 8
#endif
#define NR (NV * W)

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

/* One tile: `rows` × `vectors` vectors of C, both constants where this is expanded. `columns` of them are wanted.
 * Packed A: element (i, k) at a[k·rows + i]; else at a[i·stride + k]. */
QKV_INLINE void tile(const size_t rows, const size_t vectors, const bool packed, const struct qkv_gemm_block *block,
                     const float *a, const float *b, float *c, const float *bias, size_t columns) {
    vf sum[MR][NV];
    const size_t ldc = block->ldc, stride = block->a_stride, K = block->K;
    const bool whole = columns >= vectors * W;
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < vectors; j++) {
            if (!block->resume)
                sum[i][j] = vf_zero();
            else if (whole)
                sum[i][j] = vf_load(c + i * ldc + j * W);
            else
                sum[i][j] = j * W < columns ? vf_load_n(c + i * ldc + j * W, columns - j * W) : vf_zero();
        }
    }
    const float *row[MR];
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) row[i] = a + i * stride;
#define TILE_STEP(k)                                                                                                   \
    do {                                                                                                               \
        vf right[NV];                                                                                                  \
        QKV_UNROLL                                                                                                     \
        for (size_t j = 0; j < vectors; j++) right[j] = vf_load(b + (k)*NR + j * W);                                   \
        QKV_UNROLL                                                                                                     \
        for (size_t i = 0; i < rows; i++) {                                                                            \
            vf left = vf_set(packed ? a[(k)*rows + i] : row[i][k]);                                                    \
            QKV_UNROLL                                                                                                 \
            for (size_t j = 0; j < vectors; j++) sum[i][j] = vf_fma(left, right[j], sum[i][j]);                        \
        }                                                                                                              \
    } while (0)
    for (size_t k = 0; k < K; k++) TILE_STEP(k);
#undef TILE_STEP
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < vectors; j++) {
            const size_t left = j * W < columns ? columns - j * W : 0;
            if (bias)
                sum[i][j] = vf_add(sum[i][j], whole  ? vf_load(bias + j * W)
                                              : left ? vf_load_n(bias + j * W, left)
                                                     : vf_zero());
            if (whole)
                vf_store(c + i * ldc + j * W, sum[i][j]);
            else if (left)
                vf_store_n(c + i * ldc + j * W, sum[i][j], left);
        }
    }
}

typedef void tile_function(const struct qkv_gemm_block *block, const float *a, const float *b, float *c,
                           const float *bias, size_t columns);

/* Tiles of each height, NV vectors wide and one vector wide, for packed A and for A in place. */
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) TILE_HEIGHTS_6(X) TILE_HEIGHTS_14(X)
#if MR >= 6
#define TILE_HEIGHTS_6(X) X(5) X(6)
#else
#define TILE_HEIGHTS_6(X)
#endif
#if MR >= 14
#define TILE_HEIGHTS_14(X) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define TILE_HEIGHTS_14(X)
#endif
#define TILE_DEFINE(rows, vectors, packed)                                                                             \
    static void tile_##rows##_##vectors##_##packed(const struct qkv_gemm_block *block, const float *a, const float *b, \
                                                   float *c, const float *bias, size_t columns) {                      \
        tile(rows, vectors, packed, block, a, b, c, bias, columns);                                                    \
    }
#define TILE_DEFINE_ALL(rows)                                                                                          \
    TILE_DEFINE(rows, 1, 0)                                                                                            \
    TILE_DEFINE(rows, 1, 1)                                                                                            \
    TILE_DEFINE(rows, NV, 0)                                                                                           \
    TILE_DEFINE(rows, NV, 1)
TILE_HEIGHTS(TILE_DEFINE_ALL)

/* [packed][wide][height − 1] */
#define TILE_NARROW_0(rows) tile_##rows##_1_0,
#define TILE_NARROW_1(rows) tile_##rows##_1_1,
#define TILE_WIDE_0(rows)   tile_##rows##_NV_0,
#define TILE_WIDE_1(rows)   tile_##rows##_NV_1,
static tile_function *const tiles[2][2][MR] = {{{TILE_HEIGHTS(TILE_NARROW_0)}, {TILE_HEIGHTS(TILE_WIDE_0)}},
                                               {{TILE_HEIGHTS(TILE_NARROW_1)}, {TILE_HEIGHTS(TILE_WIDE_1)}}};

/* A panel of B stays in the first cache while the panels of A go by. */
static void gemm_block(const struct qkv_gemm_block *block) {
    const size_t height = block->height, rows = block->rows;
    const bool packed = block->a_stride == 0;
    for (size_t n = 0; n < block->columns; n += NR) {
        const size_t columns = block->columns - n;
        tile_function *const *of_height = tiles[packed][columns > W];
        const float *b = block->b + n * block->K, *bias = block->bias ? block->bias + n : NULL;
        for (size_t m = 0; m < rows; m += height) {
            size_t here = rows - m < height ? rows - m : height;
            const float *a = block->a + (packed ? m * block->K : m * block->a_stride);
            of_height[here - 1](block, a, b, block->c + m * block->ldc + n, bias, columns);
        }
    }
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

/* W columns of B that are contiguous along k, transposed W × W at a time; `columns` of them exist. */
static void pack_columns(float *out, const float *b, size_t column_stride, size_t K, size_t columns) {
    for (size_t k = 0; k < K; k += W) {
        const size_t left = K - k;
        vf block[W];
        QKV_UNROLL
        for (size_t j = 0; j < W; j++) {
            const float *p = b + j * column_stride + k;
            block[j] = j >= columns ? vf_zero() : left >= W ? vf_load(p) : vf_load_n(p, left);
        }
        vf_transpose(block);
        QKV_UNROLL
        for (size_t i = 0; i < W; i++)
            if (i < left) vf_store(out + (k + i) * NR, block[i]);
    }
}

static void pack_b(float *out, struct qkv_matrix b, size_t K, size_t columns) {
    for (size_t n = 0; n < columns; n += W) {
        float *panel = out + n / NR * NR * K + n % NR;
        const size_t left = columns - n;
        if (b.row_stride == 1) {
            pack_columns(panel, b.data + n * b.column_stride, b.column_stride, K, left);
        } else {
            for (size_t k = 0; k < K; k++) vf_store(panel + k * NR, vf_load_n(b.data + k * b.row_stride + n, left));
        }
    }
    for (size_t n = (columns + W - 1) / W * W; n % NR; n += W) { /* the rest of the last panel */
        float *panel = out + n / NR * NR * K + n % NR;
        for (size_t k = 0; k < K; k++) vf_store(panel + k * NR, vf_zero());
    }
}

/* Vectors that hold one column of a panel of A. Whole vectors are stored in rising order of k, so what runs over is
 * overwritten by the next column. */
#define GROUPS ((MR + W - 1) / W)

/* One panel of A whose rows are contiguous along k. */
static void pack_rows(float *out, const float *a, size_t row_stride, size_t height, size_t K) {
    const size_t groups = (height + W - 1) / W;
    for (size_t k = 0; k < K; k += W) {
        const size_t left = K - k;
        vf block[GROUPS][W];
        for (size_t g = 0; g < groups; g++) {
            for (size_t i = 0; i < W; i++) {
                const float *p = a + (g * W + i) * row_stride + k;
                block[g][i] = g * W + i >= height ? vf_zero() : left >= W ? vf_load(p) : vf_load_n(p, left);
            }
            vf_transpose(block[g]);
        }
        for (size_t i = 0; i < W && i < left; i++)
            for (size_t g = 0; g < groups; g++) vf_store(out + (k + i) * height + g * W, block[g][i]);
    }
}

/* The last panel is packed as high as it is. */
static void pack_a(float *out, struct qkv_matrix a, size_t rows, size_t K, size_t height) {
    for (size_t m = 0; m < rows; m += height) {
        const size_t here = rows - m < height ? rows - m : height;
        const float *data = a.data + m * a.row_stride;
        float *panel = out + m * K;
        if (a.column_stride == 1) {
            pack_rows(panel, data, a.row_stride, here, K);
            continue;
        }
        for (size_t k = 0; k < K; k++) {
            for (size_t g = 0; g < here; g += W)
                vf_store(panel + k * here + g, vf_load_n(data + k * a.column_stride + g, here - g));
        }
    }
}

const struct qkv_gemm_kernels QKV_K(gemm_kernels) = {
    .mr = MR, .nr = NR, .slack = W, .pack_b = pack_b, .pack_a = pack_a, .block = gemm_block};
