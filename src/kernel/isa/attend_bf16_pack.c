/* attend_bf16_pack.c: packs keys, values and rows for the bf16 kernels, once a call if every block of rows reads them
 * (keys, forward) or every block of keys does (rows, backward). And the table of attention in bf16. */
#include "kernel/isa/attend_bf16.h"
#include "kernel/isa/attend_sums.h"

struct staging {
    uint16_t *rows; /* in bf16 */
    float *floats;  /* in the kernels' order */
    bool good;      /* all rows fit in bf16; else: */
    bool bad[BLOCK_KEYS > BLOCK_ROWS ? BLOCK_KEYS : BLOCK_ROWS];
};

static size_t carve_staging(const struct qkv_attend_plan *plan, struct staging *s, float *scratch) {
    struct carve c = {(char *)scratch, 0};
    const size_t wide = plan->a->D > plan->a->Dv ? plan->a->D : plan->a->Dv;
    const size_t rows = BLOCK_KEYS > BLOCK_ROWS ? BLOCK_KEYS : BLOCK_ROWS;
    s->rows = carve_take(&c, rows * padded(wide, GRANULE) * sizeof *s->rows);
    s->floats = carve_take(&c, BF16.native ? 0 : rows * padded(wide, GRANULE) * sizeof *s->floats);
    return c.used / sizeof(float);
}

size_t QKV_T(attend_bf16_pack_scratch)(const struct qkv_attend_plan *plan) {
    struct staging s;
    return carve_staging(plan, &s, NULL);
}

/* Clears rows that have numbers outside of bf16's range: they are terms of a product. Returns whether there are
 * none. */
static bool clear_bad(struct staging *s, size_t count, size_t ld) {
    for (size_t r = 0; r < count && !s->good; r++)
        if (s->bad[r]) memset(s->rows + r * ld, 0, ld * sizeof *s->rows);
    return s->good;
}

static void stage(struct staging *s, const struct stream *x, size_t first, size_t count, size_t ld) {
    struct cells row = {0};
    float buffer[CHANNELS];
    vf check = vf_zero();
    for (size_t j = 0; j < count; j++) {
        row = j && !x->reads ? stream_next(x, row, first + j) : stream_row(x, first + j, buffer);
        check = round_row(s->rows + j * ld, row, x->columns, ld, check);
    }
    s->good = all_finite(check);
    for (size_t j = 0; j < count && !s->good; j++) s->bad[j] = !fits(stream_row(x, first + j, buffer), x->columns);
}

/* Keys or values of one block to pack: as they are, or rounded. If all must be `finite`, rows that bf16 cannot hold
 * become zeros; *good says whether there were none. */
static struct halves halves_of(const struct stream *x, size_t first, size_t count, bool finite, struct staging *s,
                               bool *good) {
    const struct qkv_heads *heads = first < x->turn ? x->past : x->now;
    *good = true;
    if (heads->dtype == QKV_BF16 && !stream_splits(x, first, count)) {
        const struct halves here = {stream_at(x, first).data, heads->row_stride};
        if (!finite || halves_finite(here, count, x->columns)) return here;
    }
    const size_t ld = padded(x->columns, GRANULE);
    stage(s, x, first, count, ld);
    if (finite) *good = clear_bad(s, count, ld);
    return (struct halves){s->rows, ld};
}

static struct qkv_operand halves_across(struct halves x) {
    return (struct qkv_operand){x.rows, QKV_BF16, 1, x.ld};
}
static struct qkv_operand halves_along(struct halves x) {
    return (struct qkv_operand){x.rows, QKV_BF16, x.ld, 1};
}

static size_t pack_count(const struct qkv_attend *a, size_t key) {
    return a->Tk - key < BLOCK_KEYS ? a->Tk - key : BLOCK_KEYS;
}

static void pack_keys_of(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t block,
                         const struct key_block *out, struct staging *s) {
    const struct stream keys = keys_of(plan, b, n);
    const size_t D = plan->a->D, key = block * BLOCK_KEYS, count = pack_count(plan->a, key);
    struct halves x = halves_of(&keys, key, count, false, s, out->finite_k);
    BF16.pack_b(out->k, halves_across(x), D, count);
    if (!plan->g) return;
    if (x.rows == s->rows)
        *out->finite_k = clear_bad(s, count, x.ld);
    else
        x = halves_of(&keys, key, count, true, s, out->finite_k);
    BF16.pack_b(out->k_rows, halves_along(x), count, D);
}

static void pack_values_of(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t block,
                           const struct key_block *out, struct staging *s) {
    const struct stream values = values_of(plan, b, n);
    const size_t Dv = plan->a->Dv, key = block * BLOCK_KEYS, count = pack_count(plan->a, key);
    const struct halves x = halves_of(&values, key, count, !plan->g, s, out->finite_v);
    if (plan->g)
        BF16.pack_b(out->v, halves_across(x), Dv, count);
    else
        BF16.pack_b(out->v, halves_along(x), count, Dv);
}

void QKV_T(attend_bf16_pack_block)(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t block,
                                   const struct key_block *out, float *scratch) {
    struct staging s;
    carve_staging(plan, &s, scratch);
    if (!plan->words[QKV_PAGE_KEYS]) pack_keys_of(plan, b, n, block, out, &s);
    if (!plan->words[QKV_PAGE_VALUES]) pack_values_of(plan, b, n, block, out, &s);
}

void QKV_T(attend_bf16_pack_values)(const struct qkv_attend_plan *plan, size_t b, size_t n, size_t block,
                                    const struct key_block *out, float *scratch) {
    struct staging s;
    carve_staging(plan, &s, scratch);
    pack_values_of(plan, b, n, block, out, &s);
}

void QKV_T(attend_bf16_pack_keys)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const size_t pair = item / plan->key_blocks, Hkv = plan->a->Hkv;
    struct carve c = {plan->packed_keys + item * plan->keys_bytes, 0};
    const struct key_block out = carve_keys(plan, &c);
    QKV_T(attend_bf16_pack_block)(plan, pair / Hkv, pair % Hkv, item % plan->key_blocks, &out, scratch);
}

/* The rows of a block, with zeros from `count` to `all`: as strips of left operands, and transposed. Returns whether
 * bf16 can hold them all. */
static bool pack_side(const struct qkv_heads *x, const struct row *rows, size_t count, size_t all, size_t columns,
                      char *strips, char *transposed, struct staging *s) {
    const size_t ld = padded(columns, GRANULE);
    vf check = vf_zero();
    for (size_t r = 0; r < count; r++)
        check = round_row(s->rows + r * ld, cells_at(x, rows[r].b, rows[r].i, rows[r].h), columns, ld, check);
    s->good = all_finite(check);
    for (size_t r = 0; r < count && !s->good; r++)
        s->bad[r] = !fits(cells_at(x, rows[r].b, rows[r].i, rows[r].h), columns);
    memset(s->rows + count * ld, 0, (all - count) * ld * sizeof *s->rows);
    for (size_t r = 0; r < all; r += STRIP)
        save_strip(strips + r / STRIP * left_bytes(STRIP, columns), s->rows + r * ld, ld, gradient_rows(count - r),
                   columns, s->floats);
    const bool good = clear_bad(s, count, ld);
    BF16.pack_a(transposed, (struct qkv_operand){s->rows, QKV_BF16, 1, ld}, columns, all, s->floats);
    return good;
}

/* The number of rows in block `item` of (B,Hkv,blocks). */
static size_t item_count(const struct qkv_attend_plan *plan, size_t item) {
    const size_t left = plan->rows - item % plan->blocks * BLOCK_ROWS;
    return left < BLOCK_ROWS ? left : BLOCK_ROWS;
}

static struct row_block place_rows(const struct qkv_attend_plan *plan, size_t item) {
    const struct qkv_attend *a = plan->a;
    const size_t pair = item / plan->blocks, block = item % plan->blocks, count = item_count(plan, item);
    const struct row_block out = row_block_at(plan, pair, block);
    rows_of(plan, pair / a->Hkv, pair % a->Hkv, block * BLOCK_ROWS, count, out.rows);
    for (size_t r = 0; r < count; r++)
        if (a->lse[out.rows[r].at] == -INFINITY) out.rows[r].lo = out.rows[r].hi = 0;
    for (size_t r = count; r < out.count; r++) out.rows[r] = (struct row){0};
    *out.keys = rows_span(out.rows, count);
    *out.packed = false;
    return out;
}

void QKV_T(attend_bf16_place_rows)(const struct qkv_attend_plan *plan, size_t item) {
    place_rows(plan, item);
}

void QKV_T(attend_bf16_pack_placed)(const struct qkv_attend_plan *plan, size_t item, const struct row_block *out,
                                    float *scratch) {
    const struct qkv_attend *a = plan->a;
    const size_t count = item_count(plan, item);
    struct staging s;
    carve_staging(plan, &s, scratch);
    *out->finite_q = pack_side(&a->q, out->rows, count, out->count, a->D, out->q, out->transposed_q, &s);
    *out->finite_dy = pack_side(&plan->g->dy, out->rows, count, out->count, a->Dv, out->dy, out->transposed_dy, &s);
    *out->packed = true;
}

void QKV_T(attend_bf16_pack_rows)(const struct qkv_attend_plan *plan, size_t item, float *scratch) {
    const struct row_block rows = place_rows(plan, item);
    QKV_T(attend_bf16_pack_placed)(plan, item, &rows, scratch);
}

size_t QKV_T(attend_bf16_keys_bytes)(const struct qkv_attend_plan *plan) {
    struct carve c = {0};
    carve_keys(plan, &c);
    return c.used;
}

size_t QKV_T(attend_bf16_rows_bytes)(const struct qkv_attend_plan *plan) {
    struct carve c = {0};
    carve_rows(plan, 0, &c);
    return c.used;
}
