/* sized_options: structs of options that begin with their size, from programs that were built with this version of the
 * header, an older one or a newer one. */
#ifndef QKV_SIZED_OPTIONS_H
#define QKV_SIZED_OPTIONS_H

#include "base/base.h"

/* Copies options over the defaults in `own`, a struct of `size` bytes. `options` NULL: the defaults stay. A shorter
 * struct of an older program keeps the defaults of the fields that it lacks; `first` is the size that the struct had in
 * its first version. A longer one of a newer program may only have zeros in the fields that this library lacks. Fails
 * with QKV_ARGUMENT: the size is none, less than `first`, or such a field is used. `name`: of the struct, for the
 * sentence. */
enum qkv_status qkv_options_take(struct qkv_context *ctx, const char *name, void *own, size_t size, size_t first,
                                 const void *options);

#endif
