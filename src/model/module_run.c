/* A call of a module: forward and backward. Each call is planned first, by running it on an arena that only measures,
 * and memory is taken if it needs more than earlier calls. */
#include "base/backend.h"
#include "model/module.h"
#include "model/spec.h"

#include <limits.h>
#include <string.h>

enum { MODULE_X, MODULE_MEMORY, MODULE_VALUES, MODULE_Y, MODULE_SHAPES };
static const char *const module_names[] = {"x", "memory", "values", "y"};

/* One attention of a call. */
struct module_attention {
    const struct qkv_stack *stack; /* NULL: no such attention */
    bool cross;
    const struct qkv_module_mask *given;
    size_t Tq, Tk;
};
struct module_call {
    const struct qkv_module_input *in;
    size_t B, T, memory_T;
    struct module_attention self, cross, source;
};

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static const char *module_kind_name(enum qkv_module_kind kind) {
#define MODULE_KIND_NAME(name, text, help) [QKV_MODULE_##name] = text,
    static const char *const names[] = {QKV_MODULE_LIST(MODULE_KIND_NAME)};
#undef MODULE_KIND_NAME
    return names[kind];
}

static bool module_is_pair(const struct qkv_module *m) {
    return m->kind == QKV_MODULE_MODEL && m->model->encoder.spec && m->model->decoder.spec;
}

static bool module_reads_memory(const struct qkv_module *m) {
    return m->kind == QKV_MODULE_CROSS_ATTENTION || m->kind == QKV_MODULE_DECODER_BLOCK ||
           m->kind == QKV_MODULE_CROSS_BLOCK || m->kind == QKV_MODULE_DECODER_STACK || module_is_pair(m);
}

static bool module_has_self(const struct qkv_module *m) {
    return m->kind != QKV_MODULE_CROSS_ATTENTION && m->kind != QKV_MODULE_CROSS_BLOCK && m->kind != QKV_MODULE_FFN &&
           m->kind != QKV_MODULE_NORM;
}

static enum qkv_status module_check_vectors(const struct qkv_module *m, const char *name, const struct qkv_vectors *v,
                                            const char *like, size_t B, size_t T, size_t C) {
    if (v->B != B || v->T != T || v->C != C)
        return qkv_fail(m->ctx, QKV_SHAPE, "%s module: %s is (%zu,%zu,%zu); to go with %s it must be (%zu,%zu,%zu)",
                        module_kind_name(m->kind), name, v->B, v->T, v->C, like, B, T, C);
    if (!v->data && B && T && C)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s has no data", module_kind_name(m->kind), name);
    return qkv_aligned(m->ctx, name, v->data, sizeof(float));
}

static size_t module_memory_width(const struct qkv_module *m) {
    const struct qkv_spec *spec = &m->model->spec;
    return (size_t)qkv_stack_width(spec, spec->encoder.layers ? &spec->encoder : &spec->decoder);
}

/* The widths of the inputs of cross attention's k and v. */
static size_t module_key_width(const struct qkv_module *m) {
    return m->model->parts.key_width ? m->model->parts.key_width : module_memory_width(m);
}

static size_t module_value_width(const struct qkv_module *m) {
    return m->model->parts.value_width ? m->model->parts.value_width : module_memory_width(m);
}

/* Whether there are no rows, or rows of no positions, so that there is nothing to compute. */
static bool module_is_empty(const struct qkv_vectors *v) {
    return !v->B || !v->T;
}

/* Checks vectors of a width, or, where the module embeds, ids in their place. */
static enum qkv_status module_check_input(const struct qkv_module *m, const char *name, const struct qkv_vectors *v,
                                          size_t width, const int32_t *ids, const char *ids_name) {
    const struct qkv_spec *spec = &m->model->spec;
    const bool embeds = m->kind == QKV_MODULE_MODEL, attends = m->kind != QKV_MODULE_FFN && m->kind != QKV_MODULE_NORM;
    size_t rows;
    if (ids && !embeds)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s are given, but only a model embeds them; give %s",
                        module_kind_name(m->kind), ids_name, name);
    if (ids && (v->data || v->C))
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: both %s and %s are given; choose one",
                        module_kind_name(m->kind), name, ids_name);
    if (!qkv_multiply(v->B, v->T, &rows) || rows > (size_t)1 << 30)
        return qkv_fail(m->ctx, QKV_SHAPE, "%s module: %zu rows of %zu positions are too many",
                        module_kind_name(m->kind), v->B, v->T);
    if (attends && v->T > (size_t)spec->context)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s has %zu positions, more than the context of %d",
                        module_kind_name(m->kind), name, v->T, spec->context);
    const struct qkv_stack *stack = ids == NULL                                          ? NULL
                                    : !strcmp(name, "memory") || !m->model->decoder.spec ? &m->model->encoder
                                                                                         : &m->model->decoder;
    if (stack && !qkv_stack_reads_tokens(stack->spec))
        return qkv_fail(
            m->ctx, QKV_ARGUMENT, "%s module: %s are given, but the %s reads %s; give %s, as wide as the model",
            module_kind_name(m->kind), ids_name, stack->name, qkv_input_text(stack->spec->embed.input.kind), name);
    if (ids) return qkv_aligned(m->ctx, ids_name, ids, sizeof *ids);
    if (embeds && module_is_empty(v) && !v->C) return QKV_OK; /* no ids */
    return module_check_vectors(m, name, v, "the module's weights", v->B, v->T, width);
}

static enum qkv_status module_check_memory(const struct qkv_module *m, const struct qkv_module_input *in) {
    const bool given = in->memory.data || in->memory.B || in->memory.T || in->memory.C || in->source;
    if (in->values.data && m->kind != QKV_MODULE_CROSS_ATTENTION)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: values are given, but only cross attention reads them separately",
                        module_kind_name(m->kind));
    if (!module_reads_memory(m))
        return !given ? QKV_OK
                      : qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: a memory is given, but nothing reads it",
                                 module_kind_name(m->kind));
    if (module_is_empty(&in->memory) && !module_is_empty(&in->x))
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: memory is (%zu,%zu,%zu), which is empty, but x is (%zu,%zu,%zu)",
                        module_kind_name(m->kind), in->memory.B, in->memory.T, in->memory.C, in->x.B, in->x.T, in->x.C);
    const size_t keys = module_key_width(m), values = module_value_width(m);
    enum qkv_status status = module_check_input(m, "memory", &in->memory, keys, in->source, "source");
    if (status) return status;
    if (in->memory.B != in->x.B)
        return qkv_fail(m->ctx, QKV_SHAPE,
                        "%s module: memory is (%zu,%zu,%zu) and x is (%zu,%zu,%zu); they need the same number of rows",
                        module_kind_name(m->kind), in->memory.B, in->memory.T, in->memory.C, in->x.B, in->x.T, in->x.C);
    if (!in->values.data && keys == values) return QKV_OK;
    return module_check_vectors(m, "values", &in->values, "memory and the module's weights", in->memory.B, in->memory.T,
                                values);
}

static bool module_mask_given(const struct qkv_module_mask *given) {
    const struct qkv_mask *k = &given->mask;
    return k->causal || k->offset || k->offsets || k->window || k->sides || k->left || k->right || k->lengths ||
           k->starts || k->prefix || k->key_documents || k->query_documents || given->dense || given->bias ||
           given->dbias;
}

/* Whether the module has all layers of its stacks. */
static bool module_is_whole(const struct qkv_module *m) {
    return !m->stack || m->kind == QKV_MODULE_ENCODER_STACK || m->kind == QKV_MODULE_DECODER_STACK;
}

static enum qkv_status module_check_attention(const struct qkv_module *m, const struct module_call *c, const char *name,
                                              const struct module_attention *a) {
    const struct qkv_module_mask *given = a->given;
    const char *kind = module_kind_name(m->kind);
    if (!a->stack && module_mask_given(given))
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: the mask \"%s\" is given, but there is no such attention",
                        kind, name);
    if (!a->stack) return QKV_OK;
    if (!a->cross && (given->mask.offset || given->mask.offsets))
        return qkv_fail(
            m->ctx, QKV_ARGUMENT,
            "%s module: %s.mask.offset is given, but in self attention queries and keys have the same positions", kind,
            name);
    if (given->dbias && (!given->bias || !c->in->train))
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s.dbias needs a bias, and train", kind, name);
    enum qkv_status status = qkv_aligned(m->ctx, "bias", given->bias, sizeof(float));
    if (!status) status = qkv_aligned(m->ctx, "dbias", given->dbias, sizeof(float));
    for (size_t i = 0; i < (size_t)a->stack->spec->kind_count && !status; i++) {
        const struct qkv_layer_spec *layer = &a->stack->spec->kinds[i];
        if (module_is_whole(m) || a->stack->spec->kind_of[m->layer] == i)
            status = qkv_forward_check(m->ctx, a->cross ? &layer->cross : &layer->attention, given, c->B, a->Tq, a->Tk);
    }
    return status;
}

/* The stack that x is the input of. */
static struct qkv_stack *module_stack(const struct qkv_module *m) {
    if (m->stack) return m->stack;
    return m->model->decoder.spec ? &m->model->decoder : &m->model->encoder;
}

static enum qkv_status module_check_masks(const struct qkv_module *m, struct module_call *c) {
    const struct qkv_module_input *in = c->in;
    const struct qkv_stack *s = module_stack(m), *encoder = &m->model->encoder;
    const bool pair = module_is_pair(m);
    c->self = (struct module_attention){module_has_self(m) ? s : NULL, false, &in->self, c->T, c->T};
    c->cross = (struct module_attention){module_reads_memory(m) ? s : NULL, true, &in->cross, c->T, c->memory_T};
    c->source = (struct module_attention){pair ? encoder : NULL, false, &in->source_self, c->memory_T, c->memory_T};
    enum qkv_status status = module_check_attention(m, c, "self", &c->self);
    if (!status) status = module_check_attention(m, c, "cross", &c->cross);
    if (!status) status = module_check_attention(m, c, "source_self", &c->source);
    if (status || m->kind != QKV_MODULE_MODEL || m->model->spec.head.kind != QKV_HEAD_CLASSIFY || !in->self.mask.starts)
        return status;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "model module: a classifier pools from position 0 on; put the padding last (mask.lengths), not "
                    "before (mask.starts)");
}

static enum qkv_status module_check_length(const struct qkv_module *m, size_t length) {
    if (length <= (size_t)m->model->spec.context) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: the length for rotations is %zu, more than the context of %d",
                    module_kind_name(m->kind), length, m->model->spec.context);
}

static struct qkv_vectors module_output_shape(const struct qkv_module *m, const struct module_call *c) {
    const struct qkv_spec *spec = &m->model->spec;
    struct qkv_vectors y = {.B = c->B, .T = c->T, .C = (size_t)qkv_stack_width(spec, module_stack(m)->spec)};
    if (m->kind != QKV_MODULE_MODEL || spec->head.kind == QKV_HEAD_NONE) return y;
    if (spec->head.kind == QKV_HEAD_CLASSIFY) y.T = 1;
    y.C = m->model->head_weight->rows;
    return y;
}

static enum qkv_status module_check_types(const struct qkv_module *m, const int32_t *types,
                                          const struct qkv_stack_spec *stack, const char *name) {
    if (!types || (m->kind == QKV_MODULE_MODEL && stack && stack->embed.types))
        return qkv_aligned(m->ctx, name, types, sizeof *types);
    return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s are given, but no embedding here has types (embed.types)",
                    module_kind_name(m->kind), name);
}

static enum qkv_status module_check(struct qkv_module *m, const struct qkv_module_input *in, struct module_call *c) {
    *c = (struct module_call){.in = in, .B = in->x.B, .T = in->x.T, .memory_T = in->memory.T};
    const struct qkv_spec *spec = &m->model->spec;
    const struct qkv_stack_spec *stack = module_stack(m)->spec;
    const size_t width =
        (size_t)(m->kind == QKV_MODULE_MODEL ? qkv_token_width(spec, stack) : qkv_stack_width(spec, stack));
    enum qkv_status status = module_check_input(m, "x", &in->x, width, in->ids, "ids");
    if (!status) status = module_check_types(m, in->types, stack, "types");
    if (!status) status = module_check_types(m, in->source_types, m->model->encoder.spec, "source_types");
    if (!status) status = module_check_memory(m, in);
    if (!status) status = module_check_length(m, in->length);
    if (!status) status = module_check_length(m, in->source_length);
    if (!status && !module_is_empty(&in->x)) status = module_check_masks(m, c);
    return status;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* An input as a tensor, read only; NULL where it is not given. */
static struct qkv_tensor *module_tensor(struct qkv_module *m, const struct qkv_vectors *v, bool requires_grad) {
    struct qkv_tensor *t = v->data ? qkv_tape_view(&m->tape, v->data, v->B * v->T, v->C) : NULL;
    if (t) t->learning.requires_grad = requires_grad;
    return t;
}

/* An attention of the call, as all kinds of layers start from it. */
static struct qkv_forward_attention module_start(const struct module_call *c, const struct module_attention *a) {
    struct qkv_forward_attention attention = {.given = *a->given};
    attention.given.mask.B = c->B, attention.given.mask.Tq = a->Tq, attention.given.mask.Tk = a->Tk;
    return attention;
}

/* The context of x (B·T, C), or of a model's source. */
static struct qkv_forward_args module_args(struct qkv_module *m, const struct module_call *c, struct qkv_stack *stack,
                                           size_t T, const struct module_attention *self) {
    const bool source = self == &c->source, has_self = self->stack;
    const struct qkv_forward_attention attention = has_self ? module_start(c, self) : (struct qkv_forward_attention){0};
    struct qkv_forward_batch batch = {.B = c->B,
                                      .T = T,
                                      .only = module_is_whole(m) ? 0 : 1 + (size_t)stack->spec->kind_of[m->layer],
                                      .positions = qkv_sequence_positions(&m->tape, c->B, T, 0),
                                      .types = source ? c->in->source_types : c->in->types,
                                      .self = has_self ? &attention : NULL};
    const size_t length = source ? c->in->source_length : c->in->length;
    if (has_self && qkv_stack_by_length(stack))
        batch.turn_lengths = qkv_rotation_lengths(&m->tape, c->B, T, length, self->given->mask.lengths, T);
    if (m->kind == QKV_MODULE_MODEL) batch.inputs = source ? m->memory : m->x;
    return qkv_forward_begin(&m->tape, &m->model->spec, stack, &batch);
}

/* ids, or, where vectors replace embeddings, the numbers of their rows. */
static const int32_t *module_ids(struct qkv_module *m, const int32_t *ids, size_t rows) {
    return ids ? ids : qkv_sequence_positions(&m->tape, 1, rows, 0);
}

static struct qkv_tensor *module_run_model(struct qkv_module *m, const struct module_call *c,
                                           struct qkv_forward_args *f) {
    const struct qkv_module_input *in = c->in;
    struct qkv_model *model = m->model;
    if (module_is_pair(m)) {
        struct qkv_forward_args e = module_args(m, c, &model->encoder, c->memory_T, &c->source);
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
    x = qkv_op_pool(&m->tape, x, model->spec.head.pool, c->B, c->T, in->self.mask.lengths);
    return qkv_head_scores(&m->tape, model, x, NULL);
}

/* Layers may overwrite their input, so they get a copy. */
static struct qkv_tensor *module_run_layers(struct qkv_module *m, const struct module_call *c,
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

static struct qkv_tensor *module_run_kind(struct qkv_module *m, const struct module_call *c) {
    struct qkv_forward_args f = module_args(m, c, module_stack(m), c->T, &c->self);
    if (c->cross.stack) {
        const struct qkv_forward_attention cross = module_start(c, &c->cross);
        qkv_forward_cross(&f, &cross);
    }
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
static enum qkv_status module_run_all(struct qkv_module *m, const struct module_call *c) {
    const struct qkv_module_input *in = c->in;
    qkv_arena_release(&m->arena, 0);
    qkv_arena_release(&m->graph_arena, 0);
    qkv_model_tape(m->model, &m->tape, &m->arena, &m->graph_arena, in->train);
    if (in->train) qkv_tape_train(&m->tape, in->seed);
    m->x = module_tensor(m, &in->x, in->train);
    m->memory = module_tensor(m, &in->memory, in->train);
    m->values = module_tensor(m, &in->values, in->train);
    m->y = m->tape.status ? NULL : module_run_kind(m, c);
    return m->tape.status;
}

struct module_plan {
    struct qkv_module *module;
    const struct module_call *call;
};

/* Plans a call with its backward. */
static enum qkv_status module_plan_call(void *argument) {
    const struct module_plan *plan = argument;
    enum qkv_status status = module_run_all(plan->module, plan->call);
    if (status || !plan->call->in->train) return status;
    return qkv_tape_backward_from(&plan->module->tape, plan->module->y, plan->module->y->data);
}

static enum qkv_status module_make_room(struct qkv_module *m, const struct module_call *c) {
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
    if (!status) status = qkv_plan(m->ctx, &m->arena, what, module_plan_call, &plan, &bytes);
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

enum qkv_status qkv_module_forward(struct qkv_module *m, const struct qkv_module_input *input, struct qkv_vectors y) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    QKV_NEED(qkv_call, input);
    m->trained = false;
    struct module_call c;
    enum qkv_status status = module_check(m, input, &c);
    if (status) return status;
    const struct qkv_vectors shape = module_output_shape(m, &c);
    status = module_check_vectors(m, "y", &y, "x and the module", shape.B, shape.T, shape.C);
    m->empty = module_is_empty(&input->x);
    if (!status && m->empty && y.B && y.T)
        status = qkv_fail(m->ctx, QKV_ARGUMENT,
                          "%s module: x is (%zu,%zu,%zu), which has nothing to pool for y (%zu,%zu,%zu)",
                          module_kind_name(m->kind), input->x.B, input->x.T, input->x.C, y.B, y.T, y.C);
    if (!status && !m->empty) status = module_make_room(m, &c);
    if (!status && !m->empty) status = module_run_all(m, &c);
    if (status) return status;
    if (!m->empty) m->ctx->backend->read(y.data, m->y->data, m->y->rows * m->y->columns * sizeof(float));
    const struct qkv_vectors shapes[] = {input->x, input->memory, input->values, shape};
    memcpy(m->shapes, shapes, sizeof shapes);
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
                        module_kind_name(m->kind), name);
    enum qkv_status status = module_check_vectors(m, name, gradient, module_names[which], shape->B, shape->T, shape->C);
    if (status) return status;
    memset(gradient->data, 0, shape->B * shape->T * shape->C * sizeof(float));
    if (m->empty) return QKV_OK;
    input->learning.requires_grad = true;
    input->learning.gradient = gradient->data;
    input->learning.uses = UINT_MAX; /* never reported to a listener: it is not a parameter */
    return QKV_OK;
}

enum qkv_status qkv_module_backward(struct qkv_module *m, struct qkv_vectors dy,
                                    const struct qkv_module_gradients *gradients) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    if (!m->trained)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: backward needs a forward with train before it",
                        module_kind_name(m->kind));
    const struct qkv_module_gradients none = {0}, *g = gradients ? gradients : &none;
    const struct qkv_vectors *y = &m->shapes[MODULE_Y];
    enum qkv_status status = module_check_vectors(m, "dy", &dy, "y", y->B, y->T, y->C);
    if (!status) status = module_set_gradient(m, MODULE_X, m->x, &g->x);
    if (!status) status = module_set_gradient(m, MODULE_MEMORY, m->memory, &g->memory);
    if (!status) status = module_set_gradient(m, MODULE_VALUES, m->values, &g->values);
    if (status) return status;
    m->trained = false;
    if (m->empty) return QKV_OK;
    m->model->dirty = true;
    return qkv_tape_backward_from(&m->tape, m->y, dy.data);
}
