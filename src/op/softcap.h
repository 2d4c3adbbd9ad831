/* softcap: y = c·tanh(a·x / c), or a·x without a cap: scores are multiplied by a factor a and bounded by ±c (Gemma 2).
 * qkv_softcap_apply is a kernel; these are the slopes of scores, for their operators. */
#ifndef QKV_OP_SOFTCAP_H
#define QKV_OP_SOFTCAP_H

#include "op/op.h"

/* Whether the options change no score. */
bool qkv_softcap_is_none(const struct qkv_softcap *options);
/* dx = dy·a·(1 − (y / c)²); dx may be dy. */
void qkv_softcap_slope(const struct qkv_softcap *options, float *dx, const float *dy, const float *y, size_t n);
/* The same in parallel. */
void qkv_softcap_slopes(struct qkv_context *ctx, const struct qkv_softcap *options, float *dx, const float *dy,
                        const float *y, size_t n);

#endif
