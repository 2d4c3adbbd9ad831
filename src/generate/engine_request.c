/* Requests of an engine: taken, ended, freed. */
#include "base/sized_options.h"
#include "generate/engine.h"
#include "model/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void qkv_engine_request_init(struct qkv_engine_request *request, size_t size) {
    static const struct qkv_engine_request usual = {.size = sizeof usual, .answers = 1};
    qkv_options_init(request, size, &usual, sizeof usual);
}

/* ---- freeing ----------------------------------------------------------------------------------------------------- */

void qkv_engine_job_free(struct qkv_engine_job *job) {
    if (!job) return;
    for (size_t i = 0; job->answers && i < job->request.answers; i++) {
        qkv_text_stream_free(&job->answers[i].stream);
        if (!job->search) free(job->answers[i].ids);
    }
    for (size_t i = 0; job->stops && i < job->options.stop_count; i++) free(job->stops[i]);
    free(job->stops);
    free(job->biases);
    free(job->answers);
    qkv_prompt_free(&job->prompt);
    qkv_engine_text_free(&job->text);
    qkv_engine_search_free(job->search);
    free(job->rules);
    free(job);
}

void qkv_engine_sweep(struct qkv_engine *e) {
    struct qkv_engine_job **at = &e->jobs;
    while (*at) {
        struct qkv_engine_job *job = *at;
        if (job->unended) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        qkv_engine_job_free(job);
    }
    e->jobs_end = at;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static enum qkv_status request_check_numbers(struct qkv_context *ctx, const struct qkv_engine_request *r,
                                             size_t vocab) {
    char shown[QKV_REAL_TEXT];
    const struct {
        const char *name;
        double value;
    } penalties[] = {{"presence_penalty", r->presence_penalty}, {"frequency_penalty", r->frequency_penalty}};
    if (r->answers < 1 || r->answers > QKV_ENGINE_ANSWERS_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "answers is %zu; a request has 1 to %d", r->answers, QKV_ENGINE_ANSWERS_MAX);
    if (r->top > QKV_ENGINE_TOP_MAX)
        return qkv_fail(ctx, QKV_ARGUMENT, "top is %zu; at most %d tokens are told", r->top, QKV_ENGINE_TOP_MAX);
    for (size_t i = 0; i < sizeof penalties / sizeof *penalties; i++)
        if (!(fabs(penalties[i].value) <= 100))
            return qkv_fail(ctx, QKV_ARGUMENT, "%s is %s; it must be from -100 to 100", penalties[i].name,
                            qkv_real_text(shown, penalties[i].value));
    for (size_t i = 0; i < r->bias_count; i++) {
        if (r->biases[i].id < 0 || (size_t)r->biases[i].id >= vocab)
            return qkv_fail(ctx, QKV_ARGUMENT, "the bias of token %d: ids are 0 to %zu", (int)r->biases[i].id,
                            vocab - 1);
        if (!(fabsf(r->biases[i].bias) <= 1e6f))
            return qkv_fail(ctx, QKV_ARGUMENT, "the bias of token %d is %s; it must be from -1e6 to 1e6",
                            (int)r->biases[i].id, qkv_real_text(shown, (double)r->biases[i].bias));
    }
    return QKV_OK;
}

static enum qkv_status request_check(struct qkv_engine *e, const struct qkv_engine_request *r,
                                     const struct qkv_generate_options *o) {
    struct qkv_context *ctx = e->ctx;
    if (!e->decoder) return qkv_session_check(e->model, 0);
    if (e->places && r->prompt_probabilities)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "a source has no log-probabilities: the encoder reads it in both directions");
    if (o->take_token || o->take_prompt)
        return qkv_fail(ctx, QKV_ARGUMENT, "an engine tells tokens by events; leave take_token and take_prompt NULL");
    if (o->context)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the context of a request is %zu; the engine has one context for all, so leave it 0",
                        o->context);
    enum qkv_status status = request_check_numbers(ctx, r, (size_t)e->model->spec.vocab);
    return status ? status : qkv_prompt_check(e->model, o);
}

/* Whether the answer could be held if it were alone. */
static enum qkv_status request_fits(struct qkv_engine *e, const struct qkv_engine_job *job) {
    const struct qkv_page_pool *pool = e->decoder->pool, *sources = e->places ? e->encoded->pool : NULL;
    const size_t length = job->prompt.count + job->tokens - (job->tokens > 0);
    const size_t pages = job->search ? qkv_engine_search_pages(e, job, job->request.answers, length)
                                     : qkv_page_count(pool->positions, length);
    if (job->prompt.source_count > e->room.longest)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "the source has %zu tokens, but the engine reads sources of at most %zu; shorten it, or make "
                        "the engine with a larger `text`",
                        job->prompt.source_count, e->room.longest);
    if (sources && qkv_page_count(sources->positions, job->prompt.source_count) > sources->count)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "a source of %zu tokens needs more than the %zu pages that sources have; shorten it, or give "
                        "the engine more memory",
                        job->prompt.source_count, sources->count);
    if (pages <= pool->count) return QKV_OK;
    return qkv_fail(e->ctx, QKV_ARGUMENT,
                    "a prompt of %zu tokens and %zu more need %zu pages, but the cache has %zu; ask for fewer tokens, "
                    "or give the engine more memory",
                    job->prompt.count, job->tokens, pages, pool->count);
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static bool answer_write(void *user, const char *text, size_t size) {
    struct qkv_engine_writer *to = user;
    memcpy(to->text + to->size, text, size);
    to->size += size;
    return true;
}

static enum qkv_status job_copy(struct qkv_engine *e, struct qkv_engine_job *job) {
    struct qkv_generate_options *o = &job->options;
    struct qkv_engine_request *r = &job->request;
    const char *const *stops = o->stops;
    job->stops = qkv_allocate(e->ctx, o->stop_count + 1, sizeof *job->stops);
    job->biases = qkv_allocate(e->ctx, r->bias_count + 1, sizeof *job->biases);
    if (!job->stops || !job->biases) return QKV_MEMORY;
    for (size_t i = 0; i < o->stop_count; i++)
        if (!(job->stops[i] = qkv_copy_string(e->ctx, stops[i]))) return QKV_MEMORY;
    for (size_t i = 0; i < r->bias_count; i++) job->biases[i] = r->biases[i];
    o->stops = (const char *const *)job->stops;
    o->ids = NULL;
    r->biases = NULL;
    r->prompt = NULL;
    r->options = NULL;
    r->search = NULL;
    o->rules = NULL;
    return qkv_engine_copy_rules(e, &job->prompt.rules.tokens, &job->rules);
}

/* How many tokens can follow the prompt. The newest token needs no position. */
static void job_limit(const struct qkv_engine *e, struct qkv_engine_job *job) {
    size_t length;
    job->decided = e->context;
    if (job->prompt.skipped) return;
    job->tokens = job->prompt.tokens;
    if (!job->rolls) job->tokens = qkv_min(job->tokens, e->context - job->prompt.count + 1);
    if (qkv_add_size(job->prompt.count, job->prompt.tokens, &length) && length < e->context) job->decided = length;
}

/* Answers that roll have room for so many tokens at first. */
enum { RESERVED = 1 << 16 };

static enum qkv_status job_answers(struct qkv_engine *e, struct qkv_engine_job *job) {
    if (job->search) return qkv_engine_search_answers(e, job);
    job->answers = qkv_allocate(e->ctx, job->request.answers, sizeof *job->answers);
    if (!job->answers) return QKV_MEMORY;
    job->unended = job->request.answers;
    for (size_t i = 0; i < job->request.answers; i++) {
        struct qkv_engine_answer *a = &job->answers[i];
        *a = (struct qkv_engine_answer){.job = job, .index = i, .count = job->prompt.count, .row = QKV_ENGINE_NO_ROW};
        a->told = i ? job->prompt.count : 0; /* the first one tells the prompt */
        a->stream = (struct qkv_text_stream){.ctx = e->ctx,
                                             .stops = job->options.stops,
                                             .stop_count = job->options.stop_count,
                                             .write = answer_write,
                                             .user = &a->writer};
        a->room = job->prompt.count + (job->rolls ? qkv_min(job->tokens, (size_t)RESERVED) : job->tokens);
        a->ids = qkv_allocate(e->ctx, a->room, sizeof *a->ids);
        if (!a->ids) return QKV_MEMORY;
        memcpy(a->ids, job->prompt.ids, job->prompt.count * sizeof *a->ids);
        const enum qkv_status status = qkv_text_stream_reserve(&a->stream);
        if (status) return status;
    }
    return QKV_OK;
}

enum qkv_status qkv_engine_answer_text(struct qkv_engine *e, struct qkv_engine_job *job) {
    job->answers = qkv_allocate(e->ctx, 1, sizeof *job->answers);
    if (!job->answers) return QKV_MEMORY;
    job->unended = 1;
    job->answers[0] = (struct qkv_engine_answer){.job = job, .row = QKV_ENGINE_NO_ROW};
    return QKV_OK;
}

/* Whether the model has nothing to do for a request. A row that stays reads the prompt anyway. */
static bool job_is_nothing(const struct qkv_engine *e, const struct qkv_engine_job *job) {
    if (job->request.kind) return !job->text.count;
    return job->prompt.skipped || (!job->tokens && !job->request.prompt_probabilities && !e->lent);
}

/* Tells the ends of answers that end at once. */
static enum qkv_status job_tell_nothing(struct qkv_engine *e, struct qkv_engine_job *job) {
    for (size_t i = 0; i < job->request.answers; i++) {
        struct qkv_engine_told *told = qkv_engine_tell(e, &job->answers[i]);
        const bool text = told && job->request.kind;
        if (told && (!text || !qkv_engine_text_none(e, job, told))) continue;
        for (i += told != NULL; i--;) qkv_engine_untell(e);
        return QKV_MEMORY;
    }
    return QKV_OK;
}

/* A request without tokens to make, or whose prompt is left out, ends at once. */
static enum qkv_status job_queue(struct qkv_engine *e, struct qkv_engine_job *job) {
    const bool nothing = job_is_nothing(e, job);
    const size_t answers = job->request.answers;
    if (nothing && job_tell_nothing(e, job)) return QKV_MEMORY;
    job->id = ++e->next_id;
    e->state.waiting += answers;
    for (size_t i = 0; nothing && i < answers; i++) {
        struct qkv_engine_told *told = e->events[e->event_first + e->event_count - answers + i];
        told->event.request = job->id;
        qkv_engine_end(e, &job->answers[i], job->request.kind ? QKV_FINISH_READ : QKV_FINISH_LENGTH, told);
    }
    *e->jobs_end = job;
    e->jobs_end = &job->next;
    return QKV_OK;
}

/* Finds the adapter that the request chooses. */
static enum qkv_status job_adapter(struct qkv_engine *e, struct qkv_engine_job *job) {
    const char *name = job->request.adapter;
    job->request.adapter = NULL;
    job->adapter = e->model->chosen;
    return name ? qkv_model_find_adapter(e->model, name, &job->adapter) : QKV_OK;
}

/* Finds the languages that the request chooses, or its search. */
static enum qkv_status job_languages(struct qkv_engine *e, struct qkv_engine_job *job) {
    struct qkv_engine_request *r = &job->request;
    struct qkv_search_options o = qkv_search_defaults();
    const enum qkv_status status = r->search ? QKV_TAKE_OPTIONS(e->ctx, qkv_search_options, &o, r->search) : QKV_OK;
    const char *source = r->source_language ? r->source_language : o.source_language,
               *target = r->target_language ? r->target_language : o.target_language;
    r->source_language = r->target_language = NULL;
    if (status || (!source && !target)) return status;
    if (r->kind || !e->places)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "languages are of translations by a model with an encoder and a decoder; leave them out");
    return qkv_languages_choose(e->model, source, target, &job->languages);
}

static enum qkv_status job_make(struct qkv_engine *e, struct qkv_engine_job *job, const char *prompt, size_t size) {
    const enum qkv_status found = job_adapter(e, job);
    if (found) return found;
    if (job->request.kind) {
        enum qkv_status read = job_languages(e, job);
        if (!read) read = qkv_engine_text_read(e, job);
        return read ? read : qkv_engine_answer_text(e, job);
    }
    enum qkv_status status = request_check(e, &job->request, &job->options);
    if (!status) status = job_languages(e, job);
    job->options.context = e->context;
    if (!status)
        status = e->places
                     ? qkv_prompt_read_source(e->model, prompt, size, &job->options, &job->languages, &job->prompt)
                     : qkv_prompt_read(e->model, prompt, size, &job->options, &job->prompt);
    if (status) return status;
    job_limit(e, job);
    if (job->request.search) status = qkv_engine_search_make(e, job);
    if (!status && !job->prompt.skipped) status = request_fits(e, job);
    if (!status) status = job_copy(e, job);
    return status ? status : job_answers(e, job);
}

static struct qkv_engine_job *job_allocate(struct qkv_engine *e) {
    struct qkv_engine_job *job = qkv_allocate(e->ctx, 1, sizeof *job);
    if (!job) return NULL;
    job->place = QKV_ENGINE_NO_ROW;
    job->request = qkv_engine_request_defaults();
    job->languages = QKV_LANGUAGES_ANY;
    job->options = qkv_generate_defaults();
    return job;
}

/* Queues a request whose answers are made, or frees one that has failed. */
static enum qkv_status job_end(struct qkv_engine *e, struct qkv_engine_job *job, enum qkv_status status, uint64_t *id) {
    if (!status) status = job_queue(e, job);
    if (status)
        qkv_engine_job_free(job);
    else
        *id = job->id;
    return status;
}

enum qkv_status qkv_engine_submit(struct qkv_engine *e, const struct qkv_engine_request *request, uint64_t *id) {
    QKV_CALL(e ? e->ctx : NULL);
    QKV_NEED(qkv_call, e);
    QKV_NEED(qkv_call, request);
    QKV_NEED(qkv_call, id);
    struct qkv_engine_job *job = job_allocate(e);
    if (!job) return QKV_MEMORY;
    enum qkv_status status = QKV_TAKE_OPTIONS(e->ctx, qkv_engine_request, &job->request, request);
    if (!status) status = QKV_TAKE_OPTIONS(e->ctx, qkv_generate_options, &job->options, job->request.options);
    if (!status && job->request.prompt_size && !job->request.prompt)
        status = qkv_fail(e->ctx, QKV_ARGUMENT, "qkv_engine_submit: prompt is NULL, but prompt_size is %zu",
                          job->request.prompt_size);
    if (!status && job->request.second_size && !job->request.second)
        status = qkv_fail(e->ctx, QKV_ARGUMENT, "qkv_engine_submit: second is NULL, but second_size is %zu",
                          job->request.second_size);
    if (!status && job->request.bias_count && !job->request.biases)
        status = qkv_fail(e->ctx, QKV_ARGUMENT, "qkv_engine_submit: biases is NULL, but bias_count is %zu",
                          job->request.bias_count);
    if (!status) status = job_make(e, job, job->request.prompt, job->request.prompt_size);
    return job_end(e, job, status, id);
}

enum qkv_status qkv_engine_submit_text(struct qkv_engine *e, enum qkv_engine_kind kind, struct qkv_engine_text *text,
                                       uint64_t *id) {
    struct qkv_engine_job *job = job_allocate(e);
    if (!job) return QKV_MEMORY;
    job->request.kind = kind;
    job->text = *text;
    *text = (struct qkv_engine_text){0};
    enum qkv_status status = job_adapter(e, job);
    if (!status) status = qkv_engine_answer_text(e, job);
    return job_end(e, job, status, id);
}

enum qkv_status qkv_engine_submit_source(struct qkv_engine *e, struct qkv_engine_source *source, uint64_t *id) {
    struct qkv_engine_job *job = job_allocate(e);
    if (!job) return QKV_MEMORY;
    job->prompt = source->prompt;
    source->prompt = (struct qkv_prompt){0};
    job->number = source->number;
    job->what = source->what;
    job->request.search = source->options;
    enum qkv_status status = job_adapter(e, job);
    if (!status) status = qkv_engine_search_make(e, job);
    job->request.search = NULL;
    if (!status) status = qkv_engine_search_answers(e, job);
    return job_end(e, job, status, id);
}

enum qkv_status qkv_engine_submit_prompt(struct qkv_engine *e, const struct qkv_engine_prompt *prompt, uint64_t *id) {
    struct qkv_engine_job *job = job_allocate(e);
    if (!job) return QKV_MEMORY;
    enum qkv_status status = qkv_prompt_copy(e->ctx, prompt->prompt, &job->prompt);
    job->options = *prompt->options;
    job->rolls = prompt->rolls;
    job->request.answers = prompt->answers;
    job->request.log_probabilities = job->options.take_token != NULL;
    job->options.take_token = NULL;
    job->options.take_prompt = NULL;
    job_limit(e, job);
    if (!status) status = job_adapter(e, job);
    if (!status) status = job_copy(e, job);
    if (!status) status = job_answers(e, job);
    return job_end(e, job, status, id);
}

bool qkv_engine_cancel(struct qkv_engine *e, uint64_t id) {
    if (!e) return false;
    struct qkv_engine_job *job = e->jobs;
    while (job && job->id != id) job = job->next;
    if (!job || !job->unended) return false;
    for (size_t i = 0; i < job->request.answers; i++) {
        struct qkv_engine_answer *a = &job->answers[i];
        if (a->ended) continue;
        struct qkv_engine_told *told = qkv_engine_search_tells(a) ? qkv_engine_tell(e, a) : NULL, none = {0};
        qkv_engine_end(e, a, QKV_FINISH_CANCELLED, told ? told : &none);
    }
    qkv_engine_sweep(e);
    return true;
}
