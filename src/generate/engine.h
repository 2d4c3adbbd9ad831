/* engine: requests that are answered together. engine.c makes engines, engine_request.c takes requests and frees them,
 * engine_answer.c gives answers rows and ends them, engine_step.c chooses and runs a batch, engine_choose.c chooses
 * tokens, engine_pages.c keeps pages of prefixes, engine_event.c tells what has happened; engine_search.c searches;
 * engine_draft.c guesses tokens; engine_text.c reads texts to embed, classify or fill; engine_encode.c runs them, and
 * encodes sources; engine_lines.c has an engine read the lines of public functions. */
#ifndef QKV_ENGINE_ROOM_H
#define QKV_ENGINE_ROOM_H

#include "generate/generate.h"
#include "generate/search.h"
#include "generate/texts.h"
#include "model/decode.h"
#include "model/text_room.h"
#include "qkv/engine.h"

enum {
    QKV_ENGINE_ROWS = 16, /* the default */
    QKV_ENGINE_ROWS_MAX = 1 << 14,
    QKV_ENGINE_STEP_MAX = 1 << 20,
    QKV_ENGINE_ANSWERS_MAX = 128,
    QKV_ENGINE_TOP_MAX = 20,
    QKV_ENGINE_SCORED = 32,       /* scores of prompts that one step makes, if there are no more rows than that */
    QKV_ENGINE_TEXT = 2048,       /* the default maximum of tokens of a text */
    QKV_ENGINE_TEXT_TOKENS = 512, /* tokens of texts that are read at once, if no text is longer */
    QKV_ENGINE_TEXTS = QKV_TEXT_BATCH,
    QKV_ENGINE_MESSAGE = 512,    /* bytes of a message of a search that fails */
    QKV_ENGINE_DRAFTS = 32,      /* tokens that are guessed for an answer, at most */
    QKV_ENGINE_DRAFTS_USUAL = 4, /* the default with a model that guesses */
    QKV_ENGINE_MASKS = 32        /* masks that are filled at once, if nothing else is said */
};
/* A kind of text that only the library asks for: the scores of the classes of each of its tokens, as the head computes
 * them. */
#define QKV_ENGINE_TOKENS ((enum qkv_engine_kind)(QKV_ENGINE_FILL + 1))
#define QKV_ENGINE_NO_ROW SIZE_MAX

struct qkv_engine_job;
/* One answer of a request. */
struct qkv_engine_answer {
    struct qkv_engine_job *job;
    size_t index;
    int32_t *ids;       /* the prompt, then the tokens that were made */
    size_t count, made; /* all ids; those that were made */
    size_t room;        /* of `ids` */
    size_t dropped;     /* ids before those that its row has read */
    size_t row;         /* of the decoder; QKV_ENGINE_NO_ROW: it waits, or has ended */
    size_t cached;      /* positions that were in the cache when it began */
    size_t drafted;     /* tokens after them that are guessed, in this step */
    bool undrafted;     /* the draft model cannot read it, or has no pages for it */
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
/* A search, whose hypotheses are the answers of its request. */
struct qkv_engine_search {
    struct qkv_search_options options; /* without pointers of the caller */
    struct qkv_search_rules rules;
    int32_t *lists; /* the ids of the rules */
    struct qkv_beam beam;
    bool even;           /* in this step: all hypotheses have read all but their newest tokens */
    const float *scores; /* (live,V): after those, where it takes a step */
};
/* A text that is embedded, classified or filled. */
struct qkv_engine_text {
    int32_t *ids, *types; /* (count); types NULL: all 0 */
    size_t count, skipped;
    enum qkv_pool pool;
    bool normalize;
    struct qkv_filler filler;
    size_t filled; /* masks that have their tokens */
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
    struct qkv_engine_text text;
    struct qkv_engine_search *search; /* NULL: answers are chosen one by one */
    const char *what;                 /* of a search: how messages name it, with its number from 1; NULL: not at all */
    size_t number;                    /* of a search: for its seeds */
    struct qkv_adapter_run adapter;   /* that it has chosen; count 0: none */
    struct qkv_languages languages;   /* of its source and its target */
    size_t tokens;                    /* made at most */
    size_t decided;                   /* the length that rotations depend on */
    bool rolls;                       /* a full row drops its older half, and the answer goes on */
    size_t place;                     /* of its source among those that are encoded; QKV_ENGINE_NO_ROW: it has none */
    bool encoded;                     /* the source is in its place */
    struct qkv_engine_answer *answers;
    size_t unended, rows; /* answers that have not ended, and those that have a row */
    struct qkv_engine_job *next;
};

/* A page whose contents are known: the positions of a text whose pages before are those of `parent`. */
struct qkv_engine_node {
    bool kept;
    uint64_t hash;                  /* of all ids up to its end */
    int32_t adapter;                /* that the positions were computed with; −1: none */
    int32_t parent, children, next; /* pages; −1: none. next: in the list of its hash */
    uint64_t used;                  /* the step in which it was used last */
};
struct qkv_engine_prefixes {
    struct qkv_engine_node *nodes; /* (pages) */
    int32_t *ids;                  /* (pages, positions) */
    int32_t *heads;                /* (head_count) lists of nodes by hash; −1: empty */
    size_t count, head_count;      /* count: pages; 0: none is shared */
};

struct qkv_engine_told {
    struct qkv_engine_event event;
    struct qkv_token_score top[QKV_ENGINE_TOP_MAX];
    char *text, *message;
    size_t text_room;
    float *vector;
    struct qkv_filling *fillings;
    int32_t *ids;
    struct qkv_hypothesis hypothesis;
    enum qkv_status status;       /* of an answer that failed */
    struct qkv_engine_told *next; /* of those that are spare, or that somebody has taken */
};

/* Texts that are read at once. */
struct qkv_engine_batch {
    struct qkv_engine_job *jobs[QKV_ENGINE_TEXTS];
    size_t count, tokens, longest;
    int32_t lengths[QKV_ENGINE_TEXTS], starts[QKV_ENGINE_TEXTS + 1];
    size_t *scored, scored_count; /* (room.masks): masks that are filled */
    int32_t *ids, *types;         /* (room.tokens) */
};

struct qkv_engine {
    struct qkv_model *model;
    struct qkv_context *ctx;
    struct qkv_decoder *decoder;
    const char *doing;               /* what a message says that was cancelled */
    size_t row_count, context, most; /* most: tokens of a step */
    size_t drafts;                   /* tokens that are guessed for an answer */
    struct qkv_model *draft_model;   /* that guesses; NULL: they are looked up */
    struct qkv_decoder *draft;       /* its rows are those of `decoder`; NULL: there is none */
    bool forget, adapts;             /* adapts: the tokens of a step follow the time that they take */
    size_t step;                     /* tokens of the next step, if several requests are there */
    size_t budget;                   /* tokens of this step */
    bool full;                       /* a text or a source did not fit into the budget of this step */
    size_t refill;                   /* waiting searches begin only where so many rows are free, or all; 0: at once */
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
    struct qkv_engine_told *spare; /* a list of records for events to come, so that tokens take no memory */
    size_t spare_count;
    struct qkv_engine_told *given; /* the latest event that was taken */
    /* (row_count) each: searches that take this step, and what those find that do not draw */
    struct qkv_engine_job **searching;
    struct qkv_continuation *continuations;
    size_t searching_count;
    struct qkv_encoded *encoded;    /* of sources, and of texts that are embedded */
    size_t place_count;             /* of sources */
    struct qkv_engine_job **places; /* (place_count); NULL: the model reads no sources; an entry NULL: it is free */
    struct qkv_pass *pass;          /* of those that are classified or filled; NULL: none was yet */
    bool reads_only;                /* it has no rows, whatever the model is */
    bool lent;                      /* its rows are those of the caller's decoder, and stay as answers leave them */
    struct qkv_text_room room;      /* of texts */
    struct qkv_engine_batch batch;
    struct qkv_engine_state state;
};

/* ---- requests (engine_answer.c, engine_request.c) ---- */
/* Takes an answer's row away, and its pages. */
void qkv_engine_leave(struct qkv_engine *engine, struct qkv_engine_answer *answer);
/* Gives an answer the free row `row`. */
void qkv_engine_enter(struct qkv_engine *engine, struct qkv_engine_answer *answer, size_t row);
/* Copies the lists of rules, which are the caller's or the model's, to *lists, freed with free. */
enum qkv_status qkv_engine_copy_rules(struct qkv_engine *engine, struct qkv_token_rules *rules, int32_t **lists);
/* Ends an answer, of which `told` tells. */
void qkv_engine_end(struct qkv_engine *engine, struct qkv_engine_answer *answer, enum qkv_finish finish,
                    struct qkv_engine_told *told);
/* Takes the one answer of a text, which has no row. */
enum qkv_status qkv_engine_answer_text(struct qkv_engine *engine, struct qkv_engine_job *job);
/* Queues a text that is read and has tokens; the engine takes its memory, and leaves an empty text. */
enum qkv_status qkv_engine_submit_text(struct qkv_engine *engine, enum qkv_engine_kind kind,
                                       struct qkv_engine_text *text, uint64_t *id);
/* A search for a source that is read. */
struct qkv_engine_source {
    struct qkv_prompt prompt; /* with the source, and the tokens that targets begin and end with */
    const struct qkv_search_options *options;
    size_t number;    /* for its seeds */
    const char *what; /* how a message names it, with its number from 1 */
};
/* Queues it; the engine takes the memory of the prompt, and leaves an empty one. */
enum qkv_status qkv_engine_submit_source(struct qkv_engine *engine, struct qkv_engine_source *source, uint64_t *id);
/* Answers to a prompt that is read. */
struct qkv_engine_prompt {
    const struct qkv_prompt *prompt;
    /* Its prompt and its callbacks are not read; tokens have log-probabilities if it has take_token. */
    const struct qkv_generate_options *options;
    size_t answers;
    bool rolls; /* where the context is full, answers drop the older half, and go on */
};
/* Queues them; everything is copied. */
enum qkv_status qkv_engine_submit_prompt(struct qkv_engine *engine, const struct qkv_engine_prompt *prompt,
                                         uint64_t *id);
/* Frees the requests whose answers have all ended. */
void qkv_engine_sweep(struct qkv_engine *engine);
/* Makes an engine that only reads texts, of any model (engine.c). */
enum qkv_status qkv_engine_open_reader(struct qkv_model *model, const struct qkv_text_room *room,
                                       struct qkv_engine **out);
/* Makes an engine whose rows are those of a decoder, which are empty, or begin as prompts do; they stay as answers
 * leave them. step: the largest number of tokens of a step (engine.c). */
enum qkv_status qkv_engine_open_rows(struct qkv_decoder *decoder, size_t step, struct qkv_engine **out);
/* Makes an engine that only searches targets of sources, of such a shape (engine.c). */
enum qkv_status qkv_engine_open_searcher(struct qkv_model *model, const struct qkv_search_shape *shape,
                                         struct qkv_engine **out);
void qkv_engine_job_free(struct qkv_engine_job *job);

/* The ids of an answer that its row has read, with those that it has dropped. */
static inline size_t qkv_engine_read(const struct qkv_engine *engine, const struct qkv_engine_answer *answer) {
    return answer->dropped + engine->decoder->reached[answer->row];
}

/* The number of the adapter of a request; −1: it has none. */
static inline int32_t qkv_engine_adapter(const struct qkv_engine_job *job) {
    return job->adapter.count ? (int32_t)job->adapter.number : -1;
}

/* ---- events (engine_event.c) ---- */
/* An event of an answer at the end of the queue, without a token; NULL: no memory. */
struct qkv_engine_told *qkv_engine_tell(struct qkv_engine *engine, const struct qkv_engine_answer *answer);
/* Removes the newest event again. */
void qkv_engine_untell(struct qkv_engine *engine);
void qkv_engine_told_free(struct qkv_engine_told *told);
/* The same, but the record may serve another event. */
void qkv_engine_told_drop(struct qkv_engine *engine, struct qkv_engine_told *told);
/* Takes memory for so many bytes of text in place of the text that it had. */
enum qkv_status qkv_engine_told_text(struct qkv_engine *engine, struct qkv_engine_told *told, size_t size);
/* Takes the oldest event, which is then the caller's; NULL: there is none. */
struct qkv_engine_told *qkv_engine_take(struct qkv_engine *engine);

/* Tells the message of the context, which is then forgiven, and ends an answer that fails alone. */
enum qkv_status qkv_engine_fail(struct qkv_engine *engine, struct qkv_engine_answer *answer,
                                struct qkv_engine_told *told, enum qkv_status why);

/* ---- searches (engine_search.c) ---- */
/* Makes the search of a request, whose prompt is read. */
enum qkv_status qkv_engine_search_make(struct qkv_engine *engine, struct qkv_engine_job *job);
enum qkv_status qkv_engine_search_answers(struct qkv_engine *engine, struct qkv_engine_job *job);
void qkv_engine_search_free(struct qkv_engine_search *search);
/* Whether an answer has events: hypotheses past n_best have none. */
bool qkv_engine_search_tells(const struct qkv_engine_answer *answer);
/* Pages of so many hypotheses of `count` tokens. */
size_t qkv_engine_search_pages(const struct qkv_engine *engine, const struct qkv_engine_job *job, size_t hypotheses,
                               size_t count);
/* Gives the hypotheses rows, and the source a place in a step of `most` tokens. False: rows or pages are missing. */
bool qkv_engine_search_enter(struct qkv_engine *engine, struct qkv_engine_job *job, size_t most);
void qkv_engine_search_leave(struct qkv_engine *engine, struct qkv_engine_job *job);
/* Tokens that a hypothesis may read now: its newest one only when all others can. */
size_t qkv_engine_search_unread(const struct qkv_engine *engine, const struct qkv_engine_answer *answer);
/* At the begin of a step. Hypotheses that are read again share what they have in common with the first one, when that
 * is read. */
void qkv_engine_searches_begin(struct qkv_engine *engine);
/* A search takes this step, with the scores (live,V) of its hypotheses. */
void qkv_engine_search_score(struct qkv_engine *engine, struct qkv_engine_job *job, const float *scores);
/* All those take the step. */
void qkv_engine_searches_step(struct qkv_engine *engine);

/* ---- guesses (engine_draft.c) ---- */
/* Fails if the draft model cannot guess for the engine's model. */
enum qkv_status qkv_engine_draft_check(struct qkv_engine *engine);
/* Drops what the draft model has read of an answer's guesses; called before every step, while no later token can have
 * taken the place of a guess. */
void qkv_engine_draft_drop(struct qkv_engine *engine, const struct qkv_engine_answer *answer);
/* Guesses tokens that follow the answers that make tokens, and writes them after their ids. */
enum qkv_status qkv_engine_draft(struct qkv_engine *engine);

/* ---- texts (engine_text.c, engine_encode.c) ---- */
/* Checks and reads a text. */
enum qkv_status qkv_engine_text_read(struct qkv_engine *engine, struct qkv_engine_job *job);
/* Tells a text that the model does not read: it is blank or skipped. */
enum qkv_status qkv_engine_text_none(struct qkv_engine *engine, struct qkv_engine_job *job,
                                     struct qkv_engine_told *told);
void qkv_engine_text_free(struct qkv_engine_text *text);
/* The numbers of the vector of a text. */
size_t qkv_engine_text_width(const struct qkv_engine *engine, const struct qkv_engine_job *job);
/* Sets how long texts may be. */
enum qkv_status qkv_engine_texts_check(struct qkv_engine *engine, const struct qkv_engine_options *options);
/* The bytes of reading texts, without those of encoding where the model has sources. */
enum qkv_status qkv_engine_texts_measure(struct qkv_engine *engine, size_t *bytes);
enum qkv_status qkv_engine_texts_create(struct qkv_engine *engine);
/* The sources and texts that are encoded; pages: of the cache, of which sources have as many, if they need them. */
struct qkv_encoded_room qkv_engine_encoded_room(const struct qkv_engine *engine, size_t pages);
/* Opens it. */
enum qkv_status qkv_engine_open_room(struct qkv_engine *engine, size_t pages);
void qkv_engine_texts_free(struct qkv_engine *engine);
/* Gives the source of a request a place, if there are pages, and tokens for it in a step of `most`. */
bool qkv_engine_source_enter(struct qkv_engine *engine, struct qkv_engine_job *job, size_t most);
/* Encodes the sources that have a place and are not encoded yet; *tokens: of them. If that fails, their answers leave
 * their rows. */
enum qkv_status qkv_engine_sources_run(struct qkv_engine *engine, size_t *tokens);
/* Reads the oldest texts, at most `most` tokens or one text; *tokens: of them. */
enum qkv_status qkv_engine_texts_run(struct qkv_engine *engine, size_t most, size_t *tokens);

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
