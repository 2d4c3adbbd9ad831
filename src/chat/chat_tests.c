/* Tests: what stands behind "is". */
#include "chat/chat.h"

#include <string.h>

#define TEST(name)                                                                                                     \
    static enum qkv_status name(struct chat_run *run, struct chat_value self, struct chat_args *args,                  \
                                struct chat_value *out)
/* A test that looks at the value alone. */
#define PLAIN_TEST(name, condition)                                                                                    \
    TEST(name) {                                                                                                       \
        (void)run;                                                                                                     \
        (void)args;                                                                                                    \
        *out = qkv_chat_bool(condition);                                                                               \
        return QKV_OK;                                                                                                 \
    }
PLAIN_TEST(test_defined, self.kind != CHAT_UNDEFINED)
PLAIN_TEST(test_undefined, self.kind == CHAT_UNDEFINED)
PLAIN_TEST(test_none, self.kind == CHAT_NONE)
PLAIN_TEST(test_boolean, self.kind == CHAT_BOOL)
PLAIN_TEST(test_true, self.kind == CHAT_BOOL && self.truth)
PLAIN_TEST(test_false, self.kind == CHAT_BOOL && !self.truth)
PLAIN_TEST(test_integer, self.kind == CHAT_INT)
PLAIN_TEST(test_float, self.kind == CHAT_REAL)
PLAIN_TEST(test_number, qkv_chat_is_number(self))
PLAIN_TEST(test_string, self.kind == CHAT_TEXT)
PLAIN_TEST(test_mapping, self.kind == CHAT_DICT)
PLAIN_TEST(test_escaped, self.kind == CHAT_TEXT && self.safe)
PLAIN_TEST(test_sequence, self.kind == CHAT_TEXT || self.kind == CHAT_DICT || self.kind == CHAT_UNDEFINED ||
                              qkv_chat_is_sequence(self))
PLAIN_TEST(test_iterable, self.kind == CHAT_TEXT || self.kind == CHAT_DICT || self.kind == CHAT_UNDEFINED ||
                              self.kind == CHAT_LOOP || qkv_chat_is_list(self))
PLAIN_TEST(test_callable, self.kind == CHAT_MACRO || self.kind == CHAT_FUNCTION || self.kind == CHAT_METHOD ||
                              self.kind == CHAT_LOOP || self.kind == CHAT_JOINER)
PLAIN_TEST(test_filter, self.kind == CHAT_TEXT && run->calls->filter(self.text, self.size) != NULL)
PLAIN_TEST(test_test, self.kind == CHAT_TEXT && run->calls->test(self.text, self.size) != NULL)

static enum qkv_status test_compare(struct chat_run *run, enum chat_comparison op, struct chat_value a,
                                    struct chat_args *args, struct chat_value *out) {
    bool result;
    enum qkv_status status = qkv_chat_compare(run, op, a, args->p[0], &result);
    *out = qkv_chat_bool(result);
    return status;
}

#define COMPARE_TEST(name, op)                                                                                         \
    TEST(name) {                                                                                                       \
        return test_compare(run, op, self, args, out);                                                                 \
    }
COMPARE_TEST(test_eq, CHAT_EQ)
COMPARE_TEST(test_ne, CHAT_NE)
COMPARE_TEST(test_lt, CHAT_LT)
COMPARE_TEST(test_le, CHAT_LE)
COMPARE_TEST(test_gt, CHAT_GT)
COMPARE_TEST(test_ge, CHAT_GE)
COMPARE_TEST(test_in, CHAT_IN)

/* Whether the rest of a division by `by` is `rest`. */
static enum qkv_status test_rest(struct chat_run *run, struct chat_value self, struct chat_value by, int64_t rest,
                                 struct chat_value *out) {
    struct chat_value left;
    bool equal = false;
    enum qkv_status status = qkv_chat_operate(run, CHAT_MOD, self, by, &left);
    if (!status) status = qkv_chat_equal(run, left, qkv_chat_int(rest), &equal);
    *out = qkv_chat_bool(equal);
    return status;
}

TEST(test_odd) {
    (void)args;
    return test_rest(run, self, qkv_chat_int(2), 1, out);
}

TEST(test_even) {
    (void)args;
    return test_rest(run, self, qkv_chat_int(2), 0, out);
}

TEST(test_divisibleby) {
    return test_rest(run, self, args->p[0], 0, out);
}

TEST(test_sameas) {
    const struct chat_value other = args->p[0];
    bool same = self.kind == other.kind;
    if (same && self.kind <= CHAT_INT) {
        enum qkv_status status = qkv_chat_equal(run, self, other, &same);
        if (status) return status;
    } else if (same) {
        same = self.list == other.list && self.size == other.size;
    }
    *out = qkv_chat_bool(same);
    return QKV_OK;
}

static enum qkv_status test_case(struct chat_run *run, const char *name, struct chat_value self, struct chat_args *args,
                                 struct chat_value *out) {
    enum qkv_status status = qkv_chat_str(run, self, &self);
    return status ? status : qkv_chat_method(self, name, strlen(name))->function(run, self, args, out);
}

TEST(test_lower) {
    return test_case(run, "islower", self, args, out);
}

TEST(test_upper) {
    return test_case(run, "isupper", self, args, out);
}

static const struct chat_row rows[] = {
    {"defined", "", 0, test_defined},    {"undefined", "", 0, test_undefined},
    {"none", "", 0, test_none},          {"string", "", 0, test_string},
    {"mapping", "", 0, test_mapping},    {"iterable", "", 0, test_iterable},
    {"sequence", "", 0, test_sequence},  {"boolean", "", 0, test_boolean},
    {"true", "", 0, test_true},          {"false", "", 0, test_false},
    {"integer", "", 0, test_integer},    {"float", "", 0, test_float},
    {"number", "", 0, test_number},      {"equalto", "other", 1, test_eq},
    {"eq", "other", 1, test_eq},         {"==", "other", 1, test_eq},
    {"ne", "other", 1, test_ne},         {"!=", "other", 1, test_ne},
    {"lt", "other", 1, test_lt},         {"<", "other", 1, test_lt},
    {"lessthan", "other", 1, test_lt},   {"le", "other", 1, test_le},
    {"<=", "other", 1, test_le},         {"gt", "other", 1, test_gt},
    {">", "other", 1, test_gt},          {"greaterthan", "other", 1, test_gt},
    {"ge", "other", 1, test_ge},         {">=", "other", 1, test_ge},
    {"in", "seq", 1, test_in},           {"odd", "", 0, test_odd},
    {"even", "", 0, test_even},          {"divisibleby", "num", 1, test_divisibleby},
    {"sameas", "other", 1, test_sameas}, {"lower", "", 0, test_lower},
    {"upper", "", 0, test_upper},        {"callable", "", 0, test_callable},
    {"escaped", "", 0, test_escaped},    {"filter", "", 0, test_filter},
    {"test", "", 0, test_test},
};

const struct chat_row *qkv_chat_test(const char *name, size_t size) {
    return qkv_chat_find_row(rows, sizeof rows / sizeof *rows, name, size);
}
