/* token_trie: sorts the tokens by their bytes, and makes a node of each byte that a token does not share with the one
 * before it. */
#include "text/token_trie.h"

#include <stdlib.h>
#include <string.h>

#include "text/chain.h"

struct trie_item {
    const char *text;
    size_t size;
    int32_t id;
};

static int trie_order(const void *a, const void *b) {
    const struct trie_item *x = a, *y = b;
    const int order = memcmp(x->text, y->text, qkv_min(x->size, y->size));
    if (order) return order;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* ---- the tokens -------------------------------------------------------------------------------------------------- */

/* Lists the tokens with text, sorted. */
static enum qkv_status trie_items(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct trie_item **out,
                                  size_t *count) {
    struct trie_item *items = qkv_allocate(ctx, t->count + 1, sizeof *items);
    bool *left_out = qkv_allocate(ctx, t->count + 1, sizeof *left_out);
    const struct qkv_chain *chain = t->chain;
    *out = items;
    *count = 0;
    if (!items || !left_out) {
        free(left_out);
        return QKV_MEMORY;
    }
    for (size_t i = 0; i < chain->added_count; i++)
        if (chain->added[i].special && (size_t)chain->added[i].id < t->count) left_out[chain->added[i].id] = true;
    for (size_t i = 0; i < t->count; i++) {
        const size_t size = t->tokens[i].form == QKV_TOKEN_HOLE ? 0 : t->tokens[i].size;
        if (!size || size > QKV_TRIE_LONGEST || left_out[i] || (int32_t)i == t->unknown) continue;
        items[(*count)++] = (struct trie_item){qkv_token_bytes(t, i), size, (int32_t)i};
    }
    free(left_out);
    qsort(items, *count, sizeof *items, trie_order);
    return QKV_OK;
}

/* ---- the nodes --------------------------------------------------------------------------------------------------- */

static size_t trie_shared(const struct trie_item *a, const struct trie_item *b) {
    size_t n = 0;
    while (n < a->size && n < b->size && a->text[n] == b->text[n]) n++;
    return n;
}

/* Counts the nodes and tokens of a part. */
static void trie_measure(struct qkv_trie_part *part, const struct trie_item *items, size_t count, bool longer) {
    const struct trie_item *last = NULL;
    for (size_t i = 0; i < count; i++) {
        if ((items[i].size > QKV_TRIE_SHORT) != longer) continue;
        part->count += items[i].size - (last ? trie_shared(last, &items[i]) : 0);
        part->id_count++;
        part->depth = qkv_max(part->depth, items[i].size);
        last = &items[i];
    }
}

/* Ends the subtrees of the nodes deeper than `depth` on the path to the newest node. */
static void trie_close(struct qkv_trie_part *part, uint32_t *path, size_t *deep, size_t depth, size_t count) {
    while (*deep > depth) part->nodes[path[--*deep]].skip = (uint32_t)count;
}

static void trie_fill(struct qkv_trie_part *part, const struct trie_item *items, size_t count, bool longer) {
    uint32_t path[QKV_TRIE_LONGEST];
    const struct trie_item *last = NULL;
    size_t nodes = 0, ids = 0, deep = 0;
    for (size_t i = 0; i < count; i++) {
        if ((items[i].size > QKV_TRIE_SHORT) != longer) continue;
        trie_close(part, path, &deep, last ? trie_shared(last, &items[i]) : 0, nodes);
        for (; deep < items[i].size; nodes++) {
            part->nodes[nodes] = (struct qkv_trie_node){
                .tokens = (uint32_t)ids, .depth = (uint16_t)(deep + 1), .byte = (uint8_t)items[i].text[deep]};
            path[deep++] = (uint32_t)nodes;
        }
        part->ids[ids++] = items[i].id;
        last = &items[i];
    }
    trie_close(part, path, &deep, 0, nodes);
    part->nodes[nodes].tokens = (uint32_t)ids;
}

static enum qkv_status trie_part(struct qkv_context *ctx, struct qkv_trie_part *part, const struct trie_item *items,
                                 size_t count, bool longer) {
    trie_measure(part, items, count, longer);
    if (part->count >= UINT32_MAX) return qkv_fail_memory(ctx, SIZE_MAX, "the tree of a vocabulary");
    part->nodes = qkv_allocate(ctx, part->count + 1, sizeof *part->nodes);
    part->ids = qkv_allocate(ctx, part->id_count + 1, sizeof *part->ids);
    if (!part->nodes || !part->ids) return QKV_MEMORY;
    trie_fill(part, items, count, longer);
    return QKV_OK;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

void qkv_token_trie_free(struct qkv_token_trie *trie) {
    if (!trie) return;
    for (size_t i = 0; i < 2; i++) {
        free(trie->parts[i].nodes);
        free(trie->parts[i].ids);
    }
    free(trie);
}

static enum qkv_status trie_make(struct qkv_context *ctx, const struct qkv_tokenizer *t, struct qkv_token_trie **out) {
    static atomic_uint_fast64_t serials;
    struct qkv_token_trie *trie = qkv_allocate(ctx, 1, sizeof *trie);
    struct trie_item *items = NULL;
    size_t count = 0;
    *out = NULL;
    if (!trie) return QKV_MEMORY;
    enum qkv_status status = trie_items(ctx, t, &items, &count);
    trie->bytes = sizeof *trie;
    for (size_t i = 0; i < 2 && !status; i++) {
        struct qkv_trie_part *part = &trie->parts[i];
        status = trie_part(ctx, part, items, count, i == 1);
        trie->bytes += (part->count + 1) * sizeof *part->nodes + (part->id_count + 1) * sizeof *part->ids;
    }
    free(items);
    trie->serial = atomic_fetch_add(&serials, 1) + 1;
    if (status)
        qkv_token_trie_free(trie);
    else
        *out = trie;
    return status;
}

/* Two threads may make it at the same time: the first one to store it wins. */
enum qkv_status qkv_tokenizer_trie(struct qkv_context *ctx, const struct qkv_tokenizer *t,
                                   const struct qkv_token_trie **out) {
    _Atomic(struct qkv_token_trie *) *at = &((struct qkv_tokenizer *)(uintptr_t)t)->trie;
    struct qkv_token_trie *made, *had = atomic_load(at);
    *out = had;
    if (had) return QKV_OK;
    const enum qkv_status status = trie_make(ctx, t, &made);
    if (status) return status;
    if (atomic_compare_exchange_strong(at, &had, made)) {
        *out = made;
        return QKV_OK;
    }
    qkv_token_trie_free(made);
    *out = had;
    return QKV_OK;
}
