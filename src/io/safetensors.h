/* safetensors.h: what the reader and the writer of tensor files share. */
#ifndef QKV_SAFETENSORS_H
#define QKV_SAFETENSORS_H

#include "base/base.h"
#include "format/format.h"

#define QKV_TENSORS_METADATA    "__metadata__"
#define QKV_TENSORS_HEADER_MOST 100000000u /* the format's own limit */

/* The bytes of an array by its shape and dtype. False when they cannot be counted, also where a dimension of 0 hides it:
 * then every product of some of the dimensions fits too. */
bool qkv_array_bytes(const struct qkv_array *array, size_t *bytes);

/* As qkv_array_floats, of an array of the file, which is read and not mapped: so a file of any size needs memory for `out` alone,
 * and one that somebody shortens meanwhile is QKV_FILE. */
enum qkv_status qkv_tensors_floats(const struct qkv_tensors *tensors, const struct qkv_array *array, float *out);
/* Elements [first, first + n) of an array: as they are stored, or as floats. They are read, as above. */
enum qkv_status qkv_tensors_read(const struct qkv_tensors *tensors, const struct qkv_array *array, size_t first,
                                 size_t n, void *out);
enum qkv_status qkv_tensors_part(const struct qkv_tensors *tensors, const struct qkv_array *array, size_t first,
                                 size_t n, float *out);
/* The path that it was opened by; owned by `tensors`. */
const char *qkv_tensors_path(const struct qkv_tensors *tensors);
/* Takes the numbers of an array of the file out of this process's memory, which are not needed soon. */
void qkv_tensors_forget(const struct qkv_tensors *tensors, const struct qkv_array *array);
/* QKV_FILE when the file has become shorter than it was opened: its arrays must not be read any more. */
enum qkv_status qkv_tensors_check(const struct qkv_tensors *tensors);

/* The numbers of arrays that are made as they are written: array i of those given. */
struct qkv_tensors_source {
    enum qkv_status (*make)(void *user, size_t i, const void **data);
    void (*drop)(void *user, size_t i); /* they are written */
    void *user;
};
/* As qkv_tensors_write, of arrays whose numbers are converted, piece by piece, to the formats formats[i] (QKV_FORMAT_LIST); NULL: as
 * they are. source NULL: all arrays have their numbers. QKV_NUMBER where a finite number is none any more. */
enum qkv_status qkv_tensors_write_as(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                     const struct qkv_format *const *formats, size_t count,
                                     const struct qkv_tensors_source *source, const char *const *metadata,
                                     size_t metadata_count);

/* Begins the file of some arrays of one dtype, whose data are not read: its header is on disk, and there is room for their numbers, which
 * others write, each array behind the one before, from byte *data of replace->temporary on. What nobody writes is 0. The caller ends it
 * with qkv_replace_commit or qkv_replace_cancel. */
enum qkv_status qkv_tensors_frame(struct qkv_context *ctx, const char *path, const struct qkv_array *arrays,
                                  size_t count, const char *const *metadata, size_t metadata_count,
                                  struct qkv_replace *replace, size_t *data);

/* How many bytes of a name to show in a sentence ("%.*s"): all, or whole characters up to so many. */
#define QKV_SHOWN_MOST 160
int qkv_shown_length(const char *name);

#endif
