/* decoder: targets that grow side by side, with a cache of self attention each, reading the encoded sources' keys and values. A
 * row's bits depend on its own source and target only: the same as a pass over both alone. */
#include "model/decode.h"
#include "model/spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory --------------------------------------------------------------------------------------------------------- */

static int32_t *take_ints(struct qkv_decoder *d, size_t count) {
    return qkv_arena_take(&d->kept, count, sizeof(int32_t));
}

static enum qkv_status take_kept(struct qkv_decoder *d) {
    const struct qkv_stack_spec *spec = &d->model->spec.decoder;
    bool taken = true;
    for (size_t layer = 0; taken && layer < (size_t)spec->layers; layer++)
        taken = qkv_key_values_take(&d->kept, &d->cache[layer], &qkv_stack_layer(spec, layer)->attention, d->most,
                                    d->capacity);
    d->logits = qkv_arena_take(&d->kept, d->most, (size_t)d->model->spec.vocab * sizeof(float));
    int32_t **of_rows[] = {&d->places,      &d->next_places, &d->sources, &d->next_sources, &d->source_lengths,
                           &d->memory_rows, &d->copy_from,   &d->copy_to, &d->run_kept};
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
        taken = (*of_rows[i] = take_ints(d, d->most)) != NULL && taken;
    return taken && d->logits ? QKV_OK : QKV_MEMORY;
}

/* ---- a step --------------------------------------------------------------------------------------------------------- */

/* Positions and intervals of T new tokens a row. */
static void decoder_set_calls(struct qkv_decoder *d, size_t T, struct qkv_forward_args *f) {
    const struct qkv_stack *stack = &d->model->decoder;
    struct qkv_mask mask = {.B = d->rows, .Tq = T, .Tk = d->length + T, .offset = (int64_t)d->length};
    f->positions = qkv_sequence_positions(f->tape, d->rows, T, d->length);
    f->self = qkv_stack_calls(f->tape, stack, false, &mask, 0);
    for (int i = 0; f->self && i < stack->spec->kind_count; i++) {
        f->self[i].position = f->positions;
        f->self[i].kv_rows = d->places;
    }
    if (!d->encoded) return;
    mask.Tk = d->encoded->T;
    mask.lengths = d->source_lengths;
    f->cross = qkv_stack_calls(f->tape, stack, true, &mask, 0);
    for (int i = 0; f->cross && i < stack->spec->kind_count; i++) {
        f->cross[i].B /= d->group;
        f->cross[i].Tq *= d->group;
        f->cross[i].kv_rows = d->memory_rows;
    }
    f->memory_cache = d->encoded->memory;
}

struct newest {
    float *to;
    const float *from;
    size_t T, columns;
};

static void newest_row(void *argument, size_t r, int thread) {
    (void)thread;
    const struct newest *n = argument;
    memcpy(n->to + r * n->columns, n->from + ((r + 1) * n->T - 1) * n->columns, n->columns * sizeof(float));
}

/* The newest position of each row. */
static struct qkv_tensor *decoder_newest(struct qkv_tape *tape, struct qkv_tensor *x, size_t rows, size_t T) {
    if (!x || T == 1) return x;
    struct qkv_tensor *y = qkv_tape_tensor(tape, rows, x->columns);
    if (!y) return NULL;
    struct newest n = {.to = y->data, .from = x->data, .T = T, .columns = x->columns};
    qkv_parallel(tape->ctx, rows, newest_row, &n);
    return y;
}

/* With ctx->dry, the plan. */
static enum qkv_status decoder_run(struct qkv_decoder *d, const int32_t *ids, size_t T, bool score) {
    struct qkv_model *m = d->model;
    struct qkv_tape tape;
    qkv_arena_release(&d->arena, 0);
    qkv_arena_release(&d->graph_arena, 0);
    qkv_tape_start(&tape, m->ctx, &d->arena, &d->graph_arena, false);
    struct qkv_forward_args flow = {
        .tape = &tape, .spec = &m->spec, .stack = &m->decoder, .B = d->rows, .T = T, .cache = d->cache};
    decoder_set_calls(d, T, &flow);
    if (tape.status != QKV_OK) return tape.status;
    struct qkv_tensor *x = qkv_stack_forward(&flow, ids);
    if (score) {
        struct qkv_loss unused;
        qkv_op_cross_entropy(&tape, decoder_newest(&tape, x, d->rows, T), m->head_weight,
                             qkv_tensor_or_null(&m->head.bias),
                             &(struct qkv_cross_entropy_options){.logits = d->logits}, &unused);
    }
    return tape.status;
}

struct step_plan {
    struct qkv_decoder *d;
    size_t T;
};

static enum qkv_status plan_step(void *argument) {
    const struct step_plan *plan = argument;
    struct qkv_decoder *d = plan->d;
    enum qkv_status status = decoder_run(d, NULL, plan->T, true);
    qkv_arena_release(&d->arena, 0);
    if (status == QKV_OK && d->most > 1 &&
        !qkv_arena_take(&d->arena, d->most, (size_t)d->model->spec.vocab * sizeof(float)))
        status = QKV_MEMORY;
    return status;
}

/* Bytes of a step with T new positions a row, and of selecting. */
static enum qkv_status measure_step(struct qkv_decoder *d, size_t T, size_t *bytes) {
    struct step_plan plan = {d, T};
    const size_t length = d->length;
    d->length = d->capacity - T;
    enum qkv_status status = qkv_plan(d->model->ctx, &d->arena, "one decoding step", plan_step, &plan, bytes);
    d->length = length;
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
    if (status == QKV_OK) status = qkv_arena_room(d->model->ctx, &d->arena, bytes, "one decoding step");
    d->planned_rows = status == QKV_OK ? d->rows : 0;
    d->planned_group = d->group;
    return status;
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
    if (status == QKV_OK) status = qkv_model_check_file(d->model);
    if (status == QKV_OK) status = prepare_step(d, T);
    if (status == QKV_OK) status = decoder_run(d, ids, T, score);
    d->scored = status == QKV_OK && score;
    if (status == QKV_OK) d->length += T;
    return status;
}

enum qkv_status qkv_decoder_step(struct qkv_decoder *d, const int32_t *ids) {
    QKV_CALL(d->model->ctx);
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
static enum qkv_status decoder_start(struct qkv_decoder *d, const struct qkv_decoder_options *o) {
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

static enum qkv_status decoder_measure(struct qkv_decoder *d, size_t *kept_bytes, size_t *step_bytes) {
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
    enum qkv_status status = decoder_start(d, o);
    if (status == QKV_OK) status = decoder_measure(d, &kept_bytes, &step_bytes);
    if (status == QKV_OK) status = qkv_arena_room(ctx, &d->kept, kept_bytes, "the KV cache");
    if (status == QKV_OK) status = qkv_arena_room(ctx, &d->arena, step_bytes, "one decoding step");
    if (status != QKV_OK) return status;
    qkv_arena_release(&d->kept, 0);
    status = take_kept(d);
    if (status != QKV_OK) return status;
    for (size_t r = 0; r < d->rows; r++) {
        d->places[r] = (int32_t)r;
        d->sources[r] = !o->encoded ? 0 : (int32_t)(o->sources ? o->sources[r] : r);
    }
    qkv_decoder_group(d);
    return QKV_OK;
}

struct qkv_decoder *qkv_decoder_allocate(struct qkv_model *m) {
    if (qkv_model_add_packed(m, false) != QKV_OK) return NULL;
    struct qkv_decoder *d = qkv_allocate(m->ctx, 1, sizeof *d);
    if (!d) return NULL;
    d->model = m;
    d->cache = qkv_allocate(m->ctx, (size_t)m->spec.decoder.layers + 1, sizeof *d->cache);
    if (d->cache &&
        qkv_arena_create(m->ctx, &d->graph_arena, qkv_graph_bytes(&m->spec), "records of one step") == QKV_OK)
        return d;
    qkv_decoder_free(d);
    return NULL;
}

enum qkv_status qkv_decoder_measure(struct qkv_model *model, const struct qkv_decoder_options *options, size_t *bytes) {
    size_t kept_bytes = 0, step_bytes = 0;
    struct qkv_decoder *d = qkv_decoder_allocate(model);
    enum qkv_status status = d ? decoder_start(d, options) : QKV_MEMORY;
    if (status == QKV_OK) status = decoder_measure(d, &kept_bytes, &step_bytes);
    *bytes = kept_bytes + step_bytes;
    qkv_decoder_free(d);
    return status;
}

enum qkv_status qkv_decoder_create(struct qkv_model *model, const struct qkv_encoded *encoded, const size_t *sources,
                                   size_t rows, size_t capacity, struct qkv_decoder **out) {
    QKV_CALL(model->ctx);
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
    qkv_arena_free(&d->graph_arena);
    free(d->cache);
    free(d);
}
