/* The mean loss over a validation text during training, and the sum over windows that the evaluation of any text
 * (evaluate.c) makes too.
 *
 * Windows are side by side: the target of a window's last position is the first token of the next window, so every
 * token but the first is predicted once. */
#include "model/spec.h"
#include "rank/evaluate_share.h"
#include "data/data.h"

enum qkv_status qkv_text_model_check(struct qkv_context *ctx, const struct qkv_spec *spec) {
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    if (spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_SPEC,
                        "this model has no lm head, so it gives no scores for a text's next token; its "
                        "spec needs head.kind lm");
    if (qkv_spec_topology(spec) == QKV_ENCODER_DECODER)
        return qkv_fail(ctx, QKV_SPEC,
                        "this model has an encoder beside its decoder and needs a source for every "
                        "text; a plain text takes a spec with one stack (encoder=null)");
    const struct qkv_layer_spec *kind = qkv_stack_find_causal(stack, false);
    if (!kind) return QKV_OK;
    char text[QKV_KIND_TEXT];
    qkv_kind_text(spec->decoder.layers ? "decoder" : "encoder", kind, text);
    return qkv_fail(ctx, QKV_SPEC,
                    "%s.attention.causal is false: the model would see the tokens that it is to predict; a text's next "
                    "token needs causal attention, masked tokens need option task = mlm",
                    text);
}

/* B rows of T positions, before which there are `rows` of sum->T. */
static enum qkv_status windows_add_rows(struct qkv_window_sum *sum, size_t rows, size_t B, size_t T, const int32_t *ids,
                                        const int32_t *targets) {
    const size_t at = rows * sum->T;
    const bool mine = qkv_evaluate_share_next(&sum->share);
    struct qkv_evaluate_part *part = qkv_evaluate_share_add(&sum->share, 1);
    if (!part) return QKV_MEMORY;
    if (!mine) return QKV_OK;
    struct qkv_batch batch = {.B = B, .T = T, .ids = ids + at, .targets = targets + at};
    if (sum->documents) batch.documents = sum->documents + at;
    if (sum->prefix) batch.prefix = sum->prefix + rows;
    enum qkv_status status = qkv_pass_forward(sum->pass, &batch);
    if (status) return status;
    size_t counted;
    double loss = qkv_pass_loss(sum->pass, &counted);
    if (counted) part->nll = loss * (double)counted;
    part->tokens = counted;
    return QKV_OK;
}

/* Adds up to B windows of `count` positions together: rows of T, then what is left as one short row. */
enum qkv_status qkv_windows_add(struct qkv_window_sum *sum, size_t count, const int32_t *ids, const int32_t *targets) {
    size_t rows = count / sum->T, tail = count % sum->T;
    enum qkv_status status = rows ? windows_add_rows(sum, 0, rows, sum->T, ids, targets) : QKV_OK;
    if (tail && !status) status = windows_add_rows(sum, rows, 1, tail, ids, targets);
    return status;
}

/* ---- a validation text, while training -------------------------------------------------------------------------- */

/* Where window i of `windows` begins: evenly spread from the first token to the last that a window can begin with. */
static size_t windows_spread(size_t i, size_t windows, size_t last) {
    if (windows == 1) return 0;
    return i * (last / (windows - 1)) + i * (last % (windows - 1)) / (windows - 1);
}

/* The b-th window of a batch, from `start` on. */
static enum qkv_status windows_read(struct qkv_context *ctx, const struct qkv_validation *v, size_t b, size_t start,
                                    size_t T) {
    int32_t *ids = v->ids + b * v->T, *targets = v->targets + b * v->T;
    enum qkv_status status = qkv_tokens_window(ctx, v->tokens, start, T, ids, targets);
    if (!status && v->documents) qkv_row_documents(v->end, T, ids, targets, v->documents + b * v->T);
    if (!status && v->prefix) {
        v->prefix[b] = qkv_valid_prefix(v->options, T);
        qkv_row_ignore_prefix(v->prefix[b], T, targets);
    }
    if (status || !v->masking) return status;
    struct qkv_random random = qkv_draw_valid_masks(v->seed, start);
    qkv_mask_row(v->masking, &random, T, ids, targets);
    return QKV_OK;
}

enum qkv_status qkv_validate(struct qkv_context *ctx, const struct qkv_validation *v, qkv_progress *progress,
                             void *user, double *loss) {
    size_t targets = v->tokens->count - 1, all = targets / v->T + (targets % v->T != 0);
    bool whole = v->windows == 0 || v->windows >= targets / v->T;
    size_t windows = whole ? all : v->windows;
    struct qkv_window_sum sum = {.pass = v->pass,
                                 .B = v->B,
                                 .T = v->T,
                                 .documents = v->documents,
                                 .prefix = v->prefix,
                                 .share = {.ctx = ctx, .size = sizeof(struct qkv_evaluate_part), .alone = true}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < windows && !status; i += v->B) {
        size_t B = windows - i < v->B ? windows - i : v->B, count = 0;
        status = qkv_train_progress(ctx, progress, user, "validating", (double)i, (double)windows);
        for (size_t b = 0; b < B && !status; b++) {
            size_t start = whole ? (i + b) * v->T : windows_spread(i + b, windows, targets - v->T);
            size_t T = targets - start < v->T ? targets - start : v->T; /* the last of the whole text may be short */
            status = windows_read(ctx, v, b, start, T);
            count += T;
        }
        if (!status) status = qkv_windows_add(&sum, count, v->ids, v->targets);
    }
    const struct qkv_evaluate_part found = qkv_evaluate_share_sum(&sum.share);
    qkv_evaluate_share_free(&sum.share);
    if (!status && found.tokens == 0)
        status = qkv_fail(ctx, QKV_ARGUMENT,
                          v->masking ? "no token of the validation part is masked; choose more text, or a larger "
                                       "mask_probability"
                                     : "no document of the validation part has two tokens; choose more text");
    *loss = found.nll / (double)found.tokens;
    return status;
}
