/* pass_lend: the indices of a batch, which the host has, as rows of the backend read them. Sizes are those of the
 * batch, which was checked. Its floats (vectors, features, gradients) and its masks of pairs stay the host's. */
#include "model/pass.h"

#include "base/backend.h"

/* A failure leaves NULL and is the tape's. */
static const void *lend(struct qkv_tape *tape, const void *from, size_t count, size_t size) {
    size_t bytes;
    if (tape->status) return NULL;
    if (!qkv_multiply(count, size, &bytes)) bytes = SIZE_MAX;
    const void *lent = tape->ctx->backend->lend(tape->arena, from, bytes);
    if (from && !lent) qkv_tape_failed(tape, QKV_MEMORY);
    return lent;
}

static const int32_t *lend_ids(struct qkv_tape *tape, const int32_t *from, size_t count) {
    return lend(tape, from, count, sizeof *from);
}

void qkv_pass_lend(struct qkv_pass *p, const struct qkv_batch *b) {
    struct qkv_tape *tape = &p->tape;
    struct qkv_batch *to = &p->lent;
    const size_t B = b->B, N = b->cu_rows ? b->rows : B * b->T, M = b->cu_source ? b->source_rows : B * b->source_T;
    const size_t scores = p->model->spec.head.kind == QKV_HEAD_CLASSIFY ? B : b->scored ? b->scored_count : N;
    *to = *b;
    to->ids = lend_ids(tape, b->ids, N);
    to->types = lend_ids(tape, b->types, N);
    to->positions = lend_ids(tape, b->positions, N);
    to->targets = lend_ids(tape, b->targets, scores);
    to->lengths = lend_ids(tape, b->lengths, B);
    to->documents = lend_ids(tape, b->documents, N);
    to->prefix = lend_ids(tape, b->prefix, B);
    to->cu_rows = lend_ids(tape, b->cu_rows, B + 1);
    to->scored = lend(tape, b->scored, b->scored_count, sizeof *b->scored);
    to->source = lend_ids(tape, b->source, M);
    to->source_types = lend_ids(tape, b->source_types, M);
    to->source_positions = lend_ids(tape, b->source_positions, M);
    to->source_lengths = lend_ids(tape, b->source_lengths, B);
    to->cu_source = lend_ids(tape, b->cu_source, B + 1);
}
