/* cpu_products: the step that packs weights for their products. */
#include "backend/backends.h"

enum qkv_status qkv_cpu_pack(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_pack *p = call;
    p->product->pack(ctx, p->packed, p->operand, p->stored, p->K, p->N);
    return QKV_OK;
}
