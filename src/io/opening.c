/* opening: models are opened here, from whatever the list of sources has: opened, checked, measured and filled. */
#include "io/opening.h"

#include <stdlib.h>
#include <string.h>

#include "base/sized_options.h"
#include "io/adapter_files.h"
#include "io/gguf.h"
#include "model/spec.h"

static const struct qkv_source *const opening_sources[] = {
#define SOURCE_ROW(name) &qkv_source_##name,
    QKV_SOURCE_LIST(SOURCE_ROW)
#undef SOURCE_ROW
};

bool qkv_source_at(size_t i, const char **name, const char **help) {
    if (i >= sizeof opening_sources / sizeof *opening_sources) return false;
    if (name) *name = opening_sources[i]->name;
    if (help) *help = opening_sources[i]->help;
    return true;
}

void qkv_model_open_options_init(struct qkv_model_open_options *options, size_t size) {
    static const struct qkv_model_open_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

void qkv_needs_options_init(struct qkv_needs_options *options, size_t size) {
    static const struct qkv_needs_options usual = {.size = sizeof usual};
    qkv_options_init(options, size, &usual, sizeof usual);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Fails if a checkpoint that the path names is missing, or config.json is. A folder that cannot be searched may well
 * hold a model. */
static enum qkv_status opening_look(struct qkv_opening *o) {
    bool found = true;
    enum qkv_status status = o->place.named ? qkv_file_find(o->ctx, o->path, &found) : QKV_OK;
    if (status) return status;
    if (!found)
        return qkv_fail(o->ctx, QKV_FILE, "there is no %s; name a model folder, or a checkpoint in one", o->path);
    if (qkv_gguf_is(o->place.folder)) return QKV_OK; /* it is a file: opening it says what is wrong */
    char *config = qkv_join_path(o->ctx, o->place.folder, QKV_CONFIG_FILE);
    status = config ? qkv_file_find(o->ctx, config, &found) : QKV_MEMORY;
    if (!status && !found)
        status = qkv_fail(o->ctx, QKV_FILE, "%s is not a model folder: it has no config.json", o->place.folder);
    free(config);
    return status;
}

static enum qkv_status opening_find(struct qkv_opening *o) {
    bool mine = false;
    enum qkv_status status = opening_look(o);
    for (size_t i = 0; i < sizeof opening_sources / sizeof *opening_sources && !status && !mine; i++) {
        o->source = opening_sources[i];
        status = o->source->find(o, &mine);
    }
    return status;
}

/* What the options choose for the model. */
static enum qkv_status opening_choose(struct qkv_opening *o) {
    enum qkv_status status = QKV_OK;
    if (o->options.precision) {
        o->model->precision = *o->options.precision;
        status = qkv_precision_check(o->ctx, &o->model->precision);
    }
    return status ? status : qkv_model_set_cache(o->model, o->options.cache);
}

/* Bytes of the planned model, with what its products pack. */
static enum qkv_status opening_bytes(const struct qkv_opening *o, size_t *bytes) {
    enum qkv_status status = qkv_model_prepare(o->model, false);
    *bytes = qkv_model_bytes(o->model) + o->model->file.memory;
    return status;
}

/* Chooses whether stored weights are packed: not if the options say so, and not if only the weights without a packed
 * copy fit into memory. */
static enum qkv_status opening_choose_copy(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    size_t packed, plain;
    m->in_place = o->options.map;
    if (m->in_place || o->ctx->ignore_memory || o->options.ignore_memory || !qkv_weights_stored(qkv_model_base(m)))
        return QKV_OK;
    enum qkv_status status = opening_bytes(o, &packed);
    if (status || !qkv_memory_check(o->ctx, packed, o->path, NULL)) return status;
    qkv_forgive(o->ctx);
    m->in_place = true;
    qkv_model_drop_packed(m);
    status = opening_bytes(o, &plain);
    if (status || (plain < packed && !qkv_memory_check(o->ctx, plain, o->path, NULL))) return status;
    qkv_forgive(o->ctx); /* the check of what the model is used for says it */
    m->in_place = false;
    qkv_model_drop_packed(m);
    return QKV_OK;
}

/* Sources work with a model without an adapter; plans have it. */
static enum qkv_status opening_adapt(struct qkv_opening *o) {
    enum qkv_status status = o->adapter ? qkv_adapter_read(o->model, NULL, o->adapter) : QKV_OK;
    for (size_t i = 0; i < o->options.adapter_count && !status; i++)
        status = qkv_adapter_read(o->model, o->named[2 * i], o->named[2 * i + 1]);
    return status;
}

/* Copies what the options say about adapters. */
static enum qkv_status opening_list_adapters(struct qkv_opening *o) {
    const size_t count = o->options.adapter_count;
    o->adapter = o->options.adapter ? qkv_copy_string(o->ctx, o->options.adapter) : NULL;
    if (o->options.adapter && !o->adapter) return QKV_MEMORY;
    o->named = count ? qkv_allocate(o->ctx, 2 * count, sizeof(char *)) : NULL;
    if (count && !o->named) return QKV_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct qkv_named_adapter *a = &o->options.adapters[i];
        if (!a->name || !a->folder)
            return qkv_fail(o->ctx, QKV_ARGUMENT, "adapter %zu has no %s; each has both", i,
                            a->name ? "folder" : "name");
        o->named[2 * i] = qkv_copy_string(o->ctx, a->name);
        o->named[2 * i + 1] = qkv_copy_string(o->ctx, a->folder);
        if (!o->named[2 * i] || !o->named[2 * i + 1]) return QKV_MEMORY;
    }
    return QKV_OK;
}

static void opening_free_adapters(struct qkv_opening *o) {
    for (size_t i = 0; o->named && i < 2 * o->options.adapter_count; i++) free(o->named[i]);
    free(o->named);
    free(o->adapter);
}

static enum qkv_status opening_plan(struct qkv_opening *o) {
    enum qkv_status status = qkv_model_list(o->ctx, o->spec, &o->model);
    qkv_spec_free(o->spec);
    free(o->spec);
    o->spec = NULL;
    if (!status) status = opening_choose(o);
    if (!status) status = o->source->match(o);
    if (!status) status = qkv_model_set_file(o->model, &o->file);
    if (!status) o->state = NULL; /* the model closes it */
    if (!status) status = opening_adapt(o);
    return status ? status : opening_choose_copy(o);
}

static enum qkv_status opening_open(struct qkv_opening *o, const char *path) {
    o->path = qkv_copy_string(o->ctx, path);
    o->spec = qkv_allocate(o->ctx, 1, sizeof *o->spec);
    enum qkv_status status = o->path && o->spec ? opening_list_adapters(o) : QKV_MEMORY;
    if (!status) status = qkv_model_place(o->ctx, path, &o->place);
    if (!status) status = opening_find(o);
    return status ? status : opening_plan(o);
}

enum qkv_status qkv_model_open(struct qkv_context *ctx, const char *path, const struct qkv_model_open_options *options,
                               struct qkv_opening **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct qkv_model_open_options all = qkv_model_open_defaults();
    enum qkv_status status = QKV_TAKE_OPTIONS(ctx, qkv_model_open_options, &all, options);
    if (status) return status;
    QKV_NEED_ALL(ctx, all.adapter_count, all.adapters);
    struct qkv_opening *o = qkv_allocate(ctx, 1, sizeof *o);
    if (!o) return QKV_MEMORY;
    *o = (struct qkv_opening){.ctx = ctx, .options = all};
    o->options.ignore_digest |= ctx->ignore_digest;
    struct qkv_file_list *had = qkv_file_list_begin(ctx, &o->files);
    status = opening_open(o, path);
    qkv_file_list_end(ctx, had);
    if (status)
        qkv_opening_free(o);
    else
        *out = o;
    return status;
}

void qkv_opening_free(struct qkv_opening *o) {
    if (!o) return;
    qkv_model_free(o->model);
    if (o->state) o->source->close(o);
    qkv_gguf_free(o->keys);
    qkv_model_place_free(&o->place);
    qkv_file_list_free(&o->files);
    qkv_spec_free(o->spec);
    free(o->spec);
    free(o->path);
    opening_free_adapters(o);
    free(o);
}

const char *qkv_opening_source(const struct qkv_opening *o) {
    if (!o) return NULL;
    return o->source->name;
}

struct qkv_model *qkv_opening_plan(const struct qkv_opening *o) {
    if (!o) return NULL;
    return o->model;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static enum qkv_status opening_filled(const struct qkv_opening *o) {
    if (o->model) return QKV_OK;
    return qkv_fail(o->ctx, QKV_ARGUMENT, "%s: this opening has been filled; open the model again", o->path);
}

/* Checks that the weights fit into memory, in bf16 precision both copies of them. */
static enum qkv_status opening_check_memory(const struct qkv_opening *o) {
    size_t bytes, plain = 0;
    char help[64] = "", text[QKV_BYTES_TEXT];
    if (o->ctx->ignore_memory || o->options.ignore_memory) return QKV_OK;
    const enum qkv_precision precision = o->model->precision;
    enum qkv_status status = opening_bytes(o, &bytes);
    if (!status && qkv_model_product(o->model)->packed_bytes) { /* fp32 needs no copy of them */
        o->model->precision = QKV_FP32;
        status = opening_bytes(o, &plain);
        o->model->precision = precision;
        snprintf(help, sizeof help, "choose option precision = fp32 (%s)", qkv_bytes_text(text, plain));
    }
    return status ? status : qkv_memory_check(o->ctx, bytes, o->path, help);
}

static enum qkv_status opening_measure(const struct qkv_opening *o, const struct qkv_needs_options *options,
                                       struct qkv_needs *needs) {
    struct qkv_model *m = o->model;
    const struct qkv_page_types types = m->cache_types;
    const enum qkv_precision precision = m->precision;
    enum qkv_status status = options->cache ? qkv_model_set_cache(m, options->cache) : QKV_OK;
    if (options->precision) m->precision = *options->precision;
    if (!status) status = qkv_precision_check(o->ctx, &m->precision);
    if (!status) status = opening_bytes(o, &needs->model);
    if (!status && qkv_spec_topology(&m->spec) == QKV_DECODER_ALONE && m->spec.head.kind == QKV_HEAD_LM)
        status = qkv_session_measure(m, options->context, &needs->session);
    m->cache_types = types;
    m->precision = precision;
    const struct qkv_weights *base = qkv_model_base(m);
    for (size_t i = 0; i < base->count && !status; i++) needs->read += o->source->bytes(o, &base->list[i]);
    needs->mapped = qkv_weights_stored_bytes(base) - m->file.memory;
    needs->read -= needs->mapped;
    return status;
}

enum qkv_status qkv_opening_needs(struct qkv_opening *o, const struct qkv_needs_options *options,
                                  struct qkv_needs *needs) {
    QKV_CALL(o ? o->ctx : NULL);
    QKV_NEED(qkv_call, o);
    QKV_NEED(qkv_call, needs);
    struct qkv_needs_options all = qkv_needs_defaults();
    *needs = (struct qkv_needs){0};
    enum qkv_status status = QKV_TAKE_OPTIONS(o->ctx, qkv_needs_options, &all, options);
    if (!status) status = opening_filled(o);
    if (status) return status;
    const struct qkv_planning had = qkv_planning_begin(o->ctx);
    status = opening_measure(o, &all, needs);
    qkv_planning_end(o->ctx, had);
    return status;
}

enum qkv_status qkv_opening_check(struct qkv_opening *o) {
    QKV_CALL(o ? o->ctx : NULL);
    QKV_NEED(qkv_call, o);
    enum qkv_status status = opening_filled(o);
    if (!status) {
        struct qkv_file_list *had = qkv_file_list_begin(o->ctx, &o->files);
        qkv_model_drop_adapters(o->model);
        status = o->source->check(o);
        if (!status) status = opening_adapt(o);
        qkv_file_list_end(o->ctx, had);
    }
    return status ? status : opening_check_memory(o);
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

static enum qkv_status opening_fill(struct qkv_opening *o) {
    struct qkv_model *m = o->model;
    qkv_model_drop_adapters(m);
    enum qkv_status status = o->source->take ? o->source->take(o) : QKV_OK;
    if (!status) status = qkv_model_take(m);
    if (!status) status = o->source->read(o);
    if (!status) status = o->source->read_texts(o);
    if (!status) status = opening_adapt(o);
    if (!status && !qkv_weights_stored(qkv_model_base(m))) qkv_model_close_file(m); /* all numbers are in memory */
    return status;
}

enum qkv_status qkv_model_fill(struct qkv_opening *o, struct qkv_model **out) {
    QKV_CALL_OUT(o ? o->ctx : NULL, out);
    QKV_NEED(qkv_call, o);
    enum qkv_status status = qkv_opening_check(o);
    if (status) return status;
    struct qkv_file_list *had = qkv_file_list_begin(o->ctx, &o->files);
    status = opening_fill(o);
    qkv_file_list_end(o->ctx, had);
    qkv_file_list_free(&o->files);
    if (status)
        qkv_model_free(o->model);
    else
        *out = o->model;
    o->model = NULL;
    return status;
}

/* ---- in one call ------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_model_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    struct qkv_opening *o;
    enum qkv_status status = qkv_model_open(ctx, folder, NULL, &o);
    if (!status) status = qkv_model_fill(o, out);
    qkv_opening_free(o);
    return status;
}

enum qkv_status qkv_model_plan_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, folder);
    struct qkv_opening *o;
    enum qkv_status status = qkv_model_open(ctx, folder, NULL, &o);
    if (status) return status;
    *out = o->model;
    o->model = NULL;
    qkv_opening_free(o);
    return QKV_OK;
}
