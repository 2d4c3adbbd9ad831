/* panels: a model's weights packed for products in bf16, beside the fp32 weights that learn (mixed precision, Micikevicius et
 * al. 2018). Made once, when the first pass, session or encoding of mixed precision begins; packed at the first use and again
 * after the weights have changed.
 *
 * The way back, dy·w, wants another order. It is packed ahead only for the head, whose product is made for a few rows at a
 * time; elsewhere one use a step is no more than one packing, which then needs no memory of its own. */
#include "model/model.h"

#include <stdlib.h>

/* Whether a parameter tensor is the right side of a product: all matrices are, but for look-up tables that are no head. */
static bool multiplies(const struct qkv_model *m, const struct qkv_tensor *t) {
    const struct qkv_tensor *const tables[] = {&m->encoder.token_storage, &m->decoder.token_storage,
                                               &m->encoder.position, &m->decoder.position};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (t == tables[i] && t != m->head_weight) {
            return false;
        }
    }
    return t->rows > 1;
}

/* Panels of K × N from an arena, which may be measuring. */
static enum qkv_status take(struct qkv_model *m, struct qkv_panels *panels, size_t K, size_t N) {
    size_t bytes;
    if (!qkv_bf16_panels(m->ctx, K, N, &bytes)) {
        return qkv_fail(m->ctx, QKV_SHAPE, "a weight of %zu x %zu is too large", N, K);
    }
    *panels = (struct qkv_panels){.data = qkv_arena_take(&m->packed, bytes, 1), .now = &m->changes};
    return panels->data ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_all(struct qkv_model *m, bool keep) {
    enum qkv_status status = QKV_OK;
    struct qkv_panels *next = m->panels, none;
    for (size_t i = 0; i < m->tensor_count && status == QKV_OK; i++) {
        struct qkv_tensor *t = m->tensors[i];
        if (!multiplies(m, t)) {
            continue;
        }
        struct qkv_panels *panels = keep ? next++ : &none, *turned = keep ? next++ : &none;
        status = take(m, panels, t->columns, t->rows);
        t->panels = keep ? panels : NULL;
        if (status == QKV_OK && t == m->head_weight) {
            status = take(m, turned, t->rows, t->columns);
            t->turned = keep ? turned : NULL;
        }
    }
    return status;
}

enum qkv_status qkv_model_add_panels(struct qkv_model *m) {
    if (m->ctx->precision == QKV_FP32 || m->panels) {
        return QKV_OK;
    }
    qkv_arena_measure(m->ctx, &m->packed, "weights in bf16");
    enum qkv_status status = take_all(m, false);
    const size_t bytes = m->packed.peak;
    m->panels = status == QKV_OK ? qkv_allocate(m->ctx, 2 * m->tensor_count + 1, sizeof *m->panels) : NULL;
    if (!m->panels) {
        return status == QKV_OK ? QKV_MEMORY : status;
    }
    if (m->planned) {
        qkv_arena_measure(m->ctx, &m->packed, "weights in bf16");
    } else {
        status = qkv_arena_create(m->ctx, &m->packed, bytes, "weights in bf16");
    }
    if (status == QKV_OK) {
        status = take_all(m, true);
    }
    if (status != QKV_OK) {
        qkv_model_drop_panels(m);
    }
    return status;
}

size_t qkv_model_panel_bytes(const struct qkv_model *m, bool backward) {
    size_t bytes = 0;
    if (m->panels && m->head_weight && m->head_weight->turned)
        qkv_bf16_panels(m->ctx, m->head_weight->rows, m->head_weight->columns, &bytes);
    return backward ? m->packed.peak : m->packed.peak - bytes;
}

void qkv_model_drop_panels(struct qkv_model *m) {
    for (size_t i = 0; i < m->tensor_count; i++) {
        m->tensors[i]->panels = m->tensors[i]->turned = NULL;
    }
    free(m->panels);
    m->panels = NULL;
    qkv_arena_free(&m->packed);
}
