/* sized_options: structs of options that begin with their size, from programs that were built with this version of the
 * header, an older one or a newer one. The way of all public calls: *_options_init fills a program's struct, a call
 * takes it into a struct of its own. */
#ifndef QKV_SIZED_OPTIONS_H
#define QKV_SIZED_OPTIONS_H

#include "base/base.h"

/* Sets a program's struct of `size` bytes: its size, the defaults (a struct of `known` bytes, whose size counts for
 * nothing), zeros where the struct has more. `options` NULL, or a struct without room for its size: nothing is
 * written. */
void qkv_options_init(void *options, size_t size, const void *defaults, size_t known);
/* Copies options over the defaults in `own`, a struct of `known` bytes, whose size becomes `known`. `options` NULL: the
 * defaults stay. A shorter struct of an older program keeps the defaults of the fields that it lacks. A longer one of a
 * newer program may only have zeros in the fields that this library lacks. Fails with QKV_ARGUMENT: the struct has no
 * size, or one without any option, or such a field is used. `name`: of the struct, for the sentence. */
enum qkv_status qkv_options_take(struct qkv_context *ctx, const char *name, void *own, size_t known,
                                 const void *options);
/* Copies options that were taken and changed back into the program's struct, as far as it has them. */
void qkv_options_give(void *options, const void *own, size_t known);

/* qkv_options_take of a struct with the tag `tag`. */
#define QKV_TAKE_OPTIONS(ctx, tag, own, options) qkv_options_take(ctx, #tag, own, sizeof(struct tag), options)

#endif
