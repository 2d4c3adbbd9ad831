/* The tokenizer of mteval-v13a as in sacreBLEU (Post 2018, "A call for clarity in reporting BLEU scores"): it undoes
 * some markup, then makes four substitutions, each over the whole line:
 *
 *     [{-~ [-` space-& (-+ :-@ /]   gets spaces around it
 *     ([^0-9])([.,])    \1 space \2 space      a period or comma that does not follow a digit
 *     ([.,])([^0-9])    space \1 space \2      or that no digit follows
 *     ([0-9])(-)        \1 space \2 space      a dash after a digit
 *
 * and cuts the result at white space. Digits are the ASCII ones. */
#include <string.h>

#include "metric/metric.h"

static bool is_digit(uint32_t c) {
    return c >= '0' && c <= '9';
}

static bool is_point(uint32_t c) {
    return c == '.' || c == ',';
}

static bool is_dash(uint32_t c) {
    return c == '-';
}

static bool is_no_digit(uint32_t c) {
    return !is_digit(c);
}

static bool is_symbol(uint32_t c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
}

static void tokenize_13a_swap(struct qkv_13a *t) {
    struct qkv_characters from = t->from;
    t->from = t->into;
    t->into = from;
    t->into.count = 0;
}

/* str.replace in t->from: `word` becomes `by`. */
static enum qkv_status tokenize_13a_replace(struct qkv_context *ctx, struct qkv_13a *t, const char *word,
                                            const char *by) {
    size_t n = strlen(word);
    uint32_t put = (unsigned char)by[0];
    const struct qkv_characters *s = &t->from;
    enum qkv_status status = QKV_OK;
    t->into.count = 0;
    for (size_t i = 0; i < s->count && !status;) {
        size_t same = 0;
        while (same < n && i + same < s->count && s->at[i + same] == (unsigned char)word[same]) same++;
        status = same == n ? qkv_characters_append(ctx, &t->into, &put, put != 0)
                           : qkv_characters_append(ctx, &t->into, s->at + i, 1);
        i += same == n ? n : 1;
    }
    tokenize_13a_swap(t);
    return status;
}

static enum qkv_status space_symbols(struct qkv_context *ctx, struct qkv_13a *t) {
    const struct qkv_characters *s = &t->from;
    enum qkv_status status = QKV_OK;
    t->into.count = 0;
    for (size_t i = 0; i < s->count && !status; i++) {
        uint32_t spaced[3] = {' ', s->at[i], ' '};
        status = is_symbol(s->at[i]) ? qkv_characters_append(ctx, &t->into, spaced, 3)
                                     : qkv_characters_append(ctx, &t->into, s->at + i, 1);
    }
    tokenize_13a_swap(t);
    return status;
}

/* Matches two characters, left to right and without overlap, and puts spaces around the second one, or around the
 * first. */
static enum qkv_status space_pairs(struct qkv_context *ctx, struct qkv_13a *t, bool (*first)(uint32_t),
                                   bool (*second)(uint32_t), bool around_second) {
    const struct qkv_characters *s = &t->from;
    enum qkv_status status = QKV_OK;
    t->into.count = 0;
    for (size_t i = 0; i < s->count && !status;) {
        bool pair = i + 1 < s->count && first(s->at[i]) && second(s->at[i + 1]);
        uint32_t a = s->at[i], b = pair ? s->at[i + 1] : 0;
        uint32_t behind[4] = {a, ' ', b, ' '}, before[4] = {' ', a, ' ', b};
        status = qkv_characters_append(ctx, &t->into, pair ? (around_second ? behind : before) : &a, pair ? 4 : 1);
        i += pair ? 2 : 1;
    }
    tokenize_13a_swap(t);
    return status;
}

static enum qkv_status tokenize_13a_read(struct qkv_context *ctx, struct qkv_13a *t, const char *text) {
    static const char *const marks[][2] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                                           {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
    enum qkv_status status = qkv_characters_set(ctx, &t->from, text);
    while (t->from.count && qkv_is_space(t->from.at[t->from.count - 1])) t->from.count--;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0] && !status; i++)
        status = tokenize_13a_replace(ctx, t, marks[i][0], marks[i][1]);
    static const uint32_t space = ' '; /* gives a period at either end a neighbour */
    t->into.count = 0;
    if (!status) status = qkv_characters_append(ctx, &t->into, &space, 1);
    if (!status) status = qkv_characters_append(ctx, &t->into, t->from.at, t->from.count);
    if (!status) status = qkv_characters_append(ctx, &t->into, &space, 1);
    tokenize_13a_swap(t);
    return status;
}

static enum qkv_status tokenize_13a_cut(struct qkv_context *ctx, struct qkv_13a *t) {
    const struct qkv_characters *s = &t->from;
    t->tokens.count = 0;
    for (size_t i = 0; i < s->count;) {
        size_t begin = i;
        while (i < s->count && !qkv_is_space(s->at[i])) i++;
        if (i > begin) {
            const char *key = (const char *)(s->at + begin);
            struct qkv_string *name = qkv_strings_add(ctx, &t->names, key, (i - begin) * sizeof *s->at);
            if (!name) return QKV_MEMORY;
            uint32_t number = (uint32_t)(name - t->names.entries);
            enum qkv_status status = qkv_characters_append(ctx, &t->tokens, &number, 1);
            if (status) return status;
        }
        while (i < s->count && qkv_is_space(s->at[i])) i++;
    }
    return QKV_OK;
}

enum qkv_status qkv_13a_tokenize(struct qkv_context *ctx, struct qkv_13a *t, const char *text) {
    enum qkv_status status = tokenize_13a_read(ctx, t, text);
    if (!status) status = space_symbols(ctx, t);
    if (!status) status = space_pairs(ctx, t, is_no_digit, is_point, true);
    if (!status) status = space_pairs(ctx, t, is_point, is_no_digit, false);
    if (!status) status = space_pairs(ctx, t, is_digit, is_dash, true);
    return status ? status : tokenize_13a_cut(ctx, t);
}

void qkv_13a_free(struct qkv_13a *t) {
    qkv_strings_free(&t->names);
    qkv_characters_free(&t->tokens);
    qkv_characters_free(&t->from);
    qkv_characters_free(&t->into);
}
