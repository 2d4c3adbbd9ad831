/* The options of a run from a file (qkv_train_read_options): the record of another run, or an object of options by
 * their names. Each value goes through qkv_train_set, so that ranges are checked in one place. */
#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "base/json_load.h"
#include "train/train.h"

#define CONFIG_HELP "correct the file, or leave option config out"

struct config {
    size_t size; /* of the program's struct of options */
    struct qkv_context *ctx;
    const char *path;
    struct qkv_train_options *options;
    char *texts; /* where the next text goes */
    bool record; /* of a run */
};

static enum qkv_status config_wrong(const struct config *c, const char *key, const char *expected) {
    return qkv_fail(c->ctx, QKV_FORMAT, "%s: %s must be %s; " CONFIG_HELP, c->path, key, expected);
}

static const char *config_name(const void *list, size_t i) {
    (void)list;
    return qkv_train_option(i)->name;
}

static enum qkv_status config_unknown(const struct config *c, const char *key) {
    size_t count = 0;
    while (qkv_train_option(count)) count++;
    const char *closest = qkv_closest_name(key, config_name, NULL, count);
    if (closest)
        return qkv_fail(c->ctx, QKV_FORMAT, "%s: there is no training option \"%.100s\"; did you mean \"%s\"?", c->path,
                        key, closest);
    return qkv_fail(c->ctx, QKV_FORMAT, "%s: there is no training option \"%.100s\"; remove it", c->path, key);
}

/* ---- texts ------------------------------------------------------------------------------------------------------ */

/* How many bytes the texts of a value take, their zeros counted; jansson has read them from a file, so they can be
 * counted. */
static size_t config_bytes(const json_t *value) {
    size_t bytes = json_is_string(value) ? json_string_length(value) + 1 : 0;
    for (size_t i = 0; i < json_array_size(value); i++) bytes += config_bytes(json_array_get(value, i));
    return bytes;
}

static const char *config_copy(struct config *c, const json_t *text) {
    char *copy = c->texts;
    const size_t n = json_string_length(text) + 1;
    memcpy(copy, json_string_value(text), n);
    c->texts += n;
    return copy;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static enum qkv_status config_set(const struct config *c, const char *key, const char *value) {
    const enum qkv_status status = qkv_train_set(c->ctx, c->options, key, value);
    if (status) qkv_fail_at(c->ctx, "%s", c->path);
    return status;
}

static enum qkv_status config_set_names(struct config *c, const char *key, const json_t *value) {
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    enum qkv_status status = QKV_OK;
    if (!json_is_string(value) && !json_is_array(value)) return config_wrong(c, key, "a text, a list of texts or null");
    for (size_t i = 0; i < count && !status; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        status = json_is_string(item) ? config_set(c, key, config_copy(c, item))
                                      : config_wrong(c, key, "a text, a list of texts or null");
    }
    return status;
}

/* A value that is not null. */
static enum qkv_status config_set_value(struct config *c, const struct qkv_train_option *option, const json_t *value) {
    const char *key = option->name;
    char text[QKV_REAL_TEXT];
    switch (option->type) {
    case QKV_TRAIN_TEXT:
        if (!json_is_string(value)) return config_wrong(c, key, "a text or null");
        return config_set(c, key, config_copy(c, value));
    case QKV_TRAIN_DATA:
    case QKV_TRAIN_FILES:
    case QKV_TRAIN_PATTERNS:
        return config_set_names(c, key, value);
    case QKV_TRAIN_REAL:
        if (!json_is_number(value)) return config_wrong(c, key, "a number");
        qkv_real_text(text, json_number_value(value));
        return config_set(c, key, text);
    case QKV_TRAIN_COUNT:
        if (!json_is_integer(value)) return config_wrong(c, key, "a whole number");
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        return config_set(c, key, text);
    case QKV_TRAIN_FLAG:
        if (!json_is_boolean(value)) return config_wrong(c, key, "true or false");
        break;
    }
    return config_set(c, key, json_is_true(value) ? "true" : "false");
}

/* null in a record is a text that the run did not have; in an object it is as if the key were not there. */
static enum qkv_status config_take(struct config *c, const char *key, const json_t *value) {
    const struct qkv_train_option *option;
    struct qkv_train_options *o = c->options;
    size_t i = 0;
    while ((option = qkv_train_option(i)) && strcmp(option->name, key) != 0) i++;
    if (!option) return config_unknown(c, key);
    if (!qkv_train_option_fits(option, c->size)) return qkv_train_fail_size(c->ctx, option);
    const bool text = option->type == QKV_TRAIN_TEXT || qkv_train_option_many(option);
    qkv_train_unset(o, key);
    enum qkv_status status = QKV_OK;
    if (!json_is_null(value)) {
        if (qkv_train_option_many(option)) memset((char *)o + option->offset, 0, QKV_FILES_MAX * sizeof(char *));
        status = config_set_value(c, option, value);
    } else if (!text) {
        return config_wrong(c, key, "a value, not null");
    } else if (c->record) {
        memset((char *)o + option->offset, 0,
               (qkv_train_option_many(option) ? QKV_FILES_MAX : 1) * sizeof(const char *));
    }
    if (!c->record) return status;
    qkv_train_mark(o->origin.given, i, false);
    qkv_train_mark(o->origin.settled, i, true);
    return status;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* What a record has beside its options is about the texts and the weights of the run, and changes nothing here. */
static enum qkv_status config_check_record(const struct config *c, json_t *root) {
    static const char *const known[] = {"format",    "version", "options", "texts",
                                        "tokenizer", "beside",  "from",    "extended"};
    const char *format = json_string_value(json_object_get(root, "format")), *key;
    json_t *value;
    if (!format || strcmp(format, QKV_TRAIN_FORMAT) != 0)
        return config_wrong(c, "format", "\"" QKV_TRAIN_FORMAT "\", or be left out of an object of options");
    if (json_integer_value(json_object_get(root, "version")) != 1) return config_wrong(c, "version", "1");
    if (!json_is_object(json_object_get(root, "options"))) return config_wrong(c, "options", "an object");
    json_object_foreach(root, key, value) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i], key) != 0) i++;
        if (i == sizeof known / sizeof *known)
            return qkv_fail(c->ctx, QKV_FORMAT, "%s: the record of a run has no key \"%.100s\"; remove it", c->path,
                            key);
    }
    return QKV_OK;
}

static enum qkv_status config_apply(struct config *c, json_t *root, char **texts) {
    enum qkv_status status = QKV_OK;
    const char *key;
    json_t *value, *values = root;
    size_t bytes = 1;
    c->record = json_object_get(root, "format") != NULL;
    if (!json_is_object(root)) return config_wrong(c, "the file", "an object of options");
    if (c->record) status = config_check_record(c, root);
    if (status) return status;
    if (c->record) values = json_object_get(root, "options");
    json_object_foreach(values, key, value) bytes += config_bytes(value);
    c->texts = *texts = qkv_allocate(c->ctx, bytes, 1);
    if (!*texts) return QKV_MEMORY;
    json_object_foreach(values, key, value) {
        if (!status) status = config_take(c, key, value);
    }
    return status;
}

enum qkv_status qkv_train_read_options(struct qkv_context *ctx, const char *path, struct qkv_train_options *options,
                                       char **texts) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    QKV_NEED(ctx, options);
    QKV_NEED(ctx, texts);
    struct qkv_train_options changed;
    struct config c = {.ctx = ctx, .path = path, .options = &changed};
    struct qkv_map map = {0};
    json_t *root = NULL;
    *texts = NULL;
    enum qkv_status status = qkv_train_take(ctx, &changed, options);
    if (status) return status;
    c.size = options->size;
    status = qkv_read_file(ctx, path, &map);
    if (!status)
        status = qkv_json_load(
            ctx, &(struct qkv_json_text){path, CONFIG_HELP, map.data, map.size, QKV_TRAIN_FILE_BYTES}, &root);
    if (!status) status = config_apply(&c, root, texts);
    if (!status) qkv_options_give(options, &changed, sizeof changed);
    json_decref(root);
    qkv_unmap_file(&map);
    if (!status) return QKV_OK;
    free(*texts);
    *texts = NULL;
    return status;
}
