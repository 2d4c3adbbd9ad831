/* bf16: the upper half of a binary32: 8 bits of precision, the range of fp32. */
#include "type/type_loops.h"

static float bf16_read(uint16_t half) {
    return type_float((uint32_t)half << 16);
}

static uint16_t bf16_write(float x) {
    const uint32_t bits = type_bits(x), odd = bits >> 16 & 1;
    const uint32_t rounded = (bits + 0x7fff + odd) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

TYPE_LOOPS(bf16, uint16_t, bf16_read(v), bf16_write(x))

const struct qkv_type qkv_type_bf16 = {.name = "bf16",
                                       .help = "16 bits: 8 of precision, the range of fp32",
                                       .safetensors = "BF16",
                                       .gguf = 30,
                                       .kind = QKV_CLASS_REAL,
                                       .block = 1,
                                       .bytes = 2,
                                       .weights = true,
                                       .to_float = bf16_to_float,
                                       .from_float = bf16_from_float};
