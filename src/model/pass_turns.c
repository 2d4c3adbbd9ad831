/* pass_turns: the lengths that rotations of the rows of a batch depend on (scalings dynamic and longrope). The length
 * is that of the sequence or document itself, so it has the same bits as alone. */
#include "model/pass.h"
#include "op/steps.h"

const int32_t *qkv_pass_turn_lengths(struct qkv_pass *p, const struct qkv_stack *stack, const struct qkv_pass_side *s,
                                     const struct qkv_rows *rows, const int32_t *positions) {
    struct qkv_context *ctx = p->model->ctx;
    if (!qkv_stack_by_length(stack) || p->tape.status) return NULL;
    int32_t *lengths = qkv_tape_take(&p->tape, rows->N, sizeof *lengths);
    if (!lengths) return NULL;
    const enum qkv_status status =
        s->length ? QKV_STEP(ctx, positions, .out = lengths, .count = rows->N, .period = 1, .first = s->length)
                  : QKV_STEP(ctx, document_lengths, .out = lengths, .positions = positions, .start = rows->start,
                             .place = rows->place, .documents = s->documents, .lengths = s->lengths, .B = rows->B,
                             .T = rows->T);
    return qkv_tape_failed(&p->tape, status) ? NULL : lengths;
}
