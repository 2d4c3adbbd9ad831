/* The keys of a mixture of experts. One entry for each key, as in spec_keys.c. */
#include "model/spec_tables.h"

enum { EXPERTS = 1 << 12 }; /* the largest number in a layer */

CHOICES(expert_scores, QKV_EXPERT_SCORES_LIST);
CHOICES(group_scores, QKV_GROUP_SCORE_LIST);

/* ---- defaults that depend on something ----------------------------------------------------------------------- */

static const struct qkv_experts_spec *experts_of(const struct qkv_place *p) {
    return p->object;
}

static double rule_top_k(const struct qkv_place *p) {
    return experts_of(p)->count == 1 ? 1 : 2;
}

static double rule_top_groups(const struct qkv_place *p) {
    return experts_of(p)->groups;
}

static double rule_group_score(const struct qkv_place *p) {
    return experts_of(p)->scores == QKV_EXPERT_SCORES_SIGMOID ? QKV_GROUP_SCORE_TOP2 : QKV_GROUP_SCORE_MAX;
}

static double rule_balance_loss(const struct qkv_place *p) {
    return experts_of(p)->correction ? 0 : 0.01;
}

/* ---- where keys mean something ---------------------------------------------------------------------------------- */

static bool in_scored(const struct qkv_place *p) {
    const enum qkv_expert_scores scores = experts_of(p)->scores;
    return scores == QKV_EXPERT_SCORES_SOFTMAX || scores == QKV_EXPERT_SCORES_SIGMOID;
}

static bool in_sparsemixer(const struct qkv_place *p) {
    return experts_of(p)->scores == QKV_EXPERT_SCORES_SPARSEMIXER;
}

static bool in_corrected(const struct qkv_place *p) {
    return experts_of(p)->correction;
}

static bool in_groups(const struct qkv_place *p) {
    return experts_of(p)->groups > 1;
}

static bool in_shared(const struct qkv_place *p) {
    return experts_of(p)->shared > 0;
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

#define COUNT .needs = "count=8"
const struct qkv_key qkv_experts_keys[] = {
    WHOLE(qkv_experts_spec, count, 1, EXPERTS, .flags = QKV_KEY_REQUIRED, .example = "8",
          .help = "The number of experts of a layer. Each expert is a feed-forward with the kind, d_ff, bias and limit "
                  "of ffn."),
    WHOLE(qkv_experts_spec, top_k, 1, EXPERTS, .rule = rule_top_k, .standard = "2, or 1 for a single expert", COUNT,
          .example = "1", .help = "How many experts the router chooses for each token."),
    CHOICE(qkv_experts_spec, scores, expert_scores, .value = QKV_EXPERT_SCORES_SOFTMAX, COUNT,
           .help = "How the router computes the scores of the experts from its logits."),
    FLAG(qkv_experts_spec, normalize, .flags = QKV_KEY_IDLE, .value = true, .applies = in_scored, COUNT,
         .owner = "experts.scores softmax or sigmoid",
         .help = "Whether the weights of the chosen experts are divided by their sum."),
    REAL(qkv_experts_spec, scale, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW, .value = 1, COUNT,
         .example = "2.5", .help = "Multiplies the weights of the chosen experts. DeepSeek V3 has 2.5."),
    FLAG(qkv_experts_spec, scale_inputs, .flags = QKV_KEY_LATER, .neutral = false, COUNT,
         .help = "Whether weights multiply the inputs of experts, and not their outputs (Llama 4)."),
    REAL(qkv_experts_spec, margin, 0, FLT_MAX, "a number of at least 0", .flags = QKV_KEY_IDLE, .value = 0.02,
         .applies = in_sparsemixer, .owner = "experts.scores sparsemixer", .needs = "count=8 scores=sparsemixer",
         .example = "0.1",
         .help = "An expert with logit s counts for the weight of a chosen one with logit c if c - s is at most "
                 "margin*max(|s|, c) (PhiMoE)."),
    FLAG(qkv_experts_spec, bias, .value = false, COUNT, .help = "Whether the router has a bias (gpt-oss)."),
    FLAG(qkv_experts_spec, unbiased, .flags = QKV_KEY_LATER, .neutral = false, COUNT,
         .help =
             "Whether the experts have no biases, whatever ffn.bias says: it is then that of the shared feed-forward "
             "alone (ERNIE 4.5)."),
    FLAG(qkv_experts_spec, correction, .value = false, COUNT,
         .help = "Whether the router adds a number for each expert to the scores that choose experts. Training moves "
                 "these numbers so that all experts get as many tokens (Wang et al. 2024, DeepSeek V3)."),
    REAL(qkv_experts_spec, correction_rate, 0, FLT_MAX, "a number of at least 0", .flags = QKV_KEY_IDLE, .value = 0.001,
         .applies = in_corrected, .owner = "experts.correction true", .needs = "count=8 correction=true",
         .example = "0.01",
         .help = "The change of these numbers in a step: up for an expert that got fewer tokens than the mean, down "
                 "for one that got more."),
    WHOLE(qkv_experts_spec, groups, 1, EXPERTS, .value = 1, COUNT, .example = "4",
          .help = "The number of groups of neighbouring experts. It divides count."),
    WHOLE(qkv_experts_spec, top_groups, 1, EXPERTS, .flags = QKV_KEY_IDLE, .rule = rule_top_groups,
          .standard = "the same as groups", .applies = in_groups, .owner = "experts.groups of at least 2",
          .needs = "count=8 groups=4", .example = "2",
          .help = "A token chooses its experts only from this many groups: those with the best scores."),
    CHOICE(qkv_experts_spec, group_score, group_scores, .flags = QKV_KEY_IDLE, .rule = rule_group_score,
           .standard = "top2 with scores sigmoid, else max", .applies = in_groups,
           .owner = "experts.groups of at least 2", .needs = "count=8 groups=4", .example = "\"top2\"",
           .help = "The score of a group."),
    WHOLE(qkv_experts_spec, shared, 0, DIMENSION, .value = 0, COUNT, .example = "512",
          .help = "The width of one more feed-forward, which every token goes through. 0 means none."),
    FLAG(qkv_experts_spec, shared_gate, .flags = QKV_KEY_IDLE, .applies = in_shared,
         .owner = "experts.shared of at least 1", .needs = "count=8 shared=512",
         .help =
             "Whether the shared feed-forward is multiplied by sigmoid(x*w), w being a learned vector (Qwen2-MoE)."),
    REAL(qkv_experts_spec, balance_loss, 0, FLT_MAX, "a number of at least 0", .rule = rule_balance_loss,
         .standard = "0.01, or 0 with a correction", COUNT, .example = "0.1",
         .help = "The weight of a loss that spreads tokens evenly over experts (Fedus et al. 2021). It changes "
                 "gradients, not the reported loss."),
    REAL(qkv_experts_spec, z_loss, 0, FLT_MAX, "a number of at least 0", .value = 0, COUNT, .example = "0.001",
         .help = "The weight of a loss that keeps the router's logits small (Zoph et al. 2022). It changes gradients, "
                 "not the reported loss."),
    END,
};
