/* page_pool: the memory of pages: for each attention all keys of all pages, then all values. */
#include "sequence/pages.h"

#include <stdlib.h>

static enum qkv_status pool_check(const struct qkv_page_pool *pool) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < pool->attentions && !status; i++) {
        if (!pool->specs[i]) continue;
        const struct qkv_page_heads heads = qkv_cache_heads(pool->specs[i]);
        status = qkv_page_types_check(pool->ctx, &heads, pool->types, pool->what, i);
    }
    return status;
}

enum qkv_status qkv_page_pool_create(struct qkv_context *ctx, const struct qkv_attention_spec *const *attentions,
                                     size_t count, struct qkv_page_types types, const char *what,
                                     struct qkv_page_pool **out) {
    struct qkv_page_pool *pool = qkv_allocate(ctx, 1, sizeof *pool);
    *out = NULL;
    if (!pool) return QKV_MEMORY;
    *pool = (struct qkv_page_pool){.ctx = ctx, .owners = 1, .what = what, .attentions = count, .types = types};
    pool->attention = qkv_allocate(ctx, count + 1, sizeof *pool->attention);
    pool->specs = qkv_allocate(ctx, count + 1, sizeof *pool->specs);
    enum qkv_status status = pool->attention && pool->specs ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) pool->specs[i] = attentions[i];
    if (!status) status = pool_check(pool);
    if (!status)
        *out = pool;
    else
        qkv_page_pool_free(pool);
    return status;
}

void qkv_page_pool_free(struct qkv_page_pool *pool) {
    if (!pool || --pool->owners > 0) return;
    qkv_arena_free(&pool->storage);
    free(pool->attention);
    free(pool->specs);
    free(pool);
}

size_t qkv_page_positions(const struct qkv_page_shape *shape) {
    return shape->length < QKV_PAGE_POSITIONS ? shape->length : QKV_PAGE_POSITIONS;
}

size_t qkv_page_count(size_t positions, size_t length) {
    return length / positions + (length % positions != 0);
}

size_t qkv_page_bytes(const struct qkv_page_pool *pool, const struct qkv_page_shape *shape) {
    const size_t positions = qkv_page_positions(shape);
    size_t bytes = 0;
    for (size_t i = 0; i < pool->attentions; i++) {
        if (!pool->specs[i]) continue;
        const struct qkv_key_values kv = qkv_key_values_of(pool->ctx, pool->specs[i], pool->types, positions);
        bytes += kv.k.bytes + (kv.shared ? 0 : kv.v.bytes);
    }
    return bytes;
}

struct pool_plan {
    struct qkv_page_pool *pool;
    const struct qkv_page_shape *shape;
};

/* Takes all memory of a pool from its arena, which may be measuring. */
static enum qkv_status pool_take(void *argument) {
    const struct pool_plan *plan = argument;
    const struct qkv_page_shape *shape = plan->shape;
    struct qkv_page_pool *pool = plan->pool;
    size_t rows;
    pool->positions = qkv_page_positions(shape);
    pool->count = shape->pages;
    bool fits =
        shape->pages || qkv_multiply(qkv_page_count(pool->positions, shape->length), shape->sequences, &pool->count);
    if (!fits || pool->count > (size_t)INT32_MAX || !qkv_multiply(pool->count, pool->positions, &rows))
        return qkv_fail(pool->ctx, QKV_MEMORY,
                        "%s: %zu sequences of %zu positions are more than pages can be numbered for", pool->what,
                        shape->sequences, shape->length);
    bool taken = true;
    for (size_t i = 0; taken && i < pool->attentions; i++) {
        struct qkv_key_values *kv = &pool->attention[i];
        if (!pool->specs[i]) continue;
        *kv = qkv_key_values_of(pool->ctx, pool->specs[i], pool->types, pool->positions);
        taken = qkv_key_values_take(kv, &pool->storage, pool->count);
    }
    pool->references = qkv_arena_take(&pool->storage, pool->count, sizeof *pool->references);
    pool->spare = qkv_arena_take(&pool->storage, pool->count, sizeof *pool->spare);
    return taken && pool->references && pool->spare ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_page_pool_measure(struct qkv_page_pool *pool, const struct qkv_page_shape *shape, size_t *bytes) {
    struct pool_plan plan = {pool, shape};
    return qkv_plan(pool->ctx, &pool->storage, pool->what, pool_take, &plan, bytes);
}

enum qkv_status qkv_page_pool_begin(struct qkv_page_pool *pool, const struct qkv_page_shape *shape) {
    struct pool_plan plan = {pool, shape};
    size_t bytes = 0;
    pool->count = pool->spare_count = 0;
    enum qkv_status status = qkv_page_pool_measure(pool, shape, &bytes);
    if (!status) status = qkv_arena_room(pool->ctx, &pool->storage, bytes, pool->what);
    if (!status) status = pool_take(&plan);
    if (status) {
        pool->count = 0;
        return status;
    }
    pool->spare_count = pool->count;
    for (size_t i = 0; i < pool->count; i++) {
        pool->references[i] = 0;
        pool->spare[i] = (int32_t)(pool->count - 1 - i);
    }
    return QKV_OK;
}
