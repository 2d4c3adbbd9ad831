/* attend_rows.h: rows of heads in memory, in fp32, bf16 or f16, and how they are packed for the tiles. */
#ifndef QKV_ISA_ATTEND_ROWS_H
#define QKV_ISA_ATTEND_ROWS_H

#include "kernel/isa/attend_tile.h"
#include "kernel/page_groups.h"

/* ---- one row --------------------------------------------------------------------------------------------------- */

struct cells { /* the channels of one row of a head */
    void *data;
    enum qkv_dtype dtype;
};

QKV_INLINE struct cells cells_at(const struct qkv_heads *x, size_t b, size_t i, size_t h) {
    size_t at = b * x->batch_stride + i * x->row_stride + h * x->head_stride;
    size_t size = x->dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t);
    return (struct cells){(char *)x->data + at * size, x->dtype};
}

/* The first n lanes of a row that ends at n: whole vectors have no mask, because masked stores are slow on some
 * machines. */
QKV_INLINE vf load_row(const float *x, size_t n) {
    return n >= W ? vf_load(x) : vf_load_n(x, n);
}
QKV_INLINE void store_row(float *x, vf v, size_t n) {
    if (n >= W)
        vf_store(x, v);
    else
        vf_store_n(x, v, n);
}

/* The channels c… of a row with n more of them. */
QKV_INLINE vf load_cells(struct cells x, size_t c, size_t n) {
    if (x.dtype == QKV_F32) return load_row((const float *)x.data + c, n);
    const uint16_t *halves = (const uint16_t *)x.data + c;
    return x.dtype == QKV_BF16 ? load_bf16(halves, n) : load_f16(halves, n);
}
QKV_INLINE void store_cells(struct cells x, size_t c, vf v, size_t n) {
    if (x.dtype == QKV_F32)
        store_row((float *)x.data + c, v, n);
    else if (x.dtype == QKV_BF16)
        store_bf16((uint16_t *)x.data + c, v, n);
    else
        store_f16((uint16_t *)x.data + c, v, n);
}

QKV_INLINE void read_cells(float *out, struct cells x, size_t columns) {
    if (x.dtype == QKV_F32) {
        memcpy(out, x.data, columns * sizeof(float));
        return;
    }
    for (size_t c = 0; c < columns; c += W) store_row(out + c, load_cells(x, c, columns - c), columns - c);
}

/* x (+)= sum, whose elements up to a multiple of W exist. Adding 0 turns every negative zero of the sum into a positive
 * one, whatever the signs of zero terms were. */
QKV_INLINE void put_cells(struct cells x, bool accumulate, const float *sum, size_t columns) {
    for (size_t c = 0; c < columns; c += W) {
        vf v = vf_add(vf_load(sum + c), vf_zero());
        if (accumulate) v = vf_add(load_cells(x, c, columns - c), v);
        store_cells(x, c, v, columns - c);
    }
}

/* Prefetches a row. */
QKV_INLINE void prefetch_row(const void *x, size_t bytes) {
    for (size_t c = 0; c < bytes; c += QKV_CACHE_LINE) QKV_PREFETCH((const char *)x + c);
}
enum { SOON = 16 }; /* rows that are packed in the time that a row takes to come from memory */
QKV_INLINE void prefetch_cells(struct cells x, size_t columns) {
    prefetch_row(x.data, columns * (x.dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t)));
}

/* ---- the keys, or the values, of one kv head: first those of the past, then the others ------------------------- */

struct stream {
    const struct qkv_heads *past, *now;
    size_t turn; /* the number of keys in the past */
    size_t b, n, columns;
    const int32_t *pages; /* of the past, or NULL */
    size_t positions;     /* keys of a page */
    bool whole;           /* no block of keys crosses a page */
    bool reads;           /* the pages are no rows: their type reads them, */
    bool groups;          /* or they have groups */
    struct qkv_pages stored;
};

static inline struct stream stream_of(const struct qkv_attend_plan *plan, enum qkv_page_side side, size_t b, size_t n) {
    const struct qkv_attend *a = plan->a;
    const bool keys = side == QKV_PAGE_KEYS;
    const struct qkv_page_table *pages = &a->pages;
    struct stream s = {.past = keys ? &a->past_k : &a->past_v,
                       .now = keys ? &a->k : &a->v,
                       .turn = a->past,
                       .b = b,
                       .n = n,
                       .columns = keys ? a->D : a->Dv,
                       .pages = pages->lists ? pages->lists[b] : NULL,
                       .positions = pages->positions};
    s.whole = !s.pages || s.positions % QKV_ATTEND_BLOCK == 0;
    s.reads = s.pages && !(keys ? pages->k : pages->v)->rows;
    if (s.reads) s.stored = qkv_attend_pages(plan, side);
    s.groups = s.reads && s.stored.type->groups && s.stored.side == side;
    return s;
}
static inline struct stream keys_of(const struct qkv_attend_plan *plan, size_t b, size_t n) {
    return stream_of(plan, QKV_PAGE_KEYS, b, n);
}
static inline struct stream values_of(const struct qkv_attend_plan *plan, size_t b, size_t n) {
    return stream_of(plan, QKV_PAGE_VALUES, b, n);
}

static inline struct stream stream_without_pages(const struct qkv_heads *past, const struct qkv_heads *now, size_t turn,
                                                 size_t b, size_t n, size_t columns) {
    return (struct stream){.past = past, .now = now, .turn = turn, .b = b, .n = n, .columns = columns, .whole = true};
}

/* Rows [first, first + count) as far as they are in pages that their type reads: out (…,columns). Returns their
 * number. */
static inline size_t stream_read(const struct stream *s, size_t first, size_t count, float *out) {
    const size_t all = s->reads && first < s->turn ? qkv_min(count, s->turn - first) : 0;
    for (size_t done = 0, some; done < all; done += some) {
        const size_t at = first + done;
        some = qkv_min(all - done, s->positions - at % s->positions);
        const struct qkv_page_part part = {.page = (size_t)s->pages[at / s->positions],
                                           .head = s->n,
                                           .heads = 1,
                                           .first = at % s->positions,
                                           .count = some};
        s->stored.type->read(&s->stored, &part, s->columns, out + done * s->columns);
    }
    return all;
}

/* The groups of keys [first, first + count), the first of which begin at `first`; NULL if no page has all of them in
 * groups. */
static inline const struct qkv_page_group *stream_groups(const struct stream *s, size_t first, size_t count) {
    if (!s->groups || first + count > s->turn) return NULL;
    const size_t at = first % s->positions;
    if (at % QKV_GROUP_POSITIONS || at + count > s->positions) return NULL;
    return s->stored.type->groups(&s->stored, (size_t)s->pages[first / s->positions], s->n) +
           at / QKV_GROUP_POSITIONS * (s->columns / QKV_GROUP_CHANNELS);
}

/* The next three are for rows that no page type must read. */
QKV_INLINE struct cells stream_at(const struct stream *s, size_t j) {
    if (j >= s->turn) return cells_at(s->now, s->b, j - s->turn, s->n);
    if (!s->pages) return cells_at(s->past, s->b, j, s->n);
    return cells_at(s->past, (size_t)s->pages[j / s->positions], j % s->positions, s->n);
}

/* Key j, if x is the key before it and j is no multiple of QKV_ATTEND_BLOCK: then no page of whole blocks begins at
 * j. */
QKV_INLINE struct cells stream_next(const struct stream *s, struct cells x, size_t j) {
    const struct qkv_heads *heads = j < s->turn ? s->past : s->now;
    if (j == s->turn || (!s->whole && j < s->turn && j % s->positions == 0)) return stream_at(s, j);
    x.data = (char *)x.data + heads->row_stride * (x.dtype == QKV_F32 ? sizeof(float) : sizeof(uint16_t));
    return x;
}

/* Row j of any stream; `buffer` has room for it. */
static inline struct cells stream_row(const struct stream *s, size_t j, float *buffer) {
    return stream_read(s, j, 1, buffer) ? (struct cells){buffer, QKV_F32} : stream_at(s, j);
}

struct block { /* rows of floats with a constant stride */
    const float *x;
    size_t stride;
};

/* Whether rows [first, first + count) are no rows of one array: they are only partly in the past, in several pages, or
 * in pages that their type reads. */
static inline bool stream_splits(const struct stream *s, size_t first, size_t count) {
    if (first >= s->turn) return false;
    return s->reads || first + count > s->turn || (!s->whole && first % s->positions + count > s->positions);
}

/* Rows [first, first + count) where they are stored; x is NULL if they are not fp32, or have no constant stride. */
static inline struct block block_in_place(const struct stream *s, size_t first, size_t count) {
    const struct qkv_heads *x = first < s->turn ? s->past : s->now;
    if (stream_splits(s, first, count) || x->dtype != QKV_F32) return (struct block){0};
    return (struct block){stream_at(s, first).data, x->row_stride};
}

/* The same rows, copied to `staging` (count,columns) first if x would be NULL. */
static inline struct block block_of(const struct stream *s, size_t first, size_t count, float *staging) {
    struct block block = block_in_place(s, first, count);
    if (block.x) return block;
    const size_t read = stream_read(s, first, count, staging);
    struct cells x = {0};
    for (size_t i = read; i < count; i++) {
        x = i > read ? stream_next(s, x, first + i) : stream_at(s, first + i);
        read_cells(staging + i * s->columns, x, s->columns);
    }
    return (struct block){staging, s->columns};
}

/* ---- packing --------------------------------------------------------------------------------------------------- */

/* Rows that will be packed next: row i of them is prefetched while row i is packed. */
struct soon {
    struct block block;
    size_t rows, columns;
};

QKV_INLINE struct soon soon_of(const struct stream *s, size_t first, size_t count) {
    struct block block = block_in_place(s, first, count);
    return (struct soon){block, block.x ? count : 0, s->columns};
}

QKV_INLINE void ask_for(const struct soon *soon, size_t row) {
    if (row < soon->rows) prefetch_row(soon->block.x + row * soon->block.stride, soon->columns * sizeof(float));
}

/* One row, padded with zeros to a multiple of W. `check` sums 0·x, which stays 0 while all is finite. */
QKV_INLINE void pack_row(float *out, struct cells x, size_t columns, vf *check) {
    size_t c = 0;
    vf zero = vf_zero(), sum = *check;
    for (; c + W <= columns; c += W) {
        vf v = load_cells(x, c, W);
        sum = vf_fma(v, zero, sum);
        vf_store(out + c, v);
    }
    if (c < columns) {
        vf v = load_cells(x, c, columns - c);
        sum = vf_fma(v, zero, sum);
        vf_store(out + c, v);
    }
    *check = sum;
}

QKV_INLINE bool all_finite(vf check) {
    return vf_sum(check) == 0;
}

/* out (rows,ld) = the rows of a block, padded with zeros. False if a number is not finite. */
QKV_INLINE bool pack_rows(float *out, size_t ld, struct block block, size_t rows, size_t columns, struct soon soon) {
    vf check = vf_zero();
    for (size_t r = 0; r < rows; r++) {
        struct cells x = {(void *)(uintptr_t)(block.x + r * block.stride), QKV_F32};
        ask_for(&soon, r);
        pack_row(out + r * ld, x, columns, &check);
    }
    return all_finite(check);
}

/* Transposes keys: out is panels (D,PANEL). The first key in `block` goes to column `begin` of the panels; columns
 * outside [begin, end) of the panels that are written become zeros. */
QKV_INLINE void pack_panels(float *out, struct block block, size_t begin, size_t end, size_t D, struct soon soon) {
    const size_t stride = block.stride;
    for (size_t k = begin / PANEL * PANEL; k < padded(end, PANEL); k += W) {
        float *to = out + k / PANEL * PANEL * D + k % PANEL;
        bool whole = k >= begin && k + W <= end;
        const float *from = block.x + (whole ? k - begin : 0) * stride;
        size_t d = 0;
        for (size_t i = 0; i < W; i++) ask_for(&soon, k + i - begin);
        for (; whole && d + W <= D; d += W) {
            vf r[W];
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) r[i] = vf_load(from + i * stride + d);
            vf_transpose(r);
            QKV_UNROLL
            for (size_t i = 0; i < W; i++) vf_store(to + (d + i) * PANEL, r[i]);
        }
        for (; d < D; d += W) {
            vf r[W];
            for (size_t i = 0; i < W; i++) {
                bool in = k + i >= begin && k + i < end;
                r[i] = in ? vf_load_n(block.x + (k + i - begin) * stride + d, D - d) : vf_zero();
            }
            vf_transpose(r);
            for (size_t i = 0; i < W && d + i < D; i++) vf_store(to + (d + i) * PANEL, r[i]);
        }
    }
}

#endif
