/* iq4_xs: blocks of 256 codes of 4 bits in 8 parts of 32, 136 bytes: a scale d in f16, the upper 2 bits of the parts'
 * scales, their lower 4 bits, and the codes of each part as in iq4_nl: x = d · (scale − 32) · value(code). */
#include "type/type_fours.h"
#include "type/type_nibbles.h"

enum { NUMBERS = 256, PARTS = 8, PART = NUMBERS / PARTS, HIGH = 2, LOW = 4, CODES = LOW + PARTS / 2 };
enum { BYTES = CODES + NUMBERS / 2 };

static void iq4_xs_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const unsigned char *codes = block + CODES;
        const float d = type_half_load(block);
        float *part = out + i;
        for (size_t p = 0; p < PARTS; p++, part += PART, codes += PART / 2) {
            const unsigned low = (unsigned)block[LOW + p / 2] >> (p % 2 * 4) & 15,
                           high = (unsigned)block[HIGH + p / 4] >> (p % 4 * 2) & 3;
            const float scale = d * (float)((int)(low | high << 4) - 32);
            for (size_t k = 0; k < PART / 2; k++) {
                part[k] = scale * (float)type_fours[codes[k] & 15];
                part[k + PART / 2] = scale * (float)type_fours[codes[k] >> 4];
            }
        }
    }
}

static void iq4_xs_write(unsigned char *block, struct qkv_quantise_block *b) {
    int scales[PARTS];
    qkv_quantise_scales(b, -32, 31, block, scales);
    for (size_t p = 0; p < PARTS; p++) {
        const unsigned scale = (unsigned)(scales[p] + 32);
        block[HIGH + p / 4] |= (unsigned char)(scale >> 4 << (p % 4 * 2));
        block[LOW + p / 2] |= (unsigned char)((scale & 15) << (p % 2 * 4));
        type_nibbles_store(block + CODES + p * (PART / 2), b->code + p * PART, PART / 2);
    }
}

static const struct qkv_quantiser iq4_xs_quantiser = {.part = PART,
                                                      .low = -127,
                                                      .high = 113,
                                                      .values = &type_fours_values,
                                                      .emphasis = 1.3f,
                                                      .steps = 8,
                                                      .reach = 12,
                                                      .write = iq4_xs_write};

const struct qkv_type qkv_type_iq4_xs = {.name = "iq4_xs",
                                         .help =
                                             "4.25 bits: blocks of 256 numbers of 16 values, in 8 parts with scales",
                                         .safetensors = NULL,
                                         .gguf = 23,
                                         .kind = QKV_CLASS_BLOCKS,
                                         .block = NUMBERS,
                                         .bytes = BYTES,
                                         .weights = true,
                                         .to_float = iq4_xs_to_float,
                                         .quantiser = &iq4_xs_quantiser};
