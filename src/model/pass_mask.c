/* pass_mask: the masks of the rows of a batch: lengths, documents packed into a row, and prefixes. */
#include "model/pass.h"
#include "model/spec.h"
#include "op/steps.h"

struct qkv_module_mask qkv_pass_mask(const struct qkv_pass_side *s, const struct qkv_rows *rows) {
    const struct qkv_mask mask = {.B = rows->B,
                                  .Tq = rows->T,
                                  .Tk = rows->T,
                                  .lengths = s->lengths,
                                  .key_documents = s->documents,
                                  .prefix = s->prefix};
    return qkv_pass_dense(&mask, &s->mask);
}

bool qkv_pass_counts_rows(const struct qkv_stack *stack) {
    for (int i = 0; i < stack->spec->kind_count; i++)
        if (qkv_position_has_distances(&stack->tables[i])) return true;
    return false;
}

const int32_t *qkv_pass_key_positions(struct qkv_pass *p, const struct qkv_stack *stack, const struct qkv_rows *rows,
                                      const struct qkv_pass_side *s) {
    if (!qkv_pass_counts_rows(stack) || !s->documents) return rows->position;
    int32_t *positions = qkv_tape_take(&p->tape, rows->N, sizeof *positions);
    if (positions)
        qkv_tape_failed(&p->tape, QKV_STEP(p->model->ctx, positions, .out = positions, .numbers = rows->place,
                                           .count = rows->N, .period = rows->T));
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
                            "batch row %zu has document %d at position %zu after padding (%d); padding comes last", row,
                            numbers[t], t, numbers[t - 1]);
    }
    return QKV_OK;
}

/* Fails where the model does not allow documents or a prefix. */
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

/* ---- dense masks ------------------------------------------------------------------------------------------------- */

struct qkv_dense_mask qkv_dense_mask_defaults(void) {
    return (struct qkv_dense_mask){0};
}

struct qkv_module_mask qkv_pass_dense(const struct qkv_mask *mask, const struct qkv_dense_mask *dense) {
    const struct qkv_pair_shape *s = &dense->shape, all = {.B = mask->B, .H = 1, .Tq = mask->Tq, .Tk = mask->Tk};
    const bool whole = !s->B && !s->H && !s->Tq && !s->Tk && !s->batch && !s->head && !s->row;
    return (struct qkv_module_mask){.mask = *mask, .dense = dense->data, .dense_shape = whole ? all : *s};
}

/* Checks a mask: the model must have the attention, and shapes must fit; cross: of the stack's cross attention. */
static enum qkv_status check_dense(const struct qkv_pass *p, const struct qkv_stack *stack, bool cross,
                                   const struct qkv_dense_mask *mask, size_t B, size_t Tq, size_t Tk) {
    const struct qkv_mask sizes = {.B = B, .Tq = Tq, .Tk = Tk};
    const struct qkv_module_mask given = qkv_pass_dense(&sizes, mask);
    enum qkv_status status = QKV_OK;
    if (!mask->data) return QKV_OK;
    if (!stack)
        return qkv_fail(p->model->ctx, QKV_ARGUMENT,
                        "the batch has a %s, but only a model of both stacks has such an attention",
                        cross ? "cross_mask" : "source_mask");
    for (int i = 0; i < stack->spec->kind_count && !status; i++) {
        const struct qkv_layer_spec *kind = &stack->spec->kinds[i];
        const struct qkv_attention_spec *a = cross ? &kind->cross : &kind->attention;
        struct qkv_attend call = {.B = B, .H = (size_t)a->heads, .Tq = Tq, .Tk = Tk};
        status =
            qkv_attend_set_pairs(p->model->ctx, &call, given.dense, &given.dense_shape, NULL, &given.bias_shape, false);
    }
    return status;
}

static enum qkv_status check_all_dense(const struct qkv_pass *p, const struct qkv_batch *b) {
    const struct qkv_model *m = p->model;
    const bool pair = qkv_spec_topology(&m->spec) == QKV_ENCODER_DECODER;
    const struct qkv_stack *self = m->decoder.spec ? &m->decoder : &m->encoder;
    enum qkv_status status = check_dense(p, self, false, &b->mask, b->B, b->T, b->T);
    if (!status)
        status = check_dense(p, pair ? &m->encoder : NULL, false, &b->source_mask, b->B, b->source_T, b->source_T);
    return status ? status : check_dense(p, pair ? self : NULL, true, &b->cross_mask, b->B, b->T, b->source_T);
}

enum qkv_status qkv_pass_check_mask(const struct qkv_pass *p, const struct qkv_batch *b) {
    enum qkv_status status = check_all_dense(p, b);
    if (status || (!b->documents && !b->prefix)) return status;
    status = check_mask_model(p, b);
    for (size_t row = 0; row < b->B && b->documents && !status; row++)
        status = check_row_documents(p->model->ctx, b, row);
    for (size_t row = 0; row < b->B && b->prefix && !status; row++)
        if (b->prefix[row] < 0 || (size_t)b->prefix[row] > row_length(b, row))
            status = qkv_fail(p->model->ctx, QKV_ARGUMENT,
                              "the prefix of batch row %zu is %d, but the row has 0 to %zu positions", row,
                              b->prefix[row], row_length(b, row));
    return status;
}
