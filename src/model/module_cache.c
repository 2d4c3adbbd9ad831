/* module_cache: the keys and values of the attentions of a module, in pools of pages: of x for self attention, and of
 * the memory for cross attention. */
#include "model/module.h"

#include <stdlib.h>

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static struct qkv_page_shape pages_shape(const struct qkv_module_cache *c, const struct qkv_module_pages *p) {
    return (struct qkv_page_shape){.length = p->capacity, .sequences = c->B};
}

/* A pool of the layers that the module runs, in fp32. */
static enum qkv_status pages_make_pool(struct qkv_module_cache *c, struct qkv_module_pages *p, bool cross) {
    const struct qkv_module *m = c->module;
    const struct qkv_stack_pool choice = {.stack = m->stack,
                                          .first = qkv_module_is_whole(m) ? 0 : m->layer,
                                          .end = qkv_module_is_whole(m) ? (size_t)m->stack->spec->layers : m->layer + 1,
                                          .cross = cross,
                                          .types = {.k = &qkv_page_type_f32, .v = &qkv_page_type_f32},
                                          .what = "the cache of a module"};
    const struct qkv_page_shape shape = pages_shape(c, p);
    if (!p->capacity) return QKV_OK;
    enum qkv_status status = qkv_stack_pool_create(m->ctx, &choice, &p->pool);
    return status ? status : qkv_page_pool_begin(p->pool, &shape);
}

/* Takes the lists of pages. */
static enum qkv_status pages_take(struct qkv_module_cache *c, struct qkv_module_pages *p) {
    const struct qkv_page_shape shape = pages_shape(c, p);
    if (!p->capacity) return QKV_OK;
    p->lists = qkv_decode_lists(&c->storage, &shape, c->B);
    p->tables = qkv_arena_take(&c->storage, c->B, sizeof *p->tables);
    return p->lists && p->tables ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_module_pages_grow(struct qkv_module_cache *c, struct qkv_module_pages *p, size_t length,
                                      size_t more) {
    qkv_module_pages_truncate(c, p, length);
    for (size_t b = 0; b < c->B; b++) c->more[b] = more;
    enum qkv_status status = qkv_page_lists_grow(p->pool, p->lists, c->more, c->B);
    if (!status) p->length += more;
    return status;
}

void qkv_module_pages_truncate(const struct qkv_module_cache *c, struct qkv_module_pages *p, size_t length) {
    for (size_t b = 0; b < c->B; b++) qkv_page_list_truncate(p->pool, &p->lists[b], length);
    if (length < p->length) p->length = length;
}

/* ---- making and freeing ------------------------------------------------------------------------------------------ */

static enum qkv_status cache_check_length(const struct qkv_module *m, bool memory, bool has, size_t length) {
    const char *kind = qkv_module_kind_text(m->kind), *name = memory ? "memory_T" : "T";
    const size_t context = (size_t)qkv_module_context(m, memory);
    if (!has && length)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "cache of a module: %s is %zu, but the %s module has no such attention",
                        name, length, kind);
    if (has && !length)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "cache of a module: %s is 0; it must be at least 1 for the %s module",
                        name, kind);
    if (length <= context) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "cache of a module: %s is %zu, but the %s module has a context of %zu positions", name, length,
                    kind, context);
}

static enum qkv_status cache_check(const struct qkv_module *m, size_t B, size_t T, size_t memory_T) {
    const bool self = qkv_module_has_self(m), cross = qkv_module_reads_memory(m);
    if (m->kind == QKV_MODULE_MODEL)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "model module: a whole model is decoded by a session or a decoder, which have caches");
    if (!self && !cross)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: it has no attention, so there is nothing to cache",
                        qkv_module_kind_text(m->kind));
    if (!B || B > (size_t)INT32_MAX)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "cache of a module: %zu rows are impossible; there are 1 to %d", B,
                        INT32_MAX);
    enum qkv_status status = cache_check_length(m, false, self, T);
    if (!status) status = cache_check_length(m, true, cross, memory_T);
    if (status || !cross || qkv_module_key_width(m) == qkv_module_value_width(m)) return status;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "%s module: keys are computed from %zu channels and values from %zu; a cache needs one memory for "
                    "both",
                    qkv_module_kind_text(m->kind), qkv_module_key_width(m), qkv_module_value_width(m));
}

static enum qkv_status cache_take(void *cache) {
    struct qkv_module_cache *c = cache;
    c->more = qkv_arena_take(&c->storage, c->B, sizeof *c->more);
    enum qkv_status status = c->more ? QKV_OK : QKV_MEMORY;
    if (!status) status = pages_take(c, &c->self);
    return status ? status : pages_take(c, &c->cross);
}

static enum qkv_status cache_make(struct qkv_module_cache *c) {
    static const char what[] = "the cache of a module";
    struct qkv_context *ctx = c->module->ctx;
    size_t bytes = 0;
    enum qkv_status status = pages_make_pool(c, &c->self, false);
    if (!status) status = pages_make_pool(c, &c->cross, true);
    if (!status) status = qkv_plan(ctx, &c->storage, what, cache_take, c, &bytes);
    if (!status) status = qkv_arena_create(ctx, &c->storage, bytes, what);
    if (!status) status = cache_take(c);
    for (size_t b = 0; b < c->B && !status; b++) {
        if (c->self.pool) c->self.tables[b] = c->self.lists[b].pages;
        if (c->cross.pool) c->cross.tables[b] = c->cross.lists[b].pages;
    }
    return status;
}

enum qkv_status qkv_module_cache_create(struct qkv_module *m, size_t B, size_t T, size_t memory_T,
                                        struct qkv_module_cache **out) {
    QKV_CALL_OUT(m ? m->ctx : NULL, out);
    QKV_NEED(qkv_call, m);
    enum qkv_status status = cache_check(m, B, T, memory_T);
    if (status) return status;
    struct qkv_module_cache *c = qkv_allocate(m->ctx, 1, sizeof *c);
    if (!c) return QKV_MEMORY;
    *c = (struct qkv_module_cache){.module = m, .B = B, .self.capacity = T, .cross.capacity = memory_T};
    m->owners++;
    status = cache_make(c);
    if (!status)
        *out = c;
    else
        qkv_module_cache_free(c);
    return status;
}

void qkv_module_cache_free(struct qkv_module_cache *c) {
    if (!c) return;
    if (c->module->calls_cache == c) qkv_module_drop_call(c->module);
    qkv_page_pool_free(c->self.pool);
    qkv_page_pool_free(c->cross.pool);
    qkv_module_free(c->module);
    qkv_arena_free(&c->storage);
    free(c);
}

/* ---- lengths ----------------------------------------------------------------------------------------------------- */

size_t qkv_module_cache_length(const struct qkv_module_cache *c) {
    if (!c) return 0;
    return c->self.pool ? c->self.length : c->cross.length;
}

void qkv_module_cache_truncate(struct qkv_module_cache *c, size_t length) {
    if (!c) return;
    qkv_module_pages_truncate(c, c->self.pool ? &c->self : &c->cross, length);
}
