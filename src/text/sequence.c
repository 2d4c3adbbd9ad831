/* Lines of text as sequences of ids, with the special tokens of each kind of model. */
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
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, count);
    struct sequence s = {0};
    qkv_sequence_trim(t, true, end, &text, &size);
    enum qkv_status status = begin ? append_special(ctx, &s, t, QKV_TOKEN_ROLE_BEGIN) : QKV_OK;
    if (!status) status = append_text(ctx, &s, t, text, size);
    if (!status && end) status = append_special(ctx, &s, t, QKV_TOKEN_ROLE_END);
    return sequence_give(status, &s, ids, count);
}

enum qkv_status qkv_source_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  bool begin, bool end, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, count);
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

/* ---- texts with masks -------------------------------------------------------------------------------------------- */

/* The two spellings of a mask: QKV_TOKEN_MASK, and the text of the mask token. */
struct mask_writing {
    const char *own;
    size_t own_size;
};
static const char *mask_next(const struct mask_writing *w, const char *text, size_t size, size_t from, size_t *length) {
    const char *ours = memmem(text + from, size - from, QKV_TOKEN_MASK, strlen(QKV_TOKEN_MASK));
    const char *own = w->own_size ? memmem(text + from, size - from, w->own, w->own_size) : NULL;
    const bool first = ours && (!own || ours <= own);
    *length = first ? strlen(QKV_TOKEN_MASK) : w->own_size;
    return first ? ours : own;
}

struct masked {
    struct sequence ids;
    struct qkv_mask_place *places;
    size_t count, capacity;
};

static enum qkv_status masked_place(struct qkv_context *ctx, struct masked *m, size_t begin, size_t end) {
    struct qkv_mask_place *grown = qkv_list_room(ctx, m->places, &m->capacity, m->count, 1, sizeof *grown);
    if (!grown) return QKV_MEMORY;
    m->places = grown;
    m->places[m->count++] = (struct qkv_mask_place){begin, end};
    return QKV_OK;
}

/* Copies a text with every QKV_TOKEN_MASK replaced by the text of the mask token. */
static enum qkv_status masked_rewrite(struct qkv_context *ctx, const struct mask_writing *w, const char *text,
                                      size_t size, struct qkv_buffer *out) {
    enum qkv_status status = qkv_buffer_append(ctx, out, "", 0);
    for (size_t at = 0; at < size && !status;) {
        const char *next = memmem(text + at, size - at, QKV_TOKEN_MASK, strlen(QKV_TOKEN_MASK));
        const size_t end = next ? (size_t)(next - text) : size;
        status = qkv_buffer_append(ctx, out, text + at, end - at);
        if (!status && next) status = qkv_buffer_append(ctx, out, w->own, w->own_size);
        at = end + (next ? strlen(QKV_TOKEN_MASK) : 0);
    }
    return status;
}

/* A walk through a text and its copy in parallel, forward only. */
struct masked_walk {
    const char *text;
    size_t size, own_size;
    size_t text_at, at; /* the same place in both */
    size_t next;        /* the next QKV_TOKEN_MASK in the text, or the text's size */
};
static void masked_look(struct masked_walk *w) {
    const char *next = memmem(w->text + w->text_at, w->size - w->text_at, QKV_TOKEN_MASK, strlen(QKV_TOKEN_MASK));
    w->next = next ? (size_t)(next - w->text) : w->size;
}
/* The byte of the text for byte `to` of the copy. */
static size_t masked_source(struct masked_walk *w, size_t to) {
    while (w->next < w->size && to >= w->at + (w->next - w->text_at) + w->own_size) {
        w->at += w->next - w->text_at + w->own_size;
        w->text_at = w->next + strlen(QKV_TOKEN_MASK);
        masked_look(w);
    }
    const size_t source = w->text_at + (to - w->at);
    return source < w->next ? source : w->next;
}

/* A chain that is not plain encodes the whole text at once, with masks as the text of the mask token, so that the token
 * strips the white space that it is to strip. */
static enum qkv_status masked_chain(struct qkv_context *ctx, struct masked *m, const struct qkv_tokenizer *t,
                                    const struct mask_writing *w, const char *text, size_t size, int32_t mask) {
    struct qkv_buffer own = {0};
    struct chain_span *spans = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    struct masked_walk walk = {.text = text, .size = size, .own_size = w->own_size};
    masked_look(&walk);
    enum qkv_status status = masked_rewrite(ctx, w, text, size, &own);
    if (!status) status = qkv_chain_encode(ctx, t, own.data ? own.data : "", own.size, false, mask, &ids, &spans, &n);
    if (!status) status = sequence_append(ctx, &m->ids, ids, n);
    for (size_t i = 0; i < n && !status; i++) {
        if (ids[i] != mask) continue;
        const size_t begin = masked_source(&walk, spans[i].begin);
        status = masked_place(ctx, m, begin, masked_source(&walk, spans[i].end));
    }
    qkv_free(ids);
    free(spans);
    qkv_buffer_free(&own);
    return status;
}

static enum qkv_status masked_pieces(struct qkv_context *ctx, struct masked *m, const struct qkv_tokenizer *t,
                                     const struct mask_writing *w, const char *text, size_t size, int32_t mask) {
    enum qkv_status status = QKV_OK;
    for (size_t at = 0, length; !status;) {
        const char *next = mask_next(w, text, size, at, &length);
        size_t end = next ? (size_t)(next - text) : size, stop = end;
        while (next && t->chain->pattern && stop > at && text[stop - 1] == ' ') stop--;
        if (stop > at) status = append_text(ctx, &m->ids, t, text + at, stop - at);
        if (!next) break;
        if (!status) status = sequence_append(ctx, &m->ids, &mask, 1);
        if (!status) status = masked_place(ctx, m, end, end + length);
        at = end + length;
    }
    return status;
}

enum qkv_status qkv_masked_encode_places(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                         size_t size, int32_t mask, int32_t **ids, size_t *count,
                                         struct qkv_mask_place **places, size_t *masks) {
    struct masked m = {0};
    const int32_t *before, *after;
    size_t before_count, after_count;
    struct mask_writing w;
    w.own = qkv_tokenizer_token(t, mask, &w.own_size);
    *ids = NULL;
    *places = NULL;
    *count = *masks = 0;
    if (!w.own) return qkv_fail(ctx, QKV_ARGUMENT, "there is no token %d to stand for " QKV_TOKEN_MASK, (int)mask);
    qkv_tokenizer_template(t, &before, &before_count, &after, &after_count);
    const char *whole = text;
    qkv_sequence_trim(t, before_count, after_count, &text, &size);
    enum qkv_status status = sequence_append(ctx, &m.ids, before, before_count);
    if (!status) status = (t->chain->plain ? masked_pieces : masked_chain)(ctx, &m, t, &w, text, size, mask);
    if (!status) status = sequence_append(ctx, &m.ids, after, after_count);
    if (status) {
        free(m.places);
        return sequence_give(status, &m.ids, ids, count);
    }
    for (size_t i = 0; i < m.count; i++) {
        m.places[i].begin += (size_t)(text - whole);
        m.places[i].end += (size_t)(text - whole);
    }
    *places = m.places;
    *masks = m.count;
    return sequence_give(status, &m.ids, ids, count);
}

enum qkv_status qkv_masked_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  int32_t mask, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, count);
    QKV_NEED_ALL(ctx, size, text);
    struct qkv_mask_place *places;
    size_t masks;
    enum qkv_status status = qkv_masked_encode_places(ctx, t, text, size, mask, ids, count, &places, &masks);
    free(places);
    return status;
}
