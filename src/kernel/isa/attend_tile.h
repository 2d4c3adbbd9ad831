/* attend_tile.h: the small matrix products of attention (attend_tile.c).
 *
 *   C[r][c] = start + Σ_n A[r·rs + n·ns] · B[n·ldb + c]
 *
 * Every element of C is one chain of fused multiply-adds over n in order, so results do not depend on how a block is
 * cut into tiles. */
#ifndef QKV_ISA_ATTEND_TILE_H
#define QKV_ISA_ATTEND_TILE_H

#include "kernel/isa/attend.h"
#include "kernel/isa/simd.h"

enum { TILE = 6 }; /* rows of the full tile */
#define TILE_ROWS(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
_Static_assert(TILE == 6, "a case for each number of rows of a tile");
enum { VECTORS = QKV_ATTEND_VECTORS }; /* vectors of the full tile */
enum { PANEL = VECTORS * W };          /* keys of a panel of transposed K or V */

enum tile_start { FRESH, ADD, RESCALE }; /* C starts at 0, at its old value, or at that times rescale[r] */

/* C (rows <= TILE, columns padded to W), one tile after the other. */
void QKV_K(attend_tiles)(size_t rows, size_t columns, enum tile_start how, float *c, size_t ldc, const float *rescale,
                         const float *a, size_t rs, size_t ns, const float *b, size_t ldb, size_t n);

QKV_INLINE size_t padded(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* The entries of the table (attend_table.c). */
/* Keys of a block in backward: whole panels and whole tiles, of which a unit is a multiple. Scalar has as many as the
 * widest tables, so that every machine compares tables of both kinds. */
enum { BACKWARD_KEYS = VECTORS == 4 && (W == 16 || W == 1) ? 192 : 96 };
_Static_assert(QKV_ATTEND_UNIT % BACKWARD_KEYS == 0, "a unit is whole blocks of keys");
size_t QKV_K(attend_forward_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_K(attend_backward_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_K(attend_few_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_K(attend_weights_scratch)(const struct qkv_attend_plan *plan);
size_t QKV_K(attend_sums_floats)(const struct qkv_attend_plan *plan);
void QKV_K(attend_forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_combine)(const struct qkv_attend_plan *plan, size_t item);
size_t QKV_K(attend_rows_bytes)(const struct qkv_attend_plan *plan);
void QKV_K(attend_pack_rows)(const struct qkv_attend_plan *plan, size_t item);
void QKV_K(attend_delta)(const struct qkv_attend_plan *plan, size_t begin, size_t end);
void QKV_K(attend_backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_forward_few)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
void QKV_K(attend_addend)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_gather)(const struct qkv_attend_plan *plan, size_t item);
void QKV_K(attend_weights)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_norm)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
void QKV_K(attend_sinks)(const struct qkv_attend_plan *plan, size_t item);
void QKV_K(attend_distances)(const struct qkv_attend_plan *plan, size_t item);

#endif
