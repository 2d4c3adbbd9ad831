/* cpu_optimizer: the step of an optimizer. The formulas are beside the kernels (kernel/kernel.h: adamw, sgd), which
 * clip and clear the gradients in the same pass. */
#include "backend/cpu_work.h"

static void optimize_piece(void *argument, size_t item, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_optimize *s = w->step;
    const struct qkv_optimizer_piece *p = &s->pieces[item];
    if (s->kind == QKV_OPTIMIZER_SGD)
        w->ctx->kernels->sgd(p->weight, p->moments[0], p->gradient, s->gradient_scale, p->rate, s->momentum, p->decay,
                             p->count);
    else
        w->ctx->kernels->adamw(p->weight, p->moments[0], p->moments[1], p->gradient, s->gradient_scale, p->rate,
                               s->beta1, s->beta2, s->eps, p->decay, s->correction1, s->correction2,
                               s->kind == QKV_OPTIMIZER_ADAM, p->count);
}

enum qkv_status qkv_cpu_optimize(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_optimize *s = call;
    qkv_cpu_each(ctx, s->count, optimize_piece, s);
    return QKV_OK;
}
