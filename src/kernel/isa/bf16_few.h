/* bf16_few.h: for kernels without a state of the processor: blocks one by one, and the loop of a product of few rows,
 * whose few_tile computes the sums of `rows` rows and `panels` panels at a time. At most FEW_MAX (2 or 4) rows go
 * together, because their sums must fit in registers. */
#ifndef QKV_ISA_BF16_FEW_H
#define QKV_ISA_BF16_FEW_H

static void enter(size_t unit) {
    (void)unit;
}
static void leave(void) {}
static void blocks(const struct qkv_bf16_block *list, size_t count) {
    for (size_t i = 0; i < count; i++) block(&list[i]);
}

QKV_INLINE void few_rows_of(const size_t rows, const size_t panels, const struct qkv_bf16_few *f, size_t pairs) {
    size_t n = 0;
    for (; n + (panels - 1) * NR < f->columns; n += panels * NR) few_tile(rows, panels, f, n, pairs);
    for (; n < f->columns; n += NR) few_tile(rows, 1, f, n, pairs);
}

static void few(const struct qkv_bf16_few *f) {
    const size_t pairs = bf16_pairs(f->K, STEP);
    enum { COLUMNS = 4 * NR }; /* so many columns stay in the cache for the other rows */
    for (size_t n = 0; n < f->columns; n += COLUMNS) {
        struct qkv_bf16_few part = *f;
        part.columns = f->columns - n < COLUMNS ? f->columns - n : COLUMNS;
        part.b = f->b + n * pairs;
        for (size_t i = 0, step; i < f->rows; i += step) {
            const size_t left = f->rows - i;
            part.a = (const char *)f->a + i * f->lda;
            part.c = f->c + i * f->ldc + n;
            step = left >= FEW_MAX ? FEW_MAX : left >= 2 ? 2 : 1;
            if (step == FEW_MAX)
                few_rows_of(FEW_MAX, 4 / FEW_MAX, &part, pairs);
            else if (step == 2)
                few_rows_of(2, 2, &part, pairs);
            else
                few_rows_of(1, 4, &part, pairs);
        }
        if (f->out.data) put_sums(&f->out, 0, n, f->c + n, f->ldc, f->rows, part.columns);
    }
}

#endif
