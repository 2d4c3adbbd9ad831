/* gguf.h: GGUF files: keys with values, and tensors, in one file or in several (gguf.c, gguf_read.c). */
#ifndef QKV_GGUF_H
#define QKV_GGUF_H

#include <jansson.h>

#include "io/safetensors.h"

#define QKV_GGUF_END       ".gguf"
#define QKV_GGUF_TOKENIZER "tokenizer.huggingface.json" /* the key of a whole tokenizer.json */
#define QKV_GGUF_LANGUAGE  "tokenizer.huggingface."     /* and a key of qkv_language_keys: a language of the folder */

/* Types of values, by their numbers in files. */
enum qkv_gguf_type {
    QKV_GGUF_U8,
    QKV_GGUF_I8,
    QKV_GGUF_U16,
    QKV_GGUF_I16,
    QKV_GGUF_U32,
    QKV_GGUF_I32,
    QKV_GGUF_F32,
    QKV_GGUF_BOOL,
    QKV_GGUF_STRING,
    QKV_GGUF_ARRAY,
    QKV_GGUF_U64,
    QKV_GGUF_I64,
    QKV_GGUF_F64,
    QKV_GGUF_TYPES
};
struct qkv_gguf_value {
    const char *key;
    enum qkv_gguf_type type; /* of the elements of an array */
    bool array;
    size_t count;    /* elements; 1 where it is no array */
    size_t at, size; /* its bytes in the header */
};
/* The keys of a file. */
struct qkv_gguf {
    struct qkv_context *ctx;
    char *path;
    unsigned char *header; /* a copy of the file's bytes before the data */
    char *keys;
    struct qkv_gguf_value *values; /* sorted by key */
    size_t count, capacity;
};

/* Whether a path names a GGUF file: by its end, and no folder. */
bool qkv_gguf_is(const char *path);
/* Opens one file: its keys, and its tensors, whose dimensions are in row-major order. *keys and *tensors are the
 * caller's, closed with qkv_gguf_free and qkv_tensors_close. Fails with QKV_FILE, QKV_FORMAT, QKV_MEMORY. */
enum qkv_status qkv_gguf_open(struct qkv_context *ctx, const char *path, struct qkv_gguf **keys,
                              struct qkv_tensors **tensors);
void qkv_gguf_free(struct qkv_gguf *keys);

/* The value of a key; NULL: the file has none. */
const struct qkv_gguf_value *qkv_gguf_find(const struct qkv_gguf *g, const char *key);
/* Element i of a value of numbers, i < count. */
double qkv_gguf_number(const struct qkv_gguf *g, const struct qkv_gguf_value *value, size_t i);
/* The next text of a value of texts, not zero-terminated; *at is 0 before the first one. Texts are UTF-8. Returns false
 * after the last one. */
bool qkv_gguf_text(const struct qkv_gguf *g, const struct qkv_gguf_value *value, size_t *at, const char **text,
                   size_t *size);
/* The text of a key whose value is one; NULL: the file has none. Not zero-terminated. */
const char *qkv_gguf_one_text(const struct qkv_gguf *g, const char *key, size_t *size);
/* Whether the architecture is QKV_GGUF_OWN, so that only qkv reads the file (source_gguf_own.c). */
#define QKV_GGUF_OWN "qkv"
bool qkv_gguf_is_own(const struct qkv_gguf *g);
/* The keys with values of at most QKV_GGUF_SHORT elements as an object, for the caller to free with json_decref. A
 * float of 32 bits becomes the number with the fewest digits that rounds to it. Fails with QKV_MEMORY, or with
 * QKV_FORMAT at a number that is not finite. */
enum { QKV_GGUF_SHORT = 4096 };
enum qkv_status qkv_gguf_json(const struct qkv_gguf *g, json_t **out);
/* Makes the tokenizer that the keys describe (gguf_tokenizer.c). Fails with QKV_FORMAT where they describe none. */
struct qkv_tokenizer;
enum qkv_status qkv_gguf_tokenizer(const struct qkv_gguf *g, struct qkv_tokenizer **out);
/* One value as JSON; NULL: no memory, or a number that is not finite. */
json_t *qkv_gguf_value_json(const struct qkv_gguf *g, const struct qkv_gguf_value *value);

#endif
