/* Searches of an engine: the hypotheses of a request are answers whose rows follow one another. They take each step
 * together, by the search of beam.c, and continue from each other's pages. */
#include "base/sized_options.h"
#include "backend/backends.h"
#include "generate/engine.h"
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

static size_t search_width(const struct qkv_engine_job *job) {
    return job->request.answers;
}

void qkv_engine_search_free(struct qkv_engine_search *s) {
    if (!s) return;
    qkv_beam_free(&s->beam);
    free(s->lists);
    free(s);
}

/* The hypotheses as answers: those that run have ids. */
static void search_set_lanes(struct qkv_engine_job *job) {
    const struct qkv_beam *b = &job->search->beam;
    for (size_t i = 0; i < search_width(job); i++) {
        struct qkv_engine_answer *a = &job->answers[i];
        a->ids = (int32_t *)(uintptr_t)qkv_beam_ids(b, i);
        a->count = i < b->live ? b->begun + b->length : 0;
        a->made = b->length;
    }
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static enum qkv_status search_check(struct qkv_engine *e, const struct qkv_engine_job *job) {
    const struct qkv_engine_request *r = &job->request;
    const struct qkv_search_options *o = &job->search->options;
    const size_t width = o->sample ? o->n_best : o->beam;
    if (r->answers != 1 && r->answers != o->n_best)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "answers is %zu, but a search has n_best results, %zu; leave it 1",
                        r->answers, o->n_best);
    if (r->presence_penalty != 0 || r->frequency_penalty != 0 || r->bias_count || r->min_tokens || r->top ||
        r->log_probabilities || r->prompt_probabilities || job->options.stop_count)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "a search has the penalty and the rules of its options alone: no penalties, biases, "
                        "min_tokens, stop texts and log-probabilities of tokens");
    if (job->options.constraint)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "a search has no constraint; leave one of them out");
    if (o->tokens || o->long_count || o->blank)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "a search of an engine counts nothing; leave tokens and long_count NULL, and blank");
    if (width > e->row_count)
        return qkv_fail(e->ctx, QKV_ARGUMENT,
                        "a search of %zu hypotheses needs as many rows, but the engine has %zu; make it with more",
                        width, e->row_count);
    return qkv_search_check(e->ctx, e->context, o);
}

/* The rules of all hypotheses; their lists are copied by the caller. */
static enum qkv_status search_rules(struct qkv_engine *e, struct qkv_engine_job *job) {
    struct qkv_engine_search *s = job->search;
    const struct qkv_prompt *p = &job->prompt;
    if (!s->options.rules) s->options.rules = job->options.rules;
    s->rules = (struct qkv_search_rules){.ctx = e->ctx,
                                         .options = &s->options,
                                         .V = (size_t)e->model->spec.vocab,
                                         .vocab = p->vocab,
                                         .ids = {.begin = p->ids[p->count - 1],
                                                 .ends = {p->ends, p->end_count},
                                                 .barred = {&p->barred, p->barred >= 0}}};
    enum qkv_status status = qkv_search_rule(e->model, &s->rules);
    job->prompt.lead = -1;
    if (!status && p->source)
        status =
            qkv_languages_rule(e->model, &job->languages, s->options.rules, &s->rules.score.tokens, &job->prompt.lead);
    if (!status) status = qkv_engine_copy_rules(e, &s->rules.score.tokens, &s->lists);
    s->options.rules = NULL;
    s->options.source_language = s->options.target_language = NULL;
    return status;
}

/* The maximum number of tokens, and the length that rotations depend on. */
static enum qkv_status search_limit(struct qkv_engine *e, struct qkv_engine_job *job) {
    const struct qkv_prompt *p = &job->prompt;
    const size_t room = e->context - qkv_min(e->context, p->count);
    size_t wanted = job->search->options.max_tokens;
    if (!room)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "the prompt fills the context of %zu; a search has no room", e->context);
    if (!wanted) wanted = p->tokens;
    job->tokens = qkv_min(wanted, room);
    job->decided = p->count + job->tokens;
    if (job->tokens) return QKV_OK;
    return qkv_fail(e->ctx, QKV_ARGUMENT, "a search makes at least one token; tokens is 0");
}

enum qkv_status qkv_engine_search_make(struct qkv_engine *e, struct qkv_engine_job *job) {
    struct qkv_engine_search *s = job->search = qkv_allocate(e->ctx, 1, sizeof *s);
    const struct qkv_prompt *p = &job->prompt;
    if (!s) return QKV_MEMORY;
    s->options = qkv_search_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(e->ctx, qkv_search_options, &s->options, job->request.search);
    if (!status) status = search_check(e, job);
    if (!status && !p->skipped) status = search_limit(e, job);
    if (!status) status = search_rules(e, job);
    if (status) return status;
    const struct qkv_beam_start start = {.number = job->number,
                                         .prompt = {p->ids, p->count},
                                         .ids = p->source ? (struct qkv_token_list){p->source, p->source_count}
                                                          : (struct qkv_token_list){p->ids, p->count},
                                         .max_length = job->tokens};
    job->request.answers = p->skipped ? s->options.n_best : qkv_search_width(&s->rules);
    return p->skipped ? QKV_OK : qkv_beam_create(&s->rules, &start, &s->beam);
}

enum qkv_status qkv_engine_search_answers(struct qkv_engine *e, struct qkv_engine_job *job) {
    job->answers = qkv_allocate(e->ctx, search_width(job), sizeof *job->answers);
    if (!job->answers) return QKV_MEMORY;
    job->unended = search_width(job);
    for (size_t i = 0; i < search_width(job); i++)
        job->answers[i] = (struct qkv_engine_answer){.job = job, .index = i, .row = QKV_ENGINE_NO_ROW};
    if (!job->prompt.skipped) search_set_lanes(job);
    return QKV_OK;
}

bool qkv_engine_search_tells(const struct qkv_engine_answer *a) {
    return !a->job->search || a->index < a->job->search->options.n_best;
}

/* Pages of hypotheses of `count` tokens: they have the full pages of the prompt in common. */
size_t qkv_engine_search_pages(const struct qkv_engine *e, const struct qkv_engine_job *job, size_t hypotheses,
                               size_t count) {
    const size_t positions = e->decoder->pool->positions, whole = job->prompt.count / positions;
    return whole + hypotheses * (qkv_page_count(positions, count) - whole);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Moves all answers to the first rows, in their order. */
static void rows_pack(struct qkv_engine *e) {
    struct qkv_decoder *d = e->decoder;
    for (size_t r = 0, to = 0; r < e->row_count; r++) {
        if (!e->rows[r]) continue;
        if (r != to) {
            const struct qkv_page_list list = d->lists[to];
            d->lists[to] = d->lists[r];
            d->lists[r] = list;
            d->reached[to] = d->reached[r], d->reached[r] = 0;
            d->decided[to] = d->decided[r];
            d->adapters[to] = d->adapters[r];
            d->sources[to] = d->sources[r];
            e->rows[to] = e->rows[r], e->rows[r] = NULL;
            e->rows[to]->row = to;
        }
        to++;
    }
}

static bool search_pages_suffice(const struct qkv_engine *e, const struct qkv_engine_job *job) {
    const struct qkv_beam *b = &job->search->beam;
    const struct qkv_page_pool *pool = e->decoder->pool;
    if (pool->count / e->row_count >= qkv_page_count(pool->positions, e->context)) return true; /* for all rows */
    const size_t had = e->decoder->lists[job->answers[0].row].count,
                 all = qkv_engine_search_pages(e, job, b->live, b->begun + b->length) + e->state.running;
    return e->state.running == search_width(job) || all <= had + pool->spare_count + qkv_engine_kept(e);
}

void qkv_engine_search_leave(struct qkv_engine *e, struct qkv_engine_job *job) {
    for (size_t i = 0; i < search_width(job); i++) qkv_engine_leave(e, &job->answers[i]);
}

bool qkv_engine_search_enter(struct qkv_engine *e, struct qkv_engine_job *job, size_t most) {
    const size_t first = e->state.running;
    if (e->row_count - first < search_width(job) || !qkv_engine_source_enter(e, job, most)) return false;
    rows_pack(e);
    for (size_t i = 0; i < search_width(job); i++) qkv_engine_enter(e, &job->answers[i], first + i);
    qkv_engine_find(e, &job->answers[0]);
    if (!search_pages_suffice(e, job)) {
        qkv_engine_search_leave(e, job);
        return false;
    }
    const size_t found = e->decoder->reached[first];
    if (!job->search->beam.length) job->answers[0].cached = found;
    e->state.cached_tokens += found;
    return true;
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

/* Whether all hypotheses have read all but their newest tokens. */
static bool search_is_even(const struct qkv_engine *e, const struct qkv_engine_job *job) {
    for (size_t i = 0; i < job->search->beam.live; i++)
        if (job->answers[i].count - e->decoder->reached[job->answers[i].row] != 1) return false;
    return true;
}

size_t qkv_engine_search_unread(const struct qkv_engine *e, const struct qkv_engine_answer *a) {
    const struct qkv_engine_job *job = a->job;
    const struct qkv_engine_answer *first = &job->answers[0];
    if (a->index >= job->search->beam.live) return 0;
    const size_t left = a->count - e->decoder->reached[a->row];
    if (job->search->beam.live == 1) return left;
    if (job->search->even) return 1;
    if (a != first && first->count - e->decoder->reached[first->row] > 1) return 0; /* it shares what the first reads */
    return left - 1;
}

static void search_share(struct qkv_engine *e, const struct qkv_engine_job *job) {
    struct qkv_decoder *d = e->decoder;
    const struct qkv_engine_answer *first = &job->answers[0];
    if (d->reached[first->row] + 1 != first->count) return;
    for (size_t i = 1; i < job->search->beam.live; i++) {
        const struct qkv_engine_answer *other = &job->answers[i];
        size_t common = 0;
        if (d->reached[other->row]) continue;
        while (common + 1 < first->count && other->ids[common] == first->ids[common]) common++;
        qkv_page_list_fork(d->pool, &d->lists[other->row], &d->lists[first->row]);
        qkv_page_list_truncate(d->pool, &d->lists[other->row], common);
        d->reached[other->row] = common;
    }
}

void qkv_engine_searches_begin(struct qkv_engine *e) {
    for (size_t r = 0; r < e->row_count; r++) {
        const struct qkv_engine_answer *a = e->rows[r];
        if (!a || !a->job->search || a->index) continue;
        search_share(e, a->job);
        a->job->search->even = search_is_even(e, a->job);
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* The text of a hypothesis, and its ids. */
static enum qkv_status search_tell(struct qkv_engine *e, const struct qkv_engine_job *job,
                                   const struct qkv_hypothesis *h, struct qkv_engine_told *told) {
    size_t room = 1;
    for (size_t i = 0; i < h->count; i++) {
        size_t size = 0;
        if (qkv_prompt_token(&job->prompt, h->ids, i, &size)) room += size;
    }
    told->ids = qkv_allocate(e->ctx, h->count + 1, sizeof *told->ids);
    if (!told->ids || qkv_engine_told_text(e, told, room)) return QKV_MEMORY;
    if (h->count) memcpy(told->ids, h->ids, h->count * sizeof *told->ids);
    for (size_t i = 0; i < h->count; i++) {
        size_t size = 0;
        const char *text = qkv_prompt_token(&job->prompt, h->ids, i, &size);
        if (text) memcpy(told->text + told->event.size, text, size);
        told->event.size += text ? size : 0;
    }
    told->hypothesis = *h;
    told->hypothesis.ids = told->ids;
    told->event.hypothesis = &told->hypothesis;
    told->event.text = told->text;
    return QKV_OK;
}

/* Ends all hypotheses with what was found, or because the search failed. */
static void search_end(struct qkv_engine *e, struct qkv_engine_job *job, enum qkv_status failure) {
    const struct qkv_beam *b = &job->search->beam;
    char message[QKV_ENGINE_MESSAGE] = "";
    if (failure) snprintf(message, sizeof message, "%s", qkv_message(e->ctx));
    if (failure) qkv_forgive(e->ctx);
    for (size_t i = 0; i < search_width(job); i++) {
        struct qkv_engine_answer *a = &job->answers[i];
        const struct qkv_hypothesis *h = i < b->finished_count && !failure ? &b->finished[i] : NULL;
        struct qkv_engine_told *told = qkv_engine_search_tells(a) ? qkv_engine_tell(e, a) : NULL, none = {0};
        enum qkv_status status = failure;
        if (told && h) status = search_tell(e, job, h, told);
        if (told && failure) told->message = qkv_copy_string(e->ctx, message);
        if (told) told->status = status;
        if (a->row != QKV_ENGINE_NO_ROW) e->counts[a->row] = 0;
        a->made = h ? h->count : 0;
        qkv_engine_end(e, a,
                       status           ? QKV_FINISH_FAILED
                       : h && !h->ended ? QKV_FINISH_LENGTH
                                        : QKV_FINISH_STOP,
                       told ? told : &none);
        e->state.tokens += a->made;
    }
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* The likeliest continuations of all searches that take this step and do not draw. */
static enum qkv_status searches_find(struct qkv_engine *e) {
    const size_t V = (size_t)e->model->spec.vocab;
    struct qkv_step_candidates step = {.sources = e->continuations, .V = V};
    struct qkv_arena *arena = NULL;
    size_t bytes = 0;
    bool changes = false;
    for (size_t i = 0; i < e->searching_count; i++) {
        const struct qkv_engine_search *s = e->searching[i]->search;
        if (s->options.sample) continue;
        e->continuations[step.count] = qkv_beam_continuation(&s->beam, s->scores);
        changes = changes || e->continuations[step.count].rules;
        step.count++;
    }
    if (!changes) return step.count ? QKV_STEP_OF(e->ctx, candidates, &step) : QKV_OK;
    if (!qkv_multiply((size_t)e->ctx->threads, V * sizeof(float), &bytes)) bytes = SIZE_MAX;
    enum qkv_status status = qkv_workspace(e->ctx, bytes, &arena);
    if (status) return status;
    const size_t mark = qkv_arena_mark(arena);
    step.changed = qkv_arena_take(arena, bytes, 1);
    status = step.changed ? QKV_STEP_OF(e->ctx, candidates, &step) : QKV_MEMORY;
    qkv_arena_release(arena, mark);
    return status;
}

static enum qkv_status search_broken(const struct qkv_engine *e, const struct qkv_engine_job *job) {
    if (job->what)
        return qkv_fail(e->ctx, QKV_NUMBER,
                        "the scores for %s %zu are not finite: the weights are broken, or training diverged; use an "
                        "earlier checkpoint",
                        job->what, job->number + 1);
    return qkv_fail(e->ctx, QKV_NUMBER,
                    "the scores are not finite: the weights are broken, or training diverged; use an earlier "
                    "checkpoint");
}

/* Whether each of the `count` hypotheses goes on in its own row. */
static bool search_stays(const struct qkv_beam *b, size_t count) {
    size_t i = 0;
    while (i < b->live && b->parents[i] == i) i++;
    return i == count && b->live == count;
}

/* Takes a step with what was found for the search; NULL: it draws. */
static void search_step(struct qkv_engine *e, struct qkv_engine_job *job, const struct qkv_continuation *found) {
    struct qkv_engine_search *s = job->search;
    const size_t had = s->beam.live;
    enum qkv_status status = QKV_OK;
    if (found)
        qkv_beam_step(&s->beam, found);
    else
        status = qkv_beam_draw(&s->beam, s->scores);
    if (!status && s->beam.broken) status = search_broken(e, job);
    if (status || !s->beam.live) {
        search_end(e, job, status);
        return;
    }
    if (!search_stays(&s->beam, had))
        qkv_decoder_move_rows(e->decoder, job->answers[0].row, s->beam.parents, s->beam.live, search_width(job));
    search_set_lanes(job);
}

void qkv_engine_search_score(struct qkv_engine *e, struct qkv_engine_job *job, const float *scores) {
    job->search->scores = scores;
    e->searching[e->searching_count++] = job;
}

void qkv_engine_searches_step(struct qkv_engine *e) {
    const struct qkv_continuation *found = e->continuations;
    const enum qkv_status status = searches_find(e);
    char why[QKV_ENGINE_MESSAGE];
    snprintf(why, sizeof why, "%s", status ? qkv_message(e->ctx) : "");
    for (size_t i = 0; i < e->searching_count; i++) {
        struct qkv_engine_job *job = e->searching[i];
        if (status) /* the end of the search before has taken the message */
            search_end(e, job, qkv_fail(e->ctx, status, "%s", why));
        else
            search_step(e, job, job->search->options.sample ? NULL : found++);
    }
    e->searching_count = 0;
}
