/* cpu.h: which instructions this machine runs (cpu.c). */
#ifndef QKV_CPU_H
#define QKV_CPU_H

#include <stdbool.h>

/* Whether the processor has all these features, and the operating system supports them. Names are those of
 * /proc/cpuinfo, with spaces between: "avx2 fma". Asking for "amx_tile" requests AMX from the operating system, which
 * grants it to the whole process. */
bool qkv_cpu_has(const char *features);
/* Whether it is a processor of this vendor, by the name that it gives itself: "GenuineIntel". */
bool qkv_cpu_is(const char *vendor);
/* A sentence about instructions that the processor has and the operating system refuses; NULL: there are none. */
const char *qkv_cpu_note(void);

#endif
