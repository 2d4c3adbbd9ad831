/* order: sums in a defined order (order.c, gemm_order.c).
 *
 * The terms of a sum over rows (a gradient) belong to sequences, and sequences belong to groups. The sum of a group
 * adds its terms in order, in a form in which a cut between two sequences changes no bit. Groups are added in one
 * binary tree: two neighbours, then two neighbouring pairs, and so on, as a counter carries; sums that are pending
 * after the last group are added from the smallest up.
 * With one group, the sum continues from the output's old value, so a group may come in several calls of a few
 * sequences each. With several groups, each is complete, and the sum of their tree is added to the output. Complete
 * groups that are a part of a larger tree may store their sum for a later call instead (struct qkv_order_carry), after
 * the sums of earlier parts are added to it; then the output is not changed. */
#ifndef QKV_ORDER_H
#define QKV_ORDER_H

#include "base/base.h"

enum { QKV_ORDER_LEVELS = 8, QKV_GROUPS_MAX = 64 };
struct qkv_order {
    size_t groups, sequences, terms;
    const size_t *first; /* (groups + 1): the sequence that each group begins with */
    const size_t *start; /* (sequences + 1): the term that each sequence begins with. A plan reads neither list */
};
/* What happens to the sum of the groups [begin, end) of `groups`. These are all groups after `begin`, or a power of two
 * of groups that begins at a multiple of itself. The pending sums of `count` levels are added to the sum, in this
 * order. Then the sum is pending itself, at `level`; or, if it is the `last`, it is the result. */
struct qkv_order_step {
    size_t count, levels[QKV_ORDER_LEVELS], level;
    bool last;
};
struct qkv_order_step qkv_order_step(size_t begin, size_t end, size_t groups);
/* The levels in use for so many groups, with the level in which the last sum is computed. */
size_t qkv_order_levels(size_t groups);
/* Instead of C: `to` = the sum of all groups, to which `earlier` sums were added, one after the other. Each array is
 * (M,N) with C's ldc; none overlap. The product sets `done` if it did this; else C got the sum. */
struct qkv_order_carry {
    float *to;
    bool goes_on; /* with one group: its sum continues from the old value of `to` */
    size_t count;
    const float *earlier[QKV_ORDER_LEVELS];
    bool done;
};

#endif
