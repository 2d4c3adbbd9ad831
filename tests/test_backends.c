/* A backend whose memory the host cannot touch: its pages are protected, and only its rows, while they run, open them.
 * What trains with it reads and writes numbers through the rows alone; a device could have the memory. Everything has
 * the bits of the CPU's backend. */
/* labels: numeric */
#include "test.h"

#include <errno.h>

#include <sys/mman.h>

#include "backend/backends.h"
#include "model/model.h"

/* ---- the backend ------------------------------------------------------------------------------------------------- */

enum { REGIONS = 64 };
static struct region {
    void *memory;
    size_t bytes;
} regions[REGIONS];
static int depth;            /* of rows that run, one inside the other */
static size_t opened, steps; /* how often memory was opened, and steps that ran */

static void protect(int how) {
    for (size_t i = 0; i < REGIONS; i++)
        if (regions[i].memory) assert_int_equal(mprotect(regions[i].memory, regions[i].bytes, how), 0);
}

static void open_memory(void) {
    if (depth++ == 0) protect(PROT_READ | PROT_WRITE), opened++;
}

static void close_memory(void) {
    if (--depth == 0) protect(PROT_NONE);
}

static void *apart_take(size_t bytes) {
    size_t i = 0;
    while (i < REGIONS && regions[i].memory) i++;
    assert_true(i < REGIONS);
    void *memory = mmap(NULL, bytes, depth ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    regions[i] = (struct region){memory, bytes};
    return memory;
}

static void apart_release(void *memory, size_t bytes) {
    for (size_t i = 0; i < REGIONS; i++)
        if (regions[i].memory == memory) regions[i] = (struct region){0};
    munmap(memory, bytes);
}

static void apart_copy(void *to, const void *from, size_t bytes) {
    open_memory();
    memcpy(to, from, bytes);
    close_memory();
}

static const void *apart_lend(struct qkv_arena *arena, const void *from, size_t bytes) {
    void *copy = from ? qkv_arena_take(arena, bytes, 1) : NULL;
    if (copy) apart_copy(copy, from, bytes);
    return copy;
}

/* The plan takes memory for every array that may be lent. */
static const void *plan_lend(struct qkv_arena *arena, const void *from, size_t bytes) {
    void *copy = qkv_arena_take(arena, bytes, 1);
    return copy && from ? copy : NULL;
}

static struct qkv_operator apart_operators[QKV_OPERATOR_COUNT];

static enum qkv_status run_row(struct qkv_tape *tape, struct qkv_node *node, size_t which) {
    const struct qkv_operator *own = &qkv_operators[node->row - apart_operators];
    qkv_operator_step *const rows[] = {own->check, own->forward, own->backward};
    open_memory();
    const enum qkv_status status = rows[which](tape, node);
    close_memory();
    return status;
}

static enum qkv_status apart_check(struct qkv_tape *tape, struct qkv_node *node) {
    return run_row(tape, node, 0);
}

static enum qkv_status apart_forward(struct qkv_tape *tape, struct qkv_node *node) {
    return run_row(tape, node, 1);
}

static enum qkv_status apart_backward(struct qkv_tape *tape, struct qkv_node *node) {
    return run_row(tape, node, 2);
}

#define STEP_ROW(name)                                                                                                 \
    static enum qkv_status apart_step_##name(struct qkv_context *ctx, const void *call) {                              \
        open_memory();                                                                                                 \
        const enum qkv_status status = qkv_cpu_##name(ctx, call);                                                      \
        close_memory();                                                                                                \
        steps++;                                                                                                       \
        return status;                                                                                                 \
    }
QKV_STEP_LIST(STEP_ROW)
#define STEP_NAME(name) [QKV_STEP_##name] = apart_step_##name,
static qkv_step *const apart_steps[QKV_STEP_COUNT] = {QKV_STEP_LIST(STEP_NAME)};

static struct qkv_backend apart, apart_plan;

static void make_backend(void) {
    for (size_t i = 0; i < QKV_OPERATOR_COUNT; i++)
        apart_operators[i] = (struct qkv_operator){qkv_operators[i].name, apart_check, apart_forward, apart_backward,
                                                   qkv_operators[i].cost};
    apart = qkv_backend_cpu;
    apart.name = "apart";
    apart.plan = &apart_plan;
    apart.of_host = false;
    apart.take = apart_take;
    apart.release = apart_release;
    apart.write = apart.read = apart_copy;
    apart.lend = apart_lend;
    apart.operators = apart_operators;
    apart.steps = apart_steps;
    apart_plan = qkv_backend_dry;
    apart_plan.plan = &apart_plan;
    apart_plan.lend = plan_lend;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

enum { ROWS = 3, LENGTH = 40, TRAINED = 4 };

struct trained {
    double losses[TRAINED], norms[TRAINED];
    float *weights;
    size_t count;
};

static void fill_batch(int32_t *ids, int32_t *targets, int32_t vocab, size_t step) {
    struct qkv_random random = qkv_random_start(7, step);
    for (size_t n = 0; n < ROWS * LENGTH; n++) {
        ids[n] = (int32_t)qkv_random_below(&random, (uint64_t)vocab);
        targets[n] = n % 7 == 3 ? QKV_IGNORE : (int32_t)qkv_random_below(&random, (uint64_t)vocab);
    }
}

/* All weights, read through the backend. */
static void read_weights(struct qkv_context *ctx, const struct qkv_model *m, struct trained *t) {
    for (size_t i = 0; i < m->weights.count; i++) t->count += m->weights.list[i].rows * m->weights.list[i].columns;
    t->weights = calloc(t->count, sizeof(float));
    float *next = t->weights;
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct qkv_weight *w = &m->weights.list[i];
        ctx->backend->read(next, w->data, w->rows * w->columns * sizeof(float));
        next += w->rows * w->columns;
    }
}

static struct trained train(const char *preset, const char *setting, const struct qkv_backend *backend,
                            enum qkv_precision precision, int threads) {
    const struct qkv_context_options options = {.size = sizeof options, .threads = threads, .precision = precision};
    struct qkv_context *ctx;
    OWNED_SPEC struct qkv_spec spec = {0};
    struct qkv_model *m;
    struct qkv_optimizer *optimizer;
    struct qkv_pass *pass;
    struct trained t = {0};
    int32_t ids[ROWS * LENGTH], targets[ROWS * LENGTH];
    const int32_t lengths[ROWS] = {LENGTH, LENGTH / 2, LENGTH - 1};
    assert_int_equal(qkv_context_create(&ctx, &options), QKV_OK);
    if (backend) ctx->backend = backend;
    assert_ok(ctx, qkv_spec_preset(ctx, &spec, preset, &setting, setting != NULL));
    spec.dropout = 0.1;
    spec.vocab = 65;
    assert_ok(ctx, qkv_model_create(ctx, &spec, 11, &m));
    assert_ok(ctx, qkv_optimizer_create(m, NULL, &optimizer));
    assert_ok(ctx, qkv_pass_create(m, &QKV_OPTIONS(qkv_pass_options, .B = ROWS, .T = LENGTH, .train = true), &pass));
    for (size_t step = 0; step < TRAINED; step++) {
        size_t counted;
        fill_batch(ids, targets, spec.vocab, step);
        const struct qkv_batch batch = {.B = ROWS,
                                        .T = LENGTH,
                                        .ids = ids,
                                        .targets = targets,
                                        .dropout_seed = 100 + step,
                                        .lengths =
                                            step % 2 ? lengths : NULL}; /* of rows of different lengths, and not */
        assert_ok(ctx, qkv_pass_forward(pass, &batch));
        assert_ok(ctx, qkv_pass_backward(pass));
        t.losses[step] = qkv_pass_loss(pass, &counted);
        t.norms[step] = qkv_model_gradient_norm(m);
        assert_ok(ctx, qkv_optimizer_step(optimizer, 1e-3, 0.5));
    }
    read_weights(ctx, m, &t);
    qkv_pass_free(pass);
    qkv_optimizer_free(optimizer);
    qkv_model_free(m);
    qkv_context_free(ctx);
    return t;
}

static void trains_alike(const char *preset, const char *setting, enum qkv_precision precision) {
    struct trained cpu = train(preset, setting, NULL, precision, 2);
    opened = steps = 0;
    struct trained other = train(preset, setting, &apart, precision, 2);
    assert_true(opened > 100 && steps > 10); /* it was this backend that computed */
    assert_int_equal(cpu.count, other.count);
    assert_memory_equal(cpu.losses, other.losses, sizeof cpu.losses);
    assert_memory_equal(cpu.norms, other.norms, sizeof cpu.norms);
    assert_memory_equal(cpu.weights, other.weights, cpu.count * sizeof(float));
    assert_true(cpu.losses[0] > 0 && cpu.losses[0] != cpu.losses[TRAINED - 1]);
    free(cpu.weights);
    free(other.weights);
    for (size_t i = 0; i < REGIONS; i++) assert_null(regions[i].memory);
}

static void test_training(void **state) {
    (void)state;
    trains_alike("nano-gpt", NULL, QKV_FP32);
    trains_alike("nano-gpt", NULL, QKV_MIXED_BF16);
    trains_alike("moe-tiny", NULL, QKV_FP32);
    trains_alike("nano-gpt", "decoder.attention.position.kind=rope", QKV_FP32);
    trains_alike("nano-gpt", "decoder.attention.position.kind=alibi", QKV_FP32);
    trains_alike("nano-gpt", "decoder.attention.position.kind=buckets", QKV_FP32);
}

/* The host cannot touch the memory: the test would not find what it looks for if it could. */
static void test_protected(void **state) {
    (void)state;
    unsigned char *memory = apart_take(4096), byte = 5;
    assert_int_equal(mprotect(memory, 4096, PROT_NONE), 0);
    apart_copy(memory, &byte, 1);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], memory, 1), -1); /* EFAULT: the system cannot read it for us */
    assert_int_equal(errno, EFAULT);
    byte = 0;
    apart_copy(&byte, memory, 1);
    assert_int_equal(byte, 5);
    close(ends[0]), close(ends[1]);
    apart_release(memory, 4096);
}

int main(void) {
    make_backend();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_protected), cmocka_unit_test(test_training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
