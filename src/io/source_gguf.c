/* A GGUF file, or the first of several: the keys and tensors of a model of a family, and its tokenizer. */
#include "io/gguf.h"
#include "io/opening.h"

static enum qkv_status gguf_find(struct qkv_opening *o, bool *mine) {
    *mine = false;
    return qkv_gguf_is(o->place.folder) ? qkv_theirs_open(o, mine) : QKV_OK;
}

const struct qkv_source qkv_source_gguf = {.name = "gguf",
                                           .help = "a GGUF file, or the first of several",
                                           .find = gguf_find,
                                           .match = qkv_theirs_match,
                                           .check = qkv_theirs_check,
                                           .bytes = qkv_theirs_bytes,
                                           .take = qkv_theirs_take,
                                           .read = qkv_theirs_read,
                                           .read_texts = qkv_theirs_read_texts,
                                           .close = qkv_theirs_close};
