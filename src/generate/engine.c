/* Engines: made, described, freed. */
#include "generate/engine.h"

#include "base/sized_options.h"
#include "model/spec.h"

#include <stdlib.h>

void qkv_engine_options_init(struct qkv_engine_options *options, size_t size) {
    static const struct qkv_engine_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static struct qkv_decoder_options engine_decoder(const struct qkv_engine *e, const char *cache, size_t pages) {
    struct qkv_decoder_options o = qkv_decoder_defaults();
    o.rows = e->row_count;
    o.capacity = e->context;
    o.pages = pages;
    o.cache = cache;
    o.chunk = qkv_max(1, e->most / e->row_count);
    return o;
}

/* The rows of the draft model, whose pages are as many. */
static struct qkv_decoder_options engine_draft(const struct qkv_engine *e, const struct qkv_decoder_options *of) {
    struct qkv_decoder_options o = *of;
    o.capacity = qkv_min(o.capacity, (size_t)e->draft_model->spec.context);
    o.cache = NULL;
    o.encoded = NULL;
    return o;
}

/* Adds the bytes of the draft model, with scores for each row. */
static enum qkv_status engine_measure_draft(const struct qkv_engine *e, const struct qkv_decoder_options *of,
                                            size_t *bytes) {
    if (!e->draft_model) return QKV_OK;
    const struct qkv_decoder_options o = engine_draft(e, of);
    size_t rows = 0, mixed = 0;
    enum qkv_status status = qkv_decoder_measure(e->draft_model, &o, &rows);
    if (!status) status = qkv_decoder_measure_mixed(e->draft_model, &o, e->row_count, &mixed);
    *bytes += rows + mixed + qkv_graph_bytes(&e->draft_model->spec);
    return status;
}

/* Measures such a decoder with the scores of prompts and the records of a step. */
static enum qkv_status engine_measure(const struct qkv_engine *e, const struct qkv_decoder_options *o, size_t *bytes) {
    const size_t most = qkv_max(e->row_count, QKV_ENGINE_SCORED), scored = most - e->row_count;
    struct qkv_encoded_room room = qkv_engine_encoded_room(e, o->pages);
    size_t mixed = 0;
    room.scored = most;
    enum qkv_status status =
        room.places ? qkv_encoded_room_measure(e->model, &room, o, bytes) : qkv_decoder_measure(e->model, o, bytes);
    if (!status && !room.places) status = qkv_decoder_measure_mixed(e->model, o, most, &mixed);
    *bytes += mixed + scored * (size_t)e->model->spec.vocab * sizeof(float) + qkv_graph_bytes(&e->model->spec);
    return status ? status : engine_measure_draft(e, o, bytes);
}

/* Chooses the number of pages that fit: at most what all rows can use, and as much again for the past. */
static enum qkv_status engine_pages(struct qkv_engine *e, const struct qkv_engine_options *o, size_t *pages) {
    const struct qkv_page_shape shape = {.length = e->context, .sequences = e->row_count};
    const size_t each = qkv_page_count(qkv_page_positions(&shape), e->context);
    const uint64_t available = qkv_memory_available().bytes;
    const size_t memory = o->memory ? o->memory : available / 2 < SIZE_MAX ? (size_t)(available / 2) : SIZE_MAX;
    size_t one, two, most, texts;
    if (o->pages) {
        *pages = o->pages;
        return QKV_OK;
    }
    if (!qkv_multiply(2 * each, e->row_count, &most) || most > INT32_MAX) most = INT32_MAX;
    struct qkv_decoder_options plan = engine_decoder(e, o->cache, 1);
    enum qkv_status status = engine_measure(e, &plan, &one);
    plan.pages = 2;
    if (!status) status = engine_measure(e, &plan, &two);
    if (!status) status = qkv_engine_texts_measure(e, &texts);
    if (status) return status;
    const size_t page = qkv_max(1, two - one);
    one += texts;
    *pages = memory > one ? 1 + (memory - one) / page : 0;
    if (*pages > most) *pages = most;
    if (*pages) return QKV_OK;
    char text[2][QKV_BYTES_TEXT];
    return qkv_fail(e->ctx, QKV_MEMORY,
                    "an engine of %zu rows needs %s for one page of its cache and its steps, but may have %s; give it "
                    "more memory, or fewer rows",
                    e->row_count, qkv_bytes_text(text[0], one), qkv_bytes_text(text[1], memory));
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static enum qkv_status engine_check(struct qkv_engine *e, const struct qkv_engine_options *o) {
    const size_t context = (size_t)e->model->spec.context;
    if (o->rows > QKV_ENGINE_ROWS_MAX)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "rows is %zu; an engine has at most %d", o->rows, QKV_ENGINE_ROWS_MAX);
    if (o->context > context)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "a context of %zu is more than the model's, %zu; give at most that",
                        o->context, context);
    if (o->step > QKV_ENGINE_STEP_MAX)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "step is %zu; a step has at most %d tokens", o->step,
                        QKV_ENGINE_STEP_MAX);
    if (o->drafts > QKV_ENGINE_DRAFTS)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "drafts is %zu; at most %d tokens are guessed", o->drafts,
                        QKV_ENGINE_DRAFTS);
    e->row_count = e->place_count = o->rows ? o->rows : QKV_ENGINE_ROWS;
    e->context = o->context ? o->context : context;
    e->most = qkv_max(e->row_count, QKV_DECODER_CHUNK);
    e->adapts = !o->step;
    e->step = e->adapts ? qkv_min(16, e->most) : o->step;
    e->forget = o->forget;
    e->drafts = o->drafts || !o->draft ? o->drafts : QKV_ENGINE_DRAFTS_USUAL;
    e->draft_model = o->draft;
    enum qkv_status status = e->draft_model ? qkv_engine_draft_check(e) : QKV_OK;
    return status ? status : qkv_engine_texts_check(e, o);
}

static enum qkv_status engine_arrays(struct qkv_engine *e) {
    const size_t step = qkv_max(e->most, e->step) + e->row_count;
    const size_t whole = e->model->spec.prefix ? e->context : 0; /* prompts that are read in one piece */
    e->rows = qkv_allocate(e->ctx, e->row_count, sizeof *e->rows);
    e->counts = qkv_allocate(e->ctx, e->row_count, sizeof *e->counts);
    e->order = qkv_allocate(e->ctx, e->row_count, sizeof *e->order);
    e->scored = qkv_allocate(e->ctx, e->scored_most + 1, sizeof *e->scored);
    e->scores = qkv_allocate(e->ctx, (size_t)e->model->spec.vocab, sizeof *e->scores);
    e->ids = qkv_allocate(e->ctx, step + e->row_count * whole, sizeof *e->ids);
    e->searching = qkv_allocate(e->ctx, e->row_count, sizeof *e->searching);
    e->continuations = qkv_allocate(e->ctx, e->row_count, sizeof *e->continuations);
    const bool taken = e->rows && e->counts && e->order && e->scored && e->scores && e->ids;
    return taken && e->searching && e->continuations ? QKV_OK : QKV_MEMORY;
}

/* The rows and the cache of a model that generates. */
static enum qkv_status engine_make_decoder(struct qkv_engine *e, const struct qkv_engine_options *o) {
    size_t pages = 0;
    enum qkv_status status = engine_pages(e, o, &pages);
    if (status) return status;
    struct qkv_decoder_options rows = engine_decoder(e, o->cache, pages);
    status = engine_measure(e, &rows, &e->state.memory);
    if (!status && e->model->encoder.spec) status = qkv_engine_open_room(e, pages);
    rows.encoded = e->encoded;
    if (!status) status = qkv_decoder_create(e->model, &rows, &e->decoder);
    if (!status && e->draft_model) {
        const struct qkv_decoder_options guesses = engine_draft(e, &rows);
        status = qkv_decoder_create(e->draft_model, &guesses, &e->draft);
    }
    e->scored_most = qkv_max(e->row_count, QKV_ENGINE_SCORED);
    if (!status) status = engine_arrays(e);
    if (!status) status = qkv_engine_prefixes_create(e);
    if (!status) status = qkv_decoder_take_scores(e->decoder, e->scored_most);
    return status;
}

/* A model that only reads texts. */
static enum qkv_status engine_make_reader(struct qkv_engine *e, const struct qkv_engine_options *o, size_t bytes) {
    char text[2][QKV_BYTES_TEXT];
    enum qkv_status status = qkv_model_check_weights(e->model);
    e->row_count = e->context = 0;
    e->most = e->room.tokens;
    if (!status && o->memory && bytes > o->memory)
        return qkv_fail(e->ctx, QKV_MEMORY,
                        "an engine that reads texts of %zu tokens needs %s, but may have %s; give it more memory, or "
                        "shorter texts",
                        e->room.longest, qkv_bytes_text(text[0], bytes), qkv_bytes_text(text[1], o->memory));
    return status;
}

static enum qkv_status engine_make(struct qkv_engine *e, const struct qkv_engine_options *o) {
    const bool generates = e->model->decoder.spec && e->model->spec.head.kind == QKV_HEAD_LM;
    size_t texts = 0;
    enum qkv_status status = engine_check(e, o);
    if (!status) status = qkv_engine_texts_measure(e, &texts);
    if (!status) status = generates ? engine_make_decoder(e, o) : engine_make_reader(e, o, texts);
    e->state.memory += texts;
    return status ? status : qkv_engine_texts_create(e);
}

static struct qkv_engine *engine_allocate(struct qkv_model *model, const char *doing) {
    struct qkv_engine *e = qkv_allocate(model->ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->model = model;
    e->ctx = model->ctx;
    e->doing = doing;
    e->jobs_end = &e->jobs;
    return e;
}

/* Gives an engine that is made, or frees one that could not be. */
static enum qkv_status engine_give(struct qkv_engine *e, enum qkv_status status, struct qkv_engine **out) {
    if (status)
        qkv_engine_free(e);
    else
        *out = e;
    return status;
}

enum qkv_status qkv_engine_create(struct qkv_model *model, const struct qkv_engine_options *options,
                                  struct qkv_engine **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    struct qkv_engine_options all = qkv_engine_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(model->ctx, qkv_engine_options, &all, options);
    if (status) return status;
    struct qkv_engine *e = engine_allocate(model, "answering");
    if (!e) return QKV_MEMORY;
    return engine_give(e, engine_make(e, &all), out);
}

enum qkv_status qkv_engine_open_reader(struct qkv_model *model, const struct qkv_text_room *room,
                                       struct qkv_engine **out) {
    const struct qkv_stack_spec *stack = qkv_encoded_stack(model)->spec;
    const size_t context = (size_t)qkv_stack_context(&model->spec, stack);
    *out = NULL;
    if (!qkv_stack_reads_tokens(stack))
        return qkv_fail(model->ctx, QKV_ARGUMENT, "texts are read as tokens, but this model reads %s",
                        qkv_input_text(stack->embed.input.kind));
    if (room->longest > context)
        return qkv_fail(model->ctx, QKV_ARGUMENT, "a source of %zu positions is longer than the model's context of %zu",
                        room->longest, context);
    enum qkv_status status = qkv_model_check_weights(model);
    struct qkv_engine *e = status ? NULL : engine_allocate(model, "a pass");
    if (!e) return status ? status : QKV_MEMORY;
    e->reads_only = true;
    e->room = *room;
    e->most = e->step = room->tokens;
    return engine_give(e, qkv_engine_texts_create(e), out);
}

/* All rows can be full at once, and no step has more than one token of each. */
static enum qkv_status engine_make_searcher(struct qkv_engine *e, const struct qkv_search_shape *shape) {
    struct qkv_decoder_options targets;
    enum qkv_status status = qkv_model_check_weights(e->model);
    if (!status) status = qkv_search_targets(e->model, shape, &targets);
    if (status) return status;
    e->place_count = shape->sources;
    e->row_count = e->most = e->scored_most = targets.rows;
    e->context = targets.capacity;
    e->room = qkv_search_room(shape);
    e->step = e->row_count + 2 * e->room.tokens; /* half of which are for sources, if targets grow */
    e->refill = e->row_count / 2;
    status = qkv_engine_open_room(e, SIZE_MAX);
    targets.encoded = e->encoded;
    if (!status) status = qkv_decoder_create(e->model, &targets, &e->decoder);
    free((void *)(uintptr_t)targets.sources);
    if (!status) status = engine_arrays(e);
    return status ? status : qkv_engine_texts_create(e);
}

enum qkv_status qkv_engine_open_rows(struct qkv_decoder *decoder, size_t step, struct qkv_engine **out) {
    *out = NULL;
    struct qkv_engine *e = engine_allocate(decoder->model, "a pass");
    if (!e) return QKV_MEMORY;
    e->decoder = decoder;
    e->lent = e->forget = true;
    e->row_count = e->most = e->scored_most = decoder->most;
    e->context = decoder->capacity;
    e->step = step;
    return engine_give(e, engine_arrays(e), out);
}

enum qkv_status qkv_engine_open_searcher(struct qkv_model *model, const struct qkv_search_shape *shape,
                                         struct qkv_engine **out) {
    *out = NULL;
    struct qkv_engine *e = engine_allocate(model, "a pass");
    return e ? engine_give(e, engine_make_searcher(e, shape), out) : QKV_MEMORY;
}

void qkv_engine_free(struct qkv_engine *e) {
    if (!e) return;
    for (struct qkv_engine_job *job = e->jobs, *next; job; job = next) {
        next = job->next;
        qkv_engine_job_free(job);
    }
    for (size_t i = 0; i < e->event_count; i++) qkv_engine_told_free(e->events[e->event_first + i]);
    qkv_engine_told_free(e->given);
    for (struct qkv_engine_told *told = e->spare, *next; told; told = next) {
        next = told->next;
        qkv_engine_told_free(told);
    }
    free(e->events);
    qkv_engine_prefixes_free(e);
    qkv_engine_texts_free(e);
    if (!e->lent) qkv_decoder_free(e->decoder);
    qkv_decoder_free(e->draft);
    free(e->rows), free(e->counts), free(e->order), free(e->scored), free(e->scores), free(e->ids);
    free(e->searching), free(e->continuations);
    free(e);
}

struct qkv_engine_state qkv_engine_state(const struct qkv_engine *e) {
    if (!e) return (struct qkv_engine_state){0};
    const struct qkv_cache_pages pages = qkv_decoder_pages(e->decoder);
    struct qkv_engine_state s = e->state;
    s.rows = e->row_count;
    s.context = e->context;
    s.step = e->step;
    s.pages = pages.count;
    s.free_pages = pages.count - pages.used;
    s.kept_pages = qkv_engine_kept(e);
    s.page_positions = pages.positions;
    s.page_bytes = pages.bytes;
    return s;
}
