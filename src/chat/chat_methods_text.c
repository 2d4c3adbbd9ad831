/* Methods of str that cut, find and join. */
#include "chat/chat.h"

#include <string.h>

#define METHOD(name)                                                                                                   \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

static bool text_given(struct chat_value v) {
    return v.kind != CHAT_MISSING && v.kind != CHAT_NONE;
}

/* ---- strip ------------------------------------------------------------------------------------------------------- */

static bool text_has_character(struct chat_value set, const char *c, size_t n) {
    return qkv_chat_search(set.text, set.size, c, n, 0) <= set.size;
}

static enum qkv_status text_strip(struct chat_run *run, struct chat_value self, struct chat_value set, bool left,
                                  bool right, struct chat_value *out) {
    size_t begin = 0, end = self.size;
    if (!text_given(set)) {
        if (left) begin = qkv_chat_space_before(self.text, self.size);
        if (right) end -= qkv_chat_space_after(self.text + begin, self.size - begin);
        *out = qkv_chat_text(self.text + begin, end - begin);
        return qkv_chat_work(run, self.size);
    }
    enum qkv_status status = qkv_chat_text_of(run, set, &set);
    if (!status) status = qkv_chat_work(run, self.size);
    while (left && begin < end && !status) {
        size_t next = begin;
        qkv_chat_character(self.text, end, &next);
        if (!text_has_character(set, self.text + begin, next - begin)) break;
        begin = next;
        status = qkv_chat_work(run, set.size);
    }
    while (right && begin < end && !status) {
        size_t at = end - 1;
        while (at > begin && ((unsigned char)self.text[at] & 0xc0) == 0x80) at--;
        if (!text_has_character(set, self.text + at, end - at)) break;
        end = at;
        status = qkv_chat_work(run, set.size);
    }
    *out = qkv_chat_text(self.text + begin, end - begin);
    return status;
}

METHOD(method_strip) {
    return text_strip(run, self, args->p[0], true, true, out);
}

METHOD(method_lstrip) {
    return text_strip(run, self, args->p[0], true, false, out);
}

METHOD(method_rstrip) {
    return text_strip(run, self, args->p[0], false, true, out);
}

static enum qkv_status text_remove(struct chat_run *run, struct chat_value self, struct chat_value part, bool end,
                                   struct chat_value *out) {
    *out = self;
    enum qkv_status status = qkv_chat_text_of(run, part, &part);
    if (status || part.size > self.size) return status;
    const char *at = end ? self.text + self.size - part.size : self.text;
    if (memcmp(at, part.text, part.size) != 0) return QKV_OK;
    *out = qkv_chat_text(self.text + (end ? 0 : part.size), self.size - part.size);
    return QKV_OK;
}

METHOD(method_removeprefix) {
    return text_remove(run, self, args->p[0], false, out);
}

METHOD(method_removesuffix) {
    return text_remove(run, self, args->p[0], true, out);
}

/* ---- split ------------------------------------------------------------------------------------------------------- */

/* Adds the words between white space, at most `limit` + 1 of them; the last one is the rest. */
static enum qkv_status text_split_space(struct chat_run *run, struct chat_value s, int64_t limit,
                                        struct chat_items *list) {
    enum qkv_status status = QKV_OK;
    size_t at = qkv_chat_space_before(s.text, s.size);
    while (at < s.size && !status) {
        size_t end = at, next = at;
        if (limit >= 0 && (int64_t)list->count >= limit) {
            end = next = s.size;
        } else {
            while (next < s.size && !qkv_chat_is_space(qkv_chat_character(s.text, s.size, &next))) end = next;
        }
        status = qkv_chat_add(run, list, qkv_chat_text(s.text + at, end - at));
        at = end + qkv_chat_space_before(s.text + end, s.size - end);
    }
    return status;
}

static enum qkv_status text_rsplit_space(struct chat_run *run, struct chat_value s, int64_t limit,
                                         struct chat_items *list) {
    enum qkv_status status = QKV_OK;
    size_t end = s.size - qkv_chat_space_after(s.text, s.size);
    while (end && !status) {
        size_t begin = end;
        const bool rest = limit >= 0 && (int64_t)list->count >= limit; /* the beginning is not split any more */
        if (rest) begin = 0;
        while (begin && !rest) {
            size_t at = begin - 1;
            while (at && ((unsigned char)s.text[at] & 0xc0) == 0x80) at--;
            size_t next = at;
            if (qkv_chat_is_space(qkv_chat_character(s.text, end, &next))) break;
            begin = at;
        }
        status = qkv_chat_add(run, list, qkv_chat_text(s.text + begin, end - begin));
        end = rest ? 0 : begin - qkv_chat_space_after(s.text, begin);
    }
    return status;
}

static enum qkv_status text_split_at(struct chat_run *run, struct chat_value s, struct chat_value separator,
                                     int64_t limit, struct chat_items *list) {
    size_t at = 0;
    enum qkv_status status = qkv_chat_work(run, s.size);
    while (!status) {
        const bool more = limit < 0 || (int64_t)list->count < limit;
        const size_t found = more ? qkv_chat_search(s.text, s.size, separator.text, separator.size, at) : s.size + 1;
        const size_t end = qkv_min(found, s.size);
        status = qkv_chat_add(run, list, qkv_chat_text(s.text + at, end - at));
        if (found > s.size) break;
        at = found + separator.size;
    }
    return status;
}

/* The last place of a part before `end`; SIZE_MAX: there is none. */
static enum qkv_status text_search_back(struct chat_run *run, struct chat_value s, struct chat_value part, size_t end,
                                        size_t *at) {
    const size_t n = part.size;
    enum qkv_status status = QKV_OK;
    *at = n <= end ? end - n : SIZE_MAX;
    while (*at != SIZE_MAX && n && !status) {
        if (s.text[*at] == *part.text && s.text[*at + n - 1] == part.text[n - 1]) {
            if (!memcmp(s.text + *at, part.text, n)) break;
            status = qkv_chat_work(run, n);
        }
        --*at; /* of 0: SIZE_MAX */
    }
    return status;
}

static enum qkv_status text_rsplit_at(struct chat_run *run, struct chat_value s, struct chat_value separator,
                                      int64_t limit, struct chat_items *list) {
    size_t end = s.size;
    enum qkv_status status = qkv_chat_work(run, s.size);
    while (!status) {
        const bool more = limit < 0 || (int64_t)list->count < limit;
        size_t found = SIZE_MAX;
        if (more) status = text_search_back(run, s, separator, end, &found);
        if (status) break;
        const size_t begin = found == SIZE_MAX ? 0 : found + separator.size;
        status = qkv_chat_add(run, list, qkv_chat_text(s.text + begin, end - begin));
        if (found == SIZE_MAX) break;
        end = found;
    }
    return status;
}

static enum qkv_status text_split(struct chat_run *run, struct chat_value self, struct chat_args *args, bool back,
                                  struct chat_value *out) {
    struct chat_items list = {0};
    struct chat_value separator = args->p[0];
    int64_t limit;
    enum qkv_status status = qkv_chat_int_of(run, args->p[1], -1, &limit);
    if (!status && text_given(separator)) status = qkv_chat_text_of(run, separator, &separator);
    if (status) return status;
    if (!text_given(separator))
        status = back ? text_rsplit_space(run, self, limit, &list) : text_split_space(run, self, limit, &list);
    else if (!separator.size)
        return qkv_chat_fail(run, "empty separator");
    else
        status = back ? text_rsplit_at(run, self, separator, limit, &list)
                      : text_split_at(run, self, separator, limit, &list);
    for (size_t i = 0; back && i < list.count / 2; i++) {
        const struct chat_value swap = list.items[i];
        list.items[i] = list.items[list.count - 1 - i];
        list.items[list.count - 1 - i] = swap;
    }
    return status ? status : qkv_chat_items_end(run, &list, CHAT_LIST, out);
}

METHOD(method_split) {
    return text_split(run, self, args, false, out);
}

METHOD(method_rsplit) {
    return text_split(run, self, args, true, out);
}

METHOD(method_splitlines) {
    struct chat_items list = {0};
    size_t at = 0, begin, end;
    enum qkv_status status = qkv_chat_work(run, self.size);
    while (!status && qkv_chat_next_line(self.text, self.size, &at, &begin, &end))
        status =
            qkv_chat_add(run, &list, qkv_chat_text(self.text + begin, (qkv_chat_truth(args->p[0]) ? at : end) - begin));
    return status ? status : qkv_chat_items_end(run, &list, CHAT_LIST, out);
}

static enum qkv_status text_partition(struct chat_run *run, struct chat_value s, struct chat_value part, bool back,
                                      struct chat_value *out) {
    enum qkv_status status = qkv_chat_text_of(run, part, &part);
    if (!status && !part.size) return qkv_chat_fail(run, "empty separator");
    if (!status) status = qkv_chat_work(run, s.size);
    struct chat_list *list = status ? NULL : qkv_chat_list(run, 3);
    if (!list) return status ? status : QKV_MEMORY;
    size_t at = back ? SIZE_MAX : qkv_chat_search(s.text, s.size, part.text, part.size, 0);
    if (back) status = text_search_back(run, s, part, s.size, &at);
    if (status) return status;
    const bool found = at <= s.size;
    if (!found) at = back ? 0 : s.size;
    const size_t n = found ? part.size : 0;
    list->items[0] = qkv_chat_text(s.text, at);
    list->items[1] = qkv_chat_text(s.text + at, n);
    list->items[2] = qkv_chat_text(s.text + at + n, s.size - at - n);
    *out = (struct chat_value){.kind = CHAT_TUPLE, .list = list};
    return QKV_OK;
}

METHOD(method_partition) {
    return text_partition(run, self, args->p[0], false, out);
}

METHOD(method_rpartition) {
    return text_partition(run, self, args->p[0], true, out);
}

/* ---- find -------------------------------------------------------------------------------------------------------- */

/* The bytes of self[start:end]; false: the range is empty, and not even an empty text is in it. */
static enum qkv_status text_range(struct chat_run *run, struct chat_value self, const struct chat_value *bounds,
                                  size_t *begin, size_t *end, bool *right) {
    const int64_t count = (int64_t)qkv_chat_characters(self.text, self.size);
    int64_t at[2] = {0, count};
    enum qkv_status status = qkv_chat_work(run, self.size);
    for (size_t i = 0; i < 2 && !status; i++) {
        if (text_given(bounds[i])) status = qkv_chat_int_of(run, bounds[i], 0, &at[i]);
        if (at[i] < 0) at[i] += count;
        if (at[i] < 0) at[i] = 0;
    }
    *right = at[0] <= count && at[0] <= at[1];
    *begin = qkv_chat_offset(self.text, self.size, (size_t)at[0]);
    *end = qkv_max(*begin, qkv_chat_offset(self.text, self.size, (size_t)at[1]));
    return status;
}

static enum qkv_status text_find(struct chat_run *run, struct chat_value self, struct chat_args *args, bool back,
                                 bool must, struct chat_value *out) {
    struct chat_value part;
    size_t begin, end, at = SIZE_MAX;
    bool right;
    enum qkv_status status = qkv_chat_text_of(run, args->p[0], &part);
    if (!status) status = text_range(run, self, args->p + 1, &begin, &end, &right);
    if (status) return status;
    const struct chat_value inside = qkv_chat_text(self.text + begin, end - begin);
    if (right && !back) at = qkv_chat_search(inside.text, inside.size, part.text, part.size, 0);
    if (right && back) status = text_search_back(run, inside, part, inside.size, &at);
    if (status) return status;
    if (at <= inside.size) {
        *out = qkv_chat_int((int64_t)qkv_chat_characters(self.text, begin + at));
        return QKV_OK;
    }
    *out = qkv_chat_int(-1);
    return must ? qkv_chat_fail(run, "substring not found") : QKV_OK;
}

METHOD(method_find) {
    return text_find(run, self, args, false, false, out);
}

METHOD(method_rfind) {
    return text_find(run, self, args, true, false, out);
}

METHOD(method_index) {
    return text_find(run, self, args, false, true, out);
}

METHOD(method_rindex) {
    return text_find(run, self, args, true, true, out);
}

METHOD(method_count) {
    struct chat_value part;
    size_t begin, end;
    int64_t n = 0;
    bool right;
    enum qkv_status status = qkv_chat_text_of(run, args->p[0], &part);
    if (!status) status = text_range(run, self, args->p + 1, &begin, &end, &right);
    if (status) return status;
    if (right && !part.size) n = (int64_t)qkv_chat_characters(self.text + begin, end - begin) + 1;
    while (right && part.size && (begin = qkv_chat_search(self.text, end, part.text, part.size, begin)) <= end) {
        begin += part.size;
        n++;
    }
    *out = qkv_chat_int(n);
    return QKV_OK;
}

/* Whether the text begins or ends with one of the parts. */
static enum qkv_status text_affix(struct chat_run *run, struct chat_value self, struct chat_args *args, bool ends,
                                  struct chat_value *out) {
    const struct chat_value *parts = &args->p[0];
    size_t count = 1, begin, end;
    bool right, found = false;
    enum qkv_status status = text_range(run, self, args->p + 1, &begin, &end, &right);
    if (parts->kind == CHAT_TUPLE) {
        count = parts->list->count;
        parts = parts->list->items;
    }
    for (size_t i = 0; i < count && !status && !found; i++) {
        struct chat_value part;
        if (parts[i].kind != CHAT_TEXT && parts[i].kind != CHAT_UNDEFINED)
            return qkv_chat_fail(run, "%s first arg must be str or a tuple of str, not %s",
                                 ends ? "endswith" : "startswith", qkv_chat_type(parts[i]));
        status = qkv_chat_text_of(run, parts[i], &part);
        if (status || !right || part.size > end - begin) continue;
        found = !memcmp(ends ? self.text + end - part.size : self.text + begin, part.text, part.size);
    }
    *out = qkv_chat_bool(found);
    return status;
}

METHOD(method_startswith) {
    return text_affix(run, self, args, false, out);
}

METHOD(method_endswith) {
    return text_affix(run, self, args, true, out);
}

/* ---- replace and join -------------------------------------------------------------------------------------------- */

METHOD(method_replace) {
    struct chat_value old, new;
    int64_t limit;
    enum qkv_status status = qkv_chat_text_of(run, args->p[0], &old);
    if (!status) status = qkv_chat_text_of(run, args->p[1], &new);
    if (!status) status = qkv_chat_int_of(run, args->p[2], -1, &limit);
    if (status) return status;
    const size_t mark = qkv_chat_begin(run);
    size_t at = 0;
    for (int64_t n = 0; (limit < 0 || n < limit) && !status; n++) {
        size_t found = qkv_chat_search(self.text, self.size, old.text, old.size, at);
        if (!old.size && n) { /* an empty part is before each character and at the end */
            if (at >= self.size) break;
            found = at + qkv_chat_offset(self.text + at, self.size - at, 1);
        }
        if (found > self.size) break;
        status = qkv_chat_put(run, self.text + at, found - at);
        if (!status) status = self.safe ? qkv_chat_put_escaped(run, new) : qkv_chat_put(run, new.text, new.size);
        at = found + old.size;
    }
    if (!status) status = qkv_chat_put(run, self.text + at, self.size - at);
    return status ? status : qkv_chat_end(run, mark, out);
}

METHOD(method_join) {
    struct chat_value *items;
    size_t count;
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = qkv_chat_iterate(run, args->p[0], &items, &count);
    for (size_t i = 0; i < count && !status; i++) {
        if (items[i].kind != CHAT_TEXT && !self.safe)
            return qkv_chat_fail(run, "sequence item %zu: expected str instance, %s found", i, qkv_chat_type(items[i]));
        if (i) status = qkv_chat_put(run, self.text, self.size);
        if (!status)
            status = self.safe ? qkv_chat_put_escaped(run, items[i]) : qkv_chat_put(run, items[i].text, items[i].size);
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

static const struct chat_row rows[] = {
    {"split", "sep maxsplit", 0, method_split},
    {"strip", "chars", 0, method_strip},
    {"lstrip", "chars", 0, method_lstrip},
    {"rstrip", "chars", 0, method_rstrip},
    {"startswith", "prefix start end", 1, method_startswith},
    {"endswith", "suffix start end", 1, method_endswith},
    {"replace", "old new count", 2, method_replace},
    {"join", "iterable", 1, method_join},
    {"find", "sub start end", 1, method_find},
    {"format", NULL, 0, qkv_chat_format_fields},
    {"rsplit", "sep maxsplit", 0, method_rsplit},
    {"splitlines", "keepends", 0, method_splitlines},
    {"rfind", "sub start end", 1, method_rfind},
    {"index", "sub start end", 1, method_index},
    {"rindex", "sub start end", 1, method_rindex},
    {"count", "sub start end", 1, method_count},
    {"partition", "sep", 1, method_partition},
    {"rpartition", "sep", 1, method_rpartition},
    {"removeprefix", "prefix", 1, method_removeprefix},
    {"removesuffix", "suffix", 1, method_removesuffix},
};

const struct chat_row *qkv_chat_text_method(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}
