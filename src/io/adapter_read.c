/* adapter_read: adapters read from files: the folders of PEFT and of qkv, which are the same, and GGUF files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/adapter_reading.h"
#include "io/safetensors.h"

enum { PREFIX_MOST = 64 };

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The tensor of a module, its a or its b; NULL: the file has none. */
static const struct qkv_array *tensor_find(const struct qkv_adapter_reading *r, const char *module, bool up) {
    char name[QKV_FAMILY_NAME + PREFIX_MOST];
    if (r->keys)
        snprintf(name, sizeof name, "%s.weight.lora_%c", module, up ? 'b' : 'a');
    else
        snprintf(name, sizeof name, "base_model.model.%s.lora_%c.weight", module, up ? 'B' : 'A');
    return qkv_tensors_find(r->file, name);
}

/* A name that the family's module has in files: its own (i 0), or another one. */
static bool tensor_module(const struct qkv_adapter_reading *r, const struct qkv_adapter_module *module, size_t i,
                          char name[QKV_FAMILY_NAME]) {
    char other[QKV_FAMILY_NAME];
    if (i == 0) {
        memcpy(name, module->name, QKV_FAMILY_NAME);
        return true;
    }
    if (!module->published || !qkv_family_name(r->names, module->view.name, i - 1, other)) return false;
    qkv_adapter_module_name(other, name);
    return true;
}

static enum qkv_status tensor_shape(const struct qkv_adapter_reading *r, const struct qkv_array *x, size_t rows,
                                    size_t columns) {
    if (!qkv_type_is_real(x->dtype))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s is of type %s; adapters have real numbers", r->weights, x->name,
                        qkv_types[x->dtype]->name);
    if (x->rank == 2 && x->shape[0] == rows && x->shape[1] == columns) return QKV_OK;
    char have[QKV_SHAPE_TEXT];
    return qkv_fail(r->ctx, QKV_SHAPE,
                    "%s: %s is %s, but this model and its rank need (%zu, %zu): it is for another model", r->weights,
                    x->name, qkv_shape_text(x->shape, x->rank, have), rows, columns);
}

/* One adapted weight. */
static enum qkv_status tensor_take(struct qkv_adapter_reading *r, size_t weight, const char *module, size_t rows,
                                   const struct qkv_array *a, const struct qkv_array *b) {
    const struct qkv_weight *w = &r->model->weights.list[weight];
    size_t rank;
    double scale;
    if (!a || !b)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s has lora_%s of %s, but not lora_%s; restore the file", r->weights,
                        a ? "A" : "B", module, a ? "B" : "A");
    if (!qkv_adapter_fits(w))
        return qkv_fail(r->ctx, QKV_SPEC,
                        "%s has an adapter of %s, here %s; only matrices of attention and feed-forward layers can have "
                        "one",
                        r->weights, module, w->array.name);
    enum qkv_status status =
        r->keys ? qkv_adapter_gguf_size(r, a, &rank, &scale) : qkv_adapter_config_size(r, module, &rank, &scale);
    if (status) return status;
    status = tensor_shape(r, a, rank, w->columns);
    if (!status) status = tensor_shape(r, b, rows, rank);
    r->adapted[r->count] = (struct qkv_adapted){weight, rank, (float)scale};
    r->a[r->count] = a;
    r->b[r->count++] = b;
    return status;
}

static enum qkv_status tensors_match(struct qkv_adapter_reading *r) {
    const struct qkv_weights *w = &r->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        const struct qkv_weight *weight = &w->list[i];
        struct qkv_adapter_module module;
        char name[QKV_FAMILY_NAME];
        if (weight->bias || weight->array.rank != 2) continue;
        qkv_adapter_module_in(r->names, r->model, weight, &module);
        for (size_t k = 0; tensor_module(r, &module, k, name); k++) {
            const struct qkv_array *a = tensor_find(r, name, false), *b = tensor_find(r, name, true);
            if (!a && !b) continue;
            status = tensor_take(r, i, name, module.published ? module.view.total : weight->rows, a, b);
            break;
        }
    }
    return status;
}

/* Every tensor of the file belongs to an adapted weight. */
static enum qkv_status tensors_left(const struct qkv_adapter_reading *r) {
    for (size_t i = 0; i < qkv_tensors_count(r->file); i++) {
        const struct qkv_array *x = qkv_tensors_at(r->file, i);
        bool used = false;
        for (size_t k = 0; k < r->count && !used; k++) used = r->a[k] == x || r->b[k] == x;
        if (!used)
            return qkv_fail(r->ctx, QKV_SPEC,
                            "%s has %.160s, and the model has no weight for it: it is for another model", r->weights,
                            x->name);
    }
    if (r->count) return QKV_OK;
    return qkv_fail(r->ctx, QKV_FORMAT, "%s has no tensors; restore the file", r->weights);
}

static enum qkv_status tensors_check_base(const struct qkv_adapter_reading *r) {
    const char *theirs = qkv_tensors_metadata(r->file, QKV_ADAPTER_BASE_KEY);
    const char *from = json_string_value(json_object_get(r->root, "base_model_name_or_path"));
    char ours[QKV_ADAPTER_BASE_TEXT];
    if (!theirs || r->ctx->ignore_digest || r->model->planned) return QKV_OK;
    qkv_adapter_base(r->model, ours);
    if (!strcmp(theirs, ours)) return QKV_OK;
    return qkv_fail(r->ctx, QKV_SPEC,
                    "%s was trained for another model, %.200s (digest %.16s, not %s); use it with that one, or all the "
                    "same with option ignore_digest",
                    r->weights, from ? from : "whose path is not known", theirs, ours);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static enum qkv_status numbers_check(const struct qkv_adapter_reading *r, const struct qkv_array *x,
                                     const float *numbers) {
    for (size_t i = 0; i < qkv_array_elements(x); i++)
        if (!isfinite(numbers[i]))
            return qkv_fail(r->ctx, QKV_NUMBER, "%s: %s holds numbers that are not finite; restore the file",
                            r->weights, x->name);
    return QKV_OK;
}

static enum qkv_status numbers_read(const struct qkv_adapter_reading *r, size_t i) {
    const struct qkv_model_adapter *adapter = qkv_model_newest_adapter(r->model);
    const struct qkv_adapter_part *part = &adapter->parts[i];
    const size_t rank = part->b.columns;
    float *b = qkv_allocate(r->ctx, qkv_array_elements(r->b[i]), sizeof *b);
    enum qkv_status status = b ? qkv_tensors_floats(r->file, r->a[i], part->a.data) : QKV_MEMORY;
    struct qkv_adapter_module module;
    qkv_adapter_module_in(r->names, r->model, &qkv_model_base(r->model)->list[adapter->adapted[i].weight], &module);
    if (!status) status = numbers_check(r, r->a[i], part->a.data);
    if (!status) status = qkv_tensors_floats(r->file, r->b[i], b);
    if (!status) status = numbers_check(r, r->b[i], b);
    for (size_t k = 0; k < part->b.rows && !status; k++) {
        const size_t row = module.published ? qkv_family_row(&module.view, k) : k;
        memcpy((float *)part->b.data + k * rank, b + row * rank, rank * sizeof *b);
    }
    free(b);
    return status;
}

static enum qkv_status reading_run(struct qkv_adapter_reading *r) {
    struct qkv_model *m = r->model;
    const size_t most = m->weights.count + 1;
    r->adapted = qkv_allocate(r->ctx, most, sizeof *r->adapted);
    r->a = qkv_allocate(r->ctx, most, sizeof *r->a);
    r->b = qkv_allocate(r->ctx, most, sizeof *r->b);
    const bool folder = !qkv_gguf_is(r->weights ? r->weights : "");
    if (!r->path || !r->weights || !r->adapted || !r->a || !r->b) return QKV_MEMORY;
    r->names = folder ? m->origin.family : NULL;
    enum qkv_status status = folder ? qkv_adapter_config_read(r) : qkv_adapter_gguf_read(r);
    if (!status && folder) status = qkv_tensors_open(r->ctx, r->weights, &r->file);
    if (!status) status = tensors_match(r);
    if (!status) status = tensors_left(r);
    if (!status) status = tensors_check_base(r);
    if (!status) status = qkv_model_adapt(m, r->name, r->adapted, r->count, &r->settings, 0);
    if (status) return status;
    if (!r->name)
        status = qkv_adapter_set_base(m, json_string_value(json_object_get(r->root, "base_model_name_or_path")));
    for (size_t i = 0; i < r->count && !status && !m->planned; i++) status = numbers_read(r, i);
    if (status) qkv_model_drop_adapter(m);
    return status;
}

enum qkv_status qkv_adapter_read(struct qkv_model *m, const char *name, const char *path) {
    const bool folder = !qkv_gguf_is(path);
    struct qkv_adapter_reading r = {.ctx = m->ctx, .model = m, .name = name};
    enum qkv_status status = name && !m->adapter ? QKV_OK : qkv_model_check_plain(m, "it gets another one");
    if (!status && name) status = qkv_adapter_check_name(m->ctx, name);
    if (status) return status;
    r.path = folder ? qkv_join_path(m->ctx, path, QKV_ADAPTER_CONFIG_FILE) : qkv_copy_string(m->ctx, path);
    r.weights = folder ? qkv_join_path(m->ctx, path, QKV_ADAPTER_WEIGHTS_FILE) : qkv_copy_string(m->ctx, path);
    status = reading_run(&r);
    free(r.path);
    free(r.weights);
    free(r.adapted);
    free(r.a);
    free(r.b);
    json_decref(r.root);
    qkv_family_config_free(&r.made);
    qkv_gguf_free(r.keys);
    qkv_tensors_close(r.file);
    return status;
}

enum qkv_status qkv_adapter_load(struct qkv_model *model, const char *path) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, path);
    const enum qkv_status status = qkv_model_check_alive(model);
    return status ? status : qkv_adapter_read(model, NULL, path);
}

enum qkv_status qkv_adapter_add(struct qkv_model *model, const char *name, const char *path) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, name);
    QKV_NEED(qkv_call, path);
    const enum qkv_status status = qkv_model_check_alive(model);
    return status ? status : qkv_adapter_read(model, name, path);
}
