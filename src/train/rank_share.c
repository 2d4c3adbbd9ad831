/* rank_share: what each rank owns: groups of the batch, and floats of the gradients. */
#include "kernel/kernel.h"
#include "model/model.h"
#include "train/train.h"

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

void qkv_rank_floats(const struct qkv_model *model, int rank, size_t *begin, size_t *end) {
    const size_t ranks = (size_t)qkv_context_ranks(model->ctx), floats = model->weights.floats;
    const size_t pieces = qkv_pieces(floats, QKV_GRADIENT_PIECE);
    *begin = qkv_min(share_begin(pieces, ranks, (size_t)rank) * QKV_GRADIENT_PIECE, floats);
    *end = qkv_min(share_begin(pieces, ranks, (size_t)rank + 1) * QKV_GRADIENT_PIECE, floats);
}
