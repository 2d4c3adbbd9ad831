/* qkv/pass.h: passes: forward and backward over a batch; a part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_PASS_H
#define QKV_PUBLIC_PASS_H

#include "qkv/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QKV_IGNORE (-100) /* a target that does not count */

/* The stages of the computation from q and k to the attention weights. Each stage has one number for every query and
 * key. The list grows at its end. */
#define QKV_ATTENTION_STAGE_LIST(X)                                                                                    \
    X(WEIGHTS, "weights", "softmax over the keys, before dropout; a row sums to 1, or to 0 where no key is left")      \
    X(SCORES, "scores", "capped, plus ALiBi and bias; -inf where masked")                                              \
    X(CAPPED, "capped", "products after the softcap, not masked")                                                      \
    X(PRODUCTS, "products", "scale times q times k, not masked")                                                       \
    X(DROPPED, "dropped",                                                                                              \
      "weights after dropout, which values are multiplied by: 0 or divided by 1 - p; without "                         \
      "dropout the weights")
#define QKV_ATTENTION_STAGE_ENUM(name, text, help) QKV_ATTENTION_##name,
enum qkv_attention_stage { QKV_ATTENTION_STAGE_LIST(QKV_ATTENTION_STAGE_ENUM) };
#undef QKV_ATTENTION_STAGE_ENUM

/* The shape of an array with one value for each query and key: (B or 1, H or 1, Tq or 1, keys). A dimension of size 1
 * broadcasts, except over keys. If Tk is less than the number of keys, the later keys are masked, as ONNX pads a mask
 * with false and −inf. Strides count elements; the keys of a row are contiguous; strides that are all 0 mean that the
 * array is packed. */
struct qkv_pair_shape {
    size_t B, H, Tq, Tk;
    size_t batch, head, row;
};
QKV_API struct qkv_pair_shape qkv_pair_shape_defaults(void); /* no array */
/* A mask that says for each query and key whether the query attends to the key. The forward pass, its backward and
 * qkv_pass_weights read the array: do not change it until the last of them is done. */
struct qkv_dense_mask {
    const uint8_t *data; /* only keys where this is not 0 (true = attend); NULL: all */
    /* (B or 1, H or 1, Tq or 1, keys), where Tq and keys are the positions of the longest sequences; all 0:
     * (B,1,Tq,Tk), packed */
    struct qkv_pair_shape shape;
};
QKV_API struct qkv_dense_mask qkv_dense_mask_defaults(void); /* all keys */

/* A batch of sequences of ids. It is either a rectangle (B,T), whose rows may end early (lengths), or packed without
 * padding: all rows of sequence 0, then of sequence 1, and so on. The pass packs a rectangle itself: positions at and
 * past a length cost nothing, are not read, are keys for no other position and have no loss; outputs that show them
 * have 0 there (the option `padding` changes this). Both forms give the same bits. */
struct qkv_batch {
    size_t B, T;            /* sequences; positions of the longest. Packed: T may be 0, the pass then counts it */
    const int32_t *ids;     /* (B,T), or packed (rows) */
    const int32_t *lengths; /* (B): number of positions of each row; NULL: all T. Packed: must be NULL */
    /* Documents packed into a row, numbered as key_documents of struct qkv_mask: the numbers of a row do not decrease,
     * and only positions past its length have a negative number. A position attends only to its own document, and
     * positions of every kind count from the start of the document. A document's results do not depend on the others.
     * They agree with those of the document in a row of its own up to rounding, because sums over keys are split at
     * other places: about 3e-6 of the size of scores in fp32, 4e-2 in bf16. Targets are used as given, also at the ends
     * of documents. Only models of one stack accept documents, and none with a classify head. (B,T); NULL: each row is
     * one document. Packed batches take no documents: their sequences never attend to each other. */
    const int32_t *documents;
    /* (B), for causal models of one stack: the first prefix[b] positions of row b, at most its length, attend to each
     * other in both directions (prefix-LM), and all later positions attend to them. A window limits this too. Targets
     * inside the prefix count if they are given. It cannot be combined with documents. NULL: none. */
    const int32_t *prefix;
    /* (B,T) or (rows) for heads lm and classify_tokens; with `scored`, (scored_count); (B) for classify. QKV_IGNORE
     * does not count. NULL: no loss. */
    const int32_t *targets;
    /* The source of encoder–decoders: */
    size_t source_T;
    const int32_t *source;         /* (B,source_T), or packed (source_rows) */
    const int32_t *source_lengths; /* (B): as lengths; NULL: all source_T */
    /* The type of each token, in the shape of ids and source, for models whose embedding has types (embed.types); NULL:
     * all 0. */
    const int32_t *types, *source_types;
    /* Head none: the gradient of the loss with respect to the hidden states that the pass outputs, in their shape. The
     * loss of the pass is then the sum of their elementwise product. NULL: no loss. */
    const float *output_gradient;
    /* The number of sequences that the losses of routers (struct qkv_experts_spec) are averaged over; 0: B.
     * Micro-batches give the number of their whole batch. */
    size_t loss_sequences;
    /* The number that the summed loss is divided by; 0: the number of targets that count (head none: 1). Micro-batches
     * that all give the count of their whole batch add up to the gradient of the whole batch. */
    size_t loss_count;
    /* e, at least 0 and less than 1: the loss is (1 − e) times the loss of the target plus e times the mean loss over
     * all tokens or classes (Szegedy et al. 2016) */
    double label_smoothing;
    /* determines the dropout masks of this pass; element (b,t) of (B,T) has the same mask in both forms */
    uint64_t dropout_seed;
    /* Experimental: packed sequences. Each side of an encoder–decoder may be packed. cu_rows and cu_source (B + 1) are
     * cumulative lengths: sequence b is the rows cu_rows[b] … cu_rows[b + 1] − 1. The first entry is 0, no entry is
     * less than the one before, and the last is `rows`. NULL: a rectangle. */
    const int32_t *cu_rows, *cu_source;
    size_t rows, source_rows; /* packed: the number of rows of all sequences together */
    /* Experimental: vectors that replace the scaled token embeddings, (rows,C) or (B,T,C), where C is qkv_token_width.
     * ids or source are then NULL. */
    const float *inputs, *source_inputs;
    /* gradients of inputs and source_inputs, in their shape; backward adds to them; NULL: not wanted */
    float *input_gradient, *source_input_gradient;
    /* Experimental: the input of a stack whose embed.input is not tokens; its ids are then NULL. Patches: images
     * (B,channels,height,width), T is the number of positions of an image, no lengths. Frames: (B,channels,frames); a
     * sequence of n positions uses its first stride·n frames; frames 0: stride·T. Vectors: (B,T,channels), or packed
     * (rows,channels). Patches and frames cannot be packed. */
    const float *features, *source_features;
    size_t frames, source_frames;
    /* Experimental: the position number of each row, (rows) or (B,T), for position embeddings and rotations. The
     * numbers increase within a sequence or document and are less than the context; with a bias by distance (alibi)
     * each is the one before plus 1. Masks and windows count rows and not these numbers. NULL: 0, 1, … in each
     * sequence. */
    const int32_t *positions, *source_positions;
    /* Experimental: the sequence length that the rotations of all sequences use where position.scaling depends on one
     * (kinds dynamic and longrope), at most the context. 0: each sequence, or document, uses its own: its largest
     * position plus 1, so that it has the same bits as alone. */
    size_t length, source_length;
    /* Experimental: the rows whose scores (head none: hidden states) are wanted: row numbers in (rows), or b·T + t in
     * (B,T), in increasing order. The head is not computed for other rows. NULL: all rows. Not for classify. */
    const size_t *scored;
    size_t scored_count; /* number of entries of scored; it may be 0 */
    /* Experimental: masks for all layers. A key must be allowed by the mask as well as by the spec, lengths, documents
     * and prefix. `mask` is for self attention, usually (B,1,T,T). In models with both stacks, source_mask is for the
     * encoder's self attention (B,1,source_T,source_T) and cross_mask for cross attention (B,1,T,source_T). A position
     * that may attend to nothing gets 0 from its attention. */
    struct qkv_dense_mask mask, source_mask, cross_mask;
};
/* An empty batch without targets. */
QKV_API struct qkv_batch qkv_batch_defaults(void);
struct qkv_pass_shape {
    size_t B, T, source_T;
    size_t rows, source_rows; /* largest number of rows in all sequences together; 0: B·T, B·source_T */
};
QKV_API struct qkv_pass_shape qkv_pass_shape_defaults(void); /* an empty batch */

/* The points of a forward pass at which a hook is called. The list grows at its end. */
#define QKV_HOOK_LIST(X)                                                                                               \
    X(EMBEDDING, "embedding", "the residual stream before the first block")                                            \
    X(ATTENTION, "attention", "the output of self attention and its norm, before it is added to the stream")           \
    X(CROSS, "cross", "the output of cross attention and its norm, before it is added to the stream")                  \
    X(FFN, "ffn", "the output of the feed-forward and its norm, before it is added to the stream")                     \
    X(RESIDUAL, "stream", "the residual stream after a block")                                                         \
    X(FINAL, "final", "after the final norm")                                                                          \
    X(EXPERTS, "experts", "the number of rows that chose each expert, before the feed-forward's output")
#define QKV_HOOK_ENUM(name, text, help) QKV_HOOK_##name,
enum qkv_hook_kind { QKV_HOOK_LIST(QKV_HOOK_ENUM) };
#undef QKV_HOOK_ENUM
struct qkv_hook_point {
    enum qkv_hook_kind kind;
    bool encoder; /* true: of the encoder; false: of the decoder */
    size_t layer; /* index of the block; 0 before the first block, the number of layers after the last one */
    /* rows: the positions of all sequences within their lengths, one sequence after the other (B·T if all are full).
     * columns: C. EXPERTS has 1 row and one column for each expert. */
    size_t rows, columns;
    const float *values; /* (rows,columns), before dropout; valid during the call */
};
/* A hook. The thread that runs the pass calls it, in the order of the computation. It must not call any function with
 * the pass or its model. */
typedef void qkv_hook(void *user, const struct qkv_hook_point *point);
/* The name of a kind in one word, "attention", "stream", …; "" if there is no such kind. Any thread. */
QKV_API const char *qkv_hook_name(enum qkv_hook_kind kind);
struct qkv_pass_options {
    size_t size;           /* sizeof(struct qkv_pass_options), set by qkv_pass_defaults */
    size_t B, T, source_T; /* the largest batch that the pass will run, or the largest value of each */
    /* experimental: the largest number of rows of a batch, positions past lengths not counted, that memory is planned
     * for; 0: B·T, B·source_T */
    size_t rows, source_rows;
    /* experimental: every batch has scored rows (qkv_batch.scored), at most so many; 0: a batch may have them, and
     * memory is planned for all rows */
    size_t scored;
    /* all shapes that will come, if no single batch has the largest of each of B, T and source_T: memory is planned for
     * the shape that needs the most; NULL: memory is planned for (B,T,source_T). Read by qkv_pass_create only. */
    const struct qkv_pass_shape *shapes;
    size_t shape_count;
    bool train; /* saves the numbers that backward needs */
    /* needs train: saves only the input of each block and runs the block again in backward; same bits, less memory
     * (Chen et al. 2016) */
    bool checkpoint;
    bool dropout; /* turns dropout on, as in training; needs train */
    bool logits;  /* stores the logits of lm heads; false: the pass computes only the loss */
    /* saves q, k and log-sum-exp, from which qkv_pass_weights computes attention weights; memory grows with T and not
     * T·T */
    bool weights;
    /* experimental: also computes the positions of a rectangle that are past its lengths, as frameworks do that mask
     * only keys: outputs show them, and an output_gradient counts there */
    bool padding;
    qkv_hook *hook; /* receives the numbers of each block as they are computed; NULL: none. Not with checkpoint */
    void *hook_user;
};
/* Forward only: all options off. The caller sets B and T. */
QKV_API void qkv_pass_options_init(struct qkv_pass_options *options, size_t size);
static inline struct qkv_pass_options qkv_pass_defaults(void) {
    struct qkv_pass_options options;
    qkv_pass_options_init(&options, sizeof options);
    return options;
}
struct qkv_pass;
/* Makes a pass: plans its memory by a dry run, then allocates all of it. Forward and backward of a planned shape
 * allocate nothing; a batch of another shape is planned when it comes, and the memory grows if that shape needs more.
 * Free the pass before its model. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_pass_create(struct qkv_model *model, const struct qkv_pass_options *options,
                                        struct qkv_pass **out);
/* Frees a pass. NULL is allowed. */
QKV_API void qkv_pass_free(struct qkv_pass *pass);
/* Bytes of memory that the pass owns, without those of the model. */
QKV_API size_t qkv_pass_bytes(const struct qkv_pass *pass);
/* Runs the model forward. With options.train, call qkv_pass_backward after it, because forward may already have
 * computed part of the gradients. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_pass_forward(struct qkv_pass *pass, const struct qkv_batch *batch);
/* Adds the gradients of the loss to the model's gradients. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_pass_backward(struct qkv_pass *pass);
/* The loss of the latest forward: its sum over the targets that count, divided by loss_count. *counted (may be NULL)
 * gets the number of targets that count. */
QKV_API double qkv_pass_loss(const struct qkv_pass *pass, size_t *counted);
/* The output of the latest forward, owned by the pass: logits (B,T,V) or (B,classes), or with head none hidden states
 * (B,T,C). Packed batches give (rows,V) or (rows,C); batches with `scored` give (scored_count,V) or (scored_count,C).
 * `data` is NULL if the pass does not store it (options.logits). */
QKV_API struct qkv_array qkv_pass_output(const struct qkv_pass *pass);
/* Gives the name of the i-th attention, "decoder.layers.0.attn", and the shape (B,H,Tq,Tk) of its weights in the latest
 * forward; `data` is NULL. False past the last. Needs options.weights. */
QKV_API bool qkv_pass_attention(const struct qkv_pass *pass, size_t i, struct qkv_array *attention);
/* Computes attention weights, or another stage, of the latest forward: of attention i, head h of batch row b, for
 * `rows` queries from `first` on, out (rows,Tk). Elements past the lengths of row b are 0, scores −inf. The stage
 * DROPPED uses the batch's dropout_seed, in a pass with dropout. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_pass_weights(struct qkv_pass *pass, size_t i, enum qkv_attention_stage stage, size_t b,
                                         size_t h, size_t first, size_t rows, float *out);

#ifdef __cplusplus
}
#endif

#endif
