/* What both parts of the parser use: nodes, tokens, names, failures. */
#include "base/utf8.h"
#include "chat/chat_nodes.h"

#include <string.h>

enum { BUCKETS = 256, NAMES = 1 << 14 };

struct chat_node *qkv_chat_node(struct chat_parser *p, enum chat_node_kind kind, int line) {
    struct chat_node *node = qkv_chat_take(&p->program->pool, 1, sizeof *node);
    if (node) {
        node->kind = (uint8_t)kind;
        node->line = line;
    }
    return node;
}

void qkv_chat_append(struct chat_node_list *list, struct chat_node *node) {
    if (list->last)
        list->last->next = node;
    else
        list->first = node;
    list->last = node;
}

enum qkv_status qkv_chat_parse_fail(struct chat_parser *p, int line, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return qkv_fail(p->ctx, QKV_FORMAT, "%s, line %d: %s", p->program->name, line, text);
}

static void chat_token_text(const struct chat_token *token, char text[48]) {
    static const char *const kinds[] = {[CHAT_TOKEN_END] = "end of template",
                                        [CHAT_TOKEN_DATA] = "text",
                                        [CHAT_TOKEN_PRINT] = "{{",
                                        [CHAT_TOKEN_PRINT_END] = "end of print statement",
                                        [CHAT_TOKEN_BLOCK] = "{%",
                                        [CHAT_TOKEN_BLOCK_END] = "end of statement block",
                                        [CHAT_TOKEN_VALUE] = "a string or number"};
    if (token->kind == CHAT_TOKEN_NAME || token->kind == CHAT_TOKEN_SIGN)
        snprintf(text, 48, "%.*s", (int)qkv_utf8_cut(token->value.text, qkv_min(token->value.size, 40)),
                 token->value.text);
    else
        snprintf(text, 48, "%s", kinds[token->kind]);
}

enum qkv_status qkv_chat_parse_expected(struct chat_parser *p, const char *what) {
    char text[48];
    const struct chat_token *token = qkv_chat_token(p);
    chat_token_text(token, text);
    if (!what) return qkv_chat_parse_fail(p, token->line, "unexpected '%s'", text);
    return qkv_chat_parse_fail(p, token->line, "expected %s, got '%s'", what, text);
}

bool qkv_chat_sign_is(const struct chat_parser *p, const char *sign) {
    const struct chat_token *token = qkv_chat_token(p);
    return token->kind == CHAT_TOKEN_SIGN && qkv_chat_text_is(token->value, sign);
}

bool qkv_chat_word_is(const struct chat_parser *p, const char *word) {
    const struct chat_token *token = qkv_chat_token(p);
    return token->kind == CHAT_TOKEN_NAME && qkv_chat_text_is(token->value, word);
}

bool qkv_chat_skip_sign(struct chat_parser *p, const char *sign) {
    const bool is = qkv_chat_sign_is(p, sign);
    p->at += is;
    return is;
}

bool qkv_chat_skip_word(struct chat_parser *p, const char *word) {
    const bool is = qkv_chat_word_is(p, word);
    p->at += is;
    return is;
}

enum qkv_status qkv_chat_expect_sign(struct chat_parser *p, const char *sign) {
    char what[8];
    if (qkv_chat_skip_sign(p, sign)) return QKV_OK;
    snprintf(what, sizeof what, "'%s'", sign);
    return qkv_chat_parse_expected(p, what);
}

enum qkv_status qkv_chat_expect_name(struct chat_parser *p, struct chat_value *name) {
    const struct chat_token *token = qkv_chat_token(p);
    if (token->kind != CHAT_TOKEN_NAME) return qkv_chat_parse_expected(p, "a name");
    *name = token->value;
    p->at++;
    return QKV_OK;
}

enum qkv_status qkv_chat_intern(struct chat_parser *p, struct chat_value name, int *number) {
    struct chat_program *program = p->program;
    if (!p->buckets) p->buckets = qkv_chat_take(&program->pool, BUCKETS, sizeof *p->buckets);
    if (!p->buckets) return QKV_MEMORY;
    size_t *bucket = &p->buckets[qkv_hash(QKV_HASH_START, name.text, name.size) % BUCKETS];
    for (size_t i = *bucket; i; i = p->chain[i - 1]) {
        const struct chat_value had = program->names[i - 1];
        *number = (int)(i - 1);
        if (had.size == name.size && !memcmp(had.text, name.text, name.size)) return QKV_OK;
    }
    const size_t count = program->name_count;
    if (count >= NAMES) return qkv_chat_parse_fail(p, qkv_chat_token(p)->line, "more than %d names are used", NAMES);
    struct chat_value *names = qkv_list_room(p->ctx, program->names, &program->name_capacity, count, 1, sizeof *names);
    if (!names) return QKV_MEMORY;
    program->names = names;
    size_t *chain = qkv_list_room(p->ctx, p->chain, &p->chain_capacity, count, 1, sizeof *chain);
    if (!chain) return QKV_MEMORY;
    p->chain = chain;
    char *copy = qkv_chat_take(&program->pool, (size_t)name.size + 1, 1);
    if (!copy) return QKV_MEMORY;
    memcpy(copy, name.text, name.size);
    chain[count] = *bucket;
    names[count] = qkv_chat_text(copy, name.size);
    *bucket = ++program->name_count;
    *number = (int)count;
    return QKV_OK;
}
