/* metric: how good an output is: BLEU, chrF, edit distance, and what a confusion matrix says.
 *
 * Offers what include/qkv.h declares under "metrics"; here is the rest for its neighbours, and what its files share. Sees base
 * and text only: a metric knows nothing of models. */
#ifndef QKV_METRIC_H
#define QKV_METRIC_H

#include "base/base.h"
#include "text/text.h"

/* ---- confusion.c: rows are the labels, columns the predictions, (classes,classes) ------------------------------------ */

double qkv_accuracy(const size_t *confusion, size_t classes);
/* The mean of F1 = 2·hits / (labels + predictions) over the classes that occur among either. */
double qkv_macro_f1(const size_t *confusion, size_t classes);

/* ---- characters.c: texts as the characters that Python's str would hold ------------------------------------------------ */

struct qkv_characters { /* start it with {0} */
    uint32_t *at;
    size_t count, capacity;
};
enum qkv_status qkv_characters_append(struct qkv_context *ctx, struct qkv_characters *c, const uint32_t *codes,
                                      size_t count);
/* Replaces what is there by a text; a byte that is no UTF-8 becomes U+DC00 + byte, different from every character. */
enum qkv_status qkv_characters_set(struct qkv_context *ctx, struct qkv_characters *c, const char *text);
void qkv_characters_free(struct qkv_characters *c);
/* What str.split cuts at: Unicode's white space and U+001C to U+001F. */
bool qkv_is_space(uint32_t code);

/* ---- tokenize_13a.c ------------------------------------------------------------------------------------------------------ */

/* Tokens of a text, each as its number in `names`, which grows by new ones. Scratch is used again and again; all start
 * with {0}. */
struct qkv_13a {
    struct qkv_strings names;
    struct qkv_characters tokens;     /* the numbers */
    struct qkv_characters from, into; /* scratch */
};
enum qkv_status qkv_13a_tokenize(struct qkv_context *ctx, struct qkv_13a *t, const char *text);
void qkv_13a_free(struct qkv_13a *t);

/* ---- grams.c: n-grams of a hypothesis that a reference has too ------------------------------------------------------------- */

enum { QKV_GRAM_MOST = 6 };
struct qkv_gram {
    size_t own, here, most; /* times in the hypothesis, in this reference, the most in any */
    size_t reference;       /* that `here` is about */
};
struct qkv_grams { /* start it with {0} */
    size_t order;  /* 1 … order, at most QKV_GRAM_MOST; set by the caller */
    struct qkv_strings keys;
    struct qkv_gram *list; /* beside keys.entries */
    size_t capacity, references;
};
/* Takes the n-grams of the next hypothesis, for which no reference came yet. */
enum qkv_status qkv_grams_start(struct qkv_context *ctx, struct qkv_grams *g, const uint32_t *units, size_t count);
/* Adds, for each n, to here[n − 1] the matches with this reference, each n-gram at most as often as either has it, and to
 * more[n − 1] those that no earlier reference gave. */
void qkv_grams_match(struct qkv_grams *g, const uint32_t *units, size_t count, size_t here[QKV_GRAM_MOST],
                     size_t more[QKV_GRAM_MOST]);
void qkv_grams_free(struct qkv_grams *g);
/* How many n-grams there are in a sequence. */
size_t qkv_gram_count(size_t units, size_t n);

/* ---- both text metrics -------------------------------------------------------------------------------------------------- */

/* There is something to compare, and each hypothesis has a reference. */
enum qkv_status qkv_metric_check(struct qkv_context *ctx, const char *metric, const size_t *reference_counts,
                                 size_t count);

#endif
