/* One safetensors file with weights under our names; config.json and the texts are next to it. */
#include "io/opening.h"
#include "io/safetensors.h"
#include "model/spec.h"

static enum qkv_status file_find(struct qkv_opening *o, bool *mine) {
    *mine = o->place.named;
    return *mine ? qkv_own_open(o) : QKV_OK;
}

static enum qkv_status file_check(struct qkv_opening *o) {
    enum qkv_status status = qkv_own_check(o, NULL);
    return status ? status : qkv_own_check_digest(o, qkv_tensors_metadata(o->file.owner, QKV_DIGEST_KEY));
}

const struct qkv_source qkv_source_file = {.name = "file",
                                           .help = "a safetensors file in such a folder",
                                           .find = file_find,
                                           .match = qkv_own_match,
                                           .check = file_check,
                                           .bytes = qkv_own_bytes,
                                           .read = qkv_own_read,
                                           .read_texts = qkv_own_read_texts,
                                           .close = qkv_own_close};
