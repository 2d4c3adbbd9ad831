/* Evaluating a model on a file of examples, and what it says of examples without targets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metric/metric.h"
#include "model/model.h"
#include "model/spec.h"
#include "rank/evaluate_share.h"
#include "data/example_files.h"
#include "train/train.h"

enum { EXAMPLES_A_BATCH = 64 };

struct examples {
    struct qkv_model *model;
    struct qkv_example_files files;
    struct qkv_pass *pass;
    struct qkv_example_rows rows;
    size_t B;
};

static void examples_close(struct examples *e) {
    qkv_pass_free(e->pass);
    qkv_example_files_close(&e->files);
    qkv_example_rows_free(&e->rows);
}

enum qkv_status qkv_examples_measure(struct qkv_model *model, const struct qkv_example_files *files, size_t *bytes) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    const bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    struct qkv_pass_options options = {.size = sizeof options,
                                       .B = EXAMPLES_A_BATCH,
                                       .T = (size_t)qkv_stack_context(spec, stack),
                                       .source_T = both ? (size_t)qkv_stack_context(spec, &spec->encoder) : 0,
                                       .logits = true};
    if (files) options.B = qkv_min(files->count, options.B), options.T = files->T, options.source_T = files->source.T;
    struct qkv_pass_plan plan = {0};
    enum qkv_status status = qkv_pass_measure(model, &options, 0, &plan);
    *bytes = plan.bytes;
    return status;
}

static enum qkv_status examples_open(struct qkv_model *model, const char *path, bool targets, struct examples *e) {
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    *e = (struct examples){.model = model};
    enum qkv_status status = qkv_example_files_check(ctx, spec);
    if (!status)
        status = targets ? qkv_example_files_add(ctx, spec, path, &e->files)
                         : qkv_example_files_add_inputs(ctx, spec, path, &e->files);
    if (status) return status;
    e->B = e->files.count < EXAMPLES_A_BATCH ? e->files.count : EXAMPLES_A_BATCH;
    status = qkv_example_rows_make(ctx, &e->files, e->B, &e->rows);
    if (status) return status;
    const struct qkv_pass_options options = {
        .size = sizeof options, .B = e->B, .T = e->files.T, .source_T = e->files.source.T, .logits = true};
    return qkv_pass_create(model, &options, &e->pass);
}

/* The batch that begins with example `first`, through the pass. */
static enum qkv_status examples_run(struct examples *e, size_t first, struct qkv_batch *batch) {
    *batch = (struct qkv_batch){.B = e->files.count - first < e->B ? e->files.count - first : e->B};
    for (size_t r = 0; r < batch->B; r++) {
        enum qkv_status status = qkv_example_files_row(&e->files, first + r, r, &e->rows);
        if (status) return status;
    }
    qkv_example_files_batch(&e->files, &e->rows, batch);
    return qkv_pass_forward(e->pass, batch);
}

struct part { /* the score of a batch */
    double nll;
    uint64_t counted, right;
};

/* The batch that begins with example `first`, if it is this rank's. */
static enum qkv_status examples_judge(struct examples *e, size_t first, struct qkv_evaluate_share *share,
                                      size_t *confusion) {
    const bool mine = qkv_evaluate_share_next(share);
    struct part *part = qkv_evaluate_share_add(share, 1);
    struct qkv_example_score score = {0};
    struct qkv_batch batch;
    if (!part) return QKV_MEMORY;
    enum qkv_status status = mine ? examples_run(e, first, &batch) : QKV_OK;
    if (status || !mine) return status;
    qkv_example_score(&e->files, e->pass, &batch, &score, confusion);
    *part = (struct part){score.nll, score.counted, score.right};
    return QKV_OK;
}

static struct qkv_example_score examples_sum(const struct qkv_evaluate_share *share) {
    const struct part *parts = (const void *)share->items;
    struct qkv_example_score sum = {0};
    for (size_t i = 0; i < share->count; i++) {
        sum.nll += parts[i].nll;
        sum.counted += (size_t)parts[i].counted;
        sum.right += (size_t)parts[i].right;
    }
    return sum;
}

/* Every rank has counted what it has judged. */
static enum qkv_status examples_confusion(struct qkv_context *ctx, size_t *confusion, size_t cells) {
    if (qkv_context_ranks(ctx) == 1) return QKV_OK;
    uint64_t *words = qkv_allocate(ctx, cells, sizeof *words);
    enum qkv_status status = words ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < cells && !status; i++) words[i] = confusion[i];
    if (!status) status = qkv_evaluate_share_add_up(ctx, words, cells);
    for (size_t i = 0; i < cells && !status; i++) confusion[i] = (size_t)words[i];
    free(words);
    return status;
}

enum qkv_status qkv_evaluate_examples(struct qkv_model *model, const char *path, qkv_progress *progress, void *user,
                                      struct qkv_labels_evaluation *evaluation) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, path);
    QKV_NEED(qkv_call, evaluation);
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    const bool classes = qkv_head_has_classes(spec);
    const double started = qkv_clock();
    struct examples e;
    struct qkv_example_score score = {0};
    struct qkv_evaluate_share share = {.ctx = ctx, .size = sizeof(struct part)};
    size_t cells = 0;
    *evaluation = (struct qkv_labels_evaluation){0};
    enum qkv_status status = examples_open(model, path, true, &e);
    evaluation->classes = classes ? (size_t)spec->head.classes : 0;
    if (!status && !qkv_multiply(evaluation->classes, evaluation->classes, &cells))
        status = qkv_fail_memory(ctx, SIZE_MAX, "the confusion matrix");
    if (!status && classes) evaluation->confusion = qkv_allocate(ctx, cells, sizeof *evaluation->confusion);
    if (!status && classes && !evaluation->confusion) status = QKV_MEMORY;
    status = qkv_rank_check_evaluation_of(model, path, status);
    for (size_t at = 0; at < e.files.count && !status; at += e.B) {
        status = qkv_train_progress(ctx, progress, user, "evaluating", (double)at, (double)e.files.count);
        if (!status) status = examples_judge(&e, at, &share, evaluation->confusion);
    }
    status = qkv_evaluate_share_gather(&share, status);
    if (!status && classes) status = examples_confusion(ctx, evaluation->confusion, cells);
    if (!status) score = examples_sum(&share);
    qkv_evaluate_share_free(&share);
    if (!status && !score.counted)
        status = qkv_fail(ctx, QKV_FORMAT, "%s: no target of it counts; all are %d", path, QKV_IGNORE);
    if (!status && !isfinite(score.nll))
        status = qkv_fail(ctx, QKV_NUMBER,
                          "the loss over %s is not a finite number: the model's weights are broken; take those of an "
                          "earlier checkpoint",
                          path);
    examples_close(&e);
    if (status) {
        free(evaluation->confusion);
        *evaluation = (struct qkv_labels_evaluation){0};
        return status;
    }
    evaluation->lines = score.counted;
    evaluation->loss = score.nll / (double)score.counted;
    evaluation->accuracy = (double)score.right / (double)score.counted;
    if (classes) evaluation->macro_f1 = qkv_macro_f1(evaluation->confusion, evaluation->classes);
    evaluation->seconds = qkv_clock() - started;
    return QKV_OK;
}

enum qkv_status qkv_classify_examples(struct qkv_model *model, const char *path, float **probabilities, size_t *count) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, path);
    QKV_NEED(qkv_call, probabilities);
    QKV_NEED(qkv_call, count);
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    const size_t classes = spec->head.classes > 0 ? (size_t)spec->head.classes : 1;
    struct examples e;
    struct qkv_batch batch;
    size_t cells;
    *probabilities = NULL;
    *count = 0;
    if (spec->head.kind != QKV_HEAD_CLASSIFY)
        return qkv_fail(ctx, QKV_ARGUMENT, "classify needs a model with a classify head; this one has head.kind %s",
                        qkv_head_text(spec->head.kind));
    enum qkv_status status = examples_open(model, path, false, &e);
    if (!status && !qkv_multiply(e.files.count, classes, &cells))
        status = qkv_fail_memory(ctx, SIZE_MAX, "the probabilities");
    float *all = status ? NULL : qkv_allocate(ctx, cells, sizeof *all);
    if (!status && !all) status = QKV_MEMORY;
    for (size_t at = 0; at < e.files.count && !status; at += e.B) {
        status = examples_run(&e, at, &batch);
        const float *scores = status ? NULL : qkv_pass_output(e.pass).data;
        for (size_t b = 0; b < batch.B && !status; b++)
            if (!qkv_scores_take(scores + b * classes, classes, all + (at + b) * classes))
                status = qkv_fail(ctx, QKV_NUMBER,
                                  "the scores of example %zu are not finite: the model's weights are broken; take "
                                  "those of an earlier checkpoint",
                                  at + b);
    }
    if (!status) *count = e.files.count;
    if (!status) *probabilities = all;
    if (status) free(all);
    examples_close(&e);
    return status;
}
