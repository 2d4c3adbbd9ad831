/* qkv/attention.h: attention on its own, for programs that have their own model; a part of qkv.h, which includes it.
 * Experimental: structs and calls may still change.
 *
 *     y = softmax(softcap(scale·q·kᵀ) + ALiBi + bias, over the keys that the masks leave) · v
 *
 * on plain buffers, forward and backward (qkv_attention_*), and as a layer with its projections (qkv_attention_layer_*).
 * No T×T matrix is ever made: beside inputs and outputs, memory grows with T. docs/attention.md has the formulas, pictures
 * of the masks, and the conventions of other libraries side by side. For example, causal self attention of
 * 2 sequences of 128 positions with 8 query heads on 2 key/value heads of 64 channels, forward and backward:
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
 * The context's precision holds here as in models (qkv_context_precision). In QKV_FP32, which a context has unless its
 * options say otherwise, arithmetic is fp32, whatever the arrays are stored as. In QKV_MIXED_BF16 the products of calls
 * with at most 256 channels a head are those of q, k, v and weights rounded to bf16, and backward of dy and of the
 * gradients of scores too; scores, softmax, lse and all sums are fp32 there as well, and so is the gradient of a bias.
 *
 * examples/attention.c is a whole program. One convention holds everywhere: in a mask, true means "attend". */
#ifndef QKV_PUBLIC_ATTENTION_H
#define QKV_PUBLIC_ATTENTION_H

#include "qkv/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- masks as data ---------------------------------------------------------------------------------------------------
 * Which keys each query may attend to: those that everything said here allows. It always is one interval of keys. The
 * query of row t in batch row b stands at position i = offset + offsets[b] + t among the keys 0 … Tk − 1, wherever these
 * lie: 2 new queries after 3 positions have offset 3 and 5 keys, whether the 3 lie in k or in a past of their own. */
struct qkv_mask {
    size_t B, Tq, Tk;       /* Tk: all keys that a row has at most, those of its past among them */
    bool causal;            /* only keys j <= i */
    int64_t offset;         /* position of the first query; Tk − Tq: the queries are the last ones */
    const int32_t *offsets; /* (B): added to offset, batch row by batch row; NULL: 0 */
    int64_t window;         /* w > 0: only keys with |i − j| < w; 0: all */
    /* lengths, starts and prefix count a row's own keys from the first one, that of its past where it has one, and are
     * 0 to how many these are: Tk, or with pasts pasts[b] and the others. */
    const int32_t *lengths; /* (B): only keys j < lengths[b], the others are padding; NULL: all */
    const int32_t *starts;  /* (B): only keys j >= starts[b], those before are padding; NULL: all */
    const int32_t *prefix;  /* (B), with causal: keys j < prefix[b] are open to every query all the same
                               (prefix-LM); NULL: none */
    /* Packed documents: only keys of the query's own document. Documents are numbered; along a row of keys the numbers
     * do not decrease; a negative number is no document (padding, at the end). Where causal, a window or ALiBi counts,
     * a query whose document has keys must stand among these. */
    const int32_t *key_documents;   /* (B,Tk); NULL: no documents */
    const int32_t *query_documents; /* (B,Tq); NULL: a query belongs to the document of the key at its position */
    bool sides;                     /* a window with sides of their own: only keys i − left <= j <= i + right */
    int64_t left, right; /* with sides: how many keys a query sees there beside its own place; -1: all of them */
    /* Sequences packed one behind the other, without padding, for qkv_attention_*: B of them, of other lengths of queries
     * and of keys. Everything is counted inside a sequence: positions, and the keys of each of the arrays above, which
     * have an entry a sequence; offsets[b] of its keys less its queries puts the queries at the end of the keys. Tq and
     * Tk are the most queries and keys that a sequence has; 0: they are found out. Not with documents. */
    const int32_t *cu_q, *cu_k; /* (B + 1): sequence b is the rows cu_q[b] … cu_q[b + 1] − 1 of q and y, and
                                   cu_k[b] … of k and v. The first is 0, none falls, the last is how many rows
                                   there are. NULL: each batch row is a sequence of Tq queries and Tk keys */
    /* Keys that lie in a past of their own, past_k and past_v of a call, are the first ones. With pasts each sequence, or batch row, b
     * has pasts[b] of them and then the others: cu_k[b + 1] − cu_k[b], or Tk − past. */
    size_t past;          /* the most that any has; 0: the call's past, or the most of pasts */
    const int32_t *pasts; /* (B), 0 to past; NULL: past. Not with documents */
};
QKV_API struct qkv_mask qkv_mask_defaults(void); /* every query attends to every key; positions count from 0 */
/* The interval of each query, lo and hi (B,Tq), or of packed sequences (cu_q[B]), counted from the sequence's first key:
 * it attends to keys lo <= j < hi, to none where lo == hi. Fails with QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_mask_intervals(struct qkv_context *ctx, const struct qkv_mask *mask, int32_t *lo,
                                           int32_t *hi);
/* The same written out, dense (B,Tq,Tk): 1 where the query attends; 0 past the lengths of packed sequences. Fails with
 * QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_mask_dense(struct qkv_context *ctx, const struct qkv_mask *mask, uint8_t *dense);
/* Numbers for documents packed one behind the other into T positions: 0 … count − 1 by their lengths, −1 for what is
 * left. Fails with QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_mask_documents(struct qkv_context *ctx, const size_t *lengths, size_t count, size_t T,
                                           int32_t *documents);

/* ---- the call ---------------------------------------------------------------------------------------------------------- */

/* (B,H,T,D) somewhere in memory: element (b, h, t, d) is data[b·batch + h·head + t·row + d]. Strides are in elements, so
 * any layout fits without a copy. Inputs are not written and may have strides of 0, which broadcast. */
struct qkv_view {
    void *data; /* aligned as its elements are; may be NULL when there are none */
    /* QKV_F32, QKV_BF16 or QKV_F16: how numbers are stored; the context's precision says how they multiply */
    enum qkv_dtype dtype;
    size_t B, H, T, D;
    size_t batch, head, row;
};
QKV_API struct qkv_view qkv_view_defaults(void); /* a view of nothing, in fp32 */
/* Packed arrays of that shape, heads first (B,H,T,D) or positions first (B,T,H,D). */
QKV_API struct qkv_view qkv_view_bhtd(void *data, enum qkv_dtype dtype, size_t B, size_t H, size_t T, size_t D);
QKV_API struct qkv_view qkv_view_bthd(void *data, enum qkv_dtype dtype, size_t B, size_t T, size_t H, size_t D);
/* Some of the heads, or of the positions, of a view: q, k and v in a packed (B,T,3,H,D) are heads 0 …, H … and 2·H … of
 * qkv_view_bthd(data, dtype, B, T, 3·H, D). What reaches past the view becomes a view of nothing, which calls refuse. */
QKV_API struct qkv_view qkv_view_heads(struct qkv_view view, size_t first, size_t count);
QKV_API struct qkv_view qkv_view_rows(struct qkv_view view, size_t first, size_t count);

/* Everything not given (0, NULL, false) is off; everything may be combined (docs/attention.md has a table). Empty
 * batches, no queries and no keys are fine: y is 0 where there is no key. Tk of the shapes below is the mask's: the most keys that a
 * row has, those of the past included.
 *
 * For packed sequences (mask.cu_q, mask.cu_k) all views have one batch row, q (1,H,rows,D) and so on, and B, Tq and Tk of
 * the shapes below are the mask's; lse and dlse of sequence b are (H, its queries) from element H·cu_q[b] on, and b of
 * qkv_attention_weights is the sequence, out (rows, its keys). A sequence has the bits that it has in a call of its own, forward and
 * backward, but for its dropout mask, which is that of the padded call. */
struct qkv_attention_call {
    struct qkv_view q;    /* (B,H,Tq,D) */
    struct qkv_view k, v; /* (B,Hkv,Tk,D), (B,Hkv,Tk,Dv); Hkv divides H, head h reads key/value head h / (H/Hkv) */
    /* Keys and values before k and v, as from a cache: (B,Hkv,past,D), (B,Hkv,past,Dv), B being the sequences where these are packed;
     * T 0: none. Row b has past keys, or mask.pasts[b]; those behind them are not read. Where all keys lie there, k and v may be left
     * out. */
    struct qkv_view past_k, past_v;
    /* Or in pages, as of a paged cache (block tables; Kwon et al. 2023, "PagedAttention"): past_k is (pages,Hkv,positions,D), past_v
     * (pages,Hkv,positions,Dv), and pages (B,page_columns) has the numbers of each sequence's pages in order, as many as its
     * mask.pasts[b] keys need, which must be given; what stands behind them is not read. Sequences may share pages. Any number of
     * positions is fine; multiples of 128 are fastest. Nothing is copied. NULL: no pages. No backward */
    const int32_t *pages;
    size_t page_columns;
    struct qkv_view y; /* (B,H,Tq,Dv), written; it shares no element with an input, nor with lse (QKV_ARGUMENT) */
    /* (B,H,Tq), written: the logarithm of each row's sum of exp(score), the sink's among them where there are sinks;
     * −inf for a row without keys. Backward and weights need it; NULL: not kept */
    float *lse;
    double scale;         /* of q·k; 0: 1/sqrt(D) */
    double softcap;       /* c >= 2.94e-39 (1/c is finite): s becomes c·tanh(s/c) before biases and masks */
    struct qkv_mask mask; /* B, Tq, Tk and past are the call's and may stay 0. Keys and positions are counted from the
                                       first of the past: queries that follow it have offset past_k.T, or offsets pasts */
    const uint8_t *dense; /* only keys where this is not 0 (true = attend); NULL: all */
    struct qkv_pair_shape dense_shape;
    const float *bias; /* added to the score; −inf masks; NULL: none */
    struct qkv_pair_shape bias_shape;
    const float *alibi; /* (H): slopes; −slope·|i − j| is added to the score (Press et al. 2022); NULL: none */
    /* (H,distances): distance_bias[h][j − i + distance_zero] is added to the score of key j for the query at position i, as relative
     * biases are (Raffel et al. 2020); it has every distance that occurs, and alibi is NULL. NULL: none */
    const float *distance_bias;
    size_t distances, distance_zero;
    const float
        *sinks; /* (H): a logit of each head in the denominator of the softmax, without a value (gpt-oss, 2025); not for
                                       rows without keys. NULL: none */
    double dropout; /* the probability that a weight is dropped after the softmax; those kept are scaled
                                       by 1/(1 − p) */
    uint64_t seed;  /* names the dropout mask: the same in forward and backward, at any thread count */
};
/* No views yet; the scale is 1/sqrt(D), and all else is off. */
QKV_API struct qkv_attention_call qkv_attention_call_defaults(void);
/* Writes y, and lse if given. A query that may attend to no key gets y = 0. What is masked may hold anything, NaN too:
 * it does not leak. Scratch memory is kept in the context and grows to what the largest call needs. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_forward(struct qkv_context *ctx, const struct qkv_attention_call *call);

/* Gradients to be written, from dy; data NULL where one is not wanted. Those that are written share no element with
 * each other, nor with what is read (QKV_ARGUMENT). */
struct qkv_attention_gradients {
    struct qkv_view dy;               /* (B,H,Tq,Dv), read */
    struct qkv_view dq, dk, dv;       /* as q, k, v */
    struct qkv_view dpast_k, dpast_v; /* as past_k, past_v; rows behind a past (mask.pasts) stay as they are */
    float *dbias;                     /* in the bias's shape and strides: summed over what it is broadcast over */
    float *ddistance_bias;            /* (H,distances): summed over all rows */
    float *dsinks;                    /* (H): summed over all rows */
    bool accumulate;                  /* add to what they hold */
    const float *dlse;                /* (B,H,Tq), read: the gradient of lse, which is added to what dy gives, as
                                         for a loss on lse itself or for attention merged from parts; NULL: 0 */
};
QKV_API struct qkv_attention_gradients qkv_attention_gradients_defaults(void); /* no dy, and no gradient wanted */
/* `call` as in the forward call, with y and lse as that left them; dy is 0 where only lse has a gradient. Weights are computed again from lse (Dao 2023).
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_backward(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                               const struct qkv_attention_gradients *gradients);

/* One head of one batch row, for `rows` queries from `first` on: out (rows, keys) of a stage (qkv/pass.h), keys being
 * those that the row itself has: past + Tk; with mask.pasts pasts[b] + Tk; of a packed sequence, its own. Scores are
 * those that the forward call made, of rounded numbers in a context of mixed precision. Weights (those after dropout,
 * which call->dropout and seed say, too) come from call->lse as the forward call left it; the other stages do not need
 * it. The weights of a row sum to 1 in every context; with sinks, they and exp(sink − lse) do. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_weights(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                              enum qkv_attention_stage stage, size_t b, size_t h, size_t first,
                                              size_t rows, float *out);
/* Bytes of scratch that a forward call needs, or, with gradients, a backward call. Nothing is allocated. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_measure(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                              const struct qkv_attention_gradients *gradients, size_t *bytes);

/* ---- positions ------------------------------------------------------------------------------------------------------- */

/* Rotary positions (RoPE; Su et al. 2021): turns the first 2·pairs channels of every head in place. */
struct qkv_rotation {
    const float *table; /* (count,pairs,2): cosine and sine of the angle of each pair at each position */
    size_t count, pairs;
    bool interleaved; /* pairs are channels (2p, 2p + 1), as in GPT-J; else (p, p + pairs), as in Llama's files */
    const int32_t *positions; /* (B,T): rows of the table; NULL: t */
    bool inverse;             /* turns back: what the gradient of x needs */
};
QKV_API struct qkv_rotation qkv_rotation_defaults(void); /* no table; pairs of halves, at positions 0, 1, … */
/* Turns x by a rotation, in place. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_rotate(struct qkv_context *ctx, const struct qkv_view *x,
                                   const struct qkv_rotation *rotation);
/* The usual angles: t·theta^(−p/pairs). Fails with QKV_ARGUMENT, QKV_SHAPE. */
QKV_API enum qkv_status qkv_rotation_table(struct qkv_context *ctx, double theta, size_t count, size_t pairs,
                                           float *table);
/* Experimental: those of a position spec of kind rope with its scaling, as attention of models has them: for sequences decided for `length`
 * positions (read where the scaling depends on it), in a model of that context (read by longrope without a factor; else 0 is fine). pairs:
 * half of the rotated channels; the spec's fraction and pairing are not read. Any thread. Fails with QKV_ARGUMENT, QKV_SPEC (numbers of the
 * scaling), QKV_SHAPE, QKV_MEMORY. */
QKV_API enum qkv_status qkv_rotation_table_of(struct qkv_context *ctx, const struct qkv_position_spec *position,
                                              size_t context, size_t length, size_t count, size_t pairs, float *table);
/* Sines and cosines (Vaswani et al. 2017, 3.5): table (count,C), of position t and channel c sin or, where c is odd, cos of
 * t·10000^(−2⌊c/2⌋/C). Fails with QKV_SHAPE, QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_sinusoid_table(struct qkv_context *ctx, size_t count, size_t C, float *table);
/* The ALiBi slopes of H heads: 2^(−8(h+1)/H), and for other than powers of two as in Press et al. (2022). */
QKV_API void qkv_alibi_slopes(size_t H, float *slopes);

/* ---- the layer -----------------------------------------------------------------------------------------------------------
 * Attention with its projections: q = x·Wqᵀ + bq, k and v from x (self) or from a memory (cross), q and k normed where there is a
 * qk_norm, q, k and v clamped where there is a clip, q and k rotated where the position kind rotates,
 * y = attention(q, k, v)·Woᵀ + bo. All widths are free: 1024 → 8 heads of 64 with 111 values each → 2048 is
 * {.in = 1024, .out = 2048, .attention = {.heads = 8, .head_dim = 64, .value_dim = 111}}. */
struct qkv_attention_layer;

struct qkv_attention_layer_spec {
    int in;                              /* width of x */
    int kv_in;                           /* cross: width of the memory; 0: in */
    int out;                             /* width of y; 0: in */
    bool cross;                          /* keys and values come from a memory */
    struct qkv_attention_spec attention; /* heads must be given; kv_heads 0: heads; head_dim 0: in / heads; value_dim 0:
                                            head_dim; qk_norm.norm with weight false is bare, its eps 0: 1e-5; no latent */
    int context;                         /* the most positions; position kinds need it, else 0: no limit */
    double dropout;                      /* on the weights, unless attention.dropout says another */
};
/* Self attention without a limit of positions or dropout; `in` and heads are to be given, all other widths follow. */
QKV_API struct qkv_attention_layer_spec qkv_attention_layer_spec_defaults(void);
/* New weights: normal with standard deviation 1/sqrt(columns), zero biases. The spec is checked; a sentence names what
 * is wrong. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_attention_layer_create(struct qkv_context *ctx, const struct qkv_attention_layer_spec *spec,
                                                   uint64_t seed, struct qkv_attention_layer **out);
/* NULL is fine. */
QKV_API void qkv_attention_layer_free(struct qkv_attention_layer *layer);
/* The spec with everything filled in. */
QKV_API const struct qkv_attention_layer_spec *qkv_attention_layer_spec(const struct qkv_attention_layer *layer);
/* "q.weight" (H·D,in), "k.weight" (Hkv·D,kv_in), "v.weight" (Hkv·Dv,kv_in), "o.weight" (out,H·Dv), "q.bias" …, and of norms
 * "q_norm.weight" …, (D), (H,D) or (H·D) by what they are over; of sinks, "sinks.weight" (1,H); of positions that learn, "buckets.weight" (buckets,H),
 * "relative.weight" (2·max_distance + 1,H) or "slopes.weight" (1,H): names and shapes, writable weights, and gradients of the same
 * shape, zero at first; NULL past the last. */
QKV_API size_t qkv_attention_layer_parameters(const struct qkv_attention_layer *layer);
QKV_API const struct qkv_array *qkv_attention_layer_parameter(const struct qkv_attention_layer *layer, size_t i);
QKV_API float *qkv_attention_layer_weights(struct qkv_attention_layer *layer, size_t i);
QKV_API float *qkv_attention_layer_gradient(struct qkv_attention_layer *layer, size_t i);
QKV_API void qkv_attention_layer_clear_gradients(struct qkv_attention_layer *layer);

/* Keys and values of B rows, up to `capacity` positions each, projected and rotated, for decoding step by step. Self
 * attention appends those of every forward call; cross attention keeps those of the latest memory. A cache may outlive
 * its layer. Fails with QKV_ARGUMENT, QKV_MEMORY. */
struct qkv_attention_cache;
QKV_API enum qkv_status qkv_attention_cache_create(struct qkv_attention_layer *layer, size_t B, size_t capacity,
                                                   struct qkv_attention_cache **out);
/* NULL is fine. */
QKV_API void qkv_attention_cache_free(struct qkv_attention_cache *cache);
/* Positions that the cache holds. */
QKV_API size_t qkv_attention_cache_length(const struct qkv_attention_cache *cache);
/* Forgets all positions at and past `length`. */
QKV_API void qkv_attention_cache_truncate(struct qkv_attention_cache *cache, size_t length);

struct qkv_attention_input {
    size_t B, T;
    const float *x; /* (B,T,in) */
    size_t memory_T;
    const float *memory;               /* cross: (B,memory_T,kv_in); NULL: the keys and values that the cache holds */
    struct qkv_attention_cache *cache; /* or NULL. With one, no backward */
    /* beside causal and window of the spec: keys that both allow. B, Tq and Tk may stay 0; in self attention offset
     * does too, and offsets NULL: queries follow what the cache holds. Rows of x (self) or memory (cross) before the
     * starts, and at and past the lengths, are padding and may hold anything: they count as zeros where they are not
     * finite */
    struct qkv_mask mask;
    const uint8_t *dense; /* as in struct qkv_attention_call */
    struct qkv_pair_shape dense_shape;
    const float *bias;
    struct qkv_pair_shape bias_shape;
    float *dbias; /* the gradient of the bias, in its shape and strides: backward adds to it; NULL: not wanted */
    /* Experimental: what the rotation is decided for where it depends on a length (position.scaling of kind dynamic or longrope), at most
     * the context; the same in all calls with one cache. 0: each row's own number of positions (mask.lengths, or T), and with a cache
     * the cache's capacity */
    size_t length;
    bool train;    /* keep what backward needs; dropout is on */
    uint64_t seed; /* of the dropout mask */
};
/* No rows; no cache, no mask beside the spec's, nothing kept for backward. */
QKV_API struct qkv_attention_input qkv_attention_input_defaults(void);
/* y (B,T,out). Empty batches are fine, and so is a memory without positions: y then is the output's bias. Memory is
 * kept in the layer and grows to what the largest call needs. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_layer_forward(struct qkv_attention_layer *layer,
                                                    const struct qkv_attention_input *input, float *y);
/* After a forward with train, once: adds to the parameters' gradients, and writes dx (B,T,in) and dmemory
 * (B,memory_T,kv_in); both may be NULL. The input's buffers must still be there. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_attention_layer_backward(struct qkv_attention_layer *layer, const float *dy, float *dx,
                                                     float *dmemory);
/* Of the latest forward, as qkv_attention_weights: out (rows,keys), keys being cache and new ones together. Its cache,
 * dense mask and bias must still be there. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_attention_layer_weights_of(struct qkv_attention_layer *layer,
                                                       enum qkv_attention_stage stage, size_t b, size_t h, size_t first,
                                                       size_t rows, float *out);

#ifdef __cplusplus
}
#endif

#endif
