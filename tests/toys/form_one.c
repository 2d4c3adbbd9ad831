/* A toy: keys and values are one projection of the input, v = x·Wᵀ and k = rotated(v). It is the form of causal
 * attention whose keys and values alone have biases, without norms of queries and keys and without clip. */
#include "attention/form.h"

#include <math.h>

static bool one_fits(const struct qkv_attention_spec *spec) {
    return spec->causal && spec->bias == QKV_BIAS_KV && spec->value_dim == spec->head_dim &&
           !spec->qk_norm.norm.given && !(spec->clip > 0);
}

static int one_rotated(const struct qkv_attention_spec *spec) {
    return spec->head_dim;
}

static double one_scale(const struct qkv_attention_spec *spec) {
    return 1 / sqrt((double)spec->head_dim);
}

static struct qkv_page_heads one_cached(const struct qkv_attention_spec *spec) {
    return (struct qkv_page_heads){
        .heads = (size_t)spec->kv_heads, .k_columns = (size_t)spec->head_dim, .v_columns = (size_t)spec->head_dim};
}

static void one_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                        const struct qkv_attention_spec *spec, bool cross,
                        struct qkv_attention_parameters *parameters) {
    static const enum qkv_role q = QKV_ROLE_ATTN_Q, kv = QKV_ROLE_ATTN_KV;
    struct qkv_weight_place twice = *place;
    (void)cross;
    twice.times = 2 * (place->times ? place->times : 1);
    qkv_attention_build_linear(weights, place, &parameters->form[0], &q, "q", spec->bias);
    qkv_attention_build_linear(weights, &twice, &parameters->form[1], &kv, "k", spec->bias);
}

static struct qkv_tensor *one_linear(const struct qkv_attention_args *f, size_t i, struct qkv_tensor *x) {
    struct qkv_linear *l = &f->parameters->form[i];
    return qkv_op_linear(f->tape, x, &l->weight, qkv_tensor_or_null(&l->bias), QKV_RESULT_FOR_PRODUCTS);
}

static bool one_project(const struct qkv_attention_args *f, struct qkv_tensor *x, struct qkv_form_inputs *in) {
    const struct qkv_attend *a = f->attend;
    in->q = qkv_attention_rotate(f, one_linear(f, 0, x), 0, a->H, a->D);
    struct qkv_tensor *k = qkv_attention_rotate(f, one_linear(f, 1, x), 0, a->Hkv, a->D);
    struct qkv_tensor *kv = qkv_op_join_heads(f->tape, k, one_linear(f, 1, x), 1);
    if (!in->q || !kv) return false;
    in->k = (struct qkv_columns){kv, 0};
    in->v = (struct qkv_columns){kv, a->Hkv * a->D};
    if (!f->cache) return true;
    qkv_attention_append(f, in->k, a->Tq, false);
    return qkv_attention_cached(f, &in->k, &in->v, &in->attend);
}

const struct qkv_attention_form qkv_attention_form_one = {.name = "one",
                                                          .fits = one_fits,
                                                          .rotated_key = "head_dim",
                                                          .rotated = one_rotated,
                                                          .scale = one_scale,
                                                          .cached = one_cached,
                                                          .weights = one_weights,
                                                          .project = one_project};
