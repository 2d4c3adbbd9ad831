/* Patterns in Oniguruma's syntax, written for PCRE2: groups, repeats, anchors, escapes. Only constructs that are listed
 * here are translated. All others are refused, as a pattern with another meaning would give other tokens without a
 * message.
 *
 * The output sets no options of PCRE2 but those of the whole pattern (UTF, UCP, MULTILINE): dots, case and properties
 * are spelled out. Groups do not capture, as nothing refers to them. */
#include "text/onig.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SOURCE ((size_t)16 << 10)
#define MAX_DEPTH  60
#define MAX_REPEAT 65535 /* the limit of PCRE2 */
#define MAX_OUT    ((size_t)1 << 20)

#define WORD_CHARACTER "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}]"
#define BOUNDARY       "(?:(?<=" WORD_CHARACTER ")(?!" WORD_CHARACTER ")|(?<!" WORD_CHARACTER ")(?=" WORD_CHARACTER "))"
#define NO_BOUNDARY    "(?:(?<=" WORD_CHARACTER ")(?=" WORD_CHARACTER ")|(?<!" WORD_CHARACTER ")(?!" WORD_CHARACTER "))"
#define NEWLINE        "(?>\\x0D\\x0A|[\\x0A-\\x0D\\x{85}\\x{2028}\\x{2029}])"

static enum qkv_status onig_put(struct onig *o, const char *text) {
    return qkv_buffer_append(o->ctx, &o->out, text, strlen(text));
}

/* Inserts a text before the output from `start` on. */
static enum qkv_status onig_put_before(struct onig *o, size_t start, const char *text) {
    size_t n = strlen(text), tail = o->out.size - start;
    enum qkv_status status = onig_put(o, text);
    if (status) return status;
    memmove(o->out.data + start + n, o->out.data + start, tail);
    memcpy(o->out.data + start, text, n);
    return QKV_OK;
}

static bool onig_is_at(const struct onig *o, const char *text) {
    return strncmp(o->source + o->at, text, strlen(text)) == 0;
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

static enum qkv_status onig_literal(struct onig *o, size_t from, uint32_t code) {
    bool letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
    uint32_t lower = code | 32;
    if (!o->fold || (code < 0x80 && !letter)) {
        o->before = 0;
        return qkv_buffer_print(o->ctx, &o->out, "\\x{%X}", (unsigned)code);
    }
    if (!letter) {
        if (!qkv_onig_caseless(code))
            return qkv_onig_refuse(o, from, "which may have other cases, where case is ignored");
        o->before = 0;
        return qkv_buffer_print(o->ctx, &o->out, "\\x{%X}", (unsigned)code);
    }
    bool joined = (o->before == 's' && (lower == 's' || lower == 't')) ||
                  (o->before == 'f' && (lower == 'f' || lower == 'i' || lower == 'l'));
    if (joined)
        return qkv_onig_refuse(
            o, from, "after \"%c\" where case is ignored: together they are also one character, as ss is \xC3\x9F",
            (char)o->before);
    o->before = lower;
    return qkv_buffer_print(o->ctx, &o->out, "[%c%c%s]", (char)lower, (char)(lower - 32),
                            lower == 's'   ? "\\x{17F}"
                            : lower == 'k' ? "\\x{212A}"
                                           : "");
}

/* ---- escapes ----------------------------------------------------------------------------------------------------- */

static enum qkv_status onig_refuse_escape(struct onig *o, size_t from, char c) {
    if (c >= '0' && c <= '9') return qkv_onig_refuse(o, from, "a back reference or an octal number");
    switch (c) {
    case 'K':
        return qkv_onig_refuse(o, from, "which drops what was matched before it");
    case 'X':
        return qkv_onig_refuse(o, from, "which matches a cluster of characters");
    case 'y':
    case 'Y':
        return qkv_onig_refuse(o, from, "which matches between clusters of characters");
    case 'G':
        return qkv_onig_refuse(o, from, "which matches where the search began");
    case 'k':
        return qkv_onig_refuse(o, from, "a back reference");
    case 'g':
        return qkv_onig_refuse(o, from, "a call of a group");
    case 'c':
    case 'C':
    case 'M':
        return qkv_onig_refuse(o, from, "a control or meta character");
    default:
        return qkv_onig_refuse(o, from, "an escape that means other things in other languages");
    }
}

static enum qkv_status onig_anchor(struct onig *o, const char *text, bool looks_back, bool *anchor) {
    o->at++;
    o->found.looks_back = o->found.looks_back || looks_back;
    *anchor = true;
    return onig_put(o, text);
}

/* Reads what follows a backslash. *anchor: it matches no character, so it must not be repeated. */
static enum qkv_status onig_escape(struct onig *o, size_t from, bool *anchor) {
    struct onig_set set = {0};
    uint32_t code;
    bool found;
    enum qkv_status status = qkv_onig_shorthand(o, from, false, &set, &found);
    if (!status && found) {
        status = qkv_onig_set_write(o, &set, &o->out);
        o->before = 0;
    }
    qkv_onig_set_free(&set);
    if (status || found) return status;
    char c = o->at < o->size ? o->source[o->at] : 0;
    switch (c) {
    case 'A':
        return onig_anchor(o, "\\A", true, anchor);
    case 'Z':
        return onig_anchor(o, "\\Z", false, anchor);
    case 'z':
        return onig_anchor(o, "\\z", false, anchor);
    case 'b':
        return onig_anchor(o, BOUNDARY, true, anchor);
    case 'B':
        return onig_anchor(o, NO_BOUNDARY, true, anchor);
    case 'R':
    case 'N':
    case 'O':
        o->at++;
        o->before = 0;
        return onig_put(o, c == 'R' ? NEWLINE : c == 'N' ? "[^\\x0A]" : "(?s:.)");
    default:
        break;
    }
    status = qkv_onig_code(o, from, &code, &found);
    if (status) return status;
    if (found) return onig_literal(o, from, code);
    if (o->at < o->size) o->at++;
    return onig_refuse_escape(o, from, c);
}

/* ---- repeats ----------------------------------------------------------------------------------------------------- */

/* Reads the digits of a number of repeats; without digits *value stays. Returns false if it is more than PCRE2
 * allows. */
static bool onig_count(const struct onig *o, size_t *at, size_t *value) {
    size_t n = 0;
    bool digits = false;
    for (; o->source[*at] >= '0' && o->source[*at] <= '9'; (*at)++, digits = true)
        if (n <= MAX_REPEAT) n = n * 10 + (size_t)(o->source[*at] - '0');
    if (digits) *value = n;
    return n <= MAX_REPEAT;
}

struct repeat {
    size_t low, high; /* high SIZE_MAX: no bound */
    bool fixed, in_braces;
};

/* Reads a repeat if one begins here, but not the ? or + after it. A { that begins no repeat is a character. */
static enum qkv_status onig_repeat(struct onig *o, struct repeat *r, bool *found) {
    size_t from = o->at, at = o->at + 1;
    char c = o->at < o->size ? o->source[o->at] : 0;
    *r = (struct repeat){c == '+', c == '?' ? 1 : SIZE_MAX, false, false};
    *found = c == '*' || c == '+' || c == '?';
    if (*found) o->at++;
    if (c != '{') return QKV_OK;
    *r = (struct repeat){SIZE_MAX, SIZE_MAX, false, true};
    bool good = onig_count(o, &at, &r->low);
    r->fixed = o->source[at] == '}';
    if (r->fixed) {
        r->high = r->low;
    } else if (o->source[at] == ',') {
        at++;
        good = onig_count(o, &at, &r->high) && good;
    }
    if (o->source[at] != '}' || (r->low == SIZE_MAX && r->high == SIZE_MAX)) return QKV_OK;
    *found = true;
    o->at = at + 1;
    if (!good) return qkv_onig_refuse(o, from, "more than %d repeats", MAX_REPEAT);
    if (r->low == SIZE_MAX) r->low = 0;
    return r->low > r->high ? qkv_onig_refuse(o, from, "a repeat whose bounds are swapped") : QKV_OK;
}

static enum qkv_status onig_write_repeat(struct onig *o, const struct repeat *r) {
    if (r->high == SIZE_MAX && r->low <= 1) return onig_put(o, r->low ? "+" : "*");
    if (r->high == 1 && r->low == 0) return onig_put(o, "?");
    if (r->high == SIZE_MAX) return qkv_buffer_print(o->ctx, &o->out, "{%zu,}", r->low);
    return qkv_buffer_print(o->ctx, &o->out, "{%zu,%zu}", r->low, r->high);
}

/* Writes a repeat of the output from `start` on, with the ? or + after it. Oniguruma's X{n}? is (?:X{n})?, and its
 * X{n,m}+ is (?:X{n,m})+: only * + ? have a possessive form. from: where the repeat is in the source. */
static enum qkv_status onig_repeat_one(struct onig *o, size_t start, size_t from, const struct repeat *r) {
    /* The two engines differ in when they end a repeat whose last round matched nothing. */
    if (o->may_be_empty && r->high > 1) return qkv_onig_refuse(o, from, "a repeat of what may match nothing");
    o->may_be_empty = o->may_be_empty || r->low == 0;
    enum qkv_status status = onig_write_repeat(o, r);
    const char c = o->at < o->size ? o->source[o->at] : 0;
    if (status || (c != '?' && c != '+')) return status;
    o->at++;
    o->found.atomic = o->found.atomic || (c == '+' && !r->in_braces);
    if (r->in_braces && c == '+' && o->may_be_empty)
        return qkv_onig_refuse(o, from, "a repeat of what may match nothing");
    if (r->in_braces && c == '?' && r->fixed) o->may_be_empty = true;
    if (!r->in_braces || (c == '?' && !r->fixed)) return onig_put(o, c == '?' ? "?" : "+");
    status = onig_put_before(o, start, "(?:");
    return status ? status : onig_put(o, c == '+' ? ")+" : ")?");
}

/* Writes all repeats of the output from `start` on: X{n}* is (?:X{n})*. Two of * + ? in a row are refused: Oniguruma
 * merges them by rules of its own. */
static enum qkv_status onig_repeats(struct onig *o, size_t start, bool anchor) {
    struct repeat before = {.in_braces = true}, r;
    for (bool first = true;; first = false, before = r) {
        const size_t from = o->at;
        bool found;
        enum qkv_status status = onig_repeat(o, &r, &found);
        if (status || !found) return status;
        if (anchor) return qkv_onig_refuse(o, from, "a repeat of what matches no character");
        if (!before.in_braces && !r.in_braces) return qkv_onig_refuse(o, from, "a repeat of a repeat");
        if (!first) status = onig_put_before(o, start, "(?:");
        if (!first && !status) status = onig_put(o, ")");
        if (!status) status = onig_repeat_one(o, start, from, &r);
        if (status) return status;
    }
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static enum qkv_status onig_branches(struct onig *o);

/* Reads the letters of (?im-im: and (?im-im); others are refused. */
static enum qkv_status onig_flags(struct onig *o, size_t from, bool first, bool *rest) {
    bool on = true, any = false;
    for (;; any = true) {
        char c = o->at < o->size ? o->source[o->at] : 0;
        if (o->at < o->size) qkv_onig_next(o);
        if (any && (c == ':' || c == ')')) {
            *rest = c == ')';
            if (*rest && !first)
                return qkv_onig_refuse(o, from, "an option after the beginning of its group; write (?i:\xE2\x80\xA6)");
            return QKV_OK;
        }
        if (c == '-') {
            on = false;
        } else if (c == 'i') {
            o->fold = on;
        } else if (c == 'm') {
            o->dotall = on;
        } else if (c == '~') {
            return qkv_onig_refuse(o, from, "an absent group");
        } else if (c == '#') {
            return qkv_onig_refuse(o, from, "a comment");
        } else if (c == '(' || c == '{' || c == '*') {
            return qkv_onig_refuse(o, from, "a condition or a callout");
        } else if (c == 'x') {
            return qkv_onig_refuse(o, from, "the option that skips spaces");
        } else {
            return qkv_onig_refuse(o, from, "a group of an unknown kind");
        }
    }
}

static enum qkv_status onig_name(struct onig *o, size_t from, char end) {
    size_t begin = o->at;
    for (; o->at < o->size && o->source[o->at] != end; qkv_onig_next(o)) {
        char c = o->source[o->at];
        bool good =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (o->at > begin && c >= '0' && c <= '9');
        if (!good) break;
    }
    if (o->at == begin || o->at == o->size || o->source[o->at] != end)
        return qkv_onig_refuse(o, from, "a group with a name of other than ASCII letters and digits");
    o->at++;
    return onig_put(o, "(?:");
}

/* Reads the beginning of a group, after its (. *anchor: it matches no character; *rest: it sets an option and is not a
 * group. */
static enum qkv_status onig_open(struct onig *o, size_t from, bool first, bool *anchor, bool *rest) {
    static const char *const kinds[] = {"?:", "?>", "?=", "?!", "?<=", "?<!"};
    for (size_t i = 0; i < 6; i++) {
        if (!onig_is_at(o, kinds[i])) continue;
        o->at += strlen(kinds[i]);
        *anchor = i >= 2;
        o->found.looks_back = o->found.looks_back || i >= 4;
        o->found.atomic = o->found.atomic || i == 1;
        return qkv_buffer_print(o->ctx, &o->out, "(%s", kinds[i]);
    }
    if (onig_is_at(o, "*")) {
        o->at++;
        return qkv_onig_refuse(o, from, "a callout");
    }
    if (!onig_is_at(o, "?")) return onig_put(o, "(?:");
    o->at++;
    if (onig_is_at(o, "<") || onig_is_at(o, "'")) {
        char end = o->source[o->at] == '<' ? '>' : '\'';
        o->at++;
        return onig_name(o, from, end);
    }
    enum qkv_status status = onig_flags(o, from, first, rest);
    return status || *rest ? status : onig_put(o, "(?:");
}

static enum qkv_status onig_group(struct onig *o, size_t from, bool first, bool *anchor, bool *rest) {
    bool fold = o->fold, dotall = o->dotall;
    enum qkv_status status = onig_open(o, from, first, anchor, rest);
    if (status || *rest) return status;
    if (++o->depth > MAX_DEPTH) return qkv_onig_refuse(o, from, "more than %d nested groups", MAX_DEPTH);
    status = onig_branches(o);
    if (status) return status;
    o->may_be_empty = o->may_be_empty || *anchor;
    if (o->at == o->size) return qkv_onig_refuse(o, from, "a group without its )");
    o->at++;
    o->depth--;
    o->fold = fold;
    o->dotall = dotall;
    return onig_put(o, ")");
}

/* ---- the pattern ------------------------------------------------------------------------------------------------- */

static enum qkv_status onig_atom(struct onig *o, bool first, bool *option) {
    size_t from = o->at, start = o->out.size;
    bool anchor = false, repeats;
    struct repeat r;
    *option = false;
    enum qkv_status status = onig_repeat(o, &r, &repeats);
    if (status) return status;
    if (repeats) return qkv_onig_refuse(o, from, "a repeat of nothing");
    uint32_t code = qkv_onig_next(o);
    o->may_be_empty = code == '^' || code == '$';
    if (code == '(') {
        status = onig_group(o, from, first, &anchor, option);
        if (*option) return status;
    } else if (code == '[') {
        struct onig_set set;
        status = qkv_onig_class(o, from, &set);
        if (!status) status = qkv_onig_set_write(o, &set, &o->out);
        qkv_onig_set_free(&set);
        o->before = 0;
    } else if (code == '\\') {
        status = onig_escape(o, from, &anchor);
        o->may_be_empty = anchor;
    } else if (code == '.') {
        status = onig_put(o, o->dotall ? "(?s:.)" : "[^\\x0A]");
        o->before = 0;
    } else if (code == '^' || code == '$') {
        anchor = true;
        o->found.looks_back = o->found.looks_back || code == '^';
        status = onig_put(o, code == '^' ? "^" : "$");
    } else {
        status = onig_literal(o, from, code);
    }
    if (!status && o->out.size > MAX_OUT) return qkv_onig_refuse(o, from, "where the pattern becomes too long");
    return status ? status : onig_repeats(o, start, anchor);
}

/* Reads alternatives up to the end, or to the ) of the group. */
static enum qkv_status onig_branches(struct onig *o) {
    enum qkv_status status = QKV_OK;
    bool first = true, any_empty = false, empty = true;
    while (!status && o->at < o->size && o->source[o->at] != ')') {
        if (o->source[o->at] == '|') {
            any_empty = any_empty || empty;
            empty = true;
            o->at++;
            o->before = 0;
            first = false;
            status = onig_put(o, "|");
            continue;
        }
        bool option;
        status = onig_atom(o, first, &option);
        first = first && option;
        empty = empty && (option || o->may_be_empty);
    }
    o->may_be_empty = any_empty || empty;
    return status;
}

enum qkv_status qkv_onig_translate(struct qkv_context *ctx, const char *source, struct qkv_buffer *out,
                                   struct qkv_onig *found) {
    struct onig o = {.ctx = ctx, .source = source, .size = strlen(source)};
    if (o.size > MAX_SOURCE)
        return qkv_fail(ctx, QKV_FORMAT, "the pattern has %zu bytes; at most %zu are read", o.size, MAX_SOURCE);
    enum qkv_status status = onig_branches(&o);
    if (!status && o.at < o.size) {
        o.at++;
        status = qkv_onig_refuse(&o, o.at - 1, "the end of a group that has no beginning");
    }
    *found = o.found;
    *out = o.out;
    return status;
}
