/* q5_0: blocks of 32 numbers of 5 bits with a scale in f16, 22 bytes: x = d · (code − 16). */
#include "type/quantise.h"
#include "type/type_fives.h"

enum { NUMBERS = 32, CODES = 2, BYTES = CODES + TYPE_FIVES };

static void q5_0_read(struct qkv_codes *out, const unsigned char *block) {
    type_codes_one(out, block);
    type_fives_load(out->code, block + CODES, -16);
}

static void q5_0_write(unsigned char *block, struct qkv_quantise_block *b) {
    qkv_quantise_part(b, block, NULL);
    type_fives_store(block + CODES, b->code);
}

static const struct qkv_quantiser q5_0_quantiser = {
    .part = NUMBERS, .low = -16, .high = 15, .emphasis = 3, .steps = 8, .reach = 1, .write = q5_0_write};

static const struct qkv_type_codes q5_0_codes = {.part = 32, .bits = 5, .low = -16, .read = q5_0_read};

const struct qkv_type qkv_type_q5_0 = {.name = "q5_0",
                                       .help = "5.5 bits: blocks of 32 numbers of 5 bits with a scale",
                                       .safetensors = NULL,
                                       .gguf = 6,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .codes = &q5_0_codes,
                                       .quantiser = &q5_0_quantiser};
