/* unpack_file: the bytes of a file, unpacked while they are read, in memory that does not depend on its size: plain
 * files, gzip (RFC 1952) and Zstandard (RFC 8878). The end of its name says how a file is packed. */
#ifndef QKV_DATA_UNPACK_FILE_H
#define QKV_DATA_UNPACK_FILE_H

#include "base/base.h"

struct qkv_packing; /* a row of the table in unpack_file.c */
struct qkv_unpack {
    struct qkv_context *ctx;
    const char *path; /* for messages; the caller's */
    /* Line that the caller reads now, for messages; 0: none. The caller counts lines. */
    uint64_t line;
    struct qkv_file file;
    const struct qkv_packing *packing;
    void *state; /* of the packing */
    unsigned char *packed;
    size_t held, used; /* bytes of `packed`: read from the file; and consumed of them */
    uint64_t file_at;  /* bytes of the file that were read */
    uint64_t hash;     /* of these */
    uint64_t position; /* bytes that were given out */
    int result;        /* of the latest step (unpack_file.c) */
};
/* Opens a file. Fails with QKV_FILE, QKV_MEMORY; QKV_ARGUMENT if this build cannot unpack it. */
enum qkv_status qkv_unpack_open(struct qkv_context *ctx, const char *path, struct qkv_unpack *unpack);
/* Reads up to `room` bytes, fewer before the end and before a failure: *got 0 is the end. Fails with QKV_FORMAT if the
 * packed data is cut or damaged, if it needs a window of more than 128 MiB, or if it unpacks to more than 1 GiB and
 * 1,000 times its size; with QKV_FILE. */
enum qkv_status qkv_unpack_read(struct qkv_unpack *unpack, void *out, size_t room, size_t *got);
/* Reads up to a place behind, and drops what is before it. QKV_FORMAT if the file ends before. */
enum qkv_status qkv_unpack_skip(struct qkv_unpack *unpack, uint64_t position);
/* Harmless on one that failed to open. */
void qkv_unpack_close(struct qkv_unpack *unpack);
/* The size of a file's name without the end that says how it is packed: 7 of "a.jsonl.gz". */
size_t qkv_unpack_name(const char *path);
/* All bytes of a file, unpacked; of a plain one as qkv_read_file reads them. Freed with qkv_unmap_file. Fails as
 * qkv_unpack_open and qkv_unpack_read do; QKV_MEMORY if there is no room for them. */
enum qkv_status qkv_unpack_all(struct qkv_context *ctx, const char *path, struct qkv_map *map);

#endif
