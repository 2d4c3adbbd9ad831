/* Sets of characters in Oniguruma's syntax, written for PCRE2: \w and the like, \p{…}, [:alpha:], and classes, which
 * may contain classes and intersections (&&).
 *
 * A class that PCRE2 cannot express becomes an expression: a union is a list of alternatives, A && B is (?=A)B, and the
 * complement of A is (?!A) and any character. Each matches exactly one character, so the whole matches as the class
 * does.
 *
 * Where case is ignored, Oniguruma closes the finished class under case. This file does that for ASCII letters, and for
 * sets known to be closed; other sets are refused. */
#include "text/onig.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define SPACES "\\x09-\\x0D\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define NO_SPACES                                                                                                      \
    "\\x00-\\x08\\x0E-\\x1F\\x21-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}"        \
    "\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"
#define WORD     "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define ANY      "(?s:.)"
#define MAX_NEST 20

enum folding { FOLD_CLOSED, FOLD_LETTERS, FOLD_OPEN, FOLD_WIDE /* open, and nearly all characters */ };
struct named {
    const char *name, *items;
    bool negated;
    enum folding folding;
};

/* [:name:]. The names of \p{…} that are not general categories are the same, except punct. */
static const struct named posix[] = {
    {"alnum", "\\p{Alphabetic}\\p{Nd}", false, FOLD_OPEN},
    {"alpha", "\\p{Alphabetic}", false, FOLD_OPEN},
    {"ascii", "\\x00-\\x7F", false, FOLD_OPEN},
    {"blank", "\\x09\\p{Zs}", false, FOLD_CLOSED},
    {"cntrl", "\\p{Cc}", false, FOLD_CLOSED},
    {"digit", "\\p{Nd}", false, FOLD_CLOSED},
    {"graph", "\\p{Z}\\p{Cc}\\p{Cn}\\p{Cs}", true, FOLD_OPEN},
    {"lower", "\\p{Lowercase}", false, FOLD_OPEN},
    {"print", "\\p{Zl}\\p{Zp}\\p{Cc}\\p{Cn}\\p{Cs}", true, FOLD_OPEN},
    {"punct", "\\p{P}\\p{S}", false, FOLD_CLOSED},
    {"space", SPACES, false, FOLD_CLOSED},
    {"upper", "\\p{Uppercase}", false, FOLD_OPEN},
    {"word", WORD, false, FOLD_OPEN},
    {"xdigit", "0-9A-Fa-f", false, FOLD_CLOSED},
};

/* The general categories: short and long names as Oniguruma reads them, and PCRE2's. */
static const struct {
    const char *name, *category;
} categories[] = {
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"letter", "L"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"lowercaseletter", "Ll"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"titlecaseletter", "Lt"},
    {"uppercaseletter", "Lu"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"closepunctuation", "Pe"},
    {"finalpunctuation", "Pf"},
    {"initialpunctuation", "Pi"},
    {"otherpunctuation", "Po"},
    {"openpunctuation", "Ps"},
    {"symbol", "S"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"mathsymbol", "Sm"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"spaceseparator", "Zs"},
};

static const struct named *find_posix(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof posix / sizeof posix[0]; i++)
        if (strlen(posix[i].name) == size && memcmp(posix[i].name, name, size) == 0) return &posix[i];
    return NULL;
}

/* PCRE2's name of a general category; NULL: it is not one. `name` is in lower case. */
static const char *find_category(const char *name, char shorter[3]) {
    static const char known[] =
        " c cc cf cn co l ll lm lo lt lu m mc me mn n nd nl no p pc pd pe pf pi po ps s sc sk sm "
        "so z zl zp zs ";
    char word[64];
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        if (strcmp(categories[i].name, name) == 0) return categories[i].category;
    if (strlen(name) > 2) return NULL;
    snprintf(word, sizeof word, " %s ", name);
    if (!strstr(known, word)) return NULL;
    shorter[0] = (char)(name[0] - 'a' + 'A');
    shorter[1] = name[1];
    shorter[2] = 0;
    return shorter;
}

/* ---- sets -------------------------------------------------------------------------------------------------------- */

void qkv_onig_set_free(struct onig_set *set) {
    qkv_buffer_free(&set->text);
    *set = (struct onig_set){0};
}

enum qkv_status qkv_onig_set_write(struct onig *o, const struct onig_set *set, struct qkv_buffer *out) {
    const char *text = set->text.size ? set->text.data : "";
    if (set->expression) return qkv_buffer_print(o->ctx, out, "%s", text);
    return qkv_buffer_print(o->ctx, out, set->negated ? "[^%s]" : "[%s]", text);
}

static enum qkv_status set_name(struct onig *o, struct onig_set *set, const char *items, bool negated) {
    set->negated = negated;
    return qkv_buffer_append(o->ctx, &set->text, items, strlen(items));
}

/* A named set, where case may be ignored. Outside classes Oniguruma does not close such a set. */
static enum qkv_status set_folded(struct onig *o, size_t from, bool in_class, const struct named *named, bool opposite,
                                  struct onig_set *set) {
    bool negated = named->negated != opposite;
    o->wide += negated || named->folding == FOLD_WIDE;
    bool closed = named->folding == FOLD_CLOSED || (named->folding == FOLD_LETTERS && o->in_opposite);
    if (o->fold && in_class && (negated || !closed)) return qkv_onig_refuse(o, from, "in a class that ignores case");
    enum qkv_status status = set_name(o, set, named->items, negated);
    if (!status && o->fold && in_class && named->folding == FOLD_LETTERS)
        status = qkv_buffer_print(o->ctx, &set->text, "\\x{345}"); /* a mark whose upper case is a letter */
    return status;
}

/* Reads the name in \p{…}; case, spaces, - and _ are ignored. *negated: it begins with ^. */
static enum qkv_status read_name(struct onig *o, size_t from, char *name, size_t capacity, bool *negated) {
    size_t n = 0;
    if (o->at == o->size || o->source[o->at] != '{')
        return qkv_onig_refuse(o, from, "without {, which is not a property");
    o->at++;
    *negated = o->at < o->size && o->source[o->at] == '^';
    if (*negated) o->at++;
    while (o->at < o->size && o->source[o->at] != '}') {
        char c = o->source[o->at++];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != ' ' && c != '-' && c != '_')
            return qkv_onig_refuse(o, from, "which is not a known property");
        if (letter && n + 1 < capacity) name[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    name[n] = 0;
    if (o->at == o->size || n == 0 || n + 1 == capacity)
        return qkv_onig_refuse(o, from, "which is not a known property");
    o->at++;
    return QKV_OK;
}

static enum qkv_status read_property(struct onig *o, size_t from, bool in_class, bool opposite, struct onig_set *set) {
    char name[48], shorter[3], items[80];
    bool negated = false;
    enum qkv_status status = read_name(o, from, name, sizeof name, &negated);
    if (status) return status;
    opposite = opposite != negated;
    const char *category = find_category(name, shorter);
    if (category) {
        bool letters = strcmp(category, "L") == 0;
        bool closed = strchr("NPZ", category[0]) || strcmp(category, "S") == 0 || strcmp(category, "So") == 0;
        snprintf(items, sizeof items, "\\p{%s}", category);
        struct named named = {name, items, false, closed ? FOLD_CLOSED : letters ? FOLD_LETTERS : FOLD_OPEN};
        return set_folded(o, from, in_class, &named, opposite, set);
    }
    if (strcmp(name, "any") == 0) {
        struct named named = {name, "\\x{0}-\\x{10FFFF}", false, FOLD_WIDE};
        return set_folded(o, from, in_class, &named, opposite, set);
    }
    const char *same = strcmp(name, "alphabetic") == 0   ? "alpha"
                       : strcmp(name, "lowercase") == 0  ? "lower"
                       : strcmp(name, "uppercase") == 0  ? "upper"
                       : strcmp(name, "whitespace") == 0 ? "space"
                                                         : name;
    const struct named *known = find_posix(same, strlen(same));
    if (known && strcmp(name, "word") == 0 && !in_class) {
        struct named word = {name, WORD "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}", false, FOLD_OPEN};
        return set_folded(o, from, in_class, &word, opposite, set);
    }
    if (known) return set_folded(o, from, in_class, known, opposite, set);
    snprintf(items, sizeof items, "\\p{sc:%s}", name); /* a script; PCRE2 refuses unknown ones */
    struct named script = {name, items, false, FOLD_OPEN};
    return set_folded(o, from, in_class, &script, opposite, set);
}

enum qkv_status qkv_onig_shorthand(struct onig *o, size_t from, bool in_class, struct onig_set *set, bool *found) {
    /* Outside classes \w also matches the superscript digits and the fractions of Latin-1. */
    static const struct named word = {"w", WORD "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}", false, FOLD_OPEN};
    static const struct named no_spaces = {"S", NO_SPACES, false, FOLD_WIDE};
    char c = o->at < o->size ? o->source[o->at] : 0;
    *found = c && strchr("wWdDsShHpP", c);
    if (!*found) return QKV_OK;
    o->at++;
    bool opposite = c >= 'A' && c <= 'Z';
    switch (c) {
    case 'p':
    case 'P':
        return read_property(o, from, in_class, opposite, set);
    case 'S':
        return set_folded(o, from, in_class, &no_spaces, false, set);
    case 'w':
    case 'W':
        return set_folded(o, from, in_class, in_class ? find_posix("word", 4) : &word, opposite, set);
    case 'd':
    case 'D':
        return set_folded(o, from, in_class, find_posix("digit", 5), opposite, set);
    case 'h':
    case 'H':
        return set_folded(o, from, in_class, find_posix("xdigit", 6), opposite, set);
    default:
        return set_folded(o, from, in_class, find_posix("space", 5), false, set);
    }
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

struct operand { /* of &&: the items since the [ or the last && */
    struct qkv_buffer items, others;
    size_t count;
};

static enum qkv_status write_range(struct onig *o, uint32_t low, uint32_t high, struct qkv_buffer *out) {
    if (low > high) return QKV_OK;
    return qkv_buffer_print(o->ctx, out, low < high ? "\\x{%X}-\\x{%X}" : "\\x{%X}", (unsigned)low, (unsigned)high);
}

static uint32_t onig_class_smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}
static uint32_t onig_class_larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* Adds a range of characters; where case is ignored, also their other cases. */
static enum qkv_status add_range(struct onig *o, size_t from, uint32_t low, uint32_t high, struct operand *to) {
    to->count++;
    o->wide += high > 0xFFFF;
    enum qkv_status status = write_range(o, low, high, &to->items);
    if (status || !o->fold) return status;
    if (high >= 0x80) {
        if (low == high && qkv_onig_caseless(low)) return QKV_OK;
        return qkv_onig_refuse(o, from, "in a class that ignores case");
    }
    uint32_t upper = onig_class_larger(low, 'A'), upper_end = onig_class_smaller(high, 'Z'),
             lower = onig_class_larger(low, 'a'), lower_end = onig_class_smaller(high, 'z');
    if (upper <= upper_end) status = write_range(o, upper + 32, upper_end + 32, &to->items);
    if (!status && lower <= lower_end) status = write_range(o, lower - 32, lower_end - 32, &to->items);
    bool k = (low <= 'K' && high >= 'K') || (low <= 'k' && high >= 'k');
    bool s = (low <= 'S' && high >= 'S') || (low <= 's' && high >= 's');
    if (!status && k) status = write_range(o, 0x212A, 0x212A, &to->items);
    if (!status && s) status = write_range(o, 0x17F, 0x17F, &to->items);
    return status;
}

/* Adds a set to the union and frees it. */
static enum qkv_status add_set(struct onig *o, struct onig_set *set, struct operand *to) {
    enum qkv_status status = QKV_OK;
    to->count++;
    if (!set->expression && !set->negated) {
        status = qkv_buffer_append(o->ctx, &to->items, set->text.data ? set->text.data : "", set->text.size);
    } else {
        status = qkv_buffer_append(o->ctx, &to->others, "|", to->others.size ? 1 : 0);
        if (!status) status = qkv_onig_set_write(o, set, &to->others);
    }
    qkv_onig_set_free(set);
    return status;
}

/* The union as a set; empties the operand. */
static enum qkv_status operand_set(struct onig *o, struct operand *from, struct onig_set *set) {
    enum qkv_status status = QKV_OK;
    *set = (struct onig_set){0};
    if (from->others.size == 0) {
        set->text = from->items;
        from->items = (struct qkv_buffer){0};
    } else {
        set->expression = true;
        status = qkv_buffer_print(o->ctx, &set->text, "(?:");
        if (!status && from->items.size) status = qkv_buffer_print(o->ctx, &set->text, "[%s]|", from->items.data);
        if (!status) status = qkv_buffer_print(o->ctx, &set->text, "%s)", from->others.data);
    }
    from->items.size = from->others.size = from->count = 0;
    return status;
}

static enum qkv_status read_posix(struct onig *o, size_t from, struct operand *to) {
    const char *name = o->source + o->at + 1, *end = strstr(name, ":]");
    bool opposite = *name == '^';
    if (opposite) name++;
    const struct named *named = end && end > name ? find_posix(name, (size_t)(end - name)) : NULL;
    if (end) o->at = (size_t)(end - o->source) + 2;
    if (!named) return qkv_onig_refuse(o, from, "which is not a known POSIX class");
    struct onig_set set = {0};
    enum qkv_status status = set_folded(o, from, true, named, opposite, &set);
    if (!status) return add_set(o, &set, to);
    qkv_onig_set_free(&set);
    return status;
}

static enum qkv_status read_inner(struct onig *o, size_t from, struct operand *to) {
    if (o->at < o->size && o->source[o->at] == ':') return read_posix(o, from, to);
    if (o->fold && o->at < o->size && o->source[o->at] == '^')
        return qkv_onig_refuse(o, from, "a negated class in a class that ignores case");
    struct onig_set set = {0};
    enum qkv_status status = qkv_onig_class(o, from, &set);
    if (!status && o->fold && (set.expression || set.negated))
        status = qkv_onig_refuse(o, from, "a class in a class that ignores case");
    if (!status) return add_set(o, &set, to);
    qkv_onig_set_free(&set);
    return status;
}

/* Reads a single character of a class, maybe after a backslash. *found false: a set was added instead. */
static enum qkv_status read_member(struct onig *o, struct operand *to, uint32_t *code, bool *found) {
    size_t from = o->at;
    *found = true;
    *code = qkv_onig_next(o);
    if (*code != '\\') return QKV_OK;
    struct onig_set set = {0};
    bool shorthand;
    enum qkv_status status = qkv_onig_shorthand(o, from, true, &set, &shorthand);
    if (!status && shorthand) {
        *found = false;
        return add_set(o, &set, to);
    }
    qkv_onig_set_free(&set);
    if (status) return status;
    if (o->at < o->size && o->source[o->at] == 'b') {
        o->at++;
        *code = '\b';
        return QKV_OK;
    }
    status = qkv_onig_code(o, from, code, found);
    if (status || *found) return status;
    if (o->at < o->size) qkv_onig_next(o);
    return qkv_onig_refuse(o, from, "in a class");
}

static bool is_at(const struct onig *o, const char *text) {
    return strncmp(o->source + o->at, text, strlen(text)) == 0;
}

static enum qkv_status read_item(struct onig *o, struct operand *to, bool first) {
    size_t from = o->at;
    uint32_t low, high;
    bool found;
    if (is_at(o, "[")) {
        o->at++;
        return read_inner(o, from, to);
    }
    bool dash = is_at(o, "-"), edge = (first && !is_at(o, "--")) || is_at(o, "-]");
    enum qkv_status status = read_member(o, to, &low, &found);
    if (status || !found) return status;
    if (dash && !edge)
        return qkv_onig_refuse(o, from, "a - that is neither between two characters nor at an end; write \\-");
    if (!is_at(o, "-") || is_at(o, "-]")) return add_range(o, from, low, low, to);
    o->at++;
    if (is_at(o, "[") || is_at(o, "&&") || o->at == o->size) return qkv_onig_refuse(o, from, "a range without an end");
    size_t count = to->count;
    status = read_member(o, to, &high, &found);
    if (status) return status;
    if (!found || to->count != count) return qkv_onig_refuse(o, from, "a range that ends in a class");
    if (low > high) return qkv_onig_refuse(o, from, "a range whose end comes before its begin");
    return add_range(o, from, low, high, to);
}

/* Ends an operand of &&: writes (?=operand) for all but the last one. */
static enum qkv_status end_operand(struct onig *o, size_t from, struct operand *to, bool last, struct qkv_buffer *out) {
    struct onig_set set;
    if (to->count == 0) return qkv_onig_refuse(o, from, "a class with nothing next to &&");
    enum qkv_status status = operand_set(o, to, &set);
    if (!status && !last) status = qkv_buffer_print(o->ctx, out, "(?=");
    if (!status) status = qkv_onig_set_write(o, &set, out);
    if (!status && !last) status = qkv_buffer_print(o->ctx, out, ")");
    qkv_onig_set_free(&set);
    return status;
}

static enum qkv_status read_items(struct onig *o, size_t from, struct operand *to, struct qkv_buffer *both) {
    enum qkv_status status = QKV_OK;
    for (bool first = true; !status; first = false) {
        if (o->at == o->size) return qkv_onig_refuse(o, from, "a class without its ]");
        if (is_at(o, "]") && !first) {
            o->at++;
            return QKV_OK;
        }
        if (!is_at(o, "&&")) {
            status = read_item(o, to, first);
            continue;
        }
        o->at += 2;
        if (o->fold) return qkv_onig_refuse(o, from, "an intersection in a class that ignores case");
        status = end_operand(o, from, to, false, both);
    }
    return status;
}

/* Writes the union, the intersection, or the complement. */
static enum qkv_status finish_class(struct onig *o, size_t from, bool negated, struct operand *last,
                                    struct qkv_buffer *both, struct onig_set *set) {
    if (both->size == 0) {
        if (last->count == 0) return qkv_onig_refuse(o, from, "an empty class");
        enum qkv_status status = operand_set(o, last, set);
        if (status || !negated) return status;
        if (!set->expression) {
            set->negated = true;
            return QKV_OK;
        }
        struct qkv_buffer inner = set->text;
        set->text = (struct qkv_buffer){0};
        status = qkv_buffer_print(o->ctx, &set->text, "(?:(?!%s)" ANY ")", inner.data);
        qkv_buffer_free(&inner);
        return status;
    }
    enum qkv_status status = end_operand(o, from, last, true, both);
    set->expression = true;
    if (status) return status;
    return qkv_buffer_print(o->ctx, &set->text, negated ? "(?:(?!%s)" ANY ")" : "(?:%s)", both->data);
}

enum qkv_status qkv_onig_class(struct onig *o, size_t from, struct onig_set *set) {
    struct operand operand = {0};
    struct qkv_buffer both = {0};
    *set = (struct onig_set){0};
    if (++o->nest > MAX_NEST) return qkv_onig_refuse(o, from, "more than %d nested classes", MAX_NEST);
    bool negated = is_at(o, "^");
    if (negated) o->at++;
    if (o->nest == 1) o->in_opposite = negated;
    size_t wide = o->wide;
    o->opposites += negated;
    enum qkv_status status = read_items(o, from, &operand, &both);
    if (!status) status = finish_class(o, from, negated, &operand, &both, set);
    o->nest--;
    o->opposites -= negated;
    /* Oniguruma reads an empty [^…] in another [^…] as all characters beyond ASCII. */
    if (!status && negated && o->opposites && o->wide != wide)
        status = qkv_onig_refuse(o, from, "a negated class in another one, which may be empty");
    o->wide += negated;
    qkv_buffer_free(&operand.items);
    qkv_buffer_free(&operand.others);
    qkv_buffer_free(&both);
    return status;
}

bool qkv_onig_caseless(uint32_t code) {
    utf8proc_int32_t c = (utf8proc_int32_t)code;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NO:
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_ZS:
        return utf8proc_tolower(c) == c && utf8proc_toupper(c) == c;
    default:
        return false;
    }
}
