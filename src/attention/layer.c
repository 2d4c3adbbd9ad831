/* layer: an attention layer by itself: its parameters, their gradients and its position tables, in one arena. What it computes
 * is in sublayer.c, a call of it in layer_run.c.
 *
 * Weights that are always used together (q, k and v of self attention; k and v of cross attention) lie side by side in one
 * tensor, so one product serves them all. */
#include "attention/layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { START_PIECE = 1 << 16 };

/* ---- storage ------------------------------------------------------------------------------------------------------ */

static enum qkv_status layer_take(struct qkv_attention_layer *l, struct qkv_tensor *t, size_t rows, size_t columns) {
    size_t count;
    if (!qkv_multiply(rows, columns, &count))
        return qkv_fail(l->ctx, QKV_SPEC, "attention layer: a matrix of %zu x %zu numbers is too large", rows, columns);
    *t = (struct qkv_tensor){.rows = rows, .columns = columns, .requires_grad = true};
    t->data = qkv_arena_take(&l->storage, count, sizeof(float)); /* fresh memory is zero */
    t->gradient = t->data ? qkv_arena_take(&l->storage, count, sizeof(float)) : NULL;
    return t->gradient ? QKV_OK : QKV_MEMORY;
}

/* `rows` rows of a tensor get a name; a bias is a vector. */
static void layer_name(struct qkv_attention_layer *l, const struct qkv_tensor *t, const char *text, bool vector,
                       size_t first, size_t rows) {
    size_t columns = vector ? 1 : t->columns;
    l->gradients[l->array_count] = t->gradient + first * columns;
    struct qkv_array *a = &l->arrays[l->array_count++];
    *a = (struct qkv_array){.name = text,
                            .dtype = QKV_F32,
                            .rank = vector ? 1 : 2,
                            .shape = {rows, vector ? 0 : columns},
                            .data = (float *)t->data + first * columns,
                            .bytes = rows * columns * sizeof(float)};
}

/* Rows of one product that have a name of their own. */
struct part {
    const char *weight, *bias;
    size_t rows;
};

static enum qkv_status layer_linear(struct qkv_attention_layer *l, struct qkv_linear *to, size_t in, bool bias,
                                    const struct part *parts, size_t count) {
    size_t out = 0, first = 0;
    for (size_t i = 0; i < count; i++) out += parts[i].rows;
    enum qkv_status status = layer_take(l, &to->weight, out, in);
    if (status == QKV_OK && bias) status = layer_take(l, &to->bias, 1, out);
    if (status != QKV_OK) return status;
    for (size_t i = 0; i < count; first += parts[i++].rows)
        layer_name(l, &to->weight, parts[i].weight, false, first, parts[i].rows);
    first = 0;
    for (size_t i = 0; bias && i < count; first += parts[i++].rows)
        layer_name(l, &to->bias, parts[i].bias, true, first, parts[i].rows);
    return QKV_OK;
}

static enum qkv_status take_parameters(struct qkv_attention_layer *l) {
    const struct qkv_attention_layer_spec *s = &l->spec;
    const struct qkv_attention_spec *a = &s->attention;
    struct qkv_attention_parameters *p = &l->parameters;
    size_t H = (size_t)a->heads, Hkv = (size_t)a->kv_heads, D = (size_t)a->head_dim, Dv = (size_t)a->value_dim;
    bool bias = a->bias != QKV_BIAS_NONE;
    const struct part qkv[] = {
        {"q.weight", "q.bias", H * D}, {"k.weight", "k.bias", Hkv * D}, {"v.weight", "v.bias", Hkv * Dv}};
    const struct part o = {"o.weight", "o.bias", (size_t)s->out};
    enum qkv_status status;
    l->array_count = 0;
    if (s->cross) {
        status = layer_linear(l, &p->q, (size_t)s->in, bias, qkv, 1);
        if (status == QKV_OK) status = layer_linear(l, &p->kv, (size_t)s->kv_in, bias, qkv + 1, 2);
    } else {
        status = layer_linear(l, &p->qkv, (size_t)s->in, bias, qkv, 3);
    }
    return status == QKV_OK ? layer_linear(l, &p->o, H * Dv, a->bias == QKV_BIAS_ALL, &o, 1) : status;
}

static enum qkv_status take_tables(struct qkv_attention_layer *l) {
    const struct qkv_position_fill fill = {.ctx = l->ctx,
                                           .arena = &l->storage,
                                           .position = &l->spec.position,
                                           .attention = &l->spec.attention,
                                           .context = (size_t)l->spec.context};
    l->tables = (struct qkv_position_tables){0};
    if (l->spec.position.kind == QKV_POSITION_ROPE) return qkv_position_rope(&fill, &l->tables);
    if (l->spec.position.kind == QKV_POSITION_ALIBI) return qkv_position_alibi(&fill, &l->tables);
    return QKV_OK;
}

/* Measured first, on an arena that only counts. */
static enum qkv_status make_storage(struct qkv_attention_layer *l) {
    bool dry = l->ctx->dry;
    l->ctx->dry = true;
    qkv_arena_measure(l->ctx, &l->storage, "an attention layer");
    enum qkv_status status = take_parameters(l);
    if (status == QKV_OK) status = take_tables(l);
    l->ctx->dry = dry;
    size_t bytes = l->storage.peak;
    l->storage = (struct qkv_arena){0};
    if (status == QKV_OK) status = qkv_arena_create(l->ctx, &l->storage, bytes, "an attention layer");
    if (status == QKV_OK) status = take_parameters(l);
    return status == QKV_OK ? take_tables(l) : status;
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

struct start {
    float *data, deviation;
    uint64_t seed, parameter;
};

/* Every piece draws from a stream of its own, so the weights do not depend on who fills what. */
static void start_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct start *s = argument;
    struct qkv_random random = qkv_random_start(s->seed, s->parameter << 32 | begin / START_PIECE);
    for (size_t i = begin; i < end; i++) s->data[i] = s->deviation * (float)qkv_random_normal(&random);
}

static void start_weights(struct qkv_attention_layer *l, uint64_t seed) {
    for (size_t i = 0; i < l->array_count; i++) {
        const struct qkv_array *a = &l->arrays[i];
        if (a->rank != 2) continue;
        struct start s = {.data = qkv_attention_layer_weights(l, i),
                          .deviation = 1 / sqrtf((float)a->shape[1]),
                          .seed = seed,
                          .parameter = i};
        qkv_parallel_range(l->ctx, a->shape[0] * a->shape[1], START_PIECE, start_piece, &s);
    }
}

/* ---- making and freeing ---------------------------------------------------------------------------------------------- */

enum qkv_status qkv_attention_layer_create(struct qkv_context *ctx, const struct qkv_attention_layer_spec *spec,
                                           uint64_t seed, struct qkv_attention_layer **out) {
    QKV_CALL(ctx);
    if (!out) return qkv_fail(ctx, QKV_ARGUMENT, "attention layer: out is NULL; give a place for the layer");
    *out = NULL;
    if (!ctx || !spec) return qkv_fail(ctx, QKV_ARGUMENT, "attention layer: spec is NULL");
    struct qkv_attention_layer_spec whole = *spec;
    enum qkv_status status = qkv_attention_layer_complete(ctx, &whole);
    if (status != QKV_OK) return status;
    struct qkv_attention_layer *l = qkv_allocate(ctx, 1, sizeof *l);
    if (!l) return QKV_MEMORY;
    l->ctx = ctx;
    l->spec = whole;
    l->owners = 1;
    status = make_storage(l);
    if (status == QKV_OK)
        status = qkv_arena_create(ctx, &l->graph_arena, (size_t)64 << 10, "records of an attention layer");
    if (status != QKV_OK) {
        qkv_attention_layer_free(l);
        return status;
    }
    start_weights(l, seed);
    *out = l;
    return QKV_OK;
}

void qkv_attention_layer_free(struct qkv_attention_layer *l) {
    if (!l || --l->owners > 0) return; /* its caches hold it */
    qkv_arena_free(&l->storage);
    qkv_arena_free(&l->arena);
    qkv_arena_free(&l->graph_arena);
    free(l);
}

const struct qkv_attention_layer_spec *qkv_attention_layer_spec(const struct qkv_attention_layer *l) {
    return &l->spec;
}

size_t qkv_attention_layer_parameters(const struct qkv_attention_layer *l) {
    return l->array_count;
}

const struct qkv_array *qkv_attention_layer_parameter(const struct qkv_attention_layer *l, size_t i) {
    return i < l->array_count ? &l->arrays[i] : NULL;
}

float *qkv_attention_layer_weights(struct qkv_attention_layer *l, size_t i) {
    return i < l->array_count ? (float *)(uintptr_t)l->arrays[i].data : NULL;
}

float *qkv_attention_layer_gradient(struct qkv_attention_layer *l, size_t i) {
    return i < l->array_count ? l->gradients[i] : NULL;
}

void qkv_attention_layer_clear_gradients(struct qkv_attention_layer *l) {
    for (size_t i = 0; i < l->array_count; i++) memset(l->gradients[i], 0, l->arrays[i].bytes);
}

/* ---- caches ------------------------------------------------------------------------------------------------------------ */

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

static enum qkv_status take_cache(struct qkv_attention_cache *c) {
    const struct qkv_attention_spec *a = &c->layer->spec.attention;
    size_t rows, k, v, bytes;
    bool fits = qkv_multiply(c->B, c->rows.capacity, &rows) &&
                qkv_multiply(rows, (size_t)a->kv_heads * (size_t)a->head_dim * sizeof(float), &k) &&
                qkv_multiply(rows, (size_t)a->kv_heads * (size_t)a->value_dim * sizeof(float), &v) &&
                qkv_add_size(k, v, &bytes) && qkv_add_size(bytes, QKV_CACHE_LINE, &bytes);
    if (!fits)
        return qkv_fail(c->layer->ctx, QKV_MEMORY,
                        "attention cache: %zu rows of %zu positions are more than this machine can address", c->B,
                        c->rows.capacity);
    enum qkv_status status = qkv_arena_create(c->layer->ctx, &c->storage, bytes, "an attention cache");
    if (status != QKV_OK) return status;
    c->rows.k = qkv_arena_take(&c->storage, k, 1);
    c->rows.v = qkv_arena_take(&c->storage, v, 1);
    return c->rows.k && c->rows.v ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_attention_cache_create(struct qkv_attention_layer *l, size_t B, size_t capacity,
                                           struct qkv_attention_cache **out) {
    QKV_CALL(l ? l->ctx : NULL);
    if (!out) return qkv_fail(l ? l->ctx : NULL, QKV_ARGUMENT, "attention cache: out is NULL");
    *out = NULL;
    if (!l) return QKV_ARGUMENT;
    enum qkv_status status = check_cache(l, B, capacity);
    if (status != QKV_OK) return status;
    struct qkv_attention_cache *c = qkv_allocate(l->ctx, 1, sizeof *c);
    if (!c) return QKV_MEMORY;
    c->layer = l;
    c->B = B;
    c->rows.capacity = capacity;
    l->owners++;
    status = take_cache(c);
    if (status == QKV_OK)
        *out = c;
    else
        qkv_attention_cache_free(c);
    return status;
}

void qkv_attention_cache_free(struct qkv_attention_cache *c) {
    if (!c) return;
    if (c->layer->kept_in == c) c->layer->kept = NULL;
    qkv_attention_layer_free(c->layer);
    qkv_arena_free(&c->storage);
    free(c);
}

size_t qkv_attention_cache_length(const struct qkv_attention_cache *c) {
    return c->length;
}

void qkv_attention_cache_truncate(struct qkv_attention_cache *c, size_t length) {
    if (length < c->length) c->length = length;
}
