/* A toy: the norm behind the sublayer, inside the residual connection: x + norm(f(x)). */
#include "model/model.h"

struct qkv_tensor *qkv_block_output_norm(const struct qkv_block *block, struct qkv_tensor *x) {
    return qkv_op_add(block->f->tape, x, qkv_block_norm(block, qkv_block_output(block, x), QKV_RESULT_FP32));
}
