/* The tokenizer: its tokens, encoding and decoding. */
#include "text/chain.h"
#include "text/token_trie.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct qkv_tokenizer *qkv_tokenizer_new(struct qkv_context *ctx) {
    struct qkv_tokenizer *t = qkv_allocate(ctx, 1, sizeof *t);
    if (t) t->unknown = -1;
    return t;
}

void qkv_tokenizer_free(struct qkv_tokenizer *t) {
    if (!t) return;
    free(t->tokens);
    qkv_buffer_free(&t->text);
    qkv_merges_free(&t->merges);
    qkv_chain_free(t->chain);
    free(t->around.ids);
    free(t->around.json);
    qkv_chat_sources_free(&t->chats);
    free(t->languages[0]);
    free(t->languages[1]);
    qkv_token_trie_free(t->trie);
    free(t);
}

static enum qkv_status reserve_tokens(struct qkv_context *ctx, struct qkv_tokenizer *t, size_t count) {
    if (count > INT32_MAX) return qkv_fail(ctx, QKV_FORMAT, "token id %zu is more than %d", count - 1, INT32_MAX - 1);
    struct qkv_token *tokens = qkv_list_room(ctx, t->tokens, &t->capacity, t->count, count - t->count, sizeof *tokens);
    if (!tokens) return QKV_MEMORY;
    t->tokens = tokens;
    for (; t->count < count; t->count++) t->tokens[t->count] = (struct qkv_token){.form = QKV_TOKEN_HOLE};
    return QKV_OK;
}

static enum qkv_status put_token(struct qkv_context *ctx, struct qkv_tokenizer *t, size_t id, const char *bytes,
                                 size_t size, struct qkv_token token) {
    enum qkv_status status = id < t->count ? QKV_OK : reserve_tokens(ctx, t, id + 1);
    if (status) return status;
    if (t->tokens[id].form != QKV_TOKEN_HOLE)
        return qkv_fail(ctx, QKV_FORMAT, "tokens \"%.60s\" and \"%.*s\" both have id %zu; ids must differ",
                        qkv_token_bytes(t, id), (int)(size < 60 ? size : 60), bytes, id);
    const size_t space = token.form == QKV_TOKEN_WORD;
    token.offset = t->text.size;
    token.size = size + space;
    status = qkv_buffer_append(ctx, &t->text, " ", space);
    if (!status) status = qkv_buffer_append(ctx, &t->text, bytes, size);
    if (!status) status = qkv_buffer_append(ctx, &t->text, "", 1);
    if (!status) t->tokens[id] = token;
    return status;
}

enum qkv_status qkv_tokenizer_set(struct qkv_context *ctx, struct qkv_tokenizer *t, size_t id, const char *bytes,
                                  size_t size, enum qkv_token_form form) {
    enum qkv_status status = put_token(ctx, t, id, bytes, size, (struct qkv_token){.form = form, .in_model = true});
    if (status || (form != QKV_TOKEN_TEXT && form != QKV_TOKEN_WORD)) return status;
    struct qkv_string *piece = qkv_strings_add(ctx, &t->chain->vocab, bytes, size);
    if (!piece) return QKV_MEMORY;
    piece->value = (int64_t)id;
    return QKV_OK;
}

enum qkv_status qkv_tokenizer_set_special(struct qkv_context *ctx, struct qkv_tokenizer *t, size_t id, const char *text,
                                          size_t size) {
    struct qkv_chain *c = t->chain;
    if (id >= t->count || t->tokens[id].form == QKV_TOKEN_HOLE) {
        struct qkv_token token = {.form = QKV_TOKEN_RAW, .in_model = false};
        enum qkv_status status = put_token(ctx, t, id, text, size, token);
        if (status) return status;
    }
    struct chain_added *added = qkv_list_room(ctx, c->added, &c->added_capacity, c->added_count, 1, sizeof *added);
    if (!added) return QKV_MEMORY;
    c->added = added;
    c->added[c->added_count++] = (struct chain_added){.id = (int32_t)id, .special = true};
    t->tokens[id].added = true;
    return qkv_finder_add(ctx, c, c->added_count - 1, text, size);
}

enum qkv_status qkv_tokenizer_key(struct qkv_context *ctx, const struct qkv_tokenizer *t, size_t id,
                                  struct qkv_buffer *out) {
    const struct qkv_token *token = &t->tokens[id];
    const unsigned char *bytes = (const unsigned char *)qkv_token_bytes(t, id);
    if (token->form == QKV_TOKEN_BYTE) return qkv_buffer_print(ctx, out, "<0x%02X>", (unsigned)bytes[0]);
    if (token->form == QKV_TOKEN_WORD) return qkv_buffer_append(ctx, out, bytes + 1, token->size - 1);
    if (token->form == QKV_TOKEN_RAW || !t->chain->bytes) return qkv_buffer_append(ctx, out, bytes, token->size);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < token->size && !status; i++) {
        char symbol[4];
        status = qkv_buffer_append(ctx, out, symbol, qkv_utf8_write(qkv_byte_symbol(bytes[i]), symbol));
    }
    return status;
}

int qkv_tokenizer_vocab(const struct qkv_tokenizer *t) {
    if (!t) return 0;
    return (int)t->count;
}

int qkv_tokenizer_unknown(const struct qkv_tokenizer *t) {
    if (!t) return -1;
    return t->unknown;
}

int qkv_tokenizer_special(const struct qkv_tokenizer *t, const char *text) {
    if (!t || !text) return -1;
    size_t size = strlen(text);
    for (size_t i = 0; i < t->chain->added_count; i++) {
        const struct chain_added *added = &t->chain->added[i];
        const struct qkv_token *token = &t->tokens[added->id];
        if (added->special && token->size == size && memcmp(qkv_token_bytes(t, (size_t)added->id), text, size) == 0)
            return added->id;
    }
    return -1;
}

const char *qkv_tokenizer_token(const struct qkv_tokenizer *t, int id, size_t *size) {
    if (!t) return NULL;
    bool known = id >= 0 && (size_t)id < t->count && t->tokens[id].form != QKV_TOKEN_HOLE;
    if (size) *size = known ? t->tokens[id].size : 0;
    return known ? qkv_token_bytes(t, (size_t)id) : NULL;
}

enum qkv_status qkv_tokenizer_decode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                     size_t count, char **text, size_t *size) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, text);
    QKV_NEED(ctx, size);
    QKV_NEED_ALL(ctx, count, ids);
    *text = NULL;
    *size = 0;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n;
        if (!qkv_tokenizer_token(t, ids[i], &n))
            return qkv_fail(ctx, QKV_ARGUMENT, "decode: ids[%zu] is %d, which is not a token; ids are in [0, %zu)", i,
                            (int)ids[i], t->count);
        if (!qkv_add_size(total, n + t->whole_words, &total)) return qkv_fail_memory(ctx, SIZE_MAX, "a decoded text");
    }
    size_t bytes;
    if (!qkv_add_size(total, 1, &bytes)) return qkv_fail_memory(ctx, SIZE_MAX, "a decoded text");
    char *out = qkv_reallocate(ctx, NULL, bytes, 1);
    if (!out) return QKV_MEMORY;
    char *end = out;
    for (size_t i = 0; i < count; i++) {
        const struct qkv_token *token = &t->tokens[ids[i]];
        const bool spaced = token->form == QKV_TOKEN_WORD; /* a space between two words, none before the first */
        const size_t skip = spaced && i == 0;
        if (t->whole_words && !spaced && i > 0) *end++ = ' ';
        memcpy(end, t->text.data + token->offset + skip, token->size - skip);
        end += token->size - skip;
    }
    *end = 0;
    *text = out;
    *size = (size_t)(end - out);
    return QKV_OK;
}

static enum qkv_status tokenizer_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                        size_t size, bool specials, int32_t **ids, struct chain_span **spans,
                                        size_t *count) {
    *ids = NULL;
    *count = 0;
    if (!text && size > 0) return qkv_fail(ctx, QKV_ARGUMENT, "encode: the text is NULL but its size is %zu", size);
    return qkv_chain_encode(ctx, t, text ? text : "", size, specials, -1, ids, spans, count);
}

enum qkv_status qkv_tokenizer_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                     size_t size, bool specials, int32_t **ids, size_t *count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, count);
    return tokenizer_encode(ctx, t, text, size, specials, ids, NULL, count);
}

enum qkv_status qkv_tokenizer_encode_alone(const struct qkv_tokenizer *t, const char *text, size_t size, int32_t **ids,
                                           size_t *count) {
    return tokenizer_encode(NULL, t, text, size, true, ids, NULL, count);
}

enum qkv_status qkv_tokenizer_encode_many(const struct qkv_tokenizer *t, const struct qkv_word *texts, size_t count,
                                          int32_t **ids, size_t *ends) {
    return qkv_chain_encode_many(t, texts, count, ids, ends);
}

enum qkv_status qkv_tokenizer_encode_spans(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                           size_t size, bool specials, int32_t **ids, size_t **spans, size_t *count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, t);
    QKV_NEED(ctx, ids);
    QKV_NEED(ctx, spans);
    QKV_NEED(ctx, count);
    struct chain_span *found = NULL;
    *spans = NULL;
    if (size > UINT32_MAX / 4)
        return qkv_fail(ctx, QKV_ARGUMENT, "encode: the text has %zu bytes; spans are given for less than 1 GiB", size);
    enum qkv_status status = tokenizer_encode(ctx, t, text, size, specials, ids, &found, count);
    size_t *out = status ? NULL : qkv_allocate(ctx, *count + 1, 2 * sizeof *out);
    for (size_t i = 0; out && i < *count; i++) {
        out[2 * i] = found[i].begin;
        out[2 * i + 1] = found[i].end;
    }
    free(found);
    if (!status && !out) {
        free(*ids);
        *ids = NULL;
        *count = 0;
        return QKV_MEMORY;
    }
    *spans = out;
    return status;
}
