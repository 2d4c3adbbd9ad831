/* f16: IEEE 754 binary16: 11 bits of precision, from 6e-8 to 65504; what is larger becomes infinite. */
#include "format/format.h"

static void f16_to_float(float *out, const void *in, size_t n) {
    qkv_to_float(out, in, QKV_F16, n);
}

static void f16_from_float(void *out, const float *in, size_t n) {
    qkv_from_float(out, in, QKV_F16, n);
}

const struct qkv_format qkv_format_f16 = {
    .name = "f16",
    .help = "16 bits: 11 of precision, numbers up to 65504",
    .dtype = QKV_F16,
    .block = 1,
    .bytes = 2,
    .to_float = f16_to_float,
    .from_float = f16_from_float,
};
