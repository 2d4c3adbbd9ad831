/* Scores of some rows, for operators that compute them piece by piece (scores.c, cross_entropy.c). */
#ifndef QKV_OP_SCORES_H
#define QKV_OP_SCORES_H

#include "op/softcap.h"

/* The number of rows whose scores are computed at a time, for V scores each. */
size_t qkv_scores_chunk(size_t V);
/* softcap(x·weightᵀ + bias) of `rows` rows of x from `first` on, to scores (rows, V). */
enum qkv_status qkv_scores_rows(struct qkv_tape *tape, const struct qkv_tensor *x, size_t first, size_t rows,
                                const struct qkv_tensor *weight, const struct qkv_tensor *bias,
                                const struct qkv_softcap *softcap, float *scores);

#endif
