/* cpu_turns: steps of rotations that depend on the length of a sequence (scalings dynamic and longrope). */
#include "attention/attention.h"
#include "backend/backends.h"

#include <string.h>

/* ---- lengths --------------------------------------------------------------------------------------------------- */

/* The end of the sequence or document that begins at row `first`, among rows up to `end`. */
static size_t document_end(const struct qkv_step_document_lengths *l, size_t first, size_t end) {
    size_t n = first + 1;
    while (n < end && (!l->documents || l->documents[l->place[n]] == l->documents[l->place[first]])) n++;
    return n;
}

enum qkv_status qkv_cpu_document_lengths(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_document_lengths *l = call;
    (void)ctx;
    for (size_t b = 0; b < l->B; b++) {
        const size_t begin = (size_t)l->start[b], end = (size_t)l->start[b + 1];
        size_t counted = l->lengths ? (size_t)l->lengths[b] : l->T;
        if (counted > end - begin) counted = end - begin;
        for (size_t first = begin, next; first < end; first = next) {
            next = document_end(l, first, end);
            size_t last = next < begin + counted ? next : begin + counted;
            if (last <= first) last = next;
            for (size_t n = first; n < next; n++) l->out[n] = l->positions[last - 1] + 1;
        }
    }
    return QKV_OK;
}

/* ---- rotations ------------------------------------------------------------------------------------------------- */

/* longrope has two tables, one after the other. */
static void turns_choose(void *argument, size_t n, int thread) {
    (void)thread;
    const struct qkv_step_turns *t = argument;
    const bool longer = t->lengths[n] > t->tables->by_length->scaling.original_context;
    t->rows[n] = t->positions[n] + (longer ? (int32_t)t->tables->context : 0);
}

/* dynamic has a table for sequences within the original context; longer ones have bases of their own. */
static void turns_make(void *argument, size_t n, int thread) {
    (void)thread;
    const struct qkv_step_turns *t = argument;
    const struct qkv_position_tables *tables = t->tables;
    const struct qkv_position_spec *p = tables->by_length;
    const size_t position = (size_t)t->positions[n], length = (size_t)t->lengths[n], row = tables->pairs * 2;
    t->rows[n] = (int32_t)n;
    if (t->lengths[n] <= p->scaling.original_context) {
        memcpy(t->table + n * row, tables->rotate + position * row, row * sizeof(float));
        return;
    }
    const struct qkv_turn_rule rule = {.base = qkv_rotation_base(p, length, tables->pairs),
                                       .factor = qkv_rotation_factor(p, tables->context)};
    qkv_rotation_row(&rule, position, tables->pairs, t->table + n * row);
}

enum qkv_status qkv_cpu_turns(struct qkv_context *ctx, const void *call) {
    struct qkv_step_turns t = *(const struct qkv_step_turns *)call;
    qkv_parallel(ctx, t.count, t.table ? turns_make : turns_choose, &t);
    return QKV_OK;
}
