/* use_costs: the memory that the uses of a model take beside generating, by dry runs of the largest batches of each. */
#include <string.h>

#include "io/io.h"
#include "model/decode.h"
#include "model/spec.h"
#include "model/text_room.h"
#include "train/evaluate_pairs.h"
#include "data/example_files.h"
#include "train/train.h"
#include "train/use.h"

static bool use_has_head(const struct qkv_spec *spec, enum qkv_head_kind kind) {
    return spec->head.kind == kind;
}

static bool use_classifies(const struct qkv_spec *spec) {
    return use_has_head(spec, QKV_HEAD_CLASSIFY) || use_has_head(spec, QKV_HEAD_CLASSIFY_TOKENS);
}

/* Whether the model reads texts; frames are read from examples. */
static bool use_reads_texts(const struct qkv_spec *spec) {
    const bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    return qkv_spec_has_tokens(spec) && (!both || qkv_stack_reads_tokens(&spec->encoder));
}

static bool use_translates(const struct qkv_spec *spec) {
    return use_reads_texts(spec) && use_has_head(spec, QKV_HEAD_LM) && qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
}

static bool use_predicts_text(const struct qkv_spec *spec) {
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    return use_reads_texts(spec) && use_has_head(spec, QKV_HEAD_LM) && qkv_spec_topology(spec) != QKV_ENCODER_DECODER &&
           !qkv_stack_find_causal(stack, false);
}

/* ---- each use --------------------------------------------------------------------------------------------------- */

static enum qkv_status use_measure_text(struct qkv_model *m, const struct qkv_use_options *o, size_t *bytes) {
    size_t context = (size_t)m->spec.context;
    if (o->against) context = qkv_min(context, (size_t)qkv_model_spec(o->against)->context);
    const struct qkv_pass_options options = {.size = sizeof options,
                                             .B = o->against ? 1
                                                  : o->batch ? o->batch
                                                             : QKV_EVALUATE_WINDOWS,
                                             .logits = o->against != NULL,
                                             .T = o->context && o->context < context ? o->context : context};
    struct qkv_pass_plan plan = {0};
    enum qkv_status status = qkv_pass_measure(m, &options, 0, &plan);
    *bytes = plan.bytes;
    return status;
}

static enum qkv_status use_measure_lines(struct qkv_model *m, bool embeds, const struct qkv_use_sizes *sizes,
                                         size_t *bytes) {
    return qkv_lines_measure(m, embeds, sizes->count, sizes->longest, bytes);
}

static enum qkv_status use_measure_search(struct qkv_model *m, const struct qkv_use_options *o,
                                          const struct qkv_use_sizes *sizes, size_t *bytes) {
    const size_t batch = o->batch ? o->batch : QKV_SEARCH_BATCH, T = qkv_min(sizes->longest, (size_t)m->spec.context);
    const size_t target = o->max_tokens ? qkv_min(o->max_tokens, (size_t)m->spec.context) : 3 * T + 50;
    const struct qkv_search_shape shape = {.sources = sizes->count ? qkv_min(batch, sizes->count) : batch,
                                           .width = o->width ? o->width : 1,
                                           .T = T,
                                           .capacity = target + 1};
    return qkv_search_measure(m, &shape, bytes);
}

/* The loss and the search take turns. */
static enum qkv_status use_measure_pairs(struct qkv_model *m, const struct qkv_use_options *o,
                                         const struct qkv_use_sizes *sizes, size_t *bytes) {
    size_t loss = 0, search = 0;
    enum qkv_status status = qkv_pairs_loss_measure(m, sizes->count, sizes->longest, &loss);
    if (!status) status = use_measure_search(m, o, sizes, &search);
    *bytes = qkv_max(loss, search);
    return status;
}

static enum qkv_status use_measure_examples(struct qkv_model *m, const struct qkv_use_options *o, size_t *bytes) {
    struct qkv_example_files files = {0};
    enum qkv_status status = QKV_OK;
    if (o->file && o->use == QKV_USE_CLASSIFY) /* targets may be missing */
        status = qkv_example_files_add_inputs(m->ctx, &m->spec, o->file, &files);
    else if (o->file)
        status = qkv_example_files_add(m->ctx, &m->spec, o->file, &files);
    if (!status) status = qkv_examples_measure(m, o->file ? &files : NULL, bytes);
    qkv_example_files_close(&files);
    return status;
}

/* Matrices that become fp32 when an adapter is merged into them. */
static size_t use_merged_bytes(const struct qkv_model *m) {
    const struct qkv_weights *base = qkv_model_base(m);
    size_t bytes = 0;
    for (size_t i = 0; i < base->tensor_count; i++) {
        const struct qkv_tensor *x = base->tensors[i];
        if (x->operand.adapter && x->operand.stored.count) bytes += x->rows * x->columns * sizeof(float);
    }
    return bytes;
}

enum qkv_status qkv_use_measure(struct qkv_model *m, const struct qkv_use_options *o, const struct qkv_use_sizes *sizes,
                                size_t *bytes) {
    const struct qkv_spec *spec = &m->spec;
    *bytes = 0;
    switch (o->use) {
    case QKV_USE_EMBED:
        return use_reads_texts(spec) ? use_measure_lines(m, true, sizes, bytes) : QKV_OK;
    case QKV_USE_CLASSIFY:
        if (o->file) return use_has_head(spec, QKV_HEAD_CLASSIFY) ? use_measure_examples(m, o, bytes) : QKV_OK;
        return use_reads_texts(spec) && use_classifies(spec) ? use_measure_lines(m, false, sizes, bytes) : QKV_OK;
    case QKV_USE_EVALUATE_LABELS:
        return use_reads_texts(spec) && use_classifies(spec) ? use_measure_lines(m, false, sizes, bytes) : QKV_OK;
    case QKV_USE_TRANSLATE:
        return use_translates(spec) ? use_measure_search(m, o, sizes, bytes) : QKV_OK;
    case QKV_USE_EVALUATE_PAIRS:
        return use_translates(spec) ? use_measure_pairs(m, o, sizes, bytes) : QKV_OK;
    case QKV_USE_EVALUATE_TEXT:
        return use_predicts_text(spec) ? use_measure_text(m, o, bytes) : QKV_OK;
    case QKV_USE_EVALUATE_EXAMPLES:
        return use_has_head(spec, QKV_HEAD_NONE) ? QKV_OK : use_measure_examples(m, o, bytes);
    case QKV_USE_PUBLISH:
        *bytes = qkv_export_bytes(m) + use_merged_bytes(m);
        return QKV_OK;
    case QKV_USE_EXPORT:
        *bytes = use_merged_bytes(m);
        break;
    }
    return QKV_OK;
}

/* ---- all uses of a model, for texts as long as the context ---------------------------------------- */

/* The way to evaluate a model that fits what it is for. */
static enum qkv_use use_evaluation(const struct qkv_spec *spec) {
    return !use_reads_texts(spec) ? QKV_USE_EVALUATE_EXAMPLES
           : use_classifies(spec) ? QKV_USE_EVALUATE_LABELS
           : use_translates(spec) ? QKV_USE_EVALUATE_PAIRS
                                  : QKV_USE_EVALUATE_TEXT;
}

enum qkv_status qkv_model_use_costs(struct qkv_model *plan, struct qkv_use_costs *costs) {
    QKV_CALL(plan ? plan->ctx : NULL);
    QKV_NEED(qkv_call, plan);
    QKV_NEED(qkv_call, costs);
    *costs = (struct qkv_use_costs){0};
    if (!plan->planned) return qkv_fail(plan->ctx, QKV_ARGUMENT, "costs are measured by a planned model");
    const size_t beside = plan->gradients.peak + plan->packed_arena.peak + plan->packed_back.peak; /* planned before */
    const size_t plain = qkv_weights_stored_bytes(qkv_model_base(plan)) + qkv_model_bytes(plan) - beside;
    const struct qkv_use_sizes sizes = {.longest = SIZE_MAX};
    enum qkv_status status = qkv_model_prepare(plan, false);
    const struct {
        enum qkv_use use;
        size_t *bytes;
    } uses[] = {{use_classifies(&plan->spec) ? QKV_USE_CLASSIFY : QKV_USE_EMBED, &costs->lines_bytes},
                {QKV_USE_TRANSLATE, &costs->search_bytes},
                {use_evaluation(&plan->spec), &costs->evaluate_bytes}};
    for (size_t i = 0; i < sizeof uses / sizeof *uses && !status; i++) {
        const struct qkv_use_options options = {.size = sizeof options, .use = uses[i].use};
        status = qkv_use_measure(plan, &options, &sizes, uses[i].bytes);
        *uses[i].bytes += *uses[i].bytes ? plain + plan->packed_arena.peak : 0;
    }
    costs->export_bytes = plain + use_merged_bytes(plan);
    costs->publish_bytes = costs->export_bytes + qkv_export_bytes(plan);
    return status;
}
