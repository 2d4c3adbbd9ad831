/* attend_few_product.h: products of a few rows in registers, for attend_few.c and attend_bf16_few.c. Before they
 * include this, they define the element and the vector of the operands, how elements are loaded (few_load), broadcast
 * (few_spread), multiplied and added (few_dot), and FEW_TILE, the maximum of rows: their sums of two vectors, two
 * vectors of the right operand and one of the left fill the registers.
 *
 *   C[r][c] = Σ_n A[r][n] · B[n·ldb + c], one chain from 0 on
 *
 * A gradient adds 0, which turns every negative zero of the sum into a positive one (put_cells), and may be added to
 * C. */
#ifndef QKV_ISA_ATTEND_FEW_PRODUCT_H
#define QKV_ISA_ATTEND_FEW_PRODUCT_H

struct few_left { /* element (r,n) is at r·row + n·term, in bytes */
    const void *at;
    size_t row, term;
};

static inline struct few_left few_from(struct few_left x, size_t r) {
    x.at = (const char *)x.at + r * x.row;
    return x;
}

enum few_put { FEW_SUM, FEW_GRADIENT, FEW_ADDED };

QKV_INLINE void few_product_of(const size_t R, const size_t V, enum few_put put, float *c, size_t ldc,
                               struct few_left a, const few_element *b, size_t ldb, size_t terms) {
    vf sum[FEW_TILE][2];
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < V; v++) sum[r][v] = vf_zero();
    }
    const char *left = a.at;
    for (size_t n = 0; n < terms; n++) {
        few_vector column[2];
        QKV_UNROLL
        for (size_t v = 0; v < V; v++) column[v] = few_load(b + n * ldb + v * W);
        QKV_UNROLL
        for (size_t r = 0; r < R; r++) {
            few_element element;
            memcpy(&element, left + r * a.row, sizeof element);
            QKV_UNROLL
            for (size_t v = 0; v < V; v++) sum[r][v] = few_dot(sum[r][v], few_spread(element), column[v]);
        }
        left += a.term;
    }
    QKV_UNROLL
    for (size_t r = 0; r < R; r++) {
        QKV_UNROLL
        for (size_t v = 0; v < V; v++) {
            float *to = c + r * ldc + v * W;
            if (put != FEW_SUM) sum[r][v] = vf_add(sum[r][v], vf_zero());
            if (put == FEW_ADDED) sum[r][v] = vf_add(vf_load(to), sum[r][v]);
            vf_store(to, sum[r][v]);
        }
    }
}

#define FEW_CASE(R)                                                                                                    \
    case 2 * (R) + 0:                                                                                                  \
        few_product_of(R, 1, put, c + done, ldc, a, b + done, ldb, terms);                                             \
        break;                                                                                                         \
    case 2 * (R) + 1:                                                                                                  \
        few_product_of(R, 2, put, c + done, ldc, a, b + done, ldb, terms);                                             \
        break;

/* c (rows <= FEW_TILE,columns) = a·b; columns are a multiple of W. */
static void few_product(size_t rows, size_t columns, enum few_put put, float *c, size_t ldc, struct few_left a,
                        const few_element *b, size_t ldb, size_t terms) {
    for (size_t done = 0, step; done < columns; done += step) {
        step = columns - done >= 2 * W ? 2 * W : W;
        switch (2 * rows + (step > W)) {
            FEW_CASE(1)
            FEW_CASE(2)
            FEW_CASE(3)
            FEW_CASE(4)
#if FEW_TILE > 4
            FEW_CASE(5)
            FEW_CASE(6)
#endif
#if FEW_TILE > 6
            FEW_CASE(7)
            FEW_CASE(8)
            FEW_CASE(9)
            FEW_CASE(10)
            FEW_CASE(11)
            FEW_CASE(12)
            FEW_CASE(13)
            FEW_CASE(14)
#endif
        }
    }
}

#endif
