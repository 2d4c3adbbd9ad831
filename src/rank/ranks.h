/* ranks: several ranks train one model (qkv/ranks.h). Each has all weights and owns whole groups of the global
 * batch, whose gradients it makes, and a share of the weights, which it updates with the moments that it alone keeps
 * of them. In mixed precision it has weights that only products read as bf16, and only its share of them as fp32:
 * those are divided. The sums of groups are added in the tree of one rank (kernel/order.h), whichever rank has them, so
 * any number of ranks makes the same bits. */
#ifndef QKV_RANK_RANKS_H
#define QKV_RANK_RANKS_H

#include "op/steps.h"
#include "rank/parts.h"

struct qkv_model;
struct qkv_tensor;
struct qkv_train_options;
struct qkv_weights;

/* ---- what a rank owns (rank_share.c) ---------------------------------------------------------------------------- */

enum { QKV_RANK_NODES = 12 }; /* of a tree of QKV_GROUPS_MAX groups that a run of groups is made of, at most */
struct qkv_rank_node {
    size_t begin, end; /* groups */
};
/* The groups [begin, end) of `groups`, as the largest nodes of the tree that hold no others, in order. */
struct qkv_rank_share {
    size_t groups, begin, end, count;
    struct qkv_rank_node nodes[QKV_RANK_NODES];
};
/* Groups of a batch of so many rows; 0: it has none. */
size_t qkv_batch_groups(const struct qkv_train_options *options, size_t rows);
/* That of a rank in a batch of so many rows; of fewer groups than ranks some have none. */
struct qkv_rank_share qkv_rank_share_of(const struct qkv_context *ctx, const struct qkv_train_options *options,
                                        size_t rows, int rank);
/* The rows [*begin, *end) of a batch that a rank's groups are. */
void qkv_rank_rows(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows, int rank,
                   size_t *begin, size_t *end);
/* All gradients lie in one array, which is cut into buckets of `bucket` floats; the last may be shorter. Of each,
 * the ranks own `share` floats in turn, whole pieces of the norm, so whichever bucket travels all of them send and
 * receive. */
struct qkv_rank_cut {
    size_t floats, share, bucket, buckets;
    int ranks;
};
struct qkv_rank_cut qkv_rank_cut_of(const struct qkv_context *ctx, size_t floats);
/* Where the gradient of an operand that learns begins among all; of a planned model, whose gradients are nowhere,
 * too. */
size_t qkv_rank_place(const struct qkv_weights *w, const struct qkv_tensor *x);
/* The gradients [*begin, *end) of a bucket that a rank owns and updates. */
void qkv_rank_own(const struct qkv_rank_cut *cut, size_t bucket, int rank, size_t *begin, size_t *end);

/* ---- sums of gradients (rank_sums.c), made while backward runs (rank_overlap.c) --------------------------------- */

struct qkv_part_sums;
struct qkv_parts;
struct qkv_pass;
/* What travels at a time: gradients [to, end) of a bucket, or later uses of a weight that are added to them. */
struct qkv_rank_round {
    size_t bucket, to, end, at; /* at: where they begin in a node's sum: gradients, then later uses */
    bool later;
};
/* Those of a step, into `rounds` unless that is NULL: buckets from the last to the first, as backward comes to their
 * weights, then later uses, weight after weight. The result: how many. */
size_t qkv_rank_rounds(const struct qkv_weights *w, const struct qkv_rank_cut *cut, struct qkv_rank_round *rounds);
/* How many of those a batch of so many groups needs. One group is one row, on one rank, which adds all uses of a weight
 * to its gradient as it would alone: nothing is added later. */
size_t qkv_rank_rounds_of(const struct qkv_rank_cut *cut, size_t rounds, size_t groups);
/* What of a round a rank owns. */
struct qkv_rank_piece {
    size_t at, to, count; /* in a node's sum, and in the gradients */
};
struct qkv_rank_piece qkv_rank_piece_of(const struct qkv_rank_cut *cut, const struct qkv_rank_round *round, int rank);
struct qkv_rank_sums {
    struct qkv_part_sums *parts; /* of the same model; NULL: there is one rank */
    struct qkv_arena arena;
    struct qkv_rank_cut cut;
    size_t slot_count;
    /* sums of nodes except the last, which the model's gradients have: gradients, later uses */
    float *slots[QKV_RANK_NODES];
    float *received;               /* a share of each other rank's nodes */
    uint16_t *packed;              /* what travels as bf16: a share to send, and a share received; NULL: fp32 travels */
    struct qkv_rank_round *rounds; /* of a step: buckets from the last to the first, then later uses */
    size_t round_count;
    int *waits, *missing; /* (buckets): weights in it, and those of them that backward has not come to yet */
    size_t next;          /* buckets from here on are complete */
    struct qkv_rank_share shares[QKV_RANKS_MOST]; /* of the step's batch */
    size_t first[QKV_RANKS_MOST];                 /* which of `received` is the first of a rank's nodes */
    size_t nodes;                                 /* of a rank in this step, at most */
    double *cards;                                /* what a rank tells when they are made (qkv_rank_card); then all */
    struct qkv_worker *worker;                    /* who sends, receives and adds */
    double busy, hidden; /* seconds of that, and those of them while backward ran; since created */
};
/* What they need besides the model and the parts, in an arena, with batches of so many rows or of any number (0). */
enum qkv_status qkv_rank_sums_bytes(const struct qkv_model *model, const struct qkv_train_options *options,
                                    size_t batch, size_t later_floats, size_t *bytes);
enum qkv_status qkv_rank_sums_create(struct qkv_model *model, struct qkv_part_sums *parts,
                                     const struct qkv_train_options *options, size_t batch, struct qkv_rank_sums *sums);
void qkv_rank_sums_free(struct qkv_rank_sums *sums);
/* Before the first part of a step of so many rows. Until qkv_rank_sums_end nobody else may use the communicator. */
void qkv_rank_sums_begin(struct qkv_rank_sums *sums, const struct qkv_train_options *options, size_t rows);
/* Before the forward pass of each part. In the last part of the last node buckets travel as soon as backward has
 * made all of one. */
void qkv_rank_sums_part(struct qkv_rank_sums *sums, const struct qkv_parts *parts, size_t node, struct qkv_pass *pass);
/* A node's parts have all been through the pass: its sum is kept where others come. */
void qkv_rank_sums_keep(struct qkv_rank_sums *sums, const struct qkv_rank_share *share, size_t node);
/* What is left travels, whatever has become of this rank's own gradients. Then each rank has the sums of its own
 * floats; what the array holds of others is only its share of them. */
enum qkv_status qkv_rank_sums_end(struct qkv_rank_sums *sums);
/* For the worker: one round. Not 0: another rank cannot be reached. */
int qkv_rank_round_run(struct qkv_rank_sums *sums, size_t round);

/* ---- norm and weights (rank_spread.c) --------------------------------------------------------------------------- */

/* Pieces of the norm that a rank owns, at most; their squares, bucket after bucket; and those of a rank taken over. */
size_t qkv_rank_pieces(const struct qkv_rank_cut *cut);
enum qkv_status qkv_rank_square(struct qkv_model *model, double *sums);
void qkv_rank_take_squares(struct qkv_model *model, int rank, const double *sums);
/* The norm of all gradients; of several ranks, once the squares of all have been taken over. */
enum qkv_status qkv_rank_norm(struct qkv_model *model, double *norm);
/* Every rank gets the gradients that the others own, which an optimizer may have changed. */
enum qkv_status qkv_rank_spread_gradients(struct qkv_model *model);
/* Every rank gets the weights that the others have updated, those that are divided as bf16; gradients are cleared. */
struct qkv_rank_masters;
enum qkv_status qkv_rank_spread_weights(struct qkv_model *model, const struct qkv_rank_masters *masters);
/* Bytes of what a rank owns of a bucket, as it travels. */
size_t qkv_rank_weight_bytes(const struct qkv_weights *w, const struct qkv_rank_cut *cut, size_t bucket, int rank);

/* ---- divided weights (rank_masters.c) --------------------------------------------------------------------------- */

/* fp32 numbers of divided weights that this rank keeps, and room for two messages of weights. */
/* Numbers [begin, end) of a weight that this rank updates, and their moments. One rank: each weight whole. */
struct qkv_moment_run {
    size_t weight, begin, end;
    float *moments[QKV_MOMENT_COUNT]; /* NULL: the optimizer keeps no such moment of it */
    float *master; /* the numbers themselves, of a weight that ranks have divided; NULL: the model has it */
};
struct qkv_rank_masters {
    const struct qkv_moment_run *runs; /* the optimizer's */
    size_t run_count;
    struct qkv_arena arena; /* base NULL: no weight is divided */
    char *sent, *received;
};
/* Chooses the operands that are divided (x->divided), also of a planned model: all that products in bf16 alone read
 * and whose weights all learn, where there are several ranks. Once the model is packed and what learns is chosen.
 * The bytes in fp32 that are given up. */
size_t qkv_rank_choose_divided(struct qkv_model *model);
/* What the moments of its share take of a rank, once there are gradients. `count`: how many a weight has. */
typedef size_t qkv_rank_moments(const void *user, const struct qkv_weight *weight);
size_t qkv_rank_moment_bytes(const struct qkv_model *model, int rank, qkv_rank_moments *count, const void *user);
/* What a rank has in place of them, once they are chosen and there are gradients: its masters; and messages of
 * weights. */
size_t qkv_rank_master_bytes(const struct qkv_model *model, int rank, size_t *message_bytes);
/* Divides them: `runs` get their masters, and the model gives its own up. */
enum qkv_status qkv_rank_divide(struct qkv_model *model, struct qkv_moment_run *runs, size_t run_count,
                                struct qkv_rank_masters *masters);
/* (rank_save.c) Called by all ranks, between two steps: rank 0 writes the model into the run's folder. The numbers
 * that others have come to where its gradients are. */
enum qkv_status qkv_rank_save_model(struct qkv_model *model, const struct qkv_rank_masters *masters,
                                    const char *folder);

/* ---- a step of several ranks (rank_step.c); with one rank nothing is to be done --------------------------------- */

/* Whose losses, or gradients, are not finite: " that rank 1 makes of rows 1 to 4 of the batch", for messages. */
enum { QKV_RANK_BLAME = 128 };
void qkv_rank_blame_losses(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows,
                           const double *losses, char blame[QKV_RANK_BLAME]);
enum qkv_status qkv_rank_blame_norm(const struct qkv_rank_sums *sums, struct qkv_model *model,
                                    const struct qkv_train_options *options, size_t rows, char blame[QKV_RANK_BLAME]);
/* What ranks tell each other when gradients are summed, in one message: whether all went well (as qkv_rank_agree),
 * the losses of groups and the squares of the norm. It has so many doubles. */
size_t qkv_rank_card(const struct qkv_rank_cut *cut);
enum qkv_status qkv_rank_settle(const struct qkv_rank_sums *sums, struct qkv_model *model,
                                const struct qkv_train_options *options, enum qkv_status status, size_t rows,
                                double *losses);
/* Loads of the experts of all. */
enum qkv_status qkv_rank_loads(struct qkv_model *model);

#endif
