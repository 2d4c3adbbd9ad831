/* gguf_vocab.h: the keys tokenizer.ggml.* of a GGUF file (gguf_vocab.c), of which gguf_tokenizer.c makes a
 * tokenizer. */
#ifndef QKV_GGUF_VOCAB_H
#define QKV_GGUF_VOCAB_H

#include "io/gguf.h"
#include "qkv/tokenizer.h"

/* Types of tokens, by their numbers in files. */
enum gguf_vocab_type {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2,
    VOCAB_CONTROL = 3,
    VOCAB_USER = 4,
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6
};
struct gguf_vocab {
    struct qkv_context *ctx;
    const struct qkv_gguf *g;
    json_t *texts; /* of all tokens */
    size_t count;
    const struct qkv_gguf_value *types, *scores; /* NULL: the file has none */
    bool bytes;                                  /* there is a token for each byte */
    bool begins, ends; /* a text has the begin and end tokens unless the file says otherwise */
};

/* Roles of tokens and their keys, "tokenizer.ggml.KEY_token_id"; the keys of more tokens that end a text. */
struct vocab_role {
    const char *key;
    enum qkv_token_role role;
};
enum { QKV_VOCAB_ROLES = 7, QKV_VOCAB_ENDS = 2 };
extern const struct vocab_role qkv_vocab_role_keys[QKV_VOCAB_ROLES];
extern const char *const qkv_vocab_end_keys[QKV_VOCAB_ENDS];

/* The name tokenizer.ggml.pre of patterns that cut a text one after the other; whole: a piece that is a token is not
 * merged; nfc: after the normal form C. Returns false: they have none. (gguf_tokenizer.c) */
enum { QKV_VOCAB_PRE = 32, QKV_VOCAB_PATTERNS = 6 };
bool qkv_vocab_pre(const char *const *patterns, size_t count, bool whole, bool nfc, char name[QKV_VOCAB_PRE]);

/* Reads the tokens. Fails with QKV_FORMAT where the file has none. */
enum qkv_status qkv_vocab_begin(struct gguf_vocab *v);
enum gguf_vocab_type qkv_vocab_type(const struct gguf_vocab *v, size_t id);
/* The value of tokenizer.ggml.KEY: a text, a flag, and the id of a token, "tokenizer.ggml.KEY_token_id". */
enum qkv_status qkv_vocab_text(const struct gguf_vocab *v, const char *key, const char *fallback, char *out,
                               size_t size);
bool qkv_vocab_flag(const struct gguf_vocab *v, const char *key, bool fallback);
int qkv_vocab_id(const struct gguf_vocab *v, const char *key, int fallback); /* ids that no token has: the fallback */
/* The tokens with their ids, for model.vocab; added: also those that are found before the text is cut. Fails with
 * QKV_FORMAT at two tokens with one text. */
enum qkv_status qkv_vocab_keys(const struct gguf_vocab *v, bool added, json_t **out);
/* The merges that make tokens out of two others, that of the highest score first. */
enum qkv_status qkv_vocab_merges(const struct gguf_vocab *v, json_t **out);
/* The characters' map in base64; JSON null: there is none. */
json_t *qkv_vocab_charsmap(const struct gguf_vocab *v);
/* added_tokens and post_processor of a tokenizer.json; NULL: no memory. */
json_t *qkv_vocab_added(const struct gguf_vocab *v);
json_t *qkv_vocab_template(const struct gguf_vocab *v);
/* Gives tokens their roles. */
enum qkv_status qkv_vocab_roles(const struct gguf_vocab *v, struct qkv_tokenizer *t);

#endif
