/* Masked-language modelling (Devlin et al. 2018): tokens of a row are hidden, and predicted.
 *
 * Each position is a target with probability p; of these 80 % are replaced by <mask>, 10 % by a token drawn
 * uniformly, and 10 % stay. What a step hides is a pure function of (seed, step, row); validation hides the same
 * tokens every time. */
#include <string.h>

#include "model/spec.h"
#include "data/data.h"

bool qkv_task_masks(const struct qkv_train_options *options) {
    return options->task && !strcmp(options->task, "mlm");
}

enum qkv_status qkv_masking_check(struct qkv_context *ctx, const struct qkv_spec *spec) {
    const struct qkv_stack_spec *stack = spec->encoder.layers ? &spec->encoder : &spec->decoder;
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

struct qkv_masking qkv_masking_of(const struct qkv_train_options *options, const struct qkv_tokenizer *tokenizer) {
    return (struct qkv_masking){.probability = options->mask_probability,
                                .mask = qkv_tokenizer_role(tokenizer, QKV_TOKEN_ROLE_MASK),
                                .vocab = qkv_tokenizer_vocab(tokenizer)};
}

size_t qkv_mask_row(const struct qkv_masking *masking, struct qkv_random *random, size_t T, int32_t *ids,
                    int32_t *targets) {
    size_t chosen = 0;
    for (size_t t = 0; t < T; t++) {
        targets[t] = QKV_IGNORE;
        if (qkv_random_uniform(random) >= masking->probability || ids[t] == masking->mask) continue;
        double what = qkv_random_uniform(random);
        targets[t] = ids[t];
        chosen++;
        if (what < 0.8)
            ids[t] = masking->mask;
        else if (what < 0.9)
            ids[t] = (int32_t)qkv_random_below(random, (uint64_t)masking->vocab);
    }
    return chosen;
}
