/* packed_weights: a model's weights packed for their products (kernel/product.h), next to the fp32 weights that are
 * trained (mixed precision, Micikevicius et al. 2018) or the stored ones. Memory is taken, and weights are packed, when
 * the first pass, session or encoding begins, and again before a forward pass if they have changed: no operator packs.
 *
 * Backward's dy·w needs another order. Only the head is packed for it, whose product runs for a few rows at a time; all
 * other weights have one use per step, so packing them at that use costs no more, and no memory. */
#include "model/model.h"
#include "op/steps.h"

#include <stdlib.h>

/* Whether a tensor is the right operand of a product that packs it: all matrices are, except tables that are not the
 * head. */
static bool packed_weights_fit(const struct qkv_model *m, const struct qkv_tensor *t) {
    const struct qkv_tensor *const tables[] = {&m->encoder.token_storage, &m->decoder.token_storage,
                                               &m->encoder.position,      &m->decoder.position,
                                               &m->encoder.type,          &m->decoder.type};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (t == tables[i] && t != m->head_weight) return false;
    }
    return t->rows > 1 && t->operand.product->packed_bytes;
}

static bool packed_weights_multiplies(const struct qkv_model *m, const struct qkv_tensor *t) {
    return packed_weights_fit(m, t) && !(m->in_place && t->operand.stored.count);
}

bool qkv_model_mapped(const struct qkv_model *m) {
    if (!m) return false;
    for (size_t i = 0; i < qkv_model_base(m)->tensor_count && m->in_place; i++) {
        const struct qkv_tensor *t = qkv_model_base(m)->tensors[i];
        if (t->operand.stored.count && packed_weights_fit(m, t)) return true;
    }
    return false;
}

/* Takes memory for panels of K × N from an arena, which may be measuring. */
static enum qkv_status packed_weights_take(struct qkv_model *m, struct qkv_arena *arena,
                                           const struct qkv_product *product, const struct qkv_tensor *t,
                                           struct qkv_packed_weight *panels, size_t K, size_t N) {
    size_t bytes;
    if (!product->packed_bytes(m->ctx, &t->operand.stored, K, N, &bytes))
        return qkv_fail(m->ctx, QKV_SHAPE, "a weight of %zu x %zu is too large", N, K);
    *panels = (struct qkv_packed_weight){.data = qkv_arena_take(arena, bytes, 1)};
    return panels->data ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status take_forward(struct qkv_model *m) {
    enum qkv_status status = QKV_OK;
    struct qkv_packed_weight *next = m->packed_weights;
    for (size_t i = 0; i < qkv_model_base(m)->tensor_count && !status; i++) {
        struct qkv_tensor *t = qkv_model_base(m)->tensors[i];
        if (packed_weights_multiplies(m, t)) {
            t->operand.packed = next++;
            status =
                packed_weights_take(m, &m->packed_arena, t->operand.product, t, t->operand.packed, t->columns, t->rows);
        }
    }
    return status;
}

static enum qkv_status take_backward(struct qkv_model *m) {
    struct qkv_tensor *head = m->head_weight;
    head->operand.packed_transposed = &m->head_back;
    return packed_weights_take(m, &m->packed_back, head->operand.product_back, head, head->operand.packed_transposed,
                               head->rows, head->columns);
}

/* Measures first, so that the memory taken is exact. */
static enum qkv_status packed_weights_add(struct qkv_model *m, struct qkv_arena *arena,
                                          enum qkv_status (*take_all)(struct qkv_model *)) {
    qkv_arena_measure(m->ctx, arena, "packed weights");
    m->packed_changes = 0;
    enum qkv_status status = take_all(m);
    if (status || m->planned) return status;
    status = qkv_arena_create_numbers(m->ctx, arena, arena->peak, "packed weights");
    return !status ? take_all(m) : status;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* w, or wᵀ, as the right operand of a product; `transposed`: of x·wᵀ. */
static enum qkv_status packed_weights_pack(struct qkv_context *ctx, const struct qkv_product *product,
                                           struct qkv_tensor *t, struct qkv_packed_weight *packed, bool transposed) {
    const uint64_t version = qkv_tensor_version(t);
    const size_t K = transposed ? t->columns : t->rows, N = transposed ? t->rows : t->columns;
    if (!packed || packed->version == version) return QKV_OK;
    const struct qkv_operand b = {t->data, QKV_F32, transposed ? 1 : t->columns, transposed ? t->columns : 1};
    const struct qkv_stored_operand stored = {.weights = t->operand.stored.count ? &t->operand.stored : NULL,
                                              .transposed = transposed,
                                              .turned = t->operand.divided ? t->operand.packed->data : NULL};
    const enum qkv_status status =
        QKV_STEP(ctx, pack, .product = product, .packed = packed->data, .operand = b, .stored = stored, .K = K, .N = N);
    if (!status) packed->version = version;
    return status;
}

/* The ranks pack what they divide as they exchange it. */
enum qkv_status qkv_model_pack(struct qkv_model *m) {
    struct qkv_tensor *head = m->head_weight;
    enum qkv_status status = QKV_OK;
    if (m->planned || !m->packed_weights) return QKV_OK;
    if (m->packed_changes == qkv_model_base(m)->changes + 1) return QKV_OK;
    for (size_t i = 0; i < qkv_model_base(m)->tensor_count && !status; i++) {
        struct qkv_tensor *t = qkv_model_base(m)->tensors[i];
        if (!t->operand.divided) status = packed_weights_pack(m->ctx, t->operand.product, t, t->operand.packed, true);
    }
    if (!status && head)
        status = packed_weights_pack(m->ctx, head->operand.product_back, head, head->operand.packed_transposed, false);
    if (!status) m->packed_changes = qkv_model_base(m)->changes + 1;
    return status;
}

static bool packed_weights_any(const struct qkv_model *m) {
    for (size_t i = 0; i < qkv_model_base(m)->tensor_count; i++)
        if (packed_weights_multiplies(m, qkv_model_base(m)->tensors[i])) return true;
    return false;
}

void qkv_model_drop_packed(struct qkv_model *m) {
    for (size_t i = 0; i < qkv_model_base(m)->tensor_count; i++) {
        qkv_model_base(m)->tensors[i]->operand.packed = qkv_model_base(m)->tensors[i]->operand.packed_transposed = NULL;
    }
    free(m->packed_weights);
    m->packed_weights = NULL;
    m->packed_changes = 0;
    qkv_arena_free(&m->packed_arena);
    qkv_arena_free(&m->packed_back);
}

enum qkv_status qkv_model_take_packed(struct qkv_model *m, bool backward) {
    enum qkv_status status = QKV_OK;
    if (!packed_weights_any(m)) return QKV_OK;
    if (!m->packed_weights) {
        m->packed_weights = qkv_allocate(m->ctx, qkv_model_base(m)->tensor_count + 1, sizeof *m->packed_weights);
        status = m->packed_weights ? packed_weights_add(m, &m->packed_arena, take_forward) : QKV_MEMORY;
    }
    if (!status && backward && m->head_weight && m->head_weight->operand.product_back->packed_bytes &&
        packed_weights_multiplies(m, m->head_weight) && !m->head_weight->operand.packed_transposed)
        status = packed_weights_add(m, &m->packed_back, take_backward);
    if (status) qkv_model_drop_packed(m);
    return status;
}

size_t qkv_model_bytes(const struct qkv_model *m) {
    return m->arena.peak - m->arena.discarded + m->learned.peak + m->gradients.peak + m->packed_arena.peak +
           m->packed_back.peak + qkv_model_adapter_bytes(m) + qkv_model_dense_bytes(&m->pooling);
}
