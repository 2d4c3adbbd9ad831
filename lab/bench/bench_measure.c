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

enum qkv_status qkv_bench_measure(struct qkv_bench *b, struct qkv_bench_row *row,
                                  const struct qkv_bench_contestant *contestants, size_t count) {
    struct watch watches[QKV_BENCH_MAX_PEERS + 1] = {0};
    enum qkv_status status = QKV_OK;
    double start = qkv_clock();
    int rounds = 0;
    while (rounds < b->rounds && status == QKV_OK) {
        for (size_t i = 0; i < count && status == QKV_OK; i++) {
            if (count > 1) let_threads_sleep();
            status = time_round(b, row, &contestants[i], &watches[i], rounds);
        }
        rounds++;
        double limit = PATIENCE * b->seconds * (double)(count * (size_t)b->rounds);
        if (rounds >= MIN_ROUNDS && qkv_clock() - start > limit) break;
    }
    if (status) return status;
    for (size_t i = 0; i < count; i++) qsort(watches[i].times, (size_t)rounds, sizeof(double), bench_compare);
    row->seconds = watches[0].times[rounds / 2];
    row->fastest = watches[0].times[0];
    for (row->peer_count = 0; row->peer_count + 1 < count; row->peer_count++) {
        size_t i = row->peer_count;
        row->peers[i].name = contestants[i + 1].name;
        row->peers[i].seconds = watches[i + 1].times[rounds / 2];
    }
    qkv_bench_rate(b, row);
    return QKV_OK;
}

void qkv_bench_rate(const struct qkv_bench *b, struct qkv_bench_row *row) {
    double arithmetic = row->flops / qkv_bench_peak(&b->machine, b->precision),
           reading = row->bytes / b->machine.read_bytes;
    row->reads = reading > arithmetic;
    row->share = row->seconds > 0 ? (row->reads ? reading : arithmetic) / row->seconds : 0;
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
