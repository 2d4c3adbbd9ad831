/* key_values: appends new keys and values to pages of a cache, in the types of the pages. */
#include "attention/attention.h"

enum { APPEND_ROWS = 8 }; /* minimum of a sequence's rows for which heads are shared between threads */

/* ---- appending ------------------------------------------------------------------------------------------------- */

struct append {
    const struct qkv_attend *call;
    const struct qkv_key_values *cache;
    struct qkv_columns kv; /* rows of keys, then values */
    bool whole;            /* writes a sequence's first positions, as many as it has; else its last ones */
    const int32_t *start;  /* (B + 1): its first row; NULL: T rows each */
    size_t T, pages;       /* pages: the maximum that the new rows of a sequence are on */
};

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

/* Writes a part of keys or values; their heads begin at `column` of the rows from `row` on. */
static void append_put(const struct append *a, const struct qkv_pages *pages, const struct qkv_page_part *part,
                       size_t row, size_t column) {
    const struct qkv_tensor *x = a->kv.x;
    const size_t at = row * x->columns + a->kv.column + column + part->head * pages->columns;
    const struct qkv_page_rows rows = {
        .data = (const char *)x->data + qkv_type_span(x->dtype, at), .dtype = x->dtype, .stride = x->columns};
    pages->type->put(pages, part, &rows);
}

/* Writes the new rows of a sequence on the n-th page that they are on, for some heads. */
static void append_page(const struct append *a, size_t b, size_t n, size_t head, size_t heads) {
    const struct qkv_page_table *table = &a->call->pages;
    const struct qkv_key_values *cache = a->cache;
    const struct append_part new = append_part(a, b);
    const size_t page = new.at / table->positions + n, begin = page * table->positions;
    const size_t from = qkv_max(new.at, begin), to = qkv_min(new.at + new.count, begin + table->positions);
    if (from >= to) return;
    const struct qkv_page_part part = {
        .page = (size_t)table->lists[b][page], .head = head, .heads = heads, .first = from - begin, .count = to - from};
    const size_t row = new.row + from - new.at;
    append_put(a, &cache->k, &part, row, 0);
    if (!cache->shared) append_put(a, &cache->v, &part, row, cache->k.heads * cache->k.columns);
}

/* One sequence, page and head: (B,pages,heads). */
static void append_head(void *argument, size_t n, int thread) {
    (void)thread;
    const struct append *a = argument;
    const size_t heads = a->cache->k.heads;
    append_page(a, n / heads / a->pages, n / heads % a->pages, n % heads, 1);
}

/* One sequence: waking threads for a few rows is not worth it. */
static void append_sequence(void *argument, size_t b, int thread) {
    (void)thread;
    const struct append *a = argument;
    for (size_t n = 0; n < a->pages; n++) append_page(a, b, n, 0, a->cache->k.heads);
}

void qkv_attention_append(const struct qkv_attention_args *f, struct qkv_columns kv, size_t T, bool whole) {
    const struct qkv_attend *call = f->attend;
    const size_t positions = f->cache->k.positions;
    struct append a = {.call = call,
                       .cache = f->cache,
                       .kv = kv,
                       .whole = whole,
                       .start = whole ? call->k_start : call->q_start,
                       .T = T,
                       .pages = positions ? T / positions + 2 : 0}; /* 0: a plan, before the pool has begun */
    if (T < APPEND_ROWS)
        qkv_parallel(f->tape->ctx, call->B, append_sequence, &a);
    else
        qkv_parallel(f->tape->ctx, call->B * a.pages * f->cache->k.heads, append_head, &a);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static struct qkv_columns cached_tensor(const struct qkv_attention_args *f, const struct qkv_pages *pages) {
    struct qkv_tensor *x =
        qkv_tape_view(f->tape, pages->data, pages->count * pages->positions, pages->heads * pages->columns);
    if (x) x->dtype = pages->type->dtype;
    return (struct qkv_columns){x, 0};
}

bool qkv_attention_cached(const struct qkv_attention_args *f, struct qkv_columns *k, struct qkv_columns *v,
                          struct qkv_attend *call) {
    const struct qkv_key_values *cache = f->cache;
    *k = cached_tensor(f, &cache->k);
    *v = cache->shared ? *k : cached_tensor(f, &cache->v);
    call->pages.k = cache->k.type, call->pages.v = cache->v.type, call->pages.shared = cache->shared;
    return k->x && v->x;
}
