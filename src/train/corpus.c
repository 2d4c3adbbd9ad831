/* Texts of any size as a stream of tokens: the file is mapped and encoded piece by piece, cut where the tokenizer says
 * that a cut changes nothing, so memory holds one piece at a time. And the hash that texts are told apart by. */
#include <string.h>

#include "train/train.h"

#define PIECE ((size_t)1 << 20)
#define LOOK  ((size_t)1 << 16) /* bytes looked at before any work is done */

enum qkv_status qkv_hash_file(struct qkv_context *ctx, const char *path, uint64_t *hash) {
    struct qkv_map map;
    enum qkv_status status = qkv_map_file(ctx, path, &map);
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

static enum qkv_status check_text(const struct qkv_text_stream *stream, size_t begin, size_t size) {
    const unsigned char *text = stream->map.data + begin, *nul = stream->binary ? NULL : memchr(text, 0, size);
    if (!nul) return QKV_OK;
    return qkv_fail(stream->ctx, QKV_FORMAT,
                    "%s is not a text: byte %zu is NUL; convert it to UTF-8 first, or train with tokenizer bytes, "
                    "which takes any file",
                    stream->path, begin + (size_t)(nul - text));
}

enum qkv_status qkv_text_open(struct qkv_context *ctx, const char *path, const struct qkv_tokenizer *tokenizer,
                              struct qkv_text_stream *stream) {
    *stream = (struct qkv_text_stream){.ctx = ctx, .tokenizer = tokenizer, .path = path};
    enum qkv_status status = qkv_map_file(ctx, path, &stream->map);
    if (status) return status;
    if (stream->map.size == 0) return qkv_fail(ctx, QKV_FORMAT, "%s is empty; give a file with text in it", path);
    stream->binary = tokenizer && is_bare_bytes(tokenizer);
    status = check_text(stream, 0, stream->map.size < LOOK ? stream->map.size : LOOK);
    if (status) qkv_text_close(stream);
    return status;
}

void qkv_text_close(struct qkv_text_stream *stream) {
    qkv_unmap_file(&stream->map);
}

/* Places the template before the first piece of a text and after the last. */
static enum qkv_status place_template(struct qkv_text_stream *stream, bool first, bool last, int32_t **ids,
                                      size_t *count) {
    const int32_t *before, *after;
    size_t total;
    if (!qkv_tokenizer_template(stream->tokenizer, &before, &stream->before, &after, &stream->after)) return QKV_OK;
    if (!first) stream->before = 0;
    if (!last) stream->after = 0;
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

enum qkv_status qkv_text_next(struct qkv_text_stream *stream, int32_t **ids, size_t *count) {
    *ids = NULL;
    stream->before = stream->after = 0;
    *count = 0;
    const char *text = (const char *)stream->map.data + stream->position;
    size_t left = stream->map.size - stream->position, take = 0;
    if (left == 0) return QKV_OK;
    for (size_t piece = PIECE; take == 0; piece *= 2) {
        bool end = piece >= left;
        take = qkv_tokenizer_cut(stream->tokenizer, text, end ? left : piece, end);
    }
    enum qkv_status status = check_text(stream, stream->position, take);
    if (!status && stream->check) qkv_text_check_piece(stream->check, text, take, take == left, stream->binary);
    if (!status) status = qkv_tokenizer_encode(stream->ctx, stream->tokenizer, text, take, true, ids, count);
    if (!status) status = place_template(stream, stream->position == 0, take == left, ids, count);
    if (status) {
        qkv_fail_at(stream->ctx, "%s", stream->path);
        qkv_free(*ids);
        *ids = NULL;
    }
    stream->position += take;
    return status;
}
