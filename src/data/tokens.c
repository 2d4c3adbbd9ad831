/* Token files: a tokenized text on disk, of which windows are read, so a corpus may be larger than memory.
 *
 * 64 bytes of header, all little-endian: "qkvtoken", u32 version 1, u32 width (2 or 4 bytes a token), then u64 vocab,
 * tokens, bytes of the text, hash of the text, hash of tokenizer.json, 0. The tokens follow. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"
#include "data/data.h"

#define MAGIC   "qkvtoken"
#define VERSION 1

struct header {
    char magic[8];
    uint32_t version, width;
    uint64_t vocab, tokens, bytes, hash, tokenizer, zero;
};
_Static_assert(sizeof(struct header) == 64, "the header has no padding");

static struct header make_header(const struct qkv_text_facts *facts) {
    struct header header = {.version = VERSION, .width = facts->vocab <= 65536 ? 2 : 4};
    memcpy(header.magic, MAGIC, sizeof header.magic);
    header.vocab = facts->vocab;
    header.tokens = facts->tokens;
    header.bytes = facts->bytes;
    header.hash = facts->hash;
    header.tokenizer = facts->tokenizer;
    return header;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static enum qkv_status write_ids(struct qkv_replace *replace, size_t width, const int32_t *ids, size_t count) {
    uint16_t narrow[4096];
    const size_t room = sizeof narrow / sizeof *narrow;
    if (width == 4) return qkv_replace_write(replace, ids, count * sizeof *ids);
    for (size_t begin = 0; begin < count; begin += room) {
        size_t n = count - begin < room ? count - begin : room;
        for (size_t i = 0; i < n; i++) narrow[i] = (uint16_t)ids[begin + i];
        enum qkv_status status = qkv_replace_write(replace, narrow, n * sizeof *narrow);
        if (status) return status;
    }
    return QKV_OK;
}

enum qkv_status qkv_tokens_begin(struct qkv_context *ctx, const char *path, struct qkv_text_facts *facts,
                                 struct qkv_tokens_writer *writer) {
    *writer = (struct qkv_tokens_writer){.facts = facts};
    facts->tokens = 0;
    struct header header = make_header(facts);
    enum qkv_status status = qkv_replace_begin(ctx, path, &writer->replace);
    if (!status) status = qkv_replace_write(&writer->replace, &header, sizeof header);
    return status;
}

enum qkv_status qkv_tokens_put(struct qkv_tokens_writer *writer, const int32_t *ids, size_t count) {
    writer->facts->tokens += count;
    return write_ids(&writer->replace, make_header(writer->facts).width, ids, count);
}

enum qkv_status qkv_tokens_end(struct qkv_tokens_writer *writer, enum qkv_status status) {
    struct qkv_replace *replace = &writer->replace;
    if (!replace->file) return status;
    struct header header = make_header(writer->facts); /* now that the tokens are counted */
    if (!status && fseeko(replace->file, 0, SEEK_SET) != 0)
        status = qkv_fail_file(replace->ctx, "write", replace->path, errno);
    if (!status) status = qkv_replace_write(replace, &header, sizeof header);
    if (!status) return qkv_replace_commit(replace);
    qkv_replace_cancel(replace);
    return status;
}

/* How far a text of several files is written. */
struct text_writer {
    struct qkv_tokens_writer *writer;
    struct qkv_text_stream stream;
    double before, total; /* bytes of the files before; of all of them */
    uint64_t unknown;     /* tokens */
    qkv_progress *progress;
    void *user;
};

static enum qkv_status write_cut(void *user, struct qkv_text_piece *piece) {
    struct text_writer *w = user;
    return qkv_text_cut(&w->stream, piece);
}

static void write_pass(void *user, const struct qkv_text_piece *piece) {
    struct text_writer *w = user;
    qkv_text_take(&w->stream, piece->size);
}

static enum qkv_status write_encode(void *user, const struct qkv_text_piece *piece, struct qkv_buffer *made) {
    struct text_writer *w = user;
    return qkv_text_encode(w->stream.ctx, w->stream.tokenizer, w->stream.path, piece, made);
}

static enum qkv_status write_take(void *user, const struct qkv_text_piece *piece, struct qkv_buffer *made) {
    struct text_writer *w = user;
    int32_t *ids = (int32_t *)(void *)made->data;
    size_t count = made->size / sizeof *ids;
    enum qkv_status status = qkv_text_frame(&w->stream, piece, &ids, &count);
    made->data = (char *)ids;
    if (status) qkv_fail_at(w->stream.ctx, "%s", w->stream.path);
    if (status) return status;
    w->unknown += qkv_tokens_unknown(w->stream.tokenizer, ids, count);
    return qkv_tokens_put(w->writer, ids, count);
}

static enum qkv_status write_text(struct text_writer *w) {
    struct qkv_text_stream *stream = &w->stream;
    const struct qkv_rank_file file = {.ctx = stream->ctx,
                                       .state = w,
                                       .cut = write_cut,
                                       .pass = write_pass,
                                       .encode = write_encode,
                                       .take = write_take};
    enum qkv_status status = qkv_rank_tell_file(stream->ctx, stream->path);
    bool end = false;
    stream->piece = QKV_RANK_PIECE;
    while (!status && !end) {
        status = qkv_train_progress(stream->ctx, w->progress, w->user, "tokenizing",
                                    w->before + (double)stream->position, w->total);
        if (!status) status = qkv_rank_file_next(&file, &end);
    }
    return status;
}

uint64_t qkv_tokens_unknown(const struct qkv_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    const int unknown = qkv_tokenizer_unknown(tokenizer);
    uint64_t n = 0;
    for (size_t i = 0; i < count && unknown >= 0; i++) n += ids[i] == unknown;
    return n;
}

enum qkv_status qkv_tokens_note_unknown(struct qkv_context *ctx, uint64_t count, const struct qkv_text_files *files,
                                        struct qkv_texts *notes) {
    char name[QKV_FILES_NAME];
    if (count == 0 || !notes) return QKV_OK;
    return qkv_texts_add(ctx, notes, "%llu token%s of %s %s not in the vocabulary: each is " QKV_TOKEN_UNKNOWN,
                         (unsigned long long)count, count == 1 ? "" : "s", qkv_text_files_name(files, name),
                         count == 1 ? "is" : "are");
}

/* A file, and behind it the end token where there is one. */
static enum qkv_status write_file(struct text_writer *w, struct qkv_context *ctx, struct qkv_text_file *file,
                                  const struct qkv_tokenizer *tokenizer, int32_t end,
                                  struct qkv_text_findings *findings) {
    struct qkv_text_check check = {0};
    uint64_t before = w->writer->facts->tokens;
    enum qkv_status status = qkv_text_open_file(ctx, file, tokenizer, &w->stream);
    if (status) return status;
    w->stream.check = &check;
    file->bytes = w->stream.file.size;
    status = write_text(w);
    file->hash = w->stream.hash;
    if (!status && end >= 0) status = qkv_tokens_put(w->writer, &end, 1);
    file->tokens = w->writer->facts->tokens - before;
    w->before += (double)file->bytes;
    qkv_text_check_end(findings, &check, file->path);
    qkv_text_close(&w->stream);
    return status;
}

int32_t qkv_text_end(const struct qkv_tokenizer *tokenizer) {
    const int32_t *before, *after;
    size_t before_count, after_count;
    if (qkv_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count) && after_count) return -1;
    int end = qkv_tokenizer_special(tokenizer, QKV_TOKEN_TEXT_END);
    return end >= 0 ? end : qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_END);
}

enum qkv_status qkv_tokens_write(struct qkv_context *ctx, const char *path, struct qkv_text_files *files,
                                 const struct qkv_tokenizer *tokenizer, struct qkv_text_facts *facts,
                                 struct qkv_texts *notes, qkv_progress *progress, void *user) {
    struct qkv_tokens_writer writer;
    struct qkv_text_findings findings = {0};
    struct text_writer w = {
        .writer = &writer, .total = (double)qkv_text_files_size(files), .progress = progress, .user = user};
    enum qkv_status status = qkv_tokens_begin(ctx, path, facts, &writer);
    if (!status) status = qkv_rank_tell_tokenizer(ctx, 0, tokenizer);
    for (size_t i = 0; i < files->count && !status; i++) {
        int32_t end = i + 1 < files->count ? qkv_text_end(tokenizer) : -1;
        status = write_file(&w, ctx, &files->items[i], tokenizer, end, &findings);
    }
    qkv_text_files_sum(files, facts);
    status = qkv_tokens_end(&writer, status);
    if (!status && notes) status = qkv_text_findings_note(ctx, &findings, notes);
    for (size_t k = 0; k < QKV_TEXT_FINDINGS; k++)
        if (findings.kind[k].path && findings.kind[k].check.invalid) return status; /* that note says what they are */
    return status ? status : qkv_tokens_note_unknown(ctx, w.unknown, files, notes);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static enum qkv_status check_header(const struct qkv_file *file, const struct qkv_text_facts *facts) {
    const char *way_out = "remove it, and it is made again from the text";
    struct qkv_context *ctx = file->ctx;
    struct header header, expected = make_header(facts);
    if (file->size < sizeof header)
        return qkv_fail(ctx, QKV_FORMAT, "%s is cut off: %zu bytes are less than a header; %s", file->path, file->size,
                        way_out);
    enum qkv_status status = qkv_file_read(file, 0, &header, sizeof header);
    if (status) return status;
    if (memcmp(header.magic, MAGIC, sizeof header.magic) != 0)
        return qkv_fail(ctx, QKV_FORMAT, "%s is not a token file; %s", file->path, way_out);
    if (header.version != VERSION)
        return qkv_fail(ctx, QKV_FORMAT, "%s is of version %u, this library reads version %d; %s", file->path,
                        (unsigned)header.version, VERSION, way_out);
    if (memcmp(&header, &expected, sizeof header) != 0)
        return qkv_fail(ctx, QKV_FORMAT,
                        "%s holds another text's or another tokenizer's tokens than train.json says; %s", file->path,
                        way_out);
    size_t bytes;
    if (!qkv_multiply((size_t)header.tokens, header.width, &bytes) || !qkv_add_size(bytes, sizeof header, &bytes) ||
        bytes != file->size)
        return qkv_fail(ctx, QKV_FORMAT, "%s has %zu bytes, not those of its %llu tokens; %s", file->path, file->size,
                        (unsigned long long)header.tokens, way_out);
    return QKV_OK;
}

enum qkv_status qkv_tokens_open(struct qkv_context *ctx, const char *path, const struct qkv_text_facts *facts,
                                struct qkv_tokens *tokens) {
    *tokens = (struct qkv_tokens){.path = path};
    if (facts->vocab > INT32_MAX)
        return qkv_fail(ctx, QKV_FORMAT, "%s: a vocabulary of %llu is too large", path,
                        (unsigned long long)facts->vocab);
    enum qkv_status status = qkv_file_open(ctx, path, &tokens->file);
    if (!status) status = check_header(&tokens->file, facts);
    if (status) {
        qkv_tokens_close(tokens);
        return status;
    }
    tokens->count = (size_t)facts->tokens;
    tokens->width = make_header(facts).width;
    tokens->vocab = (int32_t)facts->vocab;
    return QKV_OK;
}

void qkv_tokens_close(struct qkv_tokens *tokens) {
    qkv_file_close(&tokens->file);
    qkv_unmap_file(&tokens->all);
    *tokens = (struct qkv_tokens){0};
}

enum qkv_status qkv_tokens_outside(struct qkv_context *ctx, const struct qkv_tokens *tokens, size_t i) {
    return qkv_fail(
        ctx, QKV_FORMAT,
        "%s: token %zu is outside the vocabulary of %d; remove the file, and it is made again from the text",
        tokens->path, tokens->start + i, (int)tokens->vocab);
}

static enum qkv_status tokens_copy(const struct qkv_tokens *tokens, size_t start, size_t count, void *out) {
    size_t width = tokens->width, at = sizeof(struct header) + (tokens->start + start) * width;
    enum qkv_status status = qkv_file_read(&tokens->file, at, out, count * width);
    if (status) {
        char said[sizeof tokens->file.ctx->message];
        memcpy(said, tokens->file.ctx->message, sizeof said);
        qkv_fail(tokens->file.ctx, status, "%s; or remove it, and it is made again from the text", said);
    }
    return status;
}

struct qkv_tokens qkv_tokens_part(const struct qkv_tokens *whole, size_t begin, size_t count) {
    struct qkv_tokens part = *whole;
    part.start += begin; /* the whole owns the file */
    part.count = count;
    return part;
}

/* The part that has a token of a join. */
static size_t tokens_find(const struct qkv_tokens_join *join, size_t at) {
    size_t low = 0, high = join->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (join->before[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static enum qkv_status tokens_read_join(const struct qkv_tokens *tokens, size_t start, size_t count, int32_t *ids) {
    const struct qkv_tokens_join *join = tokens->join;
    size_t at = tokens->start + start;
    enum qkv_status status = QKV_OK;
    for (size_t part = tokens_find(join, at); count && !status; part++) {
        const size_t n = qkv_min(count, (size_t)join->before[part + 1] - at);
        if (n) status = qkv_tokens_read(&join->parts[part], at - (size_t)join->before[part], n, ids);
        at += n;
        ids += n;
        count -= n;
    }
    return status;
}

enum qkv_status qkv_tokens_read(const struct qkv_tokens *tokens, size_t start, size_t count, int32_t *ids) {
    if (tokens->join) return tokens_read_join(tokens, start, count, ids);
    unsigned char *bytes = (unsigned char *)ids + count * (sizeof *ids - tokens->width);
    enum qkv_status status = tokens_copy(tokens, start, count, bytes);
    if (status) return status;
    for (size_t i = 0; i < count; i++) {
        uint16_t narrow;
        uint32_t id;
        if (tokens->width == 2) { /* they end where the ids end, so that none is written over before it is read */
            memcpy(&narrow, bytes + 2 * i, sizeof narrow);
            id = narrow;
        } else {
            memcpy(&id, bytes + 4 * i, sizeof id);
        }
        if (id >= (uint32_t)tokens->vocab) return qkv_tokens_outside(tokens->file.ctx, tokens, start + i);
        ids[i] = (int32_t)id;
    }
    return QKV_OK;
}

size_t qkv_tokens_bytes(const struct qkv_tokens *tokens) {
    return tokens->count * tokens->width; /* no more than the file has, so it fits */
}

enum qkv_status qkv_tokens_load(struct qkv_tokens *tokens) {
    const size_t bytes = qkv_tokens_bytes(tokens);
    unsigned char *data = qkv_allocate(tokens->file.ctx, bytes, 1);
    if (!data) return QKV_MEMORY;
    enum qkv_status status = tokens_copy(tokens, 0, tokens->count, data);
    qkv_unmap_file(&tokens->all);
    tokens->all = (struct qkv_map){.data = data, .size = bytes};
    return status;
}

int32_t qkv_tokens_at(const struct qkv_tokens *tokens, size_t i) {
    uint16_t narrow;
    uint32_t wide;
    if (tokens->width == 2) {
        memcpy(&narrow, tokens->all.data + 2 * i, sizeof narrow);
        wide = narrow;
    } else {
        memcpy(&wide, tokens->all.data + 4 * i, sizeof wide);
    }
    return wide < (uint32_t)tokens->vocab ? (int32_t)wide : -1;
}

enum qkv_status qkv_tokens_window(struct qkv_context *ctx, const struct qkv_tokens *tokens, size_t start, size_t T,
                                  int32_t *ids, int32_t *targets) {
    (void)ctx;
    enum qkv_status status = qkv_tokens_read(tokens, start, 1, ids);
    if (!status) status = qkv_tokens_read(tokens, start + 1, T, targets);
    if (!status) memcpy(ids + 1, targets, (T - 1) * sizeof *ids);
    return status;
}
