/* The memory that a run will need, by dry runs, compared with what is left before anything of that size is made; and
 * what would need less. */
#include <stdlib.h>
#include <string.h>

#include "io/opening.h"
#include "model/model.h"
#include "train/train.h"

struct plan {
    struct qkv_context *ctx;
    const struct qkv_spec *spec;
    const struct qkv_train_options *options;
    const struct qkv_train_shapes *shapes;
    bool one_row, checkpoint, one_group; /* instead of what the options say */
    enum qkv_precision precision;
};

/* One pass over windows or examples, or over the largest of some shapes. */
static enum qkv_status plan_pass(const struct plan *p, struct qkv_model *m, const struct qkv_pass_shape *shapes,
                                 size_t count, bool train, size_t *bytes) {
    struct qkv_pass_plan plan = {0};
    size_t B = p->one_row ? 1 : train && p->shapes->train_B ? p->shapes->train_B : p->shapes->B, longest = 0;
    *bytes = 0;
    if (!count && !B) return QKV_OK; /* not known yet */
    struct qkv_pass_options options = {.size = sizeof options,
                                       .B = B,
                                       .T = p->shapes->T,
                                       .source_T = p->shapes->source_T,
                                       .train = train,
                                       .dropout = train};
    const bool grouped = train && !p->one_group && p->options->groups > 1;
    const size_t groups = grouped ? (size_t)p->options->groups : 0;
    options.checkpoint = train && p->checkpoint;
    options.logits = !train && qkv_dataset_scores(p->options, p->spec);
    if (!count) {
        enum qkv_status status = qkv_pass_measure(m, &options, groups, &plan);
        *bytes = plan.bytes;
        return status;
    }
    for (size_t i = 0; i < count; i++) { /* each by itself: no list has to be made */
        options.B = p->one_row ? 1 : shapes[i].B;
        options.T = shapes[i].T;
        options.source_T = shapes[i].source_T;
        enum qkv_status status = qkv_pass_measure(m, &options, groups, &plan);
        if (status) return status;
        if (plan.bytes > longest) longest = plan.bytes;
    }
    *bytes = longest;
    return QKV_OK;
}

/* Of gradients that wait for others: as the options say, or with one row at a time. */
static uint64_t plan_levels(const struct plan *p) {
    struct qkv_train_options one = *p->options;
    if (p->one_group) return 0;
    if (!p->one_row || !one.batch) return p->shapes->levels;
    one.accumulate = one.batch;
    return qkv_parts_levels(NULL, &one, (size_t)one.batch);
}

static enum qkv_status plan_model(const struct plan *p, struct qkv_model *m, size_t *bytes) {
    const struct qkv_train_shapes *s = p->shapes;
    size_t step, evaluation = 0, look = 0, sums = 0, ranks = 0, state = 0, messages;
    enum qkv_status status = qkv_train_freeze(p->options, m);
    if (!status) status = qkv_model_prepare(m, true);
    if (!status) status = qkv_model_add_gradients(m);
    if (!status) status = plan_pass(p, m, s->train, s->train_count, true, &step);
    if (!status && s->validates && !qkv_context_rank(m->ctx))
        status = plan_pass(p, m, s->valid, s->valid_count, false, &evaluation);
    if (!status && s->looks) status = plan_pass(p, m, s->train, s->train_count, false, &look);
    if (!status) status = qkv_parts_bytes(m, plan_levels(p), &sums);
    if (!status)
        status = qkv_rank_sums_bytes(m, p->options, qkv_dataset_batch(p->options), qkv_parts_later_all(m), &ranks);
    const struct qkv_optimizer_options optimizer = qkv_train_optimizer_options(p->options);
    if (!status) status = qkv_optimizer_plan(&optimizer, m, qkv_context_rank(m->ctx), &state);
    if (status) return status;
    const size_t divided = qkv_rank_choose_divided(m);
    const size_t masters = qkv_rank_master_bytes(m, qkv_context_rank(m->ctx), &messages);
    *bytes =
        sums + ranks + qkv_model_bytes(m) - divided + masters + messages + state + step + evaluation + look + s->beside;
    return QKV_OK;
}

/* Of an adapter: what comes beside the model, which is read before. */
static enum qkv_status plan_adapter(const struct plan *p, size_t *bytes) {
    struct qkv_opening *opening = NULL;
    enum qkv_status status = qkv_lora_plan(p->ctx, p->options, &opening);
    if (!status) {
        struct qkv_model *m = opening->model;
        m->precision = p->precision;
        status = plan_model(p, m, bytes);
        *bytes += m->file.memory;
        *bytes -= qkv_min(*bytes, p->shapes->taken);
    }
    qkv_opening_free(opening);
    return status;
}

static enum qkv_status plan_bytes(const struct plan *p, size_t *bytes) {
    struct qkv_model *m = NULL;
    *bytes = 0;
    if (p->options->lora) return plan_adapter(p, bytes);
    enum qkv_status status = qkv_model_plan(p->ctx, p->spec, &m);
    if (!status) {
        m->precision = p->precision;
        status = plan_model(p, m, bytes);
    }
    qkv_model_free(m);
    return status;
}

/* Appends a way to need less, with what it would need, if there is as much. */
static enum qkv_status plan_way(const struct plan *p, size_t bytes, const char *way, struct qkv_buffer *help) {
    size_t needed;
    char text[QKV_BYTES_TEXT];
    enum qkv_status status = plan_bytes(p, &needed);
    if (status || needed >= bytes || qkv_memory_check(p->ctx, needed, "training", NULL)) return status;
    return qkv_buffer_print(p->ctx, help, "%s%s (%s)", help->size ? ", " : "choose ", way,
                            qkv_bytes_text(text, needed));
}

/* The ways that there are: a run that goes on has none. */
static enum qkv_status plan_ways(const struct plan *now, size_t bytes, struct qkv_buffer *help) {
    const struct qkv_train_options *o = now->options;
    struct plan other = *now;
    enum qkv_status status = QKV_OK;
    char way[96], both[160];
    other.one_row = true;
    if (o->batch > 0)
        snprintf(way, sizeof way, "a smaller option batch or an option accumulate of up to %lld", (long long)o->batch);
    else
        snprintf(way, sizeof way, "a smaller option batch_tokens or a larger option accumulate");
    status = plan_way(&other, bytes, way, help);
    other = *now;
    other.checkpoint = true;
    if (!status) status = plan_way(&other, bytes, "option checkpoint_activations", help);
    other = *now;
    other.one_group = true;
    if (!status && now->options->groups > 1) status = plan_way(&other, bytes, "option groups = 1", help);
    other = *now;
    other.precision = now->precision == QKV_FP32 ? QKV_MIXED_BF16 : QKV_FP32;
    if (!status)
        status = plan_way(&other, bytes,
                          now->precision == QKV_FP32 ? "option precision = bf16" : "option precision = fp32", help);
    other.one_row = other.checkpoint = true;
    other.precision = now->precision;
    snprintf(both, sizeof both, "%s, with option checkpoint_activations", way);
    if (!status && !help->size) status = plan_way(&other, bytes, both, help);
    other.one_group = true, other.checkpoint = now->checkpoint;
    snprintf(both, sizeof both, "%s, with option groups = 1", way);
    if (!status && !help->size && now->options->groups > 1) status = plan_way(&other, bytes, both, help);
    return status ? status : qkv_buffer_print(now->ctx, help, "%sa smaller model", help->size ? ", or " : "choose ");
}

enum qkv_status qkv_train_memory(struct qkv_context *ctx, const struct qkv_spec *spec,
                                 const struct qkv_train_options *options, const struct qkv_train_shapes *shapes,
                                 bool fresh) {
    struct plan p = {.ctx = ctx,
                     .spec = spec,
                     .options = options,
                     .shapes = shapes,
                     .checkpoint = options->checkpoint_activations,
                     .precision = qkv_context_precision(ctx)};
    struct qkv_buffer help = {0};
    size_t bytes;
    if (ctx->ignore_memory) return QKV_OK;
    enum qkv_status status = plan_bytes(&p, &bytes);
    if (status || !qkv_memory_check(ctx, bytes, "training", NULL)) return status;
    status = fresh ? plan_ways(&p, bytes, &help) : QKV_OK;
    if (!status) status = qkv_memory_check(ctx, bytes, "training", help.data);
    qkv_buffer_free(&help);
    return status;
}
