/* balance: corrections of routers, which are trained without a gradient: after a step, each expert's correction is
 * raised if it had fewer rows than the mean, and lowered if it had more (Wang et al. 2024, "Auxiliary-loss-free load
 * balancing"; DeepSeek V3). */
#include "base/backend.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

static uint64_t balance_sum(const struct qkv_experts *e) {
    uint64_t all = 0;
    for (size_t i = 0; i < e->weights.count; i++) all += e->loads[i];
    return all;
}

/* The rows of the busiest expert over the mean, NaN if there are no rows; adds the experts without rows to *unused. */
static double balance_look(const struct qkv_experts *e, size_t *unused) {
    const uint64_t all = balance_sum(e);
    uint64_t most = 0;
    if (!all) return NAN;
    for (size_t i = 0; i < e->weights.count; i++) {
        if (e->loads[i] > most) most = e->loads[i];
        *unused += !e->loads[i];
    }
    return (double)most * (double)e->weights.count / (double)all;
}

static void balance_correct(const struct qkv_backend *backend, struct qkv_experts *e, double rate) {
    float *corrections = e->correction.data;
    const size_t count = e->weights.count;
    const uint64_t all = balance_sum(e);
    for (size_t i = 0; i < count; i++) {
        const uint64_t load = e->loads[i] * count;
        float correction;
        if (load == all) continue;
        backend->read(&correction, &corrections[i], sizeof correction);
        correction += (float)(load < all ? rate : -rate);
        backend->write(&corrections[i], &correction, sizeof correction);
    }
}

static size_t balance_stack(struct qkv_model *m, struct qkv_stack *s, double *loads) {
    size_t unused = 0;
    for (size_t i = 0; s->spec && i < (size_t)s->spec->layers; i++) {
        struct qkv_experts *e = s->layers[i].ffn.experts; /* NULL also for a layer that shares another's weights */
        if (loads) loads[i] = e ? balance_look(e, &unused) : NAN;
        if (!e) continue;
        if (e->correction.learning.gradient) {
            balance_correct(m->ctx->backend, e, qkv_stack_layer(s->spec, i)->ffn.experts.correction_rate);
            qkv_weight_changed(&m->weights, (size_t)(e->correction.operand.weights - m->weights.list));
        }
        memset(e->loads, 0, e->weights.count * sizeof *e->loads);
    }
    return unused;
}

size_t qkv_balance_experts(struct qkv_model *m, double *loads) {
    const size_t unused = balance_stack(m, &m->encoder, loads);
    return unused + balance_stack(m, &m->decoder, loads ? loads + m->spec.encoder.layers : NULL);
}
