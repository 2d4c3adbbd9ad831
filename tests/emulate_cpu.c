/* emulate_cpu.c: a processor that has everything, for tests whose instructions are emulated (scripts/test-x86). */
#include "kernel/cpu.h"

struct qkv_cpu qkv_cpu_detect(void) {
    return (struct qkv_cpu){.avx2 = true, .avx512 = true, .avx512bf16 = true, .amx = true};
}
