/* softcap: the softcap of plain arrays, for operators that include one; qkv_softcap_apply is a kernel. */
#ifndef QKV_OP_SOFTCAP_H
#define QKV_OP_SOFTCAP_H

#include "op/op.h"

/* Whether the options change no score. */
bool qkv_softcap_is_none(const struct qkv_softcap *options);
/* dx (+)= dy·a·(1 − (y / c)²); dx may be dy. */
void qkv_softcap_slope(const struct qkv_softcap *options, float *dx, bool accumulate, const float *dy, const float *y,
                       size_t n);

#endif
