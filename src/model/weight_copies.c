/* weight_copies: numbers of weights and gradients, copied into and out of a model or a module by a program. The program
 * has no pointer into them, so that a model can convert, divide and move them. */
#include <string.h>

#include "model/module.h"

/* Finds the weight of a copy and checks what both directions need. `places` are the indices of a module's parameters,
 * NULL: of all weights of the model. */
static enum qkv_status copies_find(const struct qkv_model *m, const size_t *places, size_t places_count, size_t i,
                                   size_t count, const struct qkv_weight **weight) {
    if (i >= places_count)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "there is no weight %zu: the %s has %zu, counted from 0", i,
                        places ? "module" : "model", places_count);
    const struct qkv_weight *w = *weight = &m->weights.list[places ? places[i] : i];
    const size_t elements = qkv_array_elements(&w->array);
    if (count == elements) return QKV_OK;
    return qkv_fail(m->ctx, QKV_SHAPE, "%s has %zu numbers, not %zu", w->array.name, elements, count);
}

static enum qkv_status copies_numbers(const struct qkv_model *m, const struct qkv_weight *w) {
    if (m->planned)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s has no numbers: the model is only planned", w->array.name);
    if (w->stored || w->data) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "%s is divided among ranks while these train; take the model that the run saves", w->array.name);
}

static enum qkv_status copies_gradient(const struct qkv_model *m, const struct qkv_weight *w) {
    if (w->gradient) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT, "%s has no gradient: %s", w->array.name,
                    w->trainable ? "there was no pass with train yet" : "it is frozen");
}

static enum qkv_status copies_get(const struct qkv_model *m, const struct qkv_weight *w, float *weights) {
    enum qkv_status status = copies_numbers(m, w);
    if (!status && w->stored) status = qkv_model_check_file(m); /* a file that became shorter is no crash */
    if (status) return status;
    if (w->stored)
        qkv_array_floats(&w->array, weights);
    else
        memcpy(weights, w->data, qkv_array_elements(&w->array) * sizeof *weights);
    return QKV_OK;
}

static enum qkv_status copies_set(struct qkv_model *m, const struct qkv_weight *w, const float *weights) {
    enum qkv_status status = copies_numbers(m, w);
    if (!status) status = qkv_model_check_own(m, "its weights cannot be set");
    if (status) return status;
    if (w->stored)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s stays in its file, as %s, and cannot change; an optimizer converts all weights to fp32",
                        w->array.name, qkv_type_name(w->array.dtype));
    memcpy(w->data, weights, qkv_array_elements(&w->array) * sizeof *weights);
    qkv_weight_changed(&m->weights, (size_t)(w - m->weights.list));
    return QKV_OK;
}

static enum qkv_status copies_get_gradient(const struct qkv_model *m, const struct qkv_weight *w, float *gradient) {
    const enum qkv_status status = copies_gradient(m, w);
    if (!status) memcpy(gradient, w->gradient, qkv_array_elements(&w->array) * sizeof *gradient);
    return status;
}

static enum qkv_status copies_set_gradient(struct qkv_model *m, const struct qkv_weight *w, const float *gradient) {
    const enum qkv_status status = copies_gradient(m, w);
    if (status) return status;
    memcpy(w->gradient, gradient, qkv_array_elements(&w->array) * sizeof *gradient);
    m->dirty = true;
    return QKV_OK;
}

void qkv_model_weights_changed(struct qkv_model *model) {
    qkv_weights_changed(&model->weights);
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_model_get_weights(const struct qkv_model *model, size_t i, float *weights, size_t count) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, weights);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(model, NULL, model->weights.count, i, count, &w);
    return status ? status : copies_get(model, w, weights);
}

enum qkv_status qkv_model_set_weights(struct qkv_model *model, size_t i, const float *weights, size_t count) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, weights);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(model, NULL, model->weights.count, i, count, &w);
    return status ? status : copies_set(model, w, weights);
}

enum qkv_status qkv_model_get_gradient(const struct qkv_model *model, size_t i, float *gradient, size_t count) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, gradient);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(model, NULL, model->weights.count, i, count, &w);
    return status ? status : copies_get_gradient(model, w, gradient);
}

enum qkv_status qkv_model_set_gradient(struct qkv_model *model, size_t i, const float *gradient, size_t count) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, gradient);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(model, NULL, model->weights.count, i, count, &w);
    return status ? status : copies_set_gradient(model, w, gradient);
}

/* ---- a module ---------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_module_get_weights(const struct qkv_module *module, size_t i, float *weights, size_t count) {
    QKV_CALL(module ? module->ctx : NULL);
    QKV_NEED(qkv_call, module);
    QKV_NEED_ALL(qkv_call, count, weights);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(module->model, module->indices, module->count, i, count, &w);
    return status ? status : copies_get(module->model, w, weights);
}

enum qkv_status qkv_module_set_weights(struct qkv_module *module, size_t i, const float *weights, size_t count) {
    QKV_CALL(module ? module->ctx : NULL);
    QKV_NEED(qkv_call, module);
    QKV_NEED_ALL(qkv_call, count, weights);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(module->model, module->indices, module->count, i, count, &w);
    return status ? status : copies_set(module->model, w, weights);
}

enum qkv_status qkv_module_get_gradient(const struct qkv_module *module, size_t i, float *gradient, size_t count) {
    QKV_CALL(module ? module->ctx : NULL);
    QKV_NEED(qkv_call, module);
    QKV_NEED_ALL(qkv_call, count, gradient);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(module->model, module->indices, module->count, i, count, &w);
    return status ? status : copies_get_gradient(module->model, w, gradient);
}

enum qkv_status qkv_module_set_gradient(struct qkv_module *module, size_t i, const float *gradient, size_t count) {
    QKV_CALL(module ? module->ctx : NULL);
    QKV_NEED(qkv_call, module);
    QKV_NEED_ALL(qkv_call, count, gradient);
    const struct qkv_weight *w;
    const enum qkv_status status = copies_find(module->model, module->indices, module->count, i, count, &w);
    return status ? status : copies_set_gradient(module->model, w, gradient);
}
