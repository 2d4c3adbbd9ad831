/* Classification of lines of text, or of the words of sentences: softmax over the classes. */
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "generate/engine_lines.h"
#include "model/spec.h"

struct classifier_words { /* of all sentences, one after the other */
    const char *const *texts;
    const size_t *counts;
    size_t *first; /* of each sentence */
};
struct classifier {
    struct qkv_model *model;
    const struct qkv_line_reader *reader;
    float *probabilities;
    const char *const *lines, *const *seconds; /* seconds: of pairs */
    struct qkv_pair_template template;         /* of pairs */
    struct classifier_words words;
};

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static enum qkv_status classify_read(void *user, size_t index, const struct qkv_long_rule *rule,
                                     struct qkv_engine_text *text) {
    const struct classifier *c = user;
    const char *line = c->lines[index];
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(c->model);
    const bool ends = qkv_classify_ends(c->model);
    if (qkv_is_blank(line, strlen(line))) return QKV_OK;
    const enum qkv_status status = qkv_source_encode(qkv_model_context(c->model), tokenizer, line, strlen(line), ends,
                                                     ends, &text->ids, &text->count);
    return status ? status : qkv_lines_fit(c->reader, index, rule, qkv_source_frame(tokenizer, ends, ends), text);
}

static enum qkv_status classify_take(void *user, size_t index, const struct qkv_engine_event *event) {
    const struct classifier *c = user;
    if (event->finish == QKV_FINISH_FAILED)
        return qkv_fail(
            qkv_model_context(c->model), QKV_NUMBER,
            "the scores of line %zu are not finite: the model's weights are broken; use an earlier checkpoint",
            index + 1);
    memcpy(c->probabilities + index * event->vector_count, event->vector,
           event->vector_count * sizeof *c->probabilities);
    return QKV_OK;
}

/* Runs a reader of texts that have one vector each. */
static enum qkv_status classify_run(struct classifier *c, size_t count, struct qkv_line_reader *reader) {
    reader->model = c->model;
    reader->user = c;
    c->reader = reader;
    return qkv_lines_run(reader, count);
}

enum qkv_status qkv_classify(struct qkv_model *model, const char *const *lines, size_t count,
                             const struct qkv_line_options *options, float *probabilities) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, lines);
    QKV_NEED_ALL(qkv_call, count, probabilities);
    struct qkv_line_options own = qkv_line_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_line_options, &own, options);
    if (status) return status;
    struct classifier c = {.model = model, .probabilities = probabilities, .lines = lines};
    status = qkv_classify_check(model);
    if (!status) status = qkv_lines_check(model, "classify");
    if (status) return status;
    qkv_scores_none(count, (size_t)qkv_model_spec(model)->head.classes, probabilities);
    return classify_run(&c, count,
                        &(struct qkv_line_reader){.kind = QKV_ENGINE_CLASSIFY,
                                                  .options = &own,
                                                  .what = "line",
                                                  .read = classify_read,
                                                  .take = classify_take});
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static enum qkv_status classify_read_pair(void *user, size_t index, const struct qkv_long_rule *rule,
                                          struct qkv_engine_text *text) {
    const struct classifier *c = user;
    const char *first = c->lines[index], *second = c->seconds[index];
    const struct qkv_text_pair pair = {{first, second}, {strlen(first), strlen(second)}};
    enum qkv_long_fate fate;
    enum qkv_status status =
        qkv_classify_join(c->model, &c->template, rule, &pair, &text->ids, &text->types, &text->count, &fate);
    if (!status && fate == QKV_FATE_REFUSED)
        status = qkv_line_refuse(c->model, c->reader->what, index, text->count, rule->most);
    if (status || fate != QKV_FATE_FITS) text->count = 0;
    return status;
}

enum qkv_status qkv_classify_pairs(struct qkv_model *model, const char *const *firsts, const char *const *seconds,
                                   size_t count, const struct qkv_line_options *options, float *probabilities) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, firsts);
    QKV_NEED_ALL(qkv_call, count, seconds);
    QKV_NEED_ALL(qkv_call, count, probabilities);
    struct qkv_line_options own = qkv_line_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_line_options, &own, options);
    if (status) return status;
    struct classifier c = {.model = model, .probabilities = probabilities, .lines = firsts, .seconds = seconds};
    status = qkv_classify_check(model);
    if (!status) status = qkv_lines_check(model, "classify");
    if (!status)
        status = qkv_pair_template_read(qkv_model_context(model), qkv_model_source_tokenizer(model),
                                        qkv_classify_ends(model), &c.template);
    if (status) return status;
    qkv_scores_none(count, (size_t)qkv_model_spec(model)->head.classes, probabilities);
    status = classify_run(&c, count,
                          &(struct qkv_line_reader){.kind = QKV_ENGINE_CLASSIFY,
                                                    .options = &own,
                                                    .what = "pair",
                                                    .read = classify_read_pair,
                                                    .take = classify_take});
    qkv_pair_template_free(&c.template);
    return status;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static enum qkv_status classify_words_encode(const struct classifier *c, size_t sentence, int32_t **ids,
                                             int32_t **firsts, size_t *count) {
    struct qkv_context *ctx = qkv_model_context(c->model);
    const size_t n = c->words.counts[sentence];
    const char *const *texts = c->words.texts + c->words.first[sentence];
    size_t bad;
    *ids = *firsts = NULL;
    *count = 0;
    if (!n) return QKV_OK;
    struct qkv_word *words = qkv_allocate(ctx, n, sizeof *words);
    if (!words) return QKV_MEMORY;
    for (size_t i = 0; i < n; i++) words[i] = (struct qkv_word){texts[i], strlen(texts[i])};
    enum qkv_status status =
        qkv_words_encode(ctx, qkv_model_source_tokenizer(c->model), words, n, ids, firsts, count, &bad);
    if (status) qkv_fail_at(ctx, "sentence %zu", sentence + 1);
    free(words);
    return status;
}

static enum qkv_status classify_words_read(void *user, size_t sentence, const struct qkv_long_rule *rule,
                                           struct qkv_engine_text *text) {
    const struct classifier *c = user;
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(c->model);
    int32_t *firsts;
    const enum qkv_status status = classify_words_encode(c, sentence, &text->ids, &firsts, &text->count);
    qkv_free(firsts);
    return status ? status : qkv_lines_fit(c->reader, sentence, rule, qkv_source_frame(tokenizer, true, true), text);
}

/* Takes the scores (T,classes) of one sentence: a word has those of its first token, unless that was cut off. */
static enum qkv_status classify_words_take(void *user, size_t sentence, const struct qkv_engine_event *event) {
    const struct classifier *c = user;
    const size_t classes = (size_t)qkv_model_spec(c->model)->head.classes;
    struct qkv_long_rule rule = qkv_lines_rule(c->reader);
    int32_t *ids, *firsts;
    size_t count;
    rule.found = NULL; /* it was counted */
    enum qkv_status status = classify_words_encode(c, sentence, &ids, &firsts, &count);
    if (status) return status;
    qkv_long_apply(&rule, qkv_source_frame(qkv_model_source_tokenizer(c->model), true, true), firsts, &count);
    float *out = c->probabilities + c->words.first[sentence] * classes;
    for (size_t i = 0; i < count && !status; i++)
        if (firsts[i] &&
            !qkv_scores_take(event->vector + i * classes, classes, out + (size_t)(firsts[i] - 1) * classes))
            status = qkv_fail(
                qkv_model_context(c->model), QKV_NUMBER,
                "the scores of sentence %zu are not finite: the model's weights are broken; use an earlier checkpoint",
                sentence + 1);
    qkv_free(ids);
    qkv_free(firsts);
    return status;
}

enum qkv_status qkv_classify_words(struct qkv_model *model, const char *const *words, const size_t *counts,
                                   size_t sentences, const struct qkv_line_options *options, float *probabilities) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, sentences, words);
    QKV_NEED_ALL(qkv_call, sentences, counts);
    QKV_NEED_ALL(qkv_call, sentences, probabilities);
    struct qkv_line_options own = qkv_line_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_line_options, &own, options);
    if (status) return status;
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct classifier c = {
        .model = model, .probabilities = probabilities, .words = {.texts = words, .counts = counts}};
    size_t all = 0;
    if (spec->head.kind != QKV_HEAD_CLASSIFY_TOKENS)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "words are classified by a model with head.kind classify_tokens; this one has head.kind %s",
                        qkv_head_text(spec->head.kind));
    status = qkv_lines_check(model, "classify");
    if (status) return status;
    c.words.first = qkv_allocate(ctx, sentences + 1, sizeof *c.words.first);
    if (!c.words.first) return QKV_MEMORY;
    for (size_t i = 0; i < sentences; i++) {
        c.words.first[i] = all;
        all += counts[i];
    }
    qkv_scores_none(all, (size_t)spec->head.classes, probabilities);
    status = classify_run(&c, sentences,
                          &(struct qkv_line_reader){.kind = QKV_ENGINE_TOKENS,
                                                    .options = &own,
                                                    .what = "sentence",
                                                    .read = classify_words_read,
                                                    .take = classify_words_take});
    free(c.words.first);
    return status;
}
