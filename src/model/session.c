/* session: decoding one sequence with a KV cache, through the same stack as training.
 *
 * Long inputs go through in chunks of a fixed size, so the memory of a step does not grow with the prompt; because a row's
 * bits depend on that row only, the chunks give exactly what one pass over everything gives. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 };

struct qkv_session {
    struct qkv_model *model;
    size_t capacity, length;
    struct qkv_arena cache_memory, arena, records;
    struct qkv_key_values *cache; /* one a layer */
    float *logits;                /* in cache_memory; the next token's */
    int32_t *positions, *lo, *hi; /* of a chunk; in cache_memory */
    bool has_logits;
};

static enum qkv_status take_cache(struct qkv_session *s) {
    const struct qkv_attention_spec *a = &s->model->spec.decoder.attention;
    struct qkv_arena *arena = &s->cache_memory;
    bool taken = true;
    for (size_t layer = 0; layer < (size_t)s->model->spec.decoder.layers; layer++) {
        s->cache[layer].capacity = s->capacity;
        s->cache[layer].k =
            qkv_arena_take(arena, s->capacity * (size_t)a->kv_heads * (size_t)a->head_dim, sizeof(float));
        s->cache[layer].v =
            qkv_arena_take(arena, s->capacity * (size_t)a->kv_heads * (size_t)a->value_dim, sizeof(float));
        taken = taken && s->cache[layer].k && s->cache[layer].v;
    }
    s->logits = qkv_arena_take(arena, (size_t)s->model->spec.vocab, sizeof(float));
    s->positions = qkv_arena_take(arena, CHUNK, sizeof(int32_t));
    s->lo = qkv_arena_take(arena, CHUNK, sizeof(int32_t));
    s->hi = qkv_arena_take(arena, CHUNK, sizeof(int32_t));
    return taken && s->logits && s->positions && s->lo && s->hi ? QKV_OK : QKV_MEMORY;
}

/* T new ids at positions length … length + T − 1; the last row's scores when `score`. With ctx->dry, the plan. */
static enum qkv_status run_chunk(struct qkv_session *s, const int32_t *ids, size_t T, bool score) {
    struct qkv_model *m = s->model;
    struct qkv_tape tape;
    qkv_arena_release(&s->arena, 0);
    qkv_arena_release(&s->records, 0);
    qkv_tape_start(&tape, m->ctx, &s->arena, &s->records, false);
    const struct qkv_attention_spec *a = &m->spec.decoder.attention;
    struct qkv_mask mask = {
        .B = 1, .Tq = T, .Tk = s->length + T, .offset = (int64_t)s->length, .causal = a->causal, .window = a->window};
    if (!m->ctx->dry) {
        for (size_t t = 0; t < T; t++) {
            s->positions[t] = (int32_t)(s->length + t);
        }
        qkv_tape_failed(&tape, qkv_mask_intervals(m->ctx, &mask, s->lo, s->hi));
    }
    struct qkv_flow flow = {.tape = &tape,
                            .spec = &m->spec,
                            .stack = &m->decoder,
                            .B = 1,
                            .T = T,
                            .positions = s->positions,
                            .lo = s->lo,
                            .hi = s->hi,
                            .past = s->length,
                            .cache = s->cache};
    struct qkv_tensor *x = qkv_stack_forward(&flow, ids);
    if (score && x) {
        struct qkv_tensor *last = qkv_tape_view(&tape, x->data + (x->rows - 1) * x->columns, 1, x->columns);
        struct qkv_loss unused;
        qkv_op_cross_entropy(&tape, last, m->head_weight, qkv_tensor_or_null(&m->head_bias),
                             &(struct qkv_cross_entropy_options){.logits = s->logits}, &unused);
    }
    return tape.status;
}

/* Bytes of a step with T new positions, the last of which is `end` − 1, by a dry run. */
static enum qkv_status measure_step(struct qkv_session *s, size_t end, size_t T, size_t *bytes) {
    struct qkv_context *ctx = s->model->ctx;
    const struct qkv_arena real = s->arena;
    const size_t length = s->length;
    const bool dry = ctx->dry;
    ctx->dry = true;
    qkv_arena_measure(ctx, &s->arena, "one decoding step");
    s->length = end - T;
    enum qkv_status status = run_chunk(s, NULL, T, true);
    ctx->dry = dry;
    s->length = length;
    if (s->arena.peak > *bytes) {
        *bytes = s->arena.peak;
    }
    s->arena = real;
    return status;
}

/* The steps that are sure to come: a whole chunk, and a single position. */
static enum qkv_status measure(struct qkv_session *s, size_t *cache_bytes, size_t *step_bytes) {
    qkv_arena_measure(s->model->ctx, &s->cache_memory, "the KV cache");
    enum qkv_status status = take_cache(s);
    *cache_bytes = s->cache_memory.peak;
    *step_bytes = 0;
    if (status == QKV_OK) {
        status = measure_step(s, s->capacity, s->capacity < CHUNK ? s->capacity : CHUNK, step_bytes);
    }
    return status == QKV_OK ? measure_step(s, s->capacity, 1, step_bytes) : status;
}

/* Chunks of other lengths are cut differently, which can take more scratch. */
static enum qkv_status make_room(struct qkv_session *s, size_t T) {
    size_t bytes = 0;
    if (T == 1 || T == CHUNK) {
        return QKV_OK;
    }
    enum qkv_status status = measure_step(s, s->length + T, T, &bytes);
    if (status != QKV_OK || bytes <= s->arena.capacity) {
        return status;
    }
    qkv_arena_free(&s->arena);
    return qkv_arena_create(s->model->ctx, &s->arena, bytes, "one decoding step");
}

/* Everything of a session but its memory. */
static enum qkv_status start(struct qkv_model *m, size_t capacity, struct qkv_session **out) {
    *out = NULL;
    if (!m->decoder.spec || m->encoder.spec || m->spec.head.kind != QKV_HEAD_LM) {
        return qkv_fail(m->ctx, QKV_ARGUMENT, "generating needs a decoder alone with an lm head; this model has %s",
                        m->encoder.spec ? "an encoder" : "another head");
    }
    if (!m->spec.decoder.attention.causal) {
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "generating needs causal attention, but decoder.attention.causal is false: a token would have seen "
            "those after it");
    }
    size_t context = (size_t)m->spec.context;
    if (capacity > context) {
        return qkv_fail(m->ctx, QKV_ARGUMENT, "a session of %zu positions is longer than the model's context of %zu",
                        capacity, context);
    }
    struct qkv_session *s = qkv_allocate(m->ctx, 1, sizeof *s);
    if (!s) {
        return QKV_MEMORY;
    }
    *out = s;
    s->model = m;
    s->capacity = capacity ? capacity : context;
    s->cache = qkv_allocate(m->ctx, (size_t)m->spec.decoder.layers, sizeof *s->cache);
    return s->cache ? qkv_arena_create(m->ctx, &s->records, qkv_record_bytes(&m->spec), "records of one step")
                    : QKV_MEMORY;
}

enum qkv_status qkv_session_measure(struct qkv_model *model, size_t capacity, size_t *bytes) {
    struct qkv_session *s;
    size_t cache_bytes = 0, step_bytes = 0;
    enum qkv_status status = start(model, capacity, &s);
    if (status == QKV_OK) {
        status = measure(s, &cache_bytes, &step_bytes);
    }
    *bytes = cache_bytes + step_bytes;
    qkv_session_free(s);
    return status;
}

enum qkv_status qkv_session_create(struct qkv_model *model, size_t capacity, struct qkv_session **out) {
    size_t cache_bytes, step_bytes;
    *out = NULL;
    if (model->planned) {
        return qkv_fail(model->ctx, QKV_ARGUMENT, "a planned model has no weights to run with");
    }
    enum qkv_status status = start(model, capacity, out);
    struct qkv_session *s = *out;
    if (status == QKV_OK) {
        status = measure(s, &cache_bytes, &step_bytes);
    }
    if (status == QKV_OK) {
        status = qkv_arena_create(model->ctx, &s->cache_memory, cache_bytes, "the KV cache");
    }
    if (status == QKV_OK) {
        status = qkv_arena_create(model->ctx, &s->arena, step_bytes, "one decoding step");
    }
    if (status == QKV_OK) {
        status = take_cache(s);
    }
    if (status != QKV_OK) {
        qkv_session_free(s);
        *out = NULL;
    }
    return status;
}

void qkv_session_free(struct qkv_session *s) {
    if (!s) {
        return;
    }
    qkv_arena_free(&s->cache_memory);
    qkv_arena_free(&s->arena);
    qkv_arena_free(&s->records);
    free(s->cache);
    free(s);
}

static enum qkv_status check_append(struct qkv_session *s, const int32_t *ids, size_t n) {
    struct qkv_model *m = s->model;
    if (n > s->capacity - s->length) {
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "%zu more tokens do not fit: the session holds %zu of %zu positions (a longer context needs a model "
            "trained with one)",
            n, s->length, s->capacity);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= m->spec.vocab) {
            return qkv_fail(m->ctx, QKV_ARGUMENT, "token id %d is out of range: ids are 0 to %d", ids[i],
                            m->spec.vocab - 1);
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_session_append(struct qkv_session *s, const int32_t *ids, size_t n) {
    enum qkv_status status = check_append(s, ids, n);
    size_t before = s->length;
    for (size_t done = 0; done < n && status == QKV_OK;) {
        size_t T = n - done < CHUNK ? n - done : CHUNK;
        status = make_room(s, T);
        if (status == QKV_OK) {
            status = run_chunk(s, ids + done, T, done + T == n);
        }
        if (status != QKV_OK) {
            break;
        }
        s->length += T;
        done += T;
        s->has_logits = done == n;
    }
    if (status != QKV_OK) {
        s->length = before;
    }
    return status;
}

const float *qkv_session_logits(const struct qkv_session *s) {
    return s->has_logits ? s->logits : NULL;
}

size_t qkv_session_length(const struct qkv_session *s) {
    return s->length;
}

size_t qkv_session_capacity(const struct qkv_session *s) {
    return s->capacity;
}

void qkv_session_truncate(struct qkv_session *s, size_t length) {
    if (length >= s->length) {
        return;
    }
    s->length = length;
    s->has_logits = false;
}
