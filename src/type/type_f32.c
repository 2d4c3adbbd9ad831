/* f32: IEEE 754 binary32, in which weights are trained. */
#include "type/type.h"

#include <string.h>

static void f32_to_float(float *out, const void *in, size_t n) {
    if (n) memcpy(out, in, n * sizeof *out);
}

static void f32_from_float(void *out, const float *in, size_t n) {
    if (n) memcpy(out, in, n * sizeof *in);
}

const struct qkv_type qkv_type_f32 = {.name = "f32",
                                      .help = "32 bits, as weights learn",
                                      .safetensors = "F32",
                                      .gguf = 0,
                                      .kind = QKV_CLASS_REAL,
                                      .block = 1,
                                      .bytes = 4,
                                      .weights = true,
                                      .to_float = f32_to_float,
                                      .from_float = f32_from_float};
