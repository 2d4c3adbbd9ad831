/* The tensors of a family that a model's weights, or their gradients, are. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

struct filled {
    struct qkv_family_array *list;
    size_t count, capacity;
    size_t *slots, mask; /* a hash table of names: 1 + the place in the list, 0 where there is none */
};

/* Twice the room that so many names need. */
static bool slots_make(struct qkv_context *ctx, struct filled *f, size_t names) {
    size_t room = 16;
    while (room / 2 < names) room *= 2;
    f->slots = qkv_allocate(ctx, room, sizeof *f->slots);
    f->mask = room - 1;
    return f->slots != NULL;
}

/* Where a name is, or is to be. */
static size_t *slot_of(const struct filled *f, const char *name) {
    size_t at = (size_t)qkv_hash(QKV_HASH_START, name, strlen(name)) & f->mask;
    while (f->slots[at] && strcmp(f->list[f->slots[at] - 1].array.name, name)) at = (at + 1) & f->mask;
    return &f->slots[at];
}

static struct qkv_family_array *array_find(struct filled *f, const char *name) {
    const size_t place = *slot_of(f, name);
    return place ? &f->list[place - 1] : NULL;
}

/* A new one; `whole`: its numbers are those of a weight as they lie there. */
static struct qkv_family_array *array_add(struct qkv_context *ctx, struct filled *f, const struct qkv_array *theirs,
                                          const struct qkv_array *whole) {
    struct qkv_family_array *grown = qkv_list_room(ctx, f->list, &f->capacity, f->count, 1, sizeof *grown);
    if (grown) f->list = grown;
    char *name = qkv_copy_string(ctx, theirs->name);
    const size_t elements = qkv_array_elements(theirs);
    void *memory = whole ? NULL : qkv_allocate(ctx, elements, sizeof(float));
    if (!grown || !name || (!whole && !memory)) {
        free(name);
        free(memory);
        return NULL;
    }
    struct qkv_family_array *a = &f->list[f->count];
    *a = (struct qkv_family_array){.array = *theirs, .name = name, .memory = memory};
    a->array.name = name;
    a->array.dtype = whole ? whole->dtype : QKV_F32;
    a->array.data = whole ? whole->data : memory;
    a->array.bytes = whole ? whole->bytes : elements * sizeof(float);
    f->count++;
    *slot_of(f, name) = f->count; /* none has it yet: the slot is the free one at the end of its search */
    return a;
}

/* Copies the rows of ours, fp32, to where they stand in theirs. */
static void rows_copy(const struct qkv_family_view *view, const float *ours, size_t rows, size_t columns,
                      float *theirs) {
    const bool turned = view->flags & QKV_FAMILY_TRANSPOSED;
    theirs += view->slice * view->total * columns;
    for (size_t r = 0; r < rows; r++) {
        const size_t at = qkv_family_row(view, r);
        for (size_t c = 0; c < columns; c++)
            theirs[turned ? c * view->total + at : at * columns + c] += ours[r * columns + c]; /* gradients of uses */
    }
}

/* What the family has of the model. */
static const struct qkv_spec *spec_of(const struct qkv_model *model, const struct qkv_family_config *config) {
    return config->whole ? config->whole : &model->spec;
}

static enum qkv_status array_fill(struct qkv_model *model, const struct qkv_family_config *config, size_t i,
                                  bool gradients, struct filled *f) {
    const struct qkv_weight *weight = &model->weights.list[i];
    const struct qkv_spec *spec = spec_of(model, config);
    const struct qkv_array *ours = &weight->array;
    const size_t rows = ours->shape[0], elements = qkv_array_elements(ours);
    struct qkv_family_view view;
    struct qkv_array theirs;
    /* it does not learn, or not by a gradient */
    if (gradients && (!weight->gradient || weight->role == QKV_ROLE_CORRECTION)) return QKV_OK;
    if (!qkv_family_view(config, spec, ours->name, rows, &view))
        return qkv_fail(model->ctx, QKV_SPEC, "models of type %s have no weight that %s could be", config->family->type,
                        ours->name);
    qkv_family_shape(&view, ours, spec, &theirs);
    const bool whole = !gradients && view.parts == 1 && !(view.flags & (QKV_FAMILY_TRANSPOSED | QKV_FAMILY_STACKED));
    struct qkv_family_array *to = array_find(f, view.name);
    if (to && whole && (to->array.bytes != ours->bytes || memcmp(to->array.data, ours->data, ours->bytes) != 0))
        return qkv_fail(model->ctx, QKV_SPEC,
                        "%s is to be %s, as another weight is, but their numbers differ: such models share it",
                        ours->name, view.name);
    if (!to && !(to = array_add(model->ctx, f, &theirs, whole ? ours : NULL))) return QKV_MEMORY;
    if (whole) return QKV_OK;
    float *floats = NULL;
    if (!gradients && weight->stored) {
        if (!(floats = qkv_allocate(model->ctx, elements, sizeof *floats))) return QKV_MEMORY;
        qkv_array_floats(ours, floats);
    }
    rows_copy(&view, floats ? floats : gradients ? weight->gradient : weight->data, rows, elements / rows, to->memory);
    free(floats);
    return QKV_OK;
}

static const struct qkv_weight *weight_named(const struct qkv_weights *weights, const char *name) {
    for (size_t i = 0; i < weights->count; i++)
        if (!strcmp(weights->list[i].array.name, name)) return &weights->list[i];
    return NULL;
}

/* The table that a head shares. */
static const struct qkv_weight *table_of_head(const struct qkv_model *model) {
    static const char *const names[] = {"decoder.embed.token.weight", "encoder.embed.token.weight",
                                        "embed.token.weight"};
    const struct qkv_weight *table = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !table; i++) table = weight_named(&model->weights, names[i]);
    return table;
}

/* A weight that the family has and the model has not: a head is a copy of the table that it shares, anything else is zeros. */
static enum qkv_status array_invent(struct qkv_model *model, const struct qkv_family_config *config,
                                    const struct qkv_array *ours, struct filled *f) {
    const struct qkv_weight *table = strcmp(ours->name, "head.weight") ? NULL : table_of_head(model);
    struct qkv_family_view view;
    struct qkv_array theirs;
    if (!qkv_family_view(config, config->whole, ours->name, ours->shape[0], &view))
        return qkv_fail(model->ctx, QKV_SPEC, "models of type %s have no weight that %s could be", config->family->type,
                        ours->name);
    if (array_find(f, view.name)) return QKV_OK; /* zeros beside other parts */
    qkv_family_shape(&view, ours, config->whole, &theirs);
    return array_add(model->ctx, f, &theirs, table ? &table->array : NULL) ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status arrays_invent(struct qkv_model *model, const struct qkv_family_config *config,
                                     struct filled *f) {
    struct qkv_model *whole;
    enum qkv_status status = qkv_model_allocate(model->ctx, config->whole, true, NULL, &whole);
    if (status) return status;
    for (size_t i = 0; i < whole->weights.count && !status; i++) {
        const struct qkv_array *ours = &whole->weights.list[i].array;
        if (!weight_named(&model->weights, ours->name)) status = array_invent(model, config, ours, f);
    }
    qkv_model_free(whole);
    return status;
}

/* Sinusoids are no weight with us; a family may have them as a tensor that does not learn. */
static enum qkv_status array_sinusoids(struct qkv_model *model, const struct qkv_stack *stack, const char *of,
                                       const struct qkv_family_config *config, struct filled *f) {
    if (!stack->spec || stack->spec->embed.position.kind != QKV_POSITION_SINUSOIDAL) return QKV_OK;
    struct qkv_array ours = {.dtype = QKV_F32, .rank = 2, .data = stack->embed.embed}, theirs;
    struct qkv_family_view view;
    char name[48];
    ours.shape[0] = (size_t)qkv_stack_context(&model->spec, stack->spec);
    ours.shape[1] = (size_t)qkv_spec_width(&model->spec);
    ours.bytes = ours.shape[0] * ours.shape[1] * sizeof(float);
    snprintf(name, sizeof name, "%s.embed.position.weight", of);
    if (!qkv_family_view(config, spec_of(model, config), name, ours.shape[0], &view)) return QKV_OK;
    qkv_family_shape(&view, &ours, spec_of(model, config), &theirs);
    return array_add(model->ctx, f, &theirs, &ours) ? QKV_OK : QKV_MEMORY;
}

void qkv_family_arrays_free(struct qkv_family_array *arrays, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(arrays[i].name);
        free(arrays[i].memory);
    }
    free(arrays);
}

enum qkv_status qkv_family_arrays(struct qkv_model *model, const struct qkv_family_config *config, bool gradients,
                                  struct qkv_family_array **arrays, size_t *count) {
    struct filled f = {0};
    enum qkv_status status = gradients ? qkv_model_check_file(model) : qkv_model_check_whole(model);
    /* a weight may have a bias that is invented; a head, a table and two tables of positions come besides */
    if (!status && !slots_make(model->ctx, &f, 2 * model->weights.count + 8)) status = QKV_MEMORY;
    for (size_t i = 0; i < model->weights.count && !status; i++) status = array_fill(model, config, i, gradients, &f);
    if (!status && !gradients) status = array_sinusoids(model, &model->encoder, "encoder", config, &f);
    if (!status && !gradients) status = array_sinusoids(model, &model->decoder, "decoder", config, &f);
    if (!status && !gradients && config->whole) status = arrays_invent(model, config, &f);
    free(f.slots);
    *arrays = f.list;
    *count = f.count;
    if (!status) return QKV_OK;
    qkv_family_arrays_free(f.list, f.count);
    *arrays = NULL;
    return status;
}
