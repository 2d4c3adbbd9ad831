/* emulate_cpu.c: a processor that has everything, for tests whose instructions are emulated (scripts/test-x86). */
#include "kernel/cpu.h"

#include <stddef.h>

bool qkv_cpu_has(const char *features) {
    (void)features;
    return true;
}

bool qkv_cpu_is(const char *vendor) {
    (void)vendor;
    return false;
}

const char *qkv_cpu_note(void) {
    return NULL;
}
