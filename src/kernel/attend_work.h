/* attend_work.h: what the two directions of the driver of attention share: the work of a call, its items, and whose item each is
 * (attend_work.c). attend.c goes forward and looks at weights, attend_back.c goes backward. */
#ifndef QKV_ATTEND_WORK_H
#define QKV_ATTEND_WORK_H

#include "kernel/isa/attend.h"
#include "kernel/isa/bf16.h"

enum { WEIGHTS_ROWS = 48, RUNS_A_THREAD = 16 };

static inline size_t qkv_attend_divide_up(size_t a, size_t b) {
    return a / b + (a % b != 0);
}

struct qkv_attend_work;
/* Items of one batch row. */
typedef size_t qkv_attend_count(const struct qkv_attend_plan *plan);
/* Item `item` of `plan`, which is that of its sequence where the call is ragged. */
typedef void qkv_attend_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t item,
                             int thread);

/* Scratch of every thread behind one another. */
struct qkv_attend_work {
    struct qkv_attend_plan plan;
    const struct qkv_attend_kernels *kernels;
    const struct qkv_attend_bf16_kernels *bf16; /* those that the call's products are made with, or NULL, */
    const struct qkv_bf16_kernels *unit;        /* and what they run on */
    float *scratch;
    size_t floats;
    bool few;            /* whether the call is one of attend_few.c or attend_bf16_few.c */
    size_t items, grain; /* of the list in work: a thread takes `grain` of them at a time, which are of few sequences */
    qkv_attend_count *count; /* and of qkv_attend_each, items of one batch row, */
    qkv_attend_item *item;   /* and what is done with each */
};

/* The plan of a call, before it is cut. */
struct qkv_attend_plan qkv_attend_work_start(const struct qkv_attend *a);
/* The bf16 kernels that a call is made with, or NULL: the one place that decides; by the context and the shape alone. */
const struct qkv_attend_bf16_kernels *qkv_attend_bf16_of(const struct qkv_context *ctx,
                                                         const struct qkv_attend_plan *plan);
/* Whether attend_few.c or, in bf16, attend_bf16_few.c makes a call, forward or, where the plan has gradients, backward: its heads have few
 * keys that lie in rows, and scores are scaled products. The bits are those of the passes for any length. */
bool qkv_attend_is_few(const struct qkv_attend_work *work);
/* Memory for packed blocks, and for the scratch of all threads. */
enum qkv_status qkv_attend_take_packed(struct qkv_context *ctx, struct qkv_arena *arena, size_t blocks, size_t bytes,
                                       char **out);
enum qkv_status qkv_attend_take_scratch(struct qkv_context *ctx, struct qkv_arena *arena, struct qkv_attend_work *work,
                                        size_t floats);

/* ---- items of ragged calls ---------------------------------------------------------------------------------------- */

qkv_attend_count qkv_attend_units, qkv_attend_pieces, qkv_attend_key_blocks, qkv_attend_head_blocks, qkv_attend_pairs,
    qkv_attend_heads;

/* The sequence that a run of items has come to. */
struct qkv_attend_place {
    const struct qkv_attend_plan *whole;
    bool ragged, known;
    size_t b;
    struct qkv_attend_sequence own;
};

void qkv_attend_place_start(struct qkv_attend_place *place, const struct qkv_attend_plan *whole);
/* The plan that *item, of a list that goes batch row by batch row, is to be run with, and its number there; NULL: there is no such
 * item in its own sequence. */
const struct qkv_attend_plan *qkv_attend_item_plan(struct qkv_attend_place *place, qkv_attend_count *count,
                                                   size_t *item);
/* The same for items (chunks,B,Hkv). A head that is apart has one, also where there are no keys: its rows have a gradient, 0. */
const struct qkv_attend_plan *qkv_attend_chunk_plan(struct qkv_attend_place *place, size_t *item);

/* Runs a list of items, several of them at a time where there are many: what is done once for a run (finding a sequence, readying
 * the unit) costs as much as a short item. */
static inline void qkv_attend_items(struct qkv_context *ctx, struct qkv_attend_work *work, size_t items,
                                    qkv_body *body) {
    const size_t runs = (size_t)ctx->threads * RUNS_A_THREAD;
    work->items = items;
    work->grain = items > runs ? items / runs : 1;
    qkv_parallel(ctx, qkv_attend_divide_up(items, work->grain), body, work);
}

/* The same of a list whose items are alike: `item` is called for each that there is. */
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
