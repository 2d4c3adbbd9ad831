/* evaluate_against: two models with one vocabulary on the same windows of a text: the losses of both, and how far the
 * distribution of one is from that of the other. Scores of both exist for one window at a time. */
#ifndef QKV_EVALUATE_AGAINST_H
#define QKV_EVALUATE_AGAINST_H

#include "data/data.h"
#include "rank/evaluate_share.h"

enum { QKV_AGAINST_MODEL, QKV_AGAINST_OTHER, QKV_AGAINST_MODELS };

/* Sums over the tokens that were predicted. */
struct qkv_against_part {
    double nll[QKV_AGAINST_MODELS];
    double divergence, squares; /* of KL(other ‖ model), and of its squares */
    uint64_t same, tokens;      /* where the likeliest token is the same; all */
};
struct qkv_against {
    struct qkv_model *models[QKV_AGAINST_MODELS];
    struct qkv_pass *passes[QKV_AGAINST_MODELS];
    float *powers; /* (QKV_AGAINST_MODELS,V) */
};

/* Makes passes for windows of T positions. Fails with QKV_ARGUMENT if the models do not have the same vocabulary. */
enum qkv_status qkv_against_begin(struct qkv_against *against, struct qkv_model *model, struct qkv_model *other,
                                  size_t T);
/* Adds a part for one window of `count` positions; sum->pass is not used. */
enum qkv_status qkv_against_add(struct qkv_against *against, struct qkv_window_sum *sum, size_t count,
                                const int32_t *ids, const int32_t *targets);
struct qkv_against_part qkv_against_sum(const struct qkv_evaluate_share *share);
void qkv_against_free(struct qkv_against *against);

#endif
