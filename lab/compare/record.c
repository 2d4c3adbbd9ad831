/* record: compare.json, the options of a comparison. The same command continues the comparison; another one cannot
 * mix its runs with it:
 *
 *   {"format": "qkv-compare", "version": 1, "preset": "nano-gpt", "spec": null, "set": […], "specs": […],
 *    "axis": ["kv=mha,mqa"], "training": ["data=…", "steps=1000"], "seeds": 1, "cache": [64, …],
 *    "variants": [{"name": …, "spec": {…}}], "files": "812 1700000000000000000 89abcdef01234567\n"}
 *
 * It is written before the texts are joined, then with "texts": "not yet", and again when they are there. "files" has
 * the size, the time of change and the hash of each file that variants read from elsewhere, if there are any. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_load.h"
#include "lab/compare/compare_room.h"

#define RECORD_TEXTS "texts"
#define RECORD_FILES "files"
#define RECORD_BYTES ((size_t)1 << 24)

static void put_texts(struct qkv_json *json, const char *key, const char *const *items, size_t count) {
    qkv_json_key(json, key);
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < count; i++) qkv_json_text(json, items[i]);
    qkv_json_end(json, ']');
}

static void put_variants(struct qkv_json *json, const struct qkv_comparison *c) {
    qkv_json_key(json, "variants");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < c->count; i++) {
        const struct qkv_variant *v = &c->variants[i].shown;
        char *spec = NULL;
        qkv_json_begin(json, '{');
        qkv_json_put_text(json, "name", v->name);
        if (!v->failure && !json->status) json->status = qkv_spec_print(c->ctx, &v->spec, &spec);
        qkv_json_put_text(json, "spec", spec);
        qkv_free(spec);
        qkv_json_end(json, '}');
    }
    qkv_json_end(json, ']');
}

/* `texts`: they are there; else the key "texts" says that they are not. Records of earlier versions never have the
 * key. */
static void put_all(struct qkv_json *json, const struct qkv_comparison *c, const struct qkv_compare_options *o,
                    bool texts) {
    qkv_json_begin(json, '{');
    qkv_json_put_text(json, "format", "qkv-compare");
    qkv_json_put_integer(json, "version", 1);
    qkv_json_put_text(json, "preset", c->preset);
    qkv_json_put_text(json, "spec", o->spec);
    put_texts(json, "set", o->settings, o->setting_count);
    put_texts(json, "specs", o->specs, o->spec_count);
    put_texts(json, "axis", o->axes, o->axis_count);
    put_texts(json, "training", o->training, o->training_count);
    qkv_json_put_integer(json, "seeds", (int64_t)c->seeds);
    qkv_json_key(json, "cache");
    qkv_json_begin(json, '[');
    for (size_t i = 0; i < c->cache_count; i++) qkv_json_integer(json, (int64_t)c->caches[i]);
    qkv_json_end(json, ']');
    put_variants(json, c);
    struct qkv_buffer files = {0};
    if (c->file_count && !json->status) json->status = qkv_comparison_print_files(c, &files);
    if (c->file_count && !json->status) qkv_json_put_text(json, RECORD_FILES, files.data);
    qkv_buffer_free(&files);
    if (!texts) qkv_json_put_text(json, RECORD_TEXTS, "not yet");
    qkv_json_end(json, '}');
}

/* Writes a value for a message: the items of a list one after the other. */
static void record_describe(const json_t *value, char *text, size_t size) {
    size_t used = 0, i;
    json_t *item;
    text[0] = 0;
    if (json_is_string(value)) snprintf(text, size, "%s", json_string_value(value));
    if (json_is_integer(value)) snprintf(text, size, "%lld", (long long)json_integer_value(value));
    json_array_foreach((json_t *)(uintptr_t)value, i, item) {
        char one[160] = "";
        if (json_is_string(item)) snprintf(one, sizeof one, "%s", json_string_value(item));
        if (json_is_integer(item)) snprintf(one, sizeof one, "%lld", (long long)json_integer_value(item));
        if (used < size) used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", one);
    }
    if (!text[0]) snprintf(text, size, "nothing");
}

/* Returns the value of `option` in a list of training options ("steps=" in "steps=1000"), and the list without it; 0
 * if it has none. */
static double record_length(const json_t *training, const char *option, json_t **others) {
    const size_t n = strlen(option);
    double length = 0;
    size_t i;
    json_t *item;
    *others = json_array();
    json_array_foreach((json_t *)(uintptr_t)training, i, item) {
        const char *text = json_string_value(item);
        if (text && !strncmp(text, option, n))
            qkv_real_parse(text + n, &length);
        else
            json_array_append(*others, item);
    }
    return length;
}

/* Whether the only change is more steps, or more epochs. */
static bool record_is_longer_by(const json_t *then, const json_t *now, const char *option) {
    json_t *others_then, *others_now;
    const double before = record_length(then, option, &others_then), here = record_length(now, option, &others_now);
    const bool longer = here > before && json_equal(others_then, others_now);
    json_decref(others_then);
    json_decref(others_now);
    return longer;
}

/* Epochs are compared as epochs: the number of steps is not yet known. */
static bool record_is_longer(const json_t *then, const json_t *now) {
    json_t *others;
    const bool begun = record_length(then, "epochs=", &others) > 0;
    json_decref(others);
    return record_is_longer_by(then, now, begun ? "epochs=" : "steps=");
}

/* Refuses the first option that differs. *longer: the only change is more steps or epochs. */
static enum qkv_status record_compare(struct qkv_comparison *c, const json_t *then, const json_t *now, bool *longer) {
    const char *key;
    json_t *value;
    *longer = false;
    json_object_foreach((json_t *)(uintptr_t)now, key, value) {
        char before[256], here[256];
        const json_t *old = json_object_get(then, key);
        if (json_equal(value, old)) continue;
        if (!strcmp(key, "training") && record_is_longer(old, value)) {
            *longer = true;
            continue;
        }
        if (!strcmp(key, "variants"))
            return qkv_fail(c->ctx, QKV_ARGUMENT,
                            "the specs have changed since the comparison in %s began; bring them back, or choose "
                            "another folder",
                            c->folder);
        record_describe(old, before, sizeof before);
        record_describe(value, here, sizeof here);
        return qkv_fail(c->ctx, QKV_ARGUMENT,
                        "the comparison in %s was begun with other options: %s was %s and is now %s; go on with the "
                        "same ones, or choose another folder",
                        c->folder, key, before, here);
    }
    return QKV_OK;
}

/* Returns the first of `names` that exists in the comparison's folder; NULL if none does. */
static const char *record_find(const struct qkv_comparison *c, const char *const *names, size_t count) {
    const char *found = NULL;
    for (size_t i = 0; i < count && !found; i++) {
        char *path = qkv_join_path(NULL, c->folder, names[i]);
        if (path && qkv_file_exists(path)) found = names[i];
        free(path);
    }
    return found;
}

/* Compares the record with the options. A record whose texts were never made is not a comparison that has begun. */
static enum qkv_status check_record(struct qkv_comparison *c, const char *path, const json_t *now, bool *longer) {
    struct qkv_map map;
    *longer = false;
    enum qkv_status status = qkv_read_file(c->ctx, path, &map);
    if (status) return status;
    json_t *then;
    const struct qkv_json_text text = {.name = path,
                                       .help = "restore the file, or choose another folder",
                                       .data = map.data,
                                       .size = map.size,
                                       .max_size = RECORD_BYTES};
    status = qkv_json_load(c->ctx, &text, &then);
    qkv_unmap_file(&map);
    if (status) return status;
    const char *format = json_string_value(json_object_get(then, "format"));
    c->begun = !json_object_get(then, RECORD_TEXTS);
    if (!format || strcmp(format, "qkv-compare") != 0)
        status = qkv_fail(c->ctx, QKV_FORMAT, "%s is no record of a comparison; choose another folder", path);
    else if (c->begun)
        status = record_compare(c, then, now, longer);
    const char *files = json_string_value(json_object_get(then, RECORD_FILES)); /* earlier versions wrote none */
    if (!status && c->begun && files) status = qkv_comparison_read_files(c, files, path);
    json_decref(then);
    return status;
}

/* Refuses a folder with a run or a model of its own. If no comparison has begun there, files with the names that a
 * comparison writes belong to somebody else: only `force` replaces them, each when its new version is ready. */
static enum qkv_status check_free(struct qkv_comparison *c, bool force) {
    static const char *const runs[] = {QKV_TRAIN_FILE}, *const models[] = {QKV_WEIGHTS_FILE, QKV_CONFIG_FILE},
                             *const own[] = {QKV_COMPARISON_DATA, QKV_COMPARISON_VALID, QKV_COMPARISON_RESULTS,
                                             QKV_COMPARISON_TABLE, QKV_COMPARISON_PAGE};
    const char *name;
    if (record_find(c, runs, sizeof runs / sizeof *runs))
        return qkv_fail(c->ctx, QKV_FILE, "%s already holds a run; choose another folder", c->folder);
    if (record_find(c, models, sizeof models / sizeof *models))
        return qkv_fail(c->ctx, QKV_FILE, "%s already holds a model; choose another folder", c->folder);
    if (!force && (name = record_find(c, own, sizeof own / sizeof *own)))
        return qkv_fail(c->ctx, QKV_FILE,
                        "%s already holds a %s that is not of a comparison; choose another folder, or --force to "
                        "replace it",
                        c->folder, name);
    for (size_t i = 0; i < c->count; i++) {
        const struct qkv_texts *folders = &c->variants[i].folders;
        name = record_find(c, (const char *const *)folders->items, folders->count);
        if (name)
            return qkv_fail(c->ctx, QKV_FILE,
                            "%s already holds a %s, which is not of a comparison; choose another folder", c->folder,
                            name);
    }
    return QKV_OK;
}

static enum qkv_status record_write(struct qkv_comparison *c, const struct qkv_compare_options *options,
                                    const char *path, bool texts) {
    struct qkv_json json = {.ctx = c->ctx, .style = QKV_JSON_SCRIPT};
    put_all(&json, c, options, texts);
    enum qkv_status status = json.status;
    if (!status) status = qkv_buffer_append(c->ctx, &json.text, "\n", 1);
    if (!status) status = qkv_write_file(c->ctx, path, json.text.data, json.text.size);
    qkv_buffer_free(&json.text);
    return status;
}

/* Builds the record of the options, as it is read back. */
static enum qkv_status record_now(struct qkv_comparison *c, const struct qkv_compare_options *options, const char *path,
                                  json_t **now) {
    struct qkv_json json = {.ctx = c->ctx, .style = QKV_JSON_SCRIPT};
    put_all(&json, c, options, true);
    enum qkv_status status = json.status;
    if (!status)
        status =
            qkv_json_load(c->ctx,
                          &(struct qkv_json_text){
                              .name = path, .data = json.text.data, .size = json.text.size, .max_size = RECORD_BYTES},
                          now);
    qkv_buffer_free(&json.text);
    return status;
}

/* Rank 0 makes the folder and the record; the others find it. */
static enum qkv_status record_open(struct qkv_comparison *c, const struct qkv_compare_options *options,
                                   const char *path, const json_t *now) {
    if (c->ranks.rank && !qkv_file_exists(path))
        return qkv_fail(c->ctx, QKV_FILE,
                        "%s, which rank 0 has written, is missing on this rank; choose a folder that all ranks share",
                        path);
    bool longer = false;
    if (c->ranks.rank) return check_record(c, path, now, &longer);
    enum qkv_status status = qkv_make_folder(c->ctx, c->folder);
    if (!status) status = qkv_lock_folder(c->ctx, c->folder, "another comparison is running in this folder", &c->lock);
    const bool there = !status && qkv_file_exists(path);
    if (there) status = check_record(c, path, now, &longer);
    if (!status && longer) return record_write(c, options, path, true);
    if (status || c->begun) return status;
    status = check_free(c, options->force || there);
    return status ? status : record_write(c, options, path, false);
}

enum qkv_status qkv_comparison_record(struct qkv_comparison *c, const struct qkv_compare_options *options) {
    char *path = qkv_join_path(c->ctx, c->folder, QKV_COMPARISON_RECORD);
    json_t *now = NULL;
    enum qkv_status status = path ? record_now(c, options, path, &now) : QKV_MEMORY;
    if (!status) status = record_open(c, options, path, now);
    json_decref(now);
    free(path);
    return status;
}

enum qkv_status qkv_comparison_record_texts(struct qkv_comparison *c, const struct qkv_compare_options *options,
                                            bool failed) {
    char *path = qkv_join_path(c->ctx, c->folder, QKV_COMPARISON_RECORD);
    enum qkv_status status = path ? QKV_OK : QKV_MEMORY;
    if (!status && failed)
        unlink(path);
    else if (!status)
        status = record_write(c, options, path, true);
    free(path);
    return status;
}
