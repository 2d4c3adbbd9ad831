/* A call of a module: forward, backward, and the weights of an attention. Each call is planned first, by running it on
 * an arena that only measures, and memory is taken if it needs more than earlier calls. */
#include "model/module.h"
#include "model/spec.h"
#include "op/steps.h"

#include <limits.h>
#include <string.h>

static const char *const module_names[] = {"x", "memory", "values", "y"};

static struct qkv_vectors module_output_shape(const struct qkv_module *m, const struct qkv_module_call *c) {
    const struct qkv_spec *spec = &m->model->spec;
    struct qkv_vectors y = {.B = c->B, .T = c->T, .C = (size_t)qkv_stack_width(spec, qkv_module_stack(m)->spec)};
    if (m->calls) y.C = (size_t)m->attention.out;
    if (m->kind != QKV_MODULE_MODEL || spec->head.kind == QKV_HEAD_NONE) return y;
    if (spec->head.kind == QKV_HEAD_CLASSIFY) y.T = 1;
    y.C = m->model->head_weight->rows;
    return y;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* An input whose rows are the keys of an attention, as a tensor, read only; NULL where it is not given. Padding may
 * hold anything, but gradients of weights are products with all rows: padding rows that are not finite become zeros. */
static struct qkv_tensor *module_tensor(struct qkv_module *m, const struct qkv_vectors *v,
                                        const struct qkv_module_attention *a, bool requires_grad) {
    const struct qkv_mask *mask = &a->given.mask;
    float *data = v->data;
    if (data && a->stack && (mask->lengths || mask->starts)) {
        data = qkv_tape_take(&m->tape, v->B * v->T * v->C, sizeof *data);
        if (data)
            qkv_tape_failed(&m->tape,
                            QKV_STEP(m->ctx, clean_rows, .to = data, .from = v->data, .lengths = mask->lengths,
                                     .starts = mask->starts, .B = v->B, .T = v->T, .past = a->past, .columns = v->C));
    }
    struct qkv_tensor *t = data ? qkv_tape_view(&m->tape, data, v->B * v->T, v->C) : NULL;
    if (t) t->learning.requires_grad = requires_grad;
    return t;
}

/* An attention of the call, as all kinds of layers start from it. *pages: its keys in the cache, if it has one. */
static struct qkv_forward_attention module_start(const struct qkv_module_call *c, const struct qkv_module_attention *a,
                                                 struct qkv_forward_pages *pages) {
    const struct qkv_module_cache *cache = c->in->cache;
    if (!cache) return (struct qkv_forward_attention){.given = a->given};
    const struct qkv_module_pages *of = a->cross ? &cache->cross : &cache->self;
    *pages = (struct qkv_forward_pages){
        .table = {.lists = of->tables, .positions = of->pool->positions, .count = of->pool->count},
        .sequences = c->B,
        .longest = c->T,
        .queries = c->B * c->T};
    return (struct qkv_forward_attention){.given = a->given, .pages = pages};
}

/* The context of x (B·T, C), or of a model's source. */
static struct qkv_forward_args module_args(struct qkv_module *m, const struct qkv_module_call *c,
                                           struct qkv_stack *stack, const struct qkv_module_attention *self) {
    const bool source = self == &c->source, has_self = self->stack;
    const struct qkv_module_cache *cache = c->in->cache;
    const size_t T = source ? c->memory_T : c->T;
    struct qkv_forward_pages pages;
    struct qkv_forward_attention attention;
    if (has_self) attention = module_start(c, self, &pages);
    struct qkv_forward_batch batch = {.B = c->B,
                                      .T = T,
                                      .only = qkv_module_is_whole(m) ? 0 : 1 + (size_t)stack->spec->kind_of[m->layer],
                                      .positions = qkv_sequence_positions(&m->tape, c->B, T, self->past),
                                      .types = source ? c->in->source_types : c->in->types,
                                      .self = has_self ? &attention : NULL};
    size_t length = source ? c->in->source_length : c->in->length;
    if (!length && cache) length = cache->self.capacity;
    if (has_self && qkv_stack_by_length(stack))
        batch.turn_lengths = qkv_rotation_lengths(&m->tape, c->B, T, length, self->given.mask.lengths, self->Tk);
    if (m->kind == QKV_MODULE_MODEL) batch.inputs = source ? m->memory : m->x;
    struct qkv_forward_args f = qkv_forward_begin(&m->tape, &m->model->spec, stack, &batch);
    if (has_self && cache) f.cache = cache->self.pool->attention;
    if (has_self && !cache) {
        f.starts = self->given.mask.starts;
        f.lengths = self->given.mask.lengths;
        f.documents = self->given.mask.key_documents;
    }
    return f;
}

/* ids, or, where vectors replace embeddings, the numbers of their rows. */
static const int32_t *module_ids(struct qkv_module *m, const int32_t *ids, size_t rows) {
    return ids ? ids : qkv_sequence_positions(&m->tape, 1, rows, 0);
}

static struct qkv_tensor *module_run_model(struct qkv_module *m, const struct qkv_module_call *c,
                                           struct qkv_forward_args *f) {
    const struct qkv_module_input *in = c->in;
    struct qkv_model *model = m->model;
    if (qkv_module_is_pair(m)) {
        struct qkv_forward_args e = module_args(m, c, &model->encoder, &c->source);
        const int32_t *source = module_ids(m, in->source, c->B * c->memory_T);
        if (m->tape.status) return NULL;
        f->memory = qkv_stack_forward(&e, source);
        if (!f->memory) return NULL;
    }
    const int32_t *ids = module_ids(m, in->ids, c->B * c->T);
    const enum qkv_head_kind head = model->spec.head.kind;
    if (head != QKV_HEAD_NONE && head != QKV_HEAD_CLASSIFY)
        return qkv_stack_scores(f, model, ids, NULL, c->B * c->T, NULL);
    struct qkv_tensor *x = qkv_stack_forward(f, ids);
    if (head == QKV_HEAD_NONE || !x) return x;
    x = qkv_head_positions(&m->tape, model, x);
    x = qkv_op_pool(&m->tape, x, model->spec.head.pool, c->B, c->T, in->self.mask.lengths);
    return qkv_head_scores(&m->tape, model, x, NULL);
}

/* Layers may overwrite their input, so they get a copy. */
static struct qkv_tensor *module_run_layers(struct qkv_module *m, const struct qkv_module_call *c,
                                            struct qkv_forward_args *f) {
    const bool stack = m->kind == QKV_MODULE_ENCODER_STACK || m->kind == QKV_MODULE_DECODER_STACK;
    const size_t layers = (size_t)f->stack->spec->layers;
    struct qkv_embedding copy = {.scale = 1, .N = c->B * c->T};
    copy.tables[QKV_EMBED_TOKEN].rows = m->x;
    copy.tables[QKV_EMBED_TOKEN].places = module_ids(m, NULL, copy.N);
    struct qkv_tensor *x = qkv_op_embed(&m->tape, &copy);
    x = qkv_stack_layers(f, x, stack ? 0 : m->layer, stack ? layers : m->layer + 1);
    return stack && qkv_stack_final_norm(f->stack->spec)->final ? qkv_stack_norm(f, x) : x;
}

static struct qkv_tensor *module_run_kind(struct qkv_module *m, const struct qkv_module_call *c) {
    struct qkv_forward_args f = module_args(m, c, qkv_module_stack(m), &c->self);
    struct qkv_forward_pages pages;
    if (c->cross.stack) {
        const struct qkv_forward_attention cross = module_start(c, &c->cross, &pages);
        qkv_forward_cross(&f, &cross);
    }
    if (c->cross.stack && c->in->cache) f.memory_cache = c->in->cache->cross.pool->attention;
    f.kept = m->calls;
    f.values = m->values;
    if (m->tape.status) return NULL;
    if (m->kind == QKV_MODULE_MODEL) return module_run_model(m, c, &f);
    f.memory = m->memory;
    switch (m->kind) {
    case QKV_MODULE_ATTENTION:
    case QKV_MODULE_CROSS_ATTENTION:
    case QKV_MODULE_FFN:
        return qkv_stack_sublayer(&f, m->layer, m->sublayer, m->x, NULL);
    case QKV_MODULE_NORM:
        return m->final ? qkv_stack_norm(&f, m->x) : qkv_stack_sublayer_norm(&f, m->layer, m->sublayer, m->out, m->x);
    default:
        return module_run_layers(m, c, &f);
    }
}

/* The whole forward, or its plan. */
static enum qkv_status module_run_all(struct qkv_module *m, const struct qkv_module_call *c) {
    const struct qkv_module_input *in = c->in;
    qkv_arena_release(&m->arena, 0);
    qkv_arena_release(&m->graph_arena, 0);
    qkv_model_tape(m->model, &m->tape, &m->arena, &m->graph_arena, in->train);
    if (in->train) qkv_tape_train(&m->tape, in->seed);
    m->x = module_tensor(m, &in->x, &c->self, in->train);
    m->memory = module_tensor(m, &in->memory, c->source.stack ? &c->source : &c->cross, in->train);
    m->values = module_tensor(m, &in->values, &c->cross, in->train);
    m->y = m->tape.status ? NULL : module_run_kind(m, c);
    return m->tape.status;
}

/* The call of the latest forward; NULL: there is none. */
static const struct qkv_attend *module_attend(const struct qkv_module *m) {
    if (!m->calls) return NULL;
    return m->attention.cross ? m->calls[m->layer * 2 + 1] : m->calls[m->layer * (m->stack->has_cross ? 2 : 1)];
}

static enum qkv_status module_plan_weights(struct qkv_module *m) {
    const struct qkv_attend *a = module_attend(m);
    return a ? qkv_attend_weights(m->ctx, &m->arena, a, QKV_ATTENTION_WEIGHTS, 0, 0, 0, a->Tq, a->lse) : QKV_OK;
}

struct module_plan {
    struct qkv_module *module;
    const struct qkv_module_call *call;
};

/* Plans a call with its backward, and the weights of its attention. */
static enum qkv_status module_plan_call(void *argument) {
    const struct module_plan *plan = argument;
    struct qkv_module *m = plan->module;
    const bool train = plan->call->in->train;
    enum qkv_status status = module_run_all(m, plan->call);
    if (!status) status = module_plan_weights(m);
    if (!status && train) status = qkv_tape_backward_from(&m->tape, m->y, m->y->data);
    if (!status && train) status = module_plan_weights(m);
    qkv_module_drop_call(m);
    return status;
}

static enum qkv_status module_make_room(struct qkv_module *m, const struct qkv_module_call *c) {
    static const char what[] = "a call of a module";
    struct module_plan plan = {m, c};
    size_t bytes = 0;
    /* Where k and v have different inputs, or training needs it, the rows of their common product must be fp32. */
    const bool fp32 = c->in->train || c->in->values.data;
    enum qkv_status status = qkv_model_check_alive(m->model);
    if (!status && c->in->train && !m->trains) {
        status = qkv_model_begin_use(m->model, true);
        m->trains = !status;
    }
    if (!status) status = fp32 ? qkv_model_to_fp32(m->model) : qkv_model_check_file(m->model);
    if (!status && c->in->train) status = qkv_model_add_gradients(m->model);
    if (status || c->empty) return status;
    qkv_model_norm_adapters(m->model);
    status = qkv_plan(m->ctx, &m->arena, what, module_plan_call, &plan, &bytes);
    return status ? status : qkv_arena_room(m->ctx, &m->arena, bytes, what);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

struct qkv_vectors qkv_vectors_defaults(void) {
    return (struct qkv_vectors){0};
}

struct qkv_module_mask qkv_module_mask_defaults(void) {
    return (struct qkv_module_mask){0};
}

struct qkv_module_input qkv_module_input_defaults(void) {
    return (struct qkv_module_input){0};
}

struct qkv_module_gradients qkv_module_gradients_defaults(void) {
    return (struct qkv_module_gradients){0};
}

/* The bias of the output of a cross attention without keys; NULL: it has none. */
static struct qkv_tensor *module_output_bias(const struct qkv_module *m) {
    return qkv_tensor_or_null(&qkv_layer_weights(m->stack, m->layer)->cross.parameters.o.bias);
}

/* A call with nothing to compute: x is empty, or there are no keys, and each row of y is the bias of the output. */
static void module_run_empty(struct qkv_module *m, const struct qkv_module_call *c, const struct qkv_vectors *y) {
    const struct qkv_tensor *bias = y->B && y->T ? module_output_bias(m) : NULL;
    const size_t bytes = y->C * sizeof(float);
    for (size_t n = 0; n < y->B * y->T; n++) {
        if (bias)
            m->ctx->backend->read(y->data + n * y->C, bias->data, bytes);
        else
            memset(y->data + n * y->C, 0, bytes);
    }
    if (c->in->cache && c->in->memory.data) qkv_module_pages_truncate(c->in->cache, &c->in->cache->cross, 0);
}

/* A call whose new keys and values go to the cache, if it has one; after a failure the cache has only the old keys. */
static enum qkv_status module_run_cached(struct qkv_module *m, const struct qkv_module_call *c) {
    struct qkv_module_cache *cache = c->in->cache;
    struct qkv_module_pages *self = cache && c->self.stack ? &cache->self : NULL;
    struct qkv_module_pages *cross = cache && c->in->memory.data ? &cache->cross : NULL;
    enum qkv_status status = QKV_OK;
    if (self) status = qkv_module_pages_grow(cache, self, c->self.past, c->T);
    if (cross && !status) status = qkv_module_pages_grow(cache, cross, 0, c->memory_T);
    if (!status) status = module_run_all(m, c);
    if (!status) return QKV_OK;
    if (self) qkv_module_pages_truncate(cache, self, c->self.past);
    if (cross) qkv_module_pages_truncate(cache, cross, 0);
    qkv_module_drop_call(m);
    return status;
}

enum qkv_status qkv_module_forward(struct qkv_module *m, const struct qkv_module_input *input, struct qkv_vectors y) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    QKV_NEED(qkv_call, input);
    m->trained = false;
    qkv_module_drop_call(m);
    struct qkv_module_call c;
    enum qkv_status status = qkv_module_check(m, input, &c);
    if (status) return status;
    const bool rows = !qkv_module_is_empty(&input->x);
    const struct qkv_vectors shape = module_output_shape(m, &c);
    status = qkv_module_check_vectors(m, "y", &y, "x and the module", shape.B, shape.T, shape.C);
    m->empty = c.empty;
    if (!status && !rows && y.B && y.T)
        status = qkv_fail(m->ctx, QKV_ARGUMENT,
                          "%s module: x is (%zu,%zu,%zu), which has nothing to pool for y (%zu,%zu,%zu)",
                          qkv_module_kind_text(m->kind), input->x.B, input->x.T, input->x.C, y.B, y.T, y.C);
    if (!status && rows) status = module_make_room(m, &c);
    if (!status && c.empty) module_run_empty(m, &c, &y);
    if (!status && !c.empty) status = module_run_cached(m, &c);
    if (status) return status;
    if (!c.empty) m->ctx->backend->read(y.data, m->y->data, m->y->rows * m->y->columns * sizeof(float));
    const struct qkv_vectors shapes[] = {input->x, input->memory, input->values, shape};
    memcpy(m->shapes, shapes, sizeof shapes);
    m->calls_cache = input->cache;
    m->trained = input->train;
    return QKV_OK;
}

/* Sets where an input's gradient goes, and clears it. An input without a destination has no gradient. */
static enum qkv_status module_set_gradient(struct qkv_module *m, int which, struct qkv_tensor *input,
                                           const struct qkv_vectors *gradient) {
    const struct qkv_vectors *shape = &m->shapes[which];
    char name[16];
    if (input && !m->empty) input->learning.requires_grad = false;
    if (!gradient->data) return QKV_OK;
    snprintf(name, sizeof name, "d%s", module_names[which]);
    if (m->empty ? !shape->C : !input)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s is asked for, but the forward had no such input",
                        qkv_module_kind_text(m->kind), name);
    enum qkv_status status =
        qkv_module_check_vectors(m, name, gradient, module_names[which], shape->B, shape->T, shape->C);
    if (status) return status;
    memset(gradient->data, 0, shape->B * shape->T * shape->C * sizeof(float));
    if (m->empty) return QKV_OK;
    input->learning.requires_grad = true;
    input->learning.gradient = gradient->data;
    input->learning.uses = UINT_MAX; /* never reported to a listener: it is not a parameter */
    return QKV_OK;
}

/* Adds the gradient of the only weight that a call without keys used. */
static enum qkv_status module_backward_empty(struct qkv_module *m, const struct qkv_vectors *dy) {
    const struct qkv_tensor *bias = dy->B && dy->T ? module_output_bias(m) : NULL;
    enum qkv_status status = QKV_OK;
    for (size_t n = 0; bias && bias->learning.gradient && n < dy->B * dy->T && !status; n++)
        status = QKV_STEP(m->ctx, carry, .sum = bias->learning.gradient, .levels = {dy->data + n * dy->C},
                          .level_count = 1, .count = dy->C);
    return status;
}

enum qkv_status qkv_module_backward(struct qkv_module *m, struct qkv_vectors dy,
                                    const struct qkv_module_gradients *gradients) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    if (!m->trained)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: backward needs a forward with train before it",
                        qkv_module_kind_text(m->kind));
    const struct qkv_module_gradients none = {0}, *g = gradients ? gradients : &none;
    const struct qkv_vectors *y = &m->shapes[QKV_MODULE_Y];
    enum qkv_status status = qkv_module_check_vectors(m, "dy", &dy, "y", y->B, y->T, y->C);
    if (!status) status = module_set_gradient(m, QKV_MODULE_X, m->x, &g->x);
    if (!status) status = module_set_gradient(m, QKV_MODULE_MEMORY, m->memory, &g->memory);
    if (!status) status = module_set_gradient(m, QKV_MODULE_VALUES, m->values, &g->values);
    if (status) return status;
    m->trained = false;
    m->model->dirty = true;
    if (m->empty) return module_backward_empty(m, &dy);
    return qkv_tape_backward_from(&m->tape, m->y, dy.data);
}

enum qkv_status qkv_module_attention_weights(struct qkv_module *m, enum qkv_attention_stage stage, size_t b, size_t h,
                                             size_t first, size_t rows, float *out) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    QKV_NEED_ALL(qkv_call, rows, out);
    const char *kind = qkv_module_kind_text(m->kind);
    if (!m->calls)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: only modules of an attention or a cross attention have its weights", kind);
    const struct qkv_attend *a = module_attend(m);
    if (!a)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: weights need a forward with keys before them, and the cache of that forward", kind);
    return qkv_attend_weights(m->ctx, &m->arena, a, stage, b, h, first, rows, out);
}
