/* pass_mask: who sees whom in the rows of a batch: lengths, documents packed into a row, and prefixes. */
#include "model/pass.h"
#include "model/spec.h"

struct qkv_mask qkv_pass_mask(const struct qkv_pass_side *s, const struct qkv_rows *rows) {
    return (struct qkv_mask){.B = rows->B,
                             .Tq = rows->T,
                             .Tk = rows->T,
                             .lengths = s->lengths,
                             .key_documents = s->documents,
                             .prefix = s->prefix};
}

bool qkv_pass_counts_rows(const struct qkv_stack *stack) {
    for (int i = 0; i < stack->spec->kind_count; i++)
        if (qkv_position_has_distances(&stack->tables[i])) return true;
    return false;
}

const int32_t *qkv_pass_key_positions(struct qkv_pass *p, const struct qkv_stack *stack, const struct qkv_rows *rows,
                                      const struct qkv_pass_side *s) {
    const bool dry = p->model->ctx->dry;
    if (!qkv_pass_counts_rows(stack) || (!dry && !s->documents))
        return rows->position; /* a plan does not know whether documents will come */
    int32_t *positions = qkv_tape_take(&p->tape, rows->N, sizeof *positions);
    for (size_t n = 0; positions && !dry && n < rows->N; n++) positions[n] = rows->place[n] % (int32_t)rows->T;
    return positions;
}

static size_t row_length(const struct qkv_batch *b, size_t row) {
    return b->cu_rows ? (size_t)(b->cu_rows[row + 1] - b->cu_rows[row]) : b->lengths ? (size_t)b->lengths[row] : b->T;
}

static enum qkv_status check_row_documents(struct qkv_context *ctx, const struct qkv_batch *b, size_t row) {
    const int32_t *numbers = b->documents + row * b->T;
    for (size_t t = 0; t < b->T; t++) {
        if (numbers[t] < 0 && t < row_length(b, row))
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "position %zu of batch row %zu is of document %d; only padding, past the row's length of "
                            "%zu, has a negative number",
                            t, row, numbers[t], row_length(b, row));
        if (t && numbers[t] >= 0 && numbers[t] < numbers[t - 1])
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "the documents of batch row %zu go from %d down to %d at position %zu; number them in the "
                            "order they are packed in",
                            row, numbers[t - 1], numbers[t], t);
        if (t && numbers[t] >= 0 && numbers[t - 1] < 0)
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "batch row %zu has document %d at position %zu behind padding (%d); padding comes last",
                            row, numbers[t], t, numbers[t - 1]);
    }
    return QKV_OK;
}

/* What the model must be for one of the two. */
static enum qkv_status check_mask_model(const struct qkv_pass *p, const struct qkv_batch *b) {
    const struct qkv_spec *spec = &p->model->spec;
    struct qkv_context *ctx = p->model->ctx;
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    const char *what = b->documents ? "documents" : "a prefix";
    if (b->documents && b->cu_rows)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "the batch has documents and cu_rows; sequences that are packed do not see one another, so give "
            "each document one of its own");
    if (b->documents && b->prefix)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the batch has documents and a prefix; a prefix is of a whole row, so give "
                        "each document a row of its own");
    if (qkv_spec_topology(spec) == QKV_ENCODER_DECODER)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the batch has %s, but this model has a source for each row; only models of "
                        "one stack take that",
                        what);
    if (b->documents && spec->head.kind == QKV_HEAD_CLASSIFY)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the batch has documents, but this model gives one result for each row; give each document a "
                        "row of its own");
    const struct qkv_layer_spec *kind = b->prefix ? qkv_stack_find_causal(stack, false) : NULL;
    if (!kind) return QKV_OK;
    char text[QKV_KIND_TEXT];
    qkv_kind_text(spec->decoder.layers ? "decoder" : "encoder", kind, text);
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "the batch has a prefix, but %s.attention.causal is false: all positions see one another anyway",
                    text);
}

enum qkv_status qkv_pass_check_mask(const struct qkv_pass *p, const struct qkv_batch *b) {
    if (!b->documents && !b->prefix) return QKV_OK;
    enum qkv_status status = check_mask_model(p, b);
    for (size_t row = 0; row < b->B && b->documents && !status; row++)
        status = check_row_documents(p->model->ctx, b, row);
    for (size_t row = 0; row < b->B && b->prefix && !status; row++)
        if (b->prefix[row] < 0 || (size_t)b->prefix[row] > row_length(b, row))
            status = qkv_fail(p->model->ctx, QKV_ARGUMENT,
                              "the prefix of batch row %zu is %d, but the row has 0 to %zu positions", row,
                              b->prefix[row], row_length(b, row));
    return status;
}
