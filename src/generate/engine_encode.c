/* Reading texts: several at once, without padding, in a share of a step. The bits of a text are those that it has
 * alone. */
#include "base/sized_options.h"
#include "generate/engine.h"
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_engine_texts_check(struct qkv_engine *e, const struct qkv_engine_options *o) {
    struct qkv_model *m = e->model;
    const struct qkv_stack *stack = qkv_encoded_stack(m);
    const size_t context = (size_t)qkv_stack_context(&m->spec, stack->spec);
    const bool none = m->spec.head.kind == QKV_HEAD_LM && !m->encoder.spec && !m->pooling.given;
    if (o->text > context)
        return qkv_fail(e->ctx, QKV_ARGUMENT, "text is %zu, more than the model's context, %zu; give at most that",
                        o->text, context);
    e->room.longest = o->text ? o->text : none ? 0 : qkv_min(context, QKV_ENGINE_TEXT);
    if (!qkv_stack_reads_tokens(stack->spec))
        return qkv_fail(e->ctx, QKV_ARGUMENT, "an engine reads tokens, but this model reads %s",
                        qkv_input_text(stack->spec->embed.input.kind));
    e->room.texts = QKV_ENGINE_TEXTS;
    e->room.tokens = qkv_max(e->room.longest, qkv_min((size_t)QKV_ENGINE_TEXT_TOKENS, e->room.texts * e->room.longest));
    e->room.masks = QKV_ENGINE_MASKS;
    return QKV_OK;
}

static bool has_sources(const struct qkv_engine *e) {
    return !e->reads_only && e->model->encoder.spec && e->model->decoder.spec &&
           e->model->spec.head.kind == QKV_HEAD_LM;
}

struct qkv_encoded_room qkv_engine_encoded_room(const struct qkv_engine *e, size_t pages) {
    struct qkv_encoded_room room = {.T = e->room.longest, .sources = e->room.texts, .rows = e->room.tokens};
    const struct qkv_page_shape shape = {.length = room.T, .sequences = e->place_count};
    size_t most;
    if (!has_sources(e)) return room;
    room.places = e->place_count;
    if (!qkv_multiply(e->place_count, qkv_page_count(qkv_page_positions(&shape), room.T), &most)) most = SIZE_MAX;
    room.pages = qkv_min(pages, most);
    return room;
}

/* Whether texts go through a pass with the head: they are classified or filled. */
static bool has_pass(const struct qkv_engine *e) {
    const enum qkv_head_kind head = e->model->spec.head.kind;
    if (e->model->decoder.spec && (e->model->encoder.spec || head == QKV_HEAD_LM)) return false;
    return head == QKV_HEAD_CLASSIFY || head == QKV_HEAD_LM;
}

enum qkv_status qkv_engine_texts_measure(struct qkv_engine *e, size_t *bytes) {
    const struct qkv_encoded_room room = qkv_engine_encoded_room(e, 0);
    struct qkv_pass_plan plan = {0};
    struct qkv_text_pass pass;
    size_t dense = 0;
    *bytes = 0;
    if (!e->room.longest) return QKV_OK;
    qkv_text_pass_plan(e->model, &e->room, &pass);
    enum qkv_status status = room.places ? QKV_OK : qkv_encoded_room_measure(e->model, &room, NULL, bytes);
    if (!status) status = qkv_model_dense_measure(e->model, e->room.texts, &dense);
    if (!status && has_pass(e)) status = qkv_pass_measure(e->model, &pass.options, 0, &plan);
    *bytes += dense + plan.bytes + 2 * e->room.tokens * sizeof(int32_t);
    *bytes += (has_pass(e) ? 2 : 1) * qkv_graph_bytes(&e->model->spec);
    return status;
}

enum qkv_status qkv_engine_texts_create(struct qkv_engine *e) {
    if (!e->room.longest) return QKV_OK;
    if (has_sources(e)) {
        e->places = qkv_allocate(e->ctx, e->place_count, sizeof *e->places);
        if (!e->places) return QKV_MEMORY;
    }
    e->batch.ids = qkv_allocate(e->ctx, e->room.tokens, sizeof *e->batch.ids);
    e->batch.types = qkv_allocate(e->ctx, e->room.tokens, sizeof *e->batch.types);
    e->batch.scored = qkv_allocate(e->ctx, e->room.masks + 1, sizeof *e->batch.scored);
    return e->batch.ids && e->batch.types && e->batch.scored ? QKV_OK : QKV_MEMORY;
}

void qkv_engine_texts_free(struct qkv_engine *e) {
    free(e->batch.ids);
    free(e->batch.types);
    free(e->batch.scored);
    free(e->places);
    qkv_encoded_free(e->encoded);
    qkv_pass_free(e->pass);
}

/* Without sources it takes its memory when the first vector is wanted. */
enum qkv_status qkv_engine_open_room(struct qkv_engine *e, size_t pages) {
    const struct qkv_encoded_room room = qkv_engine_encoded_room(e, pages);
    if (e->encoded) return QKV_OK;
    e->encoded = qkv_encoded_allocate(e->model, false);
    const enum qkv_status status = e->encoded ? qkv_encoded_open(e->encoded, &room) : QKV_MEMORY;
    if (!status) return QKV_OK;
    qkv_encoded_free(e->encoded);
    e->encoded = NULL;
    return status;
}

static enum qkv_status texts_open_pass(struct qkv_engine *e) {
    struct qkv_text_pass pass;
    if (e->pass) return QKV_OK;
    qkv_text_pass_plan(e->model, &e->room, &pass);
    return qkv_pass_create_ordered(e->model, &pass.options, 0, &e->pass);
}

/* ---- the batch --------------------------------------------------------------------------------------------------- */

/* Adds a text if there is room for it. The first one has room. */
static bool batch_add(struct qkv_engine *e, struct qkv_engine_job *job, size_t most) {
    struct qkv_engine_batch *b = &e->batch;
    const struct qkv_engine_text *t = &job->text;
    const size_t masks = job->request.kind == QKV_ENGINE_FILL ? t->filler.read - t->filled : 0;
    const size_t longest = qkv_max(b->longest, t->count);
    if (b->count &&
        (b->count == e->room.texts || b->tokens + t->count > e->room.tokens ||
         (b->count + 1) * longest > qkv_text_room_places(&e->room) || b->scored_count + masks > e->room.masks))
        return false;
    if (b->count && b->tokens + t->count > most) {
        e->full = true;
        return false;
    }
    memcpy(b->ids + b->tokens, t->ids, t->count * sizeof *b->ids);
    memset(b->types + b->tokens, 0, t->count * sizeof *b->types);
    if (t->types) memcpy(b->types + b->tokens, t->types, t->count * sizeof *b->types);
    for (size_t i = 0, mask = 0; masks && i < t->count && b->scored_count < e->room.masks; i++)
        if (t->ids[i] == t->filler.mask && mask++ >= t->filled) b->scored[b->scored_count++] = b->tokens + i;
    b->jobs[b->count] = job;
    b->lengths[b->count] = (int32_t)t->count;
    b->starts[b->count++] = (int32_t)b->tokens;
    b->tokens += t->count;
    b->longest = longest;
    b->starts[b->count] = (int32_t)b->tokens;
    return true;
}

/* The oldest texts, all of the kind of the first, and with its adapter. */
static void batch_choose(struct qkv_engine *e, size_t most) {
    e->batch.count = e->batch.tokens = e->batch.longest = e->batch.scored_count = 0;
    for (struct qkv_engine_job *job = e->jobs; job; job = job->next) {
        if (!job->request.kind || !job->unended) continue;
        const struct qkv_engine_job *first = e->batch.jobs[0];
        if (e->batch.count &&
            (job->request.kind != first->request.kind || qkv_engine_adapter(job) != qkv_engine_adapter(first)))
            continue;
        if (!batch_add(e, job, most)) return;
    }
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* The tokens of sources that have a place and are not encoded. */
static size_t sources_tokens(const struct qkv_engine *e, size_t *count) {
    size_t tokens = 0;
    *count = 0;
    for (size_t i = 0; i < e->place_count; i++) {
        if (!e->places[i] || e->places[i]->encoded) continue;
        tokens += e->places[i]->prompt.source_count;
        ++*count;
    }
    return tokens;
}

bool qkv_engine_source_enter(struct qkv_engine *e, struct qkv_engine_job *job, size_t most) {
    const size_t length = job->prompt.source_count;
    size_t place = 0, count;
    if (!e->places || job->place != QKV_ENGINE_NO_ROW) return true;
    const size_t tokens = sources_tokens(e, &count);
    if (count && (count == e->room.texts || tokens + length > e->room.tokens)) return false;
    if (count && tokens + length > most) {
        e->full = true;
        return false;
    }
    while (e->places[place]) place++; /* where rows are free, a place is */
    if (qkv_encoded_take(e->encoded, place, length)) {
        qkv_forgive(e->ctx);
        return false;
    }
    e->places[place] = job;
    job->place = place;
    job->encoded = false;
    return true;
}

/* Answers whose source could not be encoded leave their rows. */
static void sources_leave(struct qkv_engine *e) {
    for (size_t r = 0; r < e->row_count; r++)
        if (e->rows[r] && !e->rows[r]->job->encoded) qkv_engine_leave(e, e->rows[r]);
}

/* Encodes the sources with the adapter of the first that is not encoded; *count: how many. */
static enum qkv_status sources_put(struct qkv_engine *e, size_t *count, size_t *tokens) {
    size_t places[QKV_ENGINE_TEXTS], rows = 0;
    struct qkv_engine_batch *b = &e->batch;
    *count = 0;
    for (size_t i = 0; e->places && i < e->place_count; i++) {
        const struct qkv_engine_job *job = e->places[i];
        if (!job || job->encoded) continue;
        if (*count && qkv_engine_adapter(job) != qkv_engine_adapter(e->places[places[0]])) continue;
        memcpy(b->ids + rows, job->prompt.source, job->prompt.source_count * sizeof *b->ids);
        b->lengths[*count] = (int32_t)job->prompt.source_count;
        rows += job->prompt.source_count;
        places[(*count)++] = i;
    }
    if (!*count) return QKV_OK;
    e->model->now = &e->places[places[0]]->adapter;
    const enum qkv_status status =
        qkv_encoded_put(e->encoded, &(struct qkv_packed_texts){b->ids, b->lengths, *count}, places);
    e->model->now = NULL;
    for (size_t i = 0; !status && i < *count; i++) e->places[places[i]]->encoded = true;
    *tokens += rows;
    return status;
}

enum qkv_status qkv_engine_sources_run(struct qkv_engine *e, size_t *tokens) {
    enum qkv_status status;
    size_t count = 0;
    *tokens = 0;
    do status = sources_put(e, &count, tokens);
    while (count && !status);
    if (status) sources_leave(e);
    return status;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static enum qkv_status text_end(struct qkv_engine *e, struct qkv_engine_job *job, struct qkv_engine_told *told) {
    e->state.texts++;
    e->state.text_tokens += job->text.count;
    qkv_engine_end(e, &job->answers[0], QKV_FINISH_READ, told);
    return QKV_OK;
}

/* Tells the end of a text whose vector is computed; broken: it is not finite. The event takes the vector. */
static enum qkv_status text_tell_vector(struct qkv_engine *e, struct qkv_engine_job *job, float **vector, bool broken) {
    struct qkv_engine_told *told = qkv_engine_tell(e, &job->answers[0]);
    if (!told) return QKV_MEMORY;
    if (broken) {
        qkv_fail(e->ctx, QKV_NUMBER,
                 "the %s of the text are not finite: the model's weights are broken; use an earlier checkpoint",
                 job->request.kind == QKV_ENGINE_EMBED ? "hidden states" : "scores");
        const enum qkv_status status = qkv_engine_fail(e, &job->answers[0], told, QKV_NUMBER);
        if (status) qkv_engine_untell(e);
        return status;
    }
    told->vector = *vector;
    told->event.vector = *vector;
    told->event.vector_count = qkv_engine_text_width(e, job);
    *vector = NULL;
    return text_end(e, job, told);
}

static enum qkv_status batch_embed(struct qkv_engine *e) {
    struct qkv_engine_batch *b = &e->batch;
    struct qkv_text_vector texts[QKV_ENGINE_TEXTS] = {0};
    const size_t C = qkv_embed_channels(e->model), width = qkv_embed_width(e->model);
    enum qkv_status status = qkv_engine_open_room(e, 0);
    if (!status) status = qkv_encoded_pack(e->encoded, &(struct qkv_packed_texts){b->ids, b->lengths, b->count});
    for (size_t i = 0; i < b->count && !status; i++) {
        const struct qkv_engine_text *t = &b->jobs[i]->text;
        texts[i] = (struct qkv_text_vector){.hidden = e->encoded->output + (size_t)b->starts[i] * C,
                                            .count = t->count,
                                            .skipped = t->skipped,
                                            .pool = t->pool,
                                            .normalize = t->normalize,
                                            .out = qkv_allocate(e->ctx, width, sizeof(float))};
        if (!texts[i].out) status = QKV_MEMORY;
    }
    if (!status) status = qkv_text_vectors(e->model, texts, b->count);
    for (size_t i = 0; i < b->count && !status; i++)
        status = text_tell_vector(e, b->jobs[i], &texts[i].out, texts[i].broken);
    for (size_t i = 0; i < b->count; i++) free(texts[i].out);
    return status;
}

static enum qkv_status batch_pass(struct qkv_engine *e, bool scored) {
    const struct qkv_engine_batch *b = &e->batch;
    bool typed = false;
    for (size_t i = 0; i < b->count; i++) typed |= b->jobs[i]->text.types != NULL;
    if (qkv_encoded_stack(e->model)->spec->embed.types <= 1) typed = false; /* a single type has no information */
    enum qkv_status status = texts_open_pass(e);
    return status ? status
                  : qkv_pass_forward(e->pass, &(struct qkv_batch){.B = b->count,
                                                                  .ids = b->ids,
                                                                  .types = typed ? b->types : NULL,
                                                                  .cu_rows = b->starts,
                                                                  .rows = b->tokens,
                                                                  .scored = scored ? b->scored : NULL,
                                                                  .scored_count = scored ? b->scored_count : 0});
}

/* Tells the classes of each text, or the scores of all its tokens. */
static enum qkv_status batch_scores(struct qkv_engine *e, bool tokens) {
    const struct qkv_engine_batch *b = &e->batch;
    const size_t classes = (size_t)e->model->spec.head.classes;
    enum qkv_status status = batch_pass(e, false);
    const float *scores = status ? NULL : qkv_pass_output(e->pass).data;
    for (size_t i = 0; i < b->count && !status; i++) {
        const size_t count = tokens ? (size_t)b->lengths[i] * classes : classes;
        float *vector = qkv_allocate(e->ctx, count, sizeof *vector);
        bool broken = false;
        if (!vector) return QKV_MEMORY;
        if (tokens)
            memcpy(vector, scores, count * sizeof *vector);
        else
            broken = !qkv_scores_take(scores, classes, vector);
        scores += count;
        status = text_tell_vector(e, b->jobs[i], &vector, broken);
        free(vector);
    }
    return status;
}

static enum qkv_status batch_classify(struct qkv_engine *e) {
    return batch_scores(e, false);
}

static enum qkv_status batch_score(struct qkv_engine *e) {
    return batch_scores(e, true);
}

/* Tells a text whose masks are all filled, or whose scores are broken. */
static enum qkv_status text_tell_fillings(struct qkv_engine *e, struct qkv_engine_job *job, bool broken) {
    struct qkv_filler *f = &job->text.filler;
    struct qkv_engine_told *told = qkv_engine_tell(e, &job->answers[0]);
    if (!told) return QKV_MEMORY;
    if (broken) {
        const enum qkv_status status = qkv_engine_fail(e, &job->answers[0], told, QKV_NUMBER);
        if (status) qkv_engine_untell(e);
        return status;
    }
    told->fillings = f->fillings;
    f->fillings = NULL;
    told->event.fillings = told->fillings;
    told->event.masks = f->masks;
    return text_end(e, job, told);
}

static enum qkv_status batch_fill(struct qkv_engine *e) {
    const struct qkv_engine_batch *b = &e->batch;
    const size_t vocab = (size_t)e->model->spec.vocab;
    size_t next = 0;
    enum qkv_status status = batch_pass(e, true);
    const float *scores = status ? NULL : qkv_pass_output(e->pass).data;
    for (size_t i = 0; i < b->count && !status; i++) {
        struct qkv_engine_text *t = &b->jobs[i]->text;
        size_t filled = t->filled;
        for (; next < b->scored_count && b->scored[next] < (size_t)b->starts[i + 1] && !status; next++)
            status = qkv_filler_rank(&t->filler, filled++, scores + next * vocab);
        if (!status && filled < t->filler.read) {
            t->filled = filled;
            break;
        }
        if (!status || status == QKV_NUMBER) status = text_tell_fillings(e, b->jobs[i], status == QKV_NUMBER);
        while (next < b->scored_count && b->scored[next] < (size_t)b->starts[i + 1]) next++;
    }
    return status;
}

/* The kinds of texts, in the order of enum qkv_engine_kind, and QKV_ENGINE_TOKENS. */
static enum qkv_status (*const batch_runs[])(struct qkv_engine *e) = {NULL, batch_embed, batch_classify, batch_fill,
                                                                      batch_score};

enum qkv_status qkv_engine_texts_run(struct qkv_engine *e, size_t most, size_t *tokens) {
    *tokens = 0;
    batch_choose(e, most);
    if (!e->batch.count) return QKV_OK;
    *tokens = e->batch.tokens;
    e->model->now = &e->batch.jobs[0]->adapter;
    const enum qkv_status status = batch_runs[e->batch.jobs[0]->request.kind](e);
    e->model->now = NULL;
    return status;
}
