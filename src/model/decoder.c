/* decoder: targets that grow side by side, with a cache of self attention each, reading the encoded sources' keys and values.
 *
 * Every row has a run of the cache, found through `places`, so selecting rows copies only what two rows now continue. Rows of
 * one source that stand side by side read its keys as the queries of one attention row. A row's bits depend on its own
 * source and target only: the same as a pass over both alone. */
#include "model/decode.h"

#include <stdlib.h>
#include <string.h>

struct qkv_decoder {
    struct qkv_model *model;
    const struct qkv_encoded *encoded;
    size_t most, rows; /* at the start, and now */
    size_t capacity, length, chunk;
    struct qkv_arena kept, arena, records;
    struct qkv_key_values *cache; /* one a layer, `most` runs of `capacity` positions */
    float *logits;                /* (most,V) */
    int32_t *positions, *lo, *hi; /* (most·chunk) */
    int32_t *memory_lo, *memory_hi;
    int32_t *places, *next_places; /* (most): each row's run of the cache */
    int32_t *sources, *next_sources, *source_lengths;
    int32_t *memory_rows; /* (most): the source of each group of `group` rows */
    size_t group;
    size_t planned_rows, planned_group; /* what the step's memory was planned for */
    bool scored;
};

/* ---- memory --------------------------------------------------------------------------------------------------------- */

static int32_t *take_ints(struct qkv_decoder *d, size_t count) {
    return qkv_arena_take(&d->kept, count, sizeof(int32_t));
}

static enum qkv_status take_kept(struct qkv_decoder *d) {
    const struct qkv_attention_spec *a = &d->model->spec.decoder.attention;
    size_t positions;
    bool taken = qkv_multiply(d->most, d->capacity, &positions);
    for (size_t layer = 0; taken && layer < (size_t)d->model->spec.decoder.layers; layer++) {
        struct qkv_key_values *kv = &d->cache[layer];
        kv->capacity = d->capacity;
        kv->k = qkv_arena_take(&d->kept, positions, (size_t)a->kv_heads * (size_t)a->head_dim * sizeof(float));
        kv->v = qkv_arena_take(&d->kept, positions, (size_t)a->kv_heads * (size_t)a->value_dim * sizeof(float));
        taken = kv->k && kv->v;
    }
    d->logits = qkv_arena_take(&d->kept, d->most, (size_t)d->model->spec.vocab * sizeof(float));
    int32_t **of_chunk[] = {&d->positions, &d->lo, &d->hi, &d->memory_lo, &d->memory_hi};
    int32_t **of_rows[] = {&d->places,       &d->next_places,    &d->sources,
                           &d->next_sources, &d->source_lengths, &d->memory_rows};
    for (size_t i = 0; i < sizeof of_chunk / sizeof *of_chunk; i++)
        taken = (*of_chunk[i] = take_ints(d, d->most * d->chunk)) != NULL && taken;
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
        taken = (*of_rows[i] = take_ints(d, d->most)) != NULL && taken;
    return taken && d->logits ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status make_room(struct qkv_context *ctx, struct qkv_arena *arena, size_t bytes, const char *what) {
    if (arena->base && arena->capacity >= bytes) return QKV_OK;
    qkv_arena_free(arena);
    return qkv_arena_create(ctx, arena, bytes, what);
}

/* ---- a step --------------------------------------------------------------------------------------------------------- */

/* Positions and intervals of T new tokens a row. */
static enum qkv_status make_intervals(struct qkv_decoder *d, size_t T) {
    const struct qkv_stack_spec *spec = &d->model->spec.decoder;
    struct qkv_mask mask = {.B = d->rows,
                            .Tq = T,
                            .Tk = d->length + T,
                            .offset = (int64_t)d->length,
                            .causal = spec->attention.causal,
                            .window = spec->attention.window};
    for (size_t n = 0; n < d->rows * T; n++) d->positions[n] = (int32_t)(d->length + n % T);
    enum qkv_status status = qkv_mask_intervals(d->model->ctx, &mask, d->lo, d->hi);
    if (status != QKV_OK || !d->encoded) return status;
    mask.Tk = d->encoded->T;
    mask.causal = spec->cross.causal;
    mask.window = spec->cross.window;
    mask.lengths = d->source_lengths;
    return qkv_mask_intervals(d->model->ctx, &mask, d->memory_lo, d->memory_hi);
}

struct gather {
    float *to;
    const float *from;
    const size_t *rows; /* NULL: row r is row (r + 1)·step − 1 */
    size_t step, columns;
};

static void gather_row(void *argument, size_t r, int thread) {
    (void)thread;
    const struct gather *g = argument;
    size_t from = g->rows ? g->rows[r] : (r + 1) * g->step - 1;
    memcpy(g->to + r * g->columns, g->from + from * g->columns, g->columns * sizeof(float));
}

/* The newest position of each row. */
static struct qkv_tensor *newest(struct qkv_tape *tape, struct qkv_tensor *x, size_t rows, size_t T) {
    if (!x || T == 1) return x;
    struct qkv_tensor *y = qkv_tape_tensor(tape, rows, x->columns);
    if (!y) return NULL;
    struct gather g = {.to = y->data, .from = x->data, .step = T, .columns = x->columns};
    qkv_parallel(tape->ctx, rows, gather_row, &g);
    return y;
}

/* With ctx->dry, the plan. */
static enum qkv_status run(struct qkv_decoder *d, const int32_t *ids, size_t T, bool score) {
    struct qkv_model *m = d->model;
    struct qkv_tape tape;
    qkv_arena_release(&d->arena, 0);
    qkv_arena_release(&d->records, 0);
    qkv_tape_start(&tape, m->ctx, &d->arena, &d->records, false);
    if (!m->ctx->dry && qkv_tape_failed(&tape, make_intervals(d, T))) return tape.status;
    struct qkv_flow flow = {.tape = &tape,
                            .spec = &m->spec,
                            .stack = &m->decoder,
                            .B = d->rows,
                            .T = T,
                            .positions = d->positions,
                            .lo = d->lo,
                            .hi = d->hi,
                            .past = d->length,
                            .cache = d->cache,
                            .cache_rows = d->places,
                            .cache_count = d->most};
    if (d->encoded) {
        flow.memory_T = d->encoded->T;
        flow.memory_lo = d->memory_lo;
        flow.memory_hi = d->memory_hi;
        flow.memory_cache = d->encoded->memory;
        flow.memory_rows = d->memory_rows;
        flow.memory_group = d->group;
        flow.memory_count = d->encoded->B;
    }
    struct qkv_tensor *x = qkv_stack_forward(&flow, ids);
    if (score) {
        struct qkv_loss unused;
        qkv_op_cross_entropy(&tape, newest(&tape, x, d->rows, T), m->head_weight, qkv_tensor_or_null(&m->head_bias),
                             &(struct qkv_cross_entropy_options){.logits = d->logits}, &unused);
    }
    return tape.status;
}

/* Bytes of a step with T new positions a row, and of selecting, by a dry run. */
static enum qkv_status measure_step(struct qkv_decoder *d, size_t T, size_t *bytes) {
    struct qkv_context *ctx = d->model->ctx;
    const struct qkv_arena real = d->arena;
    const size_t length = d->length;
    const bool dry = ctx->dry;
    ctx->dry = true;
    qkv_arena_measure(ctx, &d->arena, "one decoding step");
    d->length = d->capacity - T;
    enum qkv_status status = run(d, NULL, T, true);
    qkv_arena_release(&d->arena, 0);
    if (status == QKV_OK && d->most > 1 &&
        !qkv_arena_take(&d->arena, d->most, (size_t)d->model->spec.vocab * sizeof(float)))
        status = QKV_MEMORY;
    ctx->dry = dry;
    d->length = length;
    if (d->arena.peak > *bytes) *bytes = d->arena.peak;
    d->arena = real;
    return status;
}

static size_t larger_chunk(const struct qkv_decoder *d) {
    return d->capacity < d->chunk ? d->capacity : d->chunk;
}

/* The steps that are sure to come: a whole chunk, and a single position. */
static enum qkv_status measure_steps(struct qkv_decoder *d, size_t *bytes) {
    enum qkv_status status = measure_step(d, larger_chunk(d), bytes);
    if (status == QKV_OK && larger_chunk(d) > 1) status = measure_step(d, 1, bytes);
    return status;
}

/* Other shapes are cut differently, which can take more scratch. */
static enum qkv_status prepare_step(struct qkv_decoder *d, size_t T) {
    size_t bytes = 0;
    enum qkv_status status = QKV_OK;
    bool same = d->planned_rows == d->rows && d->planned_group == d->group;
    if (same && (T == 1 || T == larger_chunk(d))) return QKV_OK;
    if (!same) status = measure_steps(d, &bytes);
    if (status == QKV_OK && T != 1 && T != larger_chunk(d)) status = measure_step(d, T, &bytes);
    if (status == QKV_OK) status = make_room(d->model->ctx, &d->arena, bytes, "one decoding step");
    d->planned_rows = status == QKV_OK ? d->rows : 0;
    d->planned_group = d->group;
    return status;
}

/* ---- rows and their sources ------------------------------------------------------------------------------------------- */

static size_t common_divisor(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Groups as large as all runs of equal sources can be cut into. */
static void find_groups(struct qkv_decoder *d) {
    size_t group = 0, run = 0;
    for (size_t r = 0; r < d->rows; r++) {
        run++;
        if (r + 1 < d->rows && d->sources[r + 1] == d->sources[r]) continue;
        group = common_divisor(run, group);
        run = 0;
    }
    d->group = group;
    for (size_t r = 0; r < d->rows; r++) {
        if (d->encoded) d->source_lengths[r] = d->encoded->lengths[d->sources[r]];
        if (r % group == 0) d->memory_rows[r / group] = d->sources[r];
    }
}

struct spread {
    const struct qkv_key_values *cache;
    const int32_t *from, *to; /* runs */
    size_t layers, length, k_width, v_width;
};

static void spread_run(void *argument, size_t item, int thread) {
    (void)thread;
    const struct spread *s = argument;
    const struct qkv_key_values *kv = &s->cache[item % s->layers];
    size_t copy = item / s->layers;
    size_t from = (size_t)s->from[copy] * kv->capacity, to = (size_t)s->to[copy] * kv->capacity;
    memcpy(kv->k + to * s->k_width, kv->k + from * s->k_width, s->length * s->k_width * sizeof(float));
    memcpy(kv->v + to * s->v_width, kv->v + from * s->v_width, s->length * s->v_width * sizeof(float));
}

/* Gives each of the new rows a run of the cache: the first to go on from a row keeps its run, the others get a copy in runs
 * that nobody goes on from. */
static void move_runs(struct qkv_decoder *d, const size_t *from, size_t count) {
    const struct qkv_attention_spec *a = &d->model->spec.decoder.attention;
    int32_t *copy_from = d->lo, *copy_to = d->positions, *kept = d->hi; /* of a step: free now */
    size_t copies = 0, free_run = 0;
    for (size_t r = 0; r < d->most; r++) kept[r] = 0;
    for (size_t r = 0; r < count; r++) {
        int32_t run = d->places[from[r]];
        d->next_places[r] = kept[run] ? -1 : run;
        kept[run] = 1;
    }
    for (size_t r = 0; r < count; r++) {
        if (d->next_places[r] >= 0) continue;
        while (kept[free_run]) free_run++;
        kept[free_run] = 1;
        copy_from[copies] = d->places[from[r]];
        copy_to[copies++] = d->next_places[r] = (int32_t)free_run;
    }
    struct spread s = {.cache = d->cache,
                       .from = copy_from,
                       .to = copy_to,
                       .layers = (size_t)d->model->spec.decoder.layers,
                       .length = d->length,
                       .k_width = (size_t)a->kv_heads * (size_t)a->head_dim,
                       .v_width = (size_t)a->kv_heads * (size_t)a->value_dim};
    qkv_parallel(d->model->ctx, copies * s.layers, spread_run, &s);
}

static void swap(int32_t **a, int32_t **b) {
    int32_t *c = *a;
    *a = *b;
    *b = c;
}

enum qkv_status qkv_decoder_move(struct qkv_decoder *d, const size_t *from, size_t count) {
    struct qkv_context *ctx = d->model->ctx;
    if (!from || count < 1 || count > d->most)
        return qkv_fail(ctx, QKV_ARGUMENT, "cannot select %zu rows; the decoder was made for 1 to %zu", count, d->most);
    for (size_t r = 0; r < count; r++)
        if (from[r] >= d->rows)
            return qkv_fail(ctx, QKV_ARGUMENT, "row %zu is to go on from row %zu, but there are only %zu rows", r,
                            from[r], d->rows);
    move_runs(d, from, count);
    for (size_t r = 0; r < count; r++) d->next_sources[r] = d->sources[from[r]];
    swap(&d->places, &d->next_places);
    swap(&d->sources, &d->next_sources);
    d->rows = count;
    d->scored = false;
    find_groups(d);
    return QKV_OK;
}

enum qkv_status qkv_decoder_select(struct qkv_decoder *d, const size_t *from, size_t count) {
    const bool scored = d->scored;
    const size_t V = (size_t)d->model->spec.vocab;
    enum qkv_status status = qkv_decoder_move(d, from, count);
    if (status != QKV_OK || !scored || d->most == 1) {
        d->scored = scored && (status != QKV_OK || d->most == 1);
        return status;
    }
    qkv_arena_release(&d->arena, 0);
    float *copy = qkv_arena_take(&d->arena, count, V * sizeof(float));
    if (!copy) return QKV_MEMORY;
    struct gather g = {.to = copy, .from = d->logits, .rows = from, .columns = V};
    qkv_parallel(d->model->ctx, count, gather_row, &g);
    memcpy(d->logits, copy, count * V * sizeof(float));
    d->scored = true;
    return QKV_OK;
}

/* ---- growing ---------------------------------------------------------------------------------------------------------- */

static enum qkv_status check_append(const struct qkv_decoder *d, const int32_t *ids, size_t T) {
    struct qkv_model *m = d->model;
    if (T > d->capacity - d->length)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%zu more tokens do not fit: the decoder holds %zu of %zu positions (a longer context needs a "
                        "model trained with one)",
                        T, d->length, d->capacity);
    for (size_t i = 0; i < d->rows * T; i++)
        if (ids[i] < 0 || ids[i] >= m->spec.vocab)
            return qkv_fail(m->ctx, QKV_ARGUMENT, "token id %d is out of range: ids are 0 to %d", ids[i],
                            m->spec.vocab - 1);
    return QKV_OK;
}

enum qkv_status qkv_decoder_append(struct qkv_decoder *d, const int32_t *ids, size_t T, bool score) {
    enum qkv_status status = check_append(d, ids, T);
    if (status == QKV_OK) status = prepare_step(d, T);
    if (status == QKV_OK) status = run(d, ids, T, score);
    d->scored = status == QKV_OK && score;
    if (status == QKV_OK) d->length += T;
    return status;
}

enum qkv_status qkv_decoder_step(struct qkv_decoder *d, const int32_t *ids) {
    return qkv_decoder_append(d, ids, 1, true);
}

const float *qkv_decoder_logits(const struct qkv_decoder *d) {
    return d->scored ? d->logits : NULL;
}

size_t qkv_decoder_rows(const struct qkv_decoder *d) {
    return d->rows;
}

size_t qkv_decoder_length(const struct qkv_decoder *d) {
    return d->length;
}

void qkv_decoder_truncate(struct qkv_decoder *d, size_t length) {
    if (length >= d->length) return;
    d->length = length;
    d->scored = false;
}

/* ---- making ----------------------------------------------------------------------------------------------------------- */

static enum qkv_status check_model(struct qkv_model *m, const struct qkv_encoded *encoded) {
    struct qkv_context *ctx = m->ctx;
    if (!m->decoder.spec || m->spec.head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_ARGUMENT, "decoding needs a decoder with an lm head; this model has %s",
                        m->decoder.spec ? "another head" : "an encoder alone");
    if (!m->spec.decoder.attention.causal)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "generating needs causal attention, but decoder.attention.causal is false: a token would have "
                        "seen those after it");
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
        return qkv_fail(ctx, QKV_ARGUMENT, "a decoder of %zu rows cannot be; give 1 to as many as memory holds",
                        o->rows);
    if (o->capacity > (size_t)m->spec.context)
        return qkv_fail(ctx, QKV_ARGUMENT, "a target of %zu positions is longer than the model's context of %d",
                        o->capacity, m->spec.context);
    for (size_t r = 0; o->encoded && r < o->rows; r++) {
        size_t source = o->sources ? o->sources[r] : r;
        if (source >= o->encoded->B)
            return qkv_fail(ctx, QKV_ARGUMENT, "row %zu is for source %zu, but only %zu sources are encoded", r, source,
                            o->encoded->B);
    }
    return QKV_OK;
}

/* Everything but the memory. */
static enum qkv_status start(struct qkv_decoder *d, const struct qkv_decoder_options *o) {
    enum qkv_status status = check_model(d->model, o->encoded);
    if (status == QKV_OK) status = check_rows(d->model, o);
    if (status != QKV_OK) return status;
    d->encoded = o->encoded;
    d->most = d->rows = o->rows;
    d->capacity = o->capacity ? o->capacity : (size_t)d->model->spec.context;
    d->chunk = o->chunk;
    d->length = 0;
    d->scored = false;
    d->planned_rows = 0;
    d->group = 1;
    return QKV_OK;
}

static enum qkv_status measure(struct qkv_decoder *d, size_t *kept_bytes, size_t *step_bytes) {
    const struct qkv_arena real = d->kept;
    qkv_arena_measure(d->model->ctx, &d->kept, "the KV cache");
    enum qkv_status status = take_kept(d);
    *kept_bytes = d->kept.peak;
    *step_bytes = 0;
    if (status == QKV_OK) status = measure_steps(d, step_bytes);
    d->kept = real;
    return status;
}

enum qkv_status qkv_decoder_begin(struct qkv_decoder *d, const struct qkv_decoder_options *o) {
    struct qkv_context *ctx = d->model->ctx;
    size_t kept_bytes, step_bytes;
    enum qkv_status status = start(d, o);
    if (status == QKV_OK) status = measure(d, &kept_bytes, &step_bytes);
    if (status == QKV_OK) status = make_room(ctx, &d->kept, kept_bytes, "the KV cache");
    if (status == QKV_OK) status = make_room(ctx, &d->arena, step_bytes, "one decoding step");
    if (status != QKV_OK) return status;
    qkv_arena_release(&d->kept, 0);
    status = take_kept(d);
    if (status != QKV_OK) return status;
    for (size_t r = 0; r < d->rows; r++) {
        d->places[r] = (int32_t)r;
        d->sources[r] = !o->encoded ? 0 : (int32_t)(o->sources ? o->sources[r] : r);
    }
    find_groups(d);
    return QKV_OK;
}

struct qkv_decoder *qkv_decoder_allocate(struct qkv_model *m) {
    struct qkv_decoder *d = qkv_allocate(m->ctx, 1, sizeof *d);
    if (!d) return NULL;
    d->model = m;
    d->cache = qkv_allocate(m->ctx, (size_t)m->spec.decoder.layers + 1, sizeof *d->cache);
    if (d->cache && qkv_arena_create(m->ctx, &d->records, qkv_record_bytes(&m->spec), "records of one step") == QKV_OK)
        return d;
    qkv_decoder_free(d);
    return NULL;
}

enum qkv_status qkv_decoder_measure(struct qkv_model *model, const struct qkv_decoder_options *options, size_t *bytes) {
    size_t kept_bytes = 0, step_bytes = 0;
    struct qkv_decoder *d = qkv_decoder_allocate(model);
    enum qkv_status status = d ? start(d, options) : QKV_MEMORY;
    if (status == QKV_OK) status = measure(d, &kept_bytes, &step_bytes);
    *bytes = kept_bytes + step_bytes;
    qkv_decoder_free(d);
    return status;
}

enum qkv_status qkv_decoder_create(struct qkv_model *model, const struct qkv_encoded *encoded, const size_t *sources,
                                   size_t rows, size_t capacity, struct qkv_decoder **out) {
    struct qkv_decoder_options o = {
        .encoded = encoded, .sources = sources, .rows = rows, .capacity = capacity, .chunk = 1};
    *out = NULL;
    if (model->planned) return qkv_fail(model->ctx, QKV_ARGUMENT, "a planned model has no weights to run with");
    struct qkv_decoder *d = qkv_decoder_allocate(model);
    enum qkv_status status = d ? qkv_decoder_begin(d, &o) : QKV_MEMORY;
    if (status == QKV_OK)
        *out = d;
    else
        qkv_decoder_free(d);
    return status;
}

void qkv_decoder_free(struct qkv_decoder *d) {
    if (!d) return;
    qkv_arena_free(&d->kept);
    qkv_arena_free(&d->arena);
    qkv_arena_free(&d->records);
    free(d->cache);
    free(d);
}
