/* info_ranks.c: "qkv info --ranks" prints the memory and the traffic of each rank of a training. */
#include <stdio.h>
#include <stdlib.h>

#include "cli_ranks.h"

static enum qkv_status ranks_plan(struct qkv_context *ctx, const struct cli_info_ranks *r, int rank,
                                  struct qkv_rank_plan *plan) {
    struct qkv_train_options options;
    char groups[CLI_NUMBER];
    snprintf(groups, sizeof groups, "%lld", (long long)r->groups);
    enum qkv_status status = qkv_train_defaults(ctx, r->preset, &options);
    if (!status) status = qkv_train_set(ctx, &options, "groups", groups);
    return status ? status : qkv_rank_plan(r->model, &options, r->batch, r->context, (int)r->ranks, rank, plan);
}

/* Seconds on the network: sending and receiving overlap, so the larger of the two counts. */
static double ranks_seconds(const struct cli_info_ranks *r, const struct qkv_rank_plan *p) {
    const double sent = p->gradient_sent + p->weight_sent, larger = sent > p->received ? sent : p->received;
    return 8 * larger / (1e9 * r->network);
}

static void ranks_row(const struct cli_info_ranks *r, int rank, const struct qkv_rank_plan *p) {
    char groups[CLI_NUMBER], n[9][CLI_NUMBER];
    if (p->group_begin == p->group_end)
        snprintf(groups, sizeof groups, "none");
    else
        snprintf(groups, sizeof groups, p->group_end - p->group_begin > 1 ? "%zu to %zu" : "%zu", p->group_begin,
                 p->group_end - 1);
    printf("  %4d  %8s %5zu  %10s %10s %10s %10s %11s %10s %10s  %10s %10s  %8.3f s\n", rank, groups, p->rows,
           cli_bytes(n[0], p->weight_bytes), cli_bytes(n[1], p->master_bytes), cli_bytes(n[2], p->gradient_bytes),
           cli_bytes(n[3], p->optimizer_bytes), cli_bytes(n[4], p->activation_bytes), cli_bytes(n[5], p->buffer_bytes),
           cli_bytes(n[6], p->train_bytes), cli_bytes(n[7], (size_t)(p->gradient_sent + p->weight_sent)),
           cli_bytes(n[8], (size_t)p->received), ranks_seconds(r, p));
}

int cli_info_print_ranks(struct qkv_context *ctx, const struct cli_info_ranks *r) {
    char network[32];
    snprintf(network, sizeof network, "%g Gbit/s", r->network);
    for (int rank = 0; rank < r->ranks; rank++) {
        struct qkv_rank_plan plan;
        if (ranks_plan(ctx, r, rank, &plan)) return cli_broken(ctx);
        if (!rank)
            printf("\n%lld ranks, %zu x %zu a step, %zu groups\n  %4s  %8s %5s  %10s %10s %10s %10s %11s %10s %10s  "
                   "%10s %10s  %10s\n  %4s  %8s %5s  %10s %10s %10s %10s %11s %10s %10s  %10s %10s  %10s\n",
                   (long long)r->ranks, r->batch, r->context, plan.groups, "rank", "groups", "rows", "weights",
                   "masters", "gradients", "moments", "activations", "buffers", "memory", "sent", "received", "at", "",
                   "", "", "", "", "", "", "", "", "in all", "a step", "a step", network);
        ranks_row(r, rank, &plan);
    }
    return CLI_DONE;
}

int cli_info_put_ranks(struct qkv_context *ctx, const struct cli_info_ranks *r, struct qkv_json *out) {
    qkv_json_line(out, 0);
    qkv_json_key(out, "ranks");
    qkv_json_begin(out, '[');
    for (int rank = 0; rank < r->ranks; rank++) {
        struct qkv_rank_plan p;
        if (ranks_plan(ctx, r, rank, &p)) return cli_broken(ctx);
        qkv_json_line(out, 0);
        qkv_json_begin(out, '{');
        qkv_json_put_integer(out, "rank", rank);
        qkv_json_put_count(out, "groups", p.groups);
        qkv_json_put_count(out, "group_begin", p.group_begin);
        qkv_json_put_count(out, "group_end", p.group_end);
        qkv_json_put_count(out, "rows", p.rows);
        qkv_json_put_count(out, "weight_bytes", p.weight_bytes);
        qkv_json_put_count(out, "master_bytes", p.master_bytes);
        qkv_json_put_count(out, "gradient_bytes", p.gradient_bytes);
        qkv_json_put_count(out, "optimizer_bytes", p.optimizer_bytes);
        qkv_json_put_count(out, "activation_bytes", p.activation_bytes);
        qkv_json_put_count(out, "buffer_bytes", p.buffer_bytes);
        qkv_json_put_count(out, "train_bytes", p.train_bytes);
        qkv_json_put_number(out, "flops", p.flops, 17);
        qkv_json_put_number(out, "gradient_sent", p.gradient_sent, 17);
        qkv_json_put_number(out, "weight_sent", p.weight_sent, 17);
        qkv_json_put_number(out, "received", p.received, 17);
        qkv_json_put_number(out, "messages", p.gradient_messages + p.weight_messages + p.small_messages, 17);
        qkv_json_put_number(out, "network_seconds", ranks_seconds(r, &p), 6);
        qkv_json_end(out, '}');
    }
    qkv_json_end(out, ']');
    return CLI_DONE;
}
