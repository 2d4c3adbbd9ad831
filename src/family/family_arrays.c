/* The tensors of a family that a model's weights, or their gradients, become. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

/* The state while arrays are listed. */
struct filled {
    struct qkv_family_arrays *to;
    size_t *slots, mask; /* a hash table by name: 1 + the index in the list, 0: free */
    size_t *last;        /* for each array, 1 + the index of its last weight */
};

/* Takes a hash table with at least twice as many entries as names. */
static bool slots_make(struct qkv_context *ctx, struct filled *f, size_t names) {
    size_t room = 16;
    while (room / 2 < names) room *= 2;
    f->slots = qkv_allocate(ctx, room, sizeof *f->slots);
    f->last = qkv_allocate(ctx, names, sizeof *f->last);
    f->mask = room - 1;
    return f->slots && f->last;
}

/* The entry of a name, or the free one where it belongs. */
static size_t *slot_of(const struct filled *f, const char *name) {
    size_t at = (size_t)qkv_hash(QKV_HASH_START, name, strlen(name)) & f->mask;
    while (f->slots[at] && strcmp(f->to->list[f->slots[at] - 1].array.name, name)) at = (at + 1) & f->mask;
    return &f->slots[at];
}

static struct qkv_family_array *array_find(const struct filled *f, const char *name) {
    const size_t place = *slot_of(f, name);
    return place ? &f->to->list[place - 1] : NULL;
}

/* Adds an array; `whole`: it shows the numbers of a weight as they are. */
static struct qkv_family_array *array_add(struct filled *f, const struct qkv_array *theirs,
                                          const struct qkv_array *whole) {
    struct qkv_context *ctx = f->to->model->ctx;
    struct qkv_family_array *grown = qkv_list_room(ctx, f->to->list, &f->to->capacity, f->to->count, 1, sizeof *grown);
    if (grown) f->to->list = grown;
    char *name = qkv_copy_string(ctx, theirs->name);
    if (!grown || !name) {
        free(name);
        return NULL;
    }
    struct qkv_family_array *a = &f->to->list[f->to->count];
    *a = (struct qkv_family_array){.array = *theirs, .name = name};
    a->array.name = name;
    a->array.dtype = whole ? whole->dtype : QKV_F32;
    a->array.data = whole ? whole->data : NULL;
    a->array.bytes = whole ? whole->bytes : qkv_array_elements(theirs) * sizeof(float);
    f->to->count++;
    *slot_of(f, name) = f->to->count; /* the name is new, so the search has ended at a free entry */
    return a;
}

/* Appends a weight to those that an array is made of. */
static void array_weight(struct filled *f, struct qkv_family_array *a, size_t weight) {
    size_t *last = &f->last[a - f->to->list];
    *(a->first ? &f->to->next[*last - 1] : &a->first) = weight + 1;
    *last = weight + 1;
}

/* Copies fp32 rows of ours to their places in theirs. */
static void rows_copy(const struct qkv_family_view *view, const float *ours, size_t rows, size_t columns,
                      float *theirs) {
    for (size_t r = 0; r < rows; r++) {
        const struct qkv_family_line line = qkv_family_line(view, r, columns);
        for (size_t c = 0; c < columns; c++) /* sums of several uses */
            theirs[line.first + c * line.step] += ours[r * columns + c];
    }
}

/* The spec of the family's model. */
static const struct qkv_spec *spec_of(const struct qkv_family_arrays *arrays) {
    return arrays->config->whole ? arrays->config->whole : &arrays->model->spec;
}

/* Lists the rows of a weight that are tensors of their own; ours: its numbers. */
static enum qkv_status array_list_rows(struct filled *f, size_t i, const struct qkv_family_view *view,
                                       struct qkv_array theirs, const float *ours) {
    char name[QKV_FAMILY_NAME];
    for (size_t r = 0; r < view->rows; r++) {
        struct qkv_array row = theirs;
        row.data = ours ? ours + r * theirs.shape[0] : NULL;
        row.bytes = theirs.shape[0] * sizeof *ours;
        qkv_family_row_name(view, r, name);
        theirs.name = name;
        struct qkv_family_array *a = array_add(f, &theirs, &row);
        if (!a) return QKV_MEMORY;
        a->shows = i + 1;
    }
    return QKV_OK;
}

static enum qkv_status array_list(struct filled *f, size_t i) {
    const struct qkv_family_arrays *to = f->to;
    const struct qkv_weight *weight = &to->model->weights.list[i];
    const struct qkv_array *ours = &weight->array;
    struct qkv_family_view view;
    struct qkv_array theirs;
    /* frozen, or trained without a gradient */
    if (to->gradients && (!weight->gradient || weight->role == QKV_ROLE_CORRECTION)) return QKV_OK;
    if (!qkv_family_view(to->config, spec_of(to), ours->name, ours->shape[0], &view))
        return qkv_fail(to->model->ctx, QKV_SPEC, "models of type %s have no weight for %s", to->config->family->type,
                        ours->name);
    qkv_family_shape(&view, ours, spec_of(to), &theirs);
    if (view.flags & QKV_FAMILY_APART)
        return array_list_rows(f, i, &view, theirs, to->gradients ? weight->gradient : weight->data);
    const unsigned other = QKV_FAMILY_TRANSPOSED | QKV_FAMILY_STACKED | QKV_FAMILY_PLUS_ONE;
    const bool whole = !to->gradients && view.parts == 1 && view.order != QKV_FAMILY_PAIRS && !(view.flags & other);
    struct qkv_family_array *a = array_find(f, view.name);
    if (a && (whole || !a->first) &&
        (!whole || a->first || a->array.bytes != ours->bytes || memcmp(a->array.data, ours->data, ours->bytes) != 0))
        return qkv_fail(to->model->ctx, QKV_SPEC,
                        "%s and another weight would both be %s, which such models share, but their numbers differ",
                        ours->name, view.name);
    if (!a && !(a = array_add(f, &theirs, whole ? ours : NULL))) return QKV_MEMORY;
    a->transposed = view.flags & QKV_FAMILY_TRANSPOSED;
    if (!whole)
        array_weight(f, a, i);
    else if (!a->shows)
        a->shows = i + 1;
    return QKV_OK;
}

static const struct qkv_weight *weight_named(const struct qkv_weights *weights, const char *name) {
    for (size_t i = 0; i < weights->count; i++)
        if (!strcmp(weights->list[i].array.name, name)) return &weights->list[i];
    return NULL;
}

/* The table that the head is tied to. */
static const struct qkv_weight *table_of_head(const struct qkv_model *model) {
    static const char *const names[] = {"decoder.embed.token.weight", "encoder.embed.token.weight",
                                        "embed.token.weight"};
    const struct qkv_weight *table = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !table; i++) table = weight_named(&model->weights, names[i]);
    return table;
}

/* Adds a weight that the family's model has and ours does not: a head is a copy of the table that it is tied to, any
 * other weight is zeros. */
static enum qkv_status array_invent(struct filled *f, const struct qkv_array *ours) {
    const struct qkv_family_config *config = f->to->config;
    const struct qkv_weight *table = strcmp(ours->name, "head.weight") ? NULL : table_of_head(f->to->model);
    struct qkv_family_view view;
    struct qkv_array theirs;
    if (!qkv_family_view(config, config->whole, ours->name, ours->shape[0], &view))
        return qkv_fail(f->to->model->ctx, QKV_SPEC, "models of type %s have no weight for %s", config->family->type,
                        ours->name);
    if (array_find(f, view.name)) return QKV_OK; /* a zeroed part of an array that exists */
    qkv_family_shape(&view, ours, config->whole, &theirs);
    return array_add(f, &theirs, table ? &table->array : NULL) ? QKV_OK : QKV_MEMORY;
}

static enum qkv_status arrays_invent(struct filled *f) {
    const struct qkv_model *model = f->to->model;
    struct qkv_model *whole;
    enum qkv_status status = qkv_model_list(model->ctx, f->to->config->whole, &whole);
    if (status) return status;
    for (size_t i = 0; i < whole->weights.count && !status; i++) {
        const struct qkv_array *ours = &whole->weights.list[i].array;
        if (!weight_named(&model->weights, ours->name)) status = array_invent(f, ours);
    }
    qkv_model_free(whole);
    return status;
}

/* Adds the numbers of a weight to the array that it is a part of. */
static enum qkv_status weight_add(const struct qkv_family_arrays *arrays, size_t i, float *theirs) {
    const struct qkv_weight *weight = &arrays->model->weights.list[i];
    const struct qkv_array *ours = &weight->array;
    const size_t rows = ours->shape[0], elements = qkv_array_elements(ours);
    struct qkv_family_view view;
    float *floats = NULL;
    qkv_family_view(arrays->config, spec_of(arrays), ours->name, rows, &view); /* cannot fail: listing has found it */
    if (!arrays->gradients && weight->stored) {
        if (!(floats = qkv_allocate(arrays->model->ctx, elements, sizeof *floats))) return QKV_MEMORY;
        qkv_array_floats(ours, floats);
    }
    rows_copy(&view,
              floats              ? floats
              : arrays->gradients ? weight->gradient
                                  : weight->data,
              rows, elements / rows, theirs);
    free(floats);
    return QKV_OK;
}

enum qkv_status qkv_family_array_make(const struct qkv_family_arrays *arrays, size_t i) {
    struct qkv_family_array *a = &arrays->list[i];
    enum qkv_status status = QKV_OK;
    if (a->array.data) return QKV_OK;
    a->memory = qkv_allocate(arrays->model->ctx, qkv_array_elements(&a->array), sizeof(float));
    if (!a->memory) return QKV_MEMORY;
    for (size_t at = a->first; at && !status; at = arrays->next[at - 1]) status = weight_add(arrays, at - 1, a->memory);
    a->array.data = a->memory;
    if (status) qkv_family_array_drop(arrays, i);
    return status;
}

void qkv_family_array_drop(const struct qkv_family_arrays *arrays, size_t i) {
    struct qkv_family_array *a = &arrays->list[i];
    if (!a->memory) return;
    free(a->memory);
    a->memory = NULL;
    a->array.data = NULL;
}

/* Adds sinusoids, which are not a weight in our models; a family may store them in a tensor that is not trained. */
static enum qkv_status array_sinusoids(struct filled *f, const struct qkv_stack *stack, const char *of) {
    const struct qkv_spec *spec = &f->to->model->spec;
    if (!stack->spec || stack->spec->embed.position.kind != QKV_POSITION_SINUSOIDAL) return QKV_OK;
    struct qkv_array ours = {.dtype = QKV_F32, .rank = 2, .data = stack->embed.embed}, theirs;
    struct qkv_family_view view;
    char name[48];
    ours.shape[0] = (size_t)qkv_stack_context(spec, stack->spec);
    ours.shape[1] = (size_t)qkv_spec_width(spec);
    ours.bytes = ours.shape[0] * ours.shape[1] * sizeof(float);
    snprintf(name, sizeof name, "%s.embed.position.weight", of);
    if (!qkv_family_view(f->to->config, spec_of(f->to), name, ours.shape[0], &view)) return QKV_OK;
    qkv_family_shape(&view, &ours, spec_of(f->to), &theirs);
    return array_add(f, &theirs, &ours) ? QKV_OK : QKV_MEMORY;
}

void qkv_family_arrays_free(struct qkv_family_arrays *arrays) {
    for (size_t i = 0; i < arrays->count; i++) {
        free(arrays->list[i].name);
        free(arrays->list[i].memory);
    }
    free(arrays->list);
    free(arrays->next);
    *arrays = (struct qkv_family_arrays){0};
}

/* The maximum number of arrays: each row of norms of heads may be one; there is at most one invented bias per weight,
 * and a head, a table and two tables of positions. */
static size_t arrays_max(const struct qkv_weights *weights) {
    size_t count = 2 * weights->count + 8;
    for (size_t i = 0; i < weights->count; i++) {
        const struct qkv_weight *w = &weights->list[i];
        if (w->role == QKV_ROLE_ATTN_Q_NORM || w->role == QKV_ROLE_ATTN_K_NORM) count += w->rows;
    }
    return count;
}

enum qkv_status qkv_family_arrays(struct qkv_model *model, const struct qkv_family_config *config, bool gradients,
                                  struct qkv_family_arrays *out) {
    *out = (struct qkv_family_arrays){.model = model, .config = config, .gradients = gradients};
    struct filled f = {.to = out};
    enum qkv_status status = gradients ? qkv_model_check_file(model) : qkv_model_check_whole(model);
    if (!status && !slots_make(model->ctx, &f, arrays_max(&model->weights))) status = QKV_MEMORY;
    if (!status) out->next = qkv_allocate(model->ctx, model->weights.count, sizeof *out->next);
    if (!status && !out->next) status = QKV_MEMORY;
    for (size_t i = 0; i < model->weights.count && !status; i++) status = array_list(&f, i);
    if (!status && !gradients) status = array_sinusoids(&f, &model->encoder, "encoder");
    if (!status && !gradients) status = array_sinusoids(&f, &model->decoder, "decoder");
    if (!status && !gradients && config->whole) status = arrays_invent(&f);
    free(f.slots);
    free(f.last);
    return status;
}

enum qkv_status qkv_family_arrays_own(struct qkv_model *model, const struct qkv_family_config *config,
                                      struct qkv_family_arrays *out) {
    *out = (struct qkv_family_arrays){.model = model, .config = config};
    struct filled f = {.to = out};
    enum qkv_status status = qkv_model_check_whole(model);
    if (!status && !slots_make(model->ctx, &f, model->weights.count + 1)) status = QKV_MEMORY;
    for (size_t i = 0; i < model->weights.count && !status; i++) {
        const struct qkv_array *ours = &model->weights.list[i].array;
        struct qkv_family_array *a = array_add(&f, ours, ours);
        if (a)
            a->shows = i + 1;
        else
            status = QKV_MEMORY;
    }
    free(f.slots);
    free(f.last);
    return status;
}

size_t qkv_family_array_weight(const struct qkv_family_arrays *arrays, size_t i, size_t at) {
    const struct qkv_family_array *a = &arrays->list[i];
    if (!a->first) return at ? 0 : a->shows;
    return at ? arrays->next[at - 1] : a->first;
}
