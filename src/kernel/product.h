/* product: the matrix product, in a few ways to store what is multiplied.
 *
 * This header offers one table of products, a file and a line each: how x is stored, which weights it multiplies, what
 * it packs them into, and what it promises. An operand, the weights of one product, gets its row once, when weights are
 * finished; no other room asks for a precision. All products are parallel inside, take scratch from the arena that they
 * get, and give it back before they return. */
#ifndef QKV_PRODUCT_H
#define QKV_PRODUCT_H

#include "kernel/kernel.h"
#include "kernel/order.h"

/* ---- operands --------------------------------------------------------------------------------------------------- */

struct qkv_matrix { /* of fp32 */
    const float *data;
    size_t row_stride, column_stride;
};
struct qkv_operand {
    const void *data;
    enum qkv_dtype dtype;
    size_t row_stride, column_stride; /* in numbers; one of them is 1 */
};
/* Stored weights as B of a product, instead of its data. Rows of B are rows of the weights, or, if `transposed`,
 * columns. weights NULL: none. */
struct qkv_stored_operand {
    const struct qkv_stored *weights;
    bool transposed;
    /* or, for products in bf16 only, Bᵀ as qkv_bf16_pack packs it for (N,K); NULL: no such operand */
    const void *turned;
};
/* A part of B, of stored weights: terms [k, k + terms) of columns [n, n + columns). */
struct qkv_stored_cut {
    size_t k, terms, n, columns;
    size_t run; /* terms of a run of the product: runs begin at multiples of it */
    size_t nr;  /* columns of a panel: panels begin at n */
};
/* A piece of it in fp32, in one run and one panel. */
struct qkv_stored_piece {
    struct qkv_matrix data;
    size_t k, n, terms, columns;
};
typedef void qkv_stored_visit(void *user, const struct qkv_stored_piece *piece);
/* Visits the pieces of a part of B. Each block is converted once if the part consists of whole blocks of the weights'
 * rows. */
void qkv_stored_pieces(const struct qkv_kernels *kernels, struct qkv_stored_operand stored,
                       const struct qkv_stored_cut *cut, qkv_stored_visit *visit, void *user);

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* An epilogue is an operation on each block of C that is complete, while it is in cache; the product's own threads
 * compute it (epilogue.c). X(name, whole_rows, fp32): whether it needs whole rows of C, and whether C must be fp32.
 * Neither `residual` nor `out` overlaps C. */
#define QKV_EPILOGUE_LIST(X)                                                                                           \
    /* C = residual + scale·C */                                                                                      \
    X(residual, false, true)                                                                                           \
    /* out (M,N) = act(C), stored as C is; slope: and C, in fp32, becomes act'(C) */                                   \
    X(activation, false, false)                                                                                        \
    /* out (M,N/2) = act(gate)·up, stored as C is; C is gate and up, side by side */                                  \
    X(gated, true, false)                                                                                              \
    /* C = softcap(C) */                                                                                               \
    X(softcap, false, true)
#define QKV_EPILOGUE_KIND(name, whole_rows, fp32) QKV_EPILOGUE_##name,
enum qkv_epilogue_kind { QKV_EPILOGUE_none, QKV_EPILOGUE_LIST(QKV_EPILOGUE_KIND) QKV_EPILOGUE_COUNT };
struct qkv_epilogue {
    enum qkv_epilogue_kind kind;
    const float *residual; /* (M,N) */
    float scale;
    void *out;
    size_t ld;             /* numbers from one row of residual, or of out, to the next */
    enum qkv_ffn_kind ffn; /* whose activation */
    float limit;           /* of gates that clamp */
    bool slope;
    struct qkv_softcap softcap;
};
/* C (M,N) = A (M,K) · B (K,N) [+ C] [+ bias]. A and B are read through two strides each, which covers all transposed
 * forms; C is row-major. */
struct qkv_product_call {
    void *c;
    enum qkv_dtype dtype; /* of C: QKV_F32, or QKV_BF16 where the context stores activations so */
    size_t ldc;           /* numbers from one row of C to the next */
    struct qkv_operand a, b;
    struct qkv_stored_operand stored; /* B, if it has weights */
    const void *packed;               /* B as the product packs it for (K,N): then b's data is not read; or NULL */
    size_t M, N, K;
    bool accumulate;              /* adds to C */
    const float *bias;            /* N floats added to every row, or NULL */
    struct qkv_epilogue epilogue; /* {0}: none */
};
typedef enum qkv_status qkv_product_multiply(struct qkv_context *ctx, struct qkv_arena *scratch,
                                             const struct qkv_product_call *call);
/* C (M,N) += A (M,K) · B (K,N), summed over K in a defined order (kernel/order.h); K is the number of all terms. A is
 * fp32 and its row_stride is 1; B's column_stride is 1. */
struct qkv_sums_call {
    float *c;
    size_t ldc;
    struct qkv_operand a, b;
    size_t M, N;
    const struct qkv_order *order;
    struct qkv_order_carry *carry; /* or NULL */
};
typedef enum qkv_status qkv_product_sum(struct qkv_context *ctx, struct qkv_arena *scratch,
                                        const struct qkv_sums_call *call);

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* What a product promises about its bits. All of them: a row of C has the same bits whatever M is, whichever rows
 * surround it, and at any number of threads. The tests choose their oracle by the promise (tests/test_products.c). */
enum qkv_promise {
    /* Weights in any type have the bits of the same numbers in fp32: they are converted where they are packed or read.
     * A kernel table has an order of sums of its own, so tables may differ in bits. */
    QKV_AS_FP32,
    /* x and weights are blocks of integers with scales. The sum inside of a block is an exact integer; blocks are added
     * in fp32, each as acc = fmaf(scale of x · scale of w, (float)sum, acc), from the first to the last. So the bits
     * are the same on every instruction set too. */
    QKV_EXACT_BLOCKS
};

struct qkv_product {
    const char *name, *help;
    enum qkv_promise promise;
    /* Contexts of this precision multiply in this way whatever has no row of its own: gradients, and weights of other
     * types; -1: no context does, the row serves some types of stored weights. */
    int precision;
    /* Whether this row is for stored weights of a type; NULL: for all that have no row of their own, and for fp32. */
    bool (*serves)(enum qkv_dtype type);
    /* How activations that only products read are stored (QKV_F32 or QKV_BF16), and the type in which `multiply` reads
     * x. `rounds`: it reads fp32 as well, and converts where it packs. */
    enum qkv_dtype activation, form;
    bool rounds;
    /* Converts n numbers to the form, as packing does: products of `out` have the bits of products of x. NULL: the form
     * is fp32. */
    void (*round)(const struct qkv_context *ctx, void *out, const float *x, size_t n);
    /* Whether the table has instructions for it; else other instructions compute the same, more slowly. */
    bool (*native)(const struct qkv_kernels *kernels);
    /* The bytes of a packed B (K,N), which many products can read; false if they do not fit in size_t. They depend on
     * the kernel table, and in rows for some types on the stored weights. NULL: weights are read as they are stored. */
    bool (*packed_bytes)(const struct qkv_context *ctx, const struct qkv_stored *stored, size_t K, size_t N,
                         size_t *bytes);
    void (*pack)(struct qkv_context *ctx, void *packed, struct qkv_operand b, struct qkv_stored_operand stored,
                 size_t K, size_t N);
    qkv_product_multiply *multiply;
    /* Sums in a defined order, and whether they can be carried: qkv_order_carry, which then also holds with fewer
     * sequences or terms. NULL in rows for stored weights. */
    qkv_product_sum *sum;
    bool (*carries)(const struct qkv_context *ctx, const struct qkv_order *order);
    /* The kernels of attention that multiply in the same way; NULL: in fp32. */
    const struct qkv_attend_bf16_kernels *(*attend)(const struct qkv_kernels *kernels);
};
/* Multiplies; within qkv_plan_at_most it plans for any smaller M, and for an epilogue, too. */
enum qkv_status qkv_product_run(const struct qkv_product *product, struct qkv_context *ctx, struct qkv_arena *scratch,
                                const struct qkv_product_call *call);

/* Every product: X(name). A row is qkv_product_NAME, in product_NAME.c. */
#define QKV_PRODUCT_LIST(X)                                                                                            \
    X(f32)                                                                                                             \
    X(bf16)                                                                                                            \
    X(codes32)                                                                                                         \
    X(codes256)
#define QKV_PRODUCT_DECLARE(name) extern const struct qkv_product qkv_product_##name;
QKV_PRODUCT_LIST(QKV_PRODUCT_DECLARE)
#undef QKV_PRODUCT_DECLARE

/* The i-th row; NULL past the end. */
const struct qkv_product *qkv_product_at(size_t i);
/* The row of a precision, and that of the context's. */
const struct qkv_product *qkv_product_of_precision(enum qkv_precision precision);
const struct qkv_product *qkv_product_of(const struct qkv_context *ctx);
/* The row that multiplies x by stored weights: the first that serves the types of all parts, if their rows fill whole
 * blocks of its x; else `general`. stored NULL, or without parts: general. */
const struct qkv_product *qkv_product_choose(const struct qkv_product *general, const struct qkv_stored *stored);

/* ---- fp32 (gemm.c, gemm_few.c, gemm_order.c) ----------------------------------------------------------------------
 * k = 0…K−1 is cut into runs of a length that depends on K only; in each element of C a run is one chain of fused
 * multiply-adds from zero, and the runs are added in order. K = 0 gives zeros (or C, or the bias). */
qkv_product_multiply qkv_gemm;
qkv_product_sum qkv_gemm_ordered;
bool qkv_gemm_carries(const struct qkv_context *ctx, const struct qkv_order *order);
/* Whether products of fp32 matrices A (M, K) and B (K, N) that are contiguous along M and N read both without packing:
 * the second cache can hold a run of both, although its terms are far apart. */
bool qkv_gemm_across(const struct qkv_context *ctx, size_t a_stride, size_t b_stride, size_t N);

/* ---- bf16 (gemm_bf16.c, gemm_order.c) ----------------------------------------------------------------------------
 * A and B are rounded to bf16 if they are fp32; products and sums are fp32; C is stored as fp32 or, rounded once, as
 * bf16. A machine without bf16 products multiplies the rounded numbers as fp32. K > 0. */
qkv_product_multiply qkv_gemm_bf16;
qkv_product_sum qkv_gemm_bf16_ordered;
bool qkv_gemm_bf16_carries(const struct qkv_context *ctx, const struct qkv_order *order);
bool qkv_bf16_packed_bytes(const struct qkv_context *ctx, const struct qkv_stored *stored, size_t K, size_t N,
                           size_t *bytes);
void qkv_bf16_pack(struct qkv_context *ctx, void *packed, struct qkv_operand b, struct qkv_stored_operand stored,
                   size_t K, size_t N);
/* Rounds n numbers as packing does, so that products of `out` have the bits of products of x. */
void qkv_bf16_round(const struct qkv_context *ctx, uint16_t *out, const float *x, size_t n);

/* ---- integers (gemm_codes.c) -------------------------------------------------------------------------------------
 * isa/codes.h has the order of sums. x is in a form, i8_32 or i8_256; all parts of the stored weights have types whose
 * blocks are integers with scales. Packed or not, the bits are the same. */
qkv_product_multiply qkv_gemm_codes;
bool qkv_codes_packed_bytes(const struct qkv_context *ctx, const struct qkv_stored *stored, size_t K, size_t N,
                            size_t *bytes);
void qkv_codes_pack(struct qkv_context *ctx, void *packed, struct qkv_operand b, struct qkv_stored_operand stored,
                    size_t K, size_t N);
/* Converts n numbers to a form. */
void qkv_codes_round(const struct qkv_context *ctx, enum qkv_dtype form, void *out, const float *x, size_t n);

#endif
