/* languages: the languages that a model translates between, chosen for a source and its target (languages.c). */
#ifndef QKV_LANGUAGES_H
#define QKV_LANGUAGES_H

#include "base/base.h"
#include "text/sequence.h"

/* Tokens of a choice; −1: the model's own. */
struct qkv_languages {
    int32_t source; /* takes the place of the language that the tokenizer puts next to a source */
    int32_t before; /* stands before the source */
    int32_t begin;  /* targets begin with it */
    int32_t first;  /* the first token of a target */
};
#define QKV_LANGUAGES_ANY ((struct qkv_languages){-1, -1, -1, -1})

/* Finds the tokens of languages by their codes; NULL, "" and "auto": the model's own. Fails with QKV_ARGUMENT: the
 * model cannot, or it is not known whether. */
enum qkv_status qkv_languages_choose(struct qkv_model *model, const char *source, const char *target,
                                     struct qkv_languages *out);
/* Puts them into an encoded source, freed with qkv_free, whose frame may grow. */
enum qkv_status qkv_languages_put(struct qkv_model *model, const struct qkv_languages *languages,
                                  struct qkv_sequence_frame *frame, int32_t **ids, size_t *count);
/* Makes the language of a target its first token, if the model has it there, in place of one that the model forces.
 * asked: the rules that were asked for; NULL: none. rules: these with the model's own. *lead is set to the first token
 * that the rules force if that is a language, which is no part of the text; else −1. Fails with QKV_ARGUMENT: the rules
 * exclude the language, or force another first token. */
enum qkv_status qkv_languages_rule(struct qkv_model *model, const struct qkv_languages *languages,
                                   const struct qkv_token_rules *asked, struct qkv_token_rules *rules, int32_t *lead);

/* The text of token `index` of a target, from 0; NULL: it has none, as the token `lead` that begins a target. With
 * `trimmed`, the first token that is text loses its space. `tokenizer` may be NULL. */
const char *qkv_target_token(const struct qkv_tokenizer *tokenizer, int32_t lead, bool trimmed, const int32_t *ids,
                             size_t index, size_t *size);

#endif
