/* use_costs: the memory that the uses of a model take beside generating, by dry runs of the largest batches of each. */
#include <string.h>

#include "io/io.h"
#include "model/decode.h"
#include "model/spec.h"
#include "train/evaluate_pairs.h"
#include "train/train.h"

static bool use_has_head(const struct qkv_spec *spec, enum qkv_head_kind kind) {
    return spec->head.kind == kind;
}

/* Of a text, which the next token is predicted in: windows side by side. */
static enum qkv_status use_measure_text(struct qkv_model *m, size_t *bytes) {
    const struct qkv_pass_options options = {.B = QKV_EVALUATE_WINDOWS, .T = (size_t)m->spec.context};
    struct qkv_pass_plan plan = {0};
    enum qkv_status status = qkv_pass_measure(m, &options, 0, &plan);
    *bytes = plan.bytes;
    return status;
}

/* The parts of each use beside the weights. */
static enum qkv_status use_measure(struct qkv_model *m, struct qkv_use_costs *costs) {
    const struct qkv_spec *spec = &m->spec;
    const bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    const bool classifies = use_has_head(spec, QKV_HEAD_CLASSIFY) || use_has_head(spec, QKV_HEAD_CLASSIFY_TOKENS);
    const bool writes = use_has_head(spec, QKV_HEAD_LM);
    enum qkv_status status = QKV_OK;
    const bool features = both && !qkv_stack_reads_tokens(&spec->encoder); /* which only examples hold */
    if (!qkv_spec_has_tokens(spec) || features)
        return use_has_head(spec, QKV_HEAD_NONE) ? QKV_OK : qkv_examples_measure(m, &costs->evaluate_bytes);
    status = qkv_lines_measure(m, &costs->lines_bytes);
    if (!status && classifies) costs->evaluate_bytes = costs->lines_bytes;
    if (!status && writes && both) status = qkv_search_measure(m, &costs->search_bytes);
    if (!status && writes && both) status = qkv_pairs_loss_measure(m, &costs->evaluate_bytes);
    costs->evaluate_bytes = qkv_max(costs->evaluate_bytes, costs->search_bytes);
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    if (!status && writes && !both && !qkv_stack_find_causal(stack, false))
        status = use_measure_text(m, &costs->evaluate_bytes);
    return status;
}

enum qkv_status qkv_model_use_costs(struct qkv_model *plan, struct qkv_use_costs *costs) {
    QKV_CALL(plan ? plan->ctx : NULL);
    QKV_NEED(qkv_call, plan);
    QKV_NEED(qkv_call, costs);
    *costs = (struct qkv_use_costs){0};
    if (!plan->planned) return qkv_fail(plan->ctx, QKV_ARGUMENT, "costs are measured by a planned model");
    const size_t beside = plan->gradients.peak + plan->packed_arena.peak + plan->packed_back.peak; /* planned before */
    const size_t plain = qkv_weights_stored_bytes(&plan->weights) + qkv_model_bytes(plan) - beside;
    enum qkv_status status = qkv_model_add_packed(plan, false);
    if (!status) status = use_measure(plan, costs);
    if (status) return status;
    size_t *uses[] = {&costs->lines_bytes, &costs->search_bytes, &costs->evaluate_bytes};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) *uses[i] += *uses[i] ? plain + plan->packed_arena.peak : 0;
    costs->export_bytes = plain;
    costs->publish_bytes = plain + qkv_export_bytes(plan);
    return QKV_OK;
}
