/* folder_write: writes model folders: the spec, the tokenizers, the labels, and the weights last, with the digests that
 * folder.c checks. A new folder is written next to the old one and then replaces it; in the folder of a run, every file
 * is replaced atomically. */
#include "io/adapter_merge.h"
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

/* format: the format to convert matrices to; NULL: all weights keep theirs. All other files of the folder are
 * complete. */
static enum qkv_status write_weights(struct qkv_model *m, const char *folder, const char *path,
                                     const struct qkv_type *format) {
    const size_t count = m->weights.count;
    struct qkv_array *arrays = qkv_allocate(m->ctx, count, sizeof *arrays);
    const struct qkv_type **formats = qkv_allocate(m->ctx, count, sizeof *formats);
    char digest[QKV_DIGEST_TEXT];
    struct qkv_ties ties;
    const char *metadata[4 + 2 * QKV_TIES] = {"format", "qkv", QKV_DIGEST_KEY, digest};
    enum qkv_status status = arrays && formats ? qkv_model_check_whole(m) : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        arrays[i] = m->weights.list[i].array;
        const struct qkv_weight *weight = &m->weights.list[i];
        formats[i] = qkv_weight_has_formats(weight) && qkv_types[weight->array.dtype] != format ? format : NULL;
        if (!formats[i] && !qkv_types[weight->array.dtype]->safetensors) formats[i] = &qkv_type_f32;
    }
    if (!status) status = qkv_spec_digest(m->ctx, &m->spec, digest);
    if (!status) status = qkv_ties_make(m->ctx, folder, &ties);
    if (!status) memcpy(metadata + 4, ties.pairs, sizeof ties.pairs);
    if (!status) status = qkv_tensors_write_as(m->ctx, path, arrays, formats, count, NULL, metadata, 2 + ties.count);
    free(arrays);
    free(formats);
    return status;
}

static enum qkv_status write_tokenizer(struct qkv_model *m, const struct qkv_tokenizer *t, const char *folder,
                                       const char *name, const char *roles) {
    char *path = t ? qkv_join_path(m->ctx, folder, name) : NULL;
    if (!t) return QKV_OK;
    enum qkv_status status = path ? qkv_tokenizer_save(m->ctx, t, path) : QKV_MEMORY;
    free(path);
    return status ? status : qkv_tokenizer_write_roles(m->ctx, t, folder, roles);
}

enum qkv_status qkv_folder_write_texts(struct qkv_model *m, const char *folder) {
    enum qkv_status status = write_tokenizer(m, m->tokenizer, folder, QKV_TOKENIZER_FILE, QKV_ROLES_FILE);
    if (!status) status = write_tokenizer(m, m->source_tokenizer, folder, QKV_SOURCE_FILE, QKV_SOURCE_ROLES_FILE);
    if (!status) status = qkv_generation_write(m->ctx, &m->generation, folder);
    return status ? status : qkv_pooling_write(m->ctx, &m->pooling, &m->spec, folder);
}

static enum qkv_status write_folder(struct qkv_model *m, const char *folder, const struct qkv_type *format) {
    char *json = NULL, *config = qkv_join_path(m->ctx, folder, QKV_CONFIG_FILE);
    char *labels = qkv_join_path(m->ctx, folder, QKV_LABELS_FILE);
    char *weights = qkv_join_path(m->ctx, folder, QKV_WEIGHTS_FILE);
    enum qkv_status status = config && labels && weights ? qkv_make_folder(m->ctx, folder) : QKV_MEMORY;
    if (!status) status = qkv_spec_print(m->ctx, &m->spec, &json);
    if (!status) status = qkv_write_file(m->ctx, config, json, strlen(json));
    if (!status) status = qkv_folder_write_texts(m, folder);
    if (!status && m->label_count) status = qkv_labels_write(m, labels);
    if (!status) status = write_weights(m, folder, weights, format);
    qkv_free(json);
    free(config);
    free(labels);
    free(weights);
    return status;
}

enum qkv_status qkv_folder_write(struct qkv_model *m, const char *folder) {
    return write_folder(m, folder, NULL);
}

/* Writes a new folder and then replaces the old one by it. */
static enum qkv_status write_whole(struct qkv_model *m, const char *folder, const struct qkv_type *format) {
    struct qkv_replace_folder replace;
    enum qkv_status status = qkv_model_check_plain(m, "it is saved");
    if (!status) status = qkv_replace_folder_begin(m->ctx, folder, &replace);
    if (status) return status;
    status = write_folder(m, replace.temporary, format);
    if (!status) return qkv_replace_folder_commit(&replace);
    qkv_replace_folder_cancel(&replace);
    return status;
}

enum qkv_status qkv_model_save(struct qkv_model *m, const char *folder) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    QKV_NEED(qkv_call, folder);
    if (m->planned) return qkv_fail(m->ctx, QKV_ARGUMENT, "a planned model has no weights to save");
    return write_whole(m, folder, NULL);
}

/* Fails if the folder has files of an older model that would be taken for this one's. */
enum qkv_status qkv_folder_check_left(struct qkv_model *m, bool published, const char *folder) {
    const struct {
        const char *name;
        bool written;
    } files[] = {{"tokenizer.json", m->tokenizer},
                 {"source_tokenizer.json", m->source_tokenizer},
                 {QKV_ROLES_FILE, m->tokenizer && (published || qkv_tokenizer_has_roles(m->tokenizer))},
                 {QKV_SOURCE_ROLES_FILE, m->source_tokenizer && qkv_tokenizer_has_roles(m->source_tokenizer)},
                 {QKV_MODULES_FILE, m->pooling.given},
                 {QKV_PROMPTS_FILE, m->pooling.settings},
                 {QKV_GENERATION_FILE, m->generation.given},
                 {"labels.txt", m->label_count},
                 {QKV_INDEX_FILE, false},
                 {"train.json", false},
                 {"checkpoint.safetensors", false}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && !status; i++) {
        char *path = files[i].written ? NULL : qkv_join_path(m->ctx, folder, files[i].name);
        bool found = false;
        if (!files[i].written) status = path ? qkv_file_find(m->ctx, path, &found) : QKV_MEMORY;
        if (found)
            status = qkv_fail(m->ctx, QKV_FILE, "%s belongs to another model or run; choose another folder", path);
        free(path);
    }
    return status;
}

enum qkv_status qkv_format_find(struct qkv_context *ctx, const char *name, const struct qkv_type **type) {
    char names[128] = "";
    const char *each;
    const int found = name ? qkv_type_of_name(name) : -1;
    for (size_t i = 0, n = 0; qkv_format_at(i, &each, NULL) && n < sizeof names - 32; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", each);
    if (found < 0 || !qkv_type_is_written(qkv_types[found]))
        return qkv_fail(ctx, QKV_ARGUMENT, "\"%.40s\" is not a number format; the formats are %s", name ? name : "",
                        names);
    *type = qkv_types[found];
    return QKV_OK;
}

enum qkv_status qkv_model_export(struct qkv_model *m, const char *format, const char *folder) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    QKV_NEED(qkv_call, format);
    QKV_NEED(qkv_call, folder);
    const struct qkv_type *numbers;
    m->merge_cost = (struct qkv_merge_cost){0};
    enum qkv_status status = qkv_format_find(m->ctx, format, &numbers);
    if (!status) status = qkv_folder_check_left(m, false, folder);
    if (!status && m->planned) status = qkv_fail(m->ctx, QKV_ARGUMENT, "a planned model has no weights to save");
    if (!status) status = write_whole(m, folder, numbers);
    return status ? status : qkv_merge_cost_of(m, numbers);
}
