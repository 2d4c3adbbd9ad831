/* pass_turns: rotations of the rows of a batch where they depend on a sequence's length (scalings dynamic and
 * longrope). The length is that of the sequence or document itself, so it has the same bits as alone. */
#include "model/pass.h"

/* The end of the sequence or document that begins at row `first`, among rows up to `end`. */
static size_t turns_end(const struct qkv_pass_side *s, const struct qkv_rows *rows, size_t first, size_t end) {
    size_t n = first + 1;
    while (n < end && (!s->documents || s->documents[rows->place[n]] == s->documents[rows->place[first]])) n++;
    return n;
}

/* For each row 1 + the largest position of its sequence. Padding that is computed does not count. */
static void turns_lengths(const struct qkv_pass_side *s, const struct qkv_rows *rows, const int32_t *positions,
                          int32_t *lengths) {
    for (size_t b = 0; b < rows->B; b++) {
        const size_t begin = (size_t)rows->start[b], end = (size_t)rows->start[b + 1];
        size_t counted = s->lengths ? (size_t)s->lengths[b] : rows->T;
        if (counted > end - begin) counted = end - begin;
        for (size_t first = begin, next; first < end; first = next) {
            next = turns_end(s, rows, first, end);
            size_t last = next < begin + counted ? next : begin + counted;
            if (last <= first) last = next;
            for (size_t n = first; n < next; n++) lengths[n] = positions[last - 1] + 1;
        }
    }
}

const struct qkv_turns *qkv_pass_turns(struct qkv_pass *p, const struct qkv_stack *stack, const struct qkv_pass_side *s,
                                       const struct qkv_rows *rows, const int32_t *positions) {
    if (!qkv_stack_by_length(stack) || p->tape.status) return NULL;
    int32_t *lengths = qkv_tape_take(&p->tape, rows->N, sizeof *lengths);
    if (lengths && !p->model->ctx->dry) turns_lengths(s, rows, positions, lengths);
    for (size_t n = 0; lengths && s->length && !p->model->ctx->dry && n < rows->N; n++) lengths[n] = (int32_t)s->length;
    return lengths ? qkv_stack_turns(&p->tape, stack, rows->N, positions, lengths) : NULL;
}
