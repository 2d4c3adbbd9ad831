/* decoder_rows: the rows of a decoder: the source of each, the row that it continues, and its length. Rows that
 * continue the same row share its pages until they differ. */
#include "model/decode.h"
#include "op/steps.h"

size_t qkv_decoder_rows(const struct qkv_decoder *d) {
    if (!d) return 0;
    return d->rows;
}

size_t qkv_decoder_row_length(const struct qkv_decoder *d, size_t row) {
    if (!d) return 0;
    return row < d->rows ? d->reached[row] : 0;
}

size_t qkv_decoder_length(const struct qkv_decoder *d) {
    if (!d) return 0;
    size_t length = 0;
    for (size_t r = 0; r < d->rows; r++)
        if (d->reached[r] > length) length = d->reached[r];
    return length;
}

struct qkv_cache_pages qkv_decoder_pages(const struct qkv_decoder *d) {
    if (!d) return (struct qkv_cache_pages){0};
    return qkv_decode_pages(d->pool);
}

/* ---- selecting --------------------------------------------------------------------------------------------------- */

/* Selects rows without their scores. */
static enum qkv_status decoder_move(struct qkv_decoder *d, const size_t *from, size_t count) {
    struct qkv_context *ctx = d->model->ctx;
    if (!from || count < 1 || count > d->most)
        return qkv_fail(ctx, QKV_ARGUMENT, "cannot select %zu rows; the decoder was made for 1 to %zu", count, d->most);
    for (size_t r = 0; r < count; r++)
        if (from[r] >= d->rows)
            return qkv_fail(ctx, QKV_ARGUMENT, "row %zu cannot continue row %zu: there are only %zu rows", r, from[r],
                            d->rows);
    for (size_t r = 0; r < count; r++) {
        qkv_page_list_fork(d->pool, &d->next_lists[r], &d->lists[from[r]]);
        d->next_sources[r] = d->sources[from[r]];
        d->next_decided[r] = d->decided[from[r]];
        d->next_adapters[r] = d->adapters[from[r]];
    }
    for (size_t r = 0; r < d->rows; r++) qkv_page_list_truncate(d->pool, &d->lists[r], 0);
    struct qkv_page_list *lists = d->lists;
    int32_t *sources = d->sources, *decided = d->decided, *adapters = d->adapters;
    d->lists = d->next_lists, d->next_lists = lists;
    d->sources = d->next_sources, d->next_sources = sources;
    d->decided = d->next_decided, d->next_decided = decided;
    d->adapters = d->next_adapters, d->next_adapters = adapters;
    for (size_t r = 0; r < count; r++) d->reached[r] = d->lists[r].length;
    d->rows = count;
    d->scored = 0;
    return QKV_OK;
}

void qkv_decoder_move_rows(struct qkv_decoder *d, size_t first, const size_t *from, size_t count, size_t width) {
    for (size_t i = 0; i < count; i++)
        qkv_page_list_fork(d->pool, &d->next_lists[first + i], &d->lists[first + from[i]]);
    for (size_t r = first; r < first + width; r++) {
        qkv_page_list_truncate(d->pool, &d->lists[r], 0);
        const struct qkv_page_list list = d->lists[r];
        d->lists[r] = d->next_lists[r];
        d->next_lists[r] = list;
        d->reached[r] = d->lists[r].length;
    }
}

enum qkv_status qkv_decoder_select(struct qkv_decoder *d, const size_t *from, size_t count) {
    QKV_CALL(d ? d->model->ctx : NULL);
    QKV_NEED(qkv_call, d);
    QKV_NEED_ALL(qkv_call, count, from);
    struct qkv_context *ctx = d->model->ctx;
    const bool scored = d->scored == d->rows;
    const size_t V = (size_t)d->model->spec.vocab, held = d->scored;
    enum qkv_status status = decoder_move(d, from, count);
    if (status || !scored) {
        if (status) d->scored = held;
        return status;
    }
    if (d->most > 1) {
        qkv_arena_release(&d->arena, 0);
        float *copy = qkv_arena_take(&d->arena, count, V * sizeof(float));
        if (!copy) return QKV_MEMORY;
        for (size_t r = 0; r < count; r++) d->chosen[r] = (int32_t)from[r];
        status =
            QKV_STEP(ctx, take_rows, .to = copy, .from = d->scores, .index = d->chosen, .rows = count, .columns = V);
        if (!status) status = QKV_STEP(ctx, copy, .to = d->scores, .from = copy, .bytes = count * V * sizeof(float));
        if (status) return status;
    }
    d->scored = count;
    return QKV_OK;
}

/* ---- forgetting and forking -------------------------------------------------------------------------------------- */

void qkv_decoder_shorten(struct qkv_decoder *d, size_t row, size_t length) {
    if (length >= d->reached[row]) return;
    qkv_page_list_truncate(d->pool, &d->lists[row], length);
    d->reached[row] = length;
    d->scored = 0;
}

void qkv_decoder_truncate(struct qkv_decoder *d, size_t row, size_t length) {
    if (!d) return;
    if (row < d->rows) qkv_decoder_shorten(d, row, length);
}
