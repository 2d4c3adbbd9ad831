/* Files of two fields a line, read in place: every line is checked when it is reached, and a failure names file and
 * line. */
#include <stdlib.h>
#include <string.h>

#include "data/corpus.h"
#include "data/data.h"
#include "data/tsv.h"
#include "data/unpack_file.h"

enum qkv_status qkv_tsv_fail(const struct qkv_tsv *tsv, size_t line, const char *format, ...) {
    char sentence[sizeof tsv->ctx->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return qkv_fail(tsv->ctx, QKV_FORMAT, "%s:%zu: %s", tsv->path, line, sentence);
}

enum qkv_status qkv_tsv_fail_at(const struct qkv_tsv *tsv, size_t line, enum qkv_status status) {
    qkv_fail_at(tsv->ctx, "%s:%zu", tsv->path, line);
    return status;
}

static bool is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!memchr(" \t\r\n", text[i], 4)) return false;
    return true;
}

static size_t line_of(const struct qkv_tsv *tsv, const unsigned char *place) {
    size_t line = 1;
    for (const unsigned char *c = tsv->map.data; (c = memchr(c, '\n', (size_t)(place - c))); c++) line++;
    return line;
}

/* Looks at all of a file that is in memory. */
static enum qkv_status tsv_begin(struct qkv_tsv *tsv) {
    enum qkv_status status = QKV_OK;
    const char *encoding = qkv_byte_order_mark(tsv->map.data, tsv->map.size);
    tsv->mark = encoding && strcmp(encoding, "UTF-8") == 0;
    qkv_tsv_rewind(tsv);
    const unsigned char *nul = tsv->map.size ? memchr(tsv->map.data, 0, tsv->map.size) : NULL;
    if (encoding && !tsv->mark)
        status = qkv_byte_order_mark_refuse(tsv->ctx, tsv->path, tsv->map.data, tsv->map.size);
    else if (tsv->map.size == 0 || is_blank((const char *)tsv->map.data + tsv->position, tsv->map.size - tsv->position))
        status = tsv->second
                     ? qkv_fail(tsv->ctx, QKV_FORMAT, "%s is empty; give a file with a %s, a tab and a %s in each line",
                                tsv->path, tsv->first, tsv->second)
                     : qkv_fail(tsv->ctx, QKV_FORMAT, "%s is empty; give a file with a %s in each line", tsv->path,
                                tsv->first);
    else if (nul)
        status = qkv_tsv_fail(tsv, line_of(tsv, nul),
                              "byte %zu of the file is NUL, so it is no text; convert it to UTF-8 first",
                              (size_t)(nul - tsv->map.data));
    if (status) qkv_tsv_close(tsv);
    return status;
}

enum qkv_status qkv_tsv_open(struct qkv_context *ctx, const char *path, const char *first, const char *second,
                             struct qkv_tsv *tsv) {
    *tsv = (struct qkv_tsv){.ctx = ctx, .path = path, .first = first, .second = second};
    enum qkv_status status = qkv_unpack_all(ctx, path, &tsv->map);
    return status ? status : tsv_begin(tsv);
}

enum qkv_status qkv_tsv_open_file(struct qkv_context *ctx, struct qkv_text_file *file, bool keep, const char *first,
                                  const char *second, struct qkv_tsv *tsv) {
    const bool kept = file->kept.data != NULL;
    *tsv = (struct qkv_tsv){.ctx = ctx, .path = file->path, .first = first, .second = second, .borrowed = kept};
    enum qkv_status status = kept ? QKV_OK : qkv_unpack_all(ctx, file->path, &tsv->map);
    if (status) return status;
    if (kept) tsv->map = file->kept;
    status = tsv_begin(tsv);
    if (status || !keep || tsv->borrowed) return status;
    file->kept = tsv->map;
    tsv->borrowed = true;
    return QKV_OK;
}

void qkv_tsv_rewind(struct qkv_tsv *tsv) {
    tsv->position = tsv->mark ? 3 : 0;
    tsv->line = 0;
}

void qkv_tsv_close(struct qkv_tsv *tsv) {
    if (!tsv->borrowed) qkv_unmap_file(&tsv->map);
    tsv->map = (struct qkv_map){0};
    free(tsv->sentence.words);
    free(tsv->sentence.labels);
    free(tsv->sentence.lines);
    tsv->sentence = (struct qkv_tsv_sentence){0};
}

static enum qkv_status tsv_split(const struct qkv_tsv *tsv, const char *line, size_t size, struct qkv_tsv_row *row) {
    const char *tab = memchr(line, '\t', size);
    if (!tsv->second) {
        *row = (struct qkv_tsv_row){.first = line, .first_size = size, .line = tsv->line};
        return QKV_OK;
    }
    if (!tab)
        return qkv_tsv_fail(tsv, tsv->line, "no tab in this line; write a %s, a tab and a %s", tsv->first, tsv->second);
    *row =
        (struct qkv_tsv_row){.first = line, .first_size = (size_t)(tab - line), .second = tab + 1, .line = tsv->line};
    row->second_size = size - row->first_size - 1;
    if (memchr(row->second, '\t', row->second_size))
        return qkv_tsv_fail(tsv, tsv->line, "more than one tab in this line; write a %s, one tab and a %s", tsv->first,
                            tsv->second);
    bool no_first = is_blank(row->first, row->first_size);
    if (no_first || is_blank(row->second, row->second_size))
        return qkv_tsv_fail(tsv, tsv->line, "the %s is empty; write one %s the tab, or remove the line",
                            no_first ? tsv->first : tsv->second, no_first ? "before" : "after");
    return QKV_OK;
}

static enum qkv_status tsv_add_word(struct qkv_tsv *tsv, const struct qkv_tsv_row *row) {
    struct qkv_tsv_sentence *s = &tsv->sentence;
    struct qkv_word *words = qkv_list_room(tsv->ctx, s->words, &s->capacity[0], s->count, 1, sizeof *words);
    if (words) s->words = words;
    struct qkv_word *labels =
        words ? qkv_list_room(tsv->ctx, s->labels, &s->capacity[1], s->count, 1, sizeof *labels) : NULL;
    if (labels) s->labels = labels;
    size_t *lines = labels ? qkv_list_room(tsv->ctx, s->lines, &s->capacity[2], s->count, 1, sizeof *lines) : NULL;
    if (!lines) return QKV_MEMORY;
    s->lines = lines;
    s->words[s->count] = (struct qkv_word){row->first, row->first_size};
    s->labels[s->count] = (struct qkv_word){row->second, row->second_size};
    s->lines[s->count++] = row->line;
    return QKV_OK;
}

/* The next line; blank ones have a size of 0. False where there is none. */
static bool tsv_line(struct qkv_tsv *tsv, const char **line, size_t *size) {
    if (tsv->position >= tsv->map.size) return false;
    *line = (const char *)tsv->map.data + tsv->position;
    size_t left = tsv->map.size - tsv->position;
    const char *stop = memchr(*line, '\n', left);
    *size = stop ? (size_t)(stop - *line) : left;
    tsv->position += *size + (stop != NULL);
    tsv->line++;
    if (*size > 0 && (*line)[*size - 1] == '\r') --*size;
    /* A line of tabs alone is no blank line but one whose sides are empty. */
    if (is_blank(*line, *size) && (!tsv->second || !memchr(*line, '\t', *size))) *size = 0;
    return true;
}

static enum qkv_status tsv_next_sentence(struct qkv_tsv *tsv, struct qkv_tsv_row *row, bool *end) {
    struct qkv_tsv_sentence *s = &tsv->sentence;
    enum qkv_status status = QKV_OK;
    const char *line;
    size_t size;
    s->count = 0;
    while (!status && tsv_line(tsv, &line, &size)) {
        if (!size && s->count) break;
        if (!size) continue;
        struct qkv_tsv_row word;
        status = tsv_split(tsv, line, size, &word);
        if (!status) status = tsv_add_word(tsv, &word);
    }
    *end = !status && !s->count;
    if (!status && s->count) *row = (struct qkv_tsv_row){.line = s->lines[0], .sentence = s};
    return status;
}

enum qkv_status qkv_tsv_next(struct qkv_tsv *tsv, struct qkv_tsv_row *row, bool *end) {
    const char *line;
    size_t size;
    *row = (struct qkv_tsv_row){0};
    *end = false;
    if (tsv->sentences) return tsv_next_sentence(tsv, row, end);
    while (tsv_line(tsv, &line, &size))
        if (size) return tsv_split(tsv, line, size, row);
    *end = true;
    return QKV_OK;
}

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

void qkv_tsv_cut(struct qkv_tsv *tsv, size_t bytes, struct qkv_text_piece *piece) {
    const size_t begin = tsv->position;
    const char *line;
    size_t size = 0;
    *piece = (struct qkv_text_piece){.text = (const char *)tsv->map.data + begin, .line = tsv->line};
    /* A sentence ends with a blank line. */
    while (tsv->position - begin < bytes || (tsv->sentences && size))
        if (!tsv_line(tsv, &line, &size)) break;
    piece->size = tsv->position - begin;
    piece->last = tsv->position >= tsv->map.size;
}

void qkv_tsv_open_piece(struct qkv_context *ctx, const char *path, const struct qkv_lines *lines,
                        const struct qkv_text_piece *piece, struct qkv_tsv *tsv) {
    *tsv = (struct qkv_tsv){.ctx = ctx,
                            .path = path,
                            .first = lines->first,
                            .second = lines->second,
                            .sentences = lines->sentences,
                            .map = {.data = (const unsigned char *)piece->text, .size = piece->size},
                            .borrowed = true,
                            .line = piece->line};
}
