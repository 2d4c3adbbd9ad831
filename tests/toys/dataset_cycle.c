/* A toy: a kind of training data. Its file holds a whole number N, and a model of any vocabulary of N learns to count:
 * 0, 1, …, N - 1, 0, …, from any number on. */
#include <stdlib.h>

#include "data/data.h"
#include "model/spec.h"

struct cycle {
    size_t length;
};

static size_t cycle_length(const struct qkv_data *d) {
    const struct cycle *cycle = d->own;
    return cycle->length;
}

static enum qkv_status cycle_check(struct qkv_context *ctx, const struct qkv_train_options *options,
                                   const struct qkv_spec *spec) {
    (void)options;
    return qkv_text_model_check(ctx, spec);
}

/* The number in the file, which the facts of the run then know. */
static enum qkv_status cycle_read(struct qkv_data *d, size_t *length) {
    struct qkv_data_facts *facts = d->facts;
    struct qkv_text_file *file = &facts->data_files.items[0];
    struct qkv_map map = {0};
    const bool fresh = facts->data.bytes == 0;
    char text[8] = "";
    enum qkv_status status = qkv_read_file(d->ctx, file->path, &map);
    if (status) return status;
    for (size_t i = 0; i + 1 < sizeof text && i < map.size; i++) text[i] = (char)map.data[i];
    *length = (size_t)strtoul(text, NULL, 10);
    const uint64_t hash = qkv_hash(QKV_HASH_START, map.data, map.size);
    file->bytes = map.size;
    file->tokens = *length;
    qkv_unmap_file(&map);
    if (!fresh && hash != file->hash)
        return qkv_fail(d->ctx, QKV_FORMAT, "%s has changed since the run began", file->path);
    file->hash = hash;
    qkv_text_files_sum(&facts->data_files, &facts->data);
    facts->data.tokens = *length;
    facts->data.vocab = 1; /* there is no tokenizer */
    if (*length > 1) return QKV_OK;
    return qkv_fail(d->ctx, QKV_FORMAT, "%s: a cycle has two numbers or more", file->path);
}

static enum qkv_status cycle_prepare(struct qkv_data *d, struct qkv_spec *spec) {
    size_t length;
    enum qkv_status status = cycle_read(d, &length);
    if (!status) status = qkv_vocab_agree(d->ctx, "vocab", &spec->vocab, (int)length);
    return status ? status : qkv_spec_check(d->ctx, spec);
}

static enum qkv_status cycle_restore(struct qkv_data *d) {
    (void)d;
    return QKV_OK;
}

static enum qkv_status cycle_open(struct qkv_data *d) {
    const struct qkv_train_options *o = d->options;
    struct cycle *cycle = d->own = qkv_allocate(d->ctx, 1, sizeof *cycle);
    d->B = (size_t)((o->batch + o->accumulate - 1) / o->accumulate);
    return cycle ? cycle_read(d, &cycle->length) : QKV_MEMORY;
}

static enum qkv_status cycle_begin(struct qkv_data *d, uint64_t step, struct qkv_dataset_step *out) {
    const size_t rows = (size_t)d->options->batch;
    (void)step;
    *out = (struct qkv_dataset_step){.rows = rows, .targets = rows * d->T, .tokens = rows * d->T};
    return QKV_OK;
}

static void cycle_row(const struct qkv_data *d, size_t row, size_t first) {
    for (size_t i = 0; i < d->T; i++) {
        d->rows.ids[row * d->T + i] = (int32_t)((first + i) % cycle_length(d));
        d->rows.targets[row * d->T + i] = (int32_t)((first + i + 1) % cycle_length(d));
    }
}

static enum qkv_status cycle_fill(struct qkv_data *d, uint64_t step, size_t begin, size_t end,
                                  struct qkv_batch *batch) {
    for (size_t r = begin; r < end; r++)
        cycle_row(d, r - begin, qkv_draw_window((uint64_t)d->options->seed, step, r, cycle_length(d)));
    batch->B = end - begin;
    batch->T = d->T;
    return QKV_OK;
}

static double cycle_epoch(const struct qkv_data *d) {
    return (double)cycle_length(d) / ((double)d->options->batch * (double)d->T);
}

static uint64_t cycle_total(struct qkv_data *d, uint64_t step) {
    return (step + 1) * (uint64_t)d->options->batch * d->T;
}

static void cycle_count(const struct qkv_data *d, struct qkv_data_counts *counts) {
    counts->tokens = counts->valid_tokens = cycle_length(d);
}

static enum qkv_status cycle_validate(struct qkv_data *d, struct qkv_pass *pass, double *loss, double *metric) {
    const struct qkv_batch batch = {.B = d->B, .T = d->T, .ids = d->rows.ids, .targets = d->rows.targets};
    size_t counted;
    for (size_t r = 0; r < d->B; r++) cycle_row(d, r, r);
    enum qkv_status status = qkv_pass_forward(pass, &batch);
    if (!status) *loss = *metric = qkv_pass_loss(pass, &counted);
    return status;
}

static void cycle_close(struct qkv_data *d) {
    free(d->own);
}

const struct qkv_dataset qkv_dataset_cycle = {
    QKV_DATASET_OPTION(cycle), .noun = "a cycle",          .nouns = "cycles",        .reads = QKV_READS_ARRAYS,
    .check = cycle_check,      .prepare = cycle_prepare,   .restore = cycle_restore, .open = cycle_open,
    .begin = cycle_begin,      .fill = cycle_fill,         .epoch = cycle_epoch,     .total = cycle_total,
    .count = cycle_count,      .validate = cycle_validate, .close = cycle_close,
};
