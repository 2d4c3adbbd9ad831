/* forward_args: the context of a forward pass through a stack: its rows, and the calls of attention that its layers
 * start from, one for each kind of layer. Passes, decoders, encoders and modules describe their batch; only this file
 * makes the context.
 *
 * Kinds with the same causal and window share intervals of keys, kinds with the same tables share rotations, and those
 * whose layers share a learned distance_bias its table; a layer with its own makes its table when it runs. */
#include "model/model.h"

/* Whether layers of that kind run. */
static bool forward_has_kind(const struct qkv_forward_args *f, size_t kind) {
    return !f->only || f->only == kind + 1;
}

/* ---- calls of attention ------------------------------------------------------------------------------------------ */

static const struct qkv_attention_spec *forward_attention(const struct qkv_stack *stack, size_t kind, bool cross) {
    return cross ? &stack->spec->kinds[kind].cross : &stack->spec->kinds[kind].attention;
}

/* The first kind with the same mask as this one. */
static size_t forward_same_mask(const struct qkv_forward_args *f, size_t kind, bool cross) {
    const struct qkv_attention_spec *a = forward_attention(f->stack, kind, cross);
    for (size_t i = 0; i < kind; i++) {
        const struct qkv_attention_spec *b = forward_attention(f->stack, i, cross);
        if (!forward_has_kind(f, i)) continue;
        if (a->causal == b->causal && a->window == b->window && a->window_right == b->window_right &&
            a->chunk == b->chunk)
            return i;
    }
    return kind;
}

/* Sets the keys that each query attends to. */
static void forward_set_intervals(const struct qkv_forward_args *f, const struct qkv_forward_attention *a, bool cross,
                                  size_t kind, struct qkv_attend *calls) {
    struct qkv_attend *call = &calls[kind];
    const size_t first = forward_same_mask(f, kind, cross);
    if (first < kind) {
        const struct qkv_attend *like = &calls[first];
        call->B = like->B, call->Tq = like->Tq, call->Tk = like->Tk;
        call->lo = like->lo, call->hi = like->hi, call->pairs = like->pairs;
        call->q_start = like->q_start, call->k_start = like->k_start;
        call->q_rows = like->q_rows, call->k_rows = like->k_rows;
        return;
    }
    const struct qkv_attention_spec *spec = forward_attention(f->stack, kind, cross);
    const struct qkv_mask mask = qkv_attention_mask(spec, &a->given.mask);
    qkv_sequence_intervals(f->tape, &mask, spec->chunk, (struct qkv_call_rows){f->rows, a->keys}, call);
}

/* Changes a call of single queries to a call of sequences whose keys are in pages. */
static void forward_set_pages(const struct qkv_forward_pages *p, struct qkv_attend *call) {
    call->B = p->sequences;
    call->Tq = p->longest;
    call->q_start = p->sequences * p->longest == p->queries ? NULL : p->start;
    call->q_rows = p->queries;
    call->pasts = p->pasts;
    call->pages = p->table;
}

/* The calls of one attention, in the memory of the tape; NULL after an error. */
static struct qkv_attend *forward_calls(const struct qkv_forward_args *f, const struct qkv_forward_attention *a,
                                        bool cross) {
    const struct qkv_stack *stack = f->stack;
    const struct qkv_module_mask *given = &a->given;
    const size_t kinds = (size_t)stack->spec->kind_count;
    struct qkv_attend *calls = qkv_tape_take_graph(f->tape, kinds * sizeof *calls);
    for (size_t i = 0; i < kinds && calls; i++) {
        if (!forward_has_kind(f, i)) continue;
        calls[i] =
            qkv_attend_start(forward_attention(stack, i, cross), cross ? NULL : &stack->tables[i], f->spec->dropout);
        forward_set_intervals(f, a, cross, i, calls);
        qkv_tape_failed(f->tape, qkv_attend_set_pairs(f->tape->ctx, &calls[i], given->dense, &given->dense_shape,
                                                      given->bias, &given->bias_shape, given->dbias != NULL));
    }
    for (size_t i = 0; i < kinds && calls && a->pages; i++)
        if (forward_has_kind(f, i)) forward_set_pages(a->pages, &calls[i]);
    return f->tape->status ? NULL : calls;
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

/* The weight of the distance_bias that layers of a kind share; NULL: they share none. */
static struct qkv_tensor *forward_distance(struct qkv_forward_args *f, size_t kind) {
    const struct qkv_position_spec *position = &f->stack->spec->kinds[kind].attention.position;
    return position->per_layer ? NULL : qkv_distance_weight(&f->stack->distances, position);
}

/* Makes the trainable tables of distance_bias that layers share, and sets them in the calls of self attention. */
static void forward_set_distances(struct qkv_forward_args *f) {
    for (size_t i = 0; i < (size_t)f->stack->spec->kind_count; i++) {
        if (!forward_has_kind(f, i)) continue;
        struct qkv_tensor *weight = forward_distance(f, i);
        size_t first = weight ? 0 : i; /* the first kind with the same weight; a kind without one shares nothing */
        while (first < i && (!forward_has_kind(f, first) || weight != forward_distance(f, first))) first++;
        if (first < i) {
            f->distances[i] = f->distances[first];
            f->self[i].distance_bias = f->self[first].distance_bias;
        } else {
            f->distances[i] = qkv_distance_table(f->tape, &f->stack->tables[i], weight, &f->self[i]);
        }
    }
}

bool qkv_stack_by_length(const struct qkv_stack *stack) {
    bool by_length = false;
    for (int i = 0; i < stack->spec->kind_count; i++) by_length = by_length || stack->tables[i].by_length;
    return by_length;
}

/* The rotations of N rows in sequences of lengths (N), per kind, in the memory of the tape; NULL after an error. */
static const struct qkv_turns *forward_turns(const struct qkv_forward_args *f, size_t N, const int32_t *lengths) {
    const struct qkv_position_tables *tables = f->stack->tables;
    const size_t kinds = (size_t)f->stack->spec->kind_count;
    struct qkv_turns *turns = f->tape->status ? NULL : qkv_tape_take_graph(f->tape, kinds * sizeof *turns);
    for (size_t i = 0; i < kinds && turns; i++) {
        size_t same = 0;
        if (!forward_has_kind(f, i)) continue;
        while (same < i && (!forward_has_kind(f, same) || tables[same].rotate != tables[i].rotate)) same++;
        turns[i] = same < i ? turns[same] : qkv_rotation_turns(f->tape, &tables[i], N, f->positions, lengths);
    }
    return f->tape->status ? NULL : turns;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_forward_check(struct qkv_context *ctx, const struct qkv_attention_spec *spec,
                                  const struct qkv_module_mask *given, size_t B, size_t Tq, size_t Tk) {
    struct qkv_mask mask = qkv_attention_mask(spec, &given->mask);
    struct qkv_attend sizes = {.B = B, .H = (size_t)spec->heads, .Tq = Tq, .Tk = Tk};
    enum qkv_status status = qkv_mask_fit(ctx, &mask, B, Tq, Tk);
    return status ? status
                  : qkv_attend_set_pairs(ctx, &sizes, given->dense, &given->dense_shape, given->bias,
                                         &given->bias_shape, given->dbias != NULL);
}

/* ---- the context ------------------------------------------------------------------------------------------------- */

struct qkv_forward_args qkv_forward_begin(struct qkv_tape *tape, const struct qkv_spec *spec, struct qkv_stack *stack,
                                          const struct qkv_forward_batch *batch) {
    const struct qkv_rows *rows = batch->rows;
    struct qkv_forward_args f = {.tape = tape,
                                 .spec = spec,
                                 .stack = stack,
                                 .only = batch->only,
                                 .B = rows ? rows->B : batch->B,
                                 .T = rows ? rows->T : batch->T,
                                 .rows = rows,
                                 .positions = batch->positions,
                                 .types = batch->types,
                                 .inputs = batch->inputs};
    if (tape->status || !batch->self) return f;
    if (batch->turn_lengths) f.turns = forward_turns(&f, rows ? rows->N : f.B * f.T, batch->turn_lengths);
    f.self = forward_calls(&f, batch->self, false);
    f.dself_bias = batch->self->given.dbias;
    if (!f.self) return f;
    forward_set_distances(&f);
    for (size_t i = 0; i < (size_t)stack->spec->kind_count; i++) {
        if (!forward_has_kind(&f, i)) continue;
        const bool distances = qkv_position_has_distances(&stack->tables[i]) && batch->key_positions;
        f.self[i].position = distances ? batch->key_positions : batch->positions;
    }
    return f;
}

void qkv_forward_cross(struct qkv_forward_args *f, const struct qkv_forward_attention *cross) {
    if (f->tape->status) return;
    f->cross = forward_calls(f, cross, true);
    f->dcross_bias = cross->given.dbias;
}
