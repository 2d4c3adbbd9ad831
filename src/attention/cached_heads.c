/* cached_heads: the memory of what the cache of an attention stores. */
#include "attention/attention.h"

struct qkv_key_values qkv_key_values_of(const struct qkv_context *ctx, const struct qkv_attention_spec *spec,
                                        struct qkv_page_types types, size_t positions) {
    const struct qkv_page_heads heads = qkv_cache_heads(spec);
    types = qkv_page_types_of(ctx, &heads, types);
    struct qkv_key_values kv = {.shared = heads.shared};
    kv.k = qkv_pages_of(ctx->kernels, types.k, QKV_PAGE_KEYS, heads.heads, heads.k_columns, positions);
    kv.v = heads.shared ? kv.k
                        : qkv_pages_of(ctx->kernels, types.v, QKV_PAGE_VALUES, heads.heads, heads.v_columns, positions);
    return kv;
}

bool qkv_key_values_take(struct qkv_key_values *kv, struct qkv_arena *arena, size_t count) {
    kv->k.count = kv->v.count = count;
    kv->k.data = qkv_arena_take(arena, count, qkv_page_stored_bytes(&kv->k));
    kv->v.data = kv->shared ? kv->k.data : qkv_arena_take(arena, count, qkv_page_stored_bytes(&kv->v));
    return kv->k.data && kv->v.data;
}
