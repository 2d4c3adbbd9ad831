/* cpu_optimizer: the step of an optimizer. The formulas are beside the kernels of the updates (kernel/kernel.h), which
 * clip and clear the gradients in the same pass. */
#include "backend/cpu_work.h"

typedef void optimize_update(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                             const struct qkv_optimizer_piece *p);

static void optimize_by_adam(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                             const struct qkv_optimizer_piece *p, bool coupled) {
    kernels->adamw(p->weight, p->moments[QKV_MOMENT_M], p->moments[QKV_MOMENT_V], p->gradient, p->scale, p->rate,
                   s->beta1, s->beta2, s->eps, p->decay, s->correction1, s->correction2, coupled, p->count);
}

static void optimize_adamw(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                           const struct qkv_optimizer_piece *p) {
    optimize_by_adam(kernels, s, p, false);
}

static void optimize_adam(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                          const struct qkv_optimizer_piece *p) {
    optimize_by_adam(kernels, s, p, true);
}

static void optimize_sgd(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                         const struct qkv_optimizer_piece *p) {
    kernels->sgd(p->weight, p->moments[QKV_MOMENT_M], p->gradient, p->scale, p->rate, s->momentum, p->decay, p->count);
}

static void optimize_lion(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                          const struct qkv_optimizer_piece *p) {
    kernels->lion(p->weight, p->moments[QKV_MOMENT_M], p->gradient, p->scale, p->rate, s->beta1, s->beta2, p->decay,
                  p->count);
}

static void optimize_momentum(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                              const struct qkv_optimizer_piece *p) {
    kernels->momentum(p->moments[QKV_MOMENT_M], p->gradient, p->scale, s->momentum, p->count);
}

static void optimize_factored(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                              const struct qkv_optimizer_piece *p) {
    (void)s;
    kernels->scale(p->gradient, false, p->gradient, p->scale, p->count);
}

static void optimize_descend(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                             const struct qkv_optimizer_piece *p) {
    (void)s;
    kernels->descend(p->weight, p->gradient, p->scale, p->rate, p->decay, p->count);
}

static void optimize_average(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                             const struct qkv_optimizer_piece *p) {
    (void)s;
    kernels->scale(p->moments[QKV_MOMENT_AVERAGE], false, p->moments[QKV_MOMENT_AVERAGE], p->scale, p->count);
    kernels->scale(p->moments[QKV_MOMENT_AVERAGE], true, p->weight, 1 - p->scale, p->count);
}

static void optimize_exchange(const struct qkv_kernels *kernels, const struct qkv_step_optimize *s,
                              const struct qkv_optimizer_piece *p) {
    (void)kernels, (void)s;
    float *average = p->moments[QKV_MOMENT_AVERAGE];
    for (size_t i = 0; i < p->count; i++) {
        const float weight = p->weight[i];
        p->weight[i] = average[i];
        average[i] = weight;
    }
}

#define UPDATE(name, moments) [QKV_UPDATE_##name] = optimize_##name,
static optimize_update *const updates[QKV_UPDATE_COUNT] = {QKV_UPDATE_LIST(UPDATE)};

static void optimize_piece(void *argument, size_t item, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_optimize *s = w->step;
    const struct qkv_optimizer_piece *p = &s->pieces[item];
    updates[p->update](w->ctx->kernels, s, p);
}

enum qkv_status qkv_cpu_optimize(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_optimize *s = call;
    qkv_cpu_each(ctx, s->count, optimize_piece, s);
    return QKV_OK;
}
