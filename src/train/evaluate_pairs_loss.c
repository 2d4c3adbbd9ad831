/* The teacher-forced loss over a file of pairs: passes over batches of similar length. The decoder reads <s> and the
 * target, and is to say the target and </s>. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "text/sequence.h"
#include "train/evaluate_pairs.h"
#include "rank/evaluate_share.h"
#include "train/train.h"

enum {
    WINDOW = 4096, /* pairs tokenized and sorted at a time */
    ROWS = 64,
    TOKENS = 4096 /* rows × longest */
};

struct example {
    size_t longest, source_count, target_count; /* target_count: without <s> */
    int32_t *source, *target;                   /* target begins with <s> and ends with </s> */
};

struct run {
    const struct qkv_pair_file *pairs;
    struct qkv_context *ctx;
    struct qkv_pass *pass;
    size_t B, T; /* the largest batch of the pass; T for either side */
    struct example *examples;
    size_t count;
    int32_t *ids, *targets, *source; /* (B,T) each */
    struct qkv_evaluate_share share; /* a part for each batch */
};

static enum qkv_status too_long(const struct run *r, const struct qkv_pair *pair, const char *side, size_t count) {
    return qkv_fail(r->ctx, QKV_FORMAT,
                    "%s:%zu: the %s has %zu tokens with its end, but the model's context is %d; shorten or remove it",
                    r->pairs->path, pair->line, side, count, qkv_model_spec(r->pairs->model)->context);
}

static enum qkv_status read_example(struct run *r, const struct qkv_pair *pair) {
    struct qkv_model *model = r->pairs->model;
    const char *source = r->pairs->text.data + pair->source, *target = r->pairs->text.data + pair->target;
    size_t most = (size_t)qkv_model_spec(model)->context, n;
    struct example *e = &r->examples[r->count++];
    *e = (struct example){0};
    enum qkv_status status = qkv_source_encode(r->ctx, qkv_model_source_tokenizer(model), source, strlen(source), false,
                                               true, &e->source, &e->source_count);
    if (!status)
        status = qkv_sequence_encode(r->ctx, qkv_model_tokenizer(model), target, strlen(target), false, true,
                                     &e->target, &n);
    if (status) return status;
    int32_t *begun = qkv_reallocate(r->ctx, e->target, n + 1, sizeof *begun);
    if (!begun) return QKV_MEMORY;
    memmove(begun + 1, begun, n * sizeof *begun);
    begun[0] = qkv_pairs_begin(model);
    e->target = begun;
    e->target_count = n;
    e->longest = e->target_count > e->source_count ? e->target_count : e->source_count;
    if (e->source_count > most) return too_long(r, pair, "source", e->source_count);
    return e->target_count > most ? too_long(r, pair, "target", e->target_count) : QKV_OK;
}

static int by_length(const void *a, const void *b) {
    const struct example *x = a, *y = b;
    return x->longest < y->longest ? -1 : x->longest > y->longest;
}

static size_t rows_of(size_t T) {
    size_t rows = TOKENS / T;
    return rows < 1 ? 1 : rows > ROWS ? ROWS : rows;
}

/* Of batches of at most so many rows of T positions, of which no more than TOKENS are used on either side. */
static struct qkv_pass_options pass_options(size_t rows, size_t T) {
    const size_t most = qkv_max(T, TOKENS), positions = T > most / rows ? most : rows * T;
    return QKV_OPTIONS(qkv_pass_options, .B = rows, .T = T, .source_T = T, .rows = positions, .source_rows = positions);
}

/* The positions of a pass that takes rows of `longest`, and the rows that it takes of `count`. */
static size_t pass_room(size_t context, size_t longest, size_t count, size_t *rows) {
    size_t T = 16;
    while (T < longest) T *= 2;
    *rows = qkv_min(rows_of(T / 2 + 1), count);
    return qkv_min(T, context);
}

enum qkv_status qkv_pairs_loss_measure(struct qkv_model *model, size_t count, size_t longest, size_t *bytes) {
    const size_t context = (size_t)qkv_model_spec(model)->context;
    size_t rows;
    const size_t T = pass_room(context, qkv_min(longest, context), count ? count : SIZE_MAX, &rows);
    const struct qkv_pass_options options = pass_options(rows, T);
    struct qkv_pass_plan plan = {0};
    enum qkv_status status = qkv_pass_measure(model, &options, 0, &plan);
    *bytes = plan.bytes;
    return status;
}

/* A pass that takes the batch: planned for twice the length at most, so that few are made while lengths grow. */
static enum qkv_status make_room(struct run *r, size_t B, size_t longest) {
    if (B <= r->B && longest <= r->T) return QKV_OK;
    size_t rows, n;
    const size_t T = pass_room((size_t)qkv_model_spec(r->pairs->model)->context, longest, r->count, &rows);
    if (rows < B) rows = B;
    if (!qkv_multiply(rows, T, &n)) return qkv_fail_memory(r->ctx, SIZE_MAX, "the ids of a batch");
    qkv_pass_free(r->pass);
    r->pass = NULL;
    r->B = r->T = 0;
    free(r->ids);
    free(r->targets);
    free(r->source);
    r->ids = qkv_allocate(r->ctx, n, sizeof *r->ids);
    r->targets = qkv_allocate(r->ctx, n, sizeof *r->targets);
    r->source = qkv_allocate(r->ctx, n, sizeof *r->source);
    if (!r->ids || !r->targets || !r->source) return QKV_MEMORY;
    const struct qkv_pass_options options = pass_options(rows, T);
    enum qkv_status status = qkv_pass_create(r->pairs->model, &options, &r->pass);
    if (status) return status;
    r->B = rows;
    r->T = T;
    return QKV_OK;
}

static enum qkv_status run_batch(struct run *r, const struct example *examples, size_t B) {
    struct qkv_batch batch = {.B = B};
    int32_t lengths[ROWS], source_lengths[ROWS];
    size_t counted;
    const bool mine = qkv_evaluate_share_next(&r->share);
    struct qkv_evaluate_part *part = qkv_evaluate_share_add(&r->share, 1);
    if (!part) return QKV_MEMORY;
    if (!mine) return QKV_OK;
    enum qkv_status status = make_room(r, B, examples[B - 1].longest);
    if (status) return status;
    for (size_t b = 0; b < B; b++) {
        if (examples[b].target_count > batch.T) batch.T = examples[b].target_count;
        if (examples[b].source_count > batch.source_T) batch.source_T = examples[b].source_count;
    }
    for (size_t b = 0; b < B; b++) {
        const struct example *e = &examples[b];
        lengths[b] = (int32_t)e->target_count;
        source_lengths[b] = (int32_t)e->source_count;
        memcpy(r->ids + b * batch.T, e->target, e->target_count * sizeof *r->ids);
        memcpy(r->targets + b * batch.T, e->target + 1, e->target_count * sizeof *r->ids);
        memcpy(r->source + b * batch.source_T, e->source, e->source_count * sizeof *r->ids);
    }
    batch.ids = r->ids;
    batch.targets = r->targets;
    batch.source = r->source;
    batch.lengths = lengths;
    batch.source_lengths = source_lengths;
    status = qkv_pass_forward(r->pass, &batch);
    if (status) return status;
    double loss = qkv_pass_loss(r->pass, &counted);
    part->nll = loss * (double)counted;
    part->tokens = counted;
    return QKV_OK;
}

static enum qkv_status run_window(struct run *r, size_t done, qkv_progress *progress, void *user) {
    enum qkv_status status = QKV_OK;
    qsort(r->examples, r->count, sizeof *r->examples, by_length);
    for (size_t first = 0, B; first < r->count && !status; first += B) {
        for (B = 1; first + B < r->count && B < rows_of(r->examples[first + B].longest);) B++;
        status =
            qkv_train_progress(r->ctx, progress, user, "evaluating", (double)(done + first), (double)r->pairs->count);
        if (!status) status = run_batch(r, r->examples + first, B);
    }
    return status;
}

static void evaluate_pairs_loss_clear(struct run *r) {
    for (size_t i = 0; i < r->count; i++) {
        qkv_free(r->examples[i].source);
        qkv_free(r->examples[i].target);
    }
    r->count = 0;
}

enum qkv_status qkv_pairs_loss(const struct qkv_pair_file *pairs, qkv_progress *progress, void *user, double *loss) {
    struct run r = {.pairs = pairs, .ctx = qkv_model_context(pairs->model)};
    size_t most = pairs->count < WINDOW ? pairs->count : WINDOW;
    r.share = (struct qkv_evaluate_share){.ctx = r.ctx, .size = sizeof(struct qkv_evaluate_part)};
    r.examples = qkv_allocate(r.ctx, most, sizeof *r.examples);
    enum qkv_status status = r.examples ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0, begin = 0; i < pairs->count && !status; begin = i) {
        while (i < pairs->count && i < begin + WINDOW && !status) status = read_example(&r, &pairs->list[i++]);
        if (!status) status = run_window(&r, begin, progress, user);
        evaluate_pairs_loss_clear(&r);
    }
    status = qkv_evaluate_share_gather(&r.share, status);
    const struct qkv_evaluate_part all = qkv_evaluate_share_sum(&r.share);
    *loss = all.tokens ? all.nll / (double)all.tokens : 0;
    if (!status && !isfinite(*loss))
        status = qkv_fail(r.ctx, QKV_NUMBER,
                          "the loss over %s is not a finite number: the model's weights are broken; take those of an "
                          "earlier checkpoint",
                          pairs->path);
    qkv_pass_free(r.pass);
    qkv_evaluate_share_free(&r.share);
    free(r.examples);
    free(r.ids);
    free(r.targets);
    free(r.source);
    return status;
}
