/* share: models that several contexts use at once.
 *
 * A share is a copy of struct qkv_model for another context. Everything that its pointers lead to belongs to the first
 * one and is read-only while there is a share: weights and their packed copies, tables, tokenizers. What changes while
 * something is computed belongs to sessions, passes and contexts. */
#include "model/model.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where the part of the struct begins that shares copy; what is before it belongs to each of them. A share begins with
 * the choice of an adapter of the model that it is made from. */
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

/* Makes a share of an empty struct. The caller frees it with qkv_model_free, also after a failure, unless the model is
 * trained: then it was not counted, and its `first` stays NULL. */
static enum qkv_status share_make(struct qkv_model *first, struct qkv_context *ctx, struct qkv_model *share) {
    int before = 0;
    if (!share_count(first, &before))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the model is being trained, and belongs to its optimizer or trainer; free that, and its "
                        "training passes, before it is shared");
    share->ctx = ctx;
    share->sharing.first = first;
    const enum qkv_status status = before ? QKV_OK : share_finish(first, ctx);
    if (status) return status;
    memcpy((char *)share + SHARED, (const char *)first + SHARED, sizeof *share - SHARED);
    share->weights.ctx = ctx;
    /* a stack is known by the place of its spec in the model's */
    if (share->encoder.spec) share->encoder.spec = &share->spec.encoder;
    if (share->decoder.spec) share->decoder.spec = &share->spec.decoder;
    return QKV_OK;
}

/* Threads that share one model for the first time wait for the one that finishes it. */
static pthread_mutex_t share_turns = PTHREAD_MUTEX_INITIALIZER;

enum qkv_status qkv_model_share(struct qkv_model *model, struct qkv_context *ctx, struct qkv_model **out) {
    QKV_CALL_OUT(ctx ? ctx : qkv_model_context(model), out);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, ctx);
    enum qkv_status status = share_check(model, ctx);
    if (status) return status;
    struct qkv_model *share = qkv_allocate(ctx, 1, sizeof *share);
    if (!share) return QKV_MEMORY;
    pthread_mutex_lock(&share_turns);
    status = share_make(model->sharing.first, ctx, share);
    const bool counted = share->sharing.first != NULL;
    share->chosen = model->chosen;
    if (!status)
        *out = share;
    else if (counted)
        qkv_model_free(share);
    else
        free(share);
    pthread_mutex_unlock(&share_turns);
    return status;
}
