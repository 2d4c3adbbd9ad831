/* safetensors.h: declarations that the reader and the writer of tensor files share. */
#ifndef QKV_SAFETENSORS_H
#define QKV_SAFETENSORS_H

#include "base/base.h"
#include "type/type.h"

#define QKV_TENSORS_METADATA    "__metadata__"
#define QKV_TENSORS_BASE        "base"     /* of the metadata of a checkpoint of an adapter: its model */
#define QKV_TENSORS_HEADER_MOST 100000000u /* the format's own limit */

/* The bytes of an array by its shape and dtype. Returns false where a product of its dimensions overflows, even if a
 * dimension of 0 makes the whole product 0. */
bool qkv_array_bytes(const struct qkv_array *array, size_t *bytes);

/* The same as qkv_array_floats, but it reads the file and not the mapping: a file of any size needs memory for `out`
 * only, and a file that became shorter fails with QKV_FILE. */
enum qkv_status qkv_tensors_floats(const struct qkv_tensors *tensors, const struct qkv_array *array, float *out);
/* Reads elements [first, first + n) of an array from the file: as stored, or as floats. */
enum qkv_status qkv_tensors_read(const struct qkv_tensors *tensors, const struct qkv_array *array, size_t first,
                                 size_t n, void *out);
enum qkv_status qkv_tensors_part(const struct qkv_tensors *tensors, const struct qkv_array *array, size_t first,
                                 size_t n, float *out);
/* The path that the file was opened by; owned by `tensors`. */
const char *qkv_tensors_path(const struct qkv_tensors *tensors);
/* Releases the mapped pages of an array that is not needed soon; a later access reads them again. */
void qkv_tensors_forget(const struct qkv_tensors *tensors, const struct qkv_array *array);
/* Fails with QKV_FILE if the file has become shorter since it was opened: its arrays must not be read any more. */
enum qkv_status qkv_tensors_check(struct qkv_context *ctx, const struct qkv_tensors *tensors);

/* A source of arrays whose numbers are made while they are written: array i of those given. */
struct qkv_tensors_source {
    enum qkv_status (*make)(void *user, size_t i, const void **data);
    void (*drop)(void *user, size_t i); /* array i is written */
    void *user;
};
/* Writes arrays as qkv_tensors_write does, each converted piece by piece to the type formats[i]; NULL: not
 * converted. source NULL: all arrays have their numbers. Fails with QKV_NUMBER where a finite number becomes
 * infinite. */
enum qkv_status qkv_tensors_write_as(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                     const struct qkv_type *const *formats, size_t count,
                                     const struct qkv_tensors_source *source, const char *const *metadata,
                                     size_t metadata_count);

/* Begins a file of arrays of one dtype, whose data are not read: the header is on disk, and there is room for the
 * numbers, which the caller writes, each array after the one before, from byte *data of replace->temporary on. Bytes
 * that are not written are 0. The caller ends the file with qkv_replace_commit or qkv_replace_cancel. */
enum qkv_status qkv_tensors_frame(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                  size_t count, const char *const *metadata, size_t metadata_count,
                                  struct qkv_replace *replace, size_t *data);

/* How many bytes of a name a message shows ("%.*s"): all, or whole characters up to this many. */
#define QKV_SHOWN_MOST 160
int qkv_shown_length(const char *name);

#endif
