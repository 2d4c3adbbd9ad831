/* gguf_vocab_write.h: a tokenizer on its way into the keys of a GGUF file. */
#ifndef QKV_GGUF_VOCAB_WRITE_H
#define QKV_GGUF_VOCAB_WRITE_H

#include "io/gguf_vocab.h"
#include "io/gguf_write.h"
#include "model/model.h"

struct qkv_vocab_writing {
    struct qkv_context *ctx;
    struct qkv_gguf_writer *w;
    const struct qkv_model *m;
    const json_t *root, *model; /* of the tokenizer.json */
    size_t count;               /* ids of the model, which may be more than the tokenizer has */
    json_t *texts;              /* of each id */
    int32_t *types;             /* enum gguf_vocab_type */
    float *scores;
    size_t ends_left;   /* tokens that end a text and that no key is left for */
    const char *reason; /* why the keys cannot say it; NULL: they can */
};

/* Links of a tokenizer.json: whether one is of a type; the i-th link of a step that may be one link, or a Sequence of
 * them under the key `list`, NULL where there is none; and a flag of a link. */
bool qkv_link_is(const json_t *link, const char *type);
const json_t *qkv_link_at(const json_t *step, const char *list, size_t i);
bool qkv_link_flag(const json_t *link, const char *key, bool fallback);

/* Put the keys of a kind that are not the lists of tokens and types, and may change these. They set `reason` where the
 * keys cannot say the tokenizer. Fail with QKV_MEMORY. */
enum qkv_status qkv_vocab_put_bpe(struct qkv_vocab_writing *v);
enum qkv_status qkv_vocab_put_spm(struct qkv_vocab_writing *v);
enum qkv_status qkv_vocab_put_wordpiece(struct qkv_vocab_writing *v);
enum qkv_status qkv_vocab_put_unigram(struct qkv_vocab_writing *v);

#endif
