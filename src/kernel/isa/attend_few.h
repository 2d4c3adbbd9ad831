/* attend_few.h: what attention over few keys shares in fp32 (attend_few.c) and in bf16 (attend_bf16_few.c). */
#ifndef QKV_ISA_ATTEND_FEW_H
#define QKV_ISA_ATTEND_FEW_H

#include "kernel/isa/attend_score.h"

enum { KEYS = QKV_ATTEND_FEW, ROWS = QKV_ATTEND_FEW_ROWS };

/* Asks for the rows of the next head, or of the first head of the rows behind these, which the next sequence has. */
QKV_INLINE void few_ask(const struct qkv_heads *x, size_t b, size_t h, size_t heads, size_t rows, size_t columns) {
    if (!x->data) return;
    const size_t first = h + 1 < heads ? 0 : rows, head = h + 1 < heads ? h + 1 : 0;
    const size_t size = x->dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t);
    const uintptr_t at =
        (uintptr_t)x->data + (b * x->batch_stride + first * x->row_stride + head * x->head_stride) * size;
    for (size_t i = 0; i < rows; i++)
        for (size_t c = 0; c < columns * size; c += QKV_CACHE_LINE)
            QKV_PREFETCH((const void *)(at + i * x->row_stride * size + c));
}

/* Rows a tile of at most `most`, so that no tile has a row or two only: short tiles wait for their sums. */
static inline size_t few_tile(size_t count, size_t most) {
    const size_t tiles = (count + most - 1) / most;
    return tiles ? (count + tiles - 1) / tiles : 1;
}

/* keep (count,ld): what dropout multiplies the weights of `count` rows by. Two rows whose keys fill a vector share the random numbers of two. */
static inline void few_keep(const struct qkv_attend_plan *plan, const struct mask_rule *rule, const struct row *rows,
                            size_t count, size_t columns, float kept, float *keep, size_t ld) {
    const bool both = W > 1 && columns == W && plan->mask_Tk % 2 == 0;
    for (size_t r = 0; r < count; r++) {
        if (both && r + 1 < count) {
            mask_both(keep + r * ld, keep + (r + 1) * ld, rule, keep_at(plan, &rows[r]), keep_at(plan, &rows[r + 1]),
                      kept);
            r++;
        } else {
            keep_of(plan, rule, &rows[r], 0, 0, columns, kept, keep + r * ld);
        }
    }
}

#endif
