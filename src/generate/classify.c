/* Classification of lines of text, or of the words of sentences: passes over batches of similar length, softmax over
 * the classes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "generate/line_batches.h"
#include "generate/texts.h"
#include "model/decode.h"
#include "model/spec.h"
#include "text/sequence.h"

struct classifier_words { /* of all sentences, one after the other */
    const char *const *texts;
    const size_t *counts;
    size_t *first; /* of each sentence */
};
struct classifier_pairs {
    const char *const *firsts, *const *seconds;
    struct qkv_pair_template template;
    int types; /* token types of the model's embedding */
};
struct classifier {
    struct qkv_model *model;
    struct qkv_pass *pass;
    size_t B, T, lines; /* the largest batch of the pass; the number of all lines */
    float *probabilities;
    const struct classifier_pairs *pairs; /* NULL: no pairs */
    const struct classifier_words *words; /* NULL: no words; options: how they are read */
    const struct qkv_line_options *options;
};

/* Makes a pass for the batch. It plans up to twice the length, so that growing lengths need few passes. */
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
    enum qkv_status status = qkv_pass_create(
        c->model, &QKV_OPTIONS(qkv_pass_options, .B = B, .T = T, .rows = qkv_line_positions(B, T), .logits = true),
        &c->pass);
    if (status) return status;
    c->B = B;
    c->T = T;
    return QKV_OK;
}

static enum qkv_status classify_run(void *user, const struct qkv_line_batch *batch) {
    struct classifier *c = user;
    size_t classes = (size_t)qkv_model_spec(c->model)->head.classes;
    const int32_t *types = c->pairs && c->pairs->types > 1 ? batch->types : NULL; /* a single type has no information */
    enum qkv_status status = make_room(c, batch);
    if (!status)
        status = qkv_pass_forward(
            c->pass, &(struct qkv_batch){
                         .B = batch->B, .T = batch->T, .ids = batch->ids, .types = types, .lengths = batch->lengths});
    if (status) return status;
    struct qkv_array logits = qkv_pass_output(c->pass);
    for (size_t b = 0; b < batch->B; b++)
        if (!qkv_scores_take((const float *)logits.data + b * classes, classes,
                             c->probabilities + batch->lines[b] * classes))
            return qkv_fail(
                qkv_model_context(c->model), QKV_NUMBER,
                "the scores of line %zu are not finite: the model's weights are broken; use an earlier checkpoint",
                batch->lines[b] + 1);
    return QKV_OK;
}

bool qkv_classify_ends(const struct qkv_model *model) {
    return model->origin.family == NULL;
}

enum qkv_status qkv_classify_check(struct qkv_model *model) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    if (spec->head.kind != QKV_HEAD_CLASSIFY)
        return qkv_fail(qkv_model_context(model), QKV_ARGUMENT,
                        "classify needs a model with a classify head; this one has head.kind %s: %s",
                        qkv_head_text(spec->head.kind),
                        spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS
                            ? "it classifies the words of sentences (qkv_classify_words)"
                            : "train one on labelled lines (preset text-classifier, option labeled = FILE)");
    return QKV_OK;
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
    options = &own;
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct classifier c = {.model = model, .lines = count, .probabilities = probabilities};
    status = qkv_classify_check(model);
    if (!status) status = qkv_lines_check(model, "classify");
    if (status) return status;
    const bool ends = qkv_classify_ends(model);
    qkv_scores_none(count, (size_t)spec->head.classes, probabilities);
    struct qkv_line_reader reader = {
        .model = model, .begin = ends, .end = ends, .options = options, .run = classify_run, .user = &c};
    status = qkv_lines_run(&reader, lines, count);
    qkv_pass_free(c.pass);
    return status;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_classify_join(struct qkv_model *model, const struct qkv_pair_template *template,
                                  const struct qkv_long_rule *rule, const struct qkv_text_pair *pair, int32_t **ids,
                                  int32_t **types, size_t *count, enum qkv_long_fate *fate) {
    struct qkv_context *ctx = qkv_model_context(model);
    int32_t *parts[2] = {NULL};
    size_t sizes[2] = {0};
    enum qkv_status status = QKV_OK;
    *fate = QKV_FATE_FITS;
    *ids = *types = NULL;
    *count = 0;
    if (qkv_is_blank(pair->texts[0], pair->sizes[0]) && qkv_is_blank(pair->texts[1], pair->sizes[1])) return QKV_OK;
    for (size_t i = 0; i < 2 && !status; i++)
        status = qkv_tokenizer_encode(ctx, qkv_model_source_tokenizer(model), pair->texts[i], pair->sizes[i], false,
                                      &parts[i], &sizes[i]);
    if (!status) *fate = qkv_pair_join(ctx, template, rule, parts, sizes, ids, types, count);
    qkv_free(parts[0]);
    qkv_free(parts[1]);
    if (!status && *fate == QKV_FATE_FITS && (!*ids || !*types)) status = QKV_MEMORY;
    if (!status && *fate == QKV_FATE_FITS) return QKV_OK;
    qkv_free(*ids);
    qkv_free(*types);
    *ids = *types = NULL;
    return status;
}

static enum qkv_status classify_pair(void *user, size_t index, const struct qkv_long_rule *rule, int32_t **ids,
                                     int32_t **types, size_t *count) {
    const struct classifier *c = user;
    const char *first = c->pairs->firsts[index], *second = c->pairs->seconds[index];
    const struct qkv_text_pair pair = {{first, second}, {strlen(first), strlen(second)}};
    enum qkv_long_fate fate;
    enum qkv_status status = qkv_classify_join(c->model, &c->pairs->template, rule, &pair, ids, types, count, &fate);
    if (!status && fate == QKV_FATE_REFUSED)
        status = qkv_line_refuse(qkv_model_context(c->model), "pair", index, *count, rule->most);
    if (status || fate != QKV_FATE_FITS) *count = 0;
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
    options = &own;
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct classifier_pairs pairs = {.firsts = firsts, .seconds = seconds};
    struct classifier c = {.model = model, .lines = count, .probabilities = probabilities, .pairs = &pairs};
    status = qkv_classify_check(model);
    if (!status) status = qkv_lines_check(model, "classify");
    if (!status)
        status = qkv_pair_template_read(qkv_model_context(model), qkv_model_source_tokenizer(model),
                                        qkv_classify_ends(model), &pairs.template);
    if (status) return status;
    pairs.types = spec->encoder.layers ? spec->encoder.embed.types : spec->decoder.embed.types;
    qkv_scores_none(count, (size_t)spec->head.classes, probabilities);
    struct qkv_line_reader reader = {.model = model,
                                     .options = options,
                                     .what = "pair",
                                     .encode_typed = classify_pair,
                                     .run = classify_run,
                                     .user = &c};
    status = qkv_lines_run(&reader, NULL, count);
    qkv_pass_free(c.pass);
    qkv_pair_template_free(&pairs.template);
    return status;
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static enum qkv_status classify_words_encode(const struct classifier *c, size_t sentence, int32_t **ids,
                                             int32_t **firsts, size_t *count) {
    struct qkv_context *ctx = qkv_model_context(c->model);
    const size_t n = c->words->counts[sentence];
    const char *const *texts = c->words->texts + c->words->first[sentence];
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

static enum qkv_status classify_words_read(void *user, size_t sentence, int32_t **ids, size_t *count) {
    int32_t *firsts;
    enum qkv_status status = classify_words_encode(user, sentence, ids, &firsts, count);
    qkv_free(firsts);
    return status;
}

/* Takes the scores (T,classes) of one row: a word has those of its first token, unless that was cut off. */
static enum qkv_status classify_words_row(const struct classifier *c, const struct qkv_line_options *options,
                                          size_t sentence, const float *scores) {
    const size_t classes = (size_t)qkv_model_spec(c->model)->head.classes;
    const struct qkv_long_rule rule = {.kind = options->long_lines, .most = (size_t)qkv_model_spec(c->model)->context};
    int32_t *ids, *firsts;
    size_t count;
    enum qkv_status status = classify_words_encode(c, sentence, &ids, &firsts, &count);
    if (status) return status;
    qkv_long_apply(&rule, qkv_source_frame(qkv_model_source_tokenizer(c->model), true, true), firsts, &count);
    float *out = c->probabilities + c->words->first[sentence] * classes;
    for (size_t i = 0; i < count && !status; i++)
        if (firsts[i] && !qkv_scores_take(scores + i * classes, classes, out + (size_t)(firsts[i] - 1) * classes))
            status = qkv_fail(
                qkv_model_context(c->model), QKV_NUMBER,
                "the scores of sentence %zu are not finite: the model's weights are broken; use an earlier checkpoint",
                sentence + 1);
    qkv_free(ids);
    qkv_free(firsts);
    return status;
}

static enum qkv_status classify_words_run(void *user, const struct qkv_line_batch *batch) {
    struct classifier *c = user;
    const size_t classes = (size_t)qkv_model_spec(c->model)->head.classes;
    enum qkv_status status = make_room(c, batch);
    if (!status)
        status = qkv_pass_forward(
            c->pass, &(struct qkv_batch){.B = batch->B, .T = batch->T, .ids = batch->ids, .lengths = batch->lengths});
    const float *scores = status ? NULL : qkv_pass_output(c->pass).data;
    for (size_t b = 0; b < batch->B && !status; b++)
        status = classify_words_row(c, c->options, batch->lines[b], scores + b * batch->T * classes);
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
    options = &own;
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct classifier_words w = {.texts = words, .counts = counts};
    struct classifier c = {
        .model = model, .lines = sentences, .probabilities = probabilities, .words = &w, .options = options};
    size_t all = 0;
    if (spec->head.kind != QKV_HEAD_CLASSIFY_TOKENS)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "words are classified by a model with head.kind classify_tokens; this one has head.kind %s",
                        qkv_head_text(spec->head.kind));
    status = qkv_lines_check(model, "classify");
    if (status) return status;
    w.first = qkv_allocate(ctx, sentences + 1, sizeof *w.first);
    if (!w.first) return QKV_MEMORY;
    for (size_t i = 0; i < sentences; i++) {
        w.first[i] = all;
        all += counts[i];
    }
    qkv_scores_none(all, (size_t)spec->head.classes, probabilities);
    struct qkv_line_reader reader = {.model = model,
                                     .options = options,
                                     .what = "sentence",
                                     .encode = classify_words_read,
                                     .run = classify_words_run,
                                     .user = &c};
    reader.begin = reader.end = true;
    status = qkv_lines_run(&reader, NULL, sentences);
    qkv_pass_free(c.pass);
    free(w.first);
    return status;
}
