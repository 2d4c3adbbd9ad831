/* decode: sources encoded once, and the decoder that grows targets for them, for the files and rooms that drive them.
 *
 * Both are begun again for the next batch in the memory they have, which is only replaced when a batch needs more. */
#ifndef QKV_DECODE_H
#define QKV_DECODE_H

#include "model/model.h"

/* Takes keys and values of an attention, `count` runs of `capacity` positions. False where there is no memory. (stack_calls.c) */
bool qkv_key_values_take(struct qkv_arena *arena, struct qkv_key_values *kv, const struct qkv_attention_spec *attention,
                         size_t count, size_t capacity);

/* ---- encoder.c ---------------------------------------------------------------------------------------------------- */

struct qkv_encoded {
    struct qkv_model *model;
    size_t B, T;
    struct qkv_arena kept, arena, graph_arena; /* what is kept; what encoding computes in */
    float *output;                             /* (B·T, C) */
    int32_t *lengths;                          /* (B) */
    struct qkv_key_values *memory; /* cross attention's, one a decoder layer, B runs of T positions; or NULL */
};
/* One that has encoded nothing yet; NULL with the sentence recorded. */
struct qkv_encoded *qkv_encoded_allocate(struct qkv_model *model);
/* As qkv_encode, in place of what was encoded before. */
enum qkv_status qkv_encoded_begin(struct qkv_encoded *encoded, const int32_t *ids, const int32_t *lengths, size_t B,
                                  size_t T);

/* ---- decoder.c, decoder_rows.c ------------------------------------------------------------------------------------ */

struct qkv_decoder {
    struct qkv_model *model;
    const struct qkv_encoded *encoded;
    size_t most, rows; /* at the start, and now */
    size_t capacity, length, chunk;
    struct qkv_arena kept, arena, graph_arena;
    struct qkv_key_values *cache;            /* one a layer, `most` runs of `capacity` positions */
    float *logits;                           /* (most,V) */
    int32_t *places, *next_places;           /* (most): each row's run of the cache */
    int32_t *copy_from, *copy_to, *run_kept; /* (most): while rows are selected */
    int32_t *sources, *next_sources, *source_lengths;
    int32_t
        *memory_rows; /* (most): the source of each group of `group` rows, which go through cross attention as one */
    size_t group;
    size_t planned_rows, planned_group; /* what the step's memory was planned for */
    bool scored;
};

struct qkv_decoder_options {
    const struct qkv_encoded *encoded; /* NULL: a decoder alone */
    const size_t *sources;             /* (rows) or NULL: row r is for source r */
    size_t rows, capacity;             /* capacity 0: the model's context */
    size_t chunk;                      /* the most tokens a row that come at once */
};
/* One without rows; NULL with the sentence recorded. */
struct qkv_decoder *qkv_decoder_allocate(struct qkv_model *model);
/* Plans and takes the memory for these targets, all empty. */
enum qkv_status qkv_decoder_begin(struct qkv_decoder *decoder, const struct qkv_decoder_options *options);
/* Bytes of cache and step of such a decoder, by dry runs. The model may be planned. */
enum qkv_status qkv_decoder_measure(struct qkv_model *model, const struct qkv_decoder_options *options, size_t *bytes);
/* T <= chunk more tokens for every row, ids (rows,T); `score`: the last ones' scores are wanted. */
enum qkv_status qkv_decoder_append(struct qkv_decoder *decoder, const int32_t *ids, size_t T, bool score);
/* As qkv_decoder_select, but the scores stay behind: for a step that comes next. */
enum qkv_status qkv_decoder_move(struct qkv_decoder *decoder, const size_t *from, size_t count);
/* Makes groups of rows, as large as all runs of equal sources can be cut into, after sources have changed. */
void qkv_decoder_group(struct qkv_decoder *decoder);
/* Forgets all positions at and past `length`, and the scores. */
void qkv_decoder_truncate(struct qkv_decoder *decoder, size_t length);

#endif
