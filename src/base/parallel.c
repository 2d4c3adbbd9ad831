/* parallel: loops over items that the threads of a context share, and the number of CPUs for them. */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/backend.h"

void qkv_parallel(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument) {
    ctx->backend->loop(ctx, count, body, argument);
}

enum qkv_status qkv_compute(struct qkv_context *ctx, qkv_compute_body *body, void *argument) {
    return ctx->backend->compute(body, argument);
}

/* Whether other contexts keep all CPUs busy: more threads would only take turns with them. */
static bool loop_crowded(const struct qkv_context *ctx) {
    const int running = qkv_calls_running();
    return running > 1 && running >= ctx->cpus;
}

void qkv_loop_threads(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument) {
    if (ctx->threads > 1 && count > 1 && !loop_crowded(ctx) && qkv_team_run(ctx, count, body, argument)) return;
    for (size_t item = 0; item < count; item++) body(argument, item, 0);
}

void qkv_loop_none(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument) {
    (void)ctx, (void)count, (void)body, (void)argument;
}

enum qkv_status qkv_compute_here(qkv_compute_body *body, void *argument) {
    return body(argument);
}

enum qkv_status qkv_compute_none(qkv_compute_body *body, void *argument) {
    (void)body, (void)argument;
    return QKV_OK;
}

const struct qkv_backend qkv_backend_bare = {.name = "bare", .plan = &qkv_backend_bare_plan, QKV_HOST_ROWS};
const struct qkv_backend qkv_backend_bare_plan = {.name = "bare, planning",
                                                  .plan = &qkv_backend_bare_plan,
                                                  .of_host = true,
                                                  .loop = qkv_loop_none,
                                                  .compute = qkv_compute_none};

struct range {
    qkv_range_body *body;
    void *argument;
    size_t count, grain;
};

static void range_piece(void *argument, size_t item, int thread) {
    const struct range *range = argument;
    size_t begin = item * range->grain, left = range->count - begin;
    range->body(range->argument, begin, begin + (left < range->grain ? left : range->grain), thread);
}

void qkv_parallel_range(struct qkv_context *ctx, size_t count, size_t grain, qkv_range_body *body, void *argument) {
    if (grain == 0) grain = 1;
    struct range range = {body, argument, count, grain};
    qkv_parallel(ctx, count / grain + (count % grain != 0), range_piece, &range);
}

void qkv_parallel_work(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument) {
    qkv_parallel(ctx, count, body, argument);
}

/* ---- CPUs ---------------------------------------------------------------------------------------------------- */

static int online_cpus(void) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}

static int affinity_cpus(void) {
    /* The kernel refuses sets that are smaller than its own, and does not say how large that is. */
    for (int cpus = CPU_SETSIZE; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set) break;
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return online_cpus();
}

struct qkv_cpus qkv_cpus_allowed(void) {
    return (struct qkv_cpus){.online = online_cpus(),
                             .affinity = affinity_cpus(),
                             .quota = qkv_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup")};
}

int qkv_cpu_count(void) {
    const struct qkv_cpus cpus = qkv_cpus_allowed();
    return cpus.quota < cpus.affinity ? cpus.quota : cpus.affinity;
}
