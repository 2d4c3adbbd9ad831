/* lab/bench.h: the speed of this machine on parts of the library, as shares of the machine's own peaks. A part of
 * lab.h.
 *
 * The peaks are measured first: fused multiply-adds in registers, and bytes read from memory in the fastest of several
 * ways. Then each row is repeated for several rounds, in which the library, its peers and the peaks alternate; the
 * results are medians over the rounds. A row's floor is the longer of two times: its FLOPs, and its bytes, at their
 * peaks in the same round. */
#ifndef QKV_LAB_BENCH_H
#define QKV_LAB_BENCH_H

#include "qkv.h"

struct qkv_bench_machine {
    char cpu[96], compiler[64], isa[16]; /* the processor; the compiler of the library; the kernel table */
    int threads;
    size_t cache[3];   /* bytes of the data caches, levels 1 to 3; 0: unknown */
    double fp32_flops; /* a second, all threads together */
    double bf16_flops; /* the same with bf16 operands; 0: this kernel table has no such instructions */
    double read_bytes; /* a second, all threads together, from memory */
};

#define QKV_BENCH_SPREAD 0.1
enum { QKV_BENCH_MAX_PEERS = 4, QKV_BENCH_TEXT = 64 };

struct qkv_bench_row {
    /* The label of a row is these four words with spaces between: "products 4096x768x768 x.wT fp32". */
    const char *group, *form, *precision;
    char name[QKV_BENCH_TEXT];
    bool big;        /* takes long or much memory: measured only on request */
    bool reads_text; /* needs a text; without one it is left out */
    /* The results. */
    char left_out[QKV_BENCH_TEXT]; /* why it was not measured; "" if it was */
    double seconds, fastest;       /* of one piece of work: the median of the rounds, and the minimum */
    /* of one piece of work; 0: does not count. bytes: those that must come from memory */
    double flops, bytes, tokens;
    bool reads;    /* the floor is that of reading */
    double share;  /* the floor, as a part of the time */
    double spread; /* (slowest − fastest) / median of the rounds; above QKV_BENCH_SPREAD a row shows nothing */
    double peak_flops, peak_read; /* a second, in the rounds of the row; 0: not needed */
    size_t memory, pass_memory;   /* training: weights, gradients, moments and the pass; the pass alone */
    double loss;                  /* of a recipe, at its end; NaN: none */
    struct {
        const char *name;
        double seconds;
    } peers[QKV_BENCH_MAX_PEERS];
    size_t peer_count;
};

/* A matrix product C (M,N) = A (M,K) · B (K,N) for a peer: row-major, C in fp32. */
struct qkv_bench_product {
    size_t M, N, K;
    bool a_transposed, b_transposed; /* A is stored as (K,M), B as (N,K) */
    bool weights;                    /* B is constant: it may be packed ahead */
    bool bf16;                       /* A and B are bf16; else fp32 */
    int threads;
    const void *a;
    /* Turn t uses b[t % count] and c[t % count]: together they are larger than the caches. */
    const void *const *b;
    float *const *c;
    size_t count;
};
/* Another library to measure beside this one, on matrix products. */
struct qkv_bench_peer {
    const char *name;
    /* Prepares a product, which stays in place until `release`. Returns NULL if the peer cannot do it. */
    void *(*prepare)(const struct qkv_bench_product *product);
    void (*run)(void *prepared, size_t turn);
    void (*release)(void *prepared);
};

struct qkv_bench_options {
    const char *const *filters; /* rows whose label contains one of these, in any case; none: all */
    size_t filter_count;
    const char *precision; /* only rows of this precision; NULL: all */
    bool big;              /* big rows too; else only big rows of whose name a filter has a part */
    double seconds;        /* time of a row, all rounds together; 0: 0.4 */
    int rounds;            /* 0: 5 */
    /* the file of the results, replaced at the end; after a stop it has the rows so far; "-": standard output; NULL:
     * none */
    const char *json;
    const char *text; /* text for the recipe of nano-gpt, a big row; NULL: leaves that row out */
    const struct qkv_bench_peer *peers;
    size_t peer_count;
    /* the peaks are known; each function may be NULL */
    void (*begin)(void *user, const struct qkv_bench_machine *machine);
    void (*row)(void *user, const struct qkv_bench_row *row); /* a row is done */
    qkv_progress *progress;                                   /* gets the row's label; counts rows */
    void *user;
};
/* Measures the rows that the options choose, one after the other. A filter that no row has is an error that lists
 * the groups. Returns QKV_STOPPED if `progress` stopped it. A row without enough memory is left out, and says so.
 *
 * In a context of several ranks (qkv/ranks.h) all of them call this. Rank 0 measures all rows, exchanges messages
 * with rank 1, and alone writes the file. */
enum qkv_status qkv_bench(struct qkv_context *ctx, const struct qkv_bench_options *options);
/* Whether qkv_bench accepts the options; reads no file and measures nothing. Fails with QKV_ARGUMENT. */
enum qkv_status qkv_bench_check(struct qkv_context *ctx, const struct qkv_bench_options *options);
/* Whether the filters, the precision and `big` choose a row of qkv_bench_row_at. qkv_bench also leaves out bf16 rows
 * that this machine emulates, unless the precision or a filter names bf16. */
bool qkv_bench_chooses(const struct qkv_bench_options *options, const struct qkv_bench_row *row);
/* Describes the i-th row, in the order of measuring; false past the last. */
bool qkv_bench_row_at(size_t i, struct qkv_bench_row *row);
/* Returns the i-th group and what it measures; NULL past the last. */
const char *qkv_bench_group_at(size_t i, const char **what);
/* Writes "products 4096x768x768 x.wT fp32" and returns `text`. */
#define QKV_BENCH_LABEL 128
char *qkv_bench_label(const struct qkv_bench_row *row, char text[QKV_BENCH_LABEL]);

#endif
