/* generate: continuing a text.
 *
 * The text stream stands between tokens, which can cut a text anywhere, and a reader, who gets whole characters and
 * never a part of a stop text. */
#ifndef QKV_GENERATE_H
#define QKV_GENERATE_H

#include "base/base.h"
#include "constrain/constrain.h"
#include "generate/languages.h"
#include "op/steps.h"

/* ---- sampling (sampling.c) -------------------------------------------------------------------------------------- */
enum qkv_status qkv_sampling_check(struct qkv_context *ctx, const struct qkv_sampling *sampling);
/* A draw by rules. `sampling` has the penalty; that of the rules is 1. */
struct qkv_sample_call {
    const struct qkv_sampling *sampling;
    const struct qkv_score_rules *rules;
    struct qkv_token_list barred; /* ids that are not chosen; those outside of the vocabulary are ignored */
    const struct qkv_score_text *text;
    const float *logits; /* (vocab) */
    size_t vocab;
    uint64_t draw;
    const struct qkv_allowed *allowed; /* the tokens of a constraint, which has the last word; NULL: all */
};
/* As qkv_sample, by rules; ids of the text outside of the vocabulary have no penalty. */
enum qkv_status qkv_sample_by_rules(struct qkv_context *ctx, const struct qkv_sample_call *call, int32_t *id);
/* Lists ids, each once, in their order; `once` has room for all. Returns how many there are. */
size_t qkv_ids_once(struct qkv_token_list ids, int32_t *once);
/* Takes the rules of a program, NULL: those of the model's folder, and checks them (rules.c). */
enum qkv_status qkv_rules_take(struct qkv_model *model, const struct qkv_token_rules *rules,
                               struct qkv_token_rules *taken);

/* ---- prompts (prompt.c) ----------------------------------------------------------------------------------------- */

/* A prompt as the model reads it. */
struct qkv_prompt {
    const struct qkv_tokenizer *tokenizer; /* NULL: a prompt of ids, and a model without a tokenizer */
    size_t vocab;                          /* ids that can be chosen; a model may have more ids than its tokenizer */
    int32_t *ids;                          /* free with qkv_free */
    size_t count;                          /* at least 1 */
    struct qkv_sequence_frame frame; /* the tokens of ids around those of its text; ids that are given have none */
    bool empty;                      /* the prompt has no text: what follows begins a text */
    int32_t lead;                    /* a first new token that is no text: the language of a target; -1: none */
    bool trimmed;                    /* a space at the beginning of the first new token is no part of the text */
    int32_t barred;                  /* a token that is never chosen; -1: none */
    /* what the encoder reads, free with qkv_free; NULL: the model has none, so that the prompt is the source */
    int32_t *source;
    size_t source_count;
    size_t found;                     /* its tokens before it was cut to the context; 0: it was not cut */
    bool skipped;                     /* the prompt is too long, so nothing is made */
    size_t begun, tokens;             /* its tokens before any is made; the maximum number of new ones */
    struct qkv_score_rules rules;     /* without ends */
    int32_t ends[QKV_TOKEN_ENDS + 1]; /* the tokens that end the text */
    size_t end_count;
    int32_t *once; /* the ids of the prompt, each once, if a rule needs them; free with qkv_free */
    size_t once_count;
    struct qkv_constraint *constraint; /* of the text that is made; held; NULL: none */
};
void qkv_prompt_free(struct qkv_prompt *prompt);
/* Copies a prompt, freed with qkv_prompt_free also where that fails; the lists of its rules are those of `from`. */
enum qkv_status qkv_prompt_copy(struct qkv_context *ctx, const struct qkv_prompt *from, struct qkv_prompt *to);
/* Whether a token ends a text. */
bool qkv_prompt_ends(const struct qkv_generate_options *options, int32_t id);
/* Checks that the model can write text with these options. */
enum qkv_status qkv_prompt_check(struct qkv_model *model, const struct qkv_generate_options *options);
/* The maximum number of positions held at once: that of the options, or that of the model. */
size_t qkv_prompt_context(const struct qkv_model *model, const struct qkv_generate_options *options);
/* The length for which rotations are computed, if they depend on the length of a sequence. */
size_t qkv_prompt_length(const struct qkv_model *model, const struct qkv_generate_options *options,
                         const struct qkv_prompt *prompt);
/* Reads the prompt: the text, or the options' ids. One longer than the context is cut, skipped or refused as
 * options->long_prompt says. */
enum qkv_status qkv_prompt_read(struct qkv_model *model, const char *text, size_t size,
                                const struct qkv_generate_options *options, struct qkv_prompt *prompt);
/* Reads the source of an encoder-decoder: the text, or the options' ids. The prompt is the token that targets begin
 * with. Options without ends get those of targets. `languages`: the choice for both. */
enum qkv_status qkv_prompt_read_source(struct qkv_model *model, const char *text, size_t size,
                                       struct qkv_generate_options *options, const struct qkv_languages *languages,
                                       struct qkv_prompt *prompt);
/* The same as qkv_sample, by the rules and the constraint of the prompt, and without the token that is
 * barred. `place`: where the text is in the constraint, {0} at first; it changes nothing, and only saves time.
 * QKV_ARGUMENT: the constraint allows no token, or one of its limits is reached. */
enum qkv_status qkv_prompt_sample(struct qkv_context *ctx, const struct qkv_prompt *prompt,
                                  const struct qkv_sampling *sampling, const float *logits, const int32_t *history,
                                  size_t history_count, struct qkv_constraint_place *place, uint64_t draw, int32_t *id);
/* Sets *whole to whether the constraint of the prompt lets nothing follow the ids: the text is then complete. */
enum qkv_status qkv_prompt_is_whole(struct qkv_context *ctx, const struct qkv_prompt *prompt, const int32_t *ids,
                                    size_t count, struct qkv_constraint_place *place, bool *whole);
/* Returns the text of new token `index` of `ids`, from 0. The first word of a text loses its space. NULL if the id has
 * no token, or is the language that leads a target: it has no text. */
const char *qkv_prompt_token(const struct qkv_prompt *prompt, const int32_t *ids, size_t index, size_t *size);
/* The bytes of a token of the prompt in its text; tokens that the tokenizer's template puts around it have none. */
size_t qkv_prompt_token_size(const struct qkv_prompt *prompt, size_t place);
/* Returns QKV_STOPPED and sets its message. */
enum qkv_status qkv_generate_stopped(struct qkv_context *ctx);

/* ---- text stream (stream.c) ------------------------------------------------------------------------------------- */
/* Start it with the first five fields set and the others zero. The text that is written does not depend on how it is
 * cut into pieces: it is all text before the first complete stop text (the longest of those that end at the same
 * byte). */
struct qkv_text_stream {
    struct qkv_context *ctx;
    const char *const *stops; /* none is empty */
    size_t stop_count;
    qkv_write_text *write; /* NULL: the text is dropped */
    void *user;
    struct qkv_buffer held; /* text that is not written yet */
    bool stopped;           /* a stop text has come: later text is ignored */
};
/* Takes memory for text that is held back, so that tokens of usual lengths need no more. */
enum qkv_status qkv_text_stream_reserve(struct qkv_text_stream *stream);
/* Takes a piece of text and writes what is decided. Returns QKV_STOPPED if `write` returns false. */
enum qkv_status qkv_text_stream_put(struct qkv_text_stream *stream, const char *text, size_t size);
/* Ends the text: writes all that was held back. */
enum qkv_status qkv_text_stream_end(struct qkv_text_stream *stream);
void qkv_text_stream_free(struct qkv_text_stream *stream);

#endif
