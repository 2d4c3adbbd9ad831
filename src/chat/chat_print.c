/* Texts of values: Python's str and repr. */
#include "chat/chat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The digits of x > 0 with the fewest of them that read back as x, and the exponent of the first one. */
static size_t print_digits(double x, char digits[20], int *exponent) {
    char text[40];
    size_t n = 0;
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, x);
        if (strtod(text, NULL) == x) break;
    }
    const char *at = text;
    for (; *at && *at != 'e'; at++) /* the point depends on the locale */
        if (*at >= '0' && *at <= '9') digits[n++] = *at;
    *exponent = *at ? (int)strtol(at + 1, NULL, 10) : 0;
    while (n > 1 && digits[n - 1] == '0') n--;
    return n;
}

void qkv_chat_real_text(double x, char text[CHAT_REAL_TEXT]) {
    char digits[20];
    int exponent = 0;
    size_t at = 0;
    if (isnan(x) || isinf(x)) {
        snprintf(text, CHAT_REAL_TEXT, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(x)) text[at++] = '-';
    const size_t n = x == 0 ? 1 : print_digits(fabs(x), digits, &exponent);
    if (x == 0) *digits = '0';
    if (exponent < -4 || exponent >= 16) {
        text[at++] = *digits;
        if (n > 1) text[at++] = '.';
        for (size_t i = 1; i < n; i++) text[at++] = digits[i];
        snprintf(text + at, CHAT_REAL_TEXT - at, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        text[at++] = '0';
        text[at++] = '.';
        for (int i = -1; i > exponent; i--) text[at++] = '0';
        for (size_t i = 0; i < n; i++) text[at++] = digits[i];
    } else {
        const size_t whole = (size_t)exponent + 1;
        for (size_t i = 0; i < qkv_max(n, whole + 1); i++) {
            if (i == whole) text[at++] = '.';
            text[at++] = i < n ? digits[i] : '0';
        }
    }
    text[at] = 0;
}

static enum qkv_status print_repr_text(struct chat_run *run, struct chat_value v) {
    const bool has_single = v.size && memchr(v.text, '\'', v.size), has_double = v.size && memchr(v.text, '"', v.size);
    const char quote = has_single && !has_double ? '"' : '\'';
    char escape[16];
    size_t plain = 0; /* the bytes from here to the place are put as they are */
    enum qkv_status status = v.safe ? qkv_chat_puts(run, "Markup(") : QKV_OK;
    if (!status) status = qkv_chat_put(run, &quote, 1);
    for (size_t at = 0, begin; at < v.size && !status;) {
        begin = at;
        const uint32_t code = qkv_chat_character(v.text, v.size, &at);
        if (code == '\\' || code == (uint32_t)quote)
            snprintf(escape, sizeof escape, "\\%c", (char)code);
        else if (code == '\n')
            snprintf(escape, sizeof escape, "\\n");
        else if (code == '\r')
            snprintf(escape, sizeof escape, "\\r");
        else if (code == '\t')
            snprintf(escape, sizeof escape, "\\t");
        else if (code >= 0x20 && code < 0x7f)
            continue;
        else if (qkv_chat_is_printable(code))
            continue;
        else if (code < 0x100)
            snprintf(escape, sizeof escape, "\\x%02x", (unsigned)code);
        else
            snprintf(escape, sizeof escape, code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)code);
        status = qkv_chat_put(run, v.text + plain, begin - plain);
        if (!status) status = qkv_chat_puts(run, escape);
        plain = at;
    }
    if (!status) status = qkv_chat_put(run, v.text + plain, v.size - plain);
    if (!status) status = qkv_chat_put(run, &quote, 1);
    return status || !v.safe ? status : qkv_chat_puts(run, ")");
}

static enum qkv_status print_list(struct chat_run *run, struct chat_value v) {
    static const char *const begins[] = {[CHAT_LIST] = "[",
                                         [CHAT_TUPLE] = "(",
                                         [CHAT_ITEMS] = "dict_items([",
                                         [CHAT_KEYS] = "dict_keys([",
                                         [CHAT_VALUES] = "dict_values(["};
    static const char *const ends[] = {
        [CHAT_LIST] = "]", [CHAT_TUPLE] = ")", [CHAT_ITEMS] = "])", [CHAT_KEYS] = "])", [CHAT_VALUES] = "])"};
    enum qkv_status status = qkv_chat_puts(run, begins[v.kind]);
    for (size_t i = 0; i < v.list->count && !status; i++) {
        if (i) status = qkv_chat_puts(run, ", ");
        if (!status) status = qkv_chat_put_repr(run, v.list->items[i]);
    }
    if (!status && v.kind == CHAT_TUPLE && v.list->count == 1) status = qkv_chat_puts(run, ",");
    return status ? status : qkv_chat_puts(run, ends[v.kind]);
}

static enum qkv_status print_dict(struct chat_run *run, const struct chat_dict *dict) {
    enum qkv_status status = qkv_chat_puts(run, "{");
    for (size_t i = 0; i < dict->count && !status; i++) {
        if (i) status = qkv_chat_puts(run, ", ");
        if (!status) status = qkv_chat_put_repr(run, dict->entries[i].key);
        if (!status) status = qkv_chat_puts(run, ": ");
        if (!status) status = qkv_chat_put_repr(run, dict->entries[i].value);
    }
    return status ? status : qkv_chat_puts(run, "}");
}

static enum qkv_status print_range(struct chat_run *run, const struct chat_list *range) {
    char text[96];
    if (range->step == 1)
        snprintf(text, sizeof text, "range(%lld, %lld)", (long long)range->start, (long long)range->stop);
    else
        snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)range->start, (long long)range->stop,
                 (long long)range->step);
    return qkv_chat_puts(run, text);
}

static enum qkv_status print_deep(struct chat_run *run, struct chat_value v) {
    enum qkv_status status = qkv_chat_enter(run);
    if (status) return status;
    if (v.kind == CHAT_NAMESPACE) status = qkv_chat_puts(run, "<Namespace ");
    if (!status) status = v.kind >= CHAT_DICT ? print_dict(run, v.dict) : print_list(run, v);
    if (!status && v.kind == CHAT_NAMESPACE) status = qkv_chat_puts(run, ">");
    qkv_chat_leave(run);
    return status;
}

enum qkv_status qkv_chat_put_repr(struct chat_run *run, struct chat_value v) {
    char text[CHAT_REAL_TEXT];
    switch (v.kind) {
    case CHAT_UNDEFINED:
        return qkv_chat_puts(run, "Undefined");
    case CHAT_NONE:
        return qkv_chat_puts(run, "None");
    case CHAT_BOOL:
        return qkv_chat_puts(run, v.truth ? "True" : "False");
    case CHAT_INT:
        snprintf(text, sizeof text, "%lld", (long long)v.integer);
        return qkv_chat_puts(run, text);
    case CHAT_REAL:
        qkv_chat_real_text(v.real, text);
        return qkv_chat_puts(run, text);
    case CHAT_TEXT:
        return print_repr_text(run, v);
    case CHAT_RANGE:
        return print_range(run, v.list);
    case CHAT_LIST:
    case CHAT_TUPLE:
    case CHAT_ITEMS:
    case CHAT_KEYS:
    case CHAT_VALUES:
    case CHAT_DICT:
    case CHAT_NAMESPACE:
        return print_deep(run, v);
    default: /* Python prints an address */
        return qkv_chat_fail(run, "a %s cannot be printed", qkv_chat_type(v));
    }
}

enum qkv_status qkv_chat_put_str(struct chat_run *run, struct chat_value v) {
    if (v.kind == CHAT_TEXT) return qkv_chat_put(run, v.text, v.size);
    return v.kind == CHAT_UNDEFINED ? QKV_OK : qkv_chat_put_repr(run, v);
}

enum qkv_status qkv_chat_str(struct chat_run *run, struct chat_value v, struct chat_value *out) {
    *out = v;
    if (v.kind == CHAT_TEXT) return QKV_OK;
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = qkv_chat_put_str(run, v);
    return status ? status : qkv_chat_end(run, mark, out);
}

enum qkv_status qkv_chat_put_escaped(struct chat_run *run, struct chat_value v) {
    struct chat_value text;
    size_t plain = 0;
    enum qkv_status status = qkv_chat_str(run, v, &text);
    if (status || text.safe) return status ? status : qkv_chat_put(run, text.text, text.size);
    for (size_t at = 0; at < text.size && !status; at++) {
        const char c = text.text[at];
        const char *escape = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : NULL;
        if (!escape) continue;
        status = qkv_chat_put(run, text.text + plain, at - plain);
        if (!status) status = qkv_chat_puts(run, escape);
        plain = at + 1;
    }
    return status ? status : qkv_chat_put(run, text.text + plain, text.size - plain);
}
