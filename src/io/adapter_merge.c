/* adapter_merge: adapters merged into the weights of their model. */
#include "io/adapter_merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/adapter_files.h"
#include "op/linear.h"

/* The rows of one weight, from row `first` of a part on, become those of the sum. x: room for a row. */
static void merge_weight(struct qkv_context *ctx, const struct qkv_weight *all, const struct qkv_adapter_part *part,
                         size_t first, struct qkv_weight *weight, float *x) {
    const size_t columns = weight->columns;
    const float *m = part->m.data;
    double square = 0, change = 0;
    for (size_t r = 0; r < weight->rows; r++) {
        float *w = weight->data + r * columns;
        qkv_adapter_sum_row(ctx, all, part, first + r, x);
        if (m) ctx->kernels->scale(x, false, x, qkv_adapter_over_norm(m[first + r], part->norm[first + r]), columns);
        square += qkv_merge_square(x, columns);
        change += qkv_merge_distance(x, w, columns);
        memcpy(w, x, columns * sizeof *w);
    }
    weight->merged = true;
    weight->change = square > 0 ? sqrt(change / square) : 0;
}

static void merge_part(struct qkv_model *m, size_t i, float *x) {
    struct qkv_model_adapter *a = m->adapter;
    const size_t from = a->adapted[i].weight;
    for (size_t k = 0, first = 0; k < a->adapted[i].count; first += a->base.list[from + k++].rows) {
        merge_weight(m->ctx, &a->base.list[from], &a->parts[i], first, &a->base.list[from + k], x);
        qkv_weight_changed(&a->base, from + k);
    }
}

enum qkv_status qkv_adapter_merge(struct qkv_model *model) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    enum qkv_status status = qkv_adapter_idle(model);
    if (status) return status;
    struct qkv_model_adapter *a = model->adapter;
    size_t columns = 0;
    for (size_t i = 0; i < a->part_count; i++) columns = qkv_max(columns, a->parts[i].a.columns);
    float *x = qkv_allocate(model->ctx, columns, sizeof *x);
    if (!x) return QKV_MEMORY;
    status = qkv_model_check_file(model);
    if (!status) qkv_model_norm_adapters(model);
    if (!status) status = qkv_model_adapted_to_fp32(model);
    for (size_t i = 0; i < a->part_count && !status; i++) merge_part(model, i, x);
    free(x);
    if (status) return status;
    qkv_model_drop_adapter(model);
    qkv_model_drop_packed(model);
    return QKV_OK;
}
