/* Published folders: the weights of a spec in tensors of a family. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "io/generation.h"
#include "io/io.h"
#include "io/published_files.h"
#include "io/safetensors.h"
#include "model/spec.h"

static int compare_entries(const void *a, const void *b) {
    const struct qkv_published_entry *x = a, *y = b;
    return strcmp(x->array.name, y->array.name);
}

static const struct qkv_published_entry *entry_find(const struct qkv_published *p, const char *name) {
    const struct qkv_published_entry key = {.array = {.name = name}};
    return bsearch(&key, p->entries, p->entry_count, sizeof key, compare_entries);
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

/* Finds the tensors of rows that are tensors of their own. They may be of several types: take_rows converts each. */
static enum qkv_status match_rows(const struct qkv_published *p, const struct qkv_array *want,
                                  struct qkv_published_entry *e) {
    enum qkv_status status = QKV_OK;
    e->rows = qkv_allocate(p->ctx, e->view.rows, sizeof *e->rows);
    if (!e->rows) return QKV_MEMORY;
    for (size_t r = 0; r < e->view.rows && !status; r++) {
        struct qkv_published_entry row = {.view = e->view};
        qkv_family_row_name(&e->view, r, row.view.name);
        status = qkv_published_locate(p, want, &row);
        e->rows[r] = (struct qkv_published_row){row.theirs, row.file};
    }
    e->theirs = e->rows[0].theirs;
    e->file = e->rows[0].file;
    return status;
}

/* The tensors that a weight is read from, except those of scales. */
static size_t entry_tensors(const struct qkv_published_entry *e) {
    return e->rows ? e->view.rows : 1;
}

static const struct qkv_array *entry_tensor(const struct qkv_published_entry *e, size_t i) {
    return e->rows ? e->rows[i].theirs : e->theirs;
}

/* Whether a weight is read from a tensor. */
static bool is_used(const struct qkv_published *p, const struct qkv_array *theirs) {
    for (size_t i = 0; i < p->entry_count; i++)
        for (size_t r = 0; r < entry_tensors(&p->entries[i]); r++)
            if (entry_tensor(&p->entries[i], r) == theirs) return true;
    return false;
}

static enum qkv_status match_weight(struct qkv_published *p, const struct qkv_spec *spec,
                                    const struct qkv_weight *weight) {
    const struct qkv_array *ours = &weight->array;
    struct qkv_published_entry *e = &p->entries[p->entry_count];
    struct qkv_array want;
    if (!qkv_family_view(&p->config, spec, ours->name, ours->shape[0], &e->view))
        return qkv_fail(p->ctx, QKV_SPEC, "%s: models of type %s have no weight for %s", p->folder,
                        p->config.family->type, ours->name);
    qkv_family_shape(&e->view, ours, spec, &want);
    const bool apart = e->view.flags & QKV_FAMILY_APART;
    p->entry_count++; /* what it owns is freed with it */
    enum qkv_status status = apart ? match_rows(p, &want, e) : qkv_published_locate(p, &want, e);
    if (status) return status;
    e->array = *ours;
    e->array.name = qkv_copy_string(p->ctx, ours->name);
    if (!e->array.name) return QKV_MEMORY;
    e->direct = e->view.order == QKV_FAMILY_PARTS && !e->scales && !apart &&
                !(e->view.flags & (QKV_FAMILY_TRANSPOSED | QKV_FAMILY_PLUS_ONE));
    const size_t rows = apart ? 1 : e->view.total * e->view.slices, row = rows ? e->theirs->bytes / rows : 0;
    e->array.dtype = e->packed ? QKV_MXFP4 : e->theirs->dtype;
    e->array.bytes = e->packed ? qkv_type_span(QKV_MXFP4, weight->rows * weight->columns) : row * ours->shape[0];
    e->repacked = qkv_published_must_repack(e, weight);
    if (e->repacked) p->repacked_bytes += (e->array.bytes + QKV_CACHE_LINE - 1) / QKV_CACHE_LINE * QKV_CACHE_LINE;
    e->array.data = (const char *)e->theirs->data + (e->view.slice * e->view.total + e->view.before) * row;
    return QKV_OK;
}

static int compare_places(const void *a, const void *b) {
    const struct qkv_array *const *x = a, *const *y = b;
    return *x == *y ? 0 : *x < *y ? -1 : 1;
}

/* Fails if the files have a tensor that no weight uses. */
static enum qkv_status find_strangers(struct qkv_published *p) {
    size_t max = 1, count = 0;
    for (size_t i = 0; i < p->entry_count; i++) max += entry_tensors(&p->entries[i]) + 1;
    const struct qkv_array **used = qkv_allocate(p->ctx, max, sizeof *used);
    enum qkv_status status = used ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; used && i < p->entry_count; i++) {
        const struct qkv_published_entry *e = &p->entries[i];
        for (size_t r = 0; r < entry_tensors(e); r++) used[count++] = entry_tensor(e, r);
        if (e->scales) used[count++] = e->scales;
    }
    if (used) qsort(used, count, sizeof *used, compare_places);
    for (size_t f = 0; f < p->count && !status; f++)
        for (size_t i = 0; i < qkv_tensors_count(p->files[f].tensors) && !status; i++) {
            const struct qkv_array *array = qkv_tensors_at(p->files[f].tensors, i);
            if (bsearch(&array, used, count, sizeof *used, compare_places)) continue;
            if (qkv_family_ignores(&p->config, array->name)) continue;
            status = qkv_fail(p->ctx, QKV_FORMAT, "%s has a tensor %.*s that %s (%s) does not ask for",
                              p->files[f].path, qkv_shown_length(array->name), array->name, p->asker,
                              json_string_value(json_object_get(p->config.keys, "architecture")));
        }
    free(used);
    return status;
}

/* Says how much of a model of several parts is left out. */
static enum qkv_status say_parts(struct qkv_published *p) {
    char text[240];
    size_t count = 0;
    if (!p->config.parts || p->warning) return QKV_OK;
    for (size_t f = 0; f < p->count; f++)
        for (size_t i = 0; i < qkv_tensors_count(p->files[f].tensors); i++)
            count += qkv_family_is_other_part(&p->config, qkv_tensors_at(p->files[f].tensors, i)->name);
    snprintf(text, sizeof text,
             "only the text model of this %.60s is read, as %.40s; the %zu tensors of its other parts are left out",
             p->config.parts->architectures, p->config.family->type, count);
    p->warning = qkv_copy_string(p->ctx, text);
    return p->warning ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_published_match(struct qkv_published *p, const struct qkv_model *model) {
    const struct qkv_weights *weights = &model->weights;
    p->entries = qkv_allocate(p->ctx, weights->count, sizeof *p->entries);
    enum qkv_status status = p->entries ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < weights->count && !status; i++) status = match_weight(p, &model->spec, &weights->list[i]);
    if (!status) status = find_strangers(p);
    if (!status) status = say_parts(p);
    if (!status) qsort(p->entries, p->entry_count, sizeof *p->entries, compare_entries);
    return status;
}

/* ---- the numbers ------------------------------------------------------------------------------------------------- */

static const struct qkv_array *source_find(const void *published, const char *name) {
    const struct qkv_published_entry *e = entry_find(published, name);
    return e && (e->direct || e->repacked) ? &e->array : NULL;
}

static enum qkv_status source_check(struct qkv_context *ctx, const void *published) {
    const struct qkv_published *p = published;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < p->count && !status; i++) status = qkv_tensors_check(ctx, p->files[i].tensors);
    return status;
}

static void source_close(void *published) {
    qkv_published_close(published);
}

struct qkv_model_file qkv_published_file(struct qkv_published *p) {
    return (struct qkv_model_file){.source = {.file = p, .find = source_find},
                                   .owner = p,
                                   .memory = p->repacked_bytes,
                                   .check = source_check,
                                   .close = source_close};
}

/* The tensor that was read last, or its part for one expert: several weights may be rows of it. */
struct taken {
    const struct qkv_array *array;
    size_t slice;
    float *floats;
};

static enum qkv_status take_slice(const struct qkv_published *p, const struct qkv_published_entry *e,
                                  struct taken *taken) {
    if (taken->array == e->theirs && taken->slice == e->view.slice) return QKV_OK;
    free(taken->floats);
    *taken = (struct taken){0};
    enum qkv_status status = qkv_published_floats(p, e, &taken->floats);
    if (status) return status;
    taken->array = e->theirs;
    taken->slice = e->view.slice;
    return QKV_OK;
}

/* Copies the rows of a weight, numbers or blocks of `width` bytes, straight from the mapped file, then releases those
 * pages. */
static enum qkv_status repack_tensor(const struct qkv_published *p, const struct qkv_published_entry *e, size_t rows,
                                     size_t columns, size_t width, void *ours) {
    struct qkv_array slice = *e->theirs;
    slice.bytes /= e->view.slices;
    slice.data = (const char *)slice.data + e->view.slice * slice.bytes;
    enum qkv_status status = qkv_published_repack(p->ctx, &e->view, slice.data, rows, columns, width, ours);
    qkv_tensors_forget(p->files[e->file].tensors, &slice);
    return status;
}

static enum qkv_status take_rows(const struct qkv_published *p, const struct qkv_published_entry *e, size_t columns,
                                 float *ours) {
    enum qkv_status status = QKV_OK;
    for (size_t r = 0; r < e->view.rows && !status; r++)
        status = qkv_tensors_floats(p->files[e->rows[r].file].tensors, e->rows[r].theirs, ours + r * columns);
    return status;
}

static enum qkv_status take_weight(const struct qkv_published *p, struct qkv_weight *weight, struct taken *taken) {
    const struct qkv_published_entry *e = entry_find(p, weight->array.name);
    if (e->direct) return qkv_tensors_floats(p->files[e->file].tensors, &e->array, weight->data);
    const size_t rows = weight->array.shape[0], columns = rows ? weight->rows * weight->columns / rows : 0;
    if (e->rows) return take_rows(p, e, columns, weight->data);
    if (e->theirs->dtype == QKV_F32 && !e->scales && !(e->view.flags & QKV_FAMILY_PLUS_ONE) &&
        (size_t)e->view.slices * e->view.total * columns * sizeof(float) == e->theirs->bytes) {
        return repack_tensor(p, e, rows, columns, sizeof(float), weight->data);
    }
    enum qkv_status status = take_slice(p, e, taken);
    if (status) return status;
    return qkv_published_repack(p->ctx, &e->view, taken->floats, rows, columns, sizeof(float), weight->data);
}

/* Repacks a weight that keeps its format, into the published model's memory. */
static enum qkv_status repack_weight(const struct qkv_published *p, const struct qkv_weight *weight) {
    const struct qkv_published_entry *e = entry_find(p, weight->array.name);
    void *ours = (void *)(uintptr_t)e->array.data;
    if (e->packed) return qkv_published_join(p, e, weight->rows, ours);
    const struct qkv_type *type = qkv_types[e->theirs->dtype];
    return e->repacked ? repack_tensor(p, e, weight->rows, weight->columns / type->block, type->bytes, ours) : QKV_OK;
}

/* Fails where a table that is tied to the embedding is in the files with other numbers: it is then a separate head. */
static enum qkv_status check_tied(const struct qkv_published *p) {
    const struct qkv_published_entry *embed = entry_find(p, "decoder.embed.token.weight");
    const json_t *tie = json_object_get(p->config.keys, "tie_word_embeddings");
    if (!embed) embed = entry_find(p, "encoder.embed.token.weight");
    if (!embed || !embed->direct || !json_is_true(tie)) return QKV_OK;
    for (size_t f = 0; f < p->count; f++)
        for (size_t i = 0; i < qkv_tensors_count(p->files[f].tensors); i++) {
            const struct qkv_array *a = qkv_tensors_at(p->files[f].tensors, i), *b = embed->theirs;
            if (a == b || a->rank != 2 || strstr(a->name, "position") || a->shape[0] != b->shape[0] ||
                a->shape[1] != b->shape[1])
                continue;
            if (!qkv_family_ignores(&p->config, a->name) || is_used(p, a)) continue;
            if (qkv_family_is_other_part(&p->config, a->name)) continue;
            if (a->dtype == b->dtype && !memcmp(a->data, b->data, a->bytes)) continue;
            return qkv_fail(p->ctx, QKV_SPEC,
                            "%s: tie_word_embeddings is true, but %.*s has other numbers than %.*s; set it to "
                            "false to read a table of its own",
                            p->files[f].path, qkv_shown_length(a->name), a->name, qkv_shown_length(b->name), b->name);
        }
    return QKV_OK;
}

/* Fails where the frequencies of rotations are stored and are not those of the base, which passes compute with. */
static enum qkv_status check_rotation(const struct qkv_published *p, const struct qkv_published_part *file,
                                      const struct qkv_array *array, const struct qkv_attention_spec *attention) {
    const struct qkv_position_spec *position = &attention->position;
    const size_t pairs = qkv_rotation_pairs(position, attention->head_dim);
    float *stored = qkv_allocate(p->ctx, pairs + 1, sizeof *stored);
    const double relative = array->dtype == QKV_F32 ? 1e-4 : 4e-3; /* numbers of f16 below 2^-14 have steps of 2^-24 */
    char base[QKV_REAL_TEXT];
    enum qkv_status status = stored ? QKV_OK : QKV_MEMORY;
    if (!status && qkv_array_elements(array) != pairs)
        status = qkv_fail(p->ctx, QKV_SHAPE, "%s: %.*s has %zu frequencies, but config.json makes them %zu", file->path,
                          qkv_shown_length(array->name), array->name, qkv_array_elements(array), pairs);
    if (!status) status = qkv_tensors_floats(file->tensors, array, stored);
    for (size_t i = 0; i < pairs && !status; i++) {
        const double want = qkv_pow(position->theta, -(double)i / (double)pairs);
        if (fabs((double)stored[i] - want) <= relative * want + (array->dtype == QKV_F16 ? 0x1p-25 : 0)) continue;
        status =
            qkv_fail(p->ctx, QKV_SPEC,
                     "%s: %.*s has %.6g at place %zu, but rope_theta %s makes it %.6g; set rope_theta to the base that "
                     "the model was trained with",
                     file->path, qkv_shown_length(array->name), array->name, (double)stored[i], i,
                     qkv_real_text(base, position->theta), want);
    }
    free(stored);
    return status;
}

/* Families that keep such tensors read them: others, whose files may have them, compute with the base as well. */
static enum qkv_status check_rotations(const struct qkv_published *p, const struct qkv_spec *spec) {
    const struct qkv_stack_spec *stack = spec->decoder.layers ? &spec->decoder : &spec->encoder;
    const struct qkv_attention_spec *attention = &qkv_stack_layer(stack, 0)->attention;
    char name[QKV_FAMILY_NAME];
    enum qkv_status status = QKV_OK;
    for (size_t f = 0; f < p->count && attention->position.kind == QKV_POSITION_ROPE; f++)
        for (size_t i = 0; i < qkv_tensors_count(p->files[f].tensors) && !status; i++) {
            const struct qkv_array *array = qkv_tensors_at(p->files[f].tensors, i);
            if (strstr(array->name, ".inv_freq") && qkv_family_keeps(&p->config, array->name, name))
                status = check_rotation(p, &p->files[f], array, attention);
        }
    return status;
}

/* Checks the digests of weights that qkv has written. Weights of other programs have none. */
static enum qkv_status check_ties(const struct qkv_published *p, const struct qkv_spec *spec) {
    char digest[QKV_DIGEST_TEXT];
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < p->count && !status; i++) {
        const char *saved = qkv_tensors_metadata(p->files[i].tensors, QKV_DIGEST_KEY);
        status = qkv_ties_check(p->ctx, p->files[i].tensors);
        if (!status && saved) status = qkv_spec_digest(p->ctx, spec, digest);
        if (!status && saved && strcmp(saved, digest) != 0)
            status = qkv_fail(p->ctx, QKV_SPEC, QKV_DIGEST_SENTENCE, p->files[i].path, QKV_DIGEST_TEXT, saved, digest);
    }
    return status;
}

enum qkv_status qkv_published_check(const struct qkv_published *p, const struct qkv_spec *spec, bool ignore_digest) {
    enum qkv_status status = source_check(p->ctx, p);
    if (!status) status = check_tied(p);
    if (!status) status = check_rotations(p, spec);
    return status || ignore_digest ? status : check_ties(p, spec);
}

size_t qkv_published_bytes(const struct qkv_published *p, const struct qkv_weight *weight) {
    return entry_find(p, weight->array.name)->array.bytes;
}

enum qkv_status qkv_published_read(struct qkv_model *model, const struct qkv_published *p) {
    struct taken taken = {0};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < model->weights.count && !status; i++) {
        struct qkv_weight *weight = &model->weights.list[i];
        status = qkv_check_cancelled(model->ctx, "reading weights");
        if (!status) status = weight->stored ? repack_weight(p, weight) : take_weight(p, weight, &taken);
    }
    free(taken.floats);
    qkv_weights_changed(&model->weights);
    return status;
}

/* ---- what the model is told -------------------------------------------------------------------------------------- */

/* Copies the tensors that no weight uses and that export writes again. */
static enum qkv_status origin_keep(const struct qkv_published *p, struct qkv_family_config *config) {
    size_t capacity = 0;
    char name[QKV_FAMILY_NAME];
    for (size_t f = 0; f < p->count; f++)
        for (size_t i = 0; i < qkv_tensors_count(p->files[f].tensors); i++) {
            const struct qkv_array *array = qkv_tensors_at(p->files[f].tensors, i);
            if (!qkv_family_keeps(config, array->name, name) || is_used(p, array)) continue;
            struct qkv_array *grown =
                qkv_list_room(p->ctx, config->kept, &capacity, config->kept_count, 1, sizeof *grown);
            if (grown) config->kept = grown;
            char *copy = qkv_copy_string(p->ctx, name);
            void *memory = qkv_allocate(p->ctx, array->bytes + 1, 1);
            if (!grown || !copy || !memory) {
                free(copy);
                free(memory);
                return QKV_MEMORY;
            }
            memcpy(memory, array->data, array->bytes);
            struct qkv_array *kept = &config->kept[config->kept_count++];
            *kept = *array;
            kept->name = copy;
            kept->data = memory;
        }
    return QKV_OK;
}

static void origin_free(void *config) {
    struct qkv_family_config *own = config;
    for (size_t i = 0; i < own->kept_count; i++) {
        free((void *)(uintptr_t)own->kept[i].name);
        free((void *)(uintptr_t)own->kept[i].data);
    }
    free(own->kept);
    qkv_family_config_free(config);
    free(config);
}

char **qkv_published_labels(const struct qkv_published *p, const struct qkv_spec *spec) {
    const char *class = json_string_value(json_object_get(p->config.keys, "class"));
    const json_t *names = json_object_get(p->config.keys, "id2label");
    const size_t count = qkv_head_has_classes(spec) ? (size_t)spec->head.classes : 0;
    const bool answers = class && !strcmp(class, QKV_FAMILY_ANSWERS);
    char **labels =
        count && (answers || json_object_size(names) == count) ? qkv_allocate(p->ctx, count, sizeof *labels) : NULL;
    bool all = labels != NULL;
    for (size_t i = 0; i < count && all; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        const char *label = answers ? qkv_family_answer[i] : json_string_value(json_object_get(names, key));
        labels[i] = label ? qkv_copy_string(p->ctx, label) : NULL;
        all = labels[i] != NULL;
    }
    if (all || !labels) return labels;
    for (size_t i = 0; i < count; i++) free(labels[i]);
    free(labels);
    return NULL;
}

enum qkv_status qkv_published_generation(const struct qkv_published *p, const struct qkv_spec *spec,
                                         struct qkv_model_generation *generation) {
    return qkv_generation_read(p->ctx, p->folder, spec, p->config.keys, generation);
}

enum qkv_status qkv_published_freeze(struct qkv_model *m) {
    enum qkv_status status = QKV_OK;
    struct qkv_family_view view;
    for (size_t i = 0; i < m->weights.count && !status; i++) {
        const struct qkv_array *array = &m->weights.list[i].array;
        if (!qkv_family_view(m->origin.family, &m->spec, array->name, array->shape[0], &view)) continue;
        if (view.flags & QKV_FAMILY_BUFFER) status = qkv_model_set_trainable(m, i, false);
    }
    return status;
}

enum qkv_status qkv_published_origin(const struct qkv_published *p, struct qkv_model_origin *origin) {
    struct qkv_family_config *config = qkv_allocate(p->ctx, 1, sizeof *config);
    if (!config) return QKV_MEMORY;
    char *warning = p->warning ? qkv_copy_string(p->ctx, p->warning) : NULL;
    *config = (struct qkv_family_config){.family = p->config.family, .keys = json_incref(p->config.keys)};
    enum qkv_status status = p->warning && !warning ? QKV_MEMORY : origin_keep(p, config);
    if (!status) {
        *origin = (struct qkv_model_origin){.family = config, .free = origin_free, .warning = warning};
        return QKV_OK;
    }
    origin_free(config);
    free(warning);
    return status;
}
