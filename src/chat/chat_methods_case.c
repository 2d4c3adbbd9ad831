/* Methods of str: cases, kinds of characters, widths. */
#include "chat/chat.h"

#include <string.h>

#include <utf8proc.h>

#define METHOD(name)                                                                                                   \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

static enum qkv_status text_case(struct chat_run *run, struct chat_value self, enum chat_case form,
                                 struct chat_value *out) {
    const size_t mark = qkv_chat_begin(run);
    enum qkv_status status = qkv_chat_put_case(run, form, self.text, self.size);
    return status ? status : qkv_chat_end(run, mark, out);
}

#define CASE_METHOD(name, form)                                                                                        \
    METHOD(name) {                                                                                                     \
        (void)args;                                                                                                    \
        return text_case(run, self, form, out);                                                                        \
    }
CASE_METHOD(method_upper, CHAT_UPPER)
CASE_METHOD(method_lower, CHAT_LOWER)
CASE_METHOD(method_title, CHAT_TITLE)
CASE_METHOD(method_capitalize, CHAT_CAPITALIZE)
CASE_METHOD(method_swapcase, CHAT_SWAP)
CASE_METHOD(method_casefold, CHAT_FOLD)

/* ---- kinds of characters ----------------------------------------------------------------------------------------- */

static bool is_upper(uint32_t code) {
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_LU || (c == UTF8PROC_CATEGORY_NL && utf8proc_isupper((utf8proc_int32_t)code));
}

static bool is_lower(uint32_t code) {
    return utf8proc_islower((utf8proc_int32_t)code) != 0;
}

static bool is_alpha(uint32_t code) {
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t code) {
    return utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_ND;
}

/* Digits that are no decimals: raised and lowered ones, and those in circles. */
static bool is_digit(uint32_t code) {
    return is_decimal(code) || code == 0xb2 || code == 0xb3 || code == 0xb9 || code == 0x2070 ||
           (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) ||
           (code >= 0x2460 && code <= 0x2468) || (code >= 0x2474 && code <= 0x247c) ||
           (code >= 0x2488 && code <= 0x2490);
}

static bool is_numeric(uint32_t code) {
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

static bool is_alnum(uint32_t code) {
    return is_alpha(code) || is_numeric(code);
}

static bool is_ascii(uint32_t code) {
    return code < 0x80;
}

static enum qkv_status text_all(struct chat_run *run, struct chat_value self, bool (*is)(uint32_t), bool empty,
                                struct chat_value *out) {
    bool all = self.size > 0 || empty;
    for (size_t at = 0; at < self.size && all;) all = is(qkv_chat_character(self.text, self.size, &at));
    *out = qkv_chat_bool(all);
    return qkv_chat_work(run, self.size);
}

#define ALL_METHOD(name, is, empty)                                                                                    \
    METHOD(name) {                                                                                                     \
        (void)args;                                                                                                    \
        return text_all(run, self, is, empty, out);                                                                    \
    }
ALL_METHOD(method_isalpha, is_alpha, false)
ALL_METHOD(method_isalnum, is_alnum, false)
ALL_METHOD(method_isdigit, is_digit, false)
ALL_METHOD(method_isdecimal, is_decimal, false)
ALL_METHOD(method_isnumeric, is_numeric, false)
ALL_METHOD(method_isspace, qkv_chat_is_space, false)
ALL_METHOD(method_isascii, is_ascii, true)
ALL_METHOD(method_isprintable, qkv_chat_is_printable, true)

METHOD(method_isupper) {
    bool any = false, other = false;
    (void)args;
    for (size_t at = 0; at < self.size && !other;) {
        const uint32_t code = qkv_chat_character(self.text, self.size, &at);
        any = any || is_upper(code);
        other = is_lower(code) || utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_LT;
    }
    *out = qkv_chat_bool(any && !other);
    return qkv_chat_work(run, self.size);
}

METHOD(method_islower) {
    bool any = false, other = false;
    (void)args;
    for (size_t at = 0; at < self.size && !other;) {
        const uint32_t code = qkv_chat_character(self.text, self.size, &at);
        any = any || is_lower(code);
        other = is_upper(code) || utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_LT;
    }
    *out = qkv_chat_bool(any && !other);
    return qkv_chat_work(run, self.size);
}

METHOD(method_istitle) {
    bool any = false, right = true, inside = false;
    (void)args;
    for (size_t at = 0; at < self.size && right;) {
        const uint32_t code = qkv_chat_character(self.text, self.size, &at);
        const bool upper = is_upper(code) || utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_LT;
        const bool lower = is_lower(code);
        right = !(upper && inside) && !(lower && !inside);
        any = any || upper || lower;
        inside = upper || lower;
    }
    *out = qkv_chat_bool(any && right);
    return qkv_chat_work(run, self.size);
}

METHOD(method_isidentifier) {
    bool right = self.size > 0;
    (void)args;
    for (size_t at = 0; at < self.size && right;) {
        const bool first = at == 0;
        const uint32_t code = qkv_chat_character(self.text, self.size, &at);
        right = code == '_' || is_alpha(code) || (!first && is_decimal(code));
    }
    *out = qkv_chat_bool(right);
    return qkv_chat_work(run, self.size);
}

/* ---- widths ------------------------------------------------------------------------------------------------------ */

static enum qkv_status text_align(struct chat_run *run, struct chat_value self, struct chat_args *args, char align,
                                  struct chat_value *out) {
    struct chat_value fill = qkv_chat_text(" ", 1);
    int64_t width;
    enum qkv_status status = qkv_chat_int_of(run, args->p[0], 0, &width);
    if (!status && args->p[1].kind != CHAT_MISSING) status = qkv_chat_text_of(run, args->p[1], &fill);
    if (status) return status;
    if (qkv_chat_characters(fill.text, fill.size) != 1)
        return qkv_chat_fail(run, "The fill character must be exactly one character long");
    const int64_t n = (int64_t)qkv_chat_characters(self.text, self.size), gap = width > n ? width - n : 0;
    const int64_t before = align == '>' ? gap : align == '^' ? gap / 2 + (gap & width & 1) : 0;
    const size_t mark = qkv_chat_begin(run);
    status = qkv_chat_repeat(run, fill.text, fill.size, (size_t)before);
    if (!status) status = qkv_chat_put(run, self.text, self.size);
    if (!status) status = qkv_chat_repeat(run, fill.text, fill.size, (size_t)(gap - before));
    return status ? status : qkv_chat_end(run, mark, out);
}

METHOD(method_center) {
    return text_align(run, self, args, '^', out);
}

METHOD(method_ljust) {
    return text_align(run, self, args, '<', out);
}

METHOD(method_rjust) {
    return text_align(run, self, args, '>', out);
}

METHOD(method_zfill) {
    int64_t width;
    const size_t sign = self.size && (*self.text == '-' || *self.text == '+'), mark = qkv_chat_begin(run);
    enum qkv_status status = qkv_chat_int_of(run, args->p[0], 0, &width);
    const int64_t n = (int64_t)qkv_chat_characters(self.text, self.size);
    if (!status) status = qkv_chat_put(run, self.text, sign);
    if (!status) status = qkv_chat_repeat(run, "0", 1, width > n ? (size_t)(width - n) : 0);
    if (!status) status = qkv_chat_put(run, self.text + sign, self.size - sign);
    return status ? status : qkv_chat_end(run, mark, out);
}

METHOD(method_expandtabs) {
    int64_t width;
    const size_t mark = qkv_chat_begin(run);
    size_t column = 0;
    enum qkv_status status = qkv_chat_int_of(run, args->p[0], 8, &width);
    for (size_t at = 0, begin; at < self.size && !status;) {
        begin = at;
        const uint32_t code = qkv_chat_character(self.text, self.size, &at);
        if (code == '\t') {
            const size_t gap = width > 0 ? (size_t)width - column % (size_t)width : 0;
            status = qkv_chat_repeat(run, " ", 1, gap);
            column += gap;
            continue;
        }
        status = qkv_chat_put(run, self.text + begin, at - begin);
        column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
    return status ? status : qkv_chat_end(run, mark, out);
}

static const struct chat_row rows[] = {
    {"upper", "", 0, method_upper},
    {"lower", "", 0, method_lower},
    {"title", "", 0, method_title},
    {"capitalize", "", 0, method_capitalize},
    {"swapcase", "", 0, method_swapcase},
    {"casefold", "", 0, method_casefold},
    {"isalpha", "", 0, method_isalpha},
    {"isalnum", "", 0, method_isalnum},
    {"isdigit", "", 0, method_isdigit},
    {"isdecimal", "", 0, method_isdecimal},
    {"isnumeric", "", 0, method_isnumeric},
    {"isspace", "", 0, method_isspace},
    {"isascii", "", 0, method_isascii},
    {"isprintable", "", 0, method_isprintable},
    {"isupper", "", 0, method_isupper},
    {"islower", "", 0, method_islower},
    {"istitle", "", 0, method_istitle},
    {"isidentifier", "", 0, method_isidentifier},
    {"center", "width fillchar", 1, method_center},
    {"ljust", "width fillchar", 1, method_ljust},
    {"rjust", "width fillchar", 1, method_rjust},
    {"zfill", "width", 1, method_zfill},
    {"expandtabs", "tabsize", 0, method_expandtabs},
};

const struct chat_row *qkv_chat_text_case_method(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}
