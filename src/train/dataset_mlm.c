/* Masked-language modelling (Devlin et al. 2018): windows of a text some of whose tokens are hidden and to be
 * predicted.
 *
 * What a step hides (masking.c) is a pure function of (seed, step, row); validation hides the same tokens every
 * time. */
#include "model/spec.h"
#include "train/train.h"

static enum qkv_status dataset_mlm_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                         const struct qkv_spec *spec) {
    const struct qkv_stack_spec *stack = spec->encoder.layers ? &spec->encoder : &spec->decoder;
    (void)options;
    if (qkv_spec_topology(spec) == QKV_ENCODER_DECODER)
        return qkv_fail(ctx, QKV_SPEC,
                        "task mlm needs one stack, but this model has an encoder and a decoder; set decoder=null, or "
                        "train it on pairs");
    if (spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_SPEC, "task mlm predicts tokens, so the spec needs head.kind lm");
    const struct qkv_layer_spec *kind = qkv_stack_find_causal(stack, true);
    if (!kind) return QKV_OK;
    char text[QKV_KIND_TEXT];
    qkv_kind_text(spec->encoder.layers ? "encoder" : "decoder", kind, text);
    return qkv_fail(ctx, QKV_SPEC,
                    "%s.attention.causal is true: a masked token could not be seen from both sides; task mlm needs "
                    "causal=false, or choose task text",
                    text);
}

static enum qkv_status dataset_mlm_prepare(struct qkv_trainer *t, struct qkv_spec *spec) {
    static const char *const specials[] = {QKV_TOKEN_MASK};
    return qkv_text_prepare(t, spec, specials, 1);
}

static struct qkv_masking masking_of(const struct qkv_trainer *t) {
    const struct qkv_tokenizer *tokenizer = qkv_model_tokenizer(t->model);
    return (struct qkv_masking){.probability = t->options.mask_probability,
                                .mask = qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_MASK),
                                .vocab = qkv_tokenizer_vocab(tokenizer)};
}

static enum qkv_status dataset_mlm_fill(struct qkv_trainer *t, uint64_t step, size_t begin, size_t end,
                                        struct qkv_batch *batch) {
    struct qkv_masking masking = masking_of(t);
    enum qkv_status status = qkv_text_fill(t, step, begin, end, batch);
    for (size_t r = begin; r < end && !status; r++) {
        struct qkv_random random = qkv_draw_masks((uint64_t)t->options.seed, step, r);
        size_t at = (r - begin) * t->T;
        qkv_mask_row(&masking, &random, t->T, t->rows.ids + at, t->rows.targets + at);
    }
    return status;
}

/* The targets of all rows are counted by making each of them once. */
static enum qkv_status dataset_mlm_begin(struct qkv_trainer *t, uint64_t step, struct qkv_dataset_step *out) {
    struct qkv_batch batch;
    enum qkv_status status = qkv_text_begin(t, step, out);
    out->targets = 0;
    for (size_t r = 0; r < out->rows && !status; r++) {
        status = dataset_mlm_fill(t, step, r, r + 1, &batch);
        for (size_t i = 0; i < t->T && !status; i++) out->targets += t->rows.targets[i] != QKV_IGNORE;
    }
    return status;
}

static enum qkv_status dataset_mlm_validate(struct qkv_trainer *t, double *loss, double *metric) {
    struct qkv_masking masking = masking_of(t);
    enum qkv_status status = qkv_text_validate(t, &masking, loss);
    *metric = *loss;
    return status;
}

const struct qkv_dataset qkv_dataset_mlm = {
    .name = "mlm",
    .check = dataset_mlm_check,
    .prepare = dataset_mlm_prepare,
    .restore = qkv_text_restore,
    .open = qkv_text_dataset_open,
    .begin = dataset_mlm_begin,
    .fill = dataset_mlm_fill,
    .epoch = qkv_text_epoch,
    .total = qkv_text_total,
    .validate = dataset_mlm_validate,
};
