/* cpu_pages: steps on the pages of a cache: new keys and values are written to them, and shared pages copied. */
#include "attention/attention.h"
#include "backend/cpu_work.h"

enum { APPEND_ROWS = 8 }; /* minimum of a sequence's rows for which heads are shared between threads */

/* ---- appending ------------------------------------------------------------------------------------------------- */

struct append {
    const struct qkv_step_append_pages *step;
    size_t pages; /* the maximum that the new rows of a sequence are on */
};

/* New rows of sequence b: the first, their number, and the position of the first in its pages. */
struct append_part {
    size_t row, count, at;
};

static struct append_part append_part(const struct qkv_step_append_pages *s, size_t b) {
    const size_t length = s->lengths ? (size_t)s->lengths[b] : s->length;
    const size_t first = s->start ? (size_t)s->start[b] : b * s->T;
    const size_t rows = s->start ? (size_t)s->start[b + 1] - first : s->T;
    if (s->whole) return (struct append_part){first, rows < length ? rows : length, 0};
    return (struct append_part){first, rows, length - rows};
}

/* Writes a part of keys or values; their heads begin at `column` of the rows from `row` on. */
static void append_put(const struct qkv_step_append_pages *s, const struct qkv_pages *pages,
                       const struct qkv_page_part *part, size_t row, size_t column) {
    struct qkv_page_rows rows = s->rows;
    const size_t at = row * rows.stride + column + part->head * pages->columns;
    rows.data = (const char *)rows.data + qkv_type_span(rows.dtype, at);
    pages->type->put(pages, part, &rows);
}

/* Writes the new rows of a sequence on the n-th page that they are on, for some heads. */
static void append_page(const struct append *a, size_t b, size_t n, size_t head, size_t heads) {
    const struct qkv_step_append_pages *s = a->step;
    const struct qkv_key_values *cache = s->cache;
    const struct append_part new = append_part(s, b);
    const size_t positions = cache->k.positions, page = new.at / positions + n, begin = page *positions;
    const size_t from = qkv_max(new.at, begin), to = qkv_min(new.at + new.count, begin + positions);
    if (from >= to) return;
    const struct qkv_page_part part = {
        .page = (size_t)s->lists[b][page], .head = head, .heads = heads, .first = from - begin, .count = to - from};
    const size_t row = new.row + from - new.at;
    append_put(s, &cache->k, &part, row, 0);
    if (!cache->shared) append_put(s, &cache->v, &part, row, cache->k.heads * cache->k.columns);
}

/* One sequence, page and head: (B,pages,heads). */
static void append_head(void *argument, size_t n, int thread) {
    (void)thread;
    const struct append *a = argument;
    const size_t heads = a->step->cache->k.heads;
    append_page(a, n / heads / a->pages, n / heads % a->pages, n % heads, 1);
}

/* One sequence: waking threads for a few rows is not worth it. */
static void append_sequence(void *argument, size_t b, int thread) {
    (void)thread;
    const struct append *a = argument;
    for (size_t n = 0; n < a->pages; n++) append_page(a, b, n, 0, a->step->cache->k.heads);
}

enum qkv_status qkv_cpu_append_pages(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_append_pages *s = call;
    struct append a = {.step = s, .pages = s->T / s->cache->k.positions + 2};
    if (s->T < APPEND_ROWS)
        qkv_parallel(ctx, s->B, append_sequence, &a);
    else
        qkv_parallel(ctx, s->B * a.pages * s->cache->k.heads, append_head, &a);
    return QKV_OK;
}

/* ---- copying --------------------------------------------------------------------------------------------------- */

/* One copy in one attention: (count,attentions). */
static void copy_page(void *argument, size_t item, int thread) {
    (void)thread;
    const struct qkv_cpu_work *w = argument;
    const struct qkv_step_copy_pages *s = w->step;
    const struct qkv_page_copy *copy = &s->copies[item / s->attentions];
    const struct qkv_key_values *kv = &s->caches[item % s->attentions];
    if (!kv->k.data) return;
    kv->k.type->copy(&kv->k, copy->to, copy->from, copy->positions);
    if (!kv->shared) kv->v.type->copy(&kv->v, copy->to, copy->from, copy->positions);
}

enum qkv_status qkv_cpu_copy_pages(struct qkv_context *ctx, const void *call) {
    const struct qkv_step_copy_pages *s = call;
    qkv_cpu_each(ctx, s->count * s->attentions, copy_page, s);
    return QKV_OK;
}
