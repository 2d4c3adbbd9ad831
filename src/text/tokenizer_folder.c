/* The tokenizer of a model's folder: tokenizer.json; else the older files, models of SentencePiece and ranks of
 * tiktoken, which are rewritten as a tokenizer.json and read as one; and the special tokens that the folder's
 * configuration names. */
#include "text/folder.h"
#include "text/spm.h"
#include "text/tiktoken.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENDS_KEY "more_end_tokens"

/* ---- a tokenizer.json that was made ------------------------------------------------------------------------------ */

/* Adds a normalizer Lowercase before the others, as sentence-transformers 6 does where there is none. */
static enum qkv_status folder_lower(const struct qkv_folder *f, json_t *root) {
    json_t *old = json_object_get(root, "normalizer");
    json_t *parts = json_object_get(old, QKV_SPM_KEY) ? NULL : json_object_get(old, "normalizers");
    const size_t count = json_array_size(parts);
    json_t *list = json_pack("[{s:s}]", "type", "Lowercase");
    bool has = false;
    for (size_t i = 0; i < (count ? count : 1) && !has; i++) {
        json_t *part = count ? json_array_get(parts, i) : old;
        const char *type = json_string_value(json_object_get(part, "type"));
        has = type && !strcmp(type, "Lowercase");
        if (part && !json_is_null(part)) json_array_append(list, part);
    }
    json_t *all = json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
    const bool made = all && (has || !json_object_set(root, "normalizer", all));
    json_decref(all);
    return made ? QKV_OK : qkv_fail_memory(f->ctx, 0, "a normalizer");
}

static enum qkv_status folder_made(struct qkv_folder *f, const char *file, json_t *root) {
    enum qkv_status status = f->lowers && json_is_object(root) ? folder_lower(f, root) : QKV_OK;
    if (status) return status;
    char *name = qkv_join_path(f->ctx, f->path, file), *text = json_dumps(root, JSON_COMPACT);
    status = name && text ? qkv_tokenizer_parse(f->ctx, text, strlen(text), name, &f->t)
                          : qkv_fail_memory(f->ctx, 0, "a vocabulary");
    free(name);
    free(text);
    return status;
}

/* ---- SentencePiece and tiktoken ---------------------------------------------------------------------------------- */

static const char *const model_files[] = {"tokenizer.model",    "spiece.model",  "sentencepiece.bpe.model",
                                          "tiktoken.model",     "qwen.tiktoken", "cl100k_base.tiktoken",
                                          "o200k_base.tiktoken"};
enum { MODEL_FILES = sizeof model_files / sizeof *model_files };

/* added_tokens of added_tokens.json and tokenizer_config.json that are no pieces. */
static json_t *folder_more(const struct qkv_folder *f, const struct qkv_spm *spm) {
    json_t *list = json_array(), *seen = json_object(), *value;
    const char *key;
    json_object_foreach(json_object_get(f->config, "added_tokens_decoder"), key, value) {
        const char *text = json_string_value(json_object_get(value, "content"));
        char *end;
        const long long id = strtoll(key, &end, 10);
        if (!text || !*text || *end || id < 0 || qkv_spm_id(spm, text) >= 0) continue;
        json_t *token = json_copy(value);
        json_object_set_new(token, "id", json_integer(id));
        json_array_append_new(list, token);
        json_object_set_new(seen, text, json_true());
    }
    json_object_foreach(f->added, key, value) {
        if (!*key || !json_is_integer(value) || qkv_spm_id(spm, key) >= 0 || json_object_get(seen, key)) continue;
        qkv_folder_add(list, key, json_integer_value(value), true);
    }
    json_decref(seen);
    return list;
}

static enum qkv_status folder_spm(struct qkv_folder *f, const char *name, const struct qkv_map *map, json_t **root) {
    struct qkv_spm spm;
    struct qkv_spm_family family = {0};
    json_t *model = NULL;
    enum qkv_status status = qkv_spm_read(f->ctx, name, map->data, map->size, &spm);
    if (!status) status = qkv_folder_json(f, "config.json", QKV_FOLDER_CONFIG_BYTES, &model);
    const struct qkv_spm_folder folder = {.model = model,
                                          .config = f->config,
                                          .added = f->added,
                                          .begin = qkv_folder_special(f, "bos_token"),
                                          .end = qkv_folder_special(f, "eos_token")};
    if (!status) status = qkv_spm_adapt(f->ctx, &spm, &folder, &family);
    if (!status) family.added = folder_more(f, &spm);
    if (!status) status = qkv_spm_json(f->ctx, &spm, &family, root);
    qkv_spm_family_free(&family);
    qkv_spm_free(&spm);
    json_decref(model);
    return status;
}

/* A model of SentencePiece, or ranks: the content tells. */
static enum qkv_status folder_model(struct qkv_folder *f, const char *file) {
    char *name = qkv_join_path(f->ctx, f->path, file);
    struct qkv_map map;
    json_t *root = NULL;
    enum qkv_status status = name ? qkv_read_file(f->ctx, name, &map) : QKV_MEMORY;
    if (!status) {
        const bool spm = qkv_spm_is(map.data, map.size);
        status = spm ? folder_spm(f, name, &map, &root) : qkv_tokenizer_load(f->ctx, name, &f->t);
        if (!status && spm) status = folder_made(f, file, root);
        qkv_unmap_file(&map);
    }
    json_decref(root);
    free(name);
    return status;
}

/* The file of the folder that has such a model; NULL: none. */
static const char *folder_model_file(const struct qkv_folder *f) {
    for (size_t i = 0; i < MODEL_FILES; i++)
        if (qkv_folder_has(f, model_files[i])) return model_files[i];
    return NULL;
}

static enum qkv_status folder_none(const struct qkv_folder *f) {
    char names[256];
    size_t n = 0;
    for (size_t i = 0; i < MODEL_FILES && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, ", no %s", model_files[i]);
    return qkv_fail(f->ctx, QKV_FILE,
                    "%s has no tokenizer: no tokenizer.json, no vocab.json with merges.txt, no vocab.txt%s%s", f->path,
                    names, qkv_folder_has(f, "source.spm") ? "; source.spm and target.spm of Marian are not read" : "");
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

const char *const qkv_sentence_files[] = {QKV_SENTENCES_FILE,
                                          "sentence_roberta_config.json",
                                          "sentence_distilbert_config.json",
                                          "sentence_camembert_config.json",
                                          "sentence_albert_config.json",
                                          "sentence_xlm-roberta_config.json",
                                          "sentence_xlnet_config.json",
                                          NULL};

static enum qkv_status folder_sentences(struct qkv_folder *f) {
    json_t *root = NULL;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; qkv_sentence_files[i] && !status && !root; i++)
        status = qkv_folder_json(f, qkv_sentence_files[i], QKV_FOLDER_CONFIG_BYTES, &root);
    f->lowers = json_is_true(json_object_get(root, "do_lower_case"));
    json_decref(root);
    return status;
}

/* The id of the ordinary token with that key; −1: there is none. */
static int folder_key(const struct qkv_folder *f, const char *text, size_t size) {
    struct qkv_buffer key = {0};
    int found = -1;
    for (size_t id = 0; id < f->t->count && found < 0; id++) {
        key.size = 0;
        if (f->t->tokens[id].added || qkv_tokenizer_key(f->ctx, f->t, id, &key)) continue;
        if (key.size == size && !memcmp(key.data, text, size)) found = (int)id;
    }
    qkv_buffer_free(&key);
    return found;
}

static int folder_id(const struct qkv_folder *f, const char *text) {
    const int special = qkv_tokenizer_special(f->t, text);
    const size_t size = strlen(text);
    if (special >= 0) return special;
    for (size_t id = 0; id < f->t->count; id++)
        if (f->t->tokens[id].added && f->t->tokens[id].size == size && !memcmp(qkv_token_bytes(f->t, id), text, size))
            return (int)id;
    return folder_key(f, text, size);
}

/* Reads the templates of chats. A fault in their files is one of the calls that use them. */
static enum qkv_status folder_chats(struct qkv_folder *f) {
    enum qkv_status status = qkv_chat_sources_read(f->ctx, &f->t->chats, f->path);
    if (status != QKV_FORMAT) return status;
    qkv_forgive(f->ctx);
    qkv_chat_sources_free(&f->t->chats);
    return QKV_OK;
}

/* Reads more tokens that end a text: a list that only folders written by qkv have. */
static enum qkv_status folder_ends(struct qkv_folder *f) {
    const json_t *list = json_object_get(f->config, ENDS_KEY);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        const int id = text ? folder_id(f, text) : -1;
        if (id >= 0) status = qkv_tokenizer_add_end(f->ctx, f->t, id);
    }
    return status;
}

static enum qkv_status folder_languages(struct qkv_folder *f) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < 4 && !status; i++) {
        const json_t *code = json_object_get(f->config, qkv_language_keys[i / 2][i % 2]);
        status = qkv_language_name(f->ctx, f->t, i / 2, i % 2, json_string_value(code));
    }
    qkv_language_take_source(f->t);
    return status;
}

static enum qkv_status folder_roles(struct qkv_folder *f) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && !status; i++) {
        const char *text = qkv_folder_special(f, qkv_role_keys[i]);
        const int id = text ? folder_id(f, text) : -1;
        if (id >= 0) status = qkv_tokenizer_set_role(f->ctx, f->t, (enum qkv_token_role)i, id);
    }
    if (!status) status = folder_languages(f);
    return status ? status : folder_ends(f);
}

static enum qkv_status folder_read(struct qkv_folder *f) {
    json_t *root = NULL;
    enum qkv_status status = qkv_folder_json(f, "tokenizer_config.json", QKV_FOLDER_CONFIG_BYTES, &f->config);
    if (!status) status = qkv_folder_json(f, "special_tokens_map.json", QKV_FOLDER_CONFIG_BYTES, &f->map);
    if (!status) status = qkv_folder_json(f, "added_tokens.json", QKV_FOLDER_CONFIG_BYTES, &f->added);
    if (!status) status = folder_sentences(f);
    if (status) return status;
    if (qkv_folder_has(f, QKV_TOKENIZER_FILE)) {
        char *name = f->lowers ? NULL : qkv_join_path(f->ctx, f->path, QKV_TOKENIZER_FILE);
        if (name) status = qkv_tokenizer_load(f->ctx, name, &f->t);
        if (!name)
            status = f->lowers ? qkv_folder_json(f, QKV_TOKENIZER_FILE, QKV_FOLDER_VOCAB_BYTES, &root) : QKV_MEMORY;
        if (!status && root) status = folder_made(f, QKV_TOKENIZER_FILE, root);
        free(name);
    } else if (qkv_folder_has(f, "vocab.json") && qkv_folder_has(f, "merges.txt")) {
        status = qkv_folder_merges(f, &root);
        if (!status) status = folder_made(f, "vocab.json", root);
    } else if (qkv_folder_has(f, "vocab.txt")) {
        status = qkv_folder_vocab(f, &root);
        if (!status) status = folder_made(f, "vocab.txt", root);
    } else if (folder_model_file(f)) {
        status = folder_model(f, folder_model_file(f));
    } else {
        status = folder_none(f);
    }
    json_decref(root);
    if (!status) status = folder_roles(f);
    return status ? status : folder_chats(f);
}

enum qkv_status qkv_tokenizer_missing(struct qkv_context *ctx, const char *problem, const char *doing, const char *file,
                                      const char *instead) {
    return qkv_fail(ctx, QKV_ARGUMENT,
                    "%s%sthe model has no tokenizer, so it reads no text%s%s; put its %s into the model's folder%s",
                    doing ? doing : "", doing ? ": " : "", problem ? ": " : "", problem ? problem : "", file, instead);
}

enum qkv_status qkv_tokenizer_read_roles(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *folder,
                                         const char *file) {
    struct qkv_folder f = {.ctx = ctx, .path = folder, .t = t};
    enum qkv_status status = qkv_folder_json(&f, file, QKV_FOLDER_CONFIG_BYTES, &f.config);
    if (!status) status = folder_roles(&f);
    if (!status && !strcmp(file, QKV_ROLES_FILE)) status = folder_chats(&f);
    json_decref(f.config);
    return status;
}

/* Whether the configuration names special tokens, or has templates of chats. */
static bool roles_named(const struct qkv_tokenizer *t) {
    bool any = t->end_count > 0 || t->chats.count > 0;
    for (size_t i = 0; i < QKV_TOKEN_ROLES; i++) any = any || (t->has_role[i] && t->roles[i] >= 0);
    return any;
}

bool qkv_tokenizer_has_roles(const struct qkv_tokenizer *t) {
    return roles_named(t) || t->languages[0] || t->languages[1];
}

/* The text of a token, or its key, for a file; NULL: it is not UTF-8, or no memory. */
static json_t *roles_token(struct qkv_context *ctx, const struct qkv_tokenizer *t, int id) {
    struct qkv_buffer key = {0};
    size_t size;
    if (t->tokens[id].added) {
        const char *text = qkv_tokenizer_token(t, id, &size);
        return json_stringn(text, size);
    }
    json_t *text = qkv_tokenizer_key(ctx, t, (size_t)id, &key) ? NULL : json_stringn(key.data, key.size);
    qkv_buffer_free(&key);
    return text;
}

/* usual: also roles that no configuration names, of tokens with their usual names. */
static json_t *roles_json(struct qkv_context *ctx, const struct qkv_tokenizer *t, bool usual) {
    json_t *root = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast"), *ends = json_array();
    bool made = root && ends;
    for (size_t i = 0; i < QKV_TOKEN_ROLES && made; i++) {
        const int id = usual || t->has_role[i] ? qkv_tokenizer_role(t, (enum qkv_token_role)i) : -1;
        if (id >= 0) made = !json_object_set_new(root, qkv_role_keys[i], roles_token(ctx, t, id));
    }
    for (size_t i = 0; i < t->end_count && made; i++)
        made = !json_array_append_new(ends, roles_token(ctx, t, t->ends[i]));
    if (made && t->end_count) made = !json_object_set(root, ENDS_KEY, ends);
    json_decref(ends);
    for (size_t i = 0; i < 2 && made; i++)
        if (t->languages[i])
            made = !json_object_set_new(root, qkv_language_keys[i][t->short_keys[i]], json_string(t->languages[i]));
    if (made && t->chats.count) made = !json_object_set_new(root, "chat_template", qkv_chat_sources_json(&t->chats));
    if (made) return root;
    json_decref(root);
    return NULL;
}

enum qkv_status qkv_tokenizer_write_roles(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *folder,
                                          const char *file) {
    if (!qkv_tokenizer_has_roles(t)) return QKV_OK;
    return qkv_json_save(ctx, folder, file, roles_json(ctx, t, false));
}

enum qkv_status qkv_tokenizer_write_class(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *folder,
                                          const char *file) {
    return roles_named(t) ? QKV_OK : qkv_json_save(ctx, folder, file, roles_json(ctx, t, true));
}

enum qkv_status qkv_tokenizer_open(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out) {
    QKV_CALL_OUT(ctx, out);
    QKV_NEED(ctx, ctx);
    QKV_NEED(ctx, path);
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return qkv_tokenizer_load(ctx, path, out);
    struct qkv_folder f = {.ctx = ctx, .path = path};
    enum qkv_status status = folder_read(&f);
    json_decref(f.config);
    json_decref(f.map);
    json_decref(f.added);
    if (status) {
        qkv_tokenizer_free(f.t);
        return status;
    }
    *out = f.t;
    return QKV_OK;
}
