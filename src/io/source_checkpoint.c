/* A checkpoint of a run: weights, and tensors of the optimizer, which a model does not need. Its metadata has the spec
 * itself and not the spec's digest. The file of a folder may be a checkpoint too. */
#include <stdlib.h>
#include <string.h>

#include "io/opening.h"
#include "io/safetensors.h"
#include "model/spec.h"

static enum qkv_status checkpoint_find(struct qkv_opening *o, bool *mine) {
    enum qkv_status status = qkv_own_open(o);
    const char *format = status ? NULL : qkv_tensors_metadata(o->state, "format");
    *mine = format && strcmp(format, QKV_CHECKPOINT_FORMAT) == 0;
    return status;
}

static enum qkv_status checkpoint_check(struct qkv_opening *o) {
    const char *saved = qkv_tensors_metadata(o->file.owner, QKV_DIGEST_KEY),
               *spec = qkv_tensors_metadata(o->file.owner, "spec");
    char digest[QKV_DIGEST_TEXT];
    struct qkv_spec *parsed = NULL;
    enum qkv_status status = qkv_own_check(o, QKV_CHECKPOINT_OPTIMIZER);
    if (!status && spec && !o->options.ignore_digest) {
        parsed = qkv_allocate(o->ctx, 1, sizeof *parsed);
        status = parsed ? qkv_spec_parse(o->ctx, parsed, qkv_tensors_path(o->file.owner), spec, strlen(spec), NULL, 0)
                        : QKV_MEMORY;
        if (!status) status = qkv_spec_digest(o->ctx, parsed, digest);
        saved = digest;
    }
    qkv_spec_free(parsed);
    free(parsed);
    return status ? status : qkv_own_check_digest(o, saved);
}

const struct qkv_source qkv_source_checkpoint = {.name = "checkpoint",
                                                 .help = "a checkpoint in the folder of a run",
                                                 .find = checkpoint_find,
                                                 .match = qkv_own_match,
                                                 .check = checkpoint_check,
                                                 .bytes = qkv_own_bytes,
                                                 .read = qkv_own_read,
                                                 .read_texts = qkv_own_read_texts,
                                                 .close = qkv_own_close};
