/* search: the best targets of many sources, several of them together.
 *
 * Sources come in windows, sorted by length within a window, so that few of them are padded. The results of a window
 * are passed on in the order of the sources before the next window begins, so memory does not grow with the number
 * of sources. Each source has its hypotheses and its rows of the decoder, and leaves when it is done. The scores of
 * a row do not depend on the other rows, so the result of a source does not depend on its neighbours. */
#include "base/sized_options.h"
#include "generate/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backends.h"
#include "generate/generate.h"
#include "model/decode.h"
#include "text/text.h"

enum { BATCH = QKV_SEARCH_BATCH, WINDOW_BATCHES = 16 };

struct search {
    struct qkv_model *model;
    struct qkv_search_rules rules;
    const struct qkv_search_job *job;
    const int32_t *const *sources;
    const size_t *lengths;
    size_t batch; /* sources that run together */
    struct qkv_encoded *encoded;
    struct qkv_decoder *decoder;
    struct qkv_beam *beams;         /* of a window */
    size_t *order;                  /* of a window: its sources, the longest first */
    struct qkv_beam **active;       /* (batch): those that are not done */
    size_t *first, active_count;    /* the first row of each */
    int32_t *ids, *source_lengths;  /* of a batch's sources */
    size_t *row_sources, *from;     /* (batch·width) */
    struct qkv_continuation *found; /* (batch): of each active source, what its hypotheses continue with */
    float *changed;                 /* (batch,vocab): scratch of the rules; NULL: there are none */
    size_t *row_lengths;            /* the lengths for which their rotations are computed */
    int32_t *next;                  /* (batch·width) */
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

static enum qkv_status check_ids(const struct search *s) {
    const int vocab = qkv_model_spec(s->model)->vocab;
    const struct qkv_search_ids *ids = &s->rules.ids;
    if (ids->begin < 0 || ids->begin >= vocab || ids->ends.ids[0] >= vocab)
        return qkv_fail(s->rules.ctx, QKV_ARGUMENT, "targets begin with %d and end with %d, but ids are 0 to %d",
                        ids->begin, ids->ends.ids[0], vocab - 1);
    return QKV_OK;
}

static size_t number_of(const struct search *s, size_t i) {
    return s->job->numbers ? s->job->numbers[i] : i;
}

static enum qkv_status check_source(const struct search *s, size_t i) {
    const size_t context = (size_t)qkv_model_spec(s->model)->context;
    if (s->lengths[i] < 1)
        return qkv_fail(s->rules.ctx, QKV_ARGUMENT, "%s %zu is empty; it has at least an end", s->job->what,
                        number_of(s, i) + 1);
    if (s->lengths[i] > context)
        return qkv_fail(s->rules.ctx, QKV_ARGUMENT,
                        "%s %zu has %zu tokens with its end, but the model's context holds %zu; shorten it",
                        s->job->what, number_of(s, i) + 1, s->lengths[i], context);
    return QKV_OK;
}

/* ---- one batch -------------------------------------------------------------------------------------------------- */

static size_t longest_target(const struct search *s, size_t source) {
    size_t room = (size_t)qkv_model_spec(s->model)->context - 1, wanted = s->rules.options->max_tokens;
    if (wanted == 0) wanted = 3 * s->lengths[source] + 50;
    return wanted < room ? wanted : room;
}

/* Encodes the active sources and begins their targets: one row each, with room for more. */
static enum qkv_status begin_batch(struct search *s) {
    const size_t count = s->active_count, width = qkv_search_width(&s->rules);
    size_t T = 1, longest = 0;
    for (size_t i = 0; i < count; i++) {
        const struct qkv_beam *b = s->active[i];
        if (s->lengths[b->source] > T) T = s->lengths[b->source];
        if (b->max_length > longest) longest = b->max_length;
    }
    int32_t *ids = qkv_reallocate(s->rules.ctx, s->ids, count * T, sizeof *ids);
    if (!ids) return QKV_MEMORY;
    s->ids = ids;
    for (size_t i = 0; i < count; i++) {
        size_t source = s->active[i]->source;
        memcpy(ids + i * T, s->sources[source], s->lengths[source] * sizeof *ids);
        s->source_lengths[i] = (int32_t)s->lengths[source];
        for (size_t k = 0; k < width; k++) {
            s->row_sources[i * width + k] = i;
            s->row_lengths[i * width + k] = s->active[i]->max_length + 1;
        }
    }
    enum qkv_status status = qkv_encoded_begin(s->encoded, ids, s->source_lengths, count, T);
    if (status) return status;
    status =
        qkv_decoder_begin(s->decoder, &QKV_OPTIONS(qkv_decoder_options, .encoded = s->encoded,
                                                   .sources = s->row_sources, .rows = count * width,
                                                   .capacity = longest + 1, .chunk = 1, .lengths = s->row_lengths));
    for (size_t i = 0; i < count; i++) {
        s->from[i] = i * width;
        s->first[i] = i;
        s->next[i] = s->rules.ids.begin;
    }
    return status ? status : qkv_decoder_move(s->decoder, s->from, count);
}

/* All sources find the likeliest continuations of their hypotheses, and take one step. */
static enum qkv_status step_search(struct search *s, const float *logits) {
    const struct qkv_search_rules *rules = &s->rules;
    for (size_t i = 0; i < s->active_count; i++)
        s->found[i] = qkv_beam_continuation(s->active[i], logits + s->first[i] * rules->V,
                                            s->changed ? s->changed + i * rules->vocab : NULL);
    enum qkv_status status = QKV_STEP(rules->ctx, candidates, .sources = s->found, .count = s->active_count,
                                      .V = rules->V, .vocab = rules->vocab, .most = rules->most, .rules = &rules->score,
                                      .greedy = rules->options->beam == 1, .barred = rules->ids.barred);
    for (size_t i = 0; i < s->active_count && !status; i++) qkv_beam_step(s->active[i], &s->found[i]);
    return status;
}

/* All hypotheses read their scores. */
static enum qkv_status step_beams(struct search *s) {
    const float *logits = qkv_decoder_logits(s->decoder);
    enum qkv_status status = s->rules.options->sample ? QKV_OK : step_search(s, logits);
    for (size_t i = 0; s->rules.options->sample && i < s->active_count && !status; i++)
        status = qkv_beam_draw(s->active[i], logits + s->first[i] * s->rules.V);
    for (size_t i = 0; i < s->active_count && !status; i++)
        if (s->active[i]->broken)
            status = qkv_fail(s->rules.ctx, QKV_NUMBER,
                              "the scores for %s %zu are not finite: the weights are broken, or training diverged; use "
                              "an earlier checkpoint",
                              s->job->what, s->active[i]->number + 1);
    return status;
}

/* Moves the rows of the live hypotheses together. */
static enum qkv_status move_rows(struct search *s) {
    size_t rows = 0, count = 0;
    for (size_t i = 0; i < s->active_count; i++) {
        struct qkv_beam *b = s->active[i];
        size_t first = s->first[i];
        if (!b->live) continue;
        s->active[count] = b;
        s->first[count++] = rows;
        for (size_t r = 0; r < b->live; r++) {
            s->next[rows] = b->next[r];
            s->from[rows++] = first + b->parents[r];
        }
    }
    s->active_count = count;
    return count ? qkv_decoder_move(s->decoder, s->from, rows) : QKV_OK;
}

static enum qkv_status run_batch(struct search *s) {
    enum qkv_status status = begin_batch(s);
    while (!status && s->active_count) {
        status = qkv_decoder_grow(s->decoder, &(struct qkv_decoder_input){.ids = s->next});
        if (!status) status = step_beams(s);
        if (!status) status = move_rows(s);
    }
    return status;
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

struct place {
    size_t length, at;
};

static int longer_first(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static enum qkv_status sort_window(struct search *s, size_t first, size_t count) {
    struct place *places = qkv_allocate(s->rules.ctx, count, sizeof *places);
    if (!places) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) places[i] = (struct place){s->lengths[first + i], i};
    qsort(places, count, sizeof *places, longer_first);
    for (size_t i = 0; i < count; i++) s->order[i] = places[i].at;
    free(places);
    return QKV_OK;
}

static enum qkv_status run_window(struct search *s, size_t first, size_t count) {
    enum qkv_status status = sort_window(s, first, count);
    for (size_t i = 0; i < count && !status; i++) {
        status = check_source(s, first + i);
        if (!status)
            status = qkv_beam_create(&s->rules,
                                     &(struct qkv_beam_start){.source = first + i,
                                                              .number = number_of(s, first + i),
                                                              .prompt = {&s->rules.ids.begin, 1},
                                                              .ids = {s->sources[first + i], s->lengths[first + i]},
                                                              .max_length = longest_target(s, first + i)},
                                     &s->beams[i]);
    }
    for (size_t i = 0, batch; i < count && !status; i += batch) {
        batch = count - i < s->batch ? count - i : s->batch;
        for (size_t k = 0; k < batch; k++) s->active[k] = &s->beams[s->order[i + k]];
        s->active_count = batch;
        status = run_batch(s);
    }
    return status;
}

static enum qkv_status give_out(struct search *s, size_t count, qkv_take_hypotheses *take, void *user) {
    for (size_t i = 0; i < count; i++) {
        const struct qkv_beam *b = &s->beams[i];
        const size_t found = qkv_min(b->finished_count, s->rules.options->n_best);
        for (size_t k = 0; s->rules.options->tokens && k < found; k++)
            *s->rules.options->tokens += b->finished[k].count + b->finished[k].ended;
        if (!take(user, b->source, b->finished, found))
            return qkv_fail(s->rules.ctx, QKV_STOPPED, "searching was stopped by the caller");
    }
    return QKV_OK;
}

/* ---- the search ------------------------------------------------------------------------------------------------- */

static enum qkv_status search_start(struct search *s, size_t count, size_t *window) {
    struct qkv_context *ctx = s->rules.ctx;
    const size_t width = qkv_search_width(&s->rules);
    s->batch = s->rules.options->batch ? s->rules.options->batch : BATCH;
    if (s->batch > count) s->batch = count ? count : 1;
    *window = s->batch * WINDOW_BATCHES < count ? s->batch * WINDOW_BATCHES : count;
    s->beams = qkv_allocate(ctx, *window, sizeof *s->beams);
    s->order = qkv_allocate(ctx, *window, sizeof *s->order);
    s->active = qkv_allocate(ctx, s->batch, sizeof *s->active);
    s->first = qkv_allocate(ctx, s->batch, sizeof *s->first);
    s->found = qkv_allocate(ctx, s->batch, sizeof *s->found);
    s->source_lengths = qkv_allocate(ctx, s->batch, sizeof *s->source_lengths);
    s->row_sources = qkv_allocate(ctx, s->batch, width * sizeof *s->row_sources);
    s->row_lengths = qkv_allocate(ctx, s->batch, width * sizeof *s->row_lengths);
    s->from = qkv_allocate(ctx, s->batch, width * sizeof *s->from);
    s->next = qkv_allocate(ctx, s->batch, width * sizeof *s->next);
    const bool changes = !s->rules.options->sample && qkv_score_changes(&s->rules.score);
    s->changed = changes ? qkv_allocate(ctx, s->batch, s->rules.vocab * sizeof *s->changed) : NULL;
    if (changes && !s->changed) return QKV_MEMORY;
    if (!s->beams || !s->order || !s->active || !s->first || !s->found || !s->source_lengths || !s->row_sources ||
        !s->row_lengths || !s->from || !s->next)
        return QKV_MEMORY;
    s->encoded = qkv_encoded_allocate(s->model, false);
    s->decoder = s->encoded ? qkv_decoder_allocate(s->model) : NULL;
    return s->decoder ? QKV_OK : s->model->planned ? QKV_ARGUMENT : QKV_MEMORY;
}

static void search_clear(struct search *s) {
    qkv_decoder_free(s->decoder);
    qkv_encoded_free(s->encoded);
    free(s->beams);
    free(s->order);
    free(s->active);
    free(s->first);
    free(s->found);
    free(s->changed);
    free(s->ids);
    free(s->source_lengths);
    free(s->row_sources);
    free(s->row_lengths);
    free(s->from);
    free(s->next);
}

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

enum qkv_status qkv_search_run(struct qkv_model *model, const struct qkv_search_job *job) {
    struct qkv_context *ctx = qkv_model_context(model);
    size_t V = (size_t)qkv_model_spec(model)->vocab, window = 0;
    struct search s = {.model = model,
                       .rules = {.ctx = ctx,
                                 .options = job->options,
                                 .V = V,
                                 .vocab = job->vocab < V ? job->vocab : V,
                                 .ids = job->ids},
                       .job = job,
                       .sources = job->sources,
                       .lengths = job->lengths};
    enum qkv_status status = qkv_search_check_model(model, "searching");
    if (!status) status = qkv_search_check(ctx, (size_t)qkv_model_spec(model)->context, job->options);
    if (!status) status = check_ids(&s);
    if (!status) status = qkv_search_rule(model, &s.rules);
    if (status || job->count == 0) return status;
    status = search_start(&s, job->count, &window);
    for (size_t first = 0; first < job->count && !status; first += window) {
        size_t now = job->count - first < window ? job->count - first : window;
        status = run_window(&s, first, now);
        if (!status) status = give_out(&s, now, job->take, job->user);
        for (size_t i = 0; i < now; i++) qkv_beam_free(&s.beams[i]);
    }
    search_clear(&s);
    return status;
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
