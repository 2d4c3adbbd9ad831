/* engine: requests that are answered together. engine.c makes engines, engine_request.c takes requests and ends them,
 * engine_step.c chooses and runs a batch, engine_choose.c chooses tokens, engine_pages.c keeps pages of prefixes,
 * engine_event.c tells what has happened. */
#ifndef QKV_ENGINE_ROOM_H
#define QKV_ENGINE_ROOM_H

#include "generate/generate.h"
#include "model/decode.h"
#include "qkv/engine.h"

enum {
    QKV_ENGINE_ROWS = 16, /* the default */
    QKV_ENGINE_ROWS_MAX = 1 << 14,
    QKV_ENGINE_STEP_MAX = 1 << 20,
    QKV_ENGINE_ANSWERS_MAX = 128,
    QKV_ENGINE_TOP_MAX = 20,
    QKV_ENGINE_SCORED = 32 /* scores of prompts that one step makes, if there are no more rows than that */
};
#define QKV_ENGINE_NO_ROW SIZE_MAX

struct qkv_engine_job;
/* One answer of a request. */
struct qkv_engine_answer {
    struct qkv_engine_job *job;
    size_t index;
    int32_t *ids;       /* the prompt, then the tokens that were made */
    size_t count, made; /* all ids; those that were made */
    size_t row;         /* of the decoder; QKV_ENGINE_NO_ROW: it waits, or has ended */
    size_t cached;      /* positions that were in the cache when it began */
    size_t told;        /* tokens of the prompt whose log-probabilities were told, with the first */
    bool ended;
    /* the first pages of its list that the cache knows, and the node of the last of them */
    size_t known;
    int32_t node;
    uint64_t node_hash;
    struct qkv_text_stream stream;
    struct qkv_constraint_place place;
    struct qkv_engine_writer { /* of the text that a token makes known; there is room for all that is held back */
        char *text;
        size_t size;
    } writer;
};
/* A request. */
struct qkv_engine_job {
    uint64_t id;
    struct qkv_engine_request request;   /* without pointers of the caller */
    struct qkv_generate_options options; /* the same; its stop texts are owned */
    char **stops;
    int32_t *rules; /* the ids of the prompt's rules */
    struct qkv_token_bias *biases;
    struct qkv_prompt prompt;
    size_t tokens;  /* made at most */
    size_t decided; /* the length that rotations depend on */
    struct qkv_engine_answer *answers;
    size_t unended;
    struct qkv_engine_job *next;
};

/* A page whose contents are known: the positions of a text whose pages before are those of `parent`. */
struct qkv_engine_node {
    bool kept;
    uint64_t hash;                  /* of all ids up to its end */
    int32_t parent, children, next; /* pages; −1: none. next: in the list of its hash */
    uint64_t used;                  /* the step in which it was used last */
};
struct qkv_engine_prefixes {
    struct qkv_engine_node *nodes; /* (pages) */
    int32_t *ids;                  /* (pages, positions) */
    int32_t *heads;                /* (head_count) lists of nodes by hash; −1: empty */
    size_t head_count;
};

struct qkv_engine_told {
    struct qkv_engine_event event;
    struct qkv_token_score top[QKV_ENGINE_TOP_MAX];
    char *text, *message;
};

struct qkv_engine {
    struct qkv_model *model;
    struct qkv_context *ctx;
    struct qkv_decoder *decoder;
    size_t row_count, context, most; /* most: tokens of a step */
    bool forget, adapts;             /* adapts: the tokens of a step follow the time that they take */
    size_t step;                     /* tokens of the next step */
    struct qkv_engine_answer **rows; /* (row_count); NULL: the row is free */
    struct qkv_engine_job *jobs, **jobs_end;
    uint64_t next_id;
    struct qkv_engine_prefixes prefixes;
    size_t *counts, *scored; /* of a step: tokens of each row; the tokens whose scores are wanted */
    size_t *order;           /* rows whose prompts are read */
    int32_t *ids;
    size_t scored_most;
    float *scores;                   /* (vocab): with biases and penalties */
    struct qkv_engine_told **events; /* a queue */
    size_t event_first, event_count, event_capacity;
    struct qkv_engine_told *given; /* the latest event that was taken */
    struct qkv_engine_state state;
};

/* ---- requests (engine_request.c) ---- */
/* Takes an answer's row away, and its pages. */
void qkv_engine_leave(struct qkv_engine *engine, struct qkv_engine_answer *answer);
/* Gives an answer the free row `row`. */
void qkv_engine_enter(struct qkv_engine *engine, struct qkv_engine_answer *answer, size_t row);
/* Ends an answer, of which `told` tells. */
void qkv_engine_end(struct qkv_engine *engine, struct qkv_engine_answer *answer, enum qkv_finish finish,
                    struct qkv_engine_told *told);
/* Frees the requests whose answers have all ended. */
void qkv_engine_sweep(struct qkv_engine *engine);
void qkv_engine_job_free(struct qkv_engine_job *job);

/* ---- events (engine_event.c) ---- */
/* An event of an answer at the end of the queue, without a token; NULL: no memory. */
struct qkv_engine_told *qkv_engine_tell(struct qkv_engine *engine, const struct qkv_engine_answer *answer);
/* Removes the newest event again. */
void qkv_engine_untell(struct qkv_engine *engine);
void qkv_engine_told_free(struct qkv_engine_told *told);

/* ---- tokens (engine_choose.c) ---- */
/* Chooses the next token of an answer from the scores after its last one, tells it, and ends the answer where that was
 * the last. A failure leaves the answer as it was. */
enum qkv_status qkv_engine_choose(struct qkv_engine *engine, struct qkv_engine_answer *answer, const float *logits);
/* Tells token `place` of the prompt by the scores after the one before it; place 0: logits is NULL. */
enum qkv_status qkv_engine_tell_prompt(struct qkv_engine *engine, struct qkv_engine_answer *answer, size_t place,
                                       const float *logits);

/* ---- prefixes (engine_pages.c) ---- */
enum qkv_status qkv_engine_prefixes_create(struct qkv_engine *engine);
void qkv_engine_prefixes_free(struct qkv_engine *engine);
/* Gives the empty row of an answer the pages of its first positions that the cache has; its last token is read. */
void qkv_engine_find(struct qkv_engine *engine, struct qkv_engine_answer *answer);
/* Makes the full pages of an answer's row known. */
void qkv_engine_keep(struct qkv_engine *engine, struct qkv_engine_answer *answer);
/* Frees the page that no answer uses and that was used least recently. False: there is none. */
bool qkv_engine_forget_one(struct qkv_engine *engine);
/* Pages that no answer uses. */
size_t qkv_engine_kept(const struct qkv_engine *engine);

#endif
