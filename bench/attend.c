/* attend.c: attention forward and backward, as a share of the measured peak. Counted are 4·Tq·Tk·D·H·B FLOPs forward and
 * 10·Tq·Tk·D·H·B backward, half of that for causal masks; recomputed products do not count. The scratch memory of the long
 * ones is in their names: it grows with T, not with T². */
#include <math.h>
#include <stdlib.h>

#include "bench.h"

struct shape {
    const char *name;
    size_t B, H, Hkv, Tq, Tk, D;
    bool causal;
    float dropout;
};
static const struct shape shapes[] = {
    {"full B1 H12 T1024 D64", 1, 12, 12, 1024, 1024, 64, false, 0},
    {"causal B1 H12 T1024 D64", 1, 12, 12, 1024, 1024, 64, true, 0},
    {"full B1 H12 T4096 D64", 1, 12, 12, 4096, 4096, 64, false, 0},
    {"causal B1 H12 T4096 D64", 1, 12, 12, 4096, 4096, 64, true, 0},
    {"causal B1 H32/8 T1024 D128", 1, 32, 8, 1024, 1024, 128, true, 0},
    {"causal B12 H4 T64 D32", 12, 4, 4, 64, 64, 32, true, 0},
    {"causal B64 H6 T256 D64", 64, 6, 6, 256, 256, 64, true, 0},
    {"causal B64 H6 T256 D64 dropout", 64, 6, 6, 256, 256, 64, true, 0.2f},
    {"causal B1 H1 T8192 D64", 1, 1, 1, 8192, 8192, 64, true, 0},
    {"causal B1 H1 T16384 D64", 1, 1, 1, 16384, 16384, 64, true, 0},
    {"causal B1 H1 T32768 D64", 1, 1, 1, 32768, 32768, 64, true, 0},
    {"decode B1 H12 T1/4096 D64", 1, 12, 12, 1, 4096, 64, false, 0},
    {"decode B1 H32/8 T1/8192 D128", 1, 32, 8, 1, 8192, 128, false, 0},
};

struct work {
    struct qkv_context *ctx;
    struct qkv_arena scratch;
    struct qkv_attend a;
    struct qkv_attend_gradients g;
    float *blocks[5]; /* q k v, their gradients, y, dy, lse */
    int32_t *interval;
};

static void forward(void *argument) {
    struct work *w = argument;
    qkv_attend_forward(w->ctx, &w->scratch, &w->a);
}

static void backward(void *argument) {
    struct work *w = argument;
    qkv_attend_backward(w->ctx, &w->scratch, &w->a, &w->g);
}

/* Queries and keys side by side in rows, as a fused projection leaves them; a cache head by head where Tq < Tk. */
static void place(const struct shape *s, float *x, struct qkv_heads *q, struct qkv_heads *k, struct qkv_heads *v) {
    size_t C = s->H * s->D, Ckv = s->Hkv * s->D, row = C + 2 * Ckv, keys = s->B * s->Tk * Ckv;
    if (s->Tq == s->Tk) {
        *q = (struct qkv_heads){x, s->Tq * row, row, s->D, QKV_F32};
        *k = (struct qkv_heads){x + C, s->Tk * row, row, s->D, QKV_F32};
        *v = (struct qkv_heads){x + C + Ckv, s->Tk * row, row, s->D, QKV_F32};
    } else {
        *k = (struct qkv_heads){x, s->Tk * Ckv, s->D, s->Tk * s->D, QKV_F32};
        *v = (struct qkv_heads){x + keys, s->Tk * Ckv, s->D, s->Tk * s->D, QKV_F32};
        *q = (struct qkv_heads){x + 2 * keys, s->Tq * C, C, s->D, QKV_F32};
    }
}

static bool make(struct work *w, const struct shape *s) {
    size_t C = s->H * s->D, queries = s->B * s->Tq, all = queries * C + 2 * s->B * s->Tk * s->Hkv * s->D;
    w->a = (struct qkv_attend){.B = s->B, .H = s->H, .Hkv = s->Hkv, .Tq = s->Tq, .Tk = s->Tk, .D = s->D, .Dv = s->D};
    w->a.scale = 1 / sqrtf((float)s->D), w->a.dropout = s->dropout, w->a.key[0] = 1;
    w->blocks[0] = bench_floats(all), w->blocks[1] = bench_floats(all);
    w->blocks[2] = bench_floats(queries * C), w->blocks[3] = bench_floats(queries * C);
    w->blocks[4] = bench_floats(queries * s->H);
    w->interval = calloc(2 * queries, sizeof(int32_t));
    for (size_t i = 0; i < 5; i++)
        if (!w->blocks[i]) return false;
    if (!w->interval) return false;
    place(s, w->blocks[0], &w->a.q, &w->a.k, &w->a.v);
    place(s, w->blocks[1], &w->g.dq, &w->g.dk, &w->g.dv);
    w->a.y = (struct qkv_heads){w->blocks[2], s->Tq * C, C, s->D, QKV_F32};
    w->g.dy = (struct qkv_heads){w->blocks[3], s->Tq * C, C, s->D, QKV_F32};
    w->a.lse = w->blocks[4];
    for (size_t i = 0; i < queries; i++) w->interval[queries + i] = (int32_t)(s->causal ? i % s->Tq + 1 : s->Tk);
    w->a.lo = w->interval, w->a.hi = w->interval + queries;
    return qkv_arena_create(w->ctx, &w->scratch, (size_t)2 << 30, "scratch of attention") == QKV_OK;
}

/* "…, scratch 1.4 MB": what one call takes, by a dry run. */
static const char *label_of(struct work *w, const struct shape *s, const char *direction, bench_work *work) {
    static char label[128];
    struct qkv_arena real = w->scratch;
    qkv_arena_measure(w->ctx, &w->scratch, "scratch of attention");
    w->ctx->dry = true;
    work(w);
    w->ctx->dry = false;
    double megabytes = (double)w->scratch.peak / 1e6;
    w->scratch = real;
    snprintf(label, sizeof label, s->Tq < 8192 ? "%s %s" : "%s %s, scratch %.1f MB", s->name, direction, megabytes);
    return label;
}

static void run(struct bench *b, const struct shape *s) {
    struct work w = {.ctx = b->ctx};
    double flops = 4.0 * (double)(s->B * s->H * s->Tq) * (double)(s->Tk * s->D) * (s->causal ? 0.5 : 1.0);
    if (make(&w, s)) {
        const struct bench_contestant ahead = {"qkv", forward, &w}, back = {"qkv", backward, &w};
        bench_row(b, label_of(&w, s, "forward", forward), flops, &ahead, 1);
        if (s->Tq > 1) bench_row(b, label_of(&w, s, "backward", backward), 2.5 * flops, &back, 1);
    } else {
        printf("  %s: no memory\n", s->name);
    }
    qkv_arena_free(&w.scratch);
    for (size_t i = 0; i < 5; i++) free(w.blocks[i]);
    free(w.interval);
}

void bench_attend(struct bench *b) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) run(b, &shapes[i]);
}
