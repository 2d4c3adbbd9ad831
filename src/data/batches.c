/* Batches of examples of similar length, so that little of them is padding.
 *
 * The examples are sorted by the longer of their two sides, then by each, and cut where a batch would have too many
 * rows or too many rows times its longest sequence. That is done once, so the number of batches of an epoch never
 * changes, and a step's epoch and place in it are arithmetic. An epoch shuffles the examples of one shape among
 * themselves, which leaves the shape of every batch as it is, and then the order in which the batches come. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

struct item {
    uint32_t longest, T, source_T; /* no more than the context */
    uint32_t index;
};

static int by_shape(const void *left, const void *right) {
    const struct item *a = left, *b = right;
    if (a->longest != b->longest) return a->longest < b->longest ? -1 : 1;
    if (a->T != b->T) return a->T < b->T ? -1 : 1;
    if (a->source_T != b->source_T) return a->source_T < b->source_T ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static bool same_shape(const struct item *a, const struct item *b) {
    return a->T == b->T && a->source_T == b->source_T;
}

static void sort_items(const struct qkv_examples *e, size_t begin, size_t count, struct item *items) {
    for (size_t k = 0; k < count; k++) {
        size_t i = begin + k, T = e->main_at[i + 1] - e->main_at[i];
        size_t S = e->beside_end < 0 || e->beside_each ? 0 : e->beside_at[i + 1] - e->beside_at[i];
        items[k] = (struct item){
            .longest = (uint32_t)qkv_max(T, S), .T = (uint32_t)T, .source_T = (uint32_t)S, .index = (uint32_t)i};
    }
    qsort(items, count, sizeof *items, by_shape);
}

/* Where the batch that begins at `begin` ends. Lengths rise, so its last example is its longest. */
static size_t batch_end(const struct item *items, size_t begin, size_t count, const struct qkv_batch_limits *limits) {
    size_t end = begin + 1;
    while (end < count) {
        size_t rows = end + 1 - begin;
        if (limits->rows && rows > limits->rows) break;
        if (limits->tokens && rows > limits->tokens / items[end].longest) break;
        end++;
    }
    return end;
}

/* Cuts the sorted items into batches: how many there are, or with arrays what they are. */
static void cut_batches(const struct item *items, size_t count, const struct qkv_batch_limits *limits,
                        struct qkv_batches *b, bool count_only) {
    b->count = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = batch_end(items, begin, count, limits);
        if (!count_only) {
            struct qkv_pass_shape shape = {.B = end - begin};
            uint64_t tokens = 0;
            for (size_t i = begin; i < end; i++) {
                if (items[i].T > shape.T) shape.T = items[i].T;
                if (items[i].source_T > shape.source_T) shape.source_T = items[i].source_T;
                tokens += (uint64_t)items[i].T + items[i].source_T;
            }
            b->shapes[b->count] = shape;
            b->tokens[b->count] = tokens;
            b->cut[b->count] = begin;
        }
        b->count++;
    }
    if (!count_only) b->cut[b->count] = count;
}

static enum qkv_status batches_allocate(struct qkv_context *ctx, struct qkv_batches *b) {
    b->sorted = qkv_allocate(ctx, b->examples, sizeof *b->sorted);
    b->order = qkv_allocate(ctx, b->examples, sizeof *b->order);
    b->group = qkv_allocate(ctx, b->examples + 1, sizeof *b->group);
    b->cut = qkv_allocate(ctx, b->count + 1, sizeof *b->cut);
    b->shapes = qkv_allocate(ctx, b->count, sizeof *b->shapes);
    b->visit = qkv_allocate(ctx, b->count, sizeof *b->visit);
    b->before = qkv_allocate(ctx, b->count + 1, sizeof *b->before);
    b->tokens = qkv_allocate(ctx, b->count, sizeof *b->tokens);
    bool all = b->sorted && b->order && b->group && b->cut && b->shapes && b->visit && b->before && b->tokens;
    return all ? QKV_OK : QKV_MEMORY;
}

static void put_in_order(struct qkv_batches *b) {
    memcpy(b->order, b->sorted, b->examples * sizeof *b->order);
    for (size_t i = 0; i < b->count; i++) b->visit[i] = (uint32_t)i;
    b->epoch = UINT64_MAX;
}

static enum qkv_status batches_fill(struct qkv_context *ctx, const struct item *items, size_t count,
                                    const struct qkv_batch_limits *limits, const char *text, struct qkv_batches *b) {
    size_t longest = items[count - 1].longest;
    if (limits->tokens && longest > limits->tokens)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "batch_tokens is %zu but the longest line of %s has %zu tokens; choose at least that",
                        limits->tokens, text, longest);
    cut_batches(items, count, limits, b, true);
    enum qkv_status status = batches_allocate(ctx, b);
    if (status) return status;
    cut_batches(items, count, limits, b, false);
    for (size_t i = 0; i < count; i++) {
        b->sorted[i] = items[i].index;
        if (i == 0 || !same_shape(&items[i - 1], &items[i])) b->group[b->groups++] = (uint32_t)i;
    }
    b->group[b->groups] = (uint32_t)count;
    put_in_order(b);
    return QKV_OK;
}

enum qkv_status qkv_batches_make(struct qkv_context *ctx, const struct qkv_examples *examples, size_t begin,
                                 size_t count, const struct qkv_batch_limits *limits, const char *text,
                                 struct qkv_batches *batches) {
    *batches = (struct qkv_batches){.examples = count};
    if (count == 0 || examples->count > UINT32_MAX - 1)
        return qkv_fail(ctx, QKV_FORMAT, "%s has %zu lines to use; it must have from 1 to %lu", text, count,
                        (unsigned long)UINT32_MAX - 1);
    struct item *items = qkv_allocate(ctx, count, sizeof *items);
    if (!items) return QKV_MEMORY;
    sort_items(examples, begin, count, items);
    enum qkv_status status = batches_fill(ctx, items, count, limits, text, batches);
    free(items);
    if (status) qkv_batches_free(batches);
    return status;
}

void qkv_batches_free(struct qkv_batches *b) {
    free(b->sorted);
    free(b->order);
    free(b->group);
    free(b->cut);
    free(b->shapes);
    free(b->visit);
    free(b->before);
    free(b->tokens);
    *b = (struct qkv_batches){0};
}

size_t qkv_batches_bytes(const struct qkv_batches *b) {
    const size_t each = sizeof *b->cut + sizeof *b->shapes + sizeof *b->visit + sizeof *b->before + sizeof *b->tokens;
    return b->examples * (sizeof *b->sorted + sizeof *b->order + sizeof *b->group) + b->count * each;
}

/* ---- epochs ----------------------------------------------------------------------------------------------------- */

/* Fisher and Yates. */
static void batches_shuffle(uint32_t *values, size_t count, struct qkv_random *random) {
    for (size_t i = count; i > 1; i--) {
        size_t k = (size_t)qkv_random_below(random, i);
        uint32_t value = values[i - 1];
        values[i - 1] = values[k];
        values[k] = value;
    }
}

static void set_epoch(struct qkv_batches *b, uint64_t seed, uint64_t epoch) {
    struct qkv_random random = qkv_draw_epoch(seed, epoch);
    put_in_order(b);
    for (size_t g = 0; g < b->groups; g++)
        batches_shuffle(b->order + b->group[g], b->group[g + 1] - b->group[g], &random);
    batches_shuffle(b->visit, b->count, &random);
    b->before[0] = 0;
    for (size_t v = 0; v < b->count; v++) b->before[v + 1] = b->before[v] + b->tokens[b->visit[v]];
    b->epoch = epoch;
}

size_t qkv_batches_at_step(struct qkv_batches *b, uint64_t seed, uint64_t step) {
    uint64_t epoch = step / b->count;
    if (b->epoch != epoch) set_epoch(b, seed, epoch);
    return b->visit[step % b->count];
}

uint64_t qkv_batches_tokens(struct qkv_batches *b, uint64_t seed, uint64_t step) {
    qkv_batches_at_step(b, seed, step);
    return step / b->count * b->before[b->count] + b->before[step % b->count + 1];
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static int compare_shapes(const void *left, const void *right) {
    const struct qkv_pass_shape *a = left, *b = right;
    if (a->B != b->B) return a->B < b->B ? -1 : 1;
    if (a->T != b->T) return a->T < b->T ? -1 : 1;
    return a->source_T < b->source_T ? -1 : a->source_T > b->source_T;
}

enum qkv_status qkv_batches_shapes(struct qkv_context *ctx, const struct qkv_batches *b, size_t parts,
                                   struct qkv_pass_shape **shapes, size_t *count) {
    struct qkv_pass_shape *all = qkv_allocate(ctx, 2 * b->count, sizeof *all);
    size_t n = 0, kept = 0;
    if (!all) return QKV_MEMORY;
    for (size_t i = 0; i < b->count; i++) {
        struct qkv_pass_shape shape = b->shapes[i];
        size_t rows = shape.B, most = parts < rows ? parts : rows;
        shape.B = rows / most;
        all[n++] = shape;
        shape.B = (rows + most - 1) / most;
        all[n++] = shape;
    }
    qsort(all, n, sizeof *all, compare_shapes);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare_shapes(&all[kept - 1], &all[i]) != 0) all[kept++] = all[i];
    struct qkv_pass_shape *fewer = qkv_reallocate(ctx, all, kept, sizeof *all);
    *shapes = fewer ? fewer : all;
    *count = kept;
    if (!fewer) qkv_forgive(ctx);
    return QKV_OK;
}
