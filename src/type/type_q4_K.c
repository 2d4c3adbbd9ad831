/* q4_K: blocks of 256 numbers of 4 bits in 8 parts of 32, 144 bytes: d and dmin in f16, scales and minimums of 6 bits
 * (type_nibbles.h), and the codes, of two parts at a time: x = d · scale · code − dmin · minimum. */
#include "type/quantise.h"
#include "type/type_unpack.h"

enum { NUMBERS = 256, PARTS = 8, PART = NUMBERS / PARTS, DMIN = 2, SIXES = TYPE_Q4_K_SIXES, CODES = TYPE_Q4_K_CODES };
enum { BYTES = CODES + NUMBERS / 2 };

static void q4_K_write(unsigned char *block, struct qkv_quantise_block *b) {
    int scales[PARTS], minimums[PARTS];
    qkv_quantise_lines(b, 63, block, block + DMIN, scales, minimums);
    type_sixes_store(block + SIXES, scales, minimums);
    for (size_t k = 0; k < NUMBERS; k += 2 * PART) type_nibbles_store(block + CODES + k / 2, b->code + k, PART);
}

static const struct qkv_quantiser q4_K_quantiser = {.part = PART,
                                                    .low = 0,
                                                    .high = 15,
                                                    .minimum = QKV_MINIMUM_NEGATIVE,
                                                    .emphasis = 4,
                                                    .steps = 16,
                                                    .reach = 2,
                                                    .write = q4_K_write};

static const struct qkv_type_codes q4_K_codes = {
    .part = 32, .scales = true, .minimum = true, .bits = 4, .low = 0, .read = type_q4_K_read};

const struct qkv_type qkv_type_q4_K = {
    .name = "q4_K",
    .help = "4.5 bits: blocks of 256 numbers of 4 bits, in 8 parts with scales and minimums",
    .safetensors = NULL,
    .gguf = 12,
    .kind = QKV_CLASS_BLOCKS,
    .block = NUMBERS,
    .bytes = BYTES,
    .weights = true,
    .codes = &q4_K_codes,
    .quantiser = &q4_K_quantiser};
