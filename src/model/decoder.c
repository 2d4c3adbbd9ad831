/* decoder: targets that grow together, each a list of pages of keys and values, and read the keys and values of encoded
 * sources. A row's bits depend on its own source and target only: they are those of a pass over these two alone. This
 * file makes decoders. */
#include "base/sized_options.h"
#include "model/decode.h"
#include "model/spec.h"
#include "op/steps.h"

#include <stdlib.h>
#include <string.h>

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static enum qkv_status check_model(struct qkv_model *m, const struct qkv_encoded *encoded) {
    struct qkv_context *ctx = m->ctx;
    if (!m->decoder.spec || m->spec.head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_ARGUMENT, "decoding needs a decoder with an lm head; this model has %s",
                        m->decoder.spec ? "another head" : "an encoder alone");
    if (!qkv_stack_reads_tokens(m->decoder.spec))
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "this model's decoder reads %s, not tokens, so it cannot read its own output",
                        qkv_input_text(m->decoder.spec->embed.input.kind));
    const struct qkv_layer_spec *kind = qkv_stack_find_causal(&m->spec.decoder, false);
    char text[QKV_KIND_TEXT];
    if (kind) {
        qkv_kind_text("decoder", kind, text);
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "generating needs causal attention, but %s.attention.causal is false: a token would have seen "
                        "those after it",
                        text);
    }
    if (m->encoder.spec && !encoded)
        return qkv_fail(ctx, QKV_ARGUMENT, "this model's decoder reads a source; encode one and give it");
    if (encoded && (encoded->model != m || !m->encoder.spec))
        return qkv_fail(ctx, QKV_ARGUMENT, "the sources were encoded by another model");
    return QKV_OK;
}

static enum qkv_status check_rows(struct qkv_model *m, const struct qkv_decoder_options *o) {
    struct qkv_context *ctx = m->ctx;
    size_t positions;
    if (o->rows < 1 || o->rows > (size_t)INT32_MAX || !qkv_multiply(o->rows, (size_t)m->spec.context, &positions) ||
        positions > (size_t)1 << 40)
        return qkv_fail(ctx, QKV_ARGUMENT, "a decoder cannot have %zu rows; give from 1 to as many as fit in memory",
                        o->rows);
    if (o->capacity > (size_t)m->spec.context)
        return qkv_fail(ctx, QKV_ARGUMENT, "a target of %zu positions is longer than the model's context of %d",
                        o->capacity, m->spec.context);
    for (size_t r = 0; o->lengths && r < o->rows; r++)
        if (o->lengths[r] > (size_t)m->spec.context)
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "the length for the rotations of row %zu is %zu, more than the model's "
                            "context of %d",
                            r, o->lengths[r], m->spec.context);
    for (size_t r = 0; o->encoded && r < o->rows; r++) {
        size_t source = o->sources ? o->sources[r] : r;
        if (source >= o->encoded->B)
            return qkv_fail(ctx, QKV_ARGUMENT, "row %zu is for source %zu, but only %zu sources are encoded", r, source,
                            o->encoded->B);
    }
    return QKV_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct decoder_plan {
    struct qkv_decoder *d;
    const struct qkv_page_shape *shape;
};

/* Takes all memory that decoding reads, except the pool. */
static enum qkv_status decoder_take(void *argument) {
    const struct decoder_plan *plan = argument;
    struct qkv_decoder *d = plan->d;
    bool taken = true;
    d->lists = qkv_decode_lists(&d->kept, plan->shape, d->most);
    d->next_lists = qkv_decode_lists(&d->kept, plan->shape, d->most);
    size_t **counts[] = {&d->reached, &d->before, &d->wanted, &d->active, &d->more};
    int32_t **numbers[] = {&d->sources, &d->next_sources, &d->decided,     &d->next_decided, &d->pasts,
                           &d->start,   &d->group_pasts,  &d->group_start, &d->adapters,     &d->next_adapters};
    const int32_t ***tables[] = {&d->tables, &d->group_tables};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        taken = (*counts[i] = qkv_arena_take(&d->kept, d->most, sizeof **counts[i])) != NULL && taken;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        taken = (*numbers[i] = qkv_arena_take(&d->kept, d->most + 1, sizeof **numbers[i])) != NULL && taken;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        taken = (*tables[i] = qkv_arena_take(&d->kept, d->most, sizeof **tables[i])) != NULL && taken;
    d->chosen = qkv_arena_take(&d->kept, qkv_decoder_pass_most(d), sizeof *d->chosen);
    taken = qkv_decoder_take_groups(d) && taken;
    return taken && d->chosen && d->lists && d->next_lists ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status decoder_measure_kept(struct qkv_decoder *d, const struct qkv_page_shape *shape, size_t *bytes) {
    struct decoder_plan plan = {d, shape};
    return qkv_plan(d->model->ctx, &d->kept, "rows of a decoder", decoder_take, &plan, bytes);
}

static bool decoder_scores_bytes(const struct qkv_decoder *d, size_t rows, size_t *bytes) {
    if (!qkv_multiply(rows, (size_t)d->model->spec.vocab * sizeof(float), bytes)) return false;
    if (!qkv_add_size(*bytes, QKV_CACHE_LINE - 1, bytes)) return false;
    *bytes -= *bytes % QKV_CACHE_LINE;
    return true;
}

enum qkv_status qkv_decoder_take_scores(struct qkv_decoder *d, size_t rows) {
    size_t bytes;
    if (!decoder_scores_bytes(d, rows, &bytes))
        return qkv_fail(d->model->ctx, QKV_MEMORY, "the scores of %zu tokens are more than this machine can address",
                        rows);
    enum qkv_status status = qkv_arena_room(d->model->ctx, &d->scores_arena, bytes, "scores");
    if (!status) d->scores = qkv_arena_take(&d->scores_arena, bytes, 1);
    return !status && !d->scores ? QKV_MEMORY : status;
}

/* Sets everything but the memory. */
static enum qkv_status decoder_start(struct qkv_decoder *d, const struct qkv_decoder_options *o) {
    enum qkv_status status = check_model(d->model, o->encoded);
    if (!status) status = check_rows(d->model, o);
    if (status) return status;
    d->encoded = o->encoded;
    d->most = d->rows = o->rows;
    d->capacity = o->capacity ? o->capacity : (size_t)d->model->spec.context;
    d->scored = 0;
    memset(d->planned, 0, sizeof d->planned);
    return QKV_OK;
}

static struct qkv_page_shape decoder_pages(const struct qkv_decoder *d, const struct qkv_decoder_options *o) {
    return (struct qkv_page_shape){.length = d->capacity, .pages = o->pages, .sequences = d->most};
}

/* Makes a pool for this decoder alone, unless it has one of these types. */
static enum qkv_status decoder_own_pool(struct qkv_decoder *d, const char *cache) {
    struct qkv_page_types types;
    enum qkv_status status = qkv_decode_types(d->model, cache, &types);
    if (status) return status;
    if (d->pool && d->pool->owners == 1 && d->pool->types.k == types.k && d->pool->types.v == types.v) return QKV_OK;
    qkv_page_pool_free(d->pool);
    return qkv_decode_pool(d->model, false, types, &d->pool);
}

static enum qkv_status decoder_take_kept(struct qkv_decoder *d, const struct qkv_page_shape *shape) {
    struct decoder_plan plan = {d, shape};
    size_t bytes = 0;
    enum qkv_status status = decoder_measure_kept(d, shape, &bytes);
    if (!status) status = qkv_arena_room(d->model->ctx, &d->kept, bytes, "rows of a decoder");
    if (!status) status = decoder_take(&plan);
    for (size_t r = 0; !status && r < d->most; r++) {
        d->reached[r] = 0;
        d->adapters[r] = d->model->chosen.count ? (int32_t)d->model->chosen.number : -1;
    }
    return status ? status : qkv_decoder_take_scores(d, d->most);
}

enum qkv_status qkv_decoder_begin(struct qkv_decoder *d, const struct qkv_decoder_options *o) {
    size_t step_bytes = 0;
    enum qkv_status status = decoder_start(d, o);
    if (status) return status;
    const struct qkv_page_shape shape = decoder_pages(d, o);
    status = decoder_own_pool(d, o->cache);
    if (!status) status = qkv_page_pool_begin(d->pool, &shape);
    if (!status) status = decoder_take_kept(d, &shape);
    if (!status) status = qkv_decoder_pass_measure(d, o->chunk, &step_bytes);
    if (!status) status = qkv_arena_room(d->model->ctx, &d->arena, step_bytes, "one decoding step");
    if (status) {
        d->rows = d->most = 0;
        return status;
    }
    for (size_t r = 0; r < d->rows; r++) {
        d->sources[r] = !o->encoded ? 0 : (int32_t)(o->sources ? o->sources[r] : r);
        d->decided[r] = (int32_t)(o->lengths && o->lengths[r] ? o->lengths[r] : d->capacity);
    }
    return QKV_OK;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct qkv_decoder *qkv_decoder_allocate(struct qkv_model *m) {
    if (qkv_model_prepare(m, false)) return NULL;
    struct qkv_decoder *d = qkv_allocate(m->ctx, 1, sizeof *d);
    if (!d) return NULL;
    d->model = m;
    qkv_model_begin_use(m, false);
    if (!qkv_arena_create(m->ctx, &d->graph_arena, qkv_graph_bytes(&m->spec), "records of one step")) return d;
    qkv_decoder_free(d);
    return NULL;
}

enum qkv_status qkv_decoder_measure(struct qkv_model *model, const struct qkv_decoder_options *options, size_t *bytes) {
    size_t pool_bytes = 0, kept_bytes = 0, step_bytes = 0, score_bytes = 0;
    struct qkv_decoder *d = qkv_decoder_allocate(model);
    enum qkv_status status = d ? decoder_start(d, options) : QKV_MEMORY;
    if (!status) status = decoder_own_pool(d, options->cache);
    if (!status) {
        const struct qkv_page_shape shape = decoder_pages(d, options);
        status = qkv_page_pool_measure(d->pool, &shape, &pool_bytes);
        if (!status) status = decoder_measure_kept(d, &shape, &kept_bytes);
        if (!status) status = qkv_decoder_pass_measure(d, options->chunk, &step_bytes);
    }
    if (!status && !decoder_scores_bytes(d, d->most, &score_bytes)) status = QKV_MEMORY;
    *bytes = pool_bytes + kept_bytes + step_bytes + score_bytes;
    if (d) d->rows = 0; /* a measuring decoder has no lists to free */
    qkv_decoder_free(d);
    return status;
}

enum qkv_status qkv_decoder_measure_mixed(struct qkv_model *model, const struct qkv_decoder_options *options,
                                          size_t scored, size_t *bytes) {
    size_t usual = 0, mixed = 0, pool = 0;
    struct qkv_decoder *d = qkv_decoder_allocate(model);
    enum qkv_status status = d ? decoder_start(d, options) : QKV_MEMORY;
    if (!status) status = decoder_own_pool(d, options->cache);
    if (!status) {
        const struct qkv_page_shape shape = decoder_pages(d, options);
        status = qkv_page_pool_measure(d->pool, &shape, &pool);
        if (!status) status = decoder_measure_kept(d, &shape, &pool);
        if (!status) status = qkv_decoder_pass_measure(d, options->chunk, &usual);
        if (!status) status = qkv_decoder_pass_measure_mixed(d, scored, &mixed);
    }
    *bytes = mixed > usual ? mixed - usual : 0;
    if (d) d->rows = 0; /* a measuring decoder has no lists to free */
    qkv_decoder_free(d);
    return status;
}

void qkv_decoder_options_init(struct qkv_decoder_options *options, size_t size) {
    static const struct qkv_decoder_options usual = {.size = sizeof usual, .rows = 1, .chunk = 1};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_decoder_create(struct qkv_model *model, const struct qkv_decoder_options *options,
                                   struct qkv_decoder **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    struct qkv_decoder_options own = qkv_decoder_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_decoder_options, &own, options);
    if (!status) status = qkv_model_check_weights(model);
    if (status) return status;
    struct qkv_decoder *d = qkv_decoder_allocate(model);
    status = d ? qkv_decoder_begin(d, &own) : QKV_MEMORY;
    if (!status)
        *out = d;
    else
        qkv_decoder_free(d);
    return status;
}

enum qkv_status qkv_decoder_fork(const struct qkv_decoder *from, size_t row, struct qkv_decoder **out) {
    const size_t V = (size_t)from->model->spec.vocab;
    const bool scored = from->scored == from->rows;
    const struct qkv_page_shape shape = {.length = from->capacity, .sequences = 1};
    *out = NULL;
    enum qkv_status status = qkv_model_check_weights(from->model);
    if (status) return status;
    struct qkv_decoder *d = qkv_decoder_allocate(from->model);
    if (!d) return QKV_MEMORY;
    d->encoded = from->encoded;
    d->most = d->rows = 1;
    d->capacity = from->capacity;
    status = decoder_take_kept(d, &shape);
    if (status) {
        d->rows = 0;
        qkv_decoder_free(d);
        return status;
    }
    d->pool = from->pool;
    d->pool->owners++;
    d->sources[0] = from->sources[row];
    d->decided[0] = from->decided[row];
    d->adapters[0] = from->adapters[row];
    d->reached[0] = from->reached[row];
    qkv_page_list_fork(d->pool, &d->lists[0], &from->lists[row]);
    d->scored = scored;
    if (scored)
        status = QKV_STEP(d->model->ctx, copy, .to = d->scores, .from = from->scores + row * V,
                          .bytes = V * sizeof *d->scores);
    if (!status)
        *out = d;
    else
        qkv_decoder_free(d);
    return status;
}

void qkv_decoder_free(struct qkv_decoder *d) {
    if (!d) return;
    for (size_t r = 0; d->pool && r < d->rows; r++) qkv_page_list_truncate(d->pool, &d->lists[r], 0);
    qkv_page_pool_free(d->pool);
    qkv_arena_free(&d->kept);
    qkv_arena_free(&d->arena);
    qkv_arena_free(&d->graph_arena);
    qkv_arena_free(&d->scores_arena);
    qkv_model_end_use(d->model, false);
    free(d);
}
