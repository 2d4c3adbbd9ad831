/* Formatted values, for both kinds of formats, and text % values. */
#include "chat/chat.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

enum { FORMAT_TEXT = 512, FORMAT_PRECISION = 100 };

/* ---- one value --------------------------------------------------------------------------------------------------- */

/* Puts `body` behind a sign or prefix, padded to the width. `usual`: the alignment where none is asked for. */
static enum qkv_status format_pad(struct chat_run *run, const struct chat_format *f, char usual, const char *prefix,
                                  struct chat_value body) {
    const size_t prefix_size = strlen(prefix), n = qkv_chat_characters(body.text, body.size) + prefix_size;
    const char align = f->align ? f->align : f->zero && usual == '>' ? '=' : usual;
    const uint32_t fill = f->zero && !f->align ? '0' : f->fill ? f->fill : ' ';
    const size_t gap = f->width > 0 && (size_t)f->width > n ? (size_t)f->width - n : 0;
    const size_t before = align == '>' ? gap : align == '^' ? gap / 2 : 0, inside = align == '=' ? gap : 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < before && !status; i++) status = qkv_chat_put_code(run, fill);
    if (!status) status = qkv_chat_put(run, prefix, prefix_size);
    for (size_t i = 0; i < inside && !status; i++) status = qkv_chat_put_code(run, fill);
    if (!status) status = qkv_chat_put(run, body.text, body.size);
    for (size_t i = before + inside; i < gap && !status; i++) status = qkv_chat_put_code(run, fill);
    return status;
}

static void format_prefix(const struct chat_format *f, bool negative, const char *base, char prefix[8]) {
    const char sign = negative ? '-' : f->sign == '+' || f->sign == ' ' ? f->sign : 0;
    snprintf(prefix, 8, "%.*s%s", sign != 0, &sign, base);
}

/* Copies digits with groups of `every` in the part before a point or an exponent. */
static void format_group(const char *digits, char grouping, size_t every, char text[FORMAT_TEXT + 200]) {
    size_t whole = strspn(digits, "0123456789abcdefABCDEF"), n = 0;
    if (strchr(digits, '.')) whole = strspn(digits, "0123456789");
    for (size_t i = 0; digits[i] && n < FORMAT_TEXT + 198; i++) {
        if (grouping && i && i < whole && (whole - i) % every == 0) text[n++] = grouping;
        text[n++] = digits[i];
    }
    text[n] = 0;
}

static enum qkv_status format_integer(struct chat_run *run, const struct chat_format *f, int64_t x) {
    char digits[FORMAT_TEXT], text[FORMAT_TEXT + 200], prefix[8];
    const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    const char *base = "";
    size_t n = 0;
    if (f->type == 'x' || f->type == 'X') {
        n = (size_t)snprintf(digits, sizeof digits, f->type == 'x' ? "%llx" : "%llX", (unsigned long long)size);
        base = f->type == 'x' ? "0x" : "0X";
    } else if (f->type == 'o') {
        n = (size_t)snprintf(digits, sizeof digits, "%llo", (unsigned long long)size);
        base = "0o";
    } else if (f->type == 'b') {
        for (int bit = 63; bit >= 0; bit--)
            if (n || size >> bit & 1 || bit == 0) digits[n++] = (char)('0' + (size >> bit & 1));
        digits[n] = 0;
        base = "0b";
    } else {
        n = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)size);
    }
    if (f->precision > (int64_t)n) { /* of "%.5d" */
        const size_t zeros = qkv_min((size_t)f->precision, FORMAT_PRECISION) - qkv_min(n, FORMAT_PRECISION);
        memmove(digits + zeros, digits, n + 1);
        memset(digits, '0', zeros);
    }
    format_group(digits, f->grouping, f->type && strchr("xXob", f->type) ? 4 : 3, text);
    format_prefix(f, x < 0, f->alternate ? base : "", prefix);
    return format_pad(run, f, '>', prefix, qkv_chat_text(text, strlen(text)));
}

static enum qkv_status format_real(struct chat_run *run, const struct chat_format *f, double x) {
    char digits[FORMAT_TEXT], text[FORMAT_TEXT + 200], prefix[8], spec[8];
    const bool percent = f->type == '%', plain = !f->type || f->type == 'n';
    const int precision =
        f->precision >= 0 ? (int)(f->precision < FORMAT_PRECISION ? f->precision : FORMAT_PRECISION) : 6;
    double size = fabs(x);
    if (percent) size *= 100;
    if (plain && f->precision < 0) {
        char exact[CHAT_REAL_TEXT];
        qkv_chat_real_text(size, exact);
        snprintf(digits, sizeof digits, "%s", exact);
    } else {
        snprintf(spec, sizeof spec, "%%%s.*%c", f->alternate ? "#" : "", percent ? 'f' : plain ? 'g' : f->type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(digits, sizeof digits, spec, plain && !precision ? 1 : precision, size);
#pragma GCC diagnostic pop
        for (char *c = digits; *c; c++) /* the point of the locale */
            if (!strchr("0123456789+-abcdefinABCDEFIN.", *c)) *c = '.';
        if (plain && isfinite(x) && !strpbrk(digits, ".e")) strcat(digits, ".0");
    }
    if (percent) strcat(digits, "%");
    format_group(digits, f->grouping, 3, text);
    format_prefix(f, signbit(x) && !isnan(x), "", prefix);
    return format_pad(run, f, '>', prefix, qkv_chat_text(text, strlen(text)));
}

static enum qkv_status format_text(struct chat_run *run, const struct chat_format *f, struct chat_value v) {
    struct chat_value text;
    enum qkv_status status = qkv_chat_str(run, v, &text);
    if (status) return status;
    if (f->precision >= 0) text.size = (uint32_t)qkv_chat_offset(text.text, text.size, (size_t)f->precision);
    return format_pad(run, f, '<', "", text);
}

enum qkv_status qkv_chat_put_format(struct chat_run *run, const struct chat_format *f, struct chat_value v) {
    const bool number = qkv_chat_is_number(v);
    if (f->width > (int64_t)run->limits.output) return qkv_chat_fail(run, "the width of a format is too large");
    if (!f->type || f->type == 's') {
        if (f->type || v.kind == CHAT_BOOL || !number) return format_text(run, f, v);
        return v.kind == CHAT_INT ? format_integer(run, f, v.integer) : format_real(run, f, v.real);
    }
    if (strchr("eEfFgG%n", f->type) && number && (f->type != 'n' || v.kind == CHAT_REAL))
        return format_real(run, f, qkv_chat_number(v));
    if (f->type == 'c' && qkv_chat_is_integral(v)) {
        char bytes[4];
        const int64_t code = qkv_chat_integer(v);
        if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return qkv_chat_fail(run, "%%c arg not in range(0x110000)");
        return format_pad(run, f, '<', "", qkv_chat_text(bytes, qkv_utf8_write((uint32_t)code, bytes)));
    }
    if (strchr("dnboxX", f->type) && qkv_chat_is_integral(v)) return format_integer(run, f, qkv_chat_integer(v));
    return qkv_chat_fail(run, "Unknown format code '%c' for object of type '%s'", f->type, qkv_chat_type(v));
}

/* ---- text % values ----------------------------------------------------------------------------------------------- */

struct percent {
    struct chat_run *run;
    struct chat_value values; /* a tuple, a dict or one value */
    size_t used;
    bool mapped; /* a value was found by its key */
    const char *s;
    size_t size, at;
};

static enum qkv_status percent_next(struct percent *p, struct chat_value *out) {
    const bool tuple = p->values.kind == CHAT_TUPLE;
    if (p->used >= (tuple ? p->values.list->count : 1))
        return qkv_chat_fail(p->run, "not enough arguments for format string");
    *out = tuple ? p->values.list->items[p->used] : p->values;
    p->used++;
    return QKV_OK;
}

/* A width or precision: digits, or "*". */
static enum qkv_status percent_number(struct percent *p, int64_t *out) {
    if (p->at < p->size && p->s[p->at] == '*') {
        struct chat_value v;
        p->at++;
        enum qkv_status status = percent_next(p, &v);
        if (status || !qkv_chat_is_integral(v)) return status ? status : qkv_chat_fail(p->run, "* wants int");
        *out = qkv_chat_integer(v);
        return QKV_OK;
    }
    for (; p->at < p->size && p->s[p->at] >= '0' && p->s[p->at] <= '9'; p->at++) {
        *out = (*out < 0 ? 0 : *out) * 10 + (p->s[p->at] - '0');
        if (*out > INT32_MAX) return qkv_chat_fail(p->run, "a number in a format is too large");
    }
    return QKV_OK;
}

static enum qkv_status percent_key(struct percent *p, struct chat_value *value) {
    const size_t begin = ++p->at;
    struct chat_value *found;
    for (size_t depth = 1; p->at < p->size; p->at++) {
        if (p->s[p->at] == '(') depth++;
        if (p->s[p->at] == ')' && --depth == 0) break;
    }
    if (p->at == p->size) return qkv_chat_fail(p->run, "incomplete format key");
    if (p->values.kind != CHAT_DICT) return qkv_chat_fail(p->run, "format requires a mapping");
    const struct chat_value key = qkv_chat_text(p->s + begin, p->at++ - begin);
    enum qkv_status status = qkv_chat_find(p->run, p->values.dict, key, &found);
    if (status) return status;
    if (!found) return qkv_chat_fail(p->run, "'%.*s'", (int)qkv_min(key.size, 200), key.text);
    *value = *found;
    p->mapped = true;
    return QKV_OK;
}

static enum qkv_status percent_put(struct percent *p, struct chat_format *f, char type, struct chat_value v) {
    struct chat_run *run = p->run;
    const size_t mark = qkv_chat_begin(run);
    const bool integer = strchr("diuxXo", type) != NULL;
    enum qkv_status status = QKV_OK;
    if (!f->align) f->align = f->zero && !strchr("srac", type) ? 0 : '>';
    if (strchr("srac", type)) f->zero = false;
    f->type = type == 'i' || type == 'u' ? 'd' : type;
    if (type == 'r' || type == 'a') {
        f->type = 's';
        status = qkv_chat_put_repr(run, v);
        if (!status) status = qkv_chat_end(run, mark, &v);
    } else if (integer && v.kind == CHAT_REAL && strchr("diu", type)) {
        if (!(fabs(v.real) < 9e18)) return qkv_chat_fail(run, "a number does not fit in 64 bits");
        v = qkv_chat_int((int64_t)v.real);
    } else if (type == 'c' && v.kind == CHAT_TEXT && qkv_chat_characters(v.text, v.size) == 1) {
        f->type = 's';
    }
    if (status) return status;
    if (!strchr("src", f->type) && !qkv_chat_is_number(v))
        return qkv_chat_fail(run, "%%%c format: a real number is required, not %s", type, qkv_chat_type(v));
    return qkv_chat_put_format(run, f, v);
}

static enum qkv_status percent_field(struct percent *p) {
    struct chat_format f = {.width = -1, .precision = -1};
    struct chat_value value = {.kind = CHAT_MISSING};
    enum qkv_status status = QKV_OK;
    if (p->at < p->size && p->s[p->at] == '(') status = percent_key(p, &value);
    for (bool more = true; more && p->at < p->size && !status;) {
        switch (p->s[p->at]) {
        case '-':
            f.align = '<';
            break;
        case '+':
            f.sign = '+';
            break;
        case ' ':
            if (!f.sign) f.sign = ' ';
            break;
        case '#':
            f.alternate = true;
            break;
        case '0':
            f.zero = true;
            break;
        default:
            more = false;
        }
        p->at += more;
    }
    if (!status) status = percent_number(p, &f.width);
    if (!status && p->at < p->size && p->s[p->at] == '.') {
        p->at++;
        f.precision = 0;
        status = percent_number(p, &f.precision);
    }
    while (p->at < p->size && strchr("hlL", p->s[p->at]) && p->s[p->at]) p->at++;
    if (status) return status;
    if (p->at == p->size) return qkv_chat_fail(p->run, "incomplete format");
    const char type = p->s[p->at++];
    if (type == '%') return qkv_chat_puts(p->run, "%");
    if (!type || !strchr("diouxXeEfFgGcrsa", type))
        return qkv_chat_fail(p->run, "unsupported format character '%c' at index %zu", type, p->at - 1);
    if (value.kind == CHAT_MISSING) status = percent_next(p, &value);
    return status ? status : percent_put(p, &f, type, value);
}

enum qkv_status qkv_chat_percent(struct chat_run *run, struct chat_value text, struct chat_value value,
                                 struct chat_value *out) {
    struct percent p = {.run = run, .values = value, .s = text.text, .size = text.size};
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = QKV_OK;
    while (p.at < p.size && !status) {
        const size_t at = qkv_min(qkv_chat_search(p.s, p.size, "%", 1, p.at), p.size);
        status = qkv_chat_put(run, p.s + p.at, at - p.at);
        p.at = at + 1;
        if (!status && at < p.size) status = percent_field(&p);
    }
    const size_t needed = value.kind == CHAT_TUPLE                             ? value.list->count
                          : value.kind == CHAT_DICT || value.kind == CHAT_LIST ? 0
                                                                               : 1;
    if (!status && !p.mapped && p.used < needed)
        return qkv_chat_fail(run, "not all arguments converted during string formatting");
    return status ? status : qkv_chat_end(run, mark, out);
}
