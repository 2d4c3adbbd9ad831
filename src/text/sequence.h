/* sequence: a line of text as the ids that a model of lines is trained on, and asked with. Training and use share it, so that
 * they cannot differ. */
#ifndef QKV_SEQUENCE_H
#define QKV_SEQUENCE_H

#include "base/base.h"

/* The ids of a text, after <s> with `begin` and before </s> with `end`, each where the tokenizer has it. Special tokens written
 * in the text are spelled out. *ids is freed with qkv_free. */
enum qkv_status qkv_sequence_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text,
                                    size_t size, bool begin, bool end, int32_t **ids, size_t *count);
/* The same for what an encoder reads, a source or a text alone. A tokenizer with a template (qkv_tokenizer_template) places
 * its own tokens around the text, in place of <s> and </s>: what it was made with decides. */
enum qkv_status qkv_source_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  bool begin, bool end, int32_t **ids, size_t *count);
/* The ids of a text in which each QKV_TOKEN_MASK becomes the id `mask`; no other special is looked for, and
 * the tokenizer's template is placed around it. Where tokens bring their
 * leading space along (words, bpe), spaces before a mask belong to what it hides. */
enum qkv_status qkv_masked_encode(struct qkv_context *ctx, const struct qkv_tokenizer *t, const char *text, size_t size,
                                  int32_t mask, int32_t **ids, size_t *count);
/* Whether a line holds nothing but ASCII white space. */
bool qkv_is_blank(const char *text, size_t size);

/* Gives a tokenizer one more special token, behind all others. */
enum qkv_status qkv_tokenizer_add_special(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *text);

#endif
