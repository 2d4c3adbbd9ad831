/* parallel: x + Σ f(norm(x)), all sublayers reading one norm (Wang & Komatsuzaki 2021, "GPT-J-6B"). */
#include "model/model.h"

struct qkv_tensor *qkv_block_parallel(const struct qkv_block *block, struct qkv_tensor *x) {
    struct qkv_tensor *h = qkv_block_norm(block, x, QKV_RESULT_FOR_PRODUCTS);
    return qkv_block_add_all(block, x, (struct qkv_tensor *const[QKV_SUBLAYER_COUNT]){h, h, h});
}
