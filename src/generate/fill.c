/* Filling masks: the likeliest tokens for each <mask> of a text, by an encoder that is trained to predict hidden
 * tokens (Devlin et al. 2018). */
#include <string.h>

#include "base/sized_options.h"
#include "generate/engine.h"

static enum qkv_status fill_copy(struct qkv_context *ctx, const struct qkv_engine_event *event, size_t top,
                                 struct qkv_filling **fillings, size_t *masks) {
    const size_t count = event->masks * top;
    if (event->finish == QKV_FINISH_FAILED) return qkv_fail(ctx, QKV_NUMBER, "%s", event->message);
    *fillings = qkv_allocate(ctx, count, sizeof **fillings);
    if (!*fillings) return QKV_MEMORY;
    memcpy(*fillings, event->fillings, count * sizeof **fillings);
    *masks = event->masks;
    return QKV_OK;
}

/* Fills the masks of a text, all in one step. */
static enum qkv_status fill_all(struct qkv_filler *f, struct qkv_filling **fillings, size_t *masks) {
    const struct qkv_text_room room = {.longest = f->count, .tokens = f->count, .texts = 1, .masks = f->read};
    const size_t top = f->top;
    struct qkv_engine *engine = NULL;
    struct qkv_engine_event event;
    uint64_t id;
    enum qkv_status status = qkv_filler_take(f);
    if (!status) status = qkv_engine_open_reader(f->model, &room, &engine);
    if (status) return status;
    struct qkv_engine_text text = {.ids = f->ids, .count = f->count, .filler = *f};
    *f = (struct qkv_filler){0};
    status = qkv_engine_submit_text(engine, QKV_ENGINE_FILL, &text, &id);
    if (!status) status = qkv_engine_step(engine, NULL);
    if (!status && qkv_engine_poll(engine, &event))
        status = fill_copy(qkv_model_context(engine->model), &event, top, fillings, masks);
    qkv_engine_text_free(&text);
    qkv_engine_free(engine);
    return status;
}

enum qkv_status qkv_fill(struct qkv_model *model, const char *text, size_t top, const struct qkv_line_options *options,
                         struct qkv_filling **fillings, size_t *masks) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, text);
    QKV_NEED(qkv_call, fillings);
    QKV_NEED(qkv_call, masks);
    struct qkv_line_options own = qkv_line_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_line_options, &own, options);
    *fillings = NULL;
    *masks = 0;
    if (status) return status;
    const size_t context = (size_t)qkv_model_spec(model)->context;
    struct qkv_filler f = {.model = model,
                           .top = top,
                           .rule = {.kind = own.long_lines,
                                    .most = own.max_tokens && own.max_tokens < context ? own.max_tokens : context,
                                    .found = own.long_count}};
    status = qkv_filler_check(&f);
    if (!status) status = qkv_filler_read(&f, text, strlen(text));
    if (!status && !f.skipped) status = fill_all(&f, fillings, masks);
    qkv_filler_free(&f);
    return status;
}
