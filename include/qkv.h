/* qkv.h: the whole public interface of libqkv, transformers in C. It is also the manual.
 *
 * A transformer is described by a spec (struct qkv_spec, or JSON), made of weights in a model (struct qkv_model), run forward
 * and backward by passes, trained from a text file by a trainer, and asked to write by sessions. In short:
 *
 *     struct qkv_context *ctx;                       // threads, instruction set, and the sentence of the latest failure
 *     struct qkv_model *model;
 *     if (qkv_context_create(&ctx, NULL) || qkv_model_load(ctx, "run", &model)) { puts(qkv_message(ctx)); … }
 *     struct qkv_generate_options o = {.sampling = qkv_sampling_defaults(), .tokens = 100, .end_id = -1};
 *     qkv_generate(model, "Once", 4, &o, write_text, NULL, NULL);
 *     qkv_model_free(model);
 *     qkv_context_free(ctx);
 *
 * Conventions.
 * - Calls that can fail return enum qkv_status, QKV_OK being 0; qkv_message(ctx) then has a sentence that says what is wrong,
 *   where, and what to do; after a call that succeeded it is empty. The library never prints, exits or aborts. After a
 *   failed create or load the out pointer is
 *   NULL (but see qkv_context_create); free calls take NULL.
 * - Tensors are row-major fp32. Letters: B batch rows, T positions (Tq queries, Tk keys), C = d_model, H and Hkv heads,
 *   D = head_dim, Dv = value_dim, V the vocabulary. Losses are in nats.
 * - Strings are zero-terminated UTF-8 and, like arrays, stay the caller's; what a call returns as the caller's own is freed
 *   with qkv_free.
 * - The same inputs give the same bits at any number of threads; in fp32 also for a row alone, in a batch, or decoded
 *   through the cache.
 * - A context, and everything made with it, serves one thread at a time.
 */
#ifndef QKV_H
#define QKV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(QKV_BUILDING) && defined(__GNUC__)
#define QKV_API __attribute__((visibility("default")))
#else
#define QKV_API
#endif

#define QKV_STATUS_LIST(X)                                                                                             \
    X(OK, "ok")                                                                                                        \
    X(ARGUMENT, "invalid argument")                                                                                    \
    X(MEMORY, "out of memory")                                                                                         \
    X(FILE, "file error")                                                                                              \
    X(FORMAT, "invalid file contents")                                                                                 \
    X(SPEC, "invalid spec")                                                                                            \
    X(SHAPE, "shapes do not agree")                                                                                    \
    X(NUMBER, "not a finite number")                                                                                   \
    X(STOPPED, "stopped by the caller")
enum qkv_status {
#define QKV_STATUS_ENUM(name, text) QKV_##name,
    QKV_STATUS_LIST(QKV_STATUS_ENUM)
#undef QKV_STATUS_ENUM
};

/* Element types of stored tensors; names as in safetensors. */
enum qkv_dtype {
    QKV_F32,
    QKV_F16,
    QKV_BF16,
    QKV_F64,
    QKV_I8,
    QKV_U8,
    QKV_I16,
    QKV_U16,
    QKV_I32,
    QKV_U32,
    QKV_I64,
    QKV_U64,
    QKV_BOOL,
    QKV_DTYPE_COUNT
};

/* ---- status, context --------------------------------------------------------------------------------------------- */

struct qkv_context;

/* What matrix products and attention multiply. bf16: weights and activations are rounded to bf16 (Kalamkar et al. 2019), and
 * what is kept for the way back is stored so, but for the residual stream; sums, weights that learn, gradients, statistics and
 * softmax stay fp32 (mixed precision: Micikevicius et al. 2018). A machine without bf16 products multiplies the rounded
 * numbers as fp32: no faster, and the same but for the rounding of sums. */
enum qkv_precision {
    QKV_FP32,
    QKV_MIXED_BF16,
    QKV_PRECISION_AUTO /* asks for that of new runs (qkv_auto_precision); a context has one of the two above */
};
struct qkv_context_options {
    int threads; /* 0: one for each CPU this process may use */
    const char
        *isa; /* kernel table, "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon"; NULL: $QKV_ISA if set, else the
                        best here */
    enum qkv_precision precision; /* zero: QKV_FP32 */
    /* Go on where more memory is needed than is left; else QKV_MEMORY, before any of it is used. */
    bool ignore_memory;
    /* Load weights whose spec was another one than that of config.json, resume with options that were others. */
    bool ignore_digest;
};

QKV_API const char *qkv_version(void);                       /* "0.1.0" */
QKV_API const char *qkv_status_text(enum qkv_status status); /* "out of memory" */

/* Makes a context: threads, kernel table and the sentence of the latest failure. One context serves one thread at a
 * time; different contexts are independent. The environment has $QKV_THREADS and $QKV_ISA for what the options leave open, and
 * $QKV_PRECISION (fp32, bf16 or auto) for QKV_PRECISION_AUTO; other values are QKV_ARGUMENT, empty ones are none. `options` may be NULL. On failure *out still is a context that holds the
 * sentence (free it), or NULL when there was no memory for one. */
QKV_API enum qkv_status qkv_context_create(struct qkv_context **out, const struct qkv_context_options *options);
QKV_API void qkv_context_free(struct qkv_context *ctx);
/* What went wrong in the latest call that returned a status, where, and what to do; "" if it was a success; never NULL.
 * Owned by the context, valid until the next call with it. */
QKV_API const char *qkv_message(const struct qkv_context *ctx);
QKV_API int qkv_context_threads(const struct qkv_context *ctx);
QKV_API const char *qkv_context_isa(const struct qkv_context *ctx);
/* The i-th kernel table that this machine can run, best first; NULL past the last. */
QKV_API const char *qkv_isa_at(size_t i);
/* Why a better table than that is not used although the processor has it: one line, or NULL. */
QKV_API const char *qkv_context_isa_note(const struct qkv_context *ctx);
/* The precision may be changed while no model, pass or session of the context exists. Setting QKV_PRECISION_AUTO sets what it
 * stands for; qkv_model_precision says what a model was trained in. */
QKV_API enum qkv_precision qkv_context_precision(const struct qkv_context *ctx);
QKV_API void qkv_context_set_precision(struct qkv_context *ctx, enum qkv_precision precision);
/* What QKV_PRECISION_AUTO, and the training option precision=auto of a new run, stand for: $QKV_PRECISION where it was fp32 or
 * bf16 when the context was made, else bf16 where the context's kernels multiply it themselves, else fp32. */
QKV_API enum qkv_precision qkv_auto_precision(const struct qkv_context *ctx);
/* Whether this machine multiplies bf16 itself. */
QKV_API bool qkv_context_native_bf16(const struct qkv_context *ctx);
/* Frees what a qkv call returned as the caller's own (texts, id arrays). NULL is fine. */
QKV_API void qkv_free(void *block);
/* Called during long work: what is being done and how far it is (total 0: unknown). Return false to stop. */
typedef bool qkv_progress(void *user, const char *what, double done, double total);

/* ---- tensor files: safetensors -------------------------------------------------------------------------------------
 * An 8-byte little-endian header length, a JSON header (name -> dtype, shape, data_offsets; "__metadata__" -> strings),
 * then the data. Reading maps the file and checks everything before it is believed. */

#define QKV_RANK_MAX 8

struct qkv_array { /* a named tensor somewhere in memory, row-major */
    const char *name;
    enum qkv_dtype dtype;
    int rank; /* 0 is a scalar of one element */
    size_t shape[QKV_RANK_MAX];
    const void *data; /* may be unaligned */
    size_t bytes;
};

struct qkv_tensors; /* an opened file */
QKV_API enum qkv_status qkv_tensors_open(struct qkv_context *ctx, const char *path, struct qkv_tensors **out);
QKV_API void qkv_tensors_close(struct qkv_tensors *tensors);
QKV_API size_t qkv_tensors_count(const struct qkv_tensors *tensors);
/* The i-th tensor in the order of the data, or the one called `name`; NULL if there is none. Owned by `tensors`. */
QKV_API const struct qkv_array *qkv_tensors_at(const struct qkv_tensors *tensors, size_t i);
QKV_API const struct qkv_array *qkv_tensors_find(const struct qkv_tensors *tensors, const char *name);
/* A metadata string, NULL if absent. Owned by `tensors`. */
QKV_API const char *qkv_tensors_metadata(const struct qkv_tensors *tensors, const char *key);

/* Writes a file, replacing an old one atomically. Larger elements come first, else the order is kept: this aligns all data.
 * `metadata` is `metadata_count` pairs key, value (NULL if 0). */
QKV_API enum qkv_status qkv_tensors_write(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                          size_t count, const char *const *metadata, size_t metadata_count);
/* Elements of an array: the product of its shape. */
QKV_API size_t qkv_array_elements(const struct qkv_array *array);
/* All elements as floats, converted from any dtype, in row-major order. `out` holds qkv_array_elements floats. */
QKV_API void qkv_array_floats(const struct qkv_array *array, float *out);

/* ---- tokenizers -----------------------------------------------------------------------------------------------------
 * Saved and read as Hugging Face tokenizer.json. Every kind turns any bytes, valid UTF-8 or not, into ids and back into
 * the same bytes: what is not in the vocabulary is spelled with 256 byte tokens, which every kind has. */

#define QKV_TOKENIZER_LIST(X)                                                                                          \
    X(BYTES, "bytes", "one token a byte")                                                                              \
    X(CHARS, "chars", "one token for each character of the training text; other characters as bytes")                  \
    X(WORDS, "words", "one token for each word of the training text, its leading space included; others as bytes")     \
    X(BPE, "bpe", "byte-level byte-pair encoding, trained on the text to a vocabulary of chosen size")
enum qkv_tokenizer_kind {
#define QKV_TOKENIZER_ENUM(name, text, help) QKV_TOKENIZER_##name,
    QKV_TOKENIZER_LIST(QKV_TOKENIZER_ENUM)
#undef QKV_TOKENIZER_ENUM
};

struct qkv_tokenizer_options {
    enum qkv_tokenizer_kind kind;
    int vocab;                   /* BPE: size of the vocabulary with specials (0: 1024, less if merges run out);
                                    chars, words: keep only the most frequent so that this holds (0: all) */
    const char *const *specials; /* texts that are one token wherever they stand: "<|endoftext|>" */
    size_t special_count;
};

struct qkv_tokenizer;
/* Makes a tokenizer from a training text (ignored by bytes). The text may be a mapping larger than memory. */
QKV_API enum qkv_status qkv_tokenizer_train(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                            const char *text, size_t size, struct qkv_tokenizer **out);
QKV_API enum qkv_status qkv_tokenizer_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out);
QKV_API enum qkv_status qkv_tokenizer_save(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *path);
QKV_API void qkv_tokenizer_free(struct qkv_tokenizer *t);
QKV_API int qkv_tokenizer_vocab(const struct qkv_tokenizer *t); /* ids are [0, vocab) */
/* The id of a special token, or -1. */
QKV_API int qkv_tokenizer_special(const struct qkv_tokenizer *t, const char *text);
/* Text to ids. *ids is the caller's, freed with qkv_free; *count may be 0. `specials`: whether special tokens written
 * in the text become their id (a trusted text) or are spelled out (text from a stranger). */
QKV_API enum qkv_status qkv_tokenizer_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                             size_t size, bool specials, int32_t **ids, size_t *count);
/* Text to ids as a sequence of its own: qkv_tokenizer_encode, and around its ids those that the TemplateProcessing of the
 * tokenizer.json places around a single sequence, as Hugging Face's encode(text) does with its add_special_tokens. A tokenizer
 * without a template, as all made here are, gives what qkv_tokenizer_encode gives. Templates of pairs and type ids are kept
 * when a tokenizer is saved; nothing here uses them. */
QKV_API enum qkv_status qkv_tokenizer_encode_sequence(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                                      const char *text, size_t size, bool specials, int32_t **ids,
                                                      size_t *count);
/* The ids that the template places before and after a sequence, for texts encoded piece by piece; owned by the tokenizer,
 * NULL where there are none. Whether there are any. */
QKV_API bool qkv_tokenizer_template(const struct qkv_tokenizer *t, const int32_t **before, size_t *before_count,
                                    const int32_t **after, size_t *after_count);
/* Ids to text, zero-terminated besides its *size; the caller's, freed with qkv_free. An id out of range fails. */
QKV_API enum qkv_status qkv_tokenizer_decode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                             size_t count, char **text, size_t *size);
/* The bytes of one token (for a special: its text), owned by the tokenizer; NULL for an id out of range. */
QKV_API const char *qkv_tokenizer_token(const struct qkv_tokenizer *t, int id, size_t *size);
/* For encoding a stream piece by piece: the largest n <= size such that encoding text[0,n) and then what follows gives
 * the ids of encoding everything, whatever follows text[0,size). `end`: nothing follows, so n = size. May be 0: bring more. */
QKV_API size_t qkv_tokenizer_cut(const struct qkv_tokenizer *t, const char *text, size_t size, bool end);

/* ---- spec: a transformer as data ------------------------------------------------------------------------------------
 * One to one with config.json (format "qkv", version 1). Numbers not given take the defaults written here. */

#define QKV_POSITION_LIST(X)                                                                                           \
    X(NONE, "none", "no position at all")                                                                              \
    X(SINUSOIDAL, "sinusoidal", "fixed sines and cosines added to the embedding (Vaswani et al. 2017)")                \
    X(LEARNED, "learned", "a learned vector for each position added to the embedding")                                 \
    X(ROPE, "rope", "queries and keys rotated by their position (Su et al. 2021)")                                     \
    X(ALIBI, "alibi", "a penalty linear in the distance added to the scores (Press et al. 2022)")
#define QKV_PAIRING_LIST(X)                                                                                            \
    X(HALF, "half", "channel i turns with i + half of the rotated ones (GPT-NeoX, Llama)")                             \
    X(INTERLEAVED, "interleaved", "channel 2i turns with 2i + 1 (GPT-J, the paper)")
#define QKV_BIAS_LIST(X)                                                                                               \
    X(NONE, "false", "no biases")                                                                                      \
    X(ALL, "true", "biases on q, k, v and the output projection")                                                      \
    X(QKV, "qkv", "biases on q, k, v only")
#define QKV_NORM_LIST(X)                                                                                               \
    X(LAYERNORM, "layernorm", "mean and variance (Ba et al. 2016)")                                                    \
    X(RMSNORM, "rmsnorm", "root mean square only (Zhang & Sennrich 2019)")
#define QKV_PLACEMENT_LIST(X)                                                                                          \
    X(PRE, "pre", "x + f(norm(x)) (GPT-2 and later)")                                                                  \
    X(POST, "post", "norm(x + f(x)) (Vaswani et al. 2017, BERT)")
#define QKV_FFN_LIST(X)                                                                                                \
    X(RELU, "relu", "max(x, 0)")                                                                                       \
    X(GELU, "gelu", "x times the normal distribution function (BERT)")                                                 \
    X(GELU_TANH, "gelu_tanh", "the tanh approximation of GELU (GPT-2)")                                                \
    X(SILU, "silu", "x times sigmoid(x)")                                                                              \
    X(SWIGLU, "swiglu", "silu(gate) times up (Llama)")                                                                 \
    X(GEGLU, "geglu", "gelu(gate) times up")
#define QKV_TIE_LIST(X)                                                                                                \
    X(NONE, "none", "the head has weights of its own")                                                                 \
    X(HEAD, "head", "the head uses the token embedding")                                                               \
    X(ALL, "all", "the head and both stacks share one token embedding")
#define QKV_HEAD_LIST(X)                                                                                               \
    X(LM, "lm", "a score for each token of the vocabulary at every position")                                          \
    X(CLASSIFY, "classify", "a score for each class, from pooled hidden states")                                       \
    X(NONE, "none", "the hidden states themselves")
#define QKV_POOL_LIST(X)                                                                                               \
    X(FIRST, "first", "the first position")                                                                            \
    X(MEAN, "mean", "the mean over the positions before the row's length")

#define QKV_SPEC_ENUM_POSITION(name, text, help)  QKV_POSITION_##name,
#define QKV_SPEC_ENUM_PAIRING(name, text, help)   QKV_PAIRING_##name,
#define QKV_SPEC_ENUM_BIAS(name, text, help)      QKV_BIAS_##name,
#define QKV_SPEC_ENUM_NORM(name, text, help)      QKV_NORM_##name,
#define QKV_SPEC_ENUM_PLACEMENT(name, text, help) QKV_PLACEMENT_##name,
#define QKV_SPEC_ENUM_FFN(name, text, help)       QKV_FFN_##name,
#define QKV_SPEC_ENUM_TIE(name, text, help)       QKV_TIE_##name,
#define QKV_SPEC_ENUM_HEAD(name, text, help)      QKV_HEAD_##name,
#define QKV_SPEC_ENUM_POOL(name, text, help)      QKV_POOL_##name,
enum qkv_position_kind { QKV_POSITION_LIST(QKV_SPEC_ENUM_POSITION) };
enum qkv_pairing { QKV_PAIRING_LIST(QKV_SPEC_ENUM_PAIRING) };
enum qkv_bias_kind { QKV_BIAS_LIST(QKV_SPEC_ENUM_BIAS) };
enum qkv_norm_kind { QKV_NORM_LIST(QKV_SPEC_ENUM_NORM) };
enum qkv_placement { QKV_PLACEMENT_LIST(QKV_SPEC_ENUM_PLACEMENT) };
enum qkv_ffn_kind { QKV_FFN_LIST(QKV_SPEC_ENUM_FFN) };
enum qkv_tie { QKV_TIE_LIST(QKV_SPEC_ENUM_TIE) };
enum qkv_head_kind { QKV_HEAD_LIST(QKV_SPEC_ENUM_HEAD) };
enum qkv_pool { QKV_POOL_LIST(QKV_SPEC_ENUM_POOL) };

struct qkv_position_spec {
    enum qkv_position_kind kind; /* learned */
    double theta;                /* rope: the base of the wavelengths, 10000 */
    enum qkv_pairing pairing;    /* rope: half */
    double fraction;             /* rope: the first 2·⌊head_dim·fraction/2⌋ channels of a head are rotated, 1 */
};
struct qkv_attention_spec {
    int heads, kv_heads;     /* kv_heads = heads */
    int head_dim, value_dim; /* head_dim = d_model / heads, value_dim = head_dim */
    bool causal;             /* true in a decoder, false in an encoder and in cross attention */
    int window;              /* w > 0: only keys with |i − j| < w; 0: all */
    double softcap;          /* c >= 2.94e-39: a score s becomes c·tanh(s/c) before bias and mask; 0: off */
    double scale;            /* 0 (null in JSON): 1/sqrt(head_dim) */
    enum qkv_bias_kind bias; /* true */
};
struct qkv_norm_spec {
    enum qkv_norm_kind kind;      /* layernorm */
    enum qkv_placement placement; /* pre */
    double eps;                   /* 1e-5 */
    bool final;                   /* a norm after the last layer; true for pre, false for post */
    bool bias;                    /* true for layernorm; rmsnorm never has one */
};
struct qkv_ffn_spec {
    enum qkv_ffn_kind kind; /* gelu */
    int d_ff;               /* 4·d_model */
    bool bias;              /* true */
};
struct qkv_stack_spec {
    int layers; /* 0: this stack is absent (null in JSON) */
    struct qkv_attention_spec attention;
    struct qkv_attention_spec cross; /* in a decoder beside an encoder: attention without causal and window */
    struct qkv_norm_spec norm;
    struct qkv_ffn_spec ffn;
};
struct qkv_spec {
    int vocab;        /* of the decoder, or of the lone encoder */
    int source_vocab; /* of an encoder beside a decoder; vocab */
    int d_model;
    int context; /* the most positions of a sequence */
    struct qkv_position_spec position;
    double embed_scale; /* multiplies the token embedding before a position is added; 1 */
    enum qkv_tie tie;   /* head */
    double dropout;     /* on embeddings, attention weights and the output of every sublayer; 0 */
    struct {
        enum qkv_head_kind kind; /* lm */
        int classes;             /* classify */
        enum qkv_pool pool;      /* classify: first */
        bool bias;               /* false for lm, true for classify */
    } head;
    struct qkv_stack_spec encoder, decoder;
};

/* Reads a spec from JSON text, after replacing what `settings` say: "decoder.attention.kv_heads=2",
 * "position.kind=rope", "encoder=null". Unknown keys and impossible values fail with a sentence that names the key
 * (QKV_SPEC; QKV_FORMAT where the text is no JSON object; QKV_ARGUMENT where a setting is not KEY=VALUE). So does a setting
 * without effect: of a key that means nothing in this spec, as position.theta without rope, or that a later setting replaces.
 * `name` is for messages ("my.json"). */
QKV_API enum qkv_status qkv_spec_parse(struct qkv_context *ctx, struct qkv_spec *spec, const char *name,
                                       const char *json, size_t size, const char *const *settings,
                                       size_t setting_count);
QKV_API enum qkv_status qkv_spec_read(struct qkv_context *ctx, struct qkv_spec *spec, const char *path,
                                      const char *const *settings, size_t setting_count);
/* A named spec. vocab is 0 (to be set from a tokenizer) unless the preset has a vocabulary of its own. */
QKV_API enum qkv_status qkv_spec_preset(struct qkv_context *ctx, struct qkv_spec *spec, const char *name,
                                        const char *const *settings, size_t setting_count);
/* Whether settings are KEY=VALUE of keys that exist, with values of their type and range, none replaced by a later one: what
 * can be said without a spec. QKV_ARGUMENT or QKV_SPEC. */
QKV_API enum qkv_status qkv_spec_check_settings(struct qkv_context *ctx, const char *const *settings,
                                                size_t setting_count);
/* Settings that several specs share: those without effect in one of them are no failure there, but told. */
struct qkv_settings {
    const char *const *items;
    size_t count;
    bool *idle; /* [count], written: which had no effect (NULL: that is a failure) */
};
/* A spec from the file at `path`, or with NULL a preset, changed by settings. Statuses as of qkv_spec_read. */
QKV_API enum qkv_status qkv_spec_vary(struct qkv_context *ctx, struct qkv_spec *spec, const char *preset,
                                      const char *path, const struct qkv_settings *settings);
/* The JSON of a spec, every value written out; the caller's, freed with qkv_free. Reading it back gives the same spec. */
QKV_API enum qkv_status qkv_spec_print(struct qkv_context *ctx, const struct qkv_spec *spec, char **json);
/* Checks a spec filled in by hand. */
QKV_API enum qkv_status qkv_spec_check(struct qkv_context *ctx, const struct qkv_spec *spec);
/* Name and one-line description of the i-th preset; false past the last. */
QKV_API bool qkv_preset_at(size_t i, const char **name, const char **summary);

/* ---- models ---------------------------------------------------------------------------------------------------------
 * A model is a spec, its named weights in fp32 and, where known, a tokenizer. A model folder holds config.json,
 * model.safetensors and tokenizer.json. */

struct qkv_model;

/* New weights: N(0, 0.02) for matrices, those that end a residual branch smaller by 1/sqrt(2·layers) (GPT-2); zero
 * biases, norm weights one. */
QKV_API enum qkv_status qkv_model_create(struct qkv_context *ctx, const struct qkv_spec *spec, uint64_t seed,
                                         struct qkv_model **out);
/* Names and shapes only, no memory for weights: for looking at a spec of any size. */
QKV_API enum qkv_status qkv_model_plan(struct qkv_context *ctx, const struct qkv_spec *spec, struct qkv_model **out);
/* Reads a model folder; weights of any float dtype become fp32. Every tensor of the spec must be there, with its shape,
 * and none besides. The tokenizer is read if there is one. Weights that carry the digest of another spec than that of
 * config.json are QKV_SPEC (docs/digests.md), unless the context has ignore_digest; weights without a digest load. More
 * memory than there is: QKV_MEMORY, before the weights are read, unless it has ignore_memory. */
QKV_API enum qkv_status qkv_model_load(struct qkv_context *ctx, const char *folder, struct qkv_model **out);
/* The precision that the run in `folder` records (train.json). QKV_FP32 where there is no record: a model from elsewhere, or of a
 * run older than the option. QKV_FORMAT when the record is damaged, QKV_FILE when it cannot be read, QKV_MEMORY. Set it before
 * the model is made and evaluations give the numbers of the training:
 *     status = qkv_model_precision(ctx, folder, &precision);
 *     if (!status) qkv_context_set_precision(ctx, precision);
 *     if (!status) status = qkv_model_load(ctx, folder, &model); */
QKV_API enum qkv_status qkv_model_precision(struct qkv_context *ctx, const char *folder, enum qkv_precision *precision);
/* Writes a model folder, each file replaced atomically, the weights last. */
QKV_API enum qkv_status qkv_model_save(struct qkv_model *model, const char *folder);
QKV_API void qkv_model_free(struct qkv_model *model);
QKV_API struct qkv_context *qkv_model_context(struct qkv_model *model);
QKV_API const struct qkv_spec *qkv_model_spec(const struct qkv_model *model);
/* NULL if there is none. Owned by the model. */
QKV_API const struct qkv_tokenizer *qkv_model_tokenizer(const struct qkv_model *model);
/* The model owns the tokenizer from now on (also on failure: it may have no more tokens than the spec's vocabulary). */
QKV_API enum qkv_status qkv_model_set_tokenizer(struct qkv_model *model, struct qkv_tokenizer *tokenizer);

/* The named tensors, in the order of the file. data is NULL in a planned model. */
QKV_API size_t qkv_model_parameters(const struct qkv_model *model);
QKV_API const struct qkv_array *qkv_model_parameter(const struct qkv_model *model, size_t i);
/* Writable weights, and their gradients (NULL before the first training pass was made); shapes as the parameter's. In mixed
 * precision a copy of the weights is multiplied, made anew after this call: call it again after writing later. */
QKV_API float *qkv_model_weights(struct qkv_model *model, size_t i);
QKV_API float *qkv_model_gradient(struct qkv_model *model, size_t i);
QKV_API void qkv_model_clear_gradients(struct qkv_model *model);
/* sqrt of the sum of squares of all gradients. */
QKV_API double qkv_model_gradient_norm(struct qkv_model *model);

/* What a spec costs; measured by dry runs, nothing of that size is allocated. Bytes are those that numbers lie in, exactly, in
 * the context's precision and with its threads; names, the nodes of a pass and the ids of batches are beside them. */
struct qkv_costs {
    size_t parameters;            /* numbers, tied ones once */
    size_t parameter_bytes;       /* fp32 */
    size_t train_bytes;           /* weights, gradients, two moments, one step of batch × context and its evaluation */
    size_t checkpoint_bytes;      /* the same with activations checkpointed (pass option checkpoint) */
    size_t run_bytes;             /* weights, a full cache and one step, for one sequence */
    size_t cache_bytes_per_token; /* keys and values of all layers, fp32 */
    double forward_flops;         /* a token of a full context, multiply and add counted as two */
    double train_flops;           /* the same, forward and backward */
    double checkpoint_flops;      /* the same with activations checkpointed: the blocks run forward once more */
};
QKV_API enum qkv_status qkv_measure_costs(struct qkv_context *ctx, const struct qkv_spec *spec, size_t batch,
                                          size_t context, struct qkv_costs *costs);
/* The fp32 peak of this context's threads in FLOP/s, measured by fused multiply-adds in registers (about 30 ms). */
QKV_API double qkv_measure_flops(struct qkv_context *ctx);

/* ---- passes: forward and backward over a batch ------------------------------------------------------------------------ */

#define QKV_IGNORE (-100) /* a target that does not count */

/* What can be looked at on the way from q and k to the attention weights, for a query and all its keys. */
#define QKV_ATTENTION_STAGE_LIST(X)                                                                                    \
    X(WEIGHTS, "weights", "softmax over the keys, before dropout; a row sums to 1, or to 0 where no key is left")      \
    X(SCORES, "scores", "capped, plus ALiBi and bias; -inf where masked")                                              \
    X(CAPPED, "capped", "products after the softcap, not masked")                                                      \
    X(PRODUCTS, "products", "scale times q times k, not masked")
#define QKV_ATTENTION_STAGE_ENUM(name, text, help) QKV_ATTENTION_##name,
enum qkv_attention_stage { QKV_ATTENTION_STAGE_LIST(QKV_ATTENTION_STAGE_ENUM) };
#undef QKV_ATTENTION_STAGE_ENUM

struct qkv_batch {
    size_t B, T;
    const int32_t *ids;            /* (B,T) */
    const int32_t *lengths;        /* (B): keys at or past a row's length are masked; NULL: all T */
    const int32_t *targets;        /* (B,T) for lm, (B) for classify; QKV_IGNORE does not count; NULL: no loss */
    size_t source_T;               /* encoder–decoders: */
    const int32_t *source;         /* (B,source_T) */
    const int32_t *source_lengths; /* (B) or NULL */
    const float *output_gradient;  /* head none: the gradient of the loss by the hidden states (B,T,C); the loss is
                                      then their product summed; NULL: no loss */
    size_t loss_count; /* what the summed loss is divided by; 0: the number of targets that count. Micro-batches
                                that share the count of their whole add up to the gradient of the whole batch */
    double
        label_smoothing;   /* e: the loss is (1 - e) times the target's plus e times the mean over all tokens or classes
                                (Szegedy et al. 2016); at least 0, less than 1 */
    uint64_t dropout_seed; /* names the dropout masks of this pass */
};
struct qkv_pass_shape {
    size_t B, T, source_T;
};

/* Where a forward pass can be listened to. */
#define QKV_HOOK_LIST(X)                                                                                               \
    X(EMBEDDING, "embedding", "the residual stream before the first block")                                            \
    X(ATTENTION, "attention", "what self attention gives, before it is added to the stream")                           \
    X(CROSS, "cross", "what cross attention gives, the same")                                                          \
    X(FFN, "ffn", "what the feed-forward sublayer gives, the same")                                                    \
    X(RESIDUAL, "stream", "the residual stream after a block")                                                         \
    X(FINAL, "final", "after the final norm")
#define QKV_HOOK_ENUM(name, text, help) QKV_HOOK_##name,
enum qkv_hook_kind { QKV_HOOK_LIST(QKV_HOOK_ENUM) };
#undef QKV_HOOK_ENUM
struct qkv_hook_point {
    enum qkv_hook_kind kind;
    bool encoder;         /* whose: the encoder's, or the decoder's */
    size_t layer;         /* of the block; 0 before the first one, the number of layers behind the last one */
    size_t rows, columns; /* B·T, C */
    const float *values;  /* valid during the call; as they are before dropout */
};
/* Called in the order of the computation, from the thread that runs the pass; must not call anything of the pass or its model. */
typedef void qkv_hook(void *user, const struct qkv_hook_point *point);
struct qkv_pass_options {
    size_t B, T, source_T; /* the largest batch that will come, or the largest of each */
    const struct qkv_pass_shape
        *shapes; /* all the shapes that will come, when (B,T,source_T) is too much for all of them:
                                            memory is planned for the one that needs most; NULL: for (B,T,source_T) */
    size_t shape_count;
    bool train;      /* keep what backward needs */
    bool checkpoint; /* with train: keep only each block's input and run it again in backward; same bits, less memory
                              (Chen et al. 2016) */
    bool dropout;    /* dropout is on, as in training; needs train */
    bool logits;     /* keep the logits of lm heads (else only the loss is computed) */
    bool weights;    /* keep what attention weights are made from: of size T, never T×T */
    qkv_hook *hook;  /* told of the numbers on the way, block by block; NULL: nobody. Not with checkpoint */
    void *hook_user;
};
struct qkv_pass;
/* Plans the memory by a dry run, then allocates all of it: passes themselves allocate nothing. */
QKV_API enum qkv_status qkv_pass_create(struct qkv_model *model, const struct qkv_pass_options *options,
                                        struct qkv_pass **out);
QKV_API void qkv_pass_free(struct qkv_pass *pass);
QKV_API size_t qkv_pass_bytes(const struct qkv_pass *pass);
/* Runs the model. With options.train a call must be followed by qkv_pass_backward, as it may have begun on gradients. */
QKV_API enum qkv_status qkv_pass_forward(struct qkv_pass *pass, const struct qkv_batch *batch);
/* Adds the gradient of the loss to the model's gradients. */
QKV_API enum qkv_status qkv_pass_backward(struct qkv_pass *pass);
/* The summed loss over the targets that count, divided by loss_count, and how many counted. */
QKV_API double qkv_pass_loss(const struct qkv_pass *pass, size_t *counted);
/* logits (B,T,V) or (B,classes), or hidden (B,T,C), of the latest forward; data NULL if not kept. */
QKV_API struct qkv_array qkv_pass_output(const struct qkv_pass *pass);
/* The i-th attention, "decoder.layers.0.attn", and the shape of its weights (B,H,Tq,Tk) in the latest forward; data is NULL.
 * False past the last. Needs options.weights. */
QKV_API bool qkv_pass_attention(const struct qkv_pass *pass, size_t i, struct qkv_array *attention);
/* Makes some of them: head h of batch row b, for `rows` queries from `first` on, out (rows,Tk), of the latest forward. */
QKV_API enum qkv_status qkv_pass_weights(struct qkv_pass *pass, size_t i, enum qkv_attention_stage stage, size_t b,
                                         size_t h, size_t first, size_t rows, float *out);

/* ---- generation ----------------------------------------------------------------------------------------------------------
 * A session is one sequence and its KV cache. */

struct qkv_session;
/* `capacity`: the most positions, at most the spec's context; 0: the spec's context. */
QKV_API enum qkv_status qkv_session_create(struct qkv_model *model, size_t capacity, struct qkv_session **out);
QKV_API void qkv_session_free(struct qkv_session *session);
/* Runs the model over n more ids. Fails when they do not fit into the capacity; nothing is appended then. */
QKV_API enum qkv_status qkv_session_append(struct qkv_session *session, const int32_t *ids, size_t n);
/* Scores of the next token (vocab of them), after at least one id. Valid until the next call with the session. */
QKV_API const float *qkv_session_logits(const struct qkv_session *session);
QKV_API size_t qkv_session_length(const struct qkv_session *session);
QKV_API size_t qkv_session_capacity(const struct qkv_session *session);
/* Forgets all positions at and past `length`. Append at least one id before asking for logits again. */
QKV_API void qkv_session_truncate(struct qkv_session *session, size_t length);

struct qkv_sampling {
    double temperature; /* 0: always the most likely token; 1: the model's own distribution */
    int top_k;          /* keep the k most likely tokens; 0: all */
    double top_p; /* keep the fewest most likely tokens that hold this probability; 1: all (Holtzman et al. 2020) */
    double min_p; /* keep tokens of at least min_p times the likeliest one's probability; 0: all */
    double
        repeat_penalty; /* logits of recent tokens are divided (if > 0) or multiplied by this; 1: off (Keskar et al. 2019) */
    int repeat_last; /* how many recent tokens the penalty looks at; 0: all */
    uint64_t seed;
};
QKV_API struct qkv_sampling qkv_sampling_defaults(void); /* temperature 1, everything else off, seed 0 */
/* Draws the draw-th token of a seeded sequence: penalty, temperature, top-k, top-p, min-p in that order. */
QKV_API enum qkv_status qkv_sample(struct qkv_context *ctx, const struct qkv_sampling *sampling, const float *logits,
                                   size_t vocab, const int32_t *history, size_t history_count, uint64_t draw,
                                   int32_t *id);

struct qkv_generate_options {
    struct qkv_sampling sampling;
    size_t tokens;            /* how many to make at most */
    const char *const *stops; /* texts that end the generation; they are not given out */
    size_t stop_count;
    int32_t end_id; /* a token that ends the generation, or -1 */
};
struct qkv_generate_report {
    size_t prompt_tokens, tokens;
    double prompt_seconds, seconds;
    bool stopped; /* by a stop text or end_id */
};
/* Receives whole UTF-8 characters as soon as they are known; return false to stop. */
typedef bool qkv_write_text(void *user, const char *text, size_t size);
/* Continues a prompt. When the context is full the older half is forgotten and the rest run again. An empty prompt
 * starts from a newline, or token 0. */
QKV_API enum qkv_status qkv_generate(struct qkv_model *model, const char *prompt, size_t prompt_size,
                                     const struct qkv_generate_options *options, qkv_write_text *write, void *user,
                                     struct qkv_generate_report *report);

#ifdef __cplusplus
}
#endif

#include "qkv/output.h"    /* files that a program writes for its user */
#include "qkv/attention.h" /* attention on its own, without a model */
#include "qkv/training.h"  /* optimizers, training runs, evaluation */
#include "qkv/report.h"    /* attention on a text, training runs: numbers and pages */
#include "qkv/compare.h"   /* variants of a model side by side */
#include "qkv/sequences.h" /* encoders and encoder–decoders: read, classify, translate */
#include "qkv/bench.h"     /* the speed of this machine */

#endif
