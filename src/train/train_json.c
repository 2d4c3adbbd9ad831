/* train.json: what a run was started with. The options, one key each, and what the texts and the tokenizer are known
 * by, so that a run is resumed with the same ones or not at all. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "base/utf8.h"
#include "train/train.h"

#define VERSION 1

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* A text, or NULL, that is an option's value or a file's name: `name` says which in a failure. */
static void print_text(struct qkv_json *json, const char *name, const char *text) {
    if (text && !json->status && qkv_utf8_valid(text, strlen(text)) < strlen(text))
        json->status = qkv_fail(json->ctx, QKV_ARGUMENT, "%s is not valid UTF-8, so %s cannot name it; rename the file",
                                name, QKV_TRAIN_FILE);
    qkv_json_text(json, text);
}

/* A name alone is a text, several are a list. */
static void print_names(struct qkv_json *json, const char *name, const char *const *files) {
    if (!files[0] || !files[1]) {
        print_text(json, name, files[0]);
        return;
    }
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < QKV_FILES_MAX && files[i]; i++) print_text(json, name, files[i]);
    qkv_json_end(json, ']');
}

static void print_option(struct qkv_json *json, const struct qkv_train_options *options,
                         const struct qkv_train_option *option) {
    const void *place = (const char *)options + option->offset;
    qkv_json_line(json, 8);
    qkv_json_key(json, option->name);
    switch (option->type) {
    case QKV_TRAIN_TEXT:
        print_text(json, option->name, *(const char *const *)place);
        break;
    case QKV_TRAIN_DATA:
    case QKV_TRAIN_FILES:
    case QKV_TRAIN_PATTERNS:
        print_names(json, option->name, place);
        break;
    case QKV_TRAIN_REAL:
        qkv_json_real(json, *(const double *)place);
        break;
    case QKV_TRAIN_FLAG:
        qkv_json_bool(json, *(const bool *)place);
        break;
    case QKV_TRAIN_COUNT:
        qkv_json_integer(json, *(const int64_t *)place);
        break;
    }
}

static void print_hash(struct qkv_json *json, uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    qkv_json_put_text(json, "hash", text);
}

static void print_file(struct qkv_json *json, const struct qkv_text_file *file) {
    qkv_json_line(json, 12);
    qkv_json_begin(json, '{');
    qkv_json_key(json, "path");
    print_text(json, file->path, file->path);
    qkv_json_put_count(json, "bytes", file->bytes);
    print_hash(json, file->hash);
    qkv_json_put_count(json, "tokens", file->tokens);
    if (file->lines) qkv_json_put_count(json, "lines", file->lines);
    if (file->long_lines) qkv_json_put_count(json, "long", file->long_lines);
    qkv_json_put_count(json, "held_out", file->held_out);
    if (file->source) qkv_json_put_count(json, "source", file->source);
    qkv_json_end(json, '}');
}

/* files NULL, or none: they are not said. */
static void print_facts(struct qkv_json *json, const char *name, const struct qkv_text_facts *facts,
                        const struct qkv_text_files *files) {
    qkv_json_line(json, 8);
    if (facts->bytes == 0) {
        qkv_json_put_text(json, name, NULL);
        return;
    }
    qkv_json_key(json, name);
    qkv_json_begin(json, '{');
    qkv_json_put_count(json, "bytes", facts->bytes);
    print_hash(json, facts->hash);
    qkv_json_put_count(json, "tokens", facts->tokens);
    if (files && files->count) {
        qkv_json_key(json, "files");
        qkv_json_begin(json, '[');
        for (size_t i = 0; i < files->count; i++) print_file(json, &files->items[i]);
        qkv_json_line(json, 8);
        qkv_json_end(json, ']');
    }
    qkv_json_end(json, '}');
}

/* What a tokenizer, or the labels, are known by: on a line behind so many spaces. */
static void print_vocab(struct qkv_json *json, int spaces, const struct qkv_text_facts *facts) {
    qkv_json_line(json, spaces);
    qkv_json_key(json, "tokenizer");
    qkv_json_begin(json, '{');
    qkv_json_put_count(json, "vocab", facts->vocab);
    print_hash(json, facts->tokenizer);
    qkv_json_end(json, '}');
}

static void print_begin(struct qkv_json *json, const char *key) {
    qkv_json_line(json, 4);
    qkv_json_key(json, key);
    qkv_json_begin(json, '{');
}

static void print_end(struct qkv_json *json) {
    qkv_json_line(json, 4);
    qkv_json_end(json, '}');
}

/* What the sources of pairs, or the labels of lines, are known by. */
static void print_beside(struct qkv_json *json, const struct qkv_run_facts *facts) {
    print_begin(json, "beside");
    print_facts(json, "data", &facts->texts.beside_data, NULL);
    print_facts(json, "valid", &facts->texts.beside_valid, NULL);
    print_vocab(json, 8, &facts->texts.beside_data);
    print_end(json);
}

/* What the weights of another model are known by; nothing of none. */
static void print_weights(struct qkv_json *json, const char *key, uint64_t bytes, uint64_t hash) {
    if (!bytes) return;
    print_begin(json, key);
    qkv_json_put_count(json, "bytes", bytes);
    print_hash(json, hash);
    qkv_json_end(json, '}');
}

/* The time that templates of talks may write; nothing of other runs. */
static void print_now(struct qkv_json *json, uint64_t now) {
    if (!now) return;
    qkv_json_line(json, 4);
    qkv_json_put_count(json, "now", now);
}

static void print_all(struct qkv_json *json, const struct qkv_train_options *options,
                      const struct qkv_run_facts *facts) {
    const struct qkv_train_option *option;
    qkv_json_begin(json, '{');
    qkv_json_line(json, 4);
    qkv_json_put_text(json, "format", QKV_TRAIN_FORMAT);
    qkv_json_line(json, 4);
    qkv_json_put_integer(json, "version", VERSION);
    print_begin(json, "options");
    for (size_t i = 0; (option = qkv_train_option(i)); i++) print_option(json, options, option);
    print_end(json);
    print_begin(json, "texts");
    print_facts(json, "data", &facts->texts.data, &facts->texts.data_files);
    print_facts(json, "valid", &facts->texts.valid, &facts->texts.valid_files);
    print_end(json);
    print_vocab(json, 4, &facts->texts.data);
    if (facts->texts.beside_data.bytes) print_beside(json, facts);
    print_now(json, facts->texts.now);
    print_weights(json, "from", facts->from_bytes, facts->from_hash);
    print_weights(json, "teacher", facts->teacher_bytes, facts->teacher_hash);
    qkv_seams_print(json, &facts->seams);
    qkv_json_line(json, 0);
    qkv_json_end(json, '}');
    qkv_json_line(json, 0);
    qkv_json_flush(json);
}

enum qkv_status qkv_train_json_write(struct qkv_context *ctx, const char *folder,
                                     const struct qkv_train_options *options, const struct qkv_run_facts *facts) {
    struct qkv_json json = {.ctx = ctx, .style = QKV_JSON_SPACED};
    char *path = qkv_join_path(ctx, folder, QKV_TRAIN_FILE);
    if (!path) return QKV_MEMORY;
    print_all(&json, options, facts);
    enum qkv_status status = json.status;
    if (!status) status = qkv_write_file(ctx, path, json.text.data, json.text.size);
    qkv_json_free(&json);
    free(path);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static enum qkv_status train_json_wrong(struct qkv_context *ctx, const char *path, const char *key,
                                        const char *expected) {
    return qkv_fail(ctx, QKV_FORMAT, "%s: %s must be %s; restore the file or start a new run", path, key, expected);
}

/* A text, null, or a list of texts. */
static enum qkv_status read_names(struct qkv_context *ctx, const char *path, const char *key, const json_t *value,
                                  const char **files) {
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count < 1 || count > QKV_FILES_MAX) return train_json_wrong(ctx, path, key, "a list of at most 64 texts");
    for (size_t i = 0; i < QKV_FILES_MAX; i++) files[i] = NULL;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        files[i] = json_string_value(item);
        if (!files[i] && !json_is_null(value))
            return train_json_wrong(ctx, path, key, "a text, a list of texts or null");
    }
    return QKV_OK;
}

static enum qkv_status read_option(struct qkv_context *ctx, const char *path, const char *key, const json_t *value,
                                   struct qkv_train_options *options) {
    const struct qkv_train_option *option;
    for (size_t i = 0; (option = qkv_train_option(i)) && strcmp(option->name, key) != 0; i++) {
    }
    if (!option) return qkv_fail(ctx, QKV_FORMAT, "%s: there is no training option \"%s\"; remove it", path, key);
    void *place = (char *)options + option->offset;
    double x = json_number_value(value);
    int64_t n = json_integer_value(value);
    const char *text = json_string_value(value);
    switch (option->type) {
    case QKV_TRAIN_TEXT:
        if (!text && !json_is_null(value)) return train_json_wrong(ctx, path, key, "a text or null");
        memcpy(place, &text, sizeof text);
        break;
    case QKV_TRAIN_DATA:
    case QKV_TRAIN_FILES:
    case QKV_TRAIN_PATTERNS:
        return read_names(ctx, path, key, value, place);
    case QKV_TRAIN_REAL:
        if (!json_is_number(value)) return train_json_wrong(ctx, path, key, "a number");
        memcpy(place, &x, sizeof x);
        break;
    case QKV_TRAIN_COUNT:
        if (!json_is_integer(value)) return train_json_wrong(ctx, path, key, "a whole number");
        memcpy(place, &n, sizeof n);
        break;
    case QKV_TRAIN_FLAG:
        if (!json_is_boolean(value)) return train_json_wrong(ctx, path, key, "true or false");
        *(bool *)place = json_is_true(value);
        break;
    }
    return QKV_OK;
}

static bool read_count(const json_t *object, const char *key, uint64_t *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_hash(const json_t *object, const char *key, uint64_t *out) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

static bool read_facts(const json_t *texts, const char *name, const json_t *tokenizer, struct qkv_text_facts *facts) {
    const json_t *text = json_object_get(texts, name);
    return read_count(text, "bytes", &facts->bytes) && read_hash(text, "hash", &facts->hash) &&
           read_count(text, "tokens", &facts->tokens) && read_count(tokenizer, "vocab", &facts->vocab) &&
           read_hash(tokenizer, "hash", &facts->tokenizer);
}

static bool read_file(const json_t *file, struct qkv_text_file *out) {
    const char *path = json_string_value(json_object_get(file, "path"));
    const json_t *bytes = json_object_get(file, "bytes"); /* a file of a mixture may be empty */
    json_int_t tokens = json_integer_value(json_object_get(file, "tokens"));
    json_int_t lines = json_integer_value(json_object_get(file, "lines"));
    json_int_t longer = json_integer_value(json_object_get(file, "long"));
    json_int_t source = json_integer_value(json_object_get(file, "source"));
    *out = (struct qkv_text_file){.path = (char *)(uintptr_t)path,
                                  .bytes = (uint64_t)json_integer_value(bytes),
                                  .tokens = (uint64_t)tokens,
                                  .lines = (uint64_t)lines,
                                  .long_lines = (uint64_t)longer,
                                  .source = (uint32_t)source};
    return path && source >= 0 && source < QKV_FILES_MAX && tokens >= 0 && lines >= 0 && longer >= 0 &&
           json_is_integer(bytes) && json_integer_value(bytes) >= 0 && read_hash(file, "hash", &out->hash);
}

/* The files of a text, of which together it has the bytes and tokens; a run of before that has one, which its option
 * names. */
static enum qkv_status read_files(struct qkv_context *ctx, const char *path, const json_t *text,
                                  const char *const *names, const struct qkv_text_facts *facts,
                                  struct qkv_text_files *files) {
    const json_t *list = json_object_get(text, "files");
    struct qkv_text_file file = {
        .path = (char *)(uintptr_t)names[0], .bytes = facts->bytes, .hash = facts->hash, .tokens = facts->tokens};
    uint64_t bytes = 0, tokens = 0;
    if (!list && !names[1]) return qkv_text_files_add(ctx, files, &file);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!read_file(json_array_get(list, i), &file))
            return train_json_wrong(ctx, path, "texts.*.files", "objects of path, bytes, hash and tokens");
        bytes += file.bytes;
        tokens += file.tokens;
        enum qkv_status status = qkv_text_files_add(ctx, files, &file);
        if (status) return status;
    }
    if (bytes == facts->bytes && tokens == facts->tokens) return QKV_OK;
    return train_json_wrong(ctx, path, "texts.*.files",
                            "a list of files that have the bytes and tokens of the text together");
}

static enum qkv_status read_all(struct qkv_context *ctx, const char *path, const json_t *root,
                                struct qkv_train_options *options, struct qkv_run_facts *facts) {
    const char *format = json_string_value(json_object_get(root, "format")), *key;
    const json_t *tokenizer = json_object_get(root, "tokenizer"), *texts = json_object_get(root, "texts");
    json_t *values = json_object_get(root, "options"), *value;
    if (!format || strcmp(format, QKV_TRAIN_FORMAT) != 0)
        return train_json_wrong(ctx, path, "format", "\"" QKV_TRAIN_FORMAT "\"");
    if (json_integer_value(json_object_get(root, "version")) != VERSION)
        return train_json_wrong(ctx, path, "version", "1");
    if (!json_is_object(values)) return train_json_wrong(ctx, path, "options", "an object");
    enum qkv_status status = qkv_train_defaults(ctx, NULL, options);
    json_object_foreach(values, key, value) {
        if (!status) status = read_option(ctx, path, key, value, options);
    }
    if (status) return status;
    options->origin.recorded = true;
    status = qkv_train_check_values(ctx, options);
    if (status) {
        qkv_fail_at(ctx, "%s", path);
        return status;
    }
    const json_t *from = json_object_get(root, "from");
    if (from && (!read_count(from, "bytes", &facts->from_bytes) || !read_hash(from, "hash", &facts->from_hash)))
        return train_json_wrong(ctx, path, "from",
                                "an object of bytes and hash: those of the weights that the run began with");
    const json_t *teacher = json_object_get(root, "teacher");
    if (teacher &&
        (!read_count(teacher, "bytes", &facts->teacher_bytes) || !read_hash(teacher, "hash", &facts->teacher_hash)))
        return train_json_wrong(ctx, path, "teacher", "an object of bytes and hash: those of the teacher's weights");
    if (json_object_get(root, "now") && !read_count(root, "now", &facts->texts.now))
        return train_json_wrong(ctx, path, "now", "the seconds since 1970 that the chat template may write");
    if (!read_facts(texts, "data", tokenizer, &facts->texts.data))
        return train_json_wrong(ctx, path, "texts.data",
                                "an object of bytes, hash and tokens beside a tokenizer of vocab and hash");
    if (options->valid && !read_facts(texts, "valid", tokenizer, &facts->texts.valid))
        return train_json_wrong(ctx, path, "texts.valid",
                                "an object of bytes, hash and tokens, as there is a validation text");
    status = read_files(ctx, path, json_object_get(texts, "data"), qkv_dataset_files(options), &facts->texts.data,
                        &facts->texts.data_files);
    if (!status && options->valid)
        status = read_files(ctx, path, json_object_get(texts, "valid"), options->valid_files, &facts->texts.valid,
                            &facts->texts.valid_files);
    if (status || qkv_dataset_of(options)->reads != QKV_READS_LINES) return status;
    const json_t *beside = json_object_get(root, "beside"), *names = json_object_get(beside, "tokenizer");
    if (!read_facts(beside, "data", names, &facts->texts.beside_data))
        return train_json_wrong(ctx, path, "beside.data",
                                "an object of bytes, hash and tokens beside a tokenizer of vocab and hash");
    if (options->valid && !read_facts(beside, "valid", names, &facts->texts.beside_valid))
        return train_json_wrong(ctx, path, "beside.valid",
                                "an object of bytes, hash and tokens, as there is a validation file");
    return QKV_OK;
}

enum qkv_status qkv_train_json_read(struct qkv_context *ctx, const char *folder, struct qkv_train_options *options,
                                    struct qkv_run_facts *facts) {
    *options = (struct qkv_train_options){0};
    *facts = (struct qkv_run_facts){0};
    struct qkv_map map = {0};
    struct qkv_train_options borrowed;
    json_t *root = NULL;
    bool found = false;
    char *path = qkv_join_path(ctx, folder, QKV_TRAIN_FILE);
    enum qkv_status status = path ? qkv_file_find(ctx, path, &found) : QKV_MEMORY;
    if (!status && !found)
        status = qkv_fail(ctx, QKV_FILE, "%s holds no training run: there is no %s; name the folder of a run", folder,
                          QKV_TRAIN_FILE);
    if (!status) status = qkv_read_file(ctx, path, &map);
    if (!status)
        status = qkv_json_load(ctx,
                               &(struct qkv_json_text){path, "restore the file or start a new run", map.data, map.size,
                                                       QKV_TRAIN_FILE_BYTES},
                               &root);
    if (!status) status = read_all(ctx, path, root, &borrowed, facts);
    if (!status) status = qkv_seams_read(ctx, path, root, borrowed.steps, &facts->seams);
    if (!status) status = qkv_train_copy(ctx, options, &borrowed);
    if (status) {
        qkv_data_facts_free(&facts->texts);
    }
    json_decref(root);
    qkv_unmap_file(&map);
    free(path);
    return status;
}
