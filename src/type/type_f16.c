/* f16: IEEE 754 binary16: 11 bits of precision, from 6e-8 to 65504; larger numbers become infinite. */
#include "type/type_loops.h"

/* The exponent's bias changes from 15 to 127 by an integer addition; infinities and NaN need it twice, and a
 * subtraction that is exact makes subnormal numbers right. Selections instead of branches, so that loops become
 * vectors. */
static float f16_read(uint16_t half) {
    const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, exponent = magnitude & 0x0f800000;
    const uint32_t normal = magnitude + ((127u - 15u) << 23), special = normal + ((128u - 16u) << 23);
    const uint32_t tiny = type_bits(type_float(normal + (1u << 23)) - 0x1p-14f);
    const uint32_t bits = exponent == 0x0f800000 ? special : exponent == 0 ? tiny : normal;
    return type_float(bits | (uint32_t)(half & 0x8000) << 16);
}

static uint16_t f16_write(float x) {
    const uint32_t bits = type_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t half;
    if (magnitude > 0x7f800000) {
        half = 0x7e00 | (magnitude >> 13 & 0x3ff); /* quiet, with what fits of the payload */
    } else if (magnitude >= 0x47800000) {          /* 2^16 and more; what rounds up to it carries over below */
        half = 0x7c00;
    } else if (magnitude < 0x38800000) { /* below 2^-14: adding 2^-1 makes the float unit round at 2^-24 */
        half = type_bits(type_float(magnitude) + 0.5f) - 0x3f000000;
    } else {
        const uint32_t odd = magnitude >> 13 & 1;
        half = (magnitude - ((127u - 15u) << 23) + 0xfff + odd) >> 13;
    }
    return (uint16_t)(sign | half);
}

TYPE_LOOPS(f16, uint16_t, f16_read(v), f16_write(x))

const struct qkv_type qkv_type_f16 = {.name = "f16",
                                      .help = "16 bits: 11 of precision, numbers up to 65504",
                                      .safetensors = "F16",
                                      .gguf = 1,
                                      .kind = QKV_CLASS_REAL,
                                      .block = 1,
                                      .bytes = 2,
                                      .weights = true,
                                      .to_float = f16_to_float,
                                      .from_float = f16_from_float};
