/* attend_tile.c: products of a few rows in registers: R rows of broadcasts times V vectors, for every R and V. */
#include "kernel/isa/attend_tile.h"

QKV_INLINE void tile(const int R, const int V, const enum tile_start how, float *c, size_t ldc, const float *rescale,
                     const float *a, size_t rs, size_t ns, const float *b, size_t ldb, size_t n) {
    vf sum[TILE][4];
    QKV_UNROLL
    for (int r = 0; r < R; r++) {
        QKV_UNROLL
        for (int v = 0; v < V; v++) {
            if (how == FRESH) sum[r][v] = vf_zero();
            if (how == ADD) sum[r][v] = vf_load(c + (size_t)r * ldc + v * W);
            if (how == RESCALE) sum[r][v] = vf_mul(vf_load(c + (size_t)r * ldc + v * W), vf_set(rescale[r]));
        }
    }
    for (size_t i = 0; i < n; i++) {
        vf column[4];
        QKV_UNROLL
        for (int v = 0; v < V; v++) column[v] = vf_load(b + v * W);
        QKV_UNROLL
        for (int r = 0; r < R; r++) {
            vf x = vf_set(a[(size_t)r * rs]);
            QKV_UNROLL
            for (int v = 0; v < V; v++) sum[r][v] = vf_fma(x, column[v], sum[r][v]);
        }
        a += ns;
        b += ldb;
    }
    QKV_UNROLL
    for (int r = 0; r < R; r++) {
        QKV_UNROLL
        for (int v = 0; v < V; v++) vf_store(c + (size_t)r * ldc + v * W, sum[r][v]);
    }
}

#define TILE_CASE(R, V)                                                                                                \
    case (R)*8 + (V):                                                                                                  \
        tile(R, V, how, c + done, ldc, rescale, a, rs, ns, b + done, ldb, n);                                          \
        break;
#define TILE_CASES(R)                                                                                                  \
    TILE_CASE(R, 1)                                                                                                    \
    TILE_CASE(R, 2)

QKV_INLINE void tiles(size_t rows, size_t columns, const enum tile_start how, float *c, size_t ldc,
                      const float *rescale, const float *a, size_t rs, size_t ns, const float *b, size_t ldb,
                      size_t n) {
    const size_t max_vectors = rows <= 3 ? 4 : VECTORS; /* a few rows leave registers for more vectors */
    for (size_t done = 0, step; done < columns; done += step * W) {
        step = max_vectors;
        while (done + step * W > padded(columns, W)) step /= 2;
        switch (rows * 8 + step) {
            TILE_ROWS(TILE_CASES)
            TILE_CASE(1, 4)
            TILE_CASE(2, 4)
            TILE_CASE(3, 4)
#if QKV_ATTEND_VECTORS > 2
            TILE_CASE(4, 4)
            TILE_CASE(5, 4)
            TILE_CASE(6, 4)
#endif
        }
    }
}

void QKV_K(attend_tiles)(size_t rows, size_t columns, enum tile_start how, float *c, size_t ldc, const float *rescale,
                         const float *a, size_t rs, size_t ns, const float *b, size_t ldb, size_t n) {
    if (how == FRESH)
        tiles(rows, columns, FRESH, c, ldc, rescale, a, rs, ns, b, ldb, n);
    else if (how == ADD)
        tiles(rows, columns, ADD, c, ldc, rescale, a, rs, ns, b, ldb, n);
    else
        tiles(rows, columns, RESCALE, c, ldc, rescale, a, rs, ns, b, ldb, n);
}
