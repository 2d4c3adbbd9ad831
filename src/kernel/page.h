/* page: how keys and values are stored on the pages of a cache.
 *
 * Offers one table of page types, a file and a line each: rows of fp32, of bf16 and of f16, bf16 packed for products,
 * and blocks of 8 bits a number. Pools of pages, appends, plans and the kernels of attention ask the table; no other
 * file knows the layout of a page. Keys and values have a type each. Latent attention, whose values are the first
 * channels of its keys, has one array of pages, and so one type, for both. */
#ifndef QKV_PAGE_TYPES_H
#define QKV_PAGE_TYPES_H

#include "type/type.h"

/* X(name): a page type is a line here and a file, src/kernel/page_NAME.c. A cache whose types nobody chooses has the
 * first type of the list that is usual in the precision of its context and holds its heads. */
#define QKV_PAGE_LIST(X)                                                                                               \
    X(f32)                                                                                                             \
    X(bf16_packed)                                                                                                     \
    X(bf16)                                                                                                            \
    X(f16)                                                                                                             \
    X(q8_0)

struct qkv_kernels;
struct qkv_page_type;
struct qkv_page_group;
enum qkv_page_side { QKV_PAGE_KEYS, QKV_PAGE_VALUES };

/* The keys, or the values, of one attention in pages. Page p begins at data + p·bytes; after the last page there are
 * (count, heads) marks. */
struct qkv_pages {
    const struct qkv_page_type *type;
    const struct qkv_kernels *kernels; /* of the context: a type may store operands of their products */
    enum qkv_page_side side;
    size_t heads, columns;   /* kv heads; channels of each */
    size_t positions, count; /* positions of a page; number of pages */
    size_t bytes;            /* of a page */
    void *data;
};
/* Positions [first, first + count) of the heads [head, head + heads) on a page. */
struct qkv_page_part {
    size_t page, head, heads, first, count;
};
/* Rows of numbers in memory, one for each position, `stride` numbers apart. A row has the channels of one head after
 * the other. */
struct qkv_page_rows {
    const void *data;
    enum qkv_dtype dtype; /* QKV_F32 or QKV_BF16 */
    size_t stride;
};
/* A head on a page as an operand of products in bf16 (isa/bf16.h): keys as panels of channels by positions, values as
 * panels of positions by channels. */
struct qkv_page_words {
    const uint32_t *words;
    size_t terms; /* terms that the panels of values have room for */
    bool finite;  /* all values are finite; unknown of keys */
};

struct qkv_page_type {
    const char *name, *help;
    enum qkv_dtype dtype; /* of the stored numbers */
    unsigned usual;       /* bit p: in precision p, contexts use this type unless another one is chosen */
    /* A page is (positions, heads, columns) numbers. Kernels read rows of this type where they are stored, in these
     * strides or in others (past_k and past_v of struct qkv_attend). */
    bool rows;
    bool shared;     /* values may be the first channels of the keys */
    size_t marks[2]; /* of keys and of values: bytes of a mark, which a head has on each page; 0: none */
    /* Maximum of channels of a head; NULL: there is none. Blocks of `dtype` must divide the channels. */
    size_t (*max_columns)(const struct qkv_kernels *kernels);
    /* Bytes of a page. The fields count, bytes and data are not read. */
    size_t (*bytes)(const struct qkv_pages *pages);
    /* Writes a part. Positions after it on the page become undefined. Several threads may write to different heads or
     * pages. */
    void (*put)(const struct qkv_pages *pages, const struct qkv_page_part *part, const struct qkv_page_rows *rows);
    /* Copies at least the first `count` positions of a page to another page. */
    void (*copy)(const struct qkv_pages *pages, size_t to, size_t from, size_t count);
    /* The first `columns` channels of one head's part, as fp32: (count, columns). */
    void (*read)(const struct qkv_pages *pages, const struct qkv_page_part *part, size_t columns, float *out);
    /* Kernels with products in bf16 read a head on a page as this operand where it is stored; NULL: they pack what
     * `read` returns. */
    struct qkv_page_words (*words)(const struct qkv_pages *pages, size_t page, size_t head);
    /* Kernels of fp32 read the groups of a head on a page (page_groups.h) where they are stored; NULL: they read what
     * `read` returns. */
    const struct qkv_page_group *(*groups)(const struct qkv_pages *pages, size_t page, size_t head);
};

#define QKV_PAGE_DECLARE(name) extern const struct qkv_page_type qkv_page_type_##name;
QKV_PAGE_LIST(QKV_PAGE_DECLARE)
#undef QKV_PAGE_DECLARE

/* ---- the table (page.c) ---------------------------------------------------------------------------------------- */

/* The i-th type of the list; NULL past the end. */
const struct qkv_page_type *qkv_page_type_at(size_t i);
/* The type whose pages are rows of such numbers; NULL: there is none. */
const struct qkv_page_type *qkv_page_type_of_rows(enum qkv_dtype dtype);
/* The mark of a head on a page. */
uint8_t *qkv_page_mark(const struct qkv_pages *pages, size_t page, size_t head);

/* ---- choosing types (page_choice.c) ---------------------------------------------------------------------------- */

/* The types of keys and of values; NULL: the usual one. */
struct qkv_page_types {
    const struct qkv_page_type *k, *v;
    enum qkv_precision precision; /* whose usual types stand for NULL */
};
/* The heads of one attention. */
struct qkv_page_heads {
    size_t heads, k_columns, v_columns; /* kv heads; channels of their keys and values */
    bool shared;                        /* values are the first channels of the keys */
    const char *form;                   /* the form of attention, for messages: "latent attention" */
};
/* Reads a choice of types: one name for both, or "k=NAME", "v=NAME" or both with a comma; a side without a name has the
 * usual type. `precision` stays. Fails with QKV_ARGUMENT. */
enum qkv_status qkv_page_types_read(struct qkv_context *ctx, const char *text, struct qkv_page_types *types);
/* Replaces NULLs of a choice that was checked. If one of two shared types is chosen, it is the other one too. */
struct qkv_page_types qkv_page_types_of(const struct qkv_context *ctx, const struct qkv_page_heads *heads,
                                        struct qkv_page_types chosen);
/* Checks that the chosen types hold these heads; else QKV_ARGUMENT, with a sentence about `what`, of layer `layer`. */
enum qkv_status qkv_page_types_check(struct qkv_context *ctx, const struct qkv_page_heads *heads,
                                     struct qkv_page_types chosen, const char *what, size_t layer);
/* The keys or values of such an attention, in pages of so many positions: all fields but `count` and `data`. */
struct qkv_pages qkv_pages_of(const struct qkv_kernels *kernels, const struct qkv_page_type *type,
                              enum qkv_page_side side, size_t heads, size_t columns, size_t positions);
/* Bytes of `pages` with their marks, of which there are `count`: (count, this). */
size_t qkv_page_stored_bytes(const struct qkv_pages *pages);

#endif
