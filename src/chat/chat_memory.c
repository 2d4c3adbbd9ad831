/* Pools: memory in chunks that grow, freed as a whole. */
#include "chat/chat.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_MIN = 1 << 14, CHUNK_MAX = 1 << 22, ALIGN = 16 };

struct chat_chunk {
    struct chat_chunk *next;
    size_t used, size; /* bytes behind this struct */
    _Alignas(ALIGN) unsigned char data[];
};

static struct chat_chunk *chat_chunk_make(struct chat_pool *pool, size_t bytes) {
    size_t size = pool->chunks ? qkv_min(2 * pool->chunks->size, CHUNK_MAX) : CHUNK_MIN, all;
    size = qkv_max(size, bytes);
    if (!qkv_add_size(size, sizeof(struct chat_chunk), &all)) {
        qkv_fail_memory(pool->ctx, SIZE_MAX, pool->what);
        return NULL;
    }
    struct chat_chunk *chunk = qkv_allocate(pool->ctx, all, 1);
    if (!chunk) return NULL;
    *chunk = (struct chat_chunk){.next = pool->chunks, .size = size};
    pool->chunks = chunk;
    return chunk;
}

void *qkv_chat_take(struct chat_pool *pool, size_t count, size_t size) {
    size_t bytes;
    if (!qkv_multiply(count, size, &bytes) || bytes > pool->limit - pool->used) {
        char text[QKV_BYTES_TEXT];
        qkv_fail(pool->ctx, QKV_MEMORY, "%s needs more than %s of memory, which is the limit", pool->what,
                 qkv_bytes_text(text, pool->limit));
        return NULL;
    }
    bytes = qkv_round_up(qkv_max(bytes, 1), ALIGN);
    struct chat_chunk *chunk = pool->chunks;
    if (!chunk || chunk->size - chunk->used < bytes) chunk = chat_chunk_make(pool, bytes);
    if (!chunk) return NULL;
    void *taken = chunk->data + chunk->used;
    chunk->used += bytes;
    pool->used = qkv_min(pool->used + bytes, pool->limit);
    return taken;
}

char *qkv_chat_copy(struct chat_pool *pool, const char *text, size_t n) {
    char *copy = qkv_chat_take(pool, n, 1);
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

void qkv_chat_pool_free(struct chat_pool *pool) {
    for (struct chat_chunk *chunk = pool->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    pool->chunks = NULL;
    pool->used = 0;
}
