/* packed_weights: a model's weights packed for products in bf16, next to the fp32 weights that are trained (mixed
 * precision, Micikevicius et al. 2018). Memory is taken when the first pass, session or encoding of mixed precision
 * begins; weights are packed at the first use and again after they have changed.
 *
 * Backward's dy·w needs another order. Only the head is packed for it, whose product runs for a few rows at a time; all
 * other weights have one use per step, so packing them at that use costs no more, and no memory. */
#include "model/model.h"

#include <stdlib.h>

/* Whether a tensor is the right operand of a product in bf16: all matrices are, except tables that are not the head,
 * and for weights with fp32 products. */
static bool packed_weights_multiplies(const struct qkv_model *m, const struct qkv_tensor *t) {
    const struct qkv_tensor *const tables[] = {&m->encoder.token_storage, &m->decoder.token_storage,
                                               &m->encoder.position,      &m->decoder.position,
                                               &m->encoder.type,          &m->decoder.type};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (t == tables[i] && t != m->head_weight) return false;
    }
    return t->rows > 1 && !t->fp32;
}

/* Takes memory for panels of K × N from an arena, which may be measuring. */
static enum qkv_status packed_weights_take(struct qkv_model *m, struct qkv_arena *arena,
                                           struct qkv_packed_weight *panels, size_t K, size_t N) {
    size_t bytes;
    if (!qkv_bf16_packed_bytes(m->ctx, K, N, &bytes))
        return qkv_fail(m->ctx, QKV_SHAPE, "a weight of %zu x %zu is too large", N, K);
    *panels = (struct qkv_packed_weight){.data = qkv_arena_take(arena, bytes, 1)};
    return panels->data ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_forward(struct qkv_model *m) {
    enum qkv_status status = QKV_OK;
    struct qkv_packed_weight *next = m->packed_weights;
    for (size_t i = 0; i < m->weights.tensor_count && !status; i++) {
        struct qkv_tensor *t = m->weights.tensors[i];
        if (packed_weights_multiplies(m, t)) {
            t->packed = next++;
            status = packed_weights_take(m, &m->packed_arena, t->packed, t->columns, t->rows);
        }
    }
    return status;
}

static enum qkv_status take_backward(struct qkv_model *m) {
    struct qkv_tensor *head = m->head_weight;
    head->packed_transposed = &m->head_back;
    return packed_weights_take(m, &m->packed_back, head->packed_transposed, head->rows, head->columns);
}

/* Measures first, so that the memory taken is exact. */
static enum qkv_status packed_weights_add(struct qkv_model *m, struct qkv_arena *arena,
                                          enum qkv_status (*take_all)(struct qkv_model *)) {
    qkv_arena_measure(m->ctx, arena, "weights in bf16");
    enum qkv_status status = take_all(m);
    if (status || m->planned) return status;
    status = qkv_arena_create(m->ctx, arena, arena->peak, "weights in bf16");
    return !status ? take_all(m) : status;
}

enum qkv_status qkv_model_add_packed(struct qkv_model *m, bool backward) {
    enum qkv_status status = QKV_OK;
    if (m->ctx->precision == QKV_FP32) return QKV_OK;
    if (!m->packed_weights) {
        m->packed_weights = qkv_allocate(m->ctx, m->weights.tensor_count + 1, sizeof *m->packed_weights);
        status = m->packed_weights ? packed_weights_add(m, &m->packed_arena, take_forward) : QKV_MEMORY;
    }
    if (!status && backward && m->head_weight && packed_weights_multiplies(m, m->head_weight) &&
        !m->head_weight->packed_transposed) {
        status = packed_weights_add(m, &m->packed_back, take_backward);
    }
    if (status) {
        qkv_model_drop_packed(m);
    }
    return status;
}

void qkv_model_drop_packed(struct qkv_model *m) {
    for (size_t i = 0; i < m->weights.tensor_count; i++) {
        m->weights.tensors[i]->packed = m->weights.tensors[i]->packed_transposed = NULL;
    }
    free(m->packed_weights);
    m->packed_weights = NULL;
    qkv_arena_free(&m->packed_arena);
    qkv_arena_free(&m->packed_back);
}

size_t qkv_model_bytes(const struct qkv_model *m) {
    return m->arena.peak - m->arena.discarded + m->learned.peak + m->gradients.peak + m->packed_arena.peak +
           m->packed_back.peak + qkv_model_dense_bytes(&m->pooling);
}
