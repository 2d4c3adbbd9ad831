/* Optimizers: AdamW (Loshchilov & Hutter 2019), Adam with L2 (Kingma & Ba 2015), SGD with momentum. The formulas are
 * beside the kernels (kernel/kernel.h: adamw, sgd), which clip and clear the gradients in the same pass; here are the state and the cut into pieces of a size that does not
 * depend on the number of threads. What decays is said by QKV_ROLE_LIST: matrices. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"
#include "model/model.h"
#include "train/train.h"

#define PIECE ((size_t)1 << 14) /* elements a thread takes at a time: 4 arrays of 64 KiB */

struct piece { /* numbers [begin, end) of a weight */
    size_t weight, begin, end;
};

struct qkv_optimizer {
    struct qkv_model *model;
    struct qkv_optimizer_options options;
    uint64_t steps;
    size_t moments, piece_count;
    struct qkv_arena arena;
    float **moment; /* moments × weights */
    struct piece *pieces;
};

static enum qkv_status check_options(struct qkv_context *ctx, const struct qkv_optimizer_options *o) {
    const struct {
        const char *name;
        double value;
        bool used;
    } decays[] = {{"beta1", o->beta1, o->kind != QKV_OPTIMIZER_SGD},
                  {"beta2", o->beta2, o->kind != QKV_OPTIMIZER_SGD},
                  {"momentum", o->momentum, o->kind == QKV_OPTIMIZER_SGD}};
    if (o->kind != QKV_OPTIMIZER_ADAMW && o->kind != QKV_OPTIMIZER_ADAM && o->kind != QKV_OPTIMIZER_SGD)
        return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: there is no kind %d", (int)o->kind);
    char shown[QKV_REAL_TEXT];
    for (size_t i = 0; i < sizeof decays / sizeof *decays; i++)
        if (decays[i].used && !(decays[i].value >= 0 && decays[i].value < 1))
            return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: %s is %s; it must be at least 0 and less than 1",
                            decays[i].name, qkv_real_text(shown, decays[i].value));
    if (o->kind != QKV_OPTIMIZER_SGD && !(o->eps >= FLT_MIN && o->eps <= FLT_MAX))
        return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: eps is %s; it must be from 1.2e-38 to 3.4e38",
                        qkv_real_text(shown, o->eps));
    if (!(o->weight_decay >= 0 && o->weight_decay <= FLT_MAX))
        return qkv_fail(ctx, QKV_ARGUMENT, "optimizer: weight_decay is %s; it must be from 0 to 3.4e38",
                        qkv_real_text(shown, o->weight_decay));
    return QKV_OK;
}

/* Counts the pieces, and writes them where `pieces` is not NULL. */
static size_t cut_pieces(const struct qkv_weights *weights, struct piece *pieces) {
    size_t count = 0;
    for (size_t i = 0; i < weights->count; i++) {
        size_t n = weights->list[i].trainable ? weights->list[i].rows * weights->list[i].columns : 0;
        for (size_t begin = 0; begin < n; begin += PIECE, count++)
            if (pieces) pieces[count] = (struct piece){i, begin, n - begin < PIECE ? n : begin + PIECE};
    }
    return count;
}

/* What of a piece this rank updates: gradients from `first` to `last`. */
static struct piece piece_owned(const struct qkv_weights *weights, struct piece piece, size_t first, size_t last) {
    const size_t at = (size_t)(weights->list[piece.weight].gradient - weights->gradients);
    piece.begin = qkv_max(piece.begin, qkv_min(piece.end, first > at ? first - at : 0));
    piece.end = qkv_max(piece.begin, qkv_min(piece.end, last > at ? last - at : 0));
    return piece;
}

static enum qkv_status take_moments(struct qkv_context *ctx, struct qkv_optimizer *o) {
    const struct qkv_weights *weights = &o->model->weights;
    size_t total;
    if (!qkv_multiply(qkv_weights_moment_bytes(weights), o->moments, &total))
        return qkv_fail_memory(ctx, SIZE_MAX, "optimizer state");
    enum qkv_status status = qkv_arena_create(ctx, &o->arena, total, "optimizer state");
    for (size_t k = 0; k < o->moments && !status; k++) {
        for (size_t i = 0; i < weights->count; i++) {
            size_t n = weights->list[i].rows * weights->list[i].columns;
            if (!weights->list[i].trainable) continue;
            float *moment = qkv_arena_take(&o->arena, n, sizeof(float));
            if (!moment) return QKV_MEMORY;
            memset(moment, 0, n * sizeof(float));
            o->moment[k * weights->count + i] = moment;
        }
    }
    return status;
}

static enum qkv_status fill_optimizer(struct qkv_context *ctx, struct qkv_optimizer *o) {
    const struct qkv_weights *weights = &o->model->weights;
    o->moments = o->options.kind == QKV_OPTIMIZER_SGD ? 1 : 2;
    o->piece_count = cut_pieces(weights, NULL);
    o->pieces = qkv_allocate(ctx, o->piece_count, sizeof *o->pieces);
    o->moment = qkv_allocate(ctx, o->moments * weights->count, sizeof *o->moment);
    if (!o->pieces || !o->moment) return QKV_MEMORY;
    cut_pieces(weights, o->pieces);
    return take_moments(ctx, o);
}

struct qkv_optimizer_options qkv_optimizer_defaults(void) {
    return (struct qkv_optimizer_options){
        .kind = QKV_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .momentum = 0.9, .weight_decay = 0.1};
}

enum qkv_status qkv_optimizer_create(struct qkv_model *model, const struct qkv_optimizer_options *options,
                                     struct qkv_optimizer **out) {
    QKV_CALL(qkv_model_context(model));
    *out = NULL;
    struct qkv_context *ctx = qkv_model_context(model);
    enum qkv_status status = check_options(ctx, options);
    if (status) return status;
    if (model->planned)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "optimizer: the model is only a plan, without weights; make it with "
                        "qkv_model_create or qkv_model_load");
    status = qkv_model_to_fp32(model);
    if (status) return status;
    struct qkv_optimizer *o = qkv_allocate(ctx, 1, sizeof *o);
    if (!o) return QKV_MEMORY;
    o->model = model;
    o->options = *options;
    status = fill_optimizer(ctx, o);
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
    free(optimizer->moment);
    free(optimizer->pieces);
    free(optimizer);
}

struct step { /* what the pieces of one step share */
    const struct qkv_kernels *kernels;
    struct qkv_optimizer *optimizer;
    float rate, gradient_scale, correction1, correction2;
    size_t first, last; /* gradients of what this rank updates */
};

static void step_piece(void *argument, size_t item, int thread) {
    (void)thread;
    const struct step *s = argument;
    struct qkv_optimizer *o = s->optimizer;
    const struct qkv_optimizer_options *p = &o->options;
    const struct qkv_weight *weight = &o->model->weights.list[o->pieces[item].weight];
    if (!weight->trainable) return;
    const struct piece piece = piece_owned(&o->model->weights, o->pieces[item], s->first, s->last);
    const size_t begin = piece.begin, n = piece.end - begin;
    float *w = weight->data + begin, *dw = weight->gradient + begin, *m = o->moment[piece.weight] + begin;
    if (!n) return;
    const float decay = weight->decays ? (float)p->weight_decay : 0, rate = s->rate * weight->rate;
    if (p->kind == QKV_OPTIMIZER_SGD) {
        s->kernels->sgd(w, m, dw, s->gradient_scale, rate, (float)p->momentum, decay, n);
        return;
    }
    float *v = o->moment[o->model->weights.count + piece.weight] + begin;
    s->kernels->adamw(w, m, v, dw, s->gradient_scale, rate, (float)p->beta1, (float)p->beta2, (float)p->eps, decay,
                      s->correction1, s->correction2, p->kind == QKV_OPTIMIZER_ADAM, n);
}

enum qkv_status qkv_optimizer_step(struct qkv_optimizer *optimizer, double rate, double gradient_scale) {
    QKV_CALL(qkv_model_context(optimizer->model));
    struct qkv_context *ctx = qkv_model_context(optimizer->model);
    char shown[2][QKV_REAL_TEXT];
    if (!(rate >= 0) || !isfinite((float)rate) || !isfinite((float)gradient_scale))
        return qkv_fail(ctx, QKV_NUMBER,
                        "optimizer: the rate is %s and the gradient scale %s; the rate must be from 0 to 3.4e38, the "
                        "scale from -3.4e38 to 3.4e38",
                        qkv_real_text(shown[0], rate), qkv_real_text(shown[1], gradient_scale));
    struct qkv_weights *weights = &optimizer->model->weights;
    for (size_t i = 0; i < weights->count; i++)
        if (weights->list[i].trainable && !optimizer->moment[i])
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
    enum qkv_status status;
    double t = (double)++optimizer->steps;
    struct step step = {.kernels = ctx->kernels, .optimizer = optimizer, .rate = (float)rate};
    step.gradient_scale = (float)gradient_scale;
    qkv_rank_floats(optimizer->model, qkv_context_rank(ctx), &step.first, &step.last);
    step.correction1 = (float)(1 - pow(optimizer->options.beta1, t));
    step.correction2 = (float)(1 - pow(optimizer->options.beta2, t));
    qkv_parallel(ctx, optimizer->piece_count, step_piece, &step);
    status = qkv_rank_spread_weights(optimizer->model);
    for (size_t i = 0; i < weights->count; i++) weights->list[i].version += weights->list[i].trainable;
    optimizer->model->dirty = false;
    return status;
}

uint64_t qkv_optimizer_steps(const struct qkv_optimizer *optimizer) {
    return optimizer->steps;
}

void qkv_optimizer_set_steps(struct qkv_optimizer *optimizer, uint64_t steps) {
    optimizer->steps = steps;
}

size_t qkv_optimizer_moments(const struct qkv_optimizer *optimizer) {
    return optimizer->moments;
}

float *qkv_optimizer_moment(struct qkv_optimizer *optimizer, size_t k, size_t i) {
    return optimizer->moment[k * optimizer->model->weights.count + i];
}

size_t qkv_optimizer_bytes(const struct qkv_optimizer *optimizer) {
    return optimizer->arena.capacity;
}
