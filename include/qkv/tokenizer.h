/* qkv/tokenizer.h: tokenizers: bytes, characters, words, byte-pair encoding; a part of qkv.h, which includes it.
 * Stable.
 *
 * Tokenizers are saved and read as Hugging Face tokenizer.json. Kinds with 256 byte tokens encode any bytes, valid
 * UTF-8 or not, and decode to the same bytes: text that is not in the vocabulary becomes byte tokens. The kind chars
 * encodes a character that is not in the vocabulary, a byte that is not UTF-8, and U+0000 as QKV_TOKEN_UNKNOWN each.
 * The kind whitespace fails on a word that is not in the vocabulary, unless the vocabulary has a size limit; then the
 * word is QKV_TOKEN_UNKNOWN. This kind does not encode white space; decoding writes one space between two words. */
#ifndef QKV_PUBLIC_TOKENIZER_H
#define QKV_PUBLIC_TOKENIZER_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The list grows at its end. */
#define QKV_TOKENIZER_LIST(X)                                                                                          \
    X(BYTES, "bytes", "one token a byte")                                                                              \
    X(CHARS, "chars", "one token for each character of the training text, and <unk> for all others")                   \
    X(WORDS, "words", "one token for each word of the training text, its leading space included; others as bytes")     \
    X(BPE, "bpe", "byte-level byte-pair encoding, trained on the text to a vocabulary of chosen size")                 \
    X(CHARS_BYTES, "chars+bytes", "one token for each character of the training text; other characters as bytes")      \
    X(WHITESPACE, "whitespace", "one token for each word of the training text, apart by white space; no other words")
enum qkv_tokenizer_kind {
#define QKV_TOKENIZER_ENUM(name, text, help) QKV_TOKENIZER_##name,
    QKV_TOKENIZER_LIST(QKV_TOKENIZER_ENUM)
#undef QKV_TOKENIZER_ENUM
};

/* X(NAME, "key in tokenizer_config.json and special_tokens_map.json", help): the roles of tokens. The list grows at
 * its end. */
#define QKV_TOKEN_ROLE_LIST(X)                                                                                         \
    X(BEGIN, "bos_token", "begins a text")                                                                             \
    X(END, "eos_token", "ends a text")                                                                                 \
    X(PAD, "pad_token", "fills a batch up")                                                                            \
    X(MASK, "mask_token", "stands for a hidden token")                                                                 \
    X(UNKNOWN, "unk_token", "stands for what has no token")                                                            \
    X(SEPARATOR, "sep_token", "stands between two texts")                                                              \
    X(CLASS, "cls_token", "begins a text that is classified")
enum qkv_token_role {
#define QKV_TOKEN_ROLE_ENUM(name, key, help) QKV_TOKEN_ROLE_##name,
    QKV_TOKEN_ROLE_LIST(QKV_TOKEN_ROLE_ENUM)
#undef QKV_TOKEN_ROLE_ENUM
        QKV_TOKEN_ROLES
};
#define QKV_TOKEN_ENDS 16 /* largest number of end tokens */
/* Experimental: the model's own language, or whatever language a text has; and the bytes of a language's code with its
 * zero, at most. */
#define QKV_LANGUAGE_AUTO "auto"
enum { QKV_LANGUAGE_TEXT = 32 };

#define QKV_TOKEN_UNKNOWN "<unk>" /* replaces text that has no token; special, so it is recognized in trusted texts */
#define QKV_TOKEN_PAD     "<pad>" /* token 0 of the kind whitespace; the library neither writes nor reads it */

struct qkv_tokenizer_options {
    size_t size; /* sizeof(struct qkv_tokenizer_options), set by qkv_tokenizer_defaults */
    enum qkv_tokenizer_kind kind;
    /* Size of the vocabulary. BPE: specials included (0: 1024; fewer if there are no more merges). chars, chars+bytes,
     * words, whitespace: only the most frequent entries are in the vocabulary, so that it has at most this size (0:
     * all). */
    int vocab;
    const char *const *specials; /* texts that are one token each wherever they occur: "<|endoftext|>" */
    size_t special_count;
};

/* Byte-pair encoding with 1024 tokens, without specials. */
QKV_API void qkv_tokenizer_options_init(struct qkv_tokenizer_options *options, size_t size);
static inline struct qkv_tokenizer_options qkv_tokenizer_defaults(void) {
    struct qkv_tokenizer_options options;
    qkv_tokenizer_options_init(&options, sizeof options);
    return options;
}

struct qkv_tokenizer;
/* Trains a tokenizer on a text (bytes ignores it). The text may be a mapped file larger than memory. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_train(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                            const char *text, size_t size, struct qkv_tokenizer **out);
/* Reads a file of one of three kinds, which its first bytes tell apart.
 *
 * - A tokenizer.json is read as Hugging Face `tokenizers` does, with all of its normalizers, pre-tokenizers, models,
 *   post-processors and decoders. An unknown part is QKV_FORMAT, with a sentence that names its key. When such a
 *   tokenizer encodes, a byte that is not UTF-8 is read as U+FFFD; byte-level BPE with the pattern of GPT-2, Llama 3 or
 *   a similar one encodes any bytes. qkv_tokenizer_encode_sequence applies the file's truncation; its padding has no
 *   effect.
 * - A model of SentencePiece (Unigram, byte-pair encoding, characters) gives the ids and texts of the package
 *   sentencepiece.
 * - Ranks of tiktoken give the ids of tiktoken, with the pattern and the special tokens of their family, which
 *   config.json next to the file, the file's name or the number of ranks tells.
 *
 * The last two are saved as a tokenizer.json, whose standard parts other readers use, and which has keys for this
 * library where these parts say less. Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out);
#ifdef QKV_EXPERIMENTAL
/* Experimental: reads the tokenizer of a model's folder: tokenizer.json; else vocab.json with merges.txt (byte-level
 * BPE); else vocab.txt (WordPiece, one token a line); else a model of SentencePiece (tokenizer.model, spiece.model,
 * sentencepiece.bpe.model) or ranks of tiktoken (tokenizer.model, tiktoken.model, qwen.tiktoken, cl100k_base.tiktoken,
 * o200k_base.tiktoken), with the tokens that the family adds. A folder without any of them is QKV_FILE. The roles of
 * tokens come from tokenizer_config.json and special_tokens_map.json, if they exist. If sentence_bert_config.json has
 * do_lower_case true, a normalizer Lowercase runs before the tokenizer's own normalizer. If `path` is a file, it is
 * read as qkv_tokenizer_load does. Fails with QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_open(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out);
#endif
#ifdef QKV_EXPERIMENTAL
/* Experimental: what a tokenizer comes from: "a tokenizer.json", "a model of SentencePiece (Unigram)", "ranks of
 * tiktoken"; also after it was saved. Owned by the library. Any thread. */
QKV_API const char *qkv_tokenizer_origin(const struct qkv_tokenizer *t);
/* Experimental: names the texts that other readers of the tokenizer.json read differently than the model of
 * SentencePiece that it was made of: "3 texts of its charsmap: …". *sentence is the caller's, freed with qkv_free;
 * NULL: there are none. Fails with QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_differences(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                                  char **sentence);
#endif
/* Writes a tokenizer.json, replacing an existing file atomically. Fails with QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_tokenizer_save(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *path);
/* Frees a tokenizer. NULL is allowed. */
QKV_API void qkv_tokenizer_free(struct qkv_tokenizer *t);
QKV_API int qkv_tokenizer_vocab(const struct qkv_tokenizer *t); /* number of ids, which are 0 to this minus 1 */
/* The token for text that is not in the vocabulary; -1 if the tokenizer can encode any text. */
QKV_API int qkv_tokenizer_unknown(const struct qkv_tokenizer *t);
/* The id of the special token with this text, or -1. */
QKV_API int qkv_tokenizer_special(const struct qkv_tokenizer *t, const char *text);
/* Encodes a text. *ids is the caller's, freed with qkv_free; *count may be 0. `specials` true: special tokens that are
 * written in the text become their ids (for trusted texts); false: they are encoded as ordinary text (for texts from
 * strangers). Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                             size_t size, bool specials, int32_t **ids, size_t *count);
#ifdef QKV_EXPERIMENTAL
/* Experimental: encodes a text as qkv_tokenizer_encode does, and gives the bytes of the text that id i covers:
 * [(*spans)[2·i], (*spans)[2·i + 1]), whole characters, as Hugging Face's offsets with trim_offsets of the
 * post-processor. *ids and *spans are the caller's, freed with qkv_free. The text must be smaller than 1 GiB. Fails
 * with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_encode_spans(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                                   const char *text, size_t size, bool specials, int32_t **ids,
                                                   size_t **spans, size_t *count);
#endif
/* Encodes a text as a whole sequence: qkv_tokenizer_encode, with the ids before and after it that the
 * TemplateProcessing of the tokenizer.json adds to a single sequence, as Hugging Face's encode(text) with
 * add_special_tokens. A tokenizer without a template, such as any trained by qkv, gives the ids of
 * qkv_tokenizer_encode. The template of pairs and its type ids are saved with the tokenizer; qkv_classify_pairs and
 * qkv_answer use them. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_encode_sequence(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                                      const char *text, size_t size, bool specials, int32_t **ids,
                                                      size_t *count);
/* Gives the ids that the template adds before and after a sequence, for texts that are encoded piece by piece, and
 * returns whether there are any. The arrays are owned by the tokenizer; NULL if there are none. */
QKV_API bool qkv_tokenizer_template(const struct qkv_tokenizer *t, const int32_t **before, size_t *before_count,
                                    const int32_t **after, size_t *after_count);
/* Decodes ids. *text is zero-terminated, has *size bytes without the zero, and is the caller's, freed with qkv_free. An
 * id out of range is QKV_ARGUMENT. Fails with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_tokenizer_decode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                             size_t count, char **text, size_t *size);
#ifdef QKV_EXPERIMENTAL
/* Experimental: decodes ids with the decoder of the tokenizer.json, as Hugging Face's decode does; skip_specials leaves
 * out special tokens. A tokenizer trained by qkv gives the text of qkv_tokenizer_decode. *text is the caller's, freed
 * with qkv_free. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_text(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                           size_t count, bool skip_specials, char **text, size_t *size);
/* Experimental: the id of the token with a role, or -1. The role is set by the model's folder, else it is the special
 * token with the usual text of the role: QKV_TOKEN_BEGIN, QKV_TOKEN_END, … in tokenizers trained by qkv. */
QKV_API int qkv_tokenizer_role(const struct qkv_tokenizer *t, enum qkv_token_role role);
/* Experimental: gives a role to a token; id -1: no token has the role. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_tokenizer_set_role(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                               enum qkv_token_role role, int id);
/* Experimental: adds a token that ends a text. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_tokenizer_add_end(struct qkv_context *ctx, struct qkv_tokenizer *t, int id);
/* Experimental: writes the ids of all tokens that end a text, the token with the end role first; returns their
 * number. */
QKV_API size_t qkv_tokenizer_ends(const struct qkv_tokenizer *t, int32_t ends[QKV_TOKEN_ENDS]);
#endif
/* The bytes of a token (of a special token: its text), owned by the tokenizer; NULL for an id out of range. */
QKV_API const char *qkv_tokenizer_token(const struct qkv_tokenizer *t, int id, size_t *size);
/* Finds where a stream may be cut to encode it piece by piece: the largest n <= size for which encoding text[0,n) and
 * then the rest gives the same ids as encoding everything, whatever follows text[0,size). `end` true: nothing follows,
 * n = size. If n is 0, call again with more text. */
QKV_API size_t qkv_tokenizer_cut(const struct qkv_tokenizer *t, const char *text, size_t size, bool end);

/* ---- sequences that are too long (experimental) ------------------------------------------------------------------ */

/* X(NAME, "name", done, help): the rules for a sequence with more tokens than the context; `done` describes the result.
 * Only tokens of the text itself are cut off; the tokens around it (<s>, </s>, those of a template) stay. The list
 * grows at its end. */
#define QKV_LONG_LIST(X)                                                                                               \
    X(ERROR, "error", "refused", "a failure that names it, before anything is done")                                   \
    X(SKIP, "skip", "skipped", "it is left out")                                                                       \
    X(KEEP_START, "keep-start", "cut to the first tokens", "as many of them are kept as the context holds")            \
    X(KEEP_END, "keep-end", "cut to the last tokens", "as many of them are kept as the context holds")
enum qkv_long {
#define QKV_LONG_ENUM(name, text, done, help) QKV_LONG_##name,
    QKV_LONG_LIST(QKV_LONG_ENUM)
#undef QKV_LONG_ENUM
};
#ifdef QKV_EXPERIMENTAL
/* Experimental: finds the kind with a name of the list. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_long_find(struct qkv_context *ctx, const char *name, enum qkv_long *kind);
/* Experimental: a description of what was done, "cut to the first tokens"; NULL past the last kind. Any thread. */
QKV_API const char *qkv_long_done(enum qkv_long kind);
#endif

#ifdef __cplusplus
}
#endif

#endif
