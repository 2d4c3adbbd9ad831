/* Reads the keys of a link of a tokenizer.json. */
#include "text/chain.h"

#include <stdlib.h>
#include <string.h>

#define PATTERNS_MAX 64

static bool keys_absent(const json_t *value) {
    return !value || json_is_null(value);
}

enum qkv_status qkv_chain_refuse(struct chain_reader *r, const char *key, const json_t *value, const char *knows) {
    char path[160];
    snprintf(path, sizeof path, "%s.%s", r->key, key);
    return qkv_json_refuse(r->ctx, r->name, path, value, knows);
}

enum qkv_status qkv_chain_bool(struct chain_reader *r, const json_t *value, const char *key, bool fallback, bool *out) {
    const json_t *is = json_object_get(value, key);
    *out = keys_absent(is) ? fallback : json_is_true(is);
    return keys_absent(is) || json_is_boolean(is) ? QKV_OK : qkv_chain_refuse(r, key, is, "true and false");
}

enum qkv_status qkv_chain_string(struct chain_reader *r, const json_t *value, const char *key, const char *fallback,
                                 char **out) {
    const json_t *is = json_object_get(value, key);
    const char *text = keys_absent(is) ? fallback : json_string_value(is);
    if (!text) return qkv_chain_refuse(r, key, is, "a text");
    free(*out);
    *out = qkv_copy_string(r->ctx, text);
    return *out ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_chain_size(struct chain_reader *r, const json_t *value, const char *key, size_t fallback,
                               size_t *out) {
    const json_t *is = json_object_get(value, key);
    *out = keys_absent(is) ? fallback : (size_t)json_integer_value(is);
    const bool good = keys_absent(is) || (json_is_integer(is) && json_integer_value(is) >= 0);
    return good ? QKV_OK : qkv_chain_refuse(r, key, is, "integers from 0 on");
}

enum qkv_status qkv_chain_code(struct chain_reader *r, const json_t *value, const char *key, uint32_t fallback,
                               uint32_t *out) {
    const json_t *is = json_object_get(value, key);
    *out = fallback;
    if (keys_absent(is) && fallback) return QKV_OK;
    const char *text = json_string_value(is);
    size_t at = 0;
    if (text && *text) *out = qkv_code_next(text, strlen(text), &at);
    return at && !text[at] ? QKV_OK : qkv_chain_refuse(r, key, is, "a text of one character");
}

enum qkv_status qkv_chain_set_pattern(struct chain_reader *r, const char *source, struct chain_link *link) {
    if (r->patterns == PATTERNS_MAX)
        return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s has more than %d patterns", r->name, r->key, PATTERNS_MAX);
    link->place = r->patterns++;
    enum qkv_status status = qkv_pattern_create(r->ctx, source, &link->pattern);
    if (status != QKV_FORMAT) return status;
    char why[512];
    snprintf(why, sizeof why, "%s", qkv_message(r->ctx));
    return qkv_fail(r->ctx, QKV_FORMAT, "%s: %s: %s", r->name, r->key, why);
}

enum qkv_status qkv_chain_pattern(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    const json_t *pattern = json_object_get(value, "pattern");
    const char *text = json_string_value(json_object_get(pattern, "String")),
               *regex = json_string_value(json_object_get(pattern, "Regex"));
    if (regex) return qkv_chain_set_pattern(r, regex, link);
    if (!text) return qkv_chain_refuse(r, "pattern", pattern, "{\"String\": …} and {\"Regex\": …}");
    link->literal = qkv_copy_string(r->ctx, text);
    link->size = strlen(text);
    return link->literal ? QKV_OK : QKV_MEMORY;
}

enum qkv_status qkv_chain_behavior(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const json_t *is = json_object_get(value, "behavior");
    link->behavior = CHAIN_ISOLATED;
    if (keys_absent(is)) return QKV_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_is_string(is) || strcmp(json_string_value(is), names[i]) != 0) continue;
        link->behavior = (enum chain_behavior)i;
        return QKV_OK;
    }
    return qkv_chain_refuse(r, "behavior", is, "Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous");
}

enum qkv_status qkv_chain_scheme(struct chain_reader *r, const json_t *value, struct chain_link *link) {
    static const char *const names[] = {"always", "first", "never"};
    const json_t *is = json_object_get(value, "prepend_scheme"), *old = json_object_get(value, "add_prefix_space");
    link->scheme = json_is_false(old) ? CHAIN_NEVER : CHAIN_ALWAYS;
    if (keys_absent(is)) return QKV_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_is_string(is) || strcmp(json_string_value(is), names[i]) != 0) continue;
        link->scheme = (enum chain_scheme)i;
        return QKV_OK;
    }
    return qkv_chain_refuse(r, "prepend_scheme", is, "always, first and never");
}
