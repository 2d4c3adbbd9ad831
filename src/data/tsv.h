/* tsv: files of one or two fields a line, for training and evaluation: pairs (source, tab, target) and labelled
 * lines (label, tab, text). */
#ifndef QKV_DATA_TSV_H
#define QKV_DATA_TSV_H

#include "base/base.h"
#include "text/sequence.h"

struct qkv_tsv_sentence { /* lines that follow one another without a blank one: both fields of each */
    struct qkv_word *words, *labels;
    size_t *lines;
    size_t count, capacity[3];
};
struct qkv_tsv { /* a file in memory and how far it is read */
    struct qkv_context *ctx;
    const char *path; /* the caller's */
    /* what the fields are, for messages: "source", "target"; second NULL: a line is one field */
    const char *first, *second;
    struct qkv_map map;
    bool borrowed;         /* the map is another's */
    size_t position, line; /* bytes read, number of the line read last */
    bool sentences;        /* a row is a sentence; to be set before the first one is read */
    struct qkv_tsv_sentence sentence;
    bool mark; /* begins with the byte order mark of UTF-8, which is no part of the first line */
};
struct qkv_tsv_row {
    const char *first, *second; /* in the file, not zero-terminated */
    size_t first_size, second_size;
    size_t line;                             /* counted from 1, blank ones too */
    const struct qkv_tsv_sentence *sentence; /* of a file of sentences, in place of both fields */
};
/* Reads a file, which may be packed (unpack_file.h); an empty one, one of blank lines only, or one that holds a NUL
 * byte, is refused. The byte order mark of UTF-8 is passed over and noted in `mark`; those of other encodings are
 * refused. */
enum qkv_status qkv_tsv_open(struct qkv_context *ctx, const char *path, const char *first, const char *second,
                             struct qkv_tsv *tsv);
/* The same of a file whose bytes may have been kept by an earlier reading, or are to be kept by this one. */
struct qkv_text_file;
struct qkv_text_piece;
enum qkv_status qkv_tsv_open_file(struct qkv_context *ctx, struct qkv_text_file *file, bool keep, const char *first,
                                  const char *second, struct qkv_tsv *tsv);
/* The lines from here on, of about `bytes` bytes: whole lines, and whole sentences; goes over them. */
void qkv_tsv_cut(struct qkv_tsv *tsv, size_t bytes, struct qkv_text_piece *piece);
/* Reads them as they are read in the file at `path`: its names of fields and numbers of lines. The bytes stay the
 * caller's. */
struct qkv_lines;
void qkv_tsv_open_piece(struct qkv_context *ctx, const char *path, const struct qkv_lines *lines,
                        const struct qkv_text_piece *piece, struct qkv_tsv *tsv);
/* The next line that is not blank, or the next sentence; *end when there is none. Lines end with LF or CR LF, the
 * last one may end with the file. A line without a tab, with two, or with nothing but spaces on a side fails. */
enum qkv_status qkv_tsv_next(struct qkv_tsv *tsv, struct qkv_tsv_row *row, bool *end);
/* QKV_FORMAT and "FILE:LINE: …". */
enum qkv_status qkv_tsv_fail(const struct qkv_tsv *tsv, size_t line, const char *format, ...) QKV_PRINTF(3, 4);
/* Puts file and line before the sentence of what failed with a text of theirs; returns `status`. */
enum qkv_status qkv_tsv_fail_at(const struct qkv_tsv *tsv, size_t line, enum qkv_status status);
/* Back to the first line. */
void qkv_tsv_rewind(struct qkv_tsv *tsv);
/* Harmless on one that failed to open. */
void qkv_tsv_close(struct qkv_tsv *tsv);

#endif
