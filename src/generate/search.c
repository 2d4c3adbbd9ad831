/* search: the best targets of many sources, which an engine finds, several of them at a time.
 *
 * Sources come in windows, and the engine gets the longest of a window first, so that the last ones end soon. Results
 * are passed on in the order of the sources, and a window before the next one begins, so memory does not grow with the
 * number of sources. The scores of a row do not depend on the other rows, so the result of a source does not depend on
 * its neighbours. */
#include "base/sized_options.h"
#include "generate/engine.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = QKV_SEARCH_BATCH, WINDOW_BATCHES = 16 };

/* What was found for a source, best first. */
struct search_result {
    struct qkv_engine_told *first, *last;
    size_t count, ended; /* ended: with those that a narrow search does not have */
};
struct search {
    struct qkv_model *model;
    struct qkv_context *ctx;
    const struct qkv_search_job *job;
    size_t vocab;                  /* ids that can be chosen */
    size_t width, batch;           /* hypotheses of a source; sources that run together */
    struct qkv_engine *engine;     /* NULL: there was no window yet */
    size_t first, count;           /* of a window: its first source; their number */
    size_t *order;                 /* (count): the longest first */
    struct search_result *results; /* (count) */
    size_t given;                  /* of them */
    uint64_t request;              /* of the longest source of the window */
    struct qkv_hypothesis *best;   /* (n_best) */
};

void qkv_search_options_init(struct qkv_search_options *options, size_t size) {
    const struct qkv_search_options usual = {
        .size = sizeof usual, .beam = 1, .n_best = 1, .length_penalty = 0.6, .sampling = qkv_sampling_defaults()};
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* ---- checks ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_search_check_model(struct qkv_model *model, const char *doing) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    struct qkv_context *ctx = qkv_model_context(model);
    if (qkv_spec_topology(spec) != QKV_ENCODER_DECODER)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s needs an encoder and a decoder; this model has %s", doing,
                        spec->decoder.layers ? "a decoder alone; use generate"
                                             : "an encoder alone; use classify, fill or embed");
    if (spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s needs an lm head, which scores the next token; this model has another",
                        doing);
    return QKV_OK;
}

enum qkv_status qkv_search_check(struct qkv_context *ctx, size_t context, const struct qkv_search_options *o) {
    char shown[QKV_REAL_TEXT];
    if (o->beam < 1 || o->beam > 65536)
        return qkv_fail(ctx, QKV_ARGUMENT, "beam is %zu; it must be from 1 (greedy) to 65536", o->beam);
    if (o->n_best < 1 || o->n_best > 65536)
        return qkv_fail(ctx, QKV_ARGUMENT, "n_best is %zu; it must be from 1 to 65536", o->n_best);
    if (o->sample && o->beam > 1)
        return qkv_fail(ctx, QKV_ARGUMENT, "sampling has no beam; leave beam at 1, or search without sampling");
    if (!o->sample && o->n_best > o->beam)
        return qkv_fail(ctx, QKV_ARGUMENT, "n_best is %zu, but a beam of %zu has at most %zu results; widen the beam",
                        o->n_best, o->beam, o->beam);
    if (!isfinite(o->length_penalty))
        return qkv_fail(ctx, QKV_ARGUMENT, "length_penalty is %s; it must be from -1.7e308 to 1.7e308 (0: off)",
                        qkv_real_text(shown, o->length_penalty));
    if (o->max_tokens > context - 1 && o->max_tokens)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "max_tokens is %zu, but the model's context of %zu holds %zu after the beginning; give less",
                        o->max_tokens, context, context - 1);
    if (o->batch > 65536)
        return qkv_fail(ctx, QKV_ARGUMENT, "batch is %zu; it must be from 0 to 65536 (0: %d)", o->batch, BATCH);
    if (!qkv_stopping_name(o->stopping))
        return qkv_fail(ctx, QKV_ARGUMENT, "stopping is %d; it must be never, false or true", (int)o->stopping);
    return qkv_sampling_check(ctx, &o->sampling);
}

static enum qkv_status search_check_ids(const struct search *s) {
    const struct qkv_search_ids *ids = &s->job->ids;
    const int vocab = qkv_model_spec(s->model)->vocab;
    if (ids->begin < 0 || ids->begin >= vocab || ids->ends.ids[0] >= vocab)
        return qkv_fail(s->ctx, QKV_ARGUMENT, "targets begin with %d and end with %d, but ids are 0 to %d", ids->begin,
                        ids->ends.ids[0], vocab - 1);
    return QKV_OK;
}

static size_t number_of(const struct search *s, size_t source) {
    return s->job->numbers ? s->job->numbers[source] : source;
}

static enum qkv_status search_check_source(const struct search *s, size_t source) {
    const size_t context = (size_t)qkv_model_spec(s->model)->context, length = s->job->lengths[source];
    if (length < 1)
        return qkv_fail(s->ctx, QKV_ARGUMENT, "%s %zu is empty; it has at least an end", s->job->what,
                        number_of(s, source) + 1);
    if (length > context)
        return qkv_fail(s->ctx, QKV_ARGUMENT,
                        "%s %zu has %zu tokens with its end, but the model's context holds %zu; shorten it",
                        s->job->what, number_of(s, source) + 1, length, context);
    return QKV_OK;
}

/* ---- rules ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_search_rule(struct qkv_model *model, struct qkv_search_rules *rules) {
    const struct qkv_search_options *o = rules->options;
    struct qkv_score_rules *score = &rules->score;
    enum qkv_status status = qkv_rules_take(model, o->rules, &score->tokens);
    if (o->no_repeat) score->tokens.no_repeat = o->no_repeat;
    score->penalty = o->sample ? 1 : o->sampling.repeat_penalty;
    score->penalty_last = (size_t)o->sampling.repeat_last;
    score->ends = rules->ids.ends;
    size_t kinds = 1 + qkv_max(rules->ids.ends.count, (size_t)1);
    if (!status && !qkv_multiply(kinds, o->beam, &rules->most))
        status = qkv_fail_memory(rules->ctx, SIZE_MAX, "the hypotheses of a source");
    return status;
}

/* The maximum number of tokens of the target. */
static size_t search_longest(const struct search *s, size_t source) {
    const size_t room = (size_t)qkv_model_spec(s->model)->context - 1, wanted = s->job->options->max_tokens;
    return qkv_min(room, wanted ? wanted : 3 * s->job->lengths[source] + 50);
}

/* ---- a window --------------------------------------------------------------------------------------------------- */

struct place {
    size_t length, at;
};

static int longer_first(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static enum qkv_status window_sort(struct search *s) {
    struct place *places = qkv_allocate(s->ctx, s->count, sizeof *places);
    if (!places) return QKV_MEMORY;
    for (size_t i = 0; i < s->count; i++) places[i] = (struct place){s->job->lengths[s->first + i], i};
    qsort(places, s->count, sizeof *places, longer_first);
    for (size_t i = 0; i < s->count; i++) s->order[i] = places[i].at;
    free(places);
    return QKV_OK;
}

/* Opens an engine, if there is none that has room for the window. */
static enum qkv_status window_open(struct search *s) {
    struct qkv_search_shape shape = {.sources = qkv_min(s->batch, s->count), .width = s->width};
    for (size_t i = s->first; i < s->first + s->count; i++) {
        shape.T = qkv_max(shape.T, s->job->lengths[i]);
        shape.capacity = qkv_max(shape.capacity, search_longest(s, i) + 1);
    }
    if (s->engine && shape.T <= s->engine->room.longest && shape.capacity <= s->engine->context) return QKV_OK;
    qkv_engine_free(s->engine);
    s->engine = NULL;
    return qkv_engine_open_searcher(s->model, &shape, &s->engine);
}

static enum qkv_status window_begin(struct search *s) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < s->count && !status; i++) status = search_check_source(s, s->first + i);
    if (!status) status = window_sort(s);
    return status ? status : window_open(s);
}

static void window_forget(struct search *s) {
    for (size_t i = 0; i < s->count; i++) {
        for (struct qkv_engine_told *told = s->results[i].first, *next; told; told = next) {
            next = told->next;
            qkv_engine_told_free(told);
        }
        s->results[i] = (struct search_result){0};
    }
    s->given = 0;
}

/* Queues the search for a source. */
static enum qkv_status window_submit(struct search *s, size_t source, uint64_t *id) {
    const struct qkv_search_ids *ids = &s->job->ids;
    struct qkv_search_options options = *s->job->options;
    struct qkv_engine_source search = {.prompt = {.vocab = s->vocab,
                                                  .count = 1,
                                                  .source_count = s->job->lengths[source],
                                                  .barred = ids->barred.count ? *ids->barred.ids : -1},
                                       .options = &options,
                                       .number = number_of(s, source),
                                       .what = s->job->what};
    struct qkv_prompt *p = &search.prompt;
    options.max_tokens = search_longest(s, source);
    options.tokens = options.long_count = NULL;
    p->ids = qkv_allocate(s->ctx, 1, sizeof *p->ids);
    p->source = qkv_allocate(s->ctx, p->source_count, sizeof *p->source);
    if (p->ids) *p->ids = ids->begin;
    if (p->source) memcpy(p->source, s->job->sources[source], p->source_count * sizeof *p->source);
    p->end_count = qkv_min(ids->ends.count, sizeof p->ends / sizeof *p->ends);
    memcpy(p->ends, ids->ends.ids, p->end_count * sizeof *p->ends);
    const enum qkv_status status = p->ids && p->source ? qkv_engine_submit_source(s->engine, &search, id) : QKV_MEMORY;
    qkv_prompt_free(p);
    return status;
}

/* Queues as many sources as are searched together; *next: the place of the next one in the order. */
static enum qkv_status window_submit_some(struct search *s, size_t *next) {
    enum qkv_status status = QKV_OK;
    uint64_t id = 0;
    for (; *next < s->count && s->engine->state.waiting < s->engine->row_count && !status; ++*next) {
        status = window_submit(s, s->first + s->order[*next], &id);
        if (!*next) s->request = id;
    }
    return status;
}

/* Takes what the engine has found. */
static enum qkv_status window_hear(struct search *s) {
    struct qkv_engine_told *told;
    while ((told = qkv_engine_take(s->engine))) {
        struct search_result *r = &s->results[s->order[told->event.request - s->request]];
        const bool failed = told->event.finish == QKV_FINISH_FAILED, found = !failed && told->event.hypothesis;
        const enum qkv_status status = failed ? told->status : QKV_OK;
        if (failed && told->message) qkv_fail(s->ctx, status, "%s", told->message);
        r->ended++;
        r->count += found;
        if (found && r->last) r->last->next = told;
        if (found && !r->last) r->first = told;
        if (found) r->last = told;
        if (!found) qkv_engine_told_free(told);
        if (status) return status;
    }
    return QKV_OK;
}

/* Passes on the results of the next sources, as far as all of each are there. */
static enum qkv_status window_give(struct search *s) {
    const struct qkv_search_options *o = s->job->options;
    for (; s->given < s->count && s->results[s->given].ended == o->n_best; s->given++) {
        const struct search_result *r = &s->results[s->given];
        size_t k = 0;
        for (const struct qkv_engine_told *told = r->first; told; told = told->next) s->best[k++] = told->hypothesis;
        for (k = 0; o->tokens && k < r->count; k++) *o->tokens += s->best[k].count + s->best[k].ended;
        if (!s->job->take(s->job->user, s->first + s->given, s->best, r->count))
            return qkv_fail(s->ctx, QKV_STOPPED, "searching was stopped by the caller");
    }
    return QKV_OK;
}

static enum qkv_status window_run(struct search *s) {
    size_t next = 0;
    enum qkv_status status = window_begin(s);
    for (bool busy = true; (busy || next < s->count) && !status;) {
        status = window_submit_some(s, &next);
        if (!status) status = qkv_engine_step(s->engine, &busy);
        if (!status) status = window_hear(s);
        if (!status) status = window_give(s);
    }
    if (!status && s->given < s->count) status = qkv_fail_memory(s->ctx, sizeof(struct qkv_engine_told), "a result");
    window_forget(s);
    return status;
}

/* ---- the search ------------------------------------------------------------------------------------------------- */

static enum qkv_status search_windows(struct search *s) {
    const size_t count = s->job->count, window = qkv_min(count, s->batch * WINDOW_BATCHES);
    enum qkv_status status = QKV_OK;
    s->order = qkv_allocate(s->ctx, window, sizeof *s->order);
    s->results = qkv_allocate(s->ctx, window, sizeof *s->results);
    s->best = qkv_allocate(s->ctx, s->job->options->n_best, sizeof *s->best);
    if (!s->order || !s->results || !s->best) status = QKV_MEMORY;
    for (; s->first < count && !status; s->first += window) {
        s->count = qkv_min(count - s->first, window);
        status = window_run(s);
    }
    qkv_engine_free(s->engine);
    free(s->order);
    free(s->results);
    free(s->best);
    return status;
}

enum qkv_status qkv_search_run(struct qkv_model *model, const struct qkv_search_job *job) {
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_search_options *o = job->options;
    const size_t V = (size_t)qkv_model_spec(model)->vocab;
    struct search s = {
        .model = model, .ctx = ctx, .job = job, .vocab = qkv_min(job->vocab, V), .batch = o->batch ? o->batch : BATCH};
    struct qkv_search_rules rules = {.ctx = ctx, .options = o, .ids = job->ids};
    enum qkv_status status = qkv_search_check_model(model, "searching");
    if (!status) status = qkv_search_check(ctx, (size_t)qkv_model_spec(model)->context, o);
    if (!status) status = search_check_ids(&s);
    if (!status) status = qkv_search_rule(model, &rules);
    if (status || job->count == 0) return status;
    s.width = qkv_search_width(&rules);
    return search_windows(&s);
}

enum qkv_status qkv_search_find_ids(struct qkv_model *model, struct qkv_search_job *job) {
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_tokenizer *t = qkv_model_tokenizer(model);
    if (!t) return qkv_tokenizer_missing(ctx, model->origin.tokenizer, NULL, QKV_TOKENIZER_FILE, "");
    if (!qkv_model_source_tokenizer(model))
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "this model's sources have a vocabulary of their own, but there is no tokenizer for it; put its "
            "source_tokenizer.json into the model folder");
    job->vocab = (size_t)qkv_tokenizer_vocab(t);
    const struct qkv_model_generation *g = &model->generation;
    struct qkv_search_ids *ids = &job->ids;
    *ids = (struct qkv_search_ids){.begin = qkv_model_target_begin(model),
                                   .ends = {g->ends, g->end_count},
                                   .end = qkv_tokenizer_role(t, QKV_TOKEN_ROLE_END)};
    if (!g->end_count && ids->end >= 0) ids->ends = (struct qkv_token_list){&ids->end, 1};
    if (ids->begin < 0 || !ids->ends.count)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the tokenizer has no special token %s, which targets %s with; a model trained on pairs has it",
                        ids->begin < 0 ? QKV_TOKEN_BEGIN : QKV_TOKEN_END, ids->begin < 0 ? "begin" : "end");
    /* targets do not contain their begin token, unless the folder names a start or bad words */
    if (g->start < 0 && !g->bad_word_ids && ids->begin != ids->ends.ids[0])
        ids->barred = (struct qkv_token_list){&ids->begin, 1};
    return QKV_OK;
}

enum qkv_status qkv_search(struct qkv_model *model, const int32_t *const *sources, const size_t *lengths, size_t count,
                           const struct qkv_search_options *options, qkv_take_hypotheses *take, void *user) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, take);
    QKV_NEED_ALL(qkv_call, count, sources);
    QKV_NEED_ALL(qkv_call, count, lengths);
    struct qkv_search_options own = qkv_search_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_search_options, &own, options);
    if (status) return status;
    struct qkv_search_job job = {.sources = sources,
                                 .lengths = lengths,
                                 .what = "source",
                                 .count = count,
                                 .options = &own,
                                 .take = take,
                                 .user = user};
    status = qkv_search_check_model(model, "searching");
    if (!status) status = qkv_search_find_ids(model, &job);
    return status ? status : qkv_search_run(model, &job);
}
