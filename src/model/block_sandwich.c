/* sandwich: x + norm2(f(norm(x))) (Ding et al. 2021, "CogView"; Gemma 2 and 3). Only the sublayer reads the first
 * norm. */
#include "model/model.h"

struct qkv_tensor *qkv_block_sandwich(const struct qkv_block *block, struct qkv_tensor *x) {
    return qkv_block_add_normed(block, x, qkv_block_norm(block, x, QKV_RESULT_FOR_PRODUCTS));
}
