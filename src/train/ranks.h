/* ranks: several ranks train one model (qkv/ranks.h). Each has all weights and owns whole groups of the global batch, whose gradients
 * it makes, and a share of the weights, which it updates with the moments that it keeps of them. The sums of groups are added in the
 * tree of one rank (kernel.h: sums in a defined order), whoever holds them, so any number of ranks makes the same bits. */
#ifndef QKV_TRAIN_RANKS_H
#define QKV_TRAIN_RANKS_H

#include "base/base.h"

struct qkv_model;
struct qkv_trainer;
struct qkv_train_options;
struct qkv_train_report;

/* ---- what a rank owns (rank_share.c) ---------------------------------------------------------------------------------- */

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
/* The gradients [begin, end) that a rank updates, as places in the model's array of them: whole pieces of the norm. */
void qkv_rank_floats(const struct qkv_model *model, int rank, size_t *begin, size_t *end);

/* ---- gradients (rank_sums.c) ------------------------------------------------------------------------------------------- */

struct qkv_part_sums;
struct qkv_rank_sums {
    struct qkv_part_sums *parts; /* of the same model */
    struct qkv_arena arena;
    size_t slot_count;
    float *slots
        [QKV_RANK_NODES]; /* sums of nodes but the last, which the model's gradients have: gradients, then later uses */
    float *received;      /* a piece of each other rank's nodes */
};
enum qkv_status qkv_rank_sums_create(struct qkv_model *model, struct qkv_part_sums *parts,
                                     const struct qkv_train_options *options, struct qkv_rank_sums *sums);
void qkv_rank_sums_free(struct qkv_rank_sums *sums);
/* A node's parts have all been through the pass: its sum is kept where others come. */
void qkv_rank_sums_keep(struct qkv_rank_sums *sums, const struct qkv_rank_share *share, size_t node);
/* Adds up the gradients of all ranks: each has those of its own floats, the others are 0 then. */
enum qkv_status qkv_rank_sums_add(struct qkv_rank_sums *sums, const struct qkv_train_options *options, size_t rows);
/* The norm of all gradients from those that each rank has. */
enum qkv_status qkv_rank_norm(struct qkv_model *model, double *norm);
/* Every rank gets the weights that the others have updated. */
enum qkv_status qkv_rank_spread_weights(struct qkv_model *model);

/* ---- a trainer of several ranks (rank_trainer.c); with one rank nothing is to be done ---------------------------------- */

/* Whether there may be so many ranks, and all are alike: build, kernels, caches, spec and options. */
enum qkv_status qkv_rank_check(struct qkv_trainer *trainer, const struct qkv_spec *spec);
/* Losses of the groups of all ranks; loads of the experts of all. */
enum qkv_status qkv_rank_losses(struct qkv_trainer *trainer, size_t rows, double *losses);
enum qkv_status qkv_rank_loads(struct qkv_model *model);
/* Rank 0 gets the moments that others keep. */
enum qkv_status qkv_rank_collect(struct qkv_trainer *trainer);

#endif
