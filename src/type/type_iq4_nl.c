/* iq4_nl: blocks of 32 codes of 4 bits with a scale in f16, 18 bytes: x = d · value(code), of 16 values that are not
 * equally far apart. */
#include "type/type_fours.h"
#include "type/type_nibbles.h"

enum { NUMBERS = 32, CODES = 2, BYTES = CODES + NUMBERS / 2 };

static void iq4_nl_read(struct qkv_codes *out, const unsigned char *block) {
    type_codes_one(out, block);
    type_fours_load(out->code, block + CODES);
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

static const struct qkv_type_codes iq4_nl_codes = {.part = 32, .bits = 8, .low = -128, .read = iq4_nl_read};

const struct qkv_type qkv_type_iq4_nl = {.name = "iq4_nl",
                                         .help = "4.5 bits: blocks of 32 numbers of 16 values with a scale",
                                         .safetensors = NULL,
                                         .gguf = 20,
                                         .kind = QKV_CLASS_BLOCKS,
                                         .block = NUMBERS,
                                         .bytes = BYTES,
                                         .weights = true,
                                         .codes = &iq4_nl_codes,
                                         .quantiser = &iq4_nl_quantiser};
