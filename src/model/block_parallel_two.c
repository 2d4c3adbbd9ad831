/* parallel with a norm per sublayer, two, or three with cross attention: x + Σ f(norm(x)) (Black et al. 2022,
 * "GPT-NeoX-20B"). */
#include "model/model.h"

struct qkv_tensor *qkv_block_parallel_two(const struct qkv_block *block, struct qkv_tensor *x) {
    struct qkv_tensor *h[QKV_SUBLAYER_COUNT] = {NULL};
    struct qkv_block b;
    for (enum qkv_sublayer i = QKV_SUBLAYER_SELF; i < QKV_SUBLAYER_COUNT; i++)
        if (qkv_block_at(block, i, &b)) h[i] = qkv_block_norm(&b, x, QKV_RESULT_FOR_PRODUCTS);
    return qkv_block_add_all(block, x, h);
}
