/* cache_choice: the types in which caches of a model store keys and values, by name. */
#include "model/decode.h"

bool qkv_cache_type_at(size_t i, const char **name, const char **help) {
    const struct qkv_page_type *type = qkv_page_type_at(i);
    if (!type) return false;
    if (name) *name = type->name;
    if (help) *help = type->help;
    return true;
}

enum qkv_status qkv_cache_check(struct qkv_context *ctx, const char *cache) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    struct qkv_page_types types = {0};
    return cache ? qkv_page_types_read(ctx, cache, &types) : QKV_OK;
}

/* Fails if these types do not hold the keys and values of the decoder, or those of its sources. */
static enum qkv_status cache_check_types(struct qkv_model *m, struct qkv_page_types types) {
    enum qkv_status status = QKV_OK;
    for (int cross = 0; cross < (m->encoder.spec ? 2 : 1) && !status; cross++) {
        struct qkv_page_pool *pool;
        status = qkv_decode_pool(m, cross, types, &pool);
        qkv_page_pool_free(pool);
    }
    return status;
}

enum qkv_status qkv_model_set_cache(struct qkv_model *model, const char *cache) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    struct qkv_page_types types = {.precision = model->precision};
    if (!cache) {
        model->cache_types = types;
        return QKV_OK;
    }
    if (!model->decoder.spec)
        return qkv_fail(model->ctx, QKV_ARGUMENT, "a cache of type %.80s is asked for, but the model has no decoder",
                        cache);
    enum qkv_status status = qkv_page_types_read(model->ctx, cache, &types);
    if (!status) status = cache_check_types(model, types);
    if (!status) model->cache_types = types;
    return status;
}

enum qkv_status qkv_model_cache_bytes(struct qkv_model *model, const char *cache, size_t context, size_t *bytes) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, bytes);
    struct qkv_page_types types;
    struct qkv_page_pool *pool;
    *bytes = 0;
    enum qkv_status status = qkv_decode_types(model, cache, &types);
    if (status) return status;
    if (!model->decoder.spec) return qkv_fail(model->ctx, QKV_ARGUMENT, "the model has no decoder, and so no cache");
    if (context > (size_t)model->spec.context)
        return qkv_fail(model->ctx, QKV_ARGUMENT, "a cache of %zu positions is longer than the model's context of %d",
                        context, model->spec.context);
    status = cache_check_types(model, types);
    if (status || !context) return status;
    status = qkv_decode_pool(model, false, types, &pool);
    if (status) return status;
    const struct qkv_page_shape shape = {.length = context, .sequences = 1};
    const size_t pages = qkv_page_count(qkv_page_positions(&shape), context);
    if (!qkv_multiply(pages, qkv_page_bytes(pool, &shape), bytes))
        status = qkv_fail_memory(model->ctx, SIZE_MAX, "a cache");
    qkv_page_pool_free(pool);
    return status;
}
