/* qkv/engine.h: many requests, answered together; a part of qkv.h, which includes it. Experimental: all of it may
 * change.
 *
 * An engine runs steps. A step is one batch of the newest tokens of all running answers and of pieces of prompts that
 * are still read; and one of texts that are embedded, classified or filled. Requests may come and go between steps:
 *
 *     status = qkv_engine_create(model, NULL, &engine);
 *     status = qkv_engine_submit(engine, &(struct qkv_engine_request){.size = …, .prompt = "Once"}, &id);
 *     for (bool busy = true; busy && !status;) {
 *         status = qkv_engine_step(engine, &busy);
 *         while (qkv_engine_poll(engine, &event)) …
 *     }
 *
 * The text, the tokens and their log-probabilities of a request do not depend on other requests, on what the cache
 * holds, on how a prompt is cut, or on the number of threads: they are the bytes that qkv_generate makes, with seed
 * sampling.seed + i for answer i, as long as they fit into the context. (In bf16 precision this holds on one machine.)
 *
 * Keys and values are in pages. Pages that hold the first tokens of several texts are computed and stored once, and
 * stay in the cache after a request until the memory is needed (the least recently used go first). When pages are
 * missing, the youngest answer gives its pages back and is computed again later, with the same bytes. (Continuous
 * batching: Yu et al. 2022, "Orca"; paged keys and values: Kwon et al. 2023.) */
#ifndef QKV_PUBLIC_ENGINE_H
#define QKV_PUBLIC_ENGINE_H

#include "qkv/sequences.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef QKV_EXPERIMENTAL
struct qkv_engine;
/* Experimental: options of an engine. */
struct qkv_engine_options {
    size_t size;    /* sizeof(struct qkv_engine_options), set by qkv_engine_defaults */
    size_t rows;    /* largest number of answers that run together; 0: 16 */
    size_t context; /* largest number of positions of an answer with its prompt; 0: the spec's context */
    size_t memory;  /* bytes of cache and steps, at most; 0: half of the free memory */
    size_t pages;   /* pages of the cache; 0: as many as the memory holds and `rows` answers can use */
    /* largest number of tokens of a step; 0: as many as are computed in a fifth of a second, or, for a request that is
     * alone, in two fifths. A text that is embedded, classified or filled and a source are read whole. */
    size_t step;
    const char *cache; /* types of the cached keys and values, as qkv_model_set_cache has them; NULL: the model's */
    bool forget;       /* no page stays in the cache after the answers that use it */
    /* largest number of tokens of a source, and of a text that is embedded, classified or filled; 0: the context of the
     * stack that reads it, at most 2048, but none with a decoder alone whose folder records no pooling */
    size_t text;
    /* largest number of tokens that are guessed for an answer in a step, at most 32: by `draft`, or else those that
     * followed when its latest tokens occurred before. The model reads them with the newest token, and tokens are
     * chosen as without them: right guesses save steps, and no guess changes an answer. 0: none, or 4 with `draft` */
    size_t drafts;
    /* a smaller decoder of the same context, with the same tokens, that guesses; it has a cache of as many pages, and
     * must outlive the engine. NULL: none */
    struct qkv_model *draft;
};
/* Experimental: all 0. */
QKV_API void qkv_engine_options_init(struct qkv_engine_options *options, size_t size);
static inline struct qkv_engine_options qkv_engine_defaults(void) {
    struct qkv_engine_options options;
    qkv_engine_options_init(&options, sizeof options);
    return options;
}
/* Experimental: makes an engine. A decoder with an lm head has a cache and generates; all models that read tokens
 * embed. `options` NULL: the defaults. The model must outlive it. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_engine_create(struct qkv_model *model, const struct qkv_engine_options *options,
                                          struct qkv_engine **out);
/* Experimental: frees an engine with all its requests. NULL is allowed. */
QKV_API void qkv_engine_free(struct qkv_engine *engine);

/* Experimental: a number that is added to the score of a token before every choice. */
struct qkv_token_bias {
    int32_t id;
    float bias;
};
/* Experimental: what a request asks for. Texts are all kinds but the first. */
enum qkv_engine_kind {
    /* Continuations of the prompt. An encoder-decoder reads it as its source, as qkv_translate reads a line; its
     * answers are targets, whose length counts the token that they begin with, and a blank prompt has empty ones. */
    QKV_ENGINE_GENERATE,
    QKV_ENGINE_EMBED,    /* the vector of the prompt, as qkv_embed computes it */
    QKV_ENGINE_CLASSIFY, /* the probabilities of its classes, as qkv_classify and qkv_classify_pairs compute them */
    QKV_ENGINE_FILL      /* the `top` likeliest tokens for each of its masks, as qkv_fill finds them */
};
/* Experimental: a request. Everything is copied by qkv_engine_submit. */
struct qkv_engine_request {
    size_t size; /* sizeof(struct qkv_engine_request), set by qkv_engine_request_defaults */
    const char *prompt;
    size_t prompt_size;
    /* Sampling, number of tokens, stop texts, end tokens, the prompt as ids, the rule for long prompts; NULL: the
     * defaults. Its callbacks must be NULL, and its context 0. Fewer tokens are made where the context or
     * max_length ends. Targets of an encoder-decoder end as those of qkv_search if there are no end tokens here. Of a
     * request for a text, only the ids count. */
    const struct qkv_generate_options *options;
    size_t answers; /* that continue the prompt, at most 128; answer i has seed sampling.seed + i */
    /* subtracted from the score of each token of the answer so far: once, and once for each time that it occurs */
    double presence_penalty, frequency_penalty;
    const struct qkv_token_bias *biases;
    size_t bias_count;
    size_t min_tokens;         /* no end token is chosen before so many tokens */
    size_t top;                /* likeliest tokens that are told with each token, at most 20 */
    bool log_probabilities;    /* of the tokens of the answer */
    bool prompt_probabilities; /* of the tokens of the prompt, after the first; then no page of the cache is shared */
    enum qkv_engine_kind kind;
    const struct qkv_embed_options *embed; /* of QKV_ENGINE_EMBED; NULL: qkv_embed_defaults of the model */
    const struct qkv_line_options *line;   /* of QKV_ENGINE_CLASSIFY and QKV_ENGINE_FILL; NULL: the defaults */
    const char *second;                    /* of QKV_ENGINE_CLASSIFY: the second text of a pair; NULL: none */
    size_t second_size;
    /* Of QKV_ENGINE_GENERATE: a search with beams, or, with `sample`, results that are drawn together, as qkv_search
     * has them; also of a decoder alone. If its max_tokens is 0, options->tokens is the maximum. The search chooses
     * the tokens, and the answers are its n_best results, told at its end; `answers` is 1 or n_best. It has no
     * penalties, biases, stop texts and log-probabilities but those of its own options. NULL: none. */
    const struct qkv_search_options *search;
    /* The adapter of the model that the request is answered with, by its name (qkv_adapter_add); "": none; NULL: the
     * one that the model had chosen when the engine was made. An unknown name is QKV_ARGUMENT. */
    const char *adapter;
    /* Of QKV_ENGINE_GENERATE with an encoder-decoder: the languages of the source and of the target, as
     * qkv_model_check_languages has them; NULL: those of `search`, else the model's own. A source of ids has its
     * language already. */
    const char *source_language, *target_language;
};
/* Experimental: one answer, and the defaults. */
QKV_API void qkv_engine_request_init(struct qkv_engine_request *request, size_t size);
static inline struct qkv_engine_request qkv_engine_request_defaults(void) {
    struct qkv_engine_request request;
    qkv_engine_request_init(&request, sizeof request);
    return request;
}
/* Experimental: queues a request; *id numbers it. A request that the cache could not hold if it were alone, and a text
 * that is longer than the engine reads, are QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_engine_submit(struct qkv_engine *engine, const struct qkv_engine_request *request,
                                          uint64_t *id);
/* Experimental: ends a request; its pages are free at once. Answers that were not finished get an event. False: there
 * is no such request. */
QKV_API bool qkv_engine_cancel(struct qkv_engine *engine, uint64_t id);
/* Experimental: runs one step; *busy (may be NULL) is false where there was nothing to do. A failure leaves all
 * requests as they were. A request whose scores are not numbers fails alone, by its event. Fails with QKV_MEMORY,
 * QKV_SHAPE, QKV_STOPPED. */
QKV_API enum qkv_status qkv_engine_step(struct qkv_engine *engine, bool *busy);

/* Experimental: why an answer ended. */
enum qkv_finish {
    QKV_FINISH_NONE,      /* it goes on */
    QKV_FINISH_STOP,      /* an end token, or a stop text */
    QKV_FINISH_LENGTH,    /* the number of tokens, or the end of the context */
    QKV_FINISH_CANCELLED, /* qkv_engine_cancel */
    QKV_FINISH_FAILED,    /* `message` says why */
    QKV_FINISH_READ       /* a text was embedded, classified or filled */
};
/* Experimental: a token and its log-probability under the model's own distribution. */
struct qkv_token_score {
    int32_t id;
    double log_probability;
};
/* Experimental: what happened to an answer. Pointers are valid until the next call with the engine. */
struct qkv_engine_event {
    uint64_t request;
    size_t answer;
    bool prompt;                       /* the token is one of the prompt */
    struct qkv_token_score token;      /* id −1: none */
    size_t token_size;                 /* its bytes in the text; 0: none, as of an end or of a target's language */
    const struct qkv_token_score *top; /* likeliest first; with the token's place, if the request asks for them */
    size_t top_count;
    const char *text; /* text of the answer that has become known: whole characters, without stop texts */
    size_t size;
    enum qkv_finish finish;
    /* at the end: tokens of the prompt, those whose pages were in the cache, and tokens made, without the end token */
    size_t prompt_tokens, cached_tokens, tokens;
    const char *message; /* of a failure; else NULL */
    /* of a text: the vector, of qkv_embed_width numbers, or the probabilities of the classes, with one class the score.
     * As qkv_embed and qkv_classify have it, a blank or skipped text has zeros, or NaN for a single class. */
    const float *vector;
    size_t vector_count;
    const struct qkv_filling *fillings; /* (masks,top); as qkv_fill has it, a skipped text has no masks */
    size_t masks;
    /* of a search, at its end: the result of rank `answer`, whose text is `text`; NULL: it found fewer */
    const struct qkv_hypothesis *hypothesis;
};
/* Experimental: takes the oldest event; false: there is none. */
QKV_API bool qkv_engine_poll(struct qkv_engine *engine, struct qkv_engine_event *event);

/* Experimental: what an engine does, and has done since it was made. */
struct qkv_engine_state {
    size_t running, waiting; /* answers */
    size_t rows, context;    /* as they were chosen */
    size_t step;             /* tokens of the next step, if several requests are there */
    size_t pages, free_pages, kept_pages, page_positions, page_bytes; /* kept: that no running answer uses */
    size_t memory;                                                    /* bytes of cache and steps, as planned */
    uint64_t steps, tokens, prompt_tokens, cached_tokens; /* tokens made; read of prompts; found in the cache */
    uint64_t put_off;                                     /* how often an answer gave its pages back */
    uint64_t texts, text_tokens; /* that were embedded, classified or filled, and their tokens */
    uint64_t drafted, accepted;  /* tokens that were guessed; those of them that were chosen */
};
/* Experimental: the state of an engine; all 0 for NULL. */
QKV_API struct qkv_engine_state qkv_engine_state(const struct qkv_engine *engine);
#endif

#ifdef __cplusplus
}
#endif

#endif
