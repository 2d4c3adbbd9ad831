/* Evaluations of several ranks: who makes which unit, and how all get what each has made. */
#include "rank/evaluate_share.h"

#include <stdlib.h>
#include <string.h>

enum { SHARE_WORDS = 1 << 13 }; /* that travel at a time */

bool qkv_evaluate_share_next(struct qkv_evaluate_share *s) {
    const size_t unit = s->units++;
    return s->alone || unit % (size_t)qkv_context_ranks(s->ctx) == (size_t)qkv_context_rank(s->ctx);
}

void *qkv_evaluate_share_add(struct qkv_evaluate_share *s, size_t count) {
    char *items = qkv_list_room(s->ctx, s->items, &s->capacity, s->count, count, s->size);
    if (!items) return NULL;
    s->items = items;
    void *added = items + s->count * s->size;
    memset(added, 0, count * s->size);
    s->count += count;
    return added;
}

enum qkv_status qkv_evaluate_share_add_up(struct qkv_context *ctx, uint64_t *words, size_t count) {
    const size_t ranks = (size_t)qkv_context_ranks(ctx);
    if (ranks == 1) return QKV_OK;
    uint64_t *all = qkv_allocate(ctx, ranks * SHARE_WORDS, sizeof *all);
    enum qkv_status status = all ? QKV_OK : QKV_MEMORY;
    for (size_t at = 0, n; at < count && !status; at += n) {
        n = count - at < SHARE_WORDS ? count - at : SHARE_WORDS;
        status = qkv_rank_gather(ctx, words + at, n * sizeof *words, all);
        for (size_t i = 0; i < n && !status; i++) {
            words[at + i] = 0;
            for (size_t r = 0; r < ranks; r++) words[at + i] += all[r * n + i];
        }
    }
    free(all);
    return status;
}

enum qkv_status qkv_evaluate_share_gather(struct qkv_evaluate_share *s, enum qkv_status status) {
    if (s->alone) return status;
    status = qkv_rank_agree(s->ctx, status);
    return status ? status : qkv_evaluate_share_add_up(s->ctx, (uint64_t *)(void *)s->items, s->count * s->size / 8);
}

struct qkv_evaluate_part qkv_evaluate_share_sum(const struct qkv_evaluate_share *s) {
    const struct qkv_evaluate_part *parts = (const void *)s->items;
    struct qkv_evaluate_part sum = {0};
    for (size_t i = 0; i < s->count; i++) {
        sum.nll += parts[i].nll;
        sum.tokens += parts[i].tokens;
    }
    return sum;
}

void qkv_evaluate_share_free(struct qkv_evaluate_share *s) {
    free(s->items);
    s->items = NULL;
}
