/* inspect: a model that has run once over a text, with a hook: statistics of the activations after every block and
 * sublayer, and norms of the gradients. At the start of training, the gradients of the last blocks are the largest
 * in post-norm transformers, and those of all blocks are about equal in pre-norm ones (Xiong et al. 2020, "On layer
 * normalization in the transformer architecture"). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/report/inspect.h"

/* ---- statistics -------------------------------------------------------------------------------------------------- */

struct qkv_statistics qkv_statistics_of(const float *x, size_t count) {
    struct qkv_statistics s = {.count = count, .mean = NAN, .deviation = NAN, .min = NAN, .max = NAN};
    double sum = 0, squares = 0;
    size_t finite = 0;
    for (size_t i = 0; i < count; i++) {
        double v = (double)x[i];
        if (!isfinite(v)) continue;
        sum += v;
        if (!finite || v < s.min) s.min = v;
        if (!finite || v > s.max) s.max = v;
        finite++;
    }
    s.broken = count ? (double)(count - finite) / (double)count : 0;
    if (!finite) return s;
    s.mean = sum / (double)finite;
    for (size_t i = 0; i < count; i++) {
        double d = (double)x[i] - s.mean;
        if (isfinite(d)) squares += d * d;
    }
    s.deviation = sqrt(squares / (double)finite);
    return s;
}

/* Stores the rows of each expert of a layer. */
static void inspect_take_experts(struct qkv_inspection *in, const struct qkv_hook_point *point) {
    const struct qkv_spec *spec = qkv_model_spec(in->look.model);
    const struct qkv_stack_spec *stack = point->encoder ? &spec->encoder : &spec->decoder;
    float *rows = in->loads + in->loads_count, busiest = 0, all = 0;
    size_t unused = 0;
    if (in->experts_count == in->experts_capacity) return; /* there are never more */
    for (size_t e = 0; e < point->columns; e++) {
        rows[e] = point->values[e];
        busiest = fmaxf(busiest, rows[e]);
        all += rows[e];
        unused += rows[e] == 0;
    }
    in->loads_count += point->columns;
    in->experts[in->experts_count++] =
        (struct qkv_inspect_experts){.encoder = point->encoder,
                                     .layer = point->layer,
                                     .count = point->columns,
                                     .top_k = (size_t)stack->kinds[stack->kind_of[point->layer]].ffn.experts.top_k,
                                     .rows = rows,
                                     .load = (double)busiest * (double)point->columns / (double)all,
                                     .unused = unused};
}

static void inspect_listen(void *user, const struct qkv_hook_point *point) {
    struct qkv_inspection *in = user;
    if (point->kind == QKV_HOOK_EXPERTS) {
        inspect_take_experts(in, point);
        return;
    }
    if (in->count == in->capacity) return; /* there are never more */
    in->rows[in->count++] =
        (struct qkv_inspect_row){.kind = point->kind,
                                 .encoder = point->encoder,
                                 .layer = point->layer,
                                 .values = qkv_statistics_of(point->values, point->rows * point->columns),
                                 .gradient = NAN};
}

/* ---- targets ----------------------------------------------------------------------------------------------------- */

static enum qkv_status refuse_target(struct qkv_inspection *in) {
    return qkv_fail(
        in->look.ctx, QKV_ARGUMENT,
        "this model has no target: only encoder-decoders, classifiers and models that fill masks do; leave it out");
}

/* The tokens of a text predict the next ones; targets of pairs end with their end token. */
static enum qkv_status aim_next(struct qkv_inspection *in, const struct qkv_look_side *side, int32_t last) {
    const bool prefix = in->prefix && *in->prefix > 0, prompts = qkv_model_spec(in->look.model)->prefix;
    for (size_t t = prefix ? (size_t)*in->prefix - 1 : 0; t + 1 < side->count; t++) in->targets[t] = side->ids[t + 1];
    in->targets[side->count - 1] = last;
    const int used =
        snprintf(in->about, sizeof in->about, "the next of %zu token%s", side->count, side->count == 1 ? "" : "s");
    if (prefix)
        snprintf(in->about + used, sizeof in->about - (size_t)used, " behind a prefix of %d", *in->prefix);
    else if (prompts)
        snprintf(in->about + used, sizeof in->about - (size_t)used, " without a prefix");
    return QKV_OK;
}

/* Predicts the tokens under the masks; without the text that has them, all other tokens. */
static enum qkv_status aim_masked(struct qkv_inspection *in, const struct qkv_inspect_options *o) {
    const struct qkv_look_side *side = &in->look.encoder;
    struct qkv_context *ctx = in->look.ctx;
    int mask = side->tokenizer ? qkv_tokenizer_role(side->tokenizer, QKV_TOKEN_ROLE_MASK) : -1;
    const bool aimed = o->target || o->target_ids;
    int32_t *whole = NULL;
    size_t count = side->count, masks = 0;
    enum qkv_status status = QKV_OK;
    for (size_t t = 0; t < side->count; t++) masks += mask >= 0 && side->ids[t] == mask;
    if (o->target_ids)
        count = o->target_id_count;
    else if (o->target)
        status = qkv_source_encode(ctx, side->tokenizer, o->target, o->target_size, false, false, &whole, &count);
    const int32_t *filled = o->target_ids ? o->target_ids : whole;
    if (!status && count != side->count)
        status = qkv_fail(ctx, QKV_ARGUMENT,
                          "the target has %zu tokens and the prompt %zu; the target must be the prompt with its masks "
                          "filled, token for token",
                          count, side->count);
    for (size_t t = 0; t < side->count && !status; t++) {
        bool masked = mask >= 0 && side->ids[t] == mask;
        bool counts = aimed ? masked || !masks : !masked;
        in->targets[t] = !counts ? QKV_IGNORE : filled ? filled[t] : side->ids[t];
    }
    snprintf(in->about, sizeof in->about, "%s of %zu tokens", aimed && masks ? "those under the masks" : "each again",
             side->count);
    qkv_free(whole);
    return status;
}

/* Predicts the class of the target, or the one that the model finds likeliest. */
static enum qkv_status aim_class(struct qkv_inspection *in, const struct qkv_inspect_options *o) {
    struct qkv_model *model = in->look.model;
    size_t classes = (size_t)qkv_model_spec(model)->head.classes, best = classes;
    for (size_t k = 0; k < classes && o->target; k++) {
        const char *name = qkv_model_label(model, k);
        char number[24];
        snprintf(number, sizeof number, "%zu", k);
        if (!name) name = number;
        if (strlen(name) == o->target_size && !memcmp(name, o->target, o->target_size)) best = k;
    }
    if (o->target && best == classes)
        return qkv_fail(in->look.ctx, QKV_ARGUMENT,
                        "the target \"%.*s\" is no class of this model, which has %zu: %s%s, …", (int)o->target_size,
                        o->target, classes, qkv_model_label(model, 0) ? "" : "numbers from 0",
                        qkv_model_label(model, 0) ? qkv_model_label(model, 0) : "");
    struct qkv_batch batch = qkv_look_batch(&in->look);
    struct qkv_pass_options options = {.size = sizeof options, .B = 1, .T = batch.T, .source_T = batch.source_T};
    struct qkv_pass *pass = NULL;
    enum qkv_status status = o->target ? QKV_OK : qkv_pass_create(model, &options, &pass);
    if (!status && pass) status = qkv_pass_forward(pass, &batch);
    const float *scores = !status && pass ? qkv_pass_output(pass).data : NULL;
    for (size_t k = 0; k < classes && scores; k++)
        if (best == classes || scores[k] > scores[best]) best = k;
    qkv_pass_free(pass);
    in->targets[0] = (int32_t)(best < classes ? best : 0);
    const char *name = qkv_model_label(model, (size_t)in->targets[0]);
    snprintf(in->about, sizeof in->about, "the class %.100s%s", name ? name : "by its number",
             o->target ? "" : ", the likeliest");
    return status;
}

/* Predicts the targets of an example. */
static enum qkv_status aim_given(struct qkv_inspection *in, const int32_t *targets, size_t count) {
    const bool one = qkv_model_spec(in->look.model)->head.kind == QKV_HEAD_CLASSIFY;
    memcpy(in->targets, targets, (one ? 1 : count) * sizeof *targets);
    const char *name = one && targets[0] >= 0 ? qkv_model_label(in->look.model, (size_t)targets[0]) : NULL;
    if (!one)
        snprintf(in->about, sizeof in->about, "the example's targets");
    else if (name)
        snprintf(in->about, sizeof in->about, "the example's class %.100s", name);
    else
        snprintf(in->about, sizeof in->about, "the example's class %d", (int)targets[0]);
    return QKV_OK;
}

static enum qkv_status inspect_aim(struct qkv_inspection *in, const struct qkv_inspect_options *o) {
    const struct qkv_spec *spec = qkv_model_spec(in->look.model);
    bool pair = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    const struct qkv_look_side *side = spec->decoder.layers ? &in->look.decoder : &in->look.encoder;
    in->targets = qkv_allocate(in->look.ctx, side->count, sizeof *in->targets);
    if (!in->targets) return QKV_MEMORY;
    for (size_t t = 0; t < side->count; t++) in->targets[t] = QKV_IGNORE;
    snprintf(in->about, sizeof in->about, "nothing: the model has no head");
    const bool aimed = o->target || o->target_ids;
    if (spec->head.kind == QKV_HEAD_NONE) return aimed && !pair ? refuse_target(in) : QKV_OK;
    if (o->batch && o->batch->targets && !aimed) return aim_given(in, o->batch->targets, side->count);
    if (spec->head.kind == QKV_HEAD_CLASSIFY) return aim_class(in, o);
    if (spec->head.kind == QKV_HEAD_CLASSIFY_TOKENS) {
        snprintf(in->about, sizeof in->about, "nothing: a text does not say the classes of its tokens");
        return aimed ? refuse_target(in) : QKV_OK;
    }
    if (side->features) {
        snprintf(in->about, sizeof in->about, "nothing: the example has no targets");
        return aimed ? refuse_target(in) : QKV_OK;
    }
    /* given ids have their end token already */
    if (pair && (o->ids || o->batch)) return aim_next(in, side, QKV_IGNORE);
    if (pair) return aim_next(in, side, (int32_t)qkv_tokenizer_role(in->look.decoder.tokenizer, QKV_TOKEN_ROLE_END));
    if (qkv_stack_find_causal(stack, false)) return aim_masked(in, o);
    return aimed ? refuse_target(in) : aim_next(in, side, QKV_IGNORE);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* The norm of the gradients of all weights whose name begins with `begin`; NaN if there are none, as for an encoder
 * that shares the decoder's embedding. Layers that share weights have one gradient. */
static enum qkv_status gradient_of(const struct qkv_model *model, const char *begin, double *norm) {
    enum qkv_status status = QKV_OK;
    double sum = 0;
    bool found = false;
    for (size_t i = 0; i < qkv_model_parameters(model) && !status; i++) {
        const struct qkv_array *array = qkv_model_parameter(model, i);
        if (!qkv_model_trainable(model, i) || strncmp(array->name, begin, strlen(begin)) != 0) continue;
        const size_t count = qkv_array_elements(array);
        float *g = qkv_allocate(qkv_model_context(model), count, sizeof *g);
        status = g ? qkv_model_get_gradient(model, i, g, count) : QKV_MEMORY;
        for (size_t k = 0; k < count && !status; k++) sum += (double)g[k] * (double)g[k];
        found = true;
        free(g);
    }
    *norm = found ? sqrt(sum) : (double)NAN;
    return status;
}

static enum qkv_status take_gradients(struct qkv_inspection *in) {
    const struct qkv_spec *spec = qkv_model_spec(in->look.model);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < in->count && !status; i++) {
        struct qkv_inspect_row *row = &in->rows[i];
        const char *stack = row->encoder ? "encoder" : "decoder";
        char begin[64];
        switch (row->kind) {
        case QKV_HOOK_EMBEDDING:
            snprintf(begin, sizeof begin, "%s.embed.", stack);
            break;
        case QKV_HOOK_FINAL:
            snprintf(begin, sizeof begin, "%s.norm.", stack);
            break;
        default:
            snprintf(begin, sizeof begin, "%s.layers.%zu.%s", stack,
                     qkv_stack_weights_of(row->encoder ? &spec->encoder : &spec->decoder, row->layer),
                     row->kind == QKV_HOOK_ATTENTION ? "attn"
                     : row->kind == QKV_HOOK_CROSS   ? "cross"
                     : row->kind == QKV_HOOK_FFN     ? "ffn"
                                                     : "");
        }
        status = gradient_of(in->look.model, begin, &row->gradient);
    }
    return status;
}

/* ---- making an inspection ---------------------------------------------------------------------------------------- */

/* Counts the layers of a stack with experts, and all their experts. */
static void count_experts(const struct qkv_stack_spec *stack, size_t *layers, size_t *experts) {
    for (int i = 0; i < stack->layers; i++) {
        const struct qkv_experts_spec *of = &stack->kinds[stack->kind_of[i]].ffn.experts;
        *layers += of->given;
        *experts += of->given ? (size_t)of->count : 0;
    }
}

static enum qkv_status make_rows(struct qkv_inspection *in) {
    const struct qkv_spec *spec = qkv_model_spec(in->look.model);
    size_t experts = 0;
    count_experts(&spec->encoder, &in->experts_capacity, &experts);
    count_experts(&spec->decoder, &in->experts_capacity, &experts);
    in->experts = qkv_allocate(in->look.ctx, in->experts_capacity + 1, sizeof *in->experts);
    in->loads = qkv_allocate(in->look.ctx, experts + 1, sizeof *in->loads);
    if (!in->experts || !in->loads) return QKV_MEMORY;
    in->capacity = 4 + 4 * ((size_t)spec->encoder.layers + (size_t)spec->decoder.layers);
    in->rows = qkv_allocate(in->look.ctx, in->capacity, sizeof *in->rows);
    return in->rows ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status inspect_run(struct qkv_inspection *in) {
    const struct qkv_attention_view *look = &in->look;
    const struct qkv_look_side *side = look->decoder.count ? &look->decoder : &look->encoder;
    struct qkv_batch batch = qkv_look_batch(look);
    size_t targets = 0;
    for (size_t t = 0; t < side->count; t++) targets += in->targets[t] != QKV_IGNORE;
    struct qkv_pass_options o = {.size = sizeof o,
                                 .B = 1,
                                 .T = batch.T,
                                 .source_T = batch.source_T,
                                 .train = targets > 0,
                                 .hook = inspect_listen,
                                 .hook_user = in};
    struct qkv_pass *pass = NULL;
    batch.targets = targets ? in->targets : NULL;
    batch.prefix = in->prefix;
    enum qkv_status status = qkv_pass_create(look->model, &o, &pass);
    if (!status && targets) qkv_model_clear_gradients(look->model);
    if (!status) status = qkv_pass_forward(pass, &batch);
    if (!status && targets) status = qkv_pass_backward(pass);
    if (!status && targets) {
        in->loss = qkv_pass_loss(pass, &in->counted);
        in->norm = qkv_model_gradient_norm(look->model);
        status = take_gradients(in);
    }
    if (targets && pass) qkv_model_clear_gradients(look->model);
    qkv_pass_free(pass);
    return status;
}

enum qkv_status qkv_inspect(struct qkv_model *model, const struct qkv_inspect_options *options,
                            struct qkv_inspection **out) {
    QKV_CALL(qkv_model_context(model));
    struct qkv_context *ctx = qkv_model_context(model);
    const struct qkv_spec *spec = qkv_model_spec(model);
    bool pair = qkv_spec_topology(spec) == QKV_ENCODER_DECODER;
    struct qkv_look_options o = {.text = options->text,
                                 .text_size = options->text_size,
                                 .target = pair ? options->target : NULL,
                                 .target_size = pair ? options->target_size : 0,
                                 .batch = options->batch,
                                 .ids = options->ids,
                                 .id_count = options->id_count,
                                 .target_ids = pair ? options->target_ids : NULL,
                                 .target_id_count = pair ? options->target_id_count : 0};
    struct qkv_inspection *in = *out = qkv_allocate(ctx, 1, sizeof *in);
    if (!in) return QKV_MEMORY;
    in->look.ctx = ctx;
    in->look.model = model;
    in->loss = in->norm = NAN;
    in->prefix = options->prefix;
    enum qkv_status status = qkv_look_read(&in->look, &o);
    if (!status) status = inspect_aim(in, options);
    if (!status) status = make_rows(in);
    if (!status) status = inspect_run(in);
    in->prefix = NULL;
    if (!status) return QKV_OK;
    qkv_inspection_free(in);
    *out = NULL;
    return status;
}

void qkv_inspection_free(struct qkv_inspection *in) {
    if (!in) return;
    qkv_look_forget(&in->look);
    free(in->targets);
    free(in->rows);
    free(in->experts);
    free(in->loads);
    free(in);
}

const struct qkv_inspect_row *qkv_inspection_row(const struct qkv_inspection *in, size_t i) {
    return i < in->count ? &in->rows[i] : NULL;
}

const struct qkv_inspect_experts *qkv_inspection_experts(const struct qkv_inspection *in, size_t i) {
    return i < in->experts_count ? &in->experts[i] : NULL;
}

double qkv_inspection_loss(const struct qkv_inspection *in, size_t *counted, double *gradient_norm) {
    if (counted) *counted = in->counted;
    if (gradient_norm) *gradient_norm = in->norm;
    return in->loss;
}

const char *qkv_inspection_about(const struct qkv_inspection *in) {
    return in->about;
}
