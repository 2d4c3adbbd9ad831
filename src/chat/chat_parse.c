/* The parser of statements. */
#include "base/utf8.h"
#include "chat/chat_nodes.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_MAX = 1 << 28 };

static enum qkv_status parse_body(struct chat_parser *p, const char *const *ends, struct chat_node **out);

static enum qkv_status parse_block_end(struct chat_parser *p) {
    if (qkv_chat_token(p)->kind != CHAT_TOKEN_BLOCK_END) return qkv_chat_parse_expected(p, "end of statement block");
    p->at++;
    return QKV_OK;
}

/* The rest of a block's tag, its body, and "{% END %}". */
static enum qkv_status parse_block(struct chat_parser *p, const char *end, struct chat_node **list) {
    const char *const ends[] = {end, NULL};
    enum qkv_status status = parse_block_end(p);
    if (!status) status = parse_body(p, ends, list);
    if (!status) p->at++;
    return status ? status : parse_block_end(p);
}

static enum qkv_status parse_if(struct chat_parser *p, struct chat_node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct chat_node_list branches = {0};
    enum qkv_status status = QKV_OK;
    bool other = false, more = true;
    p->conditions++;
    while (!status && more) {
        struct chat_node *branch = qkv_chat_node(p, CHAT_BRANCH, qkv_chat_token(p)->line);
        if (!branch) return QKV_MEMORY;
        qkv_chat_append(&branches, branch);
        if (!other) status = qkv_chat_parse_tuple(p, true, &branch->a);
        if (!status) status = parse_block_end(p);
        if (!status) status = parse_body(p, other ? ends + 2 : ends, &branch->list);
        if (status) break;
        other = qkv_chat_word_is(p, "else");
        more = !qkv_chat_word_is(p, "endif");
        p->at++;
    }
    p->conditions--;
    node->list = branches.first;
    return status ? status : parse_block_end(p);
}

static enum qkv_status parse_for(struct chat_parser *p, struct chat_node *node) {
    static const char *const ends[] = {"endfor", "else", NULL};
    const uint8_t uses = p->uses;
    enum qkv_status status = qkv_chat_parse_target(p, false, &node->a);
    if (!status && !qkv_chat_skip_word(p, "in")) status = qkv_chat_parse_expected(p, "'in'");
    if (!status) status = qkv_chat_parse_tuple(p, false, &node->b);
    if (!status && qkv_chat_skip_word(p, "if")) status = qkv_chat_parse_expression(p, &node->c);
    if (status) return status;
    node->flag = qkv_chat_skip_word(p, "recursive");
    p->uses &= (uint8_t)~CHAT_USES_LOOP;
    p->loops++;
    status = parse_block_end(p);
    if (!status) status = parse_body(p, ends, &node->list);
    p->loops--;
    node->uses = p->uses & CHAT_USES_LOOP;
    p->uses = (uint8_t)((p->uses & ~CHAT_USES_LOOP) | (uses & CHAT_USES_LOOP));
    if (!status && qkv_chat_skip_word(p, "else")) return parse_block(p, "endfor", &node->other);
    if (!status) p->at++;
    return status ? status : parse_block_end(p);
}

static enum qkv_status parse_set(struct chat_parser *p, struct chat_node *node) {
    enum qkv_status status = qkv_chat_parse_target(p, true, &node->a);
    if (status) return status;
    if (qkv_chat_skip_sign(p, "=")) return qkv_chat_parse_tuple(p, true, &node->b);
    node->kind = CHAT_SET_BLOCK;
    status = qkv_chat_parse_filters(p, NULL, false, &node->b);
    return status ? status : parse_block(p, "endset", &node->list);
}

static enum qkv_status parse_with(struct chat_parser *p, struct chat_node *node) {
    struct chat_node_list sets = {0};
    enum qkv_status status = QKV_OK;
    while (!status && qkv_chat_token(p)->kind != CHAT_TOKEN_BLOCK_END) {
        struct chat_node *set = qkv_chat_node(p, CHAT_SET, qkv_chat_token(p)->line);
        if (!set) return QKV_MEMORY;
        if (sets.first) status = qkv_chat_expect_sign(p, ",");
        if (!status) status = qkv_chat_parse_target(p, false, &set->a);
        if (!status) status = qkv_chat_expect_sign(p, "=");
        if (!status) status = qkv_chat_parse_expression(p, &set->b);
        qkv_chat_append(&sets, set);
    }
    node->other = sets.first;
    return status ? status : parse_block(p, "endwith", &node->list);
}

/* ---- macros ------------------------------------------------------------------------------------------------------ */

static enum qkv_status parse_parameters(struct chat_parser *p, struct chat_node *node) {
    struct chat_node_list list = {0};
    bool usual = false;
    enum qkv_status status = qkv_chat_expect_sign(p, "(");
    while (!status && !qkv_chat_sign_is(p, ")")) {
        struct chat_node *one = qkv_chat_node(p, CHAT_PARAMETER, qkv_chat_token(p)->line);
        if (!one) return QKV_MEMORY;
        if (list.first) status = qkv_chat_expect_sign(p, ",");
        if (!status) status = qkv_chat_expect_name(p, &one->value);
        if (!status) status = qkv_chat_intern(p, one->value, &one->name);
        if (!status && qkv_chat_skip_sign(p, "=")) {
            status = qkv_chat_parse_expression(p, &one->a);
            usual = true;
        } else if (!status && usual) {
            status = qkv_chat_parse_fail(p, one->line, "non-default argument follows default argument");
        }
        qkv_chat_append(&list, one);
    }
    node->other = list.first;
    return status ? status : qkv_chat_expect_sign(p, ")");
}

/* The body of a macro, and which of the special names it has. */
static enum qkv_status parse_macro_body(struct chat_parser *p, const char *end, struct chat_node *node) {
    const uint8_t uses = p->uses;
    const int loops = p->loops;
    p->uses = 0;
    p->loops = 0;
    enum qkv_status status = parse_block(p, end, &node->list);
    node->uses = p->uses;
    p->uses = uses | (p->uses & CHAT_USES_LOOP);
    p->loops = loops;
    return status;
}

static enum qkv_status parse_macro(struct chat_parser *p, struct chat_node *node) {
    node->kind = CHAT_MACRO_NODE;
    enum qkv_status status = qkv_chat_expect_name(p, &node->value);
    if (!status) status = qkv_chat_intern(p, node->value, &node->name);
    if (!status) status = parse_parameters(p, node);
    return status ? status : parse_macro_body(p, "endmacro", node);
}

static enum qkv_status parse_call_block(struct chat_parser *p, struct chat_node *node) {
    enum qkv_status status = qkv_chat_sign_is(p, "(") ? parse_parameters(p, node) : QKV_OK;
    if (!status) status = qkv_chat_parse_expression(p, &node->a);
    if (status) return status;
    if (node->a->kind != CHAT_CALL) return qkv_chat_parse_fail(p, node->line, "expected call");
    node->value = qkv_chat_text("caller", 6);
    return parse_macro_body(p, "endcall", node);
}

/* ---- all statements ---------------------------------------------------------------------------------------------- */

static enum qkv_status parse_filter_block(struct chat_parser *p, struct chat_node *node) {
    enum qkv_status status = qkv_chat_parse_filters(p, NULL, true, &node->b);
    return status ? status : parse_block(p, "endfilter", &node->list);
}

static enum qkv_status parse_generation(struct chat_parser *p, struct chat_node *node) {
    node->flag = true;
    return parse_block(p, "endgeneration", &node->list);
}

static enum qkv_status parse_loop_control(struct chat_parser *p, struct chat_node *node) {
    if (p->loops) return QKV_OK;
    return qkv_chat_parse_fail(p, node->line, "'%s' outside of a loop",
                               node->kind == CHAT_BREAK_NODE ? "break" : "continue");
}

static const struct parse_statement {
    const char *word;
    enum chat_node_kind kind;
    bool ends; /* the parser reads no more than the tag, whose end follows */
    enum qkv_status (*parse)(struct chat_parser *p, struct chat_node *node);
} statements[] = {
    {"if", CHAT_IF, false, parse_if},
    {"for", CHAT_FOR, false, parse_for},
    {"set", CHAT_SET, true, parse_set},
    {"with", CHAT_WITH, false, parse_with},
    {"macro", CHAT_MACRO_NODE, false, parse_macro},
    {"call", CHAT_CALL_BLOCK, false, parse_call_block},
    {"filter", CHAT_FILTER_BLOCK, false, parse_filter_block},
    {"generation", CHAT_SCOPE, false, parse_generation},
    {"break", CHAT_BREAK_NODE, true, parse_loop_control},
    {"continue", CHAT_CONTINUE_NODE, true, parse_loop_control},
};

/* "{% print a, b %}" */
static enum qkv_status parse_print(struct chat_parser *p, struct chat_node_list *list) {
    enum qkv_status status = QKV_OK;
    for (bool more = true; more && !status; more = qkv_chat_skip_sign(p, ",")) {
        struct chat_node *node = qkv_chat_node(p, CHAT_PRINT, qkv_chat_token(p)->line);
        if (!node) return QKV_MEMORY;
        qkv_chat_append(list, node);
        status = qkv_chat_parse_expression(p, &node->a);
    }
    return status ? status : parse_block_end(p);
}

/* The statement behind "{%". */
static enum qkv_status parse_statement(struct chat_parser *p, struct chat_node_list *list) {
    static const char *const others[] = {"include", "import", "from", "extends", "block", "autoescape", NULL};
    const struct chat_token *token = qkv_chat_token(p);
    if (token->kind != CHAT_TOKEN_NAME) return qkv_chat_parse_expected(p, "tag name");
    if (qkv_chat_skip_word(p, "print")) return parse_print(p, list);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!qkv_chat_skip_word(p, statements[i].word)) continue;
        struct chat_node *node = qkv_chat_node(p, statements[i].kind, token->line);
        if (!node) return QKV_MEMORY;
        qkv_chat_append(list, node);
        enum qkv_status status = statements[i].parse(p, node);
        const bool block = node->kind == CHAT_SET_BLOCK || !statements[i].ends;
        return status || block ? status : parse_block_end(p);
    }
    for (size_t i = 0; others[i]; i++)
        if (qkv_chat_word_is(p, others[i]))
            return qkv_chat_parse_fail(p, token->line,
                                       "the statement '%s' reads other templates; a chat template is alone", others[i]);
    return qkv_chat_parse_fail(p, token->line, "Encountered unknown tag '%.*s'.", (int)qkv_min(token->value.size, 100),
                               token->value.text);
}

/* Nodes to the tag of one of the words `ends`, at which the parser stops; NULL: to the end of the template. */
static enum qkv_status parse_nodes(struct chat_parser *p, const char *const *ends, struct chat_node_list *list) {
    enum qkv_status status = QKV_OK;
    while (!status) {
        const struct chat_token *token = qkv_chat_token(p);
        struct chat_node *node;
        p->at++;
        if (token->kind == CHAT_TOKEN_BLOCK) {
            for (size_t i = 0; ends && ends[i]; i++)
                if (qkv_chat_word_is(p, ends[i])) return QKV_OK;
            status = parse_statement(p, list);
            continue;
        }
        if (token->kind == CHAT_TOKEN_END) {
            p->at--;
            if (!ends) return QKV_OK;
            return qkv_chat_parse_fail(p, token->line, "Unexpected end of template: '%s' is missing", ends[0]);
        }
        node = qkv_chat_node(p, token->kind == CHAT_TOKEN_DATA ? CHAT_DATA : CHAT_PRINT, token->line);
        if (!node) return QKV_MEMORY;
        qkv_chat_append(list, node);
        node->value = token->value;
        if (token->kind == CHAT_TOKEN_DATA) continue;
        status = qkv_chat_parse_tuple(p, true, &node->a);
        if (!status && qkv_chat_token(p)->kind != CHAT_TOKEN_PRINT_END)
            status = qkv_chat_parse_expected(p, "end of print statement");
        p->at++;
    }
    return status;
}

static enum qkv_status parse_body(struct chat_parser *p, const char *const *ends, struct chat_node **out) {
    struct chat_node_list list = {0};
    if (p->depth >= CHAT_DEPTH)
        return qkv_chat_parse_fail(p, qkv_chat_token(p)->line, "statements are nested too deeply");
    p->depth++;
    enum qkv_status status = parse_nodes(p, ends, &list);
    p->depth--;
    *out = list.first;
    return status;
}

/* ---- the template ------------------------------------------------------------------------------------------------ */

static enum qkv_status parse_special_names(struct chat_parser *p) {
    struct {
        const char *name;
        int *number;
    } names[] = {{"caller", &p->program->caller},
                 {"kwargs", &p->program->keywords},
                 {"varargs", &p->program->rest},
                 {"loop", &p->program->loop}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !status; i++)
        status = qkv_chat_intern(p, qkv_chat_text(names[i].name, strlen(names[i].name)), names[i].number);
    return status;
}

enum qkv_status qkv_chat_parse(struct qkv_context *ctx, const char *name, const char *text, size_t size,
                               struct chat_program **out) {
    struct chat_tokens tokens = {0};
    *out = NULL;
    if (size > QKV_CHAT_BYTES)
        return qkv_fail(ctx, QKV_FORMAT, "%s has %zu bytes; a chat template has at most %zu", name, size,
                        QKV_CHAT_BYTES);
    const size_t valid = qkv_utf8_valid(text, size);
    if (valid < size) return qkv_fail(ctx, QKV_FORMAT, "%s: byte %zu of the template is not UTF-8", name, valid);
    struct chat_program *program = qkv_allocate(ctx, 1, sizeof *program);
    if (!program) return QKV_MEMORY;
    program->pool = (struct chat_pool){.ctx = ctx, .limit = POOL_MAX, .what = "a chat template"};
    program->name = qkv_chat_copy(&program->pool, name, strlen(name) + 1);
    struct chat_parser p = {.ctx = ctx, .program = program};
    enum qkv_status status = program->name ? qkv_chat_lex(&program->pool, name, text, size, &tokens) : QKV_MEMORY;
    p.tokens = tokens.items;
    if (!status) status = parse_special_names(&p);
    if (!status) status = parse_body(&p, NULL, &program->body);
    if (!status && p.unknown)
        status = qkv_chat_parse_fail(&p, p.unknown->line, "No %s named '%.*s'.",
                                     p.unknown->kind == CHAT_FILTER ? "filter" : "test",
                                     (int)qkv_min(p.unknown->value.size, 100), p.unknown->value.text);
    free(tokens.items);
    free(p.chain);
    program->pool.ctx = NULL; /* runs of other contexts read the program */
    if (status) {
        qkv_chat_program_free(program);
        return status;
    }
    *out = program;
    return QKV_OK;
}

void qkv_chat_program_free(struct chat_program *program) {
    if (!program) return;
    qkv_chat_pool_free(&program->pool);
    free(program->names);
    free(program);
}
