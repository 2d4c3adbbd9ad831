/* Texts with masks: how they are read, and the likeliest tokens for each mask by the scores. */
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "base/sized_options.h"
#include "generate/texts.h"
#include "model/spec.h"
#include "text/sequence.h"

enum qkv_status qkv_filler_check(struct qkv_filler *f) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    const struct qkv_spec *spec = qkv_model_spec(f->model);
    if (spec->decoder.layers > 0)
        return qkv_fail(ctx, QKV_ARGUMENT, "fill needs an encoder alone; this model has %s",
                        spec->encoder.layers ? "a decoder beside it: use translate" : "a decoder alone: use generate");
    if (spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "fill needs a model with an lm head; this one has head.kind %s: train one with task mlm",
                        qkv_head_text(spec->head.kind));
    enum qkv_status status = qkv_lines_check(f->model, "fill");
    if (status) return status;
    f->tokenizer = qkv_model_source_tokenizer(f->model);
    f->mask = qkv_tokenizer_role(f->tokenizer, QKV_TOKEN_ROLE_MASK);
    size_t vocab = (size_t)qkv_tokenizer_vocab(f->tokenizer);
    if (f->mask < 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the model's tokenizer has no " QKV_TOKEN_MASK
                        ", so the model never learnt to fill one; train one with "
                        "task mlm");
    if (f->top < 1 || f->top > vocab)
        return qkv_fail(ctx, QKV_ARGUMENT, "top is %zu; it must be from 1 to the %zu tokens of the vocabulary", f->top,
                        vocab);
    return QKV_OK;
}

static size_t fill_count(const struct qkv_filler *f) {
    size_t masks = 0;
    for (size_t t = 0; t < f->count; t++) masks += f->ids[t] == f->mask;
    return masks;
}

/* Cuts a text that is too long, or skips it. */
static enum qkv_status fill_fit(struct qkv_filler *f) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    const size_t count = f->count;
    const enum qkv_long_fate fate =
        qkv_long_apply(&f->rule, qkv_source_frame(f->tokenizer, false, false), f->ids, &f->count);
    const bool limited = f->rule.most < (size_t)qkv_model_spec(f->model)->context;
    f->skipped = fate == QKV_FATE_SKIPPED;
    if (fate == QKV_FATE_REFUSED)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the text has %zu tokens, but %s is %zu; shorten it, or choose what becomes of long texts "
                        "(option long = skip, keep-start or keep-end)",
                        count, limited ? "the limit" : "the model's context", f->rule.most);
    f->read = f->skipped ? 0 : fill_count(f);
    f->first = f->rule.kind == QKV_LONG_KEEP_END ? f->masks - f->read : 0;
    if (!f->skipped && !f->read)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the text has %zu tokens, and the %zu that %s have no " QKV_TOKEN_MASK
                        " among them; shorten it",
                        count, f->count, limited ? "are read" : "the model's context holds");
    return QKV_OK;
}

enum qkv_status qkv_filler_read(struct qkv_filler *f, const char *text, size_t size) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    enum qkv_status status =
        qkv_masked_encode_places(ctx, f->tokenizer, text, size, f->mask, &f->ids, &f->count, &f->places, &f->masks);
    if (status) return status;
    for (size_t m = 0; m < f->masks; m++)
        while (f->places[m].begin < f->places[m].end && qkv_is_blank(text + f->places[m].begin, 1))
            f->places[m].begin++;
    for (size_t m = 0; m < f->masks; m++)
        while (f->places[m].begin < f->places[m].end && qkv_is_blank(text + f->places[m].end - 1, 1))
            f->places[m].end--;
    if (f->masks == 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "there is no " QKV_TOKEN_MASK " in the text; write one where a token is to be found");
    return fill_fit(f);
}

static int likelier_first(const void *a, const void *b) {
    const struct qkv_filling *x = a, *y = b;
    if (x->probability != y->probability) return x->probability > y->probability ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Ranks all tokens that the tokenizer knows, likeliest first; false if a score is not finite. */
static bool fill_rank(const struct qkv_filler *f, const float *logits, struct qkv_filling *all) {
    size_t V = (size_t)qkv_model_spec(f->model)->vocab, known = (size_t)qkv_tokenizer_vocab(f->tokenizer);
    double largest = -INFINITY, sum = 0;
    for (size_t v = 0; v < V; v++) {
        if (!isfinite(logits[v])) return false;
        if ((double)logits[v] > largest) largest = (double)logits[v];
    }
    for (size_t v = 0; v < V; v++) sum += qkv_exp((double)logits[v] - largest);
    for (size_t v = 0; v < known; v++)
        all[v] = (struct qkv_filling){.id = (int32_t)v, .probability = qkv_exp((double)logits[v] - largest) / sum};
    qsort(all, known, sizeof *all, likelier_first);
    return true;
}

enum qkv_status qkv_filler_take(struct qkv_filler *f) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    size_t n;
    if (!qkv_multiply(f->masks, f->top, &n)) return qkv_fail_memory(ctx, SIZE_MAX, "the fillings");
    f->fillings = qkv_allocate(ctx, n, sizeof *f->fillings);
    if (!f->fillings) return QKV_MEMORY;
    for (size_t i = 0; i < n; i++)
        f->fillings[i] =
            (struct qkv_filling){.id = -1, .begin = f->places[i / f->top].begin, .end = f->places[i / f->top].end};
    return QKV_OK;
}

enum qkv_status qkv_filler_rank(struct qkv_filler *f, size_t index, const float *scores) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    struct qkv_filling *to = f->fillings + (f->first + index) * f->top;
    struct qkv_filling *all = qkv_allocate(ctx, (size_t)qkv_tokenizer_vocab(f->tokenizer), sizeof *all);
    enum qkv_status status = all ? QKV_OK : QKV_MEMORY;
    if (!status && !fill_rank(f, scores, all))
        status = qkv_fail(ctx, QKV_NUMBER,
                          "the scores are not finite: the model's weights are broken; use an earlier checkpoint");
    for (size_t i = 0; i < f->top && !status; i++) {
        to[i].id = all[i].id;
        to[i].probability = all[i].probability;
    }
    free(all);
    return status;
}

void qkv_filler_free(struct qkv_filler *f) {
    qkv_free(f->ids);
    free(f->places);
    free(f->fillings);
    *f = (struct qkv_filler){0};
}
