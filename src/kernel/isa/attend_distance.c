/* attend_distance.c: gradients of parameters that all rows of a head share: the table of distances (attend_distance.h),
 * and the sink, whose weight p = exp(sink − lse) multiplies no value: dsink = −Σ p·delta over the rows, with delta as
 * in attend_backward.c. */
#include "kernel/isa/attend_distance.h"

void QKV_K(attend_distances)(const struct qkv_attend_plan *plan, size_t item) {
    const size_t Hkv = plan->a->Hkv;
    for (size_t chunk = 1; chunk < plan->chunks; chunk++) distances_add(plan, item / Hkv, item % Hkv, chunk);
}

void QKV_K(attend_sinks)(const struct qkv_attend_plan *plan, size_t item) {
    const struct qkv_attend *a = plan->a;
    double sum = 0;
    for (size_t at = item * a->Tq; at < (item + 1) * a->Tq; at++)
        if (a->lse[at] > -INFINITY)
            sum += (double)(sink_weight(a, item % a->H, a->lse[at]) * plan->norm[at]) * (double)plan->delta[at];
    plan->g->dsinks[item] -= (float)sum;
}
