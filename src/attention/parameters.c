/* parameters: the weights of an attention sublayer: those of its form, and those that every form has. */
#include "attention/form.h"

/* The norms of queries and, if the layer has keys of its own, of keys. Their weights are as wide as the channels that
 * share a norm. */
static void parameters_norms(struct qkv_weights *weights, const struct qkv_weight_place *place,
                             const struct qkv_qk_norm_spec *spec, bool cross, bool keys,
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
    if (keys)
        qkv_weights_norm(weights, &own, &parameters->k_norm, cross ? QKV_ROLE_CROSS_K_NORM : QKV_ROLE_ATTN_K_NORM,
                         &spec->norm);
}

void qkv_attention_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                 const struct qkv_attention_spec *spec, bool cross,
                                 struct qkv_attention_parameters *parameters) {
    const enum qkv_role o = cross ? QKV_ROLE_CROSS_O : QKV_ROLE_ATTN_O;
    const enum qkv_role sinks = cross ? QKV_ROLE_CROSS_SINKS : QKV_ROLE_ATTN_SINKS;
    qkv_attention_form_of(spec)->weights(weights, place, spec, cross, parameters);
    if (spec->qk_norm.norm.given)
        parameters_norms(weights, place, &spec->qk_norm, cross, cross || !spec->share, parameters);
    qkv_attention_build_linear(weights, place, &parameters->o, &o, "o", spec->bias);
    if (spec->sinks) qkv_weights_matrix(weights, place, &parameters->sinks, &sinks, 1);
}
