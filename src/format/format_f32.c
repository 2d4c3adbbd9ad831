/* f32: IEEE 754 binary32, what weights learn in. */
#include "format/format.h"

static void f32_to_float(float *out, const void *in, size_t n) {
    qkv_to_float(out, in, QKV_F32, n);
}

static void f32_from_float(void *out, const float *in, size_t n) {
    qkv_from_float(out, in, QKV_F32, n);
}

const struct qkv_format qkv_format_f32 = {
    .name = "f32",
    .help = "32 bits, as weights learn",
    .dtype = QKV_F32,
    .block = 1,
    .bytes = 4,
    .to_float = f32_to_float,
    .from_float = f32_from_float,
};
