/* Cuts a text into pieces with a regular expression of PCRE2. GPT-2's is built in; a tokenizer.json may have its own.
 * Four things need care:
 *
 * - Patterns are written for Oniguruma: onig.c translates them.
 * - A pattern may match nothing. Matches are then those of the onig crate, at which the tokenizers package cuts.
 * - A text need not be UTF-8. It is cut at bytes that are not characters, and the pattern sees the valid runs between
 *   them.
 * - An open text (more may follow) is matched with PCRE2_PARTIAL_HARD: a match that reached the end of the text
 *   does not count yet, so every piece that is returned is final. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/text.h"

#include <stdlib.h>
#include <string.h>

#define STACK_MIN ((size_t)64 << 10)
#define STACK_MAX ((size_t)8 << 20)
#define SPACES    "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

const char qkv_pattern_gpt2[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const char qkv_pattern_words[] = "\\s+|\\S+";

/* Patterns of runs of one class that look no further than one character after a run, and whose pieces contain nothing
 * but white space after a newline: GPT-2's in two spellings, words, Llama 3's, Qwen 2's. */
#define PATTERN_LATER(digits)                                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const char *const local_patterns[] = {
    qkv_pattern_gpt2, qkv_pattern_words,
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", PATTERN_LATER("\\p{N}{1,3}"),
    PATTERN_LATER("\\p{N}")};

struct qkv_pattern {
    char *source;
    pcre2_code *code;
    bool looks_back, may_be_empty;
};

struct qkv_splitter {
    const struct qkv_pattern *pattern;
    pcre2_match_data *match;
    pcre2_match_context *match_context;
    pcre2_jit_stack *stack;
    const char *text;
    size_t size, at;
    bool open;
    size_t search;                 /* where to look for the next match, if matches may be empty */
    size_t last_end;               /* end of the last match; SIZE_MAX: none */
    size_t run_begin, run_end;     /* the valid UTF-8 around `at` */
    size_t found_begin, found_end; /* a match that is returned after the gap before it; empty: none */
    int error;                     /* PCRE2's, when a split failed */
};

/* atomic: PCRE2's just-in-time compiler (10.42) skips a repeat at the beginning of a match where it has failed before;
 * then an atomic group takes its next alternative. Without start optimizations it does not. */
static enum qkv_status pattern_compile(struct qkv_context *ctx, struct qkv_pattern *pattern,
                                       const struct qkv_buffer *written, bool atomic) {
    pcre2_compile_context *compile = pcre2_compile_context_create(NULL);
    if (!compile) return qkv_fail_memory(ctx, 0, "the pattern of a tokenizer");
    int error;
    PCRE2_SIZE offset;
    uint32_t empty = 0, options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    if (atomic) options |= PCRE2_NO_START_OPTIMIZE;
    pcre2_set_newline(compile, PCRE2_NEWLINE_LF);
    pattern->code = pcre2_compile((PCRE2_SPTR)(written->data ? written->data : ""), written->size, options, &error,
                                  &offset, compile);
    pcre2_compile_context_free(compile);
    if (!pattern->code) {
        PCRE2_UCHAR why[120] = "";
        pcre2_get_error_message(error, why, sizeof why);
        return qkv_fail(ctx, QKV_FORMAT, "the pattern \"%.200s\" is not a regular expression: %s", pattern->source,
                        (const char *)why);
    }
    pcre2_pattern_info(pattern->code, PCRE2_INFO_MATCHEMPTY, &empty);
    pattern->may_be_empty = empty != 0;
    pattern->looks_back =
        pattern->looks_back || pattern->may_be_empty; /* the matches before decide which empty matches count */
    /* Without a just-in-time compiler, the interpreter finds the same pieces. */
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    return QKV_OK;
}

enum qkv_status qkv_pattern_create(struct qkv_context *ctx, const char *source, struct qkv_pattern **out) {
    *out = NULL;
    struct qkv_pattern *pattern = qkv_allocate(ctx, 1, sizeof *pattern);
    if (!pattern) return QKV_MEMORY;
    struct qkv_buffer written = {0};
    pattern->source = qkv_copy_string(ctx, source);
    enum qkv_status status = pattern->source ? QKV_OK : QKV_MEMORY;
    struct qkv_onig found = {0};
    if (!status) status = qkv_onig_translate(ctx, source, &written, &found);
    pattern->looks_back = found.looks_back;
    if (!status) status = pattern_compile(ctx, pattern, &written, found.atomic);
    qkv_buffer_free(&written);
    if (status) {
        qkv_pattern_free(pattern);
        return status;
    }
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

bool qkv_pattern_is_local(const struct qkv_pattern *pattern) {
    for (size_t i = 0; i < sizeof local_patterns / sizeof *local_patterns; i++)
        if (!strcmp(pattern->source, local_patterns[i])) return true;
    return false;
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
    splitter->at = splitter->search = splitter->run_begin = splitter->run_end = 0;
    splitter->last_end = SIZE_MAX;
    splitter->found_begin = splitter->found_end = 0;
    splitter->error = 0;
}

static enum qkv_split pattern_give(struct qkv_splitter *s, size_t end, size_t *begin_out, size_t *end_out) {
    *begin_out = s->at;
    *end_out = s->at = end;
    return QKV_SPLIT_PIECE;
}

/* Matches from a place on. Few patterns need more than PCRE2's small initial stack; they get a larger one. */
static int pattern_match(struct qkv_splitter *s, size_t from, uint32_t options) {
    for (;;) {
        int rc = pcre2_match(s->pattern->code, (PCRE2_SPTR)(s->text + s->run_begin), s->run_end - s->run_begin,
                             from - s->run_begin, options, s->match, s->match_context);
        if (rc != PCRE2_ERROR_JIT_STACKLIMIT || s->stack) return rc;
        s->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL);
        if (!s->stack) return rc;
        pcre2_jit_stack_assign(s->match_context, NULL, s->stack);
    }
}

/* Finds the next match. An empty match counts unless it begins where the match before has ended. */
static int match_next(struct qkv_splitter *s, uint32_t options, size_t *begin, size_t *end) {
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->match);
    for (;;) {
        if (s->search > s->run_end) return PCRE2_ERROR_NOMATCH;
        int rc = pattern_match(s, s->search, options);
        if (rc < 0) return rc;
        *begin = s->run_begin + span[0];
        *end = s->run_begin + span[1];
        if (*begin > *end || *begin < s->search) return PCRE2_ERROR_INTERNAL;
        s->search = *end;
        if (*begin < *end || *end != s->last_end) {
            s->last_end = *end;
            return rc;
        }
        uint32_t code;
        int length = qkv_utf8_scan(s->text + *end, s->run_end - *end, &code);
        s->search += length > 0 ? (size_t)length : 1;
    }
}

enum qkv_split qkv_splitter_next(struct qkv_splitter *s, size_t *begin, size_t *end) {
    for (;;) {
        if (s->at >= s->size) return QKV_SPLIT_END;
        if (!s->pattern) return s->open ? QKV_SPLIT_END : pattern_give(s, s->size, begin, end);
        if (s->found_end > s->at) return pattern_give(s, s->found_end, begin, end);
        if (s->at >= s->run_end) {
            s->run_begin = s->search = s->at;
            s->last_end = SIZE_MAX;
            s->run_end = s->at + qkv_utf8_valid(s->text + s->at, s->size - s->at);
            if (s->run_end == s->at) return pattern_give(s, s->at + 1, begin, end);
        }
        bool hard = s->open && s->run_end == s->size;
        size_t from = 0, to = 0;
        int rc = match_next(s, PCRE2_NO_UTF_CHECK | (hard ? PCRE2_PARTIAL_HARD : 0), &from, &to);
        if (hard && (rc == PCRE2_ERROR_PARTIAL || rc == PCRE2_ERROR_NOMATCH)) return QKV_SPLIT_END;
        if (rc == PCRE2_ERROR_NOMATCH) return pattern_give(s, s->run_end, begin, end);
        if (rc < 0) {
            s->error = rc;
            return QKV_SPLIT_FAILED;
        }
        s->found_begin = from;
        s->found_end = to;
        if (from > s->at) return pattern_give(s, from, begin, end);
        if (to > s->at) return pattern_give(s, to, begin, end);
    }
}

bool qkv_splitter_matched(const struct qkv_splitter *s) {
    return s->at == s->found_end && s->found_end > s->found_begin;
}

enum qkv_status qkv_splitter_fail(struct qkv_context *ctx, const struct qkv_splitter *splitter) {
    PCRE2_UCHAR why[120] = "";
    pcre2_get_error_message(splitter->error, why, sizeof why);
    return qkv_fail(ctx, QKV_FORMAT, "tokenizer: the pattern \"%.200s\" gave up at byte %zu of the text: %s",
                    splitter->pattern->source, splitter->at, (const char *)why);
}
