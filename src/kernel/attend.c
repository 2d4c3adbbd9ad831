/* attend.c: the driver of attention: checks a call, cuts it into work by its shape alone, takes scratch and runs the
 * kernels of isa/attend_*.c in parallel.
 *
 * Forward: one item is a block of query rows of one kv head, which walks over all its keys (online softmax: Milakov &
 * Gimelshein 2018, "Online normalizer calculation for softmax"; tiling: Dao et al. 2022, "FlashAttention").
 * Backward (Dao 2023, "FlashAttention-2"): delta = Σ dy·y first; then one item is a run of key blocks of one kv head,
 * which walks over all query rows and owns its dk and dv; dq is summed over the runs, in order, afterwards. */
#include "kernel/isa/attend.h"

#include <math.h>

enum { FORWARD_ITEMS = 24, DECODE_ITEMS = 8, BACKWARD_ITEMS = 64, DELTA_GRAIN = 512 };
enum { BACKWARD_ROWS = 96, WEIGHTS_ROWS = 48 };

static enum qkv_status check_sizes(struct qkv_context *ctx, const struct qkv_attend *a) {
    const size_t most = (size_t)INT32_MAX;
    if (!a->H || !a->Hkv || a->H % a->Hkv)
        return qkv_fail(ctx, QKV_SHAPE, "attend: %zu query heads cannot share %zu key heads; make it a whole multiple",
                        a->H, a->Hkv);
    if (!a->D || !a->Dv)
        return qkv_fail(ctx, QKV_SHAPE, "attend: D is %zu and Dv is %zu; a head needs at least one channel of each",
                        a->D, a->Dv);
    if (a->B > most || a->H > most || a->Tq > most || a->Tk > most || a->D > most || a->Dv > most)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attend: a dimension of (B,H,Tq,Tk,D,Dv) = (%zu,%zu,%zu,%zu,%zu,%zu) exceeds %zu", a->B, a->H,
                        a->Tq, a->Tk, a->D, a->Dv, most);
    size_t heads, rows, keys, wide, product;
    wide = a->D > a->Dv ? a->D : a->Dv;
    bool fits = qkv_multiply(a->B, a->H, &heads) && qkv_multiply(heads, a->Tq, &rows) &&
                qkv_multiply(heads, a->Tk, &keys) && qkv_multiply(rows, wide, &product) &&
                qkv_multiply(keys, wide, &product) && qkv_multiply(rows, a->Tk, &product);
    if (!fits)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attend: (B,H,Tq,Tk,D,Dv) = (%zu,%zu,%zu,%zu,%zu,%zu) is more than this "
                        "machine can address",
                        a->B, a->H, a->Tq, a->Tk, a->D, a->Dv);
    return QKV_OK;
}

static enum qkv_status check_options(struct qkv_context *ctx, const struct qkv_attend *a) {
    if (!(a->dropout >= 0 && a->dropout < 1))
        return qkv_fail(ctx, QKV_ARGUMENT, "attend: dropout is %g; it must lie in [0, 1)", (double)a->dropout);
    if (!(a->softcap >= 0) || isinf(a->softcap))
        return qkv_fail(ctx, QKV_ARGUMENT, "attend: softcap is %g; give a positive number, or 0 for none",
                        (double)a->softcap);
    bool queries = a->B && a->Tq, keys = a->B && a->Tk;
    if ((queries && (!a->q.data || !a->lo || !a->hi)) || (keys && (!a->k.data || !a->v.data)))
        return qkv_fail(ctx, QKV_ARGUMENT, "attend: q, k, v, lo and hi must all be given");
    if (queries && a->bias && !a->position)
        return qkv_fail(ctx, QKV_ARGUMENT, "attend: a bias table needs the queries' positions");
    return QKV_OK;
}

/* Every distance that a row can meet has an entry in the bias table. */
static enum qkv_status check_bias(struct qkv_context *ctx, const struct qkv_attend *a) {
    if (!a->bias || ctx->dry) return QKV_OK;
    if (a->bias_row > (size_t)INT64_MAX / 2 || a->bias_zero > (size_t)INT64_MAX / 2)
        return qkv_fail(ctx, QKV_SHAPE, "attend: a bias table with %zu distances and zero at %zu cannot be addressed",
                        a->bias_row, a->bias_zero);
    for (size_t r = 0; r < a->B * a->Tq; r++) {
        int64_t lo = a->lo[r] > 0 ? a->lo[r] : 0;
        int64_t hi = a->hi[r] < (int64_t)a->Tk ? a->hi[r] : (int64_t)a->Tk;
        int64_t shift = (int64_t)a->bias_zero - a->position[r];
        if (lo < hi && (lo + shift < 0 || hi - 1 + shift >= (int64_t)a->bias_row))
            return qkv_fail(ctx, QKV_SHAPE,
                            "attend: row %zu at position %d attends to keys [%lld, %lld), but the bias table holds "
                            "distances %lld to %lld; make it longer",
                            r, a->position[r], (long long)lo, (long long)hi, -(long long)a->bias_zero,
                            (long long)a->bias_row - (long long)a->bias_zero - 1);
    }
    return QKV_OK;
}

static enum qkv_status check(struct qkv_context *ctx, const struct qkv_attend *a) {
    enum qkv_status status = check_sizes(ctx, a);
    if (status == QKV_OK) status = check_options(ctx, a);
    if (status == QKV_OK) status = check_bias(ctx, a);
    return status;
}

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

static struct qkv_attend_plan start(const struct qkv_attend *a) {
    struct qkv_attend_plan plan = {.a = a, .group = a->H / a->Hkv};
    plan.rows = plan.group * a->Tq;
    return plan;
}

/* Scratch of every thread behind one another. */
struct work {
    struct qkv_attend_plan plan;
    const struct qkv_attend_kernels *kernels;
    float *scratch;
    size_t floats;
};

static enum qkv_status take_scratch(struct qkv_context *ctx, struct qkv_arena *arena, struct work *work,
                                    size_t floats) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    work->floats = divide_up(floats, line) * line;
    size_t all;
    if (!qkv_multiply(work->floats, (size_t)ctx->threads, &all))
        return qkv_fail(ctx, QKV_MEMORY, "attend: scratch for %d threads is more than this machine can address",
                        ctx->threads);
    work->scratch = qkv_arena_take(arena, all, sizeof(float));
    return work->scratch ? QKV_OK : QKV_MEMORY;
}

/* ---- forward ---------------------------------------------------------------------------------------------------- */

static void forward_body(void *argument, size_t item, int thread) {
    const struct work *work = argument;
    work->kernels->forward(&work->plan, item, work->scratch + (size_t)thread * work->floats);
}

enum qkv_status qkv_attend_forward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a) {
    enum qkv_status status = check(ctx, a);
    if (status != QKV_OK) return status;
    if (!a->B || !a->Tq) return QKV_OK;
    if (!a->y.data) return qkv_fail(ctx, QKV_ARGUMENT, "attend: y must be given");
    struct work work = {.plan = start(a), .kernels = ctx->kernels->attend};
    cut_rows(&work.plan, work.kernels->tile);
    size_t mark = qkv_arena_mark(scratch);
    status = take_scratch(ctx, scratch, &work, work.kernels->forward_scratch(&work.plan));
    if (status == QKV_OK) qkv_parallel(ctx, a->B * a->Hkv * work.plan.blocks, forward_body, &work);
    qkv_arena_release(scratch, mark);
    return status;
}

/* ---- backward --------------------------------------------------------------------------------------------------- */

static void delta_body(void *argument, size_t begin, size_t end, int thread) {
    const struct work *work = argument;
    (void)thread;
    work->kernels->delta(&work->plan, begin, end);
}

static void backward_body(void *argument, size_t item, int thread) {
    const struct work *work = argument;
    work->kernels->backward(&work->plan, item, work->scratch + (size_t)thread * work->floats);
}

static void gather_body(void *argument, size_t item, int thread) {
    const struct work *work = argument;
    (void)thread;
    work->kernels->gather(&work->plan, item);
}

static void cut_keys(struct qkv_attend_plan *plan, size_t keys) {
    size_t heads = plan->a->B * plan->a->Hkv;
    plan->key_blocks = divide_up(plan->a->Tk, keys);
    size_t chunks = divide_up(BACKWARD_ITEMS, heads);
    if (chunks > plan->key_blocks) chunks = plan->key_blocks;
    plan->chunk = chunks ? divide_up(plan->key_blocks, chunks) : 1;
    plan->chunks = divide_up(plan->key_blocks, plan->chunk);
}

static enum qkv_status take_partial(struct qkv_context *ctx, struct qkv_arena *arena, struct qkv_attend_plan *plan,
                                    size_t width) {
    const struct qkv_attend *a = plan->a;
    size_t parts = a->B * a->Hkv * plan->chunks, padded = divide_up(a->D, width) * width, floats, bytes;
    if (!qkv_multiply(parts, plan->rows, &floats) || !qkv_multiply(floats, padded, &floats) ||
        !qkv_multiply(floats, sizeof(float), &bytes))
        return qkv_fail(ctx, QKV_MEMORY, "attend: the gradient of q in %zu parts is more than this machine can address",
                        plan->chunks);
    plan->partial = qkv_arena_take(arena, floats, sizeof(float));
    plan->touched = qkv_arena_take(arena, parts * plan->blocks, 1);
    return plan->partial && plan->touched ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_backward(struct qkv_context *ctx, struct qkv_arena *scratch, struct work *work) {
    const struct qkv_attend *a = work->plan.a;
    work->plan.delta = qkv_arena_take(scratch, a->B * a->H * a->Tq, sizeof(float));
    if (!work->plan.delta) return QKV_MEMORY;
    if (work->plan.g->dq.data) {
        enum qkv_status status = take_partial(ctx, scratch, &work->plan, work->kernels->width);
        if (status != QKV_OK) return status;
    }
    return take_scratch(ctx, scratch, work, work->kernels->backward_scratch(&work->plan));
}

enum qkv_status qkv_attend_backward(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                    const struct qkv_attend_gradients *g) {
    enum qkv_status status = check(ctx, a);
    if (status != QKV_OK) return status;
    if (!a->B) return QKV_OK;
    if (a->Tq && (!a->y.data || !a->lse || !g->dy.data))
        return qkv_fail(ctx, QKV_ARGUMENT, "attend: the gradient needs dy, and y and lse of the forward pass");
    struct work work = {.plan = start(a), .kernels = ctx->kernels->attend};
    struct qkv_attend_plan *plan = &work.plan;
    plan->g = g;
    plan->block = BACKWARD_ROWS / work.kernels->tile * work.kernels->tile;
    plan->blocks = divide_up(plan->rows, plan->block);
    cut_keys(plan, work.kernels->backward_keys);
    size_t mark = qkv_arena_mark(scratch);
    status = take_backward(ctx, scratch, &work);
    if (status == QKV_OK) {
        qkv_parallel_range(ctx, a->B * a->H * a->Tq, DELTA_GRAIN, delta_body, &work);
        qkv_parallel(ctx, a->B * a->Hkv * plan->chunks, backward_body, &work);
        if (g->dq.data) qkv_parallel(ctx, a->B * a->Hkv * plan->blocks, gather_body, &work);
    }
    qkv_arena_release(scratch, mark);
    return status;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

static void weights_body(void *argument, size_t item, int thread) {
    const struct work *work = argument;
    work->kernels->weights(&work->plan, item, work->scratch + (size_t)thread * work->floats);
}

enum qkv_status qkv_attend_weights(struct qkv_context *ctx, struct qkv_arena *scratch, const struct qkv_attend *a,
                                   enum qkv_attention_stage stage, size_t b, size_t h, size_t first, size_t rows,
                                   float *w) {
    (void)stage;
    enum qkv_status status = check(ctx, a);
    if (status != QKV_OK) return status;
    if (b >= a->B || h >= a->H || first > a->Tq || rows > a->Tq - first)
        return qkv_fail(ctx, QKV_SHAPE,
                        "attend: weights of batch row %zu, head %zu, rows %zu and %zu more do not exist in (B,H,Tq) = "
                        "(%zu,%zu,%zu)",
                        b, h, first, rows, a->B, a->H, a->Tq);
    if (!rows || !a->Tk) return QKV_OK;
    if (!a->lse || !w)
        return qkv_fail(ctx, QKV_ARGUMENT, "attend: weights need a place to go and lse of the forward pass");
    struct work work = {.plan = start(a), .kernels = ctx->kernels->attend};
    struct qkv_attend_plan *plan = &work.plan;
    plan->weights = w, plan->batch = b, plan->head = h, plan->first = first, plan->count = rows;
    plan->block = WEIGHTS_ROWS / work.kernels->tile * work.kernels->tile;
    plan->blocks = divide_up(rows, plan->block);
    size_t mark = qkv_arena_mark(scratch);
    status = take_scratch(ctx, scratch, &work, work.kernels->weights_scratch(plan));
    if (status == QKV_OK) qkv_parallel(ctx, plan->blocks, weights_body, &work);
    qkv_arena_release(scratch, mark);
    return status;
}
