/* The byte alphabet of byte-level vocabularies (Radford et al. 2019, "Language models are unsupervised multitask
 * learners": bytes_to_unicode). */
#include "text/text.h"

uint32_t qkv_byte_symbol(unsigned char byte) {
    if (byte <= 32) return 256U + byte;
    if (byte >= 127 && byte <= 160) return 256U + 33U + (byte - 127U);
    if (byte == 173) return 256U + 33U + 34U;
    return byte;
}

int qkv_symbol_byte(uint32_t code) {
    if (code < 256) return qkv_byte_symbol((unsigned char)code) == code ? (int)code : -1;
    if (code <= 256 + 32) return (int)code - 256;
    if (code <= 256 + 33 + 33) return (int)code - 256 - 33 + 127;
    return code == 256 + 33 + 34 ? 173 : -1;
}
