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

static bool one_differ(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b,
                       char text[QKV_DIFFER_TEXT]) {
    return qkv_attention_differ("kv_heads", a->kv_heads, b->kv_heads, text) ||
           qkv_attention_differ("head_dim", a->head_dim, b->head_dim, text);
}

static void one_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                        const struct qkv_attention_spec *spec, bool cross,
                        struct qkv_attention_parameters *parameters) {
    static const enum qkv_role q = QKV_ROLE_ATTN_Q, kv = QKV_ROLE_ATTN_KV;
    struct qkv_weight_place twice = *place;
    (void)cross;
    twice.times = 2 * (place->times ? place->times : 1);
    qkv_attention_build_linear(weights, place, &parameters->form[0], &q, "q", spec->bias);
    if (!spec->share) qkv_attention_build_linear(weights, &twice, &parameters->form[1], &kv, "k", spec->bias);
}

static struct qkv_tensor *one_linear(const struct qkv_attention_args *f, size_t i, struct qkv_tensor *x) {
    struct qkv_linear *l = &f->parameters->form[i];
    return qkv_op_linear(f->tape, x, &l->weight, qkv_tensor_or_null(&l->bias), QKV_RESULT_FOR_PRODUCTS);
}

/* Keys, then values of x; also appends them to the cache, if there is one. */
static struct qkv_layer_keys one_keys(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    const struct qkv_attend *a = f->attend;
    struct qkv_tensor *k = qkv_attention_rotate(f, one_linear(f, 1, x), 0, a->Hkv, a->D);
    struct qkv_tensor *kv = qkv_op_join_heads(f->tape, k, one_linear(f, 1, x), 1);
    const struct qkv_layer_keys keys = {{kv, 0}, {kv, a->Hkv * a->D}};
    if (kv && f->cache) qkv_attention_append(f, keys.k, a->Tq, false);
    if (f->keys) *f->keys = keys;
    return keys;
}

static bool one_project(const struct qkv_attention_args *f, struct qkv_tensor *x, struct qkv_form_inputs *in) {
    const struct qkv_attend *a = f->attend;
    struct qkv_layer_keys keys = {0};
    in->q = qkv_attention_rotate(f, one_linear(f, 0, x), 0, a->H, a->D);
    if (!f->spec->share)
        keys = one_keys(f, x);
    else if (f->keys)
        keys = *f->keys;
    in->k = keys.k, in->v = keys.v;
    if (f->cache && !qkv_attention_cached(f, &in->k, &in->v, &in->attend)) return false;
    return in->q && in->k.x;
}

const struct qkv_attention_form qkv_attention_form_one = {.name = "one",
                                                          .fits = one_fits,
                                                          .rotated_key = "head_dim",
                                                          .rotated = one_rotated,
                                                          .scale = one_scale,
                                                          .cached = one_cached,
                                                          .differ = one_differ,
                                                          .weights = one_weights,
                                                          .project = one_project};
