#include "data/permute.h"

#include "data/data.h"

enum { ROUNDS = 6 };

uint64_t qkv_permute(const uint32_t key[2], uint64_t n, uint64_t i) {
    unsigned half = 1;
    while (half < 31 && (UINT64_C(1) << (2 * half)) < n) half++;
    const uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
    do {
        uint32_t left = (uint32_t)(i >> half) & mask, right = (uint32_t)i & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint32_t out[2];
            qkv_threefry(key, (const uint32_t[2]){right, round}, out);
            const uint32_t next = left ^ (out[0] & mask);
            left = right;
            right = next;
        }
        i = (uint64_t)left << half | right;
    } while (i >= n);
    return i;
}

void qkv_mix_begin(struct qkv_mix *mix, uint64_t seed, const double *weights, size_t count) {
    double left[QKV_FILES_MAX];
    uint32_t sum = 0;
    *mix = (struct qkv_mix){.seed = seed, .count = count};
    for (size_t i = 0; i < count; i++) {
        const double exact = weights[i] * QKV_MIX;
        mix->share[i] = exact < 1 ? 1 : (uint32_t)exact;
        left[i] = exact - (double)mix->share[i];
        sum += mix->share[i];
    }
    /* The largest remainders are rounded up; rows that small sources have too many come from the largest. */
    while (sum != QKV_MIX) {
        size_t best = 0;
        for (size_t i = 1; i < count; i++)
            if (sum < QKV_MIX ? left[i] > left[best] : mix->share[i] > mix->share[best]) best = i;
        mix->share[best] = sum < QKV_MIX ? mix->share[best] + 1 : mix->share[best] - 1;
        left[best] -= 1;
        sum = sum < QKV_MIX ? sum + 1 : sum - 1;
    }
}

size_t qkv_mix_row(const struct qkv_mix *mix, uint64_t row, uint64_t *nth) {
    *nth = row;
    if (mix->count < 2) return 0;
    const uint64_t block = row / QKV_MIX;
    const struct qkv_random random = qkv_draw_mix(mix->seed, block);
    uint64_t place = qkv_permute(random.key, QKV_MIX, row % QKV_MIX);
    size_t source = 0;
    for (; place >= mix->share[source]; source++) place -= mix->share[source];
    *nth = block * mix->share[source] + place;
    return source;
}

uint64_t qkv_mix_window(const struct qkv_mix *mix, size_t source, uint64_t nth, uint64_t windows) {
    const struct qkv_random random = qkv_draw_order(mix->seed, source, nth / windows);
    return qkv_permute(random.key, windows, nth % windows);
}
