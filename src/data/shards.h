/* shards: the documents of a mixture as token files of a limited size (tokens.c) in a folder, with an index that says
 * which files they were made of. They are made once: a run that is killed goes on behind the last shard, and runs with
 * the same files, tokenizer and options share them. docs/do/data.md describes both. */
#ifndef QKV_DATA_SHARDS_H
#define QKV_DATA_SHARDS_H

#include "data/documents.h"

#define QKV_SHARD_TOKENS ((uint64_t)1 << 26)
struct qkv_shard {
    uint64_t source;                 /* whose documents it has */
    uint64_t tokens, documents, end; /* end: tokens up to the end of the last document that ends in it */
    uint64_t bytes, hash;            /* of text; and of its ids */
    struct qkv_document_place place; /* behind it */
    uint64_t file_tokens;            /* of the file at that place, up to it */
    struct qkv_document_bad bad;     /* up to it; only the last shard has the sentences */
};
struct qkv_shards {
    struct qkv_context *ctx;
    struct qkv_shard *items;
    size_t count, capacity;
    bool complete;             /* all documents are in them */
    struct qkv_tokens *tokens; /* (count): open */
    char **paths;              /* (count) */
};
/* What shards are made of. */
struct qkv_shards_plan {
    struct qkv_context *ctx;
    const char *folder; /* is made if it is missing */
    struct qkv_text_files *files;
    const struct qkv_tokenizer *tokenizer;
    /* tokenizer and vocab are set. If bytes is 0, the run is new: the shards set the other facts. */
    struct qkv_text_facts *facts;
    const char *key; /* option text_key */
    bool skip_bad;
    uint64_t shard_tokens; /* of a shard, about */
    struct qkv_texts *notes;
    qkv_progress *progress;
    void *user;
};
/* Opens the shards, and makes those that are missing. Of facts that are known, the result is checked: QKV_FORMAT names
 * a file that has changed. Fails with QKV_FILE, QKV_FORMAT, QKV_MEMORY, QKV_STOPPED. */
enum qkv_status qkv_shards_open(const struct qkv_shards_plan *plan, struct qkv_shards *shards);
void qkv_shards_close(struct qkv_shards *shards);

/* ---- the index (shard_index.c) ----------------------------------------------------------------------------------- */

/* The name of its file begins so: the hash of all that ids depend on, except the contents of the files. */
uint64_t qkv_shards_key(const struct qkv_shards_plan *plan);
/* Reads FOLDER/KEY.json; no shards if it is missing or is of other files than they are now. `known`: facts are known,
 * and a complete index is used whatever the files are now. */
enum qkv_status qkv_shards_read(const struct qkv_shards_plan *plan, bool known, struct qkv_shards *shards);
enum qkv_status qkv_shards_write(const struct qkv_shards_plan *plan, const struct qkv_shards *shards);
/* Removes the index. */
void qkv_shards_forget(const struct qkv_shards_plan *plan);
/* FOLDER/KEY-NNNNN.bin as a heap string; NULL with the sentence recorded. */
char *qkv_shards_path(const struct qkv_shards_plan *plan, size_t i);
/* FOLDER/KEY.lock: who makes these shards has locked it. */
char *qkv_shards_lock(const struct qkv_shards_plan *plan);
/* Tokens and hash of all shards. */
void qkv_shards_sum(const struct qkv_shards_plan *plan, const struct qkv_shards *shards, struct qkv_text_facts *facts);

#endif
