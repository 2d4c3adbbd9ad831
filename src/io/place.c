/* What a path to a model names: a model folder, a folder of sentence-transformers with the model in one of its folders,
 * or a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "io/io.h"
#include "io/pooling.h"

static bool is_weights_file(const char *path) {
    static const char end[] = ".safetensors";
    struct stat info;
    const size_t n = strlen(path);
    return n >= sizeof end - 1 && strcmp(path + n - (sizeof end - 1), end) == 0 &&
           (stat(path, &info) != 0 || !S_ISDIR(info.st_mode));
}

/* Reads modules.json, which may name a folder inside this one as the model's. */
static enum qkv_status place_modules(struct qkv_context *ctx, struct qkv_model_place *place) {
    char *inner;
    enum qkv_status status = qkv_pooling_model(ctx, place->folder, &inner);
    if (status || !inner) return status;
    place->modules = place->folder;
    place->folder = inner;
    return QKV_OK;
}

enum qkv_status qkv_model_place(struct qkv_context *ctx, const char *path, struct qkv_model_place *place) {
    const bool file = is_weights_file(path);
    const char *slash = strrchr(path, '/');
    *place = (struct qkv_model_place){.named = file};
    if (!file)
        place->folder = qkv_copy_string(ctx, path);
    else if (slash)
        place->folder = qkv_copy_bytes(ctx, path, (size_t)(slash - path) + 1);
    else
        place->folder = qkv_copy_string(ctx, ".");
    enum qkv_status status = place->folder && !file ? place_modules(ctx, place) : QKV_OK;
    if (place->folder && !status)
        place->weights = file ? qkv_copy_string(ctx, path) : qkv_join_path(ctx, place->folder, QKV_WEIGHTS_FILE);
    if (place->weights) return QKV_OK;
    qkv_model_place_free(place);
    return status ? status : QKV_MEMORY;
}

void qkv_model_place_free(struct qkv_model_place *place) {
    free(place->folder);
    free(place->weights);
    free(place->modules);
    *place = (struct qkv_model_place){0};
}
