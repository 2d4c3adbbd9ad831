/* use_measure: the sizes of batches of lines and of searched sources, and their memory. */
#include "model/decode.h"

size_t qkv_line_rows(size_t T) {
    size_t rows = T ? QKV_LINE_TOKENS / T : QKV_LINE_ROWS;
    return rows < 1 ? 1 : rows > QKV_LINE_ROWS ? QKV_LINE_ROWS : rows;
}

size_t qkv_line_positions(size_t B, size_t T) {
    const size_t most = qkv_max(T, QKV_LINE_TOKENS);
    return T > most / B ? most : B * T;
}

/* Bytes of the largest batches of rows of T positions. */

static enum qkv_status lines_measure(struct qkv_model *model, size_t T, size_t *bytes) {
    const struct qkv_spec *spec = &model->spec;
    const size_t B = qkv_line_rows(T / 2 + 1);
    struct qkv_pass_plan plan = {0};
    if (spec->head.kind != QKV_HEAD_CLASSIFY && spec->head.kind != QKV_HEAD_CLASSIFY_TOKENS)
        return qkv_encoded_measure(model, qkv_line_rows(T), T, NULL, bytes);
    const struct qkv_pass_options options = {.B = B, .T = T, .rows = qkv_line_positions(B, T), .logits = true};
    enum qkv_status status = qkv_pass_measure(model, &options, 0, &plan);
    *bytes = plan.bytes;
    return status;
}

enum qkv_status qkv_lines_measure(struct qkv_model *model, size_t *bytes) {
    const size_t context = (size_t)model->spec.context;
    size_t many = 0, long_ones = 0;
    enum qkv_status status = lines_measure(model, qkv_min(context, QKV_LINE_TOKENS / QKV_LINE_ROWS), &many);
    if (!status) status = lines_measure(model, context, &long_ones);
    *bytes = qkv_max(many, long_ones);
    return status;
}

enum qkv_status qkv_search_measure(struct qkv_model *model, size_t *bytes) {
    size_t sources[QKV_SEARCH_BATCH];
    const size_t context = (size_t)model->spec.context;
    for (size_t i = 0; i < QKV_SEARCH_BATCH; i++) sources[i] = i;
    const struct qkv_decoder_options targets = {
        .sources = sources, .rows = QKV_SEARCH_BATCH, .capacity = context, .chunk = 1};
    return qkv_encoded_measure(model, QKV_SEARCH_BATCH, context, &targets, bytes);
}
