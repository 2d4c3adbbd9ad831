/* attend_work.h: what the driver of attention shares between forward (attend.c, also looking at weights) and backward
 * (attend_back.c): the work of a call, its items, and the sequence of each item (attend_work.c). */
#ifndef QKV_ATTEND_WORK_H
#define QKV_ATTEND_WORK_H

#include "kernel/isa/attend.h"
#include "kernel/isa/bf16.h"

enum { WEIGHTS_ROWS = 48, RUNS_A_THREAD = 16 };

static inline size_t qkv_attend_divide_up(size_t a, size_t b) {
    return a / b + (a % b != 0);
}

struct qkv_attend_work;
/* The number of items of one batch row. */
typedef size_t qkv_attend_count(const struct qkv_attend_plan *plan);
/* Runs item `item` of `plan`. In a ragged call `plan` is that of the item's sequence. */
typedef void qkv_attend_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t item,
                             int thread);

/* The scratch of all threads is one array. */
struct qkv_attend_work {
    struct qkv_attend_plan plan;
    const struct qkv_attend_kernels *kernels;
    const struct qkv_attend_bf16_kernels *bf16; /* the kernels of the call's products, or NULL, */
    const struct qkv_bf16_kernels *unit;        /* and the bf16 unit that they use */
    float *scratch;
    size_t floats;
    bool few; /* whether attend_few.c or attend_bf16_few.c computes the call */
    /* the length of the current list; a thread takes `grain` items at a time, which are of few sequences */
    size_t items, grain;
    qkv_attend_count *count; /* for qkv_attend_each: the items of one batch row, */
    qkv_attend_item *item;   /* and the function that runs each */
};

/* The plan of a call, before it is cut. */
struct qkv_attend_plan qkv_attend_work_start(const struct qkv_context *ctx, const struct qkv_attend *a);
/* The bf16 kernels that compute a call, or NULL. Decides by the context and the shape alone; nothing else decides
 * this. */
const struct qkv_attend_bf16_kernels *qkv_attend_bf16_of(const struct qkv_context *ctx,
                                                         const struct qkv_attend_plan *plan);
/* Whether attend_few.c, or attend_bf16_few.c in bf16, computes a call: forward, or backward if the plan has gradients.
 * It does if heads have few keys, keys are stored in rows, and scores are scaled products. The bits are those of the
 * passes for any length. */
bool qkv_attend_is_few(const struct qkv_attend_work *work);
/* Memory for packed blocks, and for the scratch of all threads. */
enum qkv_status qkv_attend_take_packed(struct qkv_context *ctx, struct qkv_arena *arena, size_t blocks, size_t bytes,
                                       char **out);
enum qkv_status qkv_attend_take_scratch(struct qkv_context *ctx, struct qkv_arena *arena, struct qkv_attend_work *work,
                                        size_t floats);

/* ---- items of ragged calls ------------------------------------------------------------------------------------- */

qkv_attend_count qkv_attend_units, qkv_attend_pieces, qkv_attend_key_blocks, qkv_attend_head_blocks, qkv_attend_pairs,
    qkv_attend_heads;

/* The current sequence in a run of items. */
struct qkv_attend_place {
    const struct qkv_attend_plan *whole;
    bool ragged, known;
    size_t b;
    struct qkv_attend_sequence own;
};

void qkv_attend_place_start(struct qkv_attend_place *place, const struct qkv_attend_plan *whole);
/* Turns *item, an index into a list of the items of all batch rows in order, into an index within its own sequence.
 * Returns the plan of that sequence; NULL: the sequence is shorter and has no such item. */
const struct qkv_attend_plan *qkv_attend_item_plan(struct qkv_attend_place *place, qkv_attend_count *count,
                                                   size_t *item);
/* The same for items (chunks,B,Hkv). A head that is apart has one item even without keys: the gradient of its rows is
 * 0. */
const struct qkv_attend_plan *qkv_attend_chunk_plan(struct qkv_attend_place *place, size_t *item);

/* Runs a list of items; a thread takes several at a time if there are many. The work at the beginning of each run
 * (finding the sequence, setting up the bf16 unit) costs as much as a short item. */
static inline void qkv_attend_items(struct qkv_context *ctx, struct qkv_attend_work *work, size_t items,
                                    qkv_body *body) {
    const size_t runs = (size_t)ctx->threads * RUNS_A_THREAD;
    work->items = items;
    work->grain = items > runs ? items / runs : 1;
    qkv_parallel(ctx, qkv_attend_divide_up(items, work->grain), body, work);
}

/* The same for a list of items of one kind: calls `item` for each item that exists. */
void qkv_attend_each(struct qkv_context *ctx, struct qkv_attend_work *work, size_t items, qkv_attend_count *count,
                     qkv_attend_item *item);
static inline float *qkv_attend_scratch(const struct qkv_attend_work *work, int thread) {
    return work->scratch + (size_t)thread * work->floats;
}

static inline size_t qkv_attend_run_end(const struct qkv_attend_work *work, size_t run) {
    const size_t end = (run + 1) * work->grain;
    return end < work->items ? end : work->items;
}

#endif
