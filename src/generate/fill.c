/* Filling masks: the likeliest tokens in place of each <mask> of a text, by an encoder trained to know what is hidden (Devlin
 * et al. 2018). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate/line_batches.h"
#include "text/sequence.h"

struct filler {
    struct qkv_model *model;
    const struct qkv_tokenizer *tokenizer;
    int32_t mask, *ids;
    size_t count, masks, top;
    struct qkv_filling *fillings; /* (masks,top) */
};

static enum qkv_status fill_check(struct filler *f) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    const struct qkv_spec *spec = qkv_model_spec(f->model);
    if (spec->decoder.layers > 0)
        return qkv_fail(ctx, QKV_ARGUMENT, "fill needs an encoder alone; this model has %s",
                        spec->encoder.layers ? "a decoder beside it: use translate" : "a decoder alone: use generate");
    if (spec->head.kind != QKV_HEAD_LM)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "fill needs a model with an lm head; this one has head.kind %s: train one with task mlm",
                        spec->head.kind == QKV_HEAD_CLASSIFY ? "classify" : "none");
    enum qkv_status status = qkv_lines_check(f->model, "fill");
    if (status) return status;
    f->tokenizer = qkv_model_source_tokenizer(f->model);
    f->mask = qkv_tokenizer_special(f->tokenizer, QKV_TOKEN_MASK);
    size_t vocab = (size_t)qkv_tokenizer_vocab(f->tokenizer);
    if (f->mask < 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "the model's tokenizer has no " QKV_TOKEN_MASK
                        ", so the model never learnt to fill one; train one with "
                        "task mlm");
    if (f->top < 1 || f->top > vocab)
        return qkv_fail(ctx, QKV_ARGUMENT, "%zu tokens for each mask cannot be given: choose 1 to the vocabulary's %zu",
                        f->top, vocab);
    return QKV_OK;
}

static enum qkv_status fill_read(struct filler *f, const char *text) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    size_t most = (size_t)qkv_model_spec(f->model)->context;
    enum qkv_status status = qkv_masked_encode(ctx, f->tokenizer, text, strlen(text), f->mask, &f->ids, &f->count);
    if (status) return status;
    for (size_t t = 0; t < f->count; t++) f->masks += f->ids[t] == f->mask;
    if (f->masks == 0)
        return qkv_fail(ctx, QKV_ARGUMENT,
                        "there is no " QKV_TOKEN_MASK " in the text; write one where a token is to be found");
    if (f->count > most)
        return qkv_fail(ctx, QKV_ARGUMENT, "the text has %zu tokens, but the model's context is %zu; shorten it",
                        f->count, most);
    return QKV_OK;
}

static int likelier_first(const void *a, const void *b) {
    const struct qkv_filling *x = a, *y = b;
    if (x->probability != y->probability) return x->probability > y->probability ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* All tokens that the tokenizer knows, likeliest first; false where a score is no number. */
static bool fill_rank(const struct filler *f, const float *logits, struct qkv_filling *all) {
    size_t V = (size_t)qkv_model_spec(f->model)->vocab, known = (size_t)qkv_tokenizer_vocab(f->tokenizer);
    double most = -INFINITY, sum = 0;
    for (size_t v = 0; v < V; v++) {
        if (!isfinite(logits[v])) return false;
        if ((double)logits[v] > most) most = (double)logits[v];
    }
    for (size_t v = 0; v < V; v++) sum += exp((double)logits[v] - most);
    for (size_t v = 0; v < known; v++)
        all[v] = (struct qkv_filling){.id = (int32_t)v, .probability = exp((double)logits[v] - most) / sum};
    qsort(all, known, sizeof *all, likelier_first);
    return true;
}

static enum qkv_status fill_all(struct filler *f) {
    struct qkv_context *ctx = qkv_model_context(f->model);
    struct qkv_pass *pass = NULL;
    size_t n, V = (size_t)qkv_model_spec(f->model)->vocab;
    if (!qkv_multiply(f->masks, f->top, &n)) return qkv_fail_memory(ctx, SIZE_MAX, "the fillings");
    f->fillings = qkv_allocate(ctx, n, sizeof *f->fillings);
    struct qkv_filling *all = qkv_allocate(ctx, V, sizeof *all), *to = f->fillings;
    enum qkv_status status = f->fillings && all ? QKV_OK : QKV_MEMORY;
    if (!status)
        status = qkv_pass_create(f->model, &(struct qkv_pass_options){.B = 1, .T = f->count, .logits = true}, &pass);
    if (!status) status = qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = f->count, .ids = f->ids});
    const float *logits = status ? NULL : qkv_pass_output(pass).data;
    for (size_t t = 0; t < f->count && !status; t++) {
        if (f->ids[t] != f->mask) continue;
        if (!fill_rank(f, logits + t * V, all))
            status = qkv_fail(ctx, QKV_NUMBER,
                              "the scores are no finite numbers: the model's weights are broken; take those of an "
                              "earlier checkpoint");
        memcpy(to, all, f->top * sizeof *to);
        to += f->top;
    }
    qkv_pass_free(pass);
    free(all);
    return status;
}

enum qkv_status qkv_fill(struct qkv_model *model, const char *text, size_t top, struct qkv_filling **fillings,
                         size_t *masks) {
    QKV_CALL(qkv_model_context(model));
    struct filler f = {.model = model, .top = top};
    *fillings = NULL;
    *masks = 0;
    enum qkv_status status = fill_check(&f);
    if (!status) status = fill_read(&f, text);
    if (!status) status = fill_all(&f);
    qkv_free(f.ids);
    if (status) {
        free(f.fillings);
        return status;
    }
    *fillings = f.fillings;
    *masks = f.masks;
    return QKV_OK;
}
