/* sequence: a line of text as the ids that a model of lines is trained on, and asked with (qkv_sequence_encode and the like, in
 * qkv/sequences.h). Training and use share it, so that they cannot differ. */
#ifndef QKV_SEQUENCE_H
#define QKV_SEQUENCE_H

#include "base/base.h"

/* Whether a line holds nothing but ASCII white space. */
bool qkv_is_blank(const char *text, size_t size);

/* How many ids of a sequence stand before and after those of its text: of qkv_sequence_encode, and of qkv_source_encode; begin and end
 * false: those of the template alone, as of qkv_masked_encode. */
struct qkv_sequence_frame {
    size_t before, after;
};
struct qkv_sequence_frame qkv_sequence_frame(const struct qkv_tokenizer *t, bool begin, bool end);
struct qkv_sequence_frame qkv_source_frame(const struct qkv_tokenizer *t, bool begin, bool end);

/* qkv_masked_encode, and where in the text each mask stands: bytes [begin, end), the white space that its token takes
 * among them. Both lists are the caller's; places are freed with free(). Fails with QKV_ARGUMENT, QKV_MEMORY,
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
/* The words of a sentence, as they stand in it with a space between two, in the frame of qkv_source_encode with both ends. firsts[i] is
 * 1 + the word whose first token ids[i] is, else 0; a space that is a token of its own belongs to no word. Both (count) are freed with
 * qkv_free. A word without any token fails with QKV_FORMAT, and *bad is its number. */
enum qkv_status qkv_words_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const struct qkv_word *words,
                                 size_t word_count, int32_t **ids, int32_t **firsts, size_t *count, size_t *bad);

/* ---- sequences that are too long (long.c) ---- */
/* What to do with those of more than `most` ids. */
struct qkv_long_rule {
    enum qkv_long kind;
    size_t most;
    size_t *found; /* counts them; NULL: nobody asks */
};
enum qkv_long_fate {
    QKV_FATE_FITS, /* as it was, or cut to `most` ids */
    QKV_FATE_SKIPPED,
    QKV_FATE_REFUSED /* the caller's sentence: kind ERROR, or `most` has no room for any token of the text */
};
/* Cuts *ids, *count of them, where the rule says so. */
enum qkv_long_fate qkv_long_apply(const struct qkv_long_rule *rule, struct qkv_sequence_frame frame, int32_t *ids,
                                  size_t *count);

/* How tutorials write what begins and what ends a line: tokenizers of whole words take these where lines are written
 * so. */
#define QKV_WORD_BEGIN "<bos>"
#define QKV_WORD_END   "<eos>"

/* A text that begins with the token that begins one, or ends with the token that ends one, written as a word of its
 * own, loses it, where `begin` or `end` says so: whoever encodes a sequence puts it there. Of tokenizers of whole words
 * alone: for others it is text. */
void qkv_sequence_trim(const struct qkv_tokenizer *tokenizer, bool begin, bool end, const char **text, size_t *size);

/* ---- two texts as one sequence (template_pair.c) ---- */
struct qkv_pair_part {
    int sequence; /* 0 or 1: that text; -1: a token */
    int32_t id, type;
};
struct qkv_pair_template {
    struct qkv_pair_part *parts;
    size_t count, capacity, specials; /* of parts; of those that are tokens */
};
/* As the post-processor of the tokenizer says; without one, or where it places nothing, one text behind the other, with
 * `ends` between the tokens of a text of its own, types 0 and 1. Fails with QKV_MEMORY, QKV_FORMAT. Freed with
 * qkv_pair_template_free. */
enum qkv_status qkv_pair_template_read(struct qkv_context *ctx, const struct qkv_tokenizer *t, bool ends,
                                       struct qkv_pair_template *out);
void qkv_pair_template_free(struct qkv_pair_template *t);
/* The ids and types of a pair, *count of them, both freed with qkv_free; NULL: no memory. Where it has more than the
 * rule allows, the longer text is cut first, of equals the second. Skipped or refused, *count is that of the whole
 * pair. */
enum qkv_long_fate qkv_pair_join(struct qkv_context *ctx, const struct qkv_pair_template *t,
                                 const struct qkv_long_rule *rule, int32_t *const texts[2], const size_t sizes[2],
                                 int32_t **ids, int32_t **types, size_t *count);

/* Whether it has a special token of that text, or, where the text is that of a role (QKV_TOKEN_MASK, …), one that has the role. */
bool qkv_tokenizer_knows(const struct qkv_tokenizer *t, const char *text);
/* Gives a tokenizer one more special token, behind all others. */
enum qkv_status qkv_tokenizer_add_special(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *text);

#endif
