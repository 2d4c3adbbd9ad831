/* cpu.h: which instruction sets this machine runs (cpu.c). */
#ifndef QKV_CPU_H
#define QKV_CPU_H

#include <stdbool.h>

struct qkv_cpu {
    bool avx2;        /* AVX2, FMA and F16C */
    bool avx512;      /* the above, and AVX-512 F, BW, DQ and VL */
    bool avx512bf16;  /* the above, and AVX-512 BF16 */
    bool amx;         /* the above, and AMX tiles of bf16, with the operating system's permission to use them */
    bool amx_refused; /* the processor has AMX, but the operating system refuses it */
    bool neon;        /* AArch64's vectors, with fused multiply-add */
};
/* Requests AMX from the operating system, which grants it to the whole process. */
struct qkv_cpu qkv_cpu_detect(void);

#endif
