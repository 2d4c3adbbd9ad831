/* Filters of numbers, defaults and JSON texts; and the list of all filters. */
#include "chat/chat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_load.h"
#include "base/math.h"

#define FILTER(name)                                                                                                   \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)

FILTER(filter_default) {
    const bool falsy = args->p[1].kind != CHAT_MISSING && qkv_chat_truth(args->p[1]);
    (void)run;
    *out = self;
    if (self.kind == CHAT_UNDEFINED || (falsy && !qkv_chat_truth(self)))
        *out = args->p[0].kind == CHAT_MISSING ? qkv_chat_text("", 0) : args->p[0];
    return QKV_OK;
}

FILTER(filter_abs) {
    (void)args;
    if (self.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, self);
    if (!qkv_chat_is_number(self)) return qkv_chat_fail(run, "bad operand type for abs(): '%s'", qkv_chat_type(self));
    *out = self.kind == CHAT_BOOL ? qkv_chat_int(self.truth) : self;
    if (self.kind == CHAT_REAL) out->real = fabs(self.real);
    return self.kind == CHAT_INT && self.integer < 0 ? qkv_chat_negate(run, true, self, out) : QKV_OK;
}

/* Copies a number's text without white space around it and underscores between digits; false: it is too long. */
static bool number_text(struct chat_value v, char text[400]) {
    size_t begin = qkv_chat_space_before(v.text, v.size), n = 0;
    const size_t end = v.size - qkv_chat_space_after(v.text + begin, v.size - begin);
    if (end - begin >= 400) return false;
    for (; begin < end; begin++) {
        const char c = v.text[begin];
        const bool between = c == '_' && n && begin + 1 < end && v.text[begin + 1] != '_' && text[n - 1] != '_';
        if (!between) text[n++] = c;
    }
    text[n] = 0;
    return n > 0;
}

static bool number_integer(struct chat_value v, int64_t base, int64_t *out) {
    char text[400];
    const char *at = text;
    *out = 0;
    if (!number_text(v, text)) return false;
    const bool minus = *at == '-';
    at += *at == '-' || *at == '+';
    if (*at == '0' && ((base == 16 && (at[1] | 32) == 'x') || (base == 8 && (at[1] | 32) == 'o') ||
                       (base == 2 && (at[1] | 32) == 'b')))
        at += 2;
    if (!*at) return false;
    for (; *at; at++) {
        const int digit = *at >= '0' && *at <= '9'                 ? *at - '0'
                          : (*at | 32) >= 'a' && (*at | 32) <= 'z' ? (*at | 32) - 'a' + 10
                                                                   : 99;
        if (digit >= base || __builtin_mul_overflow(*out, base, out) ||
            __builtin_sub_overflow(*out, (int64_t)digit, out))
            return false;
    }
    if (!minus && *out == INT64_MIN) return false;
    if (!minus) *out = -*out;
    return true;
}

static bool number_real(struct chat_value v, double *out) {
    char text[400];
    if (!number_text(v, text)) return false;
    const char *at = text + (*text == '-' || *text == '+');
    for (char *c = text; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
    const bool infinite = !strcmp(at, "inf") || !strcmp(at, "infinity");
    if (infinite || !strcmp(at, "nan")) {
        *out = infinite ? *text == '-' ? -INFINITY : INFINITY : NAN;
        return true;
    }
    return !text[strspn(text, "+-.0123456789e")] && qkv_real_parse(*text == '+' ? text + 1 : text, out);
}

FILTER(filter_int) {
    int64_t base, whole;
    double real = 0;
    enum qkv_status status = qkv_chat_int_of(run, args->p[1], 10, &base);
    if (status) return status;
    if (self.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, self);
    *out = args->p[0].kind == CHAT_MISSING ? qkv_chat_int(0) : args->p[0];
    if (qkv_chat_is_integral(self)) {
        *out = qkv_chat_int(qkv_chat_integer(self));
        return QKV_OK;
    }
    if (self.kind == CHAT_TEXT && number_integer(self, base, &whole)) {
        *out = qkv_chat_int(whole);
        return QKV_OK;
    }
    if (self.kind == CHAT_REAL)
        real = self.real;
    else if (self.kind != CHAT_TEXT || !number_real(self, &real))
        return QKV_OK;
    if (!isfinite(real)) return QKV_OK;
    if (!(fabs(real) < 9.2e18)) return qkv_chat_fail(run, "an integer does not fit in 64 bits");
    *out = qkv_chat_int((int64_t)real);
    return QKV_OK;
}

FILTER(filter_float) {
    double real;
    if (self.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, self);
    *out = args->p[0].kind == CHAT_MISSING ? qkv_chat_real(0) : args->p[0];
    if (qkv_chat_is_number(self))
        *out = qkv_chat_real(qkv_chat_number(self));
    else if (self.kind == CHAT_TEXT && number_real(self, &real))
        *out = qkv_chat_real(real);
    return QKV_OK;
}

FILTER(filter_round) {
    char text[400];
    int64_t precision;
    const struct chat_value method = args->p[1];
    const bool ceil = qkv_chat_text_is(method, "ceil"), floor = qkv_chat_text_is(method, "floor");
    enum qkv_status status = qkv_chat_int_of(run, args->p[0], 0, &precision);
    if (status) return status;
    if (method.kind != CHAT_MISSING && !ceil && !floor && !qkv_chat_text_is(method, "common"))
        return qkv_chat_fail(run, "method must be common, ceil or floor");
    if (self.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, self);
    if (!qkv_chat_is_number(self))
        return qkv_chat_fail(run, "type %s doesn't define __round__ method", qkv_chat_type(self));
    if (precision > 300 || precision < -300) return qkv_chat_fail(run, "the precision of round is out of range");
    const double x = qkv_chat_number(self), scale = qkv_pow(10, fabs((double)precision));
    if (ceil || floor) {
        const double large = precision < 0 ? x / scale : x * scale, whole = ceil ? qkv_ceil(large) : qkv_floor(large);
        *out = qkv_chat_real(precision < 0 ? whole * scale : whole / scale);
        return QKV_OK;
    }
    *out = self.kind == CHAT_BOOL ? qkv_chat_int(self.truth) : self;
    if (precision < 0) {
        const double whole = qkv_rint(x / scale) * scale;
        *out = self.kind == CHAT_REAL ? qkv_chat_real(whole) : qkv_chat_int((int64_t)whole);
    } else if (self.kind == CHAT_REAL && isfinite(x) && fabs(x) < 1e22) {
        snprintf(text, sizeof text, "%.*f", (int)precision, x); /* rounds the exact number, halves to even */
        *out = qkv_chat_real(strtod(text, NULL));
    }
    return QKV_OK;
}

FILTER(filter_attr) {
    const struct chat_value name = args->p[0];
    if (name.kind != CHAT_TEXT) return qkv_chat_undefined(run, self, name, out);
    if (self.kind == CHAT_DICT && !qkv_chat_method(self, name.text, name.size) &&
        !qkv_chat_changes(self, name.text, name.size)) /* a key is no attribute */
        return qkv_chat_undefined(run, self, name, out);
    return qkv_chat_attribute(run, self, name, out);
}

/* json.loads. The values are copied: the parsed text ends with this call. */
static enum qkv_status number_copy_texts(struct chat_run *run, struct chat_value *v) {
    enum qkv_status status = QKV_OK;
    if (v->kind == CHAT_TEXT) {
        v->text = qkv_chat_copy(&run->pool, v->text, v->size);
        return v->text ? QKV_OK : QKV_MEMORY;
    }
    for (size_t i = 0; v->kind == CHAT_LIST && i < v->list->count && !status; i++)
        status = number_copy_texts(run, &v->list->items[i]);
    for (size_t i = 0; v->kind == CHAT_DICT && i < v->dict->count && !status; i++) {
        status = number_copy_texts(run, &v->dict->entries[i].key);
        if (!status) status = number_copy_texts(run, &v->dict->entries[i].value);
    }
    return status;
}

FILTER(filter_from_json) {
    struct chat_value text;
    (void)args;
    enum qkv_status status = qkv_chat_text_of(run, self, &text);
    if (status) return status;
    const size_t first = qkv_chat_space_before(text.text, text.size);
    char *copy = qkv_chat_take(&run->pool, (size_t)text.size + 1, 1);
    if (!copy) return QKV_MEMORY;
    memcpy(copy, text.text, text.size);
    json_t *root = NULL;
    if (first < text.size && (copy[first] == '{' || copy[first] == '[')) { /* the reader has a limit of depth */
        const struct qkv_json_text json = {.name = "from_json", .data = copy, .size = text.size, .max_size = SIZE_MAX};
        if (qkv_json_load(NULL, &json, &root)) root = NULL;
    } else if (strlen(copy) == text.size) {
        root = qkv_json_value(copy);
    }
    if (!root) return qkv_chat_fail(run, "from_json: the text is not valid JSON");
    status = qkv_chat_from_json(run, root, out);
    if (!status) status = number_copy_texts(run, out);
    json_decref(root);
    return status;
}

static const struct chat_row rows[] = {
    {"default", "default_value boolean", 0, filter_default},
    {"d", "default_value boolean", 0, filter_default},
    {"abs", "", 0, filter_abs},
    {"int", "default base", 0, filter_int},
    {"float", "default", 0, filter_float},
    {"round", "precision method", 0, filter_round},
    {"attr", "name", 1, filter_attr},
    {"from_json", "", 0, filter_from_json},
};

const struct chat_row *qkv_chat_number_filter(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}

const struct chat_row *qkv_chat_filter(const char *name, size_t size) {
    const struct chat_row *row = qkv_chat_text_filter(name, size);
    if (!row) row = qkv_chat_list_filter(name, size);
    if (!row) row = qkv_chat_order_filter(name, size);
    return row ? row : qkv_chat_number_filter(name, size);
}
