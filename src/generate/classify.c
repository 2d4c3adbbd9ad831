/* Classifying lines of text: passes over batches of similar length, softmax over the classes. */
#include <math.h>
#include <string.h>

#include "generate/line_batches.h"
#include "model/spec.h"

struct classifier {
    struct qkv_model *model;
    struct qkv_pass *pass;
    size_t B, T, lines; /* the largest batch of the pass; all lines there are */
    float *probabilities;
};

/* A pass that takes the batch: planned for twice the length at most, so that few are made while lengths grow. */
static enum qkv_status make_room(struct classifier *c, const struct qkv_line_batch *batch) {
    size_t context = (size_t)qkv_model_spec(c->model)->context, T = 16;
    if (batch->B <= c->B && batch->T <= c->T) return QKV_OK;
    while (T < batch->T) T *= 2;
    size_t B = qkv_line_rows(T / 2 + 1);
    if (T > context) T = context;
    if (B > c->lines) B = c->lines;
    if (B < batch->B) B = batch->B;
    qkv_pass_free(c->pass);
    c->B = c->T = 0;
    enum qkv_status status =
        qkv_pass_create(c->model, &(struct qkv_pass_options){.B = B, .T = T, .logits = true}, &c->pass);
    if (status) return status;
    c->B = B;
    c->T = T;
    return QKV_OK;
}

static bool classify_softmax(const float *logits, size_t n, float *out) {
    double most = -INFINITY, sum = 0;
    for (size_t k = 0; k < n; k++) {
        if (!isfinite(logits[k])) return false;
        if ((double)logits[k] > most) most = (double)logits[k];
    }
    for (size_t k = 0; k < n; k++) sum += exp((double)logits[k] - most);
    for (size_t k = 0; k < n; k++) out[k] = (float)(exp((double)logits[k] - most) / sum);
    return true;
}

static enum qkv_status classify_run(void *user, const struct qkv_line_batch *batch) {
    struct classifier *c = user;
    size_t classes = (size_t)qkv_model_spec(c->model)->head.classes;
    enum qkv_status status = make_room(c, batch);
    if (!status)
        status = qkv_pass_forward(
            c->pass, &(struct qkv_batch){.B = batch->B, .T = batch->T, .ids = batch->ids, .lengths = batch->lengths});
    if (status) return status;
    struct qkv_array logits = qkv_pass_output(c->pass);
    for (size_t b = 0; b < batch->B; b++)
        if (!classify_softmax((const float *)logits.data + b * classes, classes,
                              c->probabilities + batch->lines[b] * classes))
            return qkv_fail(
                qkv_model_context(c->model), QKV_NUMBER,
                "the scores of line %zu are no finite numbers: the model's weights are broken; take those of "
                "an earlier checkpoint",
                batch->lines[b] + 1);
    return QKV_OK;
}

enum qkv_status qkv_classify_with(struct qkv_model *model, const char *const *lines, size_t count,
                                  const struct qkv_line_options *options, float *probabilities) {
    QKV_CALL(qkv_model_context(model));
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct classifier c = {.model = model, .lines = count, .probabilities = probabilities};
    if (spec->head.kind != QKV_HEAD_CLASSIFY)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "classify needs a model with a classify head; this one has head.kind %s: train one on labelled "
                        "lines (--preset text-classifier --labeled FILE)",
                        qkv_head_text(spec->head.kind));
    enum qkv_status status = qkv_lines_check(model, "classify");
    if (status) return status;
    if (count) memset(probabilities, 0, count * (size_t)spec->head.classes * sizeof *probabilities);
    struct qkv_line_reader reader = {
        .model = model, .begin = true, .end = true, .options = options, .run = classify_run, .user = &c};
    status = qkv_lines_run(&reader, lines, count);
    qkv_pass_free(c.pass);
    return status;
}

enum qkv_status qkv_classify(struct qkv_model *model, const char *const *lines, size_t count, float *probabilities) {
    QKV_CALL(qkv_model_context(model));
    const struct qkv_line_options options = qkv_line_defaults();
    return qkv_classify_with(model, lines, count, &options, probabilities);
}
