/* layer: an attention layer by itself: a stack of one layer with its parameters, their gradients and its position
 * tables, in one arena; and its caches, sequences in a pool of pages. layer_run.c has its calls. */
#include "model/layer.h"

#include <stdlib.h>
#include <string.h>

/* ---- storage ----------------------------------------------------------------------------------------------------- */

static enum qkv_status take_weights(struct qkv_attention_layer *l) {
    const struct qkv_attention_layer_spec *s = &l->spec;
    const struct qkv_attention_spec *a = &s->attention;
    const struct qkv_dimensions sizes = {.C = (size_t)s->in,
                                         .H = (size_t)a->heads,
                                         .Hkv = (size_t)a->kv_heads,
                                         .D = (size_t)a->head_dim,
                                         .Dv = (size_t)a->value_dim,
                                         .M = (size_t)(s->cross ? s->kv_in : s->in),
                                         .U = (size_t)(s->cross ? s->kv_in : s->in),
                                         .O = (size_t)s->out};
    const struct qkv_weight_place place = {.layer = -1, .single = true, .sizes = &sizes};
    qkv_weights_free(&l->weights);
    l->weights = (struct qkv_weights){.ctx = l->ctx, .arena = &l->storage};
    *qkv_attention_layer_own(l) = (struct qkv_attention_parameters){0};
    l->stack.distances = (struct qkv_distance_weights){0};
    if (!s->cross) qkv_distance_build_weights(&l->weights, &place, a, &l->stack.distances);
    qkv_attention_build_weights(&l->weights, &place, a, s->cross, qkv_attention_layer_own(l));
    enum qkv_status status = qkv_weights_place(&l->weights);
    return status ? status : qkv_weights_add_gradients(&l->weights, &l->storage);
}

static enum qkv_status take_tables(struct qkv_attention_layer *l) {
    const struct qkv_position_fill fill = {.ctx = l->ctx,
                                           .arena = &l->storage,
                                           .position = &l->spec.attention.position,
                                           .attention = &l->spec.attention,
                                           .context = (size_t)l->spec.context};
    return qkv_position_fill_attention(&fill, &l->stack.tables[0]);
}

static enum qkv_status take_storage(void *layer) {
    enum qkv_status status = take_weights(layer);
    return status ? status : take_tables(layer);
}

/* Measured first, on an arena that only counts. */
static enum qkv_status make_storage(struct qkv_attention_layer *l) {
    static const char what[] = "an attention layer";
    size_t bytes = 0;
    enum qkv_status status = qkv_plan(l->ctx, &l->storage, what, take_storage, l, &bytes);
    if (!status) status = qkv_arena_create(l->ctx, &l->storage, bytes, what);
    return status ? status : take_storage(l);
}

/* The spec of the stack. */
static enum qkv_status make_stack(struct qkv_attention_layer *l) {
    l->model = qkv_allocate(l->ctx, 1, sizeof *l->model);
    if (!l->model) return QKV_MEMORY;
    struct qkv_stack_spec *spec = &l->model->decoder;
    spec->kind_count = spec->layers = 1;
    *(l->spec.cross ? &spec->kinds[0].cross : &spec->kinds[0].attention) = l->spec.attention;
    l->model->dropout = l->spec.dropout;
    l->stack = (struct qkv_stack){.spec = spec, .name = "layer", .has_cross = l->spec.cross, .layers = &l->only};
    l->only.keys_end = 1;
    return QKV_OK;
}

/* ---- making and freeing ------------------------------------------------------------------------------------------ */

struct qkv_attention_layer_spec qkv_attention_layer_spec_defaults(void) {
    return (struct qkv_attention_layer_spec){0};
}

enum qkv_status qkv_attention_layer_create(struct qkv_context *ctx, const struct qkv_attention_layer_spec *spec,
                                           uint64_t seed, struct qkv_attention_layer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    struct qkv_attention_layer_spec whole = *spec;
    enum qkv_status status = qkv_attention_layer_complete(ctx, &whole);
    if (status) return status;
    struct qkv_attention_layer *l = qkv_allocate(ctx, 1, sizeof *l);
    if (!l) return QKV_MEMORY;
    l->ctx = ctx;
    l->spec = whole;
    l->owners = 1;
    status = make_stack(l);
    if (!status) status = make_storage(l);
    if (!status) status = qkv_arena_create(ctx, &l->graph_arena, (size_t)64 << 10, "records of an attention layer");
    if (!status) status = qkv_weights_start(&l->weights, seed);
    if (status) {
        qkv_attention_layer_free(l);
        return status;
    }
    *out = l;
    return QKV_OK;
}

void qkv_attention_layer_free(struct qkv_attention_layer *l) {
    if (!l || --l->owners > 0) return; /* its caches hold it */
    qkv_weights_free(&l->weights);
    qkv_arena_free(&l->storage);
    qkv_arena_free(&l->arena);
    qkv_arena_free(&l->graph_arena);
    free(l->model);
    free(l);
}

const struct qkv_attention_layer_spec *qkv_attention_layer_spec(const struct qkv_attention_layer *l) {
    if (!l) return NULL;
    return &l->spec;
}

size_t qkv_attention_layer_parameters(const struct qkv_attention_layer *l) {
    if (!l) return 0;
    return l->weights.count;
}

const struct qkv_array *qkv_attention_layer_parameter(const struct qkv_attention_layer *l, size_t i) {
    if (!l) return NULL;
    return i < l->weights.count ? &l->weights.list[i].array : NULL;
}

float *qkv_attention_layer_weights(struct qkv_attention_layer *l, size_t i) {
    if (!l) return NULL;
    return i < l->weights.count ? l->weights.list[i].data : NULL;
}

float *qkv_attention_layer_gradient(struct qkv_attention_layer *l, size_t i) {
    if (!l) return NULL;
    return i < l->weights.count ? l->weights.list[i].gradient : NULL;
}

void qkv_attention_layer_clear_gradients(struct qkv_attention_layer *l) {
    if (!l) return;
    qkv_weights_clear_gradients(&l->weights);
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

static enum qkv_status check_cache(const struct qkv_attention_layer *l, size_t B, size_t capacity) {
    const size_t most = (size_t)INT32_MAX;
    if (!B || !capacity || B > most || capacity > most)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention cache: %zu rows of %zu positions are impossible; both are from 1 to %zu", B,
                        capacity, most);
    if (l->spec.context && capacity > (size_t)l->spec.context)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention cache: %zu positions are more than the context of the layer, %d", capacity,
                        l->spec.context);
    return QKV_OK;
}

static struct qkv_page_shape cache_shape(const struct qkv_attention_cache *c) {
    return (struct qkv_page_shape){.length = c->capacity, .sequences = c->B};
}

/* Takes the lists of pages. */
static enum qkv_status cache_take(void *cache) {
    struct qkv_attention_cache *c = cache;
    const struct qkv_page_shape shape = cache_shape(c);
    c->lists = qkv_decode_lists(&c->storage, &shape, c->B);
    c->tables = qkv_arena_take(&c->storage, c->B, sizeof *c->tables);
    c->more = qkv_arena_take(&c->storage, c->B, sizeof *c->more);
    return c->lists && c->tables && c->more ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status cache_make(struct qkv_attention_cache *c) {
    static const char what[] = "an attention cache";
    const struct qkv_attention_layer *l = c->layer;
    const struct qkv_attention_spec *spec =
        l->spec.cross ? &l->stack.spec->kinds[0].cross : &l->stack.spec->kinds[0].attention;
    const struct qkv_page_types types = {.k = &qkv_page_type_f32, .v = &qkv_page_type_f32};
    const struct qkv_page_shape shape = cache_shape(c);
    size_t bytes = 0;
    enum qkv_status status = qkv_page_pool_create(l->ctx, &spec, 1, types, what, &c->pool);
    if (!status) status = qkv_page_pool_begin(c->pool, &shape);
    if (!status) status = qkv_plan(l->ctx, &c->storage, what, cache_take, c, &bytes);
    if (!status) status = qkv_arena_create(l->ctx, &c->storage, bytes, what);
    if (!status) status = cache_take(c);
    for (size_t b = 0; b < c->B && !status; b++) c->tables[b] = c->lists[b].pages;
    return status;
}

enum qkv_status qkv_attention_cache_grow(struct qkv_attention_cache *c, size_t length, size_t more) {
    qkv_attention_cache_truncate(c, length);
    for (size_t b = 0; b < c->B; b++) c->more[b] = more;
    enum qkv_status status = qkv_page_lists_grow(c->pool, c->lists, c->more, c->B);
    if (!status) c->length += more;
    return status;
}

enum qkv_status qkv_attention_cache_create(struct qkv_attention_layer *l, size_t B, size_t capacity,
                                           struct qkv_attention_cache **out) {
    QKV_CALL_OUT(l ? l->ctx : NULL, out);
    QKV_NEED(qkv_call, l);
    enum qkv_status status = check_cache(l, B, capacity);
    if (status) return status;
    struct qkv_attention_cache *c = qkv_allocate(l->ctx, 1, sizeof *c);
    if (!c) return QKV_MEMORY;
    c->layer = l;
    c->B = B;
    c->capacity = capacity;
    l->owners++;
    status = cache_make(c);
    if (!status)
        *out = c;
    else
        qkv_attention_cache_free(c);
    return status;
}

void qkv_attention_cache_free(struct qkv_attention_cache *c) {
    if (!c) return;
    if (c->layer->kept_in == c) c->layer->kept[0] = c->layer->kept[1] = NULL;
    qkv_page_pool_free(c->pool);
    qkv_attention_layer_free(c->layer);
    qkv_arena_free(&c->storage);
    free(c);
}

size_t qkv_attention_cache_length(const struct qkv_attention_cache *c) {
    if (!c) return 0;
    return c->length;
}

void qkv_attention_cache_truncate(struct qkv_attention_cache *c, size_t length) {
    if (!c) return;
    for (size_t b = 0; b < c->B; b++) qkv_page_list_truncate(c->pool, &c->lists[b], length);
    if (length < c->length) c->length = length;
}
