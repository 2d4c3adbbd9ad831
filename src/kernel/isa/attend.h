/* attend.h: what the driver of attention (kernel/attend.c) and its kernels (attend_*.c here, once per ISA) agree on.
 *
 * The query rows of all heads that share a kv head are numbered head by head: row r of kv head n is row r % Tq of head
 * n·group + r / Tq. Blocks of such rows are what the work is cut into, so that a packed block of keys serves every
 * head that reads it, and decoding (Tq = 1) still fills register tiles. */
#ifndef QKV_ISA_ATTEND_H
#define QKV_ISA_ATTEND_H

#include "kernel/kernel.h"

#define QKV_ATTEND_ROWS 264 /* most query rows a block holds */
/* What all shares of dq together may hold, in floats, but for one share (1 GiB). */
#define QKV_ATTEND_SHARES ((size_t)1 << 28)
#define QKV_ATTEND_FEW                                                                                                 \
    64 /* most keys, and query rows of a head, of a sequence that attend_few.c and attend_bf16_few.c take: */
#define QKV_ATTEND_FEW_ROWS 96  /* no more than a block of the passes for any length has */
#define QKV_ATTEND_PIECE    512 /* keys summed together, see attend_sums.h: part of what the bits of a result are */

/* What the driver made of one call; every number depends on shapes, and `pieces` on whether there are several threads. */
struct qkv_attend_plan {
    const struct qkv_attend *a;
    const struct qkv_attend_gradients *g; /* backward only */
    size_t group;                         /* query heads a kv head: H / Hkv */
    size_t rows;                          /* query rows a kv head: group·Tq */
    size_t block, blocks;                 /* query rows a block, a multiple of the tile; blocks a kv head */
    size_t mask_b, mask_Tq, mask_Tk;      /* first batch row, queries and keys by which the dropout mask is numbered */
    size_t pieces; /* forward: items that the keys of a block of rows are shared out to, a piece each; or 1 */
    float *sums;   /* then (B,Hkv,blocks,pieces,sums_floats), what each of them gathered; or NULL */
    size_t sums_floats;
    size_t keys;          /* keys a block */
    size_t key_blocks;    /* backward: blocks of keys, */
    size_t chunk, chunks; /* cut into `chunks` runs of `chunk` blocks; dq is the sum of what each gives, in order */
    bool folds;           /* an item walks over all runs of a kv head, else over one of them */
    size_t shares;        /* sums of dq that each kv head has room for: of its runs, or of those so far and of one */
    bool rounds_dy;       /* backward: products are those of dy rounded to bf16, */
    float *delta;         /* (B,H,Tq) Σ dy·y − dlse */
    float *norm;          /* backward: (B,H,Tq) what weights made from lse are multiplied by */
    bool
        apart; /* backward: an item walks over all keys of a head, packs its rows and gives its dq: partial, touched and
                               packed_rows are of one head, and the thread's own */
    float *partial;         /* backward: (B,Hkv,shares,partial_rows,padded D) sums of dq; or NULL */
    size_t partial_rows;    /* at least `rows` */
    size_t partial_columns; /* D padded */
    unsigned char *touched; /* backward: (B,Hkv,shares,blocks) whether that part of `partial` is in use */
    /* backward: (B,distance_shares,H,row) sums of the gradient of the table of distances, of the runs of keys but the first,
     * which is added to what is asked for: of each of them, or where they fold, of the one in work. NULL: none */
    float *distances;
    size_t distance_shares;
    float *weights; /* attend_weights: (count,Tk), rows first… of head `head` in batch row `batch` */
    enum qkv_attention_stage stage;
    size_t batch, head, first, count;
    bool
        packs; /* in bf16, forward, but for pages: items pack the keys that they come to, as nobody else reads them; or all are packed ahead: */
    char *packed_keys; /* (B,Hkv,key_blocks), */
    char *packed_rows; /* and backward: (B,Hkv,blocks), packed */
    size_t keys_bytes, rows_bytes;
};

/* Which of the heads that there is room for is kv head `pair` of all. */
static inline size_t qkv_attend_room(const struct qkv_attend_plan *plan, size_t pair) {
    return plan->apart ? 0 : pair;
}

struct qkv_attend_kernels {
    size_t width;         /* channels are padded to a multiple of this */
    size_t tile;          /* query rows a register tile */
    size_t backward_keys; /* keys a block of the backward pass */
    /* Floats of scratch that each thread needs. */
    size_t (*forward_scratch)(const struct qkv_attend_plan *plan);
    size_t (*backward_scratch)(const struct qkv_attend_plan *plan);
    size_t (*few_scratch)(const struct qkv_attend_plan *plan);
    size_t (*weights_scratch)(const struct qkv_attend_plan *plan);
    /* Floats of what a block of rows gathers over a piece of the keys. */
    size_t (*sums_floats)(const struct qkv_attend_plan *plan);
    /* y and lse of one block of rows; items are (B,Hkv,blocks). With `sums`: those of one piece, items (B,Hkv,blocks,pieces). */
    void (*forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* y and lse of one block of rows from the sums of its pieces, in order; items are (B,Hkv,blocks). */
    void (*combine)(const struct qkv_attend_plan *plan, size_t item);
    /* delta of the rows [begin, end) of (B,H,Tq). */
    void (*delta)(const struct qkv_attend_plan *plan, size_t begin, size_t end);
    /* dk, dv of one run of keys, and its share of dq; items are (chunks,B,Hkv), or (B,Hkv) where they fold. */
    void (*backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* The gradient of the attention_bias for one block of keys; items are (distinct batch rows,distinct heads,key_blocks). */
    void (*attention_bias)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* dq of one block of rows from the shares; items are (B,Hkv,blocks). */
    void (*gather)(const struct qkv_attend_plan *plan, size_t item);
    /* The weights, or what stage says, of the rows [first + item·block, …) of one head. */
    void (*weights)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* norm of the rows [item % blocks · block, …) of head item / blocks of (B,H). */
    void (*norm)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* forward, and delta, norm, backward and gather in one, of a call that qkv_attend_is_few; backward's items are (B,Hkv). */
    void (*forward_few)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    void (*backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
    /* The gradient of the sink of one head; items are (B,H). */
    void (*sinks)(const struct qkv_attend_plan *plan, size_t item);
    /* What several runs of keys gave to the gradient of the table of distances, in order; items are (B,Hkv). */
    void (*distances)(const struct qkv_attend_plan *plan, size_t item);
};

/* Attention whose products are those of bf16 (attend_bf16_*.c, once for every table). Row statistics, attention_bias and gather are
 * of the kernels above. */
struct qkv_attend_bf16_kernels {
    size_t strip;         /* query rows a product: blocks forward are a multiple of it */
    size_t backward_rows; /* query rows a block of the backward pass */
    size_t keys;          /* keys a block */
    size_t channels;      /* the most that a head may have */
    /* Bytes of a packed block of keys (forward), of rows (backward), and floats of scratch that each thread needs. */
    size_t (*keys_bytes)(const struct qkv_attend_plan *plan);
    size_t (*rows_bytes)(const struct qkv_attend_plan *plan);
    size_t (*scratch)(const struct qkv_attend_plan *plan);
    /* Packs one block: items are (B,Hkv,key_blocks) and (B,Hkv,blocks). */
    void (*pack_keys)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    void (*pack_rows)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* Readies a block of rows that backward packs when it first comes to it. */
    void (*place_rows)(const struct qkv_attend_plan *plan, size_t item);
    /* Bytes of the keys and values of a head on a page; and new ones on it. */
    size_t (*page_bytes)(size_t D, size_t Dv, size_t positions);
    void (*put)(const struct qkv_attend_put *put);
    /* As above. */
    size_t (*sums_floats)(const struct qkv_attend_plan *plan);
    void (*forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    void (*combine)(const struct qkv_attend_plan *plan, size_t item);
    void (*backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* forward, and backward once delta is known, of a head of a call that qkv_attend_is_few; items are (B,Hkv). False where bf16 cannot hold
     * all numbers: nothing is written, and the passes above have to make it. NULL: there are no such kernels. */
    size_t (*few_scratch)(const struct qkv_attend_plan *plan);
    bool (*forward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
    bool (*backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
};

/* ---- ragged calls (attend_ragged.c) ---- */

/* One sequence of a ragged call as a call of its own: B = 1 and its own rows and keys, with its part of all that the driver made.
 * Blocks have the size that they have in the whole call. */
struct qkv_attend_sequence {
    struct qkv_attend a;
    struct qkv_attend_gradients g;
    struct qkv_attend_plan plan; /* of `a` and `g` */
};
static inline bool qkv_attend_is_ragged(const struct qkv_attend *a) {
    return a->q_start || a->k_start || a->pasts;
}
void qkv_attend_sequence_of(const struct qkv_attend_plan *whole, size_t b, struct qkv_attend_sequence *out);
/* Blocks of keys a run where the sizes of the sequence decide (`alone` in struct qkv_attend): for Tq queries and `key_blocks`; and the
 * most runs of any sequence with at most so many blocks. */
size_t qkv_attend_alone_chunk(const struct qkv_attend_plan *plan, size_t Tq, size_t key_blocks);
size_t qkv_attend_alone_chunks(const struct qkv_attend_plan *plan, size_t key_blocks);

/* What can be wrong in a call (attend_check.c). */
enum qkv_status qkv_attend_check(struct qkv_context *ctx, const struct qkv_attend *a);
enum qkv_status qkv_attend_check_gradients(struct qkv_context *ctx, const struct qkv_attend *a,
                                           const struct qkv_attend_gradients *g);
enum qkv_status qkv_attend_check_weights(struct qkv_context *ctx, const struct qkv_attend *a,
                                         enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                         const float *out);

#endif
