/* peak: the most floating-point operations a second that this machine gives a context: the yardstick of every share of
 * the peak that is reported. */
#include <time.h>

#include "kernel/kernel.h"

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum { PIECES_A_THREAD = 8, ROUNDS = 3 };

struct peak {
    const struct qkv_kernels *kernels;
    size_t iterations;
};

static void peak_item(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct peak *peak = argument;
    peak->kernels->fma_peak(peak->iterations);
}

double qkv_measure_peak(struct qkv_context *ctx) {
    const struct qkv_kernels *kernels = ctx->kernels;
    struct qkv_context measured = {.threads = ctx->threads, .kernels = kernels}; /* dry or not: it is measured */
    struct peak peak = {kernels, 1000};
    double seconds, flops = 0;
    for (;;) { /* how many iterations take about a millisecond */
        double start = seconds_now();
        flops = kernels->fma_peak(peak.iterations);
        seconds = seconds_now() - start;
        if (seconds >= 5e-4) break;
        peak.iterations *= 2;
    }
    double best = 0;
    const size_t count = (size_t)ctx->threads * PIECES_A_THREAD;
    for (int round = 0; round < ROUNDS; round++) {
        double start = seconds_now();
        qkv_parallel(&measured, count, peak_item, &peak);
        seconds = seconds_now() - start;
        double rate = flops * (double)count / seconds;
        if (rate > best) best = rate;
    }
    return best;
}
