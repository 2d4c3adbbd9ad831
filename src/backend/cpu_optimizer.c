/* cpu_optimizer: the step of an optimizer. The formulas are beside the kernels (kernel/kernel.h: adamw, sgd), which
 * clip and clear the gradients in the same pass. */
#include "backend/backends.h"

struct optimize {
    const struct qkv_kernels *kernels;
    const struct qkv_step_optimize *step;
};

static void optimize_piece(void *argument, size_t item, int thread) {
    (void)thread;
    const struct optimize *o = argument;
    const struct qkv_step_optimize *s = o->step;
    const struct qkv_optimizer_piece *p = &s->pieces[item];
    if (s->kind == QKV_OPTIMIZER_SGD)
        o->kernels->sgd(p->weight, p->moments[0], p->gradient, s->gradient_scale, p->rate, s->momentum, p->decay,
                        p->count);
    else
        o->kernels->adamw(p->weight, p->moments[0], p->moments[1], p->gradient, s->gradient_scale, p->rate, s->beta1,
                          s->beta2, s->eps, p->decay, s->correction1, s->correction2, s->kind == QKV_OPTIMIZER_ADAM,
                          p->count);
}

enum qkv_status qkv_cpu_optimize(struct qkv_context *ctx, const void *call) {
    struct optimize o = {ctx->kernels, call};
    qkv_parallel(ctx, o.step->count, optimize_piece, &o);
    return QKV_OK;
}
