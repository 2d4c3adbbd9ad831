/* What a folder of a tokenizer says: its JSON files, and the special tokens that they name. */
#include "text/folder.h"

#include <stdlib.h>
#include <sys/stat.h>

const char *const qkv_role_keys[QKV_TOKEN_ROLES] = {
#define FOLDER_KEY(name, key, help) [QKV_TOKEN_ROLE_##name] = key,
    QKV_TOKEN_ROLE_LIST(FOLDER_KEY)
#undef FOLDER_KEY
};

bool qkv_folder_has(const struct qkv_folder *f, const char *file) {
    struct stat info;
    char *name = qkv_join_path(f->ctx, f->path, file);
    const bool has = name && stat(name, &info) == 0 && S_ISREG(info.st_mode);
    free(name);
    return has;
}

enum qkv_status qkv_folder_json(const struct qkv_folder *f, const char *file, size_t max, json_t **root) {
    *root = NULL;
    if (!qkv_folder_has(f, file)) return QKV_OK;
    char *name = qkv_join_path(f->ctx, f->path, file);
    struct qkv_map map;
    enum qkv_status status = name ? qkv_read_file(f->ctx, name, &map) : QKV_MEMORY;
    if (!status) {
        const struct qkv_json_text text = {.name = name, .data = map.data, .size = map.size, .max_size = max};
        status = qkv_json_load(f->ctx, &text, root);
        qkv_unmap_file(&map);
    }
    free(name);
    return status;
}

const char *qkv_folder_special(const struct qkv_folder *f, const char *key) {
    const json_t *both[] = {f->config, f->map};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(both[i], key), *content = json_object_get(value, "content");
        const char *text = json_string_value(content ? content : value);
        if (text) return text;
    }
    return NULL;
}
