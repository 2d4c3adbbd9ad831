/* The files of a published model, and its tensors by name. */
#include <stdlib.h>
#include <string.h>

#include "io/published_files.h"
#include "io/safetensors.h"

struct qkv_published_part *qkv_published_part(struct qkv_published *p, const char *name, bool path) {
    struct qkv_published_part *grown = qkv_list_room(p->ctx, p->files, &p->capacity, p->count, 1, sizeof *grown);
    if (!grown) return NULL;
    p->files = grown;
    struct qkv_published_part *part = &p->files[p->count++];
    *part = (struct qkv_published_part){.name = qkv_copy_string(p->ctx, name),
                                        .path = path ? qkv_copy_string(p->ctx, name)
                                                     : qkv_join_path(p->ctx, p->folder, name)};
    return part->name && part->path ? part : NULL;
}

/* ---- tensors by name --------------------------------------------------------------------------------------------- */

const struct qkv_array *qkv_published_exactly(const struct qkv_published *p, const char *name, size_t *file) {
    const struct qkv_array *array = NULL;
    for (size_t i = 0; i < p->count && !array; i++) {
        array = qkv_tensors_find(p->files[i].tensors, name);
        if (array) *file = i;
    }
    return array;
}

/* Finds a tensor under its older name too: old files call the weight and the bias of a norm gamma and beta. */
static const struct qkv_array *find_spelled(const struct qkv_published *p, const char *name, size_t *file) {
    char old[QKV_FAMILY_NAME + 8];
    const struct qkv_array *array = qkv_published_exactly(p, name, file);
    const char *norm = array ? NULL : strstr(name, "LayerNorm.");
    if (!norm) return array;
    snprintf(old, sizeof old, "%.*sLayerNorm.%s", (int)(norm - name), name, norm[10] == 'w' ? "gamma" : "beta");
    return qkv_published_exactly(p, old, file);
}

const struct qkv_array *qkv_published_find(const struct qkv_published *p, const char *name, size_t *file) {
    const struct qkv_array *array = find_spelled(p, name, file);
    char other[QKV_FAMILY_NAME];
    for (size_t i = 0; !array && p->config.family && qkv_family_name(&p->config, name, i, other); i++)
        array = find_spelled(p, other, file);
    return array;
}
