/* stored_fixture.h: the bits that a sample's model computes, for models whose weights are stored in several types. */
#ifndef QKV_STORED_FIXTURE_H
#define QKV_STORED_FIXTURE_H

#include "model_grid.h"
#include "weights.h"

#include "base/base.h"
#include "kernel/product.h"

/* Whether a product promises the bits of the same numbers in fp32: a type with a product of its own may have others
 * (test_products.c). */
static inline bool is_as_fp32(enum qkv_dtype dtype) {
    const struct qkv_product *row;
    for (size_t i = 0; (row = qkv_product_at(i)); i++)
        if (row->serves && row->serves(dtype) && row->promise != QKV_AS_FP32) return false;
    return true;
}

/* Logits, loss and gradients of a training pass, appended. */
static inline void run_pass(struct sample *s, struct qkv_buffer *out) {
    struct qkv_pass *pass = make_pass(s, true);
    qkv_model_clear_gradients(s->model);
    assert_ok(s->ctx, qkv_pass_forward(pass, &s->batch));
    assert_ok(s->ctx, qkv_pass_backward(pass));
    const struct qkv_array logits = qkv_pass_output(pass);
    const double numbers[] = {qkv_pass_loss(pass, NULL), qkv_model_gradient_norm(s->model)};
    assert_ok(s->ctx, qkv_buffer_append(s->ctx, out, (const char *)logits.data, logits.bytes));
    assert_ok(s->ctx, qkv_buffer_append(s->ctx, out, (const char *)numbers, sizeof numbers));
    for (size_t i = 0; i < qkv_model_parameters(s->model); i++)
        assert_ok(s->ctx, qkv_buffer_append(s->ctx, out, (const char *)test_gradient(s->model, i),
                                            sizeof(float) * qkv_array_elements(qkv_model_parameter(s->model, i))));
    qkv_pass_free(pass);
}

static inline void run_session(struct sample *s, struct qkv_buffer *out) {
    struct qkv_session *session;
    assert_ok(s->ctx, qkv_session_create(s->model, NULL, &session));
    assert_ok(s->ctx, qkv_session_append(session, s->ids, 5));
    for (size_t i = 5; i < T; i++) {
        assert_ok(s->ctx,
                  qkv_buffer_append(s->ctx, out, (const char *)qkv_session_logits(session), VOCAB * sizeof(float)));
        assert_ok(s->ctx, qkv_session_append(session, s->ids + i, 1));
    }
    qkv_session_free(session);
}

#endif
