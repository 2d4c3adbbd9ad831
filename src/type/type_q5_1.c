/* q5_1: blocks of 32 numbers of 5 bits with a scale and a minimum in f16, 24 bytes: x = d · code + m. */
#include "type/quantise.h"
#include "type/type_fives.h"

enum { NUMBERS = 32, MINIMUM = 2, CODES = 4, BYTES = CODES + TYPE_FIVES };

static void q5_1_read(struct qkv_codes *out, const unsigned char *block) {
    type_codes_one(out, block);
    type_codes_add(out, block + MINIMUM);
    type_fives_load(out->code, block + CODES, 0);
}

static void q5_1_write(unsigned char *block, struct qkv_quantise_block *b) {
    qkv_quantise_part(b, block, block + MINIMUM);
    type_fives_store(block + CODES, b->code);
}

static const struct qkv_quantiser q5_1_quantiser = {.part = NUMBERS,
                                                    .low = 0,
                                                    .high = 31,
                                                    .minimum = QKV_MINIMUM_ANY,
                                                    .emphasis = 0.4f,
                                                    .steps = 8,
                                                    .reach = 1,
                                                    .write = q5_1_write};

static const struct qkv_type_codes q5_1_codes = {.part = 32, .minimum = true, .bits = 5, .low = 0, .read = q5_1_read};

const struct qkv_type qkv_type_q5_1 = {.name = "q5_1",
                                       .help = "6 bits: blocks of 32 numbers of 5 bits with a scale and a minimum",
                                       .safetensors = NULL,
                                       .gguf = 7,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .codes = &q5_1_codes,
                                       .quantiser = &q5_1_quantiser};
