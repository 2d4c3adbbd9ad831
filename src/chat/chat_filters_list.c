/* Filters of lists: choosing, mapping, joining. */
#include "chat/chat.h"

#include <string.h>

#define FILTER(name)                                                                                                   \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

FILTER(filter_length) {
    size_t n;
    (void)args;
    enum qkv_status status = qkv_chat_length(run, self, &n);
    *out = qkv_chat_int((int64_t)n);
    return status;
}

FILTER(filter_list) {
    struct chat_items list = {0};
    (void)args;
    enum qkv_status status = qkv_chat_iterate(run, self, &list.items, &list.count);
    return status ? status : qkv_chat_items_end(run, &list, CHAT_LIST, out);
}

FILTER(filter_items) {
    struct chat_args none = {0};
    struct chat_items list = {0};
    (void)args;
    if (self.kind == CHAT_UNDEFINED) return qkv_chat_items_end(run, &list, CHAT_ITERATOR, out);
    if (self.kind != CHAT_DICT) return qkv_chat_fail(run, "Can only get item pairs from a mapping.");
    enum qkv_status status = qkv_chat_method(self, "items", 5)->function(run, self, &none, out);
    out->kind = CHAT_ITERATOR;
    return status;
}

FILTER(filter_first) {
    struct chat_value *items;
    size_t count;
    (void)args;
    if (self.kind == CHAT_ITERATOR) { /* takes one item */
        if (self.list->at == self.list->count)
            return qkv_chat_undefined_hint(run, "No first item, sequence was empty.", out);
        *out = self.list->items[self.list->at++];
        return QKV_OK;
    }
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    if (!status && !count) return qkv_chat_undefined_hint(run, "No first item, sequence was empty.", out);
    if (!status) *out = items[0];
    return status;
}

FILTER(filter_last) {
    struct chat_value *items;
    size_t count;
    (void)args;
    if (self.kind == CHAT_ITERATOR) return qkv_chat_fail(run, "'generator' object is not reversible");
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    if (!status && !count) return qkv_chat_undefined_hint(run, "No last item, sequence was empty.", out);
    if (!status) *out = items[count - 1];
    return status;
}

FILTER(filter_reverse) {
    struct chat_value *items, parts[3] = {{0}, {0}, qkv_chat_int(-1)};
    size_t count;
    (void)args;
    if (self.kind == CHAT_TEXT) return qkv_chat_slice(run, self, parts, out);
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    struct chat_list *list = status ? NULL : qkv_chat_list(run, count);
    if (!list) return status ? status : QKV_MEMORY;
    for (size_t i = 0; i < count; i++) list->items[i] = items[count - 1 - i];
    *out = (struct chat_value){.kind = self.kind == CHAT_ITERATOR ? CHAT_LIST : CHAT_ITERATOR, .list = list};
    return QKV_OK;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static const struct chat_keyword *filter_keyword(const struct chat_args *args, const char *name) {
    for (size_t i = 0; i < args->keyword_count; i++)
        if (args->keywords[i].size == strlen(name) && !memcmp(args->keywords[i].name, name, args->keywords[i].size))
            return &args->keywords[i];
    return NULL;
}

static const struct chat_value missing = {.kind = CHAT_MISSING};

/* The items of a value; a false value, of any kind, has none. */
static enum qkv_status filter_items_of(struct chat_run *run, struct chat_value v, struct chat_value **items,
                                       size_t *count) {
    *count = 0;
    return qkv_chat_truth(v) ? qkv_chat_iterate(run, v, items, count) : QKV_OK;
}

FILTER(filter_map) {
    struct chat_value *items, name = args->count ? args->items[0] : missing;
    struct chat_items list = {0};
    size_t count;
    const struct chat_keyword *attribute = filter_keyword(args, "attribute"), *usual = filter_keyword(args, "default");
    const struct chat_row *row = NULL;
    if (!args->count && !attribute) return qkv_chat_fail(run, "map requires a filter argument");
    if (args->count && name.kind == CHAT_TEXT) row = run->calls->filter(name.text, name.size);
    if (args->count && !row)
        return qkv_chat_fail(run, "No filter named '%.*s'.", name.kind == CHAT_TEXT ? (int)qkv_min(name.size, 100) : 0,
                             name.kind == CHAT_TEXT ? name.text : "");
    enum qkv_status status = filter_items_of(run, self, &items, &count);
    for (size_t i = 0; i < count && !status; i++) {
        struct chat_value made;
        struct chat_args rest = *args;
        if (row) {
            rest.items = args->items + 1;
            rest.count = args->count - 1;
            status = qkv_chat_call_row(run, row, "the filter", items[i], &rest, &made);
        } else {
            status = qkv_chat_path(run, items[i], attribute->value, usual ? usual->value : missing, &made);
        }
        if (!status) status = qkv_chat_add(run, &list, made);
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_ITERATOR, out);
}

/* select, reject, selectattr, rejectattr: the items for which a test, or their truth, is `wanted`. */
static enum qkv_status filter_select(struct chat_run *run, struct chat_value self, struct chat_args *args,
                                     bool attribute, bool wanted, struct chat_value *out) {
    struct chat_value *items;
    struct chat_items list = {0};
    size_t count;
    const size_t skipped = attribute;
    const struct chat_row *row = NULL;
    if (args->count < skipped) return qkv_chat_fail(run, "Missing parameter for attribute name");
    if (args->count > skipped) {
        const struct chat_value name = args->items[skipped];
        if (name.kind == CHAT_TEXT) row = run->calls->test(name.text, name.size);
        if (!row)
            return qkv_chat_fail(run, "No test named '%.*s'.",
                                 name.kind == CHAT_TEXT ? (int)qkv_min(name.size, 100) : 0,
                                 name.kind == CHAT_TEXT ? name.text : "");
    }
    enum qkv_status status = filter_items_of(run, self, &items, &count);
    for (size_t i = 0; i < count && !status; i++) {
        struct chat_value tested = items[i], result;
        struct chat_args rest = *args;
        if (attribute) status = qkv_chat_path(run, items[i], args->items[0], missing, &tested);
        result = tested;
        if (row && !status) {
            rest.items = args->items + skipped + 1;
            rest.count = args->count - skipped - 1;
            status = qkv_chat_call_row(run, row, "the test", tested, &rest, &result);
        }
        if (!status && qkv_chat_truth(result) == wanted) status = qkv_chat_add(run, &list, items[i]);
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_ITERATOR, out);
}

FILTER(filter_select_items) {
    return filter_select(run, self, args, false, true, out);
}

FILTER(filter_reject_items) {
    return filter_select(run, self, args, false, false, out);
}

FILTER(filter_selectattr) {
    return filter_select(run, self, args, true, true, out);
}

FILTER(filter_rejectattr) {
    return filter_select(run, self, args, true, false, out);
}

FILTER(filter_join) {
    struct chat_value *items;
    size_t count;
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    for (size_t i = 0; i < count && !status; i++) {
        struct chat_value item;
        if (i && args->p[0].kind != CHAT_MISSING) status = qkv_chat_put_str(run, args->p[0]);
        if (!status) status = qkv_chat_path(run, items[i], args->p[1], missing, &item);
        if (!status) status = qkv_chat_put_str(run, item);
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

FILTER(filter_sum) {
    struct chat_value *items;
    size_t count;
    enum qkv_status status = qkv_chat_iterate(run, self, &items, &count);
    *out = args->p[1].kind == CHAT_MISSING ? qkv_chat_int(0) : args->p[1];
    if (!status && out->kind == CHAT_TEXT)
        return qkv_chat_fail(run, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < count && !status; i++) {
        struct chat_value item;
        status = qkv_chat_path(run, items[i], args->p[0], missing, &item);
        if (!status) status = qkv_chat_operate(run, CHAT_ADD, *out, item, out);
    }
    return status;
}

FILTER(filter_batch) {
    struct chat_value *items;
    struct chat_items list = {0};
    size_t count;
    int64_t size;
    enum qkv_status status = qkv_chat_int_of(run, args->p[0], 1, &size);
    if (!status) status = qkv_chat_iterate(run, self, &items, &count);
    if (!status && size < 1) return qkv_chat_fail(run, "a batch has at least one item");
    for (size_t at = 0; !status && at < count;) {
        const size_t n = qkv_min((size_t)size, count - at);
        const bool fill = args->p[1].kind > CHAT_NONE;
        struct chat_list *batch = qkv_chat_list(run, fill ? (size_t)size : n);
        if (!batch) return QKV_MEMORY;
        for (size_t i = 0; i < batch->count; i++) batch->items[i] = i < n ? items[at + i] : args->p[1];
        status = qkv_chat_add(run, &list, (struct chat_value){.kind = CHAT_LIST, .list = batch});
        at += n;
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_ITERATOR, out);
}

FILTER(filter_slice) {
    struct chat_value *items;
    struct chat_items list = {0};
    size_t count, at = 0;
    int64_t slices;
    enum qkv_status status = qkv_chat_int_of(run, args->p[0], 1, &slices);
    if (!status) status = qkv_chat_iterate(run, self, &items, &count);
    if (!status && slices < 1) return qkv_chat_fail(run, "integer division or modulo by zero");
    for (size_t k = 0; !status && k < (size_t)slices; k++) {
        const size_t each = count / (size_t)slices, more = count % (size_t)slices, n = each + (k < more);
        const size_t fill = args->p[1].kind > CHAT_NONE && k >= more;
        struct chat_list *slice = qkv_chat_list(run, n + fill);
        if (!slice) return QKV_MEMORY;
        for (size_t i = 0; i < n + fill; i++) slice->items[i] = i < n ? items[at + i] : args->p[1];
        status = qkv_chat_add(run, &list, (struct chat_value){.kind = CHAT_LIST, .list = slice});
        at += n;
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_ITERATOR, out);
}

static const struct chat_row rows[] = {
    {"length", "", 0, filter_length},
    {"count", "", 0, filter_length},
    {"list", "", 0, filter_list},
    {"items", "", 0, filter_items},
    {"first", "", 0, filter_first},
    {"last", "", 0, filter_last},
    {"join", "d attribute", 0, filter_join},
    {"map", NULL, 0, filter_map},
    {"select", NULL, 0, filter_select_items},
    {"reject", NULL, 0, filter_reject_items},
    {"selectattr", NULL, 0, filter_selectattr},
    {"rejectattr", NULL, 0, filter_rejectattr},
    {"reverse", "", 0, filter_reverse},
    {"sum", "attribute start", 0, filter_sum},
    {"batch", "linecount fill_with", 1, filter_batch},
    {"slice", "slices fill_with", 1, filter_slice},
};

const struct chat_row *qkv_chat_list_filter(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}
