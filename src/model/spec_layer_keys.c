/* The keys of a layer: its attention with a position, norm and feed-forward. A line each, with type, range, default and where it
 * means something. The order is the order of printing, and a default may depend on what stands before. */
#include "kernel/kernel.h"
#include "model/spec_tables.h"

_Static_assert(sizeof(enum qkv_position_kind) == sizeof(int) && sizeof(enum qkv_bias_kind) == sizeof(int),
               "choices are read and written as int");

enum { EXPERTS = 1 << 12 }; /* the most of a layer */

/* ---- choices ---------------------------------------------------------------------------------------------------- */

static const char *const positions[] = {QKV_POSITION_LIST(POSITION_TEXT) NULL};
/* Parts of a list: a choice without a text cannot be made here. */
#define GAP(name, text, help, file) "",
static const char *const attention_positions[] = {"none", QKV_EMBED_POSITION_LIST(GAP)
                                                              QKV_ATTENTION_POSITION_LIST(POSITION_TEXT) NULL};
CHOICES(alibi_forms, QKV_ALIBI_LIST);
CHOICES(pairings, QKV_PAIRING_LIST);
#define BIAS_TEXT(name, text, help, parts) text,
static const char *const biases[] = {QKV_BIAS_LIST(BIAS_TEXT) NULL};
#define SCALING_TEXT(name, text, help, by_length) text,
static const char *const scalings[] = {QKV_SCALING_LIST(SCALING_TEXT) NULL};
#define NORM_TEXT(name, text, help, centered, offset) text,
const char *const qkv_norm_texts[] = {QKV_NORM_LIST(NORM_TEXT) NULL};
CHOICES(norm_overs, QKV_NORM_OVER_LIST);
#define PLACEMENT_TEXT(name, text, help, file, final, norms, whole) text,
static const char *const placements[] = {QKV_PLACEMENT_LIST(PLACEMENT_TEXT) NULL};
#define PLACEMENT_FINAL(name, text, help, file, final, norms, whole) final,
static const bool final_placements[] = {QKV_PLACEMENT_LIST(PLACEMENT_FINAL)};
#define PLACEMENT_NORMS(name, text, help, file, final, norms, whole) QKV_BLOCK_NORMS_##norms,
enum qkv_block_norms qkv_placement_norms(enum qkv_placement placement) {
    static const enum qkv_block_norms norms_of_placements[] = {QKV_PLACEMENT_LIST(PLACEMENT_NORMS)};
    return norms_of_placements[placement];
}

CHOICES(expert_scores, QKV_EXPERT_SCORES_LIST);
CHOICES(group_scores, QKV_GROUP_SCORE_LIST);
#define FFN_TEXT(name, text, help, activation, gated) text,
static const char *const ffns[] = {QKV_FFN_LIST(FFN_TEXT) NULL};
#define FFN_GATED(name, text, help, activation, gated) gated,
static const bool gated_ffns[] = {QKV_FFN_LIST(FFN_GATED)};
bool qkv_ffn_gated(enum qkv_ffn_kind kind) {
    return gated_ffns[kind];
}

int qkv_ffn_width(enum qkv_ffn_kind kind, int d_model) {
    const int64_t wide = 4 * (int64_t)d_model, multiple = d_model < 1024 ? 8 : 256;
    const int64_t d_ff = qkv_ffn_gated(kind) ? (2 * wide / 3 + multiple - 1) / multiple * multiple : wide;
    return d_ff < INT_MAX ? (int)d_ff : INT_MAX;
}

/* ---- defaults that depend on something ----------------------------------------------------------------------- */

static double rule_kv_heads(const struct qkv_place *p) {
    return ((const struct qkv_attention_spec *)p->object)->heads;
}

/* 0 where heads does not divide d_model, which the check explains. */
static double rule_head_dim(const struct qkv_place *p) {
    int H = ((const struct qkv_attention_spec *)p->object)->heads;
    const int C = qkv_stack_width(p->spec, p->stack);
    return H > 0 && C % H == 0 ? C / H : 0;
}

static double rule_value_dim(const struct qkv_place *p) {
    return ((const struct qkv_attention_spec *)p->object)->head_dim;
}

static const struct qkv_attention_spec *rule_attention(const struct qkv_place *p) {
    const void *attention = (const char *)p->object - offsetof(struct qkv_attention_spec, latent);
    return attention;
}

/* The published models have four times the width of a head. */
static double rule_rank(const struct qkv_place *p) {
    const double wide = 4 * (double)rule_attention(p)->head_dim, most = qkv_stack_width(p->spec, p->stack) / 2;
    return wide < most || most < 1 ? wide : most;
}

static double rule_rope_dim(const struct qkv_place *p) {
    return rule_attention(p)->head_dim / 4 * 2;
}

static double rule_causal(const struct qkv_place *p) {
    return p->stack == &p->spec->decoder;
}

static double rule_final(const struct qkv_place *p) {
    return final_placements[((const struct qkv_norm_spec *)p->object)->placement];
}

double qkv_rule_norm_bias(const struct qkv_place *p) {
    const struct qkv_norm_spec *norm = p->object;
    return norm->weight && qkv_norm_centered(norm->kind);
}

static double rule_d_ff(const struct qkv_place *p) {
    return qkv_ffn_width(((const struct qkv_ffn_spec *)p->object)->kind, qkv_stack_width(p->spec, p->stack));
}

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

static double rule_attention_position(const struct qkv_place *p) {
    return qkv_position_in_attention(p->written->position.kind) ? p->written->position.kind : QKV_POSITION_NONE;
}

static double rule_theta(const struct qkv_place *p) {
    return p->written->position.kind == QKV_POSITION_ROPE ? p->written->position.theta : 10000;
}

static double rule_pairing(const struct qkv_place *p) {
    return p->written->position.kind == QKV_POSITION_ROPE ? p->written->position.pairing : QKV_PAIRING_HALF;
}

static double rule_fraction(const struct qkv_place *p) {
    return p->written->position.kind == QKV_POSITION_ROPE ? p->written->position.fraction : 1;
}

/* Of a position of the same kind that is said for the whole model. */
static const struct qkv_position_spec *rule_written(const struct qkv_place *p) {
    const struct qkv_position_spec *own = p->object, *whole = &p->written->position;
    return own->kind == whole->kind ? whole : NULL;
}

static double rule_form(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole ? whole->form : QKV_ALIBI_PRESS;
}

static double rule_max(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole && whole->form == QKV_ALIBI_MPT ? whole->max : 8;
}

static double rule_learn(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole && whole->learn;
}

static double rule_buckets(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    return whole && whole->kind == QKV_POSITION_BUCKETS ? whole->buckets : 32;
}

static double rule_max_distance(const struct qkv_place *p) {
    const struct qkv_position_spec *whole = rule_written(p);
    const bool has = whole && (whole->kind == QKV_POSITION_BUCKETS || whole->kind == QKV_POSITION_RELATIVE);
    return has ? whole->max_distance : 128;
}

/* Of the whole model, where that is said in one place, as in version 1. */
static double rule_position(const struct qkv_place *p) {
    return p->written->version == 1 ? QKV_POSITION_LEARNED : QKV_POSITION_NONE;
}

/* ---- where keys mean something ---------------------------------------------------------------------------------- */

static bool in_rope(const struct qkv_place *p) {
    return ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_ROPE;
}

static bool in_clamped(const struct qkv_place *p) {
    return ((const struct qkv_ffn_spec *)p->object)->kind == QKV_FFN_SWIGLU_CLAMPED;
}

static bool in_scored(const struct qkv_place *p) {
    return experts_of(p)->scores != QKV_EXPERT_SCORES_CHOSEN;
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

static bool in_alibi(const struct qkv_place *p) {
    return ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_ALIBI;
}

static bool in_mpt(const struct qkv_place *p) {
    return in_alibi(p) && ((const struct qkv_position_spec *)p->object)->form == QKV_ALIBI_MPT;
}

static bool in_buckets(const struct qkv_place *p) {
    return ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_BUCKETS;
}

static bool in_far(const struct qkv_place *p) {
    return in_buckets(p) || ((const struct qkv_position_spec *)p->object)->kind == QKV_POSITION_RELATIVE;
}

static bool in_self_attention(const struct qkv_place *p) {
    return !p->like;
}

/* The norm after the last layer is of that layer's kind. */
static bool ends_a_stack(const struct qkv_place *p) {
    const struct qkv_stack_spec *s = p->stack;
    return s->layers < 1 || s->layers > QKV_LAYERS_MAX || p->layer == &s->kinds[s->kind_of[s->layers - 1]];
}

static const struct qkv_scaling_spec *scaling_of(const struct qkv_place *p) {
    return p->object;
}

static bool in_original(const struct qkv_place *p) {
    const enum qkv_scaling_kind kind = scaling_of(p)->kind;
    return kind != QKV_SCALING_LINEAR && kind != QKV_SCALING_NTK;
}

static bool in_yarn(const struct qkv_place *p) {
    return scaling_of(p)->kind == QKV_SCALING_YARN;
}

static bool in_llama3(const struct qkv_place *p) {
    return scaling_of(p)->kind == QKV_SCALING_LLAMA3;
}

static bool in_longrope(const struct qkv_place *p) {
    return scaling_of(p)->kind == QKV_SCALING_LONGROPE;
}

/* ---- the tables ------------------------------------------------------------------------------------------------- */

#define ABOVE_0 .flags = QKV_KEY_ABOVE_LOW
const struct qkv_key qkv_scaling_keys[] = {
    CHOICE(qkv_scaling_spec, kind, scalings, .flags = QKV_KEY_REQUIRED),
    REAL(qkv_scaling_spec, factor, 1, FLT_MAX, "a number of at least 1", .flags = QKV_KEY_NULL),
    WHOLE(qkv_scaling_spec, original_context, 1, 1 << 24, .applies = in_original, .flags = QKV_KEY_NULL,
          .owner = "a scaling of kind dynamic, yarn, llama3 or longrope"),
    REAL(qkv_scaling_spec, beta_fast, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 32, .applies = in_yarn,
         .owner = "a scaling of kind yarn"),
    REAL(qkv_scaling_spec, beta_slow, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 1, .applies = in_yarn,
         .owner = "a scaling of kind yarn"),
    FLAG(qkv_scaling_spec, truncate, .value = true, .applies = in_yarn, .owner = "a scaling of kind yarn"),
    REAL(qkv_scaling_spec, mscale, 0, FLT_MAX, "a number of at least 0", .applies = in_yarn,
         .owner = "a scaling of kind yarn"),
    REAL(qkv_scaling_spec, mscale_all_dim, 0, FLT_MAX, "a number of at least 0", .applies = in_yarn,
         .owner = "a scaling of kind yarn"),
    REAL(qkv_scaling_spec, low_freq, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 1, .applies = in_llama3,
         .owner = "a scaling of kind llama3"),
    REAL(qkv_scaling_spec, high_freq, 0, FLT_MAX, "a number greater than 0", ABOVE_0, .value = 4, .applies = in_llama3,
         .owner = "a scaling of kind llama3"),
    REAL(qkv_scaling_spec, attention_factor, 0, FLT_MAX, "a number greater than 0, or null for the kind's own",
         .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_NULL),
    LIST(qkv_scaling_spec, "short", short_factors, 0, "numbers greater than 0", ABOVE_0, .applies = in_longrope,
         .owner = "a scaling of kind longrope"),
    LIST(qkv_scaling_spec, "long", long_factors, 0, "numbers greater than 0", ABOVE_0, .applies = in_longrope,
         .owner = "a scaling of kind longrope"),
    END,
};
#undef ABOVE_0

/* Whether theta is a rotation's own, or by default that of the whole model, is what the two tables differ in. */
#define ROTATION_KEYS(theta_rule, pairing_rule, fraction_rule)                                                         \
    REAL(qkv_position_spec, theta, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE,   \
         .value = 10000, .rule = theta_rule, .applies = in_rope, .owner = "position.kind rope"),                       \
        CHOICE(qkv_position_spec, pairing, pairings, .flags = QKV_KEY_IDLE, .value = QKV_PAIRING_HALF,                 \
               .rule = pairing_rule, .applies = in_rope, .owner = "position.kind rope"),                               \
        REAL(qkv_position_spec, fraction, 0, 1, "a number greater than 0 and at most 1",                               \
             .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE, .value = 1, .rule = fraction_rule, .applies = in_rope,         \
             .owner = "position.kind rope"),                                                                           \
        OBJECT(qkv_position_spec, scaling, qkv_scaling_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_IDLE,                 \
               .applies = in_rope, .owner = "position.kind rope")

/* The same of biases by distance. */
#define DISTANCE_KEYS(form_rule, max_rule, learn_rule, buckets_rule, max_distance_rule)                                \
    CHOICE(qkv_position_spec, form, alibi_forms, .flags = QKV_KEY_LATER | QKV_KEY_IDLE, .neutral = QKV_ALIBI_PRESS,    \
           .value = QKV_ALIBI_PRESS, .rule = form_rule, .applies = in_alibi, .owner = "position.kind alibi"),          \
        REAL(qkv_position_spec, max, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE, \
             .value = 8, .rule = max_rule, .applies = in_mpt, .owner = "position.kind alibi of form mpt"),             \
        FLAG(qkv_position_spec, learn, .flags = QKV_KEY_LATER | QKV_KEY_IDLE, .neutral = false, .rule = learn_rule,    \
             .applies = in_alibi, .owner = "position.kind alibi"),                                                     \
        WHOLE(qkv_position_spec, buckets, 2, DIMENSION, .flags = QKV_KEY_IDLE, .value = 32, .rule = buckets_rule,      \
              .applies = in_buckets, .owner = "position.kind buckets"),                                                \
        WHOLE(qkv_position_spec, max_distance, 1, DIMENSION, .flags = QKV_KEY_IDLE, .value = 128,                      \
              .rule = max_distance_rule, .applies = in_far, .owner = "position.kind buckets or relative")

const struct qkv_key qkv_position_keys[] = {
    CHOICE(qkv_position_spec, kind, positions, .rule = rule_position),
    ROTATION_KEYS(NULL, NULL, NULL),
    DISTANCE_KEYS(NULL, NULL, NULL, NULL, NULL),
    END,
};

static const struct qkv_key attention_position_keys[] = {
    CHOICE(qkv_position_spec, kind, attention_positions, .rule = rule_attention_position),
    ROTATION_KEYS(rule_theta, rule_pairing, rule_fraction),
    DISTANCE_KEYS(rule_form, rule_max, rule_learn, rule_buckets, rule_max_distance),
    END,
};

static const struct qkv_key qk_norm_keys[] = {
    NORM_KEYS,
    CHOICE(qkv_qk_norm_spec, over, norm_overs, .value = QKV_NORM_OVER_HEAD),
    END,
};

static const struct qkv_key latent_keys[] = {
    WHOLE(qkv_latent_spec, rank, 1, DIMENSION, .rule = rule_rank),
    WHOLE(qkv_latent_spec, query_rank, 0, DIMENSION, .value = 0),
    WHOLE(qkv_latent_spec, rope_dim, 0, DIMENSION, .rule = rule_rope_dim),
    REAL(qkv_latent_spec, eps, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW, .value = 1e-6),
    END,
};

const struct qkv_key qkv_attention_keys[] = {
    WHOLE(qkv_attention_spec, heads, 1, DIMENSION, .flags = QKV_KEY_REQUIRED),
    WHOLE(qkv_attention_spec, kv_heads, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_kv_heads),
    WHOLE(qkv_attention_spec, head_dim, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_head_dim),
    WHOLE(qkv_attention_spec, value_dim, 1, DIMENSION, .flags = QKV_KEY_OF_HEADS, .rule = rule_value_dim),
    FLAG(qkv_attention_spec, causal, .flags = QKV_KEY_MASK, .rule = rule_causal),
    WHOLE(qkv_attention_spec, window, 0, INT_MAX, .flags = QKV_KEY_MASK),
    WHOLE(qkv_attention_spec, window_right, 0, INT_MAX, .flags = QKV_KEY_MASK | QKV_KEY_LATER),
    REAL(qkv_attention_spec, softcap, 0, FLT_MAX, "a number from 2.94e-39 to 3.4e38, or 0 for none",
         .flags = QKV_KEY_SOFTCAP, .value = 0),
    REAL(qkv_attention_spec, scale, 0, FLT_MAX, "a number greater than 0, or null for 1/sqrt(head_dim)",
         .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_NULL),
    CHOICE(qkv_attention_spec, bias, biases, .value = QKV_BIAS_ALL),
    OBJECT(qkv_attention_spec, qk_norm, qk_norm_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER),
    OBJECT(qkv_attention_spec, latent, latent_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER,
           .applies = in_self_attention, .owner = "self attention"),
    REAL(qkv_attention_spec, clip, 0, FLT_MAX, "a number greater than 0, or 0 for none", .flags = QKV_KEY_LATER),
    FLAG(qkv_attention_spec, sinks, .flags = QKV_KEY_LATER, .neutral = false),
    REAL(qkv_attention_spec, dropout, 0, 1, RATE_TEXT, .flags = RATE_FLAGS),
    OBJECT(qkv_attention_spec, position, attention_position_keys, .flags = QKV_KEY_VERSION_2,
           .applies = in_self_attention, .owner = "self attention"),
    END,
};

const struct qkv_key qkv_norm_keys[] = {
    NORM_KIND,
    CHOICE(qkv_norm_spec, placement, placements, .value = QKV_PLACEMENT_PRE),
    NORM_EPS,
    FLAG(qkv_norm_spec, final, .flags = QKV_KEY_IDLE, .rule = rule_final, .applies = ends_a_stack,
         .owner = "the kind of the last layer"),
    NORM_AFFINE,
    FLAG(qkv_norm_spec, attention, .flags = QKV_KEY_LATER, .neutral = true, .value = true),
    END,
};

const struct qkv_key qkv_norm_only_keys[] = {NORM_KEYS, END};

const struct qkv_key qkv_experts_keys[] = {
    WHOLE(qkv_experts_spec, count, 1, EXPERTS, .flags = QKV_KEY_REQUIRED),
    WHOLE(qkv_experts_spec, top_k, 1, EXPERTS, .rule = rule_top_k),
    CHOICE(qkv_experts_spec, scores, expert_scores, .value = QKV_EXPERT_SCORES_SOFTMAX),
    FLAG(qkv_experts_spec, normalize, .flags = QKV_KEY_IDLE, .value = true, .applies = in_scored,
         .owner = "experts.scores softmax or sigmoid"),
    REAL(qkv_experts_spec, scale, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW, .value = 1),
    FLAG(qkv_experts_spec, bias, .value = false),
    FLAG(qkv_experts_spec, correction, .value = false),
    REAL(qkv_experts_spec, correction_rate, 0, FLT_MAX, "a number of at least 0", .flags = QKV_KEY_IDLE, .value = 0.001,
         .applies = in_corrected, .owner = "experts.correction true"),
    WHOLE(qkv_experts_spec, groups, 1, EXPERTS, .value = 1),
    WHOLE(qkv_experts_spec, top_groups, 1, EXPERTS, .flags = QKV_KEY_IDLE, .rule = rule_top_groups,
          .applies = in_groups, .owner = "experts.groups of at least 2"),
    CHOICE(qkv_experts_spec, group_score, group_scores, .flags = QKV_KEY_IDLE, .rule = rule_group_score,
           .applies = in_groups, .owner = "experts.groups of at least 2"),
    WHOLE(qkv_experts_spec, shared, 0, DIMENSION, .value = 0),
    FLAG(qkv_experts_spec, shared_gate, .flags = QKV_KEY_IDLE, .applies = in_shared,
         .owner = "experts.shared of at least 1"),
    REAL(qkv_experts_spec, balance_loss, 0, FLT_MAX, "a number of at least 0", .rule = rule_balance_loss),
    REAL(qkv_experts_spec, z_loss, 0, FLT_MAX, "a number of at least 0", .value = 0),
    END,
};

const struct qkv_key qkv_ffn_keys[] = {
    CHOICE(qkv_ffn_spec, kind, ffns, .value = QKV_FFN_GELU),
    WHOLE(qkv_ffn_spec, d_ff, 1, DIMENSION, .rule = rule_d_ff),
    FLAG(qkv_ffn_spec, bias, .value = true),
    REAL(qkv_ffn_spec, dropout, 0, 1, "a number from 0 to less than 1", .flags = QKV_KEY_BELOW_HIGH | QKV_KEY_LATER),
    REAL(qkv_ffn_spec, limit, 0, FLT_MAX, "a number greater than 0", .flags = QKV_KEY_ABOVE_LOW | QKV_KEY_IDLE,
         .value = 7, .applies = in_clamped, .owner = "ffn.kind swiglu_clamped"),
    OBJECT(qkv_ffn_spec, experts, qkv_experts_keys, .flags = QKV_KEY_OPTIONAL | QKV_KEY_LATER),
    END,
};

const struct qkv_key qkv_layer_keys[] = {LAYER_KEYS(qkv_layer_spec, , NULL), END};
