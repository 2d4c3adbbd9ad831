/* A toy: blocks of 256 numbers, in 8 parts of 32: a scale in binary32 for the block, a shift for each part, and 4 bits
 * for each number, the number k of a part beside the number k + 16. */
#include "type/type.h"

#include <math.h>
#include <string.h>

enum { NUMBERS = 256, PARTS = 8, PART = NUMBERS / PARTS, BYTES = 4 + PARTS + NUMBERS / 2 };

static void toy256_to_float(float *out, const void *in, size_t n) {
    const unsigned char *block = in;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        float scale;
        memcpy(&scale, block, sizeof scale);
        for (size_t k = 0; k < NUMBERS; k++) {
            const size_t part = k / PART, at = k % PART;
            const unsigned byte = block[4 + PARTS + part * (PART / 2) + at % (PART / 2)];
            const int number = (int)(at < PART / 2 ? byte & 15 : byte >> 4) - 8;
            out[i + k] = ldexpf(scale * (float)number, -(int)block[4 + part]);
        }
    }
}

static float largest_of(const float *x, size_t n) {
    float largest = 0;
    for (size_t k = 0; k < n; k++) largest = fmaxf(largest, fabsf(x[k]));
    return largest;
}

static void toy256_from_float(void *out, const float *in, size_t n) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += NUMBERS, block += BYTES) {
        const float scale = largest_of(in + i, NUMBERS) / 7;
        memset(block, 0, BYTES);
        memcpy(block, &scale, sizeof scale);
        for (size_t part = 0; part < PARTS; part++) {
            const float *x = in + i + part * PART, largest = largest_of(x, PART);
            int shift = 0;
            while (shift < 24 && largest * 2 <= ldexpf(scale * 7, -shift)) shift++;
            block[4 + part] = (unsigned char)shift;
            for (size_t k = 0; k < PART; k++) {
                const float unit = ldexpf(scale, -shift), number = unit > 0 ? rintf(x[k] / unit) : 0;
                const unsigned bits = (unsigned)(int)(fminf(fmaxf(number, -8), 7) + 8);
                block[4 + PARTS + part * (PART / 2) + k % (PART / 2)] |=
                    (unsigned char)(k < PART / 2 ? bits : bits << 4);
            }
        }
    }
}

const struct qkv_type qkv_type_toy256 = {.name = "toy256",
                                         .help = "blocks of 256 numbers of 4 bits",
                                         .safetensors = "TOY256",
                                         .gguf = -1,
                                         .kind = QKV_CLASS_BLOCKS,
                                         .block = NUMBERS,
                                         .bytes = BYTES,
                                         .weights = true,
                                         .to_float = toy256_to_float,
                                         .from_float = toy256_from_float};
