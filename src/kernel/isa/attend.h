/* attend.h: the interface between the driver of attention (kernel/attend.c) and its kernels (attend_*.c here, once for
 * each table).
 *
 * The query rows of all heads that share a kv head are numbered head by head: row r of kv head n is row r % Tq of head
 * n·group + r / Tq. Work is cut into blocks of such rows, so that a packed block of keys serves every head that reads
 * it, and decoding (Tq = 1) still fills register tiles. */
#ifndef QKV_ISA_ATTEND_H
#define QKV_ISA_ATTEND_H

#include "kernel/kernel.h"

#define QKV_ATTEND_ROWS 264 /* maximum of query rows in a block */
/* Maximum of floats of all shares of dq together (1 GiB); a single share may be larger. */
#define QKV_ATTEND_SHARES ((size_t)1 << 28)
/* Maximum of keys, and of query rows of a head, in a sequence that attend_few.c and attend_bf16_few.c compute. The rows
 * are at most those of a block of the passes for any length. */
#define QKV_ATTEND_FEW      64
#define QKV_ATTEND_FEW_ROWS 96
#define QKV_ATTEND_UNIT     192 /* backward in fp32: runs are multiples of so many keys; it decides bits of results */
#define QKV_ATTEND_PIECE    512 /* keys summed together (attend_sums.h): this number decides bits of results */

/* The driver's plan of one call. All numbers depend on shapes, `pieces` also on whether there are several threads. */
struct qkv_attend_plan {
    const struct qkv_attend *a;
    const struct qkv_kernels *kernels;    /* of the context */
    const struct qkv_attend_gradients *g; /* backward only */
    size_t group;                         /* query heads for each kv head: H / Hkv */
    size_t rows;                          /* query rows for each kv head: group·Tq */
    size_t block, blocks;                 /* query rows of a block, a multiple of the tile; blocks of a kv head */
    /* first batch row, and numbers of queries and keys, that number the dropout mask */
    size_t mask_b, mask_Tq, mask_Tk;
    size_t pieces; /* forward: items that share the keys of a block of rows, one piece each; or 1 */
    float *sums;   /* if pieces > 1: (B,Hkv,blocks,pieces,sums_floats), the sums of each piece; else NULL */
    size_t sums_floats;
    size_t keys;          /* keys of a block */
    size_t unit;          /* backward: a run of keys has a multiple of so many blocks */
    size_t key_blocks;    /* backward: blocks of keys, */
    size_t chunk, chunks; /* cut into `chunks` runs of `chunk` blocks; dq is the sum over the runs, in order */
    bool folds;           /* an item walks over all runs of a kv head, else over one run */
    /* dq sums in memory for each kv head: one for each run; or, if it folds, the sum so far and one run's */
    size_t shares;
    bool rounds_dy; /* backward: products use dy rounded to bf16, */
    float *delta;   /* (B,H,Tq) Σ dy·y − dlse */
    float *norm;    /* backward: (B,H,Tq) factors of weights that are computed from lse */
    /* backward: an item walks over all keys of a head, packs its rows and writes its dq: partial, touched and
     * packed_rows are of one head, and of each thread */
    bool apart;
    float *partial;         /* backward: (B,Hkv,shares,partial_rows,padded D) sums of dq; or NULL */
    size_t partial_rows;    /* at least `rows` */
    size_t partial_columns; /* D padded */
    unsigned char *touched; /* backward: (B,Hkv,shares,blocks) whether that part of `partial` is in use */
    /* backward: (B,distance_shares,H,row) sums of the gradient of the table of distances, of all runs of keys but the
     * first, which is added to the result directly: of each of them, or, if it folds, of the current run. NULL: none */
    float *distances;
    size_t distance_shares;
    float *weights; /* attend_weights: (count,Tk), rows first… of head `head` in batch row `batch` */
    enum qkv_attention_stage stage;
    size_t batch, head, first, count;
    /* bf16, forward: keys, or values, are read as operands where they are stored (`words` of a page type). Others are
     * packed, by items for themselves if no other item reads them, else all of them first: */
    bool words[2]; /* by enum qkv_page_side */
    bool packs;
    char *packed_keys; /* (B,Hkv,key_blocks), */
    /* and backward: (B,Hkv,blocks), packed; in fp32 if there are several blocks of keys, else NULL */
    char *packed_rows;
    size_t keys_bytes, rows_bytes;
};

/* The place of kv head `pair` in memory that has one place for each head, or one for each thread. */
static inline size_t qkv_attend_room(const struct qkv_attend_plan *plan, size_t pair) {
    return plan->apart ? 0 : pair;
}

/* The pages of the keys, or of the values, of a call (attend_pages.c). */
struct qkv_pages qkv_attend_pages(const struct qkv_attend_plan *plan, enum qkv_page_side side);

struct qkv_attend_kernels {
    size_t width;         /* channels are padded to a multiple of this */
    size_t tile;          /* query rows of a register tile */
    size_t backward_keys; /* keys of a block in backward */
    /* Floats of scratch for each thread. */
    size_t (*forward_scratch)(const struct qkv_attend_plan *plan);
    size_t (*backward_scratch)(const struct qkv_attend_plan *plan);
    size_t (*few_scratch)(const struct qkv_attend_plan *plan);
    size_t (*weights_scratch)(const struct qkv_attend_plan *plan);
    /* Floats of the sums of a block of rows over a piece of the keys. */
    size_t (*sums_floats)(const struct qkv_attend_plan *plan);
    /* y and lse of one block of rows; items are (B,Hkv,blocks). With `sums`: the sums of one piece, items
     * (B,Hkv,blocks,pieces). */
    void (*forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* y and lse of one block of rows from the sums of its pieces, in order; items are (B,Hkv,blocks). */
    void (*combine)(const struct qkv_attend_plan *plan, size_t item);
    /* Backward: bytes of a packed block of rows; packing one for all blocks of keys, items are (B,Hkv,blocks). */
    size_t (*rows_bytes)(const struct qkv_attend_plan *plan);
    void (*pack_rows)(const struct qkv_attend_plan *plan, size_t item);
    /* delta of the rows [begin, end) of (B,H,Tq). */
    void (*delta)(const struct qkv_attend_plan *plan, size_t begin, size_t end);
    /* dk and dv of one run of keys, and its share of dq; items are (chunks,B,Hkv), or (B,Hkv) if it folds. */
    void (*backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* The gradient of attention_bias for one block of keys; items are (distinct batch rows,distinct
     * heads,key_blocks). */
    void (*attention_bias)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* dq of one block of rows from the shares; items are (B,Hkv,blocks). */
    void (*gather)(const struct qkv_attend_plan *plan, size_t item);
    /* The weights, or another stage, of the rows [first + item·block, …) of one head. */
    void (*weights)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* norm of the rows [item % blocks · block, …) of head item / blocks of (B,H). */
    void (*norm)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* forward; and delta, norm, backward and gather in one; for a call that qkv_attend_is_few. Backward's items are
     * (B,Hkv). */
    void (*forward_few)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    void (*backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
    /* The gradient of the sink of one head; items are (B,H). */
    void (*sinks)(const struct qkv_attend_plan *plan, size_t item);
    /* Adds the gradients of the table of distances of several runs of keys, in order; items are (B,Hkv). */
    void (*distances)(const struct qkv_attend_plan *plan, size_t item);
};

/* The keys, or the values, of one kv head on a page in the panels of a table (attend_bf16_page.c). */
struct qkv_attend_bf16_page {
    void *words;
    enum qkv_page_side side;
    size_t columns, positions;
    uint8_t *spoilt; /* of values: set if one is not finite */
};

/* Attention with products in bf16 (attend_bf16_*.c, once for each table). Row statistics, attention_bias and gather are
 * the kernels above. */
struct qkv_attend_bf16_kernels {
    size_t strip;         /* query rows of a product: forward, blocks are a multiple of it */
    size_t backward_rows; /* query rows of a block in backward */
    size_t keys;          /* keys of a block */
    size_t channels;      /* maximum of channels of a head */
    /* Bytes of a packed block of keys (forward), of rows (backward), and floats of scratch for each thread. */
    size_t (*keys_bytes)(const struct qkv_attend_plan *plan);
    size_t (*rows_bytes)(const struct qkv_attend_plan *plan);
    size_t (*scratch)(const struct qkv_attend_plan *plan);
    /* Packs one block: items are (B,Hkv,key_blocks) and (B,Hkv,blocks). */
    void (*pack_keys)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    void (*pack_rows)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* Sets up a block of rows that backward packs when it first needs it. */
    void (*place_rows)(const struct qkv_attend_plan *plan, size_t item);
    /* Bytes of such a page; writing `count` rows, `stride` numbers apart, to its positions from `first` on; reading;
     * the page as an operand. As in struct qkv_page_type. */
    size_t (*page_bytes)(enum qkv_page_side side, size_t columns, size_t positions);
    void (*page_put)(const struct qkv_attend_bf16_page *page, size_t first, size_t count, const uint16_t *rows,
                     size_t stride);
    void (*page_read)(const struct qkv_attend_bf16_page *page, size_t first, size_t count, size_t columns, float *out);
    struct qkv_page_words (*page_words)(const struct qkv_attend_bf16_page *page);
    /* As in struct qkv_attend_kernels. */
    size_t (*sums_floats)(const struct qkv_attend_plan *plan);
    void (*forward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    void (*combine)(const struct qkv_attend_plan *plan, size_t item);
    void (*backward)(const struct qkv_attend_plan *plan, size_t item, float *scratch);
    /* forward, and backward once delta is known, of a head of a call that qkv_attend_is_few; items are (B,Hkv). Returns
     * false if bf16 cannot hold all numbers: then nothing is written, and the passes above compute the head. NULL: the
     * table has no such kernels. */
    size_t (*few_scratch)(const struct qkv_attend_plan *plan);
    bool (*forward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
    bool (*backward_few)(const struct qkv_attend_plan *plan, size_t pair, float *scratch);
};

/* ---- ragged calls (attend_ragged.c) ---- */

/* One sequence of a ragged call as a call of its own: B = 1, its own rows and keys, and its part of the driver's
 * memory. Its blocks have the size that they have in the whole call. */
struct qkv_attend_sequence {
    struct qkv_attend a;
    struct qkv_attend_gradients g;
    struct qkv_attend_plan plan; /* of `a` and `g` */
};
static inline bool qkv_attend_is_ragged(const struct qkv_attend *a) {
    return a->q_start || a->k_start || a->pasts;
}
void qkv_attend_sequence_of(const struct qkv_attend_plan *whole, size_t b, struct qkv_attend_sequence *out);
/* Blocks of keys in a run if the sizes of the sequence decide (`alone` in struct qkv_attend), for Tq queries and
 * `key_blocks`; and the maximum of runs of any sequence with at most so many blocks. */
size_t qkv_attend_alone_chunk(const struct qkv_attend_plan *plan, size_t Tq, size_t key_blocks);
size_t qkv_attend_alone_chunks(const struct qkv_attend_plan *plan, size_t key_blocks);

/* The checks of a call (attend_check.c). */
enum qkv_status qkv_attend_check(struct qkv_context *ctx, const struct qkv_attend *a);
enum qkv_status qkv_attend_check_gradients(struct qkv_context *ctx, const struct qkv_attend *a,
                                           const struct qkv_attend_gradients *g);
enum qkv_status qkv_attend_check_weights(struct qkv_context *ctx, const struct qkv_attend *a,
                                         enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                         const float *out);

#endif
