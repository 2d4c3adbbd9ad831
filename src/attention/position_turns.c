/* turns: the row of the table that rotates each row of a call. Rotations whose scaling depends on the length of the
 * sequence (dynamic, longrope) have more than one angle for a position. */
#include "attention/attention.h"

#include <string.h>

struct turns {
    const struct qkv_position_tables *tables;
    const int32_t *positions, *lengths;
    float *table;
    int32_t *rows;
};

/* longrope has two tables, one after the other. */
static void turns_choose(void *argument, size_t n, int thread) {
    (void)thread;
    const struct turns *t = argument;
    const bool longer = t->lengths[n] > t->tables->by_length->scaling.original_context;
    t->rows[n] = t->positions[n] + (longer ? (int32_t)t->tables->context : 0);
}

/* dynamic has a table for sequences within the original context; longer ones have bases of their own. */
static void turns_make(void *argument, size_t n, int thread) {
    (void)thread;
    const struct turns *t = argument;
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

struct qkv_turns qkv_rotation_turns(struct qkv_tape *tape, const struct qkv_position_tables *tables, size_t N,
                                    const int32_t *positions, const int32_t *lengths) {
    struct qkv_turns all = {.table = tables->rotate, .rows = positions};
    if (!tables->by_length) return all;
    const bool made = tables->by_length->scaling.kind == QKV_SCALING_DYNAMIC;
    struct turns t = {.tables = tables, .positions = positions, .lengths = lengths};
    t.rows = qkv_tape_take(tape, N, sizeof *t.rows);
    if (made) t.table = qkv_tape_take(tape, N, tables->pairs * 2 * sizeof *t.table);
    if (!t.rows || (made && !t.table)) return (struct qkv_turns){0};
    qkv_parallel(tape->ctx, N, made ? turns_make : turns_choose, &t);
    return (struct qkv_turns){.table = made ? t.table : tables->rotate, .rows = t.rows};
}

const int32_t *qkv_rotation_lengths(struct qkv_tape *tape, size_t B, size_t T, size_t length, const int32_t *lengths,
                                    size_t all) {
    int32_t *each = qkv_tape_take(tape, B * T, sizeof *each);
    for (size_t n = 0; each && !tape->ctx->dry && n < B * T; n++) {
        const size_t own = lengths ? (size_t)lengths[n / T] : all;
        each[n] = (int32_t)(length ? length : own ? own : 1);
    }
    return each;
}
