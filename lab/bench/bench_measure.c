/* bench_measure: what the groups of rows share: contestants that alternate, the share of a peak, and memory for
 * operands. */
#include "lab/bench/bench_room.h"

#include "type/type.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_ROUNDS = 3, FILL_PIECE = 1 << 16 };
#define SLOW     0.05 /* a call of this many seconds needs no other call before it to wake threads and caches */
#define PATIENCE 3.0  /* times the seconds of a row; after that, fewer rounds are enough */

char *qkv_bench_label(const struct qkv_bench_row *row, char text[QKV_BENCH_LABEL]) {
    snprintf(text, QKV_BENCH_LABEL, "%s %s %s %s", row->group, row->name, row->form, row->precision);
    return text;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

bool qkv_bench_goes_on(struct qkv_bench *b, const struct qkv_bench_row *row) {
    char label[QKV_BENCH_LABEL];
    const struct qkv_bench_options *o = b->options;
    return !o->progress || o->progress(o->user, qkv_bench_label(row, label), (double)b->row, (double)b->rows);
}

/* Worker threads spin for some milliseconds after their work, in every library, which would disturb the next
 * contestant. */
static void let_threads_sleep(void) {
    const struct timespec pause = {0, 60 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

/* The times of one contestant. */
struct watch {
    size_t turn;
    double warm; /* seconds of the first call */
    double times[QKV_BENCH_MAX_ROUNDS];
};

/* The peaks of each round. */
struct peaks {
    double flops[QKV_BENCH_MAX_ROUNDS], read[QKV_BENCH_MAX_ROUNDS];
};

static enum qkv_status time_call(const struct qkv_bench_contestant *c, struct watch *watch, double *seconds) {
    double start = qkv_clock();
    enum qkv_status status = c->work(c->argument, watch->turn++);
    *seconds = qkv_clock() - start;
    return status;
}

/* Measures seconds a call, over calls that take b->seconds together. */
static enum qkv_status time_round(struct qkv_bench *b, const struct qkv_bench_row *row,
                                  const struct qkv_bench_contestant *c, struct watch *watch, int round) {
    double spent = 0;
    size_t calls = 0, batch = 1;
    enum qkv_status status = QKV_OK;
    if (round == 0 || watch->warm < SLOW) status = time_call(c, watch, &watch->warm);
    do {
        if (status == QKV_OK && !qkv_bench_goes_on(b, row)) status = QKV_STOPPED;
        double start = qkv_clock();
        for (size_t i = 0; i < batch && status == QKV_OK; i++) status = c->work(c->argument, watch->turn++);
        spent += qkv_clock() - start;
        calls += batch;
        if (spent < b->seconds / 16) batch *= 2;
    } while (status == QKV_OK && spent < b->seconds);
    watch->times[round] = spent / (double)calls;
    return status;
}

static int bench_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bench_median(double *x, int count) {
    qsort(x, (size_t)count, sizeof *x, bench_compare);
    return x[count / 2];
}

/* What the row needs of each peak is measured after each round: other programs slow down rows and peaks alike. Ranks
 * other than 0 measure none. */
static void measure_peaks(struct qkv_bench *b, const struct qkv_bench_row *row, struct peaks *peaks, int round) {
    const bool measures = b->reading.data;
    peaks->flops[round] = measures && row->flops > 0 ? qkv_bench_measure_peak(b->ctx, b->precision) : 0;
    peaks->read[round] = measures && row->bytes > 0 ? qkv_reading_measure(b->ctx, &b->reading) : 0;
}

/* The share of the longer floor, the median over the rounds; and how far the rounds lie apart. */
static void rate_rounds(struct qkv_bench_row *row, struct watch *watch, struct peaks *peaks, int rounds) {
    double shares[QKV_BENCH_MAX_ROUNDS];
    int reads = 0;
    for (int i = 0; i < rounds; i++) {
        const double arithmetic = peaks->flops[i] > 0 ? row->flops / peaks->flops[i] : 0,
                     reading = peaks->read[i] > 0 ? row->bytes / peaks->read[i] : 0;
        reads += reading > arithmetic;
        shares[i] = watch->times[i] > 0 ? (reading > arithmetic ? reading : arithmetic) / watch->times[i] : 0;
    }
    row->reads = 2 * reads > rounds;
    row->share = bench_median(shares, rounds);
    row->peak_flops = bench_median(peaks->flops, rounds);
    row->peak_read = bench_median(peaks->read, rounds);
    row->seconds = bench_median(watch->times, rounds);
    row->fastest = watch->times[0];
    row->spread = row->seconds > 0 ? (watch->times[rounds - 1] - watch->times[0]) / row->seconds : 0;
}

void qkv_bench_rate(struct qkv_bench *b, struct qkv_bench_row *row) {
    struct watch watch = {.times = {row->seconds}};
    struct peaks peaks;
    measure_peaks(b, row, &peaks, 0);
    rate_rounds(row, &watch, &peaks, 1);
}

enum qkv_status qkv_bench_measure(struct qkv_bench *b, struct qkv_bench_row *row,
                                  const struct qkv_bench_contestant *contestants, size_t count) {
    struct watch watches[QKV_BENCH_MAX_PEERS + 1] = {0};
    struct peaks peaks;
    enum qkv_status status = QKV_OK;
    double start = qkv_clock();
    int rounds = 0;
    while (rounds < b->rounds && status == QKV_OK) {
        for (size_t i = 0; i < count && status == QKV_OK; i++) {
            if (count > 1) let_threads_sleep();
            status = time_round(b, row, &contestants[i], &watches[i], rounds);
        }
        if (!status) measure_peaks(b, row, &peaks, rounds);
        rounds++;
        double limit = PATIENCE * b->seconds * (double)(count * (size_t)b->rounds);
        if (rounds >= MIN_ROUNDS && qkv_clock() - start > limit) break;
    }
    if (status) return status;
    rate_rounds(row, &watches[0], &peaks, rounds);
    for (row->peer_count = 0; row->peer_count + 1 < count; row->peer_count++) {
        size_t i = row->peer_count;
        row->peers[i].name = contestants[i + 1].name;
        row->peers[i].seconds = bench_median(watches[i + 1].times, rounds);
    }
    return QKV_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bool qkv_bench_has_memory(struct qkv_bench_row *row, size_t bytes) {
    uint64_t left = qkv_memory_available().bytes, spare = left / 16; /* spare: for the system itself */
    if (bytes <= left - spare) return true;
    snprintf(row->left_out, sizeof row->left_out, "needs %.1f GB of memory, %.1f GB are free", (double)bytes / 1e9,
             (double)(left - spare) / 1e9);
    return false;
}

struct filling {
    void *data;
    enum qkv_dtype dtype;
};

/* The numbers only have to differ: the low bits of a multiplied counter, mixed (Steele et al. 2014, SplitMix64). */
static float bench_mixed(uint64_t i) {
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (float)(x >> 40) * 0x1p-24f - 0.5f;
}

static void fill_piece(void *argument, size_t begin, size_t end, int thread) {
    (void)thread;
    enum { BLOCK = 256 };
    const struct filling *f = argument;
    size_t size = qkv_type_size(f->dtype);
    float block[BLOCK];
    for (size_t i = begin; i < end; i += BLOCK) {
        size_t n = end - i < BLOCK ? end - i : BLOCK;
        for (size_t j = 0; j < n; j++) block[j] = bench_mixed(i + j);
        qkv_from_float((char *)f->data + i * size, block, f->dtype, n);
    }
}

void qkv_bench_fill(struct qkv_context *ctx, void *data, enum qkv_dtype dtype, size_t n) {
    struct filling filling = {data, dtype};
    qkv_parallel_range(ctx, n, FILL_PIECE, fill_piece, &filling);
}

size_t qkv_bench_copies(size_t bytes) {
    size_t copies = bytes ? 2 * qkv_cache_bytes(0) / bytes + 1 : 1;
    return copies < 2 ? 2 : copies;
}
