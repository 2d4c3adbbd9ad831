/* adapter_choice: adapters with names, and which of them the rows of a pass have. A struct of a model chooses one for
 * all rows, or none; decoders choose one for each of their rows. */
#include "base/utf8.h"
#include "model/model.h"

#include <string.h>

enum { NAME_MAX_BYTES = 256, NAMES_TEXT = 400 };

/* Requests and lists in JSON have the name, and the command writes "name=FOLDER". */
enum qkv_status qkv_adapter_check_name(struct qkv_context *ctx, const char *name) {
    const size_t n = strlen(name);
    bool plain = n && n <= NAME_MAX_BYTES && qkv_utf8_valid(name, n) == n;
    for (size_t i = 0; i < n && plain; i++)
        plain = (unsigned char)name[i] >= ' ' && name[i] != 0x7f && name[i] != '/' && name[i] != '=';
    if (plain) return QKV_OK;
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "an adapter cannot have the name \"%.80s\"; a name is a text of 1 to %d bytes in UTF-8 without "
                    "control characters, \"/\" and \"=\"",
                    name, NAME_MAX_BYTES);
}

static void names_list(const struct qkv_model *m, char text[NAMES_TEXT]) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < m->named.count && used < NAMES_TEXT; i++)
        used += (size_t)snprintf(text + used, NAMES_TEXT - used, "%s%s", i ? ", " : "", m->named.list[i]->name);
    if (used >= NAMES_TEXT) memcpy(text + NAMES_TEXT - 4, "...", 4);
}

enum qkv_status qkv_model_find_adapter(const struct qkv_model *m, const char *name, struct qkv_adapter_run *all) {
    char text[NAMES_TEXT];
    *all = (struct qkv_adapter_run){0};
    if (!name || !*name) return QKV_OK;
    for (size_t i = 0; i < m->named.count; i++) {
        if (strcmp(m->named.list[i]->name, name) != 0) continue;
        *all = m->named.every[i];
        return QKV_OK;
    }
    if (!m->named.count)
        return qkv_fail(m->ctx, QKV_ARGUMENT, "there is no adapter %.80s: the model was opened without named adapters",
                        name);
    names_list(m, text);
    return qkv_fail(m->ctx, QKV_ARGUMENT, "there is no adapter %.80s; the model has %s", name, text);
}

/* ---- the interface ----------------------------------------------------------------------------------------------- */

const char *qkv_adapter_name(const struct qkv_model *model, size_t i) {
    if (!model) return NULL;
    return i < model->named.count ? model->named.list[i]->name : NULL;
}

enum qkv_status qkv_adapter_use(struct qkv_model *model, const char *name) {
    QKV_CALL(model ? model->ctx : NULL);
    QKV_NEED(qkv_call, model);
    struct qkv_adapter_run all;
    enum qkv_status status = qkv_model_check_alive(model);
    if (!status) status = qkv_model_find_adapter(model, name, &all);
    if (!status && model->sharing.users)
        status = qkv_fail(model->ctx, QKV_ARGUMENT,
                          "the model is in use; free its sessions, passes and engines before it uses another adapter");
    if (!status) model->chosen = all;
    return status;
}
