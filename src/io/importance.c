/* The importance of columns, measured on the model itself: the mean of the squares of a product's inputs. */
#include <stdlib.h>

#include "io/gguf_export.h"
#include "op/inputs.h"

struct qkv_importance {
    struct qkv_model *model;
    struct qkv_inputs *inputs;
};

enum qkv_status qkv_importance_create(struct qkv_model *model, struct qkv_importance **importance) {
    QKV_CALL_OUT(model ? model->ctx : NULL, importance);
    QKV_NEED(qkv_call, model);
    struct qkv_context *ctx = model->ctx;
    if (model->planned) return qkv_fail(ctx, QKV_ARGUMENT, "a planned model computes nothing that could be measured");
    if (qkv_model_check_plain(model, "its inputs are measured")) return QKV_ARGUMENT;
    if (ctx->inputs)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the context measures the inputs of a model already; free that importance first");
    struct qkv_importance *made = qkv_allocate(ctx, 1, sizeof *made);
    struct qkv_inputs *inputs = made ? qkv_allocate(ctx, 1, sizeof *inputs) : NULL;
    if (inputs) {
        *inputs = (struct qkv_inputs){&model->weights,
                                      qkv_allocate(ctx, model->weights.count + 1, sizeof(struct qkv_input_sums))};
        *made = (struct qkv_importance){model, inputs};
    }
    if (!inputs || !inputs->of) {
        qkv_inputs_free(inputs);
        free(made);
        return QKV_MEMORY;
    }
    ctx->inputs = inputs;
    *importance = made;
    return QKV_OK;
}

void qkv_importance_free(struct qkv_importance *importance) {
    if (!importance) return;
    importance->model->ctx->inputs = NULL;
    qkv_inputs_free(importance->inputs);
    free(importance);
}

/* ---- of the tensors of a file ------------------------------------------------------------------------------------ */

bool qkv_importance_given(const struct qkv_gguf_options *o) {
    return o->imatrix || o->importance;
}

enum qkv_status qkv_importance_idle(struct qkv_context *ctx, const struct qkv_gguf_options *o) {
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "no matrix of the file is in blocks, so the importance of columns (%s) has no effect; choose a "
                    "type of blocks, such as q4_K",
                    o->imatrix ? o->imatrix : "measured on the model");
}

enum qkv_status qkv_importance_open(struct qkv_gguf_export *e) {
    const struct qkv_gguf_options *o = e->options;
    if (o->importance && o->imatrix)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "both a measured importance and a file of importance (%s) are given; choose one", o->imatrix);
    if (o->importance && o->importance->model != e->model)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "the importance was measured on another model; measure it on this one");
    return o->imatrix ? qkv_imatrix_open(e->ctx, o->imatrix, &e->imatrix) : QKV_OK;
}

/* The means of one slice. What no product has read weighs all columns alike. */
static void importance_means(float *means, const struct qkv_input_sums *sums, size_t columns) {
    for (size_t c = 0; c < columns; c++) means[c] = sums->rows > 0 ? (float)(sums->squares[c] / sums->rows) : 1;
}

/* The measured importance of tensor i, slice by slice. */
static enum qkv_status importance_measured(struct qkv_gguf_export *e, size_t i, size_t columns) {
    const struct qkv_weight *list = e->model->weights.list;
    struct qkv_gguf_tensor *t = &e->tensors[i];
    if (e->arrays.list[i].transposed) return QKV_OK; /* its columns are outputs of products */
    for (size_t at = 0; (at = qkv_family_array_weight(&e->arrays, i, at));) {
        const struct qkv_weight *w = &list[at - 1];
        const struct qkv_input_sums *sums = qkv_inputs_of(e->options->importance->inputs, w);
        size_t slice = t->slices > 1 && w->expert > 0 ? (size_t)w->expert : 0, count;
        const size_t last = w->expert < 0 ? t->slices : slice + 1; /* the slices are experts, or heads of one product */
        if (!sums->squares || w->columns != columns || slice >= t->slices) continue;
        if (!qkv_multiply(t->slices, columns, &count)) return qkv_fail_memory(e->ctx, 0, "the importance of columns");
        if (!t->measured) {
            t->importance = t->measured = qkv_allocate(e->ctx, count, sizeof *t->measured);
            if (!t->measured) return QKV_MEMORY;
            for (size_t k = 0; k < count; k++) t->measured[k] = 1;
        }
        for (; slice < last; slice++) importance_means(t->measured + slice * columns, sums, columns);
    }
    return QKV_OK;
}

enum qkv_status qkv_importance_find(struct qkv_gguf_export *e, size_t i, size_t columns) {
    struct qkv_gguf_tensor *t = &e->tensors[i];
    if (e->imatrix) return qkv_imatrix_find(e->imatrix, t->array.name, columns, t->slices, &t->importance);
    return e->options->importance ? importance_measured(e, i, columns) : QKV_OK;
}

enum qkv_status qkv_importance_use(struct qkv_gguf_export *e) {
    size_t found = 0, blocks = 0;
    for (size_t i = 0; i < e->arrays.count; i++) {
        found += e->tensors[i].importance != NULL;
        blocks += qkv_types[e->tensors[i].array.dtype]->kind == QKV_CLASS_BLOCKS;
    }
    if (!qkv_importance_given(e->options) || (found && found == blocks)) return QKV_OK;
    if (!blocks) return qkv_importance_idle(e->ctx, e->options);
    if (found) return qkv_gguf_note(e->ctx, e->notes, "importance for %zu of %zu matrices in blocks", found, blocks);
    if (!e->imatrix)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "no product of the model was measured; run passes or sessions of it before it is written");
    return qkv_fail(e->ctx, QKV_ARGUMENT,
                    "%s has no tensor of this model; name a file that was made with a GGUF file of the same model",
                    e->options->imatrix);
}
