/* cgroup: the control groups of a process (v1 and v2), and their quotas of CPU time. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Whether `name` is in the list of v1 controllers "cpu,cpuacct". */
static bool cgroup_controls(const char *list, const char *name) {
    for (size_t size = strlen(name);;) {
        size_t n = strcspn(list, ",");
        if (n == size && memcmp(list, name, n) == 0) return true;
        if (!list[n]) return false;
        list += n + 1;
    }
}

/* A group and all its ancestors. In a container the group's path may not exist below the mount: then its own group is
 * mounted there as the root, where the walk ends. */
static void cgroup_ancestors(const char *mount, const char *group, bool v2, qkv_cgroup_visit *visit, void *user) {
    char folder[4096];
    int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof folder) return;
    for (size_t root = strlen(mount);;) {
        visit(user, folder, v2);
        char *slash = strrchr(folder + root, '/');
        if (!slash) return;
        *slash = 0;
    }
}

void qkv_cgroup_walk(const char *membership, const char *mount, const char *controller, qkv_cgroup_visit *visit,
                     void *user) {
    char line[4096], controller_mount[4096];
    FILE *file = fopen(membership, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) { /* "0::/group" is v2, "4:cpu,cpuacct:/group" v1 */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        bool v2 = !*controllers;
        if (!v2 && !cgroup_controls(controllers, controller)) continue;
        int n =
            snprintf(controller_mount, sizeof controller_mount, "%s%s%s", mount, v2 ? "" : "/", v2 ? "" : controller);
        if (n >= 0 && (size_t)n < sizeof controller_mount) cgroup_ancestors(controller_mount, group, v2, visit, user);
    }
    fclose(file);
}

/* Reads "QUOTA PERIOD" (cgroup v2; QUOTA may be "max"), or QUOTA and PERIOD from two files (v1; QUOTA may be -1).
 * Lowers *user to the CPUs of the quota, rounded up. */
static void cgroup_quota(void *user, const char *folder, bool v2) {
    static const char *const names[2][2] = {{"cpu.cfs_quota_us", "cpu.cfs_period_us"}, {"cpu.max", NULL}};
    char path[4096 + 32], text[64];
    long long number[2] = {-1, -1};
    for (int i = 0; i < 2 && names[v2][i]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[v2][i]);
        FILE *file = fopen(path, "re");
        if (!file) return;
        char *end = text;
        if (fgets(text, sizeof text, file)) {
            number[i] = strtoll(text, &end, 10);
            if (v2 && end != text) number[1] = strtoll(end, NULL, 10);
        }
        fclose(file);
        if (end == text) return;
    }
    if (number[0] <= 0 || number[1] <= 0) return;
    long long cpus = number[0] / number[1] + (number[0] % number[1] != 0);
    int32_t *fewest = user;
    if (cpus < *fewest) *fewest = (int32_t)cpus;
}

int32_t qkv_cgroup_cpus(const char *membership, const char *mount) {
    int32_t fewest = INT32_MAX;
    qkv_cgroup_walk(membership, mount, "cpu", cgroup_quota, &fewest);
    return fewest;
}
