/* parts: the rows of a step's batch go through the pass part by part, and the gradients of parts are added in the order
 * of a tree (parts.c). */
#ifndef QKV_RANK_PARTS_H
#define QKV_RANK_PARTS_H

#include "base/base.h"

struct qkv_pass_part;
struct qkv_rank_share;
struct qkv_tensor;

/* How a step's rows go through the pass (parts.c). */
struct qkv_parts {
    size_t rows, groups; /* groups 0: none, the parts are as even as they can be */
    size_t parts, most;  /* parts that were asked for, and rows of one, at most */
    size_t count;        /* of parts so far; the latest: */
    size_t begin, end, group, group_end;
    bool whole;                              /* its last group ends with it */
    size_t row_end, group_first, group_last; /* rows behind the last part; the groups that all parts are of */
    bool several;                            /* gradients are added part by part, as the tree says */
};
/* Before the first part. */
struct qkv_parts qkv_parts_of(const struct qkv_train_options *options, size_t rows);
/* Those of a rank's node of the tree alone. */
struct qkv_parts qkv_parts_of_node(const struct qkv_train_options *options, size_t rows,
                                   const struct qkv_rank_share *share, size_t node);
/* Rows of a part of a batch of so many, at most, on this rank. */
size_t qkv_parts_most(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows);
/* Goes to the next; false behind the last. */
bool qkv_parts_next(struct qkv_parts *parts);
/* Bit i: sums of level i have to wait for others; bit 63: there are several parts with groups. */
uint64_t qkv_parts_levels(const struct qkv_context *ctx, const struct qkv_train_options *options, size_t rows);
/* What a pass needs to know of the part; losses: of all groups. */
void qkv_parts_tell(const struct qkv_parts *parts, double *losses, struct qkv_pass_part *part);
/* All losses together, as the tree says. */
double qkv_parts_loss(const struct qkv_parts *parts, const double *losses);
enum { QKV_PART_LEVELS = 8 };
/* Gradients that wait, made once for all levels that a run needs (qkv_parts_levels, or-ed). */
struct qkv_part_sums {
    struct qkv_model *model;
    struct qkv_arena arena;
    /* of weights that a pass uses more than once: a sum for each use but the first; then a byte for each of their
     * rows, 0: zeros */
    float *later;
    size_t later_floats, later_bytes;
    float *levels[QKV_PART_LEVELS];   /* gradients, then those, then bytes, 0: zeros, whatever the row holds */
    struct qkv_gradient_carry *carry; /* of the part in work; NULL: there is one part */
    struct qkv_parts latest;          /* the part in work */
    enum qkv_status status;           /* the first failure of the step */
};
/* Floats from one later use of a weight to the next, and how many there are. */
size_t qkv_parts_later(const struct qkv_tensor *weight, size_t *uses);
/* Floats of later uses of all weights. */
size_t qkv_parts_later_all(const struct qkv_model *model);
enum qkv_status qkv_parts_bytes(const struct qkv_model *model, uint64_t levels, size_t *bytes);
enum qkv_status qkv_part_sums_create(struct qkv_model *model, uint64_t levels, struct qkv_part_sums *sums);
void qkv_part_sums_free(struct qkv_part_sums *sums);
/* Before the first part of a step; before each; and after each, which returns the first failure of the step. */
void qkv_part_sums_begin(struct qkv_part_sums *sums, const struct qkv_parts *parts);
void qkv_part_sums_next(struct qkv_part_sums *sums, const struct qkv_parts *parts);
enum qkv_status qkv_part_sums_end(struct qkv_part_sums *sums, const struct qkv_parts *parts);
/* While backward runs over a whole part that is not to be added to any later one: the gradient of a weight that is
 * used once is complete in this part, and now has the sums that wait for it. */
void qkv_part_sums_complete(struct qkv_part_sums *sums, struct qkv_tensor *weight);

#endif
