/* output norm: x + norm(f(x)) (Liu et al. 2022, "Swin Transformer V2"; OLMo 2). */
#include "model/model.h"

struct qkv_tensor *qkv_block_output(const struct qkv_block *block, struct qkv_tensor *x) {
    return qkv_block_add_normed(block, x, x);
}
