/* elements: activations, gates and softcaps of numbers as they are stored. bf16 is widened to fp32, some numbers at a
 * time, and results are rounded. */
#include "kernel/kernel.h"

enum { PART = 512 }; /* numbers of bf16 that are widened at a time */

void qkv_activate(const struct qkv_kernels *kernels, enum qkv_ffn_kind kind, enum qkv_dtype dtype, void *y,
                  const void *x, size_t n) {
    const uint16_t *from = x;
    float wide[PART], result[PART];
    if (dtype == QKV_F32) {
        kernels->activation_forward(kind, y, x, n);
        return;
    }
    for (size_t i = 0, count; i < n; i += count) {
        count = qkv_min(n - i, PART);
        kernels->widen(wide, from + i, count);
        kernels->activation_forward(kind, result, wide, count);
        kernels->narrow((uint16_t *)y + i, result, count);
    }
}

void qkv_activate_gated(const struct qkv_kernels *kernels, enum qkv_ffn_kind kind, float limit, enum qkv_dtype dtype,
                        void *y, const void *x, size_t F) {
    const uint16_t *from = x;
    float gate[PART], up[PART], result[PART];
    if (dtype == QKV_F32) {
        kernels->gated_forward(kind, limit, y, x, (const float *)x + F, F);
        return;
    }
    for (size_t f = 0, count; f < F; f += count) {
        count = qkv_min(F - f, PART);
        kernels->widen(gate, from + f, count);
        kernels->widen(up, from + F + f, count);
        kernels->gated_forward(kind, limit, result, gate, up, count);
        kernels->narrow((uint16_t *)y + f, result, count);
    }
}

void qkv_softcap_apply(const struct qkv_kernels *kernels, const struct qkv_softcap *o, float *y, const float *x,
                       size_t n) {
    const float scale = o->scale == 0 ? 1 : o->scale;
    kernels->scale(y, false, x, scale, n);
    if (o->cap == 0) return;
    kernels->scale(y, false, y, 1 / o->cap, n);
    kernels->activation_forward(QKV_FFN_TANH, y, y, n);
    kernels->scale(y, false, y, o->cap, n);
}
