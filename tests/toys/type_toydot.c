/* A toy: the blocks of toy32, whose products with blocks of x are exact (product_toydot.c). */
#include "type/type.h"

static void toydot_to_float(float *out, const void *in, size_t n) {
    qkv_type_toy32.to_float(out, in, n);
}

static void toydot_from_float(void *out, const float *in, size_t n) {
    qkv_type_toy32.from_float(out, in, n);
}

const struct qkv_type qkv_type_toydot = {.name = "toydot",
                                         .help = "blocks of 32 numbers of 8 bits, multiplied as integers",
                                         .safetensors = "TOYDOT",
                                         .gguf = -1,
                                         .kind = QKV_CLASS_BLOCKS,
                                         .block = 32,
                                         .bytes = 36,
                                         .weights = true,
                                         .to_float = toydot_to_float,
                                         .from_float = toydot_from_float};
