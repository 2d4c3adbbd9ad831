/* Cutting a text into pieces with a regular expression, run by PCRE2. GPT-2's is built in; a tokenizer.json may bring
 * its own. Three things need care:
 *
 * - \s is Unicode's White_Space here as in the engines the patterns were written for. PCRE2's own \s also matches
 *   U+180E, so the class is written out.
 * - A text need not be UTF-8. It is cut at bytes that are no character, and the pattern sees the valid runs between.
 * - An open text (more may follow) is matched with PCRE2_PARTIAL_HARD: a match that looked past the end is no match
 *   yet, so every piece that does come out is certain. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/text.h"

#include <stdlib.h>
#include <string.h>

#define STACK_LEAST ((size_t)64 << 10)
#define STACK_MOST  ((size_t)8 << 20)
#define SPACES      "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

const char qkv_pattern_gpt2[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct qkv_pattern {
    char *source;
    pcre2_code *code;
    bool looks_back;
};

struct qkv_splitter {
    const struct qkv_pattern *pattern;
    pcre2_match_data *match;
    pcre2_match_context *match_context;
    pcre2_jit_stack *stack;
    const char *text;
    size_t size, at;
    bool open;
    size_t run_begin, run_end;     /* the valid UTF-8 around `at` */
    size_t found_begin, found_end; /* a match waiting behind the gap before it; empty if none */
    int error;                     /* of PCRE2, when a split failed */
};

/* Copies a pattern with \s and \S written out. In a class \S stays PCRE2's own: a class has no room for a complement. */
static enum qkv_status write_spaces(struct qkv_context *ctx, const char *source, struct qkv_buffer *out) {
    bool in_class = false;
    for (const char *s = source; *s;) {
        size_t n = s[0] == '\\' && s[1] ? 2 : 1;
        const char *put = s;
        size_t put_size = n;
        if (n == 2 && s[1] == 's') {
            put = in_class ? SPACES : "[" SPACES "]";
            put_size = strlen(put);
        } else if (n == 2 && s[1] == 'S' && !in_class) {
            put = "[^" SPACES "]";
            put_size = strlen(put);
        } else if (n == 1 && *s == '[' && !in_class) {
            in_class = true; /* a ] that comes first is an ordinary character */
            put_size = n = s[1] == '^' ? (s[2] == ']' ? 3 : 2) : (s[1] == ']' ? 2 : 1);
        } else if (n == 1 && *s == ']') {
            in_class = false;
        }
        enum qkv_status status = qkv_buffer_append(ctx, out, put, put_size);
        if (status) return status;
        s += n;
    }
    return qkv_buffer_append(ctx, out, "", 0);
}

/* Whether a pattern has anything whose meaning depends on what stands before the match. Errs on the side of yes. */
static bool looks_back(const char *source) {
    bool in_class = false;
    for (const char *s = source; *s; s++) {
        if (*s == '\\' && s[1]) {
            s++;
            if (!in_class && strchr("AGbBKQ", *s)) return true;
        } else if (in_class) {
            in_class = *s != ']';
        } else if (*s == '[') {
            in_class = true;
            if (s[1] == '^') s++;
            if (s[1] == ']') s++;
        } else if (*s == '^' || strncmp(s, "(?<", 3) == 0 || strncmp(s, "(*", 2) == 0) {
            return true;
        }
    }
    return false;
}

enum qkv_status qkv_pattern_create(struct qkv_context *ctx, const char *source, struct qkv_pattern **out) {
    *out = NULL;
    struct qkv_pattern *pattern = qkv_allocate(ctx, 1, sizeof *pattern);
    struct qkv_buffer written = {0};
    enum qkv_status status = pattern ? write_spaces(ctx, source, &written) : QKV_MEMORY;
    if (!status) {
        pattern->source = qkv_copy_string(ctx, source);
        status = pattern->source ? QKV_OK : QKV_MEMORY;
    }
    if (!status) {
        int error;
        PCRE2_SIZE offset;
        pattern->looks_back = looks_back(source);
        pattern->code = pcre2_compile((PCRE2_SPTR)(written.data ? written.data : ""), written.size,
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, NULL);
        if (!pattern->code) {
            PCRE2_UCHAR why[120] = "";
            pcre2_get_error_message(error, why, sizeof why);
            status = qkv_fail(ctx, QKV_FORMAT, "the pattern \"%.200s\" is not a regular expression: %s", source,
                              (const char *)why);
        }
    }
    qkv_buffer_free(&written);
    if (status) {
        qkv_pattern_free(pattern);
        return status;
    }
    /* Where there is no just-in-time compiler, the interpreter gives the same pieces. */
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    *out = pattern;
    return QKV_OK;
}

void qkv_pattern_free(struct qkv_pattern *pattern) {
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    free(pattern->source);
    free(pattern);
}

const char *qkv_pattern_source(const struct qkv_pattern *pattern) {
    return pattern->source;
}

bool qkv_pattern_looks_back(const struct qkv_pattern *pattern) {
    return pattern->looks_back;
}

enum qkv_status qkv_splitter_create(struct qkv_context *ctx, const struct qkv_pattern *pattern,
                                    struct qkv_splitter **out) {
    *out = NULL;
    struct qkv_splitter *splitter = qkv_allocate(ctx, 1, sizeof *splitter);
    if (!splitter) return QKV_MEMORY;
    splitter->pattern = pattern;
    if (pattern) {
        splitter->match = pcre2_match_data_create(1, NULL);
        splitter->match_context = pcre2_match_context_create(NULL);
        if (!splitter->match || !splitter->match_context) {
            qkv_splitter_free(splitter);
            return qkv_fail_memory(ctx, 0, "the pattern of a tokenizer");
        }
    }
    *out = splitter;
    return QKV_OK;
}

void qkv_splitter_free(struct qkv_splitter *splitter) {
    if (!splitter) return;
    pcre2_match_data_free(splitter->match);
    pcre2_match_context_free(splitter->match_context);
    pcre2_jit_stack_free(splitter->stack);
    free(splitter);
}

void qkv_splitter_start(struct qkv_splitter *splitter, const char *text, size_t size, bool open) {
    splitter->text = text;
    splitter->size = size;
    splitter->open = open;
    splitter->at = splitter->run_begin = splitter->run_end = 0;
    splitter->found_begin = splitter->found_end = 0;
    splitter->error = 0;
}

static enum qkv_split give(struct qkv_splitter *s, size_t end, size_t *begin_out, size_t *end_out) {
    *begin_out = s->at;
    *end_out = s->at = end;
    return QKV_SPLIT_PIECE;
}

/* Matches from `at` on. Few patterns outgrow the small stack that PCRE2 starts with; those get a larger one. */
static int match(struct qkv_splitter *s, uint32_t options) {
    for (;;) {
        int rc = pcre2_match(s->pattern->code, (PCRE2_SPTR)(s->text + s->run_begin), s->run_end - s->run_begin,
                             s->at - s->run_begin, options, s->match, s->match_context);
        if (rc != PCRE2_ERROR_JIT_STACKLIMIT || s->stack) return rc;
        s->stack = pcre2_jit_stack_create(STACK_LEAST, STACK_MOST, NULL);
        if (!s->stack) return rc;
        pcre2_jit_stack_assign(s->match_context, NULL, s->stack);
    }
}

enum qkv_split qkv_splitter_next(struct qkv_splitter *s, size_t *begin, size_t *end) {
    if (s->at >= s->size) return QKV_SPLIT_END;
    if (!s->pattern) return s->open ? QKV_SPLIT_END : give(s, s->size, begin, end);
    if (s->found_end > s->at) return give(s, s->found_end, begin, end);
    if (s->at >= s->run_end) {
        s->run_begin = s->at;
        s->run_end = s->at + qkv_utf8_valid(s->text + s->at, s->size - s->at);
        if (s->run_end == s->at) return give(s, s->at + 1, begin, end);
    }
    bool hard = s->open && s->run_end == s->size;
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | (hard ? PCRE2_PARTIAL_HARD : 0);
    int rc = match(s, options);
    if (hard && (rc == PCRE2_ERROR_PARTIAL || rc == PCRE2_ERROR_NOMATCH)) return QKV_SPLIT_END;
    if (rc == PCRE2_ERROR_NOMATCH) return give(s, s->run_end, begin, end);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->match);
    if (rc < 0 || span[0] >= span[1] || s->run_begin + span[0] < s->at) {
        s->error = rc < 0 ? rc : PCRE2_ERROR_INTERNAL;
        return QKV_SPLIT_FAILED;
    }
    s->found_begin = s->run_begin + span[0];
    s->found_end = s->run_begin + span[1];
    return give(s, s->found_begin > s->at ? s->found_begin : s->found_end, begin, end);
}

enum qkv_status qkv_splitter_fail(struct qkv_context *ctx, const struct qkv_splitter *splitter) {
    PCRE2_UCHAR why[120] = "";
    pcre2_get_error_message(splitter->error, why, sizeof why);
    return qkv_fail(ctx, QKV_FORMAT, "tokenizer: the pattern \"%.200s\" gave up at byte %zu of the text: %s",
                    splitter->pattern->source, splitter->at, (const char *)why);
}
