/* module_check: the checks of a call of a module, which find the keys and the mask of each of its attentions. */
#include "model/module.h"
#include "model/spec.h"

#include <string.h>

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_module_check_vectors(const struct qkv_module *m, const char *name, const struct qkv_vectors *v,
                                         const char *like, size_t B, size_t T, size_t C) {
    if (v->B != B || v->T != T || v->C != C)
        return qkv_fail(m->ctx, QKV_SHAPE, "%s module: %s is (%zu,%zu,%zu); to go with %s it must be (%zu,%zu,%zu)",
                        qkv_module_kind_text(m->kind), name, v->B, v->T, v->C, like, B, T, C);
    if (!v->data && B && T && C)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s has no data", qkv_module_kind_text(m->kind), name);
    return qkv_aligned(m->ctx, name, v->data, sizeof(float));
}

bool qkv_module_is_empty(const struct qkv_vectors *v) {
    return !v->B || !v->T;
}

int qkv_module_context(const struct qkv_module *m, bool memory) {
    const struct qkv_stack *encoder = &m->model->encoder;
    const struct qkv_stack *stack = memory && encoder->spec ? encoder : qkv_module_stack(m);
    return qkv_stack_context(&m->model->spec, stack->spec);
}

/* Checks vectors of a width, or, where the module embeds, ids in their place. */
static enum qkv_status module_check_input(const struct qkv_module *m, const char *name, const struct qkv_vectors *v,
                                          size_t width, const int32_t *ids, const char *ids_name) {
    const int context = qkv_module_context(m, !strcmp(name, "memory"));
    const bool embeds = m->kind == QKV_MODULE_MODEL, attends = m->kind != QKV_MODULE_FFN && m->kind != QKV_MODULE_NORM;
    size_t rows;
    if (ids && !embeds)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s are given, but only a model embeds them; give %s",
                        qkv_module_kind_text(m->kind), ids_name, name);
    if (ids && (v->data || v->C))
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: both %s and %s are given; choose one",
                        qkv_module_kind_text(m->kind), name, ids_name);
    if (!qkv_multiply(v->B, v->T, &rows) || rows > (size_t)1 << 30)
        return qkv_fail(m->ctx, QKV_SHAPE, "%s module: %zu rows of %zu positions are too many",
                        qkv_module_kind_text(m->kind), v->B, v->T);
    if (attends && v->T > (size_t)context)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s has %zu positions, more than the context of %d",
                        qkv_module_kind_text(m->kind), name, v->T, context);
    const struct qkv_stack *stack = ids == NULL                                          ? NULL
                                    : !strcmp(name, "memory") || !m->model->decoder.spec ? &m->model->encoder
                                                                                         : &m->model->decoder;
    if (stack && !qkv_stack_reads_tokens(stack->spec))
        return qkv_fail(
            m->ctx, QKV_ARGUMENT, "%s module: %s are given, but the %s reads %s; give %s, as wide as the model",
            qkv_module_kind_text(m->kind), ids_name, stack->name, qkv_input_text(stack->spec->embed.input.kind), name);
    if (ids) return qkv_aligned(m->ctx, ids_name, ids, sizeof *ids);
    if (embeds && qkv_module_is_empty(v) && !v->C) return QKV_OK; /* no ids */
    return qkv_module_check_vectors(m, name, v, "the module's weights", v->B, v->T, width);
}

/* Checks that the cache is one of this module and batch, and that new positions fit. */
static enum qkv_status module_check_cache(const struct qkv_module *m, const struct qkv_module_input *in) {
    const struct qkv_module_cache *c = in->cache;
    const char *kind = qkv_module_kind_text(m->kind);
    if (!c) return QKV_OK;
    if (c->module != m) return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: the cache was made for another module", kind);
    if (c->B != in->x.B)
        return qkv_fail(m->ctx, QKV_SHAPE, "%s module: the cache has %zu rows, but the batch has %zu", kind, c->B,
                        in->x.B);
    if (in->train)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: with a cache there is no backward; leave out the cache, or train", kind);
    if (in->values.data)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: values are given, but a cache stores the values of the memory; leave out one of "
                        "the two",
                        kind);
    if (c->self.pool && in->x.T > c->self.capacity - c->self.length)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %zu more positions do not fit: the cache holds %zu of %zu",
                        kind, in->x.T, c->self.length, c->self.capacity);
    if (!c->cross.pool || !in->memory.data || in->memory.T <= c->cross.capacity) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: a memory of %zu positions does not fit into a cache of %zu", kind,
                    in->memory.T, c->cross.capacity);
}

/* Checks that the cache has the memory that the input leaves out; sets its length. */
static enum qkv_status module_check_cached(const struct qkv_module *m, struct qkv_module_call *c) {
    const struct qkv_vectors *memory = &c->in->memory;
    const char *kind = qkv_module_kind_text(m->kind);
    c->memory_T = c->in->cache->cross.length;
    if (!c->memory_T && !qkv_module_is_empty(&c->in->x))
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: memory is not given, but the cache holds none yet; give it once", kind);
    if (!memory->T || memory->T == c->memory_T) return QKV_OK;
    return qkv_fail(m->ctx, QKV_SHAPE,
                    "%s module: memory is (%zu,%zu,%zu) without data, but the cache holds %zu positions", kind,
                    memory->B, memory->T, memory->C, c->memory_T);
}

static enum qkv_status module_check_memory(const struct qkv_module *m, struct qkv_module_call *c) {
    const struct qkv_module_input *in = c->in;
    const struct qkv_vectors *x = &in->x, *memory = &in->memory;
    const char *kind = qkv_module_kind_text(m->kind);
    const bool given = memory->data || memory->B || memory->T || memory->C || in->source;
    if (in->values.data && m->kind != QKV_MODULE_CROSS_ATTENTION)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: values are given, but only cross attention reads them separately", kind);
    if (!qkv_module_reads_memory(m))
        return !given ? QKV_OK
                      : qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: a memory is given, but nothing reads it", kind);
    if (in->cache && !memory->data) return module_check_cached(m, c);
    const bool alone = m->kind == QKV_MODULE_CROSS_ATTENTION && memory->C; /* needs no keys: y is the output's bias */
    if (qkv_module_is_empty(memory) && !qkv_module_is_empty(x) && !alone)
        return qkv_fail(m->ctx, QKV_ARGUMENT,
                        "%s module: memory is (%zu,%zu,%zu), which is empty, but x is (%zu,%zu,%zu)", kind, memory->B,
                        memory->T, memory->C, x->B, x->T, x->C);
    const size_t keys = qkv_module_key_width(m), values = qkv_module_value_width(m);
    enum qkv_status status = module_check_input(m, "memory", memory, keys, in->source, "source");
    if (status) return status;
    if (memory->B != x->B)
        return qkv_fail(m->ctx, QKV_SHAPE,
                        "%s module: memory is (%zu,%zu,%zu) and x is (%zu,%zu,%zu); they need the same number of rows",
                        kind, memory->B, memory->T, memory->C, x->B, x->T, x->C);
    if (!in->values.data && keys == values) return QKV_OK;
    return qkv_module_check_vectors(m, "values", &in->values, "memory and the module's weights", memory->B, memory->T,
                                    values);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

static bool module_mask_given(const struct qkv_module_mask *given) {
    const struct qkv_mask *k = &given->mask;
    return k->causal || k->offset || k->offsets || k->window || k->sides || k->left || k->right || k->lengths ||
           k->starts || k->prefix || k->key_documents || k->query_documents || given->dense || given->bias ||
           given->dbias;
}

/* Checks the mask of an attention, and completes it. */
static enum qkv_status module_check_attention(const struct qkv_module *m, const struct qkv_module_call *c,
                                              const char *name, struct qkv_module_attention *a) {
    struct qkv_module_mask *given = &a->given;
    const char *kind = qkv_module_kind_text(m->kind);
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
    if (!a->cross) given->mask.offset = (int64_t)a->past;
    for (size_t i = 0; i < (size_t)a->stack->spec->kind_count && !status; i++) {
        const struct qkv_layer_spec *layer = &a->stack->spec->kinds[i];
        if (qkv_module_is_whole(m) || a->stack->spec->kind_of[m->layer] == i)
            status = qkv_forward_check(m->ctx, a->cross ? &layer->cross : &layer->attention, given, c->B, a->Tq, a->Tk);
    }
    given->mask.B = c->B, given->mask.Tq = a->Tq, given->mask.Tk = a->Tk;
    return status;
}

static enum qkv_status module_check_masks(const struct qkv_module *m, struct qkv_module_call *c) {
    const struct qkv_module_input *in = c->in;
    const struct qkv_stack *s = qkv_module_stack(m), *encoder = qkv_module_is_pair(m) ? &m->model->encoder : NULL;
    const size_t past = in->cache && in->cache->self.pool ? in->cache->self.length : 0;
    c->self = (struct qkv_module_attention){
        .stack = qkv_module_has_self(m) ? s : NULL, .past = past, .Tq = c->T, .Tk = past + c->T, .given = in->self};
    c->cross = (struct qkv_module_attention){.stack = qkv_module_reads_memory(m) ? s : NULL,
                                             .cross = true,
                                             .Tq = c->T,
                                             .Tk = c->memory_T,
                                             .given = in->cross};
    c->source =
        (struct qkv_module_attention){.stack = encoder, .Tq = c->memory_T, .Tk = c->memory_T, .given = in->source_self};
    enum qkv_status status = module_check_attention(m, c, "self", &c->self);
    if (!status) status = module_check_attention(m, c, "cross", &c->cross);
    if (!status) status = module_check_attention(m, c, "source_self", &c->source);
    if (status || m->kind != QKV_MODULE_MODEL || m->model->spec.head.kind != QKV_HEAD_CLASSIFY || !in->self.mask.starts)
        return status;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "model module: a classifier pools from position 0 on; put the padding last (mask.lengths), not "
                    "before (mask.starts)");
}

static enum qkv_status module_check_length(const struct qkv_module *m, size_t length, bool source) {
    const int context = qkv_module_context(m, source);
    if (length <= (size_t)context) return QKV_OK;
    return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: the length for rotations is %zu, more than the context of %d",
                    qkv_module_kind_text(m->kind), length, context);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static enum qkv_status module_check_types(const struct qkv_module *m, const int32_t *types,
                                          const struct qkv_stack_spec *stack, const char *name) {
    if (!types || (m->kind == QKV_MODULE_MODEL && stack && stack->embed.types))
        return qkv_aligned(m->ctx, name, types, sizeof *types);
    return qkv_fail(m->ctx, QKV_ARGUMENT, "%s module: %s are given, but no embedding here has types (embed.types)",
                    qkv_module_kind_text(m->kind), name);
}

enum qkv_status qkv_module_check(const struct qkv_module *m, const struct qkv_module_input *in,
                                 struct qkv_module_call *c) {
    *c = (struct qkv_module_call){.in = in, .B = in->x.B, .T = in->x.T, .memory_T = in->memory.T};
    const struct qkv_spec *spec = &m->model->spec;
    const struct qkv_stack_spec *stack = qkv_module_stack(m)->spec;
    const size_t width =
        (size_t)(m->kind == QKV_MODULE_MODEL ? qkv_token_width(spec, stack) : qkv_stack_width(spec, stack));
    enum qkv_status status = module_check_input(m, "x", &in->x, width, in->ids, "ids");
    if (!status) status = module_check_types(m, in->types, stack, "types");
    if (!status) status = module_check_types(m, in->source_types, m->model->encoder.spec, "source_types");
    if (!status) status = module_check_cache(m, in);
    if (!status) status = module_check_memory(m, c);
    if (!status) status = module_check_length(m, in->length, false);
    if (!status) status = module_check_length(m, in->source_length, true);
    if (!status && !qkv_module_is_empty(&in->x)) status = module_check_masks(m, c);
    c->empty = qkv_module_is_empty(&in->x) || (qkv_module_reads_memory(m) && !c->memory_T);
    return status;
}
