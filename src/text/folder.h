/* folder.h: the files of a folder from which its tokenizer is read (tokenizer_folder.c). */
#ifndef QKV_FOLDER_H
#define QKV_FOLDER_H

#include "base/json_load.h"
#include "text/text.h"

enum { QKV_FOLDER_CONFIG_BYTES = 1 << 24, QKV_FOLDER_VOCAB_BYTES = 1 << 28 };

struct qkv_folder {
    struct qkv_context *ctx;
    const char *path;
    json_t *config, *map; /* tokenizer_config.json, special_tokens_map.json; NULL: missing */
    json_t *added;        /* added_tokens.json, for the older files */
    bool lowers;          /* sentence-transformers converts texts to lower case before the tokenizer */
    struct qkv_tokenizer *t;
};

/* ---- what the files say (folder_files.c) ----------------------------------------------------------------------- */

/* The keys of the configuration that name special tokens. */
extern const char *const qkv_role_keys[QKV_TOKEN_ROLES];

bool qkv_folder_has(const struct qkv_folder *folder, const char *file);
/* Reads a JSON file of the folder of at most `max` bytes; *root is NULL if it is missing. */
enum qkv_status qkv_folder_json(const struct qkv_folder *folder, const char *file, size_t max, json_t **root);
/* A special token of the configuration: its text, or an object with it; NULL: not named. */
const char *qkv_folder_special(const struct qkv_folder *folder, const char *key);

/* ---- the older files (folder_vocab.c) ---------------------------------------------------------------------------- */

/* Adds a token to the list added_tokens of a tokenizer.json. */
void qkv_folder_add(json_t *list, const char *text, json_int_t id, bool special);
/* Makes a tokenizer.json of vocab.json and merges.txt. */
enum qkv_status qkv_folder_merges(const struct qkv_folder *folder, json_t **root);
/* The same of vocab.txt. */
enum qkv_status qkv_folder_vocab(const struct qkv_folder *folder, json_t **root);

#endif
