/* Messages about a config.json that cannot be read, with its keys and values. */
#include <stdlib.h>
#include <string.h>

#include "family/family.h"

/* ---- a value ----------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_family_refuse(const struct qkv_family_reading *r, const char *key, const char *instead) {
    char *text = NULL;
    const json_t *value = qkv_family_get(r->config, key);
    if (value) text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const enum qkv_status status = qkv_fail(r->ctx, QKV_SPEC, "%s: %s is %.80s; models of type %s can have: %s",
                                            r->name, key, text ? text : "missing", r->family->type, instead);
    free(text);
    return status;
}

/* ---- a choice ---------------------------------------------------------------------------------------------------- */

/* A rule in words: "tie_word_embeddings true and a tensor lm_head.weight". */
static enum qkv_status rule_print(const struct qkv_family_reading *r, const char *when, struct qkv_buffer *text) {
    struct qkv_family_piece piece;
    enum qkv_status status = QKV_OK;
    for (bool first = true; !status && qkv_family_next(&when, &piece); first = false) {
        const bool tensor = piece.key[0] == '@', other = piece.value[0] == '!';
        const char *key = strcmp(piece.key, "class") ? piece.key : "architectures";
        status = qkv_buffer_print(r->ctx, text, "%s", first ? "" : " and ");
        if (!status && tensor)
            status = qkv_buffer_print(r->ctx, text, "%s tensor %s", piece.value[0] == 't' ? "a" : "no", key + 1);
        if (!status && !tensor)
            status = qkv_buffer_print(r->ctx, text, "%s %s%s", key, other ? "other than " : "", piece.value + other);
    }
    return status;
}

/* The values that config.json has for what the rules ask about. */
static enum qkv_status rule_print_found(const struct qkv_family_reading *r, const char *when, struct qkv_buffer *text) {
    struct qkv_family_piece piece;
    enum qkv_status status = QKV_OK;
    while (!status && qkv_family_next(&when, &piece)) {
        const bool tensor = piece.key[0] == '@';
        const json_t *value = qkv_family_get(r->config, piece.key);
        char *found = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        const char *key = strcmp(piece.key, "class") ? piece.key : "architectures";
        if (tensor)
            status = qkv_buffer_print(r->ctx, text, "%s%s tensor %s", text->size ? ", " : "",
                                      json_is_true(value) ? "a" : "no", key + 1);
        else
            status =
                qkv_buffer_print(r->ctx, text, "%s%s is %.60s", text->size ? ", " : "", key, found ? found : "missing");
        free(found);
    }
    return status;
}

enum qkv_status qkv_family_refuse_choice(const struct qkv_family_reading *r, const struct qkv_family_choice *choice) {
    struct qkv_buffer known = {0}, found = {0};
    enum qkv_status status = QKV_OK;
    for (const struct qkv_family_rule *rule = choice->rules; rule->when && !status; rule++) {
        if (known.size) status = qkv_buffer_print(r->ctx, &known, choice->key ? ", " : ", or ");
        if (!status && choice->key) status = qkv_buffer_print(r->ctx, &known, "%s", rule->when);
        if (!status && !choice->key) status = rule_print(r, rule->when, &known);
        if (!status && !choice->key && rule == choice->rules) status = rule_print_found(r, rule->when, &found);
    }
    if (!status && choice->key) status = qkv_family_refuse(r, choice->key, known.data);
    if (!status)
        status = qkv_fail(r->ctx, QKV_SPEC, "%s: %s; models of type %s can have: %s", r->name, found.data,
                          r->family->type, known.data);
    qkv_buffer_free(&known);
    qkv_buffer_free(&found);
    return status;
}

/* ---- messages about a spec --------------------------------------------------------------------------------------- */

/* The key as the file spells it: an alias, if the file has only that. */
static const char *key_spelled(const struct qkv_family_reading *r, const char *key, char text[96]) {
    const char *aliases = r->family->aliases ? r->family->aliases : "";
    struct qkv_family_piece piece;
    while (r->root && !qkv_family_get(r->root, key) && qkv_family_next(&aliases, &piece)) {
        if (strcmp(piece.value + (*piece.value == '!'), key) || !qkv_family_get(r->root, piece.key)) continue;
        snprintf(text, 96, "%s", piece.key);
        return text;
    }
    const json_t *rotation = json_object_get(r->root, "rope_parameters");
    if (r->root && !qkv_family_get(r->root, key) && json_object_get(rotation, key)) {
        snprintf(text, 96, "rope_parameters.%.60s", key);
        return text;
    }
    for (aliases = r->family->aliases ? r->family->aliases : "";
         !qkv_family_get(r->root, key) && qkv_family_next(&aliases, &piece);) {
        if (strcmp(piece.value, key) || !json_object_get(rotation, piece.key)) continue;
        snprintf(text, 96, "rope_parameters.%.60s", piece.key);
        return text;
    }
    if (!strcmp(key, "rope_scaling") && json_object_size(json_object_get(r->root, "rope_parameters")) &&
        !json_object_size(json_object_get(r->root, key)))
        return "rope_parameters";
    if (!strcmp(key, QKV_FAMILY_FULL_SCALING)) return "rope_parameters.full_attention";
    if (!strcmp(key, QKV_FAMILY_LOCAL_THETA)) return "rope_parameters.sliding_attention.rope_theta";
    return strcmp(key, QKV_FAMILY_LOCAL_SCALING) ? key : "rope_parameters.sliding_attention";
}

/* Finds the key whose value a path of the spec has, or, with `last`, the path's last word before a number. Returns
 * false if there is none. *made: the spec's value where it is not the file's, or NULL. */
static bool word_key(const struct qkv_family_reading *r, const char *word, bool last, char key[192],
                     const json_t **made) {
    const char *path;
    json_t *value;
    json_object_foreach(r->paths, path, value) {
        char name[96], spelled[96];
        const size_t n = strlen(path);
        const char *dot = strrchr(path, '.'), *from = json_string_value(value), *more = "";
        if (last ? !dot || strcmp(dot + 1, word) : strncmp(path, word, n) || (word[n] && word[n] != '.')) continue;
        if (!last && word[n] == '.' && !(more = qkv_family_scaling_key(word + n + 1))) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(from, ":"), from);
        snprintf(key, 192, "%s%s%s", key_spelled(r, name, spelled), *more ? "." : "", more);
        *made = strchr(from, ':') && !*more ? qkv_family_get(r->config, name) : NULL;
        return true;
    }
    return false;
}

/* Finds the key of a field of the object at a path. */
static bool word_object(const struct qkv_family_reading *r, const char *word, char key[192]) {
    const size_t n = strlen(word);
    const char *path;
    json_t *value;
    json_object_foreach(r->paths, path, value) {
        char name[96], spelled[96];
        const char *from = json_string_value(value);
        if (strncmp(path, word, n) || path[n] != '.') continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(from, ":"), from);
        snprintf(key, 192, "%s", key_spelled(r, name, spelled));
        return true;
    }
    return false;
}

/* Uses the last word of a path that no key belongs to: it is the field's name. */
static bool word_path(const char *word, char key[192]) {
    static const char *const begin[] = {"decoder.", "encoder.", "embed.", "head."};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        if (strncmp(word, begin[i], strlen(begin[i])) != 0) continue;
        snprintf(key, 192, "%s", strrchr(word, '.') + 1);
        return true;
    }
    return false;
}

/* The path of a stack with one kind of layer: "decoder.kinds.full.norm.eps" becomes "decoder.norm.eps". */
static bool without_kind(const char *word, char out[192]) {
    const char *kinds = strstr(word, ".kinds."), *end = kinds ? strchr(kinds + 7, '.') : NULL;
    if (end) snprintf(out, 192, "%.*s%s", (int)(kinds - word), word, end);
    return end != NULL;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* Finds the key for a word of a message. Returns false if the word stays. */
static bool word_find(const struct qkv_family_reading *r, const char *word, bool number, char key[192],
                      const json_t **made) {
    char one[192];
    *made = NULL;
    const bool kinds = without_kind(word, one);
    return word_key(r, word, false, key, made) || (kinds && word_key(r, one, false, key, made)) ||
           (number && word_key(r, word, true, key, made)) || word_object(r, word, key) ||
           (kinds && word_object(r, one, key)) || word_path(word, key);
}

/* Replaces " is NUMBER" after a key, where the spec's number is not the file's: prints the file's number. *size: the
 * bytes of the message that it replaces. */
static enum qkv_status word_value(const struct qkv_family_reading *r, const char *at, const json_t *made,
                                  struct qkv_buffer *text, size_t *size) {
    *size = 0;
    if (!made || strncmp(at, " is ", 4) || !strchr("-0123456789", at[4])) return QKV_OK;
    char *value = json_dumps(made, JSON_ENCODE_ANY | JSON_COMPACT);
    *size = 4 + strspn(at + 4, "-+.0123456789e");
    if (at[*size - 1] == '.') --*size; /* the full stop */
    const enum qkv_status status = qkv_buffer_print(r->ctx, text, " is %.60s", value ? value : "");
    free(value);
    return status;
}

char *qkv_family_reword(const struct qkv_family_reading *r, const char *message) {
    struct qkv_buffer text = {0};
    const size_t name = strlen(r->name);
    enum qkv_status status = QKV_OK;
    const char *at = message;
    if (!strncmp(message, r->name, name)) at += name; /* the file's name may contain such words */
    status = qkv_buffer_print(r->ctx, &text, "%.*s", (int)(at - message), message);
    while (*at && !status) {
        char word[192], key[192];
        const json_t *made = NULL;
        size_t n = 0, replaced = 0;
        while (is_word(at[n])) n++;
        while (n && at[n - 1] == '.') n--; /* the full stop */
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        const bool number = at[n] == ' ' && strchr("-0123456789", at[n + 1]) && at[n + 1];
        const bool found = n && n < sizeof word && word_find(r, word, number, key, &made);
        status = found ? qkv_buffer_print(r->ctx, &text, "%s", key)
                       : qkv_buffer_print(r->ctx, &text, "%.*s", (int)(n ? n : 1), at);
        at += n ? n : 1;
        if (!status && found) status = word_value(r, at, made, &text, &replaced);
        at += replaced;
    }
    if (!status) return text.data;
    qkv_buffer_free(&text);
    return NULL;
}
