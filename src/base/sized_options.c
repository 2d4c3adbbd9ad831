#include "base/sized_options.h"

#include <string.h>

void qkv_options_init(void *options, size_t size, const void *defaults, size_t known) {
    if (!options || size < sizeof size) return;
    memset(options, 0, size);
    memcpy(options, defaults, qkv_min(size, known));
    memcpy(options, &size, sizeof size);
}

enum qkv_status qkv_options_take(struct qkv_context *ctx, const char *name, void *own, size_t known,
                                 const void *options) {
    size_t given;
    if (!options) return QKV_OK;
    memcpy(&given, options, sizeof given);
    if (given <= sizeof given)
        return qkv_fail(
            ctx, QKV_ARGUMENT,
            "struct %s says that it has %zu bytes, which hold no option: begin with its defaults call, or set size to "
            "sizeof(struct %s)",
            name, given, name);
    for (size_t i = known; i < given; i++)
        if (((const char *)options)[i])
            return qkv_fail(
                ctx, QKV_ARGUMENT,
                "struct %s has %zu bytes, and this library, version %s, knows %zu of them: it cannot do what "
                "the others ask for; use a newer library",
                name, given, qkv_version(), known);
    memcpy(own, options, qkv_min(given, known));
    memcpy(own, &known, sizeof known);
    return QKV_OK;
}

void qkv_options_give(void *options, const void *own, size_t known) {
    size_t given;
    memcpy(&given, options, sizeof given);
    memcpy(options, own, qkv_min(given, known));
    memcpy(options, &given, sizeof given);
}
