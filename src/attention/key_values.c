/* key_values: writes new keys and values into the pages of a cache: rows as they are, or packed in the kernels'
 * format. */
#include "attention/attention.h"

#include <string.h>

enum { APPEND_ROWS = 8 }; /* minimum of a sequence's rows for which heads are shared between threads */

struct append {
    const struct qkv_context *ctx;
    const struct qkv_attend *call;
    const struct qkv_key_values *cache;
    const void *rows; /* (N, columns): k, then v, from k_column on */
    enum qkv_dtype dtype;
    bool whole;           /* writes a sequence's first positions, as many as it has; else its last ones */
    const int32_t *start; /* (B + 1): its first row; NULL: T rows each */
    size_t T, columns, k_column, k_width, v_width;
};

/* Rounds once, if the cache is bf16 and the rows are not. */
static void append_cells(void *to, enum qkv_dtype dtype, const char *from, enum qkv_dtype from_dtype, size_t width) {
    if (dtype == from_dtype)
        memcpy(to, from, width * qkv_type_size(dtype));
    else if (dtype == QKV_F32)
        qkv_to_float(to, from, from_dtype, width);
    else
        qkv_from_float(to, (const float *)(const void *)from, dtype, width);
}

/* New rows of sequence b: the first, their number, and the position of the first in its pages. */
struct append_part {
    size_t row, count, at;
};

static struct append_part append_part(const struct append *a, size_t b) {
    const size_t keys = a->call->pasts ? (size_t)a->call->pasts[b] : a->call->Tk;
    const size_t first = a->start ? (size_t)a->start[b] : b * a->T;
    const size_t rows = a->start ? (size_t)a->start[b + 1] - first : a->T;
    if (a->whole) return (struct append_part){first, rows < keys ? rows : keys, 0};
    return (struct append_part){first, rows, keys - rows};
}

static void append_row(void *argument, size_t n, int thread) {
    (void)thread;
    const struct append *a = argument;
    const struct qkv_page_table *pages = &a->call->pages;
    const size_t b = n / a->T, t = n % a->T;
    const struct append_part part = append_part(a, b);
    if (t >= part.count) return;
    const size_t at = part.at + t;
    const size_t row = (size_t)pages->lists[b][at / pages->positions] * pages->positions + at % pages->positions;
    const size_t size = qkv_type_size(a->dtype), out = qkv_type_size(a->cache->dtype);
    const char *k = (const char *)a->rows + ((part.row + t) * a->columns + a->k_column) * size;
    append_cells((char *)a->cache->k + row * a->k_width * out, a->cache->dtype, k, a->dtype, a->k_width);
    append_cells((char *)a->cache->v + row * a->v_width * out, a->cache->dtype, k + a->k_width * size, a->dtype,
                 a->v_width);
}

/* Writes all new rows of a sequence on its page number `page`, for one head. The rows are bf16, like all saved results
 * of products in mixed precision. */
static void append_page(const struct append *a, size_t b, size_t page, size_t head) {
    const struct qkv_page_table *pages = &a->call->pages;
    const size_t Hkv = a->call->Hkv, packed = a->cache->packed;
    const struct append_part part = append_part(a, b);
    const size_t begin = page * pages->positions, end = part.at + part.count;
    const size_t from = part.at > begin ? part.at : begin,
                 to = end < begin + pages->positions ? end : begin + pages->positions;
    if (from >= to) return;
    const size_t place = (size_t)pages->lists[b][page] * Hkv + head;
    const uint16_t *k = (const uint16_t *)a->rows + (part.row + from - part.at) * a->columns + a->k_column;
    const struct qkv_attend_put put = {.page = (char *)a->cache->k + place * packed,
                                       .spoilt = (uint8_t *)a->cache->k + pages->count * Hkv * packed + place,
                                       .D = a->call->D,
                                       .Dv = a->call->Dv,
                                       .positions = pages->positions,
                                       .first = from - begin,
                                       .count = to - from,
                                       .k = k + head * a->call->D,
                                       .v = k + a->k_width + head * a->call->Dv,
                                       .row_stride = a->columns};
    qkv_attend_put(a->ctx, &put);
}

/* One sequence and head: (B,Hkv). */
static void append_head(void *argument, size_t n, int thread) {
    (void)thread;
    const struct append *a = argument;
    const size_t b = n / a->call->Hkv, positions = a->call->pages.positions;
    const struct append_part part = append_part(a, b);
    for (size_t page = part.at / positions; page * positions < part.at + part.count; page++)
        append_page(a, b, page, n % a->call->Hkv);
}

/* One sequence: waking threads for a few rows is not worth it. */
static void append_heads(void *argument, size_t b, int thread) {
    const struct append *a = argument;
    for (size_t head = 0; head < a->call->Hkv; head++) append_head(argument, b * a->call->Hkv + head, thread);
}

void qkv_attention_append(const struct qkv_attention_args *f, struct qkv_columns kv, size_t k_width, size_t v_width,
                          size_t T, bool whole) {
    const struct qkv_attend *call = f->attend;
    struct append a = {.ctx = f->tape->ctx,
                       .call = call,
                       .cache = f->cache,
                       .rows = kv.x->data,
                       .dtype = kv.x->dtype,
                       .whole = whole,
                       .start = whole ? call->k_start : call->q_start,
                       .T = T,
                       .columns = kv.x->columns,
                       .k_column = kv.column,
                       .k_width = k_width,
                       .v_width = v_width};
    if (!f->cache->packed)
        qkv_parallel(f->tape->ctx, call->B * T, append_row, &a);
    else if (T < APPEND_ROWS)
        qkv_parallel(f->tape->ctx, call->B, append_heads, &a);
    else
        qkv_parallel(f->tape->ctx, call->B * call->Hkv, append_head, &a);
}

struct qkv_columns qkv_attention_cached(const struct qkv_attention_args *f, void *data, size_t width) {
    struct qkv_tensor *x = qkv_tape_view(f->tape, data, f->cache->rows, width);
    if (x) x->dtype = f->cache->dtype;
    return (struct qkv_columns){x, 0};
}
