/* decode: sources that are encoded once, and the decoder that grows targets for them; for the files and rooms that use
 * them. */
#ifndef QKV_DECODE_H
#define QKV_DECODE_H

#include "model/model.h"
#include "model/text_room.h"
#include "sequence/pages.h"

/* A pool of pages for self attention of layers of a stack, or for their `cross` attention. Its attentions are those of
 * all layers; only layers from `first` to `end` have pages. Fails as qkv_page_pool_create does. (decode_pool.c) */
struct qkv_stack_pool {
    const struct qkv_stack *stack;
    size_t first, end;
    bool cross;
    struct qkv_page_types types;
    const char *what; /* names the pool in messages */
};
enum qkv_status qkv_stack_pool_create(struct qkv_context *ctx, const struct qkv_stack_pool *choice,
                                      struct qkv_page_pool **out);
/* The page types of a cache: those that `cache` names (qkv_page_types_read), NULL: those of the model. */
enum qkv_status qkv_decode_types(struct qkv_model *model, const char *cache, struct qkv_page_types *types);
/* The same for all layers of the decoder, in these types. */
enum qkv_status qkv_decode_pool(struct qkv_model *model, bool cross, struct qkv_page_types types,
                                struct qkv_page_pool **out);
/* `count` empty lists with room for sequences of such a pool, from an arena, which may be measuring; NULL: no
 * memory. */
struct qkv_page_list *qkv_decode_lists(struct qkv_arena *arena, const struct qkv_page_shape *shape, size_t count);
/* The counts of a pool's pages. */
struct qkv_cache_pages qkv_decode_pages(const struct qkv_page_pool *pool);

/* Fails if the model cannot have sessions, or none of that capacity. (session.c) */
enum qkv_status qkv_session_check(struct qkv_model *model, size_t capacity);
/* The decoder of a session, which has one row. */
struct qkv_decoder *qkv_session_decoder(struct qkv_session *session);

/* ---- encoder.c --------------------------------------------------------------------------------------------------- */

struct qkv_encoded {
    struct qkv_model *model;
    size_t B, T;
    size_t rows;                               /* without padding */
    struct qkv_arena kept, arena, graph_arena; /* kept: what decoding reads; arena: what encoding computes in */
    float *output;                             /* (B·T, C) */
    int32_t *lengths;                          /* (B) */
    /* keys and values of cross attention, of all decoder layers; NULL without a decoder */
    struct qkv_page_pool *pool;
    struct qkv_page_list *lists; /* (B): as long as the sources are */
    const int32_t **tables;      /* (B): their pages */
    /* of a batch whose sources come and go (encoder_places.c): the maximum that is encoded at once; the lengths and
     * pages of those that are encoded */
    size_t sources, rows_most;
    int32_t *lengths_now;
    const int32_t **tables_now;
};
/* An encoded batch that is still empty, for ids or for features, of an encoder, or of a decoder alone. NULL: failed,
 * the context has the message. */
struct qkv_encoded *qkv_encoded_allocate(struct qkv_model *model, bool features);

/* The stack that encodes: the encoder, or a decoder alone. */
struct qkv_stack *qkv_encoded_stack(struct qkv_model *model);
/* An empty batch of a model that may be planned; NULL: no memory. */
struct qkv_encoded *qkv_encoded_make(struct qkv_model *model);
/* Makes the pool for the keys and values of cross attention, if there is any. */
enum qkv_status qkv_encoded_own_pool(struct qkv_encoded *encoded);
/* Sources that are encoded together. */
struct qkv_pass_side;
struct qkv_encoder_batch {
    size_t B, T, rows;                  /* rows: all positions within the lengths */
    bool ragged;                        /* sources may be shorter than T */
    bool packed;                        /* ids and output have no padding: (rows), (rows,C) */
    const struct qkv_pass_side *source; /* its ids, or features */
    const int32_t *lengths;             /* (B) */
    const int32_t *const *tables;       /* (B): the pages of cross attention; NULL: it is not computed */
    float *output;                      /* NULL: it is not wanted */
};
/* Runs the encoder in the memory that was planned, or plans it. */
enum qkv_status qkv_encoder_run(struct qkv_encoded *encoded, const struct qkv_encoder_batch *batch);

/* ---- encoder_places.c -------------------------------------------------------------------------------------------- */

/* An encoded batch whose sources come and go: each has a place, and pages for its keys and values. */
struct qkv_encoded_room {
    size_t places, pages; /* sources that are there at once, 0: none; their pages, 0: as many as all places need */
    size_t T;             /* positions of the longest */
    size_t sources, rows; /* the maximum that is encoded at once: sequences, and the positions of all of them */
    size_t scored;        /* of targets: tokens whose scores are wanted at once; 0: of one token of each row */
};
/* Begins such a batch with all places empty. */
enum qkv_status qkv_encoded_open(struct qkv_encoded *encoded, const struct qkv_encoded_room *room);
/* The bytes that it takes, and growing `targets` (NULL: none) that read its sources; the field `encoded` of targets is
 * not read. The model may be planned. */
enum qkv_status qkv_encoded_room_measure(struct qkv_model *model, const struct qkv_encoded_room *room,
                                         const struct qkv_decoder_options *targets, size_t *bytes);
/* Gives an empty place the pages of a source of so many positions; QKV_FULL: there are not enough. */
enum qkv_status qkv_encoded_take(struct qkv_encoded *encoded, size_t place, size_t length);
void qkv_encoded_drop(struct qkv_encoded *encoded, size_t place);
/* Texts without padding, one after the other. */
struct qkv_packed_texts {
    const int32_t *ids, *lengths; /* (rows), (count) */
    size_t count;
};
/* Encodes sources into their places, which have taken pages for them. */
enum qkv_status qkv_encoded_put(struct qkv_encoded *encoded, const struct qkv_packed_texts *texts,
                                const size_t *places);
/* Encodes texts: encoded->output is then (rows,C). The places stay as they are. */
enum qkv_status qkv_encoded_pack(struct qkv_encoded *encoded, const struct qkv_packed_texts *texts);

/* ---- decoder*.c -------------------------------------------------------------------------------------------------- */

enum { QKV_DECODER_CHUNK = 256 }; /* the default maximum of tokens in one pass, if there are no more rows than that */

/* The shape of one pass, which determines its memory. */
struct qkv_decoder_shape {
    size_t rows, longest, tokens; /* rows that get tokens, the maximum of one row, and the sum */
    size_t groups, longest_group; /* consecutive rows of one source are one sequence of cross attention */
    size_t scored;                /* tokens whose scores are wanted */
    struct qkv_adapter_runs runs; /* tokens that choose an adapter */
};
struct qkv_decoder {
    struct qkv_model *model;
    const struct qkv_encoded *encoded;
    size_t most, rows; /* rows when it was begun, which is the maximum, and now */
    size_t capacity;   /* positions of a row */
    struct qkv_arena kept, arena, graph_arena, scores_arena;
    struct qkv_page_pool *pool;
    struct qkv_page_list *lists, *next_lists; /* (most): the pages of each row; next_lists: while rows are selected */
    size_t *reached;                          /* (most): positions that the model has computed */
    size_t *before, *wanted;                  /* (most): while rows grow: `reached` before it, and the new tokens */
    int32_t *sources, *next_sources;          /* (most) */
    int32_t *decided, *next_decided;          /* (most): the lengths that rotations depend on */
    int32_t *adapters, *next_adapters;        /* (most): the number of the adapter of each row; −1: it has none */
    float *scores;                            /* (scored,V); NULL: none */
    size_t scored;
    /* of a pass: the rows that get tokens, keys, pages and first token of each; the same of groups of rows; and the
     * tokens whose scores are wanted */
    size_t *active, *more;
    int32_t *chosen; /* also the rows that are selected */
    int32_t *pasts, *start, *group_pasts, *group_start;
    const int32_t **tables, **group_tables;
    struct qkv_decoder_shape planned[2]; /* one token per row; and the latest other shape */
    /* Of a model with named adapters: rows and tokens of a pass by adapter (decoder_adapters.c); and the runs of the
     * pass, and of `planned`, with as many entries as the model has adapters. */
    size_t *grouped, *grouped_more;
    int32_t *grouped_ids, *places;
    struct qkv_adapter_run *runs, *planned_runs[2];
};

/* A decoder without rows; NULL: failed, the context has the message. */
struct qkv_decoder *qkv_decoder_allocate(struct qkv_model *model);
/* Plans and takes the memory for these targets, which are all empty. */
enum qkv_status qkv_decoder_begin(struct qkv_decoder *decoder, const struct qkv_decoder_options *options);
/* Bytes of cache and step of such a decoder, by plans. The model may be planned. */
enum qkv_status qkv_decoder_measure(struct qkv_model *model, const struct qkv_decoder_options *options, size_t *bytes);
/* Bytes that a step may need besides those that qkv_decoder_measure plans, where rows get different numbers of tokens,
 * and `scored` tokens have scores. */
enum qkv_status qkv_decoder_measure_mixed(struct qkv_model *model, const struct qkv_decoder_options *options,
                                          size_t scored, size_t *bytes);
/* Makes a decoder in the same pool whose only row continues `row`, with its scores if there is one set per row. */
enum qkv_status qkv_decoder_fork(const struct qkv_decoder *decoder, size_t row, struct qkv_decoder **out);
/* The maximum number of tokens in a pass. */
static inline size_t qkv_decoder_pass_most(const struct qkv_decoder *d) {
    const size_t chunk = d->model->spec.prefix && d->capacity > QKV_DECODER_CHUNK ? d->capacity : QKV_DECODER_CHUNK;
    return d->rows > chunk ? d->rows : chunk;
}
/* Whether the row is empty and its model has a prefix, which is bidirectional: its first tokens must go through in one
 * pass. */
static inline bool qkv_decoder_begins(const struct qkv_decoder *d, size_t row) {
    return d->model->spec.prefix && d->reached[row] == 0;
}
/* Takes memory for scores of `rows` tokens; the scores so far are lost where that takes more memory. */
enum qkv_status qkv_decoder_take_scores(struct qkv_decoder *decoder, size_t rows);
/* The same as qkv_decoder_append. */
enum qkv_status qkv_decoder_grow(struct qkv_decoder *decoder, const struct qkv_decoder_input *input);
/* The same as qkv_decoder_select, but without the scores and the checks, for rows from `first` on, of which there are
 * `width`: row first + i continues row first + from[i], for i < count; the others become empty. */
void qkv_decoder_move_rows(struct qkv_decoder *decoder, size_t first, const size_t *from, size_t count, size_t width);
/* Drops all positions of a row from `length` on, and all scores. */
void qkv_decoder_shorten(struct qkv_decoder *decoder, size_t row, size_t length);

/* A pass over tokens that the lists have room for: ids (tokens), of which more[i] are for row active[i], after its
 * `reached` positions. The scores of `scored` tokens (chosen[…], indices of ids) go to `scores`. (decoder_pass.c) */
struct qkv_decoder_pass {
    const int32_t *ids;
    size_t rows; /* of `active` and `more`; 0: a plan, for rows of any length */
    const int32_t *chosen;
    size_t scored;
    float *scores;
};
enum qkv_status qkv_decoder_pass_run(struct qkv_decoder *decoder, const struct qkv_decoder_pass *pass);
/* Orders the rows of a pass so that those with the same adapter follow one another; its ids and chosen tokens go
 * along, and scores stay in the order of before. (decoder_adapters.c) */
void qkv_decoder_group(struct qkv_decoder *decoder, struct qkv_decoder_pass *pass);
/* The runs of tokens of such a pass, in decoder->runs. */
struct qkv_adapter_runs qkv_decoder_runs(struct qkv_decoder *decoder, size_t rows);
/* Takes the memory for both, and sets the adapter that the model has chosen in all rows. */
bool qkv_decoder_take_groups(struct qkv_decoder *decoder);
bool qkv_decoder_same_runs(const struct qkv_adapter_runs *a, const struct qkv_adapter_runs *b);
/* Bytes of the passes that will surely come: one token per row, and `chunk` tokens per row. */
enum qkv_status qkv_decoder_pass_measure(struct qkv_decoder *decoder, size_t chunk, size_t *bytes);
/* Bytes of every pass that may come, with tokens in any rows. */
enum qkv_status qkv_decoder_pass_measure_mixed(struct qkv_decoder *decoder, size_t scored, size_t *bytes);

/* ---- batches of uses (use_measure.c) ----------------------------------------------------------------------------- */

enum { QKV_SEARCH_BATCH = 32 }; /* the default number of sources that are searched together */
struct qkv_search_shape {
    size_t sources, width; /* searched side by side; hypotheses of each */
    size_t T, capacity;    /* the longest source; positions of a target */
};
/* The room for encoding the sources of a search. */
struct qkv_text_room qkv_search_room(const struct qkv_search_shape *shape);
/* The rows of a search, which have no sources yet. targets->sources is freed with free. */
enum qkv_status qkv_search_targets(struct qkv_model *model, const struct qkv_search_shape *shape,
                                   struct qkv_decoder_options *targets);
/* Measures, by plans, the bytes of a search; T and capacity are cut to the context. The model may be planned. */
enum qkv_status qkv_search_measure(struct qkv_model *model, const struct qkv_search_shape *shape, size_t *bytes);

#endif
