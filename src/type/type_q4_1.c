/* q4_1: blocks of 32 numbers of 4 bits with a scale and a minimum in f16, 20 bytes: x = d · code + m. */
#include "type/quantise.h"
#include "type/type_nibbles.h"

enum { NUMBERS = 32, MINIMUM = 2, CODES = 4, BYTES = CODES + NUMBERS / 2 };

static void q4_1_read(struct qkv_codes *out, const unsigned char *block) {
    type_codes_one(out, block);
    type_codes_add(out, block + MINIMUM);
    type_nibbles_load(out->code, block + CODES, NUMBERS / 2, 0);
}

static void q4_1_write(unsigned char *block, struct qkv_quantise_block *b) {
    qkv_quantise_part(b, block, block + MINIMUM);
    type_nibbles_store(block + CODES, b->code, NUMBERS / 2);
}

static const struct qkv_quantiser q4_1_quantiser = {.part = NUMBERS,
                                                    .low = 0,
                                                    .high = 15,
                                                    .minimum = QKV_MINIMUM_ANY,
                                                    .emphasis = 0.4f,
                                                    .steps = 8,
                                                    .reach = 1,
                                                    .write = q4_1_write};

static const struct qkv_type_codes q4_1_codes = {.part = 32, .minimum = true, .bits = 4, .low = 0, .read = q4_1_read};

const struct qkv_type qkv_type_q4_1 = {.name = "q4_1",
                                       .help = "5 bits: blocks of 32 numbers of 4 bits with a scale and a minimum",
                                       .safetensors = NULL,
                                       .gguf = 3,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .codes = &q4_1_codes,
                                       .quantiser = &q4_1_quantiser};
