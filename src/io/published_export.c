/* Published folders: writing them, and other questions about a model's family. */
#include <stdlib.h>
#include <string.h>

#include "type/type.h"
#include "io/adapter_merge.h"
#include "io/generation.h"
#include "io/io.h"
#include "io/pooling.h"
#include "io/gguf_own.h"
#include "io/published_files.h"
#include "io/safetensors.h"
#include "model/spec.h"
#include "qkv/published.h"
#include "text/text.h"

static const struct qkv_family_config *model_config(const struct qkv_model *model) {
    return model->origin.family;
}

bool qkv_family_at(size_t i, const char **type, const char **classes) {
    size_t n = 0;
    while (qkv_families[n]) n++;
    if (i >= n) return false;
    if (type) *type = qkv_families[i]->type;
    if (classes) *classes = qkv_families[i]->architectures;
    return true;
}

const char *qkv_model_family(const struct qkv_model *model) {
    if (!model) return NULL;
    return model_config(model) ? model_config(model)->family->type : NULL;
}

const char *qkv_model_warning(const struct qkv_model *model) {
    return model ? model->origin.warning : NULL;
}

const char *qkv_model_tokenizer_problem(const struct qkv_model *model) {
    if (!model) return NULL;
    return model->origin.tokenizer;
}

const char *qkv_model_unused_tensor(const struct qkv_model *model, size_t i) {
    const struct qkv_family_config *config = model ? model_config(model) : NULL;
    return config && i < config->kept_count ? config->kept[i].name : NULL;
}

enum qkv_family_hidden qkv_model_family_hidden(const struct qkv_model *model) {
    if (!model) return QKV_FAMILY_HIDDEN_LAST;
    if (!model_config(model)) return QKV_FAMILY_HIDDEN_LAST;
    if (model_config(model)->family->hidden_before_norm) return QKV_FAMILY_HIDDEN_BEFORE_NORM;
    const struct qkv_stack_spec *decoder = &model->spec.decoder;
    const bool narrow = decoder->layers && decoder->embed.width && decoder->embed.project == QKV_PROJECT_TOKEN;
    return narrow && model->spec.head.transform.given ? QKV_FAMILY_HIDDEN_NARROWED : QKV_FAMILY_HIDDEN_LAST;
}

/* ---- specs of folders -------------------------------------------------------------------------------------------- */

bool qkv_folder_has_weights(const char *folder) {
    if (!folder) return false;
    static const char *const names[] = {QKV_WEIGHTS_FILE, QKV_INDEX_FILE};
    bool there = qkv_gguf_is(folder) && qkv_file_exists(folder);
    for (size_t i = 0; i < 2 && !there; i++) {
        char *path = qkv_join_path(NULL, folder, names[i]);
        there = path && qkv_file_exists(path);
        free(path);
    }
    return there;
}

/* The spec of a GGUF file of architecture qkv. */
static enum qkv_status folder_spec_own(struct qkv_context *ctx, const char *path, const char *const *settings,
                                       size_t setting_count, struct qkv_spec *spec) {
    struct qkv_gguf *keys;
    struct qkv_tensors *tensors;
    bool mine;
    enum qkv_status status = qkv_gguf_own_open(ctx, path, &keys, &tensors, &mine);
    if (!status)
        status = mine ? qkv_gguf_own_spec(keys, settings, setting_count, spec)
                      : qkv_fail(ctx, QKV_FILE, "%s has changed while it was read", path);
    qkv_gguf_free(keys);
    qkv_tensors_close(tensors);
    return status;
}

enum qkv_status qkv_folder_spec(struct qkv_context *ctx, const char *folder, const char *const *settings,
                                size_t setting_count, struct qkv_spec *spec) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    QKV_NEED(ctx, spec);
    QKV_NEED_ALL(ctx, setting_count, settings);
    struct qkv_published *published = NULL;
    struct qkv_model_place place;
    char *path = NULL, *json = NULL;
    *spec = (struct qkv_spec){0};
    enum qkv_status status = qkv_model_place(ctx, folder, &place);
    if (status) return status;
    path = qkv_join_path(ctx, place.folder, QKV_CONFIG_FILE);
    status = path ? qkv_published_open(ctx, place.folder, false, &published, spec) : QKV_MEMORY;
    if (!status && !published)
        status = qkv_gguf_is(place.folder) ? folder_spec_own(ctx, place.folder, settings, setting_count, spec)
                                           : qkv_spec_read(ctx, spec, path, settings, setting_count);
    if (!status && published && setting_count) {
        status = qkv_spec_print(ctx, spec, &json);
        qkv_spec_free(spec);
        if (!status) status = qkv_spec_parse(ctx, spec, path, json, strlen(json), settings, setting_count);
    }
    qkv_published_close(published);
    qkv_model_place_free(&place);
    qkv_free(json);
    free(path);
    return status;
}

enum qkv_status qkv_folder_tokenizer(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct qkv_model_place place;
    enum qkv_status status = qkv_model_place(ctx, path, &place);
    if (status) return status;
    status = qkv_theirs_tokenizer(ctx, place.folder, out);
    qkv_model_place_free(&place);
    return status;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

struct qkv_family_tensors {
    struct qkv_family_arrays arrays;
};

enum qkv_status qkv_model_family_tensors(struct qkv_model *model, bool gradients, struct qkv_family_tensors **out) {
    QKV_CALL_OUT(model ? model->ctx : NULL, out);
    QKV_NEED(qkv_call, model);
    if (!model_config(model) || model->planned)
        return qkv_fail(model->ctx, QKV_ARGUMENT,
                        "this model is not from a published folder, so no family has names for its weights");
    struct qkv_family_tensors *tensors = qkv_allocate(model->ctx, 1, sizeof *tensors);
    if (!tensors) return QKV_MEMORY;
    enum qkv_status status = qkv_family_arrays(model, model_config(model), gradients, &tensors->arrays);
    for (size_t i = 0; i < tensors->arrays.count && !status; i++) status = qkv_family_array_make(&tensors->arrays, i);
    if (status)
        qkv_family_tensors_free(tensors);
    else
        *out = tensors;
    return status;
}

const struct qkv_array *qkv_family_tensors_at(const struct qkv_family_tensors *tensors, size_t i) {
    if (!tensors) return NULL;
    return i < tensors->arrays.count ? &tensors->arrays.list[i].array : NULL;
}

void qkv_family_tensors_free(struct qkv_family_tensors *tensors) {
    if (!tensors) return;
    qkv_family_arrays_free(&tensors->arrays);
    free(tensors);
}

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

/* Makes one tensor at a time, when it is written. */
static enum qkv_status tensor_make(void *arrays, size_t i, const void **data) {
    const struct qkv_family_arrays *a = arrays;
    enum qkv_status status = qkv_family_array_make(a, i);
    *data = a->list[i].array.data;
    return status;
}

static void tensor_drop(void *arrays, size_t i) {
    qkv_family_array_drop(arrays, i);
}

struct written_names {
    const struct qkv_family_arrays *made;
    const struct qkv_family_config *config; /* with the settings kept from a folder that was read */
};

static bool has_name(const void *user, const char *name) {
    const struct written_names *names = user;
    for (size_t i = 0; i < names->made->count; i++)
        if (!strcmp(names->made->list[i].array.name, name)) return true;
    for (size_t i = 0; i < names->config->kept_count; i++)
        if (!strcmp(names->config->kept[i].name, name)) return true;
    return false;
}

/* The digest of the spec that reading the folder's config.json will give. */
static enum qkv_status digest_config(struct qkv_context *ctx, const char *folder, const struct written_names *names,
                                     char digest[QKV_DIGEST_TEXT]) {
    struct qkv_family_config config = {0};
    struct qkv_spec *spec = qkv_allocate(ctx, 1, sizeof *spec);
    json_t *root = NULL;
    char *path = spec ? qkv_join_path(ctx, folder, QKV_CONFIG_FILE) : NULL;
    enum qkv_status status = path ? qkv_published_json(ctx, path, &root) : QKV_MEMORY;
    if (!status) {
        status = qkv_family_read(ctx, QKV_CONFIG_FILE, root, has_name, names, &config, spec);
        if (!status) qkv_family_config_free(&config);
        if (!status) status = qkv_spec_digest(ctx, spec, digest);
    }
    json_decref(root);
    free(path);
    qkv_spec_free(spec);
    free(spec);
    return status;
}

/* The group of weights of a layer that a family may store as one tensor; 0: the weight is a tensor of its own. */
static int export_joined(enum qkv_role role) {
    switch (role) {
    case QKV_ROLE_ATTN_Q:
    case QKV_ROLE_ATTN_K:
    case QKV_ROLE_ATTN_V:
        return 1;
    case QKV_ROLE_ATTN_K_B:
    case QKV_ROLE_ATTN_V_B:
        return 2;
    case QKV_ROLE_FFN_GATE:
    case QKV_ROLE_FFN_UP:
        return 3;
    case QKV_ROLE_EXPERT_GATE:
    case QKV_ROLE_EXPERT_UP:
        return 4;
    case QKV_ROLE_EXPERT_DOWN:
        return 5;
    default:
        return 0;
    }
}

size_t qkv_export_bytes(const struct qkv_model *m) {
    const struct qkv_weights *weights = &m->weights;
    size_t max = 0, joined[6] = {0};
    for (size_t i = 0; i < weights->count; i++) {
        const struct qkv_weight *w = &weights->list[i], *before = i ? w - 1 : w;
        const int group = export_joined(w->role);
        if (w->layer < 0) continue;
        if (before->layer != w->layer || before->stack != w->stack) memset(joined, 0, sizeof joined);
        joined[group] = (group ? joined[group] : 0) + w->rows * w->columns * sizeof(float);
        max = qkv_max(max, joined[group]);
    }
    return max;
}

/* Writes the weights. All other files of the folder are complete. */
static enum qkv_status write_tensors(struct qkv_model *m, const struct qkv_family_config *config,
                                     const struct qkv_type *format, const char *folder, const char *path) {
    char digest[QKV_DIGEST_TEXT];
    const char *metadata[4 + 2 * QKV_TIES] = {"format", "pt", QKV_DIGEST_KEY, digest};
    struct qkv_ties ties;
    struct qkv_family_arrays list;
    enum qkv_status status = qkv_family_arrays(m, config, false, &list);
    const struct qkv_tensors_source source = {.make = tensor_make, .drop = tensor_drop, .user = &list};
    const size_t all = list.count + config->kept_count;
    struct qkv_array *arrays = qkv_allocate(m->ctx, all, sizeof *arrays);
    const struct qkv_type **formats = qkv_allocate(m->ctx, all, sizeof *formats);
    if (!status && !(arrays && formats)) status = QKV_MEMORY;
    if (!status) status = qkv_ties_make(m->ctx, folder, &ties);
    if (!status) status = digest_config(m->ctx, folder, &(struct written_names){&list, config}, digest);
    if (!status) memcpy(metadata + 4, ties.pairs, sizeof ties.pairs);
    for (size_t i = 0; i < all && !status; i++) {
        const bool kept = i >= list.count;
        arrays[i] = kept ? config->kept[i - list.count] : list.list[i].array;
        formats[i] = qkv_types[arrays[i].dtype] == format || (kept && arrays[i].dtype != QKV_F32) ? NULL : format;
    }
    if (!status) status = qkv_tensors_write_as(m->ctx, path, arrays, formats, all, &source, metadata, 2 + ties.count);
    free(arrays);
    free(formats);
    qkv_family_arrays_free(&list);
    return status;
}

static enum qkv_status write_published(struct qkv_model *m, const struct qkv_family_config *config,
                                       const struct qkv_type *format, const char *folder) {
    const char *dtype = format == &qkv_type_bf16 ? "bfloat16" : format == &qkv_type_f16 ? "float16" : "float32";
    char *text = qkv_family_text(m->ctx, config, dtype);
    char *json = qkv_join_path(m->ctx, folder, QKV_CONFIG_FILE);
    char *weights = qkv_join_path(m->ctx, folder, QKV_WEIGHTS_FILE);
    enum qkv_status status = text && json && weights ? QKV_OK : QKV_MEMORY;
    if (!status) status = qkv_write_file(m->ctx, json, text, strlen(text));
    if (!status) status = qkv_folder_write_texts(m, folder);
    if (!status && m->tokenizer) status = qkv_tokenizer_write_class(m->ctx, m->tokenizer, folder, QKV_ROLES_FILE);
    if (!status) status = write_tensors(m, config, format, folder, weights);
    free(text);
    free(json);
    free(weights);
    return status;
}

/* The class that the names of the model's classes require, as of question answering; NULL: any. */
static const char *wanted_class(const struct qkv_model *m) {
    if (m->spec.head.kind != QKV_HEAD_CLASSIFY_TOKENS || m->label_count != 2) return NULL;
    for (size_t i = 0; i < 2; i++)
        if (strcmp(m->labels[i], qkv_family_answer[i]) != 0) return NULL;
    return QKV_FAMILY_ANSWERS;
}

/* The configuration to write: the model's own, or one that a family makes of the spec. */
static enum qkv_status find_config(struct qkv_model *m, const char *type, struct qkv_family_config *config) {
    const struct qkv_family_config *own = model_config(m);
    if (!own || (type && strcmp(type, own->family->type)))
        return qkv_family_write(m->ctx, type, wanted_class(m), &m->spec, config);
    *config = (struct qkv_family_config){
        .family = own->family, .keys = json_incref(own->keys), .kept = own->kept, .kept_count = own->kept_count};
    return QKV_OK;
}

/* Adds id2label and label2id to config.json, if the classes have names. */
static enum qkv_status name_classes(const struct qkv_model *m, struct qkv_family_config *config) {
    if (!m->label_count) return QKV_OK;
    json_t *keys = json_copy(config->keys), *names = json_object(), *ids = json_object();
    bool made = keys && names && ids;
    for (size_t i = 0; i < m->label_count && made; i++) {
        char id[24];
        snprintf(id, sizeof id, "%zu", i);
        made = !json_object_set_new(names, id, json_string(m->labels[i])) &&
               !json_object_set_new(ids, m->labels[i], json_integer((json_int_t)i));
    }
    if (made) made = !json_object_set(keys, "id2label", names) && !json_object_set(keys, "label2id", ids);
    json_decref(names);
    json_decref(ids);
    json_decref(made ? config->keys : keys);
    if (!made) return qkv_fail_memory(m->ctx, 0, "the names of classes");
    config->keys = keys;
    return QKV_OK;
}

/* Writes the tokens of the tokenizer into a new config.json; a missing token is null. Without these keys, classes of
 * transformers use token ids of their own default vocabulary. A family that counts positions from its padding token
 * keeps that token. */
static enum qkv_status name_tokens(const struct qkv_model *m, struct qkv_family_config *config) {
    static const struct {
        const char *key;
        enum qkv_token_role role;
    } roles[] = {{"bos_token_id", QKV_TOKEN_ROLE_BEGIN},
                 {"eos_token_id", QKV_TOKEN_ROLE_END},
                 {"pad_token_id", QKV_TOKEN_ROLE_PAD}};
    const bool two = m->spec.encoder.layers && m->spec.decoder.layers;
    const bool counted = strstr(config->family->spec, ":less_two") != NULL;
    if (config->family == (model_config(m) ? model_config(m)->family : NULL)) return QKV_OK;
    json_t *keys = json_copy(config->keys);
    bool made = keys != NULL;
    for (size_t i = 0; i < sizeof roles / sizeof *roles && made; i++) {
        const int id = m->tokenizer ? qkv_tokenizer_role(m->tokenizer, roles[i].role) : -1;
        if (roles[i].role == QKV_TOKEN_ROLE_PAD && counted) continue;
        if (!json_object_get(keys, roles[i].key))
            made = !json_object_set_new(keys, roles[i].key, id < 0 ? json_null() : json_integer(id));
    }
    if (made && two && qkv_model_target_begin(m) >= 0)
        made = !json_object_set_new(keys, "decoder_start_token_id", json_integer(qkv_model_target_begin(m)));
    json_decref(made ? config->keys : keys);
    if (!made) return qkv_fail_memory(m->ctx, 0, "the names of tokens");
    config->keys = keys;
    return QKV_OK;
}

enum qkv_status qkv_model_export_published(struct qkv_model *m, const char *type, const char *format,
                                           const char *folder) {
    QKV_CALL(m ? m->ctx : NULL);
    QKV_NEED(qkv_call, m);
    QKV_NEED(qkv_call, format);
    QKV_NEED(qkv_call, folder);
    struct qkv_family_config config = {0};
    const struct qkv_type *numbers;
    m->merge_cost = (struct qkv_merge_cost){0};
    enum qkv_status status = qkv_format_find(m->ctx, format, &numbers);
    if (!status) status = qkv_model_check_plain(m, "it is exported");
    if (!status && m->planned) status = qkv_fail(m->ctx, QKV_ARGUMENT, "a planned model has no weights to save");
    if (!status) status = qkv_folder_check_left(m, true, folder);
    if (!status) status = find_config(m, type, &config);
    if (!status) status = name_tokens(m, &config);
    if (!status) status = name_classes(m, &config);
    struct qkv_replace_folder replace;
    if (!status) status = qkv_replace_folder_begin(m->ctx, folder, &replace);
    if (!status) {
        status = write_published(m, &config, numbers, replace.temporary);
        if (!status)
            status = qkv_replace_folder_commit(&replace);
        else
            qkv_replace_folder_cancel(&replace);
    }
    qkv_family_config_free(&config);
    return status ? status : qkv_merge_cost_of(m, numbers);
}
