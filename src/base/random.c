/* random: Threefry-2x32-20 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3") and its
 * distributions: uniform, normal (Box & Muller 1958) and bounded integers. */
#include "base/base.h"
#include "base/math.h"

#define ROUNDS 20

static uint32_t rotate_left(uint32_t x, unsigned n) {
    return (x << n) | (x >> (32 - n));
}

void qkv_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2]) {
    static const unsigned rotation[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t schedule[3] = {key[0], key[1], 0x1bd11bdau ^ key[0] ^ key[1]};
    uint32_t x0 = counter[0] + schedule[0], x1 = counter[1] + schedule[1];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        x0 += x1;
        x1 = rotate_left(x1, rotation[round % 8]) ^ x0;
        if (round % 4 == 3) {
            uint32_t injection = round / 4 + 1;
            x0 += schedule[injection % 3];
            x1 += schedule[(injection + 1) % 3] + injection;
        }
    }
    out[0] = x0;
    out[1] = x1;
}

/* The key is the stream number enciphered under the seed. For each seed this is one to one, so streams of a seed never
 * share a key. */
struct qkv_random qkv_random_start(uint64_t seed, uint64_t stream) {
    struct qkv_random random = {.counter = 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[2] = {(uint32_t)stream, (uint32_t)(stream >> 32)};
    qkv_threefry(key, counter, random.key);
    return random;
}

uint64_t qkv_random_bits(struct qkv_random *random) {
    const uint32_t counter[2] = {(uint32_t)random->counter, (uint32_t)(random->counter >> 32)};
    uint32_t out[2];
    qkv_threefry(random->key, counter, out);
    random->counter++;
    return out[0] | (uint64_t)out[1] << 32;
}

double qkv_random_uniform(struct qkv_random *random) {
    return (double)(qkv_random_bits(random) >> 11) * 0x1p-53;
}

double qkv_random_normal(struct qkv_random *random) {
    const double two_pi = 6.283185307179586476925;
    double radius = sqrt(-2.0 * qkv_log(1.0 - qkv_random_uniform(random))); /* in (0, 1], so the logarithm is finite */
    return radius * qkv_cos(two_pi * qkv_random_uniform(random));
}

uint64_t qkv_random_below(struct qkv_random *random, uint64_t bound) {
    if (bound == 0) return 0;
    /* 2^64 mod bound: so many numbers are rejected, and the others fall evenly on all remainders */
    uint64_t uneven = (UINT64_MAX - bound + 1) % bound, bits;
    do {
        bits = qkv_random_bits(random);
    } while (bits < uneven);
    return bits % bound;
}
