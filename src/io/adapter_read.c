/* adapter_read: adapters read from files: the folders of PEFT and of qkv, which are the same, and GGUF files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/adapter_stacked.h"
#include "io/safetensors.h"

enum { PREFIX_MOST = 64 };
#define GGUF_EXPERTS "_exps." /* in names of tensors of all experts */

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The tensors of a module. */
enum tensor_kind { TENSOR_A, TENSOR_B, TENSOR_MAGNITUDES };
static const struct {
    const char *folder, *gguf; /* names of files, after that of the module; NULL: GGUF files have no such tensor */
} tensor_ends[] = {[TENSOR_A] = {QKV_ADAPTER_A, "weight.lora_a"},
                   [TENSOR_B] = {QKV_ADAPTER_B, "weight.lora_b"},
                   [TENSOR_MAGNITUDES] = {QKV_ADAPTER_MAGNITUDES, NULL}};

/* A tensor of a module; NULL: the file has none. */
static const struct qkv_array *tensor_find(const struct qkv_adapter_reading *r, const char *module,
                                           enum tensor_kind kind) {
    char name[QKV_FAMILY_NAME + PREFIX_MOST];
    if (r->keys && !tensor_ends[kind].gguf) return NULL;
    snprintf(name, sizeof name, "%s%s.%s", r->keys ? "" : QKV_ADAPTER_PREFIX, module,
             r->keys ? tensor_ends[kind].gguf : tensor_ends[kind].folder);
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

/* Finds a and b of a module; module becomes the name that has them, if it is a newer one. */
static bool tensor_pair(const struct qkv_adapter_reading *r, char module[QKV_FAMILY_NAME], const struct qkv_array **a,
                        const struct qkv_array **b) {
    char newer[QKV_FAMILY_NAME];
    *a = tensor_find(r, module, TENSOR_A);
    *b = tensor_find(r, module, TENSOR_B);
    if (*a || *b) return true;
    if (r->keys || !qkv_adapter_newer_name(module, newer)) return false;
    *a = tensor_find(r, newer, TENSOR_A);
    *b = tensor_find(r, newer, TENSOR_B);
    if (*a || *b) memcpy(module, newer, QKV_FAMILY_NAME);
    return *a || *b;
}

/* columns 0: a vector. */
static enum qkv_status tensor_shape(const struct qkv_adapter_reading *r, const struct qkv_array *x, size_t rows,
                                    size_t columns) {
    const int rank = columns ? 2 : 1;
    if (!qkv_type_is_real(x->dtype))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s is of type %s; adapters have real numbers", r->weights, x->name,
                        qkv_types[x->dtype]->name);
    if (x->rank == rank && x->shape[0] == rows && (rank == 1 || x->shape[1] == columns)) return QKV_OK;
    char have[QKV_SHAPE_TEXT], need[QKV_SHAPE_TEXT];
    return qkv_fail(r->ctx, QKV_SHAPE, "%s: %s is %s, but this model and its rank need %s: it is for another model",
                    r->weights, x->name, qkv_shape_text(x->shape, x->rank, have),
                    qkv_shape_text((const size_t[]){rows, columns}, rank, need));
}

/* Adds a weight to the adapted ones before it, if one module of the model's family has both, and the file has one
 * adapter for them. */
static bool tensor_join(struct qkv_adapter_reading *r, size_t weight, const struct qkv_array *a,
                        const struct qkv_array *b) {
    struct qkv_adapted *last = r->count ? &r->adapted[r->count - 1] : NULL;
    if (!last || r->a[r->count - 1] != a || r->b[r->count - 1] != b || last->weight + last->count != weight)
        return false;
    if (!qkv_adapter_joins(r->model, &r->model->weights.list[last->weight], &r->model->weights.list[weight]))
        return false;
    last->count++;
    return true;
}

/* Patterns of a router that PEFT has as a parameter name the parameter, not its module. */
static enum qkv_status tensor_config_size(const struct qkv_adapter_reading *r, const char *module, size_t *rank,
                                          double *scale) {
    char parameter[QKV_FAMILY_NAME + 16];
    snprintf(parameter, sizeof parameter, "%s.weight", module);
    const bool is = qkv_adapter_config_lists(r, "target_parameters", parameter);
    return qkv_adapter_config_size(r, is ? parameter : module, rank, scale);
}

/* One adapted weight. */
static enum qkv_status tensor_take(struct qkv_adapter_reading *r, size_t weight, const char *module, size_t rows,
                                   const struct qkv_array *a, const struct qkv_array *b) {
    const struct qkv_weight *w = &r->model->weights.list[weight];
    const struct qkv_array *m = tensor_find(r, module, TENSOR_MAGNITUDES);
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
    if (r->settings.dora && !m)
        return qkv_fail(r->ctx, QKV_FORMAT,
                        "%s has no %s of %s, which an adapter with use_dora needs; restore the file", r->weights,
                        QKV_ADAPTER_MAGNITUDES, module);
    if (tensor_join(r, weight, a, b)) return QKV_OK;
    enum qkv_status status =
        r->keys ? qkv_adapter_gguf_size(r, a, &rank, &scale) : tensor_config_size(r, module, &rank, &scale);
    if (status) return status;
    status = tensor_shape(r, a, rank, w->columns);
    if (!status) status = tensor_shape(r, b, rows, rank);
    if (!status && r->settings.dora) status = tensor_shape(r, m, rows, 0);
    r->adapted[r->count] = (struct qkv_adapted){weight, 1, rank, (float)scale};
    r->a[r->count] = a;
    r->m[r->count] = r->settings.dora ? m : NULL;
    r->b[r->count++] = b;
    return status;
}

/* One adapted weight, of an expert whose adapter is in a tensor with those of others; QKV_OK if there is none. */
static enum qkv_status tensor_take_stacked(struct qkv_adapter_reading *r, size_t weight,
                                           const struct qkv_adapter_module *module) {
    const struct qkv_weight *list = r->model->weights.list;
    struct qkv_adapted *last = r->count ? &r->adapted[r->count - 1] : NULL;
    struct qkv_adapter_stacked found;
    size_t rank;
    double scale;
    enum qkv_status status = qkv_adapter_stacked_find(r, &list[weight], module, &found);
    if (status || !found.a) return status;
    if (last && r->b[r->count - 1] == found.b && list[last->weight].part_of == list[weight].part_of) {
        last->count++; /* gate and up have one adapter */
        return QKV_OK;
    }
    status = qkv_adapter_config_size(r, found.name, &rank, &scale);
    if (!status) status = qkv_adapter_stacked_check(r, &found, rank);
    r->adapted[r->count] = (struct qkv_adapted){weight, 1, rank, (float)scale};
    r->a[r->count] = found.a;
    r->b[r->count] = found.b;
    r->experts[r->count++] = found.experts;
    return status;
}

static enum qkv_status tensors_match(struct qkv_adapter_reading *r) {
    const struct qkv_weights *w = &r->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        const struct qkv_weight *weight = &w->list[i];
        const struct qkv_array *a, *b;
        struct qkv_adapter_module module;
        char name[QKV_FAMILY_NAME];
        if (weight->bias || weight->array.rank != 2) continue;
        qkv_adapter_module_in(r->names, r->model, weight, &module);
        bool found = false;
        for (size_t k = 0; !found && tensor_module(r, &module, k, name); k++) found = tensor_pair(r, name, &a, &b);
        if (found && !(module.published && module.view.flags & QKV_FAMILY_STACKED))
            status = tensor_take(r, i, name, module.published ? module.view.total : weight->rows, a, b);
        else
            status = tensor_take_stacked(r, i, &module);
    }
    return status;
}

/* Every tensor of the file belongs to an adapted weight. */
static enum qkv_status tensors_left(const struct qkv_adapter_reading *r) {
    for (size_t i = 0; i < qkv_tensors_count(r->file); i++) {
        const struct qkv_array *x = qkv_tensors_at(r->file, i);
        bool used = false;
        for (size_t k = 0; k < r->count && !used; k++) used = r->a[k] == x || r->b[k] == x || r->m[k] == x;
        const size_t n = strlen(x->name), end = strlen(QKV_ADAPTER_MAGNITUDES);
        if (!used && !r->keys && !r->settings.dora && n > end && !strcmp(x->name + n - end, QKV_ADAPTER_MAGNITUDES))
            return qkv_fail(r->ctx, QKV_FORMAT, "%s has %.160s, but %s has no use_dora; restore the folder", r->weights,
                            x->name, r->path);
        if (!used && r->keys && strstr(x->name, GGUF_EXPERTS))
            return qkv_fail(r->ctx, QKV_SPEC,
                            "%s has %.160s: adapters of experts are not read from GGUF files; read the folder of PEFT "
                            "that it was made from",
                            r->weights, x->name);
        if (!used)
            return qkv_fail(r->ctx, QKV_SPEC,
                            "%s has %.160s, and the model has no weight for it: it is for another model", r->weights,
                            x->name);
    }
    if (r->count) return QKV_OK;
    return qkv_fail(r->ctx, QKV_FORMAT, "%s has no tensors; restore the file", r->weights);
}

/* Whether a key has no value, or an empty list. */
static bool tensor_key_is_empty(const struct qkv_adapter_reading *r, const char *key) {
    const json_t *value = json_object_get(r->root, key);
    return !value || json_is_null(value) || (json_is_array(value) && !json_array_size(value));
}

/* If some experts have adapters as modules, all that are targets have. Settings with exceptions say nothing of that:
 * numbers of layers, and modules that are no targets, by name or as one pattern. */
static enum qkv_status tensors_check_experts(const struct qkv_adapter_reading *r) {
    const struct qkv_weights *w = &r->model->weights;
    bool some = false;
    if (!tensor_key_is_empty(r, "layers_to_transform") || !tensor_key_is_empty(r, "exclude_modules")) return QKV_OK;
    for (size_t k = 0; k < r->count && !some; k++) some = w->list[r->adapted[k].weight].expert >= 0 && !r->experts[k];
    for (size_t i = 0, k = 0; i < w->count && some; i++) {
        const struct qkv_weight *weight = &w->list[i];
        struct qkv_adapter_module module;
        while (k < r->count && r->adapted[k].weight + r->adapted[k].count <= i) k++;
        if (weight->expert < 0 || weight->bias || (k < r->count && r->adapted[k].weight <= i)) continue;
        qkv_adapter_module_in(r->names, r->model, weight, &module);
        if (qkv_adapter_config_lists(r, "target_modules", module.name))
            return qkv_fail(r->ctx, QKV_FORMAT,
                            "%s has adapters of experts, and none of %s, which target_modules names; restore the file",
                            r->weights, module.name);
    }
    return QKV_OK;
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

/* Reads a tensor of the file, whose rows have the order of the family, into one of a part. */
static enum qkv_status numbers_rows(const struct qkv_adapter_reading *r, size_t i, const struct qkv_array *x,
                                    struct qkv_tensor *to, size_t columns) {
    const struct qkv_adapted *adapted = &qkv_model_newest_adapter(r->model)->adapted[i];
    const struct qkv_weight *weight = &qkv_model_base(r->model)->list[adapted->weight];
    float *numbers = qkv_allocate(r->ctx, qkv_array_elements(x), sizeof *numbers), *at = to->data;
    enum qkv_status status = numbers ? qkv_tensors_floats(r->file, x, numbers) : QKV_MEMORY;
    if (!status) status = numbers_check(r, x, numbers);
    for (size_t w = 0; w < adapted->count && !status; w++, weight++) {
        struct qkv_adapter_module module;
        qkv_adapter_module_in(r->names, r->model, weight, &module);
        for (size_t k = 0; k < weight->rows; k++, at += columns) {
            const size_t row = module.published ? qkv_family_row(&module.view, k) : k;
            memcpy(at, numbers + row * columns, columns * sizeof *numbers);
        }
    }
    free(numbers);
    return status;
}

static enum qkv_status numbers_read(const struct qkv_adapter_reading *r, size_t i) {
    if (r->experts[i]) return qkv_adapter_stacked_numbers(r, i);
    struct qkv_adapter_part *part = &qkv_model_newest_adapter(r->model)->parts[i];
    enum qkv_status status = qkv_tensors_floats(r->file, r->a[i], part->a.data);
    if (!status) status = numbers_check(r, r->a[i], part->a.data);
    if (!status) status = numbers_rows(r, i, r->b[i], &part->b, part->b.columns);
    return status || !r->m[i] ? status : numbers_rows(r, i, r->m[i], &part->m, 1);
}

static enum qkv_status reading_run(struct qkv_adapter_reading *r) {
    struct qkv_model *m = r->model;
    const size_t most = m->weights.count + 1;
    r->adapted = qkv_allocate(r->ctx, most, sizeof *r->adapted);
    r->a = qkv_allocate(r->ctx, most, sizeof *r->a);
    r->b = qkv_allocate(r->ctx, most, sizeof *r->b);
    r->m = qkv_allocate(r->ctx, most, sizeof *r->m);
    r->experts = qkv_allocate(r->ctx, most, sizeof *r->experts);
    const bool folder = !qkv_gguf_is(r->weights ? r->weights : "");
    if (!r->path || !r->weights || !r->adapted || !r->a || !r->b || !r->m || !r->experts) return QKV_MEMORY;
    r->names = folder ? m->origin.family : NULL;
    enum qkv_status status = folder ? qkv_adapter_config_read(r) : qkv_adapter_gguf_read(r);
    if (!status && folder) status = qkv_tensors_open(r->ctx, r->weights, &r->file);
    if (!status) status = tensors_match(r);
    if (!status) status = tensors_left(r);
    if (!status) status = tensors_check_experts(r);
    if (!status) status = tensors_check_base(r);
    if (!status) status = qkv_model_adapt(m, r->name, r->adapted, r->count, &r->settings, 0);
    if (status) return status;
    if (!r->name)
        status = qkv_adapter_set_base(m, json_string_value(json_object_get(r->root, "base_model_name_or_path")));
    for (size_t i = 0; i < r->count && !status && !m->planned; i++) status = numbers_read(r, i);
    qkv_model_newest_adapter(m)->normed = 0;
    if (status) qkv_model_drop_adapter(m);
    return status;
}

/* A path that is there, and no adapter. */
static enum qkv_status reading_find(const struct qkv_adapter_reading *r, const char *path, bool folder) {
    bool there, has = true;
    enum qkv_status status = qkv_file_find(r->ctx, path, &there);
    if (!status && folder && there) status = qkv_file_find(r->ctx, r->path, &has);
    if (status || has) return status;
    return qkv_fail(r->ctx, QKV_FILE,
                    "%s has no " QKV_ADAPTER_CONFIG_FILE "; name the folder of an adapter, or a GGUF file", path);
}

enum qkv_status qkv_adapter_read(struct qkv_model *m, const char *name, const char *path) {
    const bool folder = !qkv_gguf_is(path);
    struct qkv_adapter_reading r = {.ctx = m->ctx, .model = m, .name = name};
    enum qkv_status status = name && !m->adapter ? QKV_OK : qkv_model_check_plain(m, "it gets another one");
    if (!status && name) status = qkv_adapter_check_name(m->ctx, name);
    if (status) return status;
    r.path = folder ? qkv_join_path(m->ctx, path, QKV_ADAPTER_CONFIG_FILE) : qkv_copy_string(m->ctx, path);
    r.weights = folder ? qkv_join_path(m->ctx, path, QKV_ADAPTER_WEIGHTS_FILE) : qkv_copy_string(m->ctx, path);
    status = r.path ? reading_find(&r, path, folder) : QKV_MEMORY;
    if (!status) status = reading_run(&r);
    free(r.path);
    free(r.weights);
    free(r.adapted);
    free(r.a);
    free(r.b);
    free(r.m);
    free(r.experts);
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
