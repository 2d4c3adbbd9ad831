/* The parser of expressions, with the precedence of jinja2's: choice, or, and, not, comparison, sums, ~, products,
 * powers, signs, and then attributes, calls, filters and tests. */
#include "chat/chat_nodes.h"

#include <string.h>

static enum qkv_status parse_enter(struct chat_parser *p) {
    if (p->depth >= CHAT_DEPTH)
        return qkv_chat_parse_fail(p, qkv_chat_token(p)->line, "expressions are nested too deeply");
    p->depth++;
    return QKV_OK;
}

/* A new node over `a`, or NULL. */
static struct chat_node *parse_over(struct chat_parser *p, enum chat_node_kind kind, int line, struct chat_node *a) {
    struct chat_node *node = qkv_chat_node(p, kind, line);
    if (node) node->a = a;
    return node;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static enum qkv_status parse_argument(struct chat_parser *p, unsigned *seen, struct chat_node **out) {
    enum { KEYWORD = 1, STAR = 2, STARS = 4 };
    const struct chat_token *token = qkv_chat_token(p);
    enum chat_node_kind kind = CHAT_NODE_NONE;
    uint8_t op = 0;
    bool right = true;
    if (qkv_chat_skip_sign(p, "*")) {
        right = !(*seen & (STAR | STARS));
        kind = CHAT_STAR, op = 1, *seen |= STAR;
    } else if (qkv_chat_skip_sign(p, "**")) {
        right = !(*seen & STARS);
        kind = CHAT_STAR, op = 2, *seen |= STARS;
    } else if (token->kind == CHAT_TOKEN_NAME && token[1].kind == CHAT_TOKEN_SIGN &&
               qkv_chat_text_is(token[1].value, "=")) {
        right = !(*seen & STARS);
        kind = CHAT_KEYWORD, *seen |= KEYWORD;
        p->at += 2;
    } else {
        right = !*seen;
    }
    if (!right) return qkv_chat_parse_fail(p, token->line, "invalid syntax for function call expression");
    enum qkv_status status = qkv_chat_parse_expression(p, out);
    if (status || kind == CHAT_NODE_NONE) return status;
    struct chat_node *node = parse_over(p, kind, token->line, *out);
    if (!node) return QKV_MEMORY;
    node->op = op;
    node->value = token->value;
    *out = node;
    return QKV_OK;
}

static enum qkv_status parse_arguments(struct chat_parser *p, struct chat_node *call) {
    struct chat_node_list list = {0};
    unsigned seen = 0;
    enum qkv_status status = qkv_chat_expect_sign(p, "(");
    while (!status && !qkv_chat_sign_is(p, ")")) {
        struct chat_node *one;
        if (list.first) {
            status = qkv_chat_expect_sign(p, ",");
            if (status || qkv_chat_sign_is(p, ")")) break;
        }
        status = parse_argument(p, &seen, &one);
        if (!status) qkv_chat_append(&list, one);
    }
    call->list = list.first;
    return status ? status : qkv_chat_expect_sign(p, ")");
}

static enum qkv_status parse_call(struct chat_parser *p, struct chat_node **node) {
    struct chat_node *call = parse_over(p, CHAT_CALL, qkv_chat_token(p)->line, *node);
    if (!call) return QKV_MEMORY;
    *node = call;
    return parse_arguments(p, call);
}

/* The name of a filter or test, with its dots, and its row. */
static enum qkv_status parse_row(struct chat_parser *p, const struct chat_row *(*find)(const char *, size_t),
                                 struct chat_node *node) {
    struct chat_value part;
    enum qkv_status status = qkv_chat_expect_name(p, &node->value);
    while (!status && qkv_chat_skip_sign(p, ".")) {
        status = qkv_chat_expect_name(p, &part);
        if (!status) node->value.size = (uint32_t)(part.text + part.size - node->value.text);
    }
    if (status) return status;
    node->row = find(node->value.text, node->value.size);
    if (!node->row && !p->conditions && !p->unknown) p->unknown = node;
    return QKV_OK;
}

enum qkv_status qkv_chat_parse_filters(struct chat_parser *p, struct chat_node *a, bool begun, struct chat_node **out) {
    enum qkv_status status = QKV_OK;
    *out = a;
    while (!status && (begun || qkv_chat_skip_sign(p, "|"))) {
        struct chat_node *node = parse_over(p, CHAT_FILTER, qkv_chat_token(p)->line, *out);
        if (!node) return QKV_MEMORY;
        status = parse_row(p, qkv_chat_filter, node);
        if (!status && qkv_chat_sign_is(p, "(")) status = parse_arguments(p, node);
        *out = node;
        begun = false;
    }
    return status;
}

/* ---- what stands behind a value ---------------------------------------------------------------------------------- */

static enum qkv_status parse_slice(struct chat_parser *p, struct chat_node *first, struct chat_node **out) {
    struct chat_node *slice = parse_over(p, CHAT_SLICE, qkv_chat_token(p)->line, first);
    enum qkv_status status = slice ? qkv_chat_expect_sign(p, ":") : QKV_MEMORY;
    if (status) return status;
    *out = slice;
    if (!qkv_chat_sign_is(p, ":") && !qkv_chat_sign_is(p, "]") && !qkv_chat_sign_is(p, ","))
        status = qkv_chat_parse_expression(p, &slice->b);
    if (!status && qkv_chat_skip_sign(p, ":") && !qkv_chat_sign_is(p, "]") && !qkv_chat_sign_is(p, ","))
        status = qkv_chat_parse_expression(p, &slice->c);
    return status;
}

static enum qkv_status parse_index(struct chat_parser *p, struct chat_node *node) {
    const int line = qkv_chat_token(p)->line;
    struct chat_node_list list = {0};
    enum qkv_status status = QKV_OK;
    node->kind = CHAT_INDEX;
    while (!status && !qkv_chat_sign_is(p, "]")) {
        struct chat_node *one = NULL;
        if (list.first) status = qkv_chat_expect_sign(p, ",");
        if (!status && !qkv_chat_sign_is(p, ":")) status = qkv_chat_parse_expression(p, &one);
        if (!status && qkv_chat_sign_is(p, ":")) status = parse_slice(p, one, &one);
        if (!status) qkv_chat_append(&list, one);
    }
    if (!status) status = qkv_chat_expect_sign(p, "]");
    if (status) return status;
    node->b = list.first;
    if (list.first && list.first == list.last) return QKV_OK;
    node->b = qkv_chat_node(p, CHAT_MAKE_TUPLE, line);
    if (!node->b) return QKV_MEMORY;
    node->b->list = list.first;
    return QKV_OK;
}

static enum qkv_status parse_subscript(struct chat_parser *p, struct chat_node **out) {
    struct chat_node *node = parse_over(p, CHAT_MEMBER, qkv_chat_token(p)->line, *out);
    if (!node) return QKV_MEMORY;
    *out = node;
    if (qkv_chat_skip_sign(p, "[")) return parse_index(p, node);
    p->at++; /* the dot */
    const struct chat_token *token = qkv_chat_token(p);
    p->at++;
    node->value = token->value;
    if (token->kind == CHAT_TOKEN_NAME) {
        if (qkv_chat_text_is(token->value, "text")) p->program->reads_parts = true;
        return QKV_OK;
    }
    if (token->kind != CHAT_TOKEN_VALUE || token->value.kind != CHAT_INT) {
        p->at--;
        return qkv_chat_parse_expected(p, "name or number");
    }
    node->kind = CHAT_INDEX;
    node->b = qkv_chat_node(p, CHAT_CONSTANT, token->line);
    if (!node->b) return QKV_MEMORY;
    node->b->value = token->value;
    return QKV_OK;
}

static enum qkv_status parse_postfix(struct chat_parser *p, struct chat_node **node) {
    enum qkv_status status = QKV_OK;
    while (!status) {
        if (qkv_chat_sign_is(p, ".") || qkv_chat_sign_is(p, "["))
            status = parse_subscript(p, node);
        else if (qkv_chat_sign_is(p, "("))
            status = parse_call(p, node);
        else
            break;
    }
    return status;
}

static enum qkv_status parse_primary(struct chat_parser *p, bool names, struct chat_node **out);

static enum qkv_status parse_test(struct chat_parser *p, struct chat_node **node) {
    const int line = qkv_chat_token(p)->line;
    struct chat_node *test = parse_over(p, CHAT_TEST, line, *node);
    if (!test) return QKV_MEMORY;
    const bool negated = qkv_chat_skip_word(p, "not");
    enum qkv_status status = parse_row(p, qkv_chat_test, test);
    if (status) return status;
    const struct chat_token *token = qkv_chat_token(p);
    if (qkv_chat_sign_is(p, "(")) {
        status = parse_arguments(p, test);
    } else if ((token->kind == CHAT_TOKEN_NAME && !qkv_chat_word_is(p, "else") && !qkv_chat_word_is(p, "or") &&
                !qkv_chat_word_is(p, "and")) ||
               token->kind == CHAT_TOKEN_VALUE || qkv_chat_sign_is(p, "[") || qkv_chat_sign_is(p, "{")) {
        if (qkv_chat_word_is(p, "is"))
            return qkv_chat_parse_fail(p, token->line, "You cannot chain multiple tests with is");
        status = parse_primary(p, false, &test->list);
        if (!status) status = parse_postfix(p, &test->list);
    }
    *node = test;
    if (!negated || status) return status;
    *node = parse_over(p, CHAT_UNARY, line, test);
    if (!*node) return QKV_MEMORY;
    (*node)->op = '!';
    return QKV_OK;
}

static enum qkv_status parse_filters_and_tests(struct chat_parser *p, struct chat_node **node) {
    enum qkv_status status = QKV_OK;
    while (!status) {
        if (qkv_chat_sign_is(p, "|"))
            status = qkv_chat_parse_filters(p, *node, false, node);
        else if (qkv_chat_skip_word(p, "is"))
            status = parse_test(p, node);
        else if (qkv_chat_sign_is(p, "("))
            status = parse_call(p, node);
        else
            break;
    }
    return status;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static enum qkv_status parse_name(struct chat_parser *p, bool names, struct chat_node *node) {
    const struct chat_value name = qkv_chat_token(p)->value;
    p->at++;
    if (qkv_chat_text_is(name, "true") || qkv_chat_text_is(name, "True")) {
        node->value = qkv_chat_bool(true);
    } else if (qkv_chat_text_is(name, "false") || qkv_chat_text_is(name, "False")) {
        node->value = qkv_chat_bool(false);
    } else if (qkv_chat_text_is(name, "none") || qkv_chat_text_is(name, "None")) {
        node->value = qkv_chat_none();
    } else {
        node->kind = CHAT_NAME;
        enum qkv_status status = qkv_chat_intern(p, name, &node->name);
        const struct chat_program *program = p->program;
        const int number = node->name;
        p->uses |= number == program->caller     ? CHAT_USES_CALLER
                   : number == program->keywords ? CHAT_USES_KEYWORDS
                   : number == program->rest     ? CHAT_USES_REST
                   : number == program->loop     ? CHAT_USES_LOOP
                                                 : 0;
        if (status || !names || !qkv_chat_skip_sign(p, ".")) return status;
        node->kind = CHAT_MEMBER;
        node->a = qkv_chat_node(p, CHAT_NAME, node->line);
        if (!node->a) return QKV_MEMORY;
        node->a->name = node->name;
        return qkv_chat_expect_name(p, &node->value);
    }
    return QKV_OK;
}

/* Adjacent strings are one. */
static enum qkv_status parse_constant(struct chat_parser *p, struct chat_node *node) {
    node->value = qkv_chat_token(p)->value;
    p->at++;
    while (node->value.kind == CHAT_TEXT && qkv_chat_token(p)->kind == CHAT_TOKEN_VALUE &&
           qkv_chat_token(p)->value.kind == CHAT_TEXT) {
        const struct chat_value more = qkv_chat_token(p)->value;
        char *both = qkv_chat_take(&p->program->pool, (size_t)node->value.size + more.size, 1);
        if (!both) return QKV_MEMORY;
        memcpy(both, node->value.text, node->value.size);
        memcpy(both + node->value.size, more.text, more.size);
        node->value = qkv_chat_text(both, (size_t)node->value.size + more.size);
        p->at++;
    }
    if (qkv_chat_text_is(node->value, "text")) p->program->reads_parts = true;
    return QKV_OK;
}

/* The items of a list or a dict to the sign `end`. */
static enum qkv_status parse_items(struct chat_parser *p, const char *end, struct chat_node *node) {
    struct chat_node_list list = {0};
    enum qkv_status status = QKV_OK;
    while (!status && !qkv_chat_sign_is(p, end)) {
        struct chat_node *one;
        if (list.first) {
            status = qkv_chat_expect_sign(p, ",");
            if (status || qkv_chat_sign_is(p, end)) break;
        }
        status = qkv_chat_parse_expression(p, &one);
        if (!status) qkv_chat_append(&list, one);
        if (status || node->kind == CHAT_MAKE_LIST) continue;
        status = qkv_chat_expect_sign(p, ":");
        if (!status) status = qkv_chat_parse_expression(p, &one);
        if (!status) qkv_chat_append(&list, one);
    }
    node->list = list.first;
    return status ? status : qkv_chat_expect_sign(p, end);
}

static enum qkv_status parse_parentheses(struct chat_parser *p, struct chat_node **out) {
    if (qkv_chat_sign_is(p, ")")) {
        *out = qkv_chat_node(p, CHAT_MAKE_TUPLE, qkv_chat_token(p)->line);
        if (!*out) return QKV_MEMORY;
    } else {
        enum qkv_status status = qkv_chat_parse_tuple(p, true, out);
        if (status) return status;
    }
    return qkv_chat_expect_sign(p, ")");
}

static enum qkv_status parse_primary(struct chat_parser *p, bool names, struct chat_node **out) {
    const struct chat_token *token = qkv_chat_token(p);
    struct chat_node *node = qkv_chat_node(p, CHAT_CONSTANT, token->line);
    if (!node) return QKV_MEMORY;
    *out = node;
    if (token->kind == CHAT_TOKEN_NAME) return parse_name(p, names, node);
    if (token->kind == CHAT_TOKEN_VALUE) return parse_constant(p, node);
    if (qkv_chat_skip_sign(p, "(")) return parse_parentheses(p, out);
    if (qkv_chat_skip_sign(p, "[")) {
        node->kind = CHAT_MAKE_LIST;
        return parse_items(p, "]", node);
    }
    if (qkv_chat_skip_sign(p, "{")) {
        node->kind = CHAT_MAKE_DICT;
        return parse_items(p, "}", node);
    }
    if (token->kind == CHAT_TOKEN_PRINT_END || token->kind == CHAT_TOKEN_BLOCK_END)
        return qkv_chat_parse_expected(p, "an expression");
    return qkv_chat_parse_expected(p, NULL);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

enum qkv_status qkv_chat_parse_unary(struct chat_parser *p, bool filters, struct chat_node **out) {
    const int line = qkv_chat_token(p)->line;
    enum qkv_status status = parse_enter(p);
    if (status) return status;
    const bool minus = qkv_chat_skip_sign(p, "-"), sign = minus || qkv_chat_skip_sign(p, "+");
    if (sign) {
        struct chat_node *inner;
        status = qkv_chat_parse_unary(p, false, &inner);
        *out = status ? NULL : parse_over(p, CHAT_UNARY, line, inner);
        if (!status && !*out) status = QKV_MEMORY;
        if (!status) (*out)->op = minus ? '-' : '+';
    } else {
        status = parse_primary(p, false, out);
    }
    if (!status) status = parse_postfix(p, out);
    if (!status && filters) status = parse_filters_and_tests(p, out);
    p->depth--;
    return status;
}

/* A chain of operators of one precedence, from left to right. */
struct parse_level {
    const char *signs[5];
    uint8_t ops[4];
};

static enum qkv_status parse_binary(struct chat_parser *p, const struct parse_level *level,
                                    enum qkv_status (*operand)(struct chat_parser *, struct chat_node **),
                                    struct chat_node **out) {
    enum qkv_status status = operand(p, out);
    for (size_t i = 0; level->signs[i] && !status; i++) {
        const int line = qkv_chat_token(p)->line;
        if (!qkv_chat_skip_sign(p, level->signs[i])) continue;
        struct chat_node *node = parse_over(p, CHAT_BINARY, line, *out);
        if (!node) return QKV_MEMORY;
        node->op = level->ops[i];
        *out = node;
        status = operand(p, &node->b);
        i = SIZE_MAX; /* from the first sign again */
    }
    return status;
}

static enum qkv_status parse_operand(struct chat_parser *p, struct chat_node **out) {
    return qkv_chat_parse_unary(p, true, out);
}

static enum qkv_status parse_power(struct chat_parser *p, struct chat_node **out) {
    static const struct parse_level powers = {{"**"}, {CHAT_POW}};
    return parse_binary(p, &powers, parse_operand, out);
}

static enum qkv_status parse_product(struct chat_parser *p, struct chat_node **out) {
    static const struct parse_level products = {{"*", "//", "/", "%"}, {CHAT_MUL, CHAT_FLOOR_DIV, CHAT_DIV, CHAT_MOD}};
    return parse_binary(p, &products, parse_power, out);
}

static enum qkv_status parse_concat(struct chat_parser *p, struct chat_node **out) {
    const int line = qkv_chat_token(p)->line;
    struct chat_node_list list = {0};
    enum qkv_status status = parse_product(p, out);
    if (status || !qkv_chat_sign_is(p, "~")) return status;
    qkv_chat_append(&list, *out);
    while (!status && qkv_chat_skip_sign(p, "~")) {
        status = parse_product(p, out);
        if (!status) qkv_chat_append(&list, *out);
    }
    *out = qkv_chat_node(p, CHAT_CONCAT, line);
    if (!*out) return QKV_MEMORY;
    (*out)->list = list.first;
    return status;
}

static enum qkv_status parse_sum(struct chat_parser *p, struct chat_node **out) {
    static const struct parse_level sums = {{"+", "-"}, {CHAT_ADD, CHAT_SUB}};
    return parse_binary(p, &sums, parse_concat, out);
}

static bool parse_comparison_sign(struct chat_parser *p, uint8_t *op) {
    static const char *const signs[] = {
        [CHAT_EQ] = "==", [CHAT_NE] = "!=", [CHAT_LT] = "<", [CHAT_LE] = "<=", [CHAT_GT] = ">", [CHAT_GE] = ">="};
    for (uint8_t i = CHAT_EQ; i <= CHAT_GE; i++) {
        *op = i;
        if (qkv_chat_skip_sign(p, signs[i])) return true;
    }
    *op = CHAT_IN;
    if (qkv_chat_skip_word(p, "in")) return true;
    const struct chat_token *next = qkv_chat_token(p) + 1;
    *op = CHAT_NOT_IN;
    if (!qkv_chat_word_is(p, "not") || next->kind != CHAT_TOKEN_NAME || !qkv_chat_text_is(next->value, "in"))
        return false;
    p->at += 2;
    return true;
}

static enum qkv_status parse_comparison(struct chat_parser *p, struct chat_node **out) {
    struct chat_node_list list = {0};
    uint8_t op;
    enum qkv_status status = parse_sum(p, out);
    for (int line = qkv_chat_token(p)->line; !status && parse_comparison_sign(p, &op);) {
        struct chat_node *one = qkv_chat_node(p, CHAT_COMPARE, line);
        if (!one) return QKV_MEMORY;
        one->op = op;
        qkv_chat_append(&list, one);
        status = parse_sum(p, &one->a);
    }
    if (status || !list.first) return status;
    *out = parse_over(p, CHAT_CHAIN, list.first->line, *out);
    if (!*out) return QKV_MEMORY;
    (*out)->list = list.first;
    return QKV_OK;
}

static enum qkv_status parse_not(struct chat_parser *p, struct chat_node **out) {
    const int line = qkv_chat_token(p)->line;
    size_t times = 0;
    while (qkv_chat_skip_word(p, "not")) times++;
    enum qkv_status status = parse_comparison(p, out);
    for (size_t i = 0; i < qkv_min(times, 2 - times % 2) && !status; i++) { /* two of them are bool() */
        *out = parse_over(p, CHAT_UNARY, line, *out);
        if (!*out) return QKV_MEMORY;
        (*out)->op = '!';
    }
    return status;
}

/* Operands between one word, as a list. */
static enum qkv_status parse_words(struct chat_parser *p, const char *word, enum chat_node_kind kind,
                                   enum qkv_status (*operand)(struct chat_parser *, struct chat_node **),
                                   struct chat_node **out) {
    const int line = qkv_chat_token(p)->line;
    struct chat_node_list list = {0};
    enum qkv_status status = operand(p, out);
    if (status || !qkv_chat_word_is(p, word)) return status;
    qkv_chat_append(&list, *out);
    while (!status && qkv_chat_skip_word(p, word)) {
        status = operand(p, out);
        if (!status) qkv_chat_append(&list, *out);
    }
    *out = qkv_chat_node(p, kind, line);
    if (!*out) return QKV_MEMORY;
    (*out)->list = list.first;
    return status;
}

static enum qkv_status parse_and(struct chat_parser *p, struct chat_node **out) {
    return parse_words(p, "and", CHAT_AND, parse_not, out);
}

static enum qkv_status parse_or(struct chat_parser *p, struct chat_node **out) {
    return parse_words(p, "or", CHAT_OR, parse_and, out);
}

static enum qkv_status parse_choice(struct chat_parser *p, struct chat_node **out) {
    const struct chat_node *unknown = p->unknown;
    enum qkv_status status = parse_or(p, out);
    if (status || !qkv_chat_word_is(p, "if")) return status;
    p->unknown = unknown; /* what was read is part of a choice */
    p->conditions++;
    while (!status && qkv_chat_word_is(p, "if")) {
        struct chat_node *node = qkv_chat_node(p, CHAT_CHOICE, qkv_chat_token(p)->line);
        if (!node) return QKV_MEMORY;
        p->at++;
        node->b = *out;
        *out = node;
        status = parse_or(p, &node->a);
        if (!status && qkv_chat_skip_word(p, "else")) status = qkv_chat_parse_expression(p, &node->c);
    }
    p->conditions--;
    return status;
}

enum qkv_status qkv_chat_parse_expression(struct chat_parser *p, struct chat_node **out) {
    *out = NULL;
    enum qkv_status status = parse_enter(p);
    if (status) return status;
    status = parse_choice(p, out);
    p->depth--;
    return status;
}

/* ---- tuples ------------------------------------------------------------------------------------------------------ */

static enum qkv_status parse_tuple(struct chat_parser *p,
                                   enum qkv_status (*item)(struct chat_parser *, struct chat_node **),
                                   struct chat_node **out) {
    const int line = qkv_chat_token(p)->line;
    struct chat_node_list list = {0};
    enum qkv_status status = item(p, out);
    if (status || !qkv_chat_sign_is(p, ",")) return status;
    qkv_chat_append(&list, *out);
    while (!status && qkv_chat_skip_sign(p, ",")) {
        const uint8_t kind = qkv_chat_token(p)->kind;
        if (kind == CHAT_TOKEN_PRINT_END || kind == CHAT_TOKEN_BLOCK_END || qkv_chat_sign_is(p, ")") ||
            qkv_chat_word_is(p, "in"))
            break;
        status = item(p, out);
        if (!status) qkv_chat_append(&list, *out);
    }
    *out = qkv_chat_node(p, CHAT_MAKE_TUPLE, line);
    if (!*out) return QKV_MEMORY;
    (*out)->list = list.first;
    return status;
}

enum qkv_status qkv_chat_parse_tuple(struct chat_parser *p, bool choice, struct chat_node **out) {
    return parse_tuple(p, choice ? qkv_chat_parse_expression : parse_or, out);
}

static enum qkv_status parse_target(struct chat_parser *p, struct chat_node **out) {
    return parse_primary(p, false, out);
}

static enum qkv_status parse_member_target(struct chat_parser *p, struct chat_node **out) {
    return parse_primary(p, true, out);
}

/* Whether a node can be assigned to. */
static bool parse_is_target(const struct chat_node *node) {
    if (node->kind == CHAT_NAME || node->kind == CHAT_MEMBER) return true;
    if (node->kind != CHAT_MAKE_TUPLE && node->kind != CHAT_MAKE_LIST) return false;
    for (const struct chat_node *one = node->list; one; one = one->next)
        if (!parse_is_target(one)) return false;
    return true;
}

enum qkv_status qkv_chat_parse_target(struct chat_parser *p, bool names, struct chat_node **out) {
    const int line = qkv_chat_token(p)->line;
    enum qkv_status status = parse_tuple(p, names ? parse_member_target : parse_target, out);
    if (status || parse_is_target(*out)) return status;
    return qkv_chat_parse_fail(p, line, "can't assign to this expression");
}
