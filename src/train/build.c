/* What starting and resuming a run have in common: the model with its data, passes and optimizer, and the end of a
 * trainer. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/generation.h"
#include "io/pooling.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "model/spec.h"
#include "train/train.h"

enum qkv_status qkv_trainer_begin(struct qkv_context *ctx, const char *folder, qkv_progress *progress, void *user,
                                  struct qkv_trainer **out) {
    struct qkv_trainer *t = qkv_allocate(ctx, 1, sizeof *t);
    *out = t;
    if (!t) return QKV_MEMORY;
    t->ctx = ctx;
    t->precision = ctx->precision;
    t->progress = progress;
    t->user = user;
    t->started = qkv_clock();
    t->report.loss = t->report.norm = t->report.valid_loss = t->report.best_loss = NAN;
    t->report.metric = t->report.best_metric = NAN;
    t->folder = qkv_copy_string(ctx, folder);
    t->data = (struct qkv_data){.ctx = ctx,
                                .options = &t->options,
                                .facts = &t->facts.texts,
                                .notes = &t->notes,
                                .progress = progress,
                                .user = user};
    return t->folder ? qkv_data_begin(&t->data, t->folder) : QKV_MEMORY;
}

void qkv_trainer_free(struct qkv_trainer *trainer) {
    struct qkv_trainer *t = trainer;
    if (!t) return;
    qkv_state_end(t);
    qkv_context_set_precision(t->ctx, t->precision);
    qkv_teacher_free(t);
    qkv_pass_free(t->pass);
    qkv_pass_free(t->validation_pass);
    qkv_rank_sums_free(&t->rank_sums);
    qkv_part_sums_free(&t->sums);
    qkv_optimizer_free(t->optimizer);
    qkv_model_free(t->model);
    qkv_model_free(t->origin);
    qkv_data_free(&t->data);
    qkv_log_close(&t->log);
    free(t->profile);
    free(t->loads);
    qkv_train_release(&t->options);
    qkv_data_facts_free(&t->facts.texts);
    qkv_seams_free(&t->facts.seams);
    qkv_texts_free(&t->notes);
    free(t->folder);
    free(t);
}

void qkv_trainer_choose(struct qkv_trainer *t) {
    t->data.dataset = qkv_dataset_of(&t->options);
    qkv_metric_find(t->options.metric, &t->data.metric);
}

enum qkv_status qkv_trainer_apply(struct qkv_context *ctx, const struct qkv_train_options *options,
                                  struct qkv_spec *spec) {
    if (options->context > spec->context)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "context is %lld but the spec's is %d; choose at most that, or change the spec",
                        (long long)options->context, spec->context);
    if (options->context > 0) spec->context = (int)options->context;
    if (options->dropout >= 0) spec->dropout = options->dropout;
    if (options->prefix) spec->prefix = true;
    return QKV_OK;
}

static enum qkv_status make_pass(struct qkv_trainer *t, const struct qkv_pass_shape *shapes, size_t count, bool train,
                                 struct qkv_pass **pass) {
    struct qkv_data_extent most = {0};
    const size_t rows = (size_t)t->options.batch;
    const size_t B = train && !count ? qkv_parts_most(t->ctx, &t->options, rows) : t->data.B;
    struct qkv_pass_options options = {
        .size = sizeof options, .B = B, .T = t->data.T, .source_T = t->data.source_T, .train = train};
    options.dropout = train && !t->data.dataset->prefers;
    options.checkpoint = train && t->options.checkpoint_activations;
    options.logits = !train && qkv_dataset_scores(&t->options, qkv_model_spec(t->model));
    qkv_data_widen(&most, shapes, count);
    if (count) {
        options.B = most.B;
        options.T = most.T;
        options.source_T = most.source_T;
        options.shapes = shapes;
        options.shape_count = count;
    }
    return qkv_pass_create_ordered(t->model, &options, train && t->options.groups > 1 ? (size_t)t->options.groups : 0,
                                   pass);
}

/* Of gradients that wait for others in any step. */
static uint64_t build_levels(const struct qkv_trainer *t) {
    const struct qkv_batches *b = &t->data.lines.batches;
    const size_t rows = qkv_dataset_batch(&t->options);
    uint64_t levels = rows ? qkv_parts_levels(t->ctx, &t->options, rows) : 0;
    for (size_t i = 0; i < b->count; i++) levels |= qkv_parts_levels(t->ctx, &t->options, b->shapes[i].B);
    return levels;
}

static enum qkv_status make_passes(struct qkv_trainer *t) {
    enum qkv_status status = qkv_data_take_rows(&t->data);
    if (!status) status = make_pass(t, t->data.lines.shapes, t->data.lines.shape_count, true, &t->pass);
    if (!status) status = qkv_part_sums_create(t->model, build_levels(t), &t->sums);
    if (!status)
        status = qkv_rank_sums_create(t->model, &t->sums, &t->options, qkv_dataset_batch(&t->options), &t->rank_sums);
    if (!status && qkv_train_validates(&t->options) && !qkv_context_rank(t->ctx)) /* who evaluates */
        status = make_pass(t, t->data.lines.validation_shapes, t->data.lines.validation_shape_count, false,
                           &t->validation_pass);
    return status;
}

static enum qkv_status make_optimizer(struct qkv_trainer *t) {
    const struct qkv_optimizer_options options = qkv_train_optimizer_options(&t->options);
    return qkv_optimizer_create(t->model, &options, &t->optimizer);
}

/* The model takes the tokenizers, whatever comes of it. */
static enum qkv_status give_tokenizers(struct qkv_trainer *t) {
    struct qkv_tokenizer *tokenizer = t->data.tokenizer, *source = t->data.source_tokenizer;
    t->data.tokenizer = t->data.source_tokenizer = NULL;
    enum qkv_status status = tokenizer ? qkv_model_set_tokenizer(t->model, tokenizer) : QKV_OK;
    if (!source) return status;
    enum qkv_status other = qkv_model_set_source_tokenizer(t->model, source);
    return status ? status : other;
}

/* What a token costs, in the plan of the passes that train: of a window, or of all shapes that batches of lines
 * have. */
static void build_measure(struct qkv_trainer *t) {
    const struct qkv_pass_plan *plan = qkv_pass_planned(t->pass);
    t->train_flops = qkv_pass_plan_flops(plan) / plan->tokens;
    bool bf16 = qkv_context_precision(t->ctx) == QKV_MIXED_BF16 && qkv_context_native_bf16(t->ctx);
    t->peak = bf16 ? qkv_measure_bf16_peak(t->ctx) : qkv_measure_peak(t->ctx);
}

static enum qkv_status check_memory(struct qkv_trainer *t, const struct qkv_spec *spec) {
    const struct qkv_train_options *o = &t->options;
    const size_t T = t->data.T ? t->data.T : (size_t)spec->context;
    const bool windows = t->data.dataset->reads == QKV_READS_TEXT; /* whose shape is known before they are opened */
    struct qkv_train_shapes shapes = {.B = windows ? (size_t)((o->batch + o->accumulate - 1) / o->accumulate)
                                                   : t->data.B,
                                      .T = T,
                                      .train_B = windows || t->data.B ? qkv_parts_most(t->ctx, o, (size_t)o->batch) : 0,
                                      .source_T = t->data.source_T ? t->data.source_T : qkv_spec_source_length(spec, T),
                                      .train = t->data.lines.shapes,
                                      .valid = t->data.lines.validation_shapes,
                                      .train_count = t->data.lines.shape_count,
                                      .valid_count = t->data.lines.validation_shape_count,
                                      .levels = build_levels(t),
                                      .validates = qkv_train_validates(&t->options),
                                      .looks = t->data.dataset->prefers};
    const struct qkv_model *loaded = o->lora ? t->origin ? t->origin : t->model : NULL;
    if (loaded) shapes.taken = loaded->arena.peak - loaded->arena.discarded;
    const enum qkv_status status = qkv_teacher_measure(t, &shapes.beside);
    return status ? status : qkv_train_memory(t->ctx, spec, o, &shapes, t->fresh);
}

/* The least vocabulary of a tokenizer and of a stack, which can name one of its tokens. */
static int least_vocab(const char *tokenizer, const struct qkv_stack_spec *stack) {
    const int least = qkv_tokenizer_least(tokenizer);
    if (!stack->layers || !stack->embed.masked.given) return least;
    return stack->embed.masked.token < least ? least : stack->embed.masked.token + 1;
}

void qkv_train_guess_sizes(const struct qkv_train_options *o, struct qkv_spec *spec) {
    const bool two = spec->encoder.layers && spec->decoder.layers && o->source_tokenizer;
    const int source = least_vocab(two ? o->source_tokenizer : o->tokenizer, &spec->encoder);
    const int target = least_vocab(o->tokenizer, &spec->decoder);
    if (!spec->vocab && qkv_spec_has_tokens(spec)) spec->vocab = two || source < target ? target : source;
    if (!spec->source_vocab) spec->source_vocab = two ? source : spec->vocab;
    if (!spec->head.classes) spec->head.classes = 1;
}

enum qkv_status qkv_trainer_check_memory(struct qkv_trainer *t, const struct qkv_spec *spec) {
    const struct qkv_train_options *o = &t->options;
    struct qkv_spec guess = *spec;
    qkv_train_guess_sizes(o, &guess);
    enum qkv_status status = o->lora ? QKV_OK : qkv_train_check_freeze(t->ctx, o, &guess);
    return status ? status : check_memory(t, &guess);
}

enum qkv_status qkv_trainer_build(struct qkv_trainer *t, const struct qkv_spec *spec) {
    t->data.T = (size_t)spec->context;
    t->data.from_hash = t->facts.from_hash;
    enum qkv_status status = qkv_teacher_open(t, spec);
    if (!status) status = check_memory(t, spec); /* windows; before their weights take an address */
    if (!status) status = t->options.lora ? qkv_lora_build(t, spec) : qkv_model_allocate(t->ctx, spec, &t->model);
    t->data.model = t->model;
    if (!status) status = qkv_train_freeze(&t->options, t->model);
    if (!status) status = qkv_trainer_note_frozen(t);
    if (!status) status = give_tokenizers(t);
    if (!status) status = t->data.dataset->open(&t->data);
    if (!status) status = qkv_epochs_begin(t);
    if (!status && t->data.dataset->reads != QKV_READS_TEXT)
        status = check_memory(t, spec); /* lines and examples, whose shapes are known now */
    if (t->options.lora) t->data.origin = NULL;
    if (!status && !t->options.lora) /* the first use of the model's memory */
        status = qkv_weights_start(&t->model->weights, (uint64_t)t->options.seed);
    if (!status && t->origin) status = qkv_origin_copy(t);
    if (!status && !t->fresh)
        status = qkv_generation_read(t->ctx, t->folder, qkv_model_spec(t->model), NULL, &t->model->generation);
    if (!status && !t->fresh)
        status = qkv_pooling_read(t->ctx, t->folder, t->folder, qkv_model_spec(t->model), false, &t->model->pooling);
    if (!status) status = make_passes(t);
    if (!status) status = qkv_teacher_begin(t);
    if (!status && t->data.dataset->ready) status = t->data.dataset->ready(&t->data, t->fresh);
    if (!status) status = make_optimizer(t);
    if (!status) status = qkv_loads_make(t);
    if (!status) build_measure(t);
    return status;
}
