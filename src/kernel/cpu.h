/* cpu.h: which instruction sets this machine runs (cpu.c). */
#ifndef QKV_CPU_H
#define QKV_CPU_H

#include <stdbool.h>

struct qkv_cpu {
    bool avx2;   /* AVX2, FMA and F16C */
    bool avx512; /* AVX-512 F, BW, DQ and VL besides */
    bool neon;   /* AArch64's vectors, with fused multiply-add */
};
struct qkv_cpu qkv_cpu_detect(void);

#endif
