/* JSON files of a folder of sentence-transformers and of the folders inside it. */
#include <stdlib.h>
#include <string.h>

#include "io/pooling.h"
#include "io/published_files.h"

void qkv_pooling_close(struct qkv_pooling_file *f) {
    json_decref(f->root);
    free(f->path);
    *f = (struct qkv_pooling_file){.ctx = f->ctx};
}

enum qkv_status qkv_pooling_open(struct qkv_pooling_file *f, const char *folder, const char *inner, const char *name) {
    bool found = false;
    if (inner && (strchr(inner, '/') || !strcmp(inner, "..")))
        return qkv_fail(f->ctx, QKV_FORMAT, "%s: the path \"%.80s\" does not name a folder inside the folder",
                        f->path ? f->path : folder, inner);
    char *whole = inner && *inner ? qkv_join_path(f->ctx, folder, inner) : NULL;
    qkv_pooling_close(f);
    f->path = qkv_join_path(f->ctx, whole ? whole : folder, name);
    free(whole);
    if (!f->path) return QKV_MEMORY;
    enum qkv_status status = qkv_file_find(f->ctx, f->path, &found);
    return status || !found ? status : qkv_published_json(f->ctx, f->path, &f->root);
}

enum qkv_status qkv_pooling_refuse(const struct qkv_pooling_file *f, const char *key, const char *instead) {
    const json_t *value = json_object_get(f->root, key);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    enum qkv_status status =
        qkv_fail(f->ctx, QKV_SPEC, "%s: %s is %.60s; it can be %s", f->path, key, text ? text : "missing", instead);
    free(text);
    return status;
}
