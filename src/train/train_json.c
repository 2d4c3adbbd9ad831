/* train.json: what a run was started with. The options, one key each, and what the texts and the tokenizer are known
 * by, so that a run is resumed with the same ones or not at all. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "train/train.h"

#define VERSION 1

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static enum qkv_status print_text(struct qkv_context *ctx, struct qkv_buffer *out, const char *name, const char *text) {
    if (!text) return qkv_buffer_print(ctx, out, "null");
    json_t *value = json_string(text);
    if (!value)
        return qkv_fail(ctx, QKV_ARGUMENT, "%s is not valid UTF-8, so %s cannot name it; rename the file", name,
                        QKV_TRAIN_FILE);
    char *quoted = json_dumps(value, JSON_ENCODE_ANY);
    json_decref(value);
    if (!quoted) return qkv_fail_memory(ctx, strlen(text), QKV_TRAIN_FILE);
    enum qkv_status status = qkv_buffer_append(ctx, out, quoted, strlen(quoted));
    free(quoted);
    return status;
}

/* A name alone is a text, several are a list. */
static enum qkv_status print_names(struct qkv_context *ctx, struct qkv_buffer *out, const char *name,
                                   const char *const *files) {
    enum qkv_status status = QKV_OK;
    if (!files[0] || !files[1]) return print_text(ctx, out, name, files[0]);
    for (size_t i = 0; i < QKV_FILES_MAX && files[i] && !status; i++) {
        status = qkv_buffer_print(ctx, out, "%s", i ? ", " : "[");
        if (!status) status = print_text(ctx, out, name, files[i]);
    }
    return status ? status : qkv_buffer_print(ctx, out, "]");
}

static enum qkv_status print_option(struct qkv_context *ctx, struct qkv_buffer *out,
                                    const struct qkv_train_options *options, const struct qkv_train_option *option) {
    const void *place = (const char *)options + option->offset;
    char real[QKV_REAL_TEXT];
    switch (option->type) {
    case QKV_TRAIN_TEXT:
        return print_text(ctx, out, option->name, *(const char *const *)place);
    case QKV_TRAIN_FILES:
        return print_names(ctx, out, option->name, place);
    case QKV_TRAIN_REAL:
        qkv_real_text(real, *(const double *)place);
        return qkv_buffer_print(ctx, out, "%s", real);
    case QKV_TRAIN_FLAG:
        return qkv_buffer_print(ctx, out, "%s", *(const bool *)place ? "true" : "false");
    case QKV_TRAIN_COUNT:
        break;
    }
    return qkv_buffer_print(ctx, out, "%lld", (long long)*(const int64_t *)place);
}

static enum qkv_status print_file(struct qkv_context *ctx, struct qkv_buffer *out, const struct qkv_text_file *file) {
    enum qkv_status status = qkv_buffer_print(ctx, out, "\n            {\"path\": ");
    if (!status) status = print_text(ctx, out, file->path, file->path);
    if (!status)
        status = qkv_buffer_print(ctx, out, ", \"bytes\": %llu, \"hash\": \"%016llx\", \"tokens\": %llu",
                                  (unsigned long long)file->bytes, (unsigned long long)file->hash,
                                  (unsigned long long)file->tokens);
    if (!status && file->lines)
        status = qkv_buffer_print(ctx, out, ", \"lines\": %llu", (unsigned long long)file->lines);
    return status ? status : qkv_buffer_print(ctx, out, ", \"held_out\": %llu}", (unsigned long long)file->held_out);
}

/* files NULL, or none: they are not said. */
static enum qkv_status print_facts(struct qkv_context *ctx, struct qkv_buffer *out, const char *name,
                                   const struct qkv_text_facts *facts, const struct qkv_text_files *files) {
    if (facts->bytes == 0) return qkv_buffer_print(ctx, out, "        \"%s\": null", name);
    enum qkv_status status = qkv_buffer_print(
        ctx, out, "        \"%s\": {\"bytes\": %llu, \"hash\": \"%016llx\", \"tokens\": %llu", name,
        (unsigned long long)facts->bytes, (unsigned long long)facts->hash, (unsigned long long)facts->tokens);
    for (size_t i = 0; files && i < files->count && !status; i++) {
        status = qkv_buffer_print(ctx, out, "%s", i ? "," : ", \"files\": [");
        if (!status) status = print_file(ctx, out, &files->items[i]);
    }
    if (!status && files && files->count) status = qkv_buffer_print(ctx, out, "\n        ]");
    return status ? status : qkv_buffer_print(ctx, out, "}");
}

/* What the sources of pairs, or the labels of lines, are known by. */
static enum qkv_status print_beside(struct qkv_context *ctx, struct qkv_buffer *out,
                                    const struct qkv_run_facts *facts) {
    enum qkv_status status = qkv_buffer_print(ctx, out, ",\n    \"beside\": {\n");
    if (!status) status = print_facts(ctx, out, "data", &facts->beside_data, NULL);
    if (!status) status = qkv_buffer_print(ctx, out, ",\n");
    if (!status) status = print_facts(ctx, out, "valid", &facts->beside_valid, NULL);
    if (!status)
        status = qkv_buffer_print(ctx, out, ",\n        \"tokenizer\": {\"vocab\": %llu, \"hash\": \"%016llx\"}\n    }",
                                  (unsigned long long)facts->beside_data.vocab,
                                  (unsigned long long)facts->beside_data.tokenizer);
    return status;
}

static enum qkv_status print_all(struct qkv_context *ctx, struct qkv_buffer *out,
                                 const struct qkv_train_options *options, const struct qkv_run_facts *facts) {
    const struct qkv_train_option *option;
    enum qkv_status status = qkv_buffer_print(
        ctx, out, "{\n    \"format\": \"%s\",\n    \"version\": %d,\n    \"options\": {", QKV_TRAIN_FORMAT, VERSION);
    for (size_t i = 0; !status && (option = qkv_train_option(i)); i++) {
        status = qkv_buffer_print(ctx, out, "%s\n        \"%s\": ", i ? "," : "", option->name);
        if (!status) status = print_option(ctx, out, options, option);
    }
    if (!status) status = qkv_buffer_print(ctx, out, "\n    },\n    \"texts\": {\n");
    if (!status) status = print_facts(ctx, out, "data", &facts->data, &facts->data_files);
    if (!status) status = qkv_buffer_print(ctx, out, ",\n");
    if (!status) status = print_facts(ctx, out, "valid", &facts->valid, &facts->valid_files);
    if (!status)
        status = qkv_buffer_print(ctx, out, "\n    },\n    \"tokenizer\": {\"vocab\": %llu, \"hash\": \"%016llx\"}",
                                  (unsigned long long)facts->data.vocab, (unsigned long long)facts->data.tokenizer);
    if (!status && facts->beside_data.bytes) status = print_beside(ctx, out, facts);
    if (!status && facts->from_bytes)
        status = qkv_buffer_print(ctx, out, ",\n    \"from\": {\"bytes\": %llu, \"hash\": \"%016llx\"}",
                                  (unsigned long long)facts->from_bytes, (unsigned long long)facts->from_hash);
    if (!status) status = qkv_seams_print(ctx, out, &facts->seams);
    return status ? status : qkv_buffer_print(ctx, out, "\n}\n");
}

enum qkv_status qkv_train_json_write(struct qkv_context *ctx, const char *folder,
                                     const struct qkv_train_options *options, const struct qkv_run_facts *facts) {
    struct qkv_buffer out = {0};
    char *path = qkv_join_path(ctx, folder, QKV_TRAIN_FILE);
    enum qkv_status status = path ? print_all(ctx, &out, options, facts) : QKV_MEMORY;
    if (!status) status = qkv_write_file(ctx, path, out.data, out.size);
    qkv_buffer_free(&out);
    free(path);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

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
    case QKV_TRAIN_FILES:
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
    json_int_t tokens = json_integer_value(json_object_get(file, "tokens"));
    json_int_t lines = json_integer_value(json_object_get(file, "lines"));
    *out =
        (struct qkv_text_file){.path = (char *)(uintptr_t)path, .tokens = (uint64_t)tokens, .lines = (uint64_t)lines};
    return path && tokens >= 0 && lines >= 0 && read_count(file, "bytes", &out->bytes) &&
           read_hash(file, "hash", &out->hash);
}

/* The files of a text, of which together it has the bytes and tokens; a run of before that has one, which its option names. */
static enum qkv_status read_files(struct qkv_context *ctx, const char *path, const json_t *text,
                                  const char *const *names, const struct qkv_text_facts *facts,
                                  struct qkv_text_files *files) {
    const json_t *list = json_object_get(text, "files");
    struct qkv_text_file file = {(char *)(uintptr_t)names[0], facts->bytes, facts->hash, facts->tokens, 0, 0};
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
    if (!read_facts(texts, "data", tokenizer, &facts->data))
        return train_json_wrong(ctx, path, "texts.data",
                                "an object of bytes, hash and tokens beside a tokenizer of vocab and hash");
    if (options->valid && !read_facts(texts, "valid", tokenizer, &facts->valid))
        return train_json_wrong(ctx, path, "texts.valid",
                                "an object of bytes, hash and tokens, as there is a validation text");
    status = read_files(ctx, path, json_object_get(texts, "data"), qkv_feed_files(options), &facts->data,
                        &facts->data_files);
    if (!status && options->valid)
        status = read_files(ctx, path, json_object_get(texts, "valid"), options->valid_files, &facts->valid,
                            &facts->valid_files);
    if (status || (!options->pairs && !options->labeled)) return status;
    const json_t *beside = json_object_get(root, "beside"), *names = json_object_get(beside, "tokenizer");
    if (!read_facts(beside, "data", names, &facts->beside_data))
        return train_json_wrong(ctx, path, "beside.data",
                                "an object of bytes, hash and tokens beside a tokenizer of vocab and hash");
    if (options->valid && !read_facts(beside, "valid", names, &facts->beside_valid))
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
        qkv_text_files_free(&facts->data_files);
        qkv_text_files_free(&facts->valid_files);
    }
    json_decref(root);
    qkv_unmap_file(&map);
    free(path);
    return status;
}
