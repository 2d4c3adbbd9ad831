/* qkv/ranks.h: ranks: processes, machines or threads that train one model together; a part of qkv.h, which includes it.
 * Experimental. */
#ifndef QKV_PUBLIC_RANKS_H
#define QKV_PUBLIC_RANKS_H

#include "qkv/context.h"

#ifdef QKV_EXPERIMENTAL
#ifdef __cplusplus
extern "C" {
#endif

/* A communicator is the connection of a rank to the other ranks; a program gives it to a context (struct
 * qkv_context_options). The library computes all sums itself: a communicator only sends, receives, gathers and
 * broadcasts bytes, in the same order on every rank. A trainer also calls it from a second thread while backward runs,
 * but never from two threads at the same time. Each function returns 0 when its buffers may be used again, or another
 * number if a rank cannot be reached. examples/ranks.h has a communicator over threads. */
enum { QKV_RANKS_MOST = 64 }; /* largest number of ranks of a run, which is that of the groups of a batch */
struct qkv_communicator {
    int rank, ranks; /* number of this rank, from 0, and number of ranks */
    void *state;     /* first argument of each function; owned by the program */
    /* Sends to rank `to` and receives from rank `from` at the same time. With 0 bytes, that half is skipped and its
     * rank is ignored. */
    int (*exchange)(void *state, int to, const void *sent, size_t sent_bytes, int from, void *received,
                    size_t received_bytes);
    /* Gathers `bytes` bytes of every rank, in the order of ranks, into `all` of rank `root`; `all` is NULL on other
     * ranks. */
    int (*gather)(void *state, int root, const void *own, size_t bytes, void *all);
    /* Sends the data of rank `root` to all ranks. */
    int (*broadcast)(void *state, int root, void *data, size_t bytes);
    /* A sentence that says which rank the latest call could not reach; the function may be NULL. */
    const char *(*reason)(void *state);
    /* Reports that this rank is busy with long work, such as a search of validation, while other ranks wait for it: a
     * communicator with a time limit must then wait longer. Called at most twice a second, never at the same time as
     * another function; may be NULL. */
    void (*alive)(void *state);
};

/* The communicator of a single rank, without functions. */
QKV_API struct qkv_communicator qkv_communicator_defaults(void);
/* The rank of the context, and the number of ranks; 0 and 1 without a communicator. Any thread. */
QKV_API int qkv_context_rank(const struct qkv_context *ctx);
QKV_API int qkv_context_ranks(const struct qkv_context *ctx);
/* Sets *flag to true on all ranks if it is true on any, for example when one of them is asked to stop. All ranks must
 * call it. Fails with QKV_RANK. */
QKV_API enum qkv_status qkv_context_any(struct qkv_context *ctx, bool *flag);

/* ---- memory and traffic of a rank -------------------------------------------------------------------------------- */

struct qkv_model;
struct qkv_train_options;
struct qkv_rank_plan {
    /* number of groups of a batch; the rank computes the gradients of groups [group_begin, group_end) */
    size_t groups, group_begin, group_end;
    size_t rows; /* rows of a batch in these groups */
    /* Memory in bytes; train_bytes is the sum. */
    size_t weight_bytes; /* weights and their bf16 copies; of divided weights only the copies */
    /* the rank's part of the fp32 numbers of divided weights; only with several ranks in mixed precision */
    size_t master_bytes;
    size_t gradient_bytes;   /* gradients, and sums of groups that wait for other groups */
    size_t optimizer_bytes;  /* moments of the weights that the rank updates */
    size_t activation_bytes; /* a pass over the rows, forward and backward; on rank 0 also the pass of an evaluation */
    size_t buffer_bytes;     /* sums of several nodes of the tree of groups, and buffers that are sent and received */
    size_t train_bytes;
    /* Work and traffic of one step: */
    double flops;
    double gradient_sent, weight_sent, received; /* bytes */
    /* Exchanges of the rank, which it makes one after the other. An exchange that sends and receives counts once, and
     * so does one that does only one of the two. */
    double gradient_messages, weight_messages;
    /* exchanges with rank 0 for losses, the norm, loads of experts, and the success of each rank */
    double small_messages;
    double rounds; /* number of rounds that send gradients while backward computes others */
    /* the part of the gradient messages and bytes that must wait until backward has ended */
    double late_messages, late_sent;
};
/* Plans rank `rank` of `ranks` for training on windows: `batch` rows a step of `context` tokens, with the groups,
 * accumulation and optimizer of the options. The model is a planned one (qkv_model_plan); its context needs no other
 * ranks. The call allocates nothing of the model's size. More ranks than groups, and a rank that does not exist, are
 * QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_rank_plan(struct qkv_model *model, const struct qkv_train_options *options, size_t batch,
                                      size_t context, int ranks, int rank, struct qkv_rank_plan *plan);

#ifdef __cplusplus
}
#endif
#endif

#endif
