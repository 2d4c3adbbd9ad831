/* The language of the tables: lists of KEY=VALUE, and JSON at paths. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "family/family.h"

bool qkv_family_next(const char **list, struct qkv_family_piece *piece) {
    const char *at = *list ? *list + strspn(*list, " ;") : "";
    if (!*at) return false;
    const size_t n = strcspn(at, ";"), key = strcspn(at, "=");
    const size_t value = n - key - 1;
    snprintf(piece->key, sizeof piece->key, "%.*s", (int)key, at);
    snprintf(piece->value, sizeof piece->value, "%.*s", (int)value, at + key + 1);
    *list = at + n;
    return true;
}

json_t *qkv_family_constant(const char *value) {
    char text[sizeof((struct qkv_family_piece *)NULL)->value];
    snprintf(text, sizeof text, "%s", value);
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    return qkv_json_value(text);
}

/* Copies the first part of a path. Returns the rest. */
static const char *path_part(const char *path, char part[96]) {
    const size_t n = strcspn(path, ".");
    snprintf(part, 96, "%.*s", (int)n, path);
    return path[n] ? path + n + 1 : NULL;
}

json_t *qkv_family_get(const json_t *config, const char *key) {
    char part[96];
    if (*key == '@') return json_object_get(config, key); /* such a key is one name, dots included */
    for (const char *rest = key; rest && config;) {
        rest = path_part(rest, part);
        config = json_object_get(config, part);
    }
    return (json_t *)(uintptr_t)config;
}

bool qkv_family_put(json_t *root, const char *key, json_t *value) {
    char part[96];
    const char *rest = *key == '@' ? NULL : path_part(key, part);
    if (*key == '@') snprintf(part, sizeof part, "%s", key);
    if (!rest) return json_object_set_new(root, part, value) == 0;
    json_t *inner = json_object_get(root, part);
    if (!json_is_object(inner)) {
        inner = json_object();
        if (!inner || json_object_set_new(root, part, inner)) {
            json_decref(value);
            return false;
        }
    }
    return qkv_family_put(inner, rest, value);
}

bool qkv_family_same(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);
        return fabs(x - y) <= 1e-12 * fabs(x);
    }
    return a && b && json_equal(a, b);
}

static bool piece_holds(const json_t *config, const struct qkv_family_piece *piece) {
    const bool other = piece->value[0] == '!';
    json_t *value = qkv_family_constant(piece->value + other);
    const bool same = qkv_family_same(qkv_family_get(config, piece->key), value);
    json_decref(value);
    return same != other;
}

bool qkv_family_holds(const json_t *config, const char *when) {
    struct qkv_family_piece piece;
    while (qkv_family_next(&when, &piece))
        if (!piece_holds(config, &piece)) return false;
    return true;
}
