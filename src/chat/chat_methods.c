/* Methods of dict, list, tuple, loops, cyclers; and which methods the sandbox refuses. */
#include "chat/chat.h"

#include <string.h>

#define METHOD(name)                                                                                                   \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

METHOD(method_get) {
    struct chat_value *found;
    enum qkv_status status = qkv_chat_find(run, self.dict, args->p[0], &found);
    if (status) return status;
    *out = found ? *found : args->p[1].kind == CHAT_MISSING ? qkv_chat_none() : args->p[1];
    return QKV_OK;
}

static enum qkv_status dict_view(struct chat_run *run, struct chat_value self, enum chat_kind kind,
                                 struct chat_value *out) {
    struct chat_list *list = qkv_chat_list(run, self.dict->count);
    enum qkv_status status = list ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < self.dict->count && !status; i++) {
        const struct chat_entry *entry = &self.dict->entries[i];
        if (kind == CHAT_ITEMS)
            status = qkv_chat_pair(run, entry->key, entry->value, &list->items[i]);
        else
            list->items[i] = kind == CHAT_KEYS ? entry->key : entry->value;
    }
    *out = (struct chat_value){.kind = (uint8_t)kind, .list = list};
    return status;
}

METHOD(method_items) {
    (void)args;
    return dict_view(run, self, CHAT_ITEMS, out);
}

METHOD(method_keys) {
    (void)args;
    return dict_view(run, self, CHAT_KEYS, out);
}

METHOD(method_values) {
    (void)args;
    return dict_view(run, self, CHAT_VALUES, out);
}

METHOD(method_copy) {
    (void)args;
    (void)run;
    *out = self; /* nothing changes lists and dicts */
    return QKV_OK;
}

METHOD(method_count) {
    int64_t n = 0;
    enum qkv_status status = qkv_chat_work(run, 16 * self.list->count);
    for (size_t i = 0; i < self.list->count && !status; i++) {
        bool equal;
        status = qkv_chat_equal(run, self.list->items[i], args->p[0], &equal);
        n += !status && equal;
    }
    *out = qkv_chat_int(n);
    return status;
}

METHOD(method_index) {
    int64_t bounds[2] = {0, (int64_t)self.list->count};
    bool equal = false;
    enum qkv_status status = qkv_chat_work(run, 16 * self.list->count);
    for (size_t i = 0; i < 2 && !status; i++) {
        status = qkv_chat_int_of(run, args->p[1 + i], bounds[i], &bounds[i]);
        if (bounds[i] < 0) bounds[i] += (int64_t)self.list->count;
        if (bounds[i] < 0) bounds[i] = 0;
    }
    for (int64_t i = bounds[0]; i < bounds[1] && i < (int64_t)self.list->count && !status; i++) {
        status = qkv_chat_equal(run, self.list->items[i], args->p[0], &equal);
        *out = qkv_chat_int(i);
        if (equal) break;
    }
    return status || equal ? status : qkv_chat_fail(run, "the value is not in the list");
}

METHOD(method_cycle) {
    if (!args->count) return qkv_chat_fail(run, "no items for cycling given");
    *out = args->items[self.loop->index0 % args->count];
    return QKV_OK;
}

METHOD(method_changed) {
    bool equal = false;
    struct chat_list *list = qkv_chat_list(run, args->count);
    if (!list) return QKV_MEMORY;
    for (size_t i = 0; i < args->count; i++) list->items[i] = args->items[i];
    const struct chat_value now = {.kind = CHAT_TUPLE, .list = list};
    enum qkv_status status = qkv_chat_equal(run, self.loop->changed, now, &equal);
    self.loop->changed = now;
    *out = qkv_chat_bool(!equal);
    return status;
}

METHOD(method_next) {
    struct chat_list *values = &self.cycle->values;
    (void)args;
    (void)run;
    *out = values->items[values->at];
    values->at = (values->at + 1) % values->count;
    return QKV_OK;
}

METHOD(method_reset) {
    (void)args;
    (void)run;
    self.cycle->values.at = 0;
    *out = qkv_chat_none();
    return QKV_OK;
}

static const struct chat_row dict_rows[] = {
    {"get", "key default", 1, method_get}, {"items", "", 0, method_items}, {"keys", "", 0, method_keys},
    {"values", "", 0, method_values},      {"copy", "", 0, method_copy},
};
static const struct chat_row list_rows[] = {
    {"index", "value start stop", 1, method_index},
    {"count", "value", 1, method_count},
    {"copy", "", 0, method_copy},
};
static const struct chat_row loop_rows[] = {{"cycle", NULL, 0, method_cycle}, {"changed", NULL, 0, method_changed}};
static const struct chat_row cycle_rows[] = {{"next", "", 0, method_next}, {"reset", "", 0, method_reset}};

const struct chat_row *qkv_chat_method(struct chat_value object, const char *name, size_t size) {
    const struct chat_row *row;
    switch (object.kind) {
    case CHAT_TEXT:
        row = qkv_chat_text_method(name, size);
        return row ? row : qkv_chat_text_case_method(name, size);
    case CHAT_DICT:
        return qkv_chat_find_row(dict_rows, sizeof dict_rows / sizeof *dict_rows, name, size);
    case CHAT_LIST:
        return qkv_chat_find_row(list_rows, sizeof list_rows / sizeof *list_rows, name, size);
    case CHAT_TUPLE:
    case CHAT_RANGE: /* without copy */
        return qkv_chat_find_row(list_rows, 2, name, size);
    case CHAT_LOOP:
        return qkv_chat_find_row(loop_rows, sizeof loop_rows / sizeof *loop_rows, name, size);
    case CHAT_CYCLER:
        return qkv_chat_find_row(cycle_rows, sizeof cycle_rows / sizeof *cycle_rows, name, size);
    default:
        return NULL;
    }
}

bool qkv_chat_changes(struct chat_value object, const char *name, size_t size) {
    static const char *const list[] = {"append", "reverse", "insert", "sort", "extend", "remove", "clear", "pop", NULL};
    static const char *const dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const *names = object.kind == CHAT_LIST ? list : object.kind == CHAT_DICT ? dict : NULL;
    for (size_t i = 0; names && names[i]; i++)
        if (strlen(names[i]) == size && !memcmp(names[i], name, size)) return true;
    return false;
}
