/* One call of an attention layer: forward, backward and looking at it.
 *
 * Every call is planned first, by running it on an arena that only counts; memory is taken where it is more than calls
 * before needed. Nothing is given back before the next call, so what was computed can be looked at. */
#include "model/layer.h"
#include "op/steps.h"

#include <string.h>

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Keys that the queries of a call meet, the new ones included; and its mask, which has sizes and offset set. */
struct keys {
    size_t past, count;
    struct qkv_module_mask given;
};

static enum qkv_status check_batch(const struct qkv_attention_layer *l, const struct qkv_attention_input *in) {
    const size_t most = (size_t)INT32_MAX;
    size_t rows, numbers;
    if (in->B > most || in->T > most || !qkv_multiply(in->B, in->T, &rows) || rows > most ||
        !qkv_multiply(rows, (size_t)l->spec.in * sizeof(float), &numbers))
        return qkv_fail(l->ctx, QKV_SHAPE, "attention layer: a batch of %zu rows of %zu positions is too large", in->B,
                        in->T);
    if (!in->x && rows) return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: x is NULL");
    const void *arrays[] = {in->x, in->memory, in->bias, in->dbias};
    static const char *const names[] = {"x", "memory", "bias", "dbias"};
    for (size_t i = 0; i < 4; i++)
        if (qkv_aligned(l->ctx, names[i], arrays[i], sizeof(float))) return QKV_ARGUMENT;
    if (in->dbias && (!in->bias || !in->train))
        return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: dbias needs a bias, and train");
    return QKV_OK;
}

static enum qkv_status check_cache(const struct qkv_attention_layer *l, const struct qkv_attention_input *in) {
    const struct qkv_attention_cache *c = in->cache;
    if (!c) return QKV_OK;
    if (c->layer != l) return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: the cache was made for another layer");
    if (c->B != in->B)
        return qkv_fail(l->ctx, QKV_SHAPE, "attention layer: the cache has %zu rows, but the batch has %zu", c->B,
                        in->B);
    if (in->train)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention layer: with a cache there is no backward; leave out the cache, or train");
    return QKV_OK;
}

static enum qkv_status find_self(const struct qkv_attention_layer *l, const struct qkv_attention_input *in,
                                 struct keys *keys) {
    if (in->memory || in->memory_T)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention layer: memory is given, but self attention reads x; make the layer with cross");
    if (in->mask.offsets)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention layer: mask.offsets is given, but in self attention queries stand where their own "
                        "keys do");
    keys->past = in->cache ? in->cache->length : 0;
    if (in->cache && in->T > in->cache->capacity - keys->past)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention layer: %zu more positions do not fit: the cache holds %zu of %zu", in->T, keys->past,
                        in->cache->capacity);
    keys->count = keys->past + in->T;
    if (l->spec.context && keys->count > (size_t)l->spec.context)
        return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: %zu positions are more than the context of %d",
                        keys->count, l->spec.context);
    if (l->stack.tables[0].by_length && in->length > l->stack.tables[0].context)
        return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: length is %zu, more than the context of %d", in->length,
                        l->spec.context);
    return QKV_OK;
}

static enum qkv_status find_cross(const struct qkv_attention_layer *l, const struct qkv_attention_input *in,
                                  struct keys *keys) {
    const struct qkv_attention_cache *c = in->cache;
    size_t rows, numbers;
    keys->count = in->memory ? in->memory_T : c ? c->length : 0;
    if (!in->memory && !c)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention layer: cross attention needs a memory, or a cache that has one");
    if (!in->memory && !keys->count)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention layer: memory is NULL, but the cache holds none yet; give it once");
    if (!in->memory && in->memory_T && in->memory_T != keys->count)
        return qkv_fail(l->ctx, QKV_SHAPE, "attention layer: memory_T is %zu, but the cache holds %zu positions",
                        in->memory_T, keys->count);
    if (c && keys->count > c->capacity)
        return qkv_fail(l->ctx, QKV_ARGUMENT,
                        "attention layer: a memory of %zu positions does not fit into a cache of %zu", keys->count,
                        c->capacity);
    if (l->spec.context && (in->T > (size_t)l->spec.context || keys->count > (size_t)l->spec.context))
        return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: %zu positions are more than the context of %d",
                        in->T > keys->count ? in->T : keys->count, l->spec.context);
    if (keys->count > (size_t)INT32_MAX || !qkv_multiply(in->B, keys->count, &rows) || rows > (size_t)INT32_MAX ||
        !qkv_multiply(rows, (size_t)l->spec.kv_in * sizeof(float), &numbers))
        return qkv_fail(l->ctx, QKV_SHAPE, "attention layer: a memory of %zu rows of %zu positions is too large", in->B,
                        keys->count);
    return QKV_OK;
}

/* Checks what the spec and the call's own mask both allow, and the arrays over pairs. */
static enum qkv_status find_mask(const struct qkv_attention_layer *l, const struct qkv_attention_input *in,
                                 struct keys *keys) {
    struct qkv_module_mask *given = &keys->given;
    if (!l->spec.cross && in->mask.offset)
        return qkv_fail(
            l->ctx, QKV_ARGUMENT,
            "attention layer: mask.offset is %lld, but in self attention queries stand where their own keys "
            "do; leave it 0",
            (long long)in->mask.offset);
    *given = (struct qkv_module_mask){.mask = in->mask,
                                      .dense = in->dense,
                                      .dense_shape = in->dense_shape,
                                      .bias = in->bias,
                                      .bias_shape = in->bias_shape,
                                      .dbias = in->dbias};
    if (!l->spec.cross) given->mask.offset = (int64_t)keys->past;
    enum qkv_status status = qkv_forward_check(l->ctx, &l->spec.attention, given, in->B, in->T, keys->count);
    given->mask.B = in->B, given->mask.Tq = in->T, given->mask.Tk = keys->count;
    return status;
}

/* Keys and mask of a call. */
static enum qkv_status find_keys(const struct qkv_attention_layer *l, const struct qkv_attention_input *in,
                                 struct keys *keys) {
    *keys = (struct keys){0};
    enum qkv_status status = qkv_weights_check(&l->weights);
    if (!status) status = check_batch(l, in);
    if (!status) status = check_cache(l, in);
    if (!status) status = l->spec.cross ? find_cross(l, in, keys) : find_self(l, in, keys);
    return status ? status : find_mask(l, in, keys);
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* Padding may hold anything, but gradients of weights are products with all of an input: where its rows before the
 * starts or at and past the lengths, `past` of which lie in a cache, are not finite, they are read as zeros. */
static const float *without_padding(struct qkv_attention_layer *l, const float *data, const struct qkv_mask *mask,
                                    size_t T, size_t past, size_t columns) {
    if (!data || (!mask->lengths && !mask->starts)) return data;
    float *clean = qkv_tape_take(&l->tape, mask->B * T * columns, sizeof *clean);
    if (clean)
        qkv_tape_failed(&l->tape,
                        QKV_STEP(l->ctx, clean_rows, .to = clean, .from = data, .lengths = mask->lengths,
                                 .starts = mask->starts, .B = mask->B, .T = T, .past = past, .columns = columns));
    return clean;
}

/* x and memory as tensors; they are read only. */
static struct qkv_tensor *input_tensor(struct qkv_attention_layer *l, const float *data, size_t rows, int columns,
                                       bool requires_grad) {
    struct qkv_tensor *t = qkv_tape_view(&l->tape, (float *)(uintptr_t)data, rows, (size_t)columns);
    if (t) t->learning.requires_grad = requires_grad;
    return t;
}

/* The context of a call, without its memory. */
static struct qkv_forward_args layer_args(struct qkv_attention_layer *l, const struct qkv_attention_input *in,
                                          const struct keys *keys) {
    struct qkv_tape *tape = &l->tape;
    struct qkv_forward_pages pages = {.sequences = in->B, .longest = in->T, .queries = in->B * in->T};
    struct qkv_forward_attention attention = {.given = keys->given};
    if (in->cache) {
        const struct qkv_page_pool *pool = in->cache->pool;
        pages.table =
            (struct qkv_page_table){.lists = in->cache->tables, .positions = pool->positions, .count = pool->count};
        attention.pages = &pages;
    }
    struct qkv_forward_batch batch = {.B = in->B,
                                      .T = in->T,
                                      .positions = qkv_sequence_positions(tape, in->B, in->T, keys->past),
                                      .self = l->spec.cross ? NULL : &attention};
    const size_t length = in->length || !in->cache ? in->length : in->cache->capacity;
    if (qkv_stack_by_length(&l->stack))
        batch.turn_lengths = qkv_rotation_lengths(tape, in->B, in->T, length, keys->given.mask.lengths, keys->count);
    struct qkv_forward_args f = qkv_forward_begin(tape, l->model, &l->stack, &batch);
    if (l->spec.cross) qkv_forward_cross(&f, &attention);
    if (in->cache) *(l->spec.cross ? &f.memory_cache : &f.cache) = in->cache->pool->attention;
    f.kept = l->kept;
    return f;
}

/* The whole forward, or its plan. */
static enum qkv_status layer_run_all(struct qkv_attention_layer *l, const struct qkv_attention_input *in,
                                     const struct keys *keys) {
    const struct qkv_mask *mask = &keys->given.mask;
    qkv_arena_release(&l->arena, 0);
    qkv_arena_release(&l->graph_arena, 0);
    qkv_tape_start(&l->tape, l->ctx, &l->arena, &l->graph_arena, in->train);
    if (in->train) qkv_tape_train(&l->tape, in->seed);
    const float *x = in->x, *memory = in->memory;
    if (l->spec.cross)
        memory = without_padding(l, memory, mask, keys->count, 0, (size_t)l->spec.kv_in);
    else
        x = without_padding(l, x, mask, in->T, keys->past, (size_t)l->spec.in);
    if (l->tape.status) return l->tape.status;
    l->x = input_tensor(l, x, in->B * in->T, l->spec.in, in->train);
    l->memory = input_tensor(l, memory, in->B * keys->count, l->spec.kv_in, in->train);
    struct qkv_forward_args f = layer_args(l, in, keys);
    if (l->tape.status) return l->tape.status;
    f.memory = l->memory;
    l->y = qkv_stack_sublayer(&f, 0, l->spec.cross ? QKV_SUBLAYER_CROSS : QKV_SUBLAYER_SELF, l->x, NULL);
    return l->tape.status;
}

static enum qkv_status plan_look(struct qkv_attention_layer *l) {
    const struct qkv_attend *a = l->kept[l->spec.cross];
    return qkv_attend_weights(l->ctx, &l->arena, a, QKV_ATTENTION_WEIGHTS, 0, 0, 0, a->Tq, a->lse);
}

struct layer_plan {
    struct qkv_attention_layer *layer;
    const struct qkv_attention_input *in;
    const struct keys *keys;
};

/* A call with its backward and with looking at it. */
static enum qkv_status plan_call(void *argument) {
    const struct layer_plan *plan = argument;
    struct qkv_attention_layer *l = plan->layer;
    enum qkv_status status = layer_run_all(l, plan->in, plan->keys);
    if (!status) status = plan_look(l);
    if (!status && plan->in->train) status = qkv_tape_backward_from(&l->tape, l->y, l->y->data);
    if (!status && plan->in->train) status = plan_look(l);
    l->kept[0] = l->kept[1] = NULL;
    return status;
}

static enum qkv_status make_room(struct qkv_attention_layer *l, const struct qkv_attention_input *in,
                                 const struct keys *keys) {
    static const char what[] = "a call of an attention layer";
    struct layer_plan plan = {l, in, keys};
    size_t bytes = 0;
    enum qkv_status status = qkv_plan(l->ctx, &l->arena, what, plan_call, &plan, &bytes);
    return status ? status : qkv_arena_room(l->ctx, &l->arena, bytes, what);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

/* A call with no queries or no keys: every y is the output's bias. */
static void run_hollow(struct qkv_attention_layer *l, const struct qkv_attention_input *in, const struct keys *keys,
                       float *y) {
    const struct qkv_tensor *bias = qkv_tensor_or_null(&qkv_attention_layer_own(l)->o.bias);
    size_t out = (size_t)l->spec.out;
    for (size_t n = 0; n < in->B * in->T; n++)
        if (bias)
            l->ctx->backend->read(y + n * out, bias->data, out * sizeof *y);
        else
            memset(y + n * out, 0, out * sizeof *y);
    if (in->cache && in->memory) qkv_attention_cache_truncate(in->cache, 0);
    l->empty_call = true;
    l->empty_rows = in->B * in->T;
    l->empty_memory = l->spec.cross ? in->B * keys->count : 0;
    l->trained = in->train;
}

static enum qkv_status empty_backward(struct qkv_attention_layer *l, const float *dy, float *dx, float *dmemory) {
    struct qkv_tensor *bias = qkv_tensor_or_null(&qkv_attention_layer_own(l)->o.bias);
    size_t out = (size_t)l->spec.out;
    enum qkv_status status = QKV_OK;
    for (size_t n = 0; bias && n < l->empty_rows && !status; n++)
        status = QKV_STEP(l->ctx, carry, .sum = bias->learning.gradient, .levels = {dy + n * out}, .level_count = 1,
                          .count = out);
    if (dx) memset(dx, 0, l->empty_rows * (size_t)l->spec.in * sizeof *dx);
    if (dmemory) memset(dmemory, 0, l->empty_memory * (size_t)l->spec.kv_in * sizeof *dmemory);
    return status;
}

struct qkv_attention_input qkv_attention_input_defaults(void) {
    return (struct qkv_attention_input){0};
}

enum qkv_status qkv_attention_layer_forward(struct qkv_attention_layer *l, const struct qkv_attention_input *input,
                                            float *y) {
    QKV_CALL(l ? l->ctx : NULL);
    QKV_NEED(qkv_call, l);
    QKV_NEED(qkv_call, input);
    struct keys keys;
    l->trained = l->empty_call = false;
    l->kept[0] = l->kept[1] = NULL;
    QKV_NEED_ALL(qkv_call, input->B && input->T, y);
    enum qkv_status status = find_keys(l, input, &keys);
    if (!status) status = qkv_aligned(l->ctx, "y", y, sizeof(float));
    if (!status && (!input->B || !input->T || !keys.count)) {
        run_hollow(l, input, &keys, y);
        return QKV_OK;
    }
    if (!status) status = make_room(l, input, &keys);
    if (status) return status;
    const bool stores = input->cache && (input->memory || !l->spec.cross);
    if (stores) status = qkv_attention_cache_grow(input->cache, keys.past, keys.count - keys.past);
    if (!status) status = layer_run_all(l, input, &keys);
    if (status) {
        if (stores) qkv_attention_cache_truncate(input->cache, keys.past);
        l->kept[0] = l->kept[1] = NULL;
        return status;
    }
    l->ctx->backend->read(y, l->y->data, l->y->rows * l->y->columns * sizeof(float));
    l->kept_in = input->cache;
    l->trained = input->train;
    return QKV_OK;
}

/* An input's gradient; without one it got none, which is 0. */
static void give_out(const struct qkv_attention_layer *l, float *out, const struct qkv_tensor *x) {
    size_t bytes = x->rows * x->columns * sizeof(float);
    if (x->learning.buffer)
        l->ctx->backend->read(out, x->learning.buffer->data, bytes);
    else
        memset(out, 0, bytes);
}

enum qkv_status qkv_attention_layer_backward(struct qkv_attention_layer *l, const float *dy, float *dx,
                                             float *dmemory) {
    QKV_CALL(l ? l->ctx : NULL);
    QKV_NEED(qkv_call, l);
    QKV_NEED(qkv_call, dy);
    if (!l->trained)
        return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: backward needs a forward with train before it");
    const float *arrays[] = {dy, dx, dmemory};
    static const char *const names[] = {"dy", "dx", "dmemory"};
    for (size_t i = 0; i < 3; i++)
        if (qkv_aligned(l->ctx, names[i], arrays[i], sizeof(float))) return QKV_ARGUMENT;
    if (dmemory && !l->spec.cross)
        return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: dmemory is given, but self attention has no memory");
    l->trained = false;
    if (l->empty_call) return empty_backward(l, dy, dx, dmemory);
    l->x->learning.requires_grad = dx != NULL;
    if (l->memory) l->memory->learning.requires_grad = dmemory != NULL;
    enum qkv_status status = qkv_tape_backward_from(&l->tape, l->y, dy);
    if (!status && dx) give_out(l, dx, l->x);
    if (!status && dmemory) give_out(l, dmemory, l->memory);
    return status;
}

enum qkv_status qkv_attention_layer_weights_of(struct qkv_attention_layer *l, enum qkv_attention_stage stage, size_t b,
                                               size_t h, size_t first, size_t rows, float *out) {
    QKV_CALL(l ? l->ctx : NULL);
    QKV_NEED(qkv_call, l);
    QKV_NEED_ALL(qkv_call, rows, out);
    const struct qkv_attend *a = l->kept[l->spec.cross];
    if (!a)
        return qkv_fail(l->ctx, QKV_ARGUMENT, "attention layer: looking needs a forward before it, its cache alive");
    return qkv_attend_weights(l->ctx, &l->arena, a, stage, b, h, first, rows, out);
}
