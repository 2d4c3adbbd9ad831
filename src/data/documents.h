/* documents: the documents of a mixture as tokens: files are read in blocks of a fixed size, and all threads encode
 * several blocks at once. A plain file is one document; each JSON line has one, the text of its key. */
#ifndef QKV_DATA_DOCUMENTS_H
#define QKV_DATA_DOCUMENTS_H

#include "data/corpus.h"
#include "data/records.h"

/* Where a block ends: all blocks behind it follow from it. */
struct qkv_document_place {
    uint64_t file;     /* among the files */
    uint64_t line;     /* lines of it before */
    uint64_t position; /* unpacked bytes of it before; 0: the file has not begun */
};
/* What was left out with option skip_bad. */
struct qkv_document_bad {
    uint64_t lines, files;
    char first_line[256], first_file[256]; /* the sentences about the first of each */
};
struct qkv_document_reader {
    struct qkv_context *ctx;
    struct qkv_text_files *files; /* get their bytes, hash, and time of change when they have been read */
    const char *key;              /* option text_key */
    bool skip_bad;
    /* The tokenizer, or while one is trained the learner, says where a plain file can be cut. The other one is NULL. */
    const struct qkv_tokenizer *tokenizer;
    const struct qkv_learner *learner;
    qkv_progress *progress; /* of long reading without a block; NULL: nobody asks */
    void *user;
    struct qkv_document_place place; /* behind the block read last */
    struct qkv_document_bad bad;     /* the reader counts files; the caller counts lines */
    uint64_t read;                   /* bytes of the files that have ended */
    struct qkv_records records;      /* of the file at place.file, if open */
    bool open, json, failing;        /* failing: reading fails behind the bytes that are held */
};
enum { QKV_BLOCKS_MAX = 64 }; /* that are encoded together, at most */
/* A part of a file: whole JSON lines, or a part of a plain text that can be encoded by itself. */
struct qkv_document_block {
    char *text; /* of the block; grows */
    size_t size, capacity;
    const char *path;
    uint64_t line;                   /* lines before it */
    struct qkv_document_place place; /* behind it */
    bool json, first, last;          /* first, last: of the plain text of its file */
    /* What it becomes. */
    struct qkv_buffer ids;   /* int32_t */
    uint64_t documents, end; /* that end in it; ids up to the end of the last one */
    uint64_t bad_lines;      /* lines that are left out */
    uint64_t bad_files;      /* that were left out before it */
    enum qkv_status status;
};
/* Reads the next block; *end: there is none. With skip_bad files that cannot be read are left out and counted. Fails
 * with QKV_FILE, QKV_FORMAT, QKV_MEMORY. */
enum qkv_status qkv_documents_next(struct qkv_document_reader *reader, struct qkv_document_block *block, bool *end);
/* How far the reader is, in bytes of `total`, all of its files. */
double qkv_documents_done(const struct qkv_document_reader *reader, double total);
/* Goes to a place, before the first block is read. */
void qkv_documents_go(struct qkv_document_reader *reader, const struct qkv_document_place *place);
void qkv_documents_close(struct qkv_document_reader *reader);
/* Encodes some blocks on all threads. A line that is wrong, and a text that the tokenizer refuses, fail with their
 * sentence; with skip_bad the block counts them. The result is that of blocks which are encoded one after the other. */
enum qkv_status qkv_documents_encode(struct qkv_document_reader *reader, struct qkv_document_block *blocks,
                                     size_t count);
/* A text of a block: the document of a JSON line, or the part of a plain file; {0} before the first. */
struct qkv_document_text {
    struct qkv_text_piece piece; /* first, last: of its document */
    json_t *object;              /* the line that owns it */
    size_t at;                   /* where the next one is in the block */
    uint64_t line;               /* lines of the file before that */
};
/* Goes to the next text of a block that is not empty; piece.text NULL: there is none. A line that is wrong fails with
 * file and line; with skip_bad it is left out. */
enum qkv_status qkv_document_text_next(struct qkv_document_reader *reader, const struct qkv_document_block *block,
                                       struct qkv_document_text *text);
/* Puts the place of a text into the sentence about it. */
void qkv_document_text_fail(struct qkv_context *ctx, const struct qkv_document_block *block,
                            const struct qkv_document_text *text);
void qkv_document_text_end(struct qkv_document_text *text);
/* Has a learner of a tokenizer read all documents. */
enum qkv_status qkv_documents_learn(struct qkv_document_reader *reader, struct qkv_learner *learner,
                                    qkv_progress *progress, void *user);
void qkv_document_block_free(struct qkv_document_block *block);

#endif
