/* tensor_file.h: an open file of named tensors, as the readers of its format fill it in. */
#ifndef QKV_TENSOR_FILE_H
#define QKV_TENSOR_FILE_H

#include <jansson.h>

#include "io/safetensors.h"

struct qkv_tensors {
    struct qkv_file file;
    struct qkv_map map; /* has the data of arrays; the header is a heap block */
    char *path;
    json_t *root;             /* of safetensors: owns the names and the metadata; NULL: there is none */
    char *names;              /* owns the names of other formats */
    struct qkv_array *arrays; /* in the order of the data */
    const struct qkv_array **by_name;
    size_t count;
};
/* Opens and maps a file, whose tensors the caller then lists. The caller closes *out with qkv_tensors_close, also after
 * a failure; NULL: there is no memory. */
enum qkv_status qkv_tensors_begin(struct qkv_context *ctx, const char *path, struct qkv_tensors **out);
/* Sorts the tensors by their data, and makes the index by name. */
void qkv_tensors_sort(struct qkv_tensors *tensors);
/* Fails with "PATH: tensor "NAME": …". */
#define QKV_FAIL_TENSOR(ctx, t, name, format, ...)                                                                     \
    qkv_fail(ctx, QKV_FORMAT, "%s: tensor \"%.*s\": " format, (t)->path, qkv_shown_length(name), name, __VA_ARGS__)

#endif
