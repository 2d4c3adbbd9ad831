/* qkv/attention.h: attention on its own, for programs that have their own model; a part of qkv.h, which includes it.
 * Experimental: structs and calls may still change.
 *
 *     y = softmax(softcap(scale·q·kᵀ) + ALiBi + bias, over the keys that the masks allow) · v
 *
 * The calls qkv_attention_* compute this on plain buffers, forward and backward; qkv_module_create_attention
 * (qkv/modules.h) adds the projections. No call allocates a T×T matrix: memory besides inputs and outputs grows with T.
 * docs/attention.md has the formulas, pictures of the masks, and a table of the conventions of other libraries. This
 * example runs causal self attention forward and backward: 2 sequences of 128 positions, 8 query heads on 2 key/value
 * heads, 64 channels a head.
 *
 *     struct qkv_attention_call call = qkv_attention_call_defaults();
 *     call.q = qkv_view_bhtd(q, QKV_F32, 2, 8, 128, 64), call.y = qkv_view_bhtd(y, QKV_F32, 2, 8, 128, 64);
 *     call.k = qkv_view_bhtd(k, QKV_F32, 2, 2, 128, 64), call.v = qkv_view_bhtd(v, QKV_F32, 2, 2, 128, 64);
 *     call.lse = lse, call.mask.causal = true;                     // lse (2,8,128)
 *     if (qkv_attention_forward(ctx, &call)) puts(qkv_message(ctx));
 *     struct qkv_attention_gradients g = qkv_attention_gradients_defaults();
 *     g.dy = qkv_view_bhtd(dy, QKV_F32, 2, 8, 128, 64), g.dq = qkv_view_bhtd(dq, QKV_F32, 2, 8, 128, 64);
 *     g.dk = qkv_view_bhtd(dk, QKV_F32, 2, 2, 128, 64), g.dv = qkv_view_bhtd(dv, QKV_F32, 2, 2, 128, 64);
 *     if (qkv_attention_backward(ctx, &call, &g)) puts(qkv_message(ctx));
 *
 * The context's precision (qkv_context_precision) applies here as it does in models. With QKV_FP32, the default, all
 * arithmetic is fp32, whatever type the arrays are stored in. With QKV_MIXED_BF16, calls with at most 256 channels a
 * head round q, k, v and the weights to bf16 before they multiply them; backward also rounds dy and the gradients of
 * the scores. Scores, softmax, lse, all sums and the gradient of a bias are fp32 in both precisions.
 *
 * examples/attention.c is a whole program. One convention holds everywhere: in a mask, true means "attend". */
#ifndef QKV_PUBLIC_ATTENTION_H
#define QKV_PUBLIC_ATTENTION_H

#include "qkv/pass.h"

#ifdef QKV_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif

/* ---- masks as data --------------------------------------------------------------------------------------------------
 * The fields of this struct are conditions on the keys. A query attends to a key if all conditions that are set allow
 * it. The allowed keys of a query always form one interval. Query t of batch row b has the position
 * i = offset + offsets[b] + t among the keys 0 … Tk − 1, whether the keys are in one array or the first of them are in
 * past_k: 2 new queries after 3 positions have offset 3 and 5 keys. */
struct qkv_mask {
    /* Tk is the largest number of keys of a batch row, its past keys included. */
    size_t B, Tq, Tk;
    bool causal;            /* only keys j <= i */
    int64_t offset;         /* position of the first query; Tk − Tq makes the queries the last positions */
    const int32_t *offsets; /* (B): added to offset for each batch row; NULL: 0 */
    int64_t window;         /* w > 0: only keys with |i − j| < w; 0: no window */
    /* lengths, starts and prefix are numbers of keys, counted from the row's first key, which is the first key of its
     * past where it has one. Each is at least 0 and at most the number of the row's keys: Tk; with pasts, pasts[b] plus
     * the number of its keys in k. */
    const int32_t *lengths; /* (B): only keys j < lengths[b], the others are padding; NULL: all */
    const int32_t *starts;  /* (B): only keys j >= starts[b], the ones before are padding; NULL: all */
    /* (B), needs causal: causal does not apply to keys j < prefix[b] (prefix-LM); the other conditions do; NULL:
     * none */
    const int32_t *prefix;
    /* Packed documents: a query attends only to keys of its own document. key_documents holds the document number of
     * each key. Along a row of keys the numbers do not decrease; a negative number marks padding, which comes last.
     * With causal, a window, ALiBi or a distance_bias, the position of a query must be inside its own document, unless
     * that document has no keys. */
    const int32_t *key_documents;   /* (B,Tk); NULL: no documents */
    const int32_t *query_documents; /* (B,Tq); NULL: a query has the document of the key at its position */
    bool sides; /* true: the window has two separate sides, only keys i − left <= j <= i + right */
    /* number of keys that a query sees on each side of its own position, with sides; -1: no limit */
    int64_t left, right;
    /* Sequences of different lengths without padding, for the calls qkv_attention_* alone: B sequences are packed one
     * after the other into a single batch row. Positions and keys are then counted inside each sequence, and each array
     * above has one entry a sequence. offsets[b] = keys − queries of sequence b makes its queries the last positions.
     * Tq and Tk are the largest numbers of queries and keys of a sequence; 0: the library finds them. Documents cannot
     * be given as well.
     *
     * cu_q and cu_k (B + 1) are cumulative lengths, as in FlashAttention: sequence b is the rows
     * cu_q[b] … cu_q[b + 1] − 1 of q and y, and cu_k[b] … cu_k[b + 1] − 1 of k and v. The first entry is 0, no entry is
     * less than the one before, and the last is the number of rows. NULL: each batch row is a sequence of Tq queries
     * and Tk keys. */
    const int32_t *cu_q, *cu_k;
    /* past_k and past_v of a call hold the first keys of each sequence. With pasts, sequence (or batch row) b has
     * pasts[b] keys there, followed by its keys in k: cu_k[b + 1] − cu_k[b] of them, or Tk − past. `past` is the
     * largest number of past keys of a sequence; 0: past_k.T of the call, or with pasts the largest entry of pasts. */
    size_t past;
    const int32_t *pasts; /* (B), each 0 to past; NULL: past for all. Documents cannot be given as well */
};
QKV_API struct qkv_mask qkv_mask_defaults(void); /* every query attends to every key; positions count from 0 */
/* Writes the interval of each query to lo and hi, (B,Tq), or (cu_q[B]) with packed sequences. The query attends to keys
 * lo <= j < hi, counted from the first key of its sequence; lo == hi means no key. Fails with QKV_ARGUMENT,
 * QKV_SHAPE. */
QKV_API enum qkv_status qkv_mask_intervals(struct qkv_context *ctx, const struct qkv_mask *mask, int32_t *lo,
                                           int32_t *hi);
/* Writes the mask as a dense array (B,Tq,Tk): 1 where the query attends to the key, else 0. Queries and keys past the
 * lengths of packed sequences are 0. Fails with QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_mask_dense(struct qkv_context *ctx, const struct qkv_mask *mask, uint8_t *dense);
/* Writes document numbers for `count` documents that are packed one after the other into T positions: documents (T)
 * gets 0 for each of the first lengths[0] positions, then 1, and so on to count − 1; the positions after the last
 * document get −1. Fails with QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_mask_documents(struct qkv_context *ctx, const size_t *lengths, size_t count, size_t T,
                                           int32_t *documents);

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* A strided array (B,H,T,D): element (b, h, t, d) is data[b·batch + h·head + t·row + d]. Strides count elements, so any
 * layout fits without a copy. Calls do not write inputs; strides of an input may be 0, which broadcasts. */
struct qkv_view {
    void *data; /* aligned to the size of an element; may be NULL if there are no elements */
    /* QKV_F32, QKV_BF16 or QKV_F16: the type of storage; the context's precision decides how numbers multiply */
    enum qkv_dtype dtype;
    size_t B, H, T, D;
    size_t batch, head, row;
};
QKV_API struct qkv_view qkv_view_defaults(void); /* an empty view, fp32 */
/* Views of packed arrays: qkv_view_bhtd of (B,H,T,D), heads before positions; qkv_view_bthd of (B,T,H,D), positions
 * before heads. Any thread. */
QKV_API struct qkv_view qkv_view_bhtd(void *data, enum qkv_dtype dtype, size_t B, size_t H, size_t T, size_t D);
QKV_API struct qkv_view qkv_view_bthd(void *data, enum qkv_dtype dtype, size_t B, size_t T, size_t H, size_t D);
/* Views of `count` heads, or `count` positions (rows), of a view, from `first` on. For example, q, k and v in a packed
 * (B,T,3,H,D) are the heads from 0, H and 2·H of qkv_view_bthd(data, dtype, B, T, 3·H, D). A range that goes past the
 * end of the view gives an empty view, which calls refuse. Any thread. */
QKV_API struct qkv_view qkv_view_heads(struct qkv_view view, size_t first, size_t count);
QKV_API struct qkv_view qkv_view_rows(struct qkv_view view, size_t first, size_t count);

/* A call of attention. A field that is 0, NULL or false is off. Features combine as the table in docs/attention.md
 * shows. Empty batches, calls without queries and calls without keys are allowed: y is 0 for a query without keys. Tk
 * in the shapes below is the mask's: the largest number of keys of a row, its past included.
 *
 * With packed sequences (mask.cu_q, mask.cu_k), every view has one batch row: q is (1,H,rows,D), and so on. B, Tq and
 * Tk of the shapes below are then the mask's. lse and dlse of sequence b are (H, its queries), from element H·cu_q[b]
 * on. The b of qkv_attention_weights is the sequence, and out is (rows, its keys). Results and gradients of a sequence
 * have the same bits as in a call of its own; its dropout mask is the one that it has in a padded call. */
struct qkv_attention_call {
    struct qkv_view q;    /* (B,H,Tq,D) */
    struct qkv_view k, v; /* (B,Hkv,Tk,D), (B,Hkv,Tk,Dv); Hkv divides H, head h reads key/value head h / (H/Hkv) */
    /* Keys and values that come before k and v, as from a cache: (B,Hkv,past,D) and (B,Hkv,past,Dv), where B counts
     * sequences if they are packed; T 0: none. Row b has `past` keys there, or mask.pasts[b]; later positions of the
     * row are not read. k and v may be left out if all keys are here. */
    struct qkv_view past_k, past_v;
    /* A past in pages, as in a paged cache (block tables; Kwon et al. 2023, "PagedAttention"): past_k is
     * (pages,Hkv,positions,D) and past_v (pages,Hkv,positions,Dv). Row b of `pages` (B,page_columns) has the numbers of
     * the pages of sequence b in order. mask.pasts must be given; a sequence needs as many pages as pasts[b] keys fill,
     * and later entries of its row are not read. Sequences may share pages. A page may have any number of positions;
     * multiples of 128 are fastest. The kernels read the pages in place. Backward refuses a call with pages. NULL: no
     * pages. */
    const int32_t *pages;
    size_t page_columns;
    /* (B,H,Tq,Dv), written; it may share no element with an input or with lse (QKV_ARGUMENT) */
    struct qkv_view y;
    /* (B,H,Tq), written: the logarithm of each row's sum of exp(score), which includes exp(sink) if there are sinks;
     * −inf for a row without keys. qkv_attention_backward and qkv_attention_weights need it; NULL: it is not
     * written. */
    float *lse;
    double scale; /* multiplies q·k; 0: 1/sqrt(D) */
    /* c >= 2.94e-39, so that 1/c is finite: score s becomes c·tanh(s/c) before biases and masks; 0: off */
    double softcap;
    /* B, Tq, Tk and past are taken from the views and may stay 0. Keys and positions count from the first key of the
     * past: queries that come right after the past have offset past_k.T, or offsets = pasts. */
    struct qkv_mask mask;
    const uint8_t *dense; /* only keys where this is not 0 (true = attend); NULL: all */
    struct qkv_pair_shape dense_shape;
    const float *bias; /* added to the score; −inf masks the key; NULL: none */
    struct qkv_pair_shape bias_shape;
    const float *alibi; /* (H): slopes; −slope·|i − j| is added to the score (Press et al. 2022); NULL: none */
    /* (H,distances): distance_bias[h][j − i + distance_zero] is added to the score of key j for the query at position
     * i, as in T5 (Raffel et al. 2020). The table must cover every distance j − i that occurs. It cannot be combined
     * with alibi. NULL: none. */
    const float *distance_bias;
    size_t distances, distance_zero;
    /* (H): a logit for each head that is added to the softmax denominator and has no value (gpt-oss, 2025). Rows
     * without keys ignore it. NULL: none. */
    const float *sinks;
    /* probability that a weight is set to 0 after the softmax; the other weights are divided by 1 − p */
    double dropout;
    uint64_t seed; /* determines the dropout mask: the same in forward and backward, and for any number of threads */
};
/* A call without views: scale 1/sqrt(D), everything else off. */
QKV_API struct qkv_attention_call qkv_attention_call_defaults(void);
/* Computes attention: writes y, and lse if it is not NULL. A query that may attend to no key gets y = 0. Masked keys
 * never reach a result: a NaN in a masked k, v or bias does not spread. The context owns the scratch memory, which
 * grows to the size of the largest call. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_forward(struct qkv_context *ctx, const struct qkv_attention_call *call);

/* The gradients of a call. A gradient whose data is NULL is not computed. Arrays that are written may share no element
 * with each other or with arrays that are read (QKV_ARGUMENT). */
struct qkv_attention_gradients {
    struct qkv_view dy;         /* (B,H,Tq,Dv), read */
    struct qkv_view dq, dk, dv; /* written, shaped as q, k, v */
    /* written, shaped as past_k, past_v; rows at and past mask.pasts[b] are not changed */
    struct qkv_view dpast_k, dpast_v;
    /* gradient of the bias, in its shape and strides: the sum over all elements that one bias element is broadcast
     * to */
    float *dbias;
    float *ddistance_bias; /* (H,distances): gradient of distance_bias, the sum over all rows */
    float *dsinks;         /* (H): gradient of the sinks, the sum over all rows */
    bool accumulate;       /* true: gradients are added to the arrays; false: they overwrite them */
    /* (B,H,Tq), read: the gradient of lse, for a loss that depends on lse or for attention merged from parts. Its
     * effect is added to that of dy. NULL: 0. */
    const float *dlse;
};
QKV_API struct qkv_attention_gradients qkv_attention_gradients_defaults(void); /* no dy, and no gradient is wanted */
/* Computes gradients. `call` is the struct of the forward call, with the y and lse that forward wrote. dy is all 0 if
 * only lse has a gradient. The attention weights are computed again from lse (Dao 2023). Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_backward(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                               const struct qkv_attention_gradients *gradients);

/* Writes one stage (qkv/pass.h) of head h of batch row b for `rows` queries from `first` on: out (rows, keys). `keys`
 * is the number of keys of that batch row: past + Tk; with mask.pasts, pasts[b] + Tk; of a packed sequence, its own
 * keys. Scores have the numbers of the forward call; with mixed precision they come from rounded q and k. The stage
 * WEIGHTS needs call->lse as the forward call wrote it, and so does DROPPED, which also uses call->dropout and
 * call->seed; the other stages do not need lse. The weights of a row sum to 1; with sinks, the weights and
 * exp(sink − lse) do. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_weights(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                              enum qkv_attention_stage stage, size_t b, size_t h, size_t first,
                                              size_t rows, float *out);
/* Computes the bytes of scratch memory that a forward call needs; with gradients not NULL, that a backward call needs.
 * It allocates none of them. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_measure(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                              const struct qkv_attention_gradients *gradients, size_t *bytes);

/* ---- positions --------------------------------------------------------------------------------------------------- */

/* Rotary positions (RoPE; Su et al. 2021) for the first 2·pairs channels of every head. */
struct qkv_rotation {
    const float *table; /* (count,pairs,2): cosine and sine of the angle of each pair at each position */
    size_t count, pairs;
    bool interleaved; /* true: a pair is channels (2p, 2p + 1), as in GPT-J; false: (p, p + pairs), as in Llama */
    const int32_t *positions; /* (B,T): the table row of each position of x; NULL: row t */
    bool inverse;             /* true: rotates by the negative angle, which gives the gradient of x */
};
QKV_API struct qkv_rotation qkv_rotation_defaults(void); /* no table; false for interleaved; table rows 0, 1, … */
/* Rotates x in place. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_rotate(struct qkv_context *ctx, const struct qkv_view *x,
                                   const struct qkv_rotation *rotation);
/* Writes the usual table (count,pairs,2): cosine and sine of t·theta^(−p/pairs). Fails with QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_rotation_table(struct qkv_context *ctx, double theta, size_t count, size_t pairs,
                                           float *table);
/* Experimental: writes the table (count,pairs,2) of a position spec of kind rope with its scaling, with the numbers
 * that models use. `length` is the sequence length that dynamic and longrope scaling depend on; other kinds do not read
 * it. `context` is the context of the model; only longrope without a factor reads it, other kinds accept 0. `pairs` is
 * half the number of rotated channels; the fraction and pairing of the spec are not read. Fails with QKV_ARGUMENT,
 * QKV_SPEC (a number of the scaling is impossible), QKV_SHAPE, QKV_MEMORY. */
QKV_API enum qkv_status qkv_rotation_table_of(struct qkv_context *ctx, const struct qkv_position_spec *position,
                                              size_t context, size_t length, size_t count, size_t pairs, float *table);
/* Writes sinusoidal positions (Vaswani et al. 2017, section 3.5), table (count,C): position t and channel c get
 * sin(t·10000^(−2⌊c/2⌋/C)), or the cosine if c is odd. Fails with QKV_SHAPE, QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_sinusoid_table(struct qkv_context *ctx, size_t count, size_t C, float *table);
/* Writes the ALiBi slopes of H heads, slopes (H): 2^(−8(h+1)/H) if H is a power of two; other H as in Press et al.
 * (2022). Any thread. */
QKV_API void qkv_alibi_slopes(size_t H, float *slopes);

#ifdef __cplusplus
}
#endif
#endif

#endif
