/* vocab_json: a tokenizer.json in two halves: model.vocab and model.merges, which are nearly all of it, as tables; the rest as JSON. */
#ifndef QKV_VOCAB_JSON_H
#define QKV_VOCAB_JSON_H

#include "base/json_load.h"
#include "text/text.h"

struct qkv_vocab_merge {
    const char *left, *right; /* not zero-terminated; NULL: the entry is neither "a b" nor ["a", "b"] */
    uint32_t left_size, right_size;
};
struct qkv_vocab_json {
    json_t *root;            /* the file, but what is in the tables may be left out: both are empty there */
    bool has_vocab;          /* model.vocab is an object, and `keys` has it; that of Unigram is a list */
    struct qkv_strings keys; /* in the order of the file; value: the id, -1 where that is no integer from 0 on */
    struct qkv_vocab_merge *merges;
    size_t merge_count, merge_capacity;
    char *unescaped; /* texts of merges that the file spells otherwise */
};
/* Reads a file of at most `max_size` bytes; `text` must live as long as the tables. Failures as of qkv_json_load. */
enum qkv_status qkv_vocab_json_load(struct qkv_context *ctx, const struct qkv_json_text *text,
                                    struct qkv_vocab_json *out);
void qkv_vocab_json_free(struct qkv_vocab_json *vocab);

#endif
