/* Lines of text as sequences of ids, with the special tokens of their kind of model. */
#include "text/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "text/chain.h"

bool qkv_is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' && (text[i] < '\t' || text[i] > '\r')) return false;
    return true;
}

struct sequence {
    int32_t *ids;
    size_t count, capacity;
};

static enum qkv_status sequence_append(struct qkv_context *ctx, struct sequence *s, const int32_t *ids, size_t n) {
    int32_t *grown = qkv_list_room(ctx, s->ids, &s->capacity, s->count, n, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    s->ids = grown;
    if (n) memcpy(s->ids + s->count, ids, n * sizeof *ids);
    s->count += n;
    return QKV_OK;
}

static enum qkv_status append_text(struct qkv_context *ctx, struct sequence *s, const struct qkv_tokenizer *t,
                                   const char *text, size_t size) {
    int32_t *ids;
    size_t n;
    enum qkv_status status = qkv_tokenizer_encode(ctx, t, text, size, false, &ids, &n);
    if (!status) status = sequence_append(ctx, s, ids, n);
    qkv_free(ids);
    return status;
}

static enum qkv_status append_special(struct qkv_context *ctx, struct sequence *s, const struct qkv_tokenizer *t,
                                      enum qkv_token_role role) {
    int32_t id = qkv_tokenizer_role(t, role);
    return id < 0 ? QKV_OK : sequence_append(ctx, s, &id, 1);
}

static enum qkv_status sequence_give(enum qkv_status status, struct sequence *s, int32_t **ids, size_t *count) {
    if (status) free(s->ids);
    *ids = status ? NULL : s->ids;
    *count = status ? 0 : s->count;
    return status;
}

enum qkv_status qkv_sequence_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                    size_t size, bool begin, bool end, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    struct sequence s = {0};
    enum qkv_status status = begin ? append_special(ctx, &s, t, QKV_TOKEN_ROLE_BEGIN) : QKV_OK;
    if (!status) status = append_text(ctx, &s, t, text, size);
    if (!status && end) status = append_special(ctx, &s, t, QKV_TOKEN_ROLE_END);
    return sequence_give(status, &s, ids, count);
}

enum qkv_status qkv_source_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  bool begin, bool end, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    const int32_t *before, *after;
    size_t before_count, after_count;
    if (qkv_tokenizer_template(t, &before, &before_count, &after, &after_count))
        return qkv_tokenizer_encode_sequence(ctx, t, text, size, false, ids, count);
    return qkv_sequence_encode(ctx, t, text, size, begin, end, ids, count);
}

struct qkv_sequence_frame qkv_sequence_frame(const struct qkv_tokenizer *t, bool begin, bool end) {
    return (struct qkv_sequence_frame){.before = begin && qkv_tokenizer_role(t, QKV_TOKEN_ROLE_BEGIN) >= 0,
                                       .after = end && qkv_tokenizer_role(t, QKV_TOKEN_ROLE_END) >= 0};
}

struct qkv_sequence_frame qkv_source_frame(const struct qkv_tokenizer *t, bool begin, bool end) {
    const int32_t *before, *after;
    struct qkv_sequence_frame frame;
    if (qkv_tokenizer_template(t, &before, &frame.before, &after, &frame.after)) return frame;
    return qkv_sequence_frame(t, begin, end);
}

/* A chain reads the whole text at once, the mask in the file's own writing, so that its token takes the white space that it asks
 * for. */
static enum qkv_status masked_chain(struct qkv_context *ctx, struct sequence *s, const struct qkv_tokenizer *t,
                                    const char *text, size_t size, int32_t mask) {
    struct qkv_buffer own = {0};
    size_t mask_size, n = 0;
    const char *written = qkv_tokenizer_token(t, mask, &mask_size);
    enum qkv_status status =
        written ? qkv_buffer_append(ctx, &own, "", 0)
                : qkv_fail(ctx, QKV_ARGUMENT, "there is no token %d to stand for " QKV_TOKEN_MASK, (int)mask);
    for (size_t at = 0; at < size && !status;) {
        const char *next = memmem(text + at, size - at, QKV_TOKEN_MASK, strlen(QKV_TOKEN_MASK));
        const size_t end = next ? (size_t)(next - text) : size;
        status = qkv_buffer_append(ctx, &own, text + at, end - at);
        if (!status && next) status = qkv_buffer_append(ctx, &own, written, mask_size);
        at = end + (next ? strlen(QKV_TOKEN_MASK) : 0);
    }
    int32_t *ids = NULL;
    if (!status) status = qkv_chain_encode(ctx, t, own.data ? own.data : "", own.size, false, mask, &ids, NULL, &n);
    if (!status) status = sequence_append(ctx, s, ids, n);
    qkv_free(ids);
    qkv_buffer_free(&own);
    return status;
}

enum qkv_status qkv_masked_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  int32_t mask, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    const size_t mark = strlen(QKV_TOKEN_MASK);
    struct sequence s = {0};
    const int32_t *before, *after;
    size_t before_count, after_count;
    qkv_tokenizer_template(t, &before, &before_count, &after, &after_count);
    enum qkv_status status = sequence_append(ctx, &s, before, before_count);
    if (!status && t->chain) status = masked_chain(ctx, &s, t, text, size, mask);
    for (size_t at = 0; !status && !t->chain;) {
        const char *next = memmem(text + at, size - at, QKV_TOKEN_MASK, mark);
        size_t end = next ? (size_t)(next - text) : size, stop = end;
        while (next && t->pattern && stop > at && text[stop - 1] == ' ') stop--;
        if (stop > at) status = append_text(ctx, &s, t, text + at, stop - at);
        if (!next) break;
        if (!status) status = sequence_append(ctx, &s, &mask, 1);
        at = end + mark;
    }
    if (!status) status = sequence_append(ctx, &s, after, after_count);
    return sequence_give(status, &s, ids, count);
}
