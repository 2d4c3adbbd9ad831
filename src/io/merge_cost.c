/* merge_cost: what it costs to write matrices that an adapter was merged into in a type of fewer bits. */
#include <math.h>
#include <stdlib.h>

#include "io/adapter_merge.h"

double qkv_merge_square(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

double qkv_merge_distance(const float *x, const float *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (double)y[i];
        sum += d * d;
    }
    return sum;
}

void qkv_merge_sum_row(struct qkv_merge_sum *sum, const struct qkv_weight *weight, const float *exact,
                       const float *rounded, size_t n) {
    const double square = qkv_merge_square(exact, n);
    sum->square += square;
    sum->change += weight->change * weight->change * square;
    sum->error += qkv_merge_distance(exact, rounded, n);
    if (!sum->name) sum->name = weight->array.name;
}

void qkv_merge_sum_end(struct qkv_model *m, const struct qkv_merge_sum *sum) {
    struct qkv_merge_cost *cost = &m->merge_cost;
    if (!sum->name) return;
    const double error = sum->square > 0 ? sqrt(sum->error / sum->square) : 0;
    if (!cost->count || error > cost->worst) {
        cost->worst = error;
        cost->name = sum->name;
    }
    cost->count++;
    cost->error += error;
    cost->change += sum->square > 0 ? sqrt(sum->change / sum->square) : 0;
}

enum qkv_status qkv_merge_cost_of(struct qkv_model *m, const struct qkv_type *type) {
    const enum qkv_dtype dtype = qkv_type_number(type);
    m->merge_cost = (struct qkv_merge_cost){0};
    for (size_t i = 0; i < m->weights.count && dtype != QKV_F32; i++) {
        const struct qkv_weight *weight = &m->weights.list[i];
        const size_t n = weight->columns;
        struct qkv_merge_sum sum = {0};
        if (!weight->merged || !weight->data) continue;
        float *rounded = qkv_allocate(m->ctx, n, sizeof *rounded);
        void *stored = qkv_allocate(m->ctx, n, type->bytes);
        for (size_t r = 0; r < weight->rows && rounded && stored; r++) {
            qkv_from_float(stored, weight->data + r * n, dtype, n);
            qkv_to_float(rounded, stored, dtype, n);
            qkv_merge_sum_row(&sum, weight, weight->data + r * n, rounded, n);
        }
        const bool memory = rounded && stored;
        free(rounded);
        free(stored);
        if (!memory) {
            m->merge_cost = (struct qkv_merge_cost){0};
            return QKV_MEMORY;
        }
        qkv_merge_sum_end(m, &sum);
    }
    return QKV_OK;
}

size_t qkv_adapter_merge_cost(const struct qkv_model *model, double *error, double *worst, const char **name,
                              double *change) {
    const struct qkv_merge_cost none = {0}, *cost = model ? &model->merge_cost : &none;
    const double count = cost->count ? (double)cost->count : 1;
    if (error) *error = cost->error / count;
    if (worst) *worst = cost->worst;
    if (name) *name = cost->name;
    if (change) *change = cost->change / count;
    return cost->count;
}
