/* sequence: keys and values in pages, and sequences as lists of pages.
 *
 * Offers: a pool of pages, each of which holds some positions of all attentions of a stack, counted by the lists that hold it; and lists,
 * which grow, share what they have with others, forget their end, and give pages back. A list that grows into a page which others
 * hold too gets a copy of it first (copy on write), so what a list holds never changes under it.
 *
 * In mixed precision the keys and values of a page lie as the kernels of the context multiply them (page_bytes of struct qkv_attend), but for
 * heads that are too wide for them, so that a step packs its own only. Such pages are read by attention alone.
 *
 * Memory is taken once, when the pool begins. A pool that is full refuses, with the number of pages that are missing, and then all lists
 * are as they were. One thread at a time may use a pool and its lists. (Paged keys and values: Kwon et al. 2023, "Efficient memory
 * management for large language model serving with PagedAttention".) */
#ifndef QKV_PAGES_H
#define QKV_PAGES_H

#include "attention/attention.h"

/* Positions of a page where sequences are longer than that; shorter ones have one page of as many as they may have. */
enum { QKV_PAGE_POSITIONS = QKV_ATTEND_BLOCK };

/* ---- the pool (page_pool.c) ---------------------------------------------------------------------------------------------- */

struct qkv_page_shape {
    size_t length;        /* most positions of a sequence, from 1 on */
    size_t pages;         /* how many; 0: as many as `sequences` of them need */
    size_t sequences;     /* that share nothing */
    enum qkv_dtype dtype; /* of keys and values: QKV_F32 or QKV_BF16 */
};
struct qkv_page_pool {
    struct qkv_context *ctx;
    size_t owners; /* the pool is freed with the last of them */
    const char *what;
    struct qkv_arena storage;
    size_t attentions;
    /* (attentions): (count·positions, Hkv·D) and (count·positions, Hkv·Dv) of each; or packed; or, of latents, (count·positions,
     * rank + rope_dim) as both */
    struct qkv_key_values *attention;
    size_t *k_width, *v_width; /* (attentions): Hkv·D, Hkv·Dv; or rank + rope_dim, 0 */
    size_t *heads;             /* (attentions): Hkv */
    enum qkv_dtype dtype;
    size_t positions, count; /* of a page; pages */
    int32_t *references;     /* (count): lists that hold each */
    int32_t *spare;          /* (spare_count): pages that none holds; the last is given out next */
    size_t spare_count;
};

/* An empty pool for these attentions, with one owner; `what` names it in messages ("the KV cache"). NULL with the sentence recorded. */
struct qkv_page_pool *qkv_page_pool_create(struct qkv_context *ctx, const struct qkv_attention_spec *const *attentions,
                                           size_t count, const char *what);
/* One owner less; NULL is fine. */
void qkv_page_pool_free(struct qkv_page_pool *pool);
/* Positions of a page, pages of a sequence of `length` positions, and bytes of a page, of such a pool. */
size_t qkv_page_positions(const struct qkv_page_shape *shape);
size_t qkv_page_count(size_t positions, size_t length);
size_t qkv_page_bytes(const struct qkv_page_pool *pool, const struct qkv_page_shape *shape);
/* The bytes that qkv_page_pool_begin takes. Fails with QKV_MEMORY. */
enum qkv_status qkv_page_pool_measure(struct qkv_page_pool *pool, const struct qkv_page_shape *shape, size_t *bytes);
/* Begins, or begins again, with all pages free: lists of before are void. Memory is only replaced when more is needed. */
enum qkv_status qkv_page_pool_begin(struct qkv_page_pool *pool, const struct qkv_page_shape *shape);

/* ---- lists (page_list.c) --------------------------------------------------------------------------------------------------- */

/* A sequence: position j is position j % positions of page pages[j / positions]. */
struct qkv_page_list {
    int32_t *pages; /* with room for all pages of the longest sequence; the caller's */
    size_t count;   /* pages held: just enough for the length */
    size_t length;  /* positions */
    int32_t copied; /* while lists grow: the page that the last one becomes a copy of, or −1 */
};
/* more[i] more positions for lists[i], none of which goes past the pool's length; what they hold is undefined. Copies shared pages where
 * a list goes on in one. Fails with QKV_FULL, and then all is as it was. */
enum qkv_status qkv_page_lists_grow(struct qkv_page_pool *pool, struct qkv_page_list *lists, const size_t *more,
                                    size_t count);
/* Makes `to`, which is empty, the same sequence: they share all pages. */
void qkv_page_list_fork(struct qkv_page_pool *pool, struct qkv_page_list *to, const struct qkv_page_list *from);
/* Forgets all positions at and past `length`. */
void qkv_page_list_truncate(struct qkv_page_pool *pool, struct qkv_page_list *list, size_t length);

#endif
