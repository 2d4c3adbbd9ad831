/* The rows of a tensor of a family, each where the model has it: a tensor is then written row by row, whatever joins it
 * or changes its order, without a copy of all of it. Only a tensor that is transposed is copied. */
#include <assert.h>
#include <stdlib.h>

#include "family/family_gguf.h"

struct qkv_family_place {
    size_t weight, row; /* weight: 1 + its index in the model's list; 0: the row is zeros */
};

/* Rows of ours: a matrix has as many as its first dimension; a vector has one for each number. */
static size_t rows_of_weight(const struct qkv_weight *w) {
    return w->array.shape[0];
}

static size_t columns_of_weight(const struct qkv_weight *w) {
    const size_t rows = rows_of_weight(w);
    return rows ? qkv_array_elements(&w->array) / rows : 0;
}

static const struct qkv_spec *rows_spec(const struct qkv_family_arrays *arrays) {
    return arrays->config->whole ? arrays->config->whole : &arrays->model->spec;
}

/* Notes the places of the rows of one weight. */
static void rows_place(struct qkv_family_rows *rows, size_t weight) {
    const struct qkv_weight *w = &rows->weights[weight];
    struct qkv_family_view view;
    const bool found = qkv_family_view(rows->arrays->config, rows_spec(rows->arrays), w->array.name, rows_of_weight(w),
                                       &view); /* listing has found it */
    assert(found && !(view.flags & QKV_FAMILY_TRANSPOSED));
    rows->plus_one = found && view.flags & QKV_FAMILY_PLUS_ONE;
    for (size_t r = 0; r < rows_of_weight(w); r++) {
        const size_t at = view.slice * view.total + qkv_family_row(&view, r);
        assert(at < rows->count);
        rows->places[at] = (struct qkv_family_place){.weight = weight + 1, .row = r};
    }
}

enum qkv_status qkv_family_rows_begin(const struct qkv_family_arrays *arrays, size_t i, struct qkv_family_rows *rows) {
    const struct qkv_family_array *a = &arrays->list[i];
    const struct qkv_array *array = &a->array;
    const size_t all = qkv_array_elements(array), last = array->rank ? array->shape[array->rank - 1] : 1;
    *rows = (struct qkv_family_rows){
        .arrays = arrays, .array = array, .shows = a->shows, .weights = arrays->model->weights.list};
    if (a->transposed) {
        rows->made = i + 1;
        rows->columns = last;
        rows->count = last ? all / last : 0;
        return qkv_family_array_make(arrays, i);
    }
    rows->columns = a->first ? columns_of_weight(&rows->weights[a->first - 1]) : last;
    rows->count = rows->columns ? all / rows->columns : 0;
    if (!a->first) return QKV_OK;
    rows->places = qkv_allocate(arrays->model->ctx, rows->count + 1, sizeof *rows->places);
    if (!rows->places) return QKV_MEMORY;
    for (size_t at = a->first; at; at = arrays->next[at - 1]) rows_place(rows, at - 1);
    return QKV_OK;
}

const void *qkv_family_rows_at(const struct qkv_family_rows *rows, size_t r, enum qkv_dtype *dtype) {
    const struct qkv_family_place *place = rows->places ? &rows->places[r] : NULL;
    const struct qkv_weight *w = place && place->weight ? &rows->weights[place->weight - 1] : NULL;
    *dtype = place ? QKV_F32 : rows->array->dtype;
    if (!place && !rows->array->data) return NULL;
    if (!place) return (const char *)rows->array->data + qkv_type_span(*dtype, r * rows->columns);
    if (!w) return NULL;
    if (!w->stored) return w->data + place->row * rows->columns;
    *dtype = w->array.dtype;
    return (const char *)w->array.data + qkv_type_span(*dtype, place->row * rows->columns);
}

const struct qkv_weight *qkv_family_rows_weight(const struct qkv_family_rows *rows, size_t r) {
    const size_t weight = rows->places ? rows->places[r].weight : rows->shows;
    return weight ? &rows->weights[weight - 1] : NULL;
}

enum qkv_dtype qkv_family_rows_dtype(const struct qkv_family_rows *rows) {
    enum qkv_dtype first = QKV_F32, dtype;
    for (size_t r = 0; r < rows->count && !rows->plus_one; r++) {
        qkv_family_rows_at(rows, r, &dtype);
        if (!r) first = dtype;
        if (dtype != first) return QKV_F32;
    }
    return first;
}

void qkv_family_rows_free(struct qkv_family_rows *rows) {
    if (rows->made) qkv_family_array_drop(rows->arrays, rows->made - 1);
    free(rows->places);
    *rows = (struct qkv_family_rows){0};
}
