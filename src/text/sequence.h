/* sequence: a line of text as the ids that a model of lines is trained on, and asked with (qkv_sequence_encode and the like, in
 * qkv/sequences.h). Training and use share it, so that they cannot differ. */
#ifndef QKV_SEQUENCE_H
#define QKV_SEQUENCE_H

#include "base/base.h"

/* Whether a line holds nothing but ASCII white space. */
bool qkv_is_blank(const char *text, size_t size);

/* Gives a tokenizer one more special token, behind all others. */
enum qkv_status qkv_tokenizer_add_special(struct qkv_context *ctx, struct qkv_tokenizer *t, const char *text);

#endif
