/* rank_overlap: sums of ranks are made while backward runs. A worker sends, receives and adds bucket after bucket,
 * from the last weights to the first, as backward completes them: in the last part of a rank's last node the
 * gradient of a weight is all that the rank has once its use has gone backward. What a pass uses more than once
 * travels after it. */
#include <string.h>

#include "model/model.h"
#include "rank/ranks.h"

void qkv_rank_sums_begin(struct qkv_rank_sums *s, const struct qkv_train_options *options, size_t rows) {
    if (!s->parts) return;
    const struct qkv_context *ctx = s->parts->model->ctx;
    size_t received = 0;
    s->nodes = 0;
    for (int r = 0; r < qkv_context_ranks(ctx); r++) {
        s->shares[r] = qkv_rank_share_of(ctx, options, rows, r);
        s->first[r] = received;
        if (r != qkv_context_rank(ctx)) received += s->shares[r].count;
        s->nodes = qkv_max(s->nodes, s->shares[r].count);
    }
    memcpy(s->missing, s->waits, s->cut.buckets * sizeof *s->missing);
    s->next = s->cut.buckets;
}

/* The weight's last use has gone backward. */
static void overlap_told(void *user, struct qkv_tensor *x) {
    struct qkv_rank_sums *s = user;
    const struct qkv_weights *w = &s->parts->model->weights;
    if (x->learning.times > 1 || !x->learning.gradient) return;
    qkv_part_sums_complete(s->parts, x);
    const size_t at = (size_t)(x->learning.gradient - w->gradients), last = at + x->rows * x->columns - 1;
    for (size_t b = at / s->cut.bucket; b <= last / s->cut.bucket; b++) s->missing[b]--;
    const size_t before = s->next;
    while (s->next && !s->missing[s->next - 1]) s->next--;
    if (s->next < before) qkv_worker_publish(s->worker, s->cut.buckets - s->next);
}

void qkv_rank_sums_part(struct qkv_rank_sums *s, const struct qkv_parts *parts, size_t node, struct qkv_pass *pass) {
    if (!s->parts) return;
    const bool last = node + 1 == s->shares[qkv_context_rank(s->parts->model->ctx)].count && parts->whole &&
                      parts->group_end == parts->group_last;
    qkv_pass_listen(pass, last ? overlap_told : NULL, s);
}

enum qkv_status qkv_rank_sums_end(struct qkv_rank_sums *s) {
    double busy, hidden;
    if (!s->parts) return QKV_OK;
    const size_t rounds = qkv_rank_rounds_of(&s->cut, s->round_count, s->shares[0].groups);
    const int error = qkv_worker_finish(s->worker, rounds, &busy, &hidden);
    s->busy += busy;
    s->hidden += hidden;
    return qkv_rank_lost(s->parts->model->ctx, error);
}
