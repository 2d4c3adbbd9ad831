/* q6_K: blocks of 256 numbers of 6 bits in 16 parts of 16, 210 bytes: the lower 4 bits of the codes, their upper 2
 * bits, a signed scale of 8 bits for each part, and d in f16: x = d · scale · (code − 32). A half (128 numbers) has
 * four runs of 32. Byte l + 32 · (run % 2) of 64 has the lower bits of number l of a run, in its lower half if the run
 * is 0 or 1, else in its upper half; bits 2 · run and 2 · run + 1 of byte l of 32 are the upper bits. */
#include "type/quantise.h"
#include "type/type_unpack.h"

enum { NUMBERS = 256, PARTS = 16, PART = NUMBERS / PARTS, HIGH = TYPE_Q6_K_HIGH, SCALES = TYPE_Q6_K_SCALES };
enum { D = TYPE_Q6_K_D, BYTES = D + 2 };

static void q6_K_write(unsigned char *block, struct qkv_quantise_block *b) {
    int scales[PARTS];
    qkv_quantise_scales(b, -128, 127, block + D, scales);
    for (size_t p = 0; p < PARTS; p++) block[SCALES + p] = (unsigned char)scales[p];
    for (size_t k = 0; k < NUMBERS; k++) {
        const size_t run = k % 128 / 32;
        block[k / 128 * 64 + k % 32 + run % 2 * 32] |= (unsigned char)((b->code[k] & 15) << (run / 2 * 4));
        block[HIGH + k / 128 * 32 + k % 32] |= (unsigned char)(b->code[k] >> 4 << (run * 2));
    }
}

static const struct qkv_quantiser q6_K_quantiser = {
    .part = PART, .scale = D, .low = -32, .high = 31, .emphasis = 1.5f, .steps = 8, .reach = 1, .write = q6_K_write};

static const struct qkv_type_codes q6_K_codes = {
    .part = 16, .scales = true, .bits = 6, .low = -32, .read = type_q6_K_read};

const struct qkv_type qkv_type_q6_K = {.name = "q6_K",
                                       .help = "6.5625 bits: blocks of 256 numbers of 6 bits, in 16 parts with scales",
                                       .safetensors = NULL,
                                       .gguf = 14,
                                       .kind = QKV_CLASS_BLOCKS,
                                       .block = NUMBERS,
                                       .bytes = BYTES,
                                       .weights = true,
                                       .codes = &q6_K_codes,
                                       .quantiser = &q6_K_quantiser};
