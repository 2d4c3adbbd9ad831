/* cpu.h: which instruction sets this machine runs (cpu.c). */
#ifndef QKV_CPU_H
#define QKV_CPU_H

#include <stdbool.h>

struct qkv_cpu {
    bool avx2;        /* AVX2, FMA and F16C */
    bool avx512;      /* AVX-512 F, BW, DQ and VL besides */
    bool avx512bf16;  /* AVX-512 BF16 besides */
    bool amx;         /* AMX tiles of bf16 besides, with the operating system's permission to use them */
    bool amx_refused; /* the processor has them, the operating system does not give them */
    bool neon;        /* AArch64's vectors, with fused multiply-add */
};
/* Asks the operating system for AMX, which it grants to the whole process. */
struct qkv_cpu qkv_cpu_detect(void);

#endif
