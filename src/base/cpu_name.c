/* cpu_name: the system's name of the processor. */
#include <string.h>

#include <sys/utsname.h>

#include "base/base.h"

void qkv_cpu_name(char *name, size_t size) {
    static const char *const keys[] = {"model name", "Model", "cpu model", "Hardware"};
    struct utsname system = {0};
    char line[512];
    bool found = false;
    if (!name || !size) return;
    snprintf(name, size, "%s", uname(&system) == 0 ? system.machine : "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && !found && fgets(line, sizeof line, file))
        for (size_t i = 0; i < sizeof keys / sizeof *keys && !found; i++) {
            const char *colon = strchr(line, ':');
            found = colon && !strncmp(line, keys[i], strlen(keys[i]));
            if (!found) continue;
            colon += 1 + strspn(colon + 1, " \t");
            snprintf(name, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        }
    if (file) fclose(file);
}
