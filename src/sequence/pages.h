/* sequence: keys and values in pages, and sequences as lists of pages.
 *
 * Offers: a pool of pages, and lists of pages. A page holds some positions of all attentions of a stack, and counts the
 * lists that hold it. Lists grow, share their pages with other lists, drop their last positions, and give pages back. A
 * list that grows into a shared page first gets a copy of it (copy on write), so another list never changes the
 * positions of a list.
 *
 * Page types (kernel/page.h) say how a page stores keys and how it stores values.
 *
 * Memory is taken once, when the pool begins. A full pool refuses with the number of missing pages, and leaves all
 * lists unchanged. Only one thread at a time may use a pool and its lists. (Paged keys and values: Kwon et al. 2023,
 * "Efficient memory management for large language model serving with PagedAttention".) */
#ifndef QKV_PAGES_H
#define QKV_PAGES_H

#include "attention/attention.h"

/* Positions of a page, if sequences are longer than that; else a sequence has one page of its full length. */
enum { QKV_PAGE_POSITIONS = QKV_ATTEND_BLOCK };

/* ---- the pool (page_pool.c) ------------------------------------------------------------------------------------ */

struct qkv_page_shape {
    size_t length;    /* maximum of positions of a sequence, at least 1 */
    size_t pages;     /* number of pages; 0: as many as `sequences` sequences need */
    size_t sequences; /* sequences that share nothing */
};
struct qkv_page_pool {
    struct qkv_context *ctx;
    size_t owners; /* the last owner to leave frees the pool */
    const char *what;
    struct qkv_arena storage;
    size_t attentions;
    /* (attentions); NULL: a layer without such an attention, or that reads the pages of another one */
    const struct qkv_attention_spec **specs;
    struct qkv_page_types types;             /* of all attentions, as they were chosen */
    struct qkv_key_values *attention;        /* (attentions) */
    size_t positions, count;                 /* positions of a page; number of pages */
    int32_t *references;                     /* (count): the number of lists that hold each */
    int32_t *spare;                          /* (spare_count): pages that no list holds; the last is handed out next */
    size_t spare_count;
};

/* An empty pool for these attentions, which must outlive it, with one owner; `what` names it in messages ("the KV
 * cache"). Types that are not chosen are the usual ones of the context's precision when the pool begins. Fails with
 * QKV_MEMORY, and with QKV_ARGUMENT if the chosen types do not hold the heads of an attention. */
enum qkv_status qkv_page_pool_create(struct qkv_context *ctx, const struct qkv_attention_spec *const *attentions,
                                     size_t count, struct qkv_page_types types, const char *what,
                                     struct qkv_page_pool **out);
/* Removes one owner, and frees the pool with the last; NULL is fine. */
void qkv_page_pool_free(struct qkv_page_pool *pool);
/* For a pool of that shape: positions of a page, pages of a sequence of `length` positions, and bytes of a page. */
size_t qkv_page_positions(const struct qkv_page_shape *shape);
size_t qkv_page_count(size_t positions, size_t length);
size_t qkv_page_bytes(const struct qkv_page_pool *pool, const struct qkv_page_shape *shape);
/* The bytes that qkv_page_pool_begin takes. Fails with QKV_MEMORY. */
enum qkv_status qkv_page_pool_measure(struct qkv_page_pool *pool, const struct qkv_page_shape *shape, size_t *bytes);
/* Begins, or begins again, with all pages free: older lists become invalid. Memory is replaced only if more is
 * needed. */
enum qkv_status qkv_page_pool_begin(struct qkv_page_pool *pool, const struct qkv_page_shape *shape);

/* ---- lists (page_list.c) --------------------------------------------------------------------------------------- */

/* A sequence: position j is position j % positions of page pages[j / positions]. */
struct qkv_page_list {
    int32_t *pages; /* the caller's array, with room for all pages of the longest sequence */
    size_t count;   /* number of pages: just enough for the length */
    size_t length;  /* positions */
    int32_t copied; /* while lists grow: the page to copy into the last one, or −1 */
};
/* Adds more[i] positions to lists[i], none beyond the pool's length; their contents are undefined. Copies shared pages
 * that a list grows into. Fails with QKV_FULL, and then all lists are unchanged. If the backend fails to copy, the
 * lists can only be emptied. */
enum qkv_status qkv_page_lists_grow(struct qkv_page_pool *pool, struct qkv_page_list *lists, const size_t *more,
                                    size_t count);
/* Makes the empty list `to` the same sequence: both share all pages. */
void qkv_page_list_fork(struct qkv_page_pool *pool, struct qkv_page_list *to, const struct qkv_page_list *from);
/* Drops all positions from `length` on. */
void qkv_page_list_truncate(struct qkv_page_pool *pool, struct qkv_page_list *list, size_t length);

#endif
