/* page_groups: pages of numbers of 8 bits with scales in f16, in groups that fit the vectors of every kernel table
 * (page_q8_0.c writes them, isa/attend_groups.h reads them). */
#ifndef QKV_PAGE_GROUPS_H
#define QKV_PAGE_GROUPS_H

#include "base/base.h"

enum { QKV_GROUP_POSITIONS = 16, QKV_GROUP_CHANNELS = 32 };

/* A block of channels at some positions: number times scale of its position. Keys are (channels,positions), so that a
 * vector has one channel of several keys; values are (positions,channels). The groups of a head on a page are
 * (positions rounded up to whole groups / QKV_GROUP_POSITIONS, columns / QKV_GROUP_CHANNELS). */
struct qkv_page_group {
    uint16_t scales[QKV_GROUP_POSITIONS];
    int8_t numbers[QKV_GROUP_CHANNELS * QKV_GROUP_POSITIONS];
};
_Static_assert(sizeof(struct qkv_page_group) == QKV_GROUP_POSITIONS * (2 + QKV_GROUP_CHANNELS), "groups have no gaps");

static inline size_t qkv_group_count(size_t positions) {
    return positions / QKV_GROUP_POSITIONS + (positions % QKV_GROUP_POSITIONS != 0);
}

#endif
