/* cpu: what the processor can do (CPUID) and the operating system saves (XGETBV) on x86; what HWCAP says on AArch64. */
#include "kernel/cpu.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0: which registers the operating system saves on a task switch. */
static uint64_t saved_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
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
