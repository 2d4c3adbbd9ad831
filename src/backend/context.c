/* context: the context of a user of the library: the kernels' (kernel/dispatch.c), with the backend of CPUs. */
#include "backend/backends.h"
#include "kernel/kernel.h"

enum qkv_status qkv_context_create(struct qkv_context **out, const struct qkv_context_options *options) {
    QKV_NEED(NULL, out);
    enum qkv_status status = qkv_context_make(out, options);
    if (*out) (*out)->backend = &qkv_backend_cpu;
    return status;
}
