/* scale.c: what the cost model of docs/scale.md foresees for 1 to 1,024 ranks on 1, 10 and 100 Gbit/s, of a step that gives each rank the
 * same rows. GFLOPS is what a rank reaches in training (tokens a second of one rank times the FLOPs a token that qkv info says); MS the
 * milliseconds of a message, ADD and UPDATE the GB/s of sums and of the optimizer (qkv bench --filter reduce).
 *     scale PRESET ROWS CONTEXT GFLOPS [MS [ADD [UPDATE]]] */
#include <stdio.h>
#include <stdlib.h>

#include <qkv.h>

enum { ROUNDS = 16, SHARE = 8 << 16 }; /* in which gradients travel, at least; floats of a share, at most */

struct model {
    double floats, flops; /* of the weights; of a rank's rows, both ways */
    double flops_rate, seconds, add_rate, update_rate;
};

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Seconds of a step of `ranks` with links of so many bytes a second. */
static double step(const struct model *m, double ranks, double link) {
    const double bytes = 4 * m->floats, others = ranks - 1, compute = m->flops / m->flops_rate;
    const double update = bytes / ranks / m->update_rate;
    if (ranks == 1) return compute + update;
    const double share = m->floats / ranks / ROUNDS < SHARE ? m->floats / ranks / ROUNDS : SHARE;
    double rounds = m->floats / (share * ranks);
    if (rounds < 1) rounds = 1;
    const double moved = bytes * others / ranks, messages = rounds * others * m->seconds;
    const double gradients = messages + moved / link + bytes / m->add_rate; /* each owner adds a node of every rank */
    const double hidden = 2.0 / 3 * compute * (1 - 1 / rounds);
    const double small = 6 * m->seconds; /* what came of gradients, of the step, and signals: each to rank 0 and back */
    return compute + larger(gradients - hidden, gradients / rounds) + update + messages + moved / link + small;
}

int main(int argc, char **argv) {
    static const double networks[] = {1, 10, 100};
    struct qkv_context *ctx = NULL;
    struct qkv_spec spec;
    struct qkv_costs costs;
    if (argc < 5 || argc > 8) {
        fprintf(stderr, "usage: scale PRESET ROWS CONTEXT GFLOPS [MS [ADD [UPDATE]]]\n");
        return 2;
    }
    const double rows = atof(argv[2]), context = atof(argv[3]), rate = 1e9 * atof(argv[4]);
    const double ms = argc > 5 ? atof(argv[5]) : 0.05, add = argc > 6 ? atof(argv[6]) : 10,
                 update = argc > 7 ? atof(argv[7]) : 2;
    if (!(rows >= 1 && rows <= 1e6 && context >= 1 && context <= 1e6 && rate > 0 && ms >= 0 && add > 0 && update > 0)) {
        fprintf(stderr, "ROWS and CONTEXT are from 1 to 1000000, rates greater than 0\n");
        return 2;
    }
    if (qkv_context_create(&ctx, NULL) || qkv_spec_preset(ctx, &spec, argv[1], NULL, 0)) {
        fprintf(stderr, "%s\n", ctx ? qkv_message(ctx) : "out of memory");
        qkv_context_free(ctx);
        return 1;
    }
    if (!spec.vocab) spec.vocab = 256;
    if (!spec.source_vocab) spec.source_vocab = spec.vocab;
    if (qkv_measure_costs(ctx, &spec, 1, (size_t)context, &costs)) {
        fprintf(stderr, "%s\n", qkv_message(ctx));
        qkv_context_free(ctx);
        return 1;
    }
    const struct model m = {
        (double)costs.parameters, costs.train_flops * rows * context, rate, ms / 1e3, 1e9 * add, 1e9 * update};
    printf(
        "%s, %g x %g tokens a rank, %g GFLOP/s, %g ms a message: tokens/s, and the share of as many lone ranks\n ranks",
        argv[1], rows, context, rate / 1e9, ms);
    for (size_t n = 0; n < 3; n++) printf("  %9g Gbit/s      ", networks[n]);
    for (int ranks = 1; ranks <= 1024; ranks *= 2) {
        printf("\n%6d", ranks);
        for (size_t n = 0; n < 3; n++) {
            const double alone = step(&m, 1, 1), t = step(&m, ranks, networks[n] * 1e9 / 8);
            printf("  %12.0f  %5.1f %%   ", ranks * rows * context / t, 100 * alone / t);
        }
    }
    printf("\n");
    qkv_context_free(ctx);
    return 0;
}
