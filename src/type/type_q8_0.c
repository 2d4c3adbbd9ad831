/* q8_0: blocks of 32 numbers of 8 bits with a scale in f16, 34 bytes: x = d · q. */
#include "type/type_unpack.h"

#include <math.h>

enum { NUMBERS = 32, BYTES = 2 + NUMBERS };

/* The scale is the largest magnitude over 127, and numbers are rounded before it is, halves away from 0: every program
 * that writes this type writes these bytes. */
static void q8_0_from_float(void *out, const float *in, size_t n) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        float largest = 0;
        bool finite = true;
        for (size_t k = 0; k < NUMBERS; k++) {
            if (fabsf(in[i + k]) > largest) largest = fabsf(in[i + k]);
            finite = finite && isfinite(in[i + k]);
        }
        const float d = largest / 127, inverse = d > 0x1p-126f && finite ? 1 / d : 0;
        type_half_store(block, finite ? d : NAN);
        for (size_t k = 0; k < NUMBERS; k++) {
            const float q = in[i + k] * inverse;
            block[2 + k] = (unsigned char)(int)(finite ? (double)q + copysign(0.5, (double)q) : 0);
        }
    }
}

static const struct qkv_type_codes q8_0_codes = {.part = 32, .bits = 8, .low = -128, .read = type_q8_0_read};

const struct qkv_type qkv_type_q8_0 = {.name = "q8_0",
                                       .help = "8.5 bits: blocks of 32 numbers of 8 bits with a scale",
                                       .safetensors = NULL,
                                       .gguf = 8,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .codes = &q8_0_codes,
                                       .from_float = q8_0_from_float};
