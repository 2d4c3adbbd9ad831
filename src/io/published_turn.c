/* Repacking: matrices whose rows are in another order in a file than in the model, that is transposed, or mixed with
 * rows of other weights. The copy keeps the file's format, so it needs half the memory and a third of the time of a
 * copy in fp32. */
#include <stdlib.h>
#include <string.h>

#include "io/published_files.h"
#include "op/steps.h"

size_t *qkv_published_places(struct qkv_context *ctx, const struct qkv_family_view *view, size_t rows) {
    size_t *places = qkv_allocate(ctx, rows + 1, sizeof *places);
    for (size_t r = 0; places && r < rows; r++) places[r] = qkv_family_row(view, r);
    return places;
}

enum qkv_status qkv_published_repack(struct qkv_context *ctx, const struct qkv_family_view *view, const void *theirs,
                                     size_t rows, size_t columns, size_t width, void *ours) {
    /* Each head that is transposed for itself is a matrix, whose rows have the same places. */
    const bool transposed = view->flags & QKV_FAMILY_TRANSPOSED;
    const size_t parts = transposed && view->flags & QKV_FAMILY_BY_HEAD ? view->heads : 1, each = rows / parts;
    size_t *places = qkv_published_places(ctx, view, each);
    enum qkv_status status = places ? QKV_OK : QKV_MEMORY;
    for (size_t i = 0; i < parts && !status; i++)
        status = QKV_STEP(ctx, repack, .ours = (char *)ours + i * each * columns * width,
                          .theirs = (const char *)theirs + i * each * columns * width, .places = places, .rows = each,
                          .columns = columns, .width = width, .total = view->total / parts, .transposed = transposed);
    free(places);
    return status;
}

bool qkv_published_must_repack(const struct qkv_published_entry *entry, const struct qkv_weight *weight) {
    const enum qkv_dtype dtype = entry->theirs->dtype;
    const struct qkv_type *type = qkv_types[dtype];
    const unsigned flags = entry->view.flags;
    size_t bytes = 0; /* of theirs, if shapes agree */
    if (entry->packed) return qkv_weight_has_formats(weight);
    if (entry->direct || !qkv_weight_has_formats(weight) || !type->weights || dtype == QKV_F32) return false;
    if (type->block > 1 && flags & QKV_FAMILY_TRANSPOSED) return false; /* a block is a part of a row */
    return qkv_type_bytes(type, entry->view.total * entry->view.slices, weight->columns, &bytes) &&
           entry->theirs->bytes == bytes && !(flags & QKV_FAMILY_PLUS_ONE);
}

enum qkv_status qkv_published_room(struct qkv_published *p) {
    if (!p->repacked_bytes) return QKV_OK;
    enum qkv_status status = qkv_arena_create(p->ctx, &p->repacked, p->repacked_bytes, "repacked weights");
    for (size_t i = 0; i < p->entry_count && !status; i++) {
        struct qkv_published_entry *e = &p->entries[i];
        if (e->repacked) e->array.data = qkv_arena_take(&p->repacked, e->array.bytes, 1);
        if (e->repacked && !e->array.data) status = QKV_MEMORY;
    }
    return status;
}
