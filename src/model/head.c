/* head: from hidden states to scores: a transform (dense, activation, norm), the product with the vocabulary or the
 * classes, and the softcap. */
#include "model/model.h"

#include <math.h>

/* Without a norm only the product of the scores reads the result, so it may be bf16. */
struct qkv_tensor *qkv_head_transform(struct qkv_tape *tape, struct qkv_model *m, struct qkv_tensor *x) {
    const struct qkv_head_transform_spec *spec = &m->spec.head.transform;
    struct qkv_tensor *weight = &m->head_transform.weight, *bias = qkv_tensor_or_null(&m->head_transform.bias);
    const enum qkv_result result = spec->norm.given ? QKV_RESULT_FP32 : QKV_RESULT_FOR_PRODUCTS;
    const enum qkv_ffn_kind kind = (enum qkv_ffn_kind)(spec->activation - 1);
    const bool active = spec->activation != QKV_TRANSFORM_NONE;
    if (!spec->given) return x;
    if (active && !spec->norm.given) return qkv_op_linear_activation(tape, x, weight, bias, kind, false, 0);
    x = qkv_op_linear(tape, x, weight, bias, result);
    if (active) x = qkv_op_activation(tape, x, kind);
    return spec->norm.given ? qkv_norm_apply(tape, &spec->norm, &m->head_norm, x, QKV_RESULT_FOR_PRODUCTS) : x;
}

struct qkv_softcap qkv_head_softcap(const struct qkv_model *m) {
    return (struct qkv_softcap){.scale = (float)m->spec.head.scale, .cap = (float)m->spec.head.softcap};
}

struct qkv_tensor *qkv_head_scores(struct qkv_tape *tape, struct qkv_model *m, struct qkv_tensor *x, float *out) {
    const struct qkv_softcap softcap = qkv_head_softcap(m);
    x = qkv_head_transform(tape, m, x);
    return qkv_op_scores(tape, x, m->head_weight, qkv_tensor_or_null(&m->head.bias), &softcap, out);
}

bool qkv_scores_take(const float *scores, size_t n, float *out) {
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < n; k++) {
        if (!isfinite(scores[k])) return false;
        most = fmax(most, (double)scores[k]);
    }
    if (n == 1) {
        *out = *scores;
        return true;
    }
    for (size_t k = 0; k < n; k++) sum += exp((double)scores[k] - most);
    for (size_t k = 0; k < n; k++) out[k] = (float)(exp((double)scores[k] - most) / sum);
    return true;
}

void qkv_scores_none(size_t count, size_t classes, float *out) {
    for (size_t i = 0; i < count * classes; i++) out[i] = classes == 1 ? NAN : 0;
}
