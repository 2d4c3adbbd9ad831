/* example_files: safetensors files of examples: in.pixels, in.features, in.vectors or in.ids, whichever a model
 * reads, and in.targets. Of an encoder beside a decoder: what the encoder reads, in.source where that is tokens; and
 * in.ids and in.targets of the decoder. Of ids in.token_types, where the embedding has types. Another array in.* is
 * refused, as nothing would come of it. */
#ifndef QKV_DATA_EXAMPLE_FILES_H
#define QKV_DATA_EXAMPLE_FILES_H

#include "base/base.h"

struct qkv_example_file {
    struct qkv_tensors *tensors;
    /* lengths NULL: all are whole; targets NULL: none are asked for */
    const struct qkv_array *input, *targets, *lengths;
    const struct qkv_array *source, *source_lengths; /* of an encoder beside a decoder; lengths as above */
    const struct qkv_array *types;                   /* of ids; NULL: all 0 */
    size_t first;                                    /* the number of its first example */
};
/* What a stack reads of an example. */
struct qkv_example_side {
    size_t T, frames; /* positions, and frames where there are some; T 0: there is no such side */
    size_t shape[3];
    int rank;    /* of that */
    bool tokens; /* ids, not numbers */
};
/* Files one after the other, of the same shapes. */
struct qkv_example_files {
    struct qkv_example_file *items;
    size_t file_count, capacity;
    size_t count;                          /* examples in all of them */
    size_t T;                              /* positions of an example's input */
    struct qkv_example_side input, source; /* source: of an encoder beside a decoder */
    bool by_position;                      /* a target for each position, not one for each example */
    size_t classes;                        /* the largest target, and one more */
};
/* Whether a model can learn from examples, or be asked about them: with a head. QKV_SPEC. */
enum qkv_status qkv_example_files_check(struct qkv_context *ctx, const struct qkv_spec *spec);
/* Opens one more file and checks all of it: names, shapes, types, that numbers are finite, and that ids, lengths and
 * targets are in range (of classes 0: at least 0). QKV_FORMAT names the file and what is wrong. */
enum qkv_status qkv_example_files_add(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path,
                                      struct qkv_example_files *files);
/* The same without in.targets. */
enum qkv_status qkv_example_files_add_inputs(struct qkv_context *ctx, const struct qkv_spec *spec, const char *path,
                                             struct qkv_example_files *files);
void qkv_example_files_close(struct qkv_example_files *files);
/* Numbers of what an example's first stack reads; 0 of ids. */
size_t qkv_example_files_floats(const struct qkv_example_files *files);

/* Where rows of a batch go, each with room for all rows. */
struct qkv_example_rows {
    float *features;
    int32_t *ids, *lengths, *targets;
    int32_t *source, *source_lengths; /* of an encoder beside a decoder; source: where that reads tokens */
    int32_t *types;                   /* as ids */
};
/* Room for B rows; and frees it. */
enum qkv_status qkv_example_rows_make(struct qkv_context *ctx, const struct qkv_example_files *files, size_t B,
                                      struct qkv_example_rows *rows);
void qkv_example_rows_free(struct qkv_example_rows *rows);
/* Reads example i as row r. QKV_FILE. */
enum qkv_status qkv_example_files_row(const struct qkv_example_files *files, size_t i, size_t r,
                                      const struct qkv_example_rows *rows);
/* A batch of B rows that have been filled. */
void qkv_example_files_batch(const struct qkv_example_files *files, const struct qkv_example_rows *rows,
                             struct qkv_batch *batch);
/* Positions of an example, and targets of it that count. QKV_FILE. */
enum qkv_status qkv_example_files_count(const struct qkv_example_files *files, size_t i, size_t *tokens,
                                        size_t *targets);

/* What a pass says of batches with targets. */
struct qkv_example_score {
    double nll;
    size_t counted, right;
};
/* Adds a batch that has gone through the pass; confusion (classes, classes) or NULL: counts truth × found. */
void qkv_example_score(const struct qkv_example_files *files, const struct qkv_pass *pass,
                       const struct qkv_batch *batch, struct qkv_example_score *score, size_t *confusion);

#endif
