/* random: Threefry-2x32-20 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3") and its
 * distributions: uniform, normal (Box & Muller 1958) and bounded integers. */
#include "base/base.h"
#include "base/math.h"

static inline uint32_t rotate_left(uint32_t x, unsigned n) {
    return (x << n) | (x >> (32 - n));
}

/* Four rounds with the rotations a to d, and the key behind them. */
static inline void four_rounds(uint32_t x[2], unsigned a, unsigned b, unsigned c, unsigned d, uint32_t key0,
                               uint32_t key1) {
    x[0] += x[1], x[1] = rotate_left(x[1], a) ^ x[0];
    x[0] += x[1], x[1] = rotate_left(x[1], b) ^ x[0];
    x[0] += x[1], x[1] = rotate_left(x[1], c) ^ x[0];
    x[0] += x[1], x[1] = rotate_left(x[1], d) ^ x[0];
    x[0] += key0, x[1] += key1;
}

/* The rounds are written out: random numbers are most of the time of creating a model. */
void qkv_threefry(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2]) {
    const uint32_t k0 = key[0], k1 = key[1], k2 = 0x1bd11bdau ^ k0 ^ k1;
    uint32_t x[2] = {counter[0] + k0, counter[1] + k1};
    four_rounds(x, 13, 15, 26, 6, k1, k2 + 1);
    four_rounds(x, 17, 29, 16, 24, k2, k0 + 2);
    four_rounds(x, 13, 15, 26, 6, k0, k1 + 3);
    four_rounds(x, 17, 29, 16, 24, k1, k2 + 4);
    four_rounds(x, 13, 15, 26, 6, k2, k0 + 5);
    out[0] = x[0], out[1] = x[1];
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
