/* Reads a whole spec from JSON: settings are put into the tree, words of version 1 become those of version 2, then the
 * keys are read and checked. */
#include "model/spec_reader.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20 };

static enum qkv_status load_tree(const struct qkv_spec_reader *r, const char *json, size_t size, json_t **root) {
    const struct qkv_json_text text = {.name = r->name, .data = json, .size = size, .max_size = FILE_BYTES};
    enum qkv_status status = qkv_json_load(r->ctx, &text, root);
    if (status) return status;
    if (!json_is_object(*root))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s is not a spec: it must be a JSON object, {\"format\": \"qkv\", ...}",
                        r->name);
    return QKV_OK;
}

/* Drops a vocabulary that no stack or head needs, which is known after all keys are read. */
static enum qkv_status drop_vocabulary(const struct qkv_spec_reader *r, struct qkv_spec *spec) {
    const size_t setting = qkv_spec_reader_setting(r, "vocab");
    if (qkv_spec_has_tokens(spec)) return QKV_OK;
    if (setting < r->setting_count && r->idle) r->idle[setting] = true;
    if (setting < r->setting_count && !r->idle)
        return qkv_spec_reader_fail(
            r, "vocab", "vocab is %d, but the model neither reads nor writes tokens; leave it out", spec->vocab);
    spec->vocab = spec->source_vocab = 0;
    return QKV_OK;
}

/* Kinds without self attention have no position, even if the common keys have one. */
static void drop_positions(struct qkv_stack_spec *decoder) {
    const struct qkv_position_spec none = {
        .kind = QKV_POSITION_NONE, .theta = 10000, .fraction = 1, .max = 8, .buckets = 32, .max_distance = 128};
    for (int i = 0; i < decoder->kind_count; i++)
        if (decoder->kinds[i].cross_only) decoder->kinds[i].attention.position = none;
}

enum qkv_status qkv_spec_parse_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *json,
                                   size_t size, const struct qkv_settings *settings) {
    struct qkv_spec_reader r = {.ctx = ctx,
                                .name = name ? name : "spec",
                                .settings = settings->items,
                                .setting_count = settings->count,
                                .idle = settings->idle};
    struct qkv_written_spec *written = qkv_written_allocate(ctx), complete;
    json_t *root = NULL;
    memset(spec, 0, sizeof *spec);
    if (!written) return QKV_MEMORY;
    written->reading = true;
    for (size_t i = 0; r.idle && i < r.setting_count; i++) r.idle[i] = false;
    enum qkv_status status = load_tree(&r, json, size, &root);
    json_t *file = !status ? json_deep_copy(root) : NULL;
    if (!status && !file) status = qkv_fail_memory(ctx, size, "a spec");
    r.shared = !status ? qkv_allocate(ctx, r.setting_count + 1, sizeof *r.shared) : NULL;
    if (!status && !r.shared) status = QKV_MEMORY;
    r.file = file;
    r.tree = root;
    if (!status) qkv_version1_make_room(&r, root);
    if (!status) status = qkv_spec_reader_settings(&r, root);
    struct qkv_place place = qkv_spec_place(written);
    written->pair =
        json_is_object(json_object_get(root, "encoder")) && json_is_object(json_object_get(root, "decoder"));
    if (!status) status = qkv_version1_read(&r, &place, root);
    if (!status) status = qkv_spec_reader_keys(&r, qkv_spec_keys, &place, root);
    if (!status) status = drop_vocabulary(&r, &written->spec);
    if (!status) drop_positions(&written->spec.decoder);
    json_decref(root);
    json_decref(file);
    free(r.shared);
    qkv_spec_write(&written->spec, &complete);
    if (!status) status = qkv_spec_check_written(ctx, &complete, r.name, false);
    if (status == QKV_SPEC) qkv_version1_rename(&r);
    if (!status) status = qkv_spec_copy(ctx, &written->spec, spec);
    qkv_written_free(written);
    return status;
}

enum qkv_status qkv_spec_parse(struct qkv_context *ctx, struct qkv_spec *spec, const char *name, const char *json,
                               size_t size, const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, name);
    QKV_NEED_ALL(ctx, size, json);
    QKV_NEED_ALL(ctx, setting_count, settings);
    return qkv_spec_parse_all(ctx, spec, name, json, size,
                              &(struct qkv_settings){.items = settings, .count = setting_count});
}

enum qkv_status qkv_spec_read_all(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                  const struct qkv_settings *settings) {
    struct qkv_map map;
    memset(spec, 0, sizeof *spec);
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (!status && map.size > FILE_BYTES)
        status = qkv_fail(ctx, QKV_FORMAT, "%s is not a spec: it has %zu bytes, a config.json has at most %d", path,
                          map.size, FILE_BYTES);
    if (!status) status = qkv_spec_parse_all(ctx, spec, path, (const char *)map.data, map.size, settings);
    qkv_unmap_file(&map);
    return status;
}

enum qkv_status qkv_spec_read(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                              const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, spec);
    QKV_NEED(ctx, path);
    QKV_NEED_ALL(ctx, setting_count, settings);
    return qkv_spec_read_all(ctx, spec, path, &(struct qkv_settings){.items = settings, .count = setting_count});
}

enum qkv_status qkv_spec_check_settings(struct qkv_context *ctx, const char *const *settings, size_t setting_count) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED_ALL(ctx, setting_count, settings);
    struct qkv_spec_reader r = {.ctx = ctx, .settings = settings, .setting_count = setting_count};
    struct qkv_written_spec *nothing = qkv_written_allocate(ctx);
    json_t *root = nothing ? json_object() : NULL;
    if (!root) {
        qkv_written_free(nothing);
        return qkv_fail_memory(ctx, sizeof *nothing, "settings");
    }
    nothing->reading = true;
    struct qkv_place place = qkv_spec_place(nothing);
    enum qkv_status status = qkv_spec_reader_settings(&r, root);
    json_t *first = status ? NULL : qkv_version1_take(root);
    if (!status && !first) status = qkv_fail_memory(ctx, sizeof *nothing, "settings");
    if (!status) status = qkv_spec_reader_check_values(&r, qkv_version1_keys, &place, first);
    if (!status) status = qkv_spec_reader_check_values(&r, qkv_spec_keys, &place, root);
    json_decref(first);
    json_decref(root);
    qkv_written_free(nothing);
    return status;
}
