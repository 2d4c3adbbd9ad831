/* rank_plan: what a rank of a training will need and move, from the same cuts that the training makes, without any other rank. */
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "train/train.h"

/* A model whose context is, for a while, one of several ranks that are not there. */
struct planner {
    struct qkv_model *model;
    struct qkv_context *ctx;
    const struct qkv_train_options *options;
    struct qkv_rank_share share;
    size_t batch, context;
    int ranks, rank;
};

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

static size_t plan_rows(const struct planner *p) {
    const size_t each = p->batch / p->share.groups, more = p->batch % p->share.groups;
    return (p->share.end - p->share.begin) * each + qkv_min(p->share.end, more) - qkv_min(p->share.begin, more);
}

/* A pass over the largest part of the rank's rows, and over those of an evaluation. */
static enum qkv_status plan_passes(const struct planner *p, struct qkv_rank_plan *plan) {
    const size_t parts = qkv_min((size_t)p->options->accumulate, plan->rows);
    struct qkv_pass_options step = {.B = parts ? qkv_pieces(plan->rows, parts) : 0,
                                    .T = p->context,
                                    .source_T = p->context,
                                    .train = true,
                                    .dropout = true,
                                    .checkpoint = p->options->checkpoint_activations};
    struct qkv_pass_options evaluation = {
        .B = qkv_pieces(p->batch, (size_t)p->options->accumulate), .T = p->context, .source_T = p->context};
    struct qkv_pass_plan pass = {0};
    enum qkv_status status = step.B ? qkv_pass_measure(p->model, &step, p->share.groups, &pass) : QKV_OK;
    plan->activation_bytes = pass.bytes;
    if (!status && step.B) plan->flops = qkv_pass_plan_flops(&pass) / (double)step.B * (double)plan->rows;
    if (status || p->rank) return status;
    status = qkv_pass_measure(p->model, &evaluation, 0, &pass);
    plan->activation_bytes += pass.bytes;
    return status;
}

static enum qkv_status plan_memory(const struct planner *p, struct qkv_rank_plan *plan) {
    struct qkv_model *m = p->model;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(p->ctx, m->weights.floats);
    const size_t moments = qkv_train_optimizer(p->options) == QKV_OPTIMIZER_SGD ? 1 : 2;
    size_t sums = 0;
    enum qkv_status status = qkv_train_freeze(p->options, m);
    if (!status) status = qkv_model_add_packed(m, true);
    const size_t before = qkv_model_bytes(m);
    if (!status) status = qkv_model_add_gradients(m);
    if (!status) status = plan_passes(p, plan);
    if (!status) status = qkv_parts_bytes(m, qkv_parts_levels(p->ctx, p->options, p->batch), &sums);
    if (status) return status;
    plan->weight_bytes = before;
    plan->gradient_bytes = qkv_model_bytes(m) - before + sums;
    plan->optimizer_bytes = moments * qkv_rank_own_floats(&cut, p->rank) * sizeof(float);
    return qkv_rank_sums_bytes(m, p->options, qkv_parts_later_all(m), &plan->buffer_bytes);
}

/* ---- traffic --------------------------------------------------------------------------------------------------------------- */

/* Each node of the tree that the rank has goes to the owners of its floats, and the weights that it has updated to all. */
static void plan_traffic(const struct planner *p, struct qkv_rank_plan *plan) {
    const struct qkv_rank_cut cut = qkv_rank_cut_of(p->ctx, p->model->weights.floats);
    const double floats = (double)cut.floats, own = (double)qkv_rank_own_floats(&cut, p->rank), others = p->ranks - 1,
                 rounds = (double)cut.buckets,
                 bytes = strcmp(p->options->gradients, "bf16") ? sizeof(float) : sizeof(uint16_t);
    double nodes = 0;
    for (int r = 0; r < p->ranks; r++)
        if (r != p->rank) nodes += (double)qkv_rank_share_of(p->ctx, p->options, p->batch, r).count;
    if (p->ranks == 1) return;
    plan->gradient_sent = (double)p->share.count * (floats - own) * bytes;
    plan->weight_sent = own * others * sizeof(float);
    plan->received = nodes * own * bytes + (floats - own) * sizeof(float);
    plan->rounds = rounds;
    plan->gradient_messages = (double)p->share.count * rounds * others;
    plan->weight_messages = rounds * others;
}

static enum qkv_status plan_make(struct planner *p, struct qkv_rank_plan *plan) {
    enum qkv_status status = QKV_OK;
    if (p->ranks > 1 && (p->ranks > QKV_GROUPS_MAX || p->ranks > p->options->groups))
        return qkv_fail(
            p->ctx, QKV_ARGUMENT,
            "there are %d ranks and %lld groups of a batch, and a rank makes whole groups; choose groups=%d "
            "or more, or fewer ranks (at most %d)",
            p->ranks, (long long)p->options->groups, p->ranks, (int)QKV_GROUPS_MAX);
    p->share = qkv_rank_share_of(p->ctx, p->options, p->batch, p->rank);
    if (!p->share.groups) p->share = (struct qkv_rank_share){.groups = 1, .end = 1, .count = 1};
    *plan = (struct qkv_rank_plan){
        .groups = p->share.groups, .group_begin = p->share.begin, .group_end = p->share.end, .rows = plan_rows(p)};
    status = plan_memory(p, plan);
    plan->train_bytes =
        plan->weight_bytes + plan->gradient_bytes + plan->optimizer_bytes + plan->activation_bytes + plan->buffer_bytes;
    if (!status) plan_traffic(p, plan);
    return status;
}

enum qkv_status qkv_rank_plan(struct qkv_model *model, const struct qkv_train_options *options, size_t batch,
                              size_t context, int ranks, int rank, struct qkv_rank_plan *plan) {
    QKV_CALL(model->ctx);
    struct qkv_context *ctx = model->ctx;
    struct qkv_model *learned = NULL; /* training makes fp32 of what is stored otherwise */
    const struct qkv_communicator before = ctx->ranks;
    if (!model->planned) return qkv_fail(ctx, QKV_ARGUMENT, "ranks are planned with a planned model");
    if (ranks < 1 || rank < 0 || rank >= ranks || !batch || !context)
        return qkv_fail(ctx, QKV_ARGUMENT, "there is no rank %d of %d, or nothing for it to do", rank, ranks);
    enum qkv_status status = qkv_model_plan(ctx, &model->spec, &learned);
    if (status) return status;
    ctx->ranks = (struct qkv_communicator){.rank = rank, .ranks = ranks};
    status = plan_make(&(struct planner){.model = learned,
                                         .ctx = ctx,
                                         .options = options,
                                         .batch = batch,
                                         .context = context,
                                         .ranks = ranks,
                                         .rank = rank},
                       plan);
    ctx->ranks = before;
    qkv_model_free(learned);
    return status;
}
