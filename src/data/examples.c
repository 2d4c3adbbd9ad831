/* Examples of two sides, as sequences that lie one after the other in two token files: targets and their sources,
 * labelled texts and their labels. Where a sequence begins is found by looking for the ids that end them. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "data/talk.h"

/* Counts the sequences of a side, and with `at` notes where they begin. `marks`: tell which tokens end them; NULL: the
 * id `end`. */
static enum qkv_status examples_scan(struct qkv_context *ctx, const struct qkv_tokens *tokens, int32_t end,
                                     const struct qkv_tokens *marks, size_t most, size_t *at, size_t *count) {
    size_t begin = 0;
    *count = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        int32_t id = qkv_tokens_at(tokens, i);
        if (id < 0) return qkv_tokens_outside(ctx, tokens, i);
        if (marks ? !(qkv_tokens_at(marks, i) & QKV_MARK_LAST) : end >= 0 && id != end) continue;
        if (i + 1 - begin > most)
            return qkv_fail(
                ctx, QKV_FORMAT,
                "%s: sequence %zu has %zu tokens, more than the %zu of the model's context; remove the file, "
                "and it is made again",
                tokens->path, *count, i + 1 - begin, most);
        if (at) at[*count] = begin;
        begin = i + 1;
        ++*count;
    }
    if (begin < tokens->count)
        return qkv_fail(ctx, QKV_FORMAT, "%s: the last sequence has no end; remove the file, and it is made again",
                        tokens->path);
    if (at) at[*count] = begin;
    return QKV_OK;
}

static enum qkv_status examples_differ(struct qkv_context *ctx, const struct qkv_examples *e) {
    return qkv_fail(ctx, QKV_FORMAT, "%s has %zu tokens but %s has %zu; remove both, and they are made again",
                    e->main.path, e->main.count, e->beside.path, e->beside.count);
}

enum qkv_status qkv_examples_index(struct qkv_context *ctx, struct qkv_examples *e, size_t most) {
    size_t beside;
    const int32_t beside_end = e->beside_each ? -1 : e->beside_end;
    enum qkv_status status = qkv_tokens_load(&e->main);
    if (!status) status = qkv_tokens_load(&e->beside);
    const struct qkv_tokens *marks = e->marks ? &e->beside : NULL;
    if (!status && e->marks && e->main.count != e->beside.count) return examples_differ(ctx, e);
    if (!status) status = examples_scan(ctx, &e->main, e->end, marks, most, NULL, &e->count);
    if (!status) status = examples_scan(ctx, &e->beside, beside_end, NULL, most, NULL, &beside);
    if (status) return status;
    if (e->beside_each && e->main.count != e->beside.count) return examples_differ(ctx, e);
    if (!e->beside_each && beside != e->count)
        return qkv_fail(ctx, QKV_FORMAT, "%s has %zu sequences but %s has %zu; remove both, and they are made again",
                        e->main.path, e->count, e->beside.path, beside);
    e->main_at = qkv_allocate(ctx, e->count + 1, sizeof *e->main_at);
    e->beside_at = qkv_allocate(ctx, e->count + 1, sizeof *e->beside_at);
    if (!e->main_at || !e->beside_at) return QKV_MEMORY;
    status = examples_scan(ctx, &e->main, e->end, marks, most, e->main_at, &e->count);
    if (!status && e->beside_each) memcpy(e->beside_at, e->main_at, (e->count + 1) * sizeof *e->beside_at);
    if (status || e->beside_each) return status;
    return examples_scan(ctx, &e->beside, e->beside_end, NULL, most, e->beside_at, &beside);
}

void qkv_examples_free(struct qkv_examples *e) {
    qkv_tokens_close(&e->main);
    qkv_tokens_close(&e->beside);
    free(e->main_at);
    free(e->beside_at);
    *e = (struct qkv_examples){0};
}

size_t qkv_examples_bytes(const struct qkv_examples *e) {
    const size_t places = e->main_at ? (e->count + 1) * QKV_EXAMPLE_BYTES : 0;
    return e->main.all.size + e->beside.all.size + places;
}

static size_t examples_copy(const struct qkv_tokens *tokens, const size_t *at, size_t i, int32_t *ids) {
    for (size_t k = at[i]; k < at[i + 1]; k++) *ids++ = qkv_tokens_at(tokens, k);
    return at[i + 1] - at[i];
}

size_t qkv_examples_main(const struct qkv_examples *e, size_t i, int32_t *ids) {
    return examples_copy(&e->main, e->main_at, i, ids);
}

size_t qkv_examples_beside(const struct qkv_examples *e, size_t i, int32_t *ids) {
    return examples_copy(&e->beside, e->beside_at, i, ids);
}
