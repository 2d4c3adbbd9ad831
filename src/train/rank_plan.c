/* rank_plan: what a rank of a training will need and move, from the same cuts that the training makes, without any
 * other rank. */
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "model/spec.h"
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

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static size_t plan_rows(const struct planner *p) {
    const size_t each = p->batch / p->share.groups, more = p->batch % p->share.groups;
    return (p->share.end - p->share.begin) * each + qkv_min(p->share.end, more) - qkv_min(p->share.begin, more);
}

/* A pass over the largest part of the rank's rows, one if it has none, and over those of an evaluation. */
static enum qkv_status plan_passes(const struct planner *p, struct qkv_rank_plan *plan) {
    const size_t source = qkv_spec_source_length(qkv_model_spec(p->model), p->context);
    struct qkv_pass_options step = {.size = sizeof step,
                                    .B = qkv_parts_most(p->ctx, p->options, p->batch),
                                    .T = p->context,
                                    .source_T = source,
                                    .train = true,
                                    .dropout = true,
                                    .checkpoint = p->options->checkpoint_activations};
    struct qkv_pass_options evaluation = {.size = sizeof evaluation,
                                          .B = qkv_pieces(p->batch, (size_t)p->options->accumulate),
                                          .T = p->context,
                                          .source_T = source};
    struct qkv_pass_plan pass = {0};
    enum qkv_status status = qkv_pass_measure(p->model, &step, p->share.groups, &pass);
    plan->activation_bytes =
        pass.bytes + 2 * evaluation.B * (p->context + 1) * sizeof(int32_t); /* ids, targets, lengths */
    if (!status) plan->flops = qkv_pass_plan_flops(&pass) / (double)step.B * (double)plan->rows;
    if (status || p->rank) return status;
    status = qkv_pass_measure(p->model, &evaluation, 0, &pass);
    plan->activation_bytes += pass.bytes;
    return status;
}

static enum qkv_status plan_memory(const struct planner *p, struct qkv_rank_plan *plan) {
    struct qkv_model *m = p->model;
    size_t sums = 0, messages;
    enum qkv_status status = qkv_train_freeze(p->options, m);
    if (!status) status = qkv_model_prepare(m, true);
    const size_t before = qkv_model_bytes(m);
    if (!status) status = qkv_model_add_gradients(m);
    if (!status) status = plan_passes(p, plan);
    if (!status) status = qkv_parts_bytes(m, qkv_parts_levels(p->ctx, p->options, p->batch), &sums);
    if (status) return status;
    plan->weight_bytes = before - qkv_rank_choose_divided(m);
    plan->gradient_bytes = qkv_model_bytes(m) - before + sums;
    plan->master_bytes = qkv_rank_master_bytes(m, p->rank, &messages);
    const struct qkv_optimizer_options optimizer = qkv_train_optimizer_options(p->options);
    status = qkv_optimizer_plan(&optimizer, m, p->rank, &plan->optimizer_bytes);
    if (!status) status = qkv_rank_sums_bytes(m, p->options, p->batch, qkv_parts_later_all(m), &plan->buffer_bytes);
    plan->buffer_bytes += messages;
    return status;
}

/* ---- traffic ---------------------------------------------------------------------------------------------------- */

struct traffic {
    const struct planner *p;
    struct qkv_rank_cut cut;
    struct qkv_rank_share shares[QKV_GROUPS_MAX];
    size_t nodes;   /* of a rank, at most */
    double element; /* bytes of a gradient that travels */
    bool late;      /* backward has ended before this round */
};

/* Each node of the tree that a rank has goes to the owners of its floats (rank_sums.c). */
static void plan_round(const struct traffic *t, const struct qkv_rank_round *round, struct qkv_rank_plan *plan) {
    const int rank = t->p->rank, ranks = t->p->ranks;
    const size_t mine = qkv_rank_piece_of(&t->cut, round, rank).count;
    for (int shift = 1; shift < ranks; shift++) {
        const int to = (rank + shift) % ranks, from = (rank + ranks - shift) % ranks;
        const size_t theirs = qkv_rank_piece_of(&t->cut, round, to).count;
        for (size_t node = 0; node < t->nodes; node++) {
            const double out = node < t->shares[rank].count ? (double)theirs * t->element : 0;
            const double in = node < t->shares[from].count ? (double)mine * t->element : 0;
            const double messages = out > 0 || in > 0;
            plan->gradient_sent += out;
            plan->received += in;
            plan->gradient_messages += messages;
            if (!t->late) continue;
            plan->late_sent += out;
            plan->late_messages += messages;
        }
    }
}

/* What a rank owns of a bucket goes to all others (rank_spread.c): the gradients that an optimizer needs whole. */
static void plan_bucket_gradients(const struct traffic *t, size_t bucket, struct qkv_rank_plan *plan) {
    const int rank = t->p->rank, ranks = t->p->ranks;
    size_t begin, end, first, last;
    qkv_rank_own(&t->cut, bucket, rank, &begin, &end);
    for (int shift = 1; shift < ranks; shift++) {
        qkv_rank_own(&t->cut, bucket, (rank + ranks - shift) % ranks, &first, &last);
        plan->received += (double)((last - first) * sizeof(float));
        plan->weight_sent += (double)((end - begin) * sizeof(float));
        plan->weight_messages += begin < end || first < last;
    }
}

/* The weights that a rank has updated go to all others. */
static void plan_bucket(const struct traffic *t, size_t bucket, struct qkv_rank_plan *plan) {
    const int rank = t->p->rank, ranks = t->p->ranks;
    const size_t own = qkv_rank_weight_bytes(&t->p->model->weights, &t->cut, bucket, rank);
    for (int shift = 1; shift < ranks; shift++) {
        const int from = (rank + ranks - shift) % ranks;
        const size_t theirs = qkv_rank_weight_bytes(&t->p->model->weights, &t->cut, bucket, from);
        plan->received += (double)theirs;
        plan->weight_sent += (double)own;
        plan->weight_messages += own || theirs;
    }
}

/* Whether a bucket has gradients of a weight that is used more than once: backward does not tell when those are
 * complete. */
static bool plan_waits(const struct traffic *t, size_t bucket) {
    const struct qkv_weights *w = &t->p->model->weights;
    for (size_t i = 0; i < w->tensor_count; i++) {
        const struct qkv_tensor *x = w->tensors[i];
        if (!x->learning.gradient || x->learning.times <= 1) continue;
        const size_t at = qkv_rank_place(w, x), last = at + x->rows * x->columns - 1;
        if (at / t->cut.bucket <= bucket && bucket <= last / t->cut.bucket) return true;
    }
    return false;
}

static double plan_expert_layers(const struct qkv_stack_spec *s) {
    double layers = 0;
    for (int i = 0; i < s->layers; i++) layers += qkv_stack_layer(s, (size_t)i)->ffn.experts.count > 0;
    return layers;
}

static enum qkv_status plan_traffic(const struct planner *p, struct qkv_rank_plan *plan) {
    const struct qkv_model *m = p->model;
    struct traffic t = {.p = p, .cut = qkv_rank_cut_of(p->ctx, m->weights.floats)};
    if (p->ranks == 1) return QKV_OK;
    t.element = strcmp(p->options->gradients, "bf16") ? sizeof(float) : sizeof(uint16_t);
    for (int r = 0; r < p->ranks; r++) {
        t.shares[r] = qkv_rank_share_of(p->ctx, p->options, p->batch, r);
        t.nodes = qkv_max(t.nodes, t.shares[r].count);
    }
    const size_t count = qkv_rank_rounds(&m->weights, &t.cut, NULL);
    struct qkv_rank_round *rounds = qkv_allocate(p->ctx, count + 1, sizeof *rounds);
    if (!rounds) return QKV_MEMORY;
    qkv_rank_rounds(&m->weights, &t.cut, rounds);
    for (size_t i = 0; i < qkv_rank_rounds_of(&t.cut, count, p->share.groups); i++) {
        t.late = t.late || rounds[i].later || plan_waits(&t, rounds[i].bucket);
        plan->rounds += !t.late;
        plan_round(&t, &rounds[i], plan);
    }
    for (size_t b = 0; b < t.cut.buckets; b++) plan_bucket(&t, b, plan);
    for (size_t b = 0; qkv_optimizer_whole(qkv_train_optimizer(p->options)) && b < t.cut.buckets; b++)
        plan_bucket_gradients(&t, b, plan);
    /* What gradients became, and what came of the step; each to rank 0 and back. */
    plan->small_messages = 2 * (2 + plan_expert_layers(&m->spec.encoder) + plan_expert_layers(&m->spec.decoder));
    if (qkv_train_optimizer(p->options) == QKV_OPTIMIZER_ADAFACTOR) plan->small_messages += 2; /* squares of weights */
    free(rounds);
    return QKV_OK;
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
    plan->train_bytes = plan->weight_bytes + plan->master_bytes + plan->gradient_bytes + plan->optimizer_bytes +
                        plan->activation_bytes + plan->buffer_bytes;
    return status ? status : plan_traffic(p, plan);
}

enum qkv_status qkv_rank_plan(struct qkv_model *model, const struct qkv_train_options *options, size_t batch,
                              size_t context, int ranks, int rank, struct qkv_rank_plan *plan) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, options);
    QKV_NEED(qkv_call, plan);
    struct qkv_context *ctx = model->ctx;
    struct qkv_train_options own;
    enum qkv_status status = qkv_train_take(ctx, &own, options);
    if (status) return status;
    struct qkv_model *learned = NULL; /* training makes fp32 of what is stored otherwise */
    const struct qkv_communicator before = ctx->ranks;
    if (!model->planned) return qkv_fail(ctx, QKV_ARGUMENT, "ranks are planned with a planned model");
    if (ranks < 1 || rank < 0 || rank >= ranks || !batch || !context)
        return qkv_fail(ctx, QKV_ARGUMENT, "there is no rank %d of %d, or nothing for it to do", rank, ranks);
    status = qkv_model_check_plain(model, "ranks are planned");
    if (!status) status = qkv_model_plan(ctx, &model->spec, &learned);
    if (status) return status;
    ctx->ranks = (struct qkv_communicator){.rank = rank, .ranks = ranks};
    status = plan_make(&(struct planner){.model = learned,
                                         .ctx = ctx,
                                         .options = &own,
                                         .batch = batch,
                                         .context = context,
                                         .ranks = ranks,
                                         .rank = rank},
                       plan);
    ctx->ranks = before;
    qkv_model_free(learned);
    return status;
}
