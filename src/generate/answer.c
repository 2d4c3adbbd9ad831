/* Answers to questions about a text: the span of the text that is likeliest by the model's two scores of each token,
 * for the beginning and for the end. */
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "base/sized_options.h"
#include "generate/engine_lines.h"
#include "text/text.h"

struct answerer {
    struct qkv_model *model;
    const struct qkv_line_reader *reader;
    const char *const *questions, *const *texts;
    struct qkv_pair_template template;
    struct qkv_answer *answers;
};

bool qkv_model_answers(const struct qkv_model *model) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    return spec && spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS && spec->head.classes == 2 && model->label_count == 2 &&
           !strcmp(model->labels[0], QKV_ANSWER_BEGIN) && !strcmp(model->labels[1], QKV_ANSWER_END);
}

/* Encodes both texts as one sequence. `places`: -1 for tokens of the question, -2 - i for token i of the text, whose
 * bytes are spans[2·i] to spans[2·i + 1]. */
static enum qkv_status answer_join(const struct answerer *a, size_t index, const struct qkv_long_rule *rule,
                                   bool places, int32_t **ids, int32_t **types, size_t *count, size_t **spans) {
    struct qkv_context *ctx = qkv_model_context(a->model);
    const struct qkv_tokenizer *t = qkv_model_source_tokenizer(a->model);
    const char *question = a->questions[index], *text = a->texts[index];
    int32_t *parts[2] = {NULL};
    size_t sizes[2] = {0};
    enum qkv_long_fate fate = QKV_FATE_SKIPPED;
    *ids = *types = NULL, *spans = NULL, *count = 0;
    if (qkv_is_blank(text, strlen(text))) return QKV_OK;
    enum qkv_status status = qkv_tokenizer_encode(ctx, t, question, strlen(question), false, &parts[0], &sizes[0]);
    if (!status) status = qkv_tokenizer_encode_spans(ctx, t, text, strlen(text), false, &parts[1], spans, &sizes[1]);
    for (size_t i = 0; places && i < sizes[0] && !status; i++) parts[0][i] = -1;
    for (size_t i = 0; places && i < sizes[1] && !status; i++) parts[1][i] = -2 - (int32_t)i;
    if (!status) fate = qkv_pair_join(ctx, &a->template, rule, parts, sizes, ids, types, count);
    qkv_free(parts[0]);
    qkv_free(parts[1]);
    if (!status && fate == QKV_FATE_REFUSED) status = qkv_line_refuse(a->model, "pair", index, *count, rule->most);
    if (!status && fate == QKV_FATE_FITS && (!*ids || !*types)) status = QKV_MEMORY;
    if (!status && fate == QKV_FATE_FITS) return QKV_OK;
    qkv_free(*ids);
    qkv_free(*types);
    qkv_free(*spans);
    *ids = *types = NULL, *spans = NULL, *count = 0;
    return status;
}

static enum qkv_status answer_read(void *user, size_t index, const struct qkv_long_rule *rule,
                                   struct qkv_engine_text *text) {
    size_t *spans;
    const enum qkv_status status =
        answer_join(user, index, rule, false, &text->ids, &text->types, &text->count, &spans);
    qkv_free(spans);
    return status;
}

/* Writes the softmax of every second score over the positions in `part` into `p`. Returns false if it is not finite. */
static bool answer_softmax(const float *scores, const bool *part, size_t T, double *p) {
    double largest = -INFINITY, sum = 0;
    for (size_t t = 0; t < T; t++) {
        if (!isfinite(scores[2 * t])) return false;
        if (part[t] && (double)scores[2 * t] > largest) largest = (double)scores[2 * t];
    }
    for (size_t t = 0; t < T; t++) sum += p[t] = part[t] ? qkv_exp((double)scores[2 * t] - largest) : 0;
    for (size_t t = 0; t < T && sum > 0; t++) p[t] /= sum;
    return true;
}

/* Letters, digits and all characters that are not ASCII: an answer never ends inside such a word. */
static bool answer_in_word(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
}

static void answer_whole_words(const char *text, struct qkv_answer *answer) {
    const unsigned char *at = (const unsigned char *)text;
    while (answer->begin > 0 && answer_in_word(at[answer->begin]) && answer_in_word(at[answer->begin - 1]))
        answer->begin--;
    while (answer->end > 0 && answer_in_word(at[answer->end - 1]) && answer_in_word(at[answer->end])) answer->end++;
}

/* Finds the answer in one row (T,2); tokens have the places of answer_join. The token at the beginning takes part
 * in the softmax, because models score "no answer" there; it is never an answer itself. */
static enum qkv_status answer_row(const struct answerer *a, size_t index, const int32_t *places, const size_t *spans,
                                  size_t T, const float *scores) {
    struct qkv_context *ctx = qkv_model_context(a->model);
    const int class = qkv_tokenizer_role(qkv_model_source_tokenizer(a->model), QKV_TOKEN_ROLE_CLASS);
    bool *part = qkv_allocate(ctx, T, sizeof *part);
    double *start = qkv_allocate(ctx, 2 * T, sizeof *start), *end = start ? start + T : NULL, best = 0;
    size_t first = 0, last = 0;
    enum qkv_status status = part && start ? QKV_OK : QKV_MEMORY;
    for (size_t t = 0; t < T && !status; t++) part[t] = places[t] < -1 || (class >= 0 && places[t] == class);
    if (!status && (!answer_softmax(scores, part, T, start) || !answer_softmax(scores + 1, part, T, end)))
        status =
            qkv_fail(ctx, QKV_NUMBER,
                     "the scores of pair %zu are not finite: the model's weights are broken; use an earlier checkpoint",
                     index + 1);
    for (size_t s = 0; s < T && !status; s++)
        for (size_t e = s; e < T && e < s + QKV_ANSWER_TOKENS && places[s] < -1; e++)
            if (places[e] < -1 && start[s] * end[e] > best) best = start[s] * end[e], first = s, last = e;
    if (!status && best > 0) {
        struct qkv_answer *answer = &a->answers[index];
        answer->begin = spans[2 * (size_t)(-2 - places[first])];
        answer->end = spans[2 * (size_t)(-2 - places[last]) + 1];
        answer->score = best;
        answer_whole_words(a->texts[index], answer);
    }
    free(part);
    free(start);
    return status;
}

static enum qkv_status answer_take(void *user, size_t index, const struct qkv_engine_event *event) {
    const struct answerer *a = user;
    struct qkv_long_rule rule = qkv_lines_rule(a->reader);
    int32_t *places, *types;
    size_t count, *spans;
    rule.found = NULL; /* it was counted */
    enum qkv_status status = answer_join(a, index, &rule, true, &places, &types, &count, &spans);
    if (!status && places) status = answer_row(a, index, places, spans, count, event->vector);
    qkv_free(places);
    qkv_free(types);
    qkv_free(spans);
    return status;
}

enum qkv_status qkv_answer(struct qkv_model *model, const char *const *questions, const char *const *texts,
                           size_t count, const struct qkv_line_options *options, struct qkv_answer *answers) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, questions);
    QKV_NEED_ALL(qkv_call, count, texts);
    QKV_NEED_ALL(qkv_call, count, answers);
    struct qkv_line_options own = qkv_line_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_line_options, &own, options);
    if (status) return status;
    struct answerer a = {.model = model, .questions = questions, .texts = texts, .answers = answers};
    if (!qkv_model_answers(model))
        return qkv_fail(qkv_model_context(model), QKV_ARGUMENT,
                        "questions are answered by a model with head.kind classify_tokens and the two classes "
                        "\"" QKV_ANSWER_BEGIN "\" and \"" QKV_ANSWER_END "\"");
    status = qkv_lines_check(model, "classify");
    if (!status)
        status = qkv_pair_template_read(qkv_model_context(model), qkv_model_source_tokenizer(model),
                                        model->origin.family == NULL, &a.template);
    if (status) return status;
    for (size_t i = 0; i < count; i++) answers[i] = (struct qkv_answer){0};
    const struct qkv_line_reader reader = {.model = model,
                                           .kind = QKV_ENGINE_TOKENS,
                                           .options = &own,
                                           .what = "pair",
                                           .read = answer_read,
                                           .take = answer_take,
                                           .user = &a};
    a.reader = &reader;
    status = qkv_lines_run(&reader, count);
    qkv_pair_template_free(&a.template);
    return status;
}
