/* JSON: json.dumps of values, and values of JSON. */
#include "chat/chat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- from JSON --------------------------------------------------------------------------------------------------- */

static enum qkv_status json_object_value(struct chat_run *run, const json_t *json, struct chat_value *out) {
    const char *key;
    const json_t *one;
    enum qkv_status status = qkv_chat_dict(run, CHAT_DICT, json_object_size(json), out);
    if (status) return status;
    struct chat_dict *dict = out->dict;
    json_object_foreach((json_t *)(uintptr_t)json, key, one) { /* the keys of an object differ */
        struct chat_entry *entry = &dict->entries[dict->count++];
        entry->key = qkv_chat_text(key, strlen(key));
        status = qkv_chat_from_json(run, one, &entry->value);
        if (status) break;
    }
    return status;
}

enum qkv_status qkv_chat_from_json(struct chat_run *run, const json_t *json, struct chat_value *out) {
    enum qkv_status status = qkv_chat_enter(run);
    if (status) return status;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        status = json_object_value(run, json, out);
        break;
    case JSON_ARRAY:
        *out = (struct chat_value){.kind = CHAT_LIST, .list = qkv_chat_list(run, json_array_size(json))};
        if (!out->list) status = QKV_MEMORY;
        for (size_t i = 0; i < json_array_size(json) && !status; i++)
            status = qkv_chat_from_json(run, json_array_get(json, i), &out->list->items[i]);
        break;
    case JSON_STRING:
        *out = qkv_chat_text(json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        *out = qkv_chat_int(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = qkv_chat_real(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = qkv_chat_bool(json_is_true(json));
        break;
    case JSON_NULL:
        *out = qkv_chat_none();
        break;
    }
    qkv_chat_leave(run);
    return status;
}

/* ---- to JSON ----------------------------------------------------------------------------------------------------- */

static enum qkv_status json_put_text(struct chat_run *run, struct chat_value v, bool ascii) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    char escape[16];
    size_t plain = 0;
    enum qkv_status status = qkv_chat_puts(run, "\"");
    for (size_t at = 0, begin; at < v.size && !status;) {
        begin = at;
        const uint32_t code = qkv_chat_character(v.text, v.size, &at);
        const char *letter = code && code < 0x80 ? strchr(from, (int)code) : NULL;
        if (letter)
            snprintf(escape, sizeof escape, "\\%c", to[letter - from]);
        else if (code >= 0x20 && (code < 0x7f || !ascii || code == 0x7f))
            continue;
        else if (code < 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code);
        else
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (code >> 10)),
                     (unsigned)(0xdc00 | (code & 0x3ff)));
        status = qkv_chat_put(run, v.text + plain, begin - plain);
        if (!status) status = qkv_chat_puts(run, escape);
        plain = at;
    }
    if (!status) status = qkv_chat_put(run, v.text + plain, v.size - plain);
    return status ? status : qkv_chat_puts(run, "\"");
}

static enum qkv_status json_put_scalar(struct chat_run *run, struct chat_value v, const struct chat_json_style *style) {
    char text[CHAT_REAL_TEXT];
    switch (v.kind) {
    case CHAT_NONE:
        return qkv_chat_puts(run, "null");
    case CHAT_BOOL:
        return qkv_chat_puts(run, v.truth ? "true" : "false");
    case CHAT_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.integer);
        return qkv_chat_puts(run, text);
    case CHAT_REAL:
        qkv_chat_real_text(v.real, text);
        if (isnan(v.real)) return qkv_chat_puts(run, "NaN");
        return qkv_chat_puts(run, isinf(v.real) ? v.real < 0 ? "-Infinity" : "Infinity" : text);
    case CHAT_TEXT:
        return json_put_text(run, v, style->ascii);
    default:
        return qkv_chat_fail(run, "Object of type %s is not JSON serializable", qkv_chat_type(v));
    }
}

static enum qkv_status json_put_break(struct chat_run *run, const struct chat_json_style *style, size_t level) {
    if (!style->indent) return QKV_OK;
    enum qkv_status status = qkv_chat_puts(run, "\n");
    return status ? status : qkv_chat_repeat(run, style->indent, style->indent_size, level);
}

static enum qkv_status json_put_key(struct chat_run *run, struct chat_value key, const struct chat_json_style *style) {
    if (key.kind == CHAT_TEXT) return json_put_text(run, key, style->ascii);
    if (key.kind < CHAT_NONE || key.kind > CHAT_REAL)
        return qkv_chat_fail(run, "keys must be str, int, float, bool or None, not %s", qkv_chat_type(key));
    enum qkv_status status = qkv_chat_puts(run, "\"");
    if (!status) status = json_put_scalar(run, key, style);
    return status ? status : qkv_chat_puts(run, "\"");
}

static enum qkv_status json_put_level(struct chat_run *run, struct chat_value v, const struct chat_json_style *style,
                                      size_t level);

/* The indices of a dict's entries in the order that they are written. */
static enum qkv_status json_order(struct chat_run *run, const struct chat_dict *dict, struct chat_value **order) {
    struct chat_value *keys = qkv_chat_take(&run->pool, dict->count, sizeof *keys);
    *order = qkv_chat_take(&run->pool, dict->count, sizeof **order);
    if (!keys || !*order) return QKV_MEMORY;
    for (size_t i = 0; i < dict->count; i++) {
        keys[i] = dict->entries[i].key;
        (*order)[i] = qkv_chat_int((int64_t)i);
    }
    return qkv_chat_sort(run, keys, *order, dict->count, false);
}

static enum qkv_status json_put_dict(struct chat_run *run, const struct chat_dict *dict,
                                     const struct chat_json_style *style, size_t level) {
    struct chat_value *order = NULL;
    enum qkv_status status = style->sorted ? json_order(run, dict, &order) : QKV_OK;
    if (!status) status = qkv_chat_puts(run, "{");
    for (size_t i = 0; i < dict->count && !status; i++) {
        const struct chat_entry *entry = &dict->entries[order ? (size_t)order[i].integer : i];
        if (i) status = qkv_chat_put(run, style->between.text, style->between.size);
        if (!status) status = json_put_break(run, style, level + 1);
        if (!status) status = json_put_key(run, entry->key, style);
        if (!status) status = qkv_chat_put(run, style->after_key.text, style->after_key.size);
        if (!status) status = json_put_level(run, entry->value, style, level + 1);
    }
    if (!status && dict->count) status = json_put_break(run, style, level);
    return status ? status : qkv_chat_puts(run, "}");
}

static enum qkv_status json_put_list(struct chat_run *run, const struct chat_list *list,
                                     const struct chat_json_style *style, size_t level) {
    enum qkv_status status = qkv_chat_puts(run, "[");
    for (size_t i = 0; i < list->count && !status; i++) {
        if (i) status = qkv_chat_put(run, style->between.text, style->between.size);
        if (!status) status = json_put_break(run, style, level + 1);
        if (!status) status = json_put_level(run, list->items[i], style, level + 1);
    }
    if (!status && list->count) status = json_put_break(run, style, level);
    return status ? status : qkv_chat_puts(run, "]");
}

static enum qkv_status json_put_level(struct chat_run *run, struct chat_value v, const struct chat_json_style *style,
                                      size_t level) {
    const bool list = v.kind == CHAT_LIST || v.kind == CHAT_TUPLE;
    if (!list && v.kind != CHAT_DICT) return json_put_scalar(run, v, style);
    enum qkv_status status = qkv_chat_enter(run);
    if (status) return status;
    status = list ? json_put_list(run, v.list, style, level) : json_put_dict(run, v.dict, style, level);
    qkv_chat_leave(run);
    return status;
}

enum qkv_status qkv_chat_put_json(struct chat_run *run, struct chat_value v, const struct chat_json_style *style) {
    return json_put_level(run, v, style, 0);
}
