/* gemm_tiles.c: the innermost loops of the matrix product: a tile of C in registers, and packing (Goto & van de Geijn
 * 2008, "Anatomy of high-performance matrix multiplication"; Van Zee & van de Geijn 2015, BLIS).
 *
 * Every element of a tile is one chain of fused multiply-adds over k in rising order, whatever the tile's size, so all
 * tile sizes and both ways of reading A give the same bits. */
#include "kernel/isa/gemm.h"
#include "kernel/isa/gemm_few.h"
#include "kernel/isa/isa.h"

#define MR QKV_TILE_MR
#define NV QKV_TILE_NV
#define NR (NV * W)

enum {
    LINE = QKV_CACHE_LINE / sizeof(float),
    ASKING_TILES = 8 /* tiles of a panel of B, at least, that prefetch the next one */
};

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

/* C's part of a tile, of which `columns` vectors exist. The test is outside the loops, because most tiles are whole.
 * All loops must unroll, or the sums cannot stay in registers. */
QKV_INLINE void add_tile(const size_t rows, const size_t vectors, vf sum[MR][NV], const float *c, size_t ldc,
                         size_t columns) {
    if (columns >= vectors * W) {
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) {
            QKV_UNROLL
            for (size_t j = 0; j < vectors; j++) sum[i][j] = vf_add(vf_load(c + i * ldc + j * W), sum[i][j]);
        }
        return;
    }
    QKV_UNROLL
    for (size_t j = 0; j < vectors; j++) {
        if (j * W >= columns) continue;
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++)
            sum[i][j] = vf_add(vf_load_n(c + i * ldc + j * W, columns - j * W), sum[i][j]);
    }
}
QKV_INLINE void store_tile(const size_t rows, const size_t vectors, vf sum[MR][NV], float *c, size_t ldc,
                           size_t columns) {
    if (columns >= vectors * W) {
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) {
            QKV_UNROLL
            for (size_t j = 0; j < vectors; j++) vf_store(c + i * ldc + j * W, sum[i][j]);
        }
        return;
    }
    QKV_UNROLL
    for (size_t j = 0; j < vectors; j++) {
        if (j * W >= columns) continue;
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) vf_store_n(c + i * ldc + j * W, sum[i][j], columns - j * W);
    }
}

/* Prefetches the part of C at a tile, whose last columns may be past the end of C. */
QKV_INLINE void ask_for_sums(uintptr_t c, size_t ldc, size_t rows, size_t columns) {
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < columns; j += LINE) QKV_PREFETCH((const void *)(c + (i * ldc + j) * sizeof(float)));
    }
}

QKV_INLINE void add_bias(const size_t rows, const size_t vectors, vf sum[MR][NV], const float *bias, size_t columns) {
    QKV_UNROLL
    for (size_t j = 0; j < vectors; j++) {
        vf b = j * W < columns ? vf_load_n(bias + j * W, columns - j * W) : vf_zero();
        QKV_UNROLL
        for (size_t i = 0; i < rows; i++) sum[i][j] = vf_add(sum[i][j], b);
    }
}

/* Rows of A that share a pointer when A is not packed: this leaves enough registers for those of the highest tile. */
enum { SHARED_ROWS = 3 };
#define ROW_POINTERS ((MR + SHARED_ROWS - 1) / SHARED_ROWS)

/* Prefetches of a tile while it multiplies: before every `step` terms, `count` lines, `apart` bytes apart; then the
 * lines `along` bytes further. */
struct gemm_ask {
    uintptr_t at;
    size_t step, count, apart, along;
};

/* One tile: `rows` × `vectors` vectors of C, both constants where this is expanded; `columns` of the vectors are
 * wanted. Element (i, k) of packed A is at a[k·rows + i], as it is if A is contiguous across; else at a[i·stride + k].
 * Row k of B is at b[k·ldb]; the tile stores it in block->panel if it `packs`. */
QKV_INLINE void tile(const size_t rows, const size_t vectors, const bool packed, const bool packs,
                     const struct qkv_gemm_block *block, const struct gemm_ask *ask, const float *a, const float *b,
                     size_t ldb, size_t m, size_t n, size_t columns) {
    vf sum[MR][NV];
    const size_t ldc = block->ldc, stride = block->a_stride, K = block->K;
    const size_t lda = block->a_across ? block->a_across : rows;
    float *c = block->c + m * ldc + n;
    if (block->resume) ask_for_sums((uintptr_t)c, ldc, rows, vectors * W);
    QKV_UNROLL
    for (size_t i = 0; i < rows; i++) {
        QKV_UNROLL
        for (size_t j = 0; j < vectors; j++) sum[i][j] = vf_zero();
    }
    if (block->chain) add_tile(rows, vectors, sum, c, ldc, columns);
    const float *row[ROW_POINTERS];
    QKV_UNROLL
    for (size_t g = 0; g * SHARED_ROWS < rows; g++) row[g] = a + g * SHARED_ROWS * stride;
    uintptr_t at = ask->at;
    for (size_t k = 0, end; k < K; at += ask->along) {
        for (size_t i = 0; i < ask->count; i++) QKV_PREFETCH((const void *)(at + i * ask->apart));
        end = K - k < ask->step ? K : k + ask->step;
        for (; k < end; k++) {
            vf right[NV];
            QKV_UNROLL
            for (size_t j = 0; j < vectors; j++) {
                right[j] = vf_load(b + k * ldb + j * W);
                if (packs) vf_store(block->panel + k * NR + j * W, right[j]);
            }
            QKV_UNROLL
            for (size_t i = 0; i < rows; i++) {
                vf left = vf_set(packed ? a[k * lda + i] : row[i / SHARED_ROWS][i % SHARED_ROWS * stride + k]);
                QKV_UNROLL
                for (size_t j = 0; j < vectors; j++) sum[i][j] = vf_fma(left, right[j], sum[i][j]);
            }
        }
    }
    if (block->resume) add_tile(rows, vectors, sum, c, ldc, columns);
    for (size_t e = 0; packed && e < block->earlier_count; e++)
        add_tile(rows, vectors, sum, block->earlier[e] + m * block->earlier_ld + n, block->earlier_ld, columns);
    if (block->bias) add_bias(rows, vectors, sum, block->bias + n, columns);
    store_tile(rows, vectors, sum, c, ldc, columns);
}

typedef void tile_function(const struct qkv_gemm_block *block, const struct gemm_ask *ask, const float *a,
                           const float *b, size_t ldb, size_t m, size_t n, size_t columns);

/* Tiles of each height, NV vectors wide and one vector wide, for packed A and for A without packing; and those that
 * pack B. */
#define TILE_HEIGHTS(X)    QKV_PASTE(TILE_HEIGHTS_, QKV_TILE_MR)(X)
#define TILE_HEIGHTS_4(X)  X(1) X(2) X(3) X(4)
#define TILE_HEIGHTS_6(X)  TILE_HEIGHTS_4(X) X(5) X(6)
#define TILE_HEIGHTS_8(X)  TILE_HEIGHTS_6(X) X(7) X(8)
#define TILE_HEIGHTS_10(X) TILE_HEIGHTS_8(X) X(9) X(10)
#define TILE_HEIGHTS_12(X) TILE_HEIGHTS_10(X) X(11) X(12)
#define TILE_HEIGHTS_14(X) TILE_HEIGHTS_12(X) X(13) X(14)
#define TILE_DEFINE(name, rows, vectors, packed, packs)                                                                \
    static void name(const struct qkv_gemm_block *block, const struct gemm_ask *ask, const float *a, const float *b,   \
                     size_t ldb, size_t m, size_t n, size_t columns) {                                                 \
        tile(rows, vectors, packed, packs, block, ask, a, b, ldb, m, n, columns);                                      \
    }
#define TILE_DEFINE_ALL(rows)                                                                                          \
    TILE_DEFINE(tile_##rows##_1_0, rows, 1, false, false)                                                              \
    TILE_DEFINE(tile_##rows##_1_1, rows, 1, true, false)                                                               \
    TILE_DEFINE(tile_##rows##_NV_0, rows, NV, false, false)                                                            \
    TILE_DEFINE(tile_##rows##_NV_1, rows, NV, true, false)                                                             \
    TILE_DEFINE(tile_##rows##_packs, rows, NV, true, true)
TILE_HEIGHTS(TILE_DEFINE_ALL)

/* [packed][wide][height − 1] */
#define TILE_NARROW_0(rows) tile_##rows##_1_0,
#define TILE_NARROW_1(rows) tile_##rows##_1_1,
#define TILE_WIDE_0(rows)   tile_##rows##_NV_0,
#define TILE_WIDE_1(rows)   tile_##rows##_NV_1,
static tile_function *const tiles[2][2][MR] = {{{TILE_HEIGHTS(TILE_NARROW_0)}, {TILE_HEIGHTS(TILE_WIDE_0)}},
                                               {{TILE_HEIGHTS(TILE_NARROW_1)}, {TILE_HEIGHTS(TILE_WIDE_1)}}};
#define TILE_PACKS(rows) tile_##rows##_packs,
static tile_function *const packing_tiles[MR] = {TILE_HEIGHTS(TILE_PACKS)};

/* The tile at row m and column n of the block. */
QKV_INLINE void gemm_tile(const struct qkv_gemm_block *block, const struct gemm_ask *ask, size_t m, size_t n) {
    const size_t left = block->rows - m, here = left < block->height ? left : block->height;
    const size_t columns = block->columns - n;
    const bool packed = block->a_stride == 0;
    const size_t row = block->a_across ? 1 : packed ? block->K : block->a_stride;
    const float *b = block->b + n * (block->b_across ? 1 : block->K);
    tiles[packed][columns > W][here - 1](block, ask, block->a + m * row, b, block->b_across ? block->b_across : NR, m,
                                         n, columns);
}

static const struct gemm_ask ask_nothing = {.step = SIZE_MAX};

/* All tiles of a block, some rows at a time. Each prefetches a share of the rows of the next panel of A. */
static void gemm_row_by_row(const struct qkv_gemm_block *block) {
    const size_t panels = (block->columns + NR - 1) / NR, stride = block->a_stride * sizeof(float);
    struct gemm_ask ask = {.step = LINE, .apart = panels * stride, .along = QKV_CACHE_LINE};
    for (size_t m = 0, next; m < block->rows; m = next) {
        next = m + block->height;
        const size_t behind = next < block->rows ? block->rows - next : 0;
        const size_t rows = behind < block->height ? behind : block->height;
        for (size_t p = 0; p < panels; p++) {
            ask.at = (uintptr_t)block->a + (next + p) * stride;
            ask.count = (rows + panels - 1 - p) / panels;
            gemm_tile(block, &ask, m, p * NR);
        }
    }
}

/* Prefetches share t of `shares` of the terms after those of a block that is contiguous across; they may be past the
 * end. */
QKV_INLINE void gemm_next_terms(const struct qkv_gemm_block *block, size_t t, size_t shares) {
    const size_t begin = block->K + block->K * t / shares, end = block->K + block->K * (t + 1) / shares;
    for (size_t k = begin; k < end; k++) {
        const uintptr_t a = (uintptr_t)block->a + k * block->a_across * sizeof(float);
        const uintptr_t b = (uintptr_t)block->b + k * block->b_across * sizeof(float);
        for (size_t i = 0; i < block->rows; i += LINE) QKV_PREFETCH((const void *)(a + i * sizeof(float)));
        for (size_t j = 0; j < block->columns; j += LINE) QKV_PREFETCH((const void *)(b + j * sizeof(float)));
    }
}

/* All tiles of a block that is contiguous across, those of some rows one after the other. */
static void gemm_across(const struct qkv_gemm_block *block) {
    const size_t panels = (block->columns + NR - 1) / NR;
    const size_t count = (block->rows + block->height - 1) / block->height * panels;
    for (size_t t = 0; t < count; t++) {
        gemm_next_terms(block, t, count);
        gemm_tile(block, &ask_nothing, t / panels * block->height, t % panels * NR);
    }
}

/* What tile i of `count` prefetches of a panel of B, whose rows lie `row` bytes apart: rows i, i + count, … The panel
 * may be past the end of B. */
QKV_INLINE struct gemm_ask gemm_ask_panel(uintptr_t panel, size_t row, size_t i, size_t count) {
    return (struct gemm_ask){
        .at = panel + i * row, .step = count, .count = NR / LINE, .apart = QKV_CACHE_LINE, .along = count * row};
}

/* All tiles of a block whose B is contiguous across and is packed by the first tile of each panel. Each of the others
 * prefetches a share of the next panel. */
static void gemm_packing(const struct qkv_gemm_block *block) {
    const size_t row = block->b_across * sizeof(float), others = (block->rows - 1) / block->height;
    for (size_t n = 0; n < block->columns; n += NR) {
        const size_t first = block->rows < block->height ? block->rows : block->height;
        const uintptr_t next = (uintptr_t)(n + NR < block->columns ? block->b + n + NR : block->next_panel);
        packing_tiles[first - 1](block, &ask_nothing, block->a, block->b + n, block->b_across, 0, n, NR);
        for (size_t m = block->height, i = 0; m < block->rows; m += block->height, i++) {
            const size_t left = block->rows - m, here = left < block->height ? left : block->height;
            const struct gemm_ask ask = gemm_ask_panel(next, row, i, others);
            tiles[true][true][here - 1](block, &ask, block->a + m, block->panel, NR, m, n, NR);
        }
    }
}

/* All tiles of a block whose panels of B stay in the first cache while the panels of A pass by. Where these are many,
 * all of B is packed before and comes from beyond the second cache: each tile prefetches a share of the next panel. */
static void gemm_panel_by_panel(const struct qkv_gemm_block *block) {
    const size_t count = (block->rows + block->height - 1) / block->height;
    for (size_t n = 0; n < block->columns; n += NR) {
        const uintptr_t next =
            (uintptr_t)(n + NR < block->columns ? block->b + (n + NR) * block->K : block->next_panel);
        const bool asks = NR >= LINE && count >= ASKING_TILES && next;
        for (size_t i = 0; i < count; i++) {
            const struct gemm_ask ask = gemm_ask_panel(next, NR * sizeof(float), i, count);
            gemm_tile(block, asks ? &ask : &ask_nothing, i * block->height, n);
        }
    }
}

/* A panel of B stays in the first cache while the panels of A pass by, or the reverse. */
static void gemm_block(const struct qkv_gemm_block *block) {
    if (block->panel) {
        gemm_packing(block);
        return;
    }
    if (block->b_across) {
        gemm_across(block);
        return;
    }
    if (block->row_by_row) {
        gemm_row_by_row(block);
        return;
    }
    gemm_panel_by_panel(block);
}

/* ---- packing ---------------------------------------------------------------------------------------------------- */

/* W columns of B that are contiguous along k, transposed W × W at a time; `columns` of them exist. */
static void pack_columns(float *out, const float *b, size_t column_stride, size_t K, size_t columns) {
    size_t k = 0;
    vf block[W];
    if (columns >= W) {
        for (; K - k >= W; k += W) {
            vf_load_transposed(block, b + k, column_stride);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vf_store(out + (k + i) * NR, block[i]);
        }
    }
    for (; k < K; k += W) {
        QKV_UNROLL
        for (size_t j = 0; j < W; j++) block[j] = j < columns ? vf_load_n(b + j * column_stride + k, K - k) : vf_zero();
        vf_transpose(block);
        for (size_t i = 0; i < W && i < K - k; i++) vf_store(out + (k + i) * NR, block[i]);
    }
}

/* Rows [k, end) of NR columns of B, of which `columns` exist, whose rows are contiguous along n. */
static void pack_along(float *out, const float *b, size_t row_stride, size_t k, size_t end, size_t columns) {
    if (columns >= NR) {
        for (; k < end; k++) {
            QKV_UNROLL
            for (size_t j = 0; j < NV; j++) vf_store(out + k * NR + j * W, vf_load(b + k * row_stride + j * W));
        }
        return;
    }
    for (; k < end; k++) {
        for (size_t j = 0; j < NR; j += W)
            vf_store(out + k * NR + j, j < columns ? vf_load_n(b + k * row_stride + j, columns - j) : vf_zero());
    }
}

/* Packs a few rows at a time through all panels, because memory reads whole rows fastest. */
static void pack_b(float *out, struct qkv_matrix b, size_t K, size_t columns) {
    enum { ROWS = 16 };
    for (size_t k = 0; k < K && b.row_stride != 1; k += ROWS) {
        const size_t end = K - k < ROWS ? K : k + ROWS;
        for (size_t n = 0; n < columns; n += NR) pack_along(out + n * K, b.data + n, b.row_stride, k, end, columns - n);
    }
    for (size_t n = 0; n < columns && b.row_stride == 1; n += NR) {
        const float *panel = b.data + n * b.column_stride;
        for (size_t j = 0; j < NR; j += W) {
            const size_t left = columns - n > j ? columns - n - j : 0;
            pack_columns(out + n * K + j, left ? panel + j * b.column_stride : panel, b.column_stride, K, left);
        }
    }
}

/* Vectors that hold one column of a panel of A. Whole vectors are stored in rising order of k: lanes past the end
 * are overwritten by the next column or the next panel. That memory must exist, and so must the rows that whole
 * loads read. */
#define GROUPS ((MR + W - 1) / W)

/* One panel of A whose rows are contiguous along k; `rows` >= height of them exist. */
static void pack_rows(float *out, const float *a, size_t row_stride, size_t rows, size_t K, size_t height) {
    size_t k = 0;
    vf block[W];
    if (rows >= GROUPS * W) {
        for (; K - k >= W; k += W) {
            vf transposed[GROUPS][W];
            QKV_UNROLL
            for (size_t g = 0; g < GROUPS; g++)
                vf_load_transposed(transposed[g], a + g * W * row_stride + k, row_stride);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) {
                QKV_UNROLL
                for (size_t g = 0; g < GROUPS; g++)
                    if (g * W < height) vf_store(out + (k + i) * height + g * W, transposed[g][i]);
            }
        }
    }
    for (; k < K; k += W) {
        float transposed[W][GROUPS * W];
        for (size_t g = 0; g < GROUPS; g++) {
            QKV_UNROLL
            for (size_t i = 0; i < W; i++)
                block[i] = g * W + i < height ? vf_load_n(a + (g * W + i) * row_stride + k, K - k) : vf_zero();
            vf_transpose(block);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vf_store(transposed[i] + g * W, block[i]);
        }
        for (size_t i = 0; i < W && i < K - k; i++)
            memcpy(out + (k + i) * height, transposed[i], height * sizeof(float));
    }
}

enum { PACK_COLUMNS = 16 }; /* columns of A that go through all panels together */

/* Columns [k, end) of a panel of A that are contiguous along the rows. */
static void pack_across(float *out, const float *a, size_t column_stride, size_t rows, size_t k, size_t end, size_t K,
                        size_t height) {
    if (rows >= GROUPS * W) {
        for (; k < end && k + 1 < K; k++) { /* the last column of all must not write into the next panel */
            if (k + PACK_COLUMNS < K) QKV_PREFETCH(a + (k + PACK_COLUMNS) * column_stride);
            QKV_UNROLL
            for (size_t g = 0; g < GROUPS; g++)
                if (g * W < height) vf_store(out + k * height + g * W, vf_load(a + k * column_stride + g * W));
        }
    }
    for (; k < end; k++) memcpy(out + k * height, a + k * column_stride, height * sizeof(float));
}

/* The last panel has only its own rows. Columns that are contiguous across the rows are packed a few at a time through
 * all panels, so that their cache lines are used completely while they are in cache. */
static void pack_a(float *out, struct qkv_matrix a, size_t rows, size_t K, size_t height) {
    const size_t step = a.column_stride == 1 ? K : PACK_COLUMNS;
    for (size_t k = 0; k < K; k += step) {
        const size_t end = K - k < step ? K : k + step;
        for (size_t m = 0; m < rows; m += height) {
            const size_t here = rows - m < height ? rows - m : height;
            const float *data = a.data + m * a.row_stride;
            if (a.column_stride == 1)
                pack_rows(out + m * K, data, a.row_stride, rows - m, K, here);
            else
                pack_across(out + m * K, data, a.column_stride, rows - m, k, end, K, here);
        }
    }
}

static void gemm_few(const struct qkv_gemm_few *few) {
    few_product(FEW_KIND_F32, few);
}

const struct qkv_gemm_kernels QKV_K(gemm_kernels) = {
    .mr = MR,
    .nr = NR,
    .row_by_row = MR > 8,
    .pack_b = pack_b,
    .pack_a = pack_a,
    .block = gemm_block,
    .few = gemm_few,
};
