/* A toy: blocks of 32 numbers of 8 bits with a scale in binary32. */
#include "type/type.h"

#include <math.h>
#include <string.h>

enum { NUMBERS = 32, BYTES = 4 + NUMBERS };

static void toy32_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        float scale;
        memcpy(&scale, block, sizeof scale);
        for (size_t k = 0; k < NUMBERS; k++) out[i + k] = scale * (float)(signed char)block[4 + k];
    }
}

static void toy32_from_float(void *out, const float *in, size_t n) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        float largest = 0;
        for (size_t k = 0; k < NUMBERS; k++) largest = fmaxf(largest, fabsf(in[i + k]));
        const float scale = largest / 127;
        memcpy(block, &scale, sizeof scale);
        for (size_t k = 0; k < NUMBERS; k++)
            block[4 + k] = (unsigned char)(signed char)(scale > 0 ? rintf(in[i + k] / scale) : 0);
    }
}

const struct qkv_type qkv_type_toy32 = {.name = "toy32",
                                        .help = "blocks of 32 numbers of 8 bits",
                                        .safetensors = "TOY32",
                                        .gguf = -1,
                                        .kind = QKV_CLASS_BLOCKS,
                                        .block = NUMBERS,
                                        .bytes = BYTES,
                                        .weights = true,
                                        .to_float = toy32_to_float,
                                        .from_float = toy32_from_float};
