/* page_list: sequences as lists of pages: growing, sharing, truncating. */
#include "op/steps.h"
#include "sequence/pages.h"

enum { COPIES = 64 }; /* pages that are copied by one step */

static int32_t *list_last(const struct qkv_page_list *list) {
    return &list->pages[list->count - 1];
}

/* ---- counting -------------------------------------------------------------------------------------------------- */

/* Each list that grows into a page that it shares drops its reference to it; returns the number of pages that all lists
 * need. If only these lists share a page, the last of them keeps it. */
static size_t lists_count(struct qkv_page_pool *pool, struct qkv_page_list *lists, const size_t *more, size_t count) {
    size_t needed = 0;
    for (size_t i = 0; i < count; i++) {
        struct qkv_page_list *list = &lists[i];
        list->copied = -1;
        if (!more[i]) continue;
        needed += qkv_page_count(pool->positions, list->length + more[i]) - list->count;
        if (list->length % pool->positions == 0 || pool->references[*list_last(list)] == 1) continue;
        list->copied = *list_last(list);
        pool->references[list->copied]--;
        needed++;
    }
    return needed;
}

/* Undoes lists_count. */
static void lists_restore(struct qkv_page_pool *pool, struct qkv_page_list *lists, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (lists[i].copied >= 0) pool->references[lists[i].copied]++;
        lists[i].copied = -1;
    }
}

/* ---- growing --------------------------------------------------------------------------------------------------- */

static int32_t list_take(struct qkv_page_pool *pool) {
    const int32_t page = pool->spare[--pool->spare_count];
    pool->references[page] = 1;
    return page;
}

/* Copies the shared pages that lists grow into: the positions that a list has, whose length is still the old one. */
static enum qkv_status lists_copy(const struct qkv_page_pool *pool, const struct qkv_page_list *lists, size_t count) {
    struct qkv_page_copy copies[COPIES];
    size_t n = 0;
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const struct qkv_page_list *list = &lists[i];
        if (list->copied >= 0)
            copies[n++] = (struct qkv_page_copy){.from = (size_t)list->copied,
                                                 .to = (size_t)list->pages[list->length / pool->positions],
                                                 .positions = list->length % pool->positions};
        if (!n || (n < COPIES && i + 1 < count)) continue;
        status = QKV_STEP(pool->ctx, copy_pages, .caches = pool->attention, .attentions = pool->attentions,
                          .copies = copies, .count = n);
        n = 0;
    }
    return status;
}

enum qkv_status qkv_page_lists_grow(struct qkv_page_pool *pool, struct qkv_page_list *lists, const size_t *more,
                                    size_t count) {
    const size_t needed = lists_count(pool, lists, more, count);
    if (needed > pool->spare_count) {
        lists_restore(pool, lists, count);
        return qkv_fail(
            pool->ctx, QKV_FULL,
            "%s is full: %zu pages are missing (%zu more are needed, and %zu of its %zu pages, of %zu positions "
            "each, are free); free or shorten sequences, or make it with more pages",
            pool->what, needed - pool->spare_count, needed, pool->spare_count, pool->count, pool->positions);
    }
    for (size_t i = 0; i < count; i++) {
        struct qkv_page_list *list = &lists[i];
        if (list->copied >= 0) *list_last(list) = list_take(pool);
        const size_t pages = qkv_page_count(pool->positions, list->length + more[i]);
        while (more[i] && list->count < pages) list->pages[list->count++] = list_take(pool);
    }
    const enum qkv_status status = lists_copy(pool, lists, count);
    for (size_t i = 0; i < count; i++) lists[i].length += more[i];
    return status;
}

/* ---- sharing and truncating ------------------------------------------------------------------------------------ */

void qkv_page_list_fork(struct qkv_page_pool *pool, struct qkv_page_list *to, const struct qkv_page_list *from) {
    to->count = from->count;
    to->length = from->length;
    for (size_t i = 0; i < from->count; i++) {
        to->pages[i] = from->pages[i];
        pool->references[from->pages[i]]++;
    }
}

void qkv_page_list_truncate(struct qkv_page_pool *pool, struct qkv_page_list *list, size_t length) {
    if (length >= list->length) return;
    const size_t needed = qkv_page_count(pool->positions, length);
    while (list->count > needed) {
        const int32_t page = list->pages[--list->count];
        if (--pool->references[page] == 0) pool->spare[pool->spare_count++] = page;
    }
    list->length = length;
}
