/* attention: masks as intervals, attention on plain buffers, and the attention sublayer with its projections.
 *
 * Offers its right-hand neighbours what include/qkv/attention.h offers everyone, and the checks that go with it. */
#ifndef QKV_ATTENTION_ROOM_H
#define QKV_ATTENTION_ROOM_H

#include "base/base.h"
#include "op/op.h"
#include "op/weights.h"

/* ---- masks (mask.c) -------------------------------------------------------------------------------------------- */
/* Sizes, lengths, prefixes and document numbers make sense. */
enum qkv_status qkv_mask_check(struct qkv_context *ctx, const struct qkv_mask *mask);
/* Where positions count, one position serves a query among all keys and inside its own document: it lies there. Documents with
 * other numbers of queries than of keys have no such position. */
enum qkv_status qkv_mask_check_positions(struct qkv_context *ctx, const struct qkv_mask *mask);
/* The keys [*lo, *hi) of query t in batch row b; of a mask that makes sense. */
void qkv_mask_keys(const struct qkv_mask *mask, size_t b, size_t t, int32_t *lo, int32_t *hi);
/* How many pairs of a query and a key the mask lets through. */
double qkv_mask_pairs(const struct qkv_mask *mask);
/* `mask`, whose own sizes are (B,Tq,Tk) or not given, for a call of that shape. */
enum qkv_status qkv_mask_size(struct qkv_context *ctx, struct qkv_mask *mask, size_t B, size_t Tq, size_t Tk);
/* The same of calls that know neither packed sequences nor a past. */
enum qkv_status qkv_mask_fit(struct qkv_context *ctx, struct qkv_mask *mask, size_t B, size_t Tq, size_t Tk);
/* The most keys of a past become those of `pasts`, of B sequences, where these are given and it is not. */
enum qkv_status qkv_mask_set_past(struct qkv_context *ctx, struct qkv_mask *mask, size_t B);
/* The mask of packed sequences, for arrays of that many rows; its Tq and Tk become the most of any sequence where they are not given. */
enum qkv_status qkv_mask_pack(struct qkv_context *ctx, struct qkv_mask *mask, size_t queries, size_t keys);
/* Queries of batch row, or sequence, b. */
size_t qkv_mask_queries(const struct qkv_mask *mask, size_t b);
/* Where the query of row t in batch row b stands among the keys. */
int64_t qkv_mask_position(const struct qkv_mask *mask, size_t b, size_t t);

/* ---- views (view.c) -------------------------------------------------------------------------------------------- */
/* The view has that shape, which `like` asks for ("q"), its dtype and strides make sense, and where it is `written`, no two
 * of its elements share a place. */
enum qkv_status qkv_view_check(struct qkv_context *ctx, const char *name, const struct qkv_view *view, const char *like,
                               size_t B, size_t H, size_t T, size_t D, bool written);
/* Elements of `size` bytes may lie there; NULL is fine. */
enum qkv_status qkv_aligned(struct qkv_context *ctx, const char *name, const void *data, size_t size);
struct qkv_heads qkv_view_for_kernel(const struct qkv_view *view);
/* What a checked call writes, forward or with gradients backward, shares no element with its inputs, nor with what else
 * it writes (overlap.c). */
enum qkv_status qkv_attention_apart(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                    const struct qkv_attention_gradients *gradients);
/* The arrays of a call for each query and key, with their strides, into `a`, whose sizes are known: a dense mask and a bias, which
 * may be NULL. `written`: the bias's gradient is wanted. */
enum qkv_status qkv_attend_set_pairs(struct qkv_context *ctx, struct qkv_attend *a, const uint8_t *dense,
                                     const struct qkv_pair_shape *dense_shape, const float *bias,
                                     const struct qkv_pair_shape *bias_shape, bool written);
/* ---- positions (position_*.c; those that add to an embedding are the model's) ------------------------------------------- */

/* Tables of a kind of position encoding, each NULL where the kind does not use it. Made once. */
struct qkv_position_tables {
    float *embed; /* (context, C), constant */
    bool learned; /* a parameter is added instead */
    /* (context, pairs, 2): cosine, sine; with a scaling of kind longrope a second time, for longer sequences */
    float *rotate;
    size_t pairs;
    size_t context; /* of the rotation, or of the map */
    /* the rotation depends on the length that a sequence is decided for; else NULL */
    const struct qkv_position_spec *by_length;
    bool interleaved;
    struct qkv_distance_bias distance_bias; /* (H, 2·context − 1) by distance j − i + context − 1 */
    /* or what such a table is made of in every pass, as it learns: (2·context − 1), in the same order; rows NULL: none */
    struct qkv_distance_map map;
};
/* The weights of biases by distance, which the layers of a stack share: one for each kind of position that learns. */
struct qkv_distance_weights {
    struct qkv_tensor buckets, relative, slopes;
};
/* Everything a kind needs to fill its tables, which it takes from the arena. */
struct qkv_position_fill {
    struct qkv_context *ctx;
    struct qkv_arena *arena;
    const struct qkv_position_spec *position;
    const struct qkv_attention_spec *attention;
    size_t context, C; /* C: width of the embedding, 0 without one */
};
typedef enum qkv_status qkv_position_filler(const struct qkv_position_fill *fill, struct qkv_position_tables *tables);
#define QKV_POSITION_FILLER(name, text, help, file) qkv_position_filler qkv_position_##file;
QKV_ATTENTION_POSITION_LIST(QKV_POSITION_FILLER)
/* The tables of an attention with the position `fill` names, of a kind that attention has; zero for none. */
qkv_position_filler qkv_position_fill_attention;
/* Whether scores have a bias by distance. */
bool qkv_position_has_distances(const struct qkv_position_tables *tables);
/* Whether two positions are of one kind and mean the same biases by distance, if it has them; and whether two attentions can share
 * their table. */
bool qkv_position_same_distances(const struct qkv_position_spec *a, const struct qkv_position_spec *b);
bool qkv_position_shares(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b);
/* What a position learns, of those weights; NULL: nothing. */
struct qkv_tensor *qkv_distance_weight(struct qkv_distance_weights *weights, const struct qkv_position_spec *position);
/* Takes what the position of an attention learns from the builder of a list, unless it is there. */
void qkv_distance_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                const struct qkv_attention_spec *spec, struct qkv_distance_weights *out);
/* The table of a pass over keys 0 … Tk − 1 of the call, which gets it; NULL: nothing learns, or the tape has failed. */
struct qkv_tensor *qkv_distance_table(struct qkv_tape *tape, const struct qkv_position_tables *tables,
                                      struct qkv_tensor *weight, struct qkv_attend *call);
/* Numbers of the position make sense for an attention, whose keys are called `where`position. …; else QKV_SPEC. */
enum qkv_status qkv_distance_check(struct qkv_context *ctx, const char *name, const char *where,
                                   const struct qkv_attention_spec *spec);
/* Some channels of a head are rotated, by a scaling that makes sense; else QKV_SPEC, and the sentence is about `name` and has the keys,
 * `where`position.fraction and
 * `head`, whose value is `width`. */
enum qkv_status qkv_rotation_check(struct qkv_context *ctx, const char *name, const char *where,
                                   const struct qkv_position_spec *position, const char *head, int width);
/* What turns pairs at each position: by t·frequencies[p], or where these are NULL by t·base^(−p/pairs); cosine and sine times `factor`. */
struct qkv_turn_rule {
    double base, factor;
    const double *frequencies; /* (pairs) or NULL */
};
/* Cosine and sine of each pair's angle at position t: (pairs,2). */
void qkv_rotation_row(const struct qkv_turn_rule *rule, size_t t, size_t pairs, float *row);

/* ---- scalings of rotations (position_scaling.c) ---- */
const char *qkv_scaling_name(enum qkv_scaling_kind kind);
/* Pairs of channels that a rotation turns, of a head of so many channels that may be. */
size_t qkv_rotation_pairs(const struct qkv_position_spec *position, int width);
/* Whether the rotation depends on the length that a sequence is decided for. */
bool qkv_scaling_by_length(const struct qkv_position_spec *position);
bool qkv_scaling_same(const struct qkv_scaling_spec *a, const struct qkv_scaling_spec *b);
/* The scaling of a rotation of so many pairs makes sense; else QKV_SPEC, and the sentence is about `name` and has the keys
 * `where`position.scaling.factor and so on. */
enum qkv_status qkv_scaling_check(struct qkv_context *ctx, const char *name, const char *where,
                                  const struct qkv_position_spec *position, size_t pairs);
/* The base of the wavelengths for sequences decided for `length`; whether pairs then turn by numbers that are listed, and these. */
double qkv_rotation_base(const struct qkv_position_spec *position, size_t length, size_t pairs);
bool qkv_rotation_is_listed(const struct qkv_position_spec *position);
void qkv_rotation_frequencies(const struct qkv_position_spec *position, size_t length, size_t pairs,
                              double *frequencies);
/* What cosines and sines are multiplied by; context: of the model. */
double qkv_rotation_factor(const struct qkv_position_spec *position, size_t context);

/* ---- turns of a call (position_turns.c) ---- */

/* Row n of a call is turned by row rows[n] of `table`. */
struct qkv_turns {
    const float *table;
    const int32_t *rows;
};
/* (B·T) what each row of a rectangle is decided for: `length`, or where that is 0 the row's own number of positions, lengths[b] (NULL:
 * `all`), at least 1. In the memory of the tape; NULL without room. */
const int32_t *qkv_rotation_lengths(struct qkv_tape *tape, size_t B, size_t T, size_t length, const int32_t *lengths,
                                    size_t all);
/* Of N rows at positions (N), each of a sequence decided for lengths (N), which are only read where tables->by_length is set. In the
 * memory of the tape; table NULL without room. */
struct qkv_turns qkv_rotation_turns(struct qkv_tape *tape, const struct qkv_position_tables *tables, size_t N,
                                    const int32_t *positions, const int32_t *lengths);
/* The slope of head h of H, of a form: of the paper (Press et al. 2022), or as published models have them. */
float qkv_alibi_slope(const struct qkv_position_spec *position, size_t h, size_t H);

/* ---- filling a call (intervals.c) ---------------------------------------------------------------------------------------- */

/* The dropout of a part of a spec whose own is `own`, 0: none of its own, negative: off; `whole` is the spec's. */
double qkv_dropout_rate(double own, double whole);
/* What the spec says of a call: heads, widths, scale, softcap and dropout, its own or `dropout`; and of self attention
 * the distance bias of `tables`, which may be NULL. */
struct qkv_attend qkv_attend_start(const struct qkv_attention_spec *spec, const struct qkv_position_tables *tables,
                                   double dropout);
/* What a spec and a call's own mask both allow. */
struct qkv_mask qkv_attention_mask(const struct qkv_attention_spec *spec, const struct qkv_mask *own);
/* Positions first, first + 1 … of each of B rows: (B,T), in the memory of the tape. */
const int32_t *qkv_sequence_positions(struct qkv_tape *tape, size_t B, size_t T, size_t first);
/* The rows that queries and keys of a call are; NULL: all (B,Tq), (B,Tk). */
struct qkv_call_rows {
    const struct qkv_rows *queries, *keys;
};
/* The mask's sizes and intervals, in the memory of the tape, into `a`, for those rows. */
void qkv_sequence_intervals(struct qkv_tape *tape, const struct qkv_mask *mask, struct qkv_call_rows rows,
                            struct qkv_attend *a);

/* ---- latent attention (latent.c) ---------------------------------------------------------------------------------------- */

/* The channels of a head that a rotation may turn: all, or with a latent those that the heads share. */
int qkv_attention_turned(const struct qkv_attention_spec *spec);
/* What scores are multiplied by. */
double qkv_attention_scale(const struct qkv_attention_spec *spec);
/* Numbers in the cache for each position: keys, and values beside them, 0 where these are channels of the keys. */
size_t qkv_cache_k_width(const struct qkv_attention_spec *spec);
size_t qkv_cache_v_width(const struct qkv_attention_spec *spec);
/* A latent makes sense in an attention of a model of width C, whose keys are called `where`…; else QKV_SPEC, about `name`. */
enum qkv_status qkv_latent_check(struct qkv_context *ctx, const char *name, const char *where,
                                 const struct qkv_attention_spec *spec, int C);

/* ---- the sublayer (sublayer.c) ------------------------------------------------------------------------------------------ */

/* Of latent attention (latent.c). q: of x (H·D, in), or where queries have a latent too, q_a: of x (query_rank, in), and q of it. */
struct qkv_latent {
    struct qkv_linear q_a, q, kv_a, k_rope; /* kv_a (rank, in), k_rope (rope_dim, in) */
    struct qkv_norm q_norm, kv_norm;
    struct qkv_linear k_b, v_b; /* of the latent: (H·(D − rope_dim), rank), (H·Dv, rank) */
};

struct qkv_attention_parameters {
    struct qkv_linear q;  /* cross attention: from x (H·D, in) */
    struct qkv_linear kv; /* cross attention: from the memory (Hkv·D + Hkv·Dv, kv_in) */
    struct qkv_linear k,
        v; /* or, where values are made of vectors of another width than keys, from the memory and those */
    struct qkv_latent latent;
    struct qkv_linear qkv; /* self attention: the three in one (H·D + Hkv·D + Hkv·Dv, in) */
    struct qkv_norm q_norm, k_norm;
    struct qkv_linear o;     /* (out, H·Dv) */
    struct qkv_tensor sinks; /* (1, H); data NULL: none */
};

/* (parameters.c) Whether the projection of that letter has a bias. */
bool qkv_bias_has(enum qkv_bias_kind kind, char projection);
/* Takes them from the builder of a list, of self or of cross attention; the place has their sizes. */
void qkv_attention_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                 const struct qkv_attention_spec *spec, bool cross,
                                 struct qkv_attention_parameters *parameters);

/* Keys and values of one attention in pages: (rows, Hkv·D), (rows, Hkv·Dv); or, of latents, (rows, rank + rope_dim), k and v the same
 * memory. A call's page table says which rows are whose. */
struct qkv_key_values {
    void *k, *v;
    enum qkv_dtype dtype; /* QKV_F32 or QKV_BF16 */
    size_t rows;
    /* 0; or bytes of a kv head on a page, packed: k and v are the same memory then, as struct qkv_attend has it
     * (page_bytes) */
    size_t packed;
};

/* One attention with its projections on its way over a tape. What is not used is NULL. */
struct qkv_attention_args {
    struct qkv_tape *tape;
    const struct qkv_attention_spec
        *spec; /* what becomes of q, k and v before they meet; heads and widths are the call's */
    /* the call: all but q, k, v, y, lse and key, which are made here. Tq new positions a row, in self attention the
     * last ones of all keys; with a cache, its pages, and pasts where rows have different numbers of keys, new ones
     * too */
    const struct qkv_attend *attend;
    struct qkv_attention_parameters *parameters;
    const struct qkv_position_tables *tables; /* rotation of self attention, by the call's positions, */
    const struct qkv_turns *turns;            /* or by these, where it depends on the length of a sequence; else NULL */
    struct qkv_tensor *distance_bias;         /* the call's table, where it learns */
    struct qkv_key_values *cache; /* self: new keys are appended; cross: those of the memory are kept in it */
    bool cross;
    struct qkv_tensor *memory;   /* cross: (B·Tk, kv_in); NULL: the cache has its keys and values */
    struct qkv_tensor *values;   /* cross, without a cache: what values are made of; NULL: the memory */
    struct qkv_tensor *residual; /* residual + residual_scale·output is given; NULL: the output */
    float residual_scale;
    float *dattention_bias; /* backward adds to it */
    const struct qkv_attend **kept;
};
/* What attention of latents reads: queries, keys and values, and the call with their heads and widths. */
struct qkv_latent_call {
    struct qkv_tensor *q;
    struct qkv_columns k, v;
    struct qkv_attend attend;
};
/* The heads' own keys and values, made of the latents of all positions of the call; with a cache, its rows, with those of the new positions put
 * there, as the keys and values of one head, and queries that have absorbed the projection of keys: which form it is depends on nothing
 * but whether there is a cache. false: the tape has failed. */
bool qkv_latent_project(const struct qkv_attention_args *args, struct qkv_tensor *x, struct qkv_latent_call *call);
/* Of what attention gave, (N, H·Dv): with a cache the outputs are still latents, which the projection of values makes values of. */
struct qkv_tensor *qkv_latent_values(const struct qkv_attention_args *args, struct qkv_tensor *y);
/* (key_values.c) Puts rows (N, k_width + v_width) from a column on into the cache: new ones behind the others, or a memory as a `whole`. */
void qkv_attention_append(const struct qkv_attention_args *args, struct qkv_columns rows, size_t k_width,
                          size_t v_width, size_t T, bool whole);
/* The keys, or values, of a cache as a tensor. */
struct qkv_columns qkv_attention_cached(const struct qkv_attention_args *args, void *data, size_t width);

/* x (B·Tq, in) → (B·Tq, out). */
struct qkv_tensor *qkv_attention_sublayer(const struct qkv_attention_args *args, struct qkv_tensor *x);
/* Cross attention: only puts the memory's keys and values into the cache, for calls without a memory to read. */
void qkv_attention_cache_memory(const struct qkv_attention_args *args);

#endif
