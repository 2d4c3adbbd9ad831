/* machine: what is measured on: the processor's name, its caches, and its peaks. */
#include <stdlib.h>
#include <string.h>

#include <sys/utsname.h>

#include "lab/bench/bench_room.h"
#include "kernel/isa/bf16.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "a C compiler"
#endif

/* Looks for a line "key   : value" or "key: value"; false if there is none. */
static bool find_value(const char *path, const char *key, char *value, size_t size) {
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        size_t n = strlen(key);
        if (strncmp(line, key, n) != 0) continue;
        const char *text = line + n + strspn(line + n, " \t");
        if (*text != ':') continue;
        text += 1 + strspn(text + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(text, "\n"), text);
        found = true;
    }
    if (file) fclose(file);
    return found;
}

static void find_cpu(char *text, size_t size) {
    struct utsname name;
    if (find_value("/proc/cpuinfo", "model name", text, size) && *text) return;
    snprintf(text, size, "%s", uname(&name) == 0 ? name.machine : "unknown");
}

/* Of several measurements the best: what other programs take away meanwhile is no property of the machine. */
static double best_of(struct qkv_context *ctx, double (*measure)(struct qkv_context *)) {
    enum { TIMES = 5 };
    double best = 0;
    for (int i = 0; i < TIMES; i++) {
        double here = measure(ctx);
        if (here > best) best = here;
    }
    return best;
}

enum qkv_status qkv_bench_measure_machine(struct qkv_context *ctx, struct qkv_bench_machine *machine) {
    *machine = (struct qkv_bench_machine){.threads = ctx->threads};
    find_cpu(machine->cpu, sizeof machine->cpu);
    snprintf(machine->compiler, sizeof machine->compiler, "%s", COMPILER);
    snprintf(machine->isa, sizeof machine->isa, "%s", ctx->isa);
    for (int level = 1; level <= 3; level++) machine->cache[level - 1] = qkv_cache_bytes(level);
    machine->fp32_flops = best_of(ctx, qkv_measure_peak);
    machine->bf16_flops = ctx->kernels->bf16->native ? best_of(ctx, qkv_measure_bf16_peak) : 0;
    machine->read_bytes = qkv_measure_bandwidth(ctx);
    return machine->read_bytes > 0 ? QKV_OK : QKV_MEMORY;
}

/* The number in a file; SIZE_MAX if there is none ("max" too). */
static size_t read_number(const char *path) {
    char text[64], *end;
    FILE *file = fopen(path, "r");
    bool read = file && fgets(text, sizeof text, file);
    if (file) fclose(file);
    if (!read) return SIZE_MAX;
    unsigned long long number = strtoull(text, &end, 10);
    return end > text && number < SIZE_MAX ? (size_t)number : SIZE_MAX;
}

size_t qkv_bench_free_memory(void) {
    char text[64];
    size_t free_bytes = SIZE_MAX, kilobytes, bytes;
    if (find_value("/proc/meminfo", "MemAvailable", text, sizeof text)) {
        kilobytes = (size_t)strtoull(text, NULL, 10);
        if (qkv_multiply(kilobytes, 1024, &bytes)) free_bytes = bytes;
    }
    /* The limit of a container (cgroup v2), whose root this process sees. */
    size_t most = read_number("/sys/fs/cgroup/memory.max"), used = read_number("/sys/fs/cgroup/memory.current");
    if (most != SIZE_MAX && used != SIZE_MAX) {
        size_t left = used < most ? most - used : 0;
        if (left < free_bytes) free_bytes = left;
    }
    return free_bytes;
}
