/* shard_index: which shards there are and which files they were made of, as JSON. It is written again, atomically, when
 * a shard is complete. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/shards.h"

#define FORMAT      "qkv shards"
#define INDEX_BYTES ((size_t)1 << 26)
enum { VERSION = 1 };

static uint64_t shards_text(uint64_t hash, const char *text) {
    return qkv_hash(hash, text, strlen(text) + 1);
}

uint64_t qkv_shards_key(const struct qkv_shards_plan *p) {
    const uint64_t numbers[] = {VERSION, p->facts->tokenizer, p->facts->vocab, p->shard_tokens, p->skip_bad};
    uint64_t hash = shards_text(qkv_hash(QKV_HASH_START, numbers, sizeof numbers), p->key);
    for (size_t i = 0; i < p->files->count; i++) {
        const struct qkv_text_file *file = &p->files->items[i];
        const uint64_t facts[] = {file->bytes, file->source};
        hash = qkv_hash(shards_text(hash, file->path), facts, sizeof facts);
    }
    return hash;
}

static char *shards_name(const struct qkv_shards_plan *p, const char *ending) {
    char name[64];
    snprintf(name, sizeof name, "%016llx%s", (unsigned long long)qkv_shards_key(p), ending);
    return qkv_join_path(p->ctx, p->folder, name);
}

char *qkv_shards_path(const struct qkv_shards_plan *p, size_t i) {
    char ending[32];
    snprintf(ending, sizeof ending, "-%05zu.bin", i);
    return shards_name(p, ending);
}

char *qkv_shards_lock(const struct qkv_shards_plan *p) {
    return shards_name(p, ".lock");
}

void qkv_shards_sum(const struct qkv_shards_plan *p, const struct qkv_shards *shards, struct qkv_text_facts *facts) {
    facts->bytes = facts->tokens = 0;
    facts->hash = QKV_HASH_START;
    for (size_t i = 0; i < p->files->count; i++) facts->bytes += p->files->items[i].bytes;
    for (size_t i = 0; i < shards->count; i++) {
        facts->tokens += shards->items[i].tokens;
        facts->hash = qkv_hash(facts->hash, &shards->items[i].hash, sizeof shards->items[i].hash);
    }
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* One list for writing and reading: the numbers of a shard, and those of a file. */
#define SHARD_NUMBERS(X)                                                                                               \
    X(source)                                                                                                          \
    X(tokens)                                                                                                          \
    X(documents)                                                                                                       \
    X(end)                                                                                                             \
    X(bytes)                                                                                                           \
    X(hash)                                                                                                            \
    X(file_tokens)                                                                                                     \
    X(place.file)                                                                                                      \
    X(place.line)                                                                                                      \
    X(place.position)                                                                                                  \
    X(bad.lines)                                                                                                       \
    X(bad.files)
struct index_number {
    const char *name;
    size_t offset;
};
#define SHARD_NUMBER(name) {#name, offsetof(struct qkv_shard, name)},
static const struct index_number shard_numbers[] = {SHARD_NUMBERS(SHARD_NUMBER)};
static const struct index_number file_numbers[] = {{"bytes", offsetof(struct qkv_text_file, bytes)},
                                                   {"changed", offsetof(struct qkv_text_file, changed)},
                                                   {"hash", offsetof(struct qkv_text_file, hash)},
                                                   {"tokens", offsetof(struct qkv_text_file, tokens)}};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Hexadecimal: JSON numbers of many readers have 53 bits. */
static void index_put(struct qkv_json *json, const struct index_number *numbers, size_t count, const void *object) {
    char text[17];
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)object + numbers[i].offset, sizeof value);
        snprintf(text, sizeof text, "%llx", (unsigned long long)value);
        qkv_json_put_text(json, numbers[i].name, text);
    }
}

static bool index_get(const json_t *from, const struct index_number *numbers, size_t count, void *object) {
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_object_get(from, numbers[i].name));
        if (!text || !*text || strlen(text) > 16 || strspn(text, "0123456789abcdef") != strlen(text)) return false;
        const uint64_t value = strtoull(text, NULL, 16);
        memcpy((char *)object + numbers[i].offset, &value, sizeof value);
    }
    return true;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void index_list(struct qkv_json *json, const char *name) {
    qkv_json_line(json, 4);
    qkv_json_key(json, name);
    qkv_json_begin(json, '[');
}

static void index_end(struct qkv_json *json) {
    qkv_json_line(json, 4);
    qkv_json_end(json, ']');
}

enum qkv_status qkv_shards_write(const struct qkv_shards_plan *p, const struct qkv_shards *shards) {
    const struct qkv_shard *last = shards->count ? &shards->items[shards->count - 1] : NULL;
    struct qkv_json json = {.ctx = p->ctx};
    char *path = shards_name(p, ".json");
    if (!path) return QKV_MEMORY;
    qkv_json_begin(&json, '{');
    qkv_json_line(&json, 4);
    qkv_json_put_text(&json, "format", FORMAT);
    qkv_json_line(&json, 4);
    qkv_json_put_integer(&json, "version", VERSION);
    qkv_json_line(&json, 4);
    qkv_json_put_bool(&json, "complete", shards->complete);
    qkv_json_line(&json, 4);
    qkv_json_put_text(&json, "bad_line", last ? last->bad.first_line : "");
    qkv_json_line(&json, 4);
    qkv_json_put_text(&json, "bad_file", last ? last->bad.first_file : "");
    index_list(&json, "shards");
    for (size_t i = 0; i < shards->count; i++) {
        qkv_json_line(&json, 8);
        qkv_json_begin(&json, '{');
        index_put(&json, shard_numbers, COUNT(shard_numbers), &shards->items[i]);
        qkv_json_end(&json, '}');
    }
    index_end(&json);
    index_list(&json, "files");
    for (size_t i = 0; i < p->files->count; i++) {
        qkv_json_line(&json, 8);
        qkv_json_begin(&json, '{');
        qkv_json_put_text(&json, "path", p->files->items[i].path);
        index_put(&json, file_numbers, COUNT(file_numbers), &p->files->items[i]);
        qkv_json_end(&json, '}');
    }
    index_end(&json);
    qkv_json_line(&json, 0);
    qkv_json_end(&json, '}');
    qkv_json_line(&json, 0);
    qkv_json_flush(&json);
    enum qkv_status status = json.status;
    if (!status) status = qkv_write_file(p->ctx, path, json.text.data, json.text.size);
    qkv_json_free(&json);
    free(path);
    return status;
}

void qkv_shards_forget(const struct qkv_shards_plan *p) {
    char *path = shards_name(p, ".json");
    if (path) unlink(path);
    free(path);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Shards are added up to one that does not follow from the one before. */
static enum qkv_status index_shards(const struct qkv_shards_plan *p, const json_t *list, struct qkv_shards *shards) {
    struct qkv_document_place before = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct qkv_shard shard = {0};
        if (!index_get(json_array_get(list, i), shard_numbers, COUNT(shard_numbers), &shard)) break;
        if (shard.place.file > p->files->count || shard.place.file < before.file || !shard.tokens ||
            shard.end > shard.tokens || shard.source >= QKV_FILES_MAX)
            break;
        struct qkv_shard *grown = qkv_list_room(p->ctx, shards->items, &shards->capacity, i, 1, sizeof *grown);
        if (!grown) return QKV_MEMORY;
        shards->items = grown;
        grown[i] = shard;
        shards->count = i + 1;
        before = shard.place;
    }
    return QKV_OK;
}

/* Whether a file is what it was: at the same time of change, or with the same bytes. */
static enum qkv_status index_same(const struct qkv_shards_plan *p, const struct qkv_text_file *then,
                                  const struct qkv_text_file *now, bool complete, bool *same) {
    uint64_t hash;
    *same = then->bytes == now->bytes && then->changed == now->changed;
    if (*same || !complete || then->bytes != now->bytes) return QKV_OK;
    enum qkv_status status = qkv_text_file_hash(p->ctx, now->path, &hash, p->progress, p->user);
    *same = !status && hash == then->hash;
    if (status == QKV_MEMORY || status == QKV_STOPPED) return status;
    if (status) qkv_forgive(p->ctx); /* another file than it was */
    return QKV_OK;
}

/* *touched: some have another time of change than the index says, and the same bytes. */
static enum qkv_status index_files(const struct qkv_shards_plan *p, const json_t *list, bool known,
                                   struct qkv_shards *shards, bool *touched) {
    enum qkv_status status = QKV_OK;
    bool same = json_array_size(list) == p->files->count;
    for (size_t i = 0; i < p->files->count && same && !status; i++) {
        struct qkv_text_file *now = &p->files->items[i], then = {0};
        const bool compare = !(known && shards->complete);
        same = index_get(json_array_get(list, i), file_numbers, COUNT(file_numbers), &then);
        if (same && compare) status = index_same(p, &then, now, shards->complete, &same);
        if (!same) break;
        *touched = *touched || (compare && then.changed != now->changed);
        now->hash = then.hash;
        now->tokens = then.tokens;
    }
    if (!same || status) shards->count = shards->complete = 0;
    return status;
}

static void index_bad(const json_t *root, struct qkv_shards *shards) {
    const char *line = json_string_value(json_object_get(root, "bad_line"));
    const char *file = json_string_value(json_object_get(root, "bad_file"));
    if (!shards->count) return;
    struct qkv_document_bad *bad = &shards->items[shards->count - 1].bad;
    snprintf(bad->first_line, sizeof bad->first_line, "%s", line ? line : "");
    snprintf(bad->first_file, sizeof bad->first_file, "%s", file ? file : "");
}

static bool index_current(const json_t *root) {
    const char *format = json_string_value(json_object_get(root, "format"));
    return format && strcmp(format, FORMAT) == 0 && json_integer_value(json_object_get(root, "version")) == VERSION;
}

enum qkv_status qkv_shards_read(const struct qkv_shards_plan *p, bool known, struct qkv_shards *shards) {
    struct qkv_map map = {0};
    json_t *root = NULL;
    bool found = false, touched = false;
    char *path = shards_name(p, ".json");
    enum qkv_status status = path ? qkv_file_find(p->ctx, path, &found) : QKV_MEMORY;
    if (!status && found) status = qkv_read_file(p->ctx, path, &map);
    if (!status && found)
        status = qkv_json_load(p->ctx,
                               &(struct qkv_json_text){path, "remove it, and it is made again from the texts", map.data,
                                                       map.size, INDEX_BYTES},
                               &root);
    if (!status && index_current(root)) {
        const json_t *list = json_object_get(root, "shards");
        status = index_shards(p, list, shards);
        shards->complete =
            json_is_true(json_object_get(root, "complete")) && shards->count && shards->count == json_array_size(list);
        if (!status) status = index_files(p, json_object_get(root, "files"), known, shards, &touched);
        index_bad(root, shards);
        /* Texts that were compared are not compared again, if the folder can be written. */
        if (!status && touched && shards->complete && qkv_shards_write(p, shards)) qkv_forgive(p->ctx);
    }
    json_decref(root);
    qkv_unmap_file(&map);
    free(path);
    return status;
}
