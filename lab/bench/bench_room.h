/* bench: the speed of the kernels, of training and of generation, as shares of the machine's peaks.
 *
 * A group of rows is one file with a table of its cases and one line in QKV_BENCH_GROUPS. A precision is one line in
 * precision.c. The loop over rows and rounds is in bench.c, the results as JSON in json.c. */
#ifndef QKV_BENCH_ROOM_H
#define QKV_BENCH_ROOM_H

#include "base/base.h"
#include "lab/bench.h"

/* ---- precisions (precision.c) ------------------------------------------------------------------------------------- */

struct qkv_bench_precision {
    const char *name;
    enum qkv_precision precision; /* of the context */
    enum qkv_dtype dtype;         /* of operands and activations; its size counts where bytes are */
};
/* NULL past the last. */
const struct qkv_bench_precision *qkv_bench_precision_at(size_t i);
/* FLOP/s of its products. */
double qkv_bench_peak(const struct qkv_bench_machine *machine, const struct qkv_bench_precision *precision);
/* "fp32, bf16" */
void qkv_bench_list_precisions(char *text, size_t capacity);

/* ---- the machine (bench_machine.c) ---------------------------------------------------------------------------------------- */

/* Measures the peaks: some tenths of a second. */
enum qkv_status qkv_bench_measure_machine(struct qkv_context *ctx, struct qkv_bench_machine *machine);

/* ---- a run of the benchmark (bench.c, bench_measure.c) ----------------------------------------------------------------------------- */

enum { QKV_BENCH_ROUNDS_MOST = 101 };

struct qkv_bench {
    struct qkv_context *ctx;
    const struct qkv_bench_options *options;
    struct qkv_bench_machine machine;
    struct qkv_communicator
        ranks;      /* the context's, which has none meanwhile; ranks but 0 take part in rows of reduce alone */
    double seconds; /* that a contestant works in a round */
    int rounds;
    size_t row, rows;                            /* progress */
    const struct qkv_bench_precision *precision; /* of the row that is being measured */
};

struct qkv_bench_contestant {
    const char *name;
    enum qkv_status (*work)(void *argument, size_t turn); /* does the row's work once; turns count on */
    void *argument;
};
/* Lets the contestants, of which the first is this library, take turns; fills in the row's times and its share, by its flops
 * and bytes. */
enum qkv_status qkv_bench_measure(struct qkv_bench *b, struct qkv_bench_row *row,
                                  const struct qkv_bench_contestant *contestants, size_t count);
/* False when the caller wants the benchmark to stop. */
bool qkv_bench_goes_on(struct qkv_bench *b, const struct qkv_bench_row *row);
/* Sets the share by flops, bytes and seconds. */
void qkv_bench_rate(const struct qkv_bench *b, struct qkv_bench_row *row);
/* Whether so much memory is free; otherwise the row says that it is left out. */
bool qkv_bench_has_memory(struct qkv_bench_row *row, size_t bytes);
/* n random elements in (−0.5, 0.5), by all threads; QKV_F32 or QKV_BF16. */
void qkv_bench_fill(struct qkv_context *ctx, void *data, enum qkv_dtype dtype, size_t n);
/* How many copies of `bytes` make more than twice the last-level cache: two at least. */
size_t qkv_bench_copies(size_t bytes);

/* ---- groups --------------------------------------------------------------------------------------------------------- */

/* X(name, how many of the precisions it has, what it measures) */
#define QKV_BENCH_GROUPS(X)                                                                                            \
    X(products, 2, "matrix products of a layer: tokens x outputs x inputs")                                            \
    X(attention, 2, "attention, and one query with a cache of keys")                                                   \
    X(experts, 2, "feed-forwards with experts, both ways, beside a dense one of the same active FLOPs")                \
    X(training, 2, "training steps: forward, backward, optimizer")                                                     \
    X(order, 2, "training steps whose sums over rows are made in groups (--groups), beside one group")                 \
    X(generation, 2, "generation: the tokens of a prompt, and one token after the other")                              \
    X(reduce, 1, "several ranks: a message each way at once (bytes one way), sums of gradients, the optimizer")
#define QKV_BENCH_GROUP_PROTOTYPES(name, precisions, what)                                                             \
    /* Describes the i-th case; false past the last. */                                                                \
    bool qkv_bench_##name##_case(size_t i, struct qkv_bench_row *row);                                                 \
    enum qkv_status qkv_bench_##name(struct qkv_bench *b, size_t i, struct qkv_bench_row *row);
QKV_BENCH_GROUPS(QKV_BENCH_GROUP_PROTOTYPES)
/* The recipe of nano-gpt on options->text, to its end (recipe.c): a case of training. */
enum qkv_status qkv_bench_recipe(struct qkv_bench *b, struct qkv_bench_row *row);

/* ---- results (json.c) ----------------------------------------------------------------------------------------------- */

/* The file as it grows: begun with the machine, rows, and an end that says whether all rows are there. */
void qkv_bench_json_begin(struct qkv_json *json, const struct qkv_bench_machine *machine);
void qkv_bench_json_row(struct qkv_json *json, const struct qkv_bench_row *row);
void qkv_bench_json_end(struct qkv_json *json, bool complete);

#endif
