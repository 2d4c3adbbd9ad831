/* An optimizer (QKV_OPTIMIZER_LIST; optimizer_kinds.c): the state, and the cut into pieces of a size that does not
 * depend on the number of threads. The backend's step `optimize` has the arithmetic. What decays is said by
 * QKV_ROLE_LIST: matrices. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "base/sized_options.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "op/steps.h"
#include "train/optimizer_state.h"

#define PIECE ((size_t)1 << 14) /* elements a thread takes at a time: 4 arrays of 64 KiB */

static enum qkv_status check_options(struct qkv_context *ctx, const struct qkv_optimizer_options *o) {
    const struct {
        const char *name;
        double value;
    } decays[] = {{"beta1", o->beta1}, {"beta2", o->beta2}, {"momentum", o->momentum}};
    if (!qkv_optimizer_is_kind((int)o->kind))
        return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: there is no kind %d", (int)o->kind);
    char shown[QKV_REAL_TEXT];
    for (size_t i = 0; i < sizeof decays / sizeof *decays; i++)
        if (qkv_optimizer_reads(o->kind, decays[i].name) && !(decays[i].value >= 0 && decays[i].value < 1))
            return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: %s is %s; it must be at least 0 and less than 1",
                            decays[i].name, qkv_real_text(shown, decays[i].value));
    if (qkv_optimizer_reads(o->kind, "eps") && !(o->eps >= FLT_MIN && o->eps <= FLT_MAX))
        return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: eps is %s; it must be from 1.2e-38 to 3.4e38",
                        qkv_real_text(shown, o->eps));
    if (!(o->average >= 0 && o->average < 1))
        return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: average is %s; it must be at least 0 and less than 1",
                        qkv_real_text(shown, o->average));
    if (!(o->weight_decay >= 0 && o->weight_decay <= FLT_MAX))
        return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: weight_decay is %s; it must be from 0 to 3.4e38",
                        qkv_real_text(shown, o->weight_decay));
    return QKV_OK;
}

/* ---- what it keeps ---------------------------------------------------------------------------------------------- */

/* What of the numbers of a weight from `begin` on this rank updates, as a run that may be empty. */
static struct qkv_moment_run optimizer_run(const struct qkv_weights *w, size_t i, size_t begin) {
    const size_t n = w->list[i].rows * w->list[i].columns;
    struct qkv_moment_run run = {.weight = i, .begin = begin, .end = n};
    if (qkv_context_ranks(w->ctx) == 1) return run;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(w->ctx, w->floats);
    const size_t at = (size_t)(w->list[i].gradient - w->gradients), bucket = (at + begin) / cut.bucket;
    size_t first, last;
    qkv_rank_own(&cut, bucket, qkv_context_rank(w->ctx), &first, &last);
    run.end = qkv_min(n, (bucket + 1) * cut.bucket - at); /* of the bucket */
    run.begin = qkv_min(run.end, qkv_max(begin, first > at ? first - at : 0));
    run.end = last <= at + run.begin ? run.begin : qkv_min(run.end, last - at);
    return run;
}

/* Where the bucket ends that a number of a weight is in, as a number of the weight. */
static size_t optimizer_next(const struct qkv_weights *w, size_t i, size_t begin) {
    const size_t n = w->list[i].rows * w->list[i].columns;
    if (qkv_context_ranks(w->ctx) == 1) return n;
    const struct qkv_rank_cut cut = qkv_rank_cut_of(w->ctx, w->floats);
    const size_t at = (size_t)(w->list[i].gradient - w->gradients);
    return qkv_min(n, ((at + begin) / cut.bucket + 1) * cut.bucket - at);
}

/* Counts the runs, and writes them where `runs` is not NULL. */
static size_t cut_runs(const struct qkv_weights *w, struct qkv_moment_run *runs) {
    size_t count = 0;
    for (size_t i = 0; i < w->count; i++) {
        const size_t n = w->list[i].trainable ? w->list[i].rows * w->list[i].columns : 0;
        for (size_t begin = 0; begin < n; begin = optimizer_next(w, i, begin)) {
            const struct qkv_moment_run run = optimizer_run(w, i, begin);
            if (run.begin == run.end) continue;
            if (runs) runs[count] = run;
            count++;
        }
    }
    return count;
}

/* Counts the pieces, and writes them where `pieces` is not NULL. */
static size_t cut_pieces(const struct qkv_optimizer *o, struct qkv_optimizer_cut *pieces) {
    size_t count = 0;
    for (size_t i = 0; i < o->run_count; i++) {
        const struct qkv_moment_run *run = &o->runs[i];
        for (size_t begin = run->begin; begin < run->end; begin += PIECE, count++)
            if (pieces) pieces[count] = (struct qkv_optimizer_cut){i, begin, qkv_min(run->end, begin + PIECE)};
    }
    return count;
}

/* Moments of whole weights, behind those of the runs. */
static enum qkv_status take_whole(struct qkv_context *ctx, struct qkv_optimizer *o) {
    const struct qkv_weights *w = &o->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < w->count; i++)
        for (int k = 0; k < QKV_MOMENT_COUNT && !status; k++) {
            if (!qkv_moment_whole((enum qkv_moment)k) || !qkv_optimizer_keeps(o, (enum qkv_moment)k, i)) continue;
            const struct qkv_array array = qkv_moment_array((enum qkv_moment)k, &w->list[i]);
            float *moment = qkv_arena_take(&o->arena, qkv_array_elements(&array), sizeof(float));
            if (!moment) return QKV_MEMORY;
            o->whole[i][k] = moment;
            status = QKV_STEP(ctx, clear, .to = moment, .bytes = qkv_array_elements(&array) * sizeof(float));
        }
    return status;
}

/* Whether the runs have that moment. */
static bool optimizer_divides(const struct qkv_optimizer *o, enum qkv_moment k, size_t i) {
    return !qkv_moment_whole(k) && qkv_optimizer_keeps(o, k, i);
}

static enum qkv_status take_moments(struct qkv_context *ctx, struct qkv_optimizer *o) {
    const size_t line = QKV_CACHE_LINE / sizeof(float);
    size_t floats = 0, total;
    for (size_t i = 0; i < o->run_count; i++) /* as many as the weights have, at most */
        for (int k = 0; k < QKV_MOMENT_COUNT; k++)
            if (optimizer_divides(o, (enum qkv_moment)k, o->runs[i].weight))
                floats += qkv_pieces(o->runs[i].end - o->runs[i].begin, line) * line;
    const size_t whole = qkv_optimizer_whole_bytes(&o->options, &o->model->weights);
    if (!qkv_multiply(floats, sizeof(float), &total) || !qkv_add_size(total, whole, &total))
        return qkv_fail_memory(ctx, SIZE_MAX, "optimizer state");
    enum qkv_status status = qkv_arena_create_numbers(ctx, &o->arena, total, "optimizer state");
    for (int k = 0; k < QKV_MOMENT_COUNT && !status; k++) {
        for (size_t i = 0; i < o->run_count; i++) {
            if (!optimizer_divides(o, (enum qkv_moment)k, o->runs[i].weight)) continue;
            const size_t n = o->runs[i].end - o->runs[i].begin;
            float *moment = qkv_arena_take(&o->arena, n, sizeof(float));
            if (!moment) return QKV_MEMORY;
            o->runs[i].moments[k] = moment;
            status = QKV_STEP(ctx, clear, .to = moment, .bytes = n * sizeof(float));
            if (status) return status;
        }
    }
    return status;
}

/* Averages begin as the weights, which they are of. */
static enum qkv_status start_averages(struct qkv_context *ctx, struct qkv_optimizer *o) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < o->run_count && o->options.average > 0 && !status; i++) {
        const struct qkv_moment_run *run = &o->runs[i];
        status = QKV_STEP(ctx, copy, .to = run->moments[QKV_MOMENT_AVERAGE],
                          .from = o->model->weights.list[run->weight].data + run->begin,
                          .bytes = (run->end - run->begin) * sizeof(float));
    }
    return status;
}

static enum qkv_status fill_optimizer(struct qkv_context *ctx, struct qkv_optimizer *o) {
    const struct qkv_weights *weights = &o->model->weights;
    o->moments = qkv_optimizer_moments_of(&o->options, weights);
    o->chosen = weights->chosen;
    o->run_count = cut_runs(weights, NULL);
    o->runs = qkv_allocate(ctx, o->run_count + 1, sizeof *o->runs); /* a rank may own none */
    o->learns = qkv_allocate(ctx, weights->count, sizeof *o->learns);
    o->whole = qkv_allocate(ctx, weights->count, sizeof *o->whole);
    o->scales = qkv_allocate(ctx, weights->count, sizeof *o->scales);
    for (size_t i = 0; i < weights->count; i++) /* pieces may begin anywhere in a weight */
        o->square_count += weights->list[i].rows * weights->list[i].columns / QKV_GRADIENT_PIECE + 2;
    o->squares = qkv_allocate(ctx, (1 + (size_t)qkv_context_ranks(ctx)) * o->square_count, sizeof *o->squares);
    if (!o->runs || !o->learns || !o->whole || !o->scales || !o->squares) return QKV_MEMORY;
    for (size_t i = 0; i < weights->count; i++) o->learns[i] = weights->list[i].trainable;
    cut_runs(weights, o->runs);
    o->piece_count = cut_pieces(o, NULL);
    o->pieces = qkv_allocate(ctx, o->piece_count + 1, sizeof *o->pieces);
    o->work = qkv_allocate(ctx, o->piece_count + 1, sizeof *o->work);
    if (!o->pieces || !o->work) return QKV_MEMORY;
    cut_pieces(o, o->pieces);
    enum qkv_status status = take_moments(ctx, o);
    if (!status) status = take_whole(ctx, o);
    if (!status) status = start_averages(ctx, o);
    if (!status) status = qkv_optimizer_room(o->options.kind, weights, &o->scratch_bytes);
    if (status || !o->scratch_bytes) return status;
    return qkv_arena_create_numbers(ctx, &o->scratch, o->scratch_bytes, "optimizer");
}

void qkv_optimizer_options_init(struct qkv_optimizer_options *options, size_t size) {
    static const struct qkv_optimizer_options usual = {.size = sizeof usual,
                                                       .kind = QKV_OPTIMIZER_ADAMW,
                                                       .beta1 = 0.9,
                                                       .beta2 = 0.99,
                                                       .eps = 1e-8,
                                                       .momentum = 0.9,
                                                       .weight_decay = 0.1};
    qkv_options_init(options, size, &usual, sizeof usual);
}

enum qkv_status qkv_optimizer_create(struct qkv_model *model, const struct qkv_optimizer_options *options,
                                     struct qkv_optimizer **out) {
    QKV_CALL_OUT(qkv_model_context(model), out);
    QKV_NEED(qkv_call, model);
    struct qkv_optimizer_options own = qkv_optimizer_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(qkv_call, qkv_optimizer_options, &own, options);
    struct qkv_context *ctx = qkv_model_context(model);
    if (!status) status = check_options(ctx, &own);
    if (!status) status = qkv_model_check_own(model, "it cannot be trained");
    if (status) return status;
    if (model->planned)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "optimizer: the model is only a plan, without weights; make it with "
                        "qkv_model_create or qkv_model_load");
    if (!model->adapter) status = qkv_model_to_fp32(model);
    if (!status && qkv_context_ranks(ctx) > 1) status = qkv_model_add_gradients(model); /* ranks share those out */
    if (status) return status;
    struct qkv_optimizer *o = qkv_allocate(ctx, 1, sizeof *o);
    if (!o) return QKV_MEMORY;
    o->model = model;
    o->options = own;
    status = qkv_model_begin_use(model, true);
    o->trains = !status;
    if (!status) status = fill_optimizer(ctx, o);
    if (status) {
        qkv_optimizer_free(o);
        return status;
    }
    *out = o;
    return QKV_OK;
}

void qkv_optimizer_free(struct qkv_optimizer *optimizer) {
    if (!optimizer) return;
    qkv_arena_free(&optimizer->arena);
    qkv_arena_free(&optimizer->scratch);
    qkv_arena_free(&optimizer->masters.arena);
    free(optimizer->runs);
    free(optimizer->learns);
    free(optimizer->whole);
    free(optimizer->scales);
    free(optimizer->squares);
    free(optimizer->pieces);
    free(optimizer->work);
    if (optimizer->trains) qkv_model_end_use(optimizer->model, true);
    free(optimizer);
}

enum qkv_status qkv_optimizer_divide(struct qkv_optimizer *optimizer) {
    return qkv_rank_divide(optimizer->model, optimizer->runs, optimizer->run_count, &optimizer->masters);
}

const struct qkv_rank_masters *qkv_optimizer_masters(const struct qkv_optimizer *optimizer) {
    return &optimizer->masters;
}

/* ---- looking at it ----------------------------------------------------------------------------------------------- */

uint64_t qkv_optimizer_steps(const struct qkv_optimizer *optimizer) {
    return optimizer->steps;
}

void qkv_optimizer_set_steps(struct qkv_optimizer *optimizer, uint64_t steps) {
    optimizer->steps = steps;
}

size_t qkv_optimizer_moments(const struct qkv_optimizer *optimizer) {
    return optimizer->moments;
}

const struct qkv_moment_run *qkv_optimizer_runs(const struct qkv_optimizer *optimizer, size_t *count) {
    *count = optimizer->run_count;
    return optimizer->runs;
}

float *qkv_optimizer_moment(struct qkv_optimizer *optimizer, enum qkv_moment k, size_t i) {
    if (qkv_moment_whole(k)) return optimizer->whole[i][k];
    for (size_t r = 0; r < optimizer->run_count; r++)
        if (optimizer->runs[r].weight == i) return optimizer->runs[r].moments[k];
    return NULL;
}

bool qkv_optimizer_learns(const struct qkv_optimizer *optimizer, size_t i) {
    return optimizer->learns[i];
}

bool qkv_optimizer_keeps(const struct qkv_optimizer *optimizer, enum qkv_moment k, size_t i) {
    return optimizer->learns[i] && qkv_optimizer_has(&optimizer->options, k, &optimizer->model->weights.list[i]);
}

size_t qkv_optimizer_bytes(const struct qkv_optimizer *optimizer) {
    return optimizer->arena.peak + optimizer->scratch_bytes +
           optimizer->masters.arena.peak; /* a rank may own nothing */
}
