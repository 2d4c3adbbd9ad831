/* adapter_gguf: the settings of an adapter in a GGUF file (https://github.com/ggml-org/llama.cpp, --lora): its
 * architecture, which gives the names and the order of rows, and its scale. */
#include <math.h>
#include <string.h>

#include "io/adapter_reading.h"
#include "io/gguf_export.h"
#include "io/gguf_own.h"

enum { TEXT_MOST = 64 };

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* The text of a key, cut; "": there is none. */
static void keys_text(const struct qkv_adapter_reading *r, const char *key, char out[TEXT_MOST]) {
    size_t size = 0;
    const char *text = qkv_gguf_one_text(r->keys, key, &size);
    snprintf(out, TEXT_MOST, "%.*s", (int)qkv_min(size, TEXT_MOST - 1), text ? text : "");
}

static enum qkv_status keys_need(const struct qkv_adapter_reading *r, const char *key, const char *need) {
    char have[TEXT_MOST];
    keys_text(r, key, have);
    if (!strcmp(have, need)) return QKV_OK;
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s is \"%s\"; adapters that can be read have \"%s\"", r->path, key, have,
                    need);
}

static enum qkv_status keys_check(const struct qkv_adapter_reading *r) {
    static const char activated[] = "adapter.alora.invocation_tokens";
    const struct qkv_gguf_value *parts = qkv_gguf_find(r->keys, "split.count");
    enum qkv_status status = keys_need(r, "general.type", "adapter");
    if (!status) status = keys_need(r, "adapter.type", "lora");
    if (status) return status;
    if (qkv_gguf_find(r->keys, activated))
        return qkv_fail(r->ctx, QKV_SPEC,
                        "%s has the key %s: it adapts only what follows these tokens, which is not read", r->path,
                        activated);
    if (parts && (parts->type == QKV_GGUF_STRING || parts->array || qkv_gguf_number(r->keys, parts, 0) > 1))
        return qkv_fail(r->ctx, QKV_FORMAT, "%s is one of several files (split.count); join them into one", r->path);
    return QKV_OK;
}

static enum qkv_status keys_alpha(struct qkv_adapter_reading *r) {
    static const char key[] = "adapter.lora.alpha";
    const struct qkv_gguf_value *value = qkv_gguf_find(r->keys, key);
    if (!value || value->array || value->type == QKV_GGUF_STRING)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s has no number %s; convert the adapter again", r->path, key);
    r->alpha = qkv_gguf_number(r->keys, value, 0);
    if (fabs(r->alpha) <= 1e6) return QKV_OK;
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s is %g; numbers up to 1000000 can be read", r->path, key, r->alpha);
}

/* ---- the architecture -------------------------------------------------------------------------------------------- */

/* Takes a configuration, which this call owns, if GGUF files of it have the architecture. */
static bool architecture_take(struct qkv_adapter_reading *r, struct qkv_family_config *config, const char *name) {
    if (!config->gguf) config->gguf = qkv_family_gguf_of(config);
    if (!config->gguf || strcmp(config->gguf->architecture, name) != 0) {
        qkv_family_config_free(config);
        return false;
    }
    r->made = *config;
    r->names = &r->made;
    return true;
}

/* Tries the families of the architecture, for a model that may have another one, or none. */
static enum qkv_status architecture_find(struct qkv_adapter_reading *r, const char *name) {
    for (size_t i = 0; qkv_families[i] && !r->names; i++) {
        const struct qkv_family_gguf *table = qkv_families[i]->gguf;
        struct qkv_family_config config = {0};
        char type[64];
        while (table && strcmp(table->architecture, name) != 0) table = table->next;
        if (!table) continue;
        qkv_gguf_family_name(qkv_families[i], type);
        const enum qkv_status status = qkv_family_write(r->ctx, type, NULL, &r->model->spec, &config);
        if (status == QKV_MEMORY) return status;
        if (status)
            qkv_forgive(r->ctx);
        else
            architecture_take(r, &config, name);
    }
    return QKV_OK;
}

/* Finds the names of the tensors: those of the model's own family, if its GGUF files have the architecture. */
static enum qkv_status architecture_read(struct qkv_adapter_reading *r) {
    const struct qkv_family_config *own = r->model->origin.family;
    enum qkv_status status = QKV_OK;
    char name[TEXT_MOST];
    keys_text(r, "general.architecture", name);
    if (!strcmp(name, QKV_GGUF_OWN)) return QKV_OK;
    if (own) {
        struct qkv_family_config config = {.family = own->family, .keys = json_incref(own->keys), .gguf = own->gguf};
        if (architecture_take(r, &config, name)) return QKV_OK;
    }
    status = architecture_find(r, name);
    if (status || r->names) return status;
    return qkv_fail(r->ctx, QKV_SPEC,
                    "%s: general.architecture is \"%s\", and the model is not of that architecture: the adapter is for "
                    "another model",
                    r->path, name);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_adapter_gguf_read(struct qkv_adapter_reading *r) {
    enum qkv_status status = qkv_gguf_open(r->ctx, r->path, &r->keys, &r->file);
    if (!status) status = keys_check(r);
    if (!status) status = keys_alpha(r);
    return status ? status : architecture_read(r);
}

enum qkv_status qkv_adapter_gguf_size(struct qkv_adapter_reading *r, const struct qkv_array *a, size_t *rank,
                                      double *scale) {
    *rank = a->rank == 2 ? a->shape[0] : 0;
    if (*rank < 1 || *rank > QKV_ADAPTER_RANK_MOST)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s has no rows from 1 to %d; convert the adapter again", r->path,
                        a->name, QKV_ADAPTER_RANK_MOST);
    *scale = r->alpha != 0 ? r->alpha / (double)*rank : 1;
    if (r->count) return QKV_OK;
    r->settings.rank = *rank; /* those of the first tensor stand for all */
    r->settings.alpha = r->alpha != 0 ? r->alpha : (double)*rank;
    return QKV_OK;
}
