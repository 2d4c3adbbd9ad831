/* q5_K: blocks of 256 numbers of 5 bits in 8 parts of 32, 176 bytes: d and dmin in f16, scales and minimums of 6
 * bits (type_nibbles.h), the fifth bits, and the other bits as in q4_K. Bit p of byte k of the fifth bits is that of
 * number k of part p. x = d · scale · code − dmin · minimum. */
#include "type/quantise.h"
#include "type/type_unpack.h"

enum { NUMBERS = 256, PARTS = 8, PART = NUMBERS / PARTS, DMIN = 2, SIXES = 4, FIFTH = TYPE_Q5_K_FIFTH };
enum { CODES = TYPE_Q5_K_CODES, BYTES = CODES + NUMBERS / 2 };

static void q5_K_write(unsigned char *block, struct qkv_quantise_block *b) {
    int scales[PARTS], minimums[PARTS];
    qkv_quantise_lines(b, 63, block, block + DMIN, scales, minimums);
    type_sixes_store(block + SIXES, scales, minimums);
    for (size_t k = 0; k < NUMBERS; k++) block[FIFTH + k % PART] |= (unsigned char)(b->code[k] >> 4 << k / PART);
    for (size_t k = 0; k < NUMBERS; k += 2 * PART) type_nibbles_store(block + CODES + k / 2, b->code + k, PART);
}

static const struct qkv_quantiser q5_K_quantiser = {.part = PART,
                                                    .low = 0,
                                                    .high = 31,
                                                    .minimum = QKV_MINIMUM_NEGATIVE,
                                                    .emphasis = 5,
                                                    .steps = 10,
                                                    .reach = 1,
                                                    .write = q5_K_write};

static const struct qkv_type_codes q5_K_codes = {
    .part = 32, .scales = true, .minimum = true, .bits = 5, .low = 0, .read = type_q5_K_read};

const struct qkv_type qkv_type_q5_K = {
    .name = "q5_K",
    .help = "5.5 bits: blocks of 256 numbers of 5 bits, in 8 parts with scales and minimums",
    .safetensors = NULL,
    .gguf = 13,
    .kind = QKV_CLASS_BLOCKS,
    .block = NUMBERS,
    .bytes = BYTES,
    .weights = true,
    .codes = &q5_K_codes,
    .quantiser = &q5_K_quantiser};
