/* The keys tokenizer.ggml.* of a GGUF file: tokens, their types and scores, and the ids of special tokens. */
#include "io/gguf_vocab.h"

#include <stdlib.h>
#include <string.h>

#include "text/spm.h"

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static const struct qkv_gguf_value *vocab_find(const struct gguf_vocab *v, const char *key, const char *end) {
    char whole[96];
    snprintf(whole, sizeof whole, "tokenizer.ggml.%s%s", key, end);
    return qkv_gguf_find(v->g, whole);
}

enum qkv_status qkv_vocab_text(const struct gguf_vocab *v, const char *key, const char *fallback, char *out,
                               size_t size) {
    const struct qkv_gguf_value *value = vocab_find(v, key, "");
    const char *text = fallback;
    size_t at = 0, n = strlen(fallback);
    if (value && (value->array || !qkv_gguf_text(v->g, value, &at, &text, &n) || memchr(text, 0, n) || n >= size))
        return qkv_fail(v->ctx, QKV_FORMAT, "%s: tokenizer.ggml.%s is not a short text", v->g->path, key);
    snprintf(out, size, "%.*s", (int)n, text);
    return QKV_OK;
}

bool qkv_vocab_flag(const struct gguf_vocab *v, const char *key, bool fallback) {
    const struct qkv_gguf_value *value = vocab_find(v, key, "");
    if (!value || value->array || value->type != QKV_GGUF_BOOL) return fallback;
    return qkv_gguf_number(v->g, value, 0) != 0;
}

int qkv_vocab_id(const struct gguf_vocab *v, const char *key, int fallback) {
    const struct qkv_gguf_value *value = vocab_find(v, key, "_token_id");
    const double id = value && !value->array && value->type != QKV_GGUF_STRING ? qkv_gguf_number(v->g, value, 0) : -1;
    return id >= 0 && id < (double)v->count ? (int)id : fallback;
}

/* A list of as many numbers as there are tokens; NULL: the file has none. */
static enum qkv_status vocab_numbers(const struct gguf_vocab *v, const char *key, const struct qkv_gguf_value **out) {
    *out = vocab_find(v, key, "");
    if (!*out || ((*out)->array && (*out)->type != QKV_GGUF_STRING && (*out)->count == v->count)) return QKV_OK;
    return qkv_fail(v->ctx, QKV_FORMAT, "%s: tokenizer.ggml.%s has no number for each of the %zu tokens", v->g->path,
                    key, v->count);
}

enum gguf_vocab_type qkv_vocab_type(const struct gguf_vocab *v, size_t id) {
    const double type = v->types ? qkv_gguf_number(v->g, v->types, id) : VOCAB_NORMAL;
    return type >= VOCAB_NORMAL && type <= VOCAB_BYTE ? (enum gguf_vocab_type)(int)type : VOCAB_NORMAL;
}

enum qkv_status qkv_vocab_begin(struct gguf_vocab *v) {
    const struct qkv_gguf_value *tokens = vocab_find(v, "tokens", "");
    if (!tokens || !tokens->array || tokens->type != QKV_GGUF_STRING || !tokens->count || tokens->count > INT32_MAX)
        return qkv_fail(v->ctx, QKV_FORMAT, "%s has no tokenizer: it has no texts tokenizer.ggml.tokens", v->g->path);
    v->count = tokens->count;
    v->texts = qkv_gguf_value_json(v->g, tokens);
    if (!v->texts) return qkv_fail_memory(v->ctx, 0, "a vocabulary");
    enum qkv_status status = vocab_numbers(v, "token_type", &v->types);
    if (!status) status = vocab_numbers(v, "scores", &v->scores);
    size_t bytes = 0;
    for (size_t i = 0; i < v->count && !status; i++) bytes += qkv_vocab_type(v, i) == VOCAB_BYTE;
    v->bytes = bytes == 256;
    return status;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* Whether a token is found in a text before it is cut into pieces. */
static bool vocab_is_added(const struct gguf_vocab *v, size_t id) {
    const enum gguf_vocab_type type = qkv_vocab_type(v, id);
    return type == VOCAB_CONTROL || type == VOCAB_USER || type == VOCAB_UNKNOWN;
}

enum qkv_status qkv_vocab_keys(const struct gguf_vocab *v, bool added, json_t **out) {
    json_t *text, *vocab = json_object();
    size_t id;
    enum qkv_status status = vocab ? QKV_OK : qkv_fail_memory(v->ctx, 0, "a vocabulary");
    json_array_foreach(v->texts, id, text) {
        const char *key = json_string_value(text);
        if (status || (!added && vocab_is_added(v, id))) continue;
        if (json_object_get(vocab, key))
            status = qkv_fail(v->ctx, QKV_FORMAT, "%s: the tokens %lld and %zu are both \"%.60s\"", v->g->path,
                              (long long)json_integer_value(json_object_get(vocab, key)), id, key);
        else if (json_object_set_new(vocab, key, json_integer((json_int_t)id)))
            status = qkv_fail_memory(v->ctx, 0, "a vocabulary");
    }
    if (status)
        json_decref(vocab);
    else
        *out = vocab;
    return status;
}

json_t *qkv_vocab_added(const struct gguf_vocab *v) {
    json_t *list = json_array();
    bool made = list != NULL;
    for (size_t id = 0; id < v->count && made; id++) {
        if (!vocab_is_added(v, id) || !json_string_length(json_array_get(v->texts, id))) continue;
        made = !json_array_append_new(list,
                                      json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                                                json_array_get(v->texts, id), "single_word", 0, "lstrip", 0, "rstrip",
                                                0, "normalized", 0, "special", qkv_vocab_type(v, id) != VOCAB_USER));
    }
    if (made) return list;
    json_decref(list);
    return NULL;
}

/* ---- merges of scores -------------------------------------------------------------------------------------------- */

enum qkv_status qkv_vocab_merges(const struct gguf_vocab *v, json_t **out) {
    *out = NULL;
    if (!v->scores) return qkv_fail(v->ctx, QKV_FORMAT, "%s has no tokenizer.ggml.scores", v->g->path);
    struct qkv_scored *tokens = qkv_allocate(v->ctx, v->count, sizeof *tokens);
    if (!tokens) return QKV_MEMORY;
    for (size_t id = 0; id < v->count; id++) {
        const json_t *text = json_array_get(v->texts, id);
        tokens[id] = (struct qkv_scored){json_string_value(text), json_string_length(text),
                                         (float)qkv_gguf_number(v->g, v->scores, id),
                                         qkv_vocab_type(v, id) != VOCAB_BYTE}; /* those do not stand for their text */
    }
    const enum qkv_status status = qkv_scored_merges(v->ctx, tokens, v->count, out, NULL);
    free(tokens);
    return status;
}

/* ---- the map of characters --------------------------------------------------------------------------------------- */

json_t *qkv_vocab_charsmap(const struct gguf_vocab *v) {
    const struct qkv_gguf_value *map = vocab_find(v, "precompiled_charsmap", "");
    if (!map || !map->array || (map->type != QKV_GGUF_U8 && map->type != QKV_GGUF_I8) || !map->count)
        return json_null();
    return qkv_base64_json(v->ctx, v->g->header + map->at, map->count);
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

/* Adds a special token to a template, and to the list of those that it uses. */
static bool template_add(const struct gguf_vocab *v, json_t *list, json_t *specials, int id) {
    json_t *text = json_array_get(v->texts, (size_t)id);
    return !json_array_append_new(list, json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", text, "type_id", 0)) &&
           !json_object_set_new(specials, json_string_value(text),
                                json_pack("{s:O, s:[i], s:[O]}", "id", text, "ids", id, "tokens", text));
}

json_t *qkv_vocab_template(const struct gguf_vocab *v) {
    const int end = qkv_vocab_id(v, "eos", -1), separator = qkv_vocab_id(v, "seperator", end);
    const int first = qkv_vocab_id(v, "bos", qkv_vocab_id(v, "cls", -1));
    char model[32];
    const bool words = !qkv_vocab_text(v, "model", "", model, sizeof model) && !strcmp(model, "bert");
    const int last = words ? separator : end;
    const bool before = qkv_vocab_flag(v, "add_bos_token", v->begins) && first >= 0;
    const bool after = qkv_vocab_flag(v, words ? "add_sep_token" : "add_eos_token", v->ends) && last >= 0;
    if (!before && !after) return json_null();
    json_t *single = json_array(), *specials = json_object();
    bool made = single && specials;
    if (before) made = made && template_add(v, single, specials, first);
    made = made && !json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    if (after) made = made && template_add(v, single, specials, last);
    return json_pack("{s:s, s:o?, s:[], s:o?}", "type", "TemplateProcessing", "single", single, "pair",
                     "special_tokens", specials);
}

const struct vocab_role qkv_vocab_role_keys[QKV_VOCAB_ROLES] = {
    {"bos", QKV_TOKEN_ROLE_BEGIN}, {"eos", QKV_TOKEN_ROLE_END},         {"padding", QKV_TOKEN_ROLE_PAD},
    {"mask", QKV_TOKEN_ROLE_MASK}, {"unknown", QKV_TOKEN_ROLE_UNKNOWN}, {"seperator", QKV_TOKEN_ROLE_SEPARATOR},
    {"cls", QKV_TOKEN_ROLE_CLASS},
};
const char *const qkv_vocab_end_keys[QKV_VOCAB_ENDS] = {"eot", "eom"};

enum qkv_status qkv_vocab_roles(const struct gguf_vocab *v, struct qkv_tokenizer *t) {
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < QKV_VOCAB_ROLES && !status; i++) {
        const int id = qkv_vocab_id(v, qkv_vocab_role_keys[i].key, -1);
        if (id >= 0) status = qkv_tokenizer_set_role(v->ctx, t, qkv_vocab_role_keys[i].role, id);
    }
    for (size_t i = 0; i < QKV_VOCAB_ENDS && !status; i++) {
        const int id = qkv_vocab_id(v, qkv_vocab_end_keys[i], -1);
        if (id >= 0) status = qkv_tokenizer_add_end(v->ctx, t, id);
    }
    return status;
}
