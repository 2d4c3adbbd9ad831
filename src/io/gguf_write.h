/* gguf_write.h: writes a GGUF file of version 3: keys, the table of tensors, then the data, in any pieces. */
#ifndef QKV_GGUF_WRITE_H
#define QKV_GGUF_WRITE_H

#include "io/gguf.h"

/* A file that is written. Begin with {.ctx, .path}. A failure stays in `status`, and later calls do nothing; so the
 * caller may check it once, at the end of a list of calls. */
struct qkv_gguf_writer {
    struct qkv_context *ctx;
    const char *path;
    enum qkv_status status;
    struct qkv_buffer keys, table;
    uint64_t key_count, tensor_count;
    uint64_t data;    /* bytes of the data of all tensors, with their padding */
    uint64_t written; /* bytes of the data in the file */
    struct qkv_replace replace;
    bool begun;
};

/* Add a key with a value. Texts must be UTF-8. */
void qkv_gguf_put_u32(struct qkv_gguf_writer *w, const char *key, uint32_t x);
void qkv_gguf_put_bool(struct qkv_gguf_writer *w, const char *key, bool x);
void qkv_gguf_put_text(struct qkv_gguf_writer *w, const char *key, const char *text, size_t size);
/* A whole number becomes U32, or I32 or I64 where it does not fit; a real number F32; also a text, a flag, and a list
 * of such values of one type. */
void qkv_gguf_put_json(struct qkv_gguf_writer *w, const char *key, const json_t *value);
/* Adds a key whose value is an array of `count` elements, which the caller then adds, in order: of numbers, with their
 * bytes; of texts. */
void qkv_gguf_put_array(struct qkv_gguf_writer *w, const char *key, enum qkv_gguf_type type, size_t count);
void qkv_gguf_add_bytes(struct qkv_gguf_writer *w, const void *data, size_t size);
void qkv_gguf_add_text(struct qkv_gguf_writer *w, const char *text, size_t size);
/* Adds a key of another file as it is there. */
void qkv_gguf_put_value(struct qkv_gguf_writer *w, const struct qkv_gguf *g, const struct qkv_gguf_value *value);
/* Adds a tensor to the table. Its data are neither read nor written: only its name, shape and type are used. Fails with
 * QKV_ARGUMENT where GGUF files cannot have the type or so many dimensions. */
void qkv_gguf_put_tensor(struct qkv_gguf_writer *w, const struct qkv_array *array);

/* Begins the file, which has all keys and the whole table. The data follow, in the order of the table: the bytes of
 * each tensor, in any pieces, and qkv_gguf_end_tensor. */
enum qkv_status qkv_gguf_begin_data(struct qkv_gguf_writer *w);
enum qkv_status qkv_gguf_write_data(struct qkv_gguf_writer *w, const void *data, size_t size);
enum qkv_status qkv_gguf_end_tensor(struct qkv_gguf_writer *w);
/* Replaces the old file by the new one, which has all its data. */
enum qkv_status qkv_gguf_commit(struct qkv_gguf_writer *w);
/* Frees everything; of a file that was not committed nothing stays. */
void qkv_gguf_writer_free(struct qkv_gguf_writer *w);

#endif
