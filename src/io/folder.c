/* Reads model folders: config.json, model.safetensors and tokenizer.json, and optionally source_tokenizer.json and
 * labels.txt (the names of the classes, one per line). The weights carry digests of the spec and of the folder's texts,
 * which are checked. folder_write.c writes the folders. */
#include "io/generation.h"
#include "io/io.h"
#include "io/labels.h"
#include "io/pooling.h"
#include "io/published.h"
#include "io/safetensors.h"
#include "model/model.h"
#include "model/spec.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

static enum qkv_status wrong_shape(struct qkv_model *m, const char *path, const struct qkv_array *want,
                                   const struct qkv_array *have) {
    char asked[QKV_SHAPE_TEXT], found[QKV_SHAPE_TEXT];
    return qkv_fail(m->ctx, QKV_SHAPE, "%s: %s is %s but config.json makes it %s", path, want->name,
                    qkv_shape_text(have->shape, have->rank, found), qkv_shape_text(want->shape, want->rank, asked));
}

static enum qkv_status read_parameter(struct qkv_model *m, const struct qkv_tensors *file, const char *path, size_t i) {
    const struct qkv_weight *weight = &m->weights.list[i];
    const struct qkv_array *want = &weight->array, *have = qkv_tensors_find(file, want->name);
    if (!have) return qkv_fail(m->ctx, QKV_FORMAT, "%s has no tensor %s, which config.json asks for", path, want->name);
    bool same = have->rank == want->rank;
    for (int d = 0; d < want->rank && same; d++) {
        same = have->shape[d] == want->shape[d];
    }
    if (!same) return wrong_shape(m, path, want, have);
    if (!qkv_type_is_real(have->dtype))
        return qkv_fail(m->ctx, QKV_FORMAT, "%s: %s holds integers; weights are floats", path, want->name);
    return weight->stored ? QKV_OK : qkv_tensors_floats(file, have, weight->data);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_checkpoint(const struct qkv_tensors *file) {
    const char *format = qkv_tensors_metadata(file, "format");
    return format && strcmp(format, QKV_CHECKPOINT_FORMAT) == 0;
}

/* Fails if the file has a tensor that no weight is named after. */
static enum qkv_status find_stranger(struct qkv_model *m, const struct qkv_tensors *file, const char *path) {
    size_t count = m->weights.count;
    const bool moments = is_checkpoint(file);
    const char **names = qkv_allocate(m->ctx, count, sizeof *names);
    if (!names) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) {
        names[i] = m->weights.list[i].array.name;
    }
    qsort(names, count, sizeof *names, compare_names);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < qkv_tensors_count(file) && !status; i++) {
        const char *name = qkv_tensors_at(file, i)->name;
        if (moments && strncmp(name, QKV_CHECKPOINT_OPTIMIZER, sizeof QKV_CHECKPOINT_OPTIMIZER - 1) == 0) continue;
        if (!bsearch(&name, names, count, sizeof *names, compare_names)) {
            status = qkv_fail(m->ctx, QKV_FORMAT, "%s has a tensor %s that config.json does not ask for", path, name);
        }
    }
    free(names);
    return status;
}

/* Checks the spec's digest. Files of other programs, and old ones, have none: their spec is not known, and they
 * pass. */
static enum qkv_status check_digest(struct qkv_model *m, const struct qkv_tensors *file, const char *path) {
    const char *saved = qkv_tensors_metadata(file, QKV_DIGEST_KEY);
    const char *spec =
        is_checkpoint(file) ? qkv_tensors_metadata(file, "spec") : NULL; /* the spec itself, not its digest */
    char digest[QKV_DIGEST_TEXT], of_spec[QKV_DIGEST_TEXT];
    if ((!saved && !spec) || m->ctx->ignore_digest) return QKV_OK;
    enum qkv_status status = qkv_spec_digest(m->ctx, &m->spec, digest);
    if (!status && spec) {
        struct qkv_spec *parsed = qkv_allocate(m->ctx, 1, sizeof *parsed);
        status = parsed ? qkv_spec_parse(m->ctx, parsed, path, spec, strlen(spec), NULL, 0) : QKV_MEMORY;
        if (!status) status = qkv_spec_digest(m->ctx, parsed, of_spec);
        free(parsed);
        saved = of_spec;
    }
    if (status || strcmp(saved, digest) == 0) return status;
    return qkv_fail(m->ctx, QKV_SPEC, QKV_DIGEST_SENTENCE, path, QKV_DIGEST_TEXT, saved, digest);
}

static enum qkv_status read_weights(struct qkv_model *m, const void *owner) {
    const struct qkv_tensors *file = owner;
    const char *path = qkv_tensors_path(file);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < m->weights.count && !status; i++) {
        status = read_parameter(m, file, path, i);
    }
    qkv_weights_changed(&m->weights);
    if (!status) {
        status = find_stranger(m, file, path);
    }
    if (!status) { /* checked last: where shapes differ, the message about the tensor says more */
        status = check_digest(m, file, path);
    }
    return status ? status : qkv_ties_check(m->ctx, file);
}

/* ---- the file that weights are read from ------------------------------------------------------------------------- */

static const struct qkv_array *file_find(const void *file, const char *name) {
    return qkv_tensors_find(file, name);
}

static enum qkv_status file_check(const void *file) {
    return qkv_tensors_check(file);
}

static void file_close(void *file) {
    qkv_tensors_close(file);
}

static struct qkv_model_file file_of(struct qkv_tensors *file) {
    return (struct qkv_model_file){
        .source = {.file = file, .find = file_find}, .owner = file, .check = file_check, .close = file_close};
}

static enum qkv_status read_tokenizer(struct qkv_model *m, const char *path,
                                      enum qkv_status (*set)(struct qkv_model *, struct qkv_tokenizer *)) {
    bool found;
    enum qkv_status status = qkv_file_find(m->ctx, path, &found);
    if (status || !found) return status;
    struct qkv_tokenizer *tokenizer;
    status = qkv_tokenizer_load(m->ctx, path, &tokenizer);
    if (status) return status; /* the message names the path */
    status = set(m, tokenizer);
    if (status) qkv_fail_at(m->ctx, "%s", path);
    return status;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

/* The paths of a folder: all are set, or making them has failed. */
struct paths {
    char *config, *weights, *tokenizer, *source_tokenizer, *labels;
};

static enum qkv_status make_paths(struct qkv_context *ctx, const char *folder, struct paths *p) {
    p->config = qkv_join_path(ctx, folder, QKV_CONFIG_FILE);
    p->weights = qkv_join_path(ctx, folder, QKV_WEIGHTS_FILE);
    p->tokenizer = qkv_join_path(ctx, folder, QKV_TOKENIZER_FILE);
    p->source_tokenizer = qkv_join_path(ctx, folder, QKV_SOURCE_FILE);
    p->labels = qkv_join_path(ctx, folder, QKV_LABELS_FILE);
    return p->config && p->weights && p->tokenizer && p->source_tokenizer && p->labels ? QKV_OK : QKV_MEMORY;
}

static void free_paths(struct paths *p) {
    free(p->config);
    free(p->weights);
    free(p->tokenizer);
    free(p->source_tokenizer);
    free(p->labels);
}

static enum qkv_status weights_bytes(struct qkv_context *ctx, const struct qkv_spec *spec,
                                     const struct qkv_model_file *file, const struct qkv_product *product,
                                     size_t *bytes) {
    struct qkv_model *plan;
    enum qkv_status status = qkv_model_allocate(ctx, spec, true, file, &plan);
    if (status) return status;
    status = qkv_model_prepare(plan, product, false);
    *bytes = qkv_model_bytes(plan) + file->memory;
    plan->file.owner = NULL; /* still the caller's */
    qkv_model_free(plan);
    return status;
}

/* Checks that the weights fit into memory, in bf16 precision both copies of them. Making the model checks everything
 * else that it needs. */
static enum qkv_status check_memory(struct qkv_context *ctx, const struct qkv_spec *spec,
                                    const struct qkv_model_file *file, const char *folder) {
    size_t bytes, plain = 0;
    char help[64] = "", text[QKV_BYTES_TEXT];
    if (ctx->ignore_memory) return QKV_OK;
    const struct qkv_product *product = qkv_product_of(ctx);
    enum qkv_status status = weights_bytes(ctx, spec, file, product, &bytes);
    if (!status && product->packed_bytes) { /* fp32 needs no copy of them */
        status = weights_bytes(ctx, spec, file, &qkv_product_f32, &plain);
        snprintf(help, sizeof help, "choose option precision = fp32 (%s)", qkv_bytes_text(text, plain));
    }
    return status ? status : qkv_memory_check(ctx, bytes, folder, help);
}

/* Fails only if config.json is known to be missing: a folder that cannot be searched may well hold a model. */
static enum qkv_status check_config(struct qkv_context *ctx, const char *folder, const struct paths *p) {
    bool found;
    enum qkv_status status = qkv_file_find(ctx, p->config, &found);
    if (!status && !found) status = qkv_fail(ctx, QKV_FILE, "%s is not a model folder: it has no config.json", folder);
    return status;
}

static enum qkv_status check_weights(struct qkv_context *ctx, const char *folder, const struct paths *p) {
    bool found;
    enum qkv_status status = qkv_file_find(ctx, p->weights, &found);
    if (!status && !found)
        status = qkv_fail(ctx, QKV_FILE,
                          "%s has no model.safetensors; a training run writes it at its first evaluation", folder);
    return status;
}

/* Checks that a checkpoint exists that the path names. */
static enum qkv_status check_named(struct qkv_context *ctx, const char *path) {
    bool found;
    enum qkv_status status = qkv_file_find(ctx, path, &found);
    if (!status && !found)
        status = qkv_fail(ctx, QKV_FILE, "there is no %s; name a model folder, or a checkpoint in one", path);
    return status;
}

/* The model of a spec with the weights of a file. The model takes the file over if it reads weights from it; else, and
 * on failure, the file is closed. */
static enum qkv_status load_file(struct qkv_context *ctx, const struct qkv_spec *spec,
                                 const struct qkv_model_file *file,
                                 enum qkv_status (*read)(struct qkv_model *, const void *owner), const char *folder,
                                 bool planned, struct qkv_model **out) {
    enum qkv_status status = planned ? QKV_OK : check_memory(ctx, spec, file, folder);
    if (!status) status = qkv_model_allocate(ctx, spec, planned, file, out);
    if (!status && !planned) status = read(*out, file->owner);
    if (!status && qkv_weights_stored(&(*out)->weights)) return QKV_OK;
    if (*out) (*out)->file = (struct qkv_model_file){0};
    file->close(file->owner);
    return status;
}

static enum qkv_status load_weights(struct qkv_context *ctx, const struct qkv_spec *spec, const struct paths *p,
                                    const char *folder, bool planned, struct qkv_model **out) {
    struct qkv_tensors *tensors;
    enum qkv_status status = qkv_tensors_open(ctx, p->weights, &tensors);
    if (status) return status;
    const struct qkv_model_file file = file_of(tensors);
    return load_file(ctx, spec, &file, read_weights, folder, planned, out);
}

/* A tokenizer that cannot be read is not an error: the model then works with ids, and keeps the message. A model of
 * images needs none. */
static enum qkv_status read_published_tokenizer(struct qkv_model *m, const char *folder) {
    struct qkv_tokenizer *tokenizer;
    enum qkv_status status = qkv_tokenizer_open(m->ctx, folder, &tokenizer);
    if (!status) status = qkv_model_set_tokenizer(m, tokenizer);
    if (!status || status == QKV_MEMORY) return status;
    if (qkv_spec_has_tokens(&m->spec)) {
        m->origin.tokenizer = qkv_copy_string(m->ctx, qkv_message(m->ctx));
        if (!m->origin.tokenizer) return QKV_MEMORY;
    }
    qkv_forgive(m->ctx);
    return QKV_OK;
}

/* The tokenizer of the sources, where they have one of their own: a file that only qkv writes, also into a published
 * folder. */
static enum qkv_status read_source_tokenizer(struct qkv_model *m, const char *folder, const struct paths *p) {
    enum qkv_status status = read_tokenizer(m, p->source_tokenizer, qkv_model_set_source_tokenizer);
    return status || !m->source_tokenizer
               ? status
               : qkv_tokenizer_read_roles(m->ctx, m->source_tokenizer, folder, QKV_SOURCE_ROLES_FILE);
}

static enum qkv_status load_published(struct qkv_context *ctx, struct qkv_published *published,
                                      const struct qkv_spec *spec, const struct qkv_model_place *place,
                                      const struct paths *paths, const char *path, bool planned,
                                      struct qkv_model **out) {
    struct qkv_model *m = NULL;
    struct qkv_model_origin origin = {0};
    struct qkv_model_generation generation;
    struct qkv_model_pooling pooling = {0};
    enum qkv_status status = qkv_published_match(published, spec);
    if (!status) status = qkv_published_generation(published, spec, &generation);
    if (!status)
        status = qkv_pooling_read(ctx, place->modules ? place->modules : place->folder, place->folder, spec, planned,
                                  &pooling);
    if (!status && !planned) status = qkv_published_room(published);
    if (!status) status = qkv_published_origin(published, &origin);
    if (status) {
        if (origin.family) origin.free(origin.family);
        qkv_model_pooling_free(&pooling);
        qkv_published_close(published);
        return status;
    }
    char **labels = qkv_published_labels(published, spec);
    const struct qkv_model_file file = qkv_published_file(published);
    status = load_file(ctx, spec, &file, qkv_published_read, path, planned, &m);
    *out = m;
    if (m)
        m->origin = origin, m->generation = generation, m->pooling = pooling;
    else
        origin.free(origin.family), free(origin.warning), qkv_model_pooling_free(&pooling);
    if (!status) status = qkv_published_freeze(m);
    if (!status && !planned && labels) {
        /* labels that are not distinct: the classes have numbers instead */
        if (qkv_model_set_labels(m, (const char *const *)labels, (size_t)spec->head.classes)) qkv_forgive(ctx);
    }
    for (int i = 0; labels && i < spec->head.classes; i++) free(labels[i]);
    free(labels);
    if (!status && !planned) status = read_published_tokenizer(m, place->folder);
    return status || planned ? status : read_source_tokenizer(m, place->folder, paths);
}

static enum qkv_status read_texts(struct qkv_model *m, const char *folder, const struct paths *p) {
    enum qkv_status status = read_tokenizer(m, p->tokenizer, qkv_model_set_tokenizer);
    if (!status && m->tokenizer) status = qkv_tokenizer_read_roles(m->ctx, m->tokenizer, folder, QKV_ROLES_FILE);
    if (!status) status = qkv_generation_read(m->ctx, folder, &m->spec, NULL, &m->generation);
    if (!status) status = qkv_pooling_read(m->ctx, folder, folder, &m->spec, false, &m->pooling);
    if (!status) status = read_source_tokenizer(m, folder, p);
    return status ? status : qkv_labels_read(m, p->labels);
}

/* `spec` receives the model's spec. */
static enum qkv_status folder_read(struct qkv_context *ctx, const char *path, bool planned, struct qkv_spec *spec,
                                   struct qkv_model **out) {
    struct paths p = {0};
    struct qkv_model_place place;
    struct qkv_published *published = NULL;
    enum qkv_status status = qkv_model_place(ctx, path, &place);
    if (status) return status;
    status = make_paths(ctx, place.folder, &p);
    free(p.weights);
    p.weights = place.weights;
    place.weights = NULL;
    if (!status && place.named) status = check_named(ctx, path);
    if (!status) status = check_config(ctx, place.folder, &p);
    if (!status && !place.named) status = qkv_published_open(ctx, place.folder, true, &published, spec);
    if (published) {
        status = load_published(ctx, published, spec, &place, &p, path, planned, out);
    } else {
        if (!status) status = check_weights(ctx, place.folder, &p);
        if (!status) status = qkv_spec_read(ctx, spec, p.config, NULL, 0);
        if (!status) status = load_weights(ctx, spec, &p, path, planned, out);
        if (!status && planned)
            status = qkv_pooling_read(ctx, place.folder, place.folder, spec, true, &(*out)->pooling);
        if (!status && !planned) status = read_texts(*out, place.folder, &p);
    }
    qkv_model_place_free(&place);
    free_paths(&p);
    if (status) {
        qkv_model_free(*out);
        *out = NULL;
    }
    return status;
}

static enum qkv_status folder_open(struct qkv_context *ctx, const char *path, bool planned, struct qkv_model **out) {
    *out = NULL;
    struct qkv_spec *spec = qkv_allocate(ctx, 1, sizeof *spec);
    if (!spec) return QKV_MEMORY;
    const enum qkv_status status = folder_read(ctx, path, planned, spec, out);
    free(spec);
    return status;
}

enum qkv_status qkv_model_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, out);
    *out = NULL;
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    return folder_open(ctx, folder, false, out);
}

enum qkv_status qkv_model_plan_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, out);
    *out = NULL;
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    return folder_open(ctx, folder, true, out);
}
