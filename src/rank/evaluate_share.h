/* evaluate_share: an evaluation is divided among ranks. Its units (batches, or calls of some lines) are numbered;
 * rank r makes those whose number is r more than a multiple of the ranks. What a unit gives are items of whole
 * 64-bit words, which all ranks get in the end, so that each adds them up in the order of one rank: the same bits. */
#ifndef QKV_RANK_EVALUATE_SHARE_H
#define QKV_RANK_EVALUATE_SHARE_H

#include "base/base.h"

struct qkv_evaluate_share {
    struct qkv_context *ctx;
    size_t size; /* of an item: a multiple of 8 */
    size_t units, count, capacity;
    char *items; /* zero where another rank makes them */
    bool alone;  /* this rank makes all units, and the others know nothing of it */
};
/* What a batch of teacher-forced passes gives. */
struct qkv_evaluate_part {
    double nll;
    uint64_t tokens;
};

/* Whether the next unit is this rank's. */
bool qkv_evaluate_share_next(struct qkv_evaluate_share *share);
/* Room for `count` items more, of zero bytes; valid until the next call. NULL without memory. */
void *qkv_evaluate_share_add(struct qkv_evaluate_share *share, size_t count);
/* Every rank gets all items, unless one failed: its status and sentence are those of all. Called by all ranks. */
enum qkv_status qkv_evaluate_share_gather(struct qkv_evaluate_share *share, enum qkv_status status);
void qkv_evaluate_share_free(struct qkv_evaluate_share *share);
/* The sum of items that are parts, in order. */
struct qkv_evaluate_part qkv_evaluate_share_sum(const struct qkv_evaluate_share *share);
/* Adds up whole numbers of all ranks; bytes that one rank has and others have as zeros are their sum too. */
enum qkv_status qkv_evaluate_share_add_up(struct qkv_context *ctx, uint64_t *words, size_t count);

#endif
