/* permute: orders that are computed and not stored: which window a row of a mixture is. */
#ifndef QKV_DATA_PERMUTE_H
#define QKV_DATA_PERMUTE_H

#include "base/base.h"

/* The place of i < n in a permutation of 0 … n − 1, n ≤ 2^62, which the key chooses: a Feistel network (Luby & Rackoff
 * 1988) over the next power of 4, walked until it is below n (Black & Rogaway 2002). */
uint64_t qkv_permute(const uint32_t key[2], uint64_t n, uint64_t i);

/* How rows are divided among sources: of each QKV_MIX rows that follow one another, a source has `share`, in a random
 * order. */
enum { QKV_MIX = 4096 };
struct qkv_mix {
    uint64_t seed;
    size_t count; /* of sources */
    uint32_t share[QKV_FILES_MAX];
};
/* Shares of weights that add up to 1: the nearest ones, at least one row. */
void qkv_mix_begin(struct qkv_mix *mix, uint64_t seed, const double *weights, size_t count);
/* The source of row `row`, counted over all steps; *nth: its rows before in the order of the source. Each source gives
 * each number once. */
size_t qkv_mix_row(const struct qkv_mix *mix, uint64_t row, uint64_t *nth);
/* Which of its `windows` windows the nth row of a source is: every epoch has each once, in another order. */
uint64_t qkv_mix_window(const struct qkv_mix *mix, size_t source, uint64_t nth, uint64_t windows);

#endif
