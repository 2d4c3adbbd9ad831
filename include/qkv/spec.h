/* qkv/spec.h: specs: a transformer as data; a part of qkv.h, which includes it. Experimental: the structs grow with the
 * kinds of layers; the JSON, and the names of presets and settings, are stable.
 *
 * Each field is a key of config.json (format "qkv", version 2; version 1 can always be read). A key that is left out
 * has the default in the field's comment. */
#ifndef QKV_PUBLIC_SPEC_H
#define QKV_PUBLIC_SPEC_H

#include "qkv/context.h"
#include "qkv/kinds.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest number of layers of a stack, of kinds of layers in it, and of bytes of a kind's name with its terminating
 * zero. */
enum { QKV_LAYERS_MAX = 1000, QKV_KINDS_MAX = 8, QKV_KIND_NAME = 32 };
/* The largest number of entries of a list in a spec. */
enum { QKV_LIST_MAX = 128 };

struct qkv_number_list {
    int count; /* 0: none */
    double values[QKV_LIST_MAX];
};
/* The scaling of a rotation to more positions than it was trained with. In the formulas: d is the number of rotated
 * channels, which form d/2 pairs; f[j] = theta^(−2j/d) is the angle that pair j turns by from one position to the next;
 * n is the length of the sequence (qkv/pass.h and qkv/generate.h say which). Fields that a kind does not use are
 * ignored.
 *   linear    f[j] / factor
 *   dynamic   n > original_context: theta becomes theta·(factor·n/original_context − (factor − 1))^(d/(d − 2))
 *   ntk       theta becomes theta·factor^(d/(d − 2))
 *   yarn      f[j]·(ramp(j)/factor + 1 − ramp(j)), where ramp(j) = (j − low)/(high − low), clamped to [0, 1];
 *             low  = d·ln(original_context/(2π·beta_fast))/(2·ln theta), with truncate rounded down; at least 0;
 *             high = d·ln(original_context/(2π·beta_slow))/(2·ln theta), with truncate rounded up; at most d − 1;
 *             if low = high, 0.001 is added to high
 *   llama3    by the wavelength w = 2π/f[j]. w > original_context/low_freq: f[j]/factor.
 *             w < original_context/high_freq: f[j]. Between them: linear in original_context/w from one to the other
 *   longrope  n > original_context: f[j] / long_factors[j]; else f[j] / short_factors[j]
 * Cosines and sines are multiplied by attention_factor. If that is 0, the factor is, with m(k) = 0.1·k·ln(factor) + 1:
 * for yarn m(mscale)/m(mscale_all_dim), or m(1) if mscale or mscale_all_dim is 0; for longrope
 * √(1 + ln(factor)/ln(original_context)); for other kinds 1. */
struct qkv_scaling_spec {
    bool given; /* false (null in JSON): no scaling */
    enum qkv_scaling_kind kind;
    double factor;                 /* at least 1; longrope: 0 (null in JSON) means context / original_context */
    int original_context;          /* read by dynamic, yarn, llama3, longrope */
    double beta_fast, beta_slow;   /* yarn: default 32, 1 */
    bool truncate;                 /* yarn: default true */
    double mscale, mscale_all_dim; /* yarn: default 0, 0 */
    double low_freq, high_freq;    /* llama3: default 1, 4 */
    double attention_factor;       /* 0 (null in JSON): the formula of the kind, see above */
    struct qkv_number_list short_factors, long_factors; /* longrope: d/2 numbers each; "short" and "long" in JSON */
};
/* A scaling of that kind with given true and these defaults. factor and original_context are 0 and must be set. Any
 * thread. */
QKV_API struct qkv_scaling_spec qkv_scaling_defaults(enum qkv_scaling_kind kind);

/* A position that is added to the embedding. */
struct qkv_embed_position_spec {
    enum qkv_position_kind kind; /* none, sinusoidal or learned; default learned if no attention has one, else none */
    enum qkv_sinusoid layout;    /* sinusoidal: default interleaved */
    int offset;                  /* sinusoidal, learned: position t uses row t + offset of the table, default 0 */
};
/* A position inside attention. */
struct qkv_position_spec {
    enum qkv_position_kind kind;
    double theta;             /* rope: the base of the wavelengths, default 10000 */
    enum qkv_pairing pairing; /* rope: default half */
    /* rope: the first 2·⌊head_dim·fraction/2⌋ channels of a head are rotated; with a latent, the first
     * 2·⌊rope_dim·fraction/2⌋ of the last rope_dim channels; default 1 */
    double fraction;
    struct qkv_scaling_spec scaling; /* rope: default none */
    enum qkv_alibi_form form;        /* alibi: default press */
    /* alibi of form mpt: the slopes for a power of two of heads end at 2^(−max), default 8 */
    double max;
    /* alibi: the slopes are trained as weights of the stack that start from those of `form`; with form falcon the
     * weights are divided by √head_dim when they are used, like the fixed slopes; default false */
    bool learn;
    /* buckets: their number, default 32; without causal, half of them are for keys after the query */
    int buckets;
    int max_distance; /* buckets, relative: all distances from this one on share one bias, default 128 */
    /* buckets, relative, alibi with learn: each layer learns its own, as in UMT5; default false: the layers of a stack
     * share what they learn */
    bool per_layer;
};
struct qkv_norm_spec {
    bool given; /* false (null in JSON): no norm, where a norm is optional; the norms of layers always exist */
    enum qkv_norm_kind kind;      /* default layernorm */
    enum qkv_placement placement; /* default pre; only norms of layers have one */
    double eps;                   /* default 1e-5 */
    /* whether a norm follows the last layer; the kind of the last layer decides; default false for post, else true;
     * only norms of layers have it */
    bool final;
    bool weight; /* default true; false: the norm has neither a weight nor a bias */
    bool bias;   /* default true for layernorm and layernorm_plus_one with a weight; an rmsnorm never has a bias */
    /* default true; false: self attention has no norm (before it, or after it with placements post and output); only
     * norms of layers have it */
    bool attention;
};
/* The norms of the queries and of the keys of an attention (Henry et al. 2020), applied before clip and rotation, or
 * after them. */
struct qkv_qk_norm_spec {
    struct qkv_norm_spec norm; /* given false: none; it has no placement and no final */
    enum qkv_norm_over over;   /* default head */
    bool after_rotation;       /* the norms come after clip and rotation; default false: before them */
};
/* Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1): keys and values are projected from a
 * latent c = norm(x·kv_aᵀ) with `rank` channels. A key has rope_dim more channels, which are projected from x and which
 * all heads share. The cache stores only c and these channels. Calls with a cache merge the projections of keys and
 * values into q and y, so their scores agree with those of a pass up to rounding: about 2e-6 of their size in fp32 and
 * 1e-2 in bf16 (more if rounding changes which experts a router chooses). */
struct qkv_latent_spec {
    bool given;     /* false (null in JSON): keys and values are projected from x */
    int rank;       /* channels of the latent, at most d_model; default 4·head_dim, at most d_model/2 */
    int query_rank; /* channels of a latent that queries are projected from; default 0: they are projected from x */
    /* the last channels of a head, which are rotated, less than head_dim; default 2·⌊head_dim/4⌋ */
    int rope_dim;
    double eps; /* eps of the norms of latents, which are rmsnorm with a weight; default 1e-6 */
};
/* A number that grows with a query's position t, which multiplies it after rotation and norm:
 * 1 + beta·ln(1 + ⌊(t + offset)/length⌋) (Nakanishi 2025, "Scalable-softmax"; Llama 4, Ministral 3). */
struct qkv_temperature_spec {
    bool given;  /* false (null in JSON): 1 */
    double beta; /* default 0.1 */
    int length;  /* must be given */
    int offset;  /* default 0 */
};
struct qkv_attention_spec {
    int heads, kv_heads;     /* heads must be given; default kv_heads = heads */
    int head_dim, value_dim; /* default head_dim = d_model / heads, value_dim = head_dim */
    bool causal;             /* default true in a decoder, false in an encoder; cross attention has none */
    int window;              /* w > 0: only keys with |i − j| < w; default 0: all */
    /* v > 0: the window has two sides, only keys with i − j < w (w = 0: all) and j − i < v; default 0: window alone */
    int window_right;
    /* c > 0: positions form chunks of c, and a query sees keys of its own chunk only; default 0: one chunk. Positions
     * count from the beginning of a document. */
    int chunk;
    struct qkv_qk_norm_spec qk_norm;         /* default none */
    struct qkv_temperature_spec temperature; /* of queries; default none; self attention only */
    struct qkv_latent_spec latent;           /* default none; self attention only, with kv_heads = heads */
    /* n > 0: the layer computes no keys and values, and reads those of another layer (qkv_stack_keys_of); self
     * attention only; default 0 */
    int share;
    double clip;    /* c > 0: q, k and v are clamped to ±c before the rotation; default 0: off */
    double softcap; /* c >= 2.94e-39: a score s becomes c·tanh(s/c) before bias and mask; default 0: off */
    /* multiplies q·k. Default 0 (null in JSON): 1/sqrt(head_dim); with a latent whose rotation is scaled by yarn with
     * mscale_all_dim, that times (0.1·mscale_all_dim·ln(factor) + 1)². */
    double scale;
    enum qkv_bias_kind bias; /* default true: all four projections */
    bool sinks;              /* each head has a learned logit in the softmax denominator; default false */
    /* dropout of the attention weights; default 0 (null in JSON): the spec's dropout; negative (0 in JSON): none */
    double dropout;
    /* one of QKV_ATTENTION_POSITION_LIST, or none; default none. Cross attention has none. */
    struct qkv_position_spec position;
};
/* The form of an attention, which follows from its keys: "heads", or "latent" with a latent; "" for NULL. Any
 * thread. */
QKV_API const char *qkv_attention_form_text(const struct qkv_attention_spec *attention);
/* Whether a kind of feed-forward is gated: activation(x·gateᵀ) times x·upᵀ (Shazeer 2020). Any thread. */
QKV_API bool qkv_ffn_gated(enum qkv_ffn_kind kind);
/* The default width of a feed-forward: 4·d_model. Gated kinds have three matrices instead of two, so their width is two
 * thirds of that, rounded up to a multiple of 8, or of 256 from d_model 1024 on, as in LLaMA. Any thread. */
QKV_API int qkv_ffn_width(enum qkv_ffn_kind kind, int d_model);
/* Mixture of experts (Shazeer et al. 2017): `count` feed-forwards, each d_ff wide. A router chooses top_k of them for
 * each row: y = Σ weight·expert(x) over the chosen experts, the best one first, + shared(x). The router chooses the
 * experts with the best scores (with a correction, the best corrected scores); of equal scores, the lower index. No row
 * is ever dropped. */
struct qkv_experts_spec {
    bool given;                    /* false (null in JSON): one feed-forward for all rows */
    int count, top_k;              /* count must be given; top_k is at most count, default 2 */
    enum qkv_expert_scores scores; /* default softmax */
    bool normalize; /* softmax, sigmoid: the weights of the chosen experts are divided by their sum; default true */
    double scale;   /* multiplies the weights, as the last step; default 1 */
    /* sparsemixer: an expert counts for the weight of a chosen one if its logit s is at most margin·max(|s|, c) below
     * c, the logit of the chosen one; default 0.02 */
    double margin;
    /* an expert reads x times its weight, and its output is added as it is: y = Σ expert(weight·x); default false */
    bool scale_inputs;
    bool bias; /* the router has a bias; default false */
    /* the experts have no biases, whatever ffn.bias says, which is then that of the shared feed-forward alone (ERNIE
     * 4.5); default false */
    bool unbiased;
    /* each expert has a number that is added to the scores that choose experts, but not to the weights; default
     * false */
    bool correction;
    /* The change of a correction in one step of training: up for an expert that got fewer rows than the mean, down for
     * one that got more (Wang et al. 2024); default 0.001. */
    double correction_rate;
    /* the experts form `groups` groups of neighbours, default 1; a row chooses only from the top_groups best, default
     * all */
    int groups, top_groups;
    enum qkv_group_score group_score; /* default top2 for sigmoid, else max */
    int shared;                       /* width of one more feed-forward, which all rows use; default 0: none */
    bool shared_gate; /* the shared feed-forward is multiplied by sigmoid(x·w) (Qwen2-MoE); default false */
    /* Losses that add to the gradients but not to the reported loss. Each layer with experts adds the mean over the
     * sequences of the batch (loss_sequences of struct qkv_batch) of two losses of a sequence with T positions within
     * its length:
     *   balance_loss · count/(top_k·T) · Σ_e n_e·p_e (Fedus et al. 2021, here per sequence); default 0.01, with a
     *             correction 0. n_e is how many of the T·top_k choices are expert e; it has no gradient. p_e is the
     *             mean over the positions of the probability of e: softmax over all logits, or with sigmoid the
     *             sigmoids divided by their sum, whichever experts are chosen.
     *   z_loss · mean of (log Σ exp(logits))² over the positions (Zoph et al. 2022); default 0 */
    double balance_loss, z_loss;
};
struct qkv_ffn_spec {
    enum qkv_ffn_kind kind; /* default gelu */
    int d_ff;               /* default qkv_ffn_width: 4·d_model, for gated kinds 2/3 of it */
    bool bias;              /* default true */
    double dropout;         /* dropout of the d_ff activations, before the last matrix; default 0 */
    double limit;           /* swiglu_clamped: the gate is at most limit, and |up| is at most limit; default 7 */
    /* default none; with experts, kind, d_ff, bias and limit are those of each expert */
    struct qkv_experts_spec experts;
};
/* A kind of layer. */
struct qkv_layer_spec {
    char name[QKV_KIND_NAME]; /* letters, digits, _ and -; "" if it is the only kind of its stack */
    struct qkv_attention_spec attention;
    /* The cross attention of a decoder with an encoder. It has no causal, window, latent and position. A key that JSON
     * leaves out has the value of `attention`, also for qk_norm, bias, scale, softcap, clip and sinks; kv_heads,
     * head_dim and value_dim are taken over only if both have the same number of heads, else their defaults follow from
     * cross.heads. */
    struct qkv_attention_spec cross;
    struct qkv_norm_spec norm;
    struct qkv_ffn_spec ffn;
    /* multiplies the output of each sublayer before it is added to the residual stream (Granite); any number except 0,
     * default 1 */
    double residual_scale;
    /* In a decoder with an encoder: the layer has cross attention and a feed-forward, but no self attention; default
     * false. `attention` then only gives the values that `cross` takes over, and has no position. */
    bool cross_only;
    /* dropout of the output of each sublayer, before it is added to the residual stream; default 0 (null in JSON): the
     * spec's dropout; negative (0 in JSON): none */
    double residual_dropout;
};
/* The input of a stack. Inputs other than tokens have no token embedding and no embed.scale. */
struct qkv_input_spec {
    enum qkv_input_kind kind; /* default tokens */
    int channels;             /* patches: default 3; frames: default 80; vectors: their width, must be given */
    /* patches, must be given: an image has height × width pixels, and patch divides both. A sequence is the patches
     * from left to right, row by row from the top. */
    int height, width, patch;
    bool class_token; /* patches: a learned vector comes before the patches; default true */
    /* frames: two convolutions, channels → d_model and d_model → d_model, each with `kernel` (odd, default 3), padding
     * kernel/2 and GELU; the second one has `stride` (default 2). */
    int kernel, stride;
    bool bias; /* vectors: the projection has a bias, default true */
};
/* Masks in the embedding (ESM-2; Lin et al. 2022): embeddings of the token are 0, and those of the other tokens of a
 * sequence of n tokens, m of which are masks, are multiplied by (1 − share)·n/(n − m). Each document that is packed
 * into a row is a sequence; padding is not counted. Vectors in place of embeddings are left as they are. */
struct qkv_masked_spec {
    bool given;   /* false (null in JSON): masks are tokens like others */
    int token;    /* must be given */
    double share; /* the share of masks in training; default 0.12 */
};
/* The embedding: from ids to the first layer of a stack. */
struct qkv_embed_spec {
    struct qkv_input_spec input;
    struct qkv_embed_position_spec position;
    /* multiplies the token embedding before a position is added; default √d_model with sinusoidal, else 1 */
    double scale;
    int types; /* number of token types (segments), each a learned vector that is added; default 0: none */
    int width; /* width of the token embedding, which is then projected to d_model; default 0: d_model, no projection */
    bool bias; /* the projection has a bias; default true */
    enum qkv_project project;  /* the place of the projection, default end */
    struct qkv_norm_spec norm; /* applied after token, position and type are added, before dropout; default none */
    /* with a norm: it is that of the token embedding, and position and type are added after it; default false */
    bool norm_tokens;
    struct qkv_masked_spec masked; /* of the token embedding; no attention is causal then; default none */
    /* dropout of the embedding; default 0 (null in JSON): the spec's dropout; negative (0 in JSON): none */
    double dropout;
};
struct qkv_stack_spec {
    int layers; /* 0: the spec has no such stack (null in JSON) */
    /* G > 0: the layers form G groups, and layer N has the weights of the first layer of group ⌊N·G/layers⌋ (ALBERT);
     * default 0: each layer has its own weights */
    int share;
    /* width of this stack, if the spec has both; default 0: the spec's d_model (qkv_stack_width) */
    int d_model;
    /* Kinds of layers, and the kind of each layer; every kind has a layer. Both lists are in one block, which
     * qkv_stack_resize makes and qkv_spec_free frees; NULL if the spec has no such stack. */
    int kind_count;               /* default 1 */
    struct qkv_layer_spec *kinds; /* [kind_count] */
    uint8_t *kind_of;             /* [layers], default 0 */
    /* In JSON the values that both stacks share are at the top, and a stack has only those that differ. */
    struct qkv_embed_spec embed;
};
/* The distribution of new weights. */
struct qkv_init_spec {
    enum qkv_init_kind kind; /* default gpt2 */
    /* standard deviation: gpt2: of matrices, default 0.02; torch: of embeddings, default 1. 0 (null in JSON): that
     * default */
    double std;
};
/* The activation of the head's transform: none, or that of a feed-forward without a gate. */
#define QKV_SPEC_ENUM_TRANSFORM(name, text, help, activation, gated) QKV_TRANSFORM_##name,
enum qkv_transform_activation { QKV_TRANSFORM_NONE, QKV_FFN_LIST(QKV_SPEC_ENUM_TRANSFORM) };
#undef QKV_SPEC_ENUM_TRANSFORM
/* A transform between hidden states and scores: norm(activation(x·Wᵀ + b)). A classifier applies it to the pooled
 * states (BERT's pooler). */
struct qkv_head_transform_spec {
    bool given; /* false (null in JSON): none */
    /* Width of the output. Default: the spec's d_model, also if the stack that the head reads has its own. With a tied
     * head it must be the width of the embedding. */
    int width;
    enum qkv_transform_activation activation; /* default none */
    bool bias;                                /* default true */
    struct qkv_norm_spec norm;                /* default none */
    /* a classifier applies it to the states of each position, and pools the results (EuroBERT); default false: to the
     * pooled states */
    bool each_position;
};
struct qkv_spec {
    int vocab;        /* tokens of the decoder, or of the encoder if it is the only stack */
    int source_vocab; /* tokens of the encoder, in a spec with both stacks; default vocab */
    int d_model;
    int context; /* largest number of positions of a sequence */
    /* positions of the encoder, in a spec with both stacks, if its input is not tokens; default 0: context
     * (qkv_stack_context) */
    int source_context;
    enum qkv_tie tie; /* default head for lm, else none */
    /* dropout of embeddings, attention weights and sublayer outputs that have none of their own; default 0 */
    double dropout;
    struct {
        enum qkv_head_kind kind; /* default lm */
        int classes;             /* classify, classify_tokens */
        enum qkv_pool pool;      /* classify: default first */
        bool bias;               /* default false for lm, else true */
        struct qkv_head_transform_spec transform;
        double scale;   /* multiplies the scores, biases included; default 1 */
        double softcap; /* c >= 2.94e-39: a scaled score s becomes c·tanh(s/c); default 0: off */
    } head;
    struct qkv_init_spec init;
    struct qkv_stack_spec encoder, decoder;
    /* A prefix-LM (Dong et al. 2019, Raffel et al. 2020), for a causal decoder without an encoder, with an lm head: the
     * positions of the prompt, which is the first input of an empty sequence, attend to each other in both directions;
     * default false. */
    bool prefix;
};

/* The calls that fill a spec (qkv_spec_parse, _read, _preset, _vary, _copy) overwrite it and allocate its kinds of
 * layers; the caller frees them with qkv_spec_free. After a failure the spec is all zeros. A copy by assignment shares
 * the kinds with the original: only one of the two is freed, and a change of a kind changes both. */
/* Frees the kinds of layers of a spec and sets it to zeros. A spec of zeros, and NULL, are allowed. Any thread. */
QKV_API void qkv_spec_free(struct qkv_spec *spec);
/* Copies a spec with its kinds of layers; *out, another struct, is overwritten. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_spec_copy(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_spec *out);
/* Gives a stack so many layers and kinds of layers. Kinds and layers that it had stay; new kinds are zeros, and new
 * layers are of kind 0. A stack of zeros is allowed. Fails with QKV_ARGUMENT, QKV_MEMORY; the stack then stays. */
QKV_API enum qkv_status qkv_stack_resize(struct qkv_context *ctx, struct qkv_stack_spec *stack, int layers,
                                         int kind_count);

/* The width of a stack: its own d_model, or the spec's. qkv_spec_width gives the width of the hidden states that the
 * head reads, or that are the output without a head: that of the decoder, or of the encoder if it is the only stack.
 * Any thread. */
QKV_API int qkv_stack_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
QKV_API int qkv_spec_width(const struct qkv_spec *spec);
/* The largest number of positions of a sequence of a stack. Any thread. */
QKV_API int qkv_stack_context(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
/* The widths in the embedding of a stack: qkv_token_width of tokens; qkv_position_width of positions, types and norm.
 * Any thread. */
QKV_API int qkv_token_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
QKV_API int qkv_position_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
/* The spec of the kind of a layer. `layer` must be less than stack->layers. Never fails; owned by the stack. */
QKV_API const struct qkv_layer_spec *qkv_stack_layer(const struct qkv_stack_spec *stack, size_t layer);
/* The layer that has the weights of a layer: the layer itself, or the first one of its group (share). `layer` must be
 * less than stack->layers. Never fails. */
QKV_API size_t qkv_stack_weights_of(const struct qkv_stack_spec *stack, size_t layer);
/* The layer whose keys and values a layer reads (Brandon et al. 2024, "Reducing transformer key-value cache size with
 * cross-layer attention"): the layer itself, if attention.share is 0. With share n it is the n-th layer before it, or,
 * if that one shares too, the layer that that one reads. Only layers of the stack count whose keys and values, mask and
 * position are alike: they have the same form of attention and the same kv_heads, head_dim, value_dim, qk_norm and
 * clip, or, with latents, latent.rank, rope_dim and eps; and the same causal, windows and position. A layer reads keys
 * after norm, clip and rotation; with latents it reads the latent and the rotated channels, and has k_b and v_b of its
 * own. `layer` must be less than stack->layers of a valid spec. Never fails. Any thread. */
QKV_API size_t qkv_stack_keys_of(const struct qkv_stack_spec *stack, size_t layer);
/* Whether some dropout of the spec or of its parts is greater than 0. Any thread. */
QKV_API bool qkv_spec_drops(const struct qkv_spec *spec);
/* The number of positions of an image, class token included, for a stack that reads patches; 0 for other stacks. Any
 * thread. */
QKV_API size_t qkv_stack_patches(const struct qkv_stack_spec *stack);
/* Whether a stack of the spec, or its head, has a vocabulary. Any thread. */
QKV_API bool qkv_spec_has_tokens(const struct qkv_spec *spec);
/* The first kind of layer whose self attention has this value of causal; NULL if there is none. Owned by the stack. */
QKV_API const struct qkv_layer_spec *qkv_stack_find_causal(const struct qkv_stack_spec *stack, bool causal);

/* Reads a spec from JSON text, after changing it by `settings` such as "decoder.attention.kv_heads=2",
 * "position.kind=rope", "encoder=null". Errors have a sentence that names the key: an unknown key or an impossible
 * value is QKV_SPEC, a text that is no JSON object QKV_FORMAT, a setting that is not KEY=VALUE QKV_ARGUMENT. A setting
 * without effect fails too: QKV_SPEC if its key means nothing in this spec, such as position.theta without rope;
 * QKV_ARGUMENT if a later setting replaces it. `name` appears in messages ("my.json"). Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_parse(struct qkv_context *ctx, struct qkv_spec *spec, const char *name,
                                       const char *json, size_t size, const char *const *settings,
                                       size_t setting_count);
/* Reads a spec from a file, as qkv_spec_parse does; messages name the file. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_read(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                      const char *const *settings, size_t setting_count);
/* Gives the spec of a preset, changed by settings as in qkv_spec_parse. vocab is 0, to be set from a tokenizer, unless
 * the preset has a vocabulary of its own. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_preset(struct qkv_context *ctx, struct qkv_spec *spec, const char *name,
                                        const char *const *settings, size_t setting_count);
/* Checks settings without a spec: each is KEY=VALUE, its key exists, its value has the type and range of the key, and
 * no later setting replaces it. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_check_settings(struct qkv_context *ctx, const char *const *settings,
                                                size_t setting_count);
/* Settings that several specs share. A setting without effect in one of them is then reported and not an error. */
struct qkv_settings {
    const char *const *items;
    size_t count;
    bool *idle; /* [count], written: true for a setting that had no effect; NULL: such a setting is an error */
};
QKV_API struct qkv_settings qkv_settings_defaults(void); /* none */
/* Makes a spec from the file at `path`, or if that is NULL from a preset, and changes it by settings. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_vary(struct qkv_context *ctx, struct qkv_spec *spec, const char *preset,
                                      const char *path, const struct qkv_settings *settings);
/* Writes a spec as JSON, with every value. *json is the caller's, freed with qkv_free. Reading it gives the same spec.
 * Fails with QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_print(struct qkv_context *ctx, const struct qkv_spec *spec, char **json);
/* The name of the i-th key at the top of a spec that a setting may change, "d_model"; NULL past the last. Any
 * thread. */
QKV_API const char *qkv_spec_key_at(size_t i);
/* Checks a spec that was filled in by hand. Fails with QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_check(struct qkv_context *ctx, const struct qkv_spec *spec);
enum qkv_topology { QKV_ENCODER_ALONE, QKV_DECODER_ALONE, QKV_ENCODER_DECODER };
/* The stacks that a spec has. Any thread. */
QKV_API enum qkv_topology qkv_spec_topology(const struct qkv_spec *spec);
/* Gives the name and a one-line description of the i-th preset; false past the last. Any thread. */
QKV_API bool qkv_preset_at(size_t i, const char **name, const char **summary);
/* The training options of a preset that differ from the defaults: "steps=2000", …, NULL at the end; NULL: there is no
 * such preset. Any thread. */
QKV_API const char *const *qkv_preset_recipe(const char *name);

#ifdef __cplusplus
}
#endif

#endif
