/* look: a model that has run once over a text, and the weights of its attentions, some rows at a time. The text
 * becomes the ids of training: the text of a decoder alone as it is, a classifier's between <s> and </s>, sources
 * before </s>, targets after <s>. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/report_room.h"

/* ---- the text as ids --------------------------------------------------------------------------------------------- */

static enum qkv_status check_model(struct qkv_model *model) {
    const struct qkv_spec *spec = qkv_model_spec(model);
    bool source = spec->encoder.layers > 0, target = spec->decoder.layers > 0;
    const char *missing = source && !qkv_model_source_tokenizer(model) && qkv_model_tokenizer(model) ? QKV_SOURCE_FILE
                          : (source && !qkv_model_source_tokenizer(model)) || (target && !qkv_model_tokenizer(model))
                              ? QKV_TOKENIZER_FILE
                              : NULL;
    if (!missing) return QKV_OK;
    const char *problem = qkv_model_tokenizer_problem(model);
    return qkv_fail(
        qkv_model_context(model), QKV_ARGUMENT,
        "the model has no tokenizer, so it reads no text%s%s; put its %s into the model's folder, or give token ids",
        problem ? ": " : "", problem ? problem : "", missing);
}

static enum qkv_status check_length(const struct qkv_attention_view *look, const struct qkv_look_side *side,
                                    const char *what, size_t added) {
    size_t context = (size_t)qkv_model_spec(look->model)->context;
    if (side->count <= added)
        return qkv_fail(look->ctx, QKV_ARGUMENT, "the %s is empty: there is nothing to attend to", what);
    if (side->count > context)
        return qkv_fail(look->ctx, QKV_ARGUMENT, "the %s has %zu tokens, but the model's context is %zu; shorten it",
                        what, side->count, context);
    if (side->count > UINT16_MAX)
        return qkv_fail(look->ctx, QKV_ARGUMENT, "the %s has %zu tokens, and the limit is %d; shorten it", what,
                        side->count, UINT16_MAX);
    return QKV_OK;
}

/* Reads the text of an encoder, marked as in training. */
static enum qkv_status read_encoder(struct qkv_attention_view *look, const char *text, size_t size) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    struct qkv_look_side *s = &look->encoder;
    bool pair = spec->decoder.layers > 0, classifier = !pair && spec->head.kind == QKV_HEAD_CLASSIFY;
    s->tokenizer = qkv_model_source_tokenizer(look->model);
    int mask = qkv_tokenizer_role(s->tokenizer, QKV_TOKEN_ROLE_MASK);
    if (!size) return check_length(look, s, pair ? "source" : "prompt", 0);
    enum qkv_status status =
        pair || classifier || mask < 0
            ? qkv_source_encode(look->ctx, s->tokenizer, text, size, classifier, pair || classifier, &s->ids, &s->count)
            : qkv_masked_encode(look->ctx, s->tokenizer, text, size, mask, &s->ids, &s->count);
    return status ? status : check_length(look, s, pair ? "source" : "prompt", 0);
}

/* Stores the ids of the best hypothesis after the begin token. */
static bool take_target(void *user, size_t source, const struct qkv_hypothesis *found, size_t count) {
    struct qkv_attention_view *look = user;
    (void)source;
    if (!count || look->decoder.ids) return true;
    look->decoder.ids = malloc((found[0].count + 1) * sizeof(int32_t));
    if (!look->decoder.ids) return false;
    look->decoder.ids[0] = (int32_t)qkv_tokenizer_role(look->decoder.tokenizer, QKV_TOKEN_ROLE_BEGIN);
    if (found[0].count) memcpy(look->decoder.ids + 1, found[0].ids, found[0].count * sizeof(int32_t));
    look->decoder.count = found[0].count + 1;
    return true;
}

static enum qkv_status find_target(struct qkv_attention_view *look) {
    struct qkv_search_options o = qkv_search_defaults();
    const int32_t *source = look->encoder.ids;
    enum qkv_status status = qkv_search(look->model, &source, &look->encoder.count, 1, &o, take_target, look);
    look->greedy = true;
    if (!status && !look->decoder.ids) return qkv_fail_memory(look->ctx, sizeof(int32_t), "a target");
    return status == QKV_STOPPED ? qkv_fail_memory(look->ctx, sizeof(int32_t), "a target") : status;
}

static enum qkv_status read_decoder(struct qkv_attention_view *look, const struct qkv_look_options *o) {
    struct qkv_look_side *s = &look->decoder;
    bool pair = look->encoder.tokenizer != NULL;
    enum qkv_status status;
    s->tokenizer = qkv_model_tokenizer(look->model);
    if (pair && !o->target)
        status = find_target(look);
    else if (pair)
        status =
            qkv_sequence_encode(look->ctx, s->tokenizer, o->target, o->target_size, true, false, &s->ids, &s->count);
    else
        status = o->text_size ? qkv_tokenizer_encode_sequence(look->ctx, s->tokenizer, o->text, o->text_size, true,
                                                              &s->ids, &s->count)
                              : QKV_OK;
    size_t context = (size_t)qkv_model_spec(look->model)->context;
    if (!status && look->greedy && s->count > context)
        s->count = context; /* the last token of a full context is no input */
    return status ? status : check_length(look, s, pair ? "target" : "prompt", 0);
}

/* Uses ids as they are. */
static enum qkv_status take_ids(struct qkv_attention_view *look, struct qkv_look_side *s, const int32_t *ids,
                                size_t count, const char *what) {
    s->ids = qkv_allocate(look->ctx, count, sizeof *s->ids);
    s->numbers = s->tokenizer ? NULL : qkv_allocate(look->ctx, count, sizeof *s->numbers);
    if (!s->ids || (!s->tokenizer && !s->numbers)) return QKV_MEMORY;
    if (count) memcpy(s->ids, ids, count * sizeof *ids);
    for (size_t t = 0; t < count && s->numbers; t++) snprintf(s->numbers[t], QKV_LOOK_NUMBER, "%d", ids[t]);
    s->count = count;
    return check_length(look, s, what, 0);
}

static enum qkv_status read_ids(struct qkv_attention_view *look, const struct qkv_look_options *o) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    const bool pair = spec->encoder.layers && spec->decoder.layers;
    enum qkv_status status = QKV_OK;
    look->encoder.tokenizer = spec->encoder.layers ? qkv_model_source_tokenizer(look->model) : NULL;
    look->decoder.tokenizer = spec->decoder.layers ? qkv_model_tokenizer(look->model) : NULL;
    if (spec->encoder.layers)
        status = take_ids(look, &look->encoder, o->ids, o->id_count, pair ? "source" : "prompt");
    else
        return take_ids(look, &look->decoder, o->ids, o->id_count, "prompt");
    if (status || !pair) return status;
    if (o->target_ids) return take_ids(look, &look->decoder, o->target_ids, o->target_id_count, "target");
    if (!look->decoder.tokenizer)
        return qkv_fail(look->ctx, QKV_ARGUMENT,
                        "without a tokenizer the id that begins a target is unknown; give the ids of the target, too");
    return find_target(look);
}

/* Names a position of numbers: a patch by its row and column, "class" before them; others by their number. */
static void name_position(const struct qkv_input_spec *input, size_t t, char name[QKV_LOOK_NUMBER]) {
    const size_t columns = input->kind == QKV_INPUT_PATCHES ? (size_t)(input->width / input->patch) : 0;
    const size_t before = columns && input->class_token;
    if (columns && t < before)
        snprintf(name, QKV_LOOK_NUMBER, "class");
    else if (columns)
        snprintf(name, QKV_LOOK_NUMBER, "%u,%u", (unsigned)((t - before) / columns) & 0xfff,
                 (unsigned)((t - before) % columns) & 0xfff);
    else
        snprintf(name, QKV_LOOK_NUMBER, "%zu", t % 1000000);
}

/* Sets one side of a batch: ids, or positions of numbers. */
static enum qkv_status take_side(struct qkv_attention_view *look, bool encoder, const int32_t *ids, size_t count,
                                 const char *what) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    struct qkv_look_side *s = encoder ? &look->encoder : &look->decoder;
    enum qkv_status status = QKV_OK;
    if (ids) {
        s->tokenizer = encoder ? qkv_model_source_tokenizer(look->model) : qkv_model_tokenizer(look->model);
        return take_ids(look, s, ids, count, what);
    }
    int32_t *none = qkv_allocate(look->ctx, count, sizeof *none);
    status = none ? take_ids(look, s, none, count, what) : QKV_MEMORY;
    free(none);
    s->features = true;
    for (size_t t = 0; t < count && !status; t++)
        name_position(encoder ? &spec->encoder.embed.input : &spec->decoder.embed.input, t, s->numbers[t]);
    return status;
}

static enum qkv_status read_batch(struct qkv_attention_view *look, const struct qkv_batch *batch) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    const bool pair = spec->encoder.layers && spec->decoder.layers;
    look->batch = batch;
    if (batch->B != 1 || batch->cu_rows)
        return qkv_fail(look->ctx, QKV_ARGUMENT, "the batch has %zu examples; give one", batch->B);
    enum qkv_status status = QKV_OK;
    if (pair) status = take_side(look, true, batch->source, batch->source_T, "source");
    if (status) return status;
    return take_side(look, !spec->decoder.layers, batch->ids, batch->T, pair ? "target" : "example");
}

struct qkv_batch qkv_look_batch(const struct qkv_attention_view *look) {
    const struct qkv_look_side *side = look->decoder.count ? &look->decoder : &look->encoder;
    struct qkv_batch batch = {.B = 1, .T = side->count, .ids = side->ids};
    if (look->batch) batch = *look->batch;
    batch.targets = NULL;
    if (!look->batch && look->encoder.count && look->decoder.count) {
        batch.source_T = look->encoder.count;
        batch.source = look->encoder.ids;
    }
    return batch;
}

void qkv_look_forget(struct qkv_attention_view *look) {
    qkv_free(look->encoder.ids);
    qkv_free(look->decoder.ids);
    free(look->encoder.numbers);
    free(look->decoder.numbers);
}

enum qkv_status qkv_look_read(struct qkv_attention_view *look, const struct qkv_look_options *o) {
    const struct qkv_spec *spec = qkv_model_spec(look->model);
    if (o->batch) return read_batch(look, o->batch);
    enum qkv_status status = o->ids ? QKV_OK : check_model(look->model);
    if (!status && (o->target || o->target_ids) && !(qkv_spec_topology(spec) == QKV_ENCODER_DECODER))
        return qkv_fail(look->ctx, QKV_ARGUMENT,
                        "only models with encoder and decoder have a target, and this one has only %s; leave it out",
                        spec->encoder.layers ? "an encoder" : "a decoder");
    if (o->ids) return read_ids(look, o);
    if (!status && spec->encoder.layers) status = read_encoder(look, o->text, o->text_size);
    if (!status && spec->decoder.layers) status = read_decoder(look, o);
    return status;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static enum qkv_status attention_view_run(struct qkv_attention_view *look, const int32_t *prefix) {
    struct qkv_batch batch = qkv_look_batch(look);
    struct qkv_pass_options o = {.size = sizeof o, .B = 1, .T = batch.T, .source_T = batch.source_T, .weights = true};
    const int32_t prompt = (int32_t)batch.T;
    /* the whole text is the prompt */
    batch.prefix = prefix ? prefix : qkv_model_spec(look->model)->prefix ? &prompt : NULL;
    enum qkv_status status = qkv_pass_create(look->model, &o, &look->pass);
    return status ? status : qkv_pass_forward(look->pass, &batch);
}

static struct qkv_attention_view_head attention_view_describe(const struct qkv_array *array) {
    bool encoder = !strncmp(array->name, "encoder", 7), cross = strstr(array->name, ".cross") != NULL;
    const char *number = strstr(array->name, "layers.");
    return (struct qkv_attention_view_head){.name = array->name,
                                            .kind = cross     ? QKV_LOOK_CROSS
                                                    : encoder ? QKV_LOOK_ENCODER
                                                              : QKV_LOOK_DECODER,
                                            .layer = number ? strtoul(number + 7, NULL, 10) : 0,
                                            .heads = array->shape[1],
                                            .queries = array->shape[2],
                                            .keys = array->shape[3],
                                            .encoder_queries = encoder,
                                            .encoder_keys = encoder || cross};
}

static enum qkv_status list_attentions(struct qkv_attention_view *look) {
    struct qkv_array array;
    size_t keys = look->encoder.count > look->decoder.count ? look->encoder.count : look->decoder.count;
    while (qkv_pass_attention(look->pass, look->count, &array)) look->count++;
    look->attentions = qkv_allocate(look->ctx, look->count, sizeof *look->attentions);
    look->statistics = qkv_allocate(look->ctx, look->count, sizeof *look->statistics);
    look->rows = qkv_allocate(look->ctx, keys, QKV_LOOK_ROWS * sizeof *look->rows);
    look->sum = qkv_allocate(look->ctx, keys, QKV_LOOK_ROWS * sizeof *look->sum);
    if (!look->attentions || !look->statistics || !look->rows || !look->sum) return QKV_MEMORY;
    for (size_t i = 0; i < look->count && qkv_pass_attention(look->pass, i, &array); i++) {
        look->attentions[i] = attention_view_describe(&array);
        look->statistics[i] = qkv_allocate(look->ctx, array.shape[1], sizeof **look->statistics);
        if (!look->statistics[i]) return QKV_MEMORY;
    }
    return QKV_OK;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

bool qkv_attention_view_head(const struct qkv_attention_view *look, size_t i,
                             struct qkv_attention_view_head *attention) {
    if (i >= look->count) return false;
    *attention = look->attentions[i];
    return true;
}

enum qkv_status qkv_look_weights(struct qkv_attention_view *look, size_t i, size_t head, size_t first, size_t rows,
                                 float *out) {
    QKV_CALL(look->ctx);
    if (head != SIZE_MAX || i >= look->count)
        return qkv_pass_weights(look->pass, i, QKV_ATTENTION_WEIGHTS, 0, head, first, rows, out);
    const struct qkv_attention_view_head *a = &look->attentions[i];
    float *one = look->sum;
    enum qkv_status status = QKV_OK;
    for (size_t done = 0; done < rows && !status;) { /* as many rows at a time as the scratch holds */
        size_t some = rows - done < QKV_LOOK_ROWS ? rows - done : QKV_LOOK_ROWS, n = some * a->keys;
        float *to = out + done * a->keys;
        memset(to, 0, n * sizeof *to);
        for (size_t h = 0; h < a->heads && !status; h++) {
            status = qkv_pass_weights(look->pass, i, QKV_ATTENTION_WEIGHTS, 0, h, first + done, some, one);
            for (size_t k = 0; k < n && !status; k++) to[k] += one[k] / (float)a->heads;
        }
        done += some;
    }
    return status;
}

enum qkv_status qkv_look_walk(struct qkv_attention_view *look, size_t i, size_t head, qkv_take_rows *take, void *user) {
    size_t queries = look->attentions[i].queries;
    enum qkv_status status = QKV_OK;
    for (size_t first = 0; first < queries && !status; first += QKV_LOOK_ROWS) {
        size_t rows = queries - first < QKV_LOOK_ROWS ? queries - first : QKV_LOOK_ROWS;
        status = qkv_look_weights(look, i, head, first, rows, look->rows);
        if (!status && !take(user, first, rows, look->rows)) status = QKV_STOPPED;
    }
    return status;
}

struct measure {
    size_t keys;
    double entropy, distance;
    bool finite;
};

static bool measure_rows(void *user, size_t first, size_t rows, const float *weights) {
    struct measure *m = user;
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < m->keys; k++) {
            double w = (double)weights[r * m->keys + k];
            if (!isfinite(w)) m->finite = false;
            if (w > 0) m->entropy -= w * log2(w);
            m->distance += w * fabs((double)(first + r) - (double)k);
        }
    return m->finite;
}

static enum qkv_status measure_heads(struct qkv_attention_view *look) {
    for (size_t i = 0; i < look->count; i++) {
        const struct qkv_attention_view_head *a = &look->attentions[i];
        for (size_t h = 0; h < a->heads; h++) {
            struct measure m = {.keys = a->keys, .finite = true};
            enum qkv_status status = qkv_look_walk(look, i, h, measure_rows, &m);
            if (!m.finite)
                return qkv_fail(look->ctx, QKV_NUMBER,
                                "the weights of head %zu of %s are not finite: the model's weights are broken; use an "
                                "earlier checkpoint",
                                h, a->name);
            if (status) return status;
            look->statistics[i][h].entropy = m.entropy / (double)a->queries + 0.0;
            look->statistics[i][h].distance = m.distance / (double)a->queries;
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_look_head(const struct qkv_attention_view *look, size_t i, size_t head,
                              struct qkv_head_statistics *statistics) {
    QKV_CALL(look->ctx);
    if (i >= look->count || head >= look->attentions[i].heads)
        return qkv_fail(look->ctx, QKV_ARGUMENT, "there is no head %zu of attention %zu", head, i);
    *statistics = look->statistics[i][head];
    return QKV_OK;
}

/* ---- making a view ----------------------------------------------------------------------------------------------- */

enum qkv_status qkv_look_create(struct qkv_model *model, const struct qkv_look_options *options,
                                struct qkv_attention_view **out) {
    QKV_CALL(qkv_model_context(model));
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_attention_view *look = *out = qkv_allocate(ctx, 1, sizeof *look);
    if (!look) return QKV_MEMORY;
    look->ctx = ctx;
    look->model = model;
    enum qkv_status status = qkv_look_read(look, options);
    if (!status) status = attention_view_run(look, options->prefix);
    if (!status) status = list_attentions(look);
    if (!status) status = measure_heads(look);
    if (!status) return QKV_OK;
    qkv_look_free(look);
    *out = NULL;
    return status;
}

void qkv_look_free(struct qkv_attention_view *look) {
    if (!look) return;
    for (size_t i = 0; look->statistics && i < look->count; i++) free(look->statistics[i]);
    qkv_pass_free(look->pass);
    qkv_look_forget(look);
    free(look->attentions);
    free(look->statistics);
    free(look->rows);
    free(look->sum);
    free(look);
}

size_t qkv_look_tokens(const struct qkv_attention_view *look, bool encoder) {
    return encoder ? look->encoder.count : look->decoder.count;
}

const char *qkv_look_token(const struct qkv_attention_view *look, bool encoder, size_t t, size_t *size) {
    const struct qkv_look_side *side = encoder ? &look->encoder : &look->decoder;
    const char *text = NULL;
    *size = 0;
    if (t < side->count && side->numbers) {
        text = side->numbers[t];
        *size = strlen(text);
    } else if (t < side->count) {
        text = qkv_tokenizer_token(side->tokenizer, side->ids[t], size);
    }
    return text ? text : "";
}
