/* own_weights: weights under the names of this library, in one file, with the spec in config.json next to it. The
 * weights carry digests of the spec and of the folder's texts, which are checked. folder_write.c writes the folders. */
#include <stdlib.h>
#include <string.h>

#include "io/opening.h"
#include "io/pooling.h"
#include "io/safetensors.h"
#include "model/spec.h"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* The folder has no weights, or an adapter alone. */
static enum qkv_status own_fail(struct qkv_opening *o) {
    const char *folder = o->place.folder;
    bool adapter = false;
    char *path = qkv_join_path(o->ctx, folder, QKV_ADAPTER_WEIGHTS_FILE);
    enum qkv_status status = path ? qkv_file_find(o->ctx, path, &adapter) : QKV_MEMORY;
    free(path);
    if (status) return status;
    return adapter
               ? qkv_fail(
                     o->ctx, QKV_FILE,
                     "%s has an adapter and no model; open the model that it belongs to, which " QKV_ADAPTER_CONFIG_FILE
                     " names, with the adapter (option adapter)",
                     folder)
               : qkv_fail(o->ctx, QKV_FILE,
                          "%s has no model.safetensors; a training run writes it at its first evaluation", folder);
}

/* Checkpoints of a run with an adapter have no model either; they name it. */
static enum qkv_status own_check(struct qkv_opening *o, const struct qkv_tensors *tensors) {
    const char *base = qkv_tensors_metadata(tensors, QKV_TENSORS_BASE);
    if (!base) return QKV_OK;
    return qkv_fail(o->ctx, QKV_FILE,
                    "%s is a checkpoint of an adapter and has no model; open its model, %s, with the run's folder as "
                    "the adapter (option adapter)",
                    o->place.weights, base);
}

enum qkv_status qkv_own_open(struct qkv_opening *o) {
    struct qkv_tensors *tensors = NULL;
    bool found;
    if (o->state) return QKV_OK;
    char *config = qkv_join_path(o->ctx, o->place.folder, QKV_CONFIG_FILE);
    enum qkv_status status = config ? qkv_file_find(o->ctx, o->place.weights, &found) : QKV_MEMORY;
    if (!status && !found) status = own_fail(o);
    if (!status) status = qkv_spec_read(o->ctx, o->spec, config, NULL, 0);
    if (!status) status = qkv_tensors_open(o->ctx, o->place.weights, &tensors);
    if (!status) status = own_check(o, tensors);
    o->state = tensors;
    free(config);
    return status;
}

void qkv_own_close(struct qkv_opening *o) {
    qkv_tensors_close(o->state);
    o->state = NULL;
}

/* ---- the file that weights are read from ------------------------------------------------------------------------- */

static const struct qkv_array *file_find(const void *file, const char *name) {
    return qkv_tensors_find(file, name);
}

static enum qkv_status file_check(struct qkv_context *ctx, const void *file) {
    return qkv_tensors_check(ctx, file);
}

static void file_close(void *file) {
    qkv_tensors_close(file);
}

enum qkv_status qkv_own_match(struct qkv_opening *o) {
    o->file = (struct qkv_model_file){
        .source = {.file = o->state, .find = file_find}, .owner = o->state, .check = file_check, .close = file_close};
    return qkv_pooling_read(o->ctx, o->place.folder, o->place.folder, &o->model->spec, true, &o->model->pooling);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static enum qkv_status wrong_shape(struct qkv_context *ctx, const char *path, const struct qkv_array *want,
                                   const struct qkv_array *have) {
    char asked[QKV_SHAPE_TEXT], found[QKV_SHAPE_TEXT];
    return qkv_fail(ctx, QKV_SHAPE, "%s: %s is %s but config.json makes it %s", path, want->name,
                    qkv_shape_text(have->shape, have->rank, found), qkv_shape_text(want->shape, want->rank, asked));
}

static enum qkv_status check_weight(struct qkv_context *ctx, const struct qkv_tensors *file,
                                    const struct qkv_array *want) {
    const char *path = qkv_tensors_path(file);
    const struct qkv_array *have = qkv_tensors_find(file, want->name);
    if (!have) return qkv_fail(ctx, QKV_FORMAT, "%s has no tensor %s, which config.json asks for", path, want->name);
    bool same = have->rank == want->rank;
    for (int d = 0; d < want->rank && same; d++) {
        same = have->shape[d] == want->shape[d];
    }
    if (!same) return wrong_shape(ctx, path, want, have);
    if (!qkv_type_is_real(have->dtype))
        return qkv_fail(ctx, QKV_FORMAT, "%s: %s holds integers; weights are floats", path, want->name);
    return QKV_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Fails if the file has a tensor that no weight is named after. */
static enum qkv_status find_stranger(struct qkv_model *m, const struct qkv_tensors *file, const char *besides) {
    size_t count = m->weights.count;
    const char **names = qkv_allocate(m->ctx, count, sizeof *names);
    if (!names) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) {
        names[i] = m->weights.list[i].array.name;
    }
    qsort(names, count, sizeof *names, compare_names);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < qkv_tensors_count(file) && !status; i++) {
        const char *name = qkv_tensors_at(file, i)->name;
        if (besides && strncmp(name, besides, strlen(besides)) == 0) continue;
        if (!bsearch(&name, names, count, sizeof *names, compare_names)) {
            status = qkv_fail(m->ctx, QKV_FORMAT, "%s has a tensor %s that config.json does not ask for",
                              qkv_tensors_path(file), name);
        }
    }
    free(names);
    return status;
}

enum qkv_status qkv_own_check(struct qkv_opening *o, const char *besides) {
    struct qkv_model *m = o->model;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->weights.count && !status; i++) {
        status = check_weight(o->ctx, o->file.owner, &m->weights.list[i].array);
    }
    return status ? status : find_stranger(m, o->file.owner, besides);
}

/* Checked after shapes: where these differ, the message about the tensor says more. Files of other programs, and old
 * ones, have no digest: their spec is not known, and they pass. */
enum qkv_status qkv_own_check_digest(struct qkv_opening *o, const char *saved) {
    char digest[QKV_DIGEST_TEXT];
    enum qkv_status status = QKV_OK;
    if (o->options.ignore_digest) return QKV_OK;
    if (saved) status = qkv_spec_digest(o->ctx, &o->model->spec, digest);
    if (!status && saved && strcmp(saved, digest) != 0)
        status = qkv_fail(o->ctx, QKV_SPEC, QKV_DIGEST_SENTENCE, qkv_tensors_path(o->file.owner), QKV_DIGEST_TEXT,
                          saved, digest);
    return status ? status : qkv_ties_check(o->ctx, o->file.owner);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

size_t qkv_own_bytes(const struct qkv_opening *o, const struct qkv_weight *weight) {
    const struct qkv_array *have = qkv_tensors_find(o->file.owner, weight->array.name);
    return have ? have->bytes : 0;
}

enum qkv_status qkv_own_read(struct qkv_opening *o) {
    struct qkv_weights *weights = &o->model->weights;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < weights->count && !status; i++) {
        const struct qkv_weight *weight = &weights->list[i];
        status = qkv_check_cancelled(o->ctx, "reading weights");
        if (!status && !weight->stored)
            status =
                qkv_tensors_floats(o->file.owner, qkv_tensors_find(o->file.owner, weight->array.name), weight->data);
    }
    qkv_weights_changed(weights);
    return status;
}
