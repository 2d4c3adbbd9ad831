/* decode_pool: pools of pages for the attentions of a decoder's layers. */
#include "model/decode.h"
#include "model/spec.h"

#include <stdlib.h>

struct qkv_page_pool *qkv_decode_pool(struct qkv_model *m, bool cross) {
    const struct qkv_stack_spec *spec = &m->spec.decoder;
    const size_t layers = (size_t)spec->layers;
    const struct qkv_attention_spec **attentions = qkv_allocate(m->ctx, layers + 1, sizeof *attentions);
    if (!attentions) return NULL;
    for (size_t layer = 0; layer < layers; layer++) {
        const struct qkv_layer_spec *kind = qkv_stack_layer(spec, layer);
        if (cross || qkv_layer_has(&m->decoder, layer, QKV_SUBLAYER_SELF))
            attentions[layer] = cross ? &kind->cross : &kind->attention;
    }
    struct qkv_page_pool *pool =
        qkv_page_pool_create(m->ctx, attentions, layers, cross ? "the keys and values of sources" : "the KV cache");
    free(attentions);
    return pool;
}

struct qkv_page_shape qkv_decode_shape(const struct qkv_model *m, size_t rows, size_t length, size_t pages) {
    return (struct qkv_page_shape){.length = length,
                                   .pages = pages,
                                   .sequences = rows,
                                   .dtype = m->ctx->precision == QKV_MIXED_BF16 ? QKV_BF16 : QKV_F32};
}

struct qkv_page_list *qkv_decode_lists(struct qkv_arena *arena, const struct qkv_page_shape *shape, size_t count) {
    const size_t pages = qkv_page_count(qkv_page_positions(shape), shape->length);
    struct qkv_page_list *lists = qkv_arena_take(arena, count, sizeof *lists);
    int32_t *all = lists ? qkv_arena_take(arena, count, pages * sizeof *all) : NULL;
    for (size_t i = 0; all && !arena->measuring && i < count; i++)
        lists[i] = (struct qkv_page_list){.pages = all + i * pages, .copied = -1};
    return all ? lists : NULL;
}

struct qkv_cache_pages qkv_decode_pages(const struct qkv_page_pool *pool) {
    const struct qkv_page_shape shape = {.length = pool->positions, .dtype = pool->dtype};
    return (struct qkv_cache_pages){.positions = pool->positions,
                                    .bytes = qkv_page_bytes(pool, &shape),
                                    .count = pool->count,
                                    .used = pool->count - pool->spare_count};
}
