/* Operators of Python: sums, products, comparisons, membership. */
#include "chat/chat.h"

#include <math.h>
#include <string.h>

#include "base/math.h"

static const char *const signs[] = {
    [CHAT_ADD] = "+", [CHAT_SUB] = "-",        [CHAT_MUL] = "*",          [CHAT_DIV] = "/",
    [CHAT_MOD] = "%", [CHAT_FLOOR_DIV] = "//", [CHAT_POW] = "** or pow()"};

static enum qkv_status operate_refuse(struct chat_run *run, enum chat_operator op, struct chat_value a,
                                      struct chat_value b) {
    if (a.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, a);
    if (b.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, b);
    if (op == CHAT_ADD && (a.kind == CHAT_TEXT || qkv_chat_is_sequence(a))) {
        if (a.kind == CHAT_TEXT)
            return qkv_chat_fail(run, "can only concatenate str (not \"%s\") to str", qkv_chat_type(b));
        return qkv_chat_fail(run, "can only concatenate %s (not \"%s\") to %s", qkv_chat_type(a), qkv_chat_type(b),
                             qkv_chat_type(a));
    }
    return qkv_chat_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op], qkv_chat_type(a),
                         qkv_chat_type(b));
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static bool operate_power(int64_t base, int64_t exponent, int64_t *out) {
    *out = 1;
    while (exponent) {
        if (exponent & 1 && __builtin_mul_overflow(*out, base, out)) return false;
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return false;
    }
    return true;
}

static enum qkv_status operate_reals(struct chat_run *run, enum chat_operator op, double a, double b,
                                     struct chat_value *out) {
    if (b == 0 && (op == CHAT_DIV || op == CHAT_FLOOR_DIV || op == CHAT_MOD))
        return qkv_chat_fail(run, "%s", op == CHAT_DIV ? "division by zero" : "float floor division or modulo by zero");
    switch (op) {
    case CHAT_ADD:
        *out = qkv_chat_real(a + b);
        return QKV_OK;
    case CHAT_SUB:
        *out = qkv_chat_real(a - b);
        return QKV_OK;
    case CHAT_MUL:
        *out = qkv_chat_real(a * b);
        return QKV_OK;
    case CHAT_DIV:
        *out = qkv_chat_real(a / b);
        return QKV_OK;
    case CHAT_POW:
        if (a == 0 && b < 0) return qkv_chat_fail(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != qkv_floor(b)) return qkv_chat_fail(run, "complex numbers are not supported");
        *out = qkv_chat_real(qkv_pow(a, b));
        return isinf(out->real) && isfinite(a) && isfinite(b)
                   ? qkv_chat_fail(run, "(34, 'Numerical result out of range')")
                   : QKV_OK;
    default:
        break;
    }
    double rest = fmod(a, b), whole;
    if (rest != 0 && (b < 0) != (rest < 0))
        rest += b;
    else if (rest == 0)
        rest = copysign(0, b);
    whole = qkv_floor((a - rest) / b + 0.5);
    *out = qkv_chat_real(op == CHAT_MOD ? rest : whole);
    return QKV_OK;
}

static enum qkv_status operate_integers(struct chat_run *run, enum chat_operator op, int64_t a, int64_t b,
                                        struct chat_value *out) {
    int64_t x = 0;
    bool fits = true;
    if (op == CHAT_DIV || (op == CHAT_POW && b < 0)) return operate_reals(run, op, (double)a, (double)b, out);
    if (b == 0 && (op == CHAT_FLOOR_DIV || op == CHAT_MOD))
        return qkv_chat_fail(run, op == CHAT_MOD ? "integer modulo by zero" : "integer division or modulo by zero");
    switch (op) {
    case CHAT_ADD:
        fits = !__builtin_add_overflow(a, b, &x);
        break;
    case CHAT_SUB:
        fits = !__builtin_sub_overflow(a, b, &x);
        break;
    case CHAT_MUL:
        fits = !__builtin_mul_overflow(a, b, &x);
        break;
    case CHAT_POW:
        fits = operate_power(a, b, &x);
        break;
    case CHAT_FLOOR_DIV:
        fits = !(a == INT64_MIN && b == -1);
        if (fits) x = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    default:
        if (b != -1) x = a % b;
        if (x && (x < 0) != (b < 0)) x += b;
        break;
    }
    *out = qkv_chat_int(x);
    return fits ? QKV_OK : qkv_chat_fail(run, "an integer does not fit in 64 bits");
}

/* ---- texts and lists --------------------------------------------------------------------------------------------- */

static enum qkv_status operate_texts(struct chat_run *run, struct chat_value a, struct chat_value b,
                                     struct chat_value *out) {
    const size_t mark = qkv_chat_begin(run);
    const bool safe = a.safe || b.safe; /* Markup escapes what it is added to */
    enum qkv_status status = safe ? qkv_chat_put_escaped(run, a) : qkv_chat_put(run, a.text, a.size);
    if (!status) status = safe ? qkv_chat_put_escaped(run, b) : qkv_chat_put(run, b.text, b.size);
    if (!status) status = qkv_chat_end(run, mark, out);
    out->safe = safe;
    return status;
}

static enum qkv_status operate_lists(struct chat_run *run, struct chat_value a, struct chat_value b,
                                     struct chat_value *out) {
    struct chat_list *list = qkv_chat_list(run, a.list->count + b.list->count);
    if (!list) return QKV_MEMORY;
    if (a.list->count) memcpy(list->items, a.list->items, a.list->count * sizeof *list->items);
    if (b.list->count) memcpy(list->items + a.list->count, b.list->items, b.list->count * sizeof *list->items);
    *out = (struct chat_value){.kind = a.kind, .list = list};
    return QKV_OK;
}

static enum qkv_status operate_repeat(struct chat_run *run, struct chat_value a, int64_t times,
                                      struct chat_value *out) {
    const size_t n = times > 0 ? (size_t)times : 0;
    size_t all;
    if (a.kind == CHAT_TEXT) {
        const size_t mark = qkv_chat_begin(run);
        enum qkv_status status = qkv_chat_repeat(run, a.text, a.size, n);
        if (!status) status = qkv_chat_end(run, mark, out);
        out->safe = a.safe;
        return status;
    }
    if (!qkv_multiply(a.list->count, n, &all)) return qkv_chat_fail(run, "a list is too large");
    struct chat_list *list = qkv_chat_list(run, all);
    if (!list) return QKV_MEMORY;
    for (size_t i = 0; i < all; i++) list->items[i] = a.list->items[i % a.list->count];
    *out = (struct chat_value){.kind = a.kind, .list = list};
    return QKV_OK;
}

static bool operate_repeats(struct chat_value a, struct chat_value b) {
    return (a.kind == CHAT_TEXT || a.kind == CHAT_LIST || a.kind == CHAT_TUPLE) && qkv_chat_is_integral(b);
}

enum qkv_status qkv_chat_operate(struct chat_run *run, enum chat_operator op, struct chat_value a, struct chat_value b,
                                 struct chat_value *out) {
    if (qkv_chat_is_integral(a) && qkv_chat_is_integral(b))
        return operate_integers(run, op, qkv_chat_integer(a), qkv_chat_integer(b), out);
    if (qkv_chat_is_number(a) && qkv_chat_is_number(b))
        return operate_reals(run, op, qkv_chat_number(a), qkv_chat_number(b), out);
    if (op == CHAT_ADD && a.kind == CHAT_TEXT && b.kind == CHAT_TEXT) return operate_texts(run, a, b, out);
    if (op == CHAT_ADD && a.kind == b.kind && (a.kind == CHAT_LIST || a.kind == CHAT_TUPLE))
        return operate_lists(run, a, b, out);
    if (op == CHAT_MUL && operate_repeats(a, b)) return operate_repeat(run, a, qkv_chat_integer(b), out);
    if (op == CHAT_MUL && operate_repeats(b, a)) return operate_repeat(run, b, qkv_chat_integer(a), out);
    if (op == CHAT_MOD && a.kind == CHAT_TEXT) return qkv_chat_percent(run, a, b, out);
    return operate_refuse(run, op, a, b);
}

enum qkv_status qkv_chat_negate(struct chat_run *run, bool minus, struct chat_value a, struct chat_value *out) {
    if (a.kind == CHAT_REAL) {
        *out = qkv_chat_real(minus ? -a.real : a.real);
        return QKV_OK;
    }
    if (a.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, a);
    if (!qkv_chat_is_integral(a))
        return qkv_chat_fail(run, "bad operand type for unary %c: '%s'", minus ? '-' : '+', qkv_chat_type(a));
    return operate_integers(run, minus ? CHAT_SUB : CHAT_ADD, 0, qkv_chat_integer(a), out);
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chat_contains(struct chat_run *run, struct chat_value all, struct chat_value one, bool *found) {
    struct chat_value *items;
    size_t count;
    *found = false;
    if (all.kind == CHAT_TEXT) {
        if (one.kind == CHAT_UNDEFINED)
            return qkv_chat_fail(run, "'in <string>' requires string as left operand, not Undefined");
        if (one.kind != CHAT_TEXT)
            return qkv_chat_fail(run, "'in <string>' requires string as left operand, not %s", qkv_chat_type(one));
        *found = qkv_chat_search(all.text, all.size, one.text, one.size, 0) <= all.size;
        return qkv_chat_work(run, all.size);
    }
    if (all.kind == CHAT_DICT) {
        struct chat_value *value;
        enum qkv_status status = qkv_chat_find(run, all.dict, one, &value);
        *found = value != NULL;
        return status;
    }
    if (all.kind != CHAT_UNDEFINED && !qkv_chat_is_list(all))
        return qkv_chat_fail(run, "argument of type '%s' is not iterable", qkv_chat_type(all));
    enum qkv_status status = qkv_chat_iterate(run, all, &items, &count);
    if (!status) status = qkv_chat_work(run, 16 * count);
    for (size_t i = 0; i < count && !status && !*found; i++) status = qkv_chat_equal(run, items[i], one, found);
    return status;
}

static enum qkv_status compare_order(struct chat_run *run, enum chat_comparison op, struct chat_value a,
                                     struct chat_value b, bool *out) {
    static const char *const names[] = {[CHAT_LT] = "<", [CHAT_LE] = "<=", [CHAT_GT] = ">", [CHAT_GE] = ">="};
    const bool numbers = qkv_chat_is_number(a) && qkv_chat_is_number(b);
    const bool same = a.kind == b.kind && (a.kind == CHAT_TEXT || a.kind == CHAT_LIST || a.kind == CHAT_TUPLE);
    bool equal = false;
    if (!numbers && !same) {
        if (a.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, a);
        if (b.kind == CHAT_UNDEFINED) return qkv_chat_fail_undefined(run, b);
        return qkv_chat_fail(run, "'%s' not supported between instances of '%s' and '%s'", names[op], qkv_chat_type(a),
                             qkv_chat_type(b));
    }
    const bool up = op == CHAT_LT || op == CHAT_LE;
    enum qkv_status status = up ? qkv_chat_less(run, a, b, out) : qkv_chat_less(run, b, a, out);
    if (!status && (op == CHAT_LE || op == CHAT_GE)) status = qkv_chat_equal(run, a, b, &equal);
    *out = *out || equal;
    return status;
}

enum qkv_status qkv_chat_compare(struct chat_run *run, enum chat_comparison op, struct chat_value a,
                                 struct chat_value b, bool *out) {
    enum qkv_status status;
    if (op == CHAT_EQ || op == CHAT_NE) {
        status = qkv_chat_equal(run, a, b, out);
        *out = *out == (op == CHAT_EQ);
        return status;
    }
    if (op == CHAT_IN || op == CHAT_NOT_IN) {
        status = qkv_chat_contains(run, b, a, out);
        *out = *out == (op == CHAT_IN);
        return status;
    }
    return compare_order(run, op, a, b, out);
}
