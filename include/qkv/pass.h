/* qkv/pass.h: passes: forward and backward over a batch; a part of qkv.h, which includes it. Stable. */
#ifndef QKV_PUBLIC_PASS_H
#define QKV_PUBLIC_PASS_H

#include "qkv/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QKV_IGNORE (-100) /* a target that does not count */

/* What can be looked at on the way from q and k to the attention weights, for a query and all its keys. */
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

/* The shape of an array with a value for each query and key: (B or 1, H or 1, Tq or 1, keys); 1 broadcasts, but over
 * keys. With fewer keys than there are, those behind are masked, as ONNX pads a mask with false and −inf. Strides are
 * in elements, keys lie side by side; strides that are all 0 mean that the array is packed. */
struct qkv_pair_shape {
    size_t B, H, Tq, Tk;
    size_t batch, head, row;
};
QKV_API struct qkv_pair_shape qkv_pair_shape_defaults(void); /* no array: nothing in it */
/* Which keys the queries of an attention may attend to, element by element. The numbers are read by the forward pass,
 * its backward and qkv_pass_weights, and stay as they are until then. */
struct qkv_dense_mask {
    const uint8_t *data; /* only keys where this is not 0 (true = attend); NULL: all */
    /* (B or 1, H or 1, Tq or 1, keys), Tq and Tk being the positions of the longest sequences; all 0: (B,1,Tq,Tk),
     * packed */
    struct qkv_pair_shape shape;
};
QKV_API struct qkv_dense_mask qkv_dense_mask_defaults(void); /* all keys */

/* Sequences of ids, as a rectangle (B,T) whose rows may end early, or packed: row after row, sequence after sequence, without padding.
 * A rectangle is made packed inside: positions at and past a length cost nothing, are not read, are no keys of others and have no
 * loss; where a pass shows them, they are 0 (unless its option `padding` says otherwise). Both forms give the same bits. */
struct qkv_batch {
    size_t B, T;            /* sequences; positions of the longest. Packed: T may be 0, which is counted */
    const int32_t *ids;     /* (B,T), or packed (rows) */
    const int32_t *lengths; /* (B): how many positions of each row there are; NULL: all T. Packed: NULL */
    /* Documents side by side in a row, as key_documents of struct qkv_mask: numbers that do not fall along a row, negative past its length
     * only. A position sees its own document alone, and positions, of whatever kind, count from where that begins. What
     * a document gives does not depend on the others, and agrees with what it gives as a row of its own within
     * rounding, as keys are summed from other places: about 3e-6 of the size of scores in fp32, 4e-2 in bf16; targets
     * are the caller's. Models of one stack, not classifiers. */
    /* (B,T); NULL: a row is one. Not of packed sequences, which do not see one another anyway */
    const int32_t *documents;
    const int32_t *prefix;  /* (B), of causal models of one stack: the first prefix[b] positions of a row, at most its
                                      length, see one another in both directions (prefix-LM), and all see them. Within a window
                                      where there is one. Not with documents. Targets in it count where they are given. NULL: none */
    const int32_t *targets; /* (B,T) or (rows) for lm, with `scored` (scored_count), (B) for classify; QKV_IGNORE does
                                      not count; NULL: no loss */
    size_t source_T;        /* encoder–decoders: */
    const int32_t *source;  /* (B,source_T), or packed (source_rows) */
    const int32_t *source_lengths; /* (B) or NULL */
    /* Of models whose embedding has types (embed.types): that of each token, as ids lie; NULL: all 0. */
    const int32_t *types, *source_types;
    const float *output_gradient; /* head none: the gradient of the loss by the hidden states that are the output; the
                                      loss is then their product summed; NULL: no loss */
    size_t
        loss_sequences; /* what losses of routers (struct qkv_experts_spec) are a mean of; 0: B. Micro-batches give their sum */
    size_t loss_count; /* what the summed loss is divided by; 0: the number of targets that count. Micro-batches
                                that share the count of their whole add up to the gradient of the whole batch */
    /* e: the loss is (1 - e) times the target's plus e times the mean over all tokens or classes (Szegedy et al.
     * 2016); at least 0, less than 1 */
    double label_smoothing;
    /* names the dropout masks of this pass; element (b,t) of (B,T) has the same one in both forms */
    uint64_t dropout_seed;
    /* Experimental: packed sequences. Each side of an encoder–decoder may be packed. */
    const int32_t *cu_rows, *cu_source; /* (B + 1): sequence b is rows cu_rows[b] … cu_rows[b + 1] − 1. The first is 0,
                                           none falls, the last is `rows`; NULL: a rectangle */
    size_t rows, source_rows;           /* packed: how many there are, of all sequences together */
    /* Experimental: vectors in place of ids, which are then NULL: (rows,C) or (B,T,C), in place of the scaled embeddings of tokens, C
     * wide as these (qkv_token_width). */
    const float *inputs, *source_inputs;
    float *input_gradient, *source_input_gradient; /* of the same shape: backward adds to them; NULL: not wanted */
    /* Experimental: what a stack reads whose embed.input is another than tokens, which has no ids then. Patches: images (B,channels,height,
     * width), T being their positions, without lengths. Frames: (B,channels,frames), a sequence of n positions having the first
     * stride·n of them; frames 0: stride·T. Vectors: (B,T,channels), or packed (rows,channels). Patches and frames are not packed. */
    const float *features, *source_features;
    size_t frames, source_frames;
    /* Experimental: where each row stands, (rows) or (B,T), which embeddings of positions and rotations read. They rise within a
     * sequence or document and lie in the context; where a bias counts distances (alibi) they have no gaps. Masks and windows count rows.
     * NULL: 0, 1, … of each sequence */
    const int32_t *positions, *source_positions;
    /* Experimental: the length that rotations of all sequences are decided for where they depend on one (position.scaling of kind dynamic
     * or longrope), at most the context. 0: each sequence, or document, its own: the greatest of its positions, and one more; so it has
     * the bits that it has alone. */
    size_t length, source_length;
    /* Experimental: rows whose scores, or with head none hidden states, are wanted: numbers in (rows), or b·T + t of (B,T), rising;
     * the others cost no head. NULL: all of them. Not for classify */
    const size_t *scored;
    size_t scored_count; /* with scored; 0 for none */
    /* Experimental: masks of all layers, besides what the spec, lengths, documents and prefix leave: of self attention,
     * (B,1,T,T) as tutorials make it, and of models of both stacks of the encoder's (B,1,source_T,source_T) and of
     * cross attention (B,1,T,source_T). A position that may attend to nothing gets 0 from its attention. */
    struct qkv_dense_mask mask, source_mask, cross_mask;
};
/* An empty batch, without targets. */
QKV_API struct qkv_batch qkv_batch_defaults(void);
struct qkv_pass_shape {
    size_t B, T, source_T;
    size_t rows, source_rows; /* at most so many in all sequences; 0: B·T, B·source_T */
};
QKV_API struct qkv_pass_shape qkv_pass_shape_defaults(void); /* an empty batch */

/* Experimental: where a forward pass can be listened to. */
#define QKV_HOOK_LIST(X)                                                                                               \
    X(EMBEDDING, "embedding", "the residual stream before the first block")                                            \
    X(ATTENTION, "attention", "what self attention gives, with a norm behind it, before it is added to the stream")    \
    X(CROSS, "cross", "what cross attention gives, the same")                                                          \
    X(FFN, "ffn", "what the feed-forward sublayer gives, the same")                                                    \
    X(RESIDUAL, "stream", "the residual stream after a block")                                                         \
    X(FINAL, "final", "after the final norm")                                                                          \
    X(EXPERTS, "experts", "how many rows chose each expert, before what the sublayer gives")
#define QKV_HOOK_ENUM(name, text, help) QKV_HOOK_##name,
enum qkv_hook_kind { QKV_HOOK_LIST(QKV_HOOK_ENUM) };
#undef QKV_HOOK_ENUM
struct qkv_hook_point {
    enum qkv_hook_kind kind;
    bool encoder; /* whose: the encoder's, or the decoder's */
    size_t layer; /* of the block; 0 before the first one, the number of layers behind the last one */
    size_t rows,
        columns; /* positions within their lengths, sequence after sequence (B·T where all are full); C. Experts: 1, and how many there are */
    const float *values; /* valid during the call; as they are before dropout */
};
/* Called in the order of the computation, from the thread that runs the pass; must not call anything of the pass or its model. */
typedef void qkv_hook(void *user, const struct qkv_hook_point *point);
/* Experimental: "attention", "stream", …, the kind in a word; "" for what is none. */
QKV_API const char *qkv_hook_name(enum qkv_hook_kind kind);
struct qkv_pass_options {
    size_t B, T, source_T; /* the largest batch that will come, or the largest of each */
    /* experimental: the most rows of a batch, past lengths not counted, which memory is planned for; 0: B·T,
     * B·source_T */
    size_t rows, source_rows;
    /* experimental: every batch chooses rows (qkv_batch.scored), at most so many; 0: they may, and memory is planned
     * for all rows */
    size_t scored;
    /* all the shapes that will come, when (B,T,source_T) is too much for all of them: memory is planned for the one
     * that needs most; NULL: for (B,T,source_T) */
    const struct qkv_pass_shape *shapes;
    size_t shape_count;
    bool train;      /* keep what backward needs */
    bool checkpoint; /* with train: keep only each block's input and run it again in backward; same bits, less memory
                              (Chen et al. 2016) */
    bool dropout;    /* dropout is on, as in training; needs train */
    bool logits;     /* keep the logits of lm heads (else only the loss is computed) */
    bool weights;    /* keep what attention weights are made from: of size T, never T×T */
    /* experimental: positions of a rectangle past its lengths are computed too, as frameworks do that mask keys
     * alone: they are shown, and an output_gradient counts there */
    bool padding;
    qkv_hook *hook; /* told of the numbers on the way, block by block; NULL: nobody. Not with checkpoint */
    void *hook_user;
};
/* Forward alone, nothing kept; B and T are to be set. */
QKV_API struct qkv_pass_options qkv_pass_defaults(void);
struct qkv_pass;
/* Plans the memory by a dry run, then allocates all of it: passes themselves allocate nothing. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_pass_create(struct qkv_model *model, const struct qkv_pass_options *options,
                                        struct qkv_pass **out);
/* NULL is fine. */
QKV_API void qkv_pass_free(struct qkv_pass *pass);
/* Bytes of memory that the pass holds, those of the model not counted. */
QKV_API size_t qkv_pass_bytes(const struct qkv_pass *pass);
/* Runs the model. With options.train a call must be followed by qkv_pass_backward, as it may have begun on gradients.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_pass_forward(struct qkv_pass *pass, const struct qkv_batch *batch);
/* Adds the gradient of the loss to the model's gradients. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_pass_backward(struct qkv_pass *pass);
/* The summed loss over the targets that count, divided by loss_count, and how many counted. */
QKV_API double qkv_pass_loss(const struct qkv_pass *pass, size_t *counted);
/* logits (B,T,V) or (B,classes), or hidden (B,T,C), of the latest forward; data NULL if not kept. Packed: (rows,V) or (rows,C); with
 * chosen rows (scored_count,V) or (scored_count,C). */
QKV_API struct qkv_array qkv_pass_output(const struct qkv_pass *pass);
/* The i-th attention, "decoder.layers.0.attn", and the shape of its weights (B,H,Tq,Tk) in the latest forward; data is NULL.
 * False past the last. Needs options.weights. */
QKV_API bool qkv_pass_attention(const struct qkv_pass *pass, size_t i, struct qkv_array *attention);
/* Makes some of them: head h of batch row b, for `rows` queries from `first` on, out (rows,Tk), of the latest forward. Past the
 * lengths of row b they are 0, scores -inf. Those after dropout are of the batch's dropout_seed, in a pass with dropout.
 * Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SHAPE. */
QKV_API enum qkv_status qkv_pass_weights(struct qkv_pass *pass, size_t i, enum qkv_attention_stage stage, size_t b,
                                         size_t h, size_t first, size_t rows, float *out);

#ifdef __cplusplus
}
#endif

#endif
