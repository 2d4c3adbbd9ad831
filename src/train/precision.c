/* precision: which one a run is trained in, and which one the record of a run names. */
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "train/train.h"

enum qkv_status qkv_train_precision(struct qkv_context *ctx, struct qkv_train_options *options, bool fresh) {
    if (strcmp(options->precision, "auto") == 0) {
        const char *chosen = fresh && qkv_auto_precision(ctx) == QKV_MIXED_BF16 ? "bf16" : "fp32";
        char *owned = qkv_copy_string(ctx, chosen);
        if (!owned) return QKV_MEMORY;
        free((void *)(uintptr_t)options->precision);
        options->precision = owned;
    }
    qkv_context_set_precision(ctx, strcmp(options->precision, "bf16") == 0 ? QKV_MIXED_BF16 : QKV_FP32);
    return QKV_OK;
}

/* Of a record whose format is ours; others, and runs from before the option, name none. "auto" is of such a run, too. */
static enum qkv_status precision_named(struct qkv_context *ctx, const char *path, const json_t *root,
                                       enum qkv_precision *precision) {
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *value = json_object_get(json_object_get(root, "options"), "precision");
    const char *name = json_string_value(value);
    if (!format || strcmp(format, QKV_TRAIN_FORMAT) != 0 || !value) return QKV_OK;
    if (!name || (strcmp(name, "fp32") != 0 && strcmp(name, "bf16") != 0 && strcmp(name, "auto") != 0))
        return qkv_fail(ctx, QKV_FORMAT,
                        "%s: precision must be fp32, bf16 or auto; restore the file, or say which precision to use",
                        path);
    if (strcmp(name, "bf16") == 0) *precision = QKV_MIXED_BF16;
    return QKV_OK;
}

enum qkv_status qkv_model_precision(struct qkv_context *ctx, const char *folder, enum qkv_precision *precision) {
    QKV_CALL(ctx);
    struct qkv_map map = {0};
    json_t *root = NULL;
    bool found = false;
    *precision = QKV_FP32;
    char *path = qkv_join_path(ctx, folder, QKV_TRAIN_FILE);
    if (!path) return QKV_MEMORY;
    enum qkv_status status = qkv_file_find(ctx, path, &found);
    if (found) status = qkv_read_file(ctx, path, &map);
    if (found && !status)
        status = qkv_json_load(ctx,
                               &(struct qkv_json_text){path,
                                                       "it records the precision: restore it, or say which precision "
                                                       "to use",
                                                       map.data, map.size, QKV_TRAIN_FILE_BYTES},
                               &root);
    if (root) status = precision_named(ctx, path, root, precision);
    json_decref(root);
    qkv_unmap_file(&map);
    free(path);
    return status;
}
