/* use_measure: the sizes of batches of lines and of searched sources, and their memory. */
#include <stdlib.h>

#include "model/decode.h"

size_t qkv_line_rows(size_t T) {
    size_t rows = T ? QKV_LINE_TOKENS / T : QKV_LINE_ROWS;
    return rows < 1 ? 1 : rows > QKV_LINE_ROWS ? QKV_LINE_ROWS : rows;
}

size_t qkv_line_positions(size_t B, size_t T) {
    const size_t most = qkv_max(T, QKV_LINE_TOKENS);
    return T > most / B ? most : B * T;
}

enum qkv_status qkv_lines_measure(struct qkv_model *model, size_t count, size_t T, size_t *rows, size_t *bytes) {
    const struct qkv_spec *spec = &model->spec;
    const bool classifies = spec->head.kind == QKV_HEAD_CLASSIFY || spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS;
    const size_t context = (size_t)spec->context;
    size_t room = 16; /* positions of a row in the pass of a classifier */
    struct qkv_pass_plan plan = {0};
    T = qkv_min(T, context);
    while (room < T) room *= 2;
    room = qkv_min(room, context);
    *rows = qkv_line_rows(classifies ? room / 2 + 1 : T);
    if (count) *rows = qkv_min(*rows, count);
    if (!classifies) return qkv_encoded_measure(model, *rows, T, NULL, bytes);
    const struct qkv_pass_options options = {
        .size = sizeof options, .B = *rows, .T = room, .rows = qkv_line_positions(*rows, room), .logits = true};
    enum qkv_status status = qkv_pass_measure(model, &options, 0, &plan);
    *bytes = plan.bytes;
    return status;
}

enum qkv_status qkv_search_measure(struct qkv_model *model, const struct qkv_search_shape *shape, size_t *bytes) {
    const size_t context = (size_t)model->spec.context;
    size_t rows;
    if (!qkv_multiply(shape->sources, shape->width, &rows)) return qkv_fail_memory(model->ctx, SIZE_MAX, "the search");
    size_t *sources = qkv_allocate(model->ctx, rows, sizeof *sources);
    if (!sources) return QKV_MEMORY;
    for (size_t i = 0; i < rows; i++) sources[i] = i / shape->width;
    const struct qkv_decoder_options targets = {.size = sizeof targets,
                                                .sources = sources,
                                                .rows = rows,
                                                .capacity = qkv_min(shape->capacity, context),
                                                .chunk = 1};
    enum qkv_status status = qkv_encoded_measure(model, shape->sources, qkv_min(shape->T, context), &targets, bytes);
    free(sources);
    return status;
}
