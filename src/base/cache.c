/* cache: the sizes of the processor's data caches, as the system tells them: Linux's sysfs, else sysconf. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#define CACHE_INDICES 16 /* entries that sysfs may have for one CPU */

/* The first line of /sys/devices/system/cpu/cpu0/cache/index<index>/<name>; false if there is none. */
static bool read_entry(int index, const char *name, char *text, size_t size) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    bool read = fgets(text, (int)size, file) != NULL;
    fclose(file);
    if (read) text[strcspn(text, "\n")] = 0;
    return read;
}

/* "512K", "32768K", "1M"; 0 for a text that is no size. */
static size_t parse_size(const char *text) {
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    size_t unit = *end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : *end == 'G' ? 1 << 30 : 1, bytes;
    return end > text && number < SIZE_MAX && qkv_multiply((size_t)number, unit, &bytes) ? bytes : 0;
}

/* The cache of a level in sysfs; of the highest level if `level` is 0. */
static size_t from_sysfs(int level) {
    char text[64];
    size_t bytes = 0;
    int highest = 0;
    for (int i = 0; i < CACHE_INDICES; i++) {
        if (!read_entry(i, "type", text, sizeof text)) break;
        if (strcmp(text, "Instruction") == 0 || !read_entry(i, "level", text, sizeof text)) continue;
        int here = atoi(text);
        if (level ? here != level : here < highest) continue;
        if (!read_entry(i, "size", text, sizeof text)) continue;
        highest = here;
        bytes = parse_size(text);
    }
    return bytes;
}

static size_t from_sysconf(int level) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    for (int i = level ? level : 3; i >= 1 && i <= 3; i--) {
        long bytes = sysconf(names[i - 1]);
        if (bytes > 0) return (size_t)bytes;
        if (level) break;
    }
#endif
    (void)level;
    return 0;
}

size_t qkv_cache_bytes(int level) {
    size_t bytes = from_sysfs(level);
    return bytes ? bytes : from_sysconf(level);
}
