/* cpu: the features of the processor (CPUID) that the operating system supports (XGETBV) on x86; HWCAP on AArch64. */
#include "kernel/cpu.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* XCR0: which registers the operating system saves on a task switch. */
static uint64_t saved_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* The state of AMX tiles is large, so Linux saves it only for processes that request it (Linux,
 * Documentation/arch/x86/xstate.rst). */
static bool tiles_granted(void) {
#if defined(__linux__)
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Features beyond AVX-512; `d` is EDX of leaf 7. */
static void detect_bf16(struct qkv_cpu *cpu, uint32_t d) {
    enum { BF16 = 1 << 5, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, TILES = 3 << 17 };
    uint32_t a, b, c, rest;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &rest)) return;
    cpu->avx512bf16 = (a & BF16) != 0;
    if (!cpu->avx512bf16 || (d & (AMX_BF16 | AMX_TILE)) != (AMX_BF16 | AMX_TILE)) return;
    cpu->amx = (saved_state() & TILES) == TILES && tiles_granted();
    cpu->amx_refused = !cpu->amx;
}

struct qkv_cpu qkv_cpu_detect(void) {
    enum { YMM = 0x6, ZMM = 0xe6 };
    struct qkv_cpu cpu = {0};
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return cpu;
    if (!(c & bit_OSXSAVE) || (saved_state() & YMM) != YMM) return cpu;
    const bool avx = (c & bit_AVX) && (c & bit_FMA) && (c & bit_F16C);
    if (!avx || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return cpu;
    const uint32_t wide = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    cpu.avx2 = (b & bit_AVX2) != 0;
    cpu.avx512 = cpu.avx2 && (b & wide) == wide && (saved_state() & ZMM) == ZMM;
    if (cpu.avx512) detect_bf16(&cpu, d);
    return cpu;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include <asm/hwcap.h>

struct qkv_cpu qkv_cpu_detect(void) {
    return (struct qkv_cpu){.neon = (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0};
}

#else

struct qkv_cpu qkv_cpu_detect(void) {
    return (struct qkv_cpu){.neon = false};
}
#endif
