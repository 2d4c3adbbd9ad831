/* bf16: the upper half of a binary32: 8 bits of precision, the range of fp32. */
#include "format/format.h"

static void bf16_to_float(float *out, const void *in, size_t n) {
    qkv_to_float(out, in, QKV_BF16, n);
}

static void bf16_from_float(void *out, const float *in, size_t n) {
    qkv_from_float(out, in, QKV_BF16, n);
}

const struct qkv_format qkv_format_bf16 = {
    .name = "bf16",
    .help = "16 bits: 8 of precision, the range of fp32",
    .dtype = QKV_BF16,
    .block = 1,
    .bytes = 2,
    .to_float = bf16_to_float,
    .from_float = bf16_from_float,
};
