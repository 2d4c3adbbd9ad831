/* teacher: learning from a larger model of the same vocabulary (option teacher; Hinton et al. 2015). The loss of a
 * token is (1 − share) times its cross-entropy plus share times T²·KL(softmax(teacher/T), softmax(model/T)). The
 * teacher reads each part of a batch first; its scores of all positions are in memory for one part. */
#include <stdlib.h>
#include <string.h>

#include "io/opening.h"
#include "model/model.h"
#include "model/spec.h"
#include "op/builders.h"
#include "train/train.h"

/* Whether both models have the same text for each id. */
static bool teacher_same_tokens(const struct qkv_tokenizer *a, const struct qkv_tokenizer *b) {
    if (!a || !b) return true; /* nothing is known of one */
    if (qkv_tokenizer_vocab(a) != qkv_tokenizer_vocab(b)) return false;
    for (int id = 0; id < qkv_tokenizer_vocab(a); id++) {
        size_t size, other_size;
        const char *text = qkv_tokenizer_token(a, id, &size), *other = qkv_tokenizer_token(b, id, &other_size);
        if (!text != !other || (text && (size != other_size || memcmp(text, other, size) != 0))) return false;
    }
    return true;
}

static enum qkv_status teacher_check(struct qkv_trainer *t, const struct qkv_spec *spec) {
    const struct qkv_spec *own = qkv_model_spec(t->teacher);
    const struct qkv_tokenizer *tokenizer = t->data.tokenizer ? t->data.tokenizer : qkv_model_tokenizer(t->origin);
    enum qkv_status status = qkv_text_model_check(t->ctx, own);
    if (status) qkv_fail_at(t->ctx, "the teacher %s", t->options.teacher);
    if (status) return status;
    if (own->vocab != spec->vocab || !teacher_same_tokens(tokenizer, qkv_model_tokenizer(t->teacher)))
        return qkv_fail(
            t->ctx, QKV_SPEC,
            "the teacher %s has another vocabulary (%d tokens, the model %d), so its scores are about other "
            "tokens; choose a teacher with the tokenizer of the model",
            t->options.teacher, own->vocab, spec->vocab);
    if (own->context < spec->context)
        return qkv_fail(t->ctx, QKV_SPEC, "the teacher %s has a context of %d, less than %d; choose a smaller context",
                        t->options.teacher, own->context, spec->context);
    return QKV_OK;
}

/* The weights are those that the run began with. */
static enum qkv_status teacher_check_weights(struct qkv_trainer *t) {
    uint64_t bytes = 0, hash = 0;
    if (t->facts.teacher_bytes && t->ctx->ignore_digest) return QKV_OK;
    const enum qkv_status status = qkv_weights_hash(t->ctx, t->options.teacher, &bytes, &hash);
    if (status) return status;
    if (!t->facts.teacher_bytes) t->facts.teacher_bytes = bytes, t->facts.teacher_hash = hash;
    if (bytes == t->facts.teacher_bytes && hash == t->facts.teacher_hash) return QKV_OK;
    return qkv_fail(t->ctx, QKV_FORMAT,
                    "the weights of the teacher %s are not those that the run began with; restore them, or go on all "
                    "the same with option ignore_digest",
                    t->options.teacher);
}

enum qkv_status qkv_teacher_check(struct qkv_context *ctx, const char *teacher) {
    struct qkv_opening *opening = NULL;
    if (!teacher) return QKV_OK;
    const enum qkv_status status = qkv_model_open(ctx, teacher, NULL, &opening);
    qkv_opening_free(opening);
    if (status) qkv_fail_at(ctx, "option teacher");
    return status;
}

enum qkv_status qkv_teacher_open(struct qkv_trainer *t, const struct qkv_spec *spec) {
    if (!t->options.teacher) return QKV_OK;
    enum qkv_status status = teacher_check_weights(t);
    if (!status) status = qkv_model_load(t->ctx, t->options.teacher, &t->teacher);
    return status ? status : teacher_check(t, spec);
}

/* B 0: the shapes of lines are not known yet. */
static struct qkv_pass_options teacher_options(const struct qkv_trainer *t) {
    struct qkv_pass_options options = qkv_pass_defaults();
    struct qkv_data_extent most = {.B = qkv_parts_most(t->ctx, &t->options, (size_t)t->options.batch), .T = t->data.T};
    if (t->data.dataset->reads != QKV_READS_TEXT) most = (struct qkv_data_extent){0};
    qkv_data_widen(&most, t->data.lines.shapes, t->data.lines.shape_count);
    options.B = most.B;
    options.T = most.T;
    options.shapes = t->data.lines.shapes;
    options.shape_count = t->data.lines.shape_count;
    options.logits = true;
    return options;
}

enum qkv_status qkv_teacher_measure(struct qkv_trainer *t, size_t *bytes) {
    struct qkv_pass_plan plan = {0};
    *bytes = 0;
    if (!t->teacher) return QKV_OK;
    const struct qkv_pass_options options = teacher_options(t);
    const enum qkv_status status = options.B ? qkv_pass_measure(t->teacher, &options, 0, &plan) : QKV_OK;
    *bytes = plan.bytes;
    return status;
}

enum qkv_status qkv_teacher_begin(struct qkv_trainer *t) {
    if (!t->teacher) return QKV_OK;
    const struct qkv_pass_options options = teacher_options(t);
    return qkv_pass_create(t->teacher, &options, &t->teacher_pass);
}

enum qkv_status qkv_teacher_read(struct qkv_trainer *t, const struct qkv_batch *rows, struct qkv_loss_rows *out) {
    struct qkv_batch batch = *rows;
    if (!t->teacher) return QKV_OK;
    batch.targets = NULL;
    batch.loss_count = 0;
    batch.label_smoothing = 0;
    const enum qkv_status status = qkv_pass_forward(t->teacher_pass, &batch);
    if (status) qkv_fail_at(t->ctx, "the teacher %s", t->options.teacher);
    if (status) return status;
    /* they may be changed: the next batch overwrites them */
    out->teacher = (float *)(uintptr_t)qkv_pass_output(t->teacher_pass).data;
    out->temperature = (float)t->options.teacher_temperature;
    out->share = (float)t->options.teacher_share;
    return QKV_OK;
}

void qkv_teacher_free(struct qkv_trainer *t) {
    qkv_pass_free(t->teacher_pass);
    qkv_model_free(t->teacher);
}
