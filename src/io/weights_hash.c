/* The identity of the weights that a run began with: their bytes and a hash, over all their files. */

#include <stdlib.h>

#include "io/gguf.h"
#include "io/io.h"
#include "io/published_files.h"

enum { BLOCK = 1 << 16 };

/* Adds a file block by block: weights may be larger than what memory is left. */
static enum qkv_status hash_add(struct qkv_context *ctx, const char *path, uint64_t *bytes, uint64_t *hash) {
    struct qkv_file file;
    enum qkv_status status = qkv_file_open(ctx, path, &file);
    if (status) return status;
    unsigned char *block = qkv_allocate(ctx, BLOCK, 1);
    if (!block) status = QKV_MEMORY;
    for (size_t at = 0; at < file.size && !status; at += BLOCK) {
        const size_t n = qkv_min(BLOCK, file.size - at);
        status = qkv_file_read(&file, at, block, n);
        if (!status) *hash = qkv_hash(*hash, block, n);
    }
    if (!status) *bytes += file.size;
    free(block);
    qkv_file_close(&file);
    return status;
}

enum qkv_status qkv_weights_hash(struct qkv_context *ctx, const char *path, uint64_t *bytes, uint64_t *hash) {
    struct qkv_model_place place;
    struct qkv_published *published = NULL;
    struct qkv_spec *spec = qkv_allocate(ctx, 1, sizeof *spec);
    bool found = false;
    *bytes = 0;
    *hash = QKV_HASH_START;
    enum qkv_status status = spec ? qkv_model_place(ctx, path, &place) : QKV_MEMORY;
    if (status) {
        free(spec);
        return status;
    }
    status = qkv_file_find(ctx, place.weights, &found);
    if (!status && !found) status = qkv_published_open(ctx, place.folder, true, &published, spec);
    qkv_spec_free(spec);
    free(spec);
    /* a GGUF file of architecture qkv is neither a folder of ours nor published */
    const char *own = !found && qkv_gguf_is(place.folder) ? place.folder : place.weights;
    if (!status && !published) status = hash_add(ctx, own, bytes, hash);
    for (size_t i = 0; published && i < published->count && !status; i++)
        status = hash_add(ctx, published->files[i].path, bytes, hash);
    qkv_published_close(published);
    qkv_model_place_free(&place);
    return status;
}
