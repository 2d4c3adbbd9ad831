/* balance: corrections of routers, which learn by no gradient: after a step of training each expert's is moved up where it had fewer rows
 * than the mean, and down where it had more (Wang et al. 2024, "Auxiliary-loss-free load balancing"; DeepSeek V3). */
#include "model/model.h"

#include <string.h>

static void balance_correct(struct qkv_experts *e, double rate) {
    float *correction = e->correction.data;
    const size_t count = e->weights.count;
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++) all += e->loads[i];
    for (size_t i = 0; i < count; i++) {
        const uint64_t load = e->loads[i] * count;
        if (load != all) correction[i] += (float)(load < all ? rate : -rate);
    }
}

static void balance_stack(struct qkv_model *m, struct qkv_stack *s) {
    for (size_t i = 0; s->spec && i < (size_t)s->spec->layers; i++) {
        struct qkv_experts *e = s->layers[i].ffn.experts;
        if (!e) continue;
        if (e->correction.gradient) {
            balance_correct(e, qkv_stack_layer(s->spec, i)->ffn.experts.correction_rate);
            m->weights.list[e->correction.weights - m->weights.list].version++;
        }
        memset(e->loads, 0, e->weights.count * sizeof *e->loads);
    }
}

void qkv_balance_experts(struct qkv_model *m) {
    balance_stack(m, &m->encoder);
    balance_stack(m, &m->decoder);
}
