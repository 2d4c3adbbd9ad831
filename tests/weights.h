/* weights.h: pointers to the numbers of weights and gradients, for tests that fill them, change them or compare them;
 * programs copy them (qkv_model_get_weights, …; test_weight_copies.c). Header-only. */
#ifndef QKV_TEST_WEIGHTS_H
#define QKV_TEST_WEIGHTS_H

#include "model/module.h"

/* The numbers of the i-th weight; NULL past the last, and where the model has none in memory. */
static inline const float *test_weights(const struct qkv_model *model, size_t i) {
    return i < model->weights.count ? model->weights.list[i].data : NULL;
}

/* The same to write to, once: packed copies are made again after each call. */
static inline float *test_weights_mutable(struct qkv_model *model, size_t i) {
    if (i >= model->weights.count) return NULL;
    qkv_weight_changed(&model->weights, i);
    return model->weights.list[i].data;
}

/* The gradient of the i-th weight; NULL past the last, and where there is none. */
static inline float *test_gradient(const struct qkv_model *model, size_t i) {
    return i < model->weights.count ? model->weights.list[i].gradient : NULL;
}

/* The same of a module's parameters. */
static inline float *test_module_weights(struct qkv_module *m, size_t i) {
    return i < m->count ? test_weights_mutable(m->model, m->indices[i]) : NULL;
}

static inline float *test_module_gradient(const struct qkv_module *m, size_t i) {
    return i < m->count ? test_gradient(m->model, m->indices[i]) : NULL;
}

#endif
