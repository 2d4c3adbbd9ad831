/* The rows of a decoder: whose source each reads, and what it goes on from.
 *
 * Every row has a run of the cache, found through `places`, so selecting rows copies only what two rows now continue. Rows of
 * one source that stand side by side read its keys as the queries of one attention row. */
#include "model/decode.h"

#include <string.h>

static size_t common_divisor(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void qkv_decoder_group(struct qkv_decoder *d) {
    size_t group = 0, run = 0;
    for (size_t r = 0; r < d->rows; r++) {
        run++;
        if (r + 1 < d->rows && d->sources[r + 1] == d->sources[r]) continue;
        group = common_divisor(run, group);
        run = 0;
    }
    d->group = group;
    for (size_t r = 0; r < d->rows; r++) {
        if (d->encoded) d->source_lengths[r] = d->encoded->lengths[d->sources[r]];
        if (r % group == 0) d->memory_rows[r / group] = d->sources[r];
    }
}

struct spread {
    const struct qkv_key_values *cache;
    const int32_t *from, *to; /* runs */
    const struct qkv_stack_spec *spec;
    size_t layers, length;
};

static void spread_run(void *argument, size_t item, int thread) {
    (void)thread;
    const struct spread *s = argument;
    const struct qkv_key_values *kv = &s->cache[item % s->layers];
    const struct qkv_attention_spec *a = &qkv_stack_layer(s->spec, item % s->layers)->attention;
    size_t copy = item / s->layers, k_width = (size_t)a->kv_heads * (size_t)a->head_dim;
    size_t v_width = (size_t)a->kv_heads * (size_t)a->value_dim;
    size_t from = (size_t)s->from[copy] * kv->capacity, to = (size_t)s->to[copy] * kv->capacity;
    memcpy(kv->k + to * k_width, kv->k + from * k_width, s->length * k_width * sizeof(float));
    memcpy(kv->v + to * v_width, kv->v + from * v_width, s->length * v_width * sizeof(float));
}

/* Gives each of the new rows a run of the cache: the first to go on from a row keeps its run, the others get a copy in runs
 * that nobody goes on from. */
static void move_runs(struct qkv_decoder *d, const size_t *from, size_t count) {
    int32_t *copy_from = d->copy_from, *copy_to = d->copy_to, *kept = d->run_kept;
    size_t copies = 0, free_run = 0;
    for (size_t r = 0; r < d->most; r++) kept[r] = 0;
    for (size_t r = 0; r < count; r++) {
        int32_t run = d->places[from[r]];
        d->next_places[r] = kept[run] ? -1 : run;
        kept[run] = 1;
    }
    for (size_t r = 0; r < count; r++) {
        if (d->next_places[r] >= 0) continue;
        while (kept[free_run]) free_run++;
        kept[free_run] = 1;
        copy_from[copies] = d->places[from[r]];
        copy_to[copies++] = d->next_places[r] = (int32_t)free_run;
    }
    struct spread s = {.cache = d->cache,
                       .from = copy_from,
                       .to = copy_to,
                       .spec = &d->model->spec.decoder,
                       .layers = (size_t)d->model->spec.decoder.layers,
                       .length = d->length};
    qkv_parallel(d->model->ctx, copies * s.layers, spread_run, &s);
}

static void decoder_rows_swap(int32_t **a, int32_t **b) {
    int32_t *c = *a;
    *a = *b;
    *b = c;
}

enum qkv_status qkv_decoder_move(struct qkv_decoder *d, const size_t *from, size_t count) {
    struct qkv_context *ctx = d->model->ctx;
    if (!from || count < 1 || count > d->most)
        return qkv_fail(ctx, QKV_ARGUMENT, "cannot select %zu rows; the decoder was made for 1 to %zu", count, d->most);
    for (size_t r = 0; r < count; r++)
        if (from[r] >= d->rows)
            return qkv_fail(ctx, QKV_ARGUMENT, "row %zu is to go on from row %zu, but there are only %zu rows", r,
                            from[r], d->rows);
    move_runs(d, from, count);
    for (size_t r = 0; r < count; r++) d->next_sources[r] = d->sources[from[r]];
    decoder_rows_swap(&d->places, &d->next_places);
    decoder_rows_swap(&d->sources, &d->next_sources);
    d->rows = count;
    d->scored = false;
    qkv_decoder_group(d);
    return QKV_OK;
}

struct gather {
    float *to;
    const float *from;
    const size_t *rows;
    size_t columns;
};

static void gather_row(void *argument, size_t r, int thread) {
    (void)thread;
    const struct gather *g = argument;
    memcpy(g->to + r * g->columns, g->from + g->rows[r] * g->columns, g->columns * sizeof(float));
}

enum qkv_status qkv_decoder_select(struct qkv_decoder *d, const size_t *from, size_t count) {
    QKV_CALL(d->model->ctx);
    const bool scored = d->scored;
    const size_t V = (size_t)d->model->spec.vocab;
    enum qkv_status status = qkv_decoder_move(d, from, count);
    if (status != QKV_OK || !scored || d->most == 1) {
        d->scored = scored && (status != QKV_OK || d->most == 1);
        return status;
    }
    qkv_arena_release(&d->arena, 0);
    float *copy = qkv_arena_take(&d->arena, count, V * sizeof(float));
    if (!copy) return QKV_MEMORY;
    struct gather g = {.to = copy, .from = d->logits, .rows = from, .columns = V};
    qkv_parallel(d->model->ctx, count, gather_row, &g);
    memcpy(d->logits, copy, count * V * sizeof(float));
    d->scored = true;
    return QKV_OK;
}
