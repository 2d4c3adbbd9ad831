/* A module, for the files that implement it (module*.c). */
#ifndef QKV_MODULE_H
#define QKV_MODULE_H

#include "model/decode.h"

enum { QKV_MODULE_X, QKV_MODULE_MEMORY, QKV_MODULE_VALUES, QKV_MODULE_Y, QKV_MODULE_SHAPES };

struct qkv_module {
    struct qkv_context *ctx;
    size_t owners;           /* the caller until it frees the module, and every cache */
    struct qkv_model *model; /* has the weights and stacks */
    bool owns;               /* the model was made for the module */
    bool trains;             /* a forward with train has run: the module counts as a user that trains the model */
    enum qkv_module_kind kind;
    struct qkv_stack *stack; /* NULL: a whole model */
    size_t layer;
    enum qkv_sublayer sublayer; /* of an attention, feed-forward or norm */
    bool out, final;            /* of a norm: after the sublayer; after the last layer */
    const char *part;           /* while the module is made: its name after ".layers.N"; NULL: not in a layer */
    struct qkv_attention_module_spec attention; /* of an attention or a cross attention */

    struct qkv_array *arrays; /* its parameters; a name is the end of the model's name */
    size_t *indices;          /* their indices in the model's list */
    size_t count;

    struct qkv_arena arena, graph_arena; /* of one call */
    struct qkv_tape tape;
    /* of the latest forward; NULL: none. Gradients of inputs go straight to the caller's memory. */
    struct qkv_tensor *x, *memory, *values, *y;
    struct qkv_vectors shapes[QKV_MODULE_SHAPES]; /* of x, memory, values and y, without data */
    bool trained;                                 /* a forward with train has run, and its backward has not */
    bool empty;                                   /* the forward had nothing to compute but the bias of the output */
    /* Of an attention, for its weights: the calls of all layers as qkv_forward_args has them, of which the latest
     * forward has set one; and the cache that this call reads, or NULL. */
    const struct qkv_attend **calls;
    const struct qkv_module_cache *calls_cache;
};

/* Keys and values of the sequences of a batch, which all have `length` positions. */
struct qkv_module_pages {
    struct qkv_page_pool *pool; /* an attention for each layer; NULL: the module has no such attention */
    size_t capacity, length;
    struct qkv_page_list *lists; /* (B) */
    const int32_t **tables;      /* (B): their pages */
};
struct qkv_module_cache {
    struct qkv_module *module;
    size_t B;
    struct qkv_module_pages self, cross; /* of x; of the memory */
    struct qkv_arena storage;            /* of lists and tables */
    size_t *more;                        /* (B): while lists grow */
};
/* Drops all positions from `length` on, then adds `more`, whose contents are undefined. */
enum qkv_status qkv_module_pages_grow(struct qkv_module_cache *cache, struct qkv_module_pages *pages, size_t length,
                                      size_t more);
void qkv_module_pages_truncate(const struct qkv_module_cache *cache, struct qkv_module_pages *pages, size_t length);

/* Forgets the call of an attention. (module.c) */
void qkv_module_drop_call(struct qkv_module *module);

/* ---- the kinds (module.c) ---------------------------------------------------------------------------------------- */

const char *qkv_module_kind_text(enum qkv_module_kind kind);
/* Whether the module is a model with both stacks; has cross attention; has self attention of x; has all layers of its
 * stacks. */
bool qkv_module_is_pair(const struct qkv_module *module);
bool qkv_module_reads_memory(const struct qkv_module *module);
bool qkv_module_has_self(const struct qkv_module *module);
bool qkv_module_is_whole(const struct qkv_module *module);
/* The stack that x is the input of. */
struct qkv_stack *qkv_module_stack(const struct qkv_module *module);
/* The largest number of positions of x, or, with `memory`, of what the encoder gives or reads. (module_check.c) */
int qkv_module_context(const struct qkv_module *module, bool memory);
/* The widths of the inputs of cross attention's k and v. */
size_t qkv_module_key_width(const struct qkv_module *module);
size_t qkv_module_value_width(const struct qkv_module *module);

/* ---- the spec of an attention (module_spec.c) -------------------------------------------------------------------- */

/* Fills in what the spec leaves out, and checks it. */
enum qkv_status qkv_attention_module_complete(struct qkv_context *ctx, struct qkv_attention_module_spec *spec);
/* Writes the spec of a model of one stack, whose only layer has that attention, to a `model` that has only the lists
 * of that stack. */
void qkv_attention_module_model(const struct qkv_attention_module_spec *spec, struct qkv_spec *model);

/* ---- checks of a call (module_check.c) --------------------------------------------------------------------------- */

/* One attention of a call. */
struct qkv_module_attention {
    const struct qkv_stack *stack; /* NULL: no such attention */
    bool cross;
    size_t past, Tq, Tk;          /* past: keys of the cache that come before those of the call */
    struct qkv_module_mask given; /* with its sizes, and the position of the first query */
};
struct qkv_module_call {
    const struct qkv_module_input *in;
    size_t B, T, memory_T;
    struct qkv_module_attention self, cross, source;
    bool empty; /* there is nothing to compute: no rows of x, or no keys of a cross attention */
};
enum qkv_status qkv_module_check(const struct qkv_module *module, const struct qkv_module_input *input,
                                 struct qkv_module_call *call);
enum qkv_status qkv_module_check_vectors(const struct qkv_module *module, const char *name, const struct qkv_vectors *v,
                                         const char *like, size_t B, size_t T, size_t C);
/* Whether there are no rows, or rows of no positions. */
bool qkv_module_is_empty(const struct qkv_vectors *v);

#endif
