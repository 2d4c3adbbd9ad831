/* model: makes, plans and frees a model; its accessors. The room io reads and writes folders. */
#include "model/model.h"
#include "model/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Gives weights and tables their places in model->arena, whether it has memory or only measures. */
static enum qkv_status model_place(void *model) {
    struct qkv_model *m = model;
    m->weights.status = QKV_OK;
    m->weights.product = qkv_model_product(m);
    enum qkv_status status = qkv_weights_place(&m->weights);
    if (!status && m->decoder.spec) {
        status = qkv_position_tables_make(m, &m->decoder);
    }
    if (!status && m->encoder.spec) {
        status = qkv_position_tables_make(m, &m->encoder);
    }
    return status;
}

/* Places weights and tables on a measuring arena, so that the memory taken is exact. */
static enum qkv_status model_measure(struct qkv_model *m) {
    size_t bytes = 0;
    const enum qkv_status status = qkv_plan(m->ctx, &m->arena, "weights", model_place, m, &bytes);
    m->arena.peak = bytes; /* what a planned model would take */
    return status;
}

static void clear_stack(struct qkv_stack *stack) {
    for (int i = 0; stack->layers && i < stack->spec->layers; i++) qkv_experts_free(stack->layers[i].ffn.experts);
    free(stack->layers);
    *stack = (struct qkv_stack){0};
}

static void model_clear(struct qkv_model *m) {
    qkv_model_drop_adapters(m);
    qkv_model_drop_packed(m);
    qkv_weights_free(&m->weights);
    clear_stack(&m->encoder);
    clear_stack(&m->decoder);
    m->head = (struct qkv_linear){0};
    qkv_arena_free(&m->arena);
    qkv_arena_free(&m->learned);
    qkv_arena_free(&m->gradients);
}

static enum qkv_status model_list(struct qkv_context *ctx, const struct qkv_spec *spec,
                                  const struct qkv_model_parts *parts, struct qkv_model **out) {
    *out = NULL;
    struct qkv_model *m = qkv_allocate(ctx, 1, sizeof *m);
    if (!m) return QKV_MEMORY;
    m->ctx = ctx;
    m->sharing.first = m;
    atomic_init(&m->sharing.references, 1);
    m->precision = ctx->precision;
    m->planned = true;
    m->parts = *parts;
    enum qkv_status status = qkv_spec_copy(ctx, spec, &m->spec);
    if (!status) status = qkv_model_build_weights(m);
    if (!status) status = model_measure(m);
    if (status) {
        qkv_model_free(m);
        return status;
    }
    qkv_model_generation_clear(&m->generation);
    *out = m;
    return QKV_OK;
}

const char *qkv_stopping_name(enum qkv_stopping stopping) {
    static const char *const names[] = {"never", "false", "true"};
    return (size_t)stopping < sizeof names / sizeof *names ? names[stopping] : NULL;
}

void qkv_model_generation_clear(struct qkv_model_generation *g) {
    memset(g, 0, sizeof *g);
    g->sampling.top_p = g->sampling.repeat_penalty = 1;
    g->start = g->first = -1;
    g->length_penalty = g->source_penalty = 1;
    g->stopping = QKV_STOPPING_FALSE;
}

enum qkv_status qkv_model_list(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out) {
    *out = NULL;
    const enum qkv_status status = qkv_spec_check(ctx, spec);
    return status ? status : model_list(ctx, spec, &(struct qkv_model_parts){.roles = UINT64_MAX}, out);
}

enum qkv_status qkv_model_set_file(struct qkv_model *m, const struct qkv_model_file *file) {
    m->weights.source = file->source;
    const enum qkv_status status = model_measure(m);
    if (!status) m->file = *file;
    return status;
}

enum qkv_status qkv_model_take(struct qkv_model *m) {
    const size_t bytes = m->arena.peak;
    qkv_model_drop_packed(m); /* a plan may have counted them, and gradients */
    qkv_weights_drop_gradients(&m->weights);
    qkv_arena_free(&m->gradients);
    enum qkv_status status = qkv_arena_create_numbers(m->ctx, &m->arena, bytes, "weights");
    if (!status) status = model_place(m);
    if (status) {
        qkv_arena_free(&m->arena);
        model_measure(m);
    }
    m->planned = status != 0;
    return status;
}

/* Gives a planned model its memory. */
static enum qkv_status model_make(enum qkv_status status, struct qkv_model **out) {
    if (!status) status = qkv_model_take(*out);
    if (!status) return QKV_OK;
    qkv_model_free(*out);
    *out = NULL;
    return status;
}

enum qkv_status qkv_model_check_weights(const struct qkv_model *m) {
    if (!m->planned) return qkv_model_check_alive(m);
    return qkv_fail(m->ctx, QKV_ARGUMENT, "a planned model has no weights to run with");
}

enum qkv_status qkv_model_check_whole(const struct qkv_model *m) {
    const struct qkv_weight *weight = qkv_weights_divided(&m->weights);
    if (!weight) return qkv_model_check_file(m);
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "%s and other weights are divided among ranks while these train; take the model that the run saves",
                    weight->array.name);
}

void qkv_model_close_file(struct qkv_model *m) {
    if (m->file.owner) m->file.close(m->file.owner);
    m->file = (struct qkv_model_file){0};
}

static enum qkv_status model_convert(struct qkv_model *m, bool adapted) {
    struct qkv_weights *w = qkv_model_base(m);
    qkv_arena_measure(m->ctx, &m->learned, "weights in fp32");
    enum qkv_status status = qkv_weights_to_fp32(w, adapted, &m->learned);
    if (!status) status = qkv_arena_create_numbers(m->ctx, &m->learned, m->learned.peak, "weights in fp32");
    if (!status) status = qkv_weights_to_fp32(w, adapted, &m->learned);
    if (!status && !qkv_weights_stored(w)) qkv_model_close_file(m);
    return status;
}

enum qkv_status qkv_model_to_fp32(struct qkv_model *m) {
    enum qkv_status status = qkv_model_check_file(m);
    if (status || !m->file.owner) return status;
    status = qkv_model_check_own(m, "its weights cannot become fp32");
    if (!status) status = qkv_model_check_plain(m, "its weights become fp32");
    return status ? status : model_convert(m, false);
}

enum qkv_status qkv_model_adapted_to_fp32(struct qkv_model *m) {
    const enum qkv_status status = qkv_model_check_file(m);
    return status || !m->file.owner ? status : model_convert(m, true);
}

enum qkv_status qkv_model_allocate(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out) {
    return model_make(qkv_model_list(ctx, spec, out), out);
}

enum qkv_status qkv_model_allocate_parts(struct qkv_context *ctx, const struct qkv_spec *spec,
                                         const struct qkv_model_parts *parts, struct qkv_model **out) {
    return model_make(model_list(ctx, spec, parts, out), out);
}

enum qkv_status qkv_model_create(struct qkv_context *ctx, const struct qkv_spec *spec, uint64_t seed,
                                 struct qkv_model **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    enum qkv_status status = qkv_model_allocate(ctx, spec, out);
    if (status) return status;
    status = qkv_weights_start(&(*out)->weights, seed);
    if (!status) return QKV_OK;
    qkv_model_free(*out);
    *out = NULL;
    return status;
}

enum qkv_status qkv_model_plan(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    return qkv_model_list(ctx, spec, out);
}

int32_t qkv_model_target_begin(const struct qkv_model *m) {
    if (m->generation.start >= 0) return m->generation.start;
    return m->tokenizer ? qkv_tokenizer_role(m->tokenizer, QKV_TOKEN_ROLE_BEGIN) : -1;
}

static void free_labels(char **labels, size_t count) {
    for (size_t i = 0; labels && i < count; i++) {
        free(labels[i]);
    }
    free(labels);
}

/* Frees all that a first model owns. */
static void model_destroy(struct qkv_model *model) {
    model_clear(model);
    qkv_model_close_file(model);
    qkv_tokenizer_free(model->tokenizer);
    qkv_tokenizer_free(model->source_tokenizer);
    free_labels(model->labels, model->label_count);
    if (model->origin.family) model->origin.free(model->origin.family);
    free(model->origin.tokenizer);
    free(model->origin.warning);
    free(model->origin.gguf);
    qkv_model_pooling_free(&model->pooling);
    qkv_spec_free(&model->spec);
    free(model);
}

/* Ends the struct of a model, and with the last one what the first owns. */
static void model_end(struct qkv_model *m) {
    struct qkv_model *first = m->sharing.first;
    if (m != first) {
        atomic_fetch_sub(&first->sharing.state, 1);
        free(m);
    }
    if (atomic_fetch_sub(&first->sharing.references, 1) == 1) model_destroy(first);
}

void qkv_model_free(struct qkv_model *model) {
    if (!model || model->sharing.freed) return;
    model->sharing.freed = true;
    if (!model->sharing.users) model_end(model);
}

void qkv_model_end_use(struct qkv_model *m, bool train) {
    if (train) atomic_fetch_add(&m->sharing.state, 1);
    if (--m->sharing.users == 0 && m->sharing.freed) model_end(m);
}

struct qkv_context *qkv_model_context(const struct qkv_model *model) {
    if (!model) return NULL;
    return model->ctx;
}

const struct qkv_spec *qkv_model_spec(const struct qkv_model *model) {
    if (!model) return NULL;
    return &model->spec;
}

const struct qkv_tokenizer *qkv_model_tokenizer(const struct qkv_model *model) {
    if (!model) return NULL;
    return model->tokenizer;
}

enum qkv_status qkv_model_set_tokenizer(struct qkv_model *model, struct qkv_tokenizer *tokenizer) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, tokenizer);
    enum qkv_status status = qkv_model_check_own(model, "its tokenizer cannot be set");
    if (status) {
        qkv_tokenizer_free(tokenizer);
        return status;
    }
    int vocab = qkv_tokenizer_vocab(tokenizer);
    if (vocab > model->spec.vocab) {
        qkv_tokenizer_free(tokenizer);
        return qkv_fail(model->ctx, QKV_SPEC,
                        "the tokenizer has %d tokens but the model only %d; use the one it was trained with", vocab,
                        model->spec.vocab);
    }
    qkv_tokenizer_free(model->tokenizer);
    model->tokenizer = tokenizer;
    free(model->origin.gguf);
    model->origin.gguf = NULL;
    return QKV_OK;
}

const struct qkv_tokenizer *qkv_model_source_tokenizer(const struct qkv_model *model) {
    if (!model) return NULL;
    const struct qkv_spec *spec = &model->spec;
    bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    if (model->source_tokenizer || !both || spec->source_vocab == spec->vocab)
        return model->source_tokenizer ? model->source_tokenizer : model->tokenizer;
    return NULL; /* sources have a tokenizer of their own */
}

enum qkv_status qkv_model_set_source_tokenizer(struct qkv_model *model, struct qkv_tokenizer *tokenizer) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, tokenizer);
    enum qkv_status status = qkv_model_check_own(model, "its tokenizer cannot be set");
    if (status) {
        qkv_tokenizer_free(tokenizer);
        return status;
    }
    const struct qkv_spec *spec = &model->spec;
    bool both = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    int vocab = qkv_tokenizer_vocab(tokenizer), room = both ? spec->source_vocab : spec->vocab;
    if (vocab > room) {
        qkv_tokenizer_free(tokenizer);
        return qkv_fail(model->ctx, QKV_SPEC,
                        "the tokenizer of sources has %d tokens but the model only %d; use the one it was trained with",
                        vocab, room);
    }
    qkv_tokenizer_free(model->source_tokenizer);
    model->source_tokenizer = tokenizer;
    return QKV_OK;
}

const char *qkv_model_label(const struct qkv_model *model, size_t i) {
    if (!model) return NULL;
    return i < model->label_count ? model->labels[i] : NULL;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Copies names, and checks that none is empty, has a tab or a line end, or occurs twice. */
static enum qkv_status copy_labels(struct qkv_context *ctx, const char *const *labels, size_t count, char **copy) {
    for (size_t i = 0; i < count; i++) {
        if (!labels[i] || !*labels[i] || strpbrk(labels[i], "\t\r\n"))
            return qkv_fail(ctx, QKV_ARGUMENT,
                            "label %zu is %s; a name of a class is a text without tabs and line ends", i,
                            labels[i] && *labels[i] ? "more than one field" : "empty");
        copy[i] = qkv_copy_string(ctx, labels[i]);
        if (!copy[i]) return QKV_MEMORY;
    }
    char **sorted = qkv_allocate(ctx, count, sizeof *sorted);
    if (!sorted) return QKV_MEMORY;
    memcpy(sorted, copy, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_texts);
    enum qkv_status status = QKV_OK;
    for (size_t i = 1; i < count && !status; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            status =
                qkv_fail(ctx, QKV_ARGUMENT, "label \"%.100s\" occurs twice; every class needs its own name", sorted[i]);
        }
    }
    free(sorted);
    return status;
}

enum qkv_status qkv_model_set_labels(struct qkv_model *model, const char *const *labels, size_t count) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    QKV_NEED_ALL(qkv_call, count, labels);
    const bool classes = qkv_head_has_classes(&model->spec);
    if (!classes || count != (size_t)model->spec.head.classes)
        return qkv_fail(model->ctx, QKV_ARGUMENT, "%zu labels are given, but the model has %d classes", count,
                        classes ? model->spec.head.classes : 0);
    enum qkv_status status = qkv_model_check_own(model, "its labels cannot be set");
    if (status) return status;
    char **copy = qkv_allocate(model->ctx, count, sizeof *copy);
    status = copy ? copy_labels(model->ctx, labels, count, copy) : QKV_MEMORY;
    if (status) {
        free_labels(copy, count);
        return status;
    }
    free_labels(model->labels, model->label_count);
    model->labels = copy;
    model->label_count = count;
    return QKV_OK;
}

size_t qkv_model_parameters(const struct qkv_model *model) {
    if (!model) return 0;
    return model->weights.count;
}

const struct qkv_array *qkv_model_parameter(const struct qkv_model *model, size_t i) {
    if (!model) return NULL;
    return i < model->weights.count ? &model->weights.list[i].array : NULL;
}

void qkv_model_clear_gradients(struct qkv_model *model) {
    if (!model || qkv_model_check_own(model, "it has no gradients")) return;
    qkv_weights_clear_gradients(&model->weights);
    model->dirty = false;
}

double qkv_model_gradient_norm(struct qkv_model *model) {
    if (!model) return 0;
    if (qkv_weights_square_gradients(&model->weights)) return (double)NAN;
    return qkv_weights_gradient_norm(&model->weights);
}
