/* qkv/kinds.h: the kinds of the parts of a transformer, a list for each part; a part of qkv.h, which includes it.
 * Experimental: lists grow. The names in JSON are stable. */
#ifndef QKV_PUBLIC_KINDS_H
#define QKV_PUBLIC_KINDS_H

/* X(name, text, help, file). The kinds of positions: added to the embedding (embed.position, in
 * src/model/position_{file}.c), or a part of attention (attention.position, in src/attention/position_{file}.c). */
#define QKV_EMBED_POSITION_LIST(X)                                                                                     \
    X(SINUSOIDAL, "sinusoidal", "fixed sines and cosines added to the embedding (Vaswani et al. 2017)", sinusoidal)    \
    X(LEARNED, "learned", "a learned vector for each position added to the embedding", learned)
#define QKV_ATTENTION_POSITION_LIST(X)                                                                                 \
    X(ROPE, "rope", "queries and keys rotated by their position (Su et al. 2021)", rope)                               \
    X(ALIBI, "alibi", "a penalty linear in the distance added to the scores (Press et al. 2022)", alibi)               \
    X(BUCKETS, "buckets", "a learned bias for each bucket of distances added to the scores (T5; Raffel et al. 2020)",  \
      buckets)                                                                                                         \
    X(RELATIVE, "relative", "a learned bias for each distance added to the scores; far distances share the last one",  \
      relative)
#define QKV_POSITION_LIST(X)                                                                                           \
    X(NONE, "none", "no position at all", none)                                                                        \
    QKV_EMBED_POSITION_LIST(X)                                                                                         \
    QKV_ATTENTION_POSITION_LIST(X)
/* The layouts of sinusoids of C channels: the places of sines and cosines, and the spacing of angles. The list grows
 * at its end. */
#define QKV_SINUSOID_LIST(X)                                                                                           \
    X(INTERLEAVED, "interleaved",                                                                                      \
      "channel 2j is the sine, channel 2j + 1 the cosine of t / 10000^(2j/C) (Vaswani et al. 2017)")                   \
    X(HALVES, "halves", "all sines, then all cosines of t / 10000^(2j/C) (Marian)")                                    \
    X(SPACED, "spaced", "all sines, then all cosines of t / 10000^(j/(C/2 - 1)) (M2M100, Whisper)")
/* The list grows at its end. */
#define QKV_PROJECT_LIST(X)                                                                                            \
    X(END, "end", "at the end, after norm and dropout: the whole embedding is narrow (ALBERT, ELECTRA)")               \
    X(TOKEN, "token", "before a position is added: only the token embedding is narrow (OPT-350m)")
/* X(name, text, help): the inputs of a stack. The list grows at its end. */
#define QKV_INPUT_LIST(X)                                                                                              \
    X(TOKENS, "tokens", "ids of tokens, each a row of an embedding")                                                   \
    X(PATCHES, "patches", "images that are cut into patches (ViT; Dosovitskiy et al. 2021)")                           \
    X(FRAMES, "frames", "frames of sound, read by two convolutions with GELU (Whisper; Radford et al. 2022)")          \
    X(VECTORS, "vectors", "vectors of any width, which are projected to d_model")
/* The slopes of alibi; learned slopes start from them. The list grows at its end. */
#define QKV_ALIBI_LIST(X)                                                                                              \
    X(PRESS, "press",                                                                                                  \
      "2^(-8k/n) for the first n heads, n being a power of two; then slopes between these (Press et al. 2022, BLOOM)") \
    X(MPT, "mpt",                                                                                                      \
      "2^(-max*k/n), n being the next power of two; with fewer than n heads, every second slope first (MPT)")          \
    X(FALCON, "falcon", "those of press, rounded to bf16 and divided by sqrt(head_dim) (Falcon)")
/* The list grows at its end. */
#define QKV_PAIRING_LIST(X)                                                                                            \
    X(HALF, "half", "channels i and i + d/2 of the d rotated channels (GPT-NeoX, Llama)")                              \
    X(INTERLEAVED, "interleaved", "channels 2i and 2i + 1 (Su et al. 2021, GPT-J)")
/* X(name, text, help, by_length): the ways to extend a rotation to more positions than it was trained with. by_length:
 * the rotation depends on the length of the sequence. src/attention/position_scaling.c has the formulas. The list
 * grows at its end. */
#define QKV_SCALING_LIST(X)                                                                                            \
    X(LINEAR, "linear", "positions divided by factor (Chen et al. 2023)", false)                                       \
    X(DYNAMIC, "dynamic", "theta grows with the length of a sequence that is longer than original_context", true)      \
    X(NTK, "ntk", "theta becomes theta * factor^(d/(d - 2)), d being the number of rotated channels", false)           \
    X(YARN, "yarn", "angles of long wavelengths are divided by factor, those of short ones stay (Peng et al. 2023)",   \
      false)                                                                                                           \
    X(LLAMA3, "llama3",                                                                                                \
      "long wavelengths are multiplied by factor, short ones stay: see low_freq, high_freq (Llama 3.1)", false)        \
    X(LONGROPE, "longrope",                                                                                            \
      "each angle is divided by a number of its own, in the list short or long (Ding et al. 2024)", true)
/* X(name, text, help, parts): the projections of an attention that have a bias, as letters. The list grows at its end.
 * */
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
/* X(name, text, help, centered, offset). centered: the norm subtracts the mean; only such norms may have a bias.
 * offset: the norm multiplies x by offset + w, and new weights are 1 − offset. The list grows at its end. */
#define QKV_NORM_LIST(X)                                                                                               \
    X(LAYERNORM, "layernorm", "subtracts the mean and divides by the standard deviation (Ba et al. 2016)", true, 0)    \
    X(RMSNORM, "rmsnorm", "divides by the root mean square (Zhang & Sennrich 2019)", false, 0)                         \
    X(RMSNORM_PLUS_ONE, "rmsnorm_plus_one", "rmsnorm times 1 + w, where the weights w start at 0 (Gemma)", false, 1)   \
    X(LAYERNORM_PLUS_ONE, "layernorm_plus_one", "layernorm times 1 + w, where the weights w start at 0 (Nemotron)",    \
      true, 1)
/* The channels that a norm of queries or keys is computed over. The list grows at its end. */
#define QKV_NORM_OVER_LIST(X)                                                                                          \
    X(HEAD, "head", "each head by itself, one weight for all heads (Qwen 3, Gemma 3)")                                 \
    X(HEADS, "heads", "each head by itself, a weight for each head (Cohere)")                                          \
    X(WIDTH, "width", "all heads together (OLMo 2)")
/* X(name, text, help, file, final, norms, whole): the placements of norms around a sublayer f. src/model/block_{file}.c
 * has the formula. final: the default of norm.final. norms: the norms of a sublayer (enum qkv_block_norms). whole: true
 * if the formula is for a whole layer, whose sublayers run in parallel; false if it is for one sublayer after the
 * other. The list grows at its end. */
#define QKV_PLACEMENT_LIST(X)                                                                                          \
    X(PRE, "pre", "x + f(norm(x)) (GPT-2 and later)", pre, true, ONE, false)                                           \
    X(POST, "post", "norm(x + f(x)) (Vaswani et al. 2017, BERT)", post, false, ONE, false)                             \
    X(SANDWICH, "sandwich", "x + norm2(f(norm(x))) (Gemma 2 and 3)", sandwich, true, TWO, false)                       \
    X(OUTPUT, "output", "x + norm(f(x)) (OLMo 2)", output, true, ONE, false)                                           \
    X(PARALLEL, "parallel", "x + the sum of all f(norm(x)), with one norm (GPT-J)", parallel, true, SHARED, true)      \
    X(PARALLEL_TWO, "parallel_two", "x + the sum of all f(norm(x)), each with its own norm (GPT-NeoX)", parallel_two,  \
      true, ONE, true)
/* The norms of a sublayer. ONE: one norm. TWO: one before and one after it. SHARED: the norm of self attention serves
 * all sublayers of the layer. */
enum qkv_block_norms { QKV_BLOCK_NORMS_ONE, QKV_BLOCK_NORMS_TWO, QKV_BLOCK_NORMS_SHARED };
/* X(name, text, help, activation, gated): src/kernel/isa/activation_{activation}.c has the function. gated: the
 * feed-forward computes activation(gate) times up (Shazeer 2020). The list grows at its end. */
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
      "quick_gelu(min(gate, limit)) times (u + 1), u being up clamped to limit (gpt-oss)", swiglu_clamped, true)       \
    X(TANH_GLU, "tanh_glu", "tanh(gate) times up", tangent, true)
/* The scores that a router computes from its logits, one logit for each expert. The list grows at its end. */
#define QKV_EXPERT_SCORES_LIST(X)                                                                                      \
    X(SOFTMAX, "softmax", "softmax over all experts; the best are chosen (Mixtral, Qwen, OLMoE)")                      \
    X(CHOSEN, "chosen", "the largest logits are chosen; softmax over these (Granite, gpt-oss)")                        \
    X(SIGMOID, "sigmoid", "the sigmoid of each logit (DeepSeek V3)")                                                   \
    X(SPARSEMIXER, "sparsemixer",                                                                                      \
      "the largest logits are chosen one by one; softmax over those that are left and near each (PhiMoE)")
/* The score of a group of experts. The list grows at its end. */
#define QKV_GROUP_SCORE_LIST(X)                                                                                        \
    X(MAX, "max", "the score of its best expert (DeepSeek V2)")                                                        \
    X(TOP2, "top2", "the sum of the scores of its two best experts (DeepSeek V3)")
/* The list grows at its end. */
#define QKV_TIE_LIST(X)                                                                                                \
    X(NONE, "none", "the head has weights of its own")                                                                 \
    X(HEAD, "head", "the head uses the token embedding")                                                               \
    X(ALL, "all", "the head and both stacks share one token embedding")                                                \
    X(STACKS, "stacks", "both stacks share one token embedding, the head has weights of its own")
/* The list grows at its end. */
#define QKV_HEAD_LIST(X)                                                                                               \
    X(LM, "lm", "a score for each token of the vocabulary at every position")                                          \
    X(CLASSIFY, "classify", "a score for each class, from pooled hidden states")                                       \
    X(NONE, "none", "the hidden states themselves")                                                                    \
    X(CLASSIFY_TOKENS, "classify_tokens", "a score for each class at every position")
/* The list grows at its end. */
#define QKV_POOL_LIST(X)                                                                                               \
    X(FIRST, "first", "the first position")                                                                            \
    X(MEAN, "mean", "the mean over all positions, padding excluded")                                                   \
    X(LAST, "last", "the last position that is not padding")

/* The distributions of new weights. Norm weights start at one, their biases at zero. The list grows at its end. */
#define QKV_INIT_LIST(X)                                                                                               \
    X(GPT2, "gpt2",                                                                                                    \
      "matrices normal with deviation std, smaller by 1/sqrt(branches) where a residual branch ends; biases 0")        \
    X(TORCH, "torch",                                                                                                  \
      "matrices and biases uniform within 1/sqrt(inputs) (PyTorch's Linear); embeddings normal with deviation std")    \
    X(XAVIER, "xavier", "matrices uniform within sqrt(6/(inputs + outputs)) (Glorot & Bengio 2010); biases 0")

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
/* QKV_POOL_MAX is the largest number of each channel; only qkv_embed has it, no head does. */
enum qkv_pool { QKV_POOL_LIST(QKV_SPEC_ENUM_POOL) QKV_POOL_MAX };
enum qkv_init_kind { QKV_INIT_LIST(QKV_SPEC_ENUM_INIT) };

#endif
