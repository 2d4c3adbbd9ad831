/* search: the best targets of many sources, which an engine finds, several of them at a time.
 *
 * Sources come in windows, and the engine gets the longest of a window first, so that the last ones end soon. Results
 * are passed on in the order of the sources, and a window before the next one begins, so memory does not grow with the
 * number of sources. The scores of a row do not depend on the other rows, so the result of a source does not depend on
 * its neighbours. */
#include "base/sized_options.h"
#include "generate/engine.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_BATCHES = 16 };

/* What was found for a source, best first. */
struct search_result {
    struct qkv_engine_told *first, *last;
    size_t count, ended; /* hypotheses, and events that have ended, also those without a hypothesis */
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

/* ---- checks ----------------------------------------------------------------------------------------------------- */

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
    options.blank = NULL;
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
    struct search s = {.model = model,
                       .ctx = ctx,
                       .job = job,
                       .vocab = qkv_min(job->vocab, V),
                       .batch = o->batch ? o->batch : QKV_SEARCH_BATCH};
    struct qkv_search_rules rules = {.ctx = ctx, .options = o, .ids = job->ids};
    enum qkv_status status = qkv_search_check_model(model, "searching");
    if (!status) status = qkv_search_check(ctx, (size_t)qkv_model_spec(model)->context, o);
    if (!status) status = search_check_ids(&s);
    if (!status) status = qkv_search_rule(model, &rules);
    if (status || job->count == 0) return status;
    s.width = qkv_search_width(&rules);
    return search_windows(&s);
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
    if (own.source_language || own.target_language)
        return qkv_fail(qkv_call, QKV_ARGUMENT,
                        "sources of ids have their languages already; leave source_language and target_language NULL, "
                        "and let rules.first name the language of targets");
    status = qkv_search_check_model(model, "searching");
    if (!status) status = qkv_search_find_ids(model, &job);
    return status ? status : qkv_search_run(model, &job);
}
