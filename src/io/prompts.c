/* config_sentence_transformers.json: prompts, which are put before the texts whose vectors are made, by name, and the
 * name of the default prompt. */
#include <stdlib.h>
#include <string.h>

#include "io/io.h"
#include "io/pooling.h"

static enum qkv_status prompts_add(const struct qkv_pooling_file *f, struct qkv_model_pooling *pooling,
                                   const char *name, const json_t *value) {
    const char *text = json_is_null(value) ? "" : json_string_value(value);
    if (!text)
        return qkv_fail(f->ctx, QKV_SPEC, "%s: the prompt \"%.80s\" is not a text; write a text, or null", f->path,
                        name);
    struct qkv_model_prompt *prompt = &pooling->prompts[pooling->prompt_count++];
    prompt->name = qkv_copy_string(f->ctx, name);
    prompt->text = qkv_copy_string(f->ctx, text);
    return prompt->name && prompt->text ? QKV_OK : QKV_MEMORY;
}

/* The default prompt may be "query" or "document" without being listed: sentence-transformers then has empty ones. */
static enum qkv_status prompts_find_usual(const struct qkv_pooling_file *f, struct qkv_model_pooling *pooling) {
    const json_t *value = json_object_get(f->root, "default_prompt_name");
    const char *name = json_string_value(value);
    pooling->prompt_usual = pooling->prompt_count;
    if (!value || json_is_null(value)) return QKV_OK;
    for (size_t i = 0; i < pooling->prompt_count && name; i++)
        if (!strcmp(pooling->prompts[i].name, name)) pooling->prompt_usual = i;
    if (pooling->prompt_usual < pooling->prompt_count) return QKV_OK;
    if (name && (!strcmp(name, "query") || !strcmp(name, "document"))) return QKV_OK;
    return qkv_pooling_refuse(f, "default_prompt_name", "the name of one of its prompts, or null");
}

enum qkv_status qkv_prompts_read(struct qkv_context *ctx, const char *folder, struct qkv_model_pooling *pooling) {
    struct qkv_pooling_file f = {.ctx = ctx};
    enum qkv_status status = qkv_pooling_open(&f, folder, NULL, QKV_PROMPTS_FILE);
    json_t *prompts = json_object_get(f.root, "prompts"), *value;
    const char *name;
    if (!status && prompts && !json_is_object(prompts) && !json_is_null(prompts))
        status = qkv_pooling_refuse(&f, "prompts", "an object of texts by name");
    if (!status && f.root) {
        pooling->settings = json_dumps(f.root, JSON_INDENT(2));
        pooling->prompts = qkv_allocate(ctx, json_object_size(prompts), sizeof *pooling->prompts);
        if (!pooling->settings || !pooling->prompts) status = qkv_fail_memory(ctx, 0, "prompts");
    }
    json_object_foreach(prompts, name, value) {
        if (!status) status = prompts_add(&f, pooling, name, value);
    }
    if (!status) status = prompts_find_usual(&f, pooling);
    qkv_pooling_close(&f);
    return status;
}

enum qkv_status qkv_prompts_write(struct qkv_context *ctx, const char *folder,
                                  const struct qkv_model_pooling *pooling) {
    if (!pooling->settings) return QKV_OK;
    char *path = qkv_join_path(ctx, folder, QKV_PROMPTS_FILE);
    enum qkv_status status =
        path ? qkv_write_file(ctx, path, pooling->settings, strlen(pooling->settings)) : QKV_MEMORY;
    free(path);
    return status;
}
