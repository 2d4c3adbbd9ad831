/* qkv/spec.h: specs: a transformer as data; a part of qkv.h, which includes it. Experimental: the
 * structs grow with the kinds of layers; the JSON, and names of presets and settings, are stable.
 *
 * One to one with config.json (format "qkv", version 2; version 1 is read for ever). Numbers not given take the defaults written here. */
#ifndef QKV_PUBLIC_SPEC_H
#define QKV_PUBLIC_SPEC_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text, help, file). Kinds of positions: added to the embedding (embed.position; src/model/position_{file}.c has the
 * function), or a part of attention itself (attention.position; src/attention/position_{file}.c). */
#define QKV_EMBED_POSITION_LIST(X)                                                                                     \
    X(SINUSOIDAL, "sinusoidal", "fixed sines and cosines added to the embedding (Vaswani et al. 2017)", sinusoidal)    \
    X(LEARNED, "learned", "a learned vector for each position added to the embedding", learned)
#define QKV_ATTENTION_POSITION_LIST(X)                                                                                 \
    X(ROPE, "rope", "queries and keys rotated by their position (Su et al. 2021)", rope)                               \
    X(ALIBI, "alibi", "a penalty linear in the distance added to the scores (Press et al. 2022)", alibi)               \
    X(BUCKETS, "buckets", "a learned bias for each bucket of distances added to the scores (T5; Raffel et al. 2020)",  \
      buckets)                                                                                                         \
    X(RELATIVE, "relative", "a learned bias for each distance added to the scores, far ones share the last", relative)
#define QKV_POSITION_LIST(X)                                                                                           \
    X(NONE, "none", "no position at all", none)                                                                        \
    QKV_EMBED_POSITION_LIST(X)                                                                                         \
    QKV_ATTENTION_POSITION_LIST(X)
/* Sinusoids of C channels: where sines and cosines stand, and how angles are spaced. */
#define QKV_SINUSOID_LIST(X)                                                                                           \
    X(INTERLEAVED, "interleaved", "channel 2j the sine, 2j + 1 the cosine of t / 10000^(2j/C) (Vaswani et al. 2017)")  \
    X(HALVES, "halves", "all sines, then all cosines of t / 10000^(2j/C) (Marian)")                                    \
    X(SPACED, "spaced", "all sines, then all cosines of t / 10000^(j/(C/2 - 1)) (M2M100, Whisper)")
#define QKV_PROJECT_LIST(X)                                                                                            \
    X(END, "end", "the whole embedding is narrow and projected at its end (ALBERT, ELECTRA)")                          \
    X(TOKEN, "token", "only tokens are narrow, and projected before a position is added (OPT-350m)")
/* X(name, text, help): what a stack reads. */
#define QKV_INPUT_LIST(X)                                                                                              \
    X(TOKENS, "tokens", "ids of tokens, each a row of an embedding")                                                   \
    X(PATCHES, "patches", "images cut into patches, behind a class token (ViT, Dosovitskiy et al. 2021)")              \
    X(FRAMES, "frames", "frames through two convolutions with GELU (Whisper, Radford et al. 2022)")                    \
    X(VECTORS, "vectors", "vectors of any width, projected")
/* Which slopes alibi has, and starts from where it learns them. */
#define QKV_ALIBI_LIST(X)                                                                                              \
    X(PRESS, "press", "of a power of two of heads, then those between them (the paper, BLOOM)")                        \
    X(MPT, "mpt", "2^(-max*k/H) of the next power of two, every second one first (MPT)")                               \
    X(FALCON, "falcon", "the paper's as bf16 has them, times 1/sqrt(head_dim) (Falcon)")
#define QKV_PAIRING_LIST(X)                                                                                            \
    X(HALF, "half", "channel i turns with i + half of the rotated ones (GPT-NeoX, Llama)")                             \
    X(INTERLEAVED, "interleaved", "channel 2i turns with 2i + 1 (GPT-J, the paper)")
/* X(name, text, help, by_length): how a rotation is stretched over more positions than it was learnt with; by_length: it depends on the
 * length that a sequence is decided for. src/attention/position_scaling.c has the formulas. */
#define QKV_SCALING_LIST(X)                                                                                            \
    X(LINEAR, "linear", "positions divided by factor (Chen et al. 2023)", false)                                       \
    X(DYNAMIC, "dynamic", "a base that grows with the length of a sequence beyond original_context", true)             \
    X(NTK, "ntk", "a base that is larger: theta * factor^(d/(d - 2))", false)                                          \
    X(YARN, "yarn", "long wavelengths divided by factor, short ones kept, a ramp between (Peng et al. 2023)", false)   \
    X(LLAMA3, "llama3", "the same by wavelengths of original_context (Llama 3.1)", false)                              \
    X(LONGROPE, "longrope", "a factor for each pair: other ones beyond original_context (Ding et al. 2024)", true)
/* X(name, text, help, parts): the projections of an attention that have a bias, by their letters. */
#define QKV_BIAS_LIST(X)                                                                                               \
    X(NONE, "false", "no biases", "")                                                                                  \
    X(ALL, "true", "biases on q, k, v and the output projection", "qkvo")                                              \
    X(QKV, "qkv", "biases on q, k, v only", "qkv")                                                                     \
    X(O, "o", "a bias on the output projection only", "o")                                                             \
    X(Q, "q", "a bias on q only", "q")                                                                                 \
    X(K, "k", "a bias on k only", "k")                                                                                 \
    X(V, "v", "a bias on v only", "v")                                                                                 \
    X(QK, "qk", "biases on q and k only", "qk")                                                                        \
    X(QV, "qv", "biases on q and v only", "qv")                                                                        \
    X(QO, "qo", "biases on q and the output projection only", "qo")                                                    \
    X(KV, "kv", "biases on k and v only", "kv")                                                                        \
    X(KO, "ko", "biases on k and the output projection only", "ko")                                                    \
    X(VO, "vo", "biases on v and the output projection only", "vo")                                                    \
    X(QKO, "qko", "biases on q, k and the output projection only", "qko")                                              \
    X(QVO, "qvo", "biases on q, v and the output projection only", "qvo")                                              \
    X(KVO, "kvo", "biases on k, v and the output projection only", "kvo")
/* X(name, text, help, centered, offset): whether the mean is taken off, which biases go with; and what the weight is counted from:
 * x is multiplied by offset + w, and new weights are 1 − offset. */
#define QKV_NORM_LIST(X)                                                                                               \
    X(LAYERNORM, "layernorm", "mean and variance (Ba et al. 2016)", true, 0)                                           \
    X(RMSNORM, "rmsnorm", "root mean square only (Zhang & Sennrich 2019)", false, 0)                                   \
    X(RMSNORM_PLUS_ONE, "rmsnorm_plus_one", "the same times 1 + w, whose weights start at 0 (Gemma)", false, 1)
/* What a norm of queries or keys takes together. */
#define QKV_NORM_OVER_LIST(X)                                                                                          \
    X(HEAD, "head", "each head by itself, one weight for all heads (Qwen 3, Gemma 3)")                                 \
    X(HEADS, "heads", "each head by itself, a weight for each head (Cohere)")                                          \
    X(WIDTH, "width", "all heads together (OLMo 2)")
/* X(name, text, help, file, final, norms, whole): how norms stand around sublayers f: src/model/block_{file}.c has the formula. final:
 * whether a norm after the last layer is the default. norms: what a sublayer has, enum qkv_block_norms. whole: the formula is that of
 * a whole layer, whose sublayers stand side by side; else of one sublayer after the other. */
#define QKV_PLACEMENT_LIST(X)                                                                                          \
    X(PRE, "pre", "x + f(norm(x)) (GPT-2 and later)", pre, true, ONE, false)                                           \
    X(POST, "post", "norm(x + f(x)) (Vaswani et al. 2017, BERT)", post, false, ONE, false)                             \
    X(SANDWICH, "sandwich", "x + norm2(f(norm(x))) (Gemma 2 and 3)", sandwich, true, TWO, false)                       \
    X(OUTPUT, "output", "x + norm(f(x)) (OLMo 2)", output, true, ONE, false)                                           \
    X(PARALLEL, "parallel", "x + the sum of all f(norm(x)), with one norm (GPT-J)", parallel, true, SHARED, true)      \
    X(PARALLEL_TWO, "parallel_two", "x + the sum of all f(norm(x)), each with its own norm (GPT-NeoX)", parallel_two,  \
      true, ONE, true)
/* The norms of a sublayer: one; one before and one behind it; that of self attention, for all of a layer. */
enum qkv_block_norms { QKV_BLOCK_NORMS_ONE, QKV_BLOCK_NORMS_TWO, QKV_BLOCK_NORMS_SHARED };
/* X(name, text, help, activation, gated): src/kernel/isa/activation_{activation}.c has the function. Gated: activation(gate) times
 * up (Shazeer 2020). */
#define QKV_FFN_LIST(X)                                                                                                \
    X(RELU, "relu", "max(x, 0)", relu, false)                                                                          \
    X(GELU, "gelu", "x times the normal distribution function (BERT)", gelu, false)                                    \
    X(GELU_TANH, "gelu_tanh", "the tanh approximation of GELU (GPT-2)", gelu_tanh, false)                              \
    X(SILU, "silu", "x times sigmoid(x)", silu, false)                                                                 \
    X(TANH, "tanh", "the hyperbolic tangent (BERT's pooler)", tangent, false)                                          \
    X(SWIGLU, "swiglu", "silu(gate) times up (Llama)", silu, true)                                                     \
    X(GEGLU, "geglu", "gelu(gate) times up", gelu, true)                                                               \
    X(QUICK_GELU, "quick_gelu", "x times sigmoid(1.702 x) (CLIP)", quick_gelu, false)                                  \
    X(RELU2, "relu2", "max(x, 0) squared (So et al. 2021)", relu2, false)                                              \
    X(REGLU, "reglu", "relu(gate) times up", relu, true)                                                               \
    X(RELU2_GLU, "relu2_glu", "relu2(gate) times up", relu2, true)                                                     \
    X(GEGLU_TANH, "geglu_tanh", "gelu_tanh(gate) times up (T5 1.1, Gemma)", gelu_tanh, true)                           \
    X(QUICK_GEGLU, "quick_geglu", "quick_gelu(gate) times up", quick_gelu, true)                                       \
    X(SWIGLU_CLAMPED, "swiglu_clamped",                                                                                \
      "quick_gelu(g) times (u + 1), g being the gate, at most ffn.limit, and u up, within it (gpt-oss)",               \
      swiglu_clamped, true)                                                                                            \
    X(TANH_GLU, "tanh_glu", "tanh(gate) times up", tangent, true)
/* What a router makes of its logits, one for each expert. */
#define QKV_EXPERT_SCORES_LIST(X)                                                                                      \
    X(SOFTMAX, "softmax", "softmax over all experts; the best are chosen (Mixtral, Qwen, OLMoE)")                      \
    X(CHOSEN, "chosen", "the largest logits are chosen; softmax over these (Granite, gpt-oss)")                        \
    X(SIGMOID, "sigmoid", "each by itself (DeepSeek V3)")
/* The score of a group of experts. */
#define QKV_GROUP_SCORE_LIST(X)                                                                                        \
    X(MAX, "max", "that of its best expert (DeepSeek V2)")                                                             \
    X(TOP2, "top2", "the sum of those of its two best (DeepSeek V3)")
#define QKV_TIE_LIST(X)                                                                                                \
    X(NONE, "none", "the head has weights of its own")                                                                 \
    X(HEAD, "head", "the head uses the token embedding")                                                               \
    X(ALL, "all", "the head and both stacks share one token embedding")                                                \
    X(STACKS, "stacks", "both stacks share one token embedding, the head has weights of its own")
#define QKV_HEAD_LIST(X)                                                                                               \
    X(LM, "lm", "a score for each token of the vocabulary at every position")                                          \
    X(CLASSIFY, "classify", "a score for each class, from pooled hidden states")                                       \
    X(NONE, "none", "the hidden states themselves")                                                                    \
    X(CLASSIFY_TOKENS, "classify_tokens", "a score for each class at every position")
#define QKV_POOL_LIST(X)                                                                                               \
    X(FIRST, "first", "the first position")                                                                            \
    X(MEAN, "mean", "the mean over the positions before the row's length")                                             \
    X(LAST, "last", "the last position before the row's length")

/* What new weights are drawn as. Norms start at one, their biases at zero. */
#define QKV_INIT_LIST(X)                                                                                               \
    X(GPT2, "gpt2",                                                                                                    \
      "matrices normal with deviation std, those that end a residual branch smaller by 1/sqrt(branches); no biases")   \
    X(TORCH, "torch", "uniform within 1/sqrt(inputs), biases too (PyTorch's Linear); embeddings normal with std")      \
    X(XAVIER, "xavier", "matrices uniform within sqrt(6/(inputs + outputs)) (Glorot & Bengio 2010); no biases")

#define QKV_SPEC_ENUM_INIT(name, text, help)                                 QKV_INIT_##name,
#define QKV_SPEC_ENUM_POSITION(name, text, help, file)                       QKV_POSITION_##name,
#define QKV_SPEC_ENUM_SINUSOID(name, text, help)                             QKV_SINUSOID_##name,
#define QKV_SPEC_ENUM_PROJECT(name, text, help)                              QKV_PROJECT_##name,
#define QKV_SPEC_ENUM_INPUT(name, text, help)                                QKV_INPUT_##name,
#define QKV_SPEC_ENUM_ALIBI(name, text, help)                                QKV_ALIBI_##name,
#define QKV_SPEC_ENUM_PAIRING(name, text, help)                              QKV_PAIRING_##name,
#define QKV_SPEC_ENUM_SCALING(name, text, help, by_length)                   QKV_SCALING_##name,
#define QKV_SPEC_ENUM_BIAS(name, text, help, parts)                          QKV_BIAS_##name,
#define QKV_SPEC_ENUM_NORM(name, text, help, centered, offset)               QKV_NORM_##name,
#define QKV_SPEC_ENUM_NORM_OVER(name, text, help)                            QKV_NORM_OVER_##name,
#define QKV_SPEC_ENUM_PLACEMENT(name, text, help, file, final, norms, whole) QKV_PLACEMENT_##name,
#define QKV_SPEC_ENUM_FFN(name, text, help, activation, gated)               QKV_FFN_##name,
#define QKV_SPEC_ENUM_EXPERT_SCORES(name, text, help)                        QKV_EXPERT_SCORES_##name,
#define QKV_SPEC_ENUM_GROUP_SCORE(name, text, help)                          QKV_GROUP_SCORE_##name,
#define QKV_SPEC_ENUM_TIE(name, text, help)                                  QKV_TIE_##name,
#define QKV_SPEC_ENUM_HEAD(name, text, help)                                 QKV_HEAD_##name,
#define QKV_SPEC_ENUM_POOL(name, text, help)                                 QKV_POOL_##name,
enum qkv_position_kind { QKV_POSITION_LIST(QKV_SPEC_ENUM_POSITION) };
enum qkv_sinusoid { QKV_SINUSOID_LIST(QKV_SPEC_ENUM_SINUSOID) };
enum qkv_project { QKV_PROJECT_LIST(QKV_SPEC_ENUM_PROJECT) };
enum qkv_input_kind { QKV_INPUT_LIST(QKV_SPEC_ENUM_INPUT) };
enum qkv_alibi_form { QKV_ALIBI_LIST(QKV_SPEC_ENUM_ALIBI) };
enum qkv_pairing { QKV_PAIRING_LIST(QKV_SPEC_ENUM_PAIRING) };
enum qkv_scaling_kind { QKV_SCALING_LIST(QKV_SPEC_ENUM_SCALING) QKV_SCALING_COUNT };
enum qkv_bias_kind { QKV_BIAS_LIST(QKV_SPEC_ENUM_BIAS) QKV_BIAS_COUNT };
enum qkv_norm_kind { QKV_NORM_LIST(QKV_SPEC_ENUM_NORM) QKV_NORM_COUNT };
enum qkv_norm_over { QKV_NORM_OVER_LIST(QKV_SPEC_ENUM_NORM_OVER) QKV_NORM_OVER_COUNT };
enum qkv_placement { QKV_PLACEMENT_LIST(QKV_SPEC_ENUM_PLACEMENT) QKV_PLACEMENT_COUNT };
enum qkv_ffn_kind { QKV_FFN_LIST(QKV_SPEC_ENUM_FFN) QKV_FFN_COUNT };
enum qkv_expert_scores { QKV_EXPERT_SCORES_LIST(QKV_SPEC_ENUM_EXPERT_SCORES) };
enum qkv_group_score { QKV_GROUP_SCORE_LIST(QKV_SPEC_ENUM_GROUP_SCORE) };
enum qkv_tie { QKV_TIE_LIST(QKV_SPEC_ENUM_TIE) };
enum qkv_head_kind { QKV_HEAD_LIST(QKV_SPEC_ENUM_HEAD) };
/* QKV_POOL_MAX, the largest number of each channel, is none of a head, only of qkv_embed. */
enum qkv_pool { QKV_POOL_LIST(QKV_SPEC_ENUM_POOL) QKV_POOL_MAX };
enum qkv_init_kind { QKV_INIT_LIST(QKV_SPEC_ENUM_INIT) };

/* The most layers of a stack, kinds of layers in it, and bytes of a kind's name with its end. */
enum { QKV_LAYERS_MAX = 1000, QKV_KINDS_MAX = 8, QKV_KIND_NAME = 32 };
/* The most numbers of a list in a spec. */
enum { QKV_LIST_MAX = 128 };

struct qkv_number_list {
    int count; /* 0: none */
    double values[QKV_LIST_MAX];
};
/* Rotations over more positions than they were learnt with. d: the rotated channels, d/2 pairs; f[j] = theta^(−2j/d): what pair j turns
 * by in a position; n: the length that a sequence is decided for (qkv/pass.h, qkv/generate.h). What a kind does not use is ignored.
 *   linear    f[j] / factor
 *   dynamic   n > original_context: the base theta·(factor·n/original_context − (factor − 1))^(d/(d − 2)), else theta
 *   ntk       the base theta·factor^(d/(d − 2))
 *   yarn      f[j]·(ramp(j)/factor + 1 − ramp(j)), ramp(j) = (j − low)/(high − low) within 0 and 1, low and high being
 *             d·ln(original_context/(2π·beta))/(2·ln theta) of beta_fast and beta_slow, rounded down and up with truncate;
 *             then low is at least 0, high at most d − 1, and where they are equal high is 0.001 more
 *   llama3    wavelengths 2π/f[j] above original_context/low_freq: f[j]/factor; below original_context/high_freq: f[j]; between:
 *             from one to the other, linear in original_context/wavelength
 *   longrope  f[j] / long_factors[j] for n > original_context, else f[j] / short_factors[j]
 * Cosines and sines are multiplied by attention_factor: 1, but for yarn m(mscale)/m(mscale_all_dim) where both are given, else
 * m(1), m(k) = 0.1·k·ln factor + 1; and for longrope √(1 + ln factor/ln original_context). */
struct qkv_scaling_spec {
    bool given; /* false (null in JSON): none */
    enum qkv_scaling_kind kind;
    double factor;                 /* at least 1; longrope: 0 (null in JSON): context / original_context */
    int original_context;          /* dynamic, yarn, llama3, longrope */
    double beta_fast, beta_slow;   /* yarn: 32, 1 */
    bool truncate;                 /* yarn: true */
    double mscale, mscale_all_dim; /* yarn: 0, 0 */
    double low_freq, high_freq;    /* llama3: 1, 4 */
    double attention_factor;       /* 0 (null in JSON): the kind's rule */
    struct qkv_number_list short_factors, long_factors; /* longrope: d/2 numbers each; "short" and "long" in JSON */
};
/* A scaling of that kind, given, with these defaults; factor and original_context are 0, to be given. Any thread. */
QKV_API struct qkv_scaling_spec qkv_scaling_defaults(enum qkv_scaling_kind kind);

struct qkv_position_spec {
    enum qkv_position_kind kind;
    double theta;             /* rope: the base of the wavelengths, 10000 */
    enum qkv_pairing pairing; /* rope: half */
    enum qkv_sinusoid layout; /* sinusoidal: interleaved */
    int offset;               /* sinusoidal, learned: position t has row t + offset of the table, 0 */
    /* rope: the first 2·⌊head_dim·fraction/2⌋ channels of a head are rotated; with a latent the first
     * 2·⌊rope_dim·fraction/2⌋ of its last rope_dim ones; 1 */
    double fraction;
    struct qkv_scaling_spec scaling; /* rope: none */
    enum qkv_alibi_form form;        /* alibi: press */
    double max;                      /* alibi, mpt: the exponent of the last slope of a power of two of heads, 8 */
    /* alibi: slopes are weights of the stack, which start from the form's; of form falcon they are divided by √head_dim
     * where they are used, as its fixed ones; false */
    bool learn;
    int buckets;      /* buckets: how many; half of them are of later keys where attention is not causal, 32 */
    int max_distance; /* buckets, relative: from there on all distances share one, 128 */
};
struct qkv_norm_spec {
    bool given;                   /* of a norm that may be left out (null in JSON); those of layers are always there */
    enum qkv_norm_kind kind;      /* layernorm */
    enum qkv_placement placement; /* of layers: pre */
    double eps;                   /* 1e-5 */
    bool final;  /* of layers: a norm after the last one, whose kind decides; false for post, else true */
    bool weight; /* true; false: bare, neither a weight nor a bias */
    bool bias;   /* true for layernorm with a weight; others never have one */
    /* of layers: true; false: self attention has no norm before it, or with post and output behind it */
    bool attention;
};
/* Norms of the queries and of the keys of an attention (Henry et al. 2020), before they are clipped and rotated. */
struct qkv_qk_norm_spec {
    struct qkv_norm_spec norm; /* given false: none; without placement and final */
    enum qkv_norm_over over;   /* head */
};
/* Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1): keys and values are made of a latent c = norm(x·kv_aᵀ), rank
 * wide; a key has besides rope_dim channels that all heads share, made of x. The cache keeps c and these alone, and
 * calls with one fold the projections into q and y: scores agree with those of a pass within rounding, about 2e-6 of
 * their size in fp32 and 1e-2 in bf16 (more where a rounding chooses another expert). */
struct qkv_latent_spec {
    bool given;     /* false (null in JSON): keys and values are made of x */
    int rank;       /* at most d_model; 4·head_dim, at most d_model/2 */
    int query_rank; /* queries are made of a latent of this width too; 0: of x */
    int rope_dim;   /* the last channels of a head, which a rotation turns, less than head_dim; 2·⌊head_dim/4⌋ */
    double eps;     /* of the norms of latents, rmsnorm with a weight; 1e-6 */
};
struct qkv_attention_spec {
    int heads, kv_heads;     /* kv_heads = heads */
    int head_dim, value_dim; /* head_dim = d_model / heads, value_dim = head_dim */
    bool causal;             /* true in a decoder, false in an encoder and in cross attention */
    int window;              /* w > 0: only keys with |i − j| < w; 0: all */
    int window_right; /* v > 0: only keys with j − i < v, and w is of the keys before, i − j < w; 0: as window */
    struct qkv_qk_norm_spec qk_norm; /* none */
    struct qkv_latent_spec latent;   /* none; self attention only, with kv_heads = heads */
    double clip;                     /* c > 0: q, k and v are clamped to ±c before the rotation; 0: off */
    double softcap;                  /* c >= 2.94e-39: a score s becomes c·tanh(s/c) before bias and mask; 0: off */
    /* 0 (null in JSON): 1/sqrt(head_dim); with a latent and a rotation scaled by yarn with mscale_all_dim, times (0.1·mscale_all_dim·ln
     * factor + 1)² */
    double scale;
    enum qkv_bias_kind bias; /* true */
    bool sinks;              /* a learned logit of each head in the denominator of the softmax; false */
    double dropout;          /* on the weights; 0 (null in JSON): the dropout of the spec; negative (0 in JSON): none */
    struct qkv_position_spec position; /* none, rope or alibi: none; cross attention has none */
};
/* Whether a feed-forward has a gate: act(x·gateᵀ) times x·upᵀ (Shazeer 2020). */
QKV_API bool qkv_ffn_gated(enum qkv_ffn_kind kind);
/* The width that a feed-forward has unless its spec says another: 4·d_model, and of gated kinds, which have three matrices where others
 * have two, two thirds of that, rounded up to a multiple of 8, from d_model 1,024 on of 256, as LLaMA does. Any thread. */
QKV_API int qkv_ffn_width(enum qkv_ffn_kind kind, int d_model);
/* Mixture of experts (Shazeer et al. 2017): `count` feed-forwards, each d_ff wide, of which a router chooses top_k for each row:
 * y = Σ weight·expert(x) over those, the best one first, + shared(x). Chosen are the best scores, corrected ones where there is a
 * correction; of equal ones the lower index. No row is ever dropped. */
struct qkv_experts_spec {
    bool given;                    /* false (null in JSON): one feed-forward for all rows */
    int count, top_k;              /* experts, must be given; those that a row goes through, 2 */
    enum qkv_expert_scores scores; /* softmax */
    bool normalize;                /* softmax, sigmoid: the weights of the chosen are divided by their sum; true */
    double scale;                  /* multiplies the weights, last; 1 */
    bool bias;                     /* of the router; false */
    bool correction; /* a number for each expert, added to the scores that choose and to no weight; false */
    double
        correction_rate; /* by which a step of training moves it: up where an expert has had fewer rows than the mean, down
                                   * where more (Wang et al. 2024); 0.001 */
    int groups, top_groups;           /* groups of neighbouring experts, 1; a row chooses in the best ones only: all */
    enum qkv_group_score group_score; /* top2 for sigmoid, else max */
    int shared;       /* the width of a feed-forward beside the experts, which all rows go through; 0: none */
    bool shared_gate; /* it is multiplied by sigmoid(x·w) (Qwen2-MoE); false */
    /* Losses that only gradients know. Each layer with experts adds a mean over the sequences of the batch
     * (loss_sequences of struct qkv_batch) of what one sequence has, T being its positions within its length:
     * balance_loss · experts/(top_k·T) · Σ_e n_e · p_e, n_e being how many of its T·top_k choices are expert e, which
     * has no gradient, and p_e the mean over its positions of the probability of e: softmax over all logits, with
     * sigmoid the sigmoids over their sum, whatever is then chosen (Fedus et al. 2021, per sequence; 0.01, with a
     * correction 0); and z_loss · the mean of (log Σ exp(logits))² (Zoph et al. 2022; 0). */
    double balance_loss, z_loss;
};
struct qkv_ffn_spec {
    enum qkv_ffn_kind kind;          /* gelu */
    int d_ff;                        /* qkv_ffn_width: 4·d_model, of gated kinds 2/3 of it */
    bool bias;                       /* true */
    double dropout;                  /* on what the activation gives, d_ff wide, before the last matrix; 0 */
    double limit;                    /* swiglu_clamped: the most of a gate, and of the size of up; 7 */
    struct qkv_experts_spec experts; /* none; kind, d_ff, bias and limit are then those of each expert */
};
/* A kind of layer. */
struct qkv_layer_spec {
    char name[QKV_KIND_NAME]; /* letters, digits, _ and -; "" where it is the only kind of its stack */
    struct qkv_attention_spec attention;
    /* In a decoder beside an encoder: attention without causal, windows, latent and position. In JSON a key that it
     * does not say is as in `attention`, qk_norm, bias, scale, softcap, clip and sinks too; kv_heads, head_dim and
     * value_dim only where it has as many heads, else they follow from its own. */
    struct qkv_attention_spec cross;
    struct qkv_norm_spec norm;
    struct qkv_ffn_spec ffn;
    /* multiplies what each sublayer adds to the residual stream (Granite), 1; any number but 0 */
    double residual_scale;
    /* in a decoder beside an encoder: no self attention, but cross attention and feed-forward; false. `attention` then
     * says only what `cross` takes over, and has no position */
    bool cross_only;
    /* on what each sublayer adds to the residual stream; 0 (null in JSON): the spec's; negative (0 in JSON): none */
    double residual_dropout;
};
/* What a stack reads; others than tokens have no token embedding, and no scale. */
struct qkv_input_spec {
    enum qkv_input_kind kind; /* tokens */
    int channels;             /* patches: 3; frames: 80; vectors: their width, must be given */
    /* patches, must be given: an image is height × width pixels, and patch divides both. A sequence is the patches, rows of them from
     * the top, each from the left */
    int height, width, patch;
    bool class_token; /* patches: true: a learned vector stands before them */
    /* frames: channels·kernel → d_model and d_model·kernel → d_model, each with GELU, padded by kernel/2, the second leaving every
     * stride-th; an odd kernel: 3; stride 2 */
    int kernel, stride;
    bool bias; /* vectors: of the projection, true */
};
/* Between ids and the first layer of a stack. */
struct qkv_embed_spec {
    struct qkv_input_spec input;
    /* kind is none, sinusoidal or learned; learned where no attention has a position */
    struct qkv_position_spec position;
    double scale; /* multiplies the token embedding before a position is added; √d_model before sinusoids, else 1 */
    int types;    /* of tokens (segments), each a learned vector that is added; 0: none */
    int width;    /* of the token embedding, before a projection to d_model; 0: d_model, without a projection */
    bool bias;    /* of the projection; true */
    enum qkv_project project;  /* what is narrow: end */
    struct qkv_norm_spec norm; /* after token, position and type are added, before dropout; not given: none */
    double dropout; /* on the embedding; 0 (null in JSON): the dropout of the spec; negative (0 in JSON): none */
};
struct qkv_stack_spec {
    int layers;  /* 0: this stack is absent (null in JSON) */
    int share;   /* G > 0: layer N has the weights of the first layer of group N·G/layers (ALBERT); 0: each its own */
    int d_model; /* of a stack beside another, its own width; 0: the spec's (qkv_stack_width) */
    int kind_count; /* 1 */
    struct qkv_layer_spec kinds[QKV_KINDS_MAX];
    uint8_t kind_of[QKV_LAYERS_MAX]; /* [layers]: the kind of each layer, 0; every kind has a layer */
    struct qkv_embed_spec
        embed; /* in JSON what both stacks have in common is at the top, and a stack says what it has of its own */
};
/* What training starts from. */
struct qkv_init_spec {
    enum qkv_init_kind kind; /* gpt2 */
    double std;              /* gpt2: of matrices; torch: of embeddings. 0 (null in JSON): 0.02 for gpt2, 1 for torch */
};
/* What an activation of the head's transform is: one of a feed-forward without a gate. */
#define QKV_SPEC_ENUM_TRANSFORM(name, text, help, activation, gated) QKV_TRANSFORM_##name,
enum qkv_transform_activation { QKV_TRANSFORM_NONE, QKV_FFN_LIST(QKV_SPEC_ENUM_TRANSFORM) };
#undef QKV_SPEC_ENUM_TRANSFORM
/* Between hidden states and scores: norm(activation(x·Wᵀ + b)). For a classifier, of the pooled states (BERT's pooler). */
struct qkv_head_transform_spec {
    bool given;                               /* false (null in JSON): none */
    /* of what it gives; the spec's d_model, also where the stack that the head reads has its own. With a tied head, the
     * embedding's */
    int width;
    enum qkv_transform_activation activation; /* none */
    bool bias;                                /* true */
    struct qkv_norm_spec norm;                /* null */
};
struct qkv_spec {
    int vocab;        /* of the decoder, or of the lone encoder */
    int source_vocab; /* of an encoder beside a decoder; vocab */
    int d_model;
    int context;        /* the most positions of a sequence */
    int source_context; /* of what an encoder beside a decoder reads that are no tokens; 0: context (qkv_stack_context) */
    enum qkv_tie tie;   /* head */
    /* on embeddings, attention weights and the output of every sublayer that have none of their own; 0 */
    double dropout;
    struct {
        enum qkv_head_kind kind; /* lm */
        int classes;             /* classify, classify_tokens */
        enum qkv_pool pool;      /* classify: first */
        bool bias;               /* false for lm, else true */
        struct qkv_head_transform_spec transform;
        double scale;   /* multiplies the scores, biases too; 1 */
        double softcap; /* c >= 2.94e-39: a score s, scaled, becomes c·tanh(s/c); 0: off */
    } head;
    struct qkv_init_spec init;
    struct qkv_stack_spec encoder, decoder;
    /* a decoder alone with an lm head, causal: what an empty sequence gets first, its prompt, sees itself in both
     * directions (prefix-LM; Dong et al. 2019, Raffel et al. 2020); false */
    bool prefix;
};

/* The width of a stack of the spec: its own d_model, or the spec's. That of the whole, which the head reads and which comes out
 * without a head, is the decoder's, or the lone encoder's. Any thread. */
QKV_API int qkv_stack_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
QKV_API int qkv_spec_width(const struct qkv_spec *spec);
/* The most positions of a sequence of a stack. Any thread. */
QKV_API int qkv_stack_context(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
/* Widths in the embedding of a stack: of tokens, and of positions, types and norm. Any thread. */
QKV_API int qkv_token_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
QKV_API int qkv_position_width(const struct qkv_spec *spec, const struct qkv_stack_spec *stack);
/* The spec of a layer of a stack: of its kind. `layer` is less than stack->layers. Never fails; owned by the stack. */
QKV_API const struct qkv_layer_spec *qkv_stack_layer(const struct qkv_stack_spec *stack, size_t layer);
/* The layer whose weights a layer has: itself, or the first one of its group. `layer` is less than stack->layers. Never fails. */
QKV_API size_t qkv_stack_weights_of(const struct qkv_stack_spec *stack, size_t layer);
/* Whether training drops anything: some dropout of the spec or of its parts is above 0. Any thread. */
QKV_API bool qkv_spec_drops(const struct qkv_spec *spec);
/* How many positions an image of a stack that reads patches has, the class token counted; 0 of other stacks. Any thread. */
QKV_API size_t qkv_stack_patches(const struct qkv_stack_spec *stack);
/* Whether some stack of a spec, or its head, has a vocabulary. Any thread. */
QKV_API bool qkv_spec_has_tokens(const struct qkv_spec *spec);
/* The first kind of layer whose self attention is causal, or with false the first one that is not; NULL where there is none.
 * Owned by the stack. */
QKV_API const struct qkv_layer_spec *qkv_stack_find_causal(const struct qkv_stack_spec *stack, bool causal);

/* Reads a spec from JSON text, after replacing what `settings` say: "decoder.attention.kv_heads=2",
 * "position.kind=rope", "encoder=null". Unknown keys and impossible values fail with a sentence that names the key
 * (QKV_SPEC; QKV_FORMAT where the text is no JSON object; QKV_ARGUMENT where a setting is not KEY=VALUE). So does a
 * setting without effect: of a key that means nothing in this spec, as position.theta without rope, or that a later
 * setting replaces. `name` is for messages ("my.json"). Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_parse(struct qkv_context *ctx, struct qkv_spec *spec, const char *name,
                                       const char *json, size_t size, const char *const *settings,
                                       size_t setting_count);
/* The same from a file, whose name is for messages. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT,
 * QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_read(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                      const char *const *settings, size_t setting_count);
/* A named spec. vocab is 0 (to be set from a tokenizer) unless the preset has a vocabulary of its own. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_preset(struct qkv_context *ctx, struct qkv_spec *spec, const char *name,
                                        const char *const *settings, size_t setting_count);
/* Whether settings are KEY=VALUE of keys that exist, with values of their type and range, none replaced by a later
 * one: what can be said without a spec. QKV_ARGUMENT or QKV_SPEC. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_check_settings(struct qkv_context *ctx, const char *const *settings,
                                                size_t setting_count);
/* Settings that several specs share: those without effect in one of them are no failure there, but told. */
struct qkv_settings {
    const char *const *items;
    size_t count;
    bool *idle; /* [count], written: which had no effect (NULL: that is a failure) */
};
QKV_API struct qkv_settings qkv_settings_defaults(void); /* none */
/* A spec from the file at `path`, or with NULL a preset, changed by settings. Statuses as of qkv_spec_read. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FILE, QKV_FORMAT, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_vary(struct qkv_context *ctx, struct qkv_spec *spec, const char *preset,
                                      const char *path, const struct qkv_settings *settings);
/* The JSON of a spec, every value written out; the caller's, freed with qkv_free. Reading it back gives the same spec.
 * Fails with QKV_MEMORY, QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_print(struct qkv_context *ctx, const struct qkv_spec *spec, char **json);
/* The name of the i-th key at the top of a spec that a setting may change, "d_model"; NULL past the last. */
QKV_API const char *qkv_spec_key_at(size_t i);
/* Checks a spec filled in by hand. Fails with QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_check(struct qkv_context *ctx, const struct qkv_spec *spec);
enum qkv_topology { QKV_ENCODER_ALONE, QKV_DECODER_ALONE, QKV_ENCODER_DECODER };
/* Which stacks a spec has. Any thread. */
QKV_API enum qkv_topology qkv_spec_topology(const struct qkv_spec *spec);
/* Name and one-line description of the i-th preset; false past the last. */
QKV_API bool qkv_preset_at(size_t i, const char **name, const char **summary);
/* What a preset trains with where nothing else is said: options of training, "steps=2000", NULL at the end; NULL: there
 * is no such preset. Any thread. */
QKV_API const char *const *qkv_preset_recipe(const char *name);

#ifdef __cplusplus
}
#endif

#endif
