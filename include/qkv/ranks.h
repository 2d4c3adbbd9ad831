/* qkv/ranks.h: ranks: processes, machines or threads that train one model together; a part of qkv.h, which includes it.
 * Experimental. */
#ifndef QKV_PUBLIC_RANKS_H
#define QKV_PUBLIC_RANKS_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How ranks reach each other: what a program tells a context (struct qkv_context_options) that is one of several. The library
 * makes its own sums; it only sends, receives, gathers and broadcasts bytes, in the same order on every rank. A trainer calls from a
 * thread of its own too, while backward runs, but never two threads at once. Each call returns 0 when the buffers may be used again, or another number where a rank cannot be reached.
 * examples/ranks.h has one over threads. */
enum { QKV_RANKS_MOST = 64 }; /* that a run can have: as many as groups of a batch */
struct qkv_communicator {
    int rank, ranks; /* this one, from 0 on, and how many there are */
    void *state;     /* the first argument of each call; the program's */
    /* Sends to a rank and receives from a rank at the same time. Of no bytes: neither, and the rank does not count. */
    int (*exchange)(void *state, int to, const void *sent, size_t sent_bytes, int from, void *received,
                    size_t received_bytes);
    /* Of all ranks, in the order of ranks, to `all` of rank `root`, which others leave NULL. */
    int (*gather)(void *state, int root, const void *own, size_t bytes, void *all);
    /* From rank `root` to all. */
    int (*broadcast)(void *state, int root, void *data, size_t bytes);
    /* Why the latest call failed, a sentence that says which rank cannot be reached; may be NULL. */
    const char *(*reason)(void *state);
    /* This rank works at something long, as a search of validation, while others wait for it: a communicator that gives up waiting is to
     * wait longer. Called twice a second at most, never beside another call; may be NULL. */
    void (*alive)(void *state);
};

/* That of the only rank, without functions. */
QKV_API struct qkv_communicator qkv_communicator_defaults(void);
/* Which rank the context is, and of how many; 0 and 1 without a communicator. Any thread. */
QKV_API int qkv_context_rank(const struct qkv_context *ctx);
QKV_API int qkv_context_ranks(const struct qkv_context *ctx);
/* *flag becomes true on all ranks where it is true on one, as when one of them is asked to stop. Called by all. Fails with QKV_RANK. */
QKV_API enum qkv_status qkv_context_any(struct qkv_context *ctx, bool *flag);

/* ---- what a rank of a training will need and move --------------------------------------------------------------------------- */

struct qkv_model;
struct qkv_train_options;
struct qkv_rank_plan {
    size_t groups, group_begin, group_end; /* of the batch; those that the rank makes the gradients of */
    size_t rows;                           /* of the batch, in those groups */
    /* Memory in bytes, and its sum: */
    size_t weight_bytes; /* weights, and their packed copies in bf16: of divided weights those alone */
    size_t
        master_bytes; /* what the rank has of the fp32 numbers of divided weights: of several ranks in mixed precision */
    size_t gradient_bytes;   /* gradients, and sums of groups that wait for others */
    size_t optimizer_bytes;  /* moments of the weights that the rank updates */
    size_t activation_bytes; /* a pass over the rows, both ways; on rank 0 that of an evaluation besides */
    size_t buffer_bytes;     /* sums of several nodes of the tree of groups, and what travels */
    size_t train_bytes;
    /* A step: */
    double flops;
    double gradient_sent, weight_sent, received; /* bytes */
    /* Messages of the rank, one after the other; it may receive one as it sends one, and what only receives counts. */
    double gradient_messages, weight_messages;
    double small_messages; /* to rank 0 and back: losses, the norm, loads of experts, and whether all went well */
    double rounds;         /* in which gradients travel while backward still makes others */
    double late_messages, late_sent; /* of gradients, what has to wait until backward has ended */
};
/* Plans rank `rank` of `ranks` in a training of windows: `batch` rows a step of `context` tokens, with the groups, accumulation and
 * optimizer of the options. The model is a planned one (qkv_model_plan); its context need have no other ranks. Nothing of that size is
 * taken. Fails with QKV_ARGUMENT (more ranks than groups, a rank that there is not), QKV_MEMORY. */
QKV_API enum qkv_status qkv_rank_plan(struct qkv_model *model, const struct qkv_train_options *options, size_t batch,
                                      size_t context, int ranks, int rank, struct qkv_rank_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
