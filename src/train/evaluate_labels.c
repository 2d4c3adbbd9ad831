/* Evaluating a classifier on a file of labelled lines, or of labelled words: loss, accuracy, macro F1 and the
 * confusion matrix, from what qkv_classify, or qkv_classify_words, says of each. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "metric/metric.h"
#include "text/sequence.h"
#include "rank/evaluate_share.h"
#include "train/train.h"
#include "data/tsv.h"

enum { LINES = 1024 }; /* classified in one call; of words no fewer, as sentences are whole */

struct evaluator {
    struct qkv_model *model;
    struct qkv_tsv tsv;
    struct qkv_strings labels; /* value: the class */
    size_t classes, count;     /* count: lines, or words, held */
    char **texts;
    size_t *truth;
    size_t *counts, sentences; /* of words: of each sentence */
    size_t capacity[3];
    bool words;
    float *probabilities; /* (count, classes) */
    struct qkv_labels_evaluation *result;
    struct qkv_evaluate_share share; /* an answer for each line or word */
};
struct answer {
    double log; /* of the probability of the truth */
    uint32_t truth, best;
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

static enum qkv_status unknown_label(const struct evaluator *e, size_t line, struct qkv_word word) {
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
    return qkv_tsv_fail(&e->tsv, line, "the model has no class \"%.*s\"; its classes are %s",
                        (int)(word.size < 100 ? word.size : 100), word.text, known);
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

/* The same of a sentence, of whose words each must have a token. */
static enum qkv_status check_sentence(const struct evaluator *e, const struct qkv_tsv_row *row) {
    const struct qkv_tsv_sentence *s = row->sentence;
    size_t most = (size_t)qkv_model_spec(e->model)->context, count, bad;
    int32_t *ids, *firsts;
    enum qkv_status status = qkv_words_encode(qkv_model_context(e->model), qkv_model_source_tokenizer(e->model),
                                              s->words, s->count, &ids, &firsts, &count, &bad);
    qkv_free(ids);
    qkv_free(firsts);
    if (status) return qkv_tsv_fail_at(&e->tsv, s->lines[bad], status);
    if (count <= most) return QKV_OK;
    return qkv_tsv_fail(&e->tsv, row->line,
                        "the sentence that begins here has %zu tokens, but the model's context is %zu; put an empty "
                        "line into it, or remove it",
                        count, most);
}

static enum qkv_status add_text(struct evaluator *e, size_t line, struct qkv_word label, struct qkv_word text) {
    struct qkv_context *ctx = qkv_model_context(e->model);
    const struct qkv_string *class = qkv_strings_find(&e->labels, label.text, label.size);
    if (!class) return unknown_label(e, line, label);
    char **texts = qkv_list_room(ctx, e->texts, &e->capacity[0], e->count, 1, sizeof *texts);
    if (texts) e->texts = texts;
    size_t *truth = texts ? qkv_list_room(ctx, e->truth, &e->capacity[1], e->count, 1, sizeof *truth) : NULL;
    if (!truth) return QKV_MEMORY;
    e->truth = truth;
    e->truth[e->count] = (size_t) class->value;
    e->texts[e->count] = qkv_copy_bytes(ctx, text.text, text.size);
    return e->texts[e->count] ? (e->count++, QKV_OK) : QKV_MEMORY;
}

static enum qkv_status add_sentence(struct evaluator *e, const struct qkv_tsv_row *row) {
    const struct qkv_tsv_sentence *s = row->sentence;
    enum qkv_status status = QKV_OK;
    size_t *counts =
        qkv_list_room(qkv_model_context(e->model), e->counts, &e->capacity[2], e->sentences, 1, sizeof *counts);
    if (!counts) return QKV_MEMORY;
    e->counts = counts;
    e->counts[e->sentences++] = s->count;
    for (size_t i = 0; i < s->count && !status; i++) status = add_text(e, s->lines[i], s->labels[i], s->words[i]);
    return status ? status : check_sentence(e, row);
}

static enum qkv_status add_line(struct evaluator *e, const struct qkv_tsv_row *row) {
    if (e->words) return add_sentence(e, row);
    const struct qkv_word label = {row->first, row->first_size}, text = {row->second, row->second_size};
    enum qkv_status status = add_text(e, row->line, label, text);
    return status ? status : check_length(e, row);
}

static struct answer evaluate_labels_answer(const struct evaluator *e, const float *probabilities, size_t truth) {
    size_t best = 0;
    for (size_t k = 1; k < e->classes; k++)
        if (probabilities[k] > probabilities[best]) best = k;
    /* Below the smallest float a probability has no logarithm. */
    return (struct answer){.log = qkv_log(qkv_fmax((double)probabilities[truth], (double)FLT_TRUE_MIN)),
                           .truth = (uint32_t)truth,
                           .best = (uint32_t)best};
}

/* The classes of what is held, for this rank to say. */
static enum qkv_status evaluate_labels_classify(struct evaluator *e, struct answer *answers) {
    struct qkv_context *ctx = qkv_model_context(e->model);
    const char *const *texts = (const char *const *)e->texts;
    const struct qkv_line_options options = qkv_line_defaults();
    size_t cells = 0;
    enum qkv_status status =
        qkv_multiply(e->count + 1, e->classes, &cells) ? QKV_OK : qkv_fail_memory(ctx, SIZE_MAX, "the probabilities");
    float *probabilities = status ? NULL : qkv_reallocate(ctx, e->probabilities, cells, sizeof *probabilities);
    if (probabilities) e->probabilities = probabilities;
    if (!status && !probabilities) status = QKV_MEMORY;
    if (!status)
        status = e->words ? qkv_classify_words(e->model, texts, e->counts, e->sentences, &options, probabilities)
                          : qkv_classify(e->model, texts, e->count, NULL, probabilities);
    for (size_t i = 0; i < e->count && !status; i++)
        answers[i] = evaluate_labels_answer(e, e->probabilities + i * e->classes, e->truth[i]);
    return status;
}

static enum qkv_status evaluate_labels_flush(struct evaluator *e) {
    const bool mine = qkv_evaluate_share_next(&e->share);
    struct answer *answers = qkv_evaluate_share_add(&e->share, e->count);
    enum qkv_status status = !answers ? QKV_MEMORY : mine ? evaluate_labels_classify(e, answers) : QKV_OK;
    for (size_t i = 0; i < e->count; i++) free(e->texts[i]);
    e->count = e->sentences = 0;
    return status;
}

/* What all answers say together, in the order of lines. */
static void evaluate_labels_count(struct evaluator *e) {
    const struct answer *answers = (const void *)e->share.items;
    double nll = 0;
    for (size_t i = 0; i < e->share.count; i++) {
        nll -= answers[i].log;
        e->result->confusion[answers[i].truth * e->classes + answers[i].best]++;
    }
    e->result->lines = e->share.count;
    e->result->classes = e->classes;
    e->result->loss = nll / (double)e->share.count;
    e->result->accuracy = qkv_accuracy(e->result->confusion, e->classes);
    e->result->macro_f1 = qkv_macro_f1(e->result->confusion, e->classes);
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
    const struct qkv_line_options options = qkv_line_defaults();
    e->words = qkv_model_spec(e->model)->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    enum qkv_status status = e->words ? qkv_classify_words(e->model, NULL, NULL, 0, &options, NULL)
                                      : qkv_classify(e->model, NULL, 0, NULL, NULL); /* whether the model can */
    if (status) return status;
    e->classes = (size_t)qkv_model_spec(e->model)->head.classes;
    if (!qkv_multiply(e->classes, e->classes, &n)) return qkv_fail_memory(ctx, SIZE_MAX, "the confusion matrix");
    e->result->confusion = qkv_allocate(ctx, n, sizeof *e->result->confusion);
    if (!e->result->confusion) return QKV_MEMORY;
    status = learn_labels(e);
    if (!status) status = qkv_tsv_open(ctx, path, e->words ? "word" : "label", e->words ? "label" : "text", &e->tsv);
    e->tsv.sentences = e->words;
    return status;
}

enum qkv_status qkv_evaluate_labels(struct qkv_model *model, const char *path, qkv_progress *progress, void *user,
                                    struct qkv_labels_evaluation *evaluation) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, path);
    QKV_NEED(qkv_call, evaluation);
    struct evaluator *e = qkv_allocate(qkv_model_context(model), 1, sizeof *e);
    double started = qkv_clock();
    *evaluation = (struct qkv_labels_evaluation){0};
    if (!e) return QKV_MEMORY;
    e->model = model;
    e->result = evaluation;
    e->share = (struct qkv_evaluate_share){.ctx = qkv_model_context(model), .size = sizeof(struct answer)};
    enum qkv_status status = qkv_rank_check_evaluation_of(model, path, evaluate_labels_prepare(e, path));
    if (!status) status = evaluate_labels_run(e, progress, user);
    status = qkv_evaluate_share_gather(&e->share, status);
    if (!status) {
        evaluate_labels_count(e);
    } else {
        free(evaluation->confusion);
        *evaluation = (struct qkv_labels_evaluation){0};
    }
    evaluation->seconds = qkv_clock() - started;
    for (size_t i = 0; i < e->count; i++) free(e->texts[i]);
    qkv_tsv_close(&e->tsv);
    qkv_strings_free(&e->labels);
    free(e->texts);
    free(e->truth);
    free(e->counts);
    free(e->probabilities);
    qkv_evaluate_share_free(&e->share);
    free(e);
    return status;
}
