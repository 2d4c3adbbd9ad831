/* q5_0: blocks of 32 numbers of 5 bits with a scale in f16, 22 bytes: x = d · (code − 16). */
#include "type/quantise.h"
#include "type/type_fives.h"

enum { NUMBERS = 32, CODES = 2, BYTES = CODES + TYPE_FIVES };

static void q5_0_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    unsigned char code[NUMBERS];
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const float d = type_half_load(block);
        type_fives_load(code, block + CODES);
        for (size_t k = 0; k < NUMBERS; k++) out[i + k] = d * (float)(code[k] - 16);
    }
}

static void q5_0_write(unsigned char *block, struct qkv_quantise_block *b) {
    qkv_quantise_part(b, block, NULL);
    type_fives_store(block + CODES, b->code);
}

static const struct qkv_quantiser q5_0_quantiser = {
    .part = NUMBERS, .low = -16, .high = 15, .emphasis = 3, .steps = 8, .reach = 1, .write = q5_0_write};

const struct qkv_type qkv_type_q5_0 = {.name = "q5_0",
                                       .help = "5.5 bits: blocks of 32 numbers of 5 bits with a scale",
                                       .safetensors = NULL,
                                       .gguf = 6,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .to_float = q5_0_to_float,
                                       .quantiser = &q5_0_quantiser};
