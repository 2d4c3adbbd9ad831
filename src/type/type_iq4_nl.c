/* iq4_nl: blocks of 32 codes of 4 bits with a scale in f16, 18 bytes: x = d · value(code), of 16 values that are not
 * equally far apart. */
#include "type/type_fours.h"
#include "type/type_nibbles.h"

enum { NUMBERS = 32, CODES = 2, BYTES = CODES + NUMBERS / 2 };

static void iq4_nl_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const float d = type_half_load(block);
        for (size_t k = 0; k < NUMBERS / 2; k++) {
            out[i + k] = d * (float)type_fours[block[CODES + k] & 15];
            out[i + k + NUMBERS / 2] = d * (float)type_fours[block[CODES + k] >> 4];
        }
    }
}

static void iq4_nl_write(unsigned char *block, struct qkv_quantise_block *b) {
    qkv_quantise_part(b, block, NULL);
    type_nibbles_store(block + CODES, b->code, NUMBERS / 2);
}

static const struct qkv_quantiser iq4_nl_quantiser = {.part = NUMBERS,
                                                      .low = -127,
                                                      .high = 113,
                                                      .values = &type_fours_values,
                                                      .emphasis = 1.3f,
                                                      .steps = 8,
                                                      .reach = 12,
                                                      .write = iq4_nl_write};

const struct qkv_type qkv_type_iq4_nl = {.name = "iq4_nl",
                                         .help = "4.5 bits: blocks of 32 numbers of 16 values with a scale",
                                         .safetensors = NULL,
                                         .gguf = 20,
                                         .kind = QKV_CLASS_BLOCKS,
                                         .block = NUMBERS,
                                         .bytes = BYTES,
                                         .weights = true,
                                         .to_float = iq4_nl_to_float,
                                         .quantiser = &iq4_nl_quantiser};
