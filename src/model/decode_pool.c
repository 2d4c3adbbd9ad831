/* decode_pool: pools of pages for the attentions of a decoder's layers. */
#include "model/decode.h"
#include "model/spec.h"

#include <stdlib.h>

enum qkv_status qkv_stack_pool_create(struct qkv_context *ctx, const struct qkv_stack_pool *p,
                                      struct qkv_page_pool **out) {
    const struct qkv_stack_spec *spec = p->stack->spec;
    const size_t layers = (size_t)spec->layers;
    const struct qkv_attention_spec **attentions = qkv_allocate(ctx, layers + 1, sizeof *attentions);
    *out = NULL;
    if (!attentions) return QKV_MEMORY;
    for (size_t layer = p->first; layer < p->end; layer++) {
        const struct qkv_layer_spec *kind = qkv_stack_layer(spec, layer);
        const bool own = qkv_layer_has(p->stack, layer, QKV_SUBLAYER_SELF) && !kind->attention.share;
        if (p->cross || own) attentions[layer] = p->cross ? &kind->cross : &kind->attention;
    }
    enum qkv_status status = qkv_page_pool_create(ctx, attentions, layers, p->types, p->what, out);
    free(attentions);
    return status;
}

enum qkv_status qkv_decode_types(struct qkv_model *m, const char *cache, struct qkv_page_types *types) {
    *types = m->cache_types;
    types->precision = m->precision;
    return cache ? qkv_page_types_read(m->ctx, cache, types) : QKV_OK;
}

enum qkv_status qkv_decode_pool(struct qkv_model *m, bool cross, struct qkv_page_types types,
                                struct qkv_page_pool **out) {
    const struct qkv_stack_pool choice = {.stack = &m->decoder,
                                          .end = (size_t)m->spec.decoder.layers,
                                          .cross = cross,
                                          .types = types,
                                          .what = cross ? "the keys and values of sources" : "the KV cache"};
    return qkv_stack_pool_create(m->ctx, &choice, out);
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
    const struct qkv_page_shape shape = {.length = pool->positions};
    return (struct qkv_cache_pages){.positions = pool->positions,
                                    .bytes = qkv_page_bytes(pool, &shape),
                                    .count = pool->count,
                                    .used = pool->count - pool->spare_count};
}
