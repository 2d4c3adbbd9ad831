/* q4_0: blocks of 32 numbers of 4 bits with a scale in f16, 18 bytes: x = d · (code − 8). */
#include "type/quantise.h"
#include "type/type_unpack.h"

enum { NUMBERS = 32, CODES = 2, BYTES = CODES + NUMBERS / 2 };

static void q4_0_write(unsigned char *block, struct qkv_quantise_block *b) {
    qkv_quantise_part(b, block, NULL);
    type_nibbles_store(block + CODES, b->code, NUMBERS / 2);
}

static const struct qkv_quantiser q4_0_quantiser = {
    .part = NUMBERS, .low = -8, .high = 7, .emphasis = 3, .steps = 8, .reach = 1, .write = q4_0_write};

static const struct qkv_type_codes q4_0_codes = {.part = 32, .bits = 4, .low = -8, .read = type_q4_0_read};

const struct qkv_type qkv_type_q4_0 = {.name = "q4_0",
                                       .help = "4.5 bits: blocks of 32 numbers of 4 bits with a scale",
                                       .safetensors = NULL,
                                       .gguf = 2,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .codes = &q4_0_codes,
                                       .quantiser = &q4_0_quantiser};
