/* adapter_read: adapters read from the files of PEFT, or of qkv, which are the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/adapter_files.h"
#include "io/safetensors.h"

enum { CONFIG_MOST = 1 << 20, PREFIX_MOST = 64 };
#define ADAPTER_PREFIX "base_model.model."

struct adapter_reading {
    struct qkv_context *ctx;
    struct qkv_model *model;
    const char *name;       /* NULL: it is the model's one adapter */
    char *config, *weights; /* paths */
    json_t *root;
    struct qkv_tensors *file;
    struct qkv_adapter_settings settings;
    struct qkv_adapted *adapted;     /* of the model's weights */
    const struct qkv_array **a, **b; /* of each */
    size_t count;
};

/* ---- adapter_config.json ----------------------------------------------------------------------------------------- */

/* Keys that change nothing in what a finished adapter computes. */
static const char *const idle_keys[] = {"auto_mapping",
                                        "base_model_name_or_path",
                                        "exclude_modules",
                                        "fan_in_fan_out",
                                        "inference_mode",
                                        "loftq_config",
                                        "layers_pattern",
                                        "lora_dropout",
                                        "layers_to_transform",
                                        "megatron_core",
                                        "peft_version",
                                        "qalora_group_size",
                                        "revision",
                                        "target_modules",
                                        "task_type",
                                        "megatron_config",
                                        "eva_config",
                                        "runtime_config",
                                        "ensure_weight_tying"};
/* Keys that are read. */
static const char *const read_keys[] = {
    "peft_type", "r", "lora_alpha", "use_rslora", "bias", "rank_pattern", "alpha_pattern", "init_lora_weights"};

static bool key_in(const char *key, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], key)) return true;
    return false;
}

static bool value_is_empty(const json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) || (json_is_array(value) && !json_array_size(value)) ||
           (json_is_object(value) && !json_object_size(value));
}

/* Starts of a and b from the weights of the base change these, or need no more than the files: names of the latter. */
static bool config_start_is_plain(const json_t *value) {
    static const char *const plain[] = {"gaussian", "eva", "orthogonal"};
    const char *text = json_string_value(value);
    return !value || json_is_boolean(value) || json_is_null(value) ||
           (text && key_in(text, plain, sizeof plain / sizeof *plain));
}

static enum qkv_status config_refuse(const struct adapter_reading *r, const char *key, const char *knows) {
    return qkv_json_refuse(r->ctx, r->config, key, json_object_get(r->root, key), knows);
}

static enum qkv_status config_check(const struct adapter_reading *r) {
    const char *type = json_string_value(json_object_get(r->root, "peft_type"));
    const char *bias = json_string_value(json_object_get(r->root, "bias"));
    const char *key;
    json_t *value;
    if (!type || strcmp(type, "LORA") != 0) return config_refuse(r, "peft_type", "\"LORA\"");
    if (bias && strcmp(bias, "none") != 0) return config_refuse(r, "bias", "\"none\"");
    static const char *const patterns[] = {"rank_pattern", "alpha_pattern"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        value = json_object_get(r->root, patterns[i]);
        if (!value_is_empty(value) && !json_is_object(value)) return config_refuse(r, patterns[i], "objects");
    }
    value = json_object_get(r->root, "use_rslora");
    if (!value_is_empty(value) && !json_is_true(value)) return config_refuse(r, "use_rslora", "true and false");
    if (!config_start_is_plain(json_object_get(r->root, "init_lora_weights")))
        return config_refuse(r, "init_lora_weights",
                             "true, false, \"gaussian\", \"eva\" and \"orthogonal\" (others change the base)");
    json_object_foreach(r->root, key, value) {
        if (value_is_empty(value) || key_in(key, idle_keys, sizeof idle_keys / sizeof *idle_keys) ||
            key_in(key, read_keys, sizeof read_keys / sizeof *read_keys))
            continue;
        return config_refuse(r, key, "no value but null and false");
    }
    return QKV_OK;
}

static enum qkv_status config_read(struct adapter_reading *r) {
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(r->ctx, r->config, &map);
    if (status) return status;
    const struct qkv_json_text text = {
        .name = r->config, .help = "restore the file", .data = map.data, .size = map.size, .max_size = CONFIG_MOST};
    status = qkv_json_load(r->ctx, &text, &r->root);
    qkv_unmap_file(&map);
    if (!status && !json_is_object(r->root))
        status = qkv_fail(r->ctx, QKV_FORMAT, "%s is no object; restore the file", r->config);
    if (!status) status = config_check(r);
    if (status) return status;
    const json_t *rank = json_object_get(r->root, "r"), *alpha = json_object_get(r->root, "lora_alpha");
    const json_t *dropout = json_object_get(r->root, "lora_dropout");
    r->settings.rank = (size_t)json_integer_value(rank);
    r->settings.alpha = alpha ? json_number_value(alpha) : 8; /* PEFT's own default; so is r */
    if (!rank) r->settings.rank = 8;
    if (rank && !(json_is_integer(rank) && json_integer_value(rank) >= 1 && json_integer_value(rank) <= 1 << 14))
        return config_refuse(r, "r", "whole numbers from 1 to 16384");
    if ((alpha && !json_is_number(alpha)) || !(fabs(r->settings.alpha) <= 1e6))
        return config_refuse(r, "lora_alpha", "numbers up to 1000000");
    r->settings.dropout = json_number_value(dropout);
    if (!(value_is_empty(dropout) || json_is_number(dropout)) || !(r->settings.dropout >= 0 && r->settings.dropout < 1))
        return config_refuse(r, "lora_dropout", "numbers from 0 and less than 1");
    r->settings.rank_stabilised = json_is_true(json_object_get(r->root, "use_rslora"));
    return QKV_OK;
}

/* The value of the first pattern that names a module, or its last parts; *status: QKV_FORMAT for another one. */
static const json_t *config_pattern(const struct adapter_reading *r, const char *key, const char *module,
                                    enum qkv_status *status) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    const json_t *patterns = json_object_get(r->root, key);
    const size_t n = strlen(module);
    const char *pattern;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patterns, pattern, value) {
        const size_t m = strlen(pattern);
        if (strspn(pattern, plain) != m || !json_is_number(value)) {
            *status = qkv_fail(r->ctx, QKV_FORMAT,
                               "%s: %s has \"%.80s\"; names of modules and numbers are read, no other patterns",
                               r->config, key, pattern);
            return NULL;
        }
        if (n >= m && !strcmp(module + n - m, pattern) && (n == m || module[n - m - 1] == '.')) return value;
    }
    return NULL;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The tensor of a module; NULL: the file has none. */
static const struct qkv_array *tensor_find(const struct adapter_reading *r, const char *module, const char *letter) {
    char name[QKV_FAMILY_NAME + PREFIX_MOST];
    snprintf(name, sizeof name, ADAPTER_PREFIX "%s.lora_%s.weight", module, letter);
    return qkv_tensors_find(r->file, name);
}

/* A name that the family's module has in files: its own (i 0), or another one. */
static bool tensor_module(const struct adapter_reading *r, const struct qkv_adapter_module *module, size_t i,
                          char name[QKV_FAMILY_NAME]) {
    char other[QKV_FAMILY_NAME];
    if (i == 0) {
        memcpy(name, module->name, QKV_FAMILY_NAME);
        return true;
    }
    if (!module->published || !qkv_family_name(r->model->origin.family, module->view.name, i - 1, other)) return false;
    const size_t n = strlen(other), end = strlen(".weight");
    snprintf(name, QKV_FAMILY_NAME, "%.*s", (int)(n > end && !strcmp(other + n - end, ".weight") ? n - end : n), other);
    return true;
}

static enum qkv_status tensor_shape(const struct adapter_reading *r, const struct qkv_array *x, size_t rows,
                                    size_t columns) {
    if (x->rank == 2 && x->shape[0] == rows && x->shape[1] == columns) return QKV_OK;
    char have[QKV_SHAPE_TEXT];
    return qkv_fail(r->ctx, QKV_SHAPE,
                    "%s: %s is %s, but this model and its rank need (%zu, %zu): it is for another model", r->weights,
                    x->name, qkv_shape_text(x->shape, x->rank, have), rows, columns);
}

/* One adapted weight. */
static enum qkv_status tensor_take(struct adapter_reading *r, size_t weight, const char *module, size_t rows,
                                   const struct qkv_array *a, const struct qkv_array *b) {
    const struct qkv_weight *w = &r->model->weights.list[weight];
    enum qkv_status status = QKV_OK;
    if (!a || !b)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s has lora_%s of %s, but not lora_%s; restore the file", r->weights,
                        a ? "A" : "B", module, a ? "B" : "A");
    if (!qkv_adapter_fits(w))
        return qkv_fail(r->ctx, QKV_SPEC,
                        "%s has an adapter of %s, here %s; only matrices of attention and feed-forward layers can have "
                        "one",
                        r->weights, module, w->array.name);
    const json_t *ranks = config_pattern(r, "rank_pattern", module, &status);
    const json_t *alphas = status ? NULL : config_pattern(r, "alpha_pattern", module, &status);
    if (status) return status;
    const double own = ranks ? json_number_value(ranks) : (double)r->settings.rank;
    const double alpha = alphas ? json_number_value(alphas) : r->settings.alpha;
    const size_t rank = own >= 1 && own <= 1 << 14 ? (size_t)own : 0;
    if (!rank || (double)rank != own || !(fabs(alpha) <= 1e6))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s has rank %g and alpha %g; restore the file", r->config, module, own,
                        alpha);
    status = tensor_shape(r, a, rank, w->columns);
    if (!status) status = tensor_shape(r, b, rows, rank);
    r->adapted[r->count] = (struct qkv_adapted){weight, rank, (float)qkv_adapter_scale(&r->settings, alpha, rank)};
    r->a[r->count] = a;
    r->b[r->count++] = b;
    return status;
}

static enum qkv_status tensors_match(struct adapter_reading *r) {
    const struct qkv_weights *w = &r->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        const struct qkv_weight *weight = &w->list[i];
        struct qkv_adapter_module module;
        char name[QKV_FAMILY_NAME];
        if (weight->bias || weight->array.rank != 2) continue;
        qkv_adapter_module(r->model, weight, &module);
        for (size_t k = 0; tensor_module(r, &module, k, name); k++) {
            const struct qkv_array *a = tensor_find(r, name, "A"), *b = tensor_find(r, name, "B");
            if (!a && !b) continue;
            status = tensor_take(r, i, name, module.published ? module.view.total : weight->rows, a, b);
            break;
        }
    }
    return status;
}

/* Every tensor of the file belongs to an adapted weight. */
static enum qkv_status tensors_left(const struct adapter_reading *r) {
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

static enum qkv_status tensors_check_base(const struct adapter_reading *r) {
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

static enum qkv_status numbers_check(const struct adapter_reading *r, const struct qkv_array *x, const float *numbers) {
    for (size_t i = 0; i < qkv_array_elements(x); i++)
        if (!isfinite(numbers[i]))
            return qkv_fail(r->ctx, QKV_NUMBER, "%s: %s holds numbers that are not finite; restore the file",
                            r->weights, x->name);
    return QKV_OK;
}

static enum qkv_status numbers_read(const struct adapter_reading *r, size_t i) {
    const struct qkv_model_adapter *adapter = qkv_model_newest_adapter(r->model);
    const struct qkv_adapter_part *part = &adapter->parts[i];
    const size_t rank = part->b.columns;
    float *b = qkv_allocate(r->ctx, qkv_array_elements(r->b[i]), sizeof *b);
    enum qkv_status status = b ? qkv_tensors_floats(r->file, r->a[i], part->a.data) : QKV_MEMORY;
    struct qkv_adapter_module module;
    qkv_adapter_module(r->model, &qkv_model_base(r->model)->list[adapter->adapted[i].weight], &module);
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

static enum qkv_status reading_run(struct adapter_reading *r) {
    struct qkv_model *m = r->model;
    const size_t most = m->weights.count + 1;
    r->adapted = qkv_allocate(r->ctx, most, sizeof *r->adapted);
    r->a = qkv_allocate(r->ctx, most, sizeof *r->a);
    r->b = qkv_allocate(r->ctx, most, sizeof *r->b);
    enum qkv_status status = r->config && r->weights && r->adapted && r->a && r->b ? config_read(r) : QKV_MEMORY;
    if (!status) status = qkv_tensors_open(r->ctx, r->weights, &r->file);
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

enum qkv_status qkv_adapter_read(struct qkv_model *m, const char *name, const char *folder) {
    struct adapter_reading r = {.ctx = m->ctx,
                                .model = m,
                                .name = name,
                                .config = qkv_join_path(m->ctx, folder, QKV_ADAPTER_CONFIG_FILE),
                                .weights = qkv_join_path(m->ctx, folder, QKV_ADAPTER_WEIGHTS_FILE)};
    enum qkv_status status = name && !m->adapter ? QKV_OK : qkv_model_check_plain(m, "it gets another one");
    if (!status && name) status = qkv_adapter_check_name(m->ctx, name);
    if (!status) status = reading_run(&r);
    free(r.config);
    free(r.weights);
    free(r.adapted);
    free(r.a);
    free(r.b);
    json_decref(r.root);
    qkv_tensors_close(r.file);
    return status;
}

enum qkv_status qkv_adapter_load(struct qkv_model *model, const char *folder) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, folder);
    const enum qkv_status status = qkv_model_check_alive(model);
    return status ? status : qkv_adapter_read(model, NULL, folder);
}

enum qkv_status qkv_adapter_add(struct qkv_model *model, const char *name, const char *folder) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, name);
    QKV_NEED(qkv_call, folder);
    const enum qkv_status status = qkv_model_check_alive(model);
    return status ? status : qkv_adapter_read(model, name, folder);
}
