/* ranks: communication between ranks, over the communicator of a context. Without a communicator there are no other
 * ranks. */
#include <string.h>

#include "base/base.h"

struct qkv_communicator qkv_communicator_defaults(void) {
    return (struct qkv_communicator){.ranks = 1};
}

int qkv_context_rank(const struct qkv_context *ctx) {
    return ctx && ctx->ranks.ranks > 1 ? ctx->ranks.rank : 0;
}

int qkv_context_ranks(const struct qkv_context *ctx) {
    return ctx && ctx->ranks.ranks > 1 ? ctx->ranks.ranks : 1;
}

enum qkv_status qkv_rank_lost(struct qkv_context *ctx, int error) {
    if (!error) return QKV_OK;
    if (ctx->ranks.reason) return qkv_fail(ctx, QKV_RANK, "%s", ctx->ranks.reason(ctx->ranks.state));
    return qkv_fail(ctx, QKV_RANK,
                    "rank %d of %d: another rank cannot be reached (%d); it has ended, or its machine is gone",
                    ctx->ranks.rank, ctx->ranks.ranks, error);
}

#define ALIVE_SECONDS 0.5

void qkv_rank_alive(struct qkv_context *ctx) {
    if (!ctx || ctx->ranks.ranks <= 1 || !ctx->ranks.alive) return;
    const double now = qkv_clock();
    if (now - ctx->alive < ALIVE_SECONDS) return;
    ctx->alive = now;
    ctx->ranks.alive(ctx->ranks.state);
}

enum qkv_status qkv_rank_exchange(struct qkv_context *ctx, int to, const void *sent, size_t sent_bytes, int from,
                                  void *received, size_t received_bytes) {
    const struct qkv_communicator *c = &ctx->ranks;
    if (!sent_bytes && !received_bytes) return QKV_OK;
    return qkv_rank_lost(ctx, c->exchange(c->state, to, sent, sent_bytes, from, received, received_bytes));
}

enum qkv_status qkv_rank_broadcast(struct qkv_context *ctx, void *data, size_t bytes) {
    const struct qkv_communicator *c = &ctx->ranks;
    return c->ranks > 1 ? qkv_rank_lost(ctx, c->broadcast(c->state, 0, data, bytes)) : QKV_OK;
}

enum qkv_status qkv_rank_gather(struct qkv_context *ctx, const void *own, size_t bytes, void *all) {
    const struct qkv_communicator *c = &ctx->ranks;
    if (c->ranks <= 1) {
        memcpy(all, own, bytes);
        return QKV_OK;
    }
    enum qkv_status status = qkv_rank_lost(ctx, c->gather(c->state, 0, own, bytes, c->rank ? NULL : all));
    return status ? status : qkv_rank_broadcast(ctx, all, (size_t)c->ranks * bytes);
}

enum qkv_status qkv_context_any(struct qkv_context *ctx, bool *flag) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, flag);
    const int ranks = qkv_context_ranks(ctx);
    char own = *flag, all[QKV_RANKS_MOST];
    if (ranks == 1) return QKV_OK;
    enum qkv_status status = qkv_rank_gather(ctx, &own, sizeof own, all);
    for (int r = 0; r < ranks && !status; r++) *flag |= all[r] != 0;
    return status;
}

enum qkv_status qkv_rank_judge(struct qkv_context *ctx, enum qkv_status status, const int32_t *all) {
    const struct qkv_communicator *c = &ctx->ranks;
    char text[sizeof ctx->message];
    int first = 0;
    while (first < c->ranks && !all[first]) first++;
    if (first == c->ranks) return QKV_OK;
    const int32_t failure = all[first];
    memcpy(text, ctx->message, sizeof text);
    const enum qkv_status lost = qkv_rank_lost(ctx, c->broadcast(c->state, first, text, sizeof text));
    if (lost) return lost;
    text[sizeof text - 1] = 0;
    return first == c->rank ? status : qkv_fail(ctx, (enum qkv_status)failure, "rank %d: %s", first, text);
}

enum qkv_status qkv_rank_agree(struct qkv_context *ctx, enum qkv_status status) {
    const int32_t own = (int32_t)status;
    int32_t all[QKV_RANKS_MOST];
    if (ctx->ranks.ranks <= 1 || status == QKV_RANK) return status;
    const enum qkv_status lost = qkv_rank_gather(ctx, &own, sizeof own, all);
    return lost ? lost : qkv_rank_judge(ctx, status, all);
}
