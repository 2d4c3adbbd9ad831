/* Chat templates of models: of folders, of GGUF files, and single ones. */
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include "chat/chat_template.h"
#include "io/chat_templates.h"
#include "io/gguf_vocab.h"
#include "io/io.h"
#include "text/text.h"

struct chat_model {
    struct qkv_chat_sources sources;
    json_t *tokens; /* texts of special tokens by their names; NULL: none are known */
};

/* ---- GGUF -------------------------------------------------------------------------------------------------------- */

static const char *const role_keys[QKV_TOKEN_ROLES] = {
#define CHAT_ROLE_KEY(name, key, help) [QKV_TOKEN_ROLE_##name] = key,
    QKV_TOKEN_ROLE_LIST(CHAT_ROLE_KEY)
#undef CHAT_ROLE_KEY
};

/* Sets the tokens whose ids the keys name, from the list of all texts. */
static enum qkv_status chat_gguf_texts(const struct qkv_gguf *g, const struct qkv_gguf_value *texts, json_t *tokens) {
    double ids[QKV_VOCAB_ROLES];
    const char *text;
    size_t at = 0, size;
    for (size_t i = 0; i < QKV_VOCAB_ROLES; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", qkv_vocab_role_keys[i].key);
        const struct qkv_gguf_value *value = qkv_gguf_find(g, key);
        ids[i] = value && !value->array && value->type != QKV_GGUF_STRING ? qkv_gguf_number(g, value, 0) : -1;
    }
    for (size_t id = 0; qkv_gguf_text(g, texts, &at, &text, &size); id++) {
        for (size_t i = 0; i < QKV_VOCAB_ROLES; i++) {
            if (ids[i] != (double)id) continue;
            if (json_object_set_new(tokens, role_keys[qkv_vocab_role_keys[i].role], json_stringn(text, size)))
                return qkv_fail(g->ctx, QKV_FORMAT, "%s: token %zu is not UTF-8", g->path, id);
        }
    }
    return QKV_OK;
}

/* Sets the tokens that have roles in the tokenizer of a file without a list of texts. */
static enum qkv_status chat_gguf_roles(const struct qkv_gguf *g, json_t *tokens) {
    struct qkv_tokenizer *t;
    enum qkv_status status = qkv_gguf_tokenizer(g, &t);
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++) {
        size_t size;
        const char *text = qkv_tokenizer_token(t, qkv_tokenizer_role(t, (enum qkv_token_role)i), &size);
        if (text && json_object_set_new(tokens, role_keys[i], json_stringn(text, size)))
            status = qkv_fail_memory(g->ctx, size, "special tokens");
    }
    qkv_tokenizer_free(t);
    return status;
}

static enum qkv_status chat_gguf(struct qkv_context *ctx, const char *path, struct chat_model *model) {
    struct qkv_gguf *g;
    struct qkv_tensors *tensors;
    enum qkv_status status = qkv_gguf_open(ctx, path, &g, &tensors);
    if (status) return status;
    const struct qkv_gguf_value *texts = qkv_gguf_find(g, "tokenizer.ggml.tokens");
    status = qkv_gguf_chat_sources(g, &model->sources);
    model->tokens = json_object();
    if (!status && !model->tokens) status = qkv_fail_memory(ctx, 0, "special tokens");
    if (!status && texts && texts->array && texts->type == QKV_GGUF_STRING)
        status = chat_gguf_texts(g, texts, model->tokens);
    else if (!status && qkv_gguf_find(g, QKV_GGUF_TOKENIZER))
        status = chat_gguf_roles(g, model->tokens);
    qkv_gguf_free(g);
    qkv_tensors_close(tensors);
    return status;
}

/* ---- folders and files ------------------------------------------------------------------------------------------- */

static enum qkv_status chat_folder(struct qkv_context *ctx, const char *path, struct chat_model *model) {
    struct qkv_model_place place;
    enum qkv_status status = qkv_model_place(ctx, path, &place);
    if (status) return status;
    status = qkv_chat_sources_read(ctx, &model->sources, place.folder);
    if (!status) status = qkv_chat_tokens_read(ctx, place.folder, &model->tokens);
    qkv_model_place_free(&place);
    return status;
}

static enum qkv_status chat_file(struct qkv_context *ctx, const char *path, struct chat_model *model) {
    struct qkv_map map;
    enum qkv_status status = qkv_read_file(ctx, path, &map);
    if (status) return status;
    if (map.size > QKV_CHAT_BYTES)
        status = qkv_fail(ctx, QKV_FORMAT, "%s has %zu bytes; a chat template has at most %zu", path, map.size,
                          QKV_CHAT_BYTES);
    if (!status)
        status = qkv_chat_sources_add(ctx, &model->sources, "default", path, map.size ? (const char *)map.data : "",
                                      map.size);
    qkv_unmap_file(&map);
    return status;
}

static enum qkv_status chat_read(struct qkv_context *ctx, const char *path, struct chat_model *model) {
    static const char weights[] = ".safetensors";
    const size_t n = strlen(path), end = sizeof weights - 1;
    struct stat info;
    const bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (qkv_gguf_is(path)) return chat_gguf(ctx, path, model);
    if (folder || (n > end && !strcmp(path + n - end, weights))) return chat_folder(ctx, path, model);
    return chat_file(ctx, path, model);
}

enum qkv_status qkv_chat_template_open(struct qkv_context *ctx, const char *path, const char *file,
                                       struct qkv_chat_template **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct chat_model model = {0};
    struct qkv_chat_template *t = NULL;
    enum qkv_status status = chat_read(ctx, path, &model);
    if (!status && file) {
        qkv_chat_sources_free(&model.sources);
        status = chat_file(ctx, file, &model);
    }
    if (!status && !model.sources.count)
        status = qkv_fail(ctx, QKV_FILE,
                          "%s has no chat template: no chat_template.jinja, no key chat_template in "
                          "tokenizer_config.json, no key " QKV_GGUF_CHAT " in a GGUF file; name the file of one",
                          path);
    if (!status) status = qkv_chat_template_create(ctx, path, &t);
    for (size_t i = 0; i < model.sources.count && !status; i++) {
        const struct qkv_chat_source *source = &model.sources.items[i];
        status = qkv_chat_template_add(ctx, t, source->name, source->place, source->text, source->size);
    }
    if (!status && model.tokens && json_object_update(t->tokens, model.tokens))
        status = qkv_fail_memory(ctx, 0, "special tokens");
    qkv_chat_sources_free(&model.sources);
    json_decref(model.tokens);
    if (status) {
        qkv_chat_template_free(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}
