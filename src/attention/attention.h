/* attention: masks as intervals, attention on plain buffers, and the attention sublayer with its projections.
 *
 * Offers the rooms after it what include/qkv/attention.h offers everyone, and the checks of those functions. */
#ifndef QKV_ATTENTION_ROOM_H
#define QKV_ATTENTION_ROOM_H

#include "base/base.h"
#include "op/op.h"
#include "op/fill_table.h"
#include "op/weights.h"

/* ---- masks (mask.c) -------------------------------------------------------------------------------------------- */
/* Checks sizes, lengths, prefixes and document numbers of a mask. */
enum qkv_status qkv_mask_check(struct qkv_context *ctx, const struct qkv_mask *mask);
/* Checks that a query whose document has keys has a position among them. Causal masks, windows and ALiBi need this: one
 * position then serves both among all keys and inside the document. */
enum qkv_status qkv_mask_check_positions(struct qkv_context *ctx, const struct qkv_mask *mask);
/* The keys [*lo, *hi) of query t in batch row b. The mask was checked. */
void qkv_mask_keys(const struct qkv_mask *mask, int64_t chunk, size_t b, size_t t, int32_t *lo, int32_t *hi);
/* The number of pairs of a query and a key that the mask allows. */
double qkv_mask_pairs(const struct qkv_mask *mask, int64_t chunk);
/* Sets the sizes of `mask` to (B,Tq,Tk), or checks that they are, if it has sizes. */
enum qkv_status qkv_mask_size(struct qkv_context *ctx, struct qkv_mask *mask, size_t B, size_t Tq, size_t Tk);
/* The same for calls without packed sequences and without a past. */
enum qkv_status qkv_mask_fit(struct qkv_context *ctx, struct qkv_mask *mask, size_t B, size_t Tq, size_t Tk);
/* Checks pasts (B) and sets `past` to the longest of them, if it is not set. */
enum qkv_status qkv_mask_set_past(struct qkv_context *ctx, struct qkv_mask *mask, size_t B);
/* Completes the mask of packed sequences, for arrays of that many rows. Sets its Tq and Tk, if they are not set, to the
 * maximum of all sequences. */
enum qkv_status qkv_mask_pack(struct qkv_context *ctx, struct qkv_mask *mask, size_t queries, size_t keys);
/* Queries of batch row, or sequence, b. */
size_t qkv_mask_queries(const struct qkv_mask *mask, size_t b);
/* The position of the query of row t in batch row b among the keys. */
int64_t qkv_mask_position(const struct qkv_mask *mask, size_t b, size_t t);

/* ---- views (view.c) -------------------------------------------------------------------------------------------- */
/* Checks that the view has the shape (B,H,T,D), which messages call that of `like` ("q"), that its dtype and strides
 * are valid, and, if it is `written`, that no two of its elements share memory. */
enum qkv_status qkv_view_check(struct qkv_context *ctx, const char *name, const struct qkv_view *view, const char *like,
                               size_t B, size_t H, size_t T, size_t D, bool written);
/* Checks the alignment for elements of `size` bytes; NULL is aligned. */
enum qkv_status qkv_aligned(struct qkv_context *ctx, const char *name, const void *data, size_t size);
struct qkv_heads qkv_view_for_kernel(const struct qkv_view *view);
/* Checks that the arrays that a checked call writes, forward or with gradients backward, share no element with its
 * inputs, nor with each other (overlap.c). `mask` is the call's, with its sizes set. */
enum qkv_status qkv_attention_apart(struct qkv_context *ctx, const struct qkv_attention_call *call,
                                    const struct qkv_mask *mask, const struct qkv_attention_gradients *gradients);
/* Sets the arrays over pairs of query and key of a call, a dense mask and a bias, and their strides in `a`, whose sizes
 * are set. Both may be NULL. `written`: the bias's gradient is wanted. */
enum qkv_status qkv_attend_set_pairs(struct qkv_context *ctx, struct qkv_attend *a, const uint8_t *dense,
                                     const struct qkv_pair_shape *dense_shape, const float *bias,
                                     const struct qkv_pair_shape *bias_shape, bool written);
/* ---- positions (position_*.c; positions that are added to an embedding are in the model room) ------------------ */

/* Tables of a kind of position encoding, each NULL if the kind does not use it. They are computed once. */
struct qkv_position_tables {
    float *embed; /* (context, C), constant */
    bool learned; /* a parameter is added instead */
    /* (context, pairs, 2): cosine, sine; scaling longrope has a second table behind it, for longer sequences */
    float *rotate;
    size_t pairs;
    size_t context; /* of the rotation, or of the map */
    /* not NULL: the rotation depends on the length of the whole sequence */
    const struct qkv_position_spec *by_length;
    bool interleaved;
    struct qkv_distance_bias distance_bias; /* (H, 2·context − 1) by distance j − i + context − 1 */
    /* or the map of a trainable distance_bias, from which each pass computes the table: (2·context − 1), in the same
     * order; rows NULL: none */
    struct qkv_distance_map map;
};
/* The trainable weights of distance_bias, one for each trainable kind of position. The layers of a stack share them, or
 * each has its own (per_layer). */
struct qkv_distance_weights {
    struct qkv_tensor buckets, relative, slopes;
};
/* The inputs of a kind that fills its tables; it takes their memory from the arena. */
struct qkv_position_fill {
    struct qkv_context *ctx;
    struct qkv_arena *arena;
    const struct qkv_embed_position_spec *embed; /* NULL: the position of an attention */
    const struct qkv_position_spec *position;    /* of `attention` */
    const struct qkv_attention_spec *attention;
    size_t context, C; /* C: width of the embedding, 0 without one */
};
typedef enum qkv_status qkv_position_filler(const struct qkv_position_fill *fill, struct qkv_position_tables *tables);
#define QKV_POSITION_FILLER(name, text, help, file) qkv_position_filler qkv_position_##file;
QKV_ATTENTION_POSITION_LIST(QKV_POSITION_FILLER)
/* The filler of the tables of a position that belongs to attention; zero for other kinds. */
qkv_position_filler qkv_position_fill_attention;
/* Whether scores have a distance_bias. */
bool qkv_position_has_distances(const struct qkv_position_tables *tables);
/* Whether two positions are of one kind and have the same distance_bias, if any; whether they are the same; and whether
 * two attentions can share a table. */
bool qkv_position_same_distances(const struct qkv_position_spec *a, const struct qkv_position_spec *b);
bool qkv_position_same(const struct qkv_position_spec *a, const struct qkv_position_spec *b);
bool qkv_position_shares(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b);
/* The trainable weight of a position; NULL: it has none. */
struct qkv_tensor *qkv_distance_weight(struct qkv_distance_weights *weights, const struct qkv_position_spec *position);
/* Takes the trainable weight of an attention's position from the builder of a list, unless it has been taken. */
void qkv_distance_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                const struct qkv_attention_spec *spec, struct qkv_distance_weights *out);
/* The table of a pass over keys 0 … Tk − 1 of the call; also sets it in the call. NULL: no trainable weight, or the
 * tape has failed. */
struct qkv_tensor *qkv_distance_table(struct qkv_tape *tape, const struct qkv_position_tables *tables,
                                      struct qkv_tensor *weight, struct qkv_attend *call);
/* Checks the numbers of the position of an attention, whose keys are called `where`position. …; else QKV_SPEC. */
enum qkv_status qkv_distance_check(struct qkv_context *ctx, const char *name, const char *where,
                                   const struct qkv_attention_spec *spec);
/* Checks that some channels of a head are rotated, by a valid scaling; else QKV_SPEC. The sentence is about `name` and
 * has the keys `where`position.fraction and `head`, whose value is `width`. */
enum qkv_status qkv_rotation_check(struct qkv_context *ctx, const char *name, const char *where,
                                   const struct qkv_position_spec *position, const char *head, int width);
/* The angle of pair p at position t: t·frequencies[p], or t·base^(−p/pairs) if `frequencies` is NULL, which is slower
 * for several rows. Cosine and sine are multiplied by `factor`. */
struct qkv_turn_rule {
    double base, factor;
    const double *frequencies; /* (pairs) or NULL */
};
/* The rule for sequences of `length` positions; context: of the model. `frequencies` (pairs) receives its list. */
struct qkv_turn_rule qkv_turn_rule_of(const struct qkv_position_spec *position, size_t length, size_t context,
                                      size_t pairs, double *frequencies);
/* Cosine and sine of each pair's angle at position t: (pairs,2). */
void qkv_rotation_row(const struct qkv_turn_rule *rule, size_t t, size_t pairs, float *row);

/* ---- scalings of rotations (position_scaling.c) ---- */
const char *qkv_scaling_name(enum qkv_scaling_kind kind);
/* The number of pairs of channels that are rotated, if up to `width` channels of a head can be. */
size_t qkv_rotation_pairs(const struct qkv_position_spec *position, int width);
/* Whether the rotation depends on the length of the whole sequence. */
bool qkv_scaling_by_length(const struct qkv_position_spec *position);
bool qkv_scaling_same(const struct qkv_scaling_spec *a, const struct qkv_scaling_spec *b);
/* Checks the scaling of a rotation of `pairs` pairs; else QKV_SPEC. The sentence is about `name` and has the keys
 * `where`position.scaling.factor and so on. */
enum qkv_status qkv_scaling_check(struct qkv_context *ctx, const char *name, const char *where,
                                  const struct qkv_position_spec *position, size_t pairs);
/* For sequences of `length`: the base of the wavelengths, and the frequency of each pair (pairs). */
double qkv_rotation_base(const struct qkv_position_spec *position, size_t length, size_t pairs);
void qkv_rotation_frequencies(const struct qkv_position_spec *position, size_t length, size_t pairs,
                              double *frequencies);
/* The factor of cosines and sines; context: of the model. */
double qkv_rotation_factor(const struct qkv_position_spec *position, size_t context);

/* ---- rotations of the rows of a call (position_turns.c) -------------------------------------------------------- */

/* Row n of a call is rotated by row rows[n] of `table`. */
struct qkv_turns {
    const float *table;
    const int32_t *rows;
};
/* (B·T) the sequence length of each row of a rectangle: `length`, or, if that is 0, the number of positions lengths[b]
 * (NULL: `all`), at least 1. In the memory of the tape; NULL if there is none. */
const int32_t *qkv_rotation_lengths(struct qkv_tape *tape, size_t B, size_t T, size_t length, const int32_t *lengths,
                                    size_t all);
/* The rotations of N rows at positions (N). lengths (N), the length of each row's sequence, are only read if
 * tables->by_length is set. In the memory of the tape; table NULL if there is none. */
struct qkv_turns qkv_rotation_turns(struct qkv_tape *tape, const struct qkv_position_tables *tables, size_t N,
                                    const int32_t *positions, const int32_t *lengths);
/* The slope of head h of H: of the paper (Press et al. 2022), or of published models. */
float qkv_alibi_slope(const struct qkv_position_spec *position, size_t h, size_t H);

/* ---- filling a call (intervals.c) ------------------------------------------------------------------------------ */

/* The dropout of a part of a spec: `own`, if positive; none, if negative; if 0, `whole`, which is the spec's. */
double qkv_dropout_rate(double own, double whole);
/* The part of a call that the spec decides: heads, widths, scale, softcap and dropout (its own or `dropout`); for self
 * attention also the distance_bias of `tables`, which may be NULL. */
struct qkv_attend qkv_attend_start(const struct qkv_attention_spec *spec, const struct qkv_position_tables *tables,
                                   double dropout);
/* The intersection of a spec's mask and a call's own mask. */
struct qkv_mask qkv_attention_mask(const struct qkv_attention_spec *spec, const struct qkv_mask *own);
/* Positions first, first + 1 … for each of B sequences: (B,T), in the memory of the tape. */
const int32_t *qkv_sequence_positions(struct qkv_tape *tape, size_t B, size_t T, size_t first);
/* The rows of queries and keys of a call; NULL: all (B,Tq), (B,Tk). */
struct qkv_call_rows {
    const struct qkv_rows *queries, *keys;
};
/* Sets the mask's sizes and intervals for those rows in `a`, in the memory of the tape. */
void qkv_sequence_intervals(struct qkv_tape *tape, const struct qkv_mask *mask, int64_t chunk,
                            struct qkv_call_rows rows, struct qkv_attend *a);

/* ---- forms of attention (forms.c; form.h has their table) ------------------------------------------------------- */

/* The channels of a head that can be rotated, and their key in the spec, "head_dim". */
int qkv_attention_rotated(const struct qkv_attention_spec *spec);
const char *qkv_attention_rotated_key(const struct qkv_attention_spec *spec);
/* The factor of scores. */
double qkv_attention_scale(const struct qkv_attention_spec *spec);
/* The heads of what the cache of an attention stores. */
struct qkv_page_heads qkv_cache_heads(const struct qkv_attention_spec *spec);
/* Checks the keys of the form of an attention in a model of width C, whose keys are called `where`…; else QKV_SPEC,
 * about `name`. */
enum qkv_status qkv_attention_form_check(struct qkv_context *ctx, const char *name, const char *where,
                                         const struct qkv_attention_spec *spec, bool cross, int C);

/* The first reason why a layer cannot read the keys and values of another one ("kv_heads is 2, not 4", the number of a
 * first), unless `text` is NULL; false: it can. */
enum { QKV_DIFFER_TEXT = 160 };
bool qkv_attention_differs(const struct qkv_attention_spec *a, const struct qkv_attention_spec *b,
                           char text[QKV_DIFFER_TEXT]);

/* ---- the sublayer (sublayer.c) --------------------------------------------------------------------------------- */

/* Room for the weights that only one form has. */
enum { QKV_FORM_LINEARS = 6, QKV_FORM_NORMS = 2 };

struct qkv_attention_parameters {
    struct qkv_linear q;  /* cross attention: from x (H·D, in) */
    struct qkv_linear kv; /* cross attention: from the source (Hkv·D + Hkv·Dv, kv_in) */
    /* or, if values are computed from vectors of another width than keys, from the source and from those */
    struct qkv_linear k, v;
    struct qkv_linear qkv; /* self attention: q, k and v in one (H·D + Hkv·D + Hkv·Dv, in) */
    /* those of another form, which its file numbers */
    struct qkv_linear form[QKV_FORM_LINEARS];
    struct qkv_norm form_norms[QKV_FORM_NORMS];
    struct qkv_norm q_norm, k_norm;
    struct qkv_linear o;     /* (out, H·Dv) */
    struct qkv_tensor sinks; /* (1, H); data NULL: none */
};

/* (projections.c) Whether the projection of that letter has a bias. */
bool qkv_bias_has(enum qkv_bias_kind kind, char projection);
/* Takes the weights of self or cross attention from the builder of a list; the place has their sizes. */
void qkv_attention_build_weights(struct qkv_weights *weights, const struct qkv_weight_place *place,
                                 const struct qkv_attention_spec *spec, bool cross,
                                 struct qkv_attention_parameters *parameters);

/* Keys and values of one attention in pages. A call's page table says which pages belong to which sequence. */
struct qkv_key_values {
    struct qkv_pages k, v;
    bool shared; /* v is k: values are the first channels of keys */
};

/* Keys and values that a layer has computed and others read. A form other than heads has its own columns in them. */
struct qkv_layer_keys {
    struct qkv_columns k, v;
};

/* One attention with its projections in a pass over a tape. Unused pointers are NULL. */
struct qkv_attention_args {
    struct qkv_tape *tape;
    /* heads, norms, clip and rotation of q, k and v; heads and widths are the call's */
    const struct qkv_attention_spec *spec;
    /* The call: all but q, k, v, y, lse and key, which are set here. Tq new positions for each sequence: in self
     * attention the last ones of all keys. With a cache also its pages, and `pasts` if sequences have different numbers
     * of keys. */
    const struct qkv_attend *attend;
    struct qkv_attention_parameters *parameters;
    const int32_t *positions;                 /* self attention: of each row, for a temperature */
    const struct qkv_position_tables *tables; /* rotation of self attention, by the call's positions, */
    const struct qkv_turns *turns;            /* or by these, if it depends on the length of a sequence; else NULL */
    struct qkv_tensor *distance_bias;         /* the call's table, if it is trainable */
    /* self: new keys are appended, or, if the spec shares, those of another layer are read; cross: the source's keys
     * and values are saved in it */
    struct qkv_key_values *cache;
    /* self attention without a cache: where its keys and values are noted, or, if the spec shares, those of another
     * layer to read; NULL: nobody reads them */
    struct qkv_layer_keys *keys;
    bool cross;
    struct qkv_tensor *memory;   /* cross: the source (B·Tk, kv_in); NULL: the cache has its keys and values */
    struct qkv_tensor *values;   /* cross, without a cache: values are computed from it; NULL: from the source */
    struct qkv_tensor *residual; /* the result is residual + residual_scale·output; NULL: the output */
    float residual_scale;
    float *dattention_bias; /* backward adds to it */
    const struct qkv_attend **kept;
};
/* (key_values.c) The cached keys and values of an attention, empty, in pages of so many positions: all but the number
 * of pages and their memory. The types were checked (qkv_page_types_check). */
struct qkv_key_values qkv_key_values_of(const struct qkv_context *ctx, const struct qkv_attention_spec *spec,
                                        struct qkv_page_types types, size_t positions);
/* Takes memory for `count` pages from an arena, which may be measuring; false: there is none. */
bool qkv_key_values_take(struct qkv_key_values *kv, struct qkv_arena *arena, size_t count);
/* Writes rows of keys, then values, from a column on into the cache: new ones after the others, or, if `whole`, all
 * rows of a source. */
void qkv_attention_append(const struct qkv_attention_args *args, struct qkv_columns rows, size_t T, bool whole);
/* The cached keys and values as tensors; sets the types of the call's pages. false: the tape has failed. */
bool qkv_attention_cached(const struct qkv_attention_args *args, struct qkv_columns *k, struct qkv_columns *v,
                          struct qkv_attend *call);

/* x (B·Tq, in) → (B·Tq, out). */
struct qkv_tensor *qkv_attention_sublayer(const struct qkv_attention_args *args, struct qkv_tensor *x);
/* Cross attention: only writes the source's keys and values into the cache, for later calls without a source. */
void qkv_attention_cache_memory(const struct qkv_attention_args *args);

#endif
