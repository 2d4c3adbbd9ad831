/* text.format(values): fields in braces, with attributes, items, conversions and the small language of formats. */
#include "chat/chat.h"

#include <string.h>

struct fields {
    struct chat_run *run;
    const struct chat_args *args;
    size_t next; /* the position that {} means */
    bool numbered, automatic;
};

static enum qkv_status fields_put(struct fields *f, const char *s, size_t size, int depth);

/* Reads digits; false: there are none, or too many. */
static bool fields_number(const char *s, size_t size, size_t *at, int64_t *out) {
    const size_t begin = *at;
    int64_t n = 0;
    for (; *at < size && s[*at] >= '0' && s[*at] <= '9' && n <= INT32_MAX; ++*at) n = n * 10 + (s[*at] - '0');
    if (*at > begin) *out = n;
    return *at > begin && n <= INT32_MAX;
}

/* The value that a field's name begins with: a position, a keyword, or the next position. */
static enum qkv_status fields_first(struct fields *f, const char *s, size_t size, struct chat_value *out) {
    int64_t position = 0;
    size_t at = 0;
    const bool number = fields_number(s, size, &at, &position) && at == size;
    if (size == 0 || number) {
        if (number)
            f->numbered = true;
        else
            position = (int64_t)f->next++, f->automatic = true;
        if (f->numbered && f->automatic)
            return qkv_chat_fail(f->run,
                                 "cannot switch between manual field specification and automatic field numbering");
        if ((size_t)position >= f->args->count) return qkv_chat_fail(f->run, "tuple index out of range");
        *out = f->args->items[position];
        return QKV_OK;
    }
    for (size_t i = 0; i < f->args->keyword_count; i++) {
        if (f->args->keywords[i].size != size || memcmp(f->args->keywords[i].name, s, size)) continue;
        *out = f->args->keywords[i].value;
        return QKV_OK;
    }
    return qkv_chat_fail(f->run, "'%.*s'", (int)qkv_min(size, 200), s);
}

/* The value of a whole name: "0", "name", "0.attribute", "name[key]". */
static enum qkv_status fields_value(struct fields *f, const char *s, size_t size, struct chat_value *out) {
    size_t at = 0;
    while (at < size && s[at] != '.' && s[at] != '[') at++;
    enum qkv_status status = fields_first(f, s, at, out);
    while (at < size && !status) {
        const bool item = s[at] == '[';
        const size_t begin = ++at;
        int64_t number = 0;
        size_t digits = begin;
        while (at < size && (item ? s[at] != ']' : s[at] != '.' && s[at] != '[')) at++;
        if (at == begin) return qkv_chat_fail(f->run, "Empty attribute in format string");
        if (item && at == size) return qkv_chat_fail(f->run, "expected '}' before end of string");
        const bool position = item && fields_number(s, at, &digits, &number) && digits == at;
        const struct chat_value key = position ? qkv_chat_int(number) : qkv_chat_text(s + begin, at - begin);
        status = f->run->calls->item(f->run, *out, key, out);
        at += item;
    }
    return status;
}

static bool fields_is_align(char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static enum qkv_status fields_spec(struct fields *f, const char *s, size_t size, struct chat_format *format) {
    size_t at = 0, next = 0;
    bool right = true;
    *format = (struct chat_format){.width = -1, .precision = -1};
    if (size) {
        const uint32_t fill = qkv_chat_character(s, size, &next);
        if (next < size && fields_is_align(s[next])) {
            format->fill = fill;
            format->align = s[next];
            at = next + 1;
        } else if (fields_is_align(*s)) {
            format->align = s[at++];
        }
    }
    if (at < size && (s[at] == '+' || s[at] == '-' || s[at] == ' ')) format->sign = s[at++];
    if (at < size && s[at] == 'z') at++;
    if (at < size && s[at] == '#') format->alternate = true, at++;
    if (at < size && s[at] == '0') format->zero = true, at++;
    fields_number(s, size, &at, &format->width);
    if (at < size && (s[at] == ',' || s[at] == '_')) format->grouping = s[at++];
    if (at < size && s[at] == '.') {
        at++;
        right = fields_number(s, size, &at, &format->precision);
    }
    if (at < size) format->type = s[at++];
    if (right && at == size) return QKV_OK;
    return qkv_chat_fail(f->run, "Invalid format specifier '%.*s'", (int)qkv_min(size, 100), s);
}

/* The field between braces. */
static enum qkv_status fields_field(struct fields *f, const char *s, size_t size, int depth) {
    struct chat_run *run = f->run;
    struct chat_value value, spec = qkv_chat_text("", 0);
    struct chat_format format;
    size_t name = 0;
    char conversion = 0;
    while (name < size && s[name] != '!' && s[name] != ':')
        name += s[name] == '[' ? qkv_min(qkv_chat_search(s, size, "]", 1, name), size) - name : 1;
    size_t at = name;
    enum qkv_status status = fields_value(f, s, name, &value);
    if (!status && at < size && s[at] == '!') {
        conversion = at + 1 < size ? s[at + 1] : 0;
        at += 2;
        if (!conversion || !strchr("rsa", conversion) || (at < size && s[at] != ':'))
            return qkv_chat_fail(run, "Unknown conversion specifier in a format");
    }
    if (!status && at < size) { /* fields inside the format */
        const size_t mark = qkv_chat_begin(run);
        status = fields_put(f, s + at + 1, size - at - 1, depth + 1);
        if (!status) status = qkv_chat_end(run, mark, &spec);
    }
    if (!status && conversion) {
        const size_t mark = qkv_chat_begin(run);
        status = conversion == 's' ? qkv_chat_put_str(run, value) : qkv_chat_put_repr(run, value);
        if (!status) status = qkv_chat_end(run, mark, &value);
    }
    if (!status && !spec.size) return qkv_chat_put_str(run, value);
    if (!status) status = fields_spec(f, spec.text, spec.size, &format);
    return status ? status : qkv_chat_put_format(run, &format, value);
}

static enum qkv_status fields_put(struct fields *f, const char *s, size_t size, int depth) {
    enum qkv_status status = QKV_OK;
    if (depth > 2) return qkv_chat_fail(f->run, "Max string recursion exceeded");
    for (size_t at = 0; at < size && !status;) {
        size_t plain = at;
        while (plain < size && s[plain] != '{' && s[plain] != '}') plain++;
        status = qkv_chat_put(f->run, s + at, plain - at);
        at = plain;
        if (status || at == size) break;
        if (at + 1 < size && s[at + 1] == s[at]) { /* {{ and }} */
            status = qkv_chat_put(f->run, s + at, 1);
            at += 2;
            continue;
        }
        if (s[at] == '}') return qkv_chat_fail(f->run, "Single '}' encountered in format string");
        size_t end = at + 1;
        for (size_t level = 1; end < size; end++) {
            level += s[end] == '{';
            if (s[end] == '}' && --level == 0) break;
        }
        if (end == size) return qkv_chat_fail(f->run, "Single '{' encountered in format string");
        status = fields_field(f, s + at + 1, end - at - 1, depth);
        at = end + 1;
    }
    return status;
}

enum qkv_status qkv_chat_format_fields(struct chat_run *run, struct chat_value self, struct chat_args *args,
                                       struct chat_value *out) {
    struct fields f = {.run = run, .args = args};
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = fields_put(&f, self.text, self.size, 1);
    return status ? status : qkv_chat_end(run, mark, out);
}
