/* Evaluating a classifier on a file of labelled lines: loss, accuracy, macro F1 and the confusion matrix, from what qkv_classify
 * says of each line. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metric/metric.h"
#include "text/sequence.h"
#include "train/train.h"
#include "train/tsv.h"

enum { LINES = 1024 }; /* classified in one call */

struct evaluator {
    struct qkv_model *model;
    struct qkv_tsv tsv;
    struct qkv_strings labels; /* value: the class */
    size_t classes, count;     /* count: lines held */
    char *texts[LINES];
    size_t truth[LINES];
    float *probabilities; /* (LINES, classes) */
    struct qkv_labels_evaluation *result;
    double nll;
};

/* A model that does not know the names of its classes numbers them. */
static enum qkv_status learn_labels(struct evaluator *e) {
    struct qkv_context *ctx = qkv_model_context(e->model);
    for (size_t k = 0; k < e->classes; k++) {
        char number[24];
        const char *name = qkv_model_label(e->model, k);
        snprintf(number, sizeof number, "%zu", k);
        if (!name) name = number;
        struct qkv_string *label = qkv_strings_add(ctx, &e->labels, name, strlen(name));
        if (!label) return QKV_MEMORY;
        label->value = (int64_t)k;
    }
    return QKV_OK;
}

static enum qkv_status unknown_label(const struct evaluator *e, const struct qkv_tsv_row *row) {
    char known[400] = "";
    size_t used = 0;
    for (size_t k = 0; k < e->labels.count; k++) {
        const struct qkv_string *label = &e->labels.entries[k];
        int n = snprintf(known + used, sizeof known - used, "%s%.*s", k ? ", " : "", (int)label->size,
                         e->labels.bytes.data + label->offset);
        if (n < 0 || (size_t)n >= sizeof known - used - 8) {
            memcpy(known + used, ", …", sizeof ", …");
            break;
        }
        used += (size_t)n;
    }
    return qkv_tsv_fail(&e->tsv, row->line, "the model has no class \"%.*s\"; its classes are %s",
                        (int)(row->first_size < 100 ? row->first_size : 100), row->first, known);
}

/* Lines are numbered by the file here, so one that is too long is found before qkv_classify sees it. */
static enum qkv_status check_length(const struct evaluator *e, const struct qkv_tsv_row *row) {
    size_t most = (size_t)qkv_model_spec(e->model)->context, count;
    int32_t *ids;
    enum qkv_status status = qkv_source_encode(qkv_model_context(e->model), qkv_model_source_tokenizer(e->model),
                                               row->second, row->second_size, true, true, &ids, &count);
    qkv_free(ids);
    if (status || count <= most) return status;
    return qkv_tsv_fail(&e->tsv, row->line,
                        "the text has %zu tokens, but the model's context is %zu; shorten or remove it", count, most);
}

static enum qkv_status add_line(struct evaluator *e, const struct qkv_tsv_row *row) {
    const struct qkv_string *label = qkv_strings_find(&e->labels, row->first, row->first_size);
    if (!label) return unknown_label(e, row);
    enum qkv_status status = check_length(e, row);
    if (status) return status;
    e->truth[e->count] = (size_t)label->value;
    e->texts[e->count] = qkv_copy_bytes(qkv_model_context(e->model), row->second, row->second_size);
    return e->texts[e->count++] ? QKV_OK : QKV_MEMORY;
}

static void count_line(struct evaluator *e, const float *probabilities, size_t truth) {
    size_t best = 0;
    for (size_t k = 1; k < e->classes; k++)
        if (probabilities[k] > probabilities[best]) best = k;
    /* Below the smallest float a probability has no logarithm. */
    e->nll -= log(fmax((double)probabilities[truth], (double)FLT_TRUE_MIN));
    e->result->confusion[truth * e->classes + best]++;
    e->result->lines++;
}

static enum qkv_status evaluate_labels_flush(struct evaluator *e) {
    enum qkv_status status = qkv_classify(e->model, (const char *const *)e->texts, e->count, e->probabilities);
    for (size_t i = 0; i < e->count; i++) {
        if (!status) count_line(e, e->probabilities + i * e->classes, e->truth[i]);
        free(e->texts[i]);
    }
    e->count = 0;
    return status;
}

static enum qkv_status evaluate_labels_run(struct evaluator *e, qkv_progress *progress, void *user) {
    struct qkv_context *ctx = qkv_model_context(e->model);
    struct qkv_tsv_row row;
    bool end = false;
    enum qkv_status status = QKV_OK;
    while (!status && !end) {
        status = qkv_tsv_next(&e->tsv, &row, &end);
        if (!status && !end) status = add_line(e, &row);
        if (status || (!end && e->count < LINES)) continue;
        status =
            qkv_train_progress(ctx, progress, user, "evaluating", (double)e->tsv.position, (double)e->tsv.map.size);
        if (!status) status = evaluate_labels_flush(e);
    }
    return status;
}

static enum qkv_status evaluate_labels_prepare(struct evaluator *e, const char *path) {
    struct qkv_context *ctx = qkv_model_context(e->model);
    size_t n;
    enum qkv_status status = qkv_classify(e->model, NULL, 0, NULL); /* whether the model can */
    if (status) return status;
    e->classes = (size_t)qkv_model_spec(e->model)->head.classes;
    if (!qkv_multiply(e->classes, e->classes, &n)) return qkv_fail_memory(ctx, SIZE_MAX, "the confusion matrix");
    e->result->confusion = qkv_allocate(ctx, n, sizeof *e->result->confusion);
    if (!e->result->confusion || !qkv_multiply(e->classes, LINES, &n)) return QKV_MEMORY;
    e->probabilities = qkv_allocate(ctx, n, sizeof *e->probabilities);
    if (!e->probabilities) return QKV_MEMORY;
    status = learn_labels(e);
    return status ? status : qkv_tsv_open(ctx, path, "label", "text", &e->tsv);
}

enum qkv_status qkv_evaluate_labels(struct qkv_model *model, const char *path, qkv_progress *progress, void *user,
                                    struct qkv_labels_evaluation *evaluation) {
    QKV_CALL(qkv_model_context(model));
    struct evaluator *e = qkv_allocate(qkv_model_context(model), 1, sizeof *e);
    double started = qkv_clock();
    *evaluation = (struct qkv_labels_evaluation){0};
    if (!e) return QKV_MEMORY;
    e->model = model;
    e->result = evaluation;
    enum qkv_status status = evaluate_labels_prepare(e, path);
    if (!status) status = evaluate_labels_run(e, progress, user);
    if (!status) {
        evaluation->classes = e->classes;
        evaluation->loss = e->nll / (double)evaluation->lines;
        evaluation->accuracy = qkv_accuracy(evaluation->confusion, e->classes);
        evaluation->macro_f1 = qkv_macro_f1(evaluation->confusion, e->classes);
    } else {
        free(evaluation->confusion);
        *evaluation = (struct qkv_labels_evaluation){0};
    }
    evaluation->seconds = qkv_clock() - started;
    for (size_t i = 0; i < e->count; i++) free(e->texts[i]);
    qkv_tsv_close(&e->tsv);
    qkv_strings_free(&e->labels);
    free(e->probabilities);
    free(e);
    return status;
}
