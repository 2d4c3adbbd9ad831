/* use_measure: the memory of a search. */
#include <stdlib.h>

#include "model/decode.h"

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
