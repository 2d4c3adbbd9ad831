/* q4_1: blocks of 32 numbers of 4 bits with a scale and a minimum in f16, 20 bytes: x = d · code + m. */
#include "type/quantise.h"
#include "type/type_nibbles.h"

enum { NUMBERS = 32, MINIMUM = 2, CODES = 4, BYTES = CODES + NUMBERS / 2 };

static void q4_1_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const float d = type_half_load(block), m = type_half_load(block + MINIMUM);
        for (size_t k = 0; k < NUMBERS / 2; k++) {
            out[i + k] = d * (float)(block[CODES + k] & 15) + m;
            out[i + k + NUMBERS / 2] = d * (float)(block[CODES + k] >> 4) + m;
        }
    }
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

const struct qkv_type qkv_type_q4_1 = {.name = "q4_1",
                                       .help = "5 bits: blocks of 32 numbers of 4 bits with a scale and a minimum",
                                       .safetensors = NULL,
                                       .gguf = 3,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .to_float = q4_1_to_float,
                                       .quantiser = &q4_1_quantiser};
