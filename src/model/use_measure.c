/* use_measure: the sizes of batches of lines, and the memory of these and of a search. */
#include <stdlib.h>

#include "model/decode.h"
#include "model/text_room.h"

struct qkv_text_room qkv_text_room_of_lines(size_t longest, size_t count, size_t tokens) {
    const size_t texts = qkv_min(count, (size_t)QKV_TEXT_BATCH), most = qkv_min(tokens, (size_t)QKV_TEXT_TOKENS);
    return (struct qkv_text_room){
        .longest = longest, .tokens = qkv_max(longest, qkv_min(most, texts * longest)), .texts = texts};
}

size_t qkv_text_room_places(const struct qkv_text_room *room) {
    return qkv_max(room->longest, 2 * room->tokens);
}

void qkv_text_pass_plan(const struct qkv_model *m, const struct qkv_text_room *room, struct qkv_text_pass *p) {
    const size_t T = room->longest, rows = room->tokens, texts = qkv_min(room->texts, rows);
    const size_t places = qkv_text_room_places(room), wide = T ? qkv_min(texts, qkv_max(places / T, 1)) : 0;
    const size_t narrow = texts ? qkv_min(T, places / texts) : 0;
    p->shapes[0] = (struct qkv_pass_shape){.B = 1, .T = T};
    p->shapes[1] = (struct qkv_pass_shape){.B = wide, .T = T, .rows = qkv_min(rows, wide * T)};
    p->shapes[2] = (struct qkv_pass_shape){.B = texts, .T = narrow, .rows = qkv_min(rows, texts * narrow)};
    p->options = qkv_pass_defaults();
    p->options.B = texts, p->options.T = T, p->options.rows = rows;
    p->options.shapes = p->shapes;
    p->options.shape_count = texts > 1 ? 3 : 1;
    p->options.logits = true;
    if (m->spec.head.kind == QKV_HEAD_LM) p->options.scored = room->masks;
}

enum qkv_status qkv_lines_measure(struct qkv_model *m, bool vectors, size_t count, size_t longest, size_t *bytes) {
    struct qkv_pass_plan plan = {0};
    struct qkv_text_pass pass;
    size_t tokens, dense = 0;
    enum qkv_status status;
    longest = qkv_max(qkv_min(longest, (size_t)m->spec.context), 1);
    if (!count || !qkv_multiply(count, longest, &tokens)) tokens = SIZE_MAX;
    const struct qkv_text_room room = qkv_text_room_of_lines(longest, count ? count : SIZE_MAX, tokens);
    const struct qkv_encoded_room encoded = {.T = room.longest, .sources = room.texts, .rows = room.tokens};
    *bytes = 0;
    qkv_text_pass_plan(m, &room, &pass);
    if (vectors) {
        status = qkv_encoded_room_measure(m, &encoded, NULL, bytes);
        if (!status) status = qkv_model_dense_measure(m, room.texts, &dense);
    } else {
        status = qkv_pass_measure(m, &pass.options, 0, &plan);
    }
    *bytes += dense + plan.bytes + 2 * room.tokens * sizeof(int32_t) + qkv_graph_bytes(&m->spec);
    return status;
}

struct qkv_text_room qkv_search_room(const struct qkv_search_shape *shape) {
    size_t tokens;
    if (!qkv_multiply(shape->sources, shape->T, &tokens)) tokens = SIZE_MAX;
    return qkv_text_room_of_lines(shape->T, shape->sources, tokens);
}

enum qkv_status qkv_search_targets(struct qkv_model *model, const struct qkv_search_shape *shape,
                                   struct qkv_decoder_options *targets) {
    *targets = qkv_decoder_defaults();
    if (!qkv_multiply(shape->sources, shape->width, &targets->rows))
        return qkv_fail_memory(model->ctx, SIZE_MAX, "the search");
    targets->capacity = shape->capacity;
    targets->sources = qkv_allocate(model->ctx, targets->rows, sizeof *targets->sources);
    return targets->sources ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_search_measure(struct qkv_model *model, const struct qkv_search_shape *of, size_t *bytes) {
    const size_t context = (size_t)model->spec.context;
    const struct qkv_search_shape shape = {.sources = of->sources,
                                           .width = of->width,
                                           .T = qkv_min(of->T, context),
                                           .capacity = qkv_min(of->capacity, context)};
    const struct qkv_text_room room = qkv_search_room(&shape);
    const struct qkv_encoded_room encoded = {
        .places = shape.sources, .T = room.longest, .sources = room.texts, .rows = room.tokens};
    struct qkv_decoder_options targets;
    enum qkv_status status = qkv_search_targets(model, &shape, &targets);
    if (!status) status = qkv_encoded_room_measure(model, &encoded, &targets, bytes);
    free((void *)(uintptr_t)targets.sources);
    return status;
}
