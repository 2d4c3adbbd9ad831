/* The tokens of a template, as jinja2's lexer finds them with trim_blocks and lstrip_blocks: the line end after a block
 * or comment is removed, and so is white space between the beginning of a line and a block or comment. A '-' beside a
 * tag removes all white space on its side, a '+' keeps what would be removed. */
#include "chat/chat_nodes.h"

#include <stdlib.h>
#include <string.h>

enum { BRACKETS = 200, TOKENS = 1 << 20 };

struct lexer {
    struct qkv_context *ctx;
    const char *name;
    struct chat_pool *pool;
    const char *s; /* the template with line feeds as line ends */
    size_t size, at;
    int line;
    bool line_begins; /* the text before `at` ends with a line feed, or there is none */
    struct chat_tokens *tokens;
    char open[BRACKETS]; /* brackets, as the signs that close them */
    size_t depth;
};

static enum qkv_status lexer_fail(const struct lexer *x, const char *what) {
    return qkv_fail(x->ctx, QKV_FORMAT, "%s, line %d: %s", x->name, x->line, what);
}

static enum qkv_status lexer_add(struct lexer *x, enum chat_token_kind kind, struct chat_value value) {
    struct chat_tokens *t = x->tokens;
    if (t->count >= TOKENS) return lexer_fail(x, "the template has more than a million tokens");
    struct chat_token *room = qkv_list_room(x->ctx, t->items, &t->capacity, t->count, 1, sizeof *t->items);
    if (!room) return QKV_MEMORY;
    t->items = room;
    t->items[t->count++] = (struct chat_token){.kind = (uint8_t)kind, .line = x->line, .value = value};
    return QKV_OK;
}

/* Moves to a place further on, and counts its lines. */
static void lexer_move(struct lexer *x, size_t to) {
    for (size_t i = x->at; i < to; i++) x->line += x->s[i] == '\n';
    if (to > x->at) x->line_begins = x->s[to - 1] == '\n';
    x->at = to;
}

static bool lexer_has(const struct lexer *x, size_t at, const char *text) {
    const size_t n = strlen(text);
    return at <= x->size && x->size - at >= n && !memcmp(x->s + at, text, n);
}

static size_t lexer_space(const struct lexer *x, size_t at) {
    return at + qkv_chat_space_before(x->s + at, x->size - at);
}

/* The place behind the end of a tag, "%}", "#}" or "}}", at `at`; 0: it is none. */
static size_t lexer_end(const struct lexer *x, size_t at, const char *end) {
    const bool print = *end == '}';
    if (lexer_has(x, at, "-") && lexer_has(x, at + 1, end)) return lexer_space(x, at + 3);
    if (!print && lexer_has(x, at, "+") && lexer_has(x, at + 1, end)) return at + 3;
    if (!lexer_has(x, at, end)) return 0;
    at += 2;
    return !print && lexer_has(x, at, "\n") ? at + 1 : at;
}

/* ---- the text between tags --------------------------------------------------------------------------------------- */

/* Adds the text from x->at to the tag at `tag`, which has the sign behind its two characters. */
static enum qkv_status lexer_data(struct lexer *x, size_t tag, bool print) {
    const char *text = x->s + x->at;
    size_t n = tag - x->at;
    if (lexer_has(x, tag + 2, "-")) {
        n -= qkv_chat_space_after(text, n);
    } else if (!print && !lexer_has(x, tag + 2, "+")) {
        size_t begin = n;
        while (begin && text[begin - 1] != '\n') begin--;
        if ((begin || x->line_begins) && qkv_chat_space_before(text + begin, n - begin) == n - begin) n = begin;
    }
    enum qkv_status status = n ? lexer_add(x, CHAT_TOKEN_DATA, qkv_chat_text(text, n)) : QKV_OK;
    lexer_move(x, tag);
    return status;
}

/* The place behind "{% WORD %}" at `at`, whose end `trims` says whether a line end is a part of; 0: it is no such
 * tag. */
static size_t lexer_word_tag(const struct lexer *x, size_t at, const char *word, bool trims) {
    if (!lexer_has(x, at, "{%")) return 0;
    at += 2;
    if (lexer_has(x, at, "-") || lexer_has(x, at, "+")) at++;
    at = lexer_space(x, at);
    if (!lexer_has(x, at, word)) return 0;
    at = lexer_space(x, at + strlen(word));
    if (trims) return lexer_end(x, at, "%}");
    if (lexer_has(x, at, "-%}")) return lexer_space(x, at + 3);
    return lexer_has(x, at, "%}") ? at + 2 : 0;
}

static enum qkv_status lexer_raw(struct lexer *x, size_t begin) {
    lexer_move(x, begin);
    for (size_t at = begin; (at = qkv_chat_search(x->s, x->size, "{%", 2, at)) < x->size; at++) {
        const size_t end = lexer_word_tag(x, at, "endraw", true);
        if (!end) continue;
        enum qkv_status status = lexer_data(x, at, false);
        lexer_move(x, end);
        return status;
    }
    return lexer_fail(x, "Missing end of raw directive");
}

static enum qkv_status lexer_comment(struct lexer *x) {
    size_t at = x->at + 2;
    if (lexer_has(x, at, "-") || lexer_has(x, at, "+")) at++;
    const size_t begin = at;
    at = qkv_chat_search(x->s, x->size, "#}", 2, at);
    if (at >= x->size) return lexer_fail(x, "Missing end of comment tag");
    if (at > begin && (x->s[at - 1] == '-' || x->s[at - 1] == '+')) at--;
    lexer_move(x, lexer_end(x, at, "#}"));
    return QKV_OK;
}

/* ---- inside tags ------------------------------------------------------------------------------------------------- */

static size_t lexer_digits(const struct lexer *x, size_t at, const char *digits) {
    const size_t begin = at;
    while (at < x->size && x->s[at] &&
           (strchr(digits, x->s[at]) ||
            (x->s[at] == '_' && at > begin && at + 1 < x->size && x->s[at + 1] && strchr(digits, x->s[at + 1]))))
        at++;
    return at;
}

/* The place behind a float at `at`; 0: there is none. */
static size_t lexer_real_end(const struct lexer *x, size_t at) {
    static const char decimal[] = "0123456789";
    if (at && x->s[at - 1] == '.') return 0;
    size_t end = lexer_digits(x, at, decimal), real = 0;
    if (lexer_has(x, end, ".")) {
        const size_t fraction = lexer_digits(x, end + 1, decimal);
        if (fraction > end + 1) real = end = fraction;
    }
    if (end < x->size && (x->s[end] == 'e' || x->s[end] == 'E')) {
        const size_t sign = end + 1 < x->size && (x->s[end + 1] == '+' || x->s[end + 1] == '-');
        const size_t exponent = lexer_digits(x, end + 1 + sign, decimal);
        if (exponent > end + 1 + sign) real = exponent;
    }
    return real;
}

static enum qkv_status lexer_number(struct lexer *x) {
    static const struct {
        const char *lower, *upper, *digits;
        unsigned base;
    } bases[] = {{"0x", "0X", "0123456789abcdefABCDEF", 16}, {"0o", "0O", "01234567", 8}, {"0b", "0B", "01", 2}};
    char digits[64];
    size_t end = lexer_real_end(x, x->at), n = 0, begin = x->at;
    unsigned base = 10;
    double real = 0;
    const bool is_real = end != 0;
    for (size_t i = 0; i < 3 && !end; i++) {
        if (!lexer_has(x, begin, bases[i].lower) && !lexer_has(x, begin, bases[i].upper)) continue;
        end = lexer_digits(x, begin + 2, bases[i].digits);
        if (end == begin + 2) end = 0;
        if (end) base = bases[i].base, begin += 2;
    }
    if (!end) end = lexer_digits(x, begin, x->s[begin] == '0' ? "0" : "0123456789");
    for (size_t i = begin; i < end; i++) {
        if (x->s[i] == '_') continue;
        if (n + 1 >= sizeof digits) return lexer_fail(x, "a number has too many digits");
        digits[n++] = x->s[i];
    }
    digits[n] = 0;
    int64_t integer = 0;
    for (size_t i = 0; i < n && !is_real; i++) {
        const int digit = digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 32) - 'a' + 10;
        if (__builtin_mul_overflow(integer, (int64_t)base, &integer) ||
            __builtin_add_overflow(integer, (int64_t)digit, &integer))
            return lexer_fail(x, "an integer does not fit in 64 bits");
    }
    if (is_real && !qkv_real_parse(digits, &real)) return lexer_fail(x, "a number is too large");
    enum qkv_status status = lexer_add(x, CHAT_TOKEN_VALUE, is_real ? qkv_chat_real(real) : qkv_chat_int(integer));
    lexer_move(x, end);
    return status;
}

static enum qkv_status lexer_string(struct lexer *x) {
    const char quote = x->s[x->at];
    size_t end = x->at + 1;
    struct chat_value text;
    while (end < x->size && x->s[end] != quote) end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->size) return lexer_fail(x, quote == '"' ? "unexpected char '\"'" : "unexpected char \"'\"");
    enum qkv_status status = qkv_chat_unescape(x->pool, x->name, x->line, x->s + x->at + 1, end - x->at - 1, &text);
    if (!status) status = lexer_add(x, CHAT_TOKEN_VALUE, text);
    lexer_move(x, end + 1);
    return status;
}

static enum qkv_status lexer_sign(struct lexer *x) {
    static const char *const signs[] = {"==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
                                        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    char wrong[64];
    size_t i = 0;
    while (i < sizeof signs / sizeof *signs && !lexer_has(x, x->at, signs[i])) i++;
    if (i == sizeof signs / sizeof *signs) {
        const size_t n = qkv_max(1, qkv_utf8_length(x->s + x->at, x->size - x->at));
        snprintf(wrong, sizeof wrong, "unexpected char '%.*s'", (int)n, x->s + x->at);
        return lexer_fail(x, wrong);
    }
    const char sign = *signs[i];
    if (sign == '(' || sign == '[' || sign == '{') {
        if (x->depth == BRACKETS) return lexer_fail(x, "brackets are nested too deeply");
        x->open[x->depth++] = sign == '(' ? ')' : sign == '[' ? ']' : '}';
    } else if (sign == ')' || sign == ']' || sign == '}') {
        snprintf(wrong, sizeof wrong, x->depth ? "unexpected '%c', expected '%c'" : "unexpected '%c'", sign,
                 x->depth ? x->open[x->depth - 1] : 0);
        if (!x->depth || x->open[x->depth - 1] != sign) return lexer_fail(x, wrong);
        x->depth--;
    }
    const size_t n = strlen(signs[i]);
    enum qkv_status status = lexer_add(x, CHAT_TOKEN_SIGN, qkv_chat_text(x->s + x->at, n));
    lexer_move(x, x->at + n);
    return status;
}

/* Adds the token at x->at; the place is not the end of the tag. */
static enum qkv_status lexer_token(struct lexer *x) {
    const size_t space = lexer_space(x, x->at);
    const char c = x->s[x->at];
    if (space > x->at) {
        lexer_move(x, space);
        return QKV_OK;
    }
    if (c >= '0' && c <= '9') return lexer_number(x);
    if (c == '\'' || c == '"') return lexer_string(x);
    size_t end = x->at, next = x->at;
    while (next < x->size && qkv_chat_is_word(qkv_chat_character(x->s, x->size, &next))) end = next;
    if (end == x->at) return lexer_sign(x);
    enum qkv_status status = lexer_add(x, CHAT_TOKEN_NAME, qkv_chat_text(x->s + x->at, end - x->at));
    lexer_move(x, end);
    return status;
}

static enum qkv_status lexer_tag(struct lexer *x, bool print) {
    enum qkv_status status = lexer_add(x, print ? CHAT_TOKEN_PRINT : CHAT_TOKEN_BLOCK, qkv_chat_text(x->s, 0));
    lexer_move(x, x->at + 2);
    if (lexer_has(x, x->at, "-") || lexer_has(x, x->at, "+")) lexer_move(x, x->at + 1);
    while (!status && x->at < x->size) {
        const size_t end = x->depth ? 0 : lexer_end(x, x->at, print ? "}}" : "%}");
        if (end) {
            status = lexer_add(x, print ? CHAT_TOKEN_PRINT_END : CHAT_TOKEN_BLOCK_END, qkv_chat_text(x->s, 0));
            lexer_move(x, end);
            return status;
        }
        status = lexer_token(x);
    }
    return status;
}

/* ---- the template ------------------------------------------------------------------------------------------------ */

static enum qkv_status lexer_run(struct lexer *x) {
    enum qkv_status status = QKV_OK;
    while (!status && x->at < x->size) {
        size_t tag = x->at, raw;
        while ((tag = qkv_chat_search(x->s, x->size, "{", 1, tag)) < x->size && !lexer_has(x, tag, "{{") &&
               !lexer_has(x, tag, "{%") && !lexer_has(x, tag, "{#"))
            tag++;
        if (tag >= x->size) {
            status = lexer_add(x, CHAT_TOKEN_DATA, qkv_chat_text(x->s + x->at, x->size - x->at));
            lexer_move(x, x->size);
            break;
        }
        const bool print = x->s[tag + 1] == '{', comment = x->s[tag + 1] == '#';
        status = lexer_data(x, tag, print);
        if (status) return status;
        if (comment)
            status = lexer_comment(x);
        else if (!print && (raw = lexer_word_tag(x, tag, "raw", false)))
            status = lexer_raw(x, raw);
        else
            status = lexer_tag(x, print);
    }
    return status ? status : lexer_add(x, CHAT_TOKEN_END, qkv_chat_text(x->s + x->size, 0));
}

/* A copy in which line ends are line feeds, without the one at the end. */
static char *lexer_source(struct chat_pool *pool, const char *text, size_t size, size_t *n) {
    char *s = qkv_chat_take(pool, size + 1, 1);
    *n = 0;
    for (size_t i = 0; i < size && s; i++) {
        const bool line_end = text[i] == '\r';
        if (line_end && i + 1 < size && text[i + 1] == '\n') i++;
        s[(*n)++] = line_end ? '\n' : text[i];
    }
    if (s && *n && s[*n - 1] == '\n') --*n;
    return s;
}

enum qkv_status qkv_chat_lex(struct chat_pool *pool, const char *name, const char *text, size_t size,
                             struct chat_tokens *tokens) {
    struct lexer x = {.ctx = pool->ctx, .name = name, .pool = pool, .line = 1, .line_begins = true, .tokens = tokens};
    x.s = lexer_source(pool, text, size, &x.size);
    if (!x.s) return QKV_MEMORY;
    return lexer_run(&x);
}
