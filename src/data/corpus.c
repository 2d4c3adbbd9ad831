/* Texts of any size as a stream of tokens: the file is read and encoded piece by piece, cut where the tokenizer says
 * that a cut changes nothing, so memory holds one piece at a time. And the hash that texts are told apart by. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "text/text.h"

#define PIECE ((size_t)1 << 20) /* of a text, encoded at a time */
#define LOOK  ((size_t)1 << 16) /* bytes looked at before any work is done */

enum qkv_status qkv_hash_file(struct qkv_context *ctx, const char *path, uint64_t *hash) {
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    *hash = qkv_hash(QKV_HASH_START, map.data, map.size);
    qkv_unmap_file(&map);
    return QKV_OK;
}

/* Whether every token is one byte and nothing else, as the kind "bytes" makes them. Others always have more tokens. */
static bool is_bare_bytes(const struct qkv_tokenizer *tokenizer) {
    if (qkv_tokenizer_vocab(tokenizer) != 256) return false;
    for (int id = 0; id < 256; id++) {
        size_t size;
        if (!qkv_tokenizer_token(tokenizer, id, &size) || size != 1) return false;
    }
    return true;
}

static enum qkv_status check_text(const struct qkv_text_stream *stream, size_t size) {
    const char *nul = stream->binary ? NULL : memchr(stream->text, 0, size);
    if (!nul) return QKV_OK;
    return qkv_fail(stream->ctx, QKV_FORMAT,
                    "%s is not a text: byte %zu is NUL; convert it to UTF-8 first, or train with tokenizer bytes, "
                    "which takes any file",
                    stream->path, stream->position + (size_t)(nul - stream->text));
}

static enum qkv_status text_begin(struct qkv_text_stream *stream) {
    bool end;
    stream->piece = PIECE;
    stream->binary = stream->tokenizer && is_bare_bytes(stream->tokenizer);
    enum qkv_status status =
        stream->file.size ? qkv_text_hold(stream, LOOK, &end)
                          : qkv_fail(stream->ctx, QKV_FORMAT, "%s is empty; give a file with text in it", stream->path);
    if (!status) status = check_text(stream, stream->held < LOOK ? stream->held : LOOK);
    if (status) qkv_text_close(stream);
    return status;
}

enum qkv_status qkv_text_open(struct qkv_context *ctx, const char *path, const struct qkv_tokenizer *tokenizer,
                              struct qkv_text_stream *stream) {
    *stream = (struct qkv_text_stream){.ctx = ctx, .tokenizer = tokenizer, .path = path, .hash = QKV_HASH_START};
    enum qkv_status status = qkv_file_open(ctx, path, &stream->file);
    return status ? status : text_begin(stream);
}

enum qkv_status qkv_text_open_file(struct qkv_context *ctx, const struct qkv_text_file *file,
                                   const struct qkv_tokenizer *tokenizer, struct qkv_text_stream *stream) {
    if (!file->kept.data) return qkv_text_open(ctx, file->path, tokenizer, stream);
    *stream = (struct qkv_text_stream){
        .ctx = ctx, .tokenizer = tokenizer, .path = file->path, .hash = QKV_HASH_START, .whole = &file->kept};
    stream->file.size = file->kept.size;
    return text_begin(stream);
}

void qkv_text_close(struct qkv_text_stream *stream) {
    qkv_file_close(&stream->file);
    free(stream->text);
    stream->text = NULL;
    stream->held = stream->capacity = 0;
}

enum qkv_status qkv_text_hold(struct qkv_text_stream *stream, size_t bytes, bool *end) {
    size_t left = stream->file.size - stream->position;
    if (bytes > left) bytes = left;
    *end = bytes == left;
    if (bytes <= stream->held) return QKV_OK;
    if (bytes > stream->capacity) {
        char *text = qkv_reallocate(stream->ctx, stream->text, bytes, 1);
        if (!text) return QKV_MEMORY;
        stream->text = text;
        stream->capacity = bytes;
    }
    size_t from = stream->position + stream->held, n = bytes - stream->held;
    enum qkv_status status = QKV_OK;
    if (stream->whole)
        memcpy(stream->text + stream->held, stream->whole->data + from, n);
    else
        status = qkv_file_read(&stream->file, from, stream->text + stream->held, n);
    if (!status) stream->held = bytes;
    return status;
}

void qkv_text_take(struct qkv_text_stream *stream, size_t bytes) {
    stream->hash = qkv_hash(stream->hash, stream->text, bytes);
    stream->position += bytes;
    stream->held -= bytes;
    memmove(stream->text, stream->text + bytes, stream->held);
}

enum qkv_status qkv_text_cut(struct qkv_text_stream *stream, struct qkv_text_piece *piece) {
    *piece = (struct qkv_text_piece){.first = stream->position == 0, .last = true};
    if (stream->position == stream->file.size) return QKV_OK;
    for (size_t bytes = stream->piece; piece->size == 0; bytes *= 2) {
        bool end;
        enum qkv_status status = qkv_text_hold(stream, bytes, &end);
        if (status) return status;
        piece->size = qkv_tokenizer_cut(stream->tokenizer, stream->text, end ? stream->held : bytes, end);
    }
    piece->text = stream->text;
    piece->last = stream->position + piece->size == stream->file.size;
    enum qkv_status status = check_text(stream, piece->size);
    if (status)
        qkv_fail_at(stream->ctx, "%s", stream->path);
    else if (stream->check)
        qkv_text_check_piece(stream->check, stream->text, piece->size, piece->last, stream->binary);
    return status;
}

enum qkv_status qkv_text_encode(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer, const char *path,
                                const struct qkv_text_piece *piece, struct qkv_buffer *made) {
    int32_t *ids;
    size_t count;
    enum qkv_status status = qkv_tokenizer_encode(ctx, tokenizer, piece->text, piece->size, true, &ids, &count);
    if (status) qkv_fail_at(ctx, "%s", path);
    if (!status) *made = (struct qkv_buffer){.data = (char *)ids, .size = count * sizeof *ids};
    return status;
}

enum qkv_status qkv_text_frame(struct qkv_text_stream *stream, const struct qkv_text_piece *piece, int32_t **ids,
                               size_t *count) {
    const int32_t *before, *after;
    size_t total;
    stream->before = stream->after = 0;
    if (!qkv_tokenizer_template(stream->tokenizer, &before, &stream->before, &after, &stream->after)) return QKV_OK;
    if (!piece->first) stream->before = 0;
    if (!piece->last) stream->after = 0;
    if (!qkv_add_size(*count, stream->before + stream->after, &total))
        return qkv_fail_memory(stream->ctx, SIZE_MAX, "the ids of a text");
    if (total == *count) return QKV_OK;
    int32_t *all = qkv_reallocate(stream->ctx, *ids, total, sizeof *all);
    if (!all) return QKV_MEMORY;
    if (*count) memmove(all + stream->before, all, *count * sizeof *all);
    if (stream->before) memcpy(all, before, stream->before * sizeof *all);
    if (stream->after) memcpy(all + stream->before + *count, after, stream->after * sizeof *all);
    *ids = all;
    *count = total;
    return QKV_OK;
}

/* ---- tokens with their bytes ------------------------------------------------------------------------------------- */

void qkv_text_tokens_free(struct qkv_text_tokens *tokens) {
    qkv_free(tokens->ids);
    free(tokens->bytes);
    *tokens = (struct qkv_text_tokens){0};
}

/* Whether the tokens spell the piece byte for byte; then their sizes are their bytes. */
static bool tokens_spell(const struct qkv_tokenizer *tokenizer, const struct qkv_text_piece *piece,
                         struct qkv_text_tokens *tokens) {
    size_t at = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        const char *token = qkv_tokenizer_token(tokenizer, tokens->ids[i], &tokens->bytes[i]);
        if (!token || tokens->bytes[i] > piece->size - at) return false;
        if (memcmp(token, piece->text + at, tokens->bytes[i]) != 0) return false;
        at += tokens->bytes[i];
    }
    return at == piece->size;
}

/* The same tokens, with bytes by their places in the piece. */
static enum qkv_status tokens_place(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer,
                                    const struct qkv_text_piece *piece, struct qkv_text_tokens *tokens) {
    size_t *spans, at = 0;
    qkv_text_tokens_free(tokens);
    enum qkv_status status = qkv_tokenizer_encode_spans(ctx, tokenizer, piece->text, piece->size, true, &tokens->ids,
                                                        &spans, &tokens->count);
    if (status) return status;
    tokens->bytes = qkv_allocate(ctx, tokens->count + 1, sizeof *tokens->bytes);
    for (size_t i = 0; tokens->bytes && i < tokens->count; i++) {
        const size_t end = i + 1 < tokens->count ? spans[2 * i + 1] : piece->size;
        if (end <= at) continue;
        tokens->bytes[i] = end - at;
        at = end;
    }
    qkv_free(spans);
    return tokens->bytes ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_text_tokens_of(struct qkv_context *ctx, const struct qkv_tokenizer *tokenizer,
                                   const struct qkv_text_piece *piece, struct qkv_text_tokens *tokens) {
    *tokens = (struct qkv_text_tokens){0};
    enum qkv_status status =
        qkv_tokenizer_encode(ctx, tokenizer, piece->text, piece->size, true, &tokens->ids, &tokens->count);
    if (status) return status;
    tokens->bytes = qkv_allocate(ctx, tokens->count + 1, sizeof *tokens->bytes);
    if (!tokens->bytes) return QKV_MEMORY;
    return tokens_spell(tokenizer, piece, tokens) ? QKV_OK : tokens_place(ctx, tokenizer, piece, tokens);
}

size_t qkv_text_token_bytes(const struct qkv_tokenizer *tokenizer, int32_t id) {
    size_t size = 0;
    const char *text = qkv_tokenizer_token(tokenizer, id, &size);
    if (!text || (tokenizer->tokens[id].added && qkv_tokenizer_special(tokenizer, text) == id)) return 0;
    const bool spaced = tokenizer->whole_words && tokenizer->tokens[id].form != QKV_TOKEN_WORD;
    return size + spaced; /* decoding puts a space between words */
}

/* The template around the tokens, whose own tokens have no bytes. */
static enum qkv_status tokens_frame(struct qkv_text_stream *stream, const struct qkv_text_piece *piece,
                                    struct qkv_text_tokens *tokens) {
    const size_t inside = tokens->count;
    enum qkv_status status = qkv_text_frame(stream, piece, &tokens->ids, &tokens->count);
    if (status || tokens->count == inside) return status;
    size_t *bytes = qkv_reallocate(stream->ctx, tokens->bytes, tokens->count, sizeof *bytes);
    if (!bytes) return QKV_MEMORY;
    tokens->bytes = bytes;
    memmove(bytes + stream->before, bytes, inside * sizeof *bytes);
    memset(bytes, 0, stream->before * sizeof *bytes);
    memset(bytes + stream->before + inside, 0, stream->after * sizeof *bytes);
    return QKV_OK;
}

enum qkv_status qkv_text_next(struct qkv_text_stream *stream, struct qkv_text_tokens *tokens) {
    struct qkv_text_piece piece;
    *tokens = (struct qkv_text_tokens){0};
    stream->before = stream->after = 0;
    enum qkv_status status = qkv_text_cut(stream, &piece);
    if (status || !piece.size) return status;
    status = qkv_text_tokens_of(stream->ctx, stream->tokenizer, &piece, tokens);
    if (!status && tokens->count) tokens->bytes[0] += stream->spare;
    if (!status) stream->spare = tokens->count ? 0 : stream->spare + piece.size;
    if (!status) status = tokens_frame(stream, &piece, tokens);
    if (status) qkv_fail_at(stream->ctx, "%s", stream->path);
    qkv_text_take(stream, piece.size);
    return status;
}
