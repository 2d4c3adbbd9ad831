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

/* few_keep for the rows from r on, whose keys fill a vector, while there are enough for so many streams, which two rows share or each has for
 * itself; returns the first row that is left. */
QKV_INLINE size_t few_keep_rows(const struct qkv_attend_plan *plan, const struct mask_rule *rule,
                                const struct row *rows, const bool share, const size_t streams, size_t r, size_t count,
                                float kept, float *keep, size_t ld) {
    const size_t step = share ? 2 * streams : streams;
    for (; count - r >= step; r += step) {
        uint64_t at[2 * MASK_STREAMS];
        for (size_t i = 0; i < step; i++) at[i] = keep_at(plan, &rows[r + i]);
        if (share)
            mask_rows(keep + r * ld, ld, rule, streams, at, kept);
        else
            mask_rows_apart(keep + r * ld, ld, rule, streams, at, kept);
    }
    return r;
}

/* keep (count,ld): what dropout multiplies the weights of `count` rows by. Two rows whose keys fill a vector share the random numbers of two,
 * where those of each begin with a pair. */
static inline void few_keep(const struct qkv_attend_plan *plan, const struct mask_rule *rule, const struct row *rows,
                            size_t count, size_t columns, float kept, float *keep, size_t ld) {
    size_t r = 0;
    if (W > 1 && columns == W) {
        if (plan->mask_Tk % 2 == 0) {
            r = few_keep_rows(plan, rule, rows, true, MASK_STREAMS, r, count, kept, keep, ld);
            r = few_keep_rows(plan, rule, rows, true, 2, r, count, kept, keep, ld);
        }
        r = few_keep_rows(plan, rule, rows, false, MASK_STREAMS, r, count, kept, keep, ld);
        r = few_keep_rows(plan, rule, rows, false, 2, r, count, kept, keep, ld);
    }
    for (; r < count; r++) keep_of(plan, rule, &rows[r], 0, 0, columns, kept, keep + r * ld);
}

#endif
