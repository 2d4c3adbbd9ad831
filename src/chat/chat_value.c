/* Values: lists, dicts, equality and order, as in Python. */
#include "chat/chat.h"

#include <string.h>

/* ---- lists ------------------------------------------------------------------------------------------------------- */

struct chat_list *qkv_chat_list(struct chat_run *run, size_t count) {
    struct chat_list *list = qkv_chat_take(&run->pool, 1, sizeof *list);
    if (list) list->items = qkv_chat_take(&run->pool, count, sizeof *list->items);
    if (!list || !list->items) return NULL;
    list->count = count;
    run->steps = qkv_min(run->steps + count / 4, run->limits.steps); /* the next step sees the limit */
    return list;
}

enum qkv_status qkv_chat_add(struct chat_run *run, struct chat_items *list, struct chat_value v) {
    if (list->count == list->capacity) {
        const size_t capacity = qkv_max(8, 2 * list->capacity);
        struct chat_value *items = qkv_chat_take(&run->pool, capacity, sizeof *items);
        if (!items) return QKV_MEMORY;
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = v;
    return qkv_chat_work(run, sizeof v);
}

enum qkv_status qkv_chat_items_end(struct chat_run *run, const struct chat_items *list, enum chat_kind kind,
                                   struct chat_value *out) {
    struct chat_list *made = qkv_chat_take(&run->pool, 1, sizeof *made);
    if (!made) return QKV_MEMORY;
    made->items = list->items;
    made->count = list->count;
    *out = (struct chat_value){.kind = (uint8_t)kind, .list = made};
    return QKV_OK;
}

enum qkv_status qkv_chat_pair(struct chat_run *run, struct chat_value a, struct chat_value b, struct chat_value *out) {
    struct chat_list *list = qkv_chat_list(run, 2);
    if (!list) return QKV_MEMORY;
    list->items[0] = a;
    list->items[1] = b;
    *out = (struct chat_value){.kind = CHAT_TUPLE, .list = list};
    return QKV_OK;
}

/* ---- dicts ------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chat_dict(struct chat_run *run, enum chat_kind kind, size_t capacity, struct chat_value *out) {
    struct chat_dict *dict = qkv_chat_take(&run->pool, 1, sizeof *dict);
    if (!dict) return QKV_MEMORY;
    dict->entries = qkv_chat_take(&run->pool, capacity, sizeof *dict->entries);
    dict->capacity = capacity;
    *out = (struct chat_value){.kind = (uint8_t)kind, .dict = dict};
    return dict->entries ? QKV_OK : QKV_MEMORY;
}

/* Keys have hashes in Python: lists and dicts have none. */
static enum qkv_status value_hashable(struct chat_run *run, struct chat_value key) {
    if (key.kind == CHAT_LIST || key.kind == CHAT_DICT)
        return qkv_chat_fail(run, "unhashable type: '%s'", qkv_chat_type(key));
    for (size_t i = 0; key.kind == CHAT_TUPLE && i < key.list->count; i++)
        if (key.list->items[i].kind == CHAT_LIST || key.list->items[i].kind == CHAT_DICT)
            return qkv_chat_fail(run, "unhashable type: '%s'", qkv_chat_type(key.list->items[i]));
    return QKV_OK;
}

enum qkv_status qkv_chat_find(struct chat_run *run, const struct chat_dict *dict, struct chat_value key,
                              struct chat_value **out) {
    *out = NULL;
    enum qkv_status status = value_hashable(run, key);
    if (!status) status = qkv_chat_work(run, 8 * dict->count);
    for (size_t i = 0; i < dict->count && !status; i++) {
        const struct chat_value had = dict->entries[i].key;
        bool equal = had.kind == key.kind && key.kind == CHAT_TEXT;
        if (equal)
            equal = had.size == key.size && !memcmp(had.text, key.text, key.size);
        else if (had.kind != CHAT_TEXT && key.kind != CHAT_TEXT)
            status = qkv_chat_equal(run, had, key, &equal);
        if (!equal) continue;
        *out = &dict->entries[i].value;
        break;
    }
    return status;
}

enum qkv_status qkv_chat_set(struct chat_run *run, struct chat_dict *dict, struct chat_value key,
                             struct chat_value value) {
    struct chat_value *had;
    enum qkv_status status = qkv_chat_find(run, dict, key, &had);
    if (status) return status;
    if (had) {
        *had = value;
        return QKV_OK;
    }
    if (dict->count == dict->capacity) {
        const size_t capacity = qkv_max(8, 2 * dict->capacity);
        struct chat_entry *entries = qkv_chat_take(&run->pool, capacity, sizeof *entries);
        if (!entries) return QKV_MEMORY;
        if (dict->count) memcpy(entries, dict->entries, dict->count * sizeof *entries);
        dict->entries = entries;
        dict->capacity = capacity;
    }
    dict->entries[dict->count++] = (struct chat_entry){key, value};
    return QKV_OK;
}

/* ---- undefined values -------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chat_undefined(struct chat_run *run, struct chat_value owner, struct chat_value name,
                                   struct chat_value *out) {
    struct chat_undefined *undefined = qkv_chat_take(&run->pool, 1, sizeof *undefined);
    if (!undefined) return QKV_MEMORY;
    *undefined = (struct chat_undefined){.owner = owner, .name = name};
    *out = (struct chat_value){.kind = CHAT_UNDEFINED, .undefined = undefined};
    return QKV_OK;
}

enum qkv_status qkv_chat_undefined_hint(struct chat_run *run, const char *hint, struct chat_value *out) {
    const struct chat_value missing = {.kind = CHAT_MISSING};
    enum qkv_status status = qkv_chat_undefined(run, missing, missing, out);
    if (!status) out->undefined->hint = hint;
    return status;
}

/* ---- equality and order ------------------------------------------------------------------------------------------ */

static enum qkv_status value_equal_lists(struct chat_run *run, const struct chat_list *a, const struct chat_list *b,
                                         bool *equal) {
    enum qkv_status status = QKV_OK;
    *equal = a->count == b->count;
    for (size_t i = 0; i < a->count && *equal && !status; i++)
        status = qkv_chat_equal(run, a->items[i], b->items[i], equal);
    return status;
}

static enum qkv_status value_equal_dicts(struct chat_run *run, const struct chat_dict *a, const struct chat_dict *b,
                                         bool *equal) {
    enum qkv_status status = QKV_OK;
    *equal = a->count == b->count;
    for (size_t i = 0; i < a->count && *equal && !status; i++) {
        struct chat_value *other;
        status = qkv_chat_find(run, b, a->entries[i].key, &other);
        *equal = other != NULL;
        if (!status && other) status = qkv_chat_equal(run, a->entries[i].value, *other, equal);
    }
    return status;
}

/* −1, 0 or 1; 2: one of them is not a number. */
static int value_order_numbers(struct chat_value a, struct chat_value b) {
    if (a.kind != CHAT_REAL && b.kind != CHAT_REAL) {
        const int64_t x = qkv_chat_integer(a), y = qkv_chat_integer(b);
        return (x > y) - (x < y);
    }
    const double x = qkv_chat_number(a), y = qkv_chat_number(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static enum qkv_status value_equal_deep(struct chat_run *run, struct chat_value a, struct chat_value b, bool *equal) {
    enum qkv_status status = qkv_chat_enter(run);
    if (status) return status;
    if (a.kind == CHAT_DICT)
        status = value_equal_dicts(run, a.dict, b.dict, equal);
    else
        status = value_equal_lists(run, a.list, b.list, equal);
    qkv_chat_leave(run);
    return status;
}

enum qkv_status qkv_chat_equal(struct chat_run *run, struct chat_value a, struct chat_value b, bool *equal) {
    *equal = false;
    if (qkv_chat_is_number(a) && qkv_chat_is_number(b)) {
        *equal = value_order_numbers(a, b) == 0;
        return QKV_OK;
    }
    if (a.kind != b.kind) return QKV_OK;
    switch (a.kind) {
    case CHAT_UNDEFINED:
    case CHAT_NONE:
        *equal = true;
        return QKV_OK;
    case CHAT_TEXT:
        *equal = a.size == b.size && !memcmp(a.text, b.text, a.size);
        return qkv_chat_work(run, *equal ? a.size : 0);
    case CHAT_LIST:
    case CHAT_TUPLE:
    case CHAT_RANGE:
    case CHAT_DICT:
    case CHAT_KEYS:
    case CHAT_ITEMS:
        return value_equal_deep(run, a, b, equal);
    default:
        *equal = a.list == b.list;
        return QKV_OK;
    }
}

static enum qkv_status value_less_lists(struct chat_run *run, const struct chat_list *a, const struct chat_list *b,
                                        bool *less) {
    enum qkv_status status = qkv_chat_enter(run);
    if (status) return status;
    size_t i = 0;
    for (bool equal; i < a->count && i < b->count && !status; i++) {
        status = qkv_chat_equal(run, a->items[i], b->items[i], &equal);
        if (status || equal) continue;
        status = qkv_chat_less(run, a->items[i], b->items[i], less);
        break;
    }
    if (i == a->count || i == b->count) *less = a->count < b->count;
    qkv_chat_leave(run);
    return status;
}

enum qkv_status qkv_chat_less(struct chat_run *run, struct chat_value a, struct chat_value b, bool *less) {
    *less = false;
    if (qkv_chat_is_number(a) && qkv_chat_is_number(b)) {
        *less = value_order_numbers(a, b) == -1;
        return QKV_OK;
    }
    if (a.kind == CHAT_TEXT && b.kind == CHAT_TEXT) { /* UTF-8 has the order of code points */
        const int order = memcmp(a.text, b.text, qkv_min(a.size, b.size));
        *less = order ? order < 0 : a.size < b.size;
        return qkv_chat_work(run, qkv_min(a.size, b.size));
    }
    if (a.kind == b.kind && (a.kind == CHAT_LIST || a.kind == CHAT_TUPLE))
        return value_less_lists(run, a.list, b.list, less);
    if (a.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, a);
    if (b.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, b);
    return qkv_chat_fail(run, "'<' not supported between instances of '%s' and '%s'", qkv_chat_type(a),
                         qkv_chat_type(b));
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chat_length(struct chat_run *run, struct chat_value v, size_t *length) {
    *length = 0;
    if (v.kind == CHAT_UNDEFINED) return QKV_OK;
    if (v.kind == CHAT_TEXT) {
        *length = qkv_chat_characters(v.text, v.size);
        return qkv_chat_work(run, v.size);
    }
    if (v.kind == CHAT_LOOP)
        *length = v.loop->count;
    else if (v.kind == CHAT_DICT)
        *length = v.dict->count;
    else if (qkv_chat_is_list(v) && v.kind != CHAT_ITERATOR)
        *length = v.list->count;
    else
        return qkv_chat_fail(run, "object of type '%s' has no len()", qkv_chat_type(v));
    return QKV_OK;
}

static enum qkv_status value_characters(struct chat_run *run, struct chat_value v, struct chat_value **items,
                                        size_t *count) {
    struct chat_list *list = qkv_chat_list(run, qkv_chat_characters(v.text, v.size));
    if (!list) return QKV_MEMORY;
    for (size_t at = 0, begin, i = 0; i < list->count; i++) {
        begin = at;
        qkv_chat_character(v.text, v.size, &at);
        list->items[i] = qkv_chat_text(v.text + begin, at - begin);
    }
    *items = list->items;
    *count = list->count;
    return QKV_OK;
}

enum qkv_status qkv_chat_iterate(struct chat_run *run, struct chat_value v, struct chat_value **items, size_t *count) {
    *items = NULL;
    *count = 0;
    if (v.kind == CHAT_UNDEFINED) return QKV_OK;
    if (v.kind == CHAT_TEXT) return value_characters(run, v, items, count);
    if (v.kind == CHAT_DICT) {
        struct chat_list *keys = qkv_chat_list(run, v.dict->count);
        if (!keys) return QKV_MEMORY;
        for (size_t i = 0; i < keys->count; i++) keys->items[i] = v.dict->entries[i].key;
        *items = keys->items;
        *count = keys->count;
        return QKV_OK;
    }
    if (!qkv_chat_is_list(v)) return qkv_chat_fail(run, "'%s' object is not iterable", qkv_chat_type(v));
    *count = v.list->count - v.list->at;
    if (*count) *items = v.list->items + v.list->at;
    if (v.kind == CHAT_ITERATOR) v.list->at = v.list->count;
    return QKV_OK;
}
