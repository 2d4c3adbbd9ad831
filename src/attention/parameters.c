/* parameters: the weights of an attention sublayer, in operands. Weights that are always used together are in one
 * operand. */
#include "attention/attention.h"

#include <string.h>

/* The letters of the projections that have a bias, by kind. */
#define BIAS_PARTS(name, text, help, parts) parts,
static const char *const biases[] = {QKV_BIAS_LIST(BIAS_PARTS)};

bool qkv_bias_has(enum qkv_bias_kind kind, char projection) {
    return strchr(biases[kind], projection) != NULL;
}

/* An operand with the projections of those letters. */
static void parameters_linear(struct qkv_weights *weights, const struct qkv_weight_place *place,
                              struct qkv_linear *linear, const enum qkv_role *roles, const char *letters,
                              enum qkv_bias_kind kind) {
    const size_t count = strlen(letters);
    bool has[3];
    for (size_t i = 0; i < count; i++) has[i] = qkv_bias_has(kind, letters[i]);
    qkv_weights_matrix(weights, place, &linear->weight, roles, count);
    qkv_weights_bias(weights, place, &linear->bias, roles, has, count);
}

/* The norms of queries and keys. Their weights are as wide as the channels that share a norm. */
static void parameters_norms(struct qkv_weights *weights, const struct qkv_weight_place *place,
                             const struct qkv_qk_norm_spec *spec, bool cross,
                             struct qkv_attention_parameters *parameters) {
    const struct qkv_dimensions *d = place->sizes;
    struct qkv_dimensions sizes = *d;
    struct qkv_weight_place own = *place;
    own.sizes = &sizes;
    sizes.Nd = spec->over == QKV_NORM_OVER_HEADS ? d->D : 0;
    sizes.Nq = spec->over == QKV_NORM_OVER_HEAD ? d->D : spec->over == QKV_NORM_OVER_HEADS ? d->H : d->H * d->D;
    sizes.Nk = spec->over == QKV_NORM_OVER_HEAD ? d->D : spec->over == QKV_NORM_OVER_HEADS ? d->Hkv : d->Hkv * d->D;
    qkv_weights_norm(weights, &own, &parameters->q_norm, cross ? QKV_ROLE_CROSS_Q_NORM : QKV_ROLE_ATTN_Q_NORM,
                     &spec->norm);
    qkv_weights_norm(weights, &own, &parameters->k_norm, cross ? QKV_ROLE_CROSS_K_NORM : QKV_ROLE_ATTN_K_NORM,
                     &spec->norm);
}

/* The norms of latents. */
static struct qkv_norm_spec parameters_latent_norm(const struct qkv_latent_spec *latent) {
    return (struct qkv_norm_spec){.given = true, .kind = QKV_NORM_RMSNORM, .eps = latent->eps, .weight = true};
}

static void parameters_one(struct qkv_weights *weights, const struct qkv_weight_place *place, struct qkv_linear *linear,
                           enum qkv_role role, bool bias) {
    qkv_weights_linear(weights, place, linear, &role, 1, bias);
}

/* The weights of latent attention, except the output's. */
static void parameters_latent(struct qkv_weights *weights, const struct qkv_weight_place *place,
                              const struct qkv_attention_spec *spec, struct qkv_latent *p) {
    const struct qkv_norm_spec norm = parameters_latent_norm(&spec->latent);
    const bool q = qkv_bias_has(spec->bias, 'q'), kv = qkv_bias_has(spec->bias, 'k');
    if (spec->latent.query_rank) {
        parameters_one(weights, place, &p->q_a, QKV_ROLE_ATTN_Q_A, q);
        qkv_weights_norm(weights, place, &p->q_norm, QKV_ROLE_ATTN_Q_A_NORM, &norm);
        parameters_one(weights, place, &p->q, QKV_ROLE_ATTN_Q_B, false);
    } else {
        parameters_one(weights, place, &p->q, QKV_ROLE_ATTN_Q, q);
    }
    parameters_one(weights, place, &p->kv_a, QKV_ROLE_ATTN_KV_A, kv);
    if (spec->latent.rope_dim) parameters_one(weights, place, &p->k_rope, QKV_ROLE_ATTN_K_ROPE, kv);
    qkv_weights_norm(weights, place, &p->kv_norm, QKV_ROLE_ATTN_KV_A_NORM, &norm);
    parameters_one(weights, place, &p->k_b, QKV_ROLE_ATTN_K_B, false);
    parameters_one(weights, place, &p->v_b, QKV_ROLE_ATTN_V_B, false);
}

void qkv_attention_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                 const struct qkv_attention_spec *spec, bool cross,
                                 struct qkv_attention_parameters *parameters) {
    static const enum qkv_role self_roles[] = {QKV_ROLE_ATTN_Q, QKV_ROLE_ATTN_K, QKV_ROLE_ATTN_V, QKV_ROLE_ATTN_O};
    static const enum qkv_role cross_roles[] = {QKV_ROLE_CROSS_Q, QKV_ROLE_CROSS_K, QKV_ROLE_CROSS_V, QKV_ROLE_CROSS_O};
    const enum qkv_role *roles = cross ? cross_roles : self_roles;
    const enum qkv_bias_kind bias = spec->bias;
    if (spec->latent.given) {
        parameters_latent(weights, place, spec, &parameters->latent);
    } else if (!cross) {
        parameters_linear(weights, place, &parameters->qkv, roles, "qkv", bias);
    } else {
        parameters_linear(weights, place, &parameters->q, roles, "q", bias);
        if (place->sizes->M == place->sizes->U) {
            parameters_linear(weights, place, &parameters->kv, roles + 1, "kv", bias);
        } else {
            parameters_linear(weights, place, &parameters->k, roles + 1, "k", bias);
            parameters_linear(weights, place, &parameters->v, roles + 2, "v", bias);
        }
    }
    if (spec->qk_norm.norm.given) parameters_norms(weights, place, &spec->qk_norm, cross, parameters);
    parameters_linear(weights, place, &parameters->o, roles + 3, "o", bias);
    const enum qkv_role sinks = cross ? QKV_ROLE_CROSS_SINKS : QKV_ROLE_ATTN_SINKS;
    if (spec->sinks) qkv_weights_matrix(weights, place, &parameters->sinks, &sinks, 1);
}
