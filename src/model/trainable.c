/* Which weights of a model are trainable, at which rate, and which are frozen. */
#include "model/model.h"

bool qkv_model_trainable(const struct qkv_model *model, size_t i) {
    if (!model) return false;
    return i < model->weights.count && model->weights.list[i].trainable;
}

/* Freezes or unfreezes a weight. Only operands with trainable weights have gradients, so the next pass makes new
 * ones. */
static void trainable_set(struct qkv_model *m, struct qkv_weight *weight, bool trainable) {
    if (weight->trainable == trainable) return;
    weight->trainable = trainable;
    m->weights.chosen++;
    qkv_weights_drop_gradients(&m->weights);
    qkv_arena_free(&m->gradients);
    m->dirty = false;
}

enum qkv_status qkv_model_set_trainable(struct qkv_model *model, size_t i, bool trainable) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    if (i >= model->weights.count)
        return qkv_fail(model->ctx, QKV_ARGUMENT, "weight %zu does not exist: the model has %zu", i,
                        model->weights.count);
    enum qkv_status status = qkv_model_check_own(model, "its weights cannot be frozen");
    if (!status) trainable_set(model, &model->weights.list[i], trainable);
    return status;
}

/* Fails, with some names from all over the list. */
static enum qkv_status trainable_none(struct qkv_model *m, const char *pattern) {
    enum { SHOWN = 4 };
    const struct qkv_weights *w = &m->weights;
    struct qkv_buffer names = {0};
    enum qkv_status status = QKV_OK;
    const char *shares =
        m->spec.encoder.share || m->spec.decoder.share ? "; layers that share weights have those of the first one" : "";
    size_t shown = w->count < SHOWN ? w->count : SHOWN;
    for (size_t k = 0; k < shown && !status; k++)
        status = qkv_buffer_print(m->ctx, &names, "%s%s", k ? ", " : "",
                                  w->list[shown > 1 ? k * (w->count - 1) / (shown - 1) : 0].array.name);
    if (!status)
        status = qkv_fail(m->ctx, QKV_ARGUMENT,
                          "no weight has a name like \"%.100s\"; the model has %zu, such as %s (* stands for any "
                          "characters%s)",
                          pattern, w->count, names.data, shares);
    qkv_buffer_free(&names);
    return status;
}

enum qkv_status qkv_model_set_trainable_all(struct qkv_model *model, const char *pattern, bool trainable,
                                            size_t *count) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, pattern);
    struct qkv_weights *w = &model->weights;
    size_t found = 0;
    enum qkv_status status = qkv_model_check_own(model, "its weights cannot be frozen");
    if (status) return status;
    for (size_t i = 0; i < w->count; i++) {
        if (!qkv_text_matches(w->list[i].array.name, pattern)) continue;
        trainable_set(model, &w->list[i], trainable);
        found++;
    }
    if (count) *count = found;
    return found ? QKV_OK : trainable_none(model, pattern);
}

enum { RATE_MOST = 1000000 };

enum qkv_status qkv_model_set_rate_all(struct qkv_model *model, const char *pattern, double rate, size_t *count) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, pattern);
    struct qkv_weights *w = &model->weights;
    char shown[QKV_REAL_TEXT];
    size_t found = 0;
    if (!(rate > 0 && rate <= RATE_MOST))
        return qkv_fail(
            model->ctx, QKV_ARGUMENT,
            "the rate of \"%.100s\" is %s; it must be greater than 0 and at most %d (weights that are not to "
            "learn are frozen)",
            pattern, qkv_real_text(shown, rate), RATE_MOST);
    enum qkv_status status = qkv_model_check_own(model, "its rates cannot be set");
    if (status) return status;
    for (size_t i = 0; i < w->count; i++) {
        if (!qkv_text_matches(w->list[i].array.name, pattern)) continue;
        w->list[i].rate = (float)rate;
        found++;
    }
    if (count) *count = found;
    return found ? QKV_OK : trainable_none(model, pattern);
}
