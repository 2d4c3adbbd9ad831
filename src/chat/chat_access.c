/* Attributes, items and slices, as jinja2's sandbox finds them: a name is an attribute first and then a key, a key in
 * brackets is a key first and then an attribute. Attributes that begin with an underscore, and methods that change a
 * list or dict, are undefined with a sentence. */
#include "chat/chat.h"

#include <string.h>

/* The attribute of a loop; MISSING: it has none of that name. */
static enum qkv_status access_loop(struct chat_run *run, const struct chat_loop *loop, struct chat_value name,
                                   struct chat_value *out) {
    const int64_t index0 = (int64_t)loop->index0, count = (int64_t)loop->count;
    const struct {
        const char *name;
        struct chat_value value;
    } plain[] = {{"index", qkv_chat_int(index0 + 1)},
                 {"index0", qkv_chat_int(index0)},
                 {"revindex", qkv_chat_int(count - index0)},
                 {"revindex0", qkv_chat_int(count - index0 - 1)},
                 {"first", qkv_chat_bool(index0 == 0)},
                 {"last", qkv_chat_bool(index0 + 1 == count)},
                 {"length", qkv_chat_int(count)},
                 {"depth", qkv_chat_int(loop->depth0 + 1)},
                 {"depth0", qkv_chat_int(loop->depth0)}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (!qkv_chat_text_is(name, plain[i].name)) continue;
        *out = plain[i].value;
        return QKV_OK;
    }
    if (qkv_chat_text_is(name, "previtem")) {
        if (!index0) return qkv_chat_undefined_hint(run, "there is no previous item", out);
        *out = loop->items[index0 - 1];
    } else if (qkv_chat_text_is(name, "nextitem")) {
        if (index0 + 1 >= count) return qkv_chat_undefined_hint(run, "there is no next item", out);
        *out = loop->items[index0 + 1];
    }
    return QKV_OK;
}

/* An attribute that Python's object has; MISSING: none. */
static enum qkv_status access_attribute(struct chat_run *run, struct chat_value object, struct chat_value name,
                                        struct chat_value *out) {
    *out = (struct chat_value){.kind = CHAT_MISSING};
    if (object.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, object);
    const bool internal = name.size > 4 && !memcmp(name.text, "__", 2) && !memcmp(name.text + name.size - 2, "__", 2);
    if (internal || qkv_chat_changes(object, name.text, name.size)) {
        const size_t mark = qkv_chat_begin(run);
        struct chat_value hint;
        enum qkv_status status = qkv_chat_puts(run, "access to attribute '");
        if (!status) status = qkv_chat_put(run, name.text, name.size);
        if (!status) status = qkv_chat_puts(run, "' of '");
        if (!status) status = qkv_chat_puts(run, qkv_chat_type(object));
        if (!status) status = qkv_chat_put(run, "' object is unsafe.", 20); /* with its zero */
        if (!status) status = qkv_chat_end(run, mark, &hint);
        return status ? status : qkv_chat_undefined_hint(run, hint.text, out);
    }
    if (object.kind == CHAT_LOOP) {
        enum qkv_status status = access_loop(run, object.loop, name, out);
        if (status || out->kind != CHAT_MISSING) return status;
    }
    if (object.kind == CHAT_TUPLE && object.list->step) { /* a group of the filter groupby */
        if (qkv_chat_text_is(name, "grouper")) *out = object.list->items[0];
        if (qkv_chat_text_is(name, "list")) *out = object.list->items[1];
        if (out->kind != CHAT_MISSING) return QKV_OK;
    }
    if (object.kind == CHAT_CYCLER && qkv_chat_text_is(name, "current")) {
        *out = object.cycle->values.items[object.cycle->values.at];
        return QKV_OK;
    }
    const struct chat_row *row = qkv_chat_method(object, name.text, name.size);
    if (!row) return QKV_OK;
    struct chat_method *method = qkv_chat_take(&run->pool, 1, sizeof *method);
    if (!method) return QKV_MEMORY;
    *method = (struct chat_method){.self = object, .row = row};
    *out = (struct chat_value){.kind = CHAT_METHOD, .method = method};
    return QKV_OK;
}

static enum qkv_status access_character(struct chat_run *run, struct chat_value text, int64_t index,
                                        struct chat_value *out) {
    const int64_t count = (int64_t)qkv_chat_characters(text.text, text.size);
    if (index < 0) index += count;
    if (index < 0 || index >= count) return qkv_chat_work(run, text.size);
    const size_t begin = qkv_chat_offset(text.text, text.size, (size_t)index);
    const size_t end = begin + qkv_chat_offset(text.text + begin, text.size - begin, 1);
    *out = qkv_chat_text(text.text + begin, end - begin);
    out->safe = text.safe;
    return qkv_chat_work(run, text.size);
}

/* object[key] of Python; MISSING: there is no such item. */
static enum qkv_status access_item(struct chat_run *run, struct chat_value object, struct chat_value key,
                                   struct chat_value *out) {
    *out = (struct chat_value){.kind = CHAT_MISSING};
    if (object.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, object);
    if (object.kind == CHAT_DICT || object.kind == CHAT_NAMESPACE) {
        struct chat_value *found;
        if (key.kind == CHAT_LIST || key.kind == CHAT_DICT) return QKV_OK; /* jinja2 catches the error */
        enum qkv_status status = qkv_chat_find(run, object.dict, key, &found);
        if (!status && found) *out = *found;
        return status;
    }
    if (!qkv_chat_is_integral(key)) return QKV_OK;
    int64_t index = qkv_chat_integer(key);
    if (object.kind == CHAT_TEXT) return access_character(run, object, index, out);
    if (!qkv_chat_is_sequence(object)) return QKV_OK;
    if (index < 0) index += (int64_t)object.list->count;
    if (index >= 0 && (size_t)index < object.list->count) *out = object.list->items[index];
    return QKV_OK;
}

enum qkv_status qkv_chat_attribute(struct chat_run *run, struct chat_value object, struct chat_value name,
                                   struct chat_value *out) {
    enum qkv_status status = QKV_OK;
    *out = (struct chat_value){.kind = CHAT_MISSING};
    if (object.kind != CHAT_NAMESPACE) status = access_attribute(run, object, name, out);
    if (!status && out->kind == CHAT_MISSING) status = access_item(run, object, name, out);
    return status || out->kind != CHAT_MISSING ? status : qkv_chat_undefined(run, object, name, out);
}

enum qkv_status qkv_chat_item(struct chat_run *run, struct chat_value object, struct chat_value key,
                              struct chat_value *out) {
    enum qkv_status status = access_item(run, object, key, out);
    if (!status && out->kind == CHAT_MISSING && key.kind == CHAT_TEXT && object.kind != CHAT_NAMESPACE)
        status = access_attribute(run, object, key, out);
    return status || out->kind != CHAT_MISSING ? status : qkv_chat_undefined(run, object, key, out);
}

enum qkv_status qkv_chat_path(struct chat_run *run, struct chat_value item, struct chat_value path,
                              struct chat_value usual, struct chat_value *out) {
    enum qkv_status status = QKV_OK;
    *out = item;
    if (path.kind == CHAT_MISSING || path.kind == CHAT_NONE) return QKV_OK;
    if (path.kind != CHAT_TEXT) return qkv_chat_item(run, item, path, out);
    for (size_t at = 0; at <= path.size && !status;) {
        const size_t end = qkv_min(qkv_chat_search(path.text, path.size, ".", 1, at), path.size);
        struct chat_value key = qkv_chat_text(path.text + at, end - at);
        int64_t number = 0;
        size_t digits = at;
        while (digits < end && digits - at < 18 && path.text[digits] >= '0' && path.text[digits] <= '9')
            number = number * 10 + (path.text[digits++] - '0');
        if (digits == end && end > at) key = qkv_chat_int(number);
        status = qkv_chat_item(run, *out, key, out);
        if (!status && out->kind == CHAT_UNDEFINED && usual.kind != CHAT_MISSING) *out = usual;
        at = end + 1;
    }
    return status;
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* The first and last bound of a slice and its step for `count` items, as slice.indices. */
static enum qkv_status access_bounds(struct chat_run *run, const struct chat_value parts[3], int64_t count,
                                     int64_t bounds[3]) {
    int64_t step = 1;
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, parts[i]);
        if (parts[i].kind > CHAT_NONE && !qkv_chat_is_integral(parts[i]))
            return qkv_chat_fail(run, "slice indices must be integers or None or have an __index__ method");
    }
    if (qkv_chat_is_integral(parts[2])) step = qkv_chat_integer(parts[2]);
    if (step == 0) return qkv_chat_fail(run, "slice step cannot be zero");
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count;
    for (size_t i = 0; i < 2; i++) {
        int64_t bound = (i == 0) == (step > 0) ? low : high;
        if (i == 0 && step < 0) bound = high;
        if (i == 1) bound = step < 0 ? low : high;
        if (qkv_chat_is_integral(parts[i])) {
            bound = qkv_chat_integer(parts[i]);
            if (bound < 0) bound += count;
            bound = bound < low ? low : bound > high ? high : bound;
        }
        bounds[i] = bound;
    }
    bounds[2] = step;
    return QKV_OK;
}

static size_t access_slice_count(const int64_t bounds[3]) {
    const int64_t step = bounds[2];
    if (step > 0 ? bounds[0] >= bounds[1] : bounds[0] <= bounds[1]) return 0;
    const uint64_t gap = step > 0 ? (uint64_t)(bounds[1] - bounds[0]) : (uint64_t)(bounds[0] - bounds[1]);
    const uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return (size_t)((gap - 1) / size + 1);
}

static enum qkv_status access_slice_text(struct chat_run *run, struct chat_value text, const int64_t bounds[3],
                                         struct chat_value *out) {
    const size_t n = access_slice_count(bounds);
    *out = qkv_chat_text("", 0);
    enum qkv_status status = qkv_chat_work(run, text.size);
    if (status || !n) return status;
    size_t at = qkv_chat_offset(text.text, text.size, (size_t)bounds[0]);
    if (bounds[2] == 1) {
        *out = qkv_chat_text(text.text + at, qkv_chat_offset(text.text + at, text.size - at, n));
        return QKV_OK;
    }
    const size_t mark = qkv_chat_begin(run);
    for (size_t i = 0; i < n && !status; i++) {
        size_t end = at;
        qkv_chat_character(text.text, text.size, &end);
        status = qkv_chat_put(run, text.text + at, end - at);
        if (i + 1 == n) break;
        for (int64_t k = 0; k < bounds[2]; k++) qkv_chat_character(text.text, text.size, &at);
        for (int64_t k = 0; k > bounds[2]; k--) {
            at--;
            while (at && ((unsigned char)text.text[at] & 0xc0) == 0x80) at--;
        }
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

enum qkv_status qkv_chat_slice(struct chat_run *run, struct chat_value object, const struct chat_value parts[3],
                               struct chat_value *out) {
    int64_t bounds[3];
    if (object.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, object);
    const bool text = object.kind == CHAT_TEXT;
    if (object.kind == CHAT_DICT) return qkv_chat_fail(run, "unhashable type: 'slice'");
    if (!text && !qkv_chat_is_sequence(object))
        return qkv_chat_fail(run, "'%s' object is not subscriptable", qkv_chat_type(object));
    const size_t count = text ? qkv_chat_characters(object.text, object.size) : object.list->count;
    enum qkv_status status = access_bounds(run, parts, (int64_t)count, bounds);
    if (status) return status;
    if (text) {
        status = access_slice_text(run, object, bounds, out);
        out->safe = object.safe;
        return status;
    }
    struct chat_list *list = qkv_chat_list(run, access_slice_count(bounds));
    if (!list) return QKV_MEMORY;
    for (size_t i = 0; i < list->count; i++) list->items[i] = object.list->items[bounds[0] + (int64_t)i * bounds[2]];
    *out = (struct chat_value){.kind = object.kind, .list = list};
    if (object.kind == CHAT_RANGE) { /* of the sandbox: its numbers are small */
        const struct chat_list *range = object.list;
        list->start = range->start + bounds[0] * range->step;
        list->stop = range->start + bounds[1] * range->step;
        list->step = range->step * bounds[2];
    }
    return QKV_OK;
}
