/* A published folder: config.json of a family, weights in one safetensors file or in several with an index. */
#include "io/opening.h"

static enum qkv_status published_find(struct qkv_opening *o, bool *mine) {
    *mine = false;
    return o->place.named ? QKV_OK : qkv_theirs_open(o, mine);
}

const struct qkv_source qkv_source_published = {.name = "published",
                                                .help = "a folder of Hugging Face transformers",
                                                .find = published_find,
                                                .match = qkv_theirs_match,
                                                .check = qkv_theirs_check,
                                                .bytes = qkv_theirs_bytes,
                                                .take = qkv_theirs_take,
                                                .read = qkv_theirs_read,
                                                .read_texts = qkv_theirs_read_texts,
                                                .close = qkv_theirs_close};
