#include "base/sized_options.h"

#include <string.h>

enum qkv_status qkv_options_take(struct qkv_context *ctx, const char *name, void *own, size_t size, size_t first,
                                 const void *options) {
    size_t given;
    if (!options) return QKV_OK;
    memcpy(&given, options, sizeof given);
    if (given < first)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "struct %s says that it has %zu bytes, but it has at least %zu: begin with its defaults call, or "
            "set size to sizeof(struct %s)",
            name, given, first, name);
    for (size_t i = size; i < given; i++)
        if (((const char *)options)[i])
            return qkv_fail(
                ctx, QKV_ARGUMENT,
                "struct %s has %zu bytes, and this library, version %s, knows %zu of them: it cannot do what "
                "the others ask for; use a newer library",
                name, given, qkv_version(), size);
    memcpy(own, options, given < size ? given : size);
    memcpy(own, &size, sizeof size);
    return QKV_OK;
}
