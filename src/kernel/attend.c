/* attend.c: the driver of attention: cuts a call into work by its shape alone, takes scratch and runs the
 * kernels of isa/attend_*.c in parallel.
 *
 * Forward: one item is a block of query rows of one kv head, which walks over all its keys (online softmax: Milakov &
 * Gimelshein 2018, "Online normalizer calculation for softmax"; tiling: Dao et al. 2022, "FlashAttention"). Where there are too
 * few blocks for the threads, as in decoding with one kv head, an item walks over one piece of the keys only (Dao et al. 2023,
 * "Flash-Decoding for long-context inference"), and the pieces' sums are merged afterwards, as one item would: isa/attend_sums.h.
 * Backward (Dao 2023, "FlashAttention-2"): delta = Σ dy·y − dlse first; then one item is a run of key blocks of one kv head,
 * which walks over all query rows and owns its dk and dv; dq is summed over the runs, in order, afterwards. Where there are kv heads
 * enough for the threads an item is all runs of one of them, one after the other, and keeps the sum of those so far. The gradient of
 * the attention_bias is a pass of its own.
 *
 * In bf16 (struct qkv_attend_bf16_kernels) the items are the same, but what all blocks of rows read (keys, forward) and what all
 * blocks of keys do (rows, backward) is packed ahead, once, unless there is only one block of rows to read it, or keys come packed, in
 * pages. How many rows a call has changes nothing.
 *
 * A ragged call is cut as if all its sequences were as long as the longest. An item then becomes one of its own sequence
 * (attend_ragged.c), or nothing where that is shorter. */
#include "kernel/isa/attend.h"
#include "kernel/isa/bf16.h"

enum { FORWARD_ITEMS = 24, DECODE_ITEMS = 8, BACKWARD_ITEMS = 64, BACKWARD_CHUNKS = 16, DELTA_GRAIN = 512 };
enum { BACKWARD_ROWS = 96, WEIGHTS_ROWS = 48, RUNS_A_THREAD = 16 };
enum { FOLD_ITEMS = 4 }; /* heads a thread from which on items fold */

static size_t divide_up(size_t a, size_t b) {
    return a / b + (a % b != 0);
}

/* Blocks as large as they may be, made smaller while there would be too few of them to share out. Packing keys is
 * paid once a block, so blocks stay of some size unless there are very few rows anyway. */
static void cut_rows(struct qkv_attend_plan *plan, size_t tile) {
    size_t heads = plan->a->B * plan->a->Hkv, most = QKV_ATTEND_ROWS / tile;
    size_t tiles = divide_up(plan->rows, tile);
    size_t block = tiles < most ? tiles : most;
    while (block > 4 && heads * divide_up(tiles, block) < FORWARD_ITEMS) block = divide_up(block, 2);
    while (block > 1 && heads * divide_up(tiles, block) < DECODE_ITEMS) block = divide_up(block, 2);
    plan->block = (block ? block : 1) * tile;
    plan->blocks = divide_up(plan->rows, plan->block);
}

static struct qkv_attend_plan attend_start(const struct qkv_attend *a) {
    struct qkv_attend_plan plan = {.a = a, .group = a->H / a->Hkv, .pieces = 1, .mask_Tq = a->Tq, .mask_Tk = a->Tk};
    plan.rows = plan.group * a->Tq;
    if (a->ordered) {
        plan.mask_b = a->first_row;
        plan.mask_Tq = plan.mask_Tk = (size_t)1 << QKV_POSITION_BITS;
    }
    return plan;
}

/* Scratch of every thread behind one another. */
struct work {
    struct qkv_attend_plan plan;
    const struct qkv_attend_kernels *kernels;
    const struct qkv_attend_bf16_kernels *bf16; /* those that the call's products are made with, or NULL, */
    const struct qkv_bf16_kernels *unit;        /* and what they run on */
    float *scratch;
    size_t floats;
    size_t items, grain; /* of the list in work: a thread takes `grain` of them at a time, which are of few sequences */
};

/* The one place that decides; by the context and the shape alone. */
static const struct qkv_attend_bf16_kernels *bf16_of(const struct qkv_context *ctx,
                                                     const struct qkv_attend_plan *plan) {
    const struct qkv_attend_bf16_kernels *kernels = ctx->kernels->attend_bf16;
    const struct qkv_attend *a = plan->a;
    if (ctx->precision != QKV_MIXED_BF16) return NULL;
    if (!a->Tk || a->D > kernels->channels || a->Dv > kernels->channels) return NULL;
    return kernels;
}

static enum qkv_status take_packed(struct qkv_context *ctx, struct qkv_arena *arena, size_t blocks, size_t bytes,
                                   char **out) {
    size_t all;
    if (!qkv_multiply(blocks, bytes, &all))
        return qkv_fail(ctx, QKV_MEMORY, "attention: %zu packed blocks are more than this machine can address", blocks);
    *out = qkv_arena_take(arena, all, 1);
    return *out ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_scratch(struct qkv_context *ctx, struct qkv_arena *arena, struct work *work,
                                    size_t floats) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    work->floats = divide_up(floats, line) * line;
    size_t all;
    if (!qkv_multiply(work->floats, (size_t)ctx->threads, &all))
        return qkv_fail(ctx, QKV_MEMORY, "attention: scratch for %d threads is more than this machine can address",
                        ctx->threads);
    work->scratch = qkv_arena_take(arena, all, sizeof(float));
    return work->scratch ? QKV_OK : QKV_MEMORY;
}

/* ---- items of ragged calls ---------------------------------------------------------------------------------------- */

/* Items of one batch row. */
typedef size_t attend_count(const struct qkv_attend_plan *plan);

static size_t count_units(const struct qkv_attend_plan *plan) {
    return plan->a->Hkv * plan->blocks;
}
static size_t count_pieces(const struct qkv_attend_plan *plan) {
    return count_units(plan) * plan->pieces;
}
static size_t count_key_blocks(const struct qkv_attend_plan *plan) {
    return plan->a->Hkv * plan->key_blocks;
}
static size_t count_head_blocks(const struct qkv_attend_plan *plan) {
    return plan->a->H * plan->blocks;
}

/* The sequence that a run of items has come to. */
struct attend_place {
    const struct qkv_attend_plan *whole;
    bool ragged, known;
    size_t b;
    struct qkv_attend_sequence own;
};

static void attend_place_start(struct attend_place *place, const struct qkv_attend_plan *whole) {
    place->whole = whole, place->ragged = qkv_attend_is_ragged(whole->a), place->known = false;
}

static const struct qkv_attend_plan *attend_place_at(struct attend_place *place, size_t b) {
    if (!place->known || place->b != b) qkv_attend_sequence_of(place->whole, b, &place->own);
    place->known = true, place->b = b;
    return &place->own.plan;
}

/* The plan that *item, of a list that goes batch row by batch row, is to be run with, and its number there; NULL: there is no such
 * item in its own sequence. */
static const struct qkv_attend_plan *item_plan(struct attend_place *place, attend_count *count, size_t *item) {
    if (!place->ragged) return place->whole;
    const size_t each = count(place->whole), at = *item % each;
    const struct qkv_attend_plan *plan = attend_place_at(place, *item / each);
    *item = at;
    return at < count(plan) ? plan : NULL;
}

/* The same for items (chunks,B,Hkv). A head that is apart has one, also where there are no keys: its rows have a gradient, 0. */
static const struct qkv_attend_plan *chunk_plan(struct attend_place *place, size_t *item) {
    if (!place->ragged) return place->whole;
    const struct qkv_attend *a = place->whole->a;
    const size_t chunk = *item / (a->B * a->Hkv), n = *item % a->Hkv;
    const struct qkv_attend_plan *plan = attend_place_at(place, *item / a->Hkv % a->B);
    *item = chunk * a->Hkv + n;
    return chunk < plan->chunks || plan->apart ? plan : NULL;
}

/* Runs a list of items, several of them at a time where there are many: what is done once for a run (finding a sequence, readying
 * the unit) costs as much as a short item. */
QKV_PART void attend_items(struct qkv_context *ctx, struct work *work, size_t items, qkv_body *body) {
    const size_t runs = (size_t)ctx->threads * RUNS_A_THREAD;
    work->items = items;
    work->grain = items > runs ? items / runs : 1;
    qkv_parallel(ctx, divide_up(items, work->grain), body, work);
}

static size_t attend_run_end(const struct work *work, size_t run) {
    const size_t end = (run + 1) * work->grain;
    return end < work->items ? end : work->items;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void forward_body(void *argument, size_t run, int thread) {
    const struct work *work = argument;
    float *scratch = work->scratch + (size_t)thread * work->floats;
    struct attend_place place;
    attend_place_start(&place, &work->plan);
    if (work->bf16) work->unit->enter(0);
    for (size_t i = run * work->grain; i < attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = item_plan(&place, count_pieces, &item);
        if (plan && work->bf16) work->bf16->forward(plan, item, scratch);
        if (plan && !work->bf16) work->kernels->forward(plan, item, scratch);
    }
    if (work->bf16) work->unit->leave();
}

static void pack_keys_body(void *argument, size_t run, int thread) {
    const struct work *work = argument;
    struct attend_place place;
    attend_place_start(&place, &work->plan);
    for (size_t i = run * work->grain; i < attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = item_plan(&place, count_key_blocks, &item);
        if (plan) work->bf16->pack_keys(plan, item, work->scratch + (size_t)thread * work->floats);
    }
}

/* Few rows: waking the threads again would take longer. */
static void forward_combine(const struct work *work, size_t units) {
    struct attend_place place;
    attend_place_start(&place, &work->plan);
    for (size_t unit = 0; unit < units; unit++) {
        size_t item = unit;
        const struct qkv_attend_plan *plan = item_plan(&place, count_units, &item);
        if (plan) (work->bf16 ? work->bf16->combine : work->kernels->combine)(plan, item);
    }
}

/* Waking a thread costs more than a step of decoding over a short cache. */
static bool forward_is_short(const struct qkv_attend *a) {
    return (double)(a->B * a->H * a->Tq) * (double)a->Tk * (double)(a->D + a->Dv) < 1e5;
}

/* The pieces of the keys become items where blocks of rows alone are too few. This changes no bits. */
static enum qkv_status forward_cut_keys(struct qkv_context *ctx, struct qkv_arena *scratch, struct work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    const size_t units = plan->a->B * plan->a->Hkv * plan->blocks, pieces = divide_up(plan->a->Tk, QKV_ATTEND_PIECE);
    if (ctx->threads == 1 || units >= DECODE_ITEMS || pieces < 2 || forward_is_short(plan->a)) return QKV_OK;
    plan->sums_floats = work->bf16 ? work->bf16->sums_floats(plan) : work->kernels->sums_floats(plan);
    size_t count, bytes;
    if (!qkv_multiply(units * pieces, plan->sums_floats, &count) || !qkv_multiply(count, sizeof(float), &bytes))
        return qkv_fail(ctx, QKV_MEMORY,
                        "attention: the sums of %zu pieces of keys are more than this machine can address", pieces);
    plan->pieces = pieces;
    plan->sums = qkv_arena_take(scratch, count, sizeof(float));
    return plan->sums ? QKV_OK : QKV_MEMORY;
}

static void forward_run(struct qkv_context *ctx, struct work *work) {
    const struct qkv_attend_plan *plan = &work->plan;
    const size_t units = plan->a->B * plan->a->Hkv * plan->blocks, items = units * plan->pieces;
    if (ctx->dry) return;
    if (work->bf16 || !forward_is_short(plan->a)) {
        attend_items(ctx, work, items, forward_body);
    } else {
        work->items = work->grain = items;
        forward_body(work, 0, 0);
    }
    if (plan->sums) forward_combine(work, units);
}

static enum qkv_status forward_bf16(struct qkv_context *ctx, struct qkv_arena *scratch, struct work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    const size_t pairs = plan->a->B * plan->a->Hkv;
    cut_rows(plan, work->bf16->strip);
    plan->keys = work->bf16->keys;
    plan->key_blocks = divide_up(plan->a->Tk, plan->keys);
    plan->keys_bytes = work->bf16->keys_bytes(plan);
    plan->packs = plan->blocks == 1 && !plan->a->page_bytes;
    const bool ahead = plan->blocks > 1 && !plan->a->page_bytes;
    enum qkv_status status = QKV_OK;
    if (ahead) status = take_packed(ctx, scratch, pairs * plan->key_blocks, plan->keys_bytes, &plan->packed_keys);
    if (status == QKV_OK) status = forward_cut_keys(ctx, scratch, work);
    if (status == QKV_OK) status = take_scratch(ctx, scratch, work, work->bf16->scratch(plan));
    if (status != QKV_OK) return status;
    if (ahead) attend_items(ctx, work, pairs * plan->key_blocks, pack_keys_body);
    forward_run(ctx, work);
    return QKV_OK;
}

static enum qkv_status forward_fp32(struct qkv_context *ctx, struct qkv_arena *scratch, struct work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    cut_rows(plan, work->kernels->tile);
    enum qkv_status status = forward_cut_keys(ctx, scratch, work);
    if (status == QKV_OK) status = take_scratch(ctx, scratch, work, work->kernels->forward_scratch(plan));
    if (status == QKV_OK) forward_run(ctx, work);
    return status;
}

enum qkv_status qkv_attend_forward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a) {
    enum qkv_status status = qkv_attend_check(ctx, a);
    if (status != QKV_OK) return status;
    if (!a->B || !a->Tq) return QKV_OK;
    if (!a->y.data) return qkv_fail(ctx, QKV_ARGUMENT, "attention: y must be given");
    struct work work = {.plan = attend_start(a), .kernels = ctx->kernels->attend};
    work.bf16 = bf16_of(ctx, &work.plan), work.unit = ctx->kernels->bf16;
    size_t mark = qkv_arena_mark(scratch);
    status = work.bf16 ? forward_bf16(ctx, scratch, &work) : forward_fp32(ctx, scratch, &work);
    qkv_arena_release(scratch, mark);
    return status;
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static void delta_body(void *argument, size_t begin, size_t end, int thread) {
    const struct work *work = argument;
    (void)thread;
    work->kernels->delta(&work->plan, begin, end);
}

/* Of one sequence. */
static void ragged_delta_body(void *argument, size_t b, int thread) {
    const struct work *work = argument;
    struct qkv_attend_sequence own;
    (void)thread;
    qkv_attend_sequence_of(&work->plan, b, &own);
    work->kernels->delta(&own.plan, 0, own.a.H * own.a.Tq);
}

/* Before the gradients: see norm in struct qkv_attend_plan. */
static void norm_body(void *argument, size_t run, int thread) {
    const struct work *work = argument;
    struct attend_place place;
    attend_place_start(&place, &work->plan);
    for (size_t i = run * work->grain; i < attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = item_plan(&place, count_head_blocks, &item);
        if (plan) work->kernels->norm(plan, item, work->scratch + (size_t)thread * work->floats);
    }
}

static struct qkv_attend_plan norm_plan(const struct work *work) {
    struct qkv_attend_plan plan = work->plan;
    plan.stage = QKV_ATTENTION_WEIGHTS;
    plan.block = WEIGHTS_ROWS / work->kernels->tile * work->kernels->tile;
    plan.rows = plan.a->Tq; /* head by head */
    plan.blocks = divide_up(plan.rows, plan.block);
    return plan;
}

static void pack_rows_body(void *argument, size_t run, int thread) {
    const struct work *work = argument;
    struct attend_place place;
    attend_place_start(&place, &work->plan);
    for (size_t i = run * work->grain; i < attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = item_plan(&place, count_units, &item);
        if (plan) work->bf16->pack_rows(plan, item, work->scratch + (size_t)thread * work->floats);
    }
}

/* The item of a head that is apart: see `apart` in struct qkv_attend_plan. */
static void backward_apart(const struct work *work, const struct qkv_attend_plan *plan, size_t pair, int thread) {
    struct qkv_attend_plan own = *plan;
    const struct qkv_attend_plan *whole = &work->plan;
    float *scratch = work->scratch + (size_t)thread * work->floats;
    const size_t t = (size_t)thread;
    if (own.partial) {
        own.partial += t * whole->shares * whole->partial_rows * whole->partial_columns;
        own.touched += t * whole->shares * whole->blocks;
    }
    if (own.packed_rows) own.packed_rows += t * whole->blocks * whole->rows_bytes;
    for (size_t block = 0; block < own.blocks && work->bf16; block++)
        work->bf16->pack_rows(&own, pair * own.blocks + block, scratch);
    (work->bf16 ? work->bf16->backward : work->kernels->backward)(&own, pair, scratch);
    for (size_t block = 0; block < own.blocks && own.partial; block++)
        work->kernels->gather(&own, pair * own.blocks + block);
}

static void backward_body(void *argument, size_t run, int thread) {
    const struct work *work = argument;
    float *scratch = work->scratch + (size_t)thread * work->floats;
    struct attend_place place;
    attend_place_start(&place, &work->plan);
    if (work->bf16) work->unit->enter(0);
    for (size_t i = run * work->grain; i < attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = chunk_plan(&place, &item);
        if (!plan) continue;
        if (plan->apart)
            backward_apart(work, plan, item, thread);
        else
            (work->bf16 ? work->bf16->backward : work->kernels->backward)(plan, item, scratch);
    }
    if (work->bf16) work->unit->leave();
}

static void addend_body(void *argument, size_t item, int thread) {
    const struct work *work = argument;
    work->kernels->attention_bias(&work->plan, item, work->scratch + (size_t)thread * work->floats);
}

static void gather_body(void *argument, size_t run, int thread) {
    const struct work *work = argument;
    struct attend_place place;
    (void)thread;
    attend_place_start(&place, &work->plan);
    for (size_t i = run * work->grain; i < attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = item_plan(&place, count_units, &item);
        if (plan) work->kernels->gather(plan, item);
    }
}

/* Where all sizes of a call decide, there are no more runs of keys than memory can bear shares of dq. */
static void cut_keys(struct qkv_attend_plan *plan, size_t keys) {
    const struct qkv_attend *a = plan->a;
    size_t heads = a->B * a->Hkv;
    plan->keys = keys;
    plan->key_blocks = divide_up(a->Tk, keys);
    if (a->ordered || a->alone) {
        plan->chunk = a->ordered ? divide_up(a->ordered, keys) : qkv_attend_alone_chunk(plan, a->Tq, plan->key_blocks);
        plan->chunks = divide_up(plan->key_blocks, plan->chunk);
        if (!a->ordered && qkv_attend_is_ragged(a)) plan->chunks = qkv_attend_alone_chunks(plan, plan->key_blocks);
        return;
    }
    size_t chunks = heads ? divide_up(BACKWARD_ITEMS, heads) : 0;
    if (chunks > BACKWARD_CHUNKS) chunks = BACKWARD_CHUNKS;
    size_t share = heads * plan->rows * a->D; /* floats of one chunk's; the checked sizes say that this fits */
    if (share && chunks > QKV_ATTEND_SHARES / share) chunks = share < QKV_ATTEND_SHARES ? QKV_ATTEND_SHARES / share : 1;
    if (chunks > plan->key_blocks) chunks = plan->key_blocks;
    plan->chunk = chunks ? divide_up(plan->key_blocks, chunks) : 1;
    plan->chunks = divide_up(plan->key_blocks, plan->chunk);
}

/* Whether there are heads enough for the threads, or too many shares for the memory. This changes no bits. */
static void cut_shares(const struct qkv_context *ctx, struct qkv_attend_plan *plan) {
    const size_t heads = plan->a->B * plan->a->Hkv, share = heads * plan->rows * plan->a->D;
    const bool enough = ctx->threads == 1 || heads >= FOLD_ITEMS * (size_t)ctx->threads;
    plan->folds = plan->chunks > 2 && (enough || share > QKV_ATTEND_SHARES / plan->chunks);
    plan->shares = plan->folds ? 2 : plan->chunks;
}

static void cut_backward(struct qkv_attend_plan *plan, const struct qkv_attend_kernels *kernels,
                         const struct qkv_attend_bf16_kernels *bf16) {
    plan->block = bf16 ? bf16->backward_rows : BACKWARD_ROWS / kernels->tile * kernels->tile;
    plan->blocks = divide_up(plan->rows, plan->block);
    plan->partial_rows = bf16 ? plan->blocks * plan->block : plan->rows;
    cut_keys(plan, bf16 ? bf16->keys : kernels->backward_keys);
}

/* The cuts of the fp32 kernels, which the gradient of the attention_bias is left to. */
static struct qkv_attend_plan fp32_plan(const struct work *work) {
    struct qkv_attend_plan plan = work->plan;
    plan.partial = NULL;
    cut_backward(&plan, work->kernels, NULL);
    return plan;
}

static enum qkv_status take_partial(struct qkv_context *ctx, struct qkv_arena *arena, struct qkv_attend_plan *plan,
                                    size_t heads, size_t width) {
    const struct qkv_attend *a = plan->a;
    size_t parts = heads * plan->shares, floats, bytes;
    plan->partial_columns = divide_up(a->D, width) * width;
    if (!qkv_multiply(parts, plan->partial_rows, &floats) || !qkv_multiply(floats, plan->partial_columns, &floats) ||
        !qkv_multiply(floats, sizeof(float), &bytes))
        return qkv_fail(ctx, QKV_MEMORY,
                        "attention: the gradient of q in %zu parts is more than this machine can address",
                        plan->shares);
    plan->partial = qkv_arena_take(arena, floats, sizeof(float));
    plan->touched = qkv_arena_take(arena, parts * plan->blocks, 1);
    return plan->partial && plan->touched ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_backward(struct qkv_context *ctx, struct qkv_arena *scratch, struct work *work) {
    const struct qkv_attend *a = work->plan.a;
    const size_t heads = work->plan.apart ? (size_t)ctx->threads : a->B * a->Hkv;
    work->plan.delta = qkv_arena_take(scratch, a->B * a->H * a->Tq, sizeof(float));
    work->plan.norm = qkv_arena_take(scratch, a->B * a->H * a->Tq, sizeof(float));
    if (!work->plan.delta || !work->plan.norm) return QKV_MEMORY;
    if (work->plan.g->dq.data) {
        enum qkv_status status = take_partial(ctx, scratch, &work->plan, heads, work->kernels->width);
        if (status != QKV_OK) return status;
    }
    struct qkv_attend_plan norm = norm_plan(work), attention_bias = fp32_plan(work), *plan = &work->plan;
    size_t floats = work->kernels->weights_scratch(&norm), other = 0;
    if (!work->bf16 || plan->g->dattention_bias) other = work->kernels->backward_scratch(&attention_bias);
    if (other > floats) floats = other;
    if (work->bf16) {
        plan->rows_bytes = work->bf16->rows_bytes(plan);
        enum qkv_status status = take_packed(ctx, scratch, heads * plan->blocks, plan->rows_bytes, &plan->packed_rows);
        if (status != QKV_OK) return status;
        other = work->bf16->scratch(plan);
        if (other > floats) floats = other;
    }
    return take_scratch(ctx, scratch, work, floats);
}

static void run_backward(struct qkv_context *ctx, struct work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    const struct qkv_attend *a = plan->a;
    const struct qkv_attend_gradients *g = plan->g;
    const struct qkv_pairs *pairs = &a->attention_bias_strides;
    const size_t heads = a->B * a->Hkv, distinct = (pairs->batch_stride ? a->B : 1) * (pairs->head_stride ? a->H : 1);
    const bool past = a->past && (g->dpast_k.data || g->dpast_v.data);
    struct work norm = *work, attention_bias = *work;
    norm.plan = norm_plan(work), attention_bias.plan = fp32_plan(work);
    if (a->q_start)
        qkv_parallel(ctx, a->B, ragged_delta_body, work);
    else
        qkv_parallel_range(ctx, a->B * a->H * a->Tq, DELTA_GRAIN, delta_body, work);
    if (!work->bf16 || g->dattention_bias) attend_items(ctx, &norm, a->B * a->H * norm.plan.blocks, norm_body);
    if (past || g->dq.data || g->dk.data || g->dv.data) {
        if (work->bf16 && !plan->apart) attend_items(ctx, work, heads * plan->blocks, pack_rows_body);
        attend_items(ctx, work, heads * (plan->folds ? 1 : plan->chunks), backward_body);
    }
    if (g->dq.data && !plan->apart) attend_items(ctx, work, heads * plan->blocks, gather_body);
    if (g->dattention_bias) qkv_parallel(ctx, distinct * attention_bias.plan.key_blocks, addend_body, &attention_bias);
}

enum qkv_status qkv_attend_backward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                    const struct qkv_attend_gradients *g) {
    enum qkv_status status = qkv_attend_check(ctx, a);
    if (status != QKV_OK) return status;
    if (!a->B && !g->dattention_bias) return QKV_OK;
    status = qkv_attend_check_gradients(ctx, a, g);
    if (status != QKV_OK) return status;
    struct work work = {.plan = attend_start(a), .kernels = ctx->kernels->attend};
    struct qkv_attend_plan *plan = &work.plan;
    plan->g = g;
    work.bf16 = bf16_of(ctx, plan), work.unit = ctx->kernels->bf16;
    cut_backward(plan, work.kernels, work.bf16);
    cut_shares(ctx, plan);
    plan->apart = (plan->folds || plan->chunks == 1) && a->B * a->Hkv >= (size_t)ctx->threads;
    size_t mark = qkv_arena_mark(scratch);
    status = take_backward(ctx, scratch, &work);
    if (status == QKV_OK) run_backward(ctx, &work);
    qkv_arena_release(scratch, mark);
    return status;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

static void weights_body(void *argument, size_t item, int thread) {
    const struct work *work = argument;
    work->kernels->weights(&work->plan, item, work->scratch + (size_t)thread * work->floats);
}

/* Weights become what the forward multiplied values by: elements have the numbers there that they have here. */
static void weights_drop(struct qkv_context *ctx, const struct qkv_attend_plan *plan) {
    const struct qkv_attend *a = plan->a;
    for (size_t r = 0; r < plan->count && !ctx->dry; r++) {
        const uint64_t row = ((plan->mask_b + plan->batch) * a->H + plan->head) * plan->mask_Tq + plan->first + r;
        float *w = plan->weights + r * a->Tk;
        ctx->kernels->dropout(w, false, w, a->dropout, a->key, row * plan->mask_Tk, a->Tk);
    }
}

enum qkv_status qkv_attend_weights(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                   enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                   float *out) {
    enum qkv_status status = qkv_attend_check(ctx, a);
    if (status != QKV_OK) return status;
    status = qkv_attend_check_weights(ctx, a, stage, b, h, first, rows, out);
    if (status != QKV_OK) return status;
    if (!rows || !a->Tk) return QKV_OK;
    struct work work = {.plan = attend_start(a), .kernels = ctx->kernels->attend};
    struct qkv_attend_plan *plan = &work.plan;
    struct qkv_attend_sequence own;
    if (qkv_attend_is_ragged(a) && !ctx->dry) {
        qkv_attend_sequence_of(plan, b, &own);
        *plan = own.plan, b = 0;
    }
    const bool dropped = stage == QKV_ATTENTION_DROPPED;
    plan->stage = dropped ? QKV_ATTENTION_WEIGHTS : stage;
    plan->weights = out, plan->batch = b, plan->head = h, plan->first = first, plan->count = rows;
    plan->block = WEIGHTS_ROWS / work.kernels->tile * work.kernels->tile;
    plan->blocks = divide_up(rows, plan->block);
    size_t mark = qkv_arena_mark(scratch);
    status = take_scratch(ctx, scratch, &work, work.kernels->weights_scratch(plan));
    if (status == QKV_OK) qkv_parallel(ctx, plan->blocks, weights_body, &work);
    if (status == QKV_OK && dropped && plan->a->dropout > 0) weights_drop(ctx, plan);
    qkv_arena_release(scratch, mark);
    return status;
}
