/* qkv/tokenizer.h: tokenizers: bytes, characters, words, byte-pair encoding; a part of qkv.h, which includes it. Stable.
 *
 * Saved and read as Hugging Face tokenizer.json. Kinds with 256 byte tokens turn any bytes, valid UTF-8 or not, into ids and back
 * into the same bytes: what is not in the vocabulary is spelled with them. Of the kind chars a character that is not in the
 * vocabulary, a byte that belongs to none and U+0000 are the token QKV_TOKEN_UNKNOWN each. Of the kind whitespace a word that is
 * not in the vocabulary fails, unless the vocabulary has a size, which makes it QKV_TOKEN_UNKNOWN; white space is not kept, and one
 * space stands between two words that come back. */
#ifndef QKV_PUBLIC_TOKENIZER_H
#define QKV_PUBLIC_TOKENIZER_H

#include "qkv/context.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* X(NAME, "key in tokenizer_config.json and special_tokens_map.json", help): what a token is for. */
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
#define QKV_TOKEN_ENDS 16 /* end tokens at most */

#define QKV_TOKEN_UNKNOWN "<unk>" /* stands for what has no token; special, so it is found in trusted texts */
#define QKV_TOKEN_PAD     "<pad>" /* token 0 of the kind whitespace; nothing here makes or reads it */

struct qkv_tokenizer_options {
    enum qkv_tokenizer_kind kind;
    int vocab;                   /* BPE: size of the vocabulary with specials (0: 1024, less if merges run out);
                                    chars, chars+bytes, words, whitespace: keep only the most frequent so that this
                                    holds (0: all) */
    const char *const *specials; /* texts that are one token wherever they stand: "<|endoftext|>" */
    size_t special_count;
};

/* Byte-pair encoding to 1024 tokens, without specials. */
QKV_API struct qkv_tokenizer_options qkv_tokenizer_defaults(void);

struct qkv_tokenizer;
/* Makes a tokenizer from a training text (ignored by bytes). The text may be a mapping larger than memory. Fails with
 * QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_train(struct qkv_context *ctx, const struct qkv_tokenizer_options *options,
                                            const char *text, size_t size, struct qkv_tokenizer **out);
/* Reads a tokenizer.json as Hugging Face `tokenizers` does: any of its normalizers, pre-tokenizers, models, post-processors and
 * decoders. What it asks for and is not known here is refused by the name of its key. In such texts, a byte
 * that is no UTF-8 is read as U+FFFD, but where the vocabulary is byte-level BPE over GPT-2's, Llama 3's or a like pattern, which
 * keeps any bytes. Its truncation is applied by qkv_tokenizer_encode_sequence; its padding has no effect. Fails with
 * QKV_MEMORY, QKV_FILE, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_load(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out);
/* Experimental: reads the tokenizer of a model's folder: its tokenizer.json; else vocab.json with merges.txt (byte-level BPE); else
 * vocab.txt (WordPiece, a token a line). tokenizer_config.json and special_tokens_map.json, where they are, say which tokens have a
 * role. Where sentence_bert_config.json has do_lower_case true, a normalizer Lowercase stands in front of the tokenizer's. A path of a file is that of a tokenizer.json. Fails with QKV_MEMORY, QKV_FILE (the folder has none of them, too),
 * QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_open(struct qkv_context *ctx, const char *path, struct qkv_tokenizer **out);
/* Writes a tokenizer.json, replacing an old one atomically. Fails with QKV_MEMORY, QKV_FILE. */
QKV_API enum qkv_status qkv_tokenizer_save(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *path);
/* NULL is fine. */
QKV_API void qkv_tokenizer_free(struct qkv_tokenizer *t);
QKV_API int qkv_tokenizer_vocab(const struct qkv_tokenizer *t); /* ids are [0, vocab) */
/* The token of what is not in the vocabulary, or -1 where everything can be spelled. */
QKV_API int qkv_tokenizer_unknown(const struct qkv_tokenizer *t);
/* The id of a special token, or -1. */
QKV_API int qkv_tokenizer_special(const struct qkv_tokenizer *t, const char *text);
/* Text to ids. *ids is the caller's, freed with qkv_free; *count may be 0. `specials`: whether special tokens written
 * in the text become their id (a trusted text) or are spelled out (text from a stranger). Fails with QKV_ARGUMENT,
 * QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                             size_t size, bool specials, int32_t **ids, size_t *count);
/* Experimental: the same, and of each id the bytes of the text that it stands for, [(*spans)[2 i], (*spans)[2 i + 1]), whole
 * characters, as Hugging Face's offsets with its post-processor's trim_offsets; the caller's, freed with qkv_free. The text has less
 * than 1 GiB. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_encode_spans(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                                   const char *text, size_t size, bool specials, int32_t **ids,
                                                   size_t **spans, size_t *count);
/* Text to ids as a sequence of its own: qkv_tokenizer_encode, and around its ids those that the TemplateProcessing of
 * the tokenizer.json places around a single sequence, as Hugging Face's encode(text) does with its add_special_tokens.
 * A tokenizer without a template, as all made here are, gives what qkv_tokenizer_encode gives. Templates of pairs and
 * type ids are kept when a tokenizer is saved; nothing here uses them. Fails with QKV_ARGUMENT, QKV_MEMORY,
 * QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_encode_sequence(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                                      const char *text, size_t size, bool specials, int32_t **ids,
                                                      size_t *count);
/* The ids that the template places before and after a sequence, for texts encoded piece by piece; owned by the tokenizer,
 * NULL where there are none. Whether there are any. */
QKV_API bool qkv_tokenizer_template(const struct qkv_tokenizer *t, const int32_t **before, size_t *before_count,
                                    const int32_t **after, size_t *after_count);
/* Ids to text, zero-terminated besides its *size; the caller's, freed with qkv_free. An id out of range fails. Fails
 * with QKV_ARGUMENT, QKV_MEMORY. */
QKV_API enum qkv_status qkv_tokenizer_decode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                             size_t count, char **text, size_t *size);
/* Experimental: ids to the text that the file's decoder makes of them, as Hugging Face's decode, without special tokens where that is
 * asked for; of tokenizers made here, what qkv_tokenizer_decode gives. Fails with QKV_ARGUMENT, QKV_MEMORY, QKV_FORMAT. */
QKV_API enum qkv_status qkv_tokenizer_text(struct qkv_context *ctx, const struct qkv_tokenizer *t, const int32_t *ids,
                                           size_t count, bool skip_specials, char **text, size_t *size);
/* Experimental: the id of the token that has a role, or -1: what the model's folder says, else the special token that is usually
 * written so, which is QKV_TOKEN_BEGIN, QKV_TOKEN_END, … of tokenizers made here. */
QKV_API int qkv_tokenizer_role(const struct qkv_tokenizer *t, enum qkv_token_role role);
/* Experimental: says which token has a role; -1: none has. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_tokenizer_set_role(struct qkv_context *ctx, struct qkv_tokenizer *t,
                                               enum qkv_token_role role, int id);
/* Experimental: one more token that ends a text. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_tokenizer_add_end(struct qkv_context *ctx, struct qkv_tokenizer *t, int id);
/* Experimental: writes the ids of all tokens that end a text, that of the role first; returns how many. */
QKV_API size_t qkv_tokenizer_ends(const struct qkv_tokenizer *t, int32_t ends[QKV_TOKEN_ENDS]);
/* The bytes of one token (for a special: its text), owned by the tokenizer; NULL for an id out of range. */
QKV_API const char *qkv_tokenizer_token(const struct qkv_tokenizer *t, int id, size_t *size);
/* For encoding a stream piece by piece: the largest n <= size such that encoding text[0,n) and then what follows gives
 * the ids of encoding everything, whatever follows text[0,size). `end`: nothing follows, so n = size. May be 0: bring more. */
QKV_API size_t qkv_tokenizer_cut(const struct qkv_tokenizer *t, const char *text, size_t size, bool end);

/* ---- sequences that are too long (experimental) ------------------------------------------------------------------------ */

/* X(NAME, "name", done, help): what becomes of a sequence that has more tokens than the context, and what was done to it then. What is
 * cut is the text's own tokens: those that stand around it (<s>, </s>, a template's) stay. */
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
/* Experimental: the kind that a name of the list means. Fails with QKV_ARGUMENT. */
QKV_API enum qkv_status qkv_long_find(struct qkv_context *ctx, const char *name, enum qkv_long *kind);
/* Experimental: what was done, "cut to the first tokens"; NULL past the last kind. Any thread. */
QKV_API const char *qkv_long_done(enum qkv_long kind);

#ifdef __cplusplus
}
#endif

#endif
