/* checks.h: reports of the kernel checks without a test framework, so that the same checks run under cmocka
 * (test_kernels.c, test_gemm.c) and in one static program under an emulator (kernels_standalone.c). */
#ifndef QKV_CHECKS_H
#define QKV_CHECKS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard_page.h"
#include "kernel/kernel.h"

static int check_failures; /* since the program began */

/* Prints the first few failures, counts all. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            if (check_failures++ < 20) {                                                                               \
                fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                        \
                fprintf(stderr, __VA_ARGS__);                                                                          \
                fputc('\n', stderr);                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* A block of floats behind a guard that must stay as it is and in front of a page that nobody may touch. */
enum { GUARD = 64 };
#define GUARD_BITS 0x7fc0dead
static inline float *guarded_new(size_t n) {
    if (n > SIZE_MAX / 8 - GUARD) abort();
    uint32_t *block = guard_page_new((n + GUARD) * sizeof *block);
    for (size_t i = 0; i < n + GUARD; i++) block[i] = GUARD_BITS;
    return (float *)(void *)(block + GUARD);
}
static inline bool guards_hold(const float *p) {
    bool hold = true;
    for (size_t i = 0; i < GUARD; i++) {
        uint32_t before;
        memcpy(&before, p - GUARD + i, 4);
        hold = hold && before == GUARD_BITS;
    }
    return hold;
}
static inline void guarded_free(float *p, size_t n, const char *what) {
    CHECK(guards_hold(p), "%s wrote before its %zu floats", what, n);
    guard_page_free(p - GUARD);
}

/* n floats of mean 0 and this deviation, near enough to normal: the sum of four uniform numbers. */
static inline float *random_floats(struct qkv_random *random, size_t n, double deviation) {
    float *p = guarded_new(n);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = qkv_random_bits(random);
        double sum = (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
        p[i] = (float)(deviation * (sum / 37837.2 - 3.4641)); /* 65536/√3 */
    }
    return p;
}
static inline float *copied(const float *p, size_t n) {
    float *q = guarded_new(n);
    if (n) memcpy(q, p, n * sizeof *q);
    return q;
}
static inline size_t between(struct qkv_random *random, size_t low, size_t high) {
    return low + (size_t)qkv_random_below(random, (uint64_t)(high - low) + 1);
}
static inline bool same_bits(const float *a, const float *b, size_t n) {
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}
/* |a − b| <= tolerance·max(size, |b|), where b is what it should be; NaN for NaN, infinite for infinite. */
static inline bool near(float a, double b, double tolerance, double size) {
    if (isnan(b)) return isnan(a);
    if (isinf((float)b)) return a == (float)b;
    return fabs((double)a - b) <= tolerance * fmax(size, fabs(b));
}

/* The ragged sizes that every kernel is tried at. */
static inline size_t ragged(size_t i) {
    static const size_t large[] = {96, 127, 128, 255, 768, 1000, 4099, 0};
    return i <= 67 ? i : large[i - 68];
}
enum { RAGGED_COUNT = 68 + 7 };

#endif
