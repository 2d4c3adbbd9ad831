/* attend_work.c: the work of a call of attention: its memory and its items. In a ragged call the items are those of its
 * sequences. */
#include "kernel/attend_work.h"

#include "kernel/product.h"

struct qkv_attend_plan qkv_attend_work_start(const struct qkv_context *ctx, const struct qkv_attend *a) {
    struct qkv_attend_plan plan = {.a = a, .group = a->H / a->Hkv, .pieces = 1, .mask_Tq = a->Tq, .mask_Tk = a->Tk};
    plan.kernels = ctx->kernels;
    plan.rows = plan.group * a->Tq;
    if (a->ordered) {
        plan.mask_b = a->first_row;
        plan.mask_Tq = plan.mask_Tk = (size_t)1 << QKV_POSITION_BITS;
    }
    return plan;
}

const struct qkv_attend_bf16_kernels *qkv_attend_bf16_of(const struct qkv_context *ctx,
                                                         const struct qkv_attend_plan *plan) {
    const struct qkv_attend *a = plan->a;
    const struct qkv_product *product = a->product ? a->product : qkv_product_of(ctx);
    const struct qkv_attend_bf16_kernels *kernels = product->attend ? product->attend(ctx->kernels) : NULL;
    if (!kernels || !a->Tk || a->D > kernels->channels || a->Dv > kernels->channels) return NULL;
    return kernels;
}

/* Whether the type is fp32, or in bf16 also bf16. */
static bool attend_is_plain(const struct qkv_heads *x, bool bf16) {
    return !x->data || x->dtype == QKV_F32 || (bf16 && x->dtype == QKV_BF16);
}

static bool attend_few_gradients(const struct qkv_attend_plan *plan, bool bf16) {
    const struct qkv_attend_gradients *g = plan->g;
    if (g->dattention_bias || g->ddistance_bias || g->dsinks) return false;
    if (!plan->apart || plan->chunks != 1 || plan->a->Tq > QKV_ATTEND_FEW_ROWS) return false;
    return attend_is_plain(&g->dy, bf16) && attend_is_plain(&g->dq, bf16) && attend_is_plain(&g->dk, bf16) &&
           attend_is_plain(&g->dv, bf16);
}

bool qkv_attend_is_few(const struct qkv_attend_work *work) {
    const struct qkv_attend *a = work->plan.a;
    const size_t width = work->kernels->width;
    const bool bf16 = work->bf16;
    if (a->Tk > QKV_ATTEND_FEW || work->plan.group != 1 || a->D % width || a->Dv % width) return false;
    if (bf16 && (!work->bf16->forward_few || a->Tq > QKV_ATTEND_FEW_ROWS || a->D % 2 || a->Dv % 2)) return false;
    if (a->past || a->pasts || a->pages.lists || a->softcap > 0 || a->distance_bias.table || a->mask ||
        a->attention_bias)
        return false;
    return attend_is_plain(&a->q, bf16) && attend_is_plain(&a->k, bf16) && attend_is_plain(&a->v, bf16) &&
           attend_is_plain(&a->y, bf16) && (!work->plan.g || attend_few_gradients(&work->plan, bf16));
}

enum qkv_status qkv_attend_take_packed(struct qkv_context *ctx, struct qkv_arena *arena, size_t blocks, size_t bytes,
                                       char **out) {
    size_t all;
    if (!qkv_multiply(blocks, bytes, &all))
        return qkv_fail(ctx, QKV_MEMORY, "attention: %zu packed blocks are more than this machine can address", blocks);
    *out = qkv_arena_take(arena, all, 1);
    return *out ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_attend_take_scratch(struct qkv_context *ctx, struct qkv_arena *arena, struct qkv_attend_work *work,
                                        size_t floats) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    work->floats = qkv_attend_divide_up(floats, line) * line;
    size_t all;
    if (!qkv_multiply(work->floats, (size_t)ctx->threads, &all))
        return qkv_fail(ctx, QKV_MEMORY, "attention: scratch for %d threads is more than this machine can address",
                        ctx->threads);
    work->scratch = qkv_arena_take(arena, all, sizeof(float));
    return work->scratch ? QKV_OK : QKV_MEMORY;
}

/* ---- items of ragged calls ------------------------------------------------------------------------------------- */

size_t qkv_attend_units(const struct qkv_attend_plan *plan) {
    return plan->a->Hkv * plan->blocks;
}
size_t qkv_attend_pieces(const struct qkv_attend_plan *plan) {
    return qkv_attend_units(plan) * plan->pieces;
}
size_t qkv_attend_key_blocks(const struct qkv_attend_plan *plan) {
    return plan->a->Hkv * plan->key_blocks;
}
size_t qkv_attend_head_blocks(const struct qkv_attend_plan *plan) {
    return plan->a->H * plan->blocks;
}
size_t qkv_attend_pairs(const struct qkv_attend_plan *plan) {
    return plan->a->Hkv;
}
size_t qkv_attend_heads(const struct qkv_attend_plan *plan) {
    return plan->a->H;
}

void qkv_attend_place_start(struct qkv_attend_place *place, const struct qkv_attend_plan *whole) {
    place->whole = whole, place->ragged = qkv_attend_is_ragged(whole->a), place->known = false;
}

static const struct qkv_attend_plan *attend_place_at(struct qkv_attend_place *place, size_t b) {
    if (!place->known || place->b != b) qkv_attend_sequence_of(place->whole, b, &place->own);
    place->known = true, place->b = b;
    return &place->own.plan;
}

const struct qkv_attend_plan *qkv_attend_item_plan(struct qkv_attend_place *place, qkv_attend_count *count,
                                                   size_t *item) {
    if (!place->ragged) return place->whole;
    const size_t each = count(place->whole), at = *item % each;
    const struct qkv_attend_plan *plan = attend_place_at(place, *item / each);
    *item = at;
    return at < count(plan) ? plan : NULL;
}

const struct qkv_attend_plan *qkv_attend_chunk_plan(struct qkv_attend_place *place, size_t *item) {
    if (!place->ragged) return place->whole;
    const struct qkv_attend *a = place->whole->a;
    const size_t chunk = *item / (a->B * a->Hkv), n = *item % a->Hkv;
    const struct qkv_attend_plan *plan = attend_place_at(place, *item / a->Hkv % a->B);
    *item = chunk * a->Hkv + n;
    return chunk < plan->chunks || plan->apart ? plan : NULL;
}

static void attend_each_body(void *argument, size_t run, int thread) {
    const struct qkv_attend_work *work = argument;
    struct qkv_attend_place place;
    qkv_attend_place_start(&place, &work->plan);
    for (size_t i = run * work->grain; i < qkv_attend_run_end(work, run); i++) {
        size_t item = i;
        const struct qkv_attend_plan *plan = qkv_attend_item_plan(&place, work->count, &item);
        if (plan) work->item(work, plan, item, thread);
    }
}

void qkv_attend_each(struct qkv_context *ctx, struct qkv_attend_work *work, size_t items, qkv_attend_count *count,
                     qkv_attend_item *item) {
    work->count = count, work->item = item;
    qkv_attend_items(ctx, work, items, attend_each_body);
}
