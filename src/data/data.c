/* The data of a run: its beginning and end, and the rows of its batches. */
#include <stdlib.h>

#include "data/data.h"

enum qkv_status qkv_data_begin(struct qkv_data *d, const char *folder) {
    d->folder = folder;
    d->data_path = qkv_join_path(d->ctx, folder, QKV_TOKENS_DATA_FILE);
    d->valid_path = qkv_join_path(d->ctx, folder, QKV_TOKENS_VALID_FILE);
    d->beside_data_path = qkv_join_path(d->ctx, folder, QKV_BESIDE_DATA_FILE);
    d->beside_valid_path = qkv_join_path(d->ctx, folder, QKV_BESIDE_VALID_FILE);
    return d->data_path && d->valid_path && d->beside_data_path && d->beside_valid_path ? QKV_OK : QKV_MEMORY;
}

void qkv_data_facts_free(struct qkv_data_facts *facts) {
    qkv_text_files_free(&facts->data_files);
    qkv_text_files_free(&facts->valid_files);
}

void qkv_data_free(struct qkv_data *d) {
    if (d->dataset && d->dataset->close) d->dataset->close(d);
    qkv_tokens_close(&d->windows.data_tokens);
    qkv_tokens_close(&d->windows.valid_tokens);
    qkv_examples_free(&d->lines.examples);
    qkv_examples_free(&d->lines.valid_examples);
    qkv_batches_free(&d->lines.batches);
    qkv_batches_free(&d->lines.valid_batches);
    free(d->lines.shapes);
    free(d->lines.validation_shapes);
    qkv_tokenizer_free(d->tokenizer);
    qkv_tokenizer_free(d->source_tokenizer);
    for (size_t i = 0; i < d->label_count; i++) free(d->labels[i]);
    free(d->labels);
    qkv_chat_template_free(d->templates);
    free(d->rows.ids);
    free(d->rows.targets);
    free(d->rows.source);
    free(d->rows.lengths);
    free(d->rows.source_lengths);
    free(d->rows.types);
    free(d->rows.documents);
    free(d->rows.prefix);
    free(d->data_path);
    free(d->valid_path);
    free(d->beside_data_path);
    free(d->beside_valid_path);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

void qkv_data_widen(struct qkv_data_extent *most, const struct qkv_pass_shape *shapes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct qkv_pass_shape *s = &shapes[i];
        if (s->B > most->B) most->B = s->B;
        if (s->T > most->T) most->T = s->T;
        if (s->source_T > most->source_T) most->source_T = s->source_T;
        if (s->B * s->T > most->positions) most->positions = s->B * s->T;
        if (s->B * s->source_T > most->source_positions) most->source_positions = s->B * s->source_T;
    }
}

enum qkv_status qkv_data_take_rows(struct qkv_data *d) {
    struct qkv_data_extent most = {.B = d->B, .T = d->T};
    struct qkv_row_buffers *rows = &d->rows;
    const struct qkv_train_options *o = d->options;
    const bool types = d->dataset->reads == QKV_READS_ARRAYS;
    if (!d->lines.shape_count &&
        (!qkv_multiply(d->B, d->T, &most.positions) || !qkv_multiply(d->B, d->source_T, &most.source_positions)))
        return qkv_fail_memory(d->ctx, SIZE_MAX, "the ids of a batch");
    qkv_data_widen(&most, d->lines.shapes, d->lines.shape_count);
    qkv_data_widen(&most, d->lines.validation_shapes, d->lines.validation_shape_count);
    d->B = most.B;
    rows->positions = most.positions;
    rows->source_positions = most.source_positions;
    rows->ids = qkv_allocate(d->ctx, most.positions, sizeof *rows->ids);
    rows->targets = qkv_allocate(d->ctx, most.positions, sizeof *rows->targets);
    rows->source = qkv_allocate(d->ctx, most.source_positions + 1, sizeof *rows->source);
    rows->lengths = qkv_allocate(d->ctx, most.B, sizeof *rows->lengths);
    rows->source_lengths = qkv_allocate(d->ctx, most.B, sizeof *rows->source_lengths);
    if (types) rows->types = qkv_allocate(d->ctx, most.positions, sizeof *rows->types);
    if (o->documents) rows->documents = qkv_allocate(d->ctx, most.positions, sizeof *rows->documents);
    if (o->prefix) rows->prefix = qkv_allocate(d->ctx, most.B, sizeof *rows->prefix);
    const bool taken = rows->ids && rows->targets && rows->source && rows->lengths && rows->source_lengths &&
                       !rows->documents == !o->documents && !rows->types == !types && !rows->prefix == !o->prefix;
    return taken ? QKV_OK : QKV_MEMORY;
}

size_t qkv_data_bytes(const struct qkv_data *d) {
    const struct qkv_row_buffers *rows = &d->rows;
    size_t ids = 2 * rows->positions + rows->source_positions + 2 * d->B;
    ids += (rows->documents ? rows->positions : 0) + (rows->types ? rows->positions : 0) + (rows->prefix ? d->B : 0);
    return ids * sizeof(int32_t) + qkv_lines_bytes(d);
}
