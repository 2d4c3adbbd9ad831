/* scale.c: prints what the cost model of docs/scale.md predicts for 1 to 1,024 ranks on 1, 10 and 100 Gbit/s, for a
 * step in which each rank has the same number of rows.
 *
 * GFLOPS: what a rank reaches in training, the tokens a second of one rank times the FLOPs a token of qkv info. MS:
 * milliseconds of a message. ADD, UPDATE: GB/s of sums and of the optimizer (qkv bench --filter reduce). With bf16,
 * the weights of matrix products are sent as bf16.
 *     scale PRESET ROWS CONTEXT GFLOPS [MS [ADD [UPDATE [fp32|bf16]]]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QKV_EXPERIMENTAL /* attention, modules, ranks and costs may still change */
#include <qkv.h>

enum { ROUNDS = 16, SHARE = 8 << 16 }; /* rounds of gradients, at least; floats of a share, at most */

struct model {
    double floats, flops; /* of the weights; of a rank's rows, forward and backward */
    double weight_bytes;  /* of all weights that are sent */
    double flops_rate, seconds, add_rate, update_rate;
};

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Seconds of a step of `ranks`; `link`: bytes a second. */
static double step(const struct model *m, double ranks, double link) {
    const double bytes = 4 * m->floats, others = ranks - 1, compute = m->flops / m->flops_rate;
    const double update = bytes / ranks / m->update_rate;
    if (ranks == 1) return compute + update;
    const double share = m->floats / ranks / ROUNDS < SHARE ? m->floats / ranks / ROUNDS : SHARE;
    double rounds = m->floats / (share * ranks);
    if (rounds < 1) rounds = 1;
    const double moved = bytes * others / ranks, messages = rounds * others * m->seconds;
    /* each owner adds one node for every rank */
    const double gradients = messages + moved / link + bytes / m->add_rate;
    const double hidden = 2.0 / 3 * compute * (1 - 1 / rounds);
    /* status of the gradients, of the step, and signals: each to rank 0 and back */
    const double small = 6 * m->seconds;
    return compute + larger(gradients - hidden, gradients / rounds) + update + messages +
           m->weight_bytes * others / ranks / link + small;
}

/* Bytes of weights that two ranks send each other in a step: each trainable weight once. */
static enum qkv_status weight_bytes(struct qkv_context *ctx, const struct qkv_spec *spec, double *bytes) {
    struct qkv_train_options options;
    struct qkv_rank_plan plan;
    struct qkv_model *model = NULL;
    enum qkv_status status = qkv_train_defaults(ctx, NULL, &options);
    if (!status) status = qkv_train_set(ctx, &options, "groups", "2");
    if (!status) status = qkv_model_plan(ctx, spec, &model);
    *bytes = 0;
    for (int rank = 0; rank < 2 && !status; rank++) {
        status = qkv_rank_plan(model, &options, 2, 1, 2, rank, &plan);
        *bytes += plan.weight_sent;
    }
    qkv_model_free(model);
    return status;
}

int main(int argc, char **argv) {
    static const double networks[] = {1, 10, 100};
    struct qkv_context *ctx = NULL;
    struct qkv_spec spec = {0};
    struct qkv_costs costs;
    const char *precision = argc > 8 ? argv[8] : "fp32";
    const bool bf16 = !strcmp(precision, "bf16");
    double moved;
    if (argc < 5 || argc > 9 || (!bf16 && strcmp(precision, "fp32") != 0)) {
        fprintf(stderr, "usage: scale PRESET ROWS CONTEXT GFLOPS [MS [ADD [UPDATE [fp32|bf16]]]]\n");
        return 2;
    }
    const double rows = atof(argv[2]), context = atof(argv[3]), rate = 1e9 * atof(argv[4]);
    const double ms = argc > 5 ? atof(argv[5]) : 0.05, add = argc > 6 ? atof(argv[6]) : 10,
                 update = argc > 7 ? atof(argv[7]) : 2;
    if (!(rows >= 1 && rows <= 1e6 && context >= 1 && context <= 1e6 && rate > 0 && ms >= 0 && add > 0 && update > 0)) {
        fprintf(stderr, "ROWS and CONTEXT are from 1 to 1000000, rates greater than 0\n");
        return 2;
    }
    if (qkv_context_create(&ctx, &QKV_OPTIONS(qkv_context_options, .precision = bf16 ? QKV_MIXED_BF16 : QKV_FP32)) ||
        qkv_spec_preset(ctx, &spec, argv[1], NULL, 0)) {
        fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
        qkv_spec_free(&spec);
        qkv_context_free(ctx);
        return 1;
    }
    if (!spec.vocab) spec.vocab = 256;
    if (!spec.source_vocab) spec.source_vocab = spec.vocab;
    if (qkv_measure_costs(ctx, &spec, 1, (size_t)context, &costs) || weight_bytes(ctx, &spec, &moved)) {
        fprintf(stderr, "%s\n", qkv_message(ctx));
        qkv_spec_free(&spec);
        qkv_context_free(ctx);
        return 1;
    }
    const struct model m = {
        (double)costs.parameters, costs.train_flops * rows * context, moved, rate, ms / 1e3, 1e9 * add, 1e9 * update};
    printf(
        "%s, %s, %g x %g tokens a rank, %g GFLOP/s, %g ms a message: tokens/s, and the share of as many lone ranks\n "
        "ranks",
        argv[1], precision, rows, context, rate / 1e9, ms);
    for (size_t n = 0; n < 3; n++) printf("  %9g Gbit/s      ", networks[n]);
    for (int ranks = 1; ranks <= 1024; ranks *= 2) {
        printf("\n%6d", ranks);
        for (size_t n = 0; n < 3; n++) {
            const double alone = step(&m, 1, 1), t = step(&m, ranks, networks[n] * 1e9 / 8);
            printf("  %12.0f  %5.1f %%   ", ranks * rows * context / t, 100 * alone / t);
        }
    }
    printf("\n");
    qkv_spec_free(&spec);
    qkv_context_free(ctx);
    return 0;
}
