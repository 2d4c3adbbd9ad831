/* generate: continuing a text.
 *
 * Offers: the check of sampling options, and the stream of text that stands between tokens, which cut text anywhere, and a
 * reader, who gets whole characters and never a part of a stop text. */
#ifndef QKV_GENERATE_H
#define QKV_GENERATE_H

#include "base/base.h"

/* ---- sampling (sampling.c) -------------------------------------------------------------------------------------- */
enum qkv_status qkv_sampling_check(struct qkv_context *ctx, const struct qkv_sampling *sampling);
/* Tells the caller of a token that was chosen by these scores, where it asks: index, id, end and stop are set, the rest is filled in.
 * False: it wants no more. */
bool qkv_token_tell(struct qkv_model *model, const struct qkv_generate_options *options, struct qkv_made_token token,
                    const float *logits);

/* ---- prompts (prompt.c) ---------------------------------------------------------------------------------------- */

/* A prompt as the model reads it. */
struct qkv_prompt {
    const struct qkv_tokenizer *tokenizer; /* NULL: of a prompt of ids the model may have none */
    size_t vocab;                          /* ids that can be chosen: a model may have more than its tokenizer */
    int32_t *ids;                          /* to be freed with qkv_free */
    size_t count;                          /* at least 1 */
    bool empty;                            /* the text is: what follows it begins a text */
    size_t found;                          /* tokens that it had, where those were more than the context; else 0 */
    bool skipped;                          /* so nothing is to be made */
};
/* Whether a token ends a text. */
bool qkv_prompt_ends(const struct qkv_generate_options *options, int32_t id);
/* Whether the model can write text with these options. */
enum qkv_status qkv_prompt_check(struct qkv_model *model, const struct qkv_generate_options *options);
/* The most positions that are held at once: of the options, or of the model. */
size_t qkv_prompt_context(const struct qkv_model *model, const struct qkv_generate_options *options);
/* What rotations are decided for, where they depend on the length of a sequence. */
size_t qkv_prompt_length(const struct qkv_model *model, const struct qkv_generate_options *options,
                         const struct qkv_prompt *prompt);
/* The prompt of the text, or of the options' ids, at most as long as the context: option long_prompt. */
enum qkv_status qkv_prompt_read(struct qkv_model *model, const char *text, size_t size,
                                const struct qkv_generate_options *options, struct qkv_prompt *prompt);
/* qkv_sample for what follows a prompt: the token of what is unknown is never chosen, as it is no text. */
enum qkv_status qkv_prompt_sample(struct qkv_context *ctx, const struct qkv_prompt *prompt,
                                  const struct qkv_sampling *sampling, const float *logits, const int32_t *history,
                                  size_t history_count, uint64_t draw, int32_t *id);
/* The text of a token that follows it; `first`: right behind it. A word that begins a text has no space before it. NULL for an id
 * without a token: no text. */
const char *qkv_prompt_token(const struct qkv_prompt *prompt, int32_t id, bool first, size_t *size);
/* QKV_STOPPED, with its sentence. */
enum qkv_status qkv_generate_stopped(struct qkv_context *ctx);

/* ---- text stream (stream.c) -------------------------------------------------------------------------------------
 * Start it with the first five fields set and the others zero. The text given out is the same however it was cut into
 * pieces: everything before the stop text that is complete first (the longest of those that end at the same byte). */
struct qkv_text_stream {
    struct qkv_context *ctx;
    const char *const *stops; /* none empty */
    size_t stop_count;
    qkv_write_text *write; /* NULL: nobody listens */
    void *user;
    struct qkv_buffer held; /* what is not given out yet */
    bool stopped;           /* a stop text came: everything after it is ignored */
};
/* Takes a piece of text and gives out what is decided. QKV_STOPPED when `write` said so. */
enum qkv_status qkv_text_stream_put(struct qkv_text_stream *stream, const char *text, size_t size);
/* The text has ended: gives out all that was held back. */
enum qkv_status qkv_text_stream_end(struct qkv_text_stream *stream);
void qkv_text_stream_free(struct qkv_text_stream *stream);

#endif
