/* share: models that several contexts use at once.
 *
 * A share is a copy of struct qkv_model for another context. Everything that its pointers lead to belongs to the first
 * one and is read-only while there is a share: weights and their packed copies, tables, tokenizers. What changes while
 * something is computed belongs to sessions, passes and contexts. */
#include "model/model.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where the part of the struct begins that shares copy; what is before it belongs to each of them. */
#define SHARED offsetof(struct qkv_model, precision)

static enum qkv_status share_check(const struct qkv_model *m, struct qkv_context *ctx) {
    if (m->planned) return qkv_fail(ctx, QKV_ARGUMENT, "a planned model has no weights to share");
    if (m->sharing.freed) return qkv_fail(ctx, QKV_ARGUMENT, "the model was freed; load it again to share it");
    if (qkv_context_ranks(ctx) > 1 || qkv_context_ranks(m->ctx) > 1)
        return qkv_fail(ctx, QKV_ARGUMENT, "a model that several ranks train cannot be shared");
    if (m->ctx->kernels != ctx->kernels)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the model is packed for the kernels \"%s\", and this context has \"%s\"; make it with option "
                        "isa = %s",
                        m->ctx->isa, ctx->isa, m->ctx->isa);
    return QKV_OK;
}

/* Finishes the first model: it is packed, and has no gradients. Its own context does that, and must be idle. */
static enum qkv_status share_finish(struct qkv_model *m, struct qkv_context *ctx) {
    struct qkv_context *own __attribute__((cleanup(qkv_call_end))) = qkv_call_begin(m->ctx);
    if (!own)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the model's own context is inside a call; share the model for the first time while nothing "
                        "is computed with it");
    qkv_weights_drop_gradients(&m->weights);
    qkv_arena_free(&m->gradients);
    m->dirty = false;
    enum qkv_status status = qkv_model_prepare(m, false);
    if (!status) status = qkv_model_ready(m);
    return status && m->ctx != ctx ? qkv_fail(ctx, status, "%s", qkv_message(m->ctx)) : status;
}

/* One more share, unless something trains the model; *before: how many there were. */
static bool share_count(struct qkv_model *first, int *before) {
    int state = atomic_load(&first->sharing.state);
    do {
        if (state < 0) return false;
    } while (!atomic_compare_exchange_weak(&first->sharing.state, &state, state + 1));
    atomic_fetch_add(&first->sharing.references, 1);
    *before = state;
    return true;
}

enum qkv_status qkv_model_share(struct qkv_model *model, struct qkv_context *ctx, struct qkv_model **out) {
    QKV_CALL_OUT(ctx ? ctx : qkv_model_context(model), out);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, ctx);
    struct qkv_model *first = model->sharing.first;
    enum qkv_status status = share_check(model, ctx);
    if (status) return status;
    struct qkv_model *share = qkv_allocate(ctx, 1, sizeof *share);
    if (!share) return QKV_MEMORY;
    int before = 0;
    if (!share_count(first, &before)) {
        free(share);
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the model is being trained, and belongs to its optimizer or trainer; free that, and its "
                        "training passes, before it is shared");
    }
    if (!before) status = share_finish(first, ctx);
    memcpy((char *)share + SHARED, (const char *)first + SHARED, sizeof *share - SHARED);
    share->ctx = share->weights.ctx = ctx;
    share->sharing.first = first;
    if (!status)
        *out = share;
    else
        qkv_model_free(share);
    return status;
}
