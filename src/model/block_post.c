/* post-norm: norm(x + f(x)) (Vaswani et al. 2017). */
#include "model/model.h"

struct qkv_tensor *qkv_block_post(const struct qkv_block *block, struct qkv_tensor *x) {
    return qkv_block_norm(block, qkv_block_add(block, x, x), QKV_RESULT_FP32);
}
