/* vocab_json: a tokenizer.json as tables of model.vocab and model.merges, which are nearly all of it, and JSON for the
 * rest. */
#ifndef QKV_VOCAB_JSON_H
#define QKV_VOCAB_JSON_H

#include "base/json_load.h"
#include "text/text.h"

struct qkv_vocab_merge {
    const char *left, *right; /* not zero-terminated; NULL: the entry is neither "a b" nor ["a", "b"] */
    uint32_t left_size, right_size;
};
struct qkv_vocab_json {
    json_t *root;            /* the file; model.vocab and model.merges may be empty in it */
    bool has_vocab;          /* model.vocab is an object, which `keys` has; Unigram's is a list */
    struct qkv_strings keys; /* in the order of the file; value: the id, −1 if it is not an integer from 0 on */
    struct qkv_vocab_merge *merges;
    size_t merge_count, merge_capacity;
    char *unescaped; /* texts of merges that have escapes in the file */
};
/* Reads a file of at most `max_size` bytes; `text` must outlive the tables. Fails as qkv_json_load does. */
enum qkv_status qkv_vocab_json_load(struct qkv_context *ctx, const struct qkv_json_text *text,
                                    struct qkv_vocab_json *out);
void qkv_vocab_json_free(struct qkv_vocab_json *vocab);

#endif
