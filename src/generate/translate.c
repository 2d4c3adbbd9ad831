/* translate: lines of text to lines of text: encodes, searches and decodes some hundreds of lines at a time. */
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "generate/generate.h"
#include "generate/search.h"
#include "generate/texts.h"
#include "text/sequence.h"

enum { LINES = 512 }; /* at a time, or one batch if that is more */

struct translation {
    struct qkv_context *ctx;
    struct qkv_model *model;
    struct qkv_long_rule rule;
    struct qkv_languages languages;
    int32_t lead; /* the language that begins targets, which is no text; −1: none */
    qkv_take_translation *take;
    void *user;
    bool *blank;       /* of the options */
    int32_t **sources; /* of the lines that are not blank */
    size_t *lengths, *numbers, count;
    size_t given; /* lines passed on so far */
    struct qkv_buffer text;
    enum qkv_status status; /* an error while results were taken */
};

static bool translate_give(struct translation *t, size_t line, size_t rank, const char *text, size_t size, double score,
                           bool blank) {
    if (t->blank) *t->blank = blank;
    if (t->take(t->user, line, rank, text, size, score)) return true;
    t->status = qkv_fail(t->ctx, QKV_STOPPED, "translating was stopped by the caller");
    return false;
}

/* Passes on empty results for lines before `end` that have none: they are blank, or skipped. */
static bool give_blanks(struct translation *t, size_t end) {
    for (; t->given < end; t->given++)
        if (!translate_give(t, t->given, 0, "", 0, 0, true)) return false;
    return true;
}

/* Writes the text of a hypothesis. If tokens bring their own space, the first one of the text loses it. */
static enum qkv_status write_text(struct translation *t, const struct qkv_hypothesis *h) {
    t->text.size = 0;
    enum qkv_status status = qkv_buffer_append(t->ctx, &t->text, "", 0);
    for (size_t i = 0; i < h->count && !status; i++) {
        size_t size;
        const char *token = qkv_target_token(qkv_model_tokenizer(t->model), t->lead, true, h->ids, i, &size);
        if (token) status = qkv_buffer_append(t->ctx, &t->text, token, size);
    }
    return status;
}

static bool take_hypotheses(void *user, size_t source, const struct qkv_hypothesis *hypotheses, size_t count) {
    struct translation *t = user;
    size_t line = t->numbers[source];
    if (!give_blanks(t, line)) return false;
    t->given = line + 1;
    for (size_t rank = 0; rank < count; rank++) {
        t->status = write_text(t, &hypotheses[rank]);
        if (t->status) return false;
        const char *text = t->text.size ? t->text.data : "";
        if (!translate_give(t, line, rank, text, t->text.size, hypotheses[rank].score, false)) return false;
    }
    return true;
}

/* ---- a group of lines ------------------------------------------------------------------------------------------- */

static enum qkv_status translate_read(struct translation *t, const char *text, size_t i) {
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(t->model);
    int32_t **ids = &t->sources[t->count];
    size_t *length = &t->lengths[t->count];
    enum qkv_status status = qkv_source_encode(t->ctx, tokenizer, text, strlen(text), false, true, ids, length);
    struct qkv_sequence_frame frame = qkv_source_frame(tokenizer, false, true);
    if (!status) status = qkv_languages_put(t->model, &t->languages, &frame, ids, length);
    if (status) {
        qkv_free(*ids);
        return status;
    }
    const enum qkv_long_fate fate = qkv_long_apply(&t->rule, frame, *ids, length);
    if (fate == QKV_FATE_FITS)
        t->numbers[t->count++] = i;
    else
        qkv_free(*ids);
    return fate == QKV_FATE_REFUSED ? qkv_line_refuse(t->model, "line", i, *length, t->rule.most) : QKV_OK;
}

static enum qkv_status read_lines(struct translation *t, const char *const *lines, size_t first, size_t end) {
    enum qkv_status status = QKV_OK;
    for (size_t i = first; i < end && !status; i++)
        if (!qkv_is_blank(lines[i], strlen(lines[i]))) status = translate_read(t, lines[i], i);
    return status;
}

static void forget_lines(struct translation *t) {
    for (size_t i = 0; i < t->count; i++) qkv_free(t->sources[i]);
    t->count = 0;
}

static enum qkv_status translate_some(struct translation *t, struct qkv_search_job *job, const char *const *lines,
                                      size_t first, size_t end) {
    enum qkv_status status = read_lines(t, lines, first, end);
    job->count = t->count;
    if (!status) status = qkv_search_run(t->model, job);
    forget_lines(t);
    if (t->status) return t->status;
    return status || give_blanks(t, end) ? status : t->status;
}

/* Sets the languages of a translation, and the rules with them. */
static enum qkv_status translate_languages(struct translation *t, struct qkv_search_options *o,
                                           struct qkv_token_rules *rules, struct qkv_search_job *job) {
    enum qkv_status status = qkv_languages_choose(t->model, o->source_language, o->target_language, &t->languages);
    const struct qkv_token_rules *const asked = o->rules;
    if (!status) status = qkv_rules_take(t->model, asked, rules);
    if (status) return status;
    if (t->languages.begin >= 0) job->ids.begin = t->languages.begin;
    o->rules = rules;
    o->source_language = o->target_language = NULL;
    return qkv_languages_rule(t->model, &t->languages, asked, rules, &t->lead);
}

enum qkv_status qkv_translate(struct qkv_model *model, const char *const *lines, size_t count,
                              const struct qkv_search_options *options, qkv_take_translation *take, void *user) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, take);
    QKV_NEED_ALL(qkv_call, count, lines);
    struct qkv_search_options own = qkv_search_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_search_options, &own, options);
    if (status) return status;
    options = &own;
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_token_rules rules;
    struct translation t = {.ctx = ctx, .model = model, .take = take, .user = user, .blank = own.blank};
    struct qkv_search_job job = {.what = "line", .options = options, .take = take_hypotheses, .user = &t};
    status = qkv_search_check_model(model, "translate");
    if (!status) status = qkv_search_find_ids(model, &job);
    if (!status) status = translate_languages(&t, &own, &rules, &job);
    if (status) return status;
    t.rule = (struct qkv_long_rule){
        .kind = options->long_lines, .most = (size_t)qkv_model_spec(model)->context, .found = options->long_count};
    const size_t group = options->batch > LINES ? options->batch : LINES, some = count < group ? count + 1 : group;
    t.sources = qkv_allocate(ctx, some, sizeof *t.sources);
    t.lengths = qkv_allocate(ctx, some, sizeof *t.lengths);
    t.numbers = qkv_allocate(ctx, some, sizeof *t.numbers);
    if (!t.sources || !t.lengths || !t.numbers) status = QKV_MEMORY;
    job.sources = (const int32_t *const *)t.sources;
    job.lengths = t.lengths;
    job.numbers = t.numbers;
    for (size_t first = 0; first < count && !status; first += group)
        status = translate_some(&t, &job, lines, first, count - first < group ? count : first + group);
    free(t.sources);
    free(t.lengths);
    free(t.numbers);
    qkv_buffer_free(&t.text);
    return status;
}
