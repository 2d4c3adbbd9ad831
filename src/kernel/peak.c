/* peak: the maximum of floating-point operations a second, and of bytes read a second, of the threads of a context on
 * this machine. Reported shares of the peak are relative to these. */
#include "kernel/isa/bf16.h"

enum { PIECES_A_THREAD = 4, ROUNDS = 3 };

struct peak {
    double (*kernel)(size_t iterations);
    size_t iterations;
};

static void peak_item(void *argument, size_t item, int thread) {
    (void)item, (void)thread;
    const struct peak *peak = argument;
    peak->kernel(peak->iterations);
}

static double peak_measure(struct qkv_context *ctx, double (*kernel)(size_t)) {
    struct qkv_context measured = {
        .threads = ctx->threads, .team = ctx->team, .kernels = ctx->kernels, .backend = ctx->backend};
    struct peak peak = {kernel, 1000};
    double seconds, flops = 0;
    for (;;) { /* doubles the iterations until they take about a millisecond */
        double start = qkv_clock();
        flops = kernel(peak.iterations);
        seconds = qkv_clock() - start;
        if (seconds >= 5e-4) break;
        peak.iterations *= 2;
    }
    double best = 0;
    const size_t count = (size_t)ctx->threads * PIECES_A_THREAD;
    for (int round = 0; round < ROUNDS; round++) {
        double start = qkv_clock();
        qkv_parallel(&measured, count, peak_item, &peak);
        seconds = qkv_clock() - start;
        double rate = flops * (double)count / seconds;
        if (rate > best) best = rate;
    }
    return best;
}

double qkv_measure_peak(struct qkv_context *ctx) {
    return peak_measure(ctx, ctx->kernels->fma_peak);
}

double qkv_measure_bf16_peak(struct qkv_context *ctx) {
    return peak_measure(ctx, ctx->kernels->bf16->peak);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { READ_ROUNDS = 3, READ_PIECE = 1 << 18 /* floats, 1 MiB */ };
#define READ_MIN   ((size_t)128 << 20)
#define READ_MAX   ((size_t)2 << 30)
#define READ_TIMES 4 /* times the last-level cache */

/* The ways of reading, of which the fastest counts: memory is fastest in several streams on some machines, and with
 * prefetches on others. */
static const struct read_way {
    size_t streams, ahead;
} read_ways[] = {{1, 0}, {1, 1024}, {2, 512}, {4, 512}, {4, 2048}, {8, 1024}};
enum { READ_WAYS = sizeof read_ways / sizeof *read_ways };

/* The memory of a page is near the thread that touches the page first. */
static void fill_item(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_reading *r = argument;
    for (size_t i = begin; i < end; i++) r->data[i] = 1;
}

static void read_item(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    const struct qkv_reading *r = argument;
    const struct read_way *way = &read_ways[r->way];
    /* The sum is used, or the compiler might remove the reads: a sum of ones is never negative. */
    if (r->kernels->read_all(r->data + begin, end - begin, way->streams, way->ahead) < 0) r->data[begin] = 0;
}

enum qkv_status qkv_reading_start(struct qkv_context *ctx, struct qkv_reading *r) {
    size_t bytes = READ_TIMES * qkv_cache_bytes(0);
    if (bytes < READ_MIN) bytes = READ_MIN;
    if (bytes > READ_MAX) bytes = READ_MAX;
    *r = (struct qkv_reading){.kernels = ctx->kernels, .count = bytes / sizeof(float)};
    enum qkv_status status = qkv_arena_create(ctx, &r->arena, bytes, "buffer to measure the memory");
    if (status) return status;
    r->data = qkv_arena_take(&r->arena, bytes, 1);
    struct qkv_context measured = {
        .threads = ctx->threads, .team = ctx->team, .kernels = ctx->kernels, .backend = ctx->backend};
    qkv_parallel_range(&measured, r->count, READ_PIECE, fill_item, r);
    size_t fastest = 0;
    for (size_t i = 0; i < READ_WAYS * READ_ROUNDS; i++) {
        const double before = r->best;
        r->way = i % READ_WAYS;
        if (qkv_reading_measure(ctx, r) > before) fastest = r->way;
    }
    r->way = fastest;
    return QKV_OK;
}

double qkv_reading_measure(struct qkv_context *ctx, struct qkv_reading *r) {
    struct qkv_context measured = {
        .threads = ctx->threads, .team = ctx->team, .kernels = ctx->kernels, .backend = ctx->backend};
    const double start = qkv_clock();
    qkv_parallel_range(&measured, r->count, READ_PIECE, read_item, r);
    const double rate = (double)r->count * sizeof(float) / (qkv_clock() - start);
    if (rate > r->best) r->best = rate;
    return rate;
}

void qkv_reading_end(struct qkv_reading *r) {
    qkv_arena_free(&r->arena);
}
