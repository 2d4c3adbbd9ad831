/* spm: models of SentencePiece (sentencepiece_model.proto), read from a file and written as a tokenizer.json.
 *
 * A tokenizer.json of such a model has the standard links, which other readers use, and keys that only this library
 * reads and that say what these links cannot:
 *
 *   normalizer.sentencepiece     charsmap by the longest prefix of bytes, symbols of the user that stay, spaces
 *   pre_tokenizer.sentencepiece  texts are not cut
 *   decoder.sentencepiece        spaces at the beginning, bytes that are not UTF-8, the surface of the unknown token
 *   model.piece_types            a digit for each token: enum qkv_spm_type; 0: no piece of the model
 *   model.merge_groups           sizes of groups of merges of one rank: of these, the leftmost in a text is first
 *
 * Files: spm_file.c (the file), spm_merges.c (merges of scores), spm_json.c (the tokenizer.json),
 * spm_families.c (what families of models add), chain_spm.c (the links), chain_unigram.c (the model). */
#ifndef QKV_SPM_H
#define QKV_SPM_H

#include "text/chain.h"

#define QKV_SPM_KEY  "sentencepiece"
#define QKV_SPM_MARK "\xE2\x96\x81" /* U+2581 stands for a space */

struct qkv_spm_piece {
    const char *text; /* UTF-8 without U+0000, not zero-terminated */
    size_t size;
    float score;
    enum qkv_spm_type type;
};
struct qkv_spm {
    struct qkv_spm_piece *pieces; /* by id */
    size_t count, capacity;
    const char *name;   /* of the file, for messages */
    bool unigram;       /* else byte-pair encoding */
    bool characters;    /* without merges */
    bool byte_fallback; /* characters without a piece become bytes */
    const char *charsmap;
    size_t charsmap_size;
    bool prefix, single_spaces, escapes; /* add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces */
    const char *unknown_surface;         /* the text that the unknown token is decoded to */
    size_t unknown_surface_size;
    int64_t ids[3]; /* of the tokens that begin and end a text, and of padding, as the trainer wrote them; −1: none */
};

/* Reads a file. Texts point into `data`. Fails with QKV_FORMAT, QKV_MEMORY. Free the model also after a failure. */
enum qkv_status qkv_spm_read(struct qkv_context *ctx, const char *name, const unsigned char *data, size_t size,
                             struct qkv_spm *out);
void qkv_spm_free(struct qkv_spm *spm);
/* Whether a file begins as a model of SentencePiece does: with a piece, or the settings of its training. */
bool qkv_spm_is(const unsigned char *data, size_t size);

/* The tokens around a text, and added tokens, of a family's tokenizer. */
struct qkv_spm_family {
    const char *before, *after; /* tokens around a text; NULL: none */
    json_t *first;              /* normalizers before the model's own; NULL: none */
    json_t *added;              /* more added_tokens; NULL: none */
    const char *mask;           /* a special token that takes the white space before it; NULL: none */
    char *texts;                /* memory of pieces that were added */
    bool unknown_special;       /* the unknown token is found in trusted texts */
};
/* Makes the tokenizer.json. family may be NULL. The caller frees *root. Fails with QKV_FORMAT, QKV_MEMORY. */
enum qkv_status qkv_spm_json(struct qkv_context *ctx, const struct qkv_spm *spm, const struct qkv_spm_family *family,
                             json_t **root);

/* ---- families (spm_families.c) ----------------------------------------------------------------------------------- */

/* What a model's folder says of its tokenizer. Each may be NULL. */
struct qkv_spm_folder {
    const json_t *model, *config, *added; /* config.json, tokenizer_config.json, added_tokens.json */
    const char *begin, *end;              /* bos_token and eos_token */
};
/* Changes the pieces of a model as the tokenizers of its family do, and sets what they add. Free *out also after a
 * failure. Fails with QKV_FORMAT for families whose tokens are not known, and with QKV_MEMORY. */
enum qkv_status qkv_spm_adapt(struct qkv_context *ctx, struct qkv_spm *spm, const struct qkv_spm_folder *folder,
                              struct qkv_spm_family *out);
void qkv_spm_family_free(struct qkv_spm_family *family);
/* The id of the piece with a text, or −1. (spm_json.c) */
json_int_t qkv_spm_id(const struct qkv_spm *spm, const char *text);

/* ---- merges of scores (spm_merges.c) ----------------------------------------------------------------------------- */

struct qkv_scored {
    const char *text;
    size_t size;
    float score;
    bool joins; /* merges make and join it */
};
/* All merges that make a token of two others, those of the highest score first: a list of ["a", "b"]. *groups: the
 * sizes of groups with one score; NULL: not wanted. Fails with QKV_MEMORY. */
enum qkv_status qkv_scored_merges(struct qkv_context *ctx, const struct qkv_scored *tokens, size_t count,
                                  json_t **merges, json_t **groups);

/* ---- base64 ------------------------------------------------------------------------------------------------------ */

/* Bytes in base64, a JSON string; NULL: no memory. (spm_json.c) */
json_t *qkv_base64_json(struct qkv_context *ctx, const unsigned char *bytes, size_t size);

#endif
