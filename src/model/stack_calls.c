/* stack_calls: the calls of attention that a stack's layers start from, per kind of layer. Kinds with the same causal
 * and window share intervals of keys, kinds with the same tables share rotations, and those with the same learned
 * distance_bias its table. */
#include "model/model.h"

static const struct qkv_attention_spec *calls_attention(const struct qkv_stack *stack, size_t kind, bool cross) {
    return cross ? &stack->spec->kinds[kind].cross : &stack->spec->kinds[kind].attention;
}

/* The first kind with the same mask as this one. */
static size_t calls_first(const struct qkv_stack *stack, size_t kind, bool cross) {
    const struct qkv_attention_spec *a = calls_attention(stack, kind, cross);
    for (size_t i = 0; i < kind; i++) {
        const struct qkv_attention_spec *b = calls_attention(stack, i, cross);
        if (a->causal == b->causal && a->window == b->window && a->window_right == b->window_right) return i;
    }
    return kind;
}

struct qkv_attend *qkv_stack_calls(struct qkv_tape *tape, const struct qkv_stack *stack, bool cross,
                                   const struct qkv_mask *mask, struct qkv_call_rows rows, double dropout) {
    const size_t kinds = (size_t)stack->spec->kind_count;
    struct qkv_attend *calls = qkv_arena_take(tape->graph_arena, kinds, sizeof *calls);
    if (!calls) qkv_tape_failed(tape, QKV_MEMORY);
    for (size_t i = 0; i < kinds && calls; i++) {
        const struct qkv_attention_spec *a = calls_attention(stack, i, cross);
        const size_t first = calls_first(stack, i, cross);
        calls[i] = qkv_attend_start(a, cross ? NULL : &stack->tables[i], dropout);
        if (first < i) {
            const struct qkv_attend *like = &calls[first];
            calls[i].B = like->B, calls[i].Tq = like->Tq, calls[i].Tk = like->Tk;
            calls[i].lo = like->lo, calls[i].hi = like->hi, calls[i].pairs = like->pairs;
            calls[i].q_start = like->q_start, calls[i].k_start = like->k_start;
            calls[i].q_rows = like->q_rows, calls[i].k_rows = like->k_rows;
            continue;
        }
        const struct qkv_mask own = qkv_attention_mask(a, mask);
        qkv_sequence_intervals(tape, &own, rows, &calls[i]);
    }
    return calls;
}

void qkv_stack_distances(struct qkv_forward_args *f) {
    const size_t kinds = (size_t)f->stack->spec->kind_count;
    for (size_t i = 0; f->self && i < kinds; i++) {
        struct qkv_tensor *weight =
            qkv_distance_weight(&f->stack->distances, &f->stack->spec->kinds[i].attention.position);
        size_t first = weight ? 0 : i; /* the first kind with the same weight; a kind without one shares nothing */
        while (first < i &&
               weight != qkv_distance_weight(&f->stack->distances, &f->stack->spec->kinds[first].attention.position))
            first++;
        if (first < i) {
            f->distances[i] = f->distances[first];
            f->self[i].distance_bias = f->self[first].distance_bias;
        } else {
            f->distances[i] = qkv_distance_table(f->tape, &f->stack->tables[i], weight, &f->self[i]);
        }
    }
}

/* ---- rotations --------------------------------------------------------------------------------------------------- */

bool qkv_stack_by_length(const struct qkv_stack *stack) {
    bool by_length = false;
    for (int i = 0; i < stack->spec->kind_count; i++) by_length = by_length || stack->tables[i].by_length;
    return by_length;
}

const struct qkv_turns *qkv_stack_turns(struct qkv_tape *tape, const struct qkv_stack *stack, size_t N,
                                        const int32_t *positions, const int32_t *lengths) {
    const size_t kinds = (size_t)stack->spec->kind_count;
    if (tape->status) return NULL;
    struct qkv_turns *turns = qkv_arena_take(tape->graph_arena, kinds, sizeof *turns);
    if (!turns) qkv_tape_failed(tape, QKV_MEMORY);
    for (size_t i = 0; i < kinds && turns; i++) {
        size_t same = 0;
        while (same < i && stack->tables[same].rotate != stack->tables[i].rotate) same++;
        turns[i] = same < i ? turns[same] : qkv_rotation_turns(tape, &stack->tables[i], N, positions, lengths);
    }
    return tape->status ? NULL : turns;
}
