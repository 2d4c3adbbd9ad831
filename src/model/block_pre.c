/* pre-norm: x + f(norm(x)) (GPT-2). Only the sublayer reads the norm. */
#include "model/model.h"

struct qkv_tensor *qkv_block_pre(const struct qkv_block *block, struct qkv_tensor *x) {
    return qkv_block_add(block, x, qkv_block_norm(block, x, QKV_RESULT_FOR_PRODUCTS));
}
