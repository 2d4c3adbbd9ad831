/* attend.c: the driver of attention, forward: cuts a call into items by its shape alone, takes scratch, and runs the
 * kernels of isa/attend_*.c in parallel.
 *
 * Forward: an item is a block of query rows of one kv head, which walks over all its keys (online softmax: Milakov &
 * Gimelshein 2018, "Online normalizer calculation for softmax"; tiling: Dao et al. 2022, "FlashAttention"). If there
 * are fewer blocks than threads, as in decoding with one kv head, an item walks over one piece of the keys only (Dao et
 * al. 2023, "Flash-Decoding for long-context inference"). The sums of the pieces are merged afterwards, in the same
 * order as one item would (isa/attend_sums.h).
 *
 * In bf16 (struct qkv_attend_bf16_kernels) the items are the same. Keys are packed once, before the items, because all
 * blocks of rows read them; but not if there is only one block of rows, or if their pages store them packed. The number
 * of rows of a call changes no bits.
 *
 * A ragged call is cut as if all its sequences were as long as the longest. An item then becomes an item of its own
 * sequence (attend_ragged.c), or nothing if that sequence is shorter. */
#include "kernel/attend_work.h"

enum { FORWARD_ITEMS = 24, DECODE_ITEMS = 8 };

/* Starts with the largest blocks and halves them while there are too few for the threads. Keys are packed once for each
 * block, so blocks stay above a minimum size unless there are very few rows, and few pieces of the keys that could be
 * items instead. */
static void cut_rows(struct qkv_attend_plan *plan, size_t tile) {
    size_t heads = plan->a->B * plan->a->Hkv, max_tiles = QKV_ATTEND_ROWS / tile;
    const size_t pieces = qkv_max(plan->a->Tk / QKV_ATTEND_PIECE, 1);
    size_t tiles = qkv_attend_divide_up(plan->rows, tile);
    size_t block = tiles < max_tiles ? tiles : max_tiles;
    while (block > 4 && heads * qkv_attend_divide_up(tiles, block) < FORWARD_ITEMS)
        block = qkv_attend_divide_up(block, 2);
    while (block > 1 && heads * pieces * qkv_attend_divide_up(tiles, block) < DECODE_ITEMS)
        block = qkv_attend_divide_up(block, 2);
    plan->block = (block ? block : 1) * tile;
    plan->blocks = qkv_attend_divide_up(plan->rows, plan->block);
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void forward_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t item,
                         float *scratch) {
    if (!work->bf16)
        (work->few ? work->kernels->forward_few : work->kernels->forward)(plan, item, scratch);
    else if (!work->few || !work->bf16->forward_few(plan, item, scratch))
        work->bf16->forward(plan, item, scratch);
}

static void forward_body(void *argument, size_t run, int thread) {
    const struct qkv_attend_work *work = argument;
    float *scratch = work->scratch + (size_t)thread * work->floats;
    struct qkv_attend_place place;
    qkv_attend_place_start(&place, &work->plan);
    if (work->bf16) work->unit->enter(0);
    for (size_t i = run * work->grain; i < qkv_attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = qkv_attend_item_plan(&place, qkv_attend_pieces, &item);
        if (plan) forward_item(work, plan, item, scratch);
    }
    if (work->bf16) work->unit->leave();
}

static void pack_keys_item(const struct qkv_attend_work *work, const struct qkv_attend_plan *plan, size_t item,
                           int thread) {
    work->bf16->pack_keys(plan, item, qkv_attend_scratch(work, thread));
}

/* One item: the rows are few, and waking the threads again would take longer. */
static void forward_combine(void *argument, size_t only, int thread) {
    (void)only, (void)thread;
    const struct qkv_attend_work *work = argument;
    const struct qkv_attend_plan *whole = &work->plan;
    const size_t units = whole->a->B * qkv_attend_units(whole);
    struct qkv_attend_place place;
    qkv_attend_place_start(&place, whole);
    for (size_t unit = 0; unit < units; unit++) {
        size_t item = unit;
        const struct qkv_attend_plan *plan = qkv_attend_item_plan(&place, qkv_attend_units, &item);
        if (plan) (work->bf16 ? work->bf16->combine : work->kernels->combine)(plan, item);
    }
}

/* Waking a thread costs more than a step of decoding over a short cache. */
static bool forward_is_short(const struct qkv_attend *a) {
    return (double)(a->B * a->H * a->Tq) * (double)a->Tk * (double)(a->D + a->Dv) < 1e5;
}

/* Pieces of the keys become items if there are too few blocks of rows. This changes no bits. */
static enum qkv_status forward_cut_keys(struct qkv_context *ctx, struct qkv_arena *scratch,
                                        struct qkv_attend_work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    const size_t units = plan->a->B * plan->a->Hkv * plan->blocks,
                 pieces = qkv_attend_divide_up(plan->a->Tk, QKV_ATTEND_PIECE);
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

static void forward_run(struct qkv_context *ctx, struct qkv_attend_work *work) {
    const struct qkv_attend_plan *plan = &work->plan;
    const size_t items = plan->a->B * qkv_attend_pieces(plan);
    if (work->bf16 || !forward_is_short(plan->a)) {
        qkv_attend_items(ctx, work, items, forward_body);
    } else {
        work->items = work->grain = items;
        qkv_parallel(ctx, 1, forward_body, work);
    }
    if (plan->sums) qkv_parallel(ctx, 1, forward_combine, work);
}

/* Keys and values are read as words where their pages have them, if each block of keys is one page. */
static void forward_find_words(struct qkv_attend_plan *plan) {
    const struct qkv_page_table *pages = &plan->a->pages;
    const size_t keys = plan->a->Tk;
    if (!pages->lists || plan->a->past != keys || pages->shared) return;
    if (pages->positions != plan->keys && (pages->positions > plan->keys || keys > pages->positions)) return;
    plan->words[QKV_PAGE_KEYS] = pages->k->words != NULL;
    plan->words[QKV_PAGE_VALUES] = pages->v->words != NULL;
}

static enum qkv_status forward_bf16(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_attend_work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    const size_t pairs = plan->a->B * plan->a->Hkv;
    work->few = qkv_attend_is_few(work);
    if (work->few) /* the rows of a head */
        plan->block = qkv_attend_divide_up(plan->rows, work->bf16->strip) * work->bf16->strip, plan->blocks = 1;
    else
        cut_rows(plan, work->bf16->strip);
    plan->keys = work->bf16->keys;
    plan->key_blocks = qkv_attend_divide_up(plan->a->Tk, plan->keys);
    plan->keys_bytes = work->bf16->keys_bytes(plan);
    forward_find_words(plan);
    const bool packed = plan->words[QKV_PAGE_KEYS] && plan->words[QKV_PAGE_VALUES];
    plan->packs = plan->blocks == 1 && !packed;
    const bool ahead = plan->blocks > 1 && !packed;
    enum qkv_status status = QKV_OK;
    if (ahead)
        status = qkv_attend_take_packed(ctx, scratch, pairs * plan->key_blocks, plan->keys_bytes, &plan->packed_keys);
    if (!status) status = forward_cut_keys(ctx, scratch, work);
    size_t floats = work->bf16->scratch(plan);
    if (work->few) floats = qkv_max(floats, work->bf16->few_scratch(plan));
    if (!status) status = qkv_attend_take_scratch(ctx, scratch, work, floats);
    if (status) return status;
    if (ahead) qkv_attend_each(ctx, work, pairs * plan->key_blocks, qkv_attend_key_blocks, pack_keys_item);
    forward_run(ctx, work);
    return QKV_OK;
}

static enum qkv_status forward_fp32(struct qkv_context *ctx, struct qkv_arena *scratch, struct qkv_attend_work *work) {
    struct qkv_attend_plan *plan = &work->plan;
    cut_rows(plan, work->kernels->tile);
    enum qkv_status status = forward_cut_keys(ctx, scratch, work);
    size_t floats = work->kernels->forward_scratch(plan);
    work->few = qkv_attend_is_few(work);
    if (work->few && work->kernels->few_scratch(plan) > floats) floats = work->kernels->few_scratch(plan);
    if (!status) status = qkv_attend_take_scratch(ctx, scratch, work, floats);
    if (!status) forward_run(ctx, work);
    return status;
}

static enum qkv_status forward_call(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a) {
    struct qkv_attend_work work = {.plan = qkv_attend_work_start(ctx, a), .kernels = ctx->kernels->attend};
    work.bf16 = qkv_attend_bf16_of(ctx, &work.plan), work.unit = ctx->kernels->bf16;
    const size_t mark = qkv_arena_mark(scratch);
    const enum qkv_status status = work.bf16 ? forward_bf16(ctx, scratch, &work) : forward_fp32(ctx, scratch, &work);
    qkv_arena_release(scratch, mark);
    return status;
}

/* Runs or plans a call. Keys in pages grow in number, and a plan holds for fewer of them: rows are cut smaller where
 * there are fewer pieces of keys, so the most keys of each number of pieces are planned. */
static enum qkv_status forward_any_keys(struct qkv_context *ctx, struct qkv_arena *scratch,
                                        const struct qkv_attend *a) {
    enum qkv_status status = QKV_OK;
    const size_t most = scratch->measuring && a->pages.lists ? qkv_min(a->Tk / QKV_ATTEND_PIECE, DECODE_ITEMS) : 0;
    for (size_t pieces = 1; pieces < most && !status; pieces++) {
        struct qkv_attend fewer = *a;
        fewer.Tk = (pieces + 1) * QKV_ATTEND_PIECE - 1;
        fewer.past = a->past == a->Tk ? fewer.Tk : qkv_min(a->past, fewer.Tk);
        status = forward_call(ctx, scratch, &fewer);
    }
    return status ? status : forward_call(ctx, scratch, a);
}

/* Plans the calls of fewer sequences or queries that can take more memory: those with so few blocks of the largest size
 * that they are cut smaller. */
static enum qkv_status forward_plan_fewer(struct qkv_context *ctx, struct qkv_arena *scratch,
                                          const struct qkv_attend *a) {
    const struct qkv_attend_plan plan = qkv_attend_work_start(ctx, a);
    const struct qkv_attend_bf16_kernels *bf16 = qkv_attend_bf16_of(ctx, &plan);
    const size_t tile = bf16 ? bf16->strip : ctx->kernels->attend->tile, step = qkv_max(1, tile / plan.group);
    const bool own_keys = !a->past && !a->pasts && !a->pages.lists && !a->pages.k;
    enum qkv_status status = QKV_OK;
    for (size_t B = 1; B <= a->B && !status && (B - 1) * a->Hkv < FORWARD_ITEMS; B++)
        for (size_t T = step; T < a->Tq + step && !status; T += step) {
            struct qkv_attend fewer = *a;
            fewer.B = B;
            fewer.Tq = qkv_min(T, a->Tq);
            if (own_keys) fewer.Tk = qkv_min(fewer.Tq, a->Tk);
            status = forward_any_keys(ctx, scratch, &fewer);
            if (B * a->Hkv * (fewer.Tq * plan.group / QKV_ATTEND_ROWS) >= FORWARD_ITEMS) break;
        }
    return status;
}

enum qkv_status qkv_attend_forward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a) {
    enum qkv_status status = qkv_attend_check(ctx, a);
    if (status) return status;
    if (!a->B || !a->Tq) return QKV_OK;
    if (!a->y.data) return qkv_fail(ctx, QKV_ARGUMENT, "attention: y must be given");
    if (ctx->at_most) status = forward_plan_fewer(ctx, scratch, a);
    return status ? status : forward_any_keys(ctx, scratch, a);
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

static void weights_body(void *argument, size_t item, int thread) {
    const struct qkv_attend_work *work = argument;
    work->kernels->weights(&work->plan, item, work->scratch + (size_t)thread * work->floats);
}

/* Turns weights into the weights that forward multiplied by the values, with the same dropout mask. */
static void weights_drop(void *argument, size_t r, int thread) {
    (void)thread;
    const struct qkv_attend_plan *plan = argument;
    const struct qkv_attend *a = plan->a;
    const uint64_t row = ((plan->mask_b + plan->batch) * a->H + plan->head) * plan->mask_Tq + plan->first + r;
    float *w = plan->weights + r * a->Tk;
    plan->kernels->dropout(w, NULL, w, a->dropout, a->key, row * plan->mask_Tk, a->Tk);
}

struct weights {
    struct qkv_context *ctx;
    struct qkv_attend_work *work;
    size_t b;
    bool dropped;
};

/* In a ragged call the plan becomes that of the sequence, which only a run knows. */
static enum qkv_status weights_run(void *argument) {
    const struct weights *w = argument;
    struct qkv_attend_plan *plan = &w->work->plan;
    struct qkv_attend_sequence own;
    if (qkv_attend_is_ragged(plan->a)) {
        qkv_attend_sequence_of(plan, w->b, &own);
        own.plan.blocks = plan->blocks;
        *plan = own.plan;
    }
    qkv_parallel(w->ctx, plan->blocks, weights_body, w->work);
    if (w->dropped && plan->a->dropout > 0) qkv_parallel(w->ctx, plan->count, weights_drop, plan);
    return QKV_OK;
}

enum qkv_status qkv_attend_weights(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                   enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                   float *out) {
    enum qkv_status status = qkv_attend_check(ctx, a);
    if (status) return status;
    status = qkv_attend_check_weights(ctx, a, stage, b, h, first, rows, out);
    if (status) return status;
    if (!rows || !a->Tk) return QKV_OK;
    struct qkv_attend_work work = {.plan = qkv_attend_work_start(ctx, a), .kernels = ctx->kernels->attend};
    struct qkv_attend_plan *plan = &work.plan;
    struct weights weights = {.ctx = ctx, .work = &work, .b = b, .dropped = stage == QKV_ATTENTION_DROPPED};
    plan->stage = weights.dropped ? QKV_ATTENTION_WEIGHTS : stage;
    plan->rounds_dy = qkv_attend_bf16_of(ctx, plan) != NULL;
    plan->weights = out, plan->batch = b, plan->head = h, plan->first = first, plan->count = rows;
    plan->block = WEIGHTS_ROWS / work.kernels->tile * work.kernels->tile;
    plan->blocks = qkv_attend_divide_up(rows, plan->block);
    size_t mark = qkv_arena_mark(scratch);
    status = qkv_attend_take_scratch(ctx, scratch, &work, work.kernels->weights_scratch(plan));
    if (!status) status = qkv_compute(ctx, weights_run, &weights);
    qkv_arena_release(scratch, mark);
    return status;
}
