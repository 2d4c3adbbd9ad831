/* costs: memory and work of a spec, from a planned model and the plans of what it runs; no memory of the model's
 * size is taken. */
#include "model/decode.h"
#include "model/spec.h"

#include <string.h>

/* Memory to run the model: a session if it can have one, else a pass over one full sequence. */
static enum qkv_status measure_run(struct qkv_model *m, size_t T, size_t *bytes) {
    const struct qkv_spec *spec = &m->spec;
    if (m->decoder.spec && !m->encoder.spec && spec->head.kind == QKV_HEAD_LM &&
        qkv_stack_reads_tokens(&spec->decoder) && !qkv_stack_find_causal(&spec->decoder, false)) {
        return qkv_session_measure(m, T, bytes);
    }
    struct qkv_pass_plan plan = {0};
    enum qkv_status status = qkv_pass_measure(
        m, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = T, .source_T = qkv_spec_source_length(spec, T), .logits = true),
        0, &plan);
    *bytes = plan.bytes;
    return status;
}

/* Memory to train, from a plan whose weights that learn are all fp32. */
static enum qkv_status measure_train(struct qkv_model *m, size_t batch, size_t context, struct qkv_costs *costs) {
    struct qkv_pass_plan step = {0}, evaluation = {0}, checkpoint = {0};
    struct qkv_pass_options options = {
        .size = sizeof options, .B = batch, .T = context, .source_T = qkv_spec_source_length(&m->spec, context)};
    enum qkv_status status = qkv_pass_measure(m, &options, 0, &evaluation);
    options.train = options.dropout = true;
    if (!status) status = qkv_pass_measure(m, &options, 0, &step);
    options.checkpoint = true;
    if (!status) status = qkv_pass_measure(m, &options, 0, &checkpoint);
    if (status) return status;
    costs->train_bytes = qkv_weights_stored_bytes(qkv_model_base(m)) + qkv_model_bytes(m) +
                         2 * qkv_weights_moment_bytes(&m->weights) + step.bytes + evaluation.bytes;
    costs->checkpoint_bytes = costs->train_bytes - step.bytes + checkpoint.bytes;
    costs->forward_flops = qkv_pass_plan_flops(&evaluation) / evaluation.positions;
    costs->train_flops = qkv_pass_plan_flops(&step) / step.positions;
    costs->checkpoint_flops =
        (qkv_pass_plan_flops(&checkpoint) + checkpoint.costs.repeated.flops) / checkpoint.positions;
    return QKV_OK;
}

/* Whether a token does not use the weight: it uses top_k experts of a layer, which count as the first ones here, as all
 * experts of a layer have the same size. */
static bool costs_idle(const struct qkv_model *m, const struct qkv_weight *w) {
    if (w->expert < 0) return false;
    const struct qkv_stack_spec *s = strcmp(w->stack, "encoder") ? &m->spec.decoder : &m->spec.encoder;
    return w->expert >= qkv_stack_layer(s, (size_t)w->layer)->ffn.experts.top_k;
}

/* Bytes of a weight that is packed, without the padding of bf16. */
static size_t costs_packed(const struct qkv_model *m, const struct qkv_weight *w) {
    const struct qkv_product *product = w->part_of->operand.product;
    const struct qkv_stored_part part = {.dtype = w->array.dtype, .rows = w->rows};
    const struct qkv_stored stored = {.parts = &part, .count = 1, .columns = w->columns};
    size_t bytes = w->rows * w->columns * sizeof(uint16_t);
    if (product->serves) product->packed_bytes(m->ctx, &stored, w->columns, w->rows, &bytes);
    return bytes;
}

/* Bytes of a weight that decoding one token reads. */
static size_t costs_read(const struct qkv_model *m, const struct qkv_weight *w) {
    const bool table = w->role == QKV_ROLE_TOKEN || w->role == QKV_ROLE_POSITION || w->role == QKV_ROLE_TYPE;
    const bool memory = w->role == QKV_ROLE_CROSS_K || w->role == QKV_ROLE_CROSS_V;
    if (memory || costs_idle(m, w) || (w->stack && !strcmp(w->stack, "encoder") && w->part_of != m->head_weight))
        return 0;
    const size_t bytes = !w->bias && w->part_of->operand.packed ? costs_packed(m, w) : w->array.bytes;
    return table && w->part_of != m->head_weight ? w->array.bytes / w->rows : bytes;
}

static void costs_add(const struct qkv_model *m, const struct qkv_weights *list, struct qkv_costs *costs) {
    for (size_t i = 0; i < list->count; i++) {
        const struct qkv_weight *w = &list->list[i];
        costs->parameters += w->rows * w->columns;
        costs->parameter_bytes += w->array.bytes;
        if (!costs_idle(m, w)) costs->active_parameters += w->rows * w->columns;
        if (m->spec.decoder.layers) costs->decode_bytes += costs_read(m, w);
    }
}

static enum qkv_status measure_weights(struct qkv_model *m, size_t context, struct qkv_costs *costs) {
    const struct qkv_stack_spec *d = &m->spec.decoder;
    size_t bytes = 0;
    enum qkv_status status = measure_run(m, context, &bytes);
    /* The plan has no gradients yet. */
    costs->run_bytes = qkv_weights_stored_bytes(qkv_model_base(m)) + qkv_model_bytes(m) + bytes;
    costs->packed_bytes = m->packed_arena.peak;
    costs_add(m, qkv_model_base(m), costs);
    if (m->adapter) costs_add(m, &m->weights, costs);
    if (status || !d->layers) return status;
    struct qkv_page_pool *pool;
    struct qkv_page_types types;
    status = qkv_decode_types(m, NULL, &types);
    if (!status) status = qkv_decode_pool(m, false, types, &pool);
    if (status) return status;
    const struct qkv_page_shape shape = {.length = context, .sequences = 1};
    costs->page_positions = qkv_page_positions(&shape);
    costs->page_bytes = qkv_page_bytes(pool, &shape);
    costs->pages = qkv_page_count(costs->page_positions, context);
    costs->cache_bytes_per_token = costs->page_bytes / costs->page_positions;
    qkv_page_pool_free(pool);
    return QKV_OK;
}

enum qkv_status qkv_model_costs(struct qkv_model *model, size_t batch, size_t context, struct qkv_costs *costs) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, costs);
    *costs = (struct qkv_costs){0};
    if (!model->planned) return qkv_fail(model->ctx, QKV_ARGUMENT, "costs need a planned model");
    enum qkv_status status = measure_weights(model, context, costs);
    if (status) return status;
    if (model->adapter || !qkv_weights_stored(&model->weights)) return measure_train(model, batch, context, costs);
    struct qkv_model *learned; /* a plan with fp32 weights, which training makes of weights in other formats */
    status = qkv_model_plan(model->ctx, &model->spec, &learned);
    if (status) return status;
    status = measure_train(learned, batch, context, costs);
    qkv_model_free(learned);
    return status;
}

enum qkv_status qkv_measure_costs(struct qkv_context *ctx, const struct qkv_spec *spec, size_t batch, size_t context,
                                  struct qkv_costs *costs) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, costs);
    struct qkv_model *plan;
    *costs = (struct qkv_costs){0};
    enum qkv_status status = qkv_model_plan(ctx, spec, &plan);
    if (status) return status;
    status = qkv_model_costs(plan, batch, context, costs);
    qkv_model_free(plan);
    return status;
}
