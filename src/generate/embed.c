/* Vectors of lines of text: hidden states of the encoder, or of the only decoder, pooled over the tokens of each
 * line, then passed through the dense layers of the model's folder. */
#include <string.h>

#include "base/sized_options.h"
#include "generate/engine_lines.h"

struct embedder {
    struct qkv_text_embedder how;
    const struct qkv_line_reader *reader;
    const char *const *lines;
    float *vectors;
};

static enum qkv_status embed_read(void *user, size_t index, const struct qkv_long_rule *rule,
                                  struct qkv_engine_text *text) {
    const struct embedder *e = user;
    const struct qkv_tokenizer *tokenizer = qkv_model_source_tokenizer(e->how.model);
    const enum qkv_status status =
        qkv_text_embedder_read(&e->how, e->lines[index], strlen(e->lines[index]), &text->ids, &text->count);
    text->skipped = e->how.skipped;
    text->pool = e->how.options.pool;
    text->normalize = e->how.options.normalize;
    return status ? status
                  : qkv_lines_fit(e->reader, index, rule, qkv_source_frame(tokenizer, e->how.begin, e->how.end), text);
}

static enum qkv_status embed_take(void *user, size_t index, const struct qkv_engine_event *event) {
    const struct embedder *e = user;
    if (event->finish == QKV_FINISH_FAILED)
        return qkv_fail(qkv_model_context(e->how.model), QKV_NUMBER,
                        "the hidden states of line %zu are not finite: the model's weights are broken; take those of "
                        "an earlier checkpoint",
                        index + 1);
    memcpy(e->vectors + index * event->vector_count, event->vector, event->vector_count * sizeof *e->vectors);
    return QKV_OK;
}

enum qkv_status qkv_embed(struct qkv_model *model, const char *const *lines, size_t count,
                          const struct qkv_embed_options *options, float *vectors) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, lines);
    QKV_NEED_ALL(qkv_call, count, vectors);
    struct qkv_embed_options taken = qkv_embed_defaults(model);
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_embed_options, &taken, options);
    if (status) return status;
    const struct qkv_line_options rule = {.size = sizeof rule,
                                          .long_lines = taken.long_lines,
                                          .long_count = taken.long_count,
                                          .max_tokens = taken.max_tokens};
    struct embedder e = {.lines = lines, .vectors = vectors};
    status = qkv_text_embedder_begin(model, &taken, &e.how);
    if (!status) status = qkv_lines_check(model, "embed");
    if (status) return status;
    if (count) memset(vectors, 0, count * qkv_embed_width(model) * sizeof *vectors);
    const struct qkv_line_reader reader = {.model = model,
                                           .kind = QKV_ENGINE_EMBED,
                                           .options = &rule,
                                           .what = "line",
                                           .read = embed_read,
                                           .take = embed_take,
                                           .user = &e};
    e.reader = &reader;
    status = qkv_model_check_weights(model);
    return status ? status : qkv_lines_run(&reader, count);
}
