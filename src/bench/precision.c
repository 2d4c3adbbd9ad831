/* precision: in which arithmetic rows are measured, a line each. */
#include "bench/bench.h"

/* What a context starts with. */
static void choose_fp32(struct qkv_context *ctx) {
    (void)ctx;
}

static double fp32_peak(const struct qkv_bench_machine *machine) {
    return machine->fp32_flops;
}

static const struct qkv_bench_precision precisions[] = {
    {"fp32", QKV_F32, choose_fp32, fp32_peak},
};
enum { PRECISION_COUNT = sizeof precisions / sizeof *precisions };

const struct qkv_bench_precision *qkv_bench_precision_at(size_t i) {
    return i < PRECISION_COUNT ? &precisions[i] : NULL;
}

void qkv_bench_list_precisions(char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < PRECISION_COUNT; i++) {
        int n = snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", precisions[i].name);
        if (n < 0 || (size_t)n >= capacity - used) return;
        used += (size_t)n;
    }
}
