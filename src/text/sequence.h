/* sequence: a line of text as ids, as models of lines are trained and used (qkv_sequence_encode and the like, in
 * qkv/sequences.h). Training and use share these functions, so that they cannot differ. */
#ifndef QKV_SEQUENCE_H
#define QKV_SEQUENCE_H

#include "base/base.h"

/* Whether a line has nothing but ASCII white space. */
bool qkv_is_blank(const char *text, size_t size);

/* The number of ids before and after those of the text: in qkv_sequence_encode, and in qkv_source_encode; with begin
 * and end false only the template's, as in qkv_masked_encode. */
struct qkv_sequence_frame {
    size_t before, after;
};
struct qkv_sequence_frame qkv_sequence_frame(const struct qkv_tokenizer *t, bool begin, bool end);
struct qkv_sequence_frame qkv_source_frame(const struct qkv_tokenizer *t, bool begin, bool end);

/* The same as qkv_masked_encode, and the place of each mask in the text: bytes [begin, end), with the white space that
 * its token includes. The caller owns both lists; places are freed with free(). Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FORMAT. */
struct qkv_mask_place {
    size_t begin, end;
};
enum qkv_status qkv_masked_encode_places(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                         size_t size, int32_t mask, int32_t **ids, size_t *count,
                                         struct qkv_mask_place **places, size_t *masks);

/* ---- sentences as words (words.c) ---- */
struct qkv_word {
    const char *text;
    size_t size;
};
/* Encodes the words of a sentence, with a space between each two, in the frame of qkv_source_encode with both ends.
 * firsts[i] is 1 + the number of the word whose first token ids[i] is, else 0; a space that is a token by itself
 * belongs to no word. Both lists (count) are freed with qkv_free. A word without a token fails with QKV_FORMAT; *bad is
 * its number. */
enum qkv_status qkv_words_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const struct qkv_word *words,
                                 size_t word_count, int32_t **ids, int32_t **firsts, size_t *count, size_t *bad);

/* ---- sequences that are too long (long.c) ---- */
/* The rule for sequences of more than `most` ids. */
const char *qkv_long_name(enum qkv_long kind); /* of the list */
struct qkv_long_rule {
    enum qkv_long kind;
    size_t most;
    size_t *found; /* counts such sequences; NULL: not wanted */
};
enum qkv_long_fate {
    QKV_FATE_FITS, /* not too long, or cut to `most` ids */
    QKV_FATE_SKIPPED,
    QKV_FATE_REFUSED /* the caller writes the message: kind ERROR, or `most` ids have no room for a token of the text */
};
/* Cuts *ids, *count of them, if the rule says so. */
enum qkv_long_fate qkv_long_apply(const struct qkv_long_rule *rule, struct qkv_sequence_frame frame, int32_t *ids,
                                  size_t *count);

/* The words with which tutorials begin and end a line: tokenizers of whole words use them if lines are written so. */
#define QKV_WORD_BEGIN "<bos>"
#define QKV_WORD_END   "<eos>"

/* Removes the token that begins a sequence from the beginning of a text (with `begin`), and the one that ends it from
 * its end (with `end`), where they are words of the text: encoding adds them. Only for tokenizers of whole words; for
 * others they are text. */
void qkv_sequence_trim(const struct qkv_tokenizer *tokenizer, bool begin, bool end, const char **text, size_t *size);

/* ---- two texts as one sequence (template_pair.c) ---- */
struct qkv_pair_part {
    int sequence; /* 0 or 1: the text; −1: a token */
    int32_t id, type;
};
struct qkv_pair_template {
    struct qkv_pair_part *parts;
    size_t count, capacity, specials; /* specials: parts that are tokens */
};
/* The template of the tokenizer's post-processor. Without one, or if it places no tokens: one text after the other,
 * with `ends` between the tokens that a single text has around it, and types 0 and 1. Fails with QKV_MEMORY,
 * QKV_FORMAT. Freed with qkv_pair_template_free. */
enum qkv_status qkv_pair_template_read(struct qkv_context *ctx, const struct qkv_tokenizer *t, bool ends,
                                       struct qkv_pair_template *out);
void qkv_pair_template_free(struct qkv_pair_template *t);
/* Makes the ids and types of a pair, *count of them, both freed with qkv_free; NULL: no memory. If they are more than
 * the rule allows, the longer text is cut first, of equals the second. For a pair that is skipped or refused, *count is
 * its full length. */
enum qkv_long_fate qkv_pair_join(struct qkv_context *ctx, const struct qkv_pair_template *t,
                                 const struct qkv_long_rule *rule, int32_t *const texts[2], const size_t sizes[2],
                                 int32_t **ids, int32_t **types, size_t *count);

/* Whether the tokenizer has a special token of that text, or, for the text of a role (QKV_TOKEN_MASK, …), a token with
 * that role. */
bool qkv_tokenizer_knows(const struct qkv_tokenizer *t, const char *text);
/* Adds a special token, with the next free id. */
enum qkv_status qkv_tokenizer_add_special(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *text);

#endif
