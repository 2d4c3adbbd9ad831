/* cpu: the features of the processor (CPUID) that the operating system supports (XGETBV) on x86; HWCAP on AArch64. */
#include "kernel/cpu.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EAX, EBX, ECX, EDX };
enum { YMM = 0x6, ZMM = 0xe6, TILES = 3 << 17 }; /* state that the operating system saves on a task switch: XCR0 */

static const struct cpu_feature {
    const char *name;
    uint32_t leaf, subleaf, word, bit;
    uint32_t state;
} cpu_features[] = {
    {"fma", 1, 0, ECX, 12, YMM},        {"avx", 1, 0, ECX, 28, YMM},        {"f16c", 1, 0, ECX, 29, YMM},
    {"avx2", 7, 0, EBX, 5, YMM},        {"avx512f", 7, 0, EBX, 16, ZMM},    {"avx512dq", 7, 0, EBX, 17, ZMM},
    {"avx512bw", 7, 0, EBX, 30, ZMM},   {"avx512vl", 7, 0, EBX, 31, ZMM},   {"avx512_bf16", 7, 1, EAX, 5, ZMM},
    {"amx_bf16", 7, 0, EDX, 22, TILES}, {"amx_tile", 7, 0, EDX, 24, TILES}, {"avx512_vnni", 7, 0, ECX, 11, ZMM},
    {"avx_vnni", 7, 1, EAX, 4, YMM},
};

static const struct cpu_feature *cpu_feature(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof cpu_features / sizeof cpu_features[0]; i++)
        if (strlen(cpu_features[i].name) == length && !memcmp(cpu_features[i].name, name, length))
            return &cpu_features[i];
    return NULL;
}

static bool cpu_bit(const struct cpu_feature *feature) {
    uint32_t words[4];
    if (!__get_cpuid_count(feature->leaf, feature->subleaf, &words[EAX], &words[EBX], &words[ECX], &words[EDX]))
        return false;
    return words[feature->word] >> feature->bit & 1;
}

bool qkv_cpu_is(const char *vendor) {
    uint32_t words[4], name[3];
    if (strlen(vendor) != sizeof name) return false;
    if (!__get_cpuid(0, &words[EAX], &words[EBX], &words[ECX], &words[EDX])) return false;
    name[0] = words[EBX], name[1] = words[EDX], name[2] = words[ECX];
    return memcmp(name, vendor, sizeof name) == 0;
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

static bool cpu_supported(const struct cpu_feature *feature) {
    uint32_t a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & feature->state) != feature->state) return false;
    return strcmp(feature->name, "amx_tile") != 0 || tiles_granted();
}

static bool cpu_has(const char *name, size_t length) {
    const struct cpu_feature *feature = cpu_feature(name, length);
    return feature && cpu_bit(feature) && cpu_supported(feature);
}

const char *qkv_cpu_note(void) {
    if (!qkv_cpu_has("avx512f avx512_bf16") || !cpu_bit(cpu_feature("amx_bf16", 8)) ||
        !cpu_bit(cpu_feature("amx_tile", 8)) || qkv_cpu_has("amx_bf16 amx_tile"))
        return NULL;
    return "this processor has AMX, but the operating system does not let programs use it (it needs Linux 5.16 or "
           "newer, and a virtual machine that passes it on)";
}

#else
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static bool cpu_has(const char *name, size_t length) {
    if (length == 7 && !memcmp(name, "asimddp", length)) return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    return length == 5 && !memcmp(name, "asimd", length) && (getauxval(AT_HWCAP) & HWCAP_ASIMD);
}

#else

static bool cpu_has(const char *name, size_t length) {
    (void)name, (void)length;
    return false;
}
#endif

bool qkv_cpu_is(const char *vendor) {
    (void)vendor;
    return false;
}

const char *qkv_cpu_note(void) {
    return NULL;
}
#endif

bool qkv_cpu_has(const char *features) {
    while (*(features += strspn(features, " "))) {
        const size_t length = strcspn(features, " ");
        if (!cpu_has(features, length)) return false;
        features += length;
    }
    return true;
}
