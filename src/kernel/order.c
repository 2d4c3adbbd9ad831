/* order: the binary tree in which sums of groups are added (kernel/order.h). */
#include "kernel/order.h"

struct qkv_order_step qkv_order_step(size_t begin, size_t end, size_t groups) {
    struct qkv_order_step step = {.last = end == groups};
    size_t size = 1;
    while (!step.last && size < end - begin) size *= 2, step.level++;
    for (size_t level = step.level; begin >> level; level++) {
        if (begin >> level & 1)
            step.levels[step.count++] = level;
        else if (!step.last)
            break;
        if (!step.last) step.level = level + 1;
    }
    return step;
}

size_t qkv_order_levels(size_t groups) {
    size_t levels = 1;
    for (size_t last = groups ? groups - 1 : 0; last; last /= 2) levels++;
    return levels;
}
