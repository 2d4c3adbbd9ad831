/* decode: sources encoded once, and the decoder that grows targets for them, for the files and rooms that drive them.
 *
 * Both are begun again for the next batch in the memory they have, which is only replaced when a batch needs more. */
#ifndef QKV_DECODE_H
#define QKV_DECODE_H

#include "model/model.h"
#include "sequence/pages.h"

/* A pool for the self attention of the decoder's layers, or for their `cross` attention; NULL with the sentence recorded. (decode_pool.c) */
struct qkv_page_pool *qkv_decode_pool(struct qkv_model *model, bool cross);
/* What the pool of a decoder of `rows` targets of at most `length` positions is, in the context's precision; pages 0: as many as they
 * need. */
struct qkv_page_shape qkv_decode_shape(const struct qkv_model *model, size_t rows, size_t length, size_t pages);
/* `count` empty lists with room for sequences of such a pool, from an arena, which may be measuring; NULL without room. */
struct qkv_page_list *qkv_decode_lists(struct qkv_arena *arena, const struct qkv_page_shape *shape, size_t count);
/* What the pool has, for those who ask. */
struct qkv_cache_pages qkv_decode_pages(const struct qkv_page_pool *pool);

/* Whether the model can have sessions, of that capacity. (session.c) */
enum qkv_status qkv_session_check(struct qkv_model *model, size_t capacity);

/* ---- encoder.c ---------------------------------------------------------------------------------------------------- */

struct qkv_encoded {
    struct qkv_model *model;
    size_t B, T;
    size_t planned_rows;                       /* that a dry run counts with: without padding */
    struct qkv_arena kept, arena, graph_arena; /* what is kept; what encoding computes in */
    float *output;                             /* (B·T, C) */
    int32_t *lengths;                          /* (B) */
    /* of cross attention's keys and values, of all decoder layers; NULL without a decoder */
    struct qkv_page_pool *pool;
    struct qkv_page_list *lists; /* (B): as long as the sources are */
    const int32_t **tables;      /* (B): their pages */
};
/* One that has encoded nothing yet, and will encode ids, or features, by the encoder, or by a decoder alone; NULL with
 * the sentence recorded. */
struct qkv_encoded *qkv_encoded_allocate(struct qkv_model *model, bool features);
/* Bytes that it takes to encode B sources of T positions each, and to grow `targets` (NULL: none) that read them, by dry
 * runs; of targets without `encoded`. The model may be planned. */
enum qkv_status qkv_encoded_measure(struct qkv_model *model, size_t B, size_t T,
                                    const struct qkv_decoder_options *targets, size_t *bytes);
/* As qkv_encode, in place of what was encoded before. */
enum qkv_status qkv_encoded_begin(struct qkv_encoded *encoded, const int32_t *ids, const int32_t *lengths, size_t B,
                                  size_t T);

/* ---- decoder*.c --------------------------------------------------------------------------------------------------- */

enum { QKV_DECODER_CHUNK = 256 }; /* tokens that go through the model at once, where there are no more rows than that */

/* The shape of one pass, which its memory is planned for. */
struct qkv_decoder_shape {
    size_t rows, longest, tokens; /* rows that get tokens, the most that one gets, and all */
    size_t groups, longest_group; /* rows of one source side by side go through cross attention as one */
    size_t scored;                /* tokens whose scores are wanted */
};
struct qkv_decoder {
    struct qkv_model *model;
    const struct qkv_encoded *encoded;
    size_t most, rows; /* at the start, and now */
    size_t capacity;   /* positions of a row */
    struct qkv_arena kept, arena, graph_arena, scores_arena;
    struct qkv_page_pool *pool;
    struct qkv_page_list *lists, *next_lists; /* (most): each row's pages; and while rows are selected */
    size_t *reached;                          /* (most): positions that the model has run over */
    size_t *before, *wanted;                  /* (most): while rows grow, where they were, and how much they get */
    int32_t *sources, *next_sources;          /* (most) */
    int32_t *decided, *next_decided;          /* (most): the lengths that their rotations are decided for */
    float *scores;                            /* (scored,V); NULL: none are held */
    size_t scored;
    /* Of a pass: the rows that get tokens, the keys of each, its pages, and where its tokens begin; the same of groups of rows; and the
     * tokens whose scores are wanted. */
    size_t *active, *more;
    int32_t *chosen;
    int32_t *pasts, *start, *group_pasts, *group_start;
    const int32_t **tables, **group_tables;
    struct qkv_decoder_shape planned[2]; /* a token for each row, and another */
};

/* One without rows; NULL with the sentence recorded. */
struct qkv_decoder *qkv_decoder_allocate(struct qkv_model *model);
/* Plans and takes the memory for these targets, all empty. */
enum qkv_status qkv_decoder_begin(struct qkv_decoder *decoder, const struct qkv_decoder_options *options);
/* Bytes of cache and step of such a decoder, by dry runs. The model may be planned. */
enum qkv_status qkv_decoder_measure(struct qkv_model *model, const struct qkv_decoder_options *options, size_t *bytes);
/* Another decoder with what `row` has as its only row, in the same pool; its scores too, where there are those of each row. */
enum qkv_status qkv_decoder_fork(const struct qkv_decoder *decoder, size_t row, struct qkv_decoder **out);
/* Most tokens of a pass. */
static inline size_t qkv_decoder_pass_most(const struct qkv_decoder *d) {
    const size_t chunk = d->model->spec.prefix && d->capacity > QKV_DECODER_CHUNK ? d->capacity : QKV_DECODER_CHUNK;
    return d->rows > chunk ? d->rows : chunk;
}
/* Of a model whose prompts see themselves in both directions: what an empty row gets first goes through in one pass. */
static inline bool qkv_decoder_begins(const struct qkv_decoder *d, size_t row) {
    return d->model->spec.prefix && d->reached[row] == 0;
}
/* Room for scores of `rows` tokens; those held are lost where that takes more memory. */
enum qkv_status qkv_decoder_take_scores(struct qkv_decoder *decoder, size_t rows);
/* As qkv_decoder_append. */
enum qkv_status qkv_decoder_grow(struct qkv_decoder *decoder, const struct qkv_decoder_input *input);
/* As qkv_decoder_select, but the scores stay behind: for a step that comes next. */
enum qkv_status qkv_decoder_move(struct qkv_decoder *decoder, const size_t *from, size_t count);
/* Forgets all positions of a row at and past `length`, and all scores. */
void qkv_decoder_shorten(struct qkv_decoder *decoder, size_t row, size_t length);

/* A pass over tokens that the lists have room for, counted behind `reached`: ids (tokens), more[i] of them for row active[i], of which
 * scores of `scored` (chosen[…], counted over ids) are put to `scores`. (decoder_pass.c) */
struct qkv_decoder_pass {
    const int32_t *ids;
    size_t rows; /* of `active` and `more` */
    const int32_t *chosen;
    size_t scored;
    float *scores;
};
enum qkv_status qkv_decoder_pass_run(struct qkv_decoder *decoder, const struct qkv_decoder_pass *pass);
/* Bytes of the passes that are sure to come: a token for each row, and `chunk` tokens for each. */
enum qkv_status qkv_decoder_pass_measure(struct qkv_decoder *decoder, size_t chunk, size_t *bytes);

/* ---- batches of uses (use_measure.c) ------------------------------------------------------------------------------------ */

enum {
    QKV_LINE_ROWS = 64,     /* lines that are embedded or classified side by side, at most */
    QKV_LINE_TOKENS = 4096, /* rows × longest of them */
    QKV_SEARCH_BATCH = 32   /* sources that are searched side by side, where nothing else is said */
};
/* Rows that a batch of this length may have at most; products of both are bounded. */
size_t qkv_line_rows(size_t T);
/* Positions that B rows, each of at most T of them, have together at most in a batch. */
size_t qkv_line_positions(size_t B, size_t T);
/* Bytes of the largest batches that lines are embedded or classified in, by dry runs. The model may be planned. */
enum qkv_status qkv_lines_measure(struct qkv_model *model, size_t *bytes);
/* Bytes of a greedy search of as many sources as are searched side by side, sources and targets as long as the context, by
 * dry runs. The model may be planned. */
enum qkv_status qkv_search_measure(struct qkv_model *model, size_t *bytes);

#endif
