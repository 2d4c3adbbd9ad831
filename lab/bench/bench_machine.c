/* machine: the machine that is measured: the processor's name, its caches, and its peaks. */
#include <string.h>

#include "lab/bench/bench_room.h"
#include "kernel/isa/bf16.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "a C compiler"
#endif

/* The best of several measurements: time that other programs take is not a property of the machine. */
static double best_of(struct qkv_context *ctx, double (*measure)(struct qkv_context *)) {
    enum { TIMES = 5 };
    double best = 0;
    for (int i = 0; i < TIMES; i++) {
        double here = measure(ctx);
        if (here > best) best = here;
    }
    return best;
}

enum qkv_status qkv_bench_measure_machine(struct qkv_context *ctx, struct qkv_bench_machine *machine,
                                          struct qkv_reading *reading) {
    *machine = (struct qkv_bench_machine){.threads = ctx->threads};
    qkv_cpu_name(machine->cpu, sizeof machine->cpu);
    snprintf(machine->compiler, sizeof machine->compiler, "%s", COMPILER);
    snprintf(machine->isa, sizeof machine->isa, "%s", ctx->isa);
    for (int level = 1; level <= 3; level++) machine->cache[level - 1] = qkv_cache_bytes(level);
    machine->fp32_flops = best_of(ctx, qkv_measure_peak);
    machine->bf16_flops = ctx->kernels->bf16->native ? best_of(ctx, qkv_measure_bf16_peak) : 0;
    const enum qkv_status status = qkv_reading_start(ctx, reading);
    machine->read_bytes = reading->best;
    return status;
}
