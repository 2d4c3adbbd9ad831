/* onig: patterns of tokenizer.json, which are written for Oniguruma, as patterns of PCRE2 with the same matches.
 *
 * Hugging Face tokenizers compiles a Split pattern with Oniguruma 6.9 and a syntax of its own (not Ruby's, not Perl's).
 * Constructs that mean the same in PCRE2, or that can be rewritten to, are translated; all others are refused by name.
 * For onig.c (the pattern), onig_class.c (sets of characters) and onig_read.c (characters). */
#ifndef QKV_TEXT_ONIG_H
#define QKV_TEXT_ONIG_H

#include "text/text.h"

struct onig {
    struct qkv_context *ctx;
    const char *source;
    size_t size, at;
    struct qkv_buffer out;
    bool fold, dotall; /* (?i), (?m) */
    struct qkv_onig found;
    bool may_be_empty; /* the item that was read last may match nothing */
    int depth, nest;   /* of groups; of classes in classes */
    bool in_opposite;  /* inside a class that begins with [^ */
    int opposites;     /* the number of such classes around this place */
    size_t wide;       /* the number of sets so far that may have nearly all characters */
    uint32_t before;   /* where case is ignored: the literal before this place, in lower case; 0: none */
};

/* A set of characters: the inside of a class of PCRE2 (without the brackets), or an expression that matches one
 * character. */
struct onig_set {
    struct qkv_buffer text;
    bool expression, negated;
};
void qkv_onig_set_free(struct onig_set *set);
/* Appends a set as an expression that may be repeated. */
enum qkv_status qkv_onig_set_write(struct onig *o, const struct onig_set *set, struct qkv_buffer *out);

/* Fails with the construct from byte `from` of the pattern to the current place; why: what is wrong with it. */
enum qkv_status qkv_onig_refuse(struct onig *o, size_t from, const char *why, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads the next character. */
uint32_t qkv_onig_next(struct onig *o);
/* Reads a character after a backslash (\n, \x41, \., …); *found: whether it was one. */
enum qkv_status qkv_onig_code(struct onig *o, size_t from, uint32_t *code, bool *found);
/* Reads \s, \w, \d, \h, \p{…} or their opposites after the backslash; *found: whether it was one. */
enum qkv_status qkv_onig_shorthand(struct onig *o, size_t from, bool in_class, struct onig_set *set, bool *found);
/* Reads a class, after its [. */
enum qkv_status qkv_onig_class(struct onig *o, size_t from, struct onig_set *set);
/* Whether a character other than an ASCII letter has no other case: case folding of all others is refused. */
bool qkv_onig_caseless(uint32_t code);

#endif
