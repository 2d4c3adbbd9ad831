/* q5_1: blocks of 32 numbers of 5 bits with a scale and a minimum in f16, 24 bytes: x = d · code + m. */
#include "type/quantise.h"
#include "type/type_fives.h"

enum { NUMBERS = 32, MINIMUM = 2, CODES = 4, BYTES = CODES + TYPE_FIVES };

static void q5_1_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    unsigned char code[NUMBERS];
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const float d = type_half_load(block), m = type_half_load(block + MINIMUM);
        type_fives_load(code, block + CODES);
        for (size_t k = 0; k < NUMBERS; k++) out[i + k] = d * (float)code[k] + m;
    }
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

const struct qkv_type qkv_type_q5_1 = {.name = "q5_1",
                                       .help = "6 bits: blocks of 32 numbers of 5 bits with a scale and a minimum",
                                       .safetensors = NULL,
                                       .gguf = 7,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .to_float = q5_1_to_float,
                                       .quantiser = &q5_1_quantiser};
