/* available: the memory that this process can still have according to the machine, its control groups and its own
 * limits; and the refusal of a plan that needs more. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#include "base/base.h"

static const struct qkv_memory_files system_files = {"/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup",
                                                     "/proc/self/statm"};

/* ---- one number of a file -------------------------------------------------------------------------------------- */

/* The first number of a file; false for "max", or if there is none. */
static bool available_number(const char *folder, const char *name, uint64_t *out) {
    char path[4096 + 32], text[64] = "", *end = text;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    if (fgets(text, sizeof text, file)) *out = strtoull(text, &end, 10);
    fclose(file);
    return end != text;
}

/* The number of the line "NAME VALUE" or "NAME: VALUE kB"; 0 if there is no such line. */
static uint64_t available_field(const char *path, const char *name) {
    char line[256];
    uint64_t value = 0;
    size_t n = strlen(name);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, name, n) != 0 || (line[n] != ' ' && line[n] != ':')) continue;
        value = strtoull(line + n + 1, NULL, 10) * (line[n] == ':' ? 1024 : 1);
        break;
    }
    fclose(file);
    return value;
}

/* ---- what is left ---------------------------------------------------------------------------------------------- */

static void available_lower(struct qkv_memory_left *left, uint64_t bytes, const char *why) {
    if (bytes >= left->bytes) return;
    left->bytes = bytes;
    snprintf(left->why, sizeof left->why, "%s", why);
}

/* A group leaves its limit minus its usage. Pages of files do not count as usage: the kernel frees them before it kills
 * a process. */
static void available_group(void *user, const char *folder, bool v2) {
    char stat[4096 + 32], why[sizeof((struct qkv_memory_left *)0)->why];
    uint64_t limit = 0, used = 0;
    if (!available_number(folder, v2 ? "memory.max" : "memory.limit_in_bytes", &limit)) return;
    if (!available_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", &used)) return;
    snprintf(stat, sizeof stat, "%s/memory.stat", folder);
    uint64_t files = available_field(stat, v2 ? "inactive_file" : "total_inactive_file") +
                     available_field(stat, v2 ? "active_file" : "total_active_file");
    used -= files < used ? files : used;
    snprintf(why, sizeof why, "the limit of the control group at %.120s", folder);
    available_lower(user, limit > used ? limit - used : 0, why);
}

struct qkv_memory_left qkv_memory_physical(const struct qkv_memory_files *files) {
    if (!files) files = &system_files;
    struct qkv_memory_left left = {.bytes = UINT64_MAX};
    uint64_t machine = available_field(files->meminfo, "MemAvailable");
    if (machine) available_lower(&left, machine, "the memory of this machine");
    qkv_cgroup_walk(files->membership, files->mount, "memory", available_group, &left);
    return left;
}

/* The pages of this process: its address space, resident memory that no file backs, data. */
struct pages {
    uint64_t addresses, anonymous, data;
};

static struct pages available_pages(const struct qkv_memory_files *files) {
    unsigned long long size = 0, resident = 0, shared = 0, data = 0;
    FILE *file = fopen(files->process, "re");
    int n = file ? fscanf(file, "%llu %llu %llu %*u %*u %llu", &size, &resident, &shared, &data) : 0;
    if (file) fclose(file);
    if (n != 4) return (struct pages){0};
    return (struct pages){size, resident > shared ? resident - shared : 0, data};
}

static void available_limit(struct qkv_memory_left *left, const struct rlimit *limit, uint64_t used, const char *why) {
    if (limit->rlim_cur == RLIM_INFINITY) return;
    available_lower(left, limit->rlim_cur > used ? limit->rlim_cur - used : 0, why);
}

/* ---- bytes of arenas ------------------------------------------------------------------------------------------- */

/* Arenas of all threads, as the memory left is the process's. Relaxed: it orders nothing, so it hides no race from the
 * thread sanitizer. */
static atomic_size_t arena_total;

size_t qkv_arena_total(void) {
    return atomic_load_explicit(&arena_total, memory_order_relaxed);
}

void qkv_arena_count(size_t bytes, bool made) {
    if (made)
        atomic_fetch_add_explicit(&arena_total, bytes, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&arena_total, bytes, memory_order_relaxed);
}

/* The memory that the machine, the groups and the limits of the process leave. */
static struct qkv_memory_left available_left(const struct qkv_memory_files *files) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const struct pages pages = available_pages(files);
    struct qkv_memory_left left = qkv_memory_physical(files);
    /* Arenas that are allocated but not touched yet will need some of the memory that now seems free. */
    uint64_t taken = qkv_arena_total(), used = pages.anonymous * page, owed = taken > used ? taken - used : 0;
    if (left.bytes != UINT64_MAX) left.bytes -= owed < left.bytes ? owed : left.bytes;
    struct rlimit addresses, data;
    if (getrlimit(RLIMIT_AS, &addresses) == 0)
        available_limit(&left, &addresses, pages.addresses * page, "the limit of addresses (ulimit -v)");
    if (getrlimit(RLIMIT_DATA, &data) == 0)
        available_limit(&left, &data, pages.data * page, "the limit of data (ulimit -d)");
    return left;
}

struct qkv_memory_left qkv_memory_available(void) {
    return available_left(&system_files);
}

enum qkv_status qkv_memory_check(struct qkv_context *ctx, size_t bytes, const char *what, const char *help) {
    if (!ctx || ctx->ignore_memory) return QKV_OK;
    const struct qkv_memory_left left = available_left(ctx->memory_files ? ctx->memory_files : &system_files);
    if (bytes <= left.bytes) return QKV_OK;
    char needed[QKV_BYTES_TEXT], free_text[QKV_BYTES_TEXT];
    return qkv_fail(ctx, QKV_MEMORY,
                    "%s: %s are needed, but only %s are left by %s; %s%sfree some memory, or go on all the same with "
                    "option ignore_memory",
                    what, qkv_bytes_text(needed, bytes), qkv_bytes_text(free_text, (size_t)left.bytes), left.why,
                    help ? help : "", help && *help ? ", " : "");
}
