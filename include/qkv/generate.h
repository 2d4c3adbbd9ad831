/* qkv/generate.h: sessions, sampling, generation; a part of qkv.h, which includes it. Stable.
 *
 * A session is one sequence and its KV cache: keys and values in pages of a fixed number of positions. Forks of a session share its pages
 * until they part, so a prefix that many go on from is computed once and stored once:
 *
 *     qkv_session_create_shared(model, 0, pages, &prefix);
 *     qkv_session_append(prefix, ids, count);
 *     for (size_t i = 0; i < 50; i++) qkv_session_fork(prefix, &continuations[i]);
 *
 * To run many at once, side by side, fork the rows of a decoder (qkv_decoder_select in qkv/sequences.h). In mixed precision keys and values
 * are stored as bf16, which they are rounded to anyway, in the form that the context's kernels multiply; there heads of fewer than 32 channels can
 * take the room of 32. */
#ifndef QKV_PUBLIC_GENERATE_H
#define QKV_PUBLIC_GENERATE_H

#include "qkv/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qkv_session;
/* `capacity`: the most positions, at most the spec's context; 0: the spec's context. Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_session_create(struct qkv_model *model, size_t capacity, struct qkv_session **out);
/* Experimental: the same, for a session that will be forked: it and all its forks share a cache of so many pages (qkv_session_pages says
 * how many positions one has: 128, or the capacity where that is less); 0: as many as one session needs. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_SHAPE. */
QKV_API enum qkv_status qkv_session_create_shared(struct qkv_model *model, size_t capacity, size_t pages,
                                                  struct qkv_session **out);
/* Experimental: all that can be said of a session. */
struct qkv_session_options {
    size_t capacity; /* the most positions, at most the spec's context; 0: the spec's context */
    size_t pages;    /* of the cache; 0: as many as one session needs */
    /* what rotations are decided for where they depend on the length of a sequence (position.scaling of kind dynamic or longrope): the
     * positions that it is meant to have in the end, at most the spec's context; 0: the capacity. It stays what it is, in forks too. */
    size_t length;
};
QKV_API struct qkv_session_options qkv_session_defaults(void); /* all 0 */
/* Experimental. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_session_create_with(struct qkv_model *model, const struct qkv_session_options *options,
                                                struct qkv_session **out);
/* Experimental: another session that holds what this one holds, scores included, in the same pages. Nothing is copied until both go on, and
 * then only the last page, where it is not full. Each may be used and freed without the other, but by one thread at a time. Fails with
 * QKV_MEMORY. */
QKV_API enum qkv_status qkv_session_fork(const struct qkv_session *session, struct qkv_session **out);
/* NULL is fine. */
QKV_API void qkv_session_free(struct qkv_session *session);
/* Runs the model over n more ids. Fails when they do not fit into the capacity, and with QKV_FULL when the cache has not as many pages
 * left, with a sentence that says how many are missing; nothing is appended then. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE,
 * QKV_FULL. */
QKV_API enum qkv_status qkv_session_append(struct qkv_session *session, const int32_t *ids, size_t n);
/* Experimental: the same, and qkv_session_logits then has the scores behind each of ids[scored[0]], ids[scored[1]], … in rising order:
 * (count,vocab). The bits are those of appending up to there. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE, QKV_FULL. */
QKV_API enum qkv_status qkv_session_score(struct qkv_session *session, const int32_t *ids, size_t n,
                                          const size_t *scored, size_t count);
/* Scores of the next token (vocab of them), after at least one id. Valid until the next call with the session. */
QKV_API const float *qkv_session_logits(const struct qkv_session *session);
/* Positions that the session holds. */
QKV_API size_t qkv_session_length(const struct qkv_session *session);
/* Positions that it can hold. */
QKV_API size_t qkv_session_capacity(const struct qkv_session *session);
/* Forgets all positions at and past `length`. Append at least one id before asking for logits again. */
QKV_API void qkv_session_truncate(struct qkv_session *session, size_t length);
/* Experimental: the pages of a cache. */
struct qkv_cache_pages {
    size_t positions;   /* of a page */
    size_t bytes;       /* of a page: keys and values of all layers */
    size_t count, used; /* pages that there are, and those that hold something */
};
/* Experimental: of a session and all that share with it. */
QKV_API struct qkv_cache_pages qkv_session_pages(const struct qkv_session *session);

struct qkv_sampling {
    double temperature; /* 0: always the most likely token; 1: the model's own distribution */
    int top_k;          /* keep the k most likely tokens; 0: all */
    double top_p; /* keep the fewest most likely tokens that hold this probability; 1: all (Holtzman et al. 2020) */
    double min_p; /* keep tokens of at least min_p times the likeliest one's probability; 0: all */
    /* logits of recent tokens are divided (if > 0) or multiplied by this; 1: off (Keskar et al. 2019) */
    double repeat_penalty;
    int repeat_last; /* how many recent tokens the penalty looks at; 0: all */
    uint64_t seed;
};
QKV_API struct qkv_sampling qkv_sampling_defaults(void); /* temperature 1, everything else off, seed 0 */
/* Draws the draw-th token of a seeded sequence: penalty, temperature, top-k, top-p, min-p in that order. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_NUMBER. */
QKV_API enum qkv_status qkv_sample(struct qkv_context *ctx, const struct qkv_sampling *sampling, const float *logits,
                                   size_t vocab, const int32_t *history, size_t history_count, uint64_t draw,
                                   int32_t *id);

/* Experimental: a token that was chosen. */
struct qkv_made_token {
    size_t index; /* of the continuation, from 0 */
    int32_t id;
    const char *
        text; /* its `size` bytes, which may begin or end inside a character; NULL where the model has no text for it */
    size_t size;
    double log_probability; /* natural, of the model's own distribution: before penalty, temperature and filters */
    bool end, stop;         /* it is an end token, which ends the text and is no part of it; it completes a stop text */
};
/* Experimental: receives each token as soon as it is chosen, after what is known of its text; return false to stop all. */
typedef bool qkv_take_token(void *user, const struct qkv_made_token *token);
struct qkv_generate_options {
    struct qkv_sampling sampling;
    size_t tokens;            /* how many to make at most */
    const char *const *stops; /* texts that end the generation; they are not given out */
    size_t stop_count;
    int32_t end_id;               /* a token that ends the generation, or -1 */
    int32_t ends[QKV_TOKEN_ENDS]; /* experimental: more of them */
    size_t end_count;
    /* Experimental: the prompt as ids in place of a text, which is empty then; the tokenizer's template is not placed around them. A
     * model without a tokenizer takes them too. NULL: the text. */
    const int32_t *ids;
    size_t id_count;
    enum qkv_long
        long_prompt; /* experimental: what becomes of a prompt of more tokens than the context; skipped: no token is made */
    /* Experimental: the most positions that are held at once, at most the spec's context, and what rotations are decided for where they
     * depend on the length of a sequence (position.scaling of kind dynamic or longrope). 0: the spec's context, and the tokens of the
     * prompt with those asked for, as far as the context holds them */
    size_t context;
    qkv_take_token *take_token; /* experimental; NULL: nobody asks */
    void *take_user;
};
/* qkv_sampling_defaults, 200 tokens, no stops, no end token; a prompt that is too long is an error. */
QKV_API struct qkv_generate_options qkv_generate_defaults(void);
/* Experimental: sets the end tokens of a model, and where its folder says how its tokens are chosen, the sampling but for its seed; whether it
 * does. A published folder does: greedily, unless do_sample in its generation_config.json is true, and so do folders that were trained or
 * exported from one. End tokens are those of generation_config.json, else of the published config.json, else those that the tokenizer's
 * configuration names, else <|endoftext|>, else that of the role where the tokenizer's template begins texts and does not end them. Ids that the model does not have
 * are left out. */
QKV_API bool qkv_generate_settings(const struct qkv_model *model, struct qkv_generate_options *options);
struct qkv_generate_report {
    size_t prompt_tokens, tokens;
    double prompt_seconds, seconds;
    bool stopped; /* by a stop text or an end token */
    /* experimental: tokens of a prompt that was longer than the context (long_prompt), of which prompt_tokens were read; else 0 */
    size_t long_prompt;
};
/* Receives whole UTF-8 characters as soon as they are known; return false to stop. */
typedef bool qkv_write_text(void *user, const char *text, size_t size);
/* Whether weights, cache and a step of a planned model (qkv_model_plan_load) fit into the memory that is left, before any of it is
 * read: for qkv_generate, whose session has the spec's whole context. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_generate_check_memory(struct qkv_model *plan);
/* Experimental: the same with so many positions (options.context; 0: the spec's). Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_generate_check_memory_for(struct qkv_model *plan, size_t context);
/* Continues a prompt. When the context is full the older half is forgotten and the rest run again. An empty prompt
 * starts from a newline, or token 0. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER,
 * QKV_STOPPED. */
QKV_API enum qkv_status qkv_generate(struct qkv_model *model, const char *prompt, size_t prompt_size,
                                     const struct qkv_generate_options *options, qkv_write_text *write, void *user,
                                     struct qkv_generate_report *report);

/* Experimental: receives the text of continuation `index`, from 0; return false to stop all. */
typedef bool qkv_write_continuation(void *user, size_t index, const char *text, size_t size);
/* Experimental: continues a prompt `count` times, side by side: continuation i is what qkv_generate gives with the seed sampling.seed + i. The
 * prompt is run once, and its keys and values are stored once, for as many at a time as memory allows (at most 256). Texts come as soon as they are known, so those of several come in turns. The
 * report counts the tokens of all, and `stopped` says that all were. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SHAPE, QKV_NUMBER,
 * QKV_STOPPED. */
QKV_API enum qkv_status qkv_generate_several(struct qkv_model *model, const char *prompt, size_t prompt_size,
                                             const struct qkv_generate_options *options, size_t count,
                                             qkv_write_continuation *write, void *user,
                                             struct qkv_generate_report *report);

#ifdef __cplusplus
}
#endif

#endif
