/* What greedy search finds for the first validation sources, against their references: the metrics exact and
 * token_error.
 *
 * Examples with the same source are its references. exact is the share of sources whose target was found to the
 * token; token_error the edits to the closest reference over the tokens of those, all sources together. */
#include <stdlib.h>
#include <string.h>

#include "data/data.h"
#include "text/text.h"

enum { SOURCES_MOST = 500 };

struct
    group { /* of examples with one source: members begin … end of `order`, the first of them in the file is `first` */
    size_t begin, end;
    uint32_t first;
};
struct member {
    const struct qkv_examples *examples;
    uint32_t index;
};
struct found {
    struct qkv_data *d;
    const struct qkv_examples *examples;
    struct member *order; /* the examples by their sources */
    struct group *groups;
    size_t count;
    int32_t *ids, *reference;
    int32_t **sources;
    size_t *lengths;
    size_t exact, edits, tokens;
    bool failed;
};

static int by_source(const void *left, const void *right) {
    const struct member *a = left, *b = right;
    const struct qkv_examples *e = a->examples;
    size_t i = e->beside_at[a->index], j = e->beside_at[b->index];
    size_t n = e->beside_at[a->index + 1] - i, m = e->beside_at[b->index + 1] - j;
    for (size_t k = 0; k < n && k < m; k++) {
        int32_t x = qkv_tokens_at(&e->beside, i + k), y = qkv_tokens_at(&e->beside, j + k);
        if (x != y) return x < y ? -1 : 1;
    }
    if (n != m) return n < m ? -1 : 1;
    return 0;
}

static int by_source_then_place(const void *left, const void *right) {
    const struct member *a = left, *b = right;
    int order = by_source(a, b);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static int by_first(const void *left, const void *right) {
    const struct group *a = left, *b = right;
    return (a->first > b->first) - (a->first < b->first);
}

/* Groups the validation examples by their sources, in the order in which those come first. */
static enum qkv_status group_sources(struct found *f, size_t begin, size_t count) {
    f->order = qkv_allocate(f->d->ctx, count, sizeof *f->order);
    f->groups = qkv_allocate(f->d->ctx, count, sizeof *f->groups);
    if (!f->order || !f->groups) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) f->order[i] = (struct member){f->examples, (uint32_t)(begin + i)};
    qsort(f->order, count, sizeof *f->order, by_source_then_place);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || by_source(&f->order[i - 1], &f->order[i]) != 0)
            f->groups[f->count++] = (struct group){.begin = i, .first = f->order[i].index};
        f->groups[f->count - 1].end = i + 1;
    }
    qsort(f->groups, f->count, sizeof *f->groups, by_first);
    if (f->count > SOURCES_MOST) f->count = SOURCES_MOST;
    return QKV_OK;
}

static enum qkv_status copy_sources(struct found *f) {
    size_t T = f->d->T;
    f->ids = qkv_allocate(f->d->ctx, f->count * T, sizeof *f->ids);
    f->reference = qkv_allocate(f->d->ctx, T, sizeof *f->reference);
    f->sources = qkv_allocate(f->d->ctx, f->count, sizeof *f->sources);
    f->lengths = qkv_allocate(f->d->ctx, f->count, sizeof *f->lengths);
    if (!f->ids || !f->reference || !f->sources || !f->lengths) return QKV_MEMORY;
    for (size_t g = 0; g < f->count; g++) {
        f->sources[g] = f->ids + g * T;
        f->lengths[g] = qkv_examples_beside(f->examples, f->groups[g].first, f->sources[g]);
    }
    return QKV_OK;
}

/* Compares what was found for a source with each of its references. */
static bool validate_search_take(void *user, size_t source, const struct qkv_hypothesis *hypotheses, size_t count) {
    struct found *f = user;
    const struct group *group = &f->groups[source];
    size_t best = SIZE_MAX, tokens = 0;
    struct qkv_language language;
    const bool leads = count > 0 && hypotheses->count &&
                       qkv_language_of(qkv_model_tokenizer(f->d->model), *hypotheses->ids, &language);
    for (size_t i = group->begin; i < group->end && count > 0; i++) {
        size_t n = qkv_examples_main(f->examples, f->order[i].index, f->reference) - 1; /* without its end */
        const bool led = leads && !(n && *f->reference == *hypotheses->ids); /* a reference may begin without it */
        const int32_t *ids = led ? hypotheses->ids + 1 : hypotheses->ids;
        size_t edits = qkv_edit_distance(ids, hypotheses->count - led, f->reference, n);
        if (edits == SIZE_MAX) f->failed = true;
        if (edits >= best) continue;
        best = edits;
        tokens = n;
    }
    if (best == SIZE_MAX) return !f->failed;
    f->exact += best == 0;
    f->edits += best;
    f->tokens += tokens;
    return !f->failed;
}

static enum qkv_status validate_search_all(struct found *f) {
    struct qkv_search_options options = qkv_search_defaults();
    const int32_t *const *sources = (const int32_t *const *)f->sources;
    enum qkv_status status = qkv_train_progress(f->d->ctx, f->d->progress, f->d->user, "searching", 0, 0);
    if (!status) status = qkv_search(f->d->model, sources, f->lengths, f->count, &options, validate_search_take, f);
    return f->failed ? qkv_fail_memory(f->d->ctx, f->d->T, "an edit distance") : status;
}

enum qkv_status qkv_validate_search(struct qkv_data *d, double *exact, double *token_error) {
    bool own = d->options->valid != NULL;
    size_t count = d->lines.valid_batches.examples, begin = own ? 0 : d->lines.examples.count - count;
    struct found f = {.d = d, .examples = own ? &d->lines.valid_examples : &d->lines.examples};
    enum qkv_status status = group_sources(&f, begin, count);
    if (!status) status = copy_sources(&f);
    if (!status) status = validate_search_all(&f);
    *exact = f.count ? (double)f.exact / (double)f.count : 0;
    *token_error = (double)f.edits / (double)(f.tokens ? f.tokens : 1);
    free(f.order);
    free(f.groups);
    free(f.ids);
    free(f.reference);
    free(f.sources);
    free(f.lengths);
    return status;
}
