/* metric: the quality of an output: BLEU, chrF, edit distance, and scores from a confusion matrix.
 *
 * include/qkv.h has the public functions under "metrics"; this header has those for other rooms and between files. The
 * room uses base and text only: metrics do not depend on models. */
#ifndef QKV_METRIC_H
#define QKV_METRIC_H

#include "base/base.h"
#include "text/text.h"

/* ---- confusion.c: rows are the labels, columns the predictions, (classes,classes) -------------------------------- */

double qkv_accuracy(const size_t *confusion, size_t classes);
/* The mean of F1 = 2·hits / (labels + predictions) over the classes that occur among either. */
double qkv_macro_f1(const size_t *confusion, size_t classes);

/* ---- characters.c: texts as the characters that Python's str would hold ------------------------------------------ */

struct qkv_characters { /* start it with {0} */
    uint32_t *at;
    size_t count, capacity;
};
enum qkv_status qkv_characters_append(struct qkv_context *ctx, struct qkv_characters *c, const uint32_t *codes,
                                      size_t count);
/* Replaces the content by a text; a byte that is not UTF-8 becomes U+DC00 + byte, which equals no character. */
enum qkv_status qkv_characters_set(struct qkv_context *ctx, struct qkv_characters *c, const char *text);
void qkv_characters_free(struct qkv_characters *c);
/* Whether str.split cuts at the character: Unicode's white space and U+001C to U+001F. */
bool qkv_is_space(uint32_t code);

/* ---- tokenize_13a.c ---------------------------------------------------------------------------------------------- */

/* The tokens of a text, each as its number in `names`, to which new tokens are added. Buffers are reused; start with
 * {0}. */
struct qkv_13a {
    struct qkv_strings names;
    struct qkv_characters tokens;     /* the numbers */
    struct qkv_characters from, into; /* scratch */
};
enum qkv_status qkv_13a_tokenize(struct qkv_context *ctx, struct qkv_13a *t, const char *text);
void qkv_13a_free(struct qkv_13a *t);

/* ---- grams.c: n-grams that a hypothesis and a reference share ---------------------------------------------------- */

enum { QKV_GRAM_MAX = 6 };
struct qkv_gram {
    size_t own, here, most; /* counts: in the hypothesis, in this reference, the maximum over references so far */
    size_t reference;       /* the number of the reference that `here` is of */
};
struct qkv_grams { /* start it with {0} */
    size_t order;  /* n-grams of 1 … order, at most QKV_GRAM_MAX; set by the caller */
    struct qkv_strings keys;
    struct qkv_gram *list; /* parallel to keys.entries */
    size_t capacity, references;
};
/* Takes the n-grams of the next hypothesis, and forgets all references. */
enum qkv_status qkv_grams_start(struct qkv_context *ctx, struct qkv_grams *g, const uint32_t *units, size_t count);
/* Adds the matches with one reference: for each n, to here[n − 1] the n-grams that both have, each at most as often as
 * either has it; to more[n − 1] those that no earlier reference has matched. */
void qkv_grams_match(struct qkv_grams *g, const uint32_t *units, size_t count, size_t here[QKV_GRAM_MAX],
                     size_t more[QKV_GRAM_MAX]);
void qkv_grams_free(struct qkv_grams *g);
/* The number of n-grams in a sequence of that many units. */
size_t qkv_gram_count(size_t units, size_t n);

/* ---- both text metrics ------------------------------------------------------------------------------------------- */

/* Fails unless there is a text, and each hypothesis has a reference. */
enum qkv_status qkv_metric_check(struct qkv_context *ctx, const char *metric, const size_t *reference_counts,
                                 size_t count);

#endif
