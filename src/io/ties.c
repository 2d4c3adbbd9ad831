/* ties: digests that tie the files of a model together. The metadata of weights has digests of the texts in their
 * folder, so that weights with the tokenizer of another model are refused. docs/digests.md describes them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "io/safetensors.h"

static const struct {
    const char *file, *key;
} ties[QKV_TIES] = {{QKV_TOKENIZER_FILE, "tokenizer_digest"},
                    {QKV_SOURCE_FILE, "source_tokenizer_digest"},
                    {QKV_LABELS_FILE, "labels_digest"}};

/* The digest of a file; "" if it does not exist. */
static enum qkv_status ties_digest(struct qkv_context *ctx, const char *path, char text[QKV_TIE_TEXT]) {
    struct qkv_map map;
    bool found;
    *text = 0;
    enum qkv_status status = qkv_file_find(ctx, path, &found);
    if (status || !found) return status;
    status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    snprintf(text, QKV_TIE_TEXT, "%016" PRIx64, qkv_hash(QKV_HASH_START, map.data, map.size));
    qkv_unmap_file(&map);
    return QKV_OK;
}

enum qkv_status qkv_ties_make(struct qkv_context *ctx, const char *folder, struct qkv_ties *made) {
    enum qkv_status status = QKV_OK;
    made->count = 0;
    for (size_t i = 0; i < QKV_TIES && !status; i++) {
        char *path = qkv_join_path(ctx, folder, ties[i].file), *text = made->digests[i];
        status = path ? ties_digest(ctx, path, text) : QKV_MEMORY;
        if (!status && *text) {
            made->pairs[2 * made->count] = ties[i].key;
            made->pairs[2 * made->count + 1] = text;
            made->count++;
        }
        free(path);
    }
    return status;
}

enum qkv_status qkv_ties_check(struct qkv_context *ctx, const struct qkv_tensors *weights) {
    const char *name = qkv_tensors_path(weights), *slash = strrchr(name, '/');
    char text[QKV_TIE_TEXT],
        *folder = slash ? qkv_copy_bytes(ctx, name, (size_t)(slash - name) + 1) : qkv_copy_string(ctx, "");
    enum qkv_status status = folder ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < QKV_TIES && !status && !ctx->ignore_digest; i++) {
        const char *saved = qkv_tensors_metadata(weights, ties[i].key);
        char *path = saved ? qkv_join_path(ctx, folder, ties[i].file) : NULL;
        if (saved) status = path ? ties_digest(ctx, path, text) : QKV_MEMORY;
        if (saved && !status && *text && strcmp(saved, text) != 0)
            status = qkv_fail(
                ctx, QKV_FORMAT,
                "%s was saved with another %s than %s (digest %.*s, not %s), so it belongs to another model or "
                "was changed; restore it, or use both anyway with option ignore_digest",
                name, ties[i].file, path, QKV_TIE_TEXT, saved, text);
        free(path);
    }
    free(folder);
    return status;
}
