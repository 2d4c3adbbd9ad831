/* optimizer_step: a step of an optimizer, and the averages of the weights. The backend's steps have the arithmetic. */
#include <math.h>
#include <string.h>

#include "base/math.h"
#include "kernel/kernel.h"
#include "train/optimizer_state.h"

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* What a pass over the pieces is for. */
enum step_pass { STEP_UPDATE, STEP_WHOLE, STEP_AVERAGE, STEP_EXCHANGE };

/* The update of a piece of weight i in a pass; its scale is that of gradients, or the decay of averages. */
static void step_choose(const struct qkv_optimizer *o, size_t i, enum step_pass pass, float scale,
                        struct qkv_optimizer_piece *work) {
    work->scale = scale;
    if (pass == STEP_WHOLE) {
        work->update = QKV_UPDATE_descend;
        work->scale = o->scales[i];
    }
    if (pass == STEP_AVERAGE) work->update = QKV_UPDATE_average;
    if (pass == STEP_EXCHANGE) work->update = QKV_UPDATE_exchange;
}

/* The pieces that learn, where their numbers are now. */
static size_t step_pieces(const struct qkv_optimizer *o, float rate, float scale, enum step_pass pass) {
    size_t count = 0;
    for (size_t i = 0; i < o->piece_count; i++) {
        const struct qkv_optimizer_cut *piece = &o->pieces[i];
        const struct qkv_moment_run *run = &o->runs[piece->run];
        const struct qkv_weight *weight = &o->model->weights.list[run->weight];
        const size_t begin = piece->begin, own = begin - run->begin;
        const enum qkv_update update = qkv_optimizer_update(o->options.kind, weight);
        if (!weight->trainable || (pass == STEP_WHOLE && !qkv_update_whole(update))) continue;
        struct qkv_optimizer_piece *work = &o->work[count++];
        *work = (struct qkv_optimizer_piece){.weight = run->master ? run->master + own : weight->data + begin,
                                             .gradient = weight->gradient ? weight->gradient + begin : NULL,
                                             .count = piece->end - begin,
                                             .update = update,
                                             .rate = rate * weight->rate,
                                             .decay = weight->decays ? (float)o->options.weight_decay : 0};
        step_choose(o, run->weight, pass, scale, work);
        for (int k = 0; k < QKV_MOMENT_COUNT; k++) work->moments[k] = run->moments[k] ? run->moments[k] + own : NULL;
    }
    return count;
}

/* ---- whole gradients --------------------------------------------------------------------------------------------- */

/* The squares of a run's numbers, piece by piece of the norm, which ranks own whole; `squares` are those of its
 * weight. */
static enum qkv_status step_square_run(struct qkv_optimizer *o, const struct qkv_moment_run *run, double *squares) {
    const struct qkv_weights *w = &o->model->weights;
    const struct qkv_weight *weight = &w->list[run->weight];
    const size_t at = (size_t)(weight->gradient - w->gradients), piece = QKV_GRADIENT_PIECE;
    const float *x = run->master ? run->master : weight->data + run->begin;
    const size_t first = (at + run->begin) / piece, count = run->end - run->begin;
    const size_t head = qkv_min(count, (first + 1) * piece - at - run->begin);
    squares += first - at / piece;
    enum qkv_status status = QKV_STEP(w->ctx, squares, .x = x, .count = head, .piece = head, .sums = squares);
    if (!status && head < count)
        status = QKV_STEP(w->ctx, squares, .x = x + head, .count = count - head, .piece = piece, .sums = squares + 1);
    return status;
}

/* Where the squares of a weight end that begin at `at`. */
static size_t step_squares_end(const struct qkv_optimizer *o, size_t i, size_t at) {
    const struct qkv_weight *weight = &o->model->weights.list[i];
    return at + weight->rows * weight->columns / QKV_GRADIENT_PIECE + 2;
}

/* The squares of all weights that learn: each rank has those of its pieces, and gets those of others. */
static enum qkv_status step_squares(struct qkv_optimizer *o) {
    struct qkv_context *ctx = o->model->ctx;
    const size_t ranks = (size_t)qkv_context_ranks(ctx), n = o->square_count;
    double *all = o->squares + n;
    enum qkv_status status = QKV_OK;
    memset(o->squares, 0, n * sizeof *o->squares);
    for (size_t r = 0, i = 0, at = 0; r < o->run_count && !status; r++) {
        for (; i < o->runs[r].weight; i++) at = step_squares_end(o, i, at);
        if (o->model->weights.list[i].trainable) status = step_square_run(o, &o->runs[r], o->squares + at);
    }
    if (ranks == 1 || status) return status;
    status = qkv_rank_gather(ctx, o->squares, n * sizeof *o->squares, all);
    for (size_t i = 0; i < n && !status; i++) {
        o->squares[i] = 0;
        for (size_t r = 0; r < ranks; r++) o->squares[i] += all[r * n + i];
    }
    return status;
}

/* Makes Adafactor's change of a weight, whose root mean square is at most 1, and its scale: at most the rate, or
 * 1/sqrt(t), times the root mean square of the weight, which counts as 1e-3 at least. */
static enum qkv_status step_factorise(struct qkv_optimizer *o, size_t i, double rate, const double *squares) {
    const struct qkv_weight *w = &o->model->weights.list[i];
    const double t = (double)o->steps, n = (double)(w->rows * w->columns);
    double square = 0, sum = 0;
    for (size_t k = 0; k < w->rows * w->columns / QKV_GRADIENT_PIECE + 2; k++) sum += squares[k];
    const enum qkv_status status =
        QKV_STEP(o->model->ctx, factorise, .x = w->gradient, .row_moments = o->whole[i][QKV_MOMENT_ROWS],
                 .column_moments = o->whole[i][QKV_MOMENT_COLUMNS], .rows = qkv_factored_rows(w),
                 .columns = qkv_factored_columns(w), .share = (float)qkv_pow(t, -0.8), .eps = (float)o->options.eps,
                 .square = &square, .scratch = &o->scratch);
    const double steady = rate > 0 ? qkv_fmin(1, 1 / (rate * sqrt(t))) : 0;
    o->scales[i] = (float)(qkv_fmax(1e-3, sqrt(sum / n)) * steady / qkv_fmax(1, sqrt(square / n)));
    return status;
}

/* Of weights whose update needs whole gradients. */
static enum qkv_status step_whole(struct qkv_optimizer *o, struct qkv_step_optimize *call, float rate) {
    struct qkv_weights *weights = &o->model->weights;
    if (!o->scratch_bytes) return QKV_OK;
    enum qkv_status status = qkv_rank_spread_gradients(o->model);
    if (!status && o->options.kind == QKV_OPTIMIZER_ADAFACTOR) status = step_squares(o);
    for (size_t i = 0, at = 0; i < weights->count && !status; at = step_squares_end(o, i++, at)) {
        const struct qkv_weight *w = &weights->list[i];
        const enum qkv_update update = qkv_optimizer_update(o->options.kind, w);
        if (!w->trainable || !qkv_update_whole(update)) continue;
        if (update == QKV_UPDATE_factored) {
            status = step_factorise(o, i, (double)rate * (double)w->rate, o->squares + at);
            continue;
        }
        o->scales[i] = qkv_update_whole_scale(w);
        status = QKV_STEP(weights->ctx, orthogonalise, .x = w->gradient, .rows = w->rows, .columns = w->columns,
                          .scratch = &o->scratch);
    }
    call->count = step_pieces(o, rate, 1, STEP_WHOLE);
    return status ? status : weights->ctx->backend->steps[QKV_STEP_optimize](weights->ctx, call);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static enum qkv_status step_average(struct qkv_optimizer *o, struct qkv_step_optimize *call) {
    struct qkv_context *ctx = o->model->ctx;
    const double t = (double)o->steps;
    if (!(o->options.average > 0)) return QKV_OK;
    call->count = step_pieces(o, 0, (float)qkv_fmin(o->options.average, (t - 1) / (t + 9)), STEP_AVERAGE);
    return ctx->backend->steps[QKV_STEP_optimize](ctx, call);
}

enum qkv_status qkv_optimizer_step(struct qkv_optimizer *optimizer, double rate, double gradient_scale) {
    QKV_CALL(optimizer ? qkv_model_context(optimizer->model) : NULL);
    QKV_NEED(qkv_call, optimizer);
    struct qkv_context *ctx = qkv_model_context(optimizer->model);
    char shown[2][QKV_REAL_TEXT];
    enum qkv_status status = qkv_model_check_alive(optimizer->model);
    if (status) return status;
    if (!(rate >= 0) || !isfinite((float)rate) || !isfinite((float)gradient_scale))
        return qkv_fail(ctx, QKV_NUMBER,
                        "optimizer: the rate is %s and the gradient scale %s; the rate must be from 0 to 3.4e38, the "
                        "scale from -3.4e38 to 3.4e38",
                        qkv_real_text(shown[0], rate), qkv_real_text(shown[1], gradient_scale));
    struct qkv_weights *weights = &optimizer->model->weights;
    for (size_t i = 0; i < weights->count; i++)
        if (weights->list[i].trainable && !optimizer->learns[i])
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "optimizer: %s was frozen when the optimizer was made, so it has no moments; make another "
                            "one, or freeze the weight again",
                            weights->list[i].array.name);
    for (size_t i = 0; i < weights->count; i++)
        if (weights->list[i].trainable && !weights->list[i].gradient)
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "optimizer: %s has no gradient yet; make a pass with train set and run "
                            "it forward and backward first",
                            weights->list[i].array.name);
    if (qkv_context_ranks(ctx) > 1 && weights->chosen != optimizer->chosen)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "optimizer: other weights learn than when it was made, and ranks have shared those out; make "
                        "another optimizer");
    double t = (double)++optimizer->steps;
    const struct qkv_optimizer_options *p = &optimizer->options;
    struct qkv_step_optimize call = {.pieces = optimizer->work,
                                     .count = step_pieces(optimizer, (float)rate, (float)gradient_scale, STEP_UPDATE),
                                     .beta1 = (float)p->beta1,
                                     .beta2 = (float)p->beta2,
                                     .eps = (float)p->eps,
                                     .momentum = (float)p->momentum,
                                     .correction1 = (float)(1 - qkv_pow(p->beta1, t)),
                                     .correction2 = (float)(1 - qkv_pow(p->beta2, t))};
    status = ctx->backend->steps[QKV_STEP_optimize](ctx, &call);
    if (!status) status = step_whole(optimizer, &call, (float)rate);
    if (!status) status = step_average(optimizer, &call);
    if (!status) status = qkv_rank_spread_weights(optimizer->model, &optimizer->masters);
    for (size_t i = 0; i < weights->count; i++)
        if (weights->list[i].trainable) qkv_weight_changed(weights, i);
    optimizer->model->dirty = false;
    return status;
}

/* ---- averages ---------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_optimizer_average(struct qkv_optimizer *o) {
    struct qkv_weights *weights = &o->model->weights;
    if (!(o->options.average > 0)) return QKV_OK;
    const struct qkv_step_optimize call = {.pieces = o->work, .count = step_pieces(o, 0, 0, STEP_EXCHANGE)};
    enum qkv_status status = weights->ctx->backend->steps[QKV_STEP_optimize](weights->ctx, &call);
    if (!status) status = qkv_rank_spread_weights(o->model, &o->masters);
    for (size_t i = 0; i < weights->count; i++)
        if (weights->list[i].trainable) qkv_weight_changed(weights, i);
    return status;
}

enum qkv_status qkv_optimizer_exchange(struct qkv_optimizer *optimizer) {
    QKV_CALL(optimizer ? qkv_model_context(optimizer->model) : NULL);
    QKV_NEED(qkv_call, optimizer);
    enum qkv_status status = qkv_model_check_alive(optimizer->model);
    if (status || optimizer->options.average > 0) return status ? status : qkv_optimizer_average(optimizer);
    return qkv_fail(qkv_call, QKV_ARGUMENT, "optimizer: it has no averages; make one with option average");
}
