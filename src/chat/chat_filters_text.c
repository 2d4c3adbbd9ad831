/* Filters of texts. */
#include "chat/chat.h"

#include <string.h>

#define FILTER(name)                                                                                                   \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

/* Calls a method of str on the text of the value. */
static enum qkv_status filter_method(struct chat_run *run, const char *name, struct chat_value self,
                                     struct chat_args *args, struct chat_value *out) {
    const struct chat_row *row = qkv_chat_text_method(name, strlen(name));
    if (!row) row = qkv_chat_text_case_method(name, strlen(name));
    enum qkv_status status = qkv_chat_str(run, self, &self);
    if (!status) status = row->function(run, self, args, out);
    if (!status && out->kind == CHAT_TEXT) out->safe = self.safe;
    return status;
}

FILTER(filter_upper) {
    return filter_method(run, "upper", self, args, out);
}

FILTER(filter_lower) {
    return filter_method(run, "lower", self, args, out);
}

FILTER(filter_capitalize) {
    return filter_method(run, "capitalize", self, args, out);
}

FILTER(filter_trim) {
    return filter_method(run, "strip", self, args, out);
}

FILTER(filter_center) {
    if (args->p[0].kind == CHAT_MISSING) args->p[0] = qkv_chat_int(80);
    return filter_method(run, "center", self, args, out);
}

/* Words are apart by white space, '-' and opening brackets. */
FILTER(filter_title) {
    struct chat_value text;
    const size_t mark = qkv_chat_begin(run);
    bool inside = false;
    (void)args;
    enum qkv_status status = qkv_chat_str(run, self, &text);
    for (size_t at = 0, begin; !status && at < text.size;) {
        begin = at;
        const uint32_t code = qkv_chat_character(text.text, text.size, &at);
        const bool apart = qkv_chat_is_space(code) || (code && code < 0x80 && strchr("-({[<", (int)code));
        if (apart)
            status = qkv_chat_put(run, text.text + begin, at - begin);
        else
            status = qkv_chat_put_case(run, inside ? CHAT_LOWER : CHAT_UPPER, text.text + begin, at - begin);
        inside = !apart;
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

FILTER(filter_replace) {
    enum qkv_status status = qkv_chat_str(run, args->p[0], &args->p[0]);
    if (!status) status = qkv_chat_str(run, args->p[1], &args->p[1]);
    if (!status) status = qkv_chat_str(run, self, &self);
    if (args->p[2].kind == CHAT_NONE) args->p[2].kind = CHAT_MISSING;
    self.safe = false;
    return status ? status : filter_method(run, "replace", self, args, out);
}

FILTER(filter_string) {
    (void)args;
    return qkv_chat_str(run, self, out);
}

FILTER(filter_safe) {
    (void)args;
    enum qkv_status status = qkv_chat_str(run, self, out);
    out->safe = true;
    return status;
}

FILTER(filter_escape) {
    const size_t mark = qkv_chat_begin(run);
    (void)args;
    enum qkv_status status = qkv_chat_put_escaped(run, self);
    if (!status) status = qkv_chat_end(run, mark, out);
    out->safe = true;
    return status;
}

FILTER(filter_forceescape) {
    enum qkv_status status = qkv_chat_str(run, self, &self);
    self.safe = false;
    return status ? status : filter_escape(run, self, args, out);
}

FILTER(filter_striptags) {
    struct chat_value text;
    const size_t mark = qkv_chat_begin(run);
    (void)args;
    enum qkv_status status = qkv_chat_str(run, self, &text);
    bool space = false, any = false;
    for (size_t at = 0, begin; !status && at < text.size;) {
        begin = at;
        const bool comment = text.size - at >= 4 && !memcmp(text.text + at, "<!--", 4);
        const size_t end = text.text[at] != '<' ? text.size + 1
                           : comment            ? qkv_chat_search(text.text, text.size, "-->", 3, at)
                                                : qkv_chat_search(text.text, text.size, ">", 1, at);
        if (end < text.size) {
            at = end + (comment ? 3 : 1);
            continue;
        }
        if (qkv_chat_is_space(qkv_chat_character(text.text, text.size, &at))) {
            space = true;
            continue;
        }
        if (space && any) status = qkv_chat_put(run, " ", 1);
        if (!status) status = qkv_chat_put(run, text.text + begin, at - begin);
        space = false;
        any = true;
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

FILTER(filter_indent) {
    struct chat_value text, width = args->p[0];
    int64_t spaces = 4;
    const bool first = args->p[1].kind != CHAT_MISSING && qkv_chat_truth(args->p[1]);
    const bool blank = args->p[2].kind != CHAT_MISSING && qkv_chat_truth(args->p[2]);
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = qkv_chat_text_of(run, self, &text);
    if (!status && width.kind != CHAT_TEXT) {
        status = qkv_chat_int_of(run, width, 4, &spaces);
        width = qkv_chat_text(" ", 1);
        if (spaces < 0) spaces = 0;
    } else {
        spaces = 1;
    }
    size_t at = 0, begin, end;
    for (size_t line = 0; !status && qkv_chat_next_line(text.text, text.size, &at, &begin, &end); line++) {
        if (line) status = qkv_chat_put(run, "\n", 1);
        if (!status && (line ? blank || end > begin : first))
            status = qkv_chat_repeat(run, width.text, width.size, (size_t)spaces);
        if (!status) status = qkv_chat_put(run, text.text + begin, end - begin);
        if (!status && at == text.size && end < at) { /* a line end at the end begins one more line, which is empty */
            status = qkv_chat_put(run, "\n", 1);
            if (!status && blank) status = qkv_chat_repeat(run, width.text, width.size, (size_t)spaces);
        }
    }
    if (!status && !text.size && first) status = qkv_chat_repeat(run, width.text, width.size, (size_t)spaces);
    if (!status) status = qkv_chat_end(run, mark, out);
    out->safe = text.safe;
    return status;
}

FILTER(filter_truncate) {
    struct chat_value text, end = qkv_chat_text("...", 3);
    int64_t length, leeway;
    const bool kill = args->p[1].kind != CHAT_MISSING && qkv_chat_truth(args->p[1]);
    size_t count;
    enum qkv_status status = qkv_chat_length(run, self, &count);
    if (!status) status = qkv_chat_int_of(run, args->p[0], 255, &length);
    if (!status && args->p[2].kind != CHAT_MISSING) status = qkv_chat_text_of(run, args->p[2], &end);
    if (args->p[3].kind == CHAT_NONE) args->p[3].kind = CHAT_MISSING;
    if (!status) status = qkv_chat_int_of(run, args->p[3], 5, &leeway);
    if (status) return status;
    const int64_t ends = (int64_t)qkv_chat_characters(end.text, end.size);
    if (length < ends)
        return qkv_chat_fail(run, "expected length >= %lld, got %lld", (long long)ends, (long long)length);
    if (leeway < 0) return qkv_chat_fail(run, "expected leeway >= 0, got %lld", (long long)leeway);
    const int64_t n = (int64_t)count;
    *out = self;
    if (n <= length || n - length <= leeway) return QKV_OK;
    status = qkv_chat_text_of(run, self, &text);
    if (status) return status;
    size_t cut = qkv_chat_offset(text.text, text.size, (size_t)(length - ends));
    size_t space = cut;
    while (space && text.text[space - 1] != ' ') space--;
    if (!kill && space) cut = space - 1;
    const size_t mark = qkv_chat_begin(run);
    status = qkv_chat_put(run, text.text, cut);
    if (!status) status = qkv_chat_put(run, end.text, end.size);
    return status ? status : qkv_chat_end(run, mark, out);
}

FILTER(filter_wordcount) {
    struct chat_value text;
    int64_t n = 0;
    bool inside = false;
    (void)args;
    enum qkv_status status = qkv_chat_str(run, self, &text);
    for (size_t at = 0; !status && at < text.size;) {
        const bool word = qkv_chat_is_word(qkv_chat_character(text.text, text.size, &at));
        n += word && !inside;
        inside = word;
    }
    *out = qkv_chat_int(n);
    return status;
}

static enum qkv_status filter_put_quoted(struct chat_run *run, struct chat_value v, bool query) {
    struct chat_value text;
    enum qkv_status status = qkv_chat_str(run, v, &text);
    for (size_t i = 0; !status && i < text.size; i++) {
        const unsigned char c = (unsigned char)text.text[i];
        char escape[4];
        const bool plain = c < 0x80 && (qkv_chat_is_word(c) || (c && strchr("-.~", c)) || (c == '/' && !query));
        snprintf(escape, sizeof escape, "%%%02X", c);
        if (plain)
            status = qkv_chat_put(run, &text.text[i], 1);
        else
            status = qkv_chat_puts(run, query && c == ' ' ? "+" : escape);
    }
    return status;
}

FILTER(filter_urlencode) {
    struct chat_value *items, pairs = self;
    size_t count;
    const size_t mark = qkv_chat_begin(run);
    (void)args;
    if (self.kind == CHAT_TEXT || (self.kind != CHAT_DICT && !qkv_chat_is_list(self))) {
        enum qkv_status status = filter_put_quoted(run, self, false);
        return status ? status : qkv_chat_end(run, mark, out);
    }
    struct chat_args none = {0};
    enum qkv_status status = QKV_OK;
    if (self.kind == CHAT_DICT) status = qkv_chat_method(self, "items", 5)->function(run, self, &none, &pairs);
    if (!status) status = qkv_chat_iterate(run, pairs, &items, &count);
    for (size_t i = 0; !status && i < count; i++) {
        if (!qkv_chat_is_sequence(items[i]) || items[i].list->count != 2)
            return qkv_chat_fail(run, "urlencode needs pairs");
        if (i) status = qkv_chat_puts(run, "&");
        if (!status) status = filter_put_quoted(run, items[i].list->items[0], true);
        if (!status) status = qkv_chat_puts(run, "=");
        if (!status) status = filter_put_quoted(run, items[i].list->items[1], true);
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

FILTER(filter_format) {
    struct chat_value text, values;
    enum qkv_status status = qkv_chat_str(run, self, &text);
    if (status) return status;
    if (args->count && args->keyword_count)
        return qkv_chat_fail(run, "can't handle positional and keyword arguments at the same time");
    if (args->keyword_count) {
        status = qkv_chat_dict(run, CHAT_DICT, args->keyword_count, &values);
        for (size_t i = 0; i < args->keyword_count && !status; i++)
            status = qkv_chat_set(run, values.dict, qkv_chat_text(args->keywords[i].name, args->keywords[i].size),
                                  args->keywords[i].value);
    } else {
        struct chat_list *list = qkv_chat_list(run, args->count);
        if (!list) return QKV_MEMORY;
        for (size_t i = 0; i < args->count; i++) list->items[i] = args->items[i];
        values = (struct chat_value){.kind = CHAT_TUPLE, .list = list};
    }
    return status ? status : qkv_chat_percent(run, text, values, out);
}

/* json.dumps, without escapes of HTML, as transformers has it. */
FILTER(filter_tojson) {
    struct chat_json_style style = {.between = qkv_chat_text(", ", 2), .after_key = qkv_chat_text(": ", 2)};
    const struct chat_value indent = args->p[1], separators = args->p[2];
    const size_t mark = qkv_chat_begin(run);
    style.ascii = args->p[0].kind != CHAT_MISSING && qkv_chat_truth(args->p[0]);
    style.sorted = args->p[3].kind != CHAT_MISSING && qkv_chat_truth(args->p[3]);
    if (indent.kind == CHAT_TEXT) {
        style.indent = indent.text;
        style.indent_size = indent.size;
    } else if (indent.kind > CHAT_NONE) {
        struct chat_value spaces;
        int64_t n;
        enum qkv_status status = qkv_chat_int_of(run, indent, 0, &n);
        if (!status) status = qkv_chat_repeat(run, " ", 1, n > 0 ? (size_t)n : 0);
        if (!status) status = qkv_chat_end(run, mark, &spaces);
        if (status) return status;
        style.indent = spaces.text;
        style.indent_size = spaces.size;
    }
    if (style.indent) style.between = qkv_chat_text(",", 1);
    if (separators.kind == CHAT_LIST || separators.kind == CHAT_TUPLE) {
        if (separators.list->count != 2) return qkv_chat_fail(run, "separators are two texts");
        enum qkv_status status = qkv_chat_text_of(run, separators.list->items[0], &style.between);
        if (!status) status = qkv_chat_text_of(run, separators.list->items[1], &style.after_key);
        if (status) return status;
    }
    enum qkv_status status = qkv_chat_put_json(run, self, &style);
    return status ? status : qkv_chat_end(run, mark, out);
}

static const struct chat_row rows[] = {
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {"trim", "chars", 0, filter_trim},
    {"string", "", 0, filter_string},
    {"safe", "", 0, filter_safe},
    {"upper", "", 0, filter_upper},
    {"lower", "", 0, filter_lower},
    {"title", "", 0, filter_title},
    {"capitalize", "", 0, filter_capitalize},
    {"replace", "old new count", 2, filter_replace},
    {"indent", "width first blank", 0, filter_indent},
    {"escape", "", 0, filter_escape},
    {"e", "", 0, filter_escape},
    {"forceescape", "", 0, filter_forceescape},
    {"striptags", "", 0, filter_striptags},
    {"center", "width", 0, filter_center},
    {"truncate", "length killwords end leeway", 0, filter_truncate},
    {"wordcount", "", 0, filter_wordcount},
    {"urlencode", "", 0, filter_urlencode},
    {"format", NULL, 0, filter_format},
};

const struct chat_row *qkv_chat_text_filter(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}
