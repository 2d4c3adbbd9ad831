/* kernel: the arithmetic, once for every instruction set.
 *
 * Offers: the kernel table that a context chose (row and vector kernels, called by operators inside qkv_parallel
 * bodies), and two drivers that are parallel by themselves: the matrix product (qkv_gemm) and attention (qkv_attend_*).
 * The sources in kernel/isa are compiled once per ISA; scalar is the oracle that every other table is tested against.
 *
 * Rules for all kernels: output first, then inputs, then sizes; no allocation, no threads, no failure; pointers need no
 * alignment; inputs and outputs do not overlap unless the comment says "may be"; `accumulate` adds to the output
 * instead of overwriting it. What a row gives depends on that row only, never on how many rows came with it. */
#ifndef QKV_KERNEL_H
#define QKV_KERNEL_H

#include "base/base.h"
#include "kernel/page.h"
#include "type/type.h"

/* X(return type, name, (parameters)). Row-major; `ld…` is the distance between rows, in floats. */
#define QKV_KERNEL_LIST(X)                                                                                             \
    /* y = a + b; y may be a or b */                                                                                   \
    X(void, add, (float *y, const float *a, const float *b, size_t n))                                                 \
    /* y = x + others[0] + others[1] …, in this order, written past the caches; y may be one of the inputs */        \
    X(void, add_several, (float *y, const float *x, const float *const *others, size_t count, size_t n))               \
    /* y = s·x, or y += s·x; y may be x */                                                                           \
    X(void, scale, (float *y, bool accumulate, const float *x, float s, size_t n))                                     \
    /* bf16 to fp32; and back, rounded to nearest even, NaN staying NaN; not in place */                               \
    X(void, widen, (float *y, const uint16_t *x, size_t n))                                                            \
    X(void, narrow, (uint16_t * y, const float *x, size_t n))                                                          \
    /* sum of x², in double */                                                                                        \
    X(double, sum_squares, (const float *x, size_t n))                                                                 \
    /* out[c] += sum over rows of x[row][c]: rows are added one after the other */                                     \
    X(void, column_sums, (float *out, const float *x, size_t ldx, size_t rows, size_t C))                              \
    /* y = exp(x), relative error <= 2e-7 where the result is normal; 0 below, inf above, NaN for NaN */               \
    X(void, exp, (float *y, const float *x, size_t n))                                                                 \
    /* y = act(x), by the activation of a kind of feed-forward */                                                      \
    X(void, activation_forward, (enum qkv_ffn_kind kind, float *y, const float *x, size_t n))                          \
    /* dx (+)= dy · act'(x); dx may be dy */                                                                          \
    X(void, activation_backward,                                                                                       \
      (enum qkv_ffn_kind kind, float *dx, bool accumulate, const float *dy, const float *x, size_t n))                 \
    /* The same two where x is not needed again: forward writes act'(x) over x; dx (+)= dy · slope, the same */       \
    /* bits. dx may be dy */                                                                                           \
    X(void, activation_forward_slope, (enum qkv_ffn_kind kind, float *y, float *x, size_t n))                          \
    X(void, activation_backward_slope, (float *dx, bool accumulate, const float *dy, const float *slope, size_t n))    \
    /* y[n] = act(gate[n]) · up[n]; limit: of kinds that clamp (the gate to at most limit, up to ±limit); */         \
    /* others ignore it */                                                                                             \
    X(void, gated_forward,                                                                                             \
      (enum qkv_ffn_kind kind, float limit, float *y, const float *gate, const float *up, size_t n))                   \
    /* dgate (+)= dy · up · act'(gate); dup (+)= dy · act(gate); 0 of what is outside of the limit */               \
    X(void, gated_backward,                                                                                            \
      (enum qkv_ffn_kind kind, float limit, float *dgate, float *dup, bool accumulate, const float *dy,                \
       const float *gate, const float *up, size_t n))                                                                  \
    /* Each row normalised: y = xhat·(offset + w) + b, xhat = (x − mean)·rstd, rstd = 1/sqrt(mean (x − */        \
    /* mean)² + eps), without mean in kinds that are not centered (QKV_NORM_LIST). w NULL: y = xhat; b NULL: */       \
    /* nothing is added. mean (of centered kinds) and rstd, one a row, may be NULL; y may be x */                      \
    X(void, norm_forward,                                                                                              \
      (enum qkv_norm_kind kind, float *y, float *mean, float *rstd, const float *x, const float *w, const float *b,    \
       float eps, size_t rows, size_t C))                                                                              \
    /* dx (+)= …; dw[C] += Σ dy·xhat; db[C] += Σ dy. dx, dw, db may each be NULL, and mean in kinds that */       \
    /* are not centered */                                                                                             \
    X(void, norm_backward,                                                                                             \
      (enum qkv_norm_kind kind, float *dx, bool accumulate, float *dw, float *db, const float *dy, const float *x,     \
       const float *mean, const float *rstd, const float *w, size_t rows, size_t C))                                   \
    /* Rotates in place the first 2·pairs channels of each of `heads` heads (D apart) of one row; cos_sin is */       \
    /* (pairs,2). half: channel i with i + pairs; interleaved: 2i with 2i + 1. inverse: by the negative angle */       \
    X(void, rotate,                                                                                                    \
      (float *x, size_t heads, size_t D, size_t pairs, bool interleaved, const float *cos_sin, bool inverse))          \
    /* Clamps x to ±limit in place, NaN staying NaN. inside: bit i % 8 of byte i / 8: |x[i]| <= limit; NULL: */       \
    /* not wanted */                                                                                                   \
    X(void, clip, (float *x, uint8_t *inside, float limit, size_t n))                                                  \
    /* y = x·m/(1−p), m = 0 with probability p: element e (counted from `first`) of the mask that `key` */          \
    /* names; y may be x. kept: bit i % 8 of byte i / 8: m of x[i] is not 0; NULL: not wanted. See random in */        \
    /* base: Threefry on (e / 2, stream), word e % 2; kept when the word >= p·2^32 */                                 \
    X(void, dropout,                                                                                                   \
      (float *y, uint8_t *kept, const float *x, float p, const uint32_t key[2], uint64_t first, size_t n))             \
    /* dx (+)= dy·m/(1−p), with the m that dropout left in `kept`; dx may be dy */                                  \
    X(void, dropout_backward, (float *dx, bool accumulate, const float *dy, const uint8_t *kept, float p, size_t n))   \
    /* log Σ exp(x) of a row of n >= 1 */                                                                             \
    X(float, log_sum_exp, (const float *x, size_t n))                                                                  \
    /* y = s·exp(x − lse) − less, a row of softmax times s, less a number; y may be x */                          \
    X(void, softmax_scaled, (float *y, const float *x, float lse, float s, float less, size_t n))                      \
    /* AdamW (Loshchilov & Hutter 2019): g = gscale·dw; m, v moments; w −= rate·(m̂/(sqrt(v̂) + eps) + */        \
    /* decay·w) with m̂ = m/correction1, v̂ = v/correction2. coupled: Adam with L2, g += decay·w instead. */       \
    /* dw becomes 0 */                                                                                                 \
    X(void, adamw,                                                                                                     \
      (float *w, float *m, float *v, float *dw, float gscale, float rate, float beta1, float beta2, float eps,         \
       float decay, float correction1, float correction2, bool coupled, size_t n))                                     \
    /* SGD with momentum: g = gscale·dw + decay·w; m = momentum·m + g; w −= rate·m. dw becomes 0 */              \
    X(void, sgd, (float *w, float *m, float *dw, float gscale, float rate, float momentum, float decay, size_t n))     \
    /* Lion (Chen et al. 2023): g = gscale·dw; w −= rate·(sign(beta1·m + (1 − beta1)·g) + decay·w), then */   \
    /* m = beta2·m + (1 − beta2)·g. The sign of 0 is 0. dw becomes 0 */                                            \
    X(void, lion,                                                                                                      \
      (float *w, float *m, float *dw, float gscale, float rate, float beta1, float beta2, float decay, size_t n))      \
    /* A moment in place of a gradient, as Nesterov's: g = gscale·dw; m = momentum·m + (1 − momentum)·g; dw = */  \
    /* momentum·m + (1 − momentum)·g */                                                                            \
    X(void, momentum, (float *m, float *dw, float gscale, float momentum, size_t n))                                   \
    /* w −= rate·(gscale·dw + decay·w). dw becomes 0 */                                                           \
    X(void, descend, (float *w, float *dw, float gscale, float rate, float decay, size_t n))                           \
    /* Independent fused multiply-adds in registers only, for measuring the peak; returns the FLOPs done */            \
    X(double, fma_peak, (size_t iterations))                                                                           \
    /* Reads n floats for measuring the memory, as 1, 2, 4 or 8 streams of whole cache lines side by side, and */      \
    /* prefetches what is `ahead` bytes further in each; returns their sum, rounded as it comes */                     \
    X(double, read_all, (const float *x, size_t n, size_t streams, size_t ahead))

#define QKV_NORM_CENTERED(name, text, help, centered, offset) || (kind == QKV_NORM_##name && (centered))
#define QKV_NORM_OFFSET(name, text, help, centered, offset)   || (kind == QKV_NORM_##name && (offset) == 1)
/* Whether a norm takes the mean off; whether it multiplies by 1 + w. */
static inline bool qkv_norm_centered(enum qkv_norm_kind kind) {
    return false QKV_NORM_LIST(QKV_NORM_CENTERED);
}
static inline bool qkv_norm_plus_one(enum qkv_norm_kind kind) {
    return false QKV_NORM_LIST(QKV_NORM_OFFSET);
}

#define QKV_KERNEL_POINTER(type, name, parameters) type(*name) parameters;

/* The kernels of a table for a type of stored weights (isa/unpack.c); NULL: the functions of the type's file are
 * used. */
struct qkv_gemm_few;
struct qkv_type_kernels {
    void (*to_float)(float *out, const void *in, size_t n); /* n numbers, whole blocks; `in` may be unaligned */
    void (*from_float)(void *out, const float *in, size_t n);
    /* The product of a few rows (isa/gemm.h) with stored numbers. Its bits are those of the same numbers in fp32. NULL:
     * pieces of them are converted first. */
    void (*few)(const struct qkv_gemm_few *few);
};

/* Tiles of the matrix product: see isa/gemm_tiles.c and gemm.c. */
struct qkv_gemm_kernels;
/* The same in bf16: see isa/bf16.c and gemm_bf16.c. */
struct qkv_bf16_kernels;
/* Tiles of attention: see isa/attend.h and attend.c. */
struct qkv_attend_kernels;
/* The same on products of bf16: see isa/attend_bf16.h. */
struct qkv_attend_bf16_kernels;
/* Products of integers: see isa/codes.h. */
struct qkv_codes_kernels;

struct qkv_kernels {
    const char *isa;
    int width; /* floats in a vector */
    QKV_KERNEL_LIST(QKV_KERNEL_POINTER)
    const struct qkv_gemm_kernels *gemm;
    const struct qkv_bf16_kernels *bf16;
    const struct qkv_attend_kernels *attend;
    const struct qkv_attend_bf16_kernels *attend_bf16;
    const struct qkv_codes_kernels *codes;
    const struct qkv_type_kernels *types; /* [QKV_DTYPE_COUNT] */
};

/* qkv_context_create, with a backend for kernels alone (dispatch.c). */
/* Replaces QKV_PRECISION_AUTO by what it means in the context. Another number that is no precision is QKV_ARGUMENT. */
enum qkv_status qkv_precision_check(struct qkv_context *ctx, enum qkv_precision *precision);
enum qkv_status qkv_context_make(struct qkv_context **out, const struct qkv_context_options *options);
/* The i-th table that this machine can run, best first; NULL past the end. "scalar" is the last, except in builds of
 * the best table alone. */
const struct qkv_kernels *qkv_kernels_at(size_t i);
/* The measured peak of fused multiply-adds of all threads of the context together, FLOP/s; takes about 30 ms. */
double qkv_measure_peak(struct qkv_context *ctx);
/* The speed of reading: a buffer several times as large as the last-level cache, which all threads read together in the
 * way that was fastest at the start. Starting takes some tenths of a second, and fails with QKV_MEMORY; a measurement,
 * in bytes a second, takes some milliseconds. */
struct qkv_reading {
    const struct qkv_kernels *kernels;
    struct qkv_arena arena;
    float *data;
    size_t count, way;
    double best; /* of all measurements */
};
enum qkv_status qkv_reading_start(struct qkv_context *ctx, struct qkv_reading *reading);
double qkv_reading_measure(struct qkv_context *ctx, struct qkv_reading *reading);
void qkv_reading_end(struct qkv_reading *reading);

/* ---- stored weights (stored.c) --------------------------------------------------------------------------------- */
/* n numbers of a row, from a column on, as fp32. Blocks that the range begins or ends inside are converted whole. */
void qkv_stored_floats(const struct qkv_kernels *kernels, const struct qkv_stored *stored, size_t row, size_t column,
                       size_t n, float *out);
/* The part that has a row of the matrix; *row becomes the row of the part. */
const struct qkv_stored_part *qkv_stored_part_of(const struct qkv_stored *stored, size_t *row);
/* Numbers of the largest block of the parts. */
size_t qkv_stored_block(const struct qkv_stored *stored);

/* The measured peak of products of bf16 in registers, FLOP/s, of all threads together. */
double qkv_measure_bf16_peak(struct qkv_context *ctx);

/* ---- activations and softcaps (elements.c) ----------------------------------------------------------------------
 * Operators and the epilogues of products compute with the same functions, so their bits are the same. */
/* y = act(x), n numbers of fp32 or bf16; computed in fp32. */
void qkv_activate(const struct qkv_kernels *kernels, enum qkv_ffn_kind kind, enum qkv_dtype dtype, void *y,
                  const void *x, size_t n);
/* The same for a row of F gates and then F ups, x (2F): y = act(gate)·up. limit: as in gated_forward. */
void qkv_activate_gated(const struct qkv_kernels *kernels, enum qkv_ffn_kind kind, float limit, enum qkv_dtype dtype,
                        void *y, const void *x, size_t F);
/* A softcap of scores: a score s becomes cap·tanh(scale·s / cap). */
struct qkv_softcap {
    float scale; /* 0: 1 */
    float cap;   /* 0: no cap, the score becomes scale·s */
};
/* y = softcap(x); y may be x. */
void qkv_softcap_apply(const struct qkv_kernels *kernels, const struct qkv_softcap *options, float *y, const float *x,
                       size_t n);

/* ---- attention (attend.c, attend_back.c) -----------------------------------------------------------------------
 * y = softmax(softcap(scale·q·kᵀ) + bias, over the keys that the row attends to) · v, tiled with an online softmax
 * (Milakov & Gimelshein 2018; Dao et al. 2022), never T×T. K and V are read by H/Hkv query heads each, never repeated.
 * Arithmetic is fp32. In mixed precision, on a table with bf16 products, Q, K, V, the weights, dY and dS are rounded to
 * bf16 before they are multiplied, except in calls of more than 256 channels, and for the gradient of attention_bias.
 * Scores, softmax, row statistics and all sums are fp32 there too. Strides are in elements; the innermost (channel)
 * stride is 1. Head h reads kv head h / (H/Hkv). */
enum { QKV_POSITION_BITS = 20 }; /* bits of a position in the element numbers of dropout masks, for ordered sums */
struct qkv_heads {               /* (B, T, heads, channels) somewhere in memory */
    void *data;
    size_t batch_stride, row_stride, head_stride;
    enum qkv_dtype dtype; /* QKV_F32, QKV_BF16 or QKV_F16 */
};
/* The past of sequences in pages: key j of sequence b is position j % positions of page lists[b][j / positions]. Pages
 * that are rows (kernel/page.h) are batch rows of past_k and past_v, which are (count, positions, heads, channels). Of
 * other types past_k.data and past_v.data are the first pages, as in struct qkv_pages. The bits are those of contiguous
 * keys with the numbers of the pages. The speed of rows is too if positions is a multiple of QKV_ATTEND_BLOCK, so that
 * no block of keys crosses a page: blocks that do are copied together first. */
#define QKV_ATTEND_BLOCK 128 /* the blocks of keys of all kernels divide it */
struct qkv_page_table {
    /* (B): the pages of each sequence, as many as its past needs; NULL: the past is (B, past, …) */
    const int32_t *const *lists;
    size_t positions, count;           /* of a page; number of pages */
    const struct qkv_page_type *k, *v; /* how the pages of keys and of values store them */
    bool shared;                       /* values are the first Dv channels of the keys: past_v is past_k */
};
/* The strides of an array over (b, h, i, j) of (B, H, Tq, Tk); 0 broadcasts, keys are contiguous. */
struct qkv_pairs {
    size_t batch_stride, head_stride, row_stride;
    size_t missing; /* number of the last keys that it has no elements for: they are masked */
};
/* A distance_bias, as ALiBi's: table[h][j − i + zero] is added to the score of key j, where i is the position of the
 * query. */
struct qkv_distance_bias {
    const float *table; /* (H, row); NULL: none */
    size_t row, zero;   /* every distance that an interval contains must be in [0, row) */
};
/* All inputs and outputs of one attention. The caller fills the struct once, and passes it by pointer down to the
 * kernel.
 *
 * With q_start the queries are ragged: sequence b has q_start[b + 1] − q_start[b] of them, at most Tq. They are rows
 * q_start[b] … of q and y, whose batch_stride is not read, and of lo, hi and position; lse holds H blocks of their
 * number from q_start[b]·H on. With k_start the keys after the past are ragged in the same way, as rows of k and v; the
 * past and these are together at most Tk. Arrays over pairs, and the dropout mask, stay (B, H, Tq, Tk). If all lengths
 * are equal, the layout is that of a call without starts. A sequence has the bits that it has in a call of its own,
 * except its dropout mask, and except results that depend on the whole call, as products in bf16 do. */
struct qkv_attend {
    size_t B, H, Hkv, Tq, Tk, D, Dv;
    /* (B + 1), from 0 on, never falling; NULL: every sequence has Tq queries, Tk keys */
    const int32_t *q_start, *k_start;
    size_t q_rows, k_rows; /* q_start[B] and k_start[B], for the operator, which does not read these arrays */
    struct qkv_heads q, k, v, y;
    /* the first `past` of the Tk keys; k and v hold the others, from row 0 */
    struct qkv_heads past_k, past_v;
    size_t past;
    const int32_t *pasts;        /* (B): the past of each sequence, at most `past`; NULL: all have `past` */
    struct qkv_page_table pages; /* of the past; forward only */
    /* (B, H, Tq): log-sum-exp of each row, its sink included, −inf for a row without keys; NULL: not saved */
    float *lse;
    const int32_t *lo, *hi; /* (B, Tq): row i attends to keys j with lo <= j < hi; values outside [0, Tk] are clamped */
    /* The number of pairs of a query and a key of one head that lo and hi allow, for costs. 0: the operator counts them
     * when it runs; a plan has no lo and hi, so it needs the number */
    double pairs;
    const uint8_t *mask; /* or NULL: of those keys, only where mask is not 0 */
    struct qkv_pairs mask_strides;
    const float *attention_bias; /* or NULL: added to the score, after the softcap; −inf masks */
    struct qkv_pairs attention_bias_strides;
    struct qkv_distance_bias distance_bias; /* also added */
    const int32_t *position;                /* (B, Tq): positions of the queries; needed with a distance_bias only */
    /* (H), or NULL: a logit of each head that is in the denominator of the softmax and has no value (gpt-oss, 2025) */
    const float *sinks;
    /* softcap c > 0: s becomes c·tanh(s/c). dropout: on the weights, after the softmax. 0: off */
    float scale, softcap, dropout;
    /* the key of the dropout mask, whose element is ((b·H + h)·Tq + i)·Tk + j, as in the dropout kernel */
    uint32_t key[2];
    /* Not 0: nothing depends on the other batch rows (see sums in a defined order): backward sums dq over `ordered`
     * keys at a time and adds these sums in order; the dropout mask has element (((first_row + b)·H + h)·2^20 + i)·2^20
     * + j. 0: the dropout mask is that above, and backward is cut by all sizes of the call, or, if `alone`, by the
     * sizes of each sequence. */
    size_t ordered;
    bool alone;
    uint64_t first_row; /* the number of batch row 0 in a larger batch */
    /* whose kernels of attention are used; NULL: those of the context's precision */
    const struct qkv_product *product;
};
/* Checks heads, widths and sizes of a call (attend_check.c). The calls below check this and everything else. */
enum qkv_status qkv_attend_check_sizes(struct qkv_context *ctx, const struct qkv_attend *a);
/* A row without keys has y = 0 and gradient 0. Masked keys never reach a row's result: a NaN in a masked k, v,
 * distance_bias or attention_bias does not spread. A row's bits depend on its own inputs only: not on Tq, on the other
 * rows, or on the number of threads. */
/* Whether c can be a softcap: 0, or a positive number whose float is finite and has a finite inverse (from about
 * 2.94e-39 on). */
bool qkv_softcap_valid(double c);
/* Whether these three numbers, which become floats, are valid in a call. */
enum qkv_status qkv_attend_check_factors(struct qkv_context *ctx, double scale, double softcap, double dropout);
enum qkv_status qkv_attend_forward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a);
/* Gradients of q, k, v from dy, and from dlse if it is not NULL; `a` as in the forward call, with the y and lse that it
 * wrote. dq, dk, dv have their own strides; `accumulate` adds to them. Any of them may have data NULL. */
struct qkv_attend_gradients {
    struct qkv_heads dy, dq, dk, dv;
    struct qkv_heads dpast_k, dpast_v; /* of the first `past` keys */
    const float *dlse;                 /* or NULL: the gradient of lse, (B, H, Tq) */
    /* or NULL: the gradient of attention_bias, in its strides, summed over broadcast dimensions */
    float *dattention_bias;
    /* or NULL: gradients of the table of distances, (B, H, row), and of the sinks, (B, H). Each sequence has its own,
     * and they are always added to, so that the caller can add them in a defined order */
    float *ddistance_bias, *dsinks;
    bool accumulate;
};
enum qkv_status qkv_attend_backward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                    const struct qkv_attend_gradients *g);
/* The numbers of queries and keys of a sequence, ragged or not. */
size_t qkv_attend_queries(const struct qkv_attend *a, size_t b);
size_t qkv_attend_keys(const struct qkv_attend *a, size_t b);
/* A stage of one head and batch row: rows [first, first + rows) of the queries with all keys of that batch row, out
 * (rows, keys). Stages PRODUCTS and CAPPED are unmasked. SCORES are −inf, WEIGHTS 0, where the mask forbids; weights
 * come from the saved lse. DROPPED are the weights after the call's dropout. */
enum qkv_status qkv_attend_weights(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                   enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                   float *out);

/* ---- rotations (rotate.c) ---- */

/* Rotates the heads of a view, whose rows and positions were checked, in place, in parallel. scratch: for each thread
 * 2·pairs floats, where x is not fp32. */
void qkv_rotate_heads(struct qkv_context *ctx, const struct qkv_view *x, const struct qkv_rotation *rotation,
                      float *scratch);

#endif
