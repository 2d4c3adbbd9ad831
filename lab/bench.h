/* lab/bench.h: how fast this machine runs the parts of the library, as shares of its own peaks.
 * A part of lab.h.
 *
 * The peaks come first: fused multiply-adds in registers, and bytes read from memory. Then each row is worked on again and
 * again; of several rounds, in which peers take turns with the library, the median counts. */
#ifndef QKV_LAB_BENCH_H
#define QKV_LAB_BENCH_H

#include "qkv.h"

struct qkv_bench_machine {
    char cpu[96], compiler[64], isa[16]; /* the processor's name, what the library was compiled by, the kernel table */
    int threads;
    size_t cache[3];   /* bytes of the data caches, levels 1 to 3; 0: unknown */
    double fp32_flops; /* a second, all threads together */
    double bf16_flops; /* the same with operands in bf16; 0: this kernel table has no such instructions */
    double read_bytes; /* a second, all threads together, from memory */
};

enum { QKV_BENCH_PEERS_MOST = 4, QKV_BENCH_TEXT = 64 };

struct qkv_bench_row {
    /* What it is. The four words with spaces between are the row's label, "products 4096x768x768 x.wT fp32". */
    const char *group, *form, *precision;
    char name[QKV_BENCH_TEXT];
    bool big;        /* takes long or much memory: only measured when asked for */
    bool reads_text; /* is left out without a text */
    /* What was measured. */
    char left_out[QKV_BENCH_TEXT]; /* why it was not; "" if it was */
    double seconds, fastest;       /* of one piece of work: the median of the rounds, and the least */
    double flops, bytes,
        tokens;   /* of one piece of work; 0: does not count. Bytes are those that have to come from memory */
    bool reads;   /* reading the bytes takes longer than the FLOPs, each at its peak */
    double share; /* of that peak */
    size_t memory, pass_memory; /* training: weights, gradients, moments and the pass; the pass alone */
    double loss;                /* a recipe: at its end; NaN: none */
    struct {
        const char *name;
        double seconds;
    } peers[QKV_BENCH_PEERS_MOST];
    size_t peer_count;
};

/* A matrix product C (M,N) = A (M,K) · B (K,N), as a peer gets it: row-major, C in fp32. */
struct qkv_bench_product {
    size_t M, N, K;
    bool a_turned, b_turned; /* in memory A is (K,M), B is (N,K) */
    bool weights;            /* B is constant: it may be packed ahead */
    bool bf16;               /* A and B hold bf16, else fp32 */
    int threads;
    const void *a;
    /* Turn t works with b[t % count] and c[t % count], so that together they are larger than the caches. */
    const void *const *b;
    float *const *c;
    size_t count;
};
/* Another library to measure beside this one, on matrix products. */
struct qkv_bench_peer {
    const char *name;
    /* Makes ready for a product, which stays where it is until the release. NULL: cannot do it. */
    void *(*prepare)(const struct qkv_bench_product *product);
    void (*run)(void *prepared, size_t turn);
    void (*release)(void *prepared);
};

struct qkv_bench_options {
    const char *const *filters; /* rows whose label contains one of these, in any case; none: all */
    size_t filter_count;
    const char *precision; /* rows of this one only; NULL: all */
    bool big;              /* big rows too; otherwise only those of which a filter says a part of the name */
    double seconds;        /* that a row is worked on, all rounds together; 0: 0.4 */
    int rounds;            /* 0: 5 */
    const char *json; /* file that gets the results, replaced at the end, after a stop with what there is; NULL: none */
    const char *text; /* text for the recipe of nano-gpt, a big row; NULL: that row is left out */
    const struct qkv_bench_peer *peers;
    size_t peer_count;
    void (*begin)(void *user, const struct qkv_bench_machine *machine); /* peaks are known; these may be NULL */
    void (*row)(void *user, const struct qkv_bench_row *row);           /* a row is done */
    qkv_progress *progress;                                             /* the row's label; counts rows */
    void *user;
};
/* In a context of several ranks (qkv/ranks.h) all of them call this, and rank 0 alone with a file: it measures all rows, and messages
 * between itself and rank 1.
 *
 * Measures the rows that the options choose, one after the other. A filter that no row has is a failure that lists the
 * groups; QKV_STOPPED when `progress` said so. A row for which there is no memory is left out, and says so. */
enum qkv_status qkv_bench(struct qkv_context *ctx, const struct qkv_bench_options *options);
/* Whether qkv_bench would take the options, which reads no file and measures nothing; QKV_ARGUMENT if not. */
enum qkv_status qkv_bench_check(struct qkv_context *ctx, const struct qkv_bench_options *options);
/* Whether the filters, the precision and `big` of the options choose a row of qkv_bench_row_at. Of the rows in bf16 qkv_bench
 * leaves those out that would be emulated, unless the precision or a filter names it. */
bool qkv_bench_chooses(const struct qkv_bench_options *options, const struct qkv_bench_row *row);
/* What the i-th row is, in the order in which they are measured; false past the last. */
bool qkv_bench_row_at(size_t i, struct qkv_bench_row *row);
/* The i-th group, and what it measures; NULL past the last. */
const char *qkv_bench_group_at(size_t i, const char **what);
/* "products 4096x768x768 x.wT fp32"; returns `text`. */
#define QKV_BENCH_LABEL 128
char *qkv_bench_label(const struct qkv_bench_row *row, char text[QKV_BENCH_LABEL]);

#endif
