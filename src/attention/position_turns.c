/* turns: the row of the table that rotates each row of a call. Rotations whose scaling depends on the length of the
 * sequence (dynamic, longrope) have more than one angle for a position. */
#include "attention/attention.h"
#include "op/steps.h"

struct qkv_turns qkv_rotation_turns(struct qkv_tape *tape, const struct qkv_position_tables *tables, size_t N,
                                    const int32_t *positions, const int32_t *lengths) {
    if (!tables->by_length) return (struct qkv_turns){.table = tables->rotate, .rows = positions};
    const bool made = tables->by_length->scaling.kind == QKV_SCALING_DYNAMIC;
    int32_t *rows = qkv_tape_take(tape, N, sizeof *rows);
    float *table = made ? qkv_tape_take(tape, N, tables->pairs * 2 * sizeof *table) : NULL;
    if (!rows || (made && !table)) return (struct qkv_turns){0};
    if (qkv_tape_failed(tape, QKV_STEP(tape->ctx, turns, .tables = tables, .positions = positions, .lengths = lengths,
                                       .count = N, .rows = rows, .table = table)))
        return (struct qkv_turns){0};
    return (struct qkv_turns){.table = made ? table : tables->rotate, .rows = rows};
}

const int32_t *qkv_rotation_lengths(struct qkv_tape *tape, size_t B, size_t T, size_t length, const int32_t *lengths,
                                    size_t all) {
    int32_t *each = qkv_tape_take(tape, B * T, sizeof *each);
    const size_t same = length ? length : qkv_max(all, 1);
    if (!each) return NULL;
    qkv_tape_failed(tape, length || !lengths
                              ? QKV_STEP(tape->ctx, positions, .out = each, .count = B * T, .period = 1, .first = same)
                              : QKV_STEP(tape->ctx, repeat, .out = each, .values = lengths, .B = B, .T = T, .min = 1));
    return each;
}
