/* backend_dry: the backend that plans for the CPU's. Its operators take the same memory, but their loops do nothing;
 * its steps do nothing, except those that take memory. */
#include "backend/backends.h"

/* plan: nothing, or plan_ where the backend that plans has rows of its own. */
#define ROW(name, plan)                                                                                                \
    {#name, qkv_check_##name, qkv_##plan##forward_##name, qkv_##plan##backward_##name, qkv_cost_##name},
#define BY_SHAPE(name)   [QKV_OPERATOR_##name] = ROW(name, )
#define BY_NUMBERS(name) [QKV_OPERATOR_##name] = ROW(name, plan_)
static const struct qkv_operator dry_operators[QKV_OPERATOR_COUNT] = {QKV_OPERATOR_BY_SHAPE_LIST(BY_SHAPE)
                                                                          QKV_OPERATOR_BY_NUMBERS_LIST(BY_NUMBERS)};

static enum qkv_status dry_step(struct qkv_context *ctx, const void *call) {
    (void)ctx, (void)call;
    return QKV_OK;
}

#define STEP(name)       [QKV_STEP_##name] = dry_step,
#define TAKES_STEP(name) [QKV_STEP_##name] = qkv_cpu_##name,
static qkv_step *const dry_steps[QKV_STEP_COUNT] = {QKV_STEP_LOOPS_LIST(STEP) QKV_STEP_SCRATCH_LIST(TAKES_STEP)};

static void *dry_take(size_t bytes) {
    (void)bytes;
    return NULL;
}

static void dry_release(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
}

static void dry_copy(void *to, const void *from, size_t bytes) {
    (void)to, (void)from, (void)bytes;
}

const struct qkv_backend qkv_backend_dry = {.name = "dry",
                                            .plan = &qkv_backend_dry,
                                            .of_host = true,
                                            .take = dry_take,
                                            .release = dry_release,
                                            .write = dry_copy,
                                            .read = dry_copy,
                                            .lend = qkv_host_lend,
                                            .operators = dry_operators,
                                            .steps = dry_steps,
                                            .loop = qkv_loop_none,
                                            .compute = qkv_compute_none};
