/* q2_K: blocks of 256 numbers of 2 bits in 16 parts of 16, 84 bytes: a scale and a minimum of 4 bits for each part, the
 * codes, and d and dmin in f16: x = d · scale · code − dmin · minimum. Byte l of the 32 of a half (128 numbers) has the
 * codes l, l + 32, l + 64 and l + 96 of the half. */
#include "type/quantise.h"
#include "type/type_half.h"

enum { NUMBERS = 256, PARTS = 16, PART = NUMBERS / PARTS, CODES = PARTS, D = CODES + NUMBERS / 4, DMIN = D + 2 };
enum { BYTES = DMIN + 2 };

static void q2_K_read(struct qkv_codes *out, const unsigned char *block) {
    memcpy(&out->scale, block + D, sizeof out->scale);
    memcpy(&out->minimum, block + DMIN, sizeof out->minimum);
    for (size_t p = 0; p < PARTS; p++) {
        const unsigned char *codes = block + CODES + p / 8 * 32 + p % 2 * PART;
        out->scales[p] = block[p] & 15, out->minimums[p] = block[p] >> 4;
        for (size_t k = 0; k < PART; k++) out->code[p * PART + k] = (signed char)(codes[k] >> (p % 8 / 2 * 2) & 3);
    }
}

static void q2_K_write(unsigned char *block, struct qkv_quantise_block *b) {
    int scales[PARTS], minimums[PARTS];
    qkv_quantise_lines(b, 15, block + D, block + DMIN, scales, minimums);
    for (size_t p = 0; p < PARTS; p++) block[p] = (unsigned char)(scales[p] | minimums[p] << 4);
    for (size_t k = 0; k < NUMBERS; k++)
        block[CODES + k / 128 * 32 + k % 32] |= (unsigned char)(b->code[k] << (k % 128 / 32 * 2));
}

static const struct qkv_quantiser q2_K_quantiser = {.part = PART,
                                                    .scale = D,
                                                    .low = 0,
                                                    .high = 3,
                                                    .minimum = QKV_MINIMUM_NEGATIVE,
                                                    .emphasis = 1,
                                                    .steps = 14,
                                                    .reach = 1.2f,
                                                    .write = q2_K_write};

static const struct qkv_type_codes q2_K_codes = {
    .part = 16, .scales = true, .minimum = true, .bits = 4, .low = 0, .read = q2_K_read};

const struct qkv_type qkv_type_q2_K = {
    .name = "q2_K",
    .help = "2.625 bits: blocks of 256 numbers of 2 bits, in 16 parts with scales and minimums",
    .safetensors = NULL,
    .gguf = 10,
    .kind = QKV_CLASS_BLOCKS,
    .block = NUMBERS,
    .bytes = BYTES,
    .weights = true,
    .codes = &q2_K_codes,
    .quantiser = &q2_K_quantiser};
