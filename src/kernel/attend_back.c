/* attend_back.c: the driver of attention, backward (Dao 2023, "FlashAttention-2"). First delta = Σ dy·y − dlse. Then
 * one item is a run of key blocks of one kv head: it walks over all query rows and owns its dk and dv. Then dq is
 * summed over the runs, in order. If there are enough kv heads for the threads, an item is all runs of one kv head in
 * order, and adds up dq itself. The gradient of attention_bias is a pass of its own.
 *
 * In bf16, rows are packed once, before the items, because all blocks of keys read them. Ragged calls: see attend.c. */
#include "kernel/attend_work.h"

enum { BACKWARD_ITEMS = 64, BACKWARD_CHUNKS = 16, DELTA_GRAIN = 512, BACKWARD_ROWS = 96 };
enum { FOLD_ITEMS = 4 }; /* from so many heads a thread on, items fold */

static void delta_body(void *argument, size_t begin, size_t end, int thread) {
    const struct qkv_attend_work *work = argument;
    (void)thread;
    work->kernels->delta(&work->plan, begin, end);
}

/* Rows of one sequence. */
static void ragged_delta_body(void *argument, size_t b, int thread) {
    const struct qkv_attend_work *work = argument;
    struct qkv_attend_sequence own;
    (void)thread;
    qkv_attend_sequence_of(&work->plan, b, &own);
    work->kernels->delta(&own.plan, 0, own.a.H * own.a.Tq);
}

static void make_delta(struct qkv_context *ctx, struct qkv_attend_work *work) {
    const struct qkv_attend *a = work->plan.a;
    if (a->q_start)
        qkv_parallel(ctx, a->B, ragged_delta_body, work);
    else
        qkv_parallel_range(ctx, a->B * a->H * a->Tq, DELTA_GRAIN, delta_body, work);
}

/* Runs before the gradients: see norm in struct qkv_attend_plan. */
static void norm_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t item, int thread) {
    work->kernels->norm(plan, item, qkv_attend_scratch(work, thread));
}

static struct qkv_attend_plan norm_plan(const struct qkv_attend_work *work) {
    struct qkv_attend_plan plan = work->plan;
    plan.stage = QKV_ATTENTION_WEIGHTS;
    plan.rounds_dy = false; /* norms are for gradients that are computed from fp32 scores */
    plan.block = WEIGHTS_ROWS / work->kernels->tile * work->kernels->tile;
    plan.rows = plan.a->Tq; /* one head after the other */
    plan.blocks = qkv_attend_divide_up(plan.rows, plan.block);
    return plan;
}

static void pack_rows_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t item,
                           int thread) {
    if (work->bf16)
        work->bf16->pack_rows(plan, item, qkv_attend_scratch(work, thread));
    else
        work->kernels->pack_rows(plan, item);
}

/* The item of a head that is apart: see `apart` in struct qkv_attend_plan. */
static void backward_apart(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t pair,
                           int thread) {
    struct qkv_attend_plan own = *plan;
    const struct qkv_attend_plan *whole = &work->plan;
    float *scratch = work->scratch + (size_t)thread * work->floats;
    const size_t t = (size_t)thread;
    if (own.partial) {
        own.partial += t * whole->shares * whole->partial_rows * whole->partial_columns;
        own.touched += t * whole->shares * whole->blocks;
    }
    if (own.packed_rows) own.packed_rows += t * whole->blocks * whole->rows_bytes;
    for (size_t block = 0; block < own.blocks && own.packed_rows; block++)
        (work->bf16 ? work->bf16->place_rows : work->kernels->pack_rows)(&own, pair * own.blocks + block);
    (work->bf16 ? work->bf16->backward : work->kernels->backward)(&own, pair, scratch);
    for (size_t block = 0; block < own.blocks && own.partial; block++)
        work->kernels->gather(&own, pair * own.blocks + block);
}

static void backward_body(void *argument, size_t run, int thread) {
    const struct qkv_attend_work *work = argument;
    float *scratch = work->scratch + (size_t)thread * work->floats;
    struct qkv_attend_place place;
    qkv_attend_place_start(&place, &work->plan);
    if (work->bf16) work->unit->enter(0);
    for (size_t i = run * work->grain; i < qkv_attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = qkv_attend_chunk_plan(&place, &item);
        if (!plan) continue;
        if (plan->apart)
            backward_apart(work, plan, item, thread);
        else
            (work->bf16 ? work->bf16->backward : work->kernels->backward)(plan, item, scratch);
    }
    if (work->bf16) work->unit->leave();
}

static void few_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t pair, int thread) {
    float *scratch = qkv_attend_scratch(work, thread);
    if (!work->bf16) {
        work->kernels->backward_few(plan, pair, scratch);
        return;
    }
    if (work->bf16->backward_few(plan, pair, scratch)) return;
    work->kernels->delta(plan, pair * plan->a->Tq, (pair + 1) * plan->a->Tq);
    work->unit->enter(0);
    backward_apart(work, plan, pair, thread);
    work->unit->leave();
}

static void addend_body(void *argument, size_t item, int thread) {
    const struct qkv_attend_work *work = argument;
    work->kernels->attention_bias(&work->plan, item, work->scratch + (size_t)thread * work->floats);
}

static void gather_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t item,
                        int thread) {
    (void)thread;
    work->kernels->gather(plan, item);
}

/* Unless `ordered` or `alone` decides, all sizes of the call decide the number of runs of keys, and the memory for
 * shares of dq limits it. Runs are whole units, which all tables have in fp32, whatever their blocks are. */
static void cut_keys(struct qkv_attend_plan *plan, size_t keys, size_t unit) {
    const struct qkv_attend *a = plan->a;
    size_t heads = a->B * a->Hkv;
    plan->keys = keys, plan->unit = unit;
    plan->key_blocks = qkv_attend_divide_up(a->Tk, keys);
    if (a->ordered || a->alone) {
        plan->chunk = a->ordered ? qkv_attend_divide_up(a->ordered, unit * keys) * unit
                                 : qkv_attend_alone_chunk(plan, a->Tq, plan->key_blocks);
        plan->chunks = qkv_attend_divide_up(plan->key_blocks, plan->chunk);
        if (!a->ordered && qkv_attend_is_ragged(a)) plan->chunks = qkv_attend_alone_chunks(plan, plan->key_blocks);
        return;
    }
    size_t chunks = heads ? qkv_attend_divide_up(BACKWARD_ITEMS, heads) : 0;
    if (chunks > BACKWARD_CHUNKS) chunks = BACKWARD_CHUNKS;
    size_t share = heads * plan->rows * a->D; /* floats of one chunk; the checked sizes say that this fits */
    if (share && chunks > QKV_ATTEND_SHARES / share) chunks = share < QKV_ATTEND_SHARES ? QKV_ATTEND_SHARES / share : 1;
    const size_t units = qkv_attend_divide_up(plan->key_blocks, unit);
    if (chunks > units) chunks = units;
    plan->chunk = (chunks ? qkv_attend_divide_up(units, chunks) : 1) * unit;
    plan->chunks = qkv_attend_divide_up(plan->key_blocks, plan->chunk);
}

/* An item folds if there are enough heads for the threads, or too many shares for the memory. This changes no bits. */
static void cut_shares(const struct qkv_context *ctx, struct qkv_attend_plan *plan) {
    const size_t heads = plan->a->B * plan->a->Hkv, share = heads * plan->rows * plan->a->D;
    const bool enough = ctx->threads == 1 || heads >= FOLD_ITEMS * (size_t)ctx->threads;
    plan->folds = plan->chunks > 2 && (enough || share > QKV_ATTEND_SHARES / plan->chunks);
    plan->shares = plan->folds ? 2 : plan->chunks;
}

static void cut_backward(struct qkv_attend_plan *plan, const struct qkv_attend_kernels *kernels,
                         const struct qkv_attend_bf16_kernels *bf16) {
    plan->rounds_dy = bf16 != NULL;
    plan->block = bf16 ? bf16->backward_rows : BACKWARD_ROWS / kernels->tile * kernels->tile;
    plan->blocks = qkv_attend_divide_up(plan->rows, plan->block);
    plan->partial_rows = bf16 ? plan->blocks * plan->block : plan->rows;
    if (bf16)
        cut_keys(plan, bf16->keys, 1);
    else
        cut_keys(plan, kernels->backward_keys, QKV_ATTEND_UNIT / kernels->backward_keys);
}

/* The cuts of the fp32 kernels, which compute the gradient of attention_bias. */
static struct qkv_attend_plan fp32_plan(const struct qkv_attend_work *work) {
    struct qkv_attend_plan plan = work->plan;
    plan.partial = NULL, plan.packed_rows = NULL;
    cut_backward(&plan, work->kernels, NULL);
    return plan;
}

static enum qkv_status take_partial(struct qkv_context *ctx, struct qkv_arena *arena, struct qkv_attend_plan *plan,
                                    size_t heads, size_t width) {
    const struct qkv_attend *a = plan->a;
    size_t parts = heads * plan->shares, floats, bytes;
    plan->partial_columns = qkv_attend_divide_up(a->D, width) * width;
    if (!qkv_multiply(parts, plan->partial_rows, &floats) || !qkv_multiply(floats, plan->partial_columns, &floats) ||
        !qkv_multiply(floats, sizeof(float), &bytes))
        return qkv_fail(ctx, QKV_MEMORY,
                        "attention: the gradient of q in %zu parts is more than this machine can address",
                        plan->shares);
    plan->partial = qkv_arena_take(arena, floats, sizeof(float));
    plan->touched = qkv_arena_take(arena, parts * plan->blocks, 1);
    return plan->partial && plan->touched ? QKV_OK : QKV_MEMORY;
}

/* Memory for the sums of all runs but the first. */
static enum qkv_status take_distances(struct qkv_context *ctx, struct qkv_arena *arena, struct qkv_attend_plan *plan) {
    const struct qkv_attend *a = plan->a;
    size_t floats, bytes;
    if (plan->chunks < 2) return QKV_OK;
    plan->distance_shares = plan->folds ? 1 : plan->chunks - 1;
    if (!qkv_multiply(a->B * a->H, a->distance_bias.row, &floats) ||
        !qkv_multiply(floats, plan->distance_shares, &floats) || !qkv_multiply(floats, sizeof(float), &bytes))
        return qkv_fail(ctx, QKV_MEMORY,
                        "attention: the gradient of a table of %zu distances is more than this machine can address",
                        a->distance_bias.row);
    plan->distances = qkv_arena_take(arena, floats, sizeof(float));
    return plan->distances ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_backward(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_attend_work *work) {
    const struct qkv_attend *a = work->plan.a;
    const size_t heads = work->plan.apart ? (size_t)ctx->threads : a->B * a->Hkv;
    work->plan.delta = qkv_arena_take(scratch, a->B * a->H * a->Tq, sizeof(float));
    work->plan.norm = qkv_arena_take(scratch, a->B * a->H * a->Tq, sizeof(float));
    if (!work->plan.delta || !work->plan.norm) return QKV_MEMORY;
    if (work->plan.g->dq.data) {
        enum qkv_status status = take_partial(ctx, scratch, &work->plan, heads, work->kernels->width);
        if (status) return status;
    }
    if (work->plan.g->ddistance_bias) {
        enum qkv_status status = take_distances(ctx, scratch, &work->plan);
        if (status) return status;
    }
    struct qkv_attend_plan norm = norm_plan(work), attention_bias = fp32_plan(work), *plan = &work->plan;
    size_t floats = work->kernels->weights_scratch(&norm), other = 0;
    if (!work->bf16 || plan->g->dattention_bias) other = work->kernels->backward_scratch(&attention_bias);
    if (other > floats) floats = other;
    if (work->few) floats = qkv_max(floats, (work->bf16 ? work->bf16->few_scratch : work->kernels->few_scratch)(plan));
    if (work->bf16 || plan->key_blocks > 1) {
        plan->rows_bytes = (work->bf16 ? work->bf16->rows_bytes : work->kernels->rows_bytes)(plan);
        enum qkv_status status =
            qkv_attend_take_packed(ctx, scratch, heads * plan->blocks, plan->rows_bytes, &plan->packed_rows);
        if (status) return status;
    }
    if (work->bf16) floats = qkv_max(floats, work->bf16->scratch(plan));
    return qkv_attend_take_scratch(ctx, scratch, work, floats);
}

static void distances_body(void *argument, size_t item, int thread) {
    const struct qkv_attend_work *work = argument;
    struct qkv_attend_place place;
    (void)thread;
    qkv_attend_place_start(&place, &work->plan);
    const struct qkv_attend_plan *plan = qkv_attend_item_plan(&place, qkv_attend_pairs, &item);
    if (plan) work->kernels->distances(plan, item);
}

static void sinks_body(void *argument, size_t item, int thread) {
    const struct qkv_attend_work *work = argument;
    struct qkv_attend_place place;
    (void)thread;
    qkv_attend_place_start(&place, &work->plan);
    const struct qkv_attend_plan *plan = qkv_attend_item_plan(&place, qkv_attend_heads, &item);
    if (plan) work->kernels->sinks(plan, item);
}

static void run_backward(struct qkv_context *ctx, struct qkv_attend_work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    const struct qkv_attend *a = plan->a;
    const struct qkv_attend_gradients *g = plan->g;
    const struct qkv_pairs *pairs = &a->attention_bias_strides;
    const size_t heads = a->B * a->Hkv, distinct = (pairs->batch_stride ? a->B : 1) * (pairs->head_stride ? a->H : 1);
    const bool past = a->past && (g->dpast_k.data || g->dpast_v.data);
    struct qkv_attend_work norm = *work, attention_bias = *work;
    norm.plan = norm_plan(work), attention_bias.plan = fp32_plan(work);
    if (work->few) {
        qkv_attend_each(ctx, work, heads, qkv_attend_pairs, few_item);
        return;
    }
    make_delta(ctx, work);
    if (!work->bf16 || g->dattention_bias || g->dsinks)
        qkv_attend_each(ctx, &norm, a->B * a->H * norm.plan.blocks, qkv_attend_head_blocks, norm_item);
    if (past || g->dq.data || g->dk.data || g->dv.data || g->ddistance_bias) {
        if (plan->packed_rows && !plan->apart)
            qkv_attend_each(ctx, work, heads * plan->blocks, qkv_attend_units, pack_rows_item);
        qkv_attend_items(ctx, work, heads * (plan->folds ? 1 : plan->chunks), backward_body);
    }
    if (g->dq.data && !plan->apart) qkv_attend_each(ctx, work, heads * plan->blocks, qkv_attend_units, gather_item);
    if (g->ddistance_bias && !plan->folds && plan->chunks > 1) qkv_parallel(ctx, heads, distances_body, work);
    /* the sums of these gradients are fp32 */
    if (work->bf16 && (g->dsinks || g->dattention_bias)) make_delta(ctx, &attention_bias);
    if (g->dsinks) qkv_parallel(ctx, a->B * a->H, sinks_body, work);
    if (g->dattention_bias) qkv_parallel(ctx, distinct * attention_bias.plan.key_blocks, addend_body, &attention_bias);
}

enum qkv_status qkv_attend_backward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                    const struct qkv_attend_gradients *g) {
    enum qkv_status status = qkv_attend_check(ctx, a);
    if (status) return status;
    if (!a->B && !g->dattention_bias) return QKV_OK;
    status = qkv_attend_check_gradients(ctx, a, g);
    if (status) return status;
    struct qkv_attend_work work = {.plan = qkv_attend_work_start(ctx, a), .kernels = ctx->kernels->attend};
    struct qkv_attend_plan *plan = &work.plan;
    plan->g = g;
    work.bf16 = qkv_attend_bf16_of(ctx, plan), work.unit = ctx->kernels->bf16;
    cut_backward(plan, work.kernels, work.bf16);
    cut_shares(ctx, plan);
    plan->apart = (plan->folds || plan->chunks == 1) && a->B * a->Hkv >= (size_t)ctx->threads;
    work.few = qkv_attend_is_few(&work);
    size_t mark = qkv_arena_mark(scratch);
    status = take_backward(ctx, scratch, &work);
    if (!status) run_backward(ctx, &work);
    qkv_arena_release(scratch, mark);
    return status;
}
