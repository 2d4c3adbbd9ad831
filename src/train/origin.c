/* Beginning a run with the weights of a model (option from): its spec, tokenizers and labels, and the weights by
 * their names. What the model does not have, a new head or the rows of new tokens, keeps the random values of a new
 * model. The model is read once; a run that goes on never needs it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "io/io.h"
#include "model/model.h"
#include "model/spec.h"
#include "text/sequence.h"
#include "text/text.h"
#include "train/train.h"

/* ---- the model and its spec ------------------------------------------------------------------------------------- */

static bool origin_same_folder(const char *a, const char *b) {
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* The kind of head that the task needs: what it says; else the model's own, where that suits the files. */
static enum qkv_head_kind origin_needs(const struct qkv_train_options *o, enum qkv_head_kind have) {
    const struct qkv_dataset *dataset = qkv_dataset_of(o);
    if (dataset->tasks != QKV_TASKS_CLASSES) return QKV_HEAD_LM;
    if (o->task)
        return !strcmp(o->task, qkv_head_text(QKV_HEAD_CLASSIFY)) ? QKV_HEAD_CLASSIFY : QKV_HEAD_CLASSIFY_TOKENS;
    return !dataset->labels || have == QKV_HEAD_CLASSIFY_TOKENS ? have : QKV_HEAD_CLASSIFY;
}

/* The head that the task needs: the model's, or a new one in its place. */
static enum qkv_status origin_head(struct qkv_context *ctx, const struct qkv_train_options *o, struct qkv_spec *spec) {
    const enum qkv_head_kind have = spec->head.kind, need = origin_needs(o, have);
    if (!o->new_head && have == need) return QKV_OK;
    if (!o->new_head)
        return qkv_fail(
            ctx, QKV_SPEC,
            "%s need a head of kind %s, but the one of %s is %s; begin with a new head (option new_head), or choose "
            "another model",
            qkv_dataset_of(o)->nouns, qkv_head_text(need), o->from, qkv_head_text(have));
    if (need == QKV_HEAD_LM && have == QKV_HEAD_LM && qkv_tie_has_head(spec->tie))
        return qkv_fail(
            ctx, QKV_SPEC,
            "option new_head is set, but the head of %s is its token embedding (tie %s), which stays; leave "
            "option new_head out",
            o->from, qkv_tie_text(spec->tie));
    spec->tie = qkv_tie_has_stacks(spec->tie) && need == QKV_HEAD_LM ? QKV_TIE_STACKS : QKV_TIE_NONE;
    spec->head.classes = 0; /* from the labels */
    spec->prefix = spec->prefix && need == QKV_HEAD_LM;
    spec->head.transform = (struct qkv_head_transform_spec){0};
    spec->head.scale = 1;
    spec->head.softcap = 0;
    if (have == need) return QKV_OK;
    spec->head.kind = need;
    spec->head.bias = need != QKV_HEAD_LM;
    spec->head.pool = need == QKV_HEAD_CLASSIFY ? QKV_POOL_MEAN : QKV_POOL_FIRST;
    return QKV_OK;
}

static enum qkv_status origin_check_tokenizers(struct qkv_context *ctx, const struct qkv_train_options *o,
                                               const struct qkv_model *model) {
    bool source = qkv_model_tokenizer(model) != NULL;
    const int needed = qkv_dataset_of(o)->tokenizers;
    if (!needed) return QKV_OK; /* ids as they are */
    if (!source && qkv_model_tokenizer_problem(model))
        return qkv_fail(ctx, QKV_FILE, "%s has no tokenizer that can be read (%s); ids can be learnt from (examples)",
                        o->from, qkv_model_tokenizer_problem(model));
    if (source && (needed < 2 || qkv_model_source_tokenizer(model))) return QKV_OK;
    return qkv_fail(ctx, QKV_FILE,
                    "%s has no %s, so its weights do not say what they stand for; put the one that it was trained with "
                    "there",
                    o->from, source ? QKV_SOURCE_FILE : QKV_TOKENIZER_FILE);
}

static void origin_drop_nothing(struct qkv_spec *spec) {
    struct qkv_stack_spec *stacks[] = {&spec->encoder, &spec->decoder};
    spec->dropout = 0;
    for (size_t i = 0; i < 2; i++) {
        stacks[i]->embed.dropout = 0;
        for (int k = 0; k < stacks[i]->kind_count; k++) {
            struct qkv_layer_spec *kind = &stacks[i]->kinds[k];
            kind->attention.dropout = kind->cross.dropout = kind->ffn.dropout = kind->residual_dropout = 0;
        }
    }
}

/* The model's spec, with the dropouts of the one that is given. */
static enum qkv_status origin_spec(struct qkv_context *ctx, const struct qkv_train_options *o,
                                   const struct qkv_spec *given, const struct qkv_model *model, struct qkv_spec *spec) {
    char own[QKV_DIGEST_TEXT], other[QKV_DIGEST_TEXT];
    enum qkv_status status = qkv_spec_copy(ctx, qkv_model_spec(model), spec);
    if (!given || status) return status;
    origin_drop_nothing(spec);
    status = qkv_spec_digest(ctx, spec, own);
    qkv_spec_free(spec);
    if (!status) status = qkv_spec_copy(ctx, given, spec);
    origin_drop_nothing(spec);
    if (!status) status = qkv_spec_digest(ctx, spec, other);
    qkv_spec_free(spec);
    if (!status) status = qkv_spec_copy(ctx, given, spec);
    if (status || !strcmp(own, other)) return status;
    return qkv_fail(
        ctx, QKV_SPEC,
        "the spec is not that of %s, the model to begin with; only its dropouts may be others, or leave the "
        "spec out",
        o->from);
}

enum qkv_status qkv_origin_open(struct qkv_context *ctx, const struct qkv_train_options *options,
                                const struct qkv_spec *given, const char *folder, struct qkv_model **origin,
                                struct qkv_spec *spec) {
    *origin = NULL;
    if (origin_same_folder(options->from, folder))
        return qkv_fail(ctx, QKV_ARGUMENT, "%s is the model to begin with; the run needs a folder of its own", folder);
    enum qkv_status status = qkv_model_load(ctx, options->from, origin);
    if (!status) status = origin_spec(ctx, options, given, *origin, spec);
    if (!status) status = origin_head(ctx, options, spec);
    if (!status) status = origin_check_tokenizers(ctx, options, *origin);
    if (!status && options->context > spec->context)
        status = qkv_fail(ctx, QKV_ARGUMENT, "context is %lld but %s has %d positions; choose at most that",
                          (long long)options->context, options->from, spec->context);
    if (!status) return QKV_OK;
    qkv_model_free(*origin);
    *origin = NULL;
    return status;
}

enum qkv_status qkv_origin_record(struct qkv_trainer *t) {
    if (t->facts.from_bytes) return QKV_OK;
    return qkv_weights_hash(t->ctx, t->options.from, &t->facts.from_bytes, &t->facts.from_hash);
}

enum qkv_status qkv_origin_freeze(const struct qkv_model *origin, struct qkv_train_options *options) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < origin->weights.count && !status; i++) {
        const struct qkv_weight *weight = &origin->weights.list[i];
        const bool new = options->new_head && !strncmp(weight->array.name, "head.", 5);
        if (!weight->trainable && !new) status = qkv_train_set(origin->ctx, options, "freeze", weight->array.name);
    }
    return status;
}

/* ---- weights ---------------------------------------------------------------------------------------------------- */

static bool origin_ends(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static const struct qkv_array *origin_find(const struct qkv_model *m, const char *name) {
    for (size_t i = 0; i < qkv_model_parameters(m); i++) {
        const struct qkv_array *array = qkv_model_parameter(m, i);
        if (strcmp(array->name, name) == 0) return array;
    }
    return NULL;
}

/* What has a row for each token, or for each class: the head itself, not what transforms its input. */
static bool origin_is_head(const char *name) {
    return strcmp(name, "head.weight") == 0 || strcmp(name, "head.bias") == 0;
}

/* How many of the model's rows a parameter takes; 0: they do not fit. Tokens may have been added, and a smaller
 * context needs the first positions only. */
static size_t origin_rows(const struct qkv_array *to, const struct qkv_array *from) {
    bool same_width = to->rank == from->rank && (to->rank < 2 || to->shape[1] == from->shape[1]);
    bool tokens = origin_ends(to->name, "embed.token.weight") || origin_is_head(to->name);
    if (!same_width) return 0;
    if (to->shape[0] == from->shape[0]) return to->shape[0];
    if (to->shape[0] > from->shape[0]) return tokens ? from->shape[0] : 0;
    return origin_ends(to->name, "embed.position.weight") ? to->shape[0] : 0;
}

static enum qkv_status origin_wrong_shape(struct qkv_trainer *t, const struct qkv_array *to,
                                          const struct qkv_array *from) {
    return qkv_fail(t->ctx, QKV_SHAPE, "%s is %zu x %zu in the run but %zu x %zu in %s; the model does not fit",
                    to->name, to->shape[0], to->rank > 1 ? to->shape[1] : 1, from->shape[0],
                    from->rank > 1 ? from->shape[1] : 1, t->options.from);
}

/* Row i of a classifier's head belongs to label i, in both models' orders. */
static size_t origin_row(const struct qkv_trainer *t, const struct qkv_array *to, size_t i) {
    bool classes = t->data.label_count > 0 && origin_is_head(to->name);
    return classes ? qkv_origin_find_label(t->origin, t->data.labels[i]) : i;
}

/* A run that began with such weights would fail at its first step. */
static enum qkv_status origin_check_numbers(struct qkv_trainer *t, const struct qkv_array *to, const float *weights,
                                            size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(weights[i]))
            return qkv_fail(t->ctx, QKV_NUMBER,
                            "%s of %s holds numbers that are not finite, so nothing can be learnt from there; begin "
                            "with other weights",
                            to->name, t->options.from);
    return QKV_OK;
}

static enum qkv_status origin_copy_parameter(struct qkv_trainer *t, size_t p) {
    const struct qkv_array *to = qkv_model_parameter(t->model, p), *from = origin_find(t->origin, to->name);
    if (t->options.new_head && strncmp(to->name, "head.", 5) == 0)
        return qkv_trainer_add_note(t, "%s is new (option new_head): nothing of it comes from %s", to->name,
                                    t->options.from);
    if (!from) return qkv_fail(t->ctx, QKV_SHAPE, "%s has no %s, which the run needs", t->options.from, to->name);
    size_t rows = origin_rows(to, from), width = qkv_array_elements(to) / to->shape[0];
    if (rows == 0) return origin_wrong_shape(t, to, from);
    float *weights = t->model->weights.list[p].data;
    const unsigned char *source = from->data;
    const size_t bytes = qkv_type_span(from->dtype, width);
    for (size_t i = 0; i < rows; i++)
        qkv_to_float(weights + i * width, source + origin_row(t, to, i) * bytes, from->dtype, width);
    qkv_weight_changed(&t->model->weights, p);
    return origin_check_numbers(t, to, weights, rows * width);
}

/* What the weights are, if they are not fp32, and what is better than to learn from weights of few bits. */
static enum qkv_status origin_note_type(struct qkv_trainer *t) {
    const struct qkv_weight *other = qkv_weights_stored(&t->origin->weights);
    if (!other) return QKV_OK;
    const struct qkv_type *type = qkv_types[other->array.dtype];
    return qkv_trainer_add_note(
        t, "weights of %s are %s; the run learns fp32 copies of them, and saves fp32%s", t->options.from, type->name,
        type->kind == QKV_CLASS_BLOCKS ? "; begin with the model that it was quantised from, if you have that, and "
                                         "quantise the run (qkv quantize): each rounding costs quality"
                                       : "");
}

/* What a new head does was chosen for the user, who said no task, and whose model does something else. */
static enum qkv_status origin_note_task(struct qkv_trainer *t) {
    const struct qkv_train_options *o = &t->options;
    const enum qkv_head_kind have = qkv_model_spec(t->origin)->head.kind;
    if (!o->new_head || !t->data.dataset->labels || o->task || qkv_model_spec(t->model)->head.kind == have)
        return QKV_OK;
    return qkv_trainer_add_note(t, "the new head classifies lines (task classify); for a label of each word it is task "
                                   "classify_tokens");
}

enum qkv_status qkv_origin_copy(struct qkv_trainer *t) {
    enum qkv_status status = qkv_model_check_file(t->origin);
    if (!status) status = origin_note_task(t);
    if (!status) status = origin_note_type(t);
    for (size_t p = 0; p < qkv_model_parameters(t->model) && !status; p++) status = origin_copy_parameter(t, p);
    const bool unnamed = t->data.dataset->tasks == QKV_TASKS_CLASSES && !t->data.dataset->labels;
    if (!status && !t->options.new_head && unnamed && t->origin->label_count)
        status = qkv_model_set_labels(t->model, (const char *const *)t->origin->labels, t->origin->label_count);
    t->model->generation = t->origin->generation;
    t->model->pooling = t->origin->pooling;
    t->origin->pooling = (struct qkv_model_pooling){0};
    qkv_model_free(t->origin);
    t->data.origin = t->origin = NULL;
    return status;
}
