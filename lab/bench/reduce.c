/* reduce: the parts of adding up gradients over ranks, which are the constants of the cost model (docs/scale.md): a
 * message to another rank and one back at the same time, the sum of two nodes, and AdamW. The ranks are 0 and 1 of
 * the context, under mpirun; else two threads with the communicator of examples/ranks.h. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "examples/ranks.h"
#include "kernel/kernel.h"
#include "lab/bench/bench_room.h"

enum reduce_kind { REDUCE_EXCHANGE, REDUCE_ADD, REDUCE_UPDATE };
static const struct reduce_case {
    const char *name, *form;
    enum reduce_kind kind;
    size_t bytes;
} cases[] = {
    {"8 bytes", "exchange", REDUCE_EXCHANGE, 8},
    {"64 KiB", "exchange", REDUCE_EXCHANGE, (size_t)1 << 16},
    {"2 MiB", "exchange", REDUCE_EXCHANGE, (size_t)1 << 21},
    {"2 MiB", "add", REDUCE_ADD, (size_t)1 << 21},
    {"baby-gpt", "adamw", REDUCE_UPDATE, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

bool qkv_bench_reduce_case(size_t i, struct qkv_bench_row *row) {
    if (i >= CASES) return false;
    snprintf(row->name, sizeof row->name, "%s", cases[i].name);
    row->form = cases[i].form;
    return true;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

struct reduce_link {
    struct qkv_context *ctx;
    struct qkv_communicator c;
    size_t bytes;
    char *out, *in; /* the first byte of rank 0's last message is not 0 */
};

static int reduce_exchange(struct reduce_link *l) {
    const int other = !l->c.rank;
    return l->c.exchange(l->c.state, other, l->out, l->bytes, other, l->in, l->bytes);
}

static enum qkv_status reduce_turn(void *argument, size_t turn) {
    struct reduce_link *l = argument;
    (void)turn;
    return reduce_exchange(l) ? qkv_fail(l->ctx, QKV_RANK, "rank 1 cannot be reached") : QKV_OK;
}

/* Rank 1 answers until a message says that it is the last. */
static void *reduce_answer(void *argument) {
    struct reduce_link *l = argument;
    while (!reduce_exchange(l) && !l->in[0]) continue;
    return NULL;
}

static enum qkv_status reduce_open(struct qkv_context *ctx, size_t bytes, struct reduce_link *l) {
    *l = (struct reduce_link){.ctx = ctx, .bytes = bytes};
    l->out = qkv_allocate(ctx, bytes, 1);
    l->in = qkv_allocate(ctx, bytes, 1);
    return l->out && l->in ? QKV_OK : QKV_MEMORY;
}

static void reduce_close(struct reduce_link *l) {
    free(l->out);
    free(l->in);
}

/* Rank 0 measures, then ends rank 1 with the last message. */
static enum qkv_status reduce_ask(struct qkv_bench *b, struct qkv_bench_row *row, struct reduce_link *l) {
    const struct qkv_bench_contestant us = {"qkv", reduce_turn, l};
    enum qkv_status status = qkv_bench_measure(b, row, &us, 1);
    l->out[0] = 1;
    return reduce_exchange(l) && !status ? qkv_fail(l->ctx, QKV_RANK, "rank 1 cannot be reached") : status;
}

static enum qkv_status reduce_threads(struct qkv_bench *b, struct qkv_bench_row *row, struct reduce_link *l) {
    struct rank_group group;
    struct rank_member members[2] = {{&group, 0}, {&group, 1}};
    struct reduce_link other;
    pthread_t thread;
    enum qkv_status status = reduce_open(b->ctx, l->bytes, &other);
    rank_group_start(&group, 2);
    l->c = rank_communicator(&members[0]);
    other.c = rank_communicator(&members[1]);
    if (!status && pthread_create(&thread, NULL, reduce_answer, &other) != 0)
        status = qkv_fail(b->ctx, QKV_MEMORY, "no thread can be made");
    if (!status) {
        status = reduce_ask(b, row, l);
        rank_group_leave(&group, 0);
        pthread_join(thread, NULL);
    }
    reduce_close(&other);
    return status;
}

static enum qkv_status reduce_messages(struct qkv_bench *b, struct qkv_bench_row *row, size_t bytes) {
    struct reduce_link l;
    enum qkv_status status = reduce_open(b->ctx, bytes, &l);
    row->bytes = (double)bytes;
    row->reads = true;
    if (!status && b->ranks.ranks < 2) {
        status = reduce_threads(b, row, &l);
    } else if (!status) {
        l.c = b->ranks;
        if (l.c.rank == 0) status = reduce_ask(b, row, &l);
        if (l.c.rank == 1) reduce_answer(&l);
    }
    reduce_close(&l);
    return status;
}

/* ---- sums and updates -------------------------------------------------------------------------------------------- */

struct reduce_sum {
    const struct qkv_kernels *kernels;
    float *a, *b;
    size_t count;
};

static enum qkv_status reduce_add(void *argument, size_t turn) {
    const struct reduce_sum *s = argument;
    (void)turn;
    s->kernels->add(s->b, s->a, s->b, s->count);
    return QKV_OK;
}

static enum qkv_status reduce_sums(struct qkv_bench *b, struct qkv_bench_row *row, size_t bytes) {
    struct reduce_sum s = {.kernels = b->ctx->kernels, .count = bytes / sizeof(float)};
    const struct qkv_bench_contestant us = {"qkv", reduce_add, &s};
    s.a = qkv_allocate(b->ctx, s.count, sizeof *s.a);
    s.b = qkv_allocate(b->ctx, s.count, sizeof *s.b);
    row->bytes = (double)bytes;
    row->reads = true;
    const enum qkv_status status = s.a && s.b ? qkv_bench_measure(b, row, &us, 1) : QKV_MEMORY;
    free(s.a);
    free(s.b);
    return status;
}

static enum qkv_status reduce_step(void *argument, size_t turn) {
    (void)turn;
    return qkv_optimizer_step(argument, 1e-6, 1);
}

/* Makes the gradients, which the optimizer needs. */
static enum qkv_status reduce_gradients(struct qkv_model *model) {
    const int32_t ids[] = {1, 2, 3, 4};
    struct qkv_pass *pass = NULL;
    enum qkv_status status =
        qkv_pass_create(model, &QKV_OPTIONS(qkv_pass_options, .B = 1, .T = 3, .train = true), &pass);
    if (!status) status = qkv_pass_forward(pass, &(struct qkv_batch){.B = 1, .T = 3, .ids = ids, .targets = ids + 1});
    if (!status) status = qkv_pass_backward(pass);
    qkv_pass_free(pass);
    return status;
}

/* Updates all weights of a model; the bytes are those of its weights. */
static enum qkv_status reduce_update(struct qkv_bench *b, struct qkv_bench_row *row, const char *preset) {
    const struct qkv_optimizer_options adamw = {.size = sizeof adamw,
                                                .kind = QKV_OPTIMIZER_ADAMW,
                                                .beta1 = 0.9,
                                                .beta2 = 0.95,
                                                .eps = 1e-8,
                                                .weight_decay = 0.1};
    struct qkv_optimizer *optimizer = NULL;
    struct qkv_model *model = NULL;
    struct qkv_spec spec = {0};
    struct qkv_costs costs;
    enum qkv_status status = qkv_spec_preset(b->ctx, &spec, preset, NULL, 0);
    if (status) return status;
    spec.vocab = 256;
    status = qkv_measure_costs(b->ctx, &spec, 1, 1, &costs);
    if (!status) status = qkv_model_create(b->ctx, &spec, 1, &model);
    if (!status) status = reduce_gradients(model);
    if (!status) status = qkv_optimizer_create(model, &adamw, &optimizer);
    const struct qkv_bench_contestant us = {"qkv", reduce_step, optimizer};
    row->bytes = (double)(costs.parameters * sizeof(float));
    row->reads = true;
    if (!status) status = qkv_bench_measure(b, row, &us, 1);
    qkv_optimizer_free(optimizer);
    qkv_model_free(model);
    qkv_spec_free(&spec);
    return status;
}

enum qkv_status qkv_bench_reduce(struct qkv_bench *b, size_t i, struct qkv_bench_row *row) {
    const struct reduce_case *c = &cases[i];
    if (c->kind == REDUCE_EXCHANGE) return reduce_messages(b, row, c->bytes);
    if (b->ranks.rank) return QKV_OK;
    return c->kind == REDUCE_ADD ? reduce_sums(b, row, c->bytes) : reduce_update(b, row, c->name);
}
