/* iq4_xs: blocks of 256 codes of 4 bits in 8 parts of 32, 136 bytes: a scale d in f16, the upper 2 bits of the parts'
 * scales, their lower 4 bits, and the codes of each part as in iq4_nl: x = d · (scale − 32) · value(code). */
#include "type/type_fours.h"
#include "type/type_nibbles.h"

enum { NUMBERS = 256, PARTS = 8, PART = NUMBERS / PARTS, HIGH = 2, LOW = 4, CODES = LOW + PARTS / 2 };
enum { BYTES = CODES + NUMBERS / 2 };

static void iq4_xs_read(struct qkv_codes *out, const unsigned char *block) {
    memcpy(&out->scale, block, sizeof out->scale);
    for (size_t p = 0; p < PARTS; p++) {
        const unsigned low = (unsigned)block[LOW + p / 2] >> (p % 2 * 4) & 15,
                       high = (unsigned)block[HIGH + p / 4] >> (p % 4 * 2) & 3;
        out->scales[p] = (int16_t)((int)(low | high << 4) - 32);
        type_fours_load(out->code + p * PART, block + CODES + p * (PART / 2));
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

static const struct qkv_type_codes iq4_xs_codes = {
    .part = 32, .scales = true, .bits = 8, .low = -128, .read = iq4_xs_read};

const struct qkv_type qkv_type_iq4_xs = {.name = "iq4_xs",
                                         .help =
                                             "4.25 bits: blocks of 256 numbers of 16 values, in 8 parts with scales",
                                         .safetensors = NULL,
                                         .gguf = 23,
                                         .kind = QKV_CLASS_BLOCKS,
                                         .block = NUMBERS,
                                         .bytes = BYTES,
                                         .weights = true,
                                         .codes = &iq4_xs_codes,
                                         .quantiser = &iq4_xs_quantiser};
