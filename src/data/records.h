/* records: files of records, one a line, read as a stream in memory that does not depend on their size. The files are
 * plain or packed (unpack_file.h). Lines of a file named *.jsonl or *.ndjson are JSON objects
 * (https://jsonlines.org). */
#ifndef QKV_DATA_RECORDS_H
#define QKV_DATA_RECORDS_H

#include "base/json_load.h"
#include "data/unpack_file.h"

enum { QKV_RECORD_MAX = 1 << 26 }; /* bytes of a line */
struct qkv_records {
    struct qkv_context *ctx;
    const char *path; /* for messages; the caller's */
    struct qkv_unpack bytes;
    char *held; /* bytes that were read, from `begin` to `end` */
    size_t begin, end, capacity;
    uint64_t line;     /* of the record given last, counted from 1; lines without a record count too */
    uint64_t position; /* unpacked bytes up to the end of that line */
};
struct qkv_record {
    const char *text; /* the line without its end (LF or CR LF); valid until the next call */
    size_t size;
    uint64_t line; /* counted from 1 */
};
/* Whether the name of a file says that its lines are JSON. */
bool qkv_records_are_json(const char *path);
/* Opens a file. The byte order mark of UTF-8 is passed over, others are refused. Fails as qkv_unpack_open and
 * qkv_unpack_read do. */
enum qkv_status qkv_records_open(struct qkv_context *ctx, const char *path, struct qkv_records *records);
/* Goes on behind a line that was read before: `line` and `position` as they were. */
enum qkv_status qkv_records_skip(struct qkv_records *records, uint64_t line, uint64_t position);
/* Reads more bytes behind those that are held, of which there are at most QKV_RECORD_MAX; *end if there are none. */
enum qkv_status qkv_records_more(struct qkv_records *records, bool *end);
/* The next line that is not blank; *end when there is none. Fails with QKV_FORMAT, file and line, for a line of more
 * than QKV_RECORD_MAX bytes and for packed data that is cut or damaged; with QKV_FILE, QKV_MEMORY. */
enum qkv_status qkv_records_next(struct qkv_records *records, struct qkv_record *record, bool *end);
/* Harmless on one that failed to open. */
void qkv_records_close(struct qkv_records *records);

/* ---- one line, wherever it was read ------------------------------------------------------------------------------ */

/* Reads a line as a JSON object, which gets a reference; QKV_FORMAT, with file and line, if it is none. A NULL context
 * only returns the status. */
enum qkv_status qkv_record_parse(struct qkv_context *ctx, const char *path, const struct qkv_record *record,
                                 json_t **object);
/* The text of a key; QKV_FORMAT if the object lacks the key, which names those that it has, or if its value is another
 * one than a text. `option` sets the key, for messages; NULL: none does. */
enum qkv_status qkv_record_text(struct qkv_context *ctx, const char *path, uint64_t line, const json_t *object,
                                const char *key, const char *option, const char **text, size_t *size);
/* QKV_FORMAT and "FILE:LINE: …". */
enum qkv_status qkv_record_fail(struct qkv_context *ctx, const char *path, uint64_t line, const char *format, ...)
    QKV_PRINTF(4, 5);

#endif
