/* stack_calls: what the calls of attention in a stack begin with, for each kind of layer, and caches of keys and values. Kinds with
 * the same causal and window share the intervals of keys. */
#include "model/decode.h"

static const struct qkv_attention_spec *calls_attention(const struct qkv_stack *stack, size_t kind, bool cross) {
    return cross ? &stack->spec->kinds[kind].cross : &stack->spec->kinds[kind].attention;
}

/* The first kind with the same mask as this one. */
static size_t calls_first(const struct qkv_stack *stack, size_t kind, bool cross) {
    const struct qkv_attention_spec *a = calls_attention(stack, kind, cross);
    for (size_t i = 0; i < kind; i++) {
        const struct qkv_attention_spec *b = calls_attention(stack, i, cross);
        if (a->causal == b->causal && a->window == b->window) return i;
    }
    return kind;
}

struct qkv_attend *qkv_stack_calls(struct qkv_tape *tape, const struct qkv_stack *stack, bool cross,
                                   const struct qkv_mask *mask, double dropout) {
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
            continue;
        }
        const struct qkv_mask own = qkv_attention_mask(a, mask);
        qkv_sequence_intervals(tape, &own, &calls[i]);
    }
    return calls;
}

bool qkv_key_values_take(struct qkv_arena *arena, struct qkv_key_values *kv, const struct qkv_attention_spec *a,
                         size_t count, size_t capacity) {
    size_t positions;
    if (!qkv_multiply(count, capacity, &positions)) return false;
    kv->count = count;
    kv->capacity = capacity;
    kv->k = qkv_arena_take(arena, positions, (size_t)a->kv_heads * (size_t)a->head_dim * sizeof(float));
    kv->v = qkv_arena_take(arena, positions, (size_t)a->kv_heads * (size_t)a->value_dim * sizeof(float));
    return kv->k && kv->v;
}
