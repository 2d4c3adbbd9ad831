/* page_pool: the memory of pages: for each attention all keys of all pages, then all values, so that a page is a range
 * of rows of each. */
#include "sequence/pages.h"

#include <stdlib.h>

struct qkv_page_pool *qkv_page_pool_create(struct qkv_context *ctx, const struct qkv_attention_spec *const *attentions,
                                           size_t count, const char *what) {
    struct qkv_page_pool *pool = qkv_allocate(ctx, 1, sizeof *pool);
    if (!pool) return NULL;
    *pool = (struct qkv_page_pool){.ctx = ctx, .owners = 1, .what = what, .attentions = count};
    pool->attention = qkv_allocate(ctx, count + 1, sizeof *pool->attention);
    pool->k_width = pool->attention ? qkv_allocate(ctx, 3 * count + 1, sizeof *pool->k_width) : NULL;
    if (!pool->k_width) {
        qkv_page_pool_free(pool);
        return NULL;
    }
    pool->v_width = pool->k_width + count;
    pool->heads = pool->v_width + count;
    for (size_t i = 0; i < count; i++) {
        if (!attentions[i]) continue;
        pool->heads[i] = (size_t)attentions[i]->kv_heads;
        pool->k_width[i] = qkv_cache_k_width(attentions[i]);
        pool->v_width[i] = qkv_cache_v_width(attentions[i]);
    }
    return pool;
}

void qkv_page_pool_free(struct qkv_page_pool *pool) {
    if (!pool || --pool->owners > 0) return;
    qkv_arena_free(&pool->storage);
    free(pool->attention);
    free(pool->k_width);
    free(pool);
}

size_t qkv_page_positions(const struct qkv_page_shape *shape) {
    return shape->length < QKV_PAGE_POSITIONS ? shape->length : QKV_PAGE_POSITIONS;
}

size_t qkv_page_count(size_t positions, size_t length) {
    return length / positions + (length % positions != 0);
}

/* Bytes of a packed head on a page; 0: rows are not packed, also if values are channels of the keys, which packing
 * would store twice. */
static size_t pool_packed(const struct qkv_page_pool *pool, size_t i, const struct qkv_page_shape *shape) {
    const size_t heads = pool->heads[i];
    if (shape->dtype != QKV_BF16 || !heads || !pool->v_width[i]) return 0;
    return qkv_attend_page_bytes(pool->ctx, pool->k_width[i] / heads, pool->v_width[i] / heads,
                                 qkv_page_positions(shape));
}

size_t qkv_page_bytes(const struct qkv_page_pool *pool, const struct qkv_page_shape *shape) {
    const size_t row = qkv_page_positions(shape) * qkv_type_size(shape->dtype);
    size_t bytes = 0;
    for (size_t i = 0; i < pool->attentions; i++) {
        const size_t packed = pool_packed(pool, i, shape);
        bytes += packed ? pool->heads[i] * packed : (pool->k_width[i] + pool->v_width[i]) * row;
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
    const size_t size = qkv_type_size(shape->dtype);
    size_t rows;
    pool->dtype = shape->dtype;
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
        const size_t packed = pool_packed(pool, i, shape);
        if (!pool->k_width[i]) continue; /* a layer without such an attention */
        kv->k = qkv_arena_take(&pool->storage, packed ? pool->count : rows,
                               packed ? pool->heads[i] * (packed + 1) : pool->k_width[i] * size);
        kv->v = packed || !pool->v_width[i] ? kv->k : qkv_arena_take(&pool->storage, rows, pool->v_width[i] * size);
        kv->dtype = shape->dtype;
        kv->rows = rows;
        kv->packed = packed;
        taken = kv->k && kv->v;
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
