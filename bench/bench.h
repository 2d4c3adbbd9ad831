/* bench: what the groups of benchmarks share.
 *
 * A group is one file with one function `void bench_<name>(struct bench *b)` and one line in BENCH_GROUPS. It calls
 * bench_row for every row of its table: the same work done by us and, where installed, by peers. The contestants take
 * turns in every round, each after a pause in which the other's threads fall asleep; a row shows medians. */
#ifndef QKV_BENCH_H
#define QKV_BENCH_H

#include "kernel/kernel.h"

/* X(name, what it measures) */
#define BENCH_GROUPS(X)                                                                                                \
    X(products, "matrix products")                                                                                     \
    X(attend, "attention")                                                                                             \
    X(training, "training")

struct bench {
    struct qkv_context *ctx;
    double peak;    /* FLOP/s of fused multiply-adds, measured at the start */
    double seconds; /* that each contestant works in a round */
    int rounds;
    FILE *json; /* or NULL */
    bool json_started;
    const char *group;
};

typedef void bench_work(void *argument);
struct bench_contestant {
    const char *name; /* "qkv", "openblas" */
    bench_work *work; /* does the row's work once */
    void *argument;
};

/* One row: `flops` is the work of one call (0: only times are shown). The first contestant's median seconds. */
double bench_row(struct bench *b, const char *label, double flops, const struct bench_contestant *contestants,
                 size_t count);
double bench_now(void);
/* A 64-byte aligned array of n random floats; NULL when there is no memory. free() it. */
float *bench_floats(size_t n);

#define BENCH_GROUP_PROTOTYPE(name, what) void bench_##name(struct bench *b);
BENCH_GROUPS(BENCH_GROUP_PROTOTYPE)

#endif
