/* f8_e4m3: OFP8 E4M3 (2023): 1 bit of sign, 4 of exponent, 3 of fraction; the largest number is 448, and there are no
 * infinities: larger numbers become NaN. */
#include "type/type_loops.h"

static float f8_e4m3_read(uint8_t byte) {
    const uint32_t magnitude = byte & 0x7f, sign = (uint32_t)(byte & 0x80) << 24;
    const uint32_t normal = (magnitude << 20) + ((127u - 7u) << 23), tiny = type_bits((float)magnitude * 0x1p-9f);
    const uint32_t bits = magnitude == 0x7f ? 0x7fc00000 : magnitude < 8 ? tiny : normal;
    return type_float(bits | sign);
}

static uint8_t f8_e4m3_write(float x) {
    const uint32_t bits = type_bits(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    uint32_t byte;
    if (magnitude >= 0x43f00000) { /* 480, where the next number would be */
        byte = 0x7f;
    } else if (magnitude < 0x3c800000) { /* below 2^-6: adding 2^14 makes the float unit round at 2^-9 */
        byte = type_bits(type_float(magnitude) + 0x1p14f) - type_bits(0x1p14f);
    } else {
        const uint32_t odd = magnitude >> 20 & 1;
        byte = (magnitude - ((127u - 7u) << 23) + 0x7ffff + odd) >> 20;
    }
    return (uint8_t)(sign | byte);
}

TYPE_LOOPS(f8_e4m3, uint8_t, f8_e4m3_read(v), f8_e4m3_write(x))

const struct qkv_type qkv_type_f8_e4m3 = {.name = "f8_e4m3",
                                          .help = "8 bits: 4 of precision, numbers up to 448",
                                          .safetensors = "F8_E4M3",
                                          .gguf = -1,
                                          .kind = QKV_CLASS_REAL,
                                          .block = 1,
                                          .bytes = 1,
                                          .to_float = f8_e4m3_to_float,
                                          .from_float = f8_e4m3_from_float};
