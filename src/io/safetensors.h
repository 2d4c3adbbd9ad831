/* safetensors.h: what the reader and the writer of tensor files share. */
#ifndef QKV_SAFETENSORS_H
#define QKV_SAFETENSORS_H

#include "base/base.h"

#define QKV_TENSORS_METADATA    "__metadata__"
#define QKV_TENSORS_HEADER_MOST 100000000u /* the format's own limit */

/* The bytes of an array by its shape and dtype. False when they cannot be counted, also where a dimension of 0 hides it:
 * then every product of some of the dimensions fits too. */
bool qkv_array_bytes(const struct qkv_array *array, size_t *bytes);

/* As qkv_array_floats, of an array of the file, whose pages are given back as they are read: so a file of any size needs
 * memory for `out` alone. */
void qkv_tensors_floats(const struct qkv_tensors *tensors, const struct qkv_array *array, float *out);

/* How many bytes of a name to show in a sentence ("%.*s"): all, or whole characters up to so many. */
#define QKV_SHOWN_MOST 160
int qkv_shown_length(const char *name);

#endif
