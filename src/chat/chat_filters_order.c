/* Filters that compare items: sorting, grouping, the smallest and the largest. */
#include "chat/chat.h"

#include <string.h>

#define FILTER(name)                                                                                                   \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

static const struct chat_value missing = {.kind = CHAT_MISSING};

static bool order_flag(struct chat_value v) {
    return v.kind != CHAT_MISSING && qkv_chat_truth(v);
}

/* A key in which upper and lower case are the same, unless `exact`. */
static enum qkv_status order_fold(struct chat_run *run, bool exact, struct chat_value *key) {
    if (exact || key->kind != CHAT_TEXT) return QKV_OK;
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = qkv_chat_put_case(run, CHAT_LOWER, key->text, key->size);
    return status ? status : qkv_chat_end(run, mark, key);
}

static enum qkv_status order_key(struct chat_run *run, struct chat_value item, struct chat_value attribute,
                                 struct chat_value usual, bool exact, struct chat_value *key) {
    enum qkv_status status = qkv_chat_path(run, item, attribute, usual, key);
    return status ? status : order_fold(run, exact, key);
}

/* The key of an item for attributes with commas between them: a tuple, so that equal keys need no order. */
static enum qkv_status order_keys(struct chat_run *run, struct chat_value item, struct chat_value attribute, bool exact,
                                  struct chat_value *key) {
    const size_t size = attribute.kind == CHAT_TEXT ? attribute.size : 0;
    struct chat_items list = {0};
    enum qkv_status status = QKV_OK;
    for (size_t at = 0; at <= size && !status;) {
        const size_t end = size ? qkv_min(qkv_chat_search(attribute.text, size, ",", 1, at), size) : 0;
        struct chat_value part = size ? qkv_chat_text(attribute.text + at, end - at) : attribute;
        status = order_key(run, item, part, missing, exact, &part);
        if (!status) status = qkv_chat_add(run, &list, part);
        at = end + 1;
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_TUPLE, key);
}

FILTER(filter_sort) {
    struct chat_value *items;
    size_t count;
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    struct chat_list *list = status ? NULL : qkv_chat_list(run, count);
    struct chat_value *keys = list ? qkv_chat_take(&run->pool, count, sizeof *keys) : NULL;
    if (!keys) return status ? status : QKV_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        list->items[i] = items[i];
        status = order_keys(run, items[i], args->p[2], order_flag(args->p[1]), &keys[i]);
    }
    if (!status) status = qkv_chat_sort(run, keys, list->items, count, order_flag(args->p[0]));
    *out = (struct chat_value){.kind = CHAT_LIST, .list = list};
    return status;
}

FILTER(filter_dictsort) {
    struct chat_args none = {0}, sort = {0};
    const bool by_value = qkv_chat_text_is(args->p[1], "value");
    if (args->p[1].kind != CHAT_MISSING && !by_value && !qkv_chat_text_is(args->p[1], "key"))
        return qkv_chat_fail(run, "You can only sort by either \"key\" or \"value\"");
    if (self.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, self);
    if (self.kind != CHAT_DICT) return qkv_chat_fail(run, "'%s' object has no attribute 'items'", qkv_chat_type(self));
    enum qkv_status status = qkv_chat_method(self, "items", 5)->function(run, self, &none, &self);
    sort.p[0] = args->p[2];
    sort.p[1] = args->p[0];
    sort.p[2] = qkv_chat_int(by_value);
    return status ? status : filter_sort(run, self, &sort, out);
}

/* Hashes do not exist here: a value is compared with all before it. */
FILTER(filter_unique) {
    struct chat_value *items;
    struct chat_items list = {0}, seen = {0};
    size_t count;
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    for (size_t i = 0; i < count && !status; i++) {
        struct chat_value key;
        bool equal = false;
        status = order_key(run, items[i], args->p[1], missing, order_flag(args->p[0]), &key);
        if (!status && (key.kind == CHAT_LIST || key.kind == CHAT_DICT))
            return qkv_chat_fail(run, "unhashable type: '%s'", qkv_chat_type(key));
        if (!status) status = qkv_chat_work(run, 16 * seen.count);
        for (size_t k = 0; k < seen.count && !status && !equal; k++)
            status = qkv_chat_equal(run, seen.items[k], key, &equal);
        if (equal || status) continue;
        status = qkv_chat_add(run, &seen, key);
        if (!status) status = qkv_chat_add(run, &list, items[i]);
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_ITERATOR, out);
}

static enum qkv_status order_extreme(struct chat_run *run, struct chat_value self, struct chat_args *args, bool max,
                                     struct chat_value *out) {
    struct chat_value *items, best, key;
    size_t count;
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    if (status) return status;
    if (!count) return qkv_chat_undefined_hint(run, "No aggregated item, sequence was empty.", out);
    *out = items[0];
    status = order_key(run, items[0], args->p[1], missing, order_flag(args->p[0]), &best);
    for (size_t i = 1; i < count && !status; i++) {
        bool better = false;
        status = order_key(run, items[i], args->p[1], missing, order_flag(args->p[0]), &key);
        if (!status) status = max ? qkv_chat_less(run, best, key, &better) : qkv_chat_less(run, key, best, &better);
        if (!better) continue;
        *out = items[i];
        best = key;
    }
    return status;
}

FILTER(filter_min) {
    return order_extreme(run, self, args, false, out);
}

FILTER(filter_max) {
    return order_extreme(run, self, args, true, out);
}

/* A group: a tuple (key, items) with the attributes grouper and list. */
static enum qkv_status order_group(struct chat_run *run, struct chat_value key, const struct chat_value *items,
                                   size_t count, struct chat_value *out) {
    struct chat_list *list = qkv_chat_list(run, count);
    if (!list) return QKV_MEMORY;
    memcpy(list->items, items, count * sizeof *items);
    enum qkv_status status = qkv_chat_pair(run, key, (struct chat_value){.kind = CHAT_LIST, .list = list}, out);
    if (!status) out->list->step = 1;
    return status;
}

FILTER(filter_groupby) {
    struct chat_value *items;
    struct chat_items list = {0};
    size_t count;
    const bool exact = order_flag(args->p[2]);
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    struct chat_value *keys = status ? NULL : qkv_chat_take(&run->pool, 2 * count, sizeof *keys);
    if (!keys) return status ? status : QKV_MEMORY;
    struct chat_value *sorted = keys + count;
    for (size_t i = 0; i < count && !status; i++) {
        sorted[i] = items[i];
        status = order_key(run, items[i], args->p[0], args->p[1], exact, &keys[i]);
    }
    if (!status) status = qkv_chat_sort(run, keys, sorted, count, false);
    for (size_t begin = 0, end; begin < count && !status; begin = end) {
        struct chat_value key, group;
        bool equal = true;
        for (end = begin + 1; end < count && !status; end++) {
            status = qkv_chat_equal(run, keys[begin], keys[end], &equal);
            if (!equal) break;
        }
        if (!status) status = qkv_chat_path(run, sorted[begin], args->p[0], args->p[1], &key);
        if (!status) status = order_group(run, key, sorted + begin, end - begin, &group);
        if (!status) status = qkv_chat_add(run, &list, group);
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_LIST, out);
}

static const struct chat_row rows[] = {
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
};

const struct chat_row *qkv_chat_order_filter(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}
