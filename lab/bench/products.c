/* products: the matrix products of a linear layer in the shapes of transformers, beside those of peers.
 *
 * A layer with N outputs and K inputs gets M tokens: x (M,K), w (N,K), y (M,N). Its three products, of 2·M·N·K FLOPs
 * each, are "x.wT", y = x·wᵀ; "dy.w", dx = dy·w; "dyT.x", dw = dyᵀ·x. With few tokens the time is that of reading w
 * (or of writing dw): then turns cycle through several w, which together exceed the last-level cache. */
#include <string.h>

#include "lab/bench/bench_room.h"
#include "kernel/product.h"

enum form { FORWARD, GRADIENT_X, GRADIENT_W, FORMS };
static const char *const form_names[] = {"x.wT", "dy.w", "dyT.x"};

static const struct shape {
    size_t M, N, K;
    bool big;
} shapes[] = {
    {4096, 768, 768, false},   {4096, 3072, 768, false}, {4096, 768, 3072, false}, {2048, 2048, 2048, false},
    {1024, 4096, 1024, false}, {256, 768, 768, false},   {64, 384, 384, false},    {1, 4096, 4096, false},
    {8, 4096, 4096, false},    {1, 512, 256, true},      {1, 768, 768, true},      {1, 1024, 512, true},
    {1, 512, 1024, true},      {1, 1024, 1280, true},    {1, 2048, 2048, true},    {1, 2048, 5632, true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, FEW_TOKENS = 16 };
#define SCRATCH ((size_t)256 << 20) /* virtual memory: the system backs only the pages that are used */

bool qkv_bench_products_case(size_t i, struct qkv_bench_row *row) {
    if (i >= (size_t)SHAPES * FORMS) return false;
    const struct shape *s = &shapes[i / FORMS];
    snprintf(row->name, sizeof row->name, "%zux%zux%zu", s->M, s->N, s->K);
    row->form = form_names[i % FORMS];
    row->big = s->big;
    return true;
}

struct work {
    struct qkv_context *ctx;
    struct qkv_arena memory, scratch;
    struct qkv_bench_product product;
    /* One of each for every copy: */
    const void **b;
    float **c;
    void **panels; /* in bf16: weights packed ahead, as in a model */
};

static struct qkv_operand products_operand(const void *data, enum qkv_dtype dtype, size_t rows, size_t columns,
                                           bool transposed) {
    return (struct qkv_operand){data, dtype, transposed ? 1 : columns, transposed ? rows : 1};
}

/* This library's product, of operands in the form of the row of the table. */
static enum qkv_status ours(struct work *w, const struct qkv_product *product, size_t turn) {
    const struct qkv_bench_product *p = &w->product;
    const size_t i = turn % p->count;
    const struct qkv_product_call call = {.c = p->c[i],
                                          .dtype = QKV_F32,
                                          .ldc = p->N,
                                          .a = products_operand(p->a, product->form, p->M, p->K, p->a_transposed),
                                          .b = products_operand(p->b[i], product->form, p->K, p->N, p->b_transposed),
                                          .M = p->M,
                                          .N = p->N,
                                          .K = p->K,
                                          .packed = w->panels[i]};
    return product->multiply(w->ctx, &w->scratch, &call);
}

static enum qkv_status ours_fp32(void *argument, size_t turn) {
    return ours(argument, &qkv_product_f32, turn);
}

static enum qkv_status ours_bf16(void *argument, size_t turn) {
    return ours(argument, &qkv_product_bf16, turn);
}

/* Makes the product C = A·B for one of the three products of a layer. */
static struct qkv_bench_product make_product(const struct shape *s, enum form form) {
    switch (form) {
    case FORWARD:
        return (struct qkv_bench_product){.M = s->M, .N = s->N, .K = s->K, .b_transposed = true, .weights = true};
    case GRADIENT_X:
        return (struct qkv_bench_product){.M = s->M, .N = s->K, .K = s->N, .weights = true};
    default:
        return (struct qkv_bench_product){.M = s->N, .N = s->K, .K = s->M, .a_transposed = true};
    }
}

/* Makes random operands: one A; B and C once for each turn, or once and shared. */
static bool make_operands(struct work *w, enum qkv_dtype dtype, bool many_b, bool many_c) {
    struct qkv_bench_product *p = &w->product;
    const size_t size = qkv_type_size(dtype);
    w->b = qkv_arena_take(&w->memory, p->count, sizeof *w->b);
    w->c = qkv_arena_take(&w->memory, p->count, sizeof *w->c);
    w->panels = qkv_arena_take(&w->memory, p->count, sizeof *w->panels);
    void *a = qkv_arena_take(&w->memory, p->M * p->K, size);
    if (!w->b || !w->c || !w->panels || !a) return false;
    qkv_bench_fill(w->ctx, a, dtype, p->M * p->K);
    for (size_t i = 0; i < p->count; i++) {
        void *b = i == 0 || many_b ? qkv_arena_take(&w->memory, p->K * p->N, size) : NULL;
        float *c = i == 0 || many_c ? qkv_arena_take(&w->memory, p->M * p->N, sizeof(float)) : NULL;
        if (b) qkv_bench_fill(w->ctx, b, dtype, p->K * p->N);
        if (c) qkv_bench_fill(w->ctx, c, QKV_F32, p->M * p->N); /* else its first product would wait for pages */
        w->b[i] = b ? b : w->b[0];
        w->c[i] = c ? c : w->c[0];
        w->panels[i] = NULL;
        if (!w->b[i] || !w->c[i]) return false;
    }
    p->a = a, p->b = w->b, p->c = w->c;
    return true;
}

/* Bytes of the panels of one B; 0 if it is not packed ahead. */
static size_t panel_bytes(const struct work *w) {
    size_t bytes;
    const struct qkv_bench_product *p = &w->product;
    return p->bf16 && p->weights && qkv_bf16_packed_bytes(w->ctx, NULL, p->K, p->N, &bytes) ? bytes : 0;
}

static bool products_pack(struct work *w) {
    const struct qkv_bench_product *p = &w->product;
    const size_t bytes = panel_bytes(w);
    for (size_t i = 0; bytes && i < p->count; i++) {
        w->panels[i] = qkv_arena_take(&w->memory, bytes, 1);
        if (!w->panels[i]) return false;
        qkv_bf16_pack(w->ctx, w->panels[i], products_operand(p->b[i], QKV_BF16, p->K, p->N, p->b_transposed),
                      (struct qkv_stored_operand){0}, p->K, p->N);
    }
    return true;
}

/* A peer's prepared product in a row. */
struct guest {
    const struct qkv_bench_peer *peer;
    void *prepared;
};

static enum qkv_status products_theirs(void *argument, size_t turn) {
    const struct guest *guest = argument;
    guest->peer->run(guest->prepared, turn);
    return QKV_OK;
}

static enum qkv_status products_measure(struct qkv_bench *b, struct work *w, struct qkv_bench_row *row) {
    struct qkv_bench_contestant contestants[QKV_BENCH_MAX_PEERS + 1] = {
        {"qkv", w->product.bf16 ? ours_bf16 : ours_fp32, w}};
    struct guest guests[QKV_BENCH_MAX_PEERS];
    size_t count = 0;
    for (size_t i = 0; i < b->options->peer_count; i++) {
        const struct qkv_bench_peer *peer = &b->options->peers[i];
        guests[count] = (struct guest){peer, peer->prepare(&w->product)};
        if (!guests[count].prepared) continue;
        contestants[count + 1] = (struct qkv_bench_contestant){peer->name, products_theirs, &guests[count]};
        count++;
    }
    enum qkv_status status = qkv_bench_measure(b, row, contestants, count + 1);
    for (size_t i = 0; i < count; i++) guests[i].peer->release(guests[i].prepared);
    return status;
}

enum qkv_status qkv_bench_products(struct qkv_bench *b, size_t i, struct qkv_bench_row *row) {
    const struct shape *s = &shapes[i / FORMS];
    const enum form form = (enum form)(i % FORMS);
    const enum qkv_dtype dtype = b->precision->dtype;
    struct work w = {.ctx = b->ctx, .product = make_product(s, form)};
    struct qkv_bench_product *p = &w.product;
    const size_t size = qkv_type_size(dtype), ws = s->N * s->K, few = s->M < FEW_TOKENS;
    const size_t ws_bytes = ws * (form == GRADIENT_W ? sizeof(float) : size);
    p->bf16 = dtype == QKV_BF16;
    p->threads = b->ctx->threads;
    p->count = few ? qkv_bench_copies(ws_bytes) : 1;
    row->flops = 2.0 * (double)(s->M * s->N) * (double)s->K;
    if (few) row->bytes = (double)ws_bytes + (double)(s->M * (s->N + s->K) * size);
    size_t bytes = p->count * ws_bytes + (s->M * (s->N + s->K) + ws) * sizeof(float) + 4 * p->count * QKV_CACHE_LINE;
    bytes += p->count * (panel_bytes(&w) + QKV_CACHE_LINE + 3 * sizeof(void *)) + 3 * QKV_CACHE_LINE;
    if (!qkv_bench_has_memory(row, bytes)) return QKV_OK;
    enum qkv_status status = qkv_arena_create(b->ctx, &w.memory, bytes, "operands");
    if (status == QKV_OK) status = qkv_arena_create(b->ctx, &w.scratch, SCRATCH, "scratch");
    if (status == QKV_OK && !make_operands(&w, dtype, form != GRADIENT_W, form == GRADIENT_W)) status = QKV_MEMORY;
    if (status == QKV_OK && !products_pack(&w)) status = QKV_MEMORY;
    if (status == QKV_OK) status = products_measure(b, &w, row);
    qkv_arena_free(&w.scratch);
    qkv_arena_free(&w.memory);
    return status;
}
