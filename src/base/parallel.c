/* parallel: the only use of OpenMP in the project, and how many CPUs there are for it. */
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

void qkv_parallel(struct qkv_context *ctx, size_t count, qkv_body *body, void *argument) {
    if (ctx->dry) return;
    if (ctx->threads <= 1 || count <= 1) {
        for (size_t item = 0; item < count; item++) body(argument, item, 0);
        return;
    }
    /* Always as many threads, also for fewer items: for a team of another size libgomp ends threads, starts new ones and
     * allocates, which takes longer than to let some of them find nothing to do. */
    atomic_size_t next; /* a loop of OpenMP's own would do, but LLVM's library allocates memory for each */
    atomic_init(&next, 0);
#pragma omp parallel num_threads(ctx->threads)
    for (size_t item; (item = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed)) < count;)
        body(argument, item, omp_get_thread_num());
}

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

/* ---- CPUs ---------------------------------------------------------------------------------------------------- */

static int affinity_cpus(void) {
    /* The kernel refuses sets smaller than its own, of which the size is not told. */
    for (int cpus = CPU_SETSIZE; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set) break;
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}

/* Reads "QUOTA PERIOD" (cgroup v2; QUOTA may be "max"), or QUOTA and PERIOD from two files (v1; QUOTA may be -1).
 * Returns the CPUs that the quota amounts to, rounded up; INT32_MAX without a quota. */
static int32_t quota_cpus(const char *folder, bool v2) {
    static const char *const names[2][2] = {{"cpu.cfs_quota_us", "cpu.cfs_period_us"}, {"cpu.max", NULL}};
    char path[4096 + 32], text[64];
    long long number[2] = {-1, -1};
    for (int i = 0; i < 2 && names[v2][i]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[v2][i]);
        FILE *file = fopen(path, "re");
        if (!file) return INT32_MAX;
        char *end = text;
        if (fgets(text, sizeof text, file)) {
            number[i] = strtoll(text, &end, 10);
            if (v2 && end != text) number[1] = strtoll(end, NULL, 10);
        }
        fclose(file);
        if (end == text) return INT32_MAX;
    }
    if (number[0] <= 0 || number[1] <= 0) return INT32_MAX;
    long long cpus = number[0] / number[1] + (number[0] % number[1] != 0);
    return cpus < INT32_MAX ? (int32_t)cpus : INT32_MAX;
}

/* The least quota of a group and all groups that hold it. In a container the group's path may not exist below the mount,
 * but its own group is mounted there as the root, where the walk ends. */
static int32_t least_quota(const char *mount, const char *group, bool v2) {
    char folder[4096];
    int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof folder) return INT32_MAX;
    int32_t least = INT32_MAX;
    for (size_t root = strlen(mount);;) {
        int32_t cpus = quota_cpus(folder, v2);
        if (cpus < least) least = cpus;
        char *slash = strrchr(folder + root, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* Whether "cpu" is among v1 controllers "cpu,cpuacct". */
static bool has_cpu_controller(const char *list) {
    for (;;) {
        size_t n = strcspn(list, ",");
        if (n == 3 && memcmp(list, "cpu", 3) == 0) return true;
        if (!list[n]) return false;
        list += n + 1;
    }
}

int32_t qkv_cgroup_cpus(const char *membership, const char *mount) {
    char line[4096], controller_mount[4096];
    int32_t least = INT32_MAX;
    FILE *file = fopen(membership, "re");
    if (!file) return least;
    while (fgets(line, sizeof line, file)) { /* "0::/group" is v2, "4:cpu,cpuacct:/group" v1 */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        bool v2 = !*controllers;
        if (!v2 && !has_cpu_controller(controllers)) continue;
        int n = snprintf(controller_mount, sizeof controller_mount, "%s%s", mount, v2 ? "" : "/cpu");
        if (n < 0 || (size_t)n >= sizeof controller_mount) continue;
        int32_t cpus = least_quota(controller_mount, group, v2);
        if (cpus < least) least = cpus;
    }
    fclose(file);
    return least;
}

int qkv_cpu_count(void) {
    int affinity = affinity_cpus(), quota = qkv_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota < affinity ? quota : affinity;
}
