/* steps: arithmetic that is no operator, because it has no gradient: copies, indices, the cache's pages, optimizers.
 *
 * A step is a row of the backend, as an operator is: QKV_STEP(ctx, copy, .to = …) fills in the struct of its row,
 * qkv_step_copy, and the backend of the context does it. Pointers in the structs are to the backend's memory (arenas of
 * numbers, and what its row `lend` lends), unless the comment says "of the host". Steps take no memory, except those
 * of QKV_STEP_SCRATCH_LIST. backend/cpu_*.c has those for CPUs; a context that plans does none of them. */
#ifndef QKV_STEPS_H
#define QKV_STEPS_H

#include "base/backend.h"
#include "op/op.h"

/* Every step: X(name). */
#define QKV_STEP_LIST(X)                                                                                               \
    QKV_STEP_LOOPS_LIST(X)                                                                                             \
    QKV_STEP_SCRATCH_LIST(X)
/* Steps that take memory, of an arena that their struct names; a context that plans takes as much. */
#define QKV_STEP_SCRATCH_LIST(X)                                                                                       \
    X(orthogonalise)                                                                                                   \
    X(factorise)
#define QKV_STEP_LOOPS_LIST(X)                                                                                         \
    X(copy)                                                                                                            \
    X(clear)                                                                                                           \
    X(add)                                                                                                             \
    X(spread)                                                                                                          \
    X(positions)                                                                                                       \
    X(repeat)                                                                                                          \
    X(last_positions)                                                                                                  \
    X(rows)                                                                                                            \
    X(pick)                                                                                                            \
    X(differences)                                                                                                     \
    X(starts)                                                                                                          \
    X(chosen_rows)                                                                                                     \
    X(ignore_padding)                                                                                                  \
    X(frame_starts)                                                                                                    \
    X(intervals)                                                                                                       \
    X(document_lengths)                                                                                                \
    X(turns)                                                                                                           \
    X(take_rows)                                                                                                       \
    X(clean_rows)                                                                                                      \
    X(patches)                                                                                                         \
    X(frame_rows)                                                                                                      \
    X(pack)                                                                                                            \
    X(append_pages)                                                                                                    \
    X(copy_pages)                                                                                                      \
    X(start_weights)                                                                                                   \
    X(unpack)                                                                                                          \
    X(optimize)                                                                                                        \
    X(squares)                                                                                                         \
    X(round)                                                                                                           \
    X(carry)                                                                                                           \
    X(carry_rows)                                                                                                      \
    X(add_rows)                                                                                                        \
    X(clear_rows)                                                                                                      \
    X(candidates)                                                                                                      \
    X(repack)                                                                                                          \
    X(join_blocks)                                                                                                     \
    X(quantise)

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* to = from; the two may overlap. */
struct qkv_step_copy {
    void *to;
    const void *from;
    size_t bytes;
};
/* Every byte of `to` becomes `byte`. */
struct qkv_step_clear {
    void *to;
    size_t bytes;
    unsigned char byte;
};
/* to += x, count floats. */
struct qkv_step_add {
    float *to;
    const float *x;
    size_t count;
};
/* Moves the first `rows` rows of a matrix (places, columns) to row place[n], in place; all other rows become zeros.
 * place (rows) rises, and place[n] is at least n. */
struct qkv_step_spread {
    float *matrix;
    const int32_t *place;
    size_t rows, places, columns;
};

/* ---- indices ---------------------------------------------------------------------------------------------------- */

/* out[n] = first + m % period + m / period * jump, count of them; m is numbers[n], or n where numbers is NULL. */
struct qkv_step_positions {
    int32_t *out;
    const int32_t *numbers;
    size_t count, period, first, jump;
};
/* out[n] = values[b], but at least `min`, for the rows n of each of B sequences. */
struct qkv_step_repeat {
    int32_t *out;
    const int32_t *values; /* (B) */
    const int32_t *start;  /* (B + 1): the first row of each sequence; NULL: all have T rows */
    size_t B, T;
    int32_t min;
};
/* out[n] = the position of row n, where the rows of each of B sequences are its last positions. */
struct qkv_step_last_positions {
    int32_t *out;
    const int32_t *lengths; /* (B): the positions of each sequence */
    const int32_t *start;   /* (B + 1): the first row of each */
    size_t B;
};
/* The rows of B sequences of at most T positions, one sequence after the other, as in struct qkv_rows: start (B + 1),
 * place and position (start[B]). Positions begin at 0 again where the number of the document changes. */
struct qkv_step_rows {
    int32_t *start, *place, *position;
    const int32_t *lengths;   /* (B); NULL: all have T */
    const int32_t *documents; /* (B,T); NULL: a sequence is one document */
    size_t B, T;
};
/* out[n] = values[index[n]], count of them. */
struct qkv_step_pick {
    int32_t *out;
    const int32_t *values, *index;
    size_t count;
};
/* out[n] = values[n + 1] - values[n], count of them. */
struct qkv_step_differences {
    int32_t *out;
    const int32_t *values;
    size_t count;
};
/* out[b] = start[b], or b·each where start is NULL, count of them. */
struct qkv_step_starts {
    size_t *out;
    const int32_t *start;
    size_t count, each;
};
/* Rows that are chosen by their places, which rise. index[i] is the number of the row at places[i]; start[b] is the
 * first of the chosen rows that is of sequence b, or of one after it. */
struct qkv_step_chosen_rows {
    int32_t *index;            /* (count) */
    int32_t *start;            /* (B + 1) */
    const size_t *places;      /* (count): b·T + t; T 0: numbers of rows */
    const int32_t *rows_start; /* (B + 1): the first row of each sequence */
    size_t count, B, T;
};
/* out = targets (B,T), but QKV_IGNORE at and past the lengths (B). */
struct qkv_step_ignore_padding {
    int32_t *out;
    const int32_t *targets, *lengths;
    size_t B, T;
};
/* The frames of each of B sequences, of which each of its rows reads `stride`: start (B + 1), the first frame, where a
 * sequence has room for as many as its rows read; count (B), how many it has, of at most `frames`. */
struct qkv_step_frame_starts {
    int32_t *start, *count;
    const int32_t *rows_start; /* (B + 1): the first row of each sequence */
    size_t B, stride, frames;
};
/* The keys [lo[n], hi[n]) that each of N queries may attend to. Checks the mask's lengths, prefixes and documents
 * (attention/attention.h: qkv_mask_check). */
struct qkv_step_intervals {
    int32_t *lo, *hi;
    const struct qkv_mask *mask; /* of the host; its arrays are not */
    int64_t chunk;               /* positions of a chunk, whose queries see keys of the chunk only; 0: one chunk */
    const int32_t *place;        /* (N): b·Tq + t of each query; NULL: its number */
    size_t N;
};
/* out[n] = 1 + the last position of the sequence or document that row n is of. Padding, past the lengths, does not
 * count. The rows are those of struct qkv_rows. */
struct qkv_step_document_lengths {
    int32_t *out;
    const int32_t *positions;
    const int32_t *start, *place;
    const int32_t *documents; /* (B,T); NULL: a sequence is one document */
    const int32_t *lengths;   /* (B); NULL: all have T */
    size_t B, T;
};
struct qkv_position_tables; /* attention/attention.h */
/* What rotates each row of a call, by the length of its sequence: row rows[n] of tables->rotate, or, with `table`, of
 * that: its rows are then computed, (count, pairs, 2). */
struct qkv_step_turns {
    const struct qkv_position_tables *tables; /* of the host */
    const int32_t *positions, *lengths;       /* (count) */
    size_t count;
    int32_t *rows;
    float *table;
};

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* to[n] = from[index[n]], or from[n] where index is NULL: rows of so many numbers. */
struct qkv_step_take_rows {
    float *to;
    const float *from;
    const int32_t *index;
    size_t rows, columns;
};
/* to = from (B,T,columns), but zeros in rows of padding, where these are not all finite. Row t is position past + t;
 * padding is before starts[b], and at and past lengths[b]; either may be NULL. */
struct qkv_step_clean_rows {
    float *to;
    const float *from;
    const int32_t *lengths, *starts;
    size_t B, T, past, columns;
};
/* Rows of patches of images (images, channels, height, width): from the top, each row of patches from the left; a
 * patch, patch·patch, channel by channel, row by row. */
struct qkv_step_patches {
    float *to;
    const float *from;
    size_t images, channels, height, width, patch;
};
/* Rows of frames (B, channels, frames): row start[b] + t is frame t of sequence b, or zeros where it has no such
 * frame. */
struct qkv_step_frame_rows {
    float *to;
    const float *from;
    const int32_t *start; /* (B + 1) */
    size_t rows, B, channels, frames;
};

/* A weight as the right operand (K,N) of a product, packed as that product reads it. */
struct qkv_step_pack {
    const struct qkv_product *product;
    void *packed;
    struct qkv_operand operand;
    struct qkv_stored_operand stored; /* in place of the operand's numbers, if it has weights */
    size_t K, N;
};

/* ---- pages ------------------------------------------------------------------------------------------------------ */

struct qkv_key_values; /* attention/attention.h: the pages of one attention */

/* Writes new rows of keys and values to the pages of their sequences. */
struct qkv_step_append_pages {
    const struct qkv_key_values *cache; /* of the host */
    struct qkv_page_rows rows;          /* the keys of all heads, then, unless they are shared, the values */
    const int32_t *const *lists;        /* (B): the pages of each sequence */
    size_t B, T;                        /* sequences; rows of each, at most with `start` */
    const int32_t *start;               /* (B + 1): the first row of each; NULL: all have T */
    const int32_t *lengths;             /* (B): positions of each, with the new ones; NULL: all have `length` */
    size_t length;
    bool whole; /* the rows are the first positions of a sequence, as many as it has; else its last ones */
};
/* The first `positions` positions of a page go to another page. */
struct qkv_page_copy {
    size_t from, to, positions;
};
/* These copies, in every one of `attentions` caches. All but the pages is of the host. */
struct qkv_step_copy_pages {
    const struct qkv_key_values *caches; /* those without data are left out */
    size_t attentions;
    const struct qkv_page_copy *copies;
    size_t count;
};

/* ---- weights ---------------------------------------------------------------------------------------------------- */

/* The numbers that a new weight starts with: normal with the deviation std; or uniform within ±bound, if std is 0; or
 * starts[i], if both are 0; or the constant. Every 2^16 numbers have a random stream of their own: the n-th that of
 * `seed` and `stream` + n (base/base.h: qkv_random_start). */
struct qkv_step_start_weights {
    float *out;
    size_t count;
    float std, bound, constant;
    const float *starts; /* of the host; NULL: none */
    uint64_t seed, stream;
};
/* out (rows, columns), as fp32, of weights that are stored in a type of files. */
struct qkv_step_unpack {
    float *out;
    const struct qkv_stored *stored; /* of the host, with its parts and their data */
    size_t rows, columns;
};

/* ---- training --------------------------------------------------------------------------------------------------- */

/* What optimizers keep of a weight, with its name in checkpoints: X(NAME, name). M, V, AVERAGE: a number for each of
 * its own. ROWS, COLUMNS: for each row and column of a matrix; of a vector ROWS has a number for each of its own. */
#define QKV_MOMENT_LIST(X)                                                                                             \
    X(M, "m")                                                                                                          \
    X(V, "v")                                                                                                          \
    X(AVERAGE, "average")                                                                                              \
    X(ROWS, "rows")                                                                                                    \
    X(COLUMNS, "columns")
#define QKV_MOMENT_ENUM(NAME, name) QKV_MOMENT_##NAME,
enum qkv_moment { QKV_MOMENT_LIST(QKV_MOMENT_ENUM) QKV_MOMENT_COUNT };
/* How numbers of a weight change, each by itself: X(name, moments that it reads and writes). `factored` scales the
 * gradient, of which the step `factorise` makes a change. `average` adds the numbers to their averages, whose decay is
 * `scale`; `exchange` exchanges both. */
#define QKV_UPDATE_LIST(X)                                                                                             \
    X(adamw, QKV_HAS(M) | QKV_HAS(V))                                                                                  \
    X(adam, QKV_HAS(M) | QKV_HAS(V))                                                                                   \
    X(sgd, QKV_HAS(M))                                                                                                 \
    X(lion, QKV_HAS(M))                                                                                                \
    X(momentum, QKV_HAS(M))                                                                                            \
    X(factored, QKV_HAS(ROWS) | QKV_HAS(COLUMNS))                                                                      \
    X(descend, 0)                                                                                                      \
    X(average, QKV_HAS(AVERAGE))                                                                                       \
    X(exchange, QKV_HAS(AVERAGE))
#define QKV_HAS(moment)                (1U << QKV_MOMENT_##moment)
#define QKV_UPDATE_ENUM(name, moments) QKV_UPDATE_##name,
enum qkv_update { QKV_UPDATE_LIST(QKV_UPDATE_ENUM) QKV_UPDATE_COUNT };
/* A run of numbers of a weight, its gradient and its moments (NULL: the update has no such moment). */
struct qkv_optimizer_piece {
    float *weight, *gradient, *moments[QKV_MOMENT_COUNT];
    size_t count;
    enum qkv_update update;
    float scale; /* of the gradient */
    float rate, decay;
};
/* One step of an optimizer on these pieces (of the host), by the kernels of their updates. */
struct qkv_step_optimize {
    const struct qkv_optimizer_piece *pieces;
    size_t count;
    float beta1, beta2, eps, momentum, correction1, correction2;
};
/* x (rows, columns) becomes x·(xᵀ·x)^(-1/2), roughly: its singular values become some from 0.7 to 1.2, unless they are
 * near 0 (backend/cpu_orthogonal.c). */
struct qkv_step_orthogonalise {
    float *x;
    size_t rows, columns;
    struct qkv_arena *scratch;
};
/* x becomes x/max(sqrt(v), eps), with a v that moments of x² estimate (Adafactor, Shazeer & Stern 2018): for a matrix
 * (rows, columns) v = r·c/mean(r), where r and c are moments of the means of its rows and columns; for a vector r
 * has a moment of each of its `rows` numbers. Moments m become m + share·(x² − m). *square = the sum of the new
 * x², which is of the host. (backend/cpu_factored.c) */
struct qkv_step_factorise {
    float *x, *row_moments, *column_moments;
    size_t rows, columns; /* columns 0: a vector */
    float share, eps;
    double *square;
    struct qkv_arena *scratch;
};

/* sums[i] = the sum of x² over the i-th piece of x, of `piece` floats each, in double. sums are of the host. */
struct qkv_step_squares {
    const float *x;
    size_t count, piece;
    double *sums;
};
/* Numbers in the form that a product reads (kernel/product.h: round). */
struct qkv_step_round {
    void *to;
    const float *from;
    size_t count;
    const struct qkv_product *product;
};
/* A node of the tree of sums (kernel/order.h): sum = sum + levels[0] + levels[1] …, in this order. to: receives the
 * sum, which becomes zeros; NULL: the sum stays. */
struct qkv_step_carry {
    float *sum, *to;
    const float *levels[QKV_ORDER_LEVELS];
    size_t level_count, count; /* count: of the floats of each */
};
/* The same of rows, of which each array has only those whose mark is not 0: a row of a level without a mark is not
 * added, and a row without any mark is not written. `to` gets the marks of its rows. */
struct qkv_step_carry_rows {
    size_t rows, columns;
    float *sum, *to;
    uint8_t *sum_marks, *to_marks; /* (rows) */
    const float *levels[QKV_ORDER_LEVELS];
    const uint8_t *level_marks[QKV_ORDER_LEVELS];
    size_t level_count;
};
/* to += x, of the rows whose mark is not 0. */
struct qkv_step_add_rows {
    size_t rows, columns;
    float *to;
    const float *x;
    const uint8_t *marks;
};
/* x = 0, of the rows whose mark is not 0; all marks become 0. */
struct qkv_step_clear_rows {
    size_t rows, columns;
    float *x;
    uint8_t *marks;
};

/* ---- search ----------------------------------------------------------------------------------------------------- */

/* A continuation of a hypothesis by one token. */
struct qkv_candidate {
    double log_probability;
    int32_t row, id;
};
/* Rules for the next token that hold for all hypotheses; all is of the host. */
struct qkv_score_rules {
    struct qkv_token_rules tokens;
    double penalty;      /* of tokens that the text has; 1: off */
    size_t penalty_last; /* of so many of the latest; 0: of all */
    struct qkv_token_list ends;
};
/* What the rules know of a text; all is of the host. */
struct qkv_score_text {
    const int32_t *ids; /* (count): the prompt, then the new tokens */
    size_t count, prompt;
    size_t max_tokens; /* the largest number of new tokens */
    /* what `source` rules are about, and the same ids, each once; NULL: none */
    struct qkv_token_list source, source_once;
};
/* The hypotheses of one source that continue, and what they continue with. All but the scores is of
 * the host. */
struct qkv_continuation {
    const float *scores; /* (rows, V) */
    size_t rows;
    const double *sums;         /* (rows): the log-probability of each hypothesis */
    struct qkv_score_text text; /* of the first hypothesis; row r has the ids r·stride further */
    size_t stride;
    const struct qkv_score_rules *rules; /* that change scores; NULL: none do */
    /* With rules, penalties change scores instead of log-probabilities, and log-probabilities are those of the model. A
     * forced token has 0. */
    bool greedy;
    struct qkv_token_list barred; /* ids that are not chosen */
    size_t vocab;                 /* ids that can be chosen, the first of V */
    size_t most;
    struct qkv_candidate *best; /* (most): receives the likeliest continuations, the best first */
    size_t count;               /* how many there are */
    bool broken;                /* a score is not finite */
};
/* The likeliest continuations of each source: of equal ones those of the first row, then of the first id. */
struct qkv_step_candidates {
    struct qkv_continuation *sources;
    size_t count, V;
    float *changed; /* (threads, V): scratch of the rules; NULL: no source has any */
};

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* Rows of a matrix in a file, in another order than in the model. Columns are numbers of `width` bytes, 2 or 4, or,
 * where it is not transposed, blocks of any width. Row r of ours is
 * row places[r] of theirs, whose matrix has `total` rows, or, `transposed`, columns. theirs and places are of the
 * host. */
struct qkv_step_repack {
    void *ours;
    const void *theirs; /* may be unaligned */
    const size_t *places;
    size_t rows, columns, width, total;
    bool transposed;
};
/* Rows of QKV_MXFP4, which a file has as two matrices: 32 numbers of 4 bits in 16 bytes, and a byte of their exponent.
 * A byte of the file holds the numbers 2k and 2k + 1 of a block, a byte of QKV_MXFP4 the numbers k and k + 16. */
struct qkv_step_join_blocks {
    unsigned char *ours;
    const unsigned char *numbers, *exponents; /* of the host: (…, 16·blocks) and (…, blocks) */
    const size_t *places;                     /* of the host: as in repack */
    size_t rows, blocks;                      /* blocks: of a row */
};

/* Converts (rows, columns) floats to a type, row by row, with qkv_type_quantise, for a file. All is host memory. */
struct qkv_step_quantise {
    void *out;
    const float *x;
    enum qkv_dtype dtype;
    size_t rows, columns;    /* columns: whole blocks */
    const float *importance; /* (slices, columns): row r has the list (first + r) / rows_each; NULL: none */
    size_t first, rows_each;
    float *scratch;    /* (threads, columns) */
    atomic_int *fault; /* becomes one of these where a row cannot be converted */
};
enum qkv_quantise_fault {
    QKV_QUANTISE_GOOD,
    QKV_QUANTISE_NOT_FINITE, /* a number is not finite */
    QKV_QUANTISE_TOO_LARGE   /* a finite number would become infinite */
};

#define QKV_STEP_NUMBER(name) QKV_STEP_##name,
enum qkv_step_number { QKV_STEP_LIST(QKV_STEP_NUMBER) QKV_STEP_COUNT };

/* The step `name` of a filled-in struct, or with these fields of it. */
#define QKV_STEP_OF(ctx, name, call)                                                                                   \
    ((ctx)->backend->steps[QKV_STEP_##name]((ctx), (const struct qkv_step_##name *){(call)}))
#define QKV_STEP(ctx, name, ...)                                                                                       \
    ((ctx)->backend->steps[QKV_STEP_##name]((ctx), &(const struct qkv_step_##name){__VA_ARGS__}))

#endif
