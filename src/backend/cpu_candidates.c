/* cpu_candidates: the step of a search: the likeliest continuations of hypotheses. They are in a heap whose first entry
 * is the worst of them; a comparison of floats, with a margin for rounding, skips tokens that cannot beat it. */
#include "backend/cpu_work.h"

#include <math.h>
#include <string.h>

static bool better(struct qkv_candidate a, struct qkv_candidate b) {
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return a.row != b.row ? a.row < b.row : a.id < b.id;
}

static void sift_down(struct qkv_continuation *s, size_t i) {
    struct qkv_candidate x = s->best[i];
    for (size_t child; (child = 2 * i + 1) < s->count; i = child) {
        if (child + 1 < s->count && better(s->best[child], s->best[child + 1])) child++;
        if (!better(x, s->best[child])) break;
        s->best[i] = s->best[child];
    }
    s->best[i] = x;
}

static void sift_up(struct qkv_continuation *s, size_t i) {
    struct qkv_candidate x = s->best[i];
    for (size_t parent; i > 0 && better(s->best[parent = (i - 1) / 2], x); i = parent) s->best[i] = s->best[parent];
    s->best[i] = x;
}

static void add_candidate(struct qkv_continuation *s, struct qkv_candidate c) {
    if (s->count < s->most) {
        s->best[s->count++] = c;
        sift_up(s, s->count - 1);
    } else if (better(c, s->best[0])) {
        s->best[0] = c;
        sift_down(s, 0);
    }
}

/* Turns the heap into a list, best first. */
static void sort_candidates(struct qkv_continuation *s) {
    const size_t count = s->count;
    while (s->count > 1) {
        struct qkv_candidate worst = s->best[0];
        s->best[0] = s->best[--s->count];
        sift_down(s, 0);
        s->best[s->count] = worst;
    }
    s->count = count;
}

static bool listed(struct qkv_token_list list, int32_t id) {
    for (size_t i = 0; i < list.count; i++)
        if (list.ids[i] == id) return true;
    return false;
}

static struct qkv_score_text text_of(const struct qkv_continuation *s, size_t row) {
    struct qkv_score_text text = s->text;
    text.ids += row * s->stride;
    return text;
}

/* Adds the likeliest continuations of a row to the heap. changed: scratch of the rules. */
static void scan_row(const struct qkv_cpu_work *w, struct qkv_continuation *s, size_t row, float *changed) {
    const struct qkv_step_candidates *step = w->step;
    const float *scores = s->scores + row * step->V;
    double lse = (double)w->ctx->kernels->log_sum_exp(scores, step->V);
    if (!isfinite(lse)) {
        s->broken = true;
        return;
    }
    double base = s->sums[row] - lse;
    float threshold = -INFINITY;
    if (s->rules) {
        const struct qkv_score_text text = text_of(s, row);
        qkv_score_apply(s->rules, &text, s->greedy ? 0 : lse, scores, changed, s->vocab);
        scores = changed;
    }
    for (size_t i = 0; i < s->vocab; i++) {
        const int32_t id = (int32_t)i;
        if (!(scores[i] >= threshold) || scores[i] == -INFINITY || listed(s->barred, id)) continue;
        const struct qkv_candidate c = {.log_probability = base + (double)scores[i], .row = (int32_t)row, .id = id};
        add_candidate(s, c);
        if (s->count == s->most) {
            double worst = s->best[0].log_probability - base;
            threshold = (float)(worst - 1e-4 - 1e-6 * (fabs(worst) + fabs(base)));
        }
    }
}

/* Gives candidates the log-probabilities of the model; a forced token has 0. */
static void restore_probabilities(const struct qkv_cpu_work *w, struct qkv_continuation *s) {
    const struct qkv_step_candidates *step = w->step;
    for (size_t i = 0; i < s->count; i++) {
        struct qkv_candidate *c = &s->best[i];
        const size_t row = (size_t)c->row;
        const float *scores = s->scores + row * step->V;
        const struct qkv_score_text text = text_of(s, row);
        c->log_probability = s->sums[row];
        if (!qkv_score_forced(s->rules, &text).count)
            c->log_probability += (double)scores[c->id] - (double)w->ctx->kernels->log_sum_exp(scores, step->V);
    }
}

static void candidates_source(void *argument, size_t i, int thread) {
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_candidates *step = w->step;
    struct qkv_continuation *s = &step->sources[i];
    float *changed = s->rules ? step->changed + (size_t)thread * step->V : NULL;
    s->count = 0;
    for (size_t row = 0; row < s->rows && !s->broken; row++) scan_row(w, s, row, changed);
    sort_candidates(s);
    if (s->rules && s->greedy && !s->broken) restore_probabilities(w, s);
}

enum qkv_status qkv_cpu_candidates(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_candidates *step = call;
    qkv_cpu_each(ctx, step->count, candidates_source, step);
    return QKV_OK;
}
