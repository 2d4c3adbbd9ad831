/* gguf_fixture.h: GGUF files that a test writes, byte by byte from the description of the format. */
#ifndef GGUF_FIXTURE_H
#define GGUF_FIXTURE_H

#include "test.h"

#include "io/gguf.h"

struct gguf_bytes {
    unsigned char data[1 << 16];
    size_t size;
};

static inline void gguf_put(struct gguf_bytes *b, const void *data, size_t n) {
    assert_true(b->size + n <= sizeof b->data);
    memcpy(b->data + b->size, data, n);
    b->size += n;
}

static inline void gguf_put_u32(struct gguf_bytes *b, uint32_t x) {
    gguf_put(b, &x, sizeof x);
}

static inline void gguf_put_u64(struct gguf_bytes *b, uint64_t x) {
    gguf_put(b, &x, sizeof x);
}

static inline void gguf_put_text(struct gguf_bytes *b, const char *text) {
    gguf_put_u64(b, strlen(text));
    gguf_put(b, text, strlen(text));
}

static inline void gguf_begin(struct gguf_bytes *b, uint32_t version, uint64_t tensors, uint64_t keys) {
    b->size = 0;
    gguf_put(b, "GGUF", 4);
    gguf_put_u32(b, version);
    gguf_put_u64(b, tensors);
    gguf_put_u64(b, keys);
}

/* A key with a value that is no array: its type, and its bytes. */
static inline void gguf_put_key(struct gguf_bytes *b, const char *key, uint32_t type, const void *value, size_t n) {
    gguf_put_text(b, key);
    gguf_put_u32(b, type);
    gguf_put(b, value, n);
}

static inline void gguf_put_number(struct gguf_bytes *b, const char *key, uint32_t x) {
    gguf_put_key(b, key, QKV_GGUF_U32, &x, sizeof x);
}

static inline void gguf_put_string(struct gguf_bytes *b, const char *key, const char *text) {
    gguf_put_text(b, key);
    gguf_put_u32(b, QKV_GGUF_STRING);
    gguf_put_text(b, text);
}

/* A key with an array, whose elements follow. */
static inline void gguf_put_array(struct gguf_bytes *b, const char *key, uint32_t type, uint64_t count) {
    gguf_put_text(b, key);
    gguf_put_u32(b, QKV_GGUF_ARRAY);
    gguf_put_u32(b, type);
    gguf_put_u64(b, count);
}

/* A tensor's entry; sizes: the innermost first. */
static inline void gguf_put_tensor(struct gguf_bytes *b, const char *name, uint32_t rank, const uint64_t *sizes,
                                   uint32_t type, uint64_t offset) {
    gguf_put_text(b, name);
    gguf_put_u32(b, rank);
    gguf_put(b, sizes, rank * sizeof *sizes);
    gguf_put_u32(b, type);
    gguf_put_u64(b, offset);
}

/* Zeros up to a multiple of `alignment`. */
static inline void gguf_align(struct gguf_bytes *b, size_t alignment) {
    while (b->size % alignment) gguf_put(b, "", 1);
}

#endif
