/* q2_K: blocks of 256 numbers of 2 bits in 16 parts of 16, 84 bytes: a scale and a minimum of 4 bits for each part, the
 * codes, and d and dmin in f16: x = d · scale · code − dmin · minimum. Byte l of the 32 of a half (128 numbers) has the
 * codes l, l + 32, l + 64 and l + 96 of the half. */
#include "type/quantise.h"
#include "type/type_half.h"

enum { NUMBERS = 256, PARTS = 16, PART = NUMBERS / PARTS, CODES = PARTS, D = CODES + NUMBERS / 4, DMIN = D + 2 };
enum { BYTES = DMIN + 2 };

static void q2_K_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const float d = type_half_load(block + D), dmin = type_half_load(block + DMIN);
        float *part = out + i;
        for (size_t p = 0; p < PARTS; p++, part += PART) {
            const unsigned char *codes = block + CODES + p / 8 * 32 + p % 2 * PART;
            const float scale = d * (float)(block[p] & 15), minimum = dmin * (float)(block[p] >> 4);
            for (size_t k = 0; k < PART; k++) part[k] = scale * (float)(codes[k] >> (p % 8 / 2 * 2) & 3) - minimum;
        }
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

const struct qkv_type qkv_type_q2_K = {
    .name = "q2_K",
    .help = "2.625 bits: blocks of 256 numbers of 2 bits, in 16 parts with scales and minimums",
    .safetensors = NULL,
    .gguf = 10,
    .kind = QKV_CLASS_BLOCKS,
    .block = NUMBERS,
    .bytes = BYTES,
    .weights = true,
    .to_float = q2_K_to_float,
    .quantiser = &q2_K_quantiser};
