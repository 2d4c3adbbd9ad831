/* attend_page.c: pages of keys and values, in the format that the kernels of this machine read. */
#include "kernel/isa/attend.h"

size_t qkv_attend_page_bytes(const struct qkv_context *ctx, size_t D, size_t Dv, size_t positions) {
    const struct qkv_attend_bf16_kernels *kernels = ctx->kernels->attend_bf16;
    if (ctx->precision != QKV_MIXED_BF16 || D > kernels->channels || Dv > kernels->channels) return 0;
    return positions && positions <= QKV_ATTEND_BLOCK ? kernels->page_bytes(D, Dv, positions) : 0;
}

void qkv_attend_put(const struct qkv_context *ctx, const struct qkv_attend_put *put) {
    if (put->count) ctx->kernels->attend_bf16->put(put);
}
