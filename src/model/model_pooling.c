/* The pooling of a model, and its accessors. */
#include <stdlib.h>

#include "model/model.h"
#include "qkv/published.h"

void qkv_model_pooling_free(struct qkv_model_pooling *pooling) {
    for (size_t i = 0; i < pooling->dense_count; i++) {
        if (pooling->dense[i].file.owner) pooling->dense[i].file.close(pooling->dense[i].file.owner);
        free(pooling->dense[i].weight);
        free(pooling->dense[i].bias);
        free(pooling->dense[i].shortcut);
    }
    for (size_t i = 0; i < pooling->prompt_count; i++) {
        free(pooling->prompts[i].name);
        free(pooling->prompts[i].text);
    }
    free(pooling->dense);
    free(pooling->prompts);
    free(pooling->settings);
    *pooling = (struct qkv_model_pooling){0};
}

size_t qkv_model_dense_bytes(const struct qkv_model_pooling *pooling) {
    size_t numbers = 0;
    for (size_t i = 0; i < pooling->dense_count; i++) {
        const struct qkv_model_dense *d = &pooling->dense[i];
        numbers += d->out * d->in * (d->has_shortcut ? 2 : 1) + (d->has_bias ? d->out : 0);
    }
    return numbers * sizeof(float);
}

bool qkv_model_pooling(const struct qkv_model *model, enum qkv_pool *pool, bool *normalize, size_t *most) {
    if (!model) return false;
    if (pool) *pool = model->pooling.pool;
    if (normalize) *normalize = model->pooling.normalize;
    if (most) *most = model->pooling.most;
    return model->pooling.given;
}

bool qkv_model_prompt(const struct qkv_model *model, size_t i, const char **name, const char **text) {
    if (!model || i >= model->pooling.prompt_count) return false;
    if (name) *name = model->pooling.prompts[i].name;
    if (text) *text = model->pooling.prompts[i].text;
    return true;
}

const char *qkv_model_prompt_usual(const struct qkv_model *model) {
    if (!model || model->pooling.prompt_usual >= model->pooling.prompt_count) return NULL;
    return model->pooling.prompts[model->pooling.prompt_usual].name;
}
