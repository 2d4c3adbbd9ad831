/* A model as a GGUF file: of the architecture of its family, of another family that can express it, or of our own. */
#include "io/gguf_export.h"

#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "io/generation.h"
#include "io/io.h"
#include "io/pooling.h"
#include "model/spec.h"
#include "text/text.h"

void qkv_gguf_options_init(struct qkv_gguf_options *options, size_t size) {
    static const struct qkv_gguf_options usual = {.size = sizeof usual, .format = "f32"};
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* ---- the family -------------------------------------------------------------------------------------------------- */

void qkv_gguf_drop_family(struct qkv_gguf_export *e) {
    qkv_family_gguf_written_free(&e->written);
    qkv_family_arrays_free(&e->arrays);
    qkv_family_config_free(&e->config);
}

/* The first part of a family's type, which may be a list. */
void qkv_gguf_family_name(const struct qkv_family *family, char name[64]) {
    snprintf(name, 64, "%.*s", (int)strcspn(family->type, ","), family->type);
}

/* The first family of a type that GGUF files have an architecture for; NULL: none. */
static const struct qkv_family *family_of_type(const char *type) {
    for (size_t i = 0; qkv_families[i]; i++)
        if (qkv_families[i]->gguf && qkv_family_has_type(qkv_families[i], type)) return qkv_families[i];
    return NULL;
}

/* Takes the tensors and keys of a configuration, which this call owns. */
static enum qkv_status export_take(struct qkv_gguf_export *e, const struct qkv_family_config *config) {
    char name[64];
    e->config = *config;
    e->config.gguf = qkv_family_gguf_of(config);
    qkv_gguf_family_name(config->family, name);
    enum qkv_status status =
        e->config.gguf ? qkv_family_arrays(e->model, &e->config, false, &e->arrays)
                       : qkv_fail(e->ctx, QKV_SPEC, "GGUF files have no architecture for models of type %s", name);
    if (!status) status = qkv_family_gguf_write(&e->arrays, &e->written);
    if (status) qkv_gguf_drop_family(e);
    return status;
}

/* The keys of a configuration without "@NAME", the tensors of the files that it was read from; NULL: no memory. */
static json_t *keys_of_config(const json_t *keys) {
    json_t *copy = json_object(), *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)keys, key, value) {
        if (copy && *key != '@' && json_object_set(copy, key, value)) {
            json_decref(copy);
            copy = NULL;
        }
    }
    return copy;
}

/* Takes a family: the model's own configuration if it has the same type, else one that the family makes of the spec. */
static enum qkv_status export_try(struct qkv_gguf_export *e, const struct qkv_family *family) {
    const struct qkv_family_config *own = e->model->origin.family;
    struct qkv_family_config config = {0};
    char name[64];
    qkv_gguf_family_name(family, name);
    if (own && qkv_family_has_type(own->family, name))
        config = (struct qkv_family_config){.family = own->family, .keys = keys_of_config(own->keys)};
    if (config.family && !config.keys) return qkv_fail_memory(e->ctx, 0, "the keys of a file");
    enum qkv_status status = config.family ? QKV_OK : qkv_family_write(e->ctx, name, NULL, &e->model->spec, &config);
    return status ? status : export_take(e, &config);
}

/* The nearest family to the model's spec, which need not be one that GGUF files have. */
static enum qkv_status export_nearest(struct qkv_gguf_export *e) {
    struct qkv_family_config config = {0};
    const enum qkv_status status = qkv_family_write(e->ctx, NULL, NULL, &e->model->spec, &config);
    return status ? status : export_take(e, &config);
}

/* Clears a failure that says that a family cannot express the model, and copies its sentence to `why` (NULL: nobody
 * reads it). Other failures end the export: they are returned. */
static enum qkv_status export_forgive(struct qkv_gguf_export *e, enum qkv_status status, char *why, size_t size) {
    if (status != QKV_SPEC && status != QKV_FORMAT && status != QKV_ARGUMENT) return status;
    if (why) snprintf(why, size, "%s", qkv_message(e->ctx));
    qkv_forgive(e->ctx);
    return QKV_OK;
}

/* Tries all families that GGUF files have, the model's own one first. *found: whether one can express the model. A note
 * says why the first one cannot. */
static enum qkv_status export_find(struct qkv_gguf_export *e, bool *found) {
    const struct qkv_family_config *own = e->model->origin.family;
    char why[800] = "", name[64];
    enum qkv_status status = own ? export_try(e, own->family) : QKV_OK;
    *found = own && !status;
    if (status) status = export_forgive(e, status, why, sizeof why);
    for (size_t i = 0; qkv_families[i] && !status && !*found; i++) {
        if (!qkv_families[i]->gguf || (own && qkv_families[i] == own->family)) continue;
        status = export_try(e, qkv_families[i]);
        *found = !status;
        if (status) status = export_forgive(e, status, NULL, 0);
        if (!*found || !own) continue;
        qkv_gguf_family_name(own->family, name);
        return qkv_gguf_note(e->ctx, e->notes, "the file is of architecture %s, not of the model's family %s: %s",
                             e->config.gguf->architecture, name, why);
    }
    if (!status && !*found && !own) {
        status = export_nearest(e);
        *found = !status;
        if (status) status = export_forgive(e, status, why, sizeof why);
    }
    if (status || *found) return status;
    return qkv_gguf_note(e->ctx, e->notes,
                         "the file is of architecture " QKV_GGUF_OWN ", which qkv reads and llama.cpp does not: %s",
                         why);
}

static enum qkv_status export_own(struct qkv_gguf_export *e) {
    e->config = (struct qkv_family_config){0};
    return qkv_family_arrays_own(e->model, &e->config, &e->arrays);
}

enum qkv_status qkv_gguf_choose_family(struct qkv_gguf_export *e) {
    const char *wanted = e->options->family;
    bool found = false;
    if (wanted && !strcmp(wanted, QKV_GGUF_OWN)) return export_own(e);
    if (wanted) return export_try(e, family_of_type(wanted));
    const enum qkv_status status = export_find(e, &found);
    return status || found ? status : export_own(e);
}

static const char *export_architecture(const struct qkv_gguf_export *e) {
    return e->config.gguf ? e->config.gguf->architecture : QKV_GGUF_OWN;
}

/* ---- what the file does not have --------------------------------------------------------------------------------- */

static enum qkv_status note_unused(struct qkv_gguf_export *e) {
    struct qkv_gguf_names names = {0};
    const char *name;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; (name = qkv_model_unused_tensor(e->model, i)) && !status; i++)
        status = qkv_gguf_names_add(e->ctx, &names, "%s", name);
    if (!status) status = qkv_gguf_names_end(e->ctx, &names);
    if (!status && names.count)
        status = qkv_gguf_note(e->ctx, e->notes,
                               "the file does not have tensors of the source that the model does not use: %s",
                               names.text.data);
    qkv_buffer_free(&names.text);
    return status;
}

/* Whether the model has settings of generation that files of a family have no keys for. */
static bool generation_is_lost(const struct qkv_gguf_export *e) {
    const struct qkv_model_generation *g = &e->model->generation;
    char start[96];
    snprintf(start, sizeof start, "%.64s.decoder_start_token_id", export_architecture(e));
    if (!g->given || !e->config.family) return false;
    return g->sampling.temperature > 0 || g->sampling.repeat_penalty != 1 || g->first >= 0 || g->bad_word_ids ||
           qkv_generation_rules(g) || (g->start >= 0 && !json_object_get(e->written.keys, start));
}

static enum qkv_status export_note_missing(struct qkv_gguf_export *e) {
    enum qkv_status status = note_unused(e);
    if (!status && generation_is_lost(e))
        status = qkv_gguf_note(e->ctx, e->notes,
                               "the file does not have all of the model's settings of sampling "
                               "(generation_config.json)");
    if (!status && e->config.family && e->model->source_tokenizer)
        status = qkv_gguf_note(e->ctx, e->notes, "the file does not have the tokenizer of the sources");
    return status;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* The keys of a file of our own: the spec, and texts that other files of a folder have. */
static enum qkv_status export_put_own(struct qkv_gguf_export *e) {
    const struct qkv_model *m = e->model;
    char *spec = NULL, *generation = NULL;
    struct qkv_buffer source = {0};
    enum qkv_status status = qkv_spec_print(e->ctx, &m->spec, &spec);
    if (!status && m->source_tokenizer) status = qkv_tokenizer_print(e->ctx, m->source_tokenizer, &source);
    if (!status && m->generation.given) {
        json_t *root = qkv_generation_json(&m->generation);
        generation = root ? json_dumps(root, JSON_COMPACT) : NULL;
        json_decref(root);
        if (!generation) status = qkv_fail_memory(e->ctx, 0, "settings of generation");
    }
    if (!status) {
        qkv_gguf_put_text(&e->writer, "general.architecture", QKV_GGUF_OWN, strlen(QKV_GGUF_OWN));
        qkv_gguf_put_text(&e->writer, QKV_GGUF_SPEC, spec, strlen(spec));
        if (source.size) qkv_gguf_put_text(&e->writer, QKV_GGUF_SOURCE, source.data, source.size);
        if (generation) qkv_gguf_put_text(&e->writer, QKV_GGUF_GENERATION, generation, strlen(generation));
        if (m->label_count) qkv_gguf_put_array(&e->writer, QKV_GGUF_LABELS, QKV_GGUF_STRING, m->label_count);
        for (size_t i = 0; i < m->label_count; i++) qkv_gguf_add_text(&e->writer, m->labels[i], strlen(m->labels[i]));
    }
    qkv_buffer_free(&source);
    free(generation);
    qkv_free(spec);
    return status;
}

static void export_put_family(struct qkv_gguf_export *e) {
    const char *key;
    json_t *value;
    json_object_foreach(e->written.keys, key, value) qkv_gguf_put_json(&e->writer, key, value);
}

/* The dense layers behind the pooling that the file has: none where its architecture cannot say all of them. */
static size_t export_dense(const struct qkv_gguf_export *e) {
    const struct qkv_model_pooling *p = &e->model->pooling;
    const size_t width = (size_t)e->model->spec.d_model, n = p->given ? p->dense_count : 0;
    if (!n || n > QKV_GGUF_DENSE || !e->config.gguf || !e->config.gguf->dense) return 0;
    for (size_t i = 0; i < n; i++) {
        const struct qkv_model_dense *d = &p->dense[i];
        if (d->activation != -1 || d->bias || d->residual || d->normalize || !d->weight) return 0;
    }
    return n < QKV_GGUF_DENSE || p->dense[n - 1].out == width ? n : 0;
}

static void export_put_dense(struct qkv_gguf_export *e) {
    for (size_t i = 0; i < export_dense(e); i++) {
        const struct qkv_model_dense *d = &e->model->pooling.dense[i];
        char key[96];
        snprintf(key, sizeof key, "%.64s.dense_%zu_feat_in", export_architecture(e), i + 2);
        qkv_gguf_put_u32(&e->writer, key, (uint32_t)d->in);
        snprintf(key, sizeof key, "%.64s.dense_%zu_feat_out", export_architecture(e), i + 2);
        qkv_gguf_put_u32(&e->writer, key, (uint32_t)d->out);
    }
}

/* A dense layer as a tensor of the file. */
static struct qkv_array dense_tensor(const struct qkv_gguf_export *e, size_t i) {
    const struct qkv_model_dense *d = &e->model->pooling.dense[i];
    return (struct qkv_array){.name = qkv_gguf_dense[i],
                              .dtype = QKV_F32,
                              .rank = 2,
                              .shape = {d->out, d->in},
                              .data = d->weight,
                              .bytes = d->out * d->in * sizeof *d->weight};
}

/* Puts the pooling where the file can say it. */
static enum qkv_status export_put_pooling(struct qkv_gguf_export *e) {
    const struct qkv_model_pooling *p = &e->model->pooling;
    const int type = p->given ? qkv_gguf_pooling(p->pool) : 0;
    char key[96];
    snprintf(key, sizeof key, "%.64s.pooling_type", export_architecture(e));
    if (type) qkv_gguf_put_u32(&e->writer, key, (uint32_t)type);
    if (type) export_put_dense(e);
    const bool dense = export_dense(e) == p->dense_count;
    const bool all = type && p->normalize && !p->without_prompt && dense && !p->prompt_count &&
                     (!p->most || p->most >= (size_t)e->model->spec.context);
    if (!p->given || all) return QKV_OK;
    return qkv_gguf_note(e->ctx, e->notes,
                         "the file has only part of modules.json: readers may make other vectors of texts");
}

static bool export_has_blocks(const struct qkv_gguf_export *e) {
    for (size_t i = 0; i < e->arrays.count; i++)
        if (qkv_types[e->tensors[i].array.dtype]->kind == QKV_CLASS_BLOCKS) return true;
    return false;
}

static enum qkv_status export_put_keys(struct qkv_gguf_export *e) {
    enum qkv_status status = QKV_OK;
    if (e->config.family)
        export_put_family(e);
    else
        status = export_put_own(e);
    qkv_gguf_put_text(&e->writer, "general.type", "model", 5);
    qkv_gguf_put_u32(&e->writer, "general.file_type", e->file_type);
    if (export_has_blocks(e)) qkv_gguf_put_u32(&e->writer, "general.quantization_version", 2);
    if (!status) status = export_put_pooling(e);
    return status ? status : qkv_gguf_put_tokenizer(e);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static enum qkv_status export_write(struct qkv_gguf_export *e) {
    enum qkv_status status = export_put_keys(e);
    for (size_t i = 0; i < e->arrays.count; i++) qkv_gguf_put_tensor(&e->writer, &e->tensors[i].array);
    for (size_t i = 0; i < e->written.factor_count; i++) qkv_gguf_put_tensor(&e->writer, &e->written.factors[i]);
    const size_t dense = export_dense(e);
    struct qkv_array layer;
    for (size_t i = 0; i < dense; i++) {
        layer = dense_tensor(e, i);
        qkv_gguf_put_tensor(&e->writer, &layer);
    }
    if (!status) status = qkv_gguf_begin_data(&e->writer);
    if (!status) status = qkv_gguf_write_rows(e);
    for (size_t i = 0; i < dense && !status; i++) {
        layer = dense_tensor(e, i);
        status = qkv_gguf_write_data(&e->writer, layer.data, layer.bytes);
        if (!status) status = qkv_gguf_end_tensor(&e->writer);
    }
    return status ? status : qkv_gguf_commit(&e->writer);
}

static enum qkv_status export_run(struct qkv_gguf_export *e) {
    enum qkv_status status = qkv_importance_open(e);
    if (!status) status = qkv_gguf_choose_family(e);
    if (!status) status = export_note_missing(e);
    if (!status) status = qkv_gguf_choose_types(e);
    if (!status) status = export_write(e);
    if (!status) e->notes->architecture = export_architecture(e);
    qkv_gguf_writer_free(&e->writer);
    qkv_imatrix_free(e->imatrix);
    for (size_t i = 0; i < e->arrays.count && e->tensors; i++) free(e->tensors[i].measured);
    free(e->tensors);
    qkv_gguf_drop_family(e);
    return status;
}

/* The options over the defaults, checked. */
static enum qkv_status options_take(struct qkv_context *ctx, const struct qkv_gguf_options *options,
                                    struct qkv_gguf_options *all) {
    *all = qkv_gguf_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_gguf_options, all, options);
    if (status) return status;
    QKV_NEED_ALL(ctx, all->keep_count, all->keep);
    QKV_NEED(ctx, all->format);
    status = qkv_gguf_check_types(ctx, all);
    if (status || !all->family || !strcmp(all->family, QKV_GGUF_OWN)) return status;
    if (family_of_type(all->family)) return QKV_OK;
    struct qkv_buffer names = {0};
    for (size_t i = 0; qkv_families[i] && !status; i++) {
        char name[64];
        qkv_gguf_family_name(qkv_families[i], name);
        if (family_of_type(name) == qkv_families[i]) status = qkv_buffer_print(ctx, &names, "%s, ", name);
    }
    if (!status)
        status = qkv_fail(ctx, QKV_ARGUMENT, "GGUF files have no family \"%.40s\"; there are %s" QKV_GGUF_OWN,
                          all->family, names.data);
    qkv_buffer_free(&names);
    return status;
}

enum qkv_status qkv_gguf_options_check(struct qkv_context *ctx, const struct qkv_gguf_options *options) {
    QKV_CALL(ctx);
    QKV_NEED(ctx, ctx);
    struct qkv_gguf_options all;
    return options_take(ctx, options, &all);
}

enum qkv_status qkv_model_export_gguf(struct qkv_model *m, const struct qkv_gguf_options *options, const char *path,
                                      struct qkv_gguf_notes **notes) {
    QKV_CALL(m ? m->ctx : NULL);
    if (notes) *notes = NULL;
    QKV_NEED(qkv_call, m);
    QKV_NEED(qkv_call, path);
    struct qkv_gguf_options all;
    enum qkv_status status = options_take(m->ctx, options, &all);
    if (!status) status = qkv_model_check_plain(m, "it is exported");
    if (status) return status;
    if (m->planned) return qkv_fail(m->ctx, QKV_ARGUMENT, "a planned model has no weights to save");
    struct qkv_gguf_export e = {.ctx = m->ctx,
                                .model = m,
                                .options = &all,
                                .notes = qkv_allocate(m->ctx, 1, sizeof *e.notes),
                                .writer = {.ctx = m->ctx, .path = path}};
    status = e.notes ? export_run(&e) : QKV_MEMORY;
    if (status || !notes)
        qkv_gguf_notes_free(e.notes);
    else
        *notes = e.notes;
    return status;
}
