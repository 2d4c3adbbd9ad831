/* sublayer: attention with its projections. The form of the spec computes q, k and v from x (form.h), and appends new
 * keys and values to the cache, if there is one; y = attend(q, k, v)·Woᵀ + bo. */
#include "attention/form.h"

/* Attention's result before the output projection. */
static struct qkv_tensor *sublayer_attend(const struct qkv_attention_args *f, const struct qkv_form_inputs *in) {
    const struct qkv_attend_learned learned = {f->distance_bias, qkv_tensor_or_null(&f->parameters->sinks)};
    return qkv_op_attend(f->tape, (struct qkv_columns){in->q, 0}, in->k, in->v, &in->attend, learned,
                         f->dattention_bias, f->kept);
}

struct qkv_tensor *qkv_attention_sublayer(const struct qkv_attention_args *f, struct qkv_tensor *x) {
    const struct qkv_attention_form *form = qkv_attention_form_of(f->spec);
    struct qkv_form_inputs in = {.attend = *f->attend};
    if (!form->project(f, x, &in)) return NULL;
    struct qkv_tensor *y = sublayer_attend(f, &in);
    if (form->values) y = form->values(f, y);
    struct qkv_linear *o = &f->parameters->o;
    if (f->residual) {
        return qkv_op_linear_add(f->tape, y, &o->weight, qkv_tensor_or_null(&o->bias), f->residual, f->residual_scale);
    }
    return qkv_op_linear(f->tape, y, &o->weight, qkv_tensor_or_null(&o->bias), QKV_RESULT_FP32);
}

void qkv_attention_cache_memory(const struct qkv_attention_args *f) {
    qkv_attention_form_of(f->spec)->cache_source(f);
}
