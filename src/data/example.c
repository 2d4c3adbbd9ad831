/* One example of a file, as a batch of one sequence. */
#include <stdlib.h>

#include "model/spec.h"
#include "data/example_files.h"
#include "data/data.h"

struct qkv_example {
    struct qkv_example_files files;
    struct qkv_example_rows rows;
    struct qkv_batch batch;
};

/* With targets where the file has them. */
static enum qkv_status example_open(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path,
                                    struct qkv_example_files *files) {
    enum qkv_status status = spec->head.kind == QKV_HEAD_NONE ? QKV_OK : qkv_example_files_check(ctx, spec);
    if (!status) status = qkv_example_files_add_inputs(ctx, spec, path, files);
    if (status || spec->head.kind == QKV_HEAD_NONE) return status;
    if (!qkv_tensors_find(files->items[0].tensors, "in.targets")) return QKV_OK;
    qkv_example_files_close(files);
    *files = (struct qkv_example_files){0};
    return qkv_example_files_add(ctx, spec, path, files);
}

/* What is behind a length is nothing to look at; frames lie channel by channel, and stay. */
static void example_trim(struct qkv_batch *batch) {
    if (batch->lengths && !batch->frames) {
        batch->T = (size_t)batch->lengths[0];
        batch->lengths = NULL;
    }
    if (batch->source_lengths && !batch->source_frames) {
        batch->source_T = (size_t)batch->source_lengths[0];
        batch->source_lengths = NULL;
    }
}

enum qkv_status qkv_example_read(struct qkv_model *model, const char *path, size_t index,
                                 struct qkv_example **example) {
    QKV_CALL(qkv_model_context(model));
    QKV_NEED(qkv_call, model);
    QKV_NEED(qkv_call, path);
    QKV_NEED(qkv_call, example);
    struct qkv_context *ctx = qkv_model_context(model);
    struct qkv_example *e = *example = qkv_allocate(ctx, 1, sizeof *e);
    if (!e) return QKV_MEMORY;
    enum qkv_status status = example_open(ctx, qkv_model_spec(model), path, &e->files);
    if (!status && index >= e->files.count)
        status = qkv_fail(ctx, QKV_ARGUMENT, "%s has no example %zu; its examples are 0 to %zu", path, index,
                          e->files.count - 1);
    if (!status) status = qkv_example_rows_make(ctx, &e->files, 1, &e->rows);
    if (!status) status = qkv_example_files_row(&e->files, index, 0, &e->rows);
    if (!status) {
        e->batch.B = 1;
        qkv_example_files_batch(&e->files, &e->rows, &e->batch);
        example_trim(&e->batch);
        return QKV_OK;
    }
    qkv_example_free(e);
    *example = NULL;
    return status;
}

const struct qkv_batch *qkv_example_batch(const struct qkv_example *example) {
    return example ? &example->batch : NULL;
}

size_t qkv_example_count(const struct qkv_example *example) {
    return example ? example->files.count : 0;
}

void qkv_example_free(struct qkv_example *example) {
    if (!example) return;
    qkv_example_files_close(&example->files);
    qkv_example_rows_free(&example->rows);
    free(example);
}
