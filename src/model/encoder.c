/* encode: runs the encoder over a batch of sources once: its output, and the keys and values that each cross attention
 * of the decoder computes from it (Vaswani et al. 2017, 3.2.3), which do not depend on the target. */
#include "model/decode.h"
#include "model/pass.h"
#include "model/spec.h"
#include "op/steps.h"

#include <stdlib.h>
#include <string.h>

struct qkv_stack *qkv_encoded_stack(struct qkv_model *m) {
    return m->encoder.spec ? &m->encoder : &m->decoder;
}

static enum qkv_status take_kept(struct qkv_encoded *e) {
    struct qkv_model *m = e->model;
    size_t rows = e->B * e->T;
    const size_t width = (size_t)qkv_stack_width(&m->spec, qkv_encoded_stack(m)->spec);
    e->output = qkv_arena_take(&e->kept, rows * width, sizeof(float));
    e->lengths = qkv_arena_take(&e->kept, e->B, sizeof(int32_t));
    if (!e->output || !e->lengths) return QKV_MEMORY;
    if (!e->pool) return QKV_OK;
    const struct qkv_page_shape shape = {.length = e->T, .sequences = e->B};
    e->lists = qkv_decode_lists(&e->kept, &shape, e->B);
    e->tables = qkv_arena_take(&e->kept, e->B, sizeof *e->tables);
    return e->lists && e->tables ? QKV_OK : QKV_MEMORY;
}

/* Takes pages for as many positions as each source has. */
static enum qkv_status encoder_take_pages(struct qkv_encoded *e) {
    struct qkv_page_shape shape = {.length = e->T, .sequences = e->B};
    const size_t positions = qkv_page_positions(&shape);
    for (size_t b = 0; b < e->B; b++) shape.pages += qkv_page_count(positions, (size_t)e->lengths[b]);
    if (!shape.pages) shape.pages = 1; /* 0 would mean as many pages as full sources need */
    enum qkv_status status = qkv_page_pool_begin(e->pool, &shape);
    for (size_t b = 0; b < e->B && !status; b++) {
        const size_t length = (size_t)e->lengths[b];
        status = qkv_page_lists_grow(e->pool, &e->lists[b], &length, 1);
        e->tables[b] = e->lists[b].pages;
    }
    return status;
}

/* The length of each row's source, if rotations depend on it; else NULL. */
static const int32_t *encoder_turn_lengths(const struct qkv_encoded *e, struct qkv_tape *tape,
                                           const struct qkv_rows *rows, const int32_t *values) {
    if (!qkv_stack_by_length(qkv_encoded_stack(e->model))) return NULL;
    int32_t *lengths = qkv_tape_take(tape, rows->N, sizeof *lengths);
    const bool failed = !lengths || qkv_tape_failed(tape, QKV_STEP(tape->ctx, repeat, .out = lengths, .values = values,
                                                                   .start = rows->start, .B = rows->B));
    return failed ? NULL : lengths;
}

static struct qkv_tensor *run_stack(struct qkv_encoded *e, struct qkv_tape *tape, const struct qkv_rows *rows,
                                    const struct qkv_encoder_batch *b) {
    struct qkv_model *m = e->model;
    struct qkv_stack *stack = qkv_encoded_stack(m);
    const bool tokens = qkv_stack_reads_tokens(stack->spec);
    const struct qkv_forward_attention self = {.given.mask = {.B = b->B, .Tq = b->T, .Tk = b->T, .lengths = b->lengths},
                                               .keys = rows};
    const struct qkv_forward_batch batch = {.rows = rows,
                                            .positions = rows->position,
                                            .turn_lengths = encoder_turn_lengths(e, tape, rows, b->lengths),
                                            .inputs =
                                                tokens ? NULL : qkv_pass_features(tape, NULL, stack, b->source, rows),
                                            .self = &self};
    struct qkv_forward_args args = qkv_forward_begin(tape, &m->spec, stack, &batch);
    if (tape->status) return NULL;
    return qkv_stack_forward(&args, !tokens     ? qkv_sequence_positions(tape, 1, rows->N, 0)
                                    : b->packed ? b->source->ids
                                                : qkv_rows_pack(tape, rows, b->source->ids));
}

/* Writes the keys and values of the encoder's output x, of all decoder layers, to the pages of its sources. */
static void encoder_fill_pages(struct qkv_encoded *e, struct qkv_tape *tape, const struct qkv_rows *rows,
                               const struct qkv_encoder_batch *b, struct qkv_tensor *x) {
    struct qkv_stack *decoder = &e->model->decoder;
    const struct qkv_page_pool *pool = e->pool;
    const struct qkv_forward_pages pages = {
        .table = {.lists = b->tables, .positions = pool->positions, .count = pool->count},
        .sequences = b->B,
        .pasts = b->lengths};
    const struct qkv_forward_attention sources = {
        .given.mask = {.B = b->B, .Tk = b->T}, .keys = rows, .pages = &pages}; /* no queries */
    struct qkv_forward_args f =
        qkv_forward_begin(tape, &e->model->spec, decoder, &(struct qkv_forward_batch){.B = b->B});
    qkv_forward_cross(&f, &sources);
    f.memory = x;
    f.memory_cache = pool->attention;
    for (size_t layer = 0; layer < (size_t)decoder->spec->layers && !tape->status; layer++) {
        const struct qkv_tape_mark mark = qkv_tape_mark(tape);
        qkv_stack_cache_source(&f, layer);
        qkv_tape_release(tape, mark);
    }
}

static enum qkv_status encoder_give_output(struct qkv_encoded *e, struct qkv_tape *tape, const struct qkv_rows *rows,
                                           const struct qkv_encoder_batch *b, struct qkv_tensor *x) {
    const size_t mark = qkv_arena_mark(&e->arena);
    const bool spread = rows->ragged && !b->packed;
    const struct qkv_tensor *whole = spread ? qkv_op_scatter(tape, x, rows->place, b->B * b->T) : x;
    if (!whole) return tape->status;
    const size_t bytes = whole->rows * whole->columns * sizeof(float);
    qkv_tape_failed(tape, QKV_STEP(e->model->ctx, copy, .to = b->output, .from = whole->data, .bytes = bytes));
    qkv_arena_release(&e->arena, mark);
    return tape->status;
}

enum qkv_status qkv_encoder_run(struct qkv_encoded *e, const struct qkv_encoder_batch *b) {
    struct qkv_model *m = e->model;
    struct qkv_tape tape;
    qkv_arena_release(&e->arena, 0);
    qkv_arena_release(&e->graph_arena, 0);
    qkv_model_tape(m, &tape, &e->arena, &e->graph_arena, false);
    const struct qkv_rows shape = {.N = b->rows, .B = b->B, .T = b->T, .ragged = b->ragged};
    const struct qkv_rows *rows = qkv_rows_make(&tape, &shape, b->lengths, NULL);
    struct qkv_tensor *x = rows ? run_stack(e, &tape, rows, b) : NULL;
    if (!x) return tape.status;
    if (b->tables) qkv_tape_form(&tape, tape.product, x); /* all layers of the decoder read it */
    if (b->output && encoder_give_output(e, &tape, rows, b, x)) return tape.status;
    if (b->tables) encoder_fill_pages(e, &tape, rows, b, x);
    return tape.status;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct encoder_plan {
    struct qkv_encoded *e;
    size_t *step_bytes;
};

/* The plan is for ragged sources, and for ids where the stack reads them. */
static enum qkv_status plan_run(void *encoded) {
    static const int32_t none[1];
    struct qkv_encoded *e = encoded;
    const struct qkv_encoder_batch b = {.B = e->B,
                                        .T = e->T,
                                        .rows = e->rows,
                                        .ragged = true,
                                        .source = &(struct qkv_pass_side){.ids = none},
                                        .lengths = e->lengths,
                                        .tables = e->pool ? e->tables : NULL,
                                        .output = e->output};
    return qkv_encoder_run(e, &b);
}

/* Plans the memory that decoding reads, and inside that plan the memory of a run. */
static enum qkv_status plan_kept(void *argument) {
    const struct encoder_plan *plan = argument;
    struct qkv_encoded *e = plan->e;
    enum qkv_status status = take_kept(e);
    return status ? status : qkv_plan(e->model->ctx, &e->arena, "encoding", plan_run, e, plan->step_bytes);
}

static enum qkv_status encoder_check(struct qkv_model *m, struct qkv_pass_side *source) {
    const int32_t *lengths = source->lengths;
    size_t context = (size_t)qkv_stack_context(&m->spec, qkv_encoded_stack(m)->spec), rows, B = source->B,
           T = source->T;
    if ((!source->ids && !source->features) || B < 1 || T < 1)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a batch of %zu rows of %zu positions has nothing to encode", B, T);
    if (T > context)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a source of %zu positions is longer than the model's context of %zu", T,
                        context);
    if (!qkv_multiply(B, T, &rows) || rows > (size_t)1 << 30)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a batch of %zu rows of %zu positions is too large", B, T);
    for (size_t b = 0; lengths && b < B; b++)
        if (lengths[b] < 0 || (size_t)lengths[b] > T)
            return qkv_fail(m->ctx, QKV_ARGUMENT, "the length of source %zu is %d, but a row has 0 to %zu positions", b,
                            lengths[b], T);
    return source->features ? qkv_pass_check_features(m->ctx, qkv_encoded_stack(m), source) : QKV_OK;
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

struct qkv_encoded *qkv_encoded_make(struct qkv_model *m) {
    if (qkv_model_prepare(m, false)) return NULL;
    struct qkv_encoded *e = qkv_allocate(m->ctx, 1, sizeof *e);
    if (!e) return NULL;
    e->model = m;
    qkv_model_begin_use(m, false);
    enum qkv_status status =
        qkv_arena_create(m->ctx, &e->graph_arena, qkv_graph_bytes(&m->spec), "records of encoding");
    if (!status) return e;
    qkv_encoded_free(e);
    return NULL;
}

enum qkv_status qkv_encoded_own_pool(struct qkv_encoded *e) {
    struct qkv_model *m = e->model;
    struct qkv_page_types types;
    if (e->pool || !m->decoder.spec || !m->encoder.spec) return QKV_OK;
    const enum qkv_status status = qkv_decode_types(m, NULL, &types);
    return status ? status : qkv_decode_pool(m, true, types, &e->pool);
}

struct qkv_encoded *qkv_encoded_allocate(struct qkv_model *m, bool features) {
    const struct qkv_stack_spec *stack = qkv_encoded_stack(m)->spec;
    if (!features && !qkv_stack_reads_tokens(stack)) {
        qkv_fail(m->ctx, QKV_ARGUMENT, "this model's encoder reads %s, not text; give features (qkv_encode_features)",
                 qkv_input_text(stack->embed.input.kind));
        return NULL;
    }
    return qkv_model_check_weights(m) ? NULL : qkv_encoded_make(m);
}

static enum qkv_status encoder_begin(struct qkv_encoded *e, struct qkv_pass_side *source) {
    const int32_t *lengths = source->lengths;
    const size_t B = source->B, T = source->T;
    struct qkv_context *ctx = e->model->ctx;
    size_t kept_bytes = 0, step_bytes = 0;
    struct encoder_plan plan = {e, &step_bytes};
    enum qkv_status status = encoder_check(e->model, source);
    if (!status) status = qkv_model_ready(e->model);
    if (!status) status = qkv_encoded_own_pool(e);
    if (status) return status;
    e->B = B;
    e->T = T;
    e->rows = qkv_rows_count(B, T, lengths);
    status = qkv_plan(ctx, &e->kept, "encoded sources", plan_kept, &plan, &kept_bytes);
    if (!status) status = qkv_arena_room(ctx, &e->kept, kept_bytes, "encoded sources");
    if (!status) status = qkv_arena_room(ctx, &e->arena, step_bytes, "encoding");
    if (!status) status = take_kept(e);
    for (size_t b = 0; !status && b < B; b++) e->lengths[b] = lengths ? lengths[b] : (int32_t)T;
    if (!status && e->pool) status = encoder_take_pages(e);
    const struct qkv_encoder_batch batch = {.B = B,
                                            .T = T,
                                            .rows = e->rows,
                                            .ragged = e->rows < B * T,
                                            .source = source,
                                            .lengths = e->lengths,
                                            .tables = e->pool ? e->tables : NULL,
                                            .output = e->output};
    if (!status) status = qkv_encoder_run(e, &batch);
    if (status) e->B = 0;
    return status;
}

static enum qkv_status encoder_start(struct qkv_model *model, struct qkv_pass_side *source, bool features,
                                     struct qkv_encoded **out) {
    enum qkv_status status = QKV_ARGUMENT;
    *out = NULL;
    if (!model->encoder.spec)
        return qkv_fail(model->ctx, QKV_ARGUMENT, "encoding needs an encoder; this model has a decoder alone");
    struct qkv_encoded *e = qkv_encoded_allocate(model, features);
    if (e)
        status = encoder_begin(e, source);
    else if (model->encoder.spec && !model->planned && (features || qkv_stack_reads_tokens(model->encoder.spec)))
        status = QKV_MEMORY;
    if (!status)
        *out = e;
    else
        qkv_encoded_free(e);
    return status;
}

enum qkv_status qkv_encode(struct qkv_model *model, const int32_t *ids, const int32_t *lengths, size_t B, size_t T,
                           struct qkv_encoded **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, T, ids);
    struct qkv_pass_side source = {.B = B, .T = T, .ids = ids, .lengths = lengths};
    return encoder_start(model, &source, false, out);
}

enum qkv_status qkv_encode_features(struct qkv_model *model, const float *features, const int32_t *lengths, size_t B,
                                    size_t T, size_t frames, struct qkv_encoded **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, T, features);
    struct qkv_pass_side source = {.B = B, .T = T, .features = features, .lengths = lengths, .frames = frames};
    return encoder_start(model, &source, true, out);
}

void qkv_encoded_free(struct qkv_encoded *e) {
    if (!e) return;
    qkv_arena_free(&e->kept);
    qkv_arena_free(&e->arena);
    qkv_arena_free(&e->graph_arena);
    qkv_page_pool_free(e->pool);
    qkv_model_end_use(e->model, false);
    free(e);
}

struct qkv_array qkv_encoded_output(const struct qkv_encoded *e) {
    if (!e) return (struct qkv_array){0};
    const struct qkv_stack_spec *stack = qkv_encoded_stack(e->model)->spec;
    struct qkv_array array = {.name = "hidden",
                              .dtype = QKV_F32,
                              .rank = 3,
                              .shape = {e->B, e->T, (size_t)qkv_stack_width(&e->model->spec, stack)},
                              .data = e->output};
    array.bytes = qkv_array_elements(&array) * sizeof(float);
    return array;
}
