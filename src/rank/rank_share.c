/* rank_share: what each rank owns: groups of the batch, and floats of the gradients. */
#include "kernel/kernel.h"
#include "model/model.h"
#include "rank/ranks.h"

/* Where the i-th of so many shares of `count` begins; the first ones are larger by one. */
static size_t share_begin(size_t count, size_t shares, size_t i) {
    return count / shares * i + qkv_min(i, count % shares);
}

size_t qkv_batch_groups(const struct qkv_train_options *options, size_t rows) {
    return options->groups > 1 ? qkv_min((size_t)options->groups, rows) : 0;
}

struct qkv_rank_share qkv_rank_share_of(const struct qkv_context *ctx, const struct qkv_train_options *options,
                                        size_t rows, int rank) {
    const size_t ranks = (size_t)qkv_context_ranks(ctx), all = qkv_batch_groups(options, rows);
    struct qkv_rank_share share = {.groups = all,
                                   .begin = share_begin(all, ranks, (size_t)rank),
                                   .end = share_begin(all, ranks, (size_t)rank + 1)};
    for (size_t at = share.begin; at < share.end; at = share.nodes[share.count++].end) {
        size_t size = 1;
        while (at % (2 * size) == 0 && at + size < all && qkv_min(at + 2 * size, all) <= share.end) size *= 2;
        share.nodes[share.count] = (struct qkv_rank_node){at, qkv_min(at + size, all)};
    }
    return share;
}

void qkv_rank_rows(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows, int rank,
                   size_t *begin, size_t *end) {
    const struct qkv_rank_share share = qkv_rank_share_of(ctx, options, rows, rank);
    *begin = share.groups ? share_begin(rows, share.groups, share.begin) : 0;
    *end = share.groups ? share_begin(rows, share.groups, share.end) : 0;
}

enum { RANK_BUCKETS = 16, RANK_PIECES = 8 }; /* about the fewest buckets; pieces of the norm in a share, at most */

struct qkv_rank_cut qkv_rank_cut_of(const struct qkv_context *ctx, size_t floats) {
    const size_t ranks = (size_t)qkv_context_ranks(ctx), pieces = qkv_pieces(floats, QKV_GRADIENT_PIECE);
    const size_t share = qkv_min(qkv_max(qkv_pieces(pieces, ranks * RANK_BUCKETS), 1), RANK_PIECES);
    struct qkv_rank_cut cut = {.floats = floats, .share = share * QKV_GRADIENT_PIECE, .ranks = (int)ranks};
    cut.bucket = cut.share * ranks;
    cut.buckets = qkv_pieces(floats, cut.bucket);
    return cut;
}

void qkv_rank_own(const struct qkv_rank_cut *cut, size_t bucket, int rank, size_t *begin, size_t *end) {
    *begin = qkv_min(bucket * cut->bucket + (size_t)rank * cut->share, cut->floats);
    *end = qkv_min(*begin + cut->share, cut->floats);
}

size_t qkv_rank_place(const struct qkv_weights *w, const struct qkv_tensor *x) {
    size_t first = 0;
    while (!w->tensors[first]->learning.gradient) first++;
    return (size_t)(x->learning.gradient - w->tensors[first]->learning.gradient);
}
