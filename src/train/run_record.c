/* run_record: what the record of a run, train.json, says to those that open its model: its precision, and whether
 * documents were apart. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "io/io.h"
#include "train/train.h"

/* The record of a folder, which the caller frees; *root NULL where there is none, or none of our format. `help`:
 * what to do about a damaged one. */
static enum qkv_status record_read(struct qkv_context *ctx, const char *folder, const char *help, json_t **root) {
    struct qkv_map map = {0};
    bool found = false;
    *root = NULL;
    char *path = qkv_join_path(ctx, folder, QKV_TRAIN_FILE);
    if (!path) return QKV_MEMORY;
    enum qkv_status status = qkv_file_find(ctx, path, &found);
    if (found) status = qkv_read_file(ctx, path, &map);
    if (found && !status)
        status =
            qkv_json_load(ctx, &(struct qkv_json_text){path, help, map.data, map.size, QKV_TRAIN_FILE_BYTES}, root);
    qkv_unmap_file(&map);
    free(path);
    const char *format = *root ? json_string_value(json_object_get(*root, "format")) : NULL;
    if (*root && (!format || strcmp(format, QKV_TRAIN_FORMAT) != 0)) {
        json_decref(*root);
        *root = NULL;
    }
    return status;
}

/* An option; NULL where it is not recorded, as of runs from before it. */
static const json_t *record_option(const json_t *root, const char *name) {
    return json_object_get(json_object_get(root, "options"), name);
}

/* "auto" is of runs from before the option. */
static enum qkv_status record_precision(struct qkv_context *ctx, const char *folder, const json_t *value,
                                        enum qkv_precision *precision) {
    const char *name = json_string_value(value);
    if (!value) return QKV_OK;
    if (!name || (strcmp(name, "fp32") != 0 && strcmp(name, "bf16") != 0 && strcmp(name, "auto") != 0))
        return qkv_fail(ctx, QKV_FORMAT,
                        "%s%s" QKV_TRAIN_FILE
                        ": precision must be fp32, bf16 or auto; restore the file, or say which precision to use",
                        folder, qkv_path_slash(folder));
    if (strcmp(name, "bf16") == 0) *precision = QKV_MIXED_BF16;
    return QKV_OK;
}

enum qkv_status qkv_model_precision(struct qkv_context *ctx, const char *folder, enum qkv_precision *precision) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    QKV_NEED(ctx, precision);
    json_t *root;
    struct qkv_model_place place;
    *precision = QKV_FP32;
    enum qkv_status status = qkv_model_place(ctx, folder, &place);
    if (status) return status;
    status =
        record_read(ctx, place.folder, "it records the precision: restore it, or say which precision to use", &root);
    if (root) status = record_precision(ctx, place.folder, record_option(root, "precision"), precision);
    json_decref(root);
    qkv_model_place_free(&place);
    return status;
}

enum qkv_status qkv_model_documents(struct qkv_context *ctx, const char *folder, bool *documents) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    QKV_NEED(ctx, documents);
    json_t *root;
    struct qkv_model_place place;
    *documents = false;
    enum qkv_status status = qkv_model_place(ctx, folder, &place);
    if (status) return status;
    status = record_read(ctx, place.folder, "it records whether documents are apart", &root);
    const json_t *value = record_option(root, "documents");
    if (!status && value && !json_is_boolean(value))
        status = qkv_fail(ctx, QKV_FORMAT, "%s%s" QKV_TRAIN_FILE ": documents must be true or false; restore the file",
                          place.folder, qkv_path_slash(place.folder));
    *documents = !status && json_is_true(value);
    json_decref(root);
    qkv_model_place_free(&place);
    return status;
}
