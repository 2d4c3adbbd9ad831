/* q3_K: blocks of 256 numbers of 3 bits in 16 parts of 16, 110 bytes: the third bits, the other bits, 16 scales of 6
 * bits in 12 bytes, and d in f16: x = d · (scale − 32) · (code − 4). Byte l of the 32 of a half (128 numbers) has the
 * lower bits of the codes l, l + 32, l + 64 and l + 96 of the half; bit b of byte l of the third bits is that of code
 * l + 32 · b of the block. Byte j < 8 of the scales has the lower 4 bits of the scales j and j + 8, byte 8 + j has the
 * upper 2 bits of the scales j, j + 4, j + 8 and j + 12. */
#include "type/quantise.h"
#include "type/type_half.h"

enum { NUMBERS = 256, PARTS = 16, PART = NUMBERS / PARTS, CODES = NUMBERS / 8, SCALES = CODES + NUMBERS / 4 };
enum { D = SCALES + 12, BYTES = D + 2 };

static void q3_K_read(struct qkv_codes *out, const unsigned char *block) {
    const unsigned char *scales = block + SCALES;
    memcpy(&out->scale, block + D, sizeof out->scale);
    for (size_t p = 0; p < PARTS; p++) {
        const unsigned char *third = block + p % 2 * PART, *codes = block + CODES + p / 8 * 32 + p % 2 * PART;
        const unsigned low = (unsigned)scales[p % 8] >> (p / 8 * 4) & 15,
                       high = (unsigned)scales[8 + p % 4] >> (p / 4 * 2) & 3;
        out->scales[p] = (int16_t)((int)(low | high << 4) - 32);
        for (size_t k = 0; k < PART; k++) {
            const int code = (codes[k] >> (p % 8 / 2 * 2) & 3) | (third[k] >> (p / 2) & 1) << 2;
            out->code[p * PART + k] = (signed char)(code - 4);
        }
    }
}

static void q3_K_write(unsigned char *block, struct qkv_quantise_block *b) {
    int scales[PARTS];
    qkv_quantise_scales(b, -32, 31, block + D, scales);
    for (size_t p = 0; p < PARTS; p++) {
        const unsigned scale = (unsigned)(scales[p] + 32);
        block[SCALES + p % 8] |= (unsigned char)((scale & 15) << (p / 8 * 4));
        block[SCALES + 8 + p % 4] |= (unsigned char)(scale >> 4 << (p / 4 * 2));
    }
    for (size_t k = 0; k < NUMBERS; k++) {
        block[k % 32] |= (unsigned char)(b->code[k] >> 2 << k / 32);
        block[CODES + k / 128 * 32 + k % 32] |= (unsigned char)((b->code[k] & 3) << (k % 128 / 32 * 2));
    }
}

static const struct qkv_quantiser q3_K_quantiser = {
    .part = PART, .scale = D, .low = -4, .high = 3, .emphasis = 2, .steps = 8, .reach = 1, .write = q3_K_write};

static const struct qkv_type_codes q3_K_codes = {.part = 16, .scales = true, .bits = 4, .low = -4, .read = q3_K_read};

const struct qkv_type qkv_type_q3_K = {.name = "q3_K",
                                       .help = "3.4375 bits: blocks of 256 numbers of 3 bits, in 16 parts with scales",
                                       .safetensors = NULL,
                                       .gguf = 11,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .codes = &q3_K_codes,
                                       .quantiser = &q3_K_quantiser};
