/* onig: patterns of tokenizer.json, which are written for Oniguruma, as patterns of PCRE2 with the same matches.
 *
 * Hugging Face tokenizers compiles a Split pattern with Oniguruma 6.9 and its own syntax (not Ruby's, not Perl's). What is
 * known here to mean the same, or can be written so that it does, is translated; everything else is refused by name. Shared
 * by onig.c (the pattern), onig_class.c (sets of characters) and onig_read.c (characters). */
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
    bool may_be_empty; /* what was read last */
    int depth, nest;   /* of groups, of classes in classes */
    bool in_opposite;  /* in a class that begins with [^ */
    int opposites;     /* of these, how many are around this place */
    size_t wide;       /* sets met that may have all but a few characters */
    uint32_t before;   /* the literal before this place where case is ignored, in lower case; 0 if none */
};

/* A set of characters: the inside of a class of PCRE2 (without the brackets), or an expression that matches one character. */
struct onig_set {
    struct qkv_buffer text;
    bool expression, negated;
};
void qkv_onig_set_free(struct onig_set *set);
/* Appends a set as an expression that a repeat may follow. */
enum qkv_status qkv_onig_set_write(struct onig *o, const struct onig_set *set, struct qkv_buffer *out);

/* Refuses what begins at the byte `from` of the pattern and ends where reading is: what it is, and what it would do. */
enum qkv_status qkv_onig_refuse(struct onig *o, size_t from, const char *why, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads the character at the place where reading is. */
uint32_t qkv_onig_next(struct onig *o);
/* Reads what stands after a backslash where it is a character (\n, \x41, \., …); *found says whether it was one. */
enum qkv_status qkv_onig_code(struct onig *o, size_t from, uint32_t *code, bool *found);
/* Reads \s, \w, \d, \h, \p{…} and their opposites, after the backslash; *found says whether it was one. */
enum qkv_status qkv_onig_shorthand(struct onig *o, size_t from, bool in_class, struct onig_set *set, bool *found);
/* Reads a class, after its [. */
enum qkv_status qkv_onig_class(struct onig *o, size_t from, struct onig_set *set);
/* Whether a character that is no ASCII letter has only itself as its case: what case folding means for others is not told. */
bool qkv_onig_caseless(uint32_t code);

#endif
