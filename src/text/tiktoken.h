/* tiktoken: ranks of byte-pair encoding, a line "BASE64 RANK" for each token, and what the family of a model adds to
 * them: the pattern that cuts texts, and special tokens. Files: tiktoken.c (the ranks), tiktoken_families.c. */
#ifndef QKV_TIKTOKEN_H
#define QKV_TIKTOKEN_H

#include <jansson.h>

#include "text/text.h"

struct qkv_tiktoken_family {
    const char *name;
    const char *types;   /* model_type of config.json, with spaces between them */
    const char *files;   /* usual names of the file */
    size_t count;        /* tokens of the family's own ranks; 0: they differ */
    const char *pattern; /* of Oniguruma */
    bool nfc;
    const char *specials; /* special tokens with ids after the ranks, with spaces between them */
    const char *numbered; /* more of them, which have a number: the text before it, and after it "|>" */
    int first, last;      /* their numbers; first −1: a number is the id */
    const char *before;   /* tokens that begin a text, with spaces between them; NULL: none */
};
extern const char qkv_pattern_kimi[]; /* of Kimi K2, which files name otherwise than by ranks */
/* The family of a model's type, of a file's name, or of ranks of that number; NULL: not known. type and file may be
 * NULL. */
const struct qkv_tiktoken_family *qkv_tiktoken_find(const char *type, const char *file, size_t count);
/* The names of all families, for messages. */
void qkv_tiktoken_names(char *out, size_t size);

/* Whether a file begins with a line of base64 and a number. */
bool qkv_tiktoken_is(const unsigned char *data, size_t size);
/* The number of tokens in a file, which is not checked. */
size_t qkv_tiktoken_count(const unsigned char *data, size_t size);
/* Makes the tokenizer.json of ranks. added: an object with the text of more special tokens by their ids, as
 * added_tokens_decoder of tokenizer_config.json, which replace those of the family with the same id; NULL: none. The
 * caller frees *root. Fails with QKV_FORMAT, QKV_MEMORY. */
enum qkv_status qkv_tiktoken_json(struct qkv_context *ctx, const char *name, const unsigned char *data, size_t size,
                                  const struct qkv_tiktoken_family *family, const json_t *added, json_t **root);

#endif
