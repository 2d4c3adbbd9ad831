/* adapter_config: adapter_config.json of PEFT, the settings of an adapter in a folder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/adapter_reading.h"

enum { CONFIG_MOST = 1 << 20 };

/* ---- adapter_config.json ----------------------------------------------------------------------------------------- */

/* Keys that change nothing in what a finished adapter computes. */
static const char *const idle_keys[] = {
    "auto_mapping", "base_model_name_or_path", "exclude_modules", "fan_in_fan_out",      "inference_mode",
    "loftq_config", "layers_pattern",          "lora_dropout",    "layers_to_transform", "megatron_core",
    "peft_version", "qalora_group_size",       "revision",        "target_modules",      "target_parameters",
    "task_type",    "megatron_config",         "eva_config",      "runtime_config",      "ensure_weight_tying"};
/* Keys that are read. */
static const char *const read_keys[] = {"peft_type",        "r",    "lora_alpha",   "use_rslora",
                                        "use_dora",         "bias", "rank_pattern", "alpha_pattern",
                                        "init_lora_weights"};

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

static enum qkv_status config_refuse(const struct qkv_adapter_reading *r, const char *key, const char *knows) {
    return qkv_json_refuse(r->ctx, r->path, key, json_object_get(r->root, key), knows);
}

static enum qkv_status config_check(const struct qkv_adapter_reading *r) {
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
    static const char *const flags[] = {"use_rslora", "use_dora"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        value = json_object_get(r->root, flags[i]);
        if (!value_is_empty(value) && !json_is_true(value)) return config_refuse(r, flags[i], "true and false");
    }
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

enum qkv_status qkv_adapter_config_read(struct qkv_adapter_reading *r) {
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(r->ctx, r->path, &map);
    if (status) return status;
    const struct qkv_json_text text = {
        .name = r->path, .help = "restore the file", .data = map.data, .size = map.size, .max_size = CONFIG_MOST};
    status = qkv_json_load(r->ctx, &text, &r->root);
    qkv_unmap_file(&map);
    if (!status && !json_is_object(r->root))
        status = qkv_fail(r->ctx, QKV_FORMAT, "%s is no object; restore the file", r->path);
    if (!status) status = config_check(r);
    if (status) return status;
    const json_t *rank = json_object_get(r->root, "r"), *alpha = json_object_get(r->root, "lora_alpha");
    const json_t *dropout = json_object_get(r->root, "lora_dropout");
    r->settings.rank = (size_t)json_integer_value(rank);
    r->settings.alpha = alpha ? json_number_value(alpha) : 8; /* PEFT's own default; so is r */
    if (!rank) r->settings.rank = 8;
    if (rank &&
        !(json_is_integer(rank) && json_integer_value(rank) >= 1 && json_integer_value(rank) <= QKV_ADAPTER_RANK_MOST))
        return config_refuse(r, "r", "whole numbers from 1 to 16384");
    if ((alpha && !json_is_number(alpha)) || !(fabs(r->settings.alpha) <= 1e6))
        return config_refuse(r, "lora_alpha", "numbers up to 1000000");
    r->settings.dropout = json_number_value(dropout);
    if (!(value_is_empty(dropout) || json_is_number(dropout)) || !(r->settings.dropout >= 0 && r->settings.dropout < 1))
        return config_refuse(r, "lora_dropout", "numbers from 0 and less than 1");
    r->settings.rank_stabilised = json_is_true(json_object_get(r->root, "use_rslora"));
    r->settings.dora = json_is_true(json_object_get(r->root, "use_dora"));
    return QKV_OK;
}

/* A pattern that is a name, also with ".*\\." before it and "\\." in it: the name. False: it is another one. */
static bool config_name(const char *pattern, char name[QKV_FAMILY_NAME]) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.", any[] = ".*\\.";
    size_t n = 0;
    if (!strncmp(pattern, any, strlen(any))) pattern += strlen(any);
    for (; *pattern && n < QKV_FAMILY_NAME - 1; pattern++) {
        if (pattern[0] == '\\' && pattern[1] == '.') pattern++;
        name[n++] = *pattern;
    }
    name[n] = 0;
    return !*pattern && strspn(name, plain) == n;
}

bool qkv_adapter_config_since(const struct qkv_adapter_reading *r, int major, int minor, int patch) {
    const char *text = json_string_value(json_object_get(r->root, "peft_version"));
    const long wanted[] = {major, minor, patch};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char *end;
        if (!text || *text < '0' || *text > '9') return false;
        const long number = strtol(text, &end, 10);
        if (number != wanted[i]) return number > wanted[i];
        text = *end == '.' ? end + 1 : end;
    }
    return strncmp(text, "dev", 3) != 0; /* somewhere before the version */
}

bool qkv_adapter_config_lists(const struct qkv_adapter_reading *r, const char *key, const char *name) {
    const json_t *list = json_object_get(r->root, key), *value;
    size_t i;
    json_array_foreach(list, i, value) {
        const char *end = json_string_value(value);
        if (end && *end && qkv_adapter_name_ends(name, end)) return true;
    }
    return false;
}

/* The value of the first pattern that names a module, or its last parts; *status: QKV_FORMAT for another one. */
static const json_t *config_pattern(const struct qkv_adapter_reading *r, const char *key, const char *module,
                                    enum qkv_status *status) {
    const json_t *patterns = json_object_get(r->root, key);
    const char *pattern;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patterns, pattern, value) {
        char name[QKV_FAMILY_NAME];
        if (!config_name(pattern, name) || !json_is_number(value)) {
            *status = qkv_fail(r->ctx, QKV_FORMAT,
                               "%s: %s has \"%.80s\"; names of modules and numbers are read, no other patterns",
                               r->path, key, pattern);
            return NULL;
        }
        if (qkv_adapter_name_ends(module, name)) return value;
    }
    return NULL;
}

enum qkv_status qkv_adapter_config_size(const struct qkv_adapter_reading *r, const char *module, size_t *rank,
                                        double *scale) {
    enum qkv_status status = QKV_OK;
    const json_t *ranks = config_pattern(r, "rank_pattern", module, &status);
    const json_t *alphas = status ? NULL : config_pattern(r, "alpha_pattern", module, &status);
    if (status) return status;
    const double own = ranks ? json_number_value(ranks) : (double)r->settings.rank;
    const double alpha = alphas ? json_number_value(alphas) : r->settings.alpha;
    *rank = own >= 1 && own <= QKV_ADAPTER_RANK_MOST ? (size_t)own : 0;
    if (!*rank || (double)*rank != own || !(fabs(alpha) <= 1e6))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s has rank %g and alpha %g; restore the file", r->path, module, own,
                        alpha);
    *scale = qkv_adapter_scale(&r->settings, alpha, *rank);
    return QKV_OK;
}
