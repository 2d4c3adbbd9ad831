/* The next token of an answer: biases and penalties, sampling, log-probabilities, and the text that it makes known. */
#include "generate/engine.h"
#include "kernel/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- scores ------------------------------------------------------------------------------------------------------ */

static bool changes_scores(const struct qkv_engine_job *job, const struct qkv_engine_answer *a) {
    const struct qkv_engine_request *r = &job->request;
    return r->bias_count || r->presence_penalty != 0 || r->frequency_penalty != 0 || a->made < r->min_tokens;
}

/* Penalises a token of the answer by how often it occurs: at its first place alone, so each token once. */
static void scores_penalise(float *scores, const struct qkv_engine_request *r, const int32_t *made, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t times = 1, k = 0;
        while (k < i && made[k] != made[i]) k++;
        if (k < i) continue;
        for (k = i + 1; k < count; k++) times += made[k] == made[i];
        const double less = r->presence_penalty + r->frequency_penalty * (double)times;
        scores[made[i]] = (float)((double)scores[made[i]] - less);
    }
}

/* The scores that a token is chosen from: those of the model, or a copy that the request changes. */
static const float *scores_of(struct qkv_engine *e, const struct qkv_engine_answer *a, const float *logits) {
    const struct qkv_engine_job *job = a->job;
    const struct qkv_engine_request *r = &job->request;
    const struct qkv_generate_options *o = &job->options;
    float *scores = e->scores;
    if (!changes_scores(job, a)) return logits;
    memcpy(scores, logits, (size_t)e->model->spec.vocab * sizeof *scores);
    for (size_t i = 0; i < r->bias_count; i++) scores[job->biases[i].id] += job->biases[i].bias;
    if (r->presence_penalty != 0 || r->frequency_penalty != 0)
        scores_penalise(scores, r, a->ids + job->prompt.count, a->made);
    if (a->made >= r->min_tokens) return scores;
    for (size_t i = 0; i < o->end_count; i++) scores[o->ends[i]] = -INFINITY;
    if (o->end_id >= 0) scores[o->end_id] = -INFINITY;
    return scores;
}

/* ---- log-probabilities ------------------------------------------------------------------------------------------- */

/* The likeliest tokens, equal ones by their ids. */
static void tell_top(struct qkv_engine_told *told, const float *logits, size_t vocab, size_t most, double sum) {
    size_t count = 0;
    for (size_t i = 0; i < vocab; i++) {
        if (count == most && (double)logits[i] <= told->top[count - 1].log_probability) continue;
        size_t at = count < most ? count++ : count - 1;
        while (at && told->top[at - 1].log_probability < (double)logits[i]) {
            told->top[at] = told->top[at - 1];
            at--;
        }
        told->top[at] = (struct qkv_token_score){.id = (int32_t)i, .log_probability = (double)logits[i]};
    }
    for (size_t i = 0; i < count; i++) told->top[i].log_probability -= sum;
    told->event.top = told->top;
    told->event.top_count = count;
}

static void tell_scores(const struct qkv_engine *e, const struct qkv_engine_job *job, struct qkv_engine_told *told,
                        const float *logits, bool wanted) {
    const size_t vocab = (size_t)e->model->spec.vocab, top = job->request.top;
    if (!wanted && !top) return;
    const double sum = (double)e->ctx->kernels->log_sum_exp(logits, vocab);
    told->event.token.log_probability = (double)logits[told->event.token.id] - sum;
    if (top) tell_top(told, logits, vocab, qkv_min(top, vocab), sum);
}

enum qkv_status qkv_engine_tell_prompt(struct qkv_engine *e, struct qkv_engine_answer *a, size_t place,
                                       const float *logits) {
    struct qkv_engine_told *told = qkv_engine_tell(e, a);
    if (!told) return QKV_MEMORY;
    told->event.prompt = true;
    told->event.token.id = a->ids[place];
    told->event.token_size = qkv_prompt_token_size(&a->job->prompt, place);
    if (logits) tell_scores(e, a->job, told, logits, true);
    a->told = place + 1;
    return QKV_OK;
}

/* ---- the token --------------------------------------------------------------------------------------------------- */

/* Adds the text that a token makes known to the event. Its memory is taken first, so that a failure loses nothing. */
static enum qkv_status choose_text(struct qkv_engine *e, struct qkv_engine_answer *a, struct qkv_engine_told *told,
                                   bool end, bool last) {
    size_t size = 0;
    const int32_t *made = a->ids + a->job->prompt.count;
    const char *text = end ? NULL : qkv_prompt_token(&a->job->prompt, made, a->made, &size);
    told->event.token_size = size;
    enum qkv_status status = qkv_engine_told_text(e, told, a->stream.held.size + size + 1);
    if (status) return status;
    a->writer = (struct qkv_engine_writer){.text = told->text};
    status = text ? qkv_text_stream_put(&a->stream, text, size) : QKV_OK;
    if (!status && (end || last || a->stream.stopped)) status = qkv_text_stream_end(&a->stream);
    told->event.text = told->text;
    told->event.size = a->writer.size;
    return status;
}

/* Takes room for one more id. */
static enum qkv_status choose_room(struct qkv_engine *e, struct qkv_engine_answer *a) {
    int32_t *ids = qkv_list_room(e->ctx, a->ids, &a->room, a->count, 1, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    a->ids = ids;
    return QKV_OK;
}

static enum qkv_status choose_run(struct qkv_engine *e, struct qkv_engine_answer *a, struct qkv_engine_told *told,
                                  const float *logits) {
    struct qkv_engine_job *job = a->job;
    struct qkv_sampling sampling = job->options.sampling;
    int32_t id;
    sampling.seed += a->index;
    enum qkv_status status = choose_room(e, a);
    if (!status)
        status = qkv_prompt_sample(e->ctx, &job->prompt, &sampling, scores_of(e, a, logits), a->ids, a->count,
                                   &a->place, (uint64_t)a->made, &id);
    const bool end = !status && qkv_prompt_ends(&job->options, id), last = a->made + 1 == job->tokens;
    bool whole = false;
    if (!status) a->ids[a->count] = id; /* no part of the answer yet */
    if (!status && !end) status = qkv_prompt_is_whole(e->ctx, &job->prompt, a->ids, a->count + 1, &a->place, &whole);
    /* its scores are broken, or its constraint allows no token */
    if (status == QKV_NUMBER || status == QKV_ARGUMENT) return qkv_engine_fail(e, a, told, status);
    if (status) return status;
    told->event.token.id = id;
    tell_scores(e, job, told, logits, job->request.log_probabilities);
    status = choose_text(e, a, told, end, last || whole);
    if (status) return status;
    a->count++;
    a->made++;
    e->state.tokens += !end;
    if (end || whole || a->stream.stopped)
        qkv_engine_end(e, a, QKV_FINISH_STOP, told);
    else if (last)
        qkv_engine_end(e, a, QKV_FINISH_LENGTH, told);
    if (end) told->event.tokens--;
    return QKV_OK;
}

enum qkv_status qkv_engine_choose(struct qkv_engine *e, struct qkv_engine_answer *a, const float *logits) {
    struct qkv_engine_told *told = qkv_engine_tell(e, a);
    const enum qkv_status status = told ? choose_run(e, a, told, logits) : QKV_MEMORY;
    if (status && told) qkv_engine_untell(e);
    return status;
}
