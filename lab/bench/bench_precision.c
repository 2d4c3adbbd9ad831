/* precision: the precisions that rows are measured in, one line each. */
#include "lab/bench/bench_room.h"
#include "kernel/isa/bf16.h"

static const struct qkv_bench_precision precisions[] = {
    {"fp32", QKV_FP32, QKV_F32},
    {"bf16", QKV_MIXED_BF16, QKV_BF16},
};
enum { PRECISION_COUNT = sizeof precisions / sizeof *precisions };

const struct qkv_bench_precision *qkv_bench_precision_at(size_t i) {
    return i < PRECISION_COUNT ? &precisions[i] : NULL;
}

/* Without bf16 instructions, bf16 products run as fp32. */
double qkv_bench_measure_peak(struct qkv_context *ctx, const struct qkv_bench_precision *precision) {
    return precision->dtype == QKV_BF16 && ctx->kernels->bf16->native ? qkv_measure_bf16_peak(ctx)
                                                                      : qkv_measure_peak(ctx);
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
