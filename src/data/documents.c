#include "data/documents.h"

#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "text/text.h"

/* Bytes of a block, about: so many that most of its words have come before, and are not encoded again. */
#define BLOCK ((size_t)1 << 20)

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void documents_bad(struct qkv_document_reader *r, char first[256]) {
    if (!*first) snprintf(first, 256, "%s", qkv_message(r->ctx));
    qkv_forgive(r->ctx);
}

/* Ends the file; one that cannot be read is left out with skip_bad. */
static enum qkv_status documents_leave(struct qkv_document_reader *r, enum qkv_status status) {
    struct qkv_text_file *file = &r->files->items[r->place.file];
    const bool bad = status && status != QKV_MEMORY && status != QKV_STOPPED && r->skip_bad;
    file->hash = r->records.bytes.hash;
    if (r->open) r->read += r->records.bytes.file.size;
    qkv_records_close(&r->records);
    r->open = r->failing = false;
    if (status && !bad) return status;
    if (bad) {
        documents_bad(r, r->bad.first_file);
        r->bad.files++;
        /* It was not read to its end. */
        status = qkv_text_file_hash(r->ctx, file->path, &file->hash, r->progress, r->user);
        if (status == QKV_MEMORY || status == QKV_STOPPED) return status;
        qkv_forgive(r->ctx);
    }
    r->place = (struct qkv_document_place){.file = r->place.file + 1};
    return QKV_OK;
}

/* Goes to the place in the open file. All bytes before it are read again. */
static enum qkv_status documents_skip(struct qkv_document_reader *r) {
    const uint64_t position = r->place.position, step = (uint64_t)1 << 24;
    enum qkv_status status = QKV_OK;
    for (uint64_t at = 0; at < position && !status;) {
        status = qkv_train_progress(r->ctx, r->progress, r->user, "reading texts", (double)at, (double)position);
        at += step < position - at ? step : position - at;
        if (!status) status = qkv_records_skip(&r->records, r->place.line, at);
    }
    return status;
}

static enum qkv_status documents_enter(struct qkv_document_reader *r) {
    const char *path = r->files->items[r->place.file].path;
    enum qkv_status status = qkv_records_open(r->ctx, path, &r->records);
    r->json = qkv_records_are_json(path);
    if (!status) status = documents_skip(r);
    r->open = !status;
    return status;
}

/* Holds at least `bytes` bytes; *end: what is held is all, or all before a failure. */
static enum qkv_status documents_hold(struct qkv_document_reader *r, size_t bytes, bool *end) {
    struct qkv_records *records = &r->records;
    *end = false;
    while (!*end && records->end - records->begin < bytes) {
        enum qkv_status status = qkv_records_more(records, end);
        const size_t held = records->end - records->begin;
        if (status && (!held || held > QKV_RECORD_MAX || status == QKV_MEMORY)) return status;
        if (!status) continue;
        qkv_forgive(r->ctx); /* the next call, behind what is held, fails again */
        r->failing = *end = true;
    }
    return QKV_OK;
}

/* Where the next n bytes that are held can be cut; `end`: nothing follows them. */
static size_t documents_cut(const struct qkv_document_reader *r, size_t n, bool end) {
    const char *text = r->records.held + r->records.begin;
    if (!r->json)
        return r->learner ? qkv_learner_cut(r->learner, text, n, end) : qkv_tokenizer_cut(r->tokenizer, text, n, end);
    if (end && !r->failing) return n;
    const char *stop = n ? memrchr(text, '\n', n) : NULL;
    return stop ? (size_t)(stop - text) + 1 : 0;
}

/* The bytes of a plain file before its first NUL, of the next n that are held; n: all. */
static size_t documents_text(const struct qkv_document_reader *r, size_t n) {
    const char *text = r->records.held + r->records.begin, *nul = r->json || !n ? NULL : memchr(text, 0, n);
    return nul ? (size_t)(nul - text) : n;
}

/* The next bytes are no text from a NUL on. */
static enum qkv_status documents_binary(const struct qkv_document_reader *r, size_t nul) {
    const char *text = r->records.held + r->records.begin;
    uint64_t line = r->records.line + 1;
    for (size_t i = 0; i < nul; i++) line += text[i] == '\n';
    return qkv_record_fail(r->ctx, r->records.path, line,
                           "there is a NUL byte, so this is no text; convert the file to UTF-8 first");
}

static enum qkv_status documents_keep(struct qkv_document_reader *r, struct qkv_document_block *b, size_t size,
                                      bool last) {
    struct qkv_records *records = &r->records;
    const char *text = records->held + records->begin;
    char *room = qkv_list_room(r->ctx, b->text, &b->capacity, 0, size, 1);
    if (!room) return QKV_MEMORY;
    memcpy(room, text, size);
    b->text = room;
    b->size = size;
    b->path = records->path;
    b->line = records->line;
    b->json = r->json;
    b->first = r->place.position == 0;
    b->last = last;
    for (const char *c = text; (c = memchr(c, '\n', size - (size_t)(c - text))); c++) records->line++;
    records->begin += size;
    records->position += size;
    r->place.line = records->line;
    r->place.position = records->position;
    return QKV_OK;
}

/* The next block of the open file; size 0: it has ended. A file with a NUL byte ends before it; if that is in its first
 * block, it has no block. */
static enum qkv_status documents_block(struct qkv_document_reader *r, struct qkv_document_block *b) {
    size_t size = 0, n = 0;
    bool end = false;
    b->size = 0;
    if (r->failing) r->records.begin = r->records.end; /* a line that is cut */
    for (size_t bytes = BLOCK; !size && !end; bytes *= 2) {
        enum qkv_status status = documents_hold(r, bytes + 1, &end);
        if (status) return status;
        n = end ? r->records.end - r->records.begin : bytes;
        const size_t held = n + !end, text = documents_text(r, held);
        if (text < held && (!text || !r->place.position)) return documents_binary(r, text);
        if (text < held) {
            n = text;
            end = true;
        }
        size = documents_cut(r, n, end);
    }
    if (!size && r->failing) return documents_block(r, b);
    return size ? documents_keep(r, b, size, end && size == n) : QKV_OK;
}

enum qkv_status qkv_documents_next(struct qkv_document_reader *r, struct qkv_document_block *b, bool *end) {
    for (;;) {
        *end = r->place.file >= r->files->count;
        if (*end) return QKV_OK;
        enum qkv_status status = r->open ? QKV_OK : documents_enter(r);
        if (!status) status = documents_block(r, b);
        if (!status && b->size) {
            b->place = r->place;
            b->bad_files = r->bad.files;
            return QKV_OK;
        }
        status = documents_leave(r, status);
        if (status) return status;
    }
}

double qkv_documents_done(const struct qkv_document_reader *r, double total) {
    const double done = (double)r->read + (r->open ? (double)r->records.bytes.file_at : 0);
    return done < total ? done : total;
}

void qkv_documents_go(struct qkv_document_reader *r, const struct qkv_document_place *place) {
    qkv_documents_close(r);
    r->place = *place;
}

void qkv_documents_close(struct qkv_document_reader *r) {
    if (r->open) qkv_records_close(&r->records);
    r->open = r->failing = false;
}

void qkv_document_block_free(struct qkv_document_block *b) {
    free(b->text);
    qkv_buffer_free(&b->ids);
    *b = (struct qkv_document_block){0};
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* Adds the ids of a text, the first or the last part of its document perhaps, with what stands around a document. */
static enum qkv_status document_put(const struct qkv_document_reader *r, struct qkv_document_block *b,
                                    const int32_t *ids, size_t count, bool first, bool last) {
    const int32_t *before = NULL, *after = NULL, end = qkv_text_end(r->tokenizer);
    size_t before_count = 0, after_count = 0;
    if (!qkv_tokenizer_template(r->tokenizer, &before, &before_count, &after, &after_count))
        before_count = after_count = 0;
    enum qkv_status status = QKV_OK;
    if (first && before_count) status = qkv_buffer_append(NULL, &b->ids, before, before_count * sizeof *before);
    if (!status && count) status = qkv_buffer_append(NULL, &b->ids, ids, count * sizeof *ids);
    if (!status && last && after_count) status = qkv_buffer_append(NULL, &b->ids, after, after_count * sizeof *after);
    if (!status && last && end >= 0) status = qkv_buffer_append(NULL, &b->ids, &end, sizeof end);
    b->documents += last;
    if (last) b->end = b->ids.size / sizeof *ids;
    return status;
}

static enum qkv_status block_text(const struct qkv_document_reader *r, struct qkv_document_block *b) {
    int32_t *ids = NULL;
    size_t count = 0;
    enum qkv_status status = qkv_tokenizer_encode_alone(r->tokenizer, b->text, b->size, &ids, &count);
    if (!status) status = document_put(r, b, ids, count, b->first, b->last);
    free(ids);
    return status;
}

/* One line; QKV_FORMAT if it is wrong. With a context the failure has its sentence. */
static enum qkv_status document_line(struct qkv_context *ctx, const struct qkv_document_reader *r,
                                     const struct qkv_document_block *b, const struct qkv_record *line, json_t **object,
                                     const char **text, size_t *size) {
    enum qkv_status status = qkv_record_parse(ctx, b->path, line, object);
    return status ? status : qkv_record_text(ctx, b->path, line->line, *object, r->key, "text_key", text, size);
}

/* The next line of a block that is not blank; its text NULL: there is none. */
static struct qkv_record document_next(const struct qkv_document_block *b, size_t *at, uint64_t *line) {
    while (*at < b->size) {
        const char *text = b->text + *at, *stop = memchr(text, '\n', b->size - *at);
        const size_t size = stop ? (size_t)(stop - text) : b->size - *at;
        size_t blanks = 0;
        *at += size + (stop != NULL);
        ++*line;
        while (blanks < size && memchr(" \t\r", text[blanks], 3)) blanks++;
        if (blanks < size) return (struct qkv_record){text, size, *line};
    }
    return (struct qkv_record){0};
}

/* The texts of the lines of a block, and the objects that own them. */
struct block_texts {
    json_t **objects;
    struct qkv_word *texts;
    size_t count, object_capacity, text_capacity;
};

static void block_texts_free(struct block_texts *t) {
    for (size_t i = 0; i < t->count; i++) json_decref(t->objects[i]);
    free(t->objects);
    free(t->texts);
}

/* Takes the object over; one without text is no document. */
static enum qkv_status block_add(struct block_texts *t, json_t *object, struct qkv_word text) {
    json_t **objects =
        text.size ? qkv_list_room(NULL, t->objects, &t->object_capacity, t->count, 1, sizeof *objects) : NULL;
    if (objects) t->objects = objects;
    struct qkv_word *texts =
        objects ? qkv_list_room(NULL, t->texts, &t->text_capacity, t->count, 1, sizeof *texts) : NULL;
    if (!texts) {
        json_decref(object);
        return text.size ? QKV_MEMORY : QKV_OK;
    }
    t->texts = texts;
    t->texts[t->count] = text;
    t->objects[t->count++] = object;
    return QKV_OK;
}

static enum qkv_status block_parse(const struct qkv_document_reader *r, struct qkv_document_block *b,
                                   struct block_texts *texts) {
    size_t at = 0;
    uint64_t number = b->line;
    for (struct qkv_record line; (line = document_next(b, &at, &number)).text;) {
        struct qkv_word text = {0};
        json_t *object;
        enum qkv_status status = document_line(NULL, r, b, &line, &object, &text.text, &text.size);
        b->bad_lines += status == QKV_FORMAT;
        if (!status)
            status = block_add(texts, object, text);
        else
            json_decref(object);
        if (status && (status != QKV_FORMAT || !r->skip_bad)) return status;
    }
    return QKV_OK;
}

static enum qkv_status block_lines(const struct qkv_document_reader *r, struct qkv_document_block *b) {
    struct block_texts texts = {0};
    int32_t *ids = NULL;
    enum qkv_status status = block_parse(r, b, &texts);
    size_t *ends = qkv_allocate(NULL, texts.count + 1, sizeof *ends);
    if (!status) status = ends ? QKV_OK : QKV_MEMORY;
    if (!status && texts.count) status = qkv_tokenizer_encode_many(r->tokenizer, texts.texts, texts.count, &ids, ends);
    for (size_t i = 0, begin = 0; i < texts.count && !status; begin = ends[i++])
        status = document_put(r, b, ids + begin, ends[i] - begin, true, true);
    block_texts_free(&texts);
    free(ends);
    free(ids);
    return status;
}

struct documents_work {
    const struct qkv_document_reader *reader;
    struct qkv_document_block *blocks;
};

static void documents_work(void *argument, size_t item, int thread) {
    const struct documents_work *work = argument;
    struct qkv_document_block *b = &work->blocks[item];
    (void)thread;
    b->ids.size = 0;
    b->documents = b->end = b->bad_lines = 0;
    b->status = b->json ? block_lines(work->reader, b) : block_text(work->reader, b);
}

static uint64_t document_lines(const struct qkv_document_block *b) {
    uint64_t lines = b->text[b->size - 1] != '\n';
    for (size_t i = 0; i < b->size; i++) lines += b->text[i] == '\n';
    return lines;
}

static void document_fail_lines(struct qkv_context *ctx, const struct qkv_document_block *b) {
    qkv_fail_at(ctx, "lines %llu to %llu of %s", (unsigned long long)b->line + 1,
                (unsigned long long)(b->line + document_lines(b)), b->path);
}

/* Encodes the text of a block that failed again, for the sentence. With skip_bad the block is left out, and its lines
 * are counted. */
static enum qkv_status block_text_again(struct qkv_document_reader *r, struct qkv_document_block *b) {
    int32_t *ids = NULL;
    size_t count = 0;
    enum qkv_status status = qkv_tokenizer_encode(r->ctx, r->tokenizer, b->text, b->size, true, &ids, &count);
    if (!status) status = document_put(r, b, ids, count, b->first, b->last);
    free(ids);
    if (!status) return QKV_OK;
    document_fail_lines(r->ctx, b);
    if (!r->skip_bad || status == QKV_MEMORY) return status;
    documents_bad(r, r->bad.first_line);
    b->bad_lines = document_lines(b);
    return b->first && b->last ? QKV_OK : document_put(r, b, NULL, 0, b->first, b->last);
}

/* The same of a line. */
static enum qkv_status block_line_again(struct qkv_document_reader *r, struct qkv_document_block *b,
                                        const struct qkv_record *line) {
    const char *text;
    size_t size = 0, count = 0;
    int32_t *ids = NULL;
    json_t *object = NULL;
    enum qkv_status status = document_line(r->ctx, r, b, line, &object, &text, &size);
    if (!status && size) {
        status = qkv_tokenizer_encode(r->ctx, r->tokenizer, text, size, true, &ids, &count);
        if (status == QKV_FORMAT) qkv_record_fail(r->ctx, b->path, line->line, "%s", qkv_message(r->ctx));
        if (!status) status = document_put(r, b, ids, count, true, true);
    }
    free(ids);
    json_decref(object);
    if (!status || !r->skip_bad || status == QKV_MEMORY) return status;
    documents_bad(r, r->bad.first_line);
    b->bad_lines++;
    return QKV_OK;
}

/* Encodes the texts of a block one by one with a context: the first that fails has its sentence, or is left out. */
static enum qkv_status block_again(struct qkv_document_reader *r, struct qkv_document_block *b) {
    size_t at = 0;
    uint64_t number = b->line;
    enum qkv_status status = QKV_OK;
    b->ids.size = 0;
    b->documents = b->end = b->bad_lines = 0;
    if (!b->json) return block_text_again(r, b);
    for (struct qkv_record line; !status && (line = document_next(b, &at, &number)).text;)
        status = block_line_again(r, b, &line);
    return status;
}

enum qkv_status qkv_documents_encode(struct qkv_document_reader *r, struct qkv_document_block *blocks, size_t count) {
    struct documents_work work = {r, blocks};
    qkv_parallel_work(r->ctx, count, documents_work, &work);
    for (size_t i = 0; i < count; i++) {
        struct qkv_document_block *b = &blocks[i];
        if (b->status == QKV_MEMORY) return qkv_fail_memory(r->ctx, b->size, b->path);
        if (!b->status && (!b->bad_lines || *r->bad.first_line)) continue;
        b->status = block_again(r, b);
        if (b->status) return b->status;
    }
    return QKV_OK;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static enum qkv_status text_of_line(struct qkv_document_reader *r, const struct qkv_document_block *b,
                                    struct qkv_document_text *t) {
    for (struct qkv_record line; (line = document_next(b, &t->at, &t->line)).text;) {
        enum qkv_status status = document_line(r->ctx, r, b, &line, &t->object, &t->piece.text, &t->piece.size);
        if (!status && t->piece.size) {
            t->piece.first = t->piece.last = true;
            return QKV_OK;
        }
        json_decref(t->object);
        t->object = NULL;
        t->piece = (struct qkv_text_piece){0};
        if (status && (status != QKV_FORMAT || !r->skip_bad)) return status;
        if (status) qkv_forgive(r->ctx);
    }
    return QKV_OK;
}

enum qkv_status qkv_document_text_next(struct qkv_document_reader *r, const struct qkv_document_block *b,
                                       struct qkv_document_text *t) {
    json_decref(t->object);
    t->object = NULL;
    t->piece = (struct qkv_text_piece){0};
    if (!t->at) t->line = b->line;
    if (b->json) return text_of_line(r, b, t);
    if (!t->at)
        t->piece = (struct qkv_text_piece){.text = b->text, .size = b->size, .first = b->first, .last = b->last};
    t->at = b->size;
    return QKV_OK;
}

void qkv_document_text_fail(struct qkv_context *ctx, const struct qkv_document_block *b,
                            const struct qkv_document_text *t) {
    if (b->json)
        qkv_record_fail(ctx, b->path, t->line, "%s", qkv_message(ctx));
    else
        document_fail_lines(ctx, b);
}

void qkv_document_text_end(struct qkv_document_text *t) {
    json_decref(t->object);
    *t = (struct qkv_document_text){0};
}

/* ---- learning ---------------------------------------------------------------------------------------------------- */

static enum qkv_status documents_read(struct qkv_document_reader *r, const struct qkv_document_block *b,
                                      struct qkv_learner *learner) {
    struct qkv_document_text t = {0};
    enum qkv_status status = qkv_document_text_next(r, b, &t);
    while (!status && t.piece.text) {
        status = qkv_learner_read(learner, t.piece.text, t.piece.size);
        if (status == QKV_FORMAT && r->skip_bad && b->json) {
            qkv_forgive(r->ctx);
            status = QKV_OK;
        }
        if (!status) status = qkv_document_text_next(r, b, &t);
    }
    qkv_document_text_end(&t);
    return status;
}

enum qkv_status qkv_documents_learn(struct qkv_document_reader *r, struct qkv_learner *learner, qkv_progress *progress,
                                    void *user) {
    const double total = (double)qkv_text_files_size(r->files);
    struct qkv_document_block b = {0};
    bool end = false;
    r->learner = learner;
    enum qkv_status status = QKV_OK;
    while (!status && !end) {
        status =
            qkv_train_progress(r->ctx, progress, user, "training the tokenizer", qkv_documents_done(r, total), total);
        if (!status) status = qkv_documents_next(r, &b, &end);
        if (!status && !end) status = documents_read(r, &b, learner);
    }
    r->learner = NULL;
    qkv_document_block_free(&b);
    qkv_documents_close(r);
    return status;
}
