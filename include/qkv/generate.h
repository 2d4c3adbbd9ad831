/* qkv/generate.h: sessions, sampling, generation; a part of qkv.h, which includes it. Stable.
 *
 * A session is one sequence and its KV cache. The cache stores keys and values in pages of a fixed number of positions.
 * Forks of a session share its pages until they differ, so a prefix that many sequences have in common is computed once
 * and stored once:
 *
 *     qkv_session_create(model, &QKV_OPTIONS(qkv_session_options, .pages = pages), &prefix);
 *     qkv_session_append(prefix, ids, count);
 *     for (size_t i = 0; i < 50; i++) qkv_session_fork(prefix, &continuations[i]);
 *
 * To decode many sequences in one batch, fork the rows of a decoder (qkv_decoder_select in qkv/sequences.h). In mixed
 * precision the cache stores keys and values as bf16, which is the precision that attention multiplies them in, in the
 * layout of the context's kernels; a head of fewer than 32 channels can then take the memory of 32. */
#ifndef QKV_PUBLIC_GENERATE_H
#define QKV_PUBLIC_GENERATE_H

#include "qkv/constrain.h"
#include "qkv/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_session;
struct qkv_session_options {
    size_t size;     /* sizeof(struct qkv_session_options), set by qkv_session_defaults */
    size_t capacity; /* largest number of positions, at most the spec's context; 0: the spec's context */
    /* Experimental: pages of the cache, which the session and all its forks share; 0: as many as one session needs.
     * qkv_session_pages gives the positions of a page: 128, or the capacity if that is less. */
    size_t pages;
    /* Experimental: the sequence length that rotations use where position.scaling depends on one (kinds dynamic and
     * longrope): the number of positions that the sequence will finally have, at most the spec's context; 0: the
     * capacity. It does not change later, and forks have the same. */
    size_t length;
    /* Experimental: types of the cached keys and values, as qkv_model_set_cache has them; NULL: those of the model */
    const char *cache;
};
/* All 0. */
QKV_API void qkv_session_options_init(struct qkv_session_options *options, size_t size);
static inline struct qkv_session_options qkv_session_defaults(void) {
    struct qkv_session_options options;
    qkv_session_options_init(&options, sizeof options);
    return options;
}
/* Makes a session, which is empty. `options` NULL: the defaults. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_session_create(struct qkv_model *model, const struct qkv_session_options *options,
                                           struct qkv_session **out);
#ifdef QKV_EXPERIMENTAL
/* Experimental: makes a second session with the same contents, scores included, in the same pages. Pages are shared;
 * when both sessions continue, only the last page is copied, if it is not full. The two sessions may be used and freed
 * in any order, but only by one thread at a time. Fails with QKV_MEMORY. */
QKV_API enum qkv_status qkv_session_fork(const struct qkv_session *session, struct qkv_session **out);
#endif
/* Frees a session. NULL is allowed. */
QKV_API void qkv_session_free(struct qkv_session *session);
/* Runs the model over n more ids and appends them. Ids that do not fit into the capacity are QKV_ARGUMENT. A cache
 * without enough free pages is QKV_FULL, with a sentence that says how many are missing. A call that fails appends
 * nothing. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE, QKV_FULL. */
QKV_API enum qkv_status qkv_session_append(struct qkv_session *session, const int32_t *ids, size_t n);
#ifdef QKV_EXPERIMENTAL
/* Experimental: appends n ids as qkv_session_append does; qkv_session_logits then has the scores after each of
 * ids[scored[0]], ids[scored[1]], …, (count,vocab). The indices in `scored` increase. The bits are the same as after
 * appending only the ids up to there. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE, QKV_FULL. */
QKV_API enum qkv_status qkv_session_score(struct qkv_session *session, const int32_t *ids, size_t n,
                                          const size_t *scored, size_t count);
#endif
/* The scores of the next token (vocab), after at least one id. Owned by the session, valid until the next call with
 * it. */
QKV_API const float *qkv_session_logits(const struct qkv_session *session);
/* The number of positions that the session holds. */
QKV_API size_t qkv_session_length(const struct qkv_session *session);
/* The number of positions that the session can hold. */
QKV_API size_t qkv_session_capacity(const struct qkv_session *session);
/* Removes all positions at and past `length`. Append at least one id before the next qkv_session_logits. */
QKV_API void qkv_session_truncate(struct qkv_session *session, size_t length);
#ifdef QKV_EXPERIMENTAL
/* Experimental: the pages of a cache. */
struct qkv_cache_pages {
    size_t positions;   /* positions of one page */
    size_t bytes;       /* bytes of one page: keys and values of all layers */
    size_t count, used; /* number of pages, and number of pages in use */
};
/* Experimental: the pages of the cache that the session shares with its forks. */
QKV_API struct qkv_cache_pages qkv_session_pages(const struct qkv_session *session);
#endif

struct qkv_sampling {
    double temperature; /* 0: always the most likely token; 1: the model's own distribution */
    int top_k;          /* only the k most likely tokens; 0: all */
    /* only the fewest most likely tokens that together have this probability; 1: all (Holtzman et al. 2020) */
    double top_p;
    double min_p; /* only tokens with at least min_p times the probability of the most likely one; 0: all */
    /* logits of recent tokens are divided by this if positive, else multiplied; 1: off (Keskar et al. 2019) */
    double repeat_penalty;
    int repeat_last; /* number of recent tokens that the penalty applies to; 0: all */
    uint64_t seed;
};
QKV_API struct qkv_sampling qkv_sampling_defaults(void); /* temperature 1, everything else off, seed 0 */
/* Draws a token from the scores `logits` (vocab): applies penalty, temperature, top_k, top_p and min_p in that order,
 * then draws with the random number that the seed and `draw` (0, 1, …) determine. `history` (history_count) are the
 * tokens so far, for the penalty. A NaN in the logits is QKV_NUMBER. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_NUMBER. */
QKV_API enum qkv_status qkv_sample(struct qkv_context *ctx, const struct qkv_sampling *sampling, const float *logits,
                                   size_t vocab, const int32_t *history, size_t history_count, uint64_t draw,
                                   int32_t *id);

/* Experimental: a list of token ids, of the program. */
struct qkv_token_list {
    const int32_t *ids;
    size_t count;
};
/* Experimental: rules for the tokens of a text. Each has the meaning of a key of generation_config.json, named at its
 * end, and changes the scores before a token is chosen: by greedy choice, by beams and by sampling, in the order of
 * transformers. A penalty changes scores; in a search with a beam wider than 1, log-probabilities. All other rules
 * exclude tokens. The length of a text counts its prompt; for an encoder-decoder, that is the token that targets begin
 * with. The source is what the encoder reads; for a decoder alone, the prompt. Ids that the model does not have are
 * ignored. */
struct qkv_token_rules {
    size_t size;             /* sizeof(struct qkv_token_rules), set by qkv_token_rules_defaults */
    size_t min_length;       /* a text that is shorter does not end (min_length) */
    size_t min_tokens;       /* a text with fewer new tokens does not end (min_new_tokens) */
    size_t no_repeat;        /* n > 0: no n tokens in a row occur twice (no_repeat_ngram_size) */
    size_t source_no_repeat; /* n > 0: no n tokens in a row of the source occur (encoder_no_repeat_ngram_size) */
    /* tokens of the source get likelier, as the repeat penalty makes tokens less likely; below 1: less likely; 1: off
     * (encoder_repetition_penalty) */
    double source_penalty;
    int32_t first;                    /* the token that follows a prompt of one token; -1: any (forced_bos_token_id) */
    struct qkv_token_list last;       /* the token at the maximum length is one of these (forced_eos_token_id) */
    struct qkv_token_list suppressed; /* never chosen (suppress_tokens) */
    struct qkv_token_list suppressed_first; /* not chosen as the first new token, or, after `first`, as the second
                                             * (begin_suppress_tokens) */
    struct qkv_token_list bad_words; /* words that do not occur, of one or more ids, each followed by -1; one that is
                                      * an end token alone is ignored (bad_words_ids) */
};
/* Experimental: source_penalty 1, first -1, everything else off. */
QKV_API void qkv_token_rules_init(struct qkv_token_rules *rules, size_t size);
static inline struct qkv_token_rules qkv_token_rules_defaults(void) {
    struct qkv_token_rules rules;
    qkv_token_rules_init(&rules, sizeof rules);
    return rules;
}
#ifdef QKV_EXPERIMENTAL
/* Experimental: gives the rules of the model's folder, or the defaults if it has none. The lists are the model's.
 * `rules` begins with its size. */
QKV_API void qkv_model_token_rules(const struct qkv_model *model, struct qkv_token_rules *rules);
/* Experimental: the keys of the model's generation_config.json that would change texts and that the library does not
 * have, with commas between them; "": there are none. num_beams is one of them where do_sample is true, as tokens are
 * drawn without beams. Owned by the model. */
QKV_API const char *qkv_model_unread_settings(const struct qkv_model *model);
#endif

/* A token that was generated. */
struct qkv_made_token {
    size_t index; /* its place in the continuation, from 0 */
    int32_t id;
    /* `size` bytes, which may begin or end inside a character; NULL if the model has no text for it */
    const char *text;
    size_t size;
    /* natural logarithm, under the model's own distribution: before penalty, temperature and filters */
    double log_probability;
    /* end: it is an end token; it ends the text and is no part of it. stop: its text completes a stop text, or a text
     * of the constraint that nothing can follow. */
    bool end, stop;
};
/* Receives each token when it is generated, after the write callback has received the text known so far;
 * return false to stop. */
typedef bool qkv_take_token(void *user, const struct qkv_made_token *token);
/* Receives the ids of the prompt, once, before they are cut to the context and before any token is made.
 * They are valid during the call. */
typedef void qkv_take_prompt(void *user, const int32_t *ids, size_t count);
struct qkv_generate_options {
    size_t size; /* sizeof(struct qkv_generate_options), set by qkv_generate_defaults */
    struct qkv_sampling sampling;
    size_t tokens;            /* largest number of tokens to generate */
    const char *const *stops; /* texts that end the generation; they are not written */
    size_t stop_count;
    int32_t end_id;               /* a token that ends the generation, or -1 */
    int32_t ends[QKV_TOKEN_ENDS]; /* experimental: more tokens that end the generation */
    size_t end_count;
    /* Experimental: the prompt as ids. The text of the prompt must then be empty, and the tokenizer's template is not
     * added. This also works for a model without a tokenizer. NULL: the prompt is the text. */
    const int32_t *ids;
    size_t id_count;
    /* experimental: the rule for a prompt with more tokens than the context; with QKV_LONG_SKIP no token is
     * generated */
    enum qkv_long long_prompt;
    /* Experimental: the largest number of positions in the cache, at most the spec's context. Rotations use it as the
     * sequence length where position.scaling depends on one (kinds dynamic and longrope). 0: the cache has the spec's
     * context, and rotations use the length of the prompt plus `tokens`, at most the context. */
    size_t context;
    qkv_take_token *take_token; /* NULL: none */
    void *take_user;
    qkv_take_prompt *take_prompt; /* NULL: none */
    void *prompt_user;
    const struct qkv_token_rules *rules; /* experimental: NULL: those of the model's folder */
    /* experimental: the maximum length of the text with its prompt; 0: none. A prompt that is not shorter is
     * QKV_ARGUMENT */
    size_t max_length;
    /* Experimental: the form of the text (qkv/constrain.h); NULL: any. Penalties, biases and rules change scores before
     * it excludes tokens. A text that nothing can follow ends at once, as by a stop text, whatever the smallest number
     * of tokens is. Where all tokens that it allows are excluded by other rules, or the vocabulary lacks one that is
     * needed, the generation fails with QKV_ARGUMENT. An engine holds the constraint until its requests end. */
    struct qkv_constraint *constraint;
};
/* qkv_sampling_defaults, 200 tokens, no stops, no end token; a prompt longer than the context is an error. */
QKV_API void qkv_generate_options_init(struct qkv_generate_options *options, size_t size);
static inline struct qkv_generate_options qkv_generate_defaults(void) {
    struct qkv_generate_options options;
    qkv_generate_options_init(&options, sizeof options);
    return options;
}
#ifdef QKV_EXPERIMENTAL
/* Experimental: sets the end tokens of a model in `options`, and the sampling except its seed if the model's folder
 * defines it; returns whether the folder does. Published folders define it, and so do folders that were trained or
 * exported from one: sampling if do_sample is true in generation_config.json, else greedy. max_new_tokens of that file
 * becomes `tokens`; without it, max_length becomes `max_length`, and `tokens` is SIZE_MAX. The end tokens come from the
 * first of these that has any: generation_config.json; the published config.json; the tokenizer's configuration; the
 * token <|endoftext|>; the end token of the tokenizer's roles, if the tokenizer's template begins texts and does not
 * end them. Ids that the model does not have are left out. */
QKV_API bool qkv_generate_settings(const struct qkv_model *model, struct qkv_generate_options *options);
#endif
/* What a generation did. */
struct qkv_generate_report {
    size_t prompt_tokens, tokens;
    double prompt_seconds, seconds;
    bool stopped; /* true: a stop text or an end token ended the generation */
    /* experimental: the number of tokens of a prompt that was longer than the context (the model read prompt_tokens of
     * them); else 0 */
    size_t long_prompt;
};
/* Receives text as soon as it is known, in whole UTF-8 characters; return false to stop. */
typedef bool qkv_write_text(void *user, const char *text, size_t size);
/* Checks that the weights, the cache and a step of a planned model (qkv_model_plan_load) fit into the free memory,
 * before any weight is read, for qkv_generate with `context` positions (options.context; 0: the spec's context). Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_generate_check_memory(struct qkv_model *plan, size_t context);
/* Continues a prompt. When the context is full, the older half is dropped and the model runs again over the rest. A
 * prompt without tokens is replaced by a newline, or by token 0 if the tokenizer gives none for it. `write` and
 * `report` may be NULL. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_generate(struct qkv_model *model, const char *prompt, size_t prompt_size,
                                     const struct qkv_generate_options *options, qkv_write_text *write, void *user,
                                     struct qkv_generate_report *report);

#ifdef QKV_EXPERIMENTAL
/* Experimental: continues ids in a session of the caller: a talk whose text grows, or changes near its end, is computed
 * only where it is new. The first `kept` positions of the session are those of the first ids of options->ids, which are
 * all ids of the text. Positions past them are removed, the other ids are read, and tokens are made as qkv_generate
 * makes them, until the session is full: then they end with report->stopped false. Afterwards the session holds the ids
 * and all tokens that were made but the newest; an end token is not read. report->prompt_tokens is the number of ids
 * that were read, 0 if that failed. options->context and long_prompt have no effect: ids that do not fit into the
 * session are QKV_ARGUMENT. A call that fails leaves the ids that it had read. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FORMAT, QKV_SHAPE, QKV_FULL, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_session_generate(struct qkv_session *session, size_t kept,
                                             const struct qkv_generate_options *options, qkv_write_text *write,
                                             void *user, struct qkv_generate_report *report);
/* Experimental: receives text of continuation `index`, from 0; return false to stop all. */
typedef bool qkv_write_continuation(void *user, size_t index, const char *text, size_t size);
/* Experimental: continues a prompt `count` times in one batch. Continuation i is the one that qkv_generate gives with
 * seed sampling.seed + i. The prompt is computed and stored once for as many continuations at a time as memory allows
 * (at most 256). Texts are written as soon as they are known, so the texts of several continuations alternate. The
 * report counts the tokens of all continuations; its `stopped` is true if all of them stopped. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER, QKV_STOPPED. */
QKV_API enum qkv_status qkv_generate_several(struct qkv_model *model, const char *prompt, size_t prompt_size,
                                             const struct qkv_generate_options *options, size_t count,
                                             qkv_write_continuation *write, void *user,
                                             struct qkv_generate_report *report);
#endif

#ifdef __cplusplus
}
#endif

#endif
