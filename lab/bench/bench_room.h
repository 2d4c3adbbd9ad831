/* bench: the speed of the kernels, of training and of generation, as shares of the machine's peaks.
 *
 * A group of rows is one file with a table of its cases, and one line in QKV_BENCH_GROUPS. A precision is one line
 * in bench_precision.c. The loop over rows and rounds is in bench.c, the JSON of the results in bench_json.c. */
#ifndef QKV_BENCH_ROOM_H
#define QKV_BENCH_ROOM_H

#include "kernel/kernel.h"
#include "lab/bench.h"

/* ---- precisions (bench_precision.c) ------------------------------------------------------------------------------ */

struct qkv_bench_precision {
    const char *name;
    enum qkv_precision precision; /* of the context */
    enum qkv_dtype dtype;         /* of operands and activations; its size counts in `bytes` */
};
/* Returns the i-th precision; NULL past the last. */
const struct qkv_bench_precision *qkv_bench_precision_at(size_t i);
/* Measures the FLOP/s of its products at their peak; takes some milliseconds. */
double qkv_bench_measure_peak(struct qkv_context *ctx, const struct qkv_bench_precision *precision);
/* "fp32, bf16" */
void qkv_bench_list_precisions(char *text, size_t capacity);

/* ---- the machine (bench_machine.c) ------------------------------------------------------------------------------- */

/* Measures the peaks in some tenths of a second, and leaves `reading` for further measurements. */
enum qkv_status qkv_bench_measure_machine(struct qkv_context *ctx, struct qkv_bench_machine *machine,
                                          struct qkv_reading *reading);

/* ---- a run of the benchmark (bench.c, bench_measure.c) ----------------------------------------------------------- */

enum { QKV_BENCH_MAX_ROUNDS = 101 };

struct qkv_bench {
    struct qkv_context *ctx;
    const struct qkv_bench_options *options;
    struct qkv_bench_machine machine;
    struct qkv_reading reading; /* of rank 0 */
    /* of the context, which has none during the benchmark; ranks other than 0 take part only in rows of reduce */
    struct qkv_communicator ranks;
    double seconds; /* of a contestant in a round */
    int rounds;
    size_t row, rows;                            /* for the progress */
    const struct qkv_bench_precision *precision; /* of the row in progress */
};

struct qkv_bench_contestant {
    const char *name;
    enum qkv_status (*work)(void *argument, size_t turn); /* does the row's work once; `turn` counts up */
    void *argument;
};
/* Lets the contestants alternate, the library first, and the peaks of the machine behind them; sets the row's times, and
 * its share from its flops and bytes. */
enum qkv_status qkv_bench_measure(struct qkv_bench *b, struct qkv_bench_row *row,
                                  const struct qkv_bench_contestant *contestants, size_t count);
/* Sets the share of a row that is timed once, as a whole; measures the peaks. */
void qkv_bench_rate(struct qkv_bench *b, struct qkv_bench_row *row);
/* false if the caller stops the benchmark. */
bool qkv_bench_goes_on(struct qkv_bench *b, const struct qkv_bench_row *row);
/* Whether this much memory is free; if not, the row says that it is left out. */
bool qkv_bench_has_memory(struct qkv_bench_row *row, size_t bytes);
/* Writes n random elements in (−0.5, 0.5), QKV_F32 or QKV_BF16, with all threads. */
void qkv_bench_fill(struct qkv_context *ctx, void *data, enum qkv_dtype dtype, size_t n);
/* The number of copies of `bytes` that fill more than twice the last-level cache; at least two. */
size_t qkv_bench_copies(size_t bytes);

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* X(name, number of its precisions, what it measures) */
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
/* Trains the recipe of nano-gpt on options->text to its end (recipe.c); a case of training. */
enum qkv_status qkv_bench_recipe(struct qkv_bench *b, struct qkv_bench_row *row);

/* ---- results (bench_json.c) -------------------------------------------------------------------------------------- */

/* The JSON of the file: the machine, the rows, and an end that says whether all rows are there. */
void qkv_bench_json_begin(struct qkv_json *json, const struct qkv_bench_machine *machine);
void qkv_bench_json_row(struct qkv_json *json, const struct qkv_bench_row *row);
void qkv_bench_json_end(struct qkv_json *json, bool complete);

#endif
