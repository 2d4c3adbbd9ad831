/* adapter_write: adapters made and removed, and written as PEFT's files. */
#include "io/adapter_stacked.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/safetensors.h"
#include "kernel/kernel.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

enum qkv_status qkv_adapter_begin(struct qkv_model *m, const char *text, uint64_t seed) {
    struct qkv_adapter_settings settings;
    struct qkv_adapted *adapted = NULL;
    size_t count = 0;
    enum qkv_status status = qkv_model_check_plain(m, "it gets another one");
    if (!status) status = qkv_adapter_parse(m->ctx, text, &settings);
    if (status) return status;
    status = qkv_adapter_choose(m, &settings, &adapted, &count);
    if (!status) status = qkv_model_adapt(m, NULL, adapted, count, &settings, seed);
    free(adapted);
    free(settings.targets);
    return status;
}

enum qkv_status qkv_adapter_create(struct qkv_model *model, const char *settings, uint64_t seed) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, settings);
    const enum qkv_status status = qkv_model_check_alive(model);
    return status ? status : qkv_adapter_begin(model, settings, seed);
}

enum qkv_status qkv_adapter_need(struct qkv_model *m) {
    enum qkv_status status = qkv_model_check_weights(m);
    if (!status) status = qkv_model_check_own(m, "its adapter stays");
    if (status || m->adapter) return status;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    m->named.count ? "the adapters of the model have names, so they stay as they are; open the model "
                                     "with one adapter without a name"
                                   : "the model has no adapter");
}

enum qkv_status qkv_adapter_idle(struct qkv_model *m) {
    const enum qkv_status status = qkv_adapter_need(m);
    if (status || !m->sharing.users) return status;
    return qkv_fail(m->ctx, QKV_ARGUMENT,
                    "the model is in use; free its sessions, passes and optimizers before its adapter is taken away");
}

enum qkv_status qkv_adapter_remove(struct qkv_model *model) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    const enum qkv_status status = qkv_adapter_idle(model);
    if (!status) qkv_model_drop_adapter(model);
    return status;
}

/* ---- the base ---------------------------------------------------------------------------------------------------- */

/* Numbers of vectors as bf16 has them: a copy of the model in bf16 is the same base. */
void qkv_adapter_base(const struct qkv_model *m, char text[QKV_ADAPTER_BASE_TEXT]) {
    const struct qkv_weights *w = qkv_model_base(m);
    uint64_t hash = QKV_HASH_START;
    for (size_t i = 0; i < w->count; i++) {
        const struct qkv_weight *weight = &w->list[i];
        if (weight->array.rank != 1 || !weight->data) continue;
        for (size_t k = 0; k < weight->columns; k++) {
            uint16_t word;
            m->ctx->kernels->narrow(&word, &weight->data[k], 1);
            hash = qkv_hash(hash, &word, sizeof word);
        }
    }
    snprintf(text, QKV_ADAPTER_BASE_TEXT, "%016llx", (unsigned long long)hash);
}

/* ---- adapter_config.json ----------------------------------------------------------------------------------------- */

static const char *target_last(const struct qkv_adapter_module *module) {
    const char *dot = strrchr(module->name, '.');
    return dot ? dot + 1 : module->name;
}

/* The last parts of the names of matrices without an adapter. */
static json_t *targets_of_others(const struct qkv_model *m) {
    const struct qkv_model_adapter *a = m->adapter;
    json_t *others = json_object();
    for (size_t i = 0, part = 0; i < a->base.count; i++) {
        const struct qkv_weight *weight = &a->base.list[i];
        struct qkv_adapter_module module;
        while (part < a->part_count && a->adapted[part].weight + a->adapted[part].count <= i) part++;
        const bool adapted = part < a->part_count && a->adapted[part].weight <= i;
        if (adapted || weight->array.rank != 2 || weight->bias) continue;
        qkv_adapter_module(m, weight, &module);
        json_object_set_new(others, target_last(&module), json_true());
    }
    return others;
}

/* Whether the weight is in one tensor of all experts. */
static bool target_is_stacked(const struct qkv_adapter_module *module) {
    return module->published && module->view.flags & QKV_FAMILY_STACKED;
}

/* The name of the module of a router that PEFT has as a parameter. */
static void write_router(const struct qkv_model *m, const struct qkv_weight *weight,
                         struct qkv_adapter_module *module) {
    char newer[QKV_FAMILY_NAME];
    if (qkv_adapter_is_parameter(m, weight) && qkv_adapter_newer_name(module->name, newer))
        memcpy(module->name, newer, QKV_FAMILY_NAME);
}

/* Tensors of all experts, and their routers; NULL: none is adapted. */
static json_t *write_parameters(const struct qkv_model *m) {
    const struct qkv_model_adapter *a = m->adapter;
    json_t *list = json_array();
    for (size_t i = 0; i < a->part_count; i++) {
        const struct qkv_weight *weight = &a->base.list[a->adapted[i].weight];
        struct qkv_adapter_module module;
        char name[QKV_FAMILY_NAME];
        const char *parameter;
        qkv_adapter_module(m, weight, &module);
        write_router(m, weight, &module);
        if (qkv_adapter_is_parameter(m, weight)) json_array_append_new(list, json_sprintf("%s.weight", module.name));
        if (weight->expert) continue;
        if (target_is_stacked(&module) && qkv_adapter_stacked_module(weight, &module, name, &parameter))
            json_array_append_new(list, json_sprintf("%s.%s", name, parameter));
    }
    if (json_array_size(list)) return list;
    json_decref(list);
    return NULL;
}

/* PEFT opens an adapter of experts that are one tensor only without a dropout, which changes nothing in what a finished
 * adapter computes. */
static double write_dropout(const struct qkv_model *m) {
    const struct qkv_model_adapter *a = m->adapter;
    for (size_t i = 0; i < a->part_count; i++)
        if (a->base.list[a->adapted[i].weight].expert >= 0 ||
            qkv_adapter_is_parameter(m, &a->base.list[a->adapted[i].weight]))
            return 0;
    return a->settings.dropout;
}

/* The last part of a module's name names the adapted modules, if no other matrix of the model has it. */
static json_t *write_targets(const struct qkv_model *m) {
    const struct qkv_model_adapter *a = m->adapter;
    json_t *list = json_array(), *seen = json_object(), *others = targets_of_others(m);
    for (size_t i = 0; i < a->part_count; i++)
        for (size_t k = 0; k < a->adapted[i].count; k++) {
            const struct qkv_weight *weight = &a->base.list[a->adapted[i].weight + k];
            struct qkv_adapter_module module;
            qkv_adapter_module(m, weight, &module);
            const char *last = target_last(&module), *name = json_object_get(others, last) ? module.name : last;
            if (target_is_stacked(&module) || qkv_adapter_is_parameter(m, weight)) continue;
            if (json_object_get(seen, name)) continue;
            json_object_set_new(seen, name, json_true());
            json_array_append_new(list, json_string(name));
        }
    json_decref(seen);
    json_decref(others);
    return list;
}

/* Matrices that the family stores as (in, out) are layers of another class there; tensors of experts are no layers. */
static bool write_transposed(const struct qkv_model *m) {
    const struct qkv_model_adapter *a = m->adapter;
    struct qkv_adapter_module module;
    for (size_t i = 0; i < a->part_count; i++) {
        qkv_adapter_module(m, &a->base.list[a->adapted[i].weight], &module);
        if (module.published && !target_is_stacked(&module) && module.view.flags & QKV_FAMILY_TRANSPOSED) return true;
    }
    return false;
}

static json_t *write_number(double x) {
    return x == (double)(json_int_t)x ? json_integer((json_int_t)x) : json_real(x);
}

static enum qkv_status write_config(struct qkv_model *m, const char *base, const char *folder) {
    const struct qkv_adapter_settings *s = &m->adapter->settings;
    json_t *root =
        json_pack("{s:s, s:s?, s:s, s:i, s:o, s:o, s:b, s:b, s:b, s:b, s:o, s:o*}", "peft_type", "LORA",
                  "base_model_name_or_path", base, "bias", "none", "r", (int)s->rank, "lora_alpha",
                  write_number(s->alpha), "lora_dropout", write_number(write_dropout(m)), "use_rslora",
                  s->rank_stabilised, "use_dora", s->dora, "fan_in_fan_out", write_transposed(m), "inference_mode",
                  true, "target_modules", write_targets(m), "target_parameters", write_parameters(m));
    return qkv_json_save(m->ctx, folder, QKV_ADAPTER_CONFIG_FILE, root);
}

/* ---- adapter_model.safetensors ----------------------------------------------------------------------------------- */

/* A module of a part: of all its weights, or, if several modules of the family have one adapter here, of some. */
struct write_module {
    size_t part, weight, count; /* count: of weights */
    size_t first, rows;         /* of the part's b */
    size_t experts;             /* that are one tensor, with this part's first; 0: it is no such tensor */
    struct qkv_adapter_module module;
};

/* The tensor of all experts is that of the first one. */
static void write_stacked_module(const struct qkv_model *m, struct write_module *x) {
    const struct qkv_weight *weight = &m->adapter->base.list[x->weight];
    char name[QKV_FAMILY_NAME];
    const char *parameter;
    if (weight->expert || !qkv_adapter_stacked_module(weight, &x->module, name, &parameter)) return;
    x->experts = x->module.view.slices;
    snprintf(x->module.name, sizeof x->module.name, "%.180s%s", name,
             qkv_adapter_stacked_inside(m, weight) ? ".base_layer" : "");
}

/* Lists the modules of all parts; the caller frees them. */
static enum qkv_status write_modules(struct qkv_model *m, struct write_module **modules, size_t *count) {
    const struct qkv_model_adapter *a = m->adapter;
    size_t all = 0;
    *count = 0;
    for (size_t i = 0; i < a->part_count; i++) all += a->adapted[i].count;
    *modules = qkv_allocate(m->ctx, all, sizeof **modules);
    if (!*modules) return QKV_MEMORY;
    for (size_t i = 0; i < a->part_count; i++) {
        const struct qkv_adapted *adapted = &a->adapted[i];
        struct write_module x;
        for (size_t k = 0, first = 0; k < adapted->count; k += x.count, first += x.rows) {
            x = (struct write_module){.part = i, .weight = adapted->weight + k, .first = first};
            x.count = qkv_adapter_module_weights(m, &a->base.list[x.weight], adapted->count - k, &x.module, &x.rows);
            write_router(m, &a->base.list[x.weight], &x.module);
            if (target_is_stacked(&x.module)) write_stacked_module(m, &x);
            if (!target_is_stacked(&x.module) || x.experts) (*modules)[(*count)++] = x;
        }
    }
    return QKV_OK;
}

/* The rows of b, or the magnitudes, of a module, in the order of the family. */
static enum qkv_status write_rows(struct qkv_model *m, const struct write_module *x, const struct qkv_tensor *all,
                                  size_t columns, float **rows) {
    const struct qkv_weight *weight = &m->adapter->base.list[x->weight];
    const float *from = (const float *)all->data + x->first * columns;
    *rows = qkv_allocate(m->ctx, x->rows * columns, sizeof **rows);
    if (!*rows) return QKV_MEMORY;
    for (size_t i = 0; i < x->count; i++) {
        struct qkv_adapter_module module;
        qkv_adapter_module(m, weight + i, &module);
        for (size_t r = 0; r < weight[i].rows; r++, from += columns) {
            const size_t to = module.published ? qkv_family_row(&module.view, r) : r;
            memcpy(*rows + to * columns, from, columns * sizeof **rows);
        }
    }
    return QKV_OK;
}

/* columns 0: a vector. */
static enum qkv_status write_array(struct qkv_model *m, const struct write_module *x, const char *end, size_t rows,
                                   size_t columns, const void *data, struct qkv_array *array) {
    struct qkv_buffer name = {0};
    const enum qkv_status status = qkv_buffer_print(m->ctx, &name, QKV_ADAPTER_PREFIX "%s.%s", x->module.name, end);
    *array = (struct qkv_array){.name = name.data,
                                .dtype = QKV_F32,
                                .rank = columns ? 2 : 1,
                                .shape = {rows, columns},
                                .bytes = rows * (columns ? columns : 1) * sizeof(float),
                                .data = data};
    return status;
}

/* The tensors of a module; rows: two lists of numbers that are written, which the caller frees. */
static enum qkv_status write_stacked(struct qkv_model *m, const struct write_module *x, struct qkv_array *arrays,
                                     float **rows) {
    const struct qkv_adapter_part *part = &m->adapter->parts[x->part];
    const size_t rank = part->a.rows * x->experts;
    enum qkv_status status = qkv_adapter_stacked_join(m, x->part, &rows[0], &rows[1]);
    if (!status) status = write_array(m, x, QKV_ADAPTER_A, rank, part->a.columns, rows[0], &arrays[0]);
    return status ? status : write_array(m, x, QKV_ADAPTER_B, part->b.rows, rank, rows[1], &arrays[1]);
}

static enum qkv_status write_module(struct qkv_model *m, const struct write_module *x, struct qkv_array *arrays,
                                    float **rows) {
    const struct qkv_adapter_part *part = &m->adapter->parts[x->part];
    const size_t rank = part->b.columns;
    if (x->experts) return write_stacked(m, x, arrays, rows);
    enum qkv_status status = write_rows(m, x, &part->b, rank, &rows[0]);
    if (!status) status = write_array(m, x, QKV_ADAPTER_A, rank, part->a.columns, part->a.data, &arrays[0]);
    if (!status) status = write_array(m, x, QKV_ADAPTER_B, x->rows, rank, rows[0], &arrays[1]);
    if (status || !m->adapter->settings.dora) return status;
    status = write_rows(m, x, &part->m, 1, &rows[1]);
    return status ? status : write_array(m, x, QKV_ADAPTER_MAGNITUDES, x->rows, 0, rows[1], &arrays[2]);
}

static enum qkv_status write_tensors(struct qkv_model *m, const char *path) {
    const size_t each = m->adapter->settings.dora ? 3 : 2;
    char base[QKV_ADAPTER_BASE_TEXT];
    const char *const metadata[] = {"format", "pt", QKV_ADAPTER_BASE_KEY, base};
    struct write_module *modules;
    size_t count;
    enum qkv_status status = write_modules(m, &modules, &count);
    if (status) return status;
    struct qkv_array *arrays = qkv_allocate(m->ctx, each * count, sizeof *arrays);
    float **rows = qkv_allocate(m->ctx, 2 * count, sizeof(float *));
    if (!arrays || !rows) status = QKV_MEMORY;
    qkv_adapter_base(m, base);
    for (size_t i = 0; i < count && !status; i++)
        status = write_module(m, &modules[i], arrays + each * i, rows + 2 * i);
    if (!status) status = qkv_tensors_write(m->ctx, path, arrays, each * count, metadata, 2);
    for (size_t i = 0; i < each * count && arrays; i++) free((void *)(uintptr_t)arrays[i].name);
    for (size_t i = 0; i < 2 * count && rows; i++) free(rows[i]);
    free(modules);
    free(arrays);
    free(rows);
    return status;
}

/* Parts of one matrix and several ranks, which files may have, can be used, not written. */
static enum qkv_status write_check(struct qkv_model *m) {
    const struct qkv_model_adapter *a = m->adapter;
    const struct qkv_adapter_settings *s = &a->settings;
    const float scale = (float)qkv_adapter_scale(s, s->alpha, s->rank);
    enum qkv_status status = qkv_adapter_check_targets(m, a->adapted, a->part_count);
    for (size_t i = 0; i < a->part_count && !status; i++) {
        const struct qkv_weight *weight = &a->base.list[a->adapted[i].weight];
        if (a->adapted[i].rank == s->rank && a->adapted[i].scale == scale) continue;
        status = qkv_fail(m->ctx, QKV_SPEC,
                          "the adapter of %s has another rank or scale than others have; such adapters are read, not "
                          "written",
                          weight->array.name);
    }
    return status;
}

enum qkv_status qkv_adapter_set_base(struct qkv_model *m, const char *base) {
    char *copy = base ? qkv_copy_string(m->ctx, base) : NULL;
    if (base && !copy) return QKV_MEMORY;
    free(m->adapter->settings.base);
    m->adapter->settings.base = copy;
    return QKV_OK;
}

enum qkv_status qkv_adapter_write(struct qkv_model *m, const char *folder) {
    char *path = qkv_join_path(m->ctx, folder, QKV_ADAPTER_WEIGHTS_FILE);
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    if (!status) status = write_tensors(m, path);
    if (!status) status = write_config(m, m->adapter->settings.base, folder);
    free(path);
    return status;
}

enum qkv_status qkv_adapter_write_run(struct qkv_model *m, const char *folder) {
    enum qkv_status status = write_check(m);
    if (!status) status = qkv_folder_write_texts(m, folder);
    return status ? status : qkv_adapter_write(m, folder);
}

enum qkv_status qkv_adapter_save(struct qkv_model *model, const char *base, const char *folder) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, folder);
    enum qkv_status status = qkv_adapter_need(model);
    if (!status) status = qkv_model_check_file(model);
    if (!status) status = write_check(model);
    if (!status && base) status = qkv_adapter_set_base(model, base);
    if (!status) status = qkv_make_folder(model->ctx, folder);
    return status ? status : qkv_adapter_write(model, folder);
}
